//! Building a world, phase by phase: verify, link, place, relocate, seal, verify again, bind,
//! initialise.

use crate::fault::limits::{Budget, Limits};
use crate::fault::signal_room;
use crate::fault::signals;
use crate::fault::trace::FaultThread;
use crate::fault::watched::Watched;
use crate::gate::Machine;
use crate::gate::control_stack::ControlStack;
use crate::gate::ids::{ById, DomainId, HostId, Id, RegionId};
use crate::gate::records::{Context, Waits};
use crate::link::place::place_regions;
use crate::link::{self, Plan};
use crate::load::image_files;
use crate::load::keep::Keep;
use crate::load::raised::{self, Raised};
use crate::load::{Surroundings, load};
use crate::spec::{Callee, DEFAULT_CALLBACKS, DEFAULT_CONTROL_STACK, DomainSpec, Import};
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::vm::region::{self, Common, Placed, Region};
use crate::vm::space::{Draw, Places};
use crate::vm::window::pages;
use crate::world::bindings::described::{records, stubs};
use crate::world::bindings::manager::{Manager, Rules};
use crate::world::builder::Builder;
use crate::world::calls::buffers_in;
use crate::world::calls::builtin;
use crate::world::calls::header;
use crate::world::calls::host::Host;
use crate::world::domain::{Domain, RegionPlace};
use crate::world::error::BuildError;
use crate::world::held::World;
use crate::world::inner::{Gates, Inner, Supply, Time};
use crate::world::lanes::Lane;
use crate::world::links::open;
use crate::world::lives::Lives;
use crate::world::owner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::io::Write as _;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Builder {
    /// Builds the world. Every object is verified before any of it is mapped, and the linked text
    /// is verified again at the place where it runs.
    ///
    /// # Errors
    /// [`BuildError`]. Nothing stays mapped then.
    pub fn build(mut self) -> Result<World, BuildError> {
        self.complete()?;
        self.check()?;
        let mut places = self.places()?;
        let rules = Rules::new(std::mem::take(&mut self.permits), self.hook.take());
        let mut manager = Manager::new(rules, std::mem::take(&mut self.supervisors));

        // Plan: select and verify the objects, resolve symbols. Nothing is mapped yet.
        let roots: Vec<Vec<String>> = self.domains.iter().map(|spec| self.roots(spec)).collect();
        let initialised = self.prepared.is_none() && self.further_lane().is_none();
        let entry = self.entry(&roots);
        if let Some(mut image) = entry.as_ref().and_then(|entry| entry.find()) {
            raised::store(&mut image, &self.domains[0])?;
            image.forget();
            self.prepared = Some(Arc::new(image));
        }
        let mut plans = self.plans(&roots)?;

        // Place the shared regions.
        let lengths: Vec<u64> = self.regions.iter().map(|(_, bytes)| pages(*bytes)).collect();
        let (map, offsets) = place_regions(&mut places.rng, &lengths)?;
        let regions = match self.further_lane() {
            Some(lane) => self.regions_again(lane)?,
            None => self.make_regions(&mut places.draw(), &offsets)?,
        };
        let mut supply = Supply { places, map, lives: Lives::default() };

        // Load each domain: place, relocate, seal, verify again.
        let loaded = self.load(&mut plans, &mut supply, (&regions, entry.as_deref()), &mut manager)?;
        if let Some(lane) = self.lane.as_ref().filter(|lane| lane.number == 0) {
            lane.share(&loaded, &regions)?;
        }
        drop(plans);
        // The store's key leaves this process's memory before any code of a domain runs.
        self.image_store = None;
        drop(entry);

        // Open the world: from here on signal handlers and gates can find it.
        let mut world = World::open(self.record(loaded, roots, supply, regions, manager)?);

        // Bind.
        world.record().set_up()?;

        // Initialise. A prepared world is initialised when it is used.
        if initialised {
            world.get().domains.ids().try_for_each(|index| world.initialise(index))?;
        }
        world.record().manager.fixed = world.get().lane.is_some();
        Ok(world)
    }

    /// Completes the description by the loader's own host functions and by defaults.
    fn complete(&mut self) -> Result<(), BuildError> {
        if let Some(error) = self.bad_signature.take() {
            return Err(error);
        }
        let mut own: Vec<Host> = Vec::new();
        for (name, function) in builtin::all() {
            own.push(Host::new(name.to_owned(), function));
        }
        own.extend(open::all());
        for domain in &self.domains {
            for (symbol, import) in &domain.imports {
                if let (Callee::Domain { domain: callee, function }, Some(declaration)) =
                    (&import.callee, &import.interface)
                {
                    let copier = buffers_in::forward(callee.clone(), function.clone(), declaration.clone());
                    own.push(Host::reentrant(buffers_in::host_name(&domain.name, symbol), copier));
                }
            }
            for (name, entry) in &domain.registers {
                let function = header::forward(domain.name.clone(), entry);
                own.extend(function.map(|f| Host::new(header::host_name(&domain.name, name), f)));
            }
        }
        for (name, function) in &self.shared {
            let function = Arc::clone(function);
            own.push(Host::reentrant(name.clone(), move |cx| function(cx)));
        }
        self.hosts.append(&mut own);
        for index in 0..self.domains.len() {
            let imports = self.domains.iter().flat_map(|spec| &spec.imports).map(|(_, import)| import);
            let count = if self.domains[index].takes_functions(imports) { DEFAULT_CALLBACKS } else { 0 };
            let domain = &mut self.domains[index];
            domain.callbacks.get_or_insert(count);
            domain.clock &= self.clock;
        }
        Ok(())
    }

    /// Makes the source of all places.
    fn places(&self) -> Result<Places, BuildError> {
        let space = self.la57.space()?;
        let rng = ChaCha20Rng::from_seed(self.seed.map_or_else(os_seed, Ok)?);
        Ok(Places { rng, space })
    }

    /// Returns the place of the one domain's image in the store.
    fn entry(&self, roots: &[Vec<String>]) -> Option<Box<dyn Keep>> {
        let alone = self.domains.len() == 1 && self.prepared.is_none() && self.seed.is_none();
        if !alone || !self.supervisors.is_empty() {
            return None;
        }
        let (spec, roots) = (&self.domains[0], &roots[0]);
        match (&self.image_store, &self.image_files) {
            (Some(store), _) => Some(Box::new(store.entry(spec, roots)?)),
            (None, Some(files)) => Some(Box::new(image_files::Entry::new(files, spec, roots)?)),
            (None, None) => None,
        }
    }

    /// Plans each domain. There are no plans if the image exists already.
    fn plans(&self, roots: &[Vec<String>]) -> Result<Vec<Plan<'_>>, BuildError> {
        let planned =
            if self.prepared.is_some() || self.further_lane().is_some() { &[] } else { self.domains.as_slice() };
        let plans = planned.iter().zip(roots).map(|(spec, roots)| link::plan(spec, &spec.roots(roots)));
        Ok(plans.collect::<Result<_, _>>()?)
    }

    /// Returns the functions of a domain that other domains import.
    fn roots(&self, spec: &DomainSpec) -> Vec<String> {
        let imports = self.domains.iter().flat_map(|d| &d.imports);
        let of = |(_, import): &(String, Import)| match &import.callee {
            Callee::Domain { domain, function } if *domain == spec.name => Some(function.clone()),
            _ => None,
        };
        imports.filter_map(of).collect()
    }

    /// Makes the regions at these window offsets.
    fn make_regions(&self, draw: &mut Draw<'_>, offsets: &[WindowOffset]) -> Result<Vec<Region>, BuildError> {
        let mut regions = Vec::new();
        let mut before = Vec::new();
        for ((name, bytes), offset) in self.regions.iter().zip(offsets) {
            let (length, failed) = (pages(*bytes), |error| MapError::new(&format!("region `{name}`"), error));
            let given = self.region_files.iter().find(|(given, _)| given == name);
            let made = given.map_or_else(|| region::create(length), |(_, file)| file.open());
            let (file, view) = made.map_err(failed)?;
            let common = Common::reserve(draw, *offset, length, &before).map_err(failed)?;
            before.push(common.address());
            let place = Placed { offset: *offset, length, common: common.address() };
            regions.push(Region { name: name.clone(), file, view, place, common });
        }
        Ok(regions)
    }

    /// Raises each domain in a window, and takes numbers for its bindings.
    fn load(
        &self,
        plans: &mut [Plan<'_>],
        supply: &mut Supply,
        (regions, entry): (&[Region], Option<&dyn Keep>),
        manager: &mut Manager,
    ) -> Result<Vec<Raised>, BuildError> {
        // Further lanes have the domains of the first one.
        for spec in self.domains.iter().filter(|_| self.further_lane().is_none()) {
            owner::admit(spec.owner.as_ref(), true)?;
        }
        let hosts = |name: &str| self.hosts.iter().position(|host| host.name == name).map(HostId::of);
        let find = |name: &str| self.domains.iter().position(|d| d.name == name).map(DomainId::of);
        let mut loaded = Vec::new();
        for (index, spec) in self.domains.iter().enumerate() {
            let id = DomainId::of(index);
            let records = records(id, spec, &find, &hosts)?;
            let first = manager.take_run(id, records.len());
            for (n, record) in records.into_iter().enumerate() {
                manager.records[first.after(n)] = Some(record);
            }
            let around = Surroundings { regions, map: &supply.map, entry };
            let places = &mut supply.places.draw();
            loaded.push(match (&self.prepared, &self.seat) {
                (Some(image), Some(seat)) => raised::view(places, spec, Arc::clone(image), seat)?,
                (Some(image), None) => raised::again(places, spec, Arc::clone(image), regions)?,
                (None, _) => match self.further_lane() {
                    Some(lane) => lane.raise(places, spec, id, regions)?,
                    None => load(places, spec, &mut plans[index], &around, &stubs(spec, first))?,
                },
            });
        }
        Ok(loaded)
    }

    /// Makes the record of the world.
    fn record(
        self,
        loaded: Vec<Raised>,
        roots: Vec<Vec<String>>,
        mut supply: Supply,
        regions: Vec<Region>,
        manager: Manager,
    ) -> Result<Inner, BuildError> {
        let places_of = regions.iter().map(|r| (r.name.clone(), r.place));
        let region_places: Arc<ById<RegionId, RegionPlace>> = Arc::new(places_of.collect());
        let mut domains: ById<DomainId, Domain> = ById::new();
        let lane = self.lane.as_ref().map(|lane| FaultThread::Lane(lane.number));
        let thread = self.thread.map(FaultThread::Further).or(lane);
        for ((raised, spec), roots) in loaded.into_iter().zip(self.domains).zip(roots) {
            let region_places = Arc::clone(&region_places);
            domains.push(Domain {
                roots,
                region_places,
                thread,
                ..Domain::new(domains.next(), raised, Arc::new(spec))
            });
        }
        let places = &mut supply.places;
        let area = domains.iter().map(|d| d.spec.control_stack).max().unwrap_or(DEFAULT_CONTROL_STACK);
        let control = ControlStack::map(&mut places.rng, places.space, area);
        let control = control.map_err(MapError::of("the control stack"))?;
        let limits = Limits { wall: self.time_limit, cpu: self.cpu_limit };
        if let Some(lane) = &self.lane {
            for (index, domain) in domains.enumerate() {
                let room = lane.room(index);
                // SAFETY: the state is new, and nobody else knows it.
                unsafe { ((*domain.state).room, (*domain.state).door) = (room, &raw const room.doors[lane.number]) };
                lane.join(index, domain.state);
            }
        }
        let threads = |d: &Domain| d.spec.has_threads() && d.spec.lanes == 0;
        Ok(Inner {
            id: new_id(),
            gates: Gates {
                control,
                table: self.machine.unwrap_or_else(machine).table(),
                any_x87: domains.iter().any(|d| d.usage.x87),
            },
            time: Time {
                watched: match watched(self.timed, domains.iter().any(threads), limits, &domains, self.lane.as_ref())? {
                    None => self.interruptible.then(Watched::alone),
                    watched => watched,
                },
                clock: self.clock,
                trimmed: DomainId::of(0),
            },
            domains,
            hosts: self.hosts.into_iter().collect(),
            regions: regions.into_iter().collect(),
            panic: None,
            manager,
            verifier: None,
            supply,
            lane: self.lane,
        })
    }
}

impl World {
    /// Puts a record in its place. From here on signal handlers and gates can find it.
    fn open(inner: Inner) -> Self {
        let mut world = Self::new(inner);
        signals::install();
        let (place, inner) = (world.place(), world.record());
        let watch = inner.time.watched.as_ref().map_or(ptr::null(), Watched::watch);
        let low = inner.gates.control.low();
        let floor = low + signal_room::reserve();
        let occupant = inner.lane.as_ref().map_or(ptr::null(), |lane| ptr::from_ref(lane.occupant()));
        let context = inner.gates.control.context();
        // SAFETY: the world is new and owned here; the header page is mapped read-write.
        unsafe {
            context.write(Context {
                limit: floor,
                current: ptr::null_mut(),
                top: 0,
                control_sp: 0,
                host_rsp: 0,
                thread: ptr::null_mut(),
                host_mxcsr: 0,
                host_control_word: 0,
                scratch: 0,
                depth: 0,
                budgeted: 0,
                x87_places: u32::from(inner.domains.iter().any(|d| d.usage.x87_places)),
                domains: ptr::null_mut(),
                world: place.cast(),
                watch: watch.cast(),
                revive: ptr::null(),
                floor,
                since: 0,
                waits: Waits::NONE,
                ticks: 0,
                low,
                room: false,
                take: ptr::null(),
                occupant,
            });
            watch.as_ref().inspect(|w| w.attach(context));
            inner.lane.as_ref().inspect(|lane| lane.purse().attach(lane.number, context));
        }
        for index in inner.domains.ids() {
            inner.link(inner.domains[index].state);
            inner.refill(index);
        }
        world
    }
}

/// Returns a number that no other world of this process has.
fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Makes a world's watch if the world has threads, or has or may get limits or budgets.
fn watched(
    timed: bool,
    threads: bool,
    limits: Limits,
    domains: &ById<DomainId, Domain>,
    lane: Option<&Lane>,
) -> Result<Option<Watched>, BuildError> {
    let budgets: Vec<Budget> = domains.iter().map(|d| d.spec.budget).collect();
    let watch = timed || threads || limits.is_set() || budgets.iter().any(Budget::is_set);
    let members = lane.map(|lane| Arc::clone(&lane.group.members));
    let make = || {
        let watched = Watched::new(limits, &budgets, members)?;
        // The end of one thread must reach all others.
        if threads { watched.start().map(|()| watched) } else { Ok(watched) }
    };
    watch.then(make).transpose().map_err(BuildError::Watchdog)
}

/// Detects the features of this machine. Warns once if calls will be slow.
fn machine() -> Machine {
    static MACHINE: std::sync::OnceLock<Machine> = std::sync::OnceLock::new();
    *MACHINE.get_or_init(|| {
        let machine = Machine::detect();
        if !machine.fsgsbase {
            let _ = writeln!(
                std::io::stderr(),
                "warning: this kernel does not let programs set GS base; every crossing costs system calls"
            );
        }
        machine
    })
}

/// Draws 256 bits of the system's randomness.
fn os_seed() -> Result<[u8; 32], BuildError> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        filled += rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(MapError::of("a random seed"))?;
    }
    Ok(seed)
}
