//! Address space: windows, mappings, sealed files. Knows no ELF, no gate, no world.

pub(crate) mod address;
pub(crate) mod backing;
pub(crate) mod child;
pub(crate) mod closed;
pub(crate) mod error;
pub(crate) mod lazy;
pub(crate) mod ledger;
pub(crate) mod memory;
pub(crate) mod region;
pub(crate) mod region_file;
pub(crate) mod sealed_file;
pub(crate) mod space;
pub(crate) mod window;
