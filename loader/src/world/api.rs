//! A world in the form that hosts see.

use crate::fault::trace::Namer;
use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::link::image::Image;
use crate::vm::memory::Memory;
use crate::vm::region::View;
use crate::world::bindings::policy::BindingReport;
use crate::world::domain_ref::DomainRef;
use crate::world::error::LookupError;
use crate::world::held::World;
use std::sync::Arc;

impl World {
    /// Returns an image, for further instances.
    pub(crate) fn image(&self, index: DomainId) -> Arc<Image> {
        Arc::clone(&self.get().domains[index].image)
    }

    /// Puts all domains back to their start, except for their initialisers, and forgets the host's
    /// records of calls. Returns false and leaves the domains as they are if one of them died, or
    /// if the host changed the world's shape: entry points, imports, instances, the objects of a
    /// domain.
    pub(crate) fn wipe(&mut self) -> bool {
        // SAFETY: `&mut self`: no call is in progress.
        unsafe {
            let inner = self.record();
            inner.panic = None;
            inner.manager.rules.reset();
            for domain in &mut inner.domains {
                (domain.crash, domain.restarts) = (None, 0);
            }
            !inner.manager.reshaped
                && inner.domains.iter().all(|d| (*d.state).dead == Status::Ok)
                && inner.domains.ids().all(|index| inner.clear(index).is_ok())
        }
    }

    /// Returns all bindings, in the order of the domains and their imports.
    pub fn bindings(&self) -> Vec<BindingReport> {
        self.get().reports()
    }

    /// Returns the names of the places of all domains, for [`crate::HostCall::path`].
    pub fn namer(&self) -> Namer {
        let domains = self.get().domains.iter();
        Namer { domains: domains.map(|d| (d.name.clone(), Arc::clone(&d.image.names))).collect() }
    }

    /// Returns a domain by name.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn domain(&self, name: &str) -> Result<DomainRef<'_>, LookupError> {
        let index = self.get().find(name)?;
        Ok(DomainRef { inner: self.get(), index })
    }

    /// Returns the names of all described domains, in the order in which they were added.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.get()
            .domains
            .enumerate()
            .filter(|(index, d)| d.origin == *index && !d.name.is_empty())
            .map(|(_, d)| d.name.as_str())
    }

    /// Returns a domain's memory.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn memory(&mut self, name: &str) -> Result<Memory<'_>, LookupError> {
        let index = self.get().find(name)?;
        Ok(self.get().domains[index].memory())
    }

    /// Returns a shared region's memory.
    ///
    /// # Errors
    /// [`LookupError::Region`].
    pub fn region(&mut self, name: &str) -> Result<&mut View, LookupError> {
        let region = self.record().regions.iter_mut().find(|r| r.name == name);
        region.map(|r| &mut r.view).ok_or_else(|| LookupError::Region(name.to_owned()))
    }
}
