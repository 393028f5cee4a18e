//! Domains that are loaded again, and dead ones that live again, while their world goes on.
//! Bindings are redirected to the replacement.

use crate::gate::ids::{BindingId, DomainId, Id};
use crate::gate::records::{DomainState, Status};
use crate::link;
use crate::load::raised::{self, Raised};
use crate::load::{self, Surroundings};
use crate::spec::{DomainSpec, Restart};
use crate::vm::error::MapError;
use crate::world::bindings::described::{all_registered, records, stubs};
use crate::world::bindings::manager::{By, Registered};
use crate::world::bindings::record::{Record, To};
use crate::world::check::check_domain;
use crate::world::domain::{Domain, first_usage};
use crate::world::error::{BindError, BuildError, SpecError};
use crate::world::frames::Activity;
use crate::world::held::Held;
use crate::world::inner::Inner;
use crate::world::owner;
use crate::world::threads;
use sfi_verifier::Usage;
use std::collections::HashSet;
use std::sync::Arc;

/// A domain that was made for the place of another one.
pub(crate) struct Made {
    pub raised: Raised,
    records: Vec<Record>,
    pub first: BindingId,
    registered: Vec<(String, Registered)>,
}

impl Held<'_> {
    /// Loads a domain again at a fresh place, at once or when its owner's penalties are over, from
    /// other objects or the same ones. Its bindings are redirected to functions of the same names.
    /// A binding to a function that no longer exists leads nowhere. If it fails before the
    /// initialisers run, the old domain stays.
    pub(crate) fn load_again(&mut self, index: DomainId, spec: Arc<DomainSpec>, wait: bool) -> Result<(), BuildError> {
        self.manager.changes()?;
        let made = self.make_loaded(index, &spec, wait)?;
        self.put(index, made, spec)?;
        self.initialise(index)
    }

    /// Loads a domain for the place of another one, which goes on.
    pub(crate) fn make_loaded(
        &mut self,
        index: DomainId,
        spec: &Arc<DomainSpec>,
        wait: bool,
    ) -> Result<Made, BuildError> {
        self.make(index, spec, wait, |this, first| {
            let mut plan = link::plan(spec, &spec.roots(&this.domains[index].roots))?;
            let around = Surroundings { regions: this.regions.as_slice(), map: &this.supply.map, entry: None };
            Ok(load::load(&mut this.supply.places.draw(), spec, &mut plan, &around, &stubs(spec, first))?)
        })
    }

    /// Makes a domain for the place of another one, which goes on. `raise` gets the number of its
    /// first record, and raises it.
    pub(crate) fn make(
        &mut self,
        index: DomainId,
        spec: &Arc<DomainSpec>,
        wait: bool,
        raise: impl FnOnce(&mut Inner, BindingId) -> Result<Raised, BuildError>,
    ) -> Result<Made, BuildError> {
        let this: &mut Inner = self;
        let name = this.domains[index].name.clone();
        if spec.name != name {
            return Err(SpecError::Renamed { domain: name, name: spec.name.clone() }.into());
        }
        threads::only_without(&this.domains[index].spec)?;
        threads::only_without(spec)?;
        if this.activity().domains.contains(&index) {
            return Err(BindError::Active { domain: name }.into());
        }
        // The stubs of instances lead through the same records.
        if this.has_instances(index) {
            return Err(BindError::Instances { domain: name }.into());
        }
        this.settle(index);
        owner::admit(spec.owner.as_ref(), wait)?;
        let find = |n: &str| this.domains.position(|d| d.name == n);
        let exports = |domain: &str| Some(&*this.domains[find(domain)?].spec);
        let regions: HashSet<&str> = this.regions.iter().map(|r| r.name.as_str()).collect();
        let names: HashSet<&str> = this.hosts.iter().map(|h| h.name.as_str()).collect();
        check_domain(spec, &regions, &names, &exports)?;
        let hosts = |name: &str| this.hosts.position(|h| h.name == name);
        let records = records(index, spec, &find, &hosts)?;
        let old = this.manager.runs[index];
        let first = if records.len() > old.count { this.manager.free_run(records.len()) } else { old.first };
        this.gates.control.reserve_bindings(first.after(records.len()).place()).map_err(MapError::of("bindings"))?;
        let raised = raise(this, first)?;
        let registered = all_registered(index, spec, &this.hosts)?;
        let functions = spec.registers.iter().flat_map(|(_, entry)| &entry.functions);
        if let Some(missing) = functions.into_iter().find(|f| !raised.image.functions_by_name.contains_key(*f)) {
            return Err(BindError::Function { domain: name, function: missing.clone() }.into());
        }
        // The header of an entry point belongs to the host and was made once.
        let header = |spec: &DomainSpec, name: &str| {
            let found = spec.registers.iter().find(|(n, _)| n == name);
            found.and_then(|(_, e)| e.header.as_ref().map(Arc::as_ptr))
        };
        let old_spec = &this.domains[index].spec;
        if let Some((entry, _)) = spec.registers.iter().find(|(n, _)| header(spec, n) != header(old_spec, n)) {
            return Err(SpecError::Header { domain: name, entry: entry.clone() }.into());
        }
        Ok(Made { raised, records, first, registered })
    }

    /// Puts a domain that was made for it in the place of another one, without its initialisers.
    pub(crate) fn put(&mut self, index: DomainId, made: Made, spec: Arc<DomainSpec>) -> Result<(), BuildError> {
        let this: &mut Inner = self;
        let Made { raised, records: new, first, registered } = made;
        // Calls in progress return by flags that depend on the registers that domains use. The GS
        // base depends on the gate of the call alone.
        let was = Usage { gs: true, ..this.domains[index].usage };
        let is = first_usage(raised.image.usage, &spec);
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        let depth = unsafe { (*this.gates.control.context()).depth };
        if depth > 0 && was.union(is) != was {
            return Err(BindError::Busy { domain: this.domains[index].name.clone() }.into());
        }
        if depth > 0 {
            let floats = |r: &&Record| r.to == To::Nobody || r.passes_floats();
            let sides = |r: &Record| [Some(index), r.to.domain()];
            let all: Vec<Option<DomainId>> = new.iter().filter(floats).flat_map(sides).collect();
            this.pass_floats(&all)?;
        }
        this.manager.take_run(index, new.len());
        for (n, record) in new.into_iter().enumerate() {
            this.manager.records[first.after(n)] = Some(record);
        }
        // SAFETY: the domain is not among those that calls return to.
        unsafe { self.install(index, raised, spec, registered) }
    }

    /// Puts a domain in a window of its own in the place of the old one, and redirects the old
    /// one's bindings to it.
    ///
    /// # Safety
    /// No call returns to the domain.
    unsafe fn install(
        &mut self,
        index: DomainId,
        raised: Raised,
        spec: Arc<DomainSpec>,
        registered: Vec<(String, Registered)>,
    ) -> Result<(), BuildError> {
        let this: &mut Inner = self;
        let active = this.activity();
        // SAFETY: see the function's contract; the window and the fibers' places are replaced.
        unsafe { this.drop_links(index, true)? };
        this.replace(index, raised, spec);
        this.set_torn(index, true);
        if active.domains.is_empty() {
            let all: Vec<Option<DomainId>> = this.domains.ids().filter(|i| this.passes_floats(*i)).map(Some).collect();
            this.pass_floats(&all)?;
        }
        this.show_all(index)?;
        // In further lanes the domain has its capabilities.
        if this.lane.as_ref().is_none_or(|lane| lane.number == 0) {
            this.hand_out(index)?;
        }
        this.rewrite(index, &active)?;
        this.register_again(index, registered)?;
        this.connect_waiting(false)?;
        this.set_torn(index, false);
        Ok(())
    }

    /// Loads a domain with instances again in a fresh window. Its image stays.
    ///
    /// # Safety
    /// No call returns to the domain.
    unsafe fn raise_again(&mut self, index: DomainId) -> Result<(), BuildError> {
        let this: &mut Inner = self;
        this.settle(index);
        let domain = &this.domains[index];
        owner::admit(domain.spec.owner.as_ref(), false)?;
        let (spec, image) = (Arc::clone(&domain.spec), Arc::clone(&domain.image));
        let raised = raised::again(&mut this.supply.places.draw(), &spec, image, this.regions.as_slice())?;
        let registered = all_registered(index, &spec, &this.hosts)?;
        // SAFETY: see the function's contract.
        unsafe { self.install(index, raised, spec, registered)? };
        self.initialise(index)
    }

    /// Restarts a dead domain if its specification allows that and no call returns to it: loads it
    /// again, at a fresh place. Never waits for penalties, so that a caller does not pay for the
    /// domain's owner. If it is not restarted, returns the status for its callers.
    #[cold]
    pub(crate) fn revive(&mut self, index: DomainId) -> Result<(), Status> {
        if self.lane.is_some() {
            return self.revive_lane(index);
        }
        // SAFETY: states live as long as the world; no call returns to the domain where it is
        // loaded or raised again.
        unsafe {
            let this: &mut Inner = self;
            let active = this.activity();
            let Some(domain) = this.domains.get_mut(index) else { return Err(Status::Dead) };
            let allowed = match domain.spec.restart {
                Restart::Never => false,
                _ if domain.life != 0 => false,
                Restart::Always => true,
                Restart::Limited(most) => domain.restarts < most,
            };
            if !allowed || active.domains.contains(&index) {
                return Err(Status::Dead);
            }
            let spec = Arc::clone(&domain.spec);
            this.settle(index);
            if let Err(BuildError::NotReady { .. }) = owner::admit(spec.owner.as_ref(), false) {
                return Err(Status::NotReady);
            }
            if (*this.domains[index].state).fault.signal != 0 {
                let crash = Domain::describe(&this.domains, index);
                this.domains[index].crash = Some(crash);
            }
            let loaded =
                if this.has_instances(index) { self.raise_again(index) } else { self.load_again(index, spec, false) };
            let tried = !matches!(loaded, Err(BuildError::Owner { .. } | BuildError::NotReady { .. }));
            self.domains[index].restarts += u32::from(tried);
            loaded.map_err(|error| match error {
                BuildError::NotReady { .. } => Status::NotReady,
                _ => Status::Dead,
            })
        }
    }
}

impl Inner {
    /// Says whether another window holds the domain's image, or the domain is such an instance.
    pub(crate) fn has_instances(&self, index: DomainId) -> bool {
        self.domains.enumerate().any(|(i, d)| d.life != 0 && (d.origin == index || i == index))
    }

    /// Begins or ends the time in which bindings may lead to the domain that this one replaced. The
    /// gates do not enter a dead one.
    fn set_torn(&mut self, index: DomainId, torn: bool) {
        let domain = &mut self.domains[index];
        domain.torn = torn;
        let (dead, sp) = if torn { (Status::Dead, 0) } else { (Status::Ok, domain.initial_sp) };
        // SAFETY: the state lives as long as the world, and no code of the domain runs.
        unsafe { ((*domain.state).dead, (*domain.state).sp) = (dead, sp) };
    }

    /// Replaces a domain that no call returns to by a loaded one.
    fn replace(&mut self, index: DomainId, loaded: Raised, spec: Arc<DomainSpec>) {
        self.new_life(index);
        let domain: &mut Domain = &mut self.domains[index];
        // SAFETY: the state lives as long as the world, and nobody else uses it now.
        unsafe {
            let state = &mut *domain.state;
            // Sums of several lanes only grow.
            let (next, door, room, account) = (state.next, state.door, state.room, state.account);
            *state = DomainState { next, door, room, account, ..loaded.state(index, state.generation + 1) };
        }
        domain.mode = spec.mode;
        domain.observed = loaded.observed;
        domain.window = loaded.window;
        domain.usage = first_usage(loaded.image.usage, &spec);
        domain.image = loaded.image;
        domain.initial_sp = loaded.initial_sp;
        domain.kept = loaded.kept;
        domain.spec = spec;
        domain.own_segments = None;
        domain.settled = false;
        self.refill(index);
        let usage = self.domains[index].usage;
        if usage.x87 && !self.gates.any_x87 {
            // Entries that the host looked up before do not reset state that this domain leaves
            // behind.
            self.domains.ids().for_each(|index| self.renew(index));
        }
        self.gates.note_x87(usage);
    }

    /// Writes every record again after a domain was replaced. Records that calls in progress return
    /// by do not lead into it.
    fn rewrite(&mut self, index: DomainId, active: &Activity) -> Result<(), BindError> {
        for record in self.manager.records.iter_mut().flatten() {
            if matches!(record.to, To::Code { domain, .. } if domain == index) {
                record.to = To::Nobody;
            }
        }
        self.gates.control.reserve_bindings(self.manager.records.len()).map_err(BindError::Memory)?;
        let idle = |n: &BindingId| !active.bindings.contains(&self.gates.control.binding(*n));
        let numbers: Vec<BindingId> = self.manager.records.ids().skip(1).filter(idle).collect();
        self.write(numbers)?;
        self.write_reviver()
    }

    /// Registers a replaced domain's entry points anew. Those that its specification registers no
    /// longer, or otherwise, go, and so do those that the domain registered itself. The host's own
    /// decisions stay: its entry points, and those that it took back.
    fn register_again(&mut self, index: DomainId, new: Vec<(String, Registered)>) -> Result<(), BindError> {
        let full = |name: &str| format!("{}.{name}", self.domains[index].name);
        let manager = &self.manager;
        let decided = |name: &String| {
            manager.withdrawn.contains(name) || manager.entries.get(name).is_some_and(|e| e.by == By::Host)
        };
        let new: Vec<(String, Registered)> =
            new.into_iter().map(|(name, entry)| (full(&name), entry)).filter(|(name, _)| !decided(name)).collect();
        let kept = |name: &String, old: &Registered| match old.by {
            By::Specification => new.iter().any(|(n, e)| n == name && e.to == old.to && e.signature == old.signature),
            By::Host => true,
            By::Domain => false,
        };
        let gone: Vec<String> = self
            .manager
            .entries
            .iter()
            .filter(|(name, e)| e.owner == Some(index) && !kept(name, e))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.unregister(&name)?;
        }
        self.manager.entries.extend(new);
        Ok(())
    }
}
