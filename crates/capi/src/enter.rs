//! The way into a world: one thread at a time, from outside or within a host function.

use crate::border::{Result, handle};
use crate::error::{Failure, IN_USE};
use crate::holder::Holder;
use crate::sharing::Turns;
use sfi_loader::manifest::Manifest;
use sfi_loader::{HostCall, Instance, Manage, World};
use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// `sfi_world`.
pub struct sfi_world {
    pub(crate) shared: Arc<Shared>,
    /// Used by the thread that `shared` names, while no host function runs.
    pub(crate) world: UnsafeCell<Option<Holder>>,
    pub(crate) manifest: Arc<Manifest>,
    /// The names of the manifest's domains.
    pub(crate) names: Vec<CString>,
    /// The instances that the host made, by name. Used like `world`.
    pub(crate) instances: UnsafeCell<HashMap<String, Instance>>,
    pub(crate) directory: PathBuf,
}

/// The thread that uses a world, and its innermost host function. Host functions share it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The only thread that may use the world, 0 for any.
    only: u64,
    /// The thread, 0 for none.
    thread: AtomicU64,
    /// The call of the innermost host function that runs, null while domains run.
    call: AtomicPtr<HostCall<'static>>,
    /// The order in which threads wait for the world. `None`: they are turned away.
    turns: Option<Turns>,
    /// Host functions find this record by their thread, see [`current`].
    announced: bool,
    /// Nobody waits and nothing is announced.
    straight: bool,
}

thread_local! {
    /// The announced record whose world this thread entered last.
    static CURRENT: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Returns the announced record whose world this thread is in, null if there is none. It lives
/// while the thread is in the world.
pub(crate) fn current() -> *const Shared {
    CURRENT.get()
}

/// Puts back the announced record from before when it is dropped.
pub(crate) struct Announced(Option<*const Shared>);

impl Drop for Announced {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            CURRENT.set(before);
        }
    }
}

/// Puts back the previous host function when it is dropped.
pub(crate) struct Reset<'s>(&'s Shared, *mut HostCall<'static>);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0.call.store(self.1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Returns the record of a world that only this thread may use.
    pub(crate) fn of_this_thread() -> Self {
        Self { only: this_thread(), straight: true, ..Self::default() }
    }

    /// Returns the record of a world whose threads wait for each other by these rules.
    pub(crate) fn of_turns(turns: Option<Turns>) -> Self {
        Self { straight: turns.is_none(), turns, ..Self::default() }
    }

    /// Returns the record of a world whose host functions are shared with other worlds.
    pub(crate) fn announced(turns: Option<Turns>) -> Self {
        Self { turns, announced: true, ..Self::default() }
    }

    /// Makes this thread's host functions find this record, if they do not know it.
    #[inline(always)]
    pub(crate) fn announce(&self) -> Announced {
        Announced(self.announced.then(|| CURRENT.replace(self)))
    }

    /// Makes a thread the user of the world, or waits for that if the world's threads do. Returns
    /// the user if there is one and the thread does not wait.
    #[inline(always)]
    pub(crate) fn take(&self, me: u64) -> std::result::Result<(), u64> {
        match &self.turns {
            None => self.try_take(me),
            Some(_) if self.thread.load(Ordering::Relaxed) == me => Err(me),
            Some(turns) => {
                turns.wait(|| self.thread.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).is_ok());
                Ok(())
            }
        }
    }

    /// Ends the use of the world by this thread.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        match &self.turns {
            None => self.thread.store(0, Ordering::Release),
            Some(turns) => turns.pass(|| self.thread.store(0, Ordering::SeqCst)),
        }
    }

    /// Makes a thread the user of the world. Returns the user if there is one.
    ///
    /// A world of one thread needs no atomic exchange. The other threads are turned away before
    /// they look at the user, so only its own thread reads and writes it.
    #[inline(always)]
    fn try_take(&self, me: u64) -> std::result::Result<(), u64> {
        if self.only == 0 {
            return self.thread.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).map(|_| ());
        }
        if self.only != me {
            return Err(self.only);
        }
        match self.thread.load(Ordering::Relaxed) {
            0 => {
                self.thread.store(me, Ordering::Relaxed);
                Ok(())
            }
            user => Err(user),
        }
    }

    /// Makes a thread the user of the world, if nobody is, nobody waits and nothing is announced.
    #[inline(always)]
    pub(crate) fn take_straight(&self, me: u64) -> bool {
        self.straight && self.try_take(me).is_ok()
    }

    /// Notes that a host function runs, until the result is dropped.
    pub(crate) fn runs(&self, call: *mut HostCall<'static>) -> Reset<'_> {
        Reset(self, self.call.swap(call, Ordering::Relaxed))
    }

    /// Says whether this is the call of the innermost host function, and this thread runs it.
    pub(crate) fn is_innermost(&self, call: *mut HostCall<'static>) -> bool {
        self.call.load(Ordering::Relaxed) == call && self.thread.load(Ordering::Relaxed) == this_thread()
    }

    /// Keeps the host from using the world until the result is dropped.
    pub(crate) fn closed(&self) -> Reset<'_> {
        self.runs(ptr::null_mut())
    }
}

/// A way into a world.
pub(crate) enum Inside<'w> {
    /// From outside.
    World(&'w mut World),
    /// From a host function.
    Host(&'w mut HostCall<'static>),
}

impl<'w> Inside<'w> {
    /// Returns the operations that both ways have.
    pub(crate) fn way(self) -> &'w mut dyn Manage {
        match self {
            Inside::World(world) => world,
            Inside::Host(call) => call,
        }
    }
}

/// Returns the record of use that a world shares with its host functions.
///
/// # Safety
/// Null, or a world that was not closed.
pub(crate) unsafe fn shared(world: *const sfi_world) -> Result<Arc<Shared>> {
    // SAFETY: see the function's contract.
    Ok(Arc::clone(&unsafe { handle(world, "world") }?.shared))
}

/// Returns a number that no other living thread has, and that is not 0: the thread pointer. A
/// thread local of a shared library would cost the call of a function.
#[inline(always)]
pub(crate) fn this_thread() -> u64 {
    let pointer;
    // SAFETY: the first word at the thread pointer is its own address (psABI, "ELF Handling For
    // Thread-Local Storage", section 3.4.6). Nobody writes it while the thread lives.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags)) };
    pointer
}

/// Marks the world as unused when it is dropped.
pub(crate) struct Leave<'s>(pub(crate) &'s Shared);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Uses a world of the host's own from outside, with nothing that must be undone but the use
/// itself: `body` does not panic. `None`: nothing happened, and [`enter`] must be used.
///
/// # Safety
/// A world that was not closed.
#[inline(always)]
pub(crate) unsafe fn enter_straight<R>(
    world: *const sfi_world,
    body: impl FnOnce(&mut World) -> Option<R>,
) -> Option<R> {
    // SAFETY: see the function's contract.
    let (this, shared) = unsafe { (&*world, &*(*world).shared) };
    if !shared.take_straight(this_thread()) {
        return None;
    }
    // SAFETY: as in `enter`.
    let result = match unsafe { &mut *this.world.get() } {
        Some(Holder::Own(world)) => body(world),
        _ => None,
    };
    shared.thread.store(0, Ordering::Release);
    result
}

/// Uses a world, from outside or within one of its host functions.
///
/// # Safety
/// Null, or a world that was not closed.
#[inline(always)]
pub(crate) unsafe fn enter<R>(world: *const sfi_world, body: impl FnOnce(Inside<'_>) -> Result<R>) -> Result<R> {
    // SAFETY: see the function's contract.
    let this = unsafe { handle(world, "world") }?;
    let shared = &*this.shared;
    let me = this_thread();
    let _announced = shared.announce();
    match shared.take(me) {
        Ok(()) => {
            let _leave = Leave(shared);
            // SAFETY: this thread has just become the only user, and no call is in progress. Nobody
            // else uses the place until `_leave` is dropped, because host functions enter by
            // another way.
            let found = unsafe { &mut *this.world.get() };
            body(Inside::World(found.as_deref_mut().ok_or_else(|| Failure::new(IN_USE, "the world is being closed"))?))
        }
        Err(thread) if thread == me => within(shared, |call| body(Inside::Host(call))),
        Err(_) => Err(Failure::new(IN_USE, "another thread uses the world")),
    }
}

/// Uses a world that this thread is in.
#[inline(never)]
fn within<R>(shared: &Shared, body: impl FnOnce(&mut HostCall<'static>) -> Result<R>) -> Result<R> {
    let call = shared.call.load(Ordering::Relaxed);
    let _reset = shared.closed();
    // SAFETY: this is the call of the innermost host function. It runs on this thread, below this
    // call of the host, and lives until it returns. The host does nothing else with it during this
    // time.
    let call = unsafe { call.as_mut() };
    body(call.ok_or_else(|| Failure::new(IN_USE, "the world cannot be used here"))?)
}

/// Uses a world from outside.
///
/// # Safety
/// As for [`enter`].
pub(crate) unsafe fn alone<R>(world: *const sfi_world, body: impl FnOnce(&mut World) -> Result<R>) -> Result<R> {
    // SAFETY: see the function's contract.
    unsafe {
        enter(world, |inside| match inside {
            Inside::World(world) => body(world),
            Inside::Host(_) => Err(Failure::new(IN_USE, "not within a host function")),
        })
    }
}
