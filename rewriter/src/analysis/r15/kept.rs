//! The ways in which a unit keeps r15.

use iced_x86::Register;

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
