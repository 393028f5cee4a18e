//! The targets of exceptions from the original program's calls.

use crate::code::{Index, Old};
use crate::frames::{self, Frame};
use sfi_elf::Object;

/// A landing pad of the original program, and how much higher the stack pointer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Landing {
    pub pad: Index,
    pub arguments: u32,
}

/// The frames of the original object, and their meaning for its calls.
pub(crate) struct Unwinding {
    frames: Vec<Frame>,
}

impl Unwinding {
    /// Reads the tables of the original object. Returns `None` if one is malformed.
    pub(crate) fn read(object: &Object<'_>) -> Option<Unwinding> {
        Some(Unwinding { frames: frames::read(object)? })
    }

    /// Returns the frame around an offset of a section.
    pub(crate) fn frame(&self, section: usize, offset: u64) -> Option<&Frame> {
        let after = self.frames.partition_point(|f| (f.section, f.range.0) <= (section, offset));
        let frame = &self.frames[after.checked_sub(1)?];
        (frame.section == section && offset < frame.range.1).then_some(frame)
    }

    /// Returns the landing pad of a call of the original program.
    pub(crate) fn landing(&self, old: &Old<'_, '_>, call: Index) -> Option<Landing> {
        let insn = &old.text.insns[call];
        let frame = self.frame(insn.section as usize, insn.offset())?;
        let pad = frame.site(insn.offset()).filter(|site| site.pad != 0)?.pad;
        let arguments = frame.row(insn.end()).map_or(0, |row| row.arguments);
        Some(Landing { pad: old.text.at(frame.section, pad)?, arguments })
    }
}
