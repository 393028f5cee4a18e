//! The form of a program's file, and the options with which one program starts another.

use sfi_loader::Mode;
use std::ffi::{OsStr, OsString};

/// First bytes of a linked program: a shell script that runs the archive after it.
const HEADER: &[u8] = b"#!/bin/sh\nexec sfi run ";
/// End of the script.
const HEADER_END: &[u8] = b"\nexit 127\n";
/// Bytes of `--mode match ` in it, the longest form.
const MODE_AND_VALUE: usize = 13;
/// First bytes of an archive.
pub const ARCHIVE: &[u8] = b"!<arch>\n";

/// Returns the script at the start of a program whose objects satisfy `mode`.
pub fn header(mode: Mode) -> String {
    format!("#!/bin/sh\nexec sfi run --mode {mode} ${{SFI_RUN_FLAGS---build-tree}} \"$0\" -- \"$@\"\nexit 127\n")
}

/// Returns the length of the script at the start of a program, or 0 if there is none.
pub fn script(bytes: &[u8]) -> usize {
    let end = bytes.starts_with(HEADER).then(|| bytes.windows(HEADER_END.len()).position(|w| w == HEADER_END));
    end.flatten().map_or(0, |end| end + HEADER_END.len())
}

/// Returns the mode of a program from the first bytes of its file, or `None` if it is not output of
/// `sfi cc`.
pub fn mode(bytes: &[u8]) -> Option<Mode> {
    let options = std::str::from_utf8(bytes.strip_prefix(HEADER)?.get(..MODE_AND_VALUE)?).ok()?;
    options.strip_prefix("--mode ")?.split_whitespace().next()?.parse().ok()
}

/// Says whether the first bytes are those of a program: an archive, an object, or the output of
/// `sfi cc`.
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER) || bytes.starts_with(ARCHIVE) || bytes.starts_with(b"\x7fELF")
}

/// The options of `sfi run` with which a program starts others in domains of their own.
#[derive(Clone, Debug)]
pub struct ChildOptions {
    pub words: Vec<OsString>,
    /// The mode of the program that starts others.
    pub mode: Mode,
}

impl ChildOptions {
    /// Adds the identities of the granted directories and files, which must be the same again.
    pub fn same(&self, identities: &[OsString]) -> ChildOptions {
        let same = |identity: &OsString| [OsStr::new("--same="), identity].join(OsStr::new(""));
        let words = self.words.iter().cloned().chain(identities.iter().map(same)).collect();
        ChildOptions { words, ..*self }
    }

    /// Says whether a program of this mode reads no more than the one that starts it. That one may
    /// have written the other.
    pub fn may_start(&self, mode: Mode) -> bool {
        self.mode != Mode::Full || mode == Mode::Full
    }

    /// Returns the options for a program whose objects satisfy `mode`.
    pub fn with(&self, mode: Mode) -> Vec<OsString> {
        let first = ["run".into(), "--started".into(), format!("--mode={mode}").into()];
        first.into_iter().chain(self.words.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_a_program_is_read() {
        for made in Mode::ALL {
            assert_eq!(mode(header(made).as_bytes()), Some(made));
            assert!(is_program(header(made).as_bytes()));
        }
        let others =
            ["", "!<arch>\n", "#!/bin/sh\nexec sfi run ", "#!/bin/sh\nexec sfi run --mode much ", "#!/bin/sh\nrm -r"];
        for other in others.map(str::as_bytes).into_iter().chain([&b"\x7fELF"[..]]) {
            assert_eq!(mode(other), None);
        }
    }
}
