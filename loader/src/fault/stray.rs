//! Mode match: the description of an address that a check refused.
//!
//! A check stands before its instruction ([`sfi_contract::matching`]). The fault is that
//! instruction's.

use crate::vm::memory::Segment;
use iced_x86::{Decoder, DecoderOptions, FastFormatter, Instruction, OpKind};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::matching::{Check, trapped};
use sfi_contract::policy::{self, Class, Memory};
use sfi_contract::text::clean;
use std::fmt;

/// Bytes around a trap that hold its check and the instruction after it.
pub(crate) const AROUND: u64 = 512;
/// Most instructions between a trap and its instruction: another check, an unsafe region.
const BETWEEN: usize = 24;
/// Accesses this close to a null pointer count as accesses through it.
pub(crate) const NULL: u64 = 64 << 10;

/// The target of an address that a check of mode match refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The instruction: `mov`, `lock xadd`, `rep stosq`, `jmp`.
    pub instruction: String,
    /// The owner of the address.
    pub owner: Whose,
    /// The part of a window next to the address. For an address without an owner it is the part of
    /// the domain's own window next to the address's lower half.
    pub nearest: Option<Nearest>,
}

/// The owner of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A null pointer, or one close to it.
    Null,
    /// The domain itself: the address of a branch is no function pointer.
    Own,
    /// The window of another domain.
    Domain(String),
    /// A region that the domain no longer sees, at its common address.
    Region(String),
    /// No window.
    Nobody,
}

/// A part of a window, and the distance of an address from it.
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
    /// After its last byte's end.
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
            Distance::Behind(by) => write!(f, "{half}{by:#x} after `{part}`)"),
        }
    }
}

/// The instruction of a check.
pub(crate) struct Refused {
    /// Bytes from the trap's end to the instruction.
    pub distance: u64,
    pub instruction: String,
    pub check: Check,
}

/// Finds the instruction whose check trapped. `bytes` are text, and the trap ends at `at`.
pub(crate) fn refused(bytes: &[u8], at: usize) -> Option<Refused> {
    let (check, _) = trapped(bytes, at)?;
    let mut decoder = Decoder::with_ip(64, &bytes[at..], 0, DecoderOptions::NONE);
    let found = decoder.iter().take(BETWEEN).find(|i| is_checked(i, check))?;
    Some(Refused { distance: found.ip(), instruction: name(&found), check })
}

/// Says whether an instruction is of the kind that has such a check.
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
    // `Debug` of a mnemonic would link a table of 1,900 pointers. The formatter is shared.
    let mut text = String::new();
    FastFormatter::new().format(i, &mut text);
    let mnemonic = text.split(' ').find(|word| !PREFIXES.contains(word)).unwrap_or_default();
    format!("{prefix}{mnemonic}")
}

/// Words that the formatter writes before a mnemonic.
const PREFIXES: [&str; 15] = [
    "lock", "rep", "repe", "repne", "xacquire", "xrelease", "notrack", "bnd", "hint", "cs", "ds", "es", "fs", "gs",
    "ss",
];

/// Returns the part of a window next to an offset.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_mnemonics_with_lock_and_rep() {
        for (bytes, expected) in [
            (&[0x65, 0x67, 0x48, 0x89, 0x07][..], "mov"),
            (&[0x65, 0x67, 0xc7, 0x07, 1, 0, 0, 0], "mov"),
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], "lock xadd"),
            (&[0xf3, 0x48, 0xab], "rep stosq"),
            (&[0x65, 0xaa], "stosb"),
            (&[0xf3, 0x66, 0xa5], "rep movsw"),
            (&[0x3e, 0xff, 0xe0], "jmp"),
            (&[0xff, 0xd0], "call"),
            (&[0x48, 0x0f, 0xc7, 0x0f], "cmpxchg16b"),
            (&[0xc5, 0xfc, 0x11, 0x07], "vmovups"),
        ] {
            let i = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            assert_eq!(name(&i), expected);
            let debug = format!("{:?}", i.mnemonic()).to_lowercase();
            assert_eq!(expected.rsplit(' ').next(), Some(debug.as_str()));
        }
    }
}
