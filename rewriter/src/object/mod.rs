//! Reads the object into one list of instructions with symbolic places.

pub(crate) mod address;
pub(crate) mod carve;
pub(crate) mod check;
pub(crate) mod cold;
pub(crate) mod decode;
pub(crate) mod forms;
pub(crate) mod got_base;
pub(crate) mod index;
mod parts;
mod reached;
pub(crate) mod read;
pub(crate) mod retpoline;
pub(crate) mod starts;
pub(crate) mod through;
