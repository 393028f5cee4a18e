//! The computation and the simulation of `sfi anonymity`.

pub mod host;
pub mod odds;
pub mod penalty;
pub mod search;
