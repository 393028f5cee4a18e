//! Worlds by the dozen, for hosts with threads.

pub(crate) mod lanes;
pub(crate) mod pool;
pub(crate) mod server;
pub(crate) mod template;
