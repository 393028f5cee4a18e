//! Safe names for terminals and logs. Hostile objects choose their names.

/// Longest name or path, in characters.
const LONGEST: usize = 512;

/// Says whether a character controls a terminal or changes the direction of text.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_harmless() {
        assert_eq!(clean(b"a\x1b[31m\n\xff"), "a\u{fffd}[31m\u{fffd}\u{fffd}");
        assert_eq!(clean("dir/\u{202e}x.c".as_bytes()), "dir/\u{fffd}x.c");
        let long = clean(&[b'x'; 1 << 20]);
        assert_eq!(long.len(), LONGEST + 3);
        assert!(long.starts_with("..."));
    }
}
