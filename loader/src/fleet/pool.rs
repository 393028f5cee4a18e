//! Instances that tenants use one after the other.

use crate::fleet::template::Template;
use crate::gate::ids::DomainId;
use crate::world::error::BuildError;
use crate::world::held::World;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Instances of a template that wait for their next tenant. For any number of threads.
///
/// An instance goes back when its [`Pooled`] is dropped, and is reset at that moment: no byte of a
/// tenant survives in it. It keeps its place, though. A tenant of a domain in mode write can find
/// out that place and tell it to enemies of the next tenant. If that matters, take
/// [`Template::instance`], which costs more and draws a new place. An instance that died is not
/// used again.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    template: Template,
    capacity: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    idle: Vec<World>,
    /// The number of idle and used instances.
    existing: usize,
}

/// The pool has no instance to give.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// All are in use.
    #[error("all {capacity} instances of the pool are in use")]
    Exhausted {
        /// The number of instances.
        capacity: usize,
    },
    /// An instance had to be made, and could not be.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Pool {
    /// Makes a pool of `capacity` instances, and all of them now.
    ///
    /// # Errors
    /// As for [`Template::instance`].
    pub fn new(template: &Template, capacity: usize) -> Result<Self, BuildError> {
        let idle = (0..capacity).map(|_| template.raw()).collect::<Result<Vec<_>, _>>()?;
        let state = Mutex::new(State { existing: idle.len(), idle });
        Ok(Self { shared: Arc::new(Shared { template: template.clone(), capacity, state, returned: Condvar::new() }) })
    }

    /// Takes an instance in its initial state.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if all are in use. [`PoolError::Build`] if an instance has to be
    /// replaced and cannot be.
    pub fn take(&self) -> Result<Pooled, PoolError> {
        let state = self.shared.lock();
        self.from(state)
    }

    /// Takes an instance as [`Pool::take`] does, but waits while all are in use.
    ///
    /// # Errors
    /// [`PoolError::Build`].
    pub fn wait(&self) -> Result<Pooled, PoolError> {
        let used_up = |state: &mut State| state.idle.is_empty() && state.existing >= self.shared.capacity.max(1);
        let state = self.shared.returned.wait_while(self.shared.lock(), used_up);
        self.from(state.unwrap_or_else(PoisonError::into_inner))
    }

    fn from(&self, mut state: MutexGuard<'_, State>) -> Result<Pooled, PoolError> {
        let shared = Arc::clone(&self.shared);
        if let Some(world) = state.idle.pop() {
            drop(state);
            let mut pooled = Pooled::new(world, shared);
            pooled.initialise(DomainId::FIRST)?;
            return Ok(pooled);
        }
        if state.existing >= shared.capacity {
            return Err(PoolError::Exhausted { capacity: shared.capacity });
        }
        state.existing += 1;
        drop(state);
        match shared.template.instance() {
            Ok(world) => Ok(Pooled::new(world, shared)),
            Err(error) => {
                shared.gone();
                Err(error.into())
            }
        }
    }

    /// Returns the number of idle instances.
    pub fn idle(&self) -> usize {
        self.shared.lock().idle.len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an instance is gone.
    fn gone(&self) {
        self.lock().existing -= 1;
        self.returned.notify_one();
    }
}

/// An instance of a pool, which goes back when it is dropped: a [`World`] with the template's
/// domain.
#[derive(Debug)]
pub struct Pooled {
    world: Option<World>,
    /// The world's number. A tenant's host may put another world in its place, which the pool does
    /// not take.
    id: u64,
    shared: Arc<Shared>,
}

impl Pooled {
    fn new(world: World, shared: Arc<Shared>) -> Self {
        Self { id: world.get().id, world: Some(world), shared }
    }
}

impl Deref for Pooled {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().expect("taken in `drop` only")
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_mut().expect("taken in `drop` only")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(mut world) = self.world.take() else { return };
        if world.get().id == self.id && world.wipe() {
            self.shared.lock().idle.push(world);
            self.shared.returned.notify_one();
        } else {
            drop(world);
            self.shared.gone();
        }
    }
}
