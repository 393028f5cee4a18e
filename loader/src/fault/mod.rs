//! Faults of domains, the signals that report them, and the time that domains may use.

pub(crate) mod clock;
pub(crate) mod deliver;
pub(crate) mod describe;
pub(crate) mod fork;
pub(crate) mod helper;
pub(crate) mod interrupt;
pub(crate) mod interrupted;
pub(crate) mod lanes;
pub(crate) mod last;
pub(crate) mod limits;
pub(crate) mod meter;
pub(crate) mod names;
pub(crate) mod outside;
pub(crate) mod purse;
pub(crate) mod report;
pub(crate) mod signal_room;
pub(crate) mod signals;
pub(crate) mod stray;
pub(crate) mod supervisor;
pub(crate) mod thread;
pub(crate) mod trace;
pub(crate) mod watch;
pub(crate) mod watchdog;
pub(crate) mod watched;
