//! What `sfi anonymity` computes and tries.

pub mod host;
pub mod odds;
pub mod penalty;
pub mod search;
