//! The targets of exceptions from the original program's calls.

use crate::code::{Flow, Index, Old};
use crate::frames::{self, Frame};
use crate::sets::RSP;
use sfi_elf::Object;
use std::collections::{BTreeMap, BTreeSet};

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

    /// Finds the landing pads of the original program, by call.
    ///
    /// Compilers join the ranges of calls with one landing pad, and calls between them that throw
    /// nothing. If such a call has arguments on the stack, the frame at the pad tells it apart.
    pub(crate) fn landings(&self, old: &Old<'_, '_>) -> BTreeMap<Index, Landing> {
        let calls = (0..old.flow.len()).filter(|&at| matches!(old.flow[at], Flow::Call(_) | Flow::CallIndirect));
        let mut found: BTreeMap<_, _> = calls.filter_map(|call| Some((call, self.landing(old, call)?))).collect();
        let thrown = found.iter().filter(|(call, landing)| self.fits(old, **call, **landing) == Some(true));
        let pads: BTreeSet<Index> = thrown.map(|(_, landing)| landing.pad).collect();
        found.retain(|call, landing| !pads.contains(&landing.pad) || self.fits(old, *call, *landing) != Some(false));
        found
    }

    /// Returns the landing pad of a call.
    fn landing(&self, old: &Old<'_, '_>, call: Index) -> Option<Landing> {
        let insn = &old.text.insns[call];
        let frame = self.frame(insn.section as usize, insn.offset())?;
        let pad = frame.site(insn.offset()).filter(|site| site.pad != 0)?.pad;
        let arguments = frame.row(insn.end()).map_or(0, |row| row.arguments);
        Some(Landing { pad: old.text.at(frame.section, pad)?, arguments })
    }

    /// Says whether the stack pointer with which a call's exception arrives is the one that the
    /// frame at the pad tells. `None` if a frame does not count from the stack pointer.
    fn fits(&self, old: &Old<'_, '_>, call: Index, landing: Landing) -> Option<bool> {
        let distance = |at: Index, behind: u64| {
            let frame = self.frame(old.text.insns[at].section as usize, old.text.insns[at].offset())?;
            let row = frame.row(behind).filter(|row| row.base == RSP && !row.loaded)?;
            Some(i64::from(row.distance))
        };
        let thrown = distance(call, old.text.insns[call].end())? - i64::from(landing.arguments);
        Some(thrown == distance(landing.pad, old.text.insns[landing.pad].offset() + 1)?)
    }
}
