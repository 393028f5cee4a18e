//! Functions that a host offers, in the form that bindings keep.

use crate::gate::records::{Binding, Context, HostFrame, Status};

/// Runs a host function for the gate.
pub(crate) type Shim = unsafe extern "C" fn(*mut Context, *const Binding, *mut HostFrame) -> Status;

/// A host function of any type. It is not called again while it runs.
pub(crate) struct Host {
    /// Its name.
    pub name: String,
    /// A [`Record`], or the function itself if it is reentrant.
    pub(super) record: *mut (),
    pub(super) shim: Shim,
    pub(super) drop: unsafe fn(*mut ()),
}

// SAFETY: the record owns a value that is `Send`; nobody else has the pointer but bindings of the
// same world.
unsafe impl Send for Host {}

impl Host {
    /// Returns `shim` and `data` of bindings to it. They are valid while it lives.
    pub(crate) fn entry(&self) -> (usize, *mut ()) {
        (self.shim as usize, self.record)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `new`, of the type of `drop`, and the world whose bindings
        // hold it is being dropped.
        unsafe { (self.drop)(self.record) };
    }
}
