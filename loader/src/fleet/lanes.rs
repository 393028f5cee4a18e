//! A world that several threads enter at once, by lanes.

use crate::fleet::server::{Exhausted, Lease, Server};
use crate::spec::DomainSpec;
use crate::vm::memory::Memory;
use crate::vm::region::View;
use crate::world::builder::Builder;
use crate::world::calls::call::{Enter, Hold, TypedFn, sealed};
use crate::world::calls::values::Function;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BindError, BuildError, CallError, LookupError};
use crate::world::held::World;
use crate::world::lanes::reload::reload;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A world that several threads of the host enter at once. Each has a [`Lane`] while it calls. A
/// domain lets so many lanes in at a time as it has E-stacks ([`crate::DomainSpec::threads`],
/// default 1). Others wait or are refused ([`crate::DomainSpec::busy`]), and a deadlock is an error
/// of the call that would close it. Calls of lanes in different domains do not wait for each other.
///
/// A fault in one lane ends the domain for all. Other lanes that are inside find it dead. It begins
/// again, at its place, when the last one is out, if its specification allows that
/// ([`crate::DomainSpec::restart`]) or the host asks for it ([`Lane::restart`]).
///
/// Bindings change only when a domain is loaded again ([`Lanes::reload`]). Domains have no
/// instances, and pass no functions to each other. Their owners answer for the faults of all lanes,
/// and budgets of time are used by all lanes together.
///
/// ```no_run
/// # use sfi_loader::{DomainSpec, LaneFn, World};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let adder = std::fs::read("adder.o")?;
/// let spec = DomainSpec::new("adder").object("adder.o", adder).mode(sfi_loader::Mode::Full);
/// let spec = spec.threads(4);
/// let lanes = World::builder().domain(spec).lanes(4)?;
/// let add: LaneFn<fn(u64, u64) -> u64> = LaneFn::new("adder", "add");
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mut lane = lanes.enter().unwrap();
///             add.call(&mut lane, (1, 2))
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lanes {
    server: Server,
    /// Held by a reload, so that two do not wait for each other's lanes.
    reloads: Mutex<()>,
}

/// One thread's way into a world with lanes. Dropping it gives it back.
#[derive(Debug)]
pub struct Lane<'l>(Lease<'l>);

impl Builder {
    /// Builds a world that `count` threads may enter at once, at most [`crate::MAX_LANES`].
    ///
    /// # Errors
    /// [`crate::SpecError::Lanes`] for a description that a world with lanes cannot have, otherwise
    /// as for [`Builder::build`].
    pub fn lanes(self, count: usize) -> Result<Lanes, BuildError> {
        Ok(Lanes { server: Server::new(self.build_lanes(count)?), reloads: Mutex::new(()) })
    }
}

impl Lanes {
    /// Returns the number of lanes.
    pub fn count(&self) -> usize {
        self.server.instances()
    }

    /// Returns the number of lanes that no thread has.
    pub fn idle(&self) -> usize {
        self.server.idle()
    }

    /// Takes a lane, and waits while others have all of them. A thread that has one and waits for
    /// another one may wait for ever.
    ///
    /// # Errors
    /// None yet: the queue has no bound.
    pub fn enter(&self) -> Result<Lane<'_>, Exhausted> {
        self.server.enter().map(Lane)
    }

    /// Takes a lane if there is one.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn try_enter(&self) -> Result<Lane<'_>, Exhausted> {
        self.server.try_enter().map(Lane)
    }

    /// Takes a lane as [`Lanes::enter`] does, but waits no longer than `time`.
    ///
    /// # Errors
    /// [`Exhausted`] if the time is over.
    pub fn enter_within(&self, time: Duration) -> Result<Lane<'_>, Exhausted> {
        self.server.enter_within(time).map(Lane)
    }
}

impl Lanes {
    /// Loads a domain again at a fresh place, from other objects or the same ones, for all lanes.
    /// Bindings and functions that were looked up lead to functions of the same names. Waits until
    /// no thread has a lane, at most for `within`; a thread that has one itself must not call this.
    ///
    /// # Errors
    /// [`BindError::Active`] if a thread still has a lane. [`crate::SpecError::Lanes`] for a
    /// specification that a world with lanes cannot have, or with other `threads`, `busy` or
    /// `restart` than before. The other errors of building a world. The old domain stays, unless
    /// memory ran out when some lanes had the new one, or its initialisers failed: then it is dead.
    pub fn reload(&self, mut spec: DomainSpec, within: Duration) -> Result<(), BuildError> {
        let _one = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now().checked_add(within);
        let mut all = Vec::new();
        while all.len() < self.count() {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            let lane = self.server.enter_within(left);
            all.push(lane.map_err(|_| BindError::Active { domain: spec.name.clone() })?);
        }
        all.sort_by_key(|lane| lane.get().lane.as_ref().map_or(0, |lane| lane.number));
        spec.lanes = self.count();
        reload(&mut all.iter_mut().map(|lane| &mut **lane).collect::<Vec<_>>(), spec)
    }
}

impl Lane<'_> {
    /// Returns the lane's number, from 0.
    pub fn number(&self) -> usize {
        self.0.get().lane.as_ref().map_or(0, |lane| lane.number)
    }

    /// Returns a domain by name. Functions that are looked up there belong to this lane.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn domain(&self, name: &str) -> Result<DomainRef<'_>, LookupError> {
        self.0.domain(name)
    }

    /// Returns a domain's memory. Other lanes may change it meanwhile.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn memory(&mut self, name: &str) -> Result<Memory<'_>, LookupError> {
        self.0.memory(name)
    }

    /// Returns a shared region's memory. Domains may change it meanwhile, in other lanes.
    ///
    /// # Errors
    /// [`LookupError::Region`].
    pub fn region(&mut self, name: &str) -> Result<&mut View, LookupError> {
        self.0.region(name)
    }

    /// Restarts a domain at its place, in the state in which it was built.
    ///
    /// # Errors
    /// [`crate::BindError::Active`] if another lane is inside. [`BuildError::Owner`] if its owner
    /// has no fault left. Otherwise as for [`crate::World::restart`].
    pub fn restart(&mut self, name: &str) -> Result<(), BuildError> {
        let mut held = self.held();
        let index = held.find(name)?;
        held.restart_lane(index)
    }
}

/// A lane can be used as a world. Changes of bindings and regions, instances and reloads are
/// refused.
impl Deref for Lane<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl DerefMut for Lane<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.0
    }
}

impl sealed::Sealed for Lane<'_> {
    #[inline]
    fn access(&mut self) -> sealed::Access<'_> {
        sealed::Access(self.0.held())
    }
}

impl Enter for Lane<'_> {}

/// A function of a domain with its type, for all lanes of a world. It is looked up once in each.
#[derive(Debug)]
pub struct LaneFn<F> {
    domain: String,
    function: String,
    lanes: [OnceLock<TypedFn<F>>; crate::MAX_LANES],
}

impl<F: Function> LaneFn<F> {
    /// Names a global function of a domain.
    pub fn new(domain: impl Into<String>, function: impl Into<String>) -> Self {
        Self { domain: domain.into(), function: function.into(), lanes: [const { OnceLock::new() }; crate::MAX_LANES] }
    }

    /// Calls the function in a lane.
    ///
    /// # Errors
    /// [`CallError::Gone`] if there is no such function. Otherwise as for [`TypedFn::call`], and
    /// [`CallError::Occupied`] and [`CallError::Deadlock`].
    ///
    /// # Panics
    /// As [`TypedFn::call`].
    #[inline]
    pub fn call(&self, lane: &mut Lane<'_>, args: F::Args) -> Result<F::Output, CallError> {
        let known = &self.lanes[lane.number()];
        match known.get() {
            Some(function) => function.call(lane, args),
            None => {
                let found = lane.domain(&self.domain).and_then(|domain| domain.export(&self.function));
                let found = found.map_err(|_| CallError::Gone { domain: self.domain.clone() })?;
                known.get_or_init(|| found).call(lane, args)
            }
        }
    }
}
