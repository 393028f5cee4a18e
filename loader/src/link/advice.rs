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
