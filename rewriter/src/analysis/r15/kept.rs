//! The ways in which units keep r15 and pass it.

use crate::analysis::flow::PerUnit;
use foldhash::HashSet;
use iced_x86::Register;

/// Registers that a callee preserves, as r15 is.
pub(crate) const PRESERVED: [Register; 5] = [Register::RBX, Register::R14, Register::R13, Register::R12, Register::RBP];

/// The home of r15 in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum R15 {
    Renamed(Register),
    /// First exchanged with this register, which then lives in memory.
    Exchanged(Register),
    /// In memory: in the frame ([`crate::analysis::r15::slot`]) or at
    /// [`sfi_contract::layout::TCB_R15`].
    Home,
}

/// The homes of r15 in all units. Those that do not name it have none.
pub(crate) type Homes = PerUnit<Option<R15>>;

/// The way in which functions of an object pass r15.
pub(crate) enum Passed {
    /// Not on purpose. The units of this set read r15 where it may still hold the caller's value,
    /// or call such units. They keep it at the one place in the TCB page, too.
    No(HashSet<u32>),
    /// Between functions that only this object calls.
    Inside,
}
