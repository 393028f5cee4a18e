//! A linked library as hosts see it.

use crate::gate::ids::DomainId;
use crate::link::symbols::Target;
use crate::vm::address::WindowOffset;
use crate::world::calls::call::{Enter, Hold, TypedFn};
use crate::world::calls::values::{Function, Pointer};
use crate::world::domain::Domain;
use crate::world::inner::Inner;
use crate::world::links::error::LibraryError;
use crate::world::links::record::{Link, memory};
use crate::world::links::slots::Taken;

/// A library that was linked into a live domain, see [`crate::Manage::link`]. It is gone when it is
/// unlinked, and when the domain is restarted, reset or loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linked {
    pub(super) world: u64,
    pub(super) domain: DomainId,
    pub(super) number: u64,
}

impl Linked {
    /// Finds a global function of the library. You state its type. A call costs what a call of any
    /// function of the domain costs. Once the library is unlinked, a call is an error
    /// ([`crate::CallError::Gone`]).
    ///
    /// # Errors
    /// [`LibraryError::Symbol`], [`LibraryError::Gone`].
    pub fn export<F: Function>(
        self,
        enter: &mut (impl Enter + ?Sized),
        function: &str,
    ) -> Result<TypedFn<F>, LibraryError> {
        let held = enter.held();
        let (_, link) = held.linked(self)?;
        let offset = link.functions.get(function).copied().ok_or_else(|| unknown(link, function))?;
        Ok(held.typed(self.domain, offset, Some(function.into())))
    }

    /// Returns the address of a global symbol, in the domain's terms. That of a function is a
    /// function pointer, and one of the domain's reserved slots belongs to it from then on.
    ///
    /// # Errors
    /// [`LibraryError::Symbol`], [`LibraryError::Gone`]; [`LibraryError::Bound`] if no slot is
    /// left.
    pub fn symbol(self, enter: &mut (impl Enter + ?Sized), name: &str) -> Result<Pointer, LibraryError> {
        enter.held().address(self, name)
    }
}

fn unknown(link: &Link, symbol: &str) -> LibraryError {
    LibraryError::Symbol { library: link.name.clone(), symbol: symbol.to_owned() }
}

impl Inner {
    /// Returns the domain and the library that a handle means.
    pub(crate) fn linked(&self, linked: Linked) -> Result<(&Domain, &Link), LibraryError> {
        let domain = self.domains.get(linked.domain).filter(|_| linked.world == self.id);
        let domain = domain.ok_or(LibraryError::Gone)?;
        let links = domain.links.as_ref().ok_or(LibraryError::Gone)?;
        Ok((domain, links.get(linked.number).ok_or(LibraryError::Gone)?))
    }

    /// Returns the address of a symbol of a library. A function gets a slot if it has none.
    pub(crate) fn address(&mut self, linked: Linked, name: &str) -> Result<Pointer, LibraryError> {
        let (_, link) = self.linked(linked)?;
        let found = link.symbol(name).ok_or_else(|| unknown(link, name))?;
        let Target::Outside { offset, code } = found else { return Err(unknown(link, name)) };
        let (library, of) = ((link.library, link.text.clone()), link.name.clone());
        let place = if code { self.slot_of(linked.domain, offset, library, of)? } else { offset };
        Ok(Pointer(self.domains[linked.domain].window.at(place).number()))
    }

    /// Returns the place of the slot of a function of the domain's own objects, or of a library
    /// that others see. It gets one if it has none.
    pub(crate) fn pointer_to(&mut self, index: DomainId, code: WindowOffset) -> Result<WindowOffset, LibraryError> {
        let none = (0, WindowOffset::ZERO..WindowOffset::ZERO);
        let link = self.domains[index].link_at(code).map(|link| ((link.library, link.text.clone()), link.name.clone()));
        let (library, name) = link.unwrap_or((none, String::new()));
        self.slot_of(index, code, library, name)
    }

    fn slot_of(
        &mut self,
        index: DomainId,
        code: WindowOffset,
        library: (u64, std::ops::Range<WindowOffset>),
        name: String,
    ) -> Result<WindowOffset, LibraryError> {
        if self.domains[index].links.is_none() {
            self.domains[index].links = Some(Box::new(self.new_links(index)?));
        }
        let domain = &mut self.domains[index];
        let Some(mut links) = domain.links.take() else { return Err(LibraryError::Gone) };
        let (mut taken, number) = (Taken::default(), library.0);
        let slot = links.slots.find(code, library, &mut taken);
        let written = links.slots.commit(&domain.window, number, taken).map_err(|error| memory(&domain.name, error));
        let most = domain.spec.link_room.map_or(0, |room| room.slots) as u64;
        let full = LibraryError::Bound { domain: domain.name.clone(), library: name, what: "function pointers", most };
        let place = slot.map(|slot| links.slots.place(slot)).ok_or(full);
        domain.links = Some(links);
        written?;
        place
    }
}
