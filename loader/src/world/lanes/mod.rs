//! Worlds that several threads enter at once.
//!
//! Each thread that is inside has a *lane*: a world of its own, with its own control stack, gates'
//! records and watch. All lanes have the same domains. If a domain has one E-stack, all lanes have
//! its one window, and one lane at a time is inside. If it has more, each lane has a
//! [view](crate::load::view) of it with a data stack and thread locals of its own, and so many
//! lanes may be inside at once. [`take`] has the way in, [`renew`] the restart of a domain,
//! [`reload`] its replacement, [`faults`] what its owner learns, and [`plan`] what a world with
//! lanes may have.

pub(crate) mod deadlock;
pub(crate) mod faults;
pub(crate) mod plan;
pub(crate) mod reload;
pub(crate) mod renew;
pub(crate) mod take;

use crate::fault::lanes::Members;
use crate::fault::purse::Purse;
use crate::gate::ids::{ById, DomainId, Id};
use crate::gate::kept::KeptParts;
use crate::gate::records::DomainState;
use crate::gate::room::{Occupant, Room};
use crate::link::image::{EStack, Image};
use crate::load::view::Seat;
use crate::spec::Restart;
use crate::spec::busy::Busy;
use crate::vm::region::Region;
use crate::vm::window::Window;
use crate::world::lanes::faults::Faults;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The data that all lanes of a world have in common.
pub(crate) struct Group {
    pub members: Arc<Members>,
    /// The domains.
    pub homes: ById<DomainId, Home>,
    /// The regions, to be mapped by further lanes.
    pub regions: Mutex<Vec<Region>>,
    waits: Mutex<Waits>,
}

/// A domain, for all lanes.
pub(crate) struct Home {
    /// Lanes that may be inside at a time.
    pub estacks: usize,
    pub busy: Busy,
    pub restart: Restart,
    /// Set if a reload failed when some lanes had the new domain already. It stays dead until the
    /// next one.
    pub broken: AtomicBool,
    /// The number of the present life.
    pub birth: AtomicU64,
    /// The faults in all lanes.
    pub faults: Faults,
    /// The domain's memory, once the first lane is built.
    pub memory: Mutex<Option<Shared>>,
}

/// The memory of a domain, for further lanes and for the next life.
pub(crate) struct Shared {
    pub image: Arc<Image>,
    /// The first lane's window.
    pub window: Window,
    /// The places for fibers, of all lanes that have some.
    pub kept: Vec<KeptParts>,
    /// The windows of further lanes, if they have their own, and the lanes' numbers.
    pub views: Vec<(Window, usize)>,
}

impl Shared {
    /// Returns the window of a lane.
    pub(crate) fn window_of(&self, lane: usize) -> &Window {
        self.views.iter().find(|(_, number)| *number == lane).map_or(&self.window, |(window, _)| window)
    }

    /// Returns the E-stack of a further lane and the place where it begins there.
    pub(crate) fn seat(&self, lane: usize) -> Option<(Seat, EStack)> {
        let estack = self.image.estacks.get(lane.checked_sub(1)?)?;
        Some((Seat::of_lane(&self.window, &self.image, estack)?, *estack))
    }
}

/// The waits of lanes, and the restarts of domains.
pub(super) struct Waits {
    /// The domain that each lane waits for.
    waiting: Vec<Option<DomainId>>,
    /// The lane that restarts a domain, and the number of its restarts so far.
    renewing: Vec<(Option<usize>, u32)>,
}

/// A lane's part in its group.
#[derive(Clone)]
pub(crate) struct Lane {
    pub group: Arc<Group>,
    pub number: usize,
}

impl Lane {
    /// Returns what all lanes know of a domain.
    pub(crate) fn home(&self, domain: DomainId) -> &Home {
        &self.group.homes[domain]
    }

    /// Returns the room of a domain.
    pub(crate) fn room(&self, domain: DomainId) -> &Room {
        &self.group.members.rooms[domain.place()]
    }

    /// Notes where this lane's record of a domain is.
    pub(crate) fn join(&self, domain: DomainId, state: *mut DomainState) {
        self.home(domain).faults.record(self.number, state);
        self.purse().record(self.number, domain, state);
    }

    /// Returns the time of the domains in all lanes.
    pub(crate) fn purse(&self) -> &Purse {
        &self.group.members.purse
    }

    /// Takes this lane's records out, before they are freed.
    pub(crate) fn part(&self) {
        self.group.homes.ids().for_each(|domain| self.join(domain, ptr::null_mut()));
        self.purse().attach(self.number, ptr::null_mut());
    }

    /// Returns the number of a domain's restarts that calls asked for.
    pub(crate) fn restarts(&self, domain: DomainId) -> u32 {
        self.group.waits().renewing[domain.place()].1
    }

    /// Returns the record of the thread that runs the lane.
    pub(crate) fn occupant(&self) -> &Occupant {
        &self.group.members.occupants[self.number]
    }
}

impl Group {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        // No code panics while the lock is held.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home {
    /// Locks the domain's memory.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Option<Shared>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
