//! Budgets, entry points and functions of domains, as a host asks for them while its world exists.

use crate::fault::meter;
use crate::fault::purse::Spent;
use crate::spec::DomainSpec;
use crate::world::calls::call::TypedFn;
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::Function;
use crate::world::domain_ref::DomainRef;
use crate::world::error::LookupError;
use crate::world::held::World;

/// The time that a domain used, see [`World::used`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Wall clock.
    pub wall: std::time::Duration,
    /// Processor time.
    pub cpu: std::time::Duration,
    /// Its calls of other domains and of the host, and the host's calls of it.
    pub crossings: u64,
}

impl DomainRef<'_> {
    /// Returns the domain's specification, to load it again with changes.
    pub fn spec(&self) -> DomainSpec {
        DomainSpec::clone(&self.domain().spec)
    }
}

impl World {
    /// Gives a domain its whole budget again.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn refill(&mut self, domain: &str) -> Result<(), LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        inner.refill(index);
        Ok(())
    }

    /// Returns the time that a domain used of its budget, and the number of its crossings. Only
    /// domains of worlds with a budget of some domain are charged.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn used(&mut self, domain: &str) -> Result<Used, LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        // SAFETY: the state lives as long as the world.
        let spent = unsafe {
            match &inner.lane {
                None => Spent::of(&(*inner.domains[index].state).account),
                Some(lane) => lane.purse().spent(index),
            }
        };
        let (wall, cpu) = meter::used(spent);
        Ok(Used { wall, cpu, crossings: spent.crossings })
    }

    /// Returns the names of all entry points.
    pub fn entries(&mut self) -> Vec<String> {
        self.record().manager.entries.keys().cloned().collect()
    }
}

/// Functions and pointers of any domain, from within a host function.
impl HostCall<'_> {
    /// Returns a global function of any domain, to call it:
    /// `cx.export::<fn(u64) -> u64>("codec", "size")?.call(cx, (1,))`.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn export<F: Function>(&mut self, domain: &str, function: &str) -> Result<TypedFn<F>, LookupError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        let offset = inner.domains[index]
            .image
            .functions_by_name
            .get(function)
            .copied()
            .ok_or_else(|| LookupError::Function { domain: domain.to_owned(), function: function.to_owned() })?;
        Ok(inner.typed(index, offset, Some(function.into())))
    }

    /// Returns a pointer of one domain in the terms of another, with the offset in its window, as
    /// the gates pass arguments that a signature calls `ptr`. Null stays null, and a pointer into a
    /// shared region that the domain sees stays as it is.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn rebase(&mut self, domain: &str, pointer: u64) -> Result<u64, LookupError> {
        let inner = self.record();
        Ok(inner.domains[inner.find(domain)?].rebase(pointer))
    }
}
