//! The pointers that a host gives with its functions.

use std::ffi::c_void;

/// A pointer of the host that only its own functions use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User(pub(crate) *mut c_void);
// SAFETY: never dereferenced here. The host's functions get it on the thread that uses the world,
// as sfi.h says.
unsafe impl Send for User {}
// SAFETY: as above. sfi.h says which functions several threads run at once.
unsafe impl Sync for User {}

impl User {
    /// Returns the pointer. Closures that call this capture the whole value, so they are `Send`.
    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}
