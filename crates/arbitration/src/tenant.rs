//! The arbitration state of a domain: one for each life of the domain and of its instances. A new
//! life begins without the state of the last one.

use crate::children::Children;
use crate::clock::Clock;
use crate::descriptors::{Descriptors, Stdio};
use crate::heap::Heap;
use crate::process::Exit;
use crate::signals::Signals;
use crate::tree::{Preopen, Tree};
use sfi_loader::Tenant;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The records of one life.
#[derive(Debug)]
pub(crate) struct State {
    tenant: Tenant,
    pub tree: Tree,
    pub files: Descriptors,
    pub signals: Signals,
    pub children: Children,
    /// Says whether signals interrupt the domain while it computes, once that was asked.
    pub interrupted: Option<bool>,
    /// Made at the first call, because the domain's header page tells where its heap is.
    pub heap: Option<Heap>,
    /// The exit that the domain asked for.
    pub exit: Option<Exit>,
}

/// The states of all current lives, and the values that each begins with.
#[derive(Debug)]
pub(crate) struct Tenants {
    preopens: Arc<[Preopen]>,
    working: String,
    stdio: Vec<Option<Arc<OwnedFd>>>,
    descriptors: usize,
    clock: Clock,
    /// The state of the last caller is at the end. Each state has its own place in the world, so
    /// there are never more states than the world has had domains at a time.
    states: Vec<State>,
}

impl Tenants {
    pub(crate) fn new(
        preopens: Arc<[Preopen]>,
        working: String,
        stdio: Stdio,
        descriptors: usize,
        clock: Clock,
    ) -> Self {
        let stdio = stdio.fds.into_iter().map(|fd| fd.map(Arc::new)).collect();
        Tenants { preopens, working, stdio, descriptors, clock, states: Vec::new() }
    }

    /// Removes and returns the state of a life, or a new one if it has none yet. Drops the states
    /// of lives that this life replaces.
    pub(crate) fn take(&mut self, tenant: Tenant) -> State {
        if self.states.last().is_some_and(|state| state.tenant == tenant)
            && let Some(state) = self.states.pop()
        {
            return state;
        }
        if let Some(place) = self.states.iter().position(|state| state.tenant == tenant) {
            return self.states.remove(place);
        }
        self.states.retain(|state| !tenant.replaces(&state.tenant));
        State {
            tenant,
            tree: Tree::new(Arc::clone(&self.preopens)).starting_in(self.working.clone()),
            files: Descriptors::new(&self.stdio, self.descriptors),
            signals: Signals::new(self.clock),
            children: Children::default(),
            interrupted: None,
            heap: None,
            exit: None,
        }
    }

    /// Returns the state of the last caller.
    pub(crate) fn last(&mut self) -> Option<&mut State> {
        self.states.last_mut()
    }

    /// Puts a state back.
    pub(crate) fn put(&mut self, state: State) {
        self.states.push(state);
    }
}
