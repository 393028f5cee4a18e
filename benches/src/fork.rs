//! A process to compare with. This is the only `unsafe` code of the crate.
#![allow(unsafe_code)]

use std::io::{Error, Result};

/// Starts a child of this process that exits at once, and waits for it.
pub fn child_that_exits() -> Result<()> {
    // SAFETY: the child calls only `_exit`, which is async-signal-safe. `status` outlives the call.
    unsafe {
        let child = libc::fork();
        match child {
            -1 => Err(Error::last_os_error()),
            0 => libc::_exit(0),
            child => {
                let mut status = 0;
                match libc::waitpid(child, &raw mut status, 0) {
                    -1 => Err(Error::last_os_error()),
                    _ => Ok(()),
                }
            }
        }
    }
}
