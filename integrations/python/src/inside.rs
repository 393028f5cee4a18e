//! The way into a world: one thread at a time, from outside or within a host function.

use crate::failure::{self, Failure, Raised};
use crate::scope::{Scope, this_thread};
use pyo3::prelude::*;
use sfi_loader::{HostCall, World};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The thread that uses a world, and the host functions that run in it. The world's host functions
/// share it.
#[derive(Debug, Default)]
pub struct Inside {
    /// The thread, 0 for none.
    user: AtomicU64,
    /// The calls of host functions, the innermost last.
    calls: Mutex<Vec<Arc<Scope>>>,
}

/// Marks the world as unused when it is dropped.
struct Leave<'i>(&'i Inside);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.user.store(0, Ordering::Relaxed);
    }
}

/// Ends a host function when it is dropped.
struct End<'i>(&'i Inside);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.calls().pop();
    }
}

impl Inside {
    fn calls(&self) -> MutexGuard<'_, Vec<Arc<Scope>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `body` as this thread's use of the world. Exceptions of host functions, which come as
    /// panics, become failures.
    pub fn using<R>(&self, body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        self.user.store(this_thread(), Ordering::Relaxed);
        let _leave = Leave(self);
        caught(body)
    }

    /// Runs `body` within a host function of the world.
    pub fn within<R>(&self, body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        caught(body)
    }

    /// Runs the body of a host function.
    pub fn serve<R>(&self, call: &mut HostCall<'_>, body: impl FnOnce(&Arc<Scope>) -> R) -> R {
        Scope::open(call, |scope| {
            self.calls().push(Arc::clone(scope));
            let _end = End(self);
            body(scope)
        })
    }
}

/// Runs a body, and turns the exception of a host function below it into a failure.
fn caught<R>(body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| match payload.downcast::<Raised>() {
        Ok(raised) => Err(Failure::Raised(raised.0)),
        Err(other) => resume_unwind(other),
    })
}

/// A way into a world.
pub enum Way<'w, 'c> {
    /// From outside.
    World(&'w mut World),
    /// From a host function.
    Host(&'w mut HostCall<'c>),
}

/// A world that threads share.
#[derive(Debug)]
pub struct Shared {
    pub inside: Arc<Inside>,
    /// Says whether a thread waits while another one uses the world.
    waits: bool,
    world: Mutex<Option<World>>,
}

impl Shared {
    /// Shares a world.
    pub fn new(inside: Arc<Inside>, waits: bool, world: World) -> Self {
        Self { inside, waits, world: Mutex::new(Some(world)) }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<World>>, Failure> {
        if self.waits {
            return Ok(self.world.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.world.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure::new(failure::IN_USE, "another thread uses the world")),
        }
    }

    /// Uses the world, from outside or within one of its host functions. Other threads of Python
    /// run meanwhile.
    pub fn enter<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(Way<'_, '_>) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        let result = py.detach(|| match self.inside.user.load(Ordering::Relaxed) == this_thread() {
            true => self.again(body),
            false => {
                let mut world = self.lock()?;
                let closed = || Failure::new(failure::CLOSED, "the world is closed");
                let world = world.as_mut().ok_or_else(closed)?;
                self.inside.using(|| body(Way::World(world)))
            }
        });
        failure::raised(py, result)
    }

    /// Uses the world within a host function.
    fn again<R>(&self, body: impl FnOnce(Way<'_, '_>) -> Result<R, Failure>) -> Result<R, Failure> {
        let innermost = self.inside.calls().last().map(Arc::clone);
        let used = innermost.and_then(|scope| scope.with(|call| caught(|| body(Way::Host(call)))));
        used.unwrap_or_else(|| Err(Failure::new(failure::IN_USE, "the world cannot be used here")))
    }

    /// Uses the world from outside.
    pub fn alone<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut World) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.enter(py, |way| match way {
            Way::World(world) => body(world),
            Way::Host(_) => Err(Failure::new(failure::IN_USE, "not within a host function")),
        })
    }

    /// Takes the world away and runs its finalisers.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let ended = py.detach(|| {
            if self.inside.user.load(Ordering::Relaxed) == this_thread() {
                return Err(Failure::new(failure::IN_USE, "not within a host function"));
            }
            match self.lock()?.take() {
                Some(world) => self.inside.using(|| Ok(world.shutdown()?)),
                None => Ok(()),
            }
        });
        failure::raised(py, ended)
    }
}
