//! The start and the end of domains: initialisers and finalisers.

use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::vm::address::WindowOffset;
use crate::world::error::{BuildError, CallError};
use crate::world::held::{Held, World};
use crate::world::ifunc;

impl World {
    /// Runs the resolvers and the initialisers of a domain.
    pub(crate) fn initialise(&mut self, index: DomainId) -> Result<(), BuildError> {
        self.held().initialise(index)
    }

    /// Restarts a domain in the state in which it was built: data, heap, stack and thread locals
    /// are loaded again and the initialisers run again. Shared regions and the place stay as they
    /// are.
    ///
    /// # Errors
    /// [`BuildError::Spec`] for an unknown name, [`BuildError::Initialiser`], [`BuildError::Map`].
    /// [`crate::BindError::Active`] if another lane is inside.
    pub fn restart(&mut self, name: &str) -> Result<(), BuildError> {
        let index = self.get().find(name)?;
        let mut held = self.held();
        if held.lane.is_some() {
            return held.restart_lane(index);
        }
        held.domains[index].crash = None;
        // SAFETY: `&mut self`: no call is in progress, so no frame of the domain is outstanding.
        unsafe { held.clear(index)? };
        held.initialise(index)
    }

    /// Runs the finalisers (`.fini_array`) of all living domains, the last added first. All run,
    /// and the first error is returned.
    ///
    /// # Errors
    /// [`CallError`] of a finaliser.
    pub fn shutdown(mut self) -> Result<(), CallError> {
        let mut result = Ok(());
        for index in self.get().domains.ids().rev() {
            let domain = &self.get().domains[index];
            // SAFETY: the state lives as long as the world, which this thread owns.
            if unsafe { (*domain.state).dead } != Status::Ok {
                continue;
            }
            let links = domain.links.iter().flat_map(|links| links.all.iter().rev());
            let offsets = links.flat_map(|link| &link.finalisers).chain(&domain.image.finalisers);
            let offsets: Vec<WindowOffset> = offsets.copied().collect();
            result = result.and(self.held().run_all(index, &offsets));
        }
        result
    }
}

impl Held<'_> {
    /// Chooses the functions of IFUNCs, then runs the initialisers.
    pub(crate) fn initialise(&mut self, domain: DomainId) -> Result<(), BuildError> {
        ifunc::choose(self, domain)?;
        self.run_initialisers(domain)
    }

    /// Runs the initialisers.
    pub(crate) fn run_initialisers(&mut self, domain: DomainId) -> Result<(), BuildError> {
        let offsets = self.domains[domain].image.initialisers.clone();
        self.run_all(domain, &offsets).map_err(|error| {
            let name = self.domains[domain].name.clone();
            BuildError::Initialiser { domain: name, error: Box::new(error) }
        })
    }

    /// Runs functions without arguments, in order.
    pub(crate) fn run_all(&mut self, domain: DomainId, offsets: &[WindowOffset]) -> Result<(), CallError> {
        offsets.iter().try_for_each(|offset| self.call_code(domain, *offset).map(drop))
    }
}
