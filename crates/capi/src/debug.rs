//! The code of domains, for debuggers and profilers.

use crate::border::{Result, api};
use crate::error::{Failure, IN_USE, INVALID};
use sfi_debugger::Options;
use std::ffi::c_int;
use std::io::ErrorKind;

// As in sfi.h.
pub(crate) const DEBUG_GDB: c_int = 1;
pub(crate) const DEBUG_PERF: c_int = 2;

/// Reads the flags of `sfi_debug_show`.
fn options(tools: c_int) -> Result<Options> {
    match tools & !(DEBUG_GDB | DEBUG_PERF) {
        0 if tools != 0 => Ok(Options { gdb: tools & DEBUG_GDB != 0, perf: tools & DEBUG_PERF != 0 }),
        _ => Err(Failure::new(INVALID, format!("tools {tools} are not SFI_DEBUG_GDB, SFI_DEBUG_PERF or both"))),
    }
}

api! {
    /// `sfi_debug_show`
    fn sfi_debug_show(tools: c_int) {
        sfi_debugger::show(&options(tools)?).map(drop).map_err(|error| {
            let status = if error.kind() == ErrorKind::AlreadyExists { IN_USE } else { INVALID };
            Failure::new(status, format!("cannot show the code of domains: {error}"))
        })
    }
}
