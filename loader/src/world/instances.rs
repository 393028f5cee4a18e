//! Further instances of a world's domains, made and discarded at run time.

use crate::fault::meter;
use crate::gate::depths::Depths;
use crate::gate::fault::RawFault;
use crate::gate::ids::{BindingId, DomainId, RegionId};
use crate::gate::kept::KeptParts;
use crate::gate::records::{Caught, DomainState, Status};
use crate::link::image::Image;
use crate::load::observe::Observed;
use crate::load::raised;
use crate::vm::error::MapError;
use crate::vm::window::Window;
use crate::world::bindings::manager::{By, Registered};
use crate::world::bindings::record::Record;
use crate::world::domain::Domain;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BindError, BuildError, LookupError};
use crate::world::held::World;
use crate::world::inner::Inner;
use crate::world::owner;
use crate::world::threads;
use std::sync::Arc;

/// An instance that [`World::instantiate`] made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance {
    world: u64,
    index: DomainId,
    life: u64,
}

impl World {
    /// Makes another instance of a domain, at a fresh random place, in the state of the domain when
    /// it was loaded. The instance has its own memory, and the domain's verified and sealed text,
    /// imports and shared regions. The initialisers run.
    ///
    /// Text is not verified again unless it had to be copied ([`DomainRef::shares_text`]).
    /// Instances have no name that others can ask for. The result leads to the instance. A binding
    /// that the domain makes at run time also holds for its instances.
    ///
    /// # Errors
    /// [`BuildError::Spec`] for an unknown name, [`BuildError::Map`] if the kernel allows no more
    /// mappings, [`BuildError::Initialiser`], [`BuildError::Bind`] in a lane. All existing domains
    /// keep working.
    pub fn instantiate(&mut self, domain: &str) -> Result<Instance, BuildError> {
        self.get().manager.changes()?;
        let original = self.get().find(domain)?;
        let inner = self.record();
        inner.manager.reshaped = true;
        let index = inner.raise(original)?;
        let (handle, shown) = (inner.handle(index), inner.show_all(index));
        shown.map_err(BuildError::from).and_then(|()| self.initialise(index)).inspect_err(|_| {
            // SAFETY: `&mut self`: no call is in progress.
            unsafe { self.record().vacate(index) };
        })?;
        Ok(handle)
    }

    /// Returns an instance.
    ///
    /// # Errors
    /// [`LookupError::Instance`] if it was discarded or belongs to another world.
    pub fn instance(&self, instance: Instance) -> Result<DomainRef<'_>, LookupError> {
        let inner = self.get();
        let index = inner.living(instance)?;
        Ok(DomainRef { inner, index })
    }

    /// Resets an instance to its start, at its place: data, heap, stack and thread locals, whatever
    /// was changed, its registrations, and the regions that it sees. The initialisers run. After a
    /// fault prefer a fresh instance, because others may know the place of this one.
    ///
    /// # Errors
    /// [`BuildError::Spec`] for an instance that was discarded, [`BuildError::Map`],
    /// [`BuildError::Initialiser`].
    pub fn reset(&mut self, instance: Instance) -> Result<(), BuildError> {
        let index = self.get().living(instance)?;
        // SAFETY: `&mut self`: no call is in progress, so no frame of the domain is outstanding.
        unsafe {
            let inner = self.record();
            inner.clear(index)?;
            inner.hide(index)?;
        }
        self.initialise(index)
    }

    /// Discards an instance. Its memory and its mappings go back to the kernel. Functions that were
    /// looked up in it then give errors.
    ///
    /// # Errors
    /// [`LookupError::Instance`].
    pub fn discard(&mut self, instance: Instance) -> Result<(), LookupError> {
        let index = self.get().living(instance)?;
        // SAFETY: as in `reset`.
        unsafe { self.record().vacate(index) };
        Ok(())
    }
}

impl Inner {
    /// Adds the state of a new place to those that the context knows.
    pub(crate) fn link(&mut self, state: *mut DomainState) {
        // SAFETY: the header of the control stack and the states live as long as the world, which
        // is borrowed mutably.
        unsafe {
            let context = self.gates.control.context();
            (*state).next = (*context).domains;
            (*context).domains = state;
        }
    }

    /// Gives a domain its whole budgets again, of time and of instructions.
    pub(crate) fn refill(&mut self, index: DomainId) {
        let domain = &self.domains[index];
        let instructions = domain.spec.instructions.unwrap_or(0);
        // SAFETY: state and context live as long as the world, which is borrowed mutably. A domain
        // that runs keeps its budget in r14.
        unsafe {
            let account = &mut (*domain.state).account;
            match &self.lane {
                None => meter::open(account, &domain.spec.budget),
                Some(lane) => {
                    meter::bound(account, &domain.spec.budget);
                    lane.purse().forgive(index);
                }
            }
            ((*domain.state).instructions, (*domain.state).left) = (instructions, instructions);
            (*self.gates.control.context()).budgeted |= u32::from(instructions != 0);
        }
        self.time.watched.as_ref().inspect(|watched| watched.look_again());
    }

    fn handle(&self, index: DomainId) -> Instance {
        Instance { world: self.id, index, life: self.domains[index].life }
    }

    /// Returns the number of an instance that was not discarded.
    pub(crate) fn living(&self, instance: Instance) -> Result<DomainId, LookupError> {
        match self.domains.get(instance.index) {
            Some(domain) if instance.world == self.id && instance.life == domain.life => Ok(instance.index),
            _ => Err(LookupError::Instance),
        }
    }

    /// Makes a window with the image of a domain. Returns its number.
    fn raise(&mut self, original: DomainId) -> Result<DomainId, BuildError> {
        threads::only_without(&self.domains[original].spec)?;
        owner::admit(self.domains[original].spec.owner.as_ref(), true)?;
        let domain = &self.domains[original];
        let (origin, passes_floats, spec, region_places) =
            (domain.origin, domain.passes_floats, Arc::clone(&domain.spec), Arc::clone(&domain.region_places));
        let (image, name) = (Arc::clone(&domain.image), domain.name.as_str());
        let raised = raised::again(&mut self.supply.places.draw(), &spec, image, self.regions.as_slice())?;
        let life = self.supply.lives.new_instance();
        let name = format!("{name}#{life}");
        let index = self.supply.lives.take_vacant().unwrap_or(self.domains.next());
        let state = match self.domains.get(index) {
            Some(vacant) => {
                // SAFETY: the state of a vacant place belongs to the world alone. Functions that
                // were looked up in the earlier instance there know another generation.
                unsafe {
                    let (next, generation) = ((*vacant.state).next, (*vacant.state).generation + 1);
                    *vacant.state = DomainState { next, ..raised.state(index, generation) };
                }
                vacant.state
            }
            None => {
                let state = Box::into_raw(Box::new(raised.state(index, 0)));
                self.link(state);
                state
            }
        };
        // SAFETY: as above.
        unsafe { (*state).life = life };
        let domain = Domain {
            life,
            birth: self.supply.lives.new_birth(),
            origin,
            name,
            region_places,
            passes_floats,
            ..Domain::with(state, index, raised, spec)
        };
        self.domains.put(index, domain);
        self.refill(index);
        self.settle_regions(index)?;
        self.hand_out(index)?;
        Ok(index)
    }

    /// Resets a domain to its start, at its place.
    ///
    /// # Safety
    /// No call of the domain is in progress.
    pub(crate) unsafe fn clear(&mut self, index: DomainId) -> Result<(), BuildError> {
        threads::only_without(&self.domains[index].spec)?;
        if self.domains[index].torn {
            return Err(BindError::Torn { domain: self.domains[index].name.clone() }.into());
        }
        self.admit(index)?;
        self.forget(index, false)?;
        if self.domains[index].origin == index {
            self.recall(index)?;
        }
        // SAFETY: see the function's contract.
        unsafe { self.drop_links(index, false)? };
        let domain = &self.domains[index];
        // It stays dead if the reset fails in the middle.
        // SAFETY: as below.
        unsafe { ((*domain.state).dead, (*domain.state).sp) = (Status::Dead, 0) };
        raised::reset(&domain.window, &domain.image, &mut self.supply.places.rng)
            .and_then(|()| domain.kept.clear())
            .map_err(|error| MapError::new(&format!("domain `{}`", domain.name), error))?;
        self.new_life(index);
        self.refill(index);
        let domain = &self.domains[index];
        // SAFETY: the state lives as long as the world; see the function's contract.
        unsafe {
            (*domain.state).dead = Status::Ok;
            (*domain.state).fault = RawFault::default();
            (*domain.state).caught = Caught::default();
            (*domain.state).sp = domain.initial_sp;
        }
        self.hand_out(index)
    }

    /// Takes back a domain's registrations at run time. Bindings to them lead nowhere afterwards.
    fn forget(&mut self, index: DomainId, all: bool) -> Result<(), BindError> {
        let of = |e: &Registered| e.owner == Some(index) && (all || e.by == By::Domain);
        let entries = self.manager.entries.iter().filter(|(_, e)| of(e));
        let names: Vec<String> = entries.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.unregister(&name)?;
        }
        if all {
            let leads = |r: &Option<Record>| r.as_ref().is_some_and(|r| r.to.domain() == Some(index));
            let records = self.manager.records.enumerate().filter(|(_, r)| leads(r));
            let numbers: Vec<BindingId> = records.map(|(number, _)| number).collect();
            for number in numbers {
                self.undo(number, false)?;
            }
        }
        Ok(())
    }

    /// Makes the regions visible to a domain that it saw at its start, and no others.
    fn hide(&mut self, index: DomainId) -> Result<(), BindError> {
        let (shown, spec) = (std::mem::take(&mut self.domains[index].shown), Arc::clone(&self.domains[index].spec));
        for (region, _) in &shown {
            let name = &self.regions[*region].name;
            let access = spec.shared.iter().find(|s| s.region == *name).map(|s| s.access);
            self.show(index, *region, access)?;
        }
        if shown.is_empty() { Ok(()) } else { self.show_all(index) }
    }

    /// Empties a domain's place in the world. Its state stays, so that holders of pointers to it
    /// find that the domain is gone.
    ///
    /// # Safety
    /// No call of the domain is in progress.
    unsafe fn vacate(&mut self, index: DomainId) {
        self.settle(index);
        // SAFETY: see the function's contract. The window goes.
        let dropped = unsafe { self.drop_links(index, true) };
        let forgotten = dropped.and(self.forget(index, true));
        let read: Vec<RegionId> = self.read_by(index).collect();
        let domain = &mut self.domains[index];
        domain.life = 0;
        domain.origin = index;
        domain.name = String::new();
        domain.observed = Observed::default();
        domain.window = Window::none();
        domain.kept = KeptParts::none();
        domain.own_segments = None;
        domain.shown = Vec::new();
        domain.image = Arc::new(Image::default());
        domain.usage = domain.image.usage;
        // Mappings that stay are read-only, and go with the next change.
        let _ = read.into_iter().try_for_each(|region| self.map_common(region));
        let domain = &self.domains[index];
        // SAFETY: see the function's contract.
        unsafe {
            (*domain.state).dead = Status::Dead;
            (*domain.state).sp = 0;
            (*domain.state).generation += 1;
            (*domain.state).life = 0;
            (*domain.state).parts = 0;
            (*domain.state).depths = Depths::NONE;
        }
        // A binding that could not be undone leads to a state that stays dead.
        if forgotten.is_ok() {
            self.supply.lives.leave(index);
        }
    }
}
