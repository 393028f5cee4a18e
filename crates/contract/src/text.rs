//! Texts for terminals and logs: safe names, because hostile objects choose theirs, and errors with
//! their sources.

/// Longest name or path, in characters.
const LONGEST: usize = 512;

/// Says whether a character changes how a name looks, or is not seen: controls, separators of
/// lines, and Unicode's format characters (Cf), which change the direction of text or are
/// invisible.
pub fn is_unprintable(c: char) -> bool {
    let format = matches!(
        c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || format
}

/// Returns the name with unprintable characters replaced. The start of a long name is left out,
/// because a path's end says more.
pub fn clean(name: &[u8]) -> String {
    let tail = &name[name.len().saturating_sub(4 * LONGEST)..];
    let text = String::from_utf8_lossy(tail);
    let count = text.chars().count();
    let skip = count.saturating_sub(LONGEST);
    let mark = if skip > 0 || tail.len() < name.len() { "..." } else { "" };
    let rest = text.chars().skip(skip).map(|c| if is_unprintable(c) { '\u{fffd}' } else { c });
    mark.chars().chain(rest).collect()
}

/// Puts an error and its sources into one line, the outermost first: `a: b: c`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_harmless() {
        assert_eq!(clean(b"a\x1b[31m\n\xff"), "a\u{fffd}[31m\u{fffd}\u{fffd}");
        for hidden in [
            '\u{202e}',
            '\u{2028}',
            '\u{2029}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{2060}',
            '\u{2067}',
            '\u{feff}',
            '\u{ad}',
            '\u{e0041}',
        ] {
            assert_eq!(clean(format!("dir/{hidden}x.c").as_bytes()), "dir/\u{fffd}x.c");
        }
        assert_eq!(clean("größe/日本.c".as_bytes()), "größe/日本.c");
        let long = clean(&[b'x'; 1 << 20]);
        assert_eq!(long.len(), LONGEST + 3);
        assert!(long.starts_with("..."));
    }
}
