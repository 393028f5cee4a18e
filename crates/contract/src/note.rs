//! The note that the rewriter leaves in an object. It informs people and tools, and nobody trusts
//! it.

use crate::{CONTRACT_VERSION, Mode, names::NOTE_OWNER};

/// `n_type` of the note.
pub const NOTE_TYPE: u32 = 1;

/// Contents of [`crate::names::NOTE_SECTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Contract version that the object was rewritten for.
    pub version: u16,
    /// Mode that the object was rewritten in.
    pub mode: Mode,
    /// The object pays for its instructions ([`crate::budget`]).
    pub budget: bool,
}

impl Note {
    /// Returns a note for this version of the contract.
    pub const fn new(mode: Mode, budget: bool) -> Self {
        Note { version: CONTRACT_VERSION, mode, budget }
    }

    /// Returns the section's bytes: one `Elf64_Nhdr` with owner `sfi` and a 4-byte descriptor
    /// (version, mode, whether it is budgeted).
    pub fn encode(&self) -> Vec<u8> {
        let mode = Mode::ALL.iter().position(|m| *m == self.mode).expect("ALL lists every mode") as u8;
        let mut out = Vec::with_capacity(20);
        out.extend_from_slice(&(NOTE_OWNER.len() as u32).to_le_bytes());
        out.extend_from_slice(&4u32.to_le_bytes());
        out.extend_from_slice(&NOTE_TYPE.to_le_bytes());
        out.extend_from_slice(NOTE_OWNER);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&[mode, u8::from(self.budget)]);
        out
    }

    /// Reads the bytes of [`Note::encode`]. Returns `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let word = |i: usize| Some(u32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
        if word(0)? != NOTE_OWNER.len() as u32
            || word(4)? != 4
            || word(8)? != NOTE_TYPE
            || bytes.get(12..16)? != NOTE_OWNER
        {
            return None;
        }
        let descriptor = bytes.get(16..20)?;
        let version = u16::from_le_bytes([descriptor[0], descriptor[1]]);
        let budget = match descriptor[3] {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Note { version, mode: *Mode::ALL.get(usize::from(descriptor[2]))?, budget })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for mode in Mode::ALL {
            for budget in [false, true] {
                let note = Note::new(mode, budget);
                assert_eq!(Note::decode(&note.encode()), Some(note));
            }
        }
        assert_eq!(Note::decode(b"something else that is long"), None);
        assert_eq!(Note::decode(&[]), None);
    }
}
