//! The one thing here that needs `unsafe`: a process, to compare with.
#![allow(unsafe_code)]

use std::io::{Error, Result};

/// A child of this process that exits at once, and is waited for.
pub fn child_that_exits() -> Result<()> {
    // SAFETY: the child calls nothing but `_exit`, which is async-signal-safe; `status` outlives
    // the call.
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
