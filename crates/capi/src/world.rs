//! Worlds: opened, entered by one thread at a time, closed.

use crate::border::{Result, Status, api, border, handle, place, text};
use crate::config::{config_or_none, sfi_config};
use crate::error::{Failure, IN_USE, sfi_error};
use sfi_arbitration::{Arbiter, manifest as table};
use sfi_loader::manifest::{Manifest, Support, arbiter_of};
use sfi_loader::{HostCall, World};
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// `sfi_world`.
pub struct sfi_world {
    shared: Arc<Shared>,
    /// Used by the thread that `shared` names, while no host function runs.
    world: UnsafeCell<Option<World>>,
    pub(crate) manifest: Manifest,
    pub(crate) directory: PathBuf,
}

/// Who uses a world. Its host functions know it, too.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The thread, 0 for none.
    thread: AtomicU64,
    /// The call of the innermost host function that runs, null while domains run.
    call: AtomicPtr<HostCall<'static>>,
}

/// Puts back which host function runs.
pub(crate) struct Reset<'s>(&'s Shared, *mut HostCall<'static>);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0.call.store(self.1, Ordering::Relaxed);
    }
}

impl Shared {
    /// A host function runs, until the result is dropped.
    pub fn runs(&self, call: *mut HostCall<'static>) -> Reset<'_> {
        Reset(self, self.call.swap(call, Ordering::Relaxed))
    }

    /// Nothing of the host may use the world, until the result is dropped.
    pub fn closed(&self) -> Reset<'_> {
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

/// Does the same with either.
macro_rules! both {
    ($inside:expr, |$way:ident| $body:expr) => {
        match $inside {
            $crate::world::Inside::World($way) => $body,
            $crate::world::Inside::Host($way) => $body,
        }
    };
}
pub(crate) use both;

/// A number that no other living thread has, not 0.
fn this_thread() -> u64 {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place) as u64)
}

/// Lets the world go.
struct Leave<'s>(&'s Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Release);
    }
}

/// Uses a world, from outside or within one of its host functions.
///
/// # Safety
/// Null, or a world that was not closed.
pub(crate) unsafe fn enter<R>(world: *const sfi_world, body: impl FnOnce(Inside<'_>) -> Result<R>) -> Result<R> {
    // SAFETY: see the function's contract.
    let this = unsafe { handle(world, "world") }?;
    let shared = &*this.shared;
    let me = this_thread();
    match shared.thread.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {
            let _leave = Leave(shared);
            // SAFETY: this thread has just become the only one, and no call is in progress: the place is used by nobody else until `_leave` is
            // dropped. Host functions get another way in.
            let found = unsafe { &mut *this.world.get() };
            body(Inside::World(found.as_mut().ok_or_else(|| Failure::new(IN_USE, "the world is being closed"))?))
        }
        Err(thread) if thread == me => {
            let call = shared.call.load(Ordering::Relaxed);
            let _reset = shared.closed();
            // SAFETY: the innermost host function's call: it runs on this thread, below this very call of the host, and lives until it returns.
            // The host does nothing else with it meanwhile.
            let call = unsafe { call.as_mut() };
            body(Inside::Host(call.ok_or_else(|| Failure::new(IN_USE, "the world cannot be used here"))?))
        }
        Err(_) => Err(Failure::new(IN_USE, "another thread uses the world")),
    }
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

fn open(mut manifest: Manifest, directory: &Path, config: Option<&sfi_config>) -> Result<*mut sfi_world> {
    for domain in manifest.domains.values_mut().filter(|domain| domain.syscalls.is_some()) {
        let objects = vec![sfi_support::library(domain.mode), sfi_support::jumps_object(domain.mode)];
        domain.support = Some(Support { objects, own_start: false });
    }
    let mut builder = manifest.build(World::builder(), directory)?;
    for (name, domain) in &manifest.domains {
        let Some(syscalls) = &domain.syscalls else { continue };
        let policy = table::policy(syscalls, directory, manifest.limits.call.map(|limit| limit.0))?;
        let mut arbiter = Arbiter::new(policy, table::descriptors(syscalls, directory)?);
        builder = builder.host_fn(arbiter_of(name), move |cx| arbiter.host_call(cx));
    }
    let shared = Arc::new(Shared::default());
    if let Some(config) = config {
        builder = config.apply(builder, &shared);
    }
    let world = UnsafeCell::new(Some(builder.build()?));
    let directory = directory.to_owned();
    Ok(Box::into_raw(Box::new(sfi_world { shared, world, manifest, directory })))
}

api! {
    /// Loads the domains of a manifest.
    fn sfi_world_open(manifest: *const c_char, config: *const sfi_config, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let path = Path::new(text(manifest, "manifest")?);
        let directory = path.parent().unwrap_or(Path::new(""));
        to.write(open(Manifest::load(path)?, directory, config_or_none(config)?)?);
        Ok(())
    }

    /// Loads the domains of a manifest's text.
    fn sfi_world_open_text(manifest: *const c_char, directory: *const c_char, config: *const sfi_config, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let directory = Path::new(text(directory, "directory")?);
        let manifest = Manifest::parse(text(manifest, "text")?, Path::new("(text)"))?;
        to.write(open(manifest, directory, config_or_none(config)?)?);
        Ok(())
    }
}

/// Runs the finalisers and frees the world.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_world_close(world: *mut sfi_world, error: *mut *mut sfi_error) -> Status {
    // SAFETY: what the crate's documentation asks of the host. The record is freed when no thread is in the world, and only here.
    unsafe {
        border(error, || {
            if world.is_null() {
                return Ok(());
            }
            let ended = {
                // Taken out of its place: until the record is freed nobody gets in but the host functions that finalisers call.
                alone(world, |_| Ok(()))?;
                let this = &*world;
                let me = this_thread();
                let taken = this.shared.thread.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
                taken.map_err(|_| Failure::new(IN_USE, "another thread uses the world"))?;
                let _leave = Leave(&this.shared);
                let found = (*this.world.get()).take();
                catch_unwind(AssertUnwindSafe(|| found.map_or(Ok(()), World::shutdown)))
            };
            drop(Box::from_raw(world));
            ended.unwrap_or_else(|payload| resume_unwind(payload)).map_err(Failure::from)
        })
    }
}
