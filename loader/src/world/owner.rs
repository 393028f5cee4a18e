//! The price of faults of a world's domains for their owners.

use crate::fault::clock::when;
use crate::fault::limits::waited;
use crate::fault::trace::FaultThread;
use crate::gate::ids::DomainId;
use crate::spec::owner::{NotAdmitted, Owner};
use crate::world::domain::Domain;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BuildError, LookupError};
use crate::world::held::World;
use crate::world::inner::Inner;
use crate::world::lanes::Lane;
use std::time::Instant;

impl<'w> DomainRef<'w> {
    /// Returns the owner, who answers for the domain.
    pub fn owner(&self) -> Option<&'w Owner> {
        self.domain().spec.owner.as_ref()
    }
}

impl Inner {
    /// Reports a fault to the domain's owner, unless that was done already.
    pub(crate) fn settle(&mut self, index: DomainId) {
        if let Some(lane) = self.lane.clone() {
            return self.settle_lanes(&lane, index);
        }
        let domain = &mut self.domains[index];
        // SAFETY: the state lives as long as the world.
        let fault = unsafe { (*domain.state).fault };
        if fault.signal == 0 || waited(&fault) || domain.settled {
            return;
        }
        domain.settled = true;
        if let Some(owner) = self.domains[index].spec.owner.as_ref() {
            // SAFETY: the call that met the fault is over.
            owner.faulted(unsafe { Domain::describe(&self.domains, index) }, when(&fault));
        }
    }

    /// Reports the domain's faults in this lane, and in lanes that are outside if its life is over.
    fn settle_lanes(&self, lane: &Lane, index: DomainId) {
        let (home, domain) = (lane.home(index), &self.domains[index]);
        let Some(owner) = &domain.spec.owner else { return };
        home.faults.tell(lane.number, lane.room(index), |number, fault, trace| {
            if waited(&fault) {
                return;
            }
            let memory = home.memory();
            let window = memory.as_ref().map_or(&domain.window, |shared| shared.window_of(number));
            let place = (window, Some(FaultThread::Lane(number)));
            owner.faulted(domain.describe_in(place, &fault, &trace, index, &self.domains), when(&fault));
        });
    }

    /// Reports the domain's fault to its owner before the domain lives again, and makes the owner
    /// pay.
    pub(crate) fn admit(&mut self, index: DomainId) -> Result<(), BuildError> {
        self.settle(index);
        admit(self.domains[index].spec.owner.as_ref(), true)?;
        self.domains[index].settled = false;
        Ok(())
    }
}

/// Waits until an owner's penalties are over, or refuses until then.
pub(crate) fn admit(owner: Option<&Owner>, wait: bool) -> Result<(), BuildError> {
    let Some(owner) = owner else { return Ok(()) };
    let name = || owner.name().to_owned();
    owner.admit(wait).map_err(|why| match why {
        NotAdmitted::Faults(faults) => BuildError::Owner { owner: name(), faults },
        NotAdmitted::NotReady => BuildError::NotReady { owner: name() },
    })
}

impl World {
    /// Returns the time from which calls can restart a dead domain
    /// ([`crate::CallError::NotReady`]), or `None` if no penalty of its owner stands in the way.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn ready_at(&mut self, domain: &str) -> Result<Option<Instant>, LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        inner.settle(index);
        Ok(inner.domains[index].spec.owner.as_ref().and_then(Owner::ready_at))
    }
}
