//! Words of a domain's memory.

use crate::errno::Errno;
use sfi_loader::HostCall;

/// Reads a little-endian word.
pub(crate) fn word(cx: &HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let bytes = cx.read(pointer, 8)?;
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Errno::FAULT)
}
