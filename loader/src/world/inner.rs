//! A world's record.

use crate::fault::watched::Watched;
use crate::gate::Table;
use crate::gate::control_stack::ControlStack;
use crate::gate::ids::{ById, DomainId, HostId, RegionId};
use crate::link::place::Map;
use crate::vm::address::WindowOffset;
use crate::vm::region::Region;
use crate::vm::space::Places;
use crate::world::bindings::manager::Manager;
use crate::world::calls::host::Host;
use crate::world::domain::Domain;
use crate::world::error::LookupError;
use crate::world::lanes::Lane;
use crate::world::lives::Lives;
use sfi_contract::layout::DISPATCH_MASK;
use sfi_verifier::{Options, Usage, Verifier};
use std::any::Any;

/// The world's record. Gates and host functions reach it through a raw pointer while host code is
/// suspended inside a call.
pub(crate) struct Inner {
    pub id: u64,
    pub gates: Gates,
    pub domains: ById<DomainId, Domain>,
    pub hosts: ById<HostId, Host>,
    pub regions: ById<RegionId, Region>,
    /// The panic of a host function, on its way to the host code that entered a domain.
    pub panic: Option<Box<dyn Any + Send>>,
    pub time: Time,
    pub supply: Supply,
    /// Bindings and registered entry points.
    pub manager: Manager,
    /// The verifier of libraries, with its options, those of the last one. It remembers
    /// instructions.
    pub verifier: Option<(Options, Verifier)>,
    /// The world's part in a world with lanes.
    pub lane: Option<Lane>,
}

impl Gates {
    /// Notes what a text that joins the world does with x87.
    pub(crate) fn note_x87(&mut self, usage: Usage) {
        self.any_x87 |= usage.x87;
        // SAFETY: the header of the world's control stack lives as long as the world, which is
        // borrowed mutably.
        unsafe { (*self.control.context()).x87_places |= u32::from(usage.x87_places) };
    }
}

/// The way into the world's domains.
pub(crate) struct Gates {
    pub control: ControlStack,
    /// The gates for this processor.
    pub table: &'static Table,
    /// True if a domain may leave x87 state in the processor.
    pub any_x87: bool,
}

/// Time limits, and the clocks and trims that depend on them.
pub(crate) struct Time {
    /// The time limit.
    pub watched: Option<Watched>,
    /// Lets domains that ask for it read the processor's clock.
    pub clock: bool,
    /// The place of the domain at which the trimming of idle stacks goes on after a long call.
    pub trimmed: DomainId,
}

/// The source of places and numbers for windows and lives that begin later.
pub(crate) struct Supply {
    /// Draws the places and canaries of windows.
    pub places: Places,
    /// The places of shared regions in every window.
    pub map: Map,
    /// Numbers of instances and of lives, and the places of discarded instances.
    pub lives: Lives,
}

impl Inner {
    /// Returns the number of a domain by name.
    pub(crate) fn find(&self, name: &str) -> Result<DomainId, LookupError> {
        let found = self.domains.position(|d| d.name == name && !name.is_empty());
        found.ok_or_else(|| LookupError::Domain(name.to_owned()))
    }

    /// Begins another life of a domain that no call returns to. It has nothing of the last one.
    pub(crate) fn new_life(&mut self, index: DomainId) {
        self.domains[index].birth = self.supply.lives.new_birth();
        let state = self.domains[index].state;
        self.time.watched.as_ref().inspect(|watched| watched.shared().forget_interruptions(state));
    }

    /// Returns the code that a pointer of a domain means.
    pub(crate) fn code_at(&self, domain: DomainId, pointer: u64) -> Option<WindowOffset> {
        let domain = &self.domains[domain];
        domain.code_in(WindowOffset::new(domain.image.anchors.dispatch + u64::from(pointer as u32 & DISPATCH_MASK)))
    }

    /// Says whether a pointer of a domain is the address of a place of its dispatch table, as the
    /// gates judge (`REFUSE_CODE` in gate/common.s).
    pub(crate) fn is_code(&self, domain: DomainId, pointer: u64) -> bool {
        let Domain { image, window, .. } = &self.domains[domain];
        pointer.wrapping_sub(window.address(image.table).number()) < image.table_size()
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}
