//! What faults of a world's domains cost their owners.

use crate::fault;
use crate::spec::owner::Owner;
use crate::world::Inner;
use crate::world::domain::Domain;
use crate::world::domain_ref::DomainRef;
use crate::world::error::BuildError;

impl<'w> DomainRef<'w> {
    /// Who answers for the domain.
    pub fn owner(&self) -> Option<&'w Owner> {
        self.domain().spec.owner.as_ref()
    }
}

impl Inner {
    /// Tells a domain's owner of a fault that nobody has told of yet.
    pub fn settle(&mut self, index: usize) {
        let domain = &mut self.domains[index];
        // SAFETY: the state lives as long as the world.
        let fault = unsafe { (*domain.state).fault };
        if fault.signal == 0 || fault::waited(&fault) || domain.settled {
            return;
        }
        domain.settled = true;
        if let Some(owner) = self.domains[index].spec.owner.as_ref() {
            // SAFETY: the call that met the fault is over.
            owner.faulted(unsafe { Domain::describe(&self.domains, index) });
        }
    }

    /// Before a domain lives again: its owner is told, and pays.
    pub fn admit(&mut self, index: usize) -> Result<(), BuildError> {
        self.settle(index);
        admit(self.domains[index].spec.owner.as_ref())?;
        self.domains[index].settled = false;
        Ok(())
    }
}

/// Waits until an owner's penalties are over.
pub fn admit(owner: Option<&Owner>) -> Result<(), BuildError> {
    let Some(owner) = owner else { return Ok(()) };
    owner.admit().map_err(|faults| BuildError::Owner { owner: owner.name().to_owned(), faults })
}
