//! Mode match: what a check found wrong with an address, in words.
//!
//! A check stands before the instruction that it is for ([`sfi_contract::matching`]). The fault is
//! that instruction's.

use crate::vm::memory::Segment;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::matching::{Check, trapped};
use sfi_contract::policy::{self, Class, Memory};
use sfi_contract::text::clean;
use std::fmt;

/// Bytes around a trap that hold its check and the instruction behind it.
pub(crate) const AROUND: u64 = 512;
/// Instructions between a trap and the instruction that it is for: another check, an unsafe region.
const BETWEEN: usize = 24;
/// Accesses this close to a null pointer count as one.
pub(crate) const NULL: u64 = 64 << 10;

/// Where an address of mode match leads that a check refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The instruction: `mov`, `lock xadd`, `rep stosq`, `jmp`.
    pub instruction: String,
    /// Whose the address is.
    pub owner: Whose,
    /// The part of a window next to the address; for an address of nobody the part of the domain's
    /// own window next to its lower half.
    pub nearest: Option<Nearest>,
}

/// Whose an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A null pointer, or one close to it.
    Null,
    /// The domain's own: a branch to something else than a function pointer.
    Own,
    /// In the window of another domain.
    Domain(String),
    /// The common address of a region that the domain does not see any more.
    Region(String),
    /// In no window.
    Nobody,
}

/// A part of a window and how far from it an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The part's name.
    pub part: String,
    /// The distance.
    pub distance: Distance,
}

/// A distance in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Within the part, from its start.
    Inside(u64),
    /// Before its start.
    Before(u64),
    /// Behind its last byte's end.
    Behind(u64),
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.instruction)?;
        match &self.owner {
            Whose::Null => return f.write_str("to a null pointer"),
            Whose::Own => f.write_str("within the domain's window")?,
            Whose::Domain(name) => write!(f, "to the window of domain `{}`", clean(name.as_bytes()))?,
            Whose::Region(name) => write!(f, "to region `{}`, which the domain does not see", clean(name.as_bytes()))?,
            Whose::Nobody => f.write_str("to an address of no domain")?,
        }
        let Some(Nearest { part, distance }) = &self.nearest else { return Ok(()) };
        let half = if self.owner == Whose::Nobody { " (its lower half alone would be " } else { " (" };
        match distance {
            Distance::Inside(by) => write!(f, "{half}`{part}`+{by:#x})"),
            Distance::Before(by) => write!(f, "{half}{by:#x} before `{part}`)"),
            Distance::Behind(by) => write!(f, "{half}{by:#x} behind `{part}`)"),
        }
    }
}

/// The instruction that a check was for.
pub(crate) struct Refused {
    /// Bytes from the trap's end to the instruction.
    pub distance: u64,
    pub instruction: String,
    pub check: Check,
}

/// The instruction whose check trapped: the bytes are text, and the trap ends at `at`.
pub(crate) fn refused(bytes: &[u8], at: usize) -> Option<Refused> {
    let (check, _) = trapped(bytes, at)?;
    let mut decoder = Decoder::with_ip(64, &bytes[at..], 0, DecoderOptions::NONE);
    let found = decoder.iter().take(BETWEEN).find(|i| is_checked(i, check))?;
    Some(Refused { distance: found.ip(), instruction: name(&found), check })
}

/// Whether an instruction is of those that have such a check.
fn is_checked(i: &Instruction, check: Check) -> bool {
    let Some(form) = policy::lookup(i.code()) else { return false };
    let through_register = i.memory_base().is_gpr() || i.memory_index().is_gpr();
    match check {
        Check::Branch => form.class == Class::IndirectBranch,
        Check::Store if form.class == Class::String => i.op0_kind() == OpKind::MemoryESRDI,
        Check::Store => through_register && matches!(form.memory, Memory::Store | Memory::Lockable),
    }
}

fn name(i: &Instruction) -> String {
    let prefix = match (i.has_lock_prefix(), i.has_rep_prefix()) {
        (true, _) => "lock ",
        (_, true) => "rep ",
        _ => "",
    };
    format!("{prefix}{:?}", i.mnemonic()).to_lowercase()
}

/// The part of a window next to an offset.
pub(crate) fn nearest(segments: &[Segment], offset: u64) -> Option<Nearest> {
    let offset = offset % WINDOW_SIZE;
    let distance = |s: &Segment| match offset {
        _ if offset < s.offset => Distance::Before(s.offset - offset),
        _ if offset >= s.end() => Distance::Behind(offset - s.end()),
        _ => Distance::Inside(offset - s.offset),
    };
    let length = |s: &Segment| match distance(s) {
        Distance::Inside(_) => 0,
        Distance::Before(by) => by,
        Distance::Behind(by) => by + 1,
    };
    let found = segments.iter().min_by_key(|s| length(s))?;
    Some(Nearest { part: found.name.clone(), distance: distance(found) })
}
