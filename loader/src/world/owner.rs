//! The price of faults of a world's domains for their owners.

use crate::fault::clock::when;
use crate::fault::limits::waited;
use crate::gate::ids::DomainId;
use crate::spec::owner::{NotAdmitted, Owner};
use crate::world::domain::Domain;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BuildError, LookupError};
use crate::world::held::World;
use crate::world::inner::Inner;
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
