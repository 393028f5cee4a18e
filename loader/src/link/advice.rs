//! Advice about a refused object as a whole, which a report gives before the violations.

use sfi_contract::{Mode, names};
use sfi_verifier::Options;
use sfi_verifier::elf::Object;
use std::fmt;

/// The first statement of a report about a refused object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The object obeys another mode.
    OtherMode {
        /// The mode that it was checked for.
        asked: Mode,
        /// The mode that it obeys, as the verifier says.
        obeys: Mode,
    },
    /// The object has no note of the rewriter.
    NeverRewritten,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::OtherMode { asked, obeys } => write!(
                f,
                "rewritten for mode {obeys}; build it with SFI_MODE={asked}, or rewrite it with `sfi rewrite --mode {asked}`"
            ),
            Advice::NeverRewritten => {
                f.write_str("never rewritten; run `sfi rewrite` on it, or build it with `sfi cc`")
            }
        }
    }
}

/// Finds the advice about an object that was refused with these options.
pub fn advice(bytes: &[u8], object: &Object<'_>, options: &Options) -> Option<Advice> {
    let asked = options.mode;
    let obeys = |mode: &Mode| {
        let options = Options { mode: *mode, ..*options };
        *mode != asked && sfi_verifier::verify(bytes, &options).is_ok_and(|report| report.is_safe())
    };
    if !object.sections.iter().any(|s| s.name == names::NOTE_SECTION) {
        return Some(Advice::NeverRewritten);
    }
    Mode::ALL.iter().copied().find(obeys).map(|obeys| Advice::OtherMode { asked, obeys })
}

/// Number of violations of one object that are printed.
pub const SHOWN: usize = 20;

/// Describes the places of the violations beyond [`SHOWN`]:
/// `1,980 more, in f (1,200), g (700) and 13 other functions`. `places` are all violations in
/// order, as `function+distance`.
pub fn rest<'a>(places: impl IntoIterator<Item = Option<&'a str>>, omitted: u64) -> Option<String> {
    /// Number of functions that are named.
    const NAMED: usize = 5;
    let mut more = omitted;
    let mut functions: Vec<(&str, u64)> = Vec::new();
    for place in places.into_iter().skip(SHOWN) {
        more += 1;
        let Some(place) = place else { continue };
        let name = place.rsplit_once("+0x").map_or(place, |(name, _)| name);
        match functions.last_mut().filter(|(last, _)| *last == name) {
            Some((_, count)) => *count += 1,
            None => functions.push((name, 1)),
        }
    }
    if more == 0 {
        return None;
    }
    let mut text = format!("and {more} more");
    for (number, (name, count)) in functions.iter().take(NAMED).enumerate() {
        text += &format!("{} `{name}` ({count})", if number == 0 { ", in" } else { "," });
    }
    if let Some(others) = functions.len().checked_sub(NAMED).filter(|others| *others > 0) {
        text += &format!(" and {others} other functions");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_counted_by_function() {
        let places = |count: usize| (0..count).map(|i| if i < 22 { Some("f+0x10") } else { Some("g") });
        assert_eq!(rest(places(20), 0), None);
        assert_eq!(rest(places(21), 0).as_deref(), Some("and 1 more, in `f` (1)"));
        assert_eq!(rest(places(25), 10).as_deref(), Some("and 15 more, in `f` (2), `g` (3)"));
        assert_eq!(rest([], 7).as_deref(), Some("and 7 more"));
        let names: Vec<String> = (0..40).map(|i| format!("n{i}+0x1")).collect();
        let text = rest(names.iter().map(|n| Some(n.as_str())), 0).unwrap();
        assert_eq!(
            text,
            "and 20 more, in `n20` (1), `n21` (1), `n22` (1), `n23` (1), `n24` (1) and 15 other functions"
        );
    }
}
