//! Address space: windows, mappings, sealed files. Knows no ELF, no gate, no world.

pub(crate) mod ledger;
pub(crate) mod memory;
pub(crate) mod region;
pub(crate) mod space;
pub(crate) mod window;
