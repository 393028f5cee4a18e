//! The host's choices.

use sfi_contract::Mode;

/// The host's choices for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which loads are confined, and whether stores and indirect branches have their checks.
    pub mode: Mode,
    /// `rdtsc` is allowed. By default it is not. Other clocks (`rdtscp`, `rdpmc`, `tpause`) never
    /// are.
    pub clock: bool,
    /// `cpuid` is allowed.
    pub identity: bool,
    /// A second decoder must read every instruction as the first one does (rule `SFI-D05`).
    pub second: bool,
    /// The text is budgeted (rules `SFI-B04` to `SFI-B07`). Not in mode match.
    pub budget: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { mode: Mode::Write, clock: false, identity: true, second: true, budget: false }
    }
}
