//! The end of a library: unlinked, or gone with the life of its domain.

use crate::gate::frame::Active;
use crate::gate::ids::{BindingId, DomainId};
use crate::gate::records::Status;
use crate::vm::address::WindowOffset;
use crate::world::bindings::manager::Registered;
use crate::world::bindings::record::To;
use crate::world::error::BindError;
use crate::world::held::{Held, World};
use crate::world::inner::Inner;
use crate::world::links::error::LibraryError;
use crate::world::links::handle::Linked;
use crate::world::links::link::unmap;
use crate::world::links::record::{Link, Links, memory};
use sfi_contract::layout::WINDOW_SIZE;
use std::ops::Range;

impl Held<'_> {
    /// Runs the finalisers of a library and unlinks it.
    pub(crate) fn unlink(&mut self, linked: Linked) -> Result<(), LibraryError> {
        let this: &mut Inner = self;
        this.check_idle(linked)?;
        let link = this.link_mut(linked).ok_or(LibraryError::Gone)?;
        link.running = true;
        let (name, finalisers) = (link.name.clone(), link.finalisers.clone());
        let run = self.run_all(linked.domain, &finalisers);
        if let Some(link) = self.link_mut(linked) {
            link.running = false;
        }
        run.map_err(|error| LibraryError::Finaliser { library: name, error: Box::new(error) })?;
        // A finaliser may have linked another library, or left a fiber.
        self.check_idle(linked)?;
        self.remove(linked)
    }
}

impl Inner {
    /// Returns a link that a handle means.
    pub(crate) fn link_mut(&mut self, linked: Linked) -> Option<&mut Link> {
        let own = linked.world == self.id;
        let links = self.domains.get_mut(linked.domain).filter(|_| own)?.links.as_mut()?;
        links.all.iter_mut().find(|link| link.number == linked.number)
    }

    /// Checks that no address of a library can be used when it is gone, except for those that
    /// [`Inner::remove`] takes care of.
    fn check_idle(&self, linked: Linked) -> Result<(), LibraryError> {
        let (domain, link) = self.linked(linked)?;
        let (library, by) = (|| link.name.clone(), |other: &Link| other.needs.contains(&link.number));
        // SAFETY: the state lives as long as the world.
        if unsafe { (*domain.state).dead } != Status::Ok {
            return Err(LibraryError::Dead { domain: domain.name.clone() });
        }
        let others = domain.links.iter().flat_map(|links| &links.all);
        if let Some(other) = others.into_iter().find(|other| by(other)) {
            let (domain, by) = (domain.name.clone(), other.name.clone());
            return Err(LibraryError::Needed { domain, library: library(), by });
        }
        if link.running || self.returns_into(linked.domain, &link.text) {
            return Err(LibraryError::Active { domain: domain.name.clone(), library: library() });
        }
        Ok(())
    }

    /// Says whether a return address lies in a part of a domain's text, on the control stack or in
    /// the place of a fiber. A return address at the part's end belongs to a call in it.
    fn returns_into(&self, index: DomainId, text: &Range<WindowOffset>) -> bool {
        let domain = &self.domains[index];
        let base = domain.window.text_base().number();
        let inside = |address: u64| {
            let place = WindowOffset::new(address.wrapping_sub(base) % WINDOW_SIZE);
            text.contains(&place) || place == text.end
        };
        // SAFETY: a reference to the record exists only while the host runs, on the thread that
        // holds the world. A depth says that a host function runs. Frames are the gates' own, and
        // the words between two of them are return addresses and saved registers (gate/frame.rs). A
        // register that holds such an address keeps the library, too.
        unsafe {
            let context = &*self.gates.control.context();
            let mut part = (context.depth != 0).then(|| Active::calling_host(context));
            while let Some(active) = part {
                let own = (*active.domain).index == index;
                let mut words = (active.at..(active.entered as u64).saturating_sub(8)).step_by(8);
                if own && words.any(|at| inside(*(at as *const u64))) {
                    return true;
                }
                part = active.outer(context);
            }
        }
        domain.kept.any(inside)
    }

    /// Unlinks a library that no return address leads to.
    fn remove(&mut self, linked: Linked) -> Result<(), LibraryError> {
        let (_, link) = self.linked(linked)?;
        let text = link.text.clone();
        self.undo_code(linked.domain, &text)?;
        let Some(mut links) = self.domains[linked.domain].links.take() else { return Err(LibraryError::Gone) };
        let removed = self.take_out(&mut links, linked);
        self.domains[linked.domain].links = Some(links);
        self.note_depths(linked.domain);
        removed
    }

    fn take_out(&mut self, links: &mut Links, linked: Linked) -> Result<(), LibraryError> {
        let domain = &mut self.domains[linked.domain];
        let at = links.all.iter().position(|link| link.number == linked.number).ok_or(LibraryError::Gone)?;
        let (library, text) = (links.all[at].library, links.all[at].text.clone());
        links.slots.retire(&domain.window, library, text).map_err(|error| memory(&domain.name, error))?;
        let link = links.all.remove(at);
        self.supply.lives.words.leave(link.word);
        domain.drop_segments(&link.parts);
        unmap(domain, links, &link.parts);
        Ok(())
    }

    /// Gives gates and signal handlers the depths of a domain's texts after its libraries changed.
    /// None of its code runs.
    pub(super) fn note_depths(&mut self, index: DomainId) {
        let domain = &mut self.domains[index];
        let (image, links) = (&domain.image, domain.links.as_mut());
        let depths = links.map_or_else(|| image.depths(), |links| links.depths(image));
        // SAFETY: the state lives as long as the world, and nobody else uses it now.
        unsafe { (*domain.state).depths = depths };
    }

    /// Undoes bindings and registrations that lead into a part of a domain's text.
    fn undo_code(&mut self, index: DomainId, text: &Range<WindowOffset>) -> Result<(), BindError> {
        let leads = |to: &To| matches!(to, To::Code { domain, offset } if *domain == index && text.contains(offset));
        let entries = self.manager.entries.iter().filter(|(_, entry): &(_, &Registered)| leads(&entry.to));
        let names: Vec<String> = entries.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.unregister(&name)?;
        }
        let records = self.manager.records.enumerate();
        let numbers: Vec<BindingId> =
            records.filter(|(_, r)| r.as_ref().is_some_and(|r| leads(&r.to))).map(|(number, _)| number).collect();
        numbers.into_iter().try_for_each(|number| self.undo(number, false))
    }

    /// Drops all libraries of a domain that begins a new life. With `unmapped` its window goes too.
    ///
    /// # Safety
    /// No call of the domain is in progress, and its fibers are gone or will be forgotten.
    pub(crate) unsafe fn drop_links(&mut self, index: DomainId, unmapped: bool) -> Result<(), BindError> {
        let Some(mut links) = self.domains[index].links.take() else { return Ok(()) };
        let domain = &self.domains[index];
        // The texts of libraries go. The stubs stay closed until nothing leads there.
        // SAFETY: the state lives as long as the world, and no code of the domain runs.
        unsafe { (*domain.state).depths = domain.image.depths().closed(domain.image.own_depths().texts()) };
        for link in &links.all {
            self.supply.lives.words.leave(link.word);
        }
        for text in links.all.iter().map(|link| link.text.clone()).collect::<Vec<_>>() {
            self.undo_code(index, &text)?;
        }
        let domain = &mut self.domains[index];
        let parts: Vec<_> = links.all.drain(..).flat_map(|link| link.parts).collect();
        // SAFETY: as above.
        unsafe { (*domain.state).depths = domain.image.depths() };
        domain.drop_segments(&parts);
        if !unmapped {
            unmap(domain, &mut links, &parts);
            let (at, length) = links.slots.pages();
            if links.slots.is_mapped() {
                domain.window.unmap(at, length).map_err(BindError::Memory)?;
            }
        }
        Ok(())
    }
}

impl World {
    /// Lets later libraries of a domain have the dispatch slots of libraries that were unlinked.
    /// Returns their number.
    ///
    /// A function pointer that the domain kept from an unlinked library traps. After this call it
    /// may mean another function of the domain, and never anything outside of the domain. Without
    /// this call only the same [`crate::Library`] gets the slots again.
    ///
    /// # Errors
    /// [`LibraryError::Unknown`].
    pub fn recycle_slots(&mut self, domain: &str) -> Result<usize, LibraryError> {
        let inner = self.record();
        let index = inner.find(domain)?;
        Ok(inner.domains[index].links.as_mut().map_or(0, |links| links.slots.recycle()))
    }
}
