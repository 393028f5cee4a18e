//! The place of the gates' code.

use core::ops::Range;

unsafe extern "C" {
    static sfi_gates_begin: u8;
    static sfi_gates_end: u8;
}

/// Returns the addresses of the gates' code.
pub(crate) fn text() -> Range<u64> {
    (&raw const sfi_gates_begin) as u64..(&raw const sfi_gates_end) as u64
}
