//! The call of a host function, lent to Python for as long as the function runs.

use sfi_loader::HostCall;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A host function's call. Only the thread that runs the function can use it, only until the
/// function returns, and only one user at a time.
#[derive(Debug)]
pub struct Scope {
    thread: u64,
    /// Null while a user has it, and after the function returned.
    call: AtomicPtr<HostCall<'static>>,
}

/// Takes the call away for good when it is dropped.
struct Close<'s>(&'s Scope);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.call.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// Gives the call back when it is dropped.
struct Return<'s>(&'s Scope, *mut HostCall<'static>);

impl Drop for Return<'_> {
    fn drop(&mut self) {
        self.0.call.store(self.1, Ordering::Relaxed);
    }
}

impl Scope {
    /// Runs `body`, during which the call can be used through the scope.
    pub fn open<R>(call: &mut HostCall<'_>, body: impl FnOnce(&Arc<Scope>) -> R) -> R {
        let call = ptr::from_mut(call).cast::<HostCall<'static>>();
        let scope = Arc::new(Scope { thread: this_thread(), call: AtomicPtr::new(call) });
        let _close = Close(&scope);
        body(&scope)
    }

    /// Uses the call. Returns `None` on another thread, after the function returned, and while
    /// another user has it.
    pub fn with<R>(&self, body: impl FnOnce(&mut HostCall<'_>) -> R) -> Option<R> {
        if self.thread != this_thread() {
            return None;
        }
        let call = self.call.swap(ptr::null_mut(), Ordering::Relaxed);
        let _return = Return(self, call);
        // SAFETY: the pointer is null, or `open` waits on this thread below this frame and keeps
        // the call borrowed. The swap leaves no pointer for a second user. `body` takes the call
        // for any lifetime, so nothing of it stays afterwards.
        unsafe { call.as_mut() }.map(body)
    }
}

/// Returns a number that no other living thread has, and that is not 0.
pub fn this_thread() -> u64 {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place) as u64)
}
