//! Servers that several threads enter: a bounded number of instances (Bryce & Muller's E-stacks),
//! each entered by one thread at a time.

use crate::world::held::World;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All instances are in use, or the queue for them is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {instances} instances of the server are in use, and {waiting} callers wait")]
pub struct Exhausted {
    /// The degree of parallelism.
    pub instances: usize,
    /// Callers in the queue.
    pub waiting: usize,
}

/// Instances of a server. Their number is the degree of parallelism. A caller who finds no idle
/// instance is refused or waits, first come, first served.
///
/// ```no_run
/// # use sfi_loader::{DomainSpec, Server, TypedFn, World};
/// let adder = std::fs::read("adder.o").unwrap();
/// let spec = || DomainSpec::new("adder").object("adder.o", adder.clone());
/// let build = |_| World::builder().domain(spec()).build().unwrap();
/// let server = Server::new((0..4).map(build).collect());
/// std::thread::scope(|scope| {
///     for _ in 0..16 {
///         scope.spawn(|| {
///             let mut instance = server.enter().unwrap();
///             let add: TypedFn<fn(u64, u64) -> u64> = instance.domain("adder")?.export("add")?;
///             let sum = add.call(&mut *instance, (1, 2))?;
///             Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(sum)
///         });
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Server {
    state: Mutex<State>,
    changed: Condvar,
    instances: usize,
    most_waiting: usize,
}

#[derive(Debug)]
struct State {
    idle: Vec<World>,
    /// The waiting callers, in order.
    queue: VecDeque<u64>,
    next: u64,
}

impl Server {
    /// Makes a server of these instances, which are alike.
    pub fn new(instances: Vec<World>) -> Self {
        let count = instances.len();
        let state = State { idle: instances, queue: VecDeque::new(), next: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), instances: count, most_waiting: usize::MAX }
    }

    /// Bounds the queue: when this many callers wait, the next one is refused. Default: no bound.
    #[must_use]
    pub fn most_waiting(mut self, callers: usize) -> Self {
        self.most_waiting = callers;
        self
    }

    /// Returns the degree of parallelism.
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// Returns the number of idle instances.
    pub fn idle(&self) -> usize {
        self.lock().idle.len()
    }

    /// Returns the number of callers in the queue.
    pub fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exhausted(&self, state: &State) -> Exhausted {
        Exhausted { instances: self.instances, waiting: state.queue.len() }
    }

    /// Takes an instance if one is idle and no caller waits for it.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn try_enter(&self) -> Result<Lease<'_>, Exhausted> {
        let mut state = self.lock();
        if state.queue.is_empty()
            && let Some(world) = state.idle.pop()
        {
            return Ok(Lease { server: self, world: Some(world) });
        }
        Err(self.exhausted(&state))
    }

    /// Takes an instance after the callers that came before. A thread that holds one and waits for
    /// another may wait for ever.
    ///
    /// # Errors
    /// [`Exhausted`] if the queue is full.
    pub fn enter(&self) -> Result<Lease<'_>, Exhausted> {
        self.wait(None)
    }

    /// Takes an instance as [`Server::enter`] does, but waits no longer than `time`.
    ///
    /// # Errors
    /// [`Exhausted`] if the queue is full or the time is over.
    pub fn enter_within(&self, time: Duration) -> Result<Lease<'_>, Exhausted> {
        self.wait(Instant::now().checked_add(time))
    }

    fn wait(&self, until: Option<Instant>) -> Result<Lease<'_>, Exhausted> {
        let mut state = self.lock();
        if state.queue.is_empty()
            && let Some(world) = state.idle.pop()
        {
            return Ok(Lease { server: self, world: Some(world) });
        }
        if state.queue.len() >= self.most_waiting || self.instances == 0 {
            return Err(self.exhausted(&state));
        }
        let ticket = state.next;
        state.next += 1;
        state.queue.push_back(ticket);
        loop {
            if state.queue.front() == Some(&ticket)
                && let Some(world) = state.idle.pop()
            {
                state.queue.pop_front();
                // The next in the queue may find another one.
                self.changed.notify_all();
                return Ok(Lease { server: self, world: Some(world) });
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                state.queue.retain(|t| *t != ticket);
                self.changed.notify_all();
                return Err(self.exhausted(&state));
            }
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Visits the idle instances, to maintain them, as with [`World::trim`]. During a visit callers
    /// are refused or wait.
    pub fn each_idle(&self, mut visit: impl FnMut(&mut World)) {
        self.lock().idle.iter_mut().for_each(&mut visit);
    }
}

/// An instance that one thread uses. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease<'s> {
    server: &'s Server,
    world: Option<World>,
}

impl Deref for Lease<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().expect("taken only when dropped")
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_mut().expect("taken only when dropped")
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.server.lock().idle.extend(self.world.take());
        self.server.changed.notify_all();
    }
}
