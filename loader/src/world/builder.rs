//! Building a world: verify, link, place, relocate, seal, verify again, bind, initialise.

use crate::fault::limits::{Budget, Limits};
use crate::fault::signal_room;
use crate::fault::signals;
use crate::fault::watchdog::Watched;
use crate::gate::Machine;
use crate::gate::control_stack::ControlStack;
use crate::gate::records::Context;
use crate::link::image::Image;
use crate::link::place::place_regions;
use crate::link::{self, Plan};
use crate::load::raised;
use crate::load::{Surroundings, load};
use crate::spec::signature::Signature;
use crate::spec::{Callee, DEFAULT_CALLBACKS, DomainSpec, Import, MAX_SPARE};
use crate::vm::error::MapError;
use crate::vm::region::{self, Common, Placed, Region};
use crate::vm::space::{Draw, La57, Places};
use crate::vm::window::pages;
use crate::world::bindings::described::{records, stubs};
use crate::world::bindings::manager::{self, Hook, Manager, Permit, Request};
use crate::world::calls::buffers_in;
use crate::world::calls::builtin;
use crate::world::calls::header;
use crate::world::calls::header::Supervisor;
use crate::world::calls::host::Host;
use crate::world::calls::host_call::HostCall;
use crate::world::domain::{Domain, RegionPlace};
use crate::world::error::{BindError, BuildError, HostError, SpecError};
use crate::world::held::World;
use crate::world::inner::Inner;
use crate::world::lives::Lives;
use crate::world::owner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::HashSet;
use std::io::Write as _;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Describes a world.
#[derive(Default)]
pub struct Builder {
    seed: Option<[u8; 32]>,
    machine: Option<Machine>,
    domains: Vec<DomainSpec>,
    hosts: Vec<Host>,
    regions: Vec<(String, u64)>,
    time_limit: Option<Duration>,
    cpu_limit: Option<Duration>,
    timed: bool,
    la57: La57,
    clock: bool,
    prepared: Option<Arc<Image>>,
    permits: Vec<Permit>,
    supervisors: Vec<(String, Option<Signature>)>,
    bad_signature: Option<BuildError>,
    hook: Option<Hook>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("domains", &self.domains)
            .field("regions", &self.regions)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets domains read the processor's clock (`rdtsc`) that ask for it ([`DomainSpec::clock`]).
    #[must_use]
    pub fn clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// Draws all places from this seed instead of the system's randomness. For tests: a known seed
    /// is no secret.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Uses the gates for another machine. For tests; on a processor with AVX the gates without it
    /// leave the upper halves of vector registers as they are.
    #[doc(hidden)]
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Whether windows are drawn from the 56 bits of five-level paging; default: from 47. A wrong
    /// guess is then a wrong guess among 512 times as many, for a level more of page tables.
    #[must_use]
    pub fn la57(mut self, la57: La57) -> Self {
        self.la57 = la57;
        self
    }

    /// Adds a domain.
    #[must_use]
    pub fn domain(mut self, spec: DomainSpec) -> Self {
        self.domains.push(spec);
        self
    }

    /// Offers a host function. It runs on the host's stack while its caller waits. A panic in it
    /// ends the calls that are in progress and is resumed in the host code that entered the domain.
    /// While it runs it cannot be called again.
    #[must_use]
    pub fn host_fn(
        mut self,
        name: impl Into<String>,
        function: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Self {
        self.hosts.push(Host::new(name.into(), function));
        self
    }

    /// Adds a region of zeroed memory that domains may share, `bytes` rounded up to pages.
    #[must_use]
    pub fn region(mut self, name: impl Into<String>, bytes: u64) -> Self {
        self.regions.push((name.into(), bytes));
        self
    }

    /// Ends every call of the host that takes longer, wall clock; default: none. The domain that
    /// runs then faults with [`crate::FaultKind::TimeLimit`]; it need not be the one that loops. If
    /// another domain called it, that one sees the error and has a quarter of the limit, at least
    /// 10 ms and at most 250 ms, in which to return. That time is for all domains of the call
    /// together, whoever is called or restarted meanwhile. When it is over every domain of the call
    /// ends. So a call takes at most the limit, that time, twice the precision, and what the last
    /// host function takes: these are not aborted, but the domain is ended when they return to it.
    /// Calls of a host function back into its world belong to the call that they are part of.
    /// Initialisers and finalisers are calls too, each. The precision is an eighth of the limit, at
    /// least a millisecond and at most a quarter of a second.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.time_limit = limit.into();
        self
    }

    /// The image of the one domain, linked before by a world with the same description.
    #[must_use]
    pub(crate) fn prepared(mut self, image: Arc<Image>) -> Self {
        self.prepared = Some(image);
        self
    }

    /// Ends every call of the host that uses more processor time, as [`Builder::time_limit`] does
    /// for the wall clock; what the host functions use counts.
    #[must_use]
    pub fn cpu_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.cpu_limit = limit.into();
        self
    }

    /// Lets single calls have limits of their own
    /// ([`TypedFn::call_within`](crate::TypedFn::call_within)). A world with any limit or budget
    /// can do that without.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    /// Allows clients to connect to entry points: names of domains and of entry points
    /// (`domain.name`), each of which may end in `*`. What no rule allows is refused, unless
    /// [`Builder::permission`] decides otherwise.
    #[must_use]
    pub fn permit(mut self, client: impl Into<String>, entry: impl Into<String>) -> Self {
        self.permits.push(Permit { client: client.into(), entry: entry.into() });
        self
    }

    /// Adds a supervisor domain: trusted code of the host, behind the same gateways.
    #[must_use]
    pub fn supervisor(mut self, supervisor: Supervisor) -> Self {
        for (entry, service) in supervisor.services {
            let name = format!("{}.{entry}", supervisor.name);
            match service.signature.as_deref().map(str::parse).transpose() {
                Ok(signature) => self.supervisors.push((name.clone(), signature)),
                Err(error) => {
                    let (domain, symbol) = (supervisor.name.clone(), entry);
                    self.bad_signature = Some(BuildError::Signature { domain, symbol, error });
                }
            }
            self.hosts.push(Host::new(name, service.into_function()));
        }
        self
    }

    /// Decides about connections: sees what the rules say and has the last word.
    #[must_use]
    pub fn permission(mut self, hook: impl FnMut(&Request<'_>) -> bool + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Builds the world. Every object is verified before anything of it is mapped, and the linked
    /// text again where it will run.
    ///
    /// # Errors
    /// [`BuildError`]; nothing stays mapped then.
    pub fn build(self) -> Result<World, BuildError> {
        let mut this = self;
        if let Some(error) = this.bad_signature {
            return Err(error);
        }
        for domain in &mut this.domains {
            domain.clock &= this.clock;
        }
        for (name, function) in builtin::all() {
            this.hosts.push(Host::new(name.to_owned(), function));
        }
        for domain in &this.domains {
            for (symbol, import) in &domain.imports {
                if let (Callee::Domain { domain: callee, function }, Some(declaration)) =
                    (&import.callee, &import.interface)
                {
                    let copier = buffers_in::forward(callee.clone(), function.clone(), declaration.clone());
                    this.hosts.push(Host::reentrant(buffers_in::host_name(&domain.name, symbol), copier));
                }
            }
            for (name, entry) in &domain.registers {
                let function = header::forward(domain.name.clone(), entry);
                this.hosts.extend(function.map(|f| Host::new(header::host_name(&domain.name, name), f)));
            }
        }
        this.construct()
    }

    fn construct(mut self) -> Result<World, BuildError> {
        self.check()?;
        for index in 0..self.domains.len() {
            let imports = self.domains.iter().flat_map(|spec| &spec.imports).map(|(_, import)| import);
            let count = if self.domains[index].takes_functions(imports) { DEFAULT_CALLBACKS } else { 0 };
            self.domains[index].callbacks.get_or_insert(count);
        }
        let space = self.la57.space()?;
        let mut rng = ChaCha20Rng::from_seed(self.seed.map_or_else(os_seed, Ok)?);
        // Plan: select and verify the objects, resolve symbols. Nothing is mapped yet.
        let roots: Vec<Vec<String>> = self.domains.iter().map(|spec| self.roots(spec)).collect();
        let prepared = self.prepared.as_ref();
        let planned = if prepared.is_some() { &[] } else { self.domains.as_slice() };
        let plans = planned.iter().zip(&roots).map(|(spec, roots)| link::plan(spec, &spec.roots(roots)));
        let plans: Vec<Plan<'_>> = plans.collect::<Result<_, _>>()?;
        let lengths: Vec<u64> = self.regions.iter().map(|(_, bytes)| pages(*bytes)).collect();
        let (map, offsets) = place_regions(&mut rng, &lengths)?;
        let regions = self.make_regions(&mut Draw { rng: &mut rng, space }, &offsets)?;
        let mut manager = Manager::new(map, self.permits.clone());
        let hosts: Vec<String> = self.hosts.iter().map(|host| host.name.clone()).collect();
        let find = |name: &str| self.domains.iter().position(|d| d.name == name);
        // Load each domain: place, relocate, seal, verify again.
        for spec in &self.domains {
            owner::admit(spec.owner.as_ref(), true)?;
        }
        let mut loaded = Vec::new();
        let mut draw = Draw { rng: &mut rng, space };
        for (index, spec) in self.domains.iter().enumerate() {
            let records = records(index, spec, &find, &hosts)?;
            let start = manager.take_range(index, records.len());
            for (n, record) in records.into_iter().enumerate() {
                manager.records[start + n] = Some(record);
            }
            let around = Surroundings { regions: &regions, map: &manager.map };
            loaded.push(match prepared {
                Some(image) => raised::again(&mut draw, spec, Arc::clone(image), &regions)?,
                None => load(&mut draw, spec, &plans[index], &around, &stubs(spec, start))?,
            });
        }
        drop(plans);
        let described = self.domains.len();
        let places: Arc<[RegionPlace]> = regions.iter().map(|r| (r.name.clone(), r.place)).collect();
        let mut domains: Vec<Domain> = Vec::new();
        for ((raised, spec), roots) in loaded.into_iter().zip(self.domains).zip(roots) {
            let region_places = Arc::clone(&places);
            domains.push(Domain { roots, region_places, ..Domain::new(domains.len(), raised, Arc::new(spec)) });
        }
        // Open the world.
        let control = ControlStack::map(&mut rng, space).map_err(MapError::of("the control stack"))?;
        manager.hook = self.hook;
        manager.supervisors = self.supervisors;
        let limits = Limits { wall: self.time_limit, cpu: self.cpu_limit };
        let inner = Inner {
            id: new_id(),
            table: self.machine.unwrap_or_else(machine).table(),
            any_x87: domains.iter().any(|d| d.image.usage.x87),
            watched: watched(self.timed, limits, &domains)?,
            domains,
            hosts: self.hosts,
            regions,
            panic: None,
            manager,
            control,
            places: Places { rng, space },
            clock: self.clock,
            lives: Lives::default(),
            trimmed: 0,
        };
        let mut world = World::open(inner);
        // Bind.
        world.record().set_up()?;
        // Initialise. A prepared world is initialised when it is used.
        let count = if self.prepared.is_some() { 0 } else { described };
        (0..count).try_for_each(|index| world.initialise(index))?;
        Ok(world)
    }

    /// Names that must be unique or exist.
    fn check(&self) -> Result<(), BuildError> {
        let mut names = HashSet::new();
        let domains = |name: &str| self.domains.iter().find(|d| d.name == name);
        let regions: Vec<&str> = self.regions.iter().map(|(name, _)| name.as_str()).collect();
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let entries = self.supervisors.iter().map(|(name, _)| name.as_str());
        let supervisors: HashSet<&str> = entries.filter_map(|name| Some(name.split_once('.')?.0)).collect();
        if let Some((name, _)) = self.supervisors.iter().find(|(name, _)| !name.split_once('.').is_some_and(is_entry)) {
            return Err(BindError::Name(name.clone()).into());
        }
        for domain in &self.domains {
            if !manager::is_name(&domain.name) {
                return Err(BindError::Name(domain.name.clone()).into());
            }
            if !names.insert(domain.name.as_str()) || supervisors.contains(domain.name.as_str()) {
                return Err(SpecError::TwoDomains(domain.name.clone()).into());
            }
            check_domain(domain, &regions, &hosts, &domains)?;
        }
        let mut names = HashSet::new();
        for (region, bytes) in &self.regions {
            if !names.insert(region) || *bytes == 0 || *bytes > 1 << 31 {
                return Err(SpecError::Region(region.clone()).into());
            }
        }
        let mut names = HashSet::new();
        for Host { name: host, .. } in &self.hosts {
            if !names.insert(host) {
                return Err(SpecError::TwoHostFunctions(host.clone()).into());
            }
        }
        Ok(())
    }

    /// What other domains import of a domain.
    fn roots(&self, spec: &DomainSpec) -> Vec<String> {
        let imports = self.domains.iter().flat_map(|d| &d.imports);
        let of = |(_, import): &(String, Import)| match &import.callee {
            Callee::Domain { domain, function } if *domain == spec.name => Some(function.clone()),
            _ => None,
        };
        imports.filter_map(of).collect()
    }

    fn make_regions(&self, draw: &mut Draw<'_>, offsets: &[u64]) -> Result<Vec<Region>, BuildError> {
        let mut regions = Vec::new();
        let mut before = Vec::new();
        for ((name, bytes), offset) in self.regions.iter().zip(offsets) {
            let (length, failed) = (pages(*bytes), |error| MapError::new(&format!("region `{name}`"), error));
            let (file, view) = region::create(length).map_err(failed)?;
            let common = Common::reserve(draw, *offset, length, &before).map_err(failed)?;
            before.push(common.address());
            let place = Placed { offset: *offset, length, common: common.address() };
            regions.push(Region { name: name.clone(), file, view, place, common });
        }
        Ok(regions)
    }
}

/// Whether a supervisor's name and that of its entry point are names.
fn is_entry((supervisor, entry): (&str, &str)) -> bool {
    manager::is_name(supervisor) && manager::is_name(entry)
}

/// Whether the names in a specification are unique and exist.
pub fn check_domain<'d>(
    domain: &DomainSpec,
    regions: &[&str],
    hosts: &[&str],
    domains: &dyn Fn(&str) -> Option<&'d DomainSpec>,
) -> Result<(), BuildError> {
    let name = &domain.name;
    let spec = |error: SpecError| Err(error.into());
    let client = || name.clone();
    let mut symbols = HashSet::new();
    let shared = domain.shared.iter().map(|s| &s.symbol);
    for symbol in domain.imports.iter().map(|(s, _)| s).chain(shared) {
        if !symbols.insert(symbol) {
            return spec(SpecError::GrantedTwice { domain: client(), symbol: symbol.clone() });
        }
    }
    for share in &domain.shared {
        if !regions.contains(&share.region.as_str()) {
            return spec(SpecError::UnknownRegion { domain: client(), region: share.region.clone() });
        }
    }
    for (symbol, import) in &domain.imports {
        let (client, symbol) = (client(), symbol.clone());
        match &import.callee {
            // In parentheses: the loader's own, which nobody can grant.
            Callee::Host { function } if function.starts_with('(') || !hosts.contains(&function.as_str()) => {
                return spec(SpecError::UnknownHostFunction { domain: client, symbol, function: function.clone() });
            }
            Callee::Domain { domain: callee, function } => {
                let Some(callee) = domains(callee) else {
                    return spec(SpecError::UnknownServer { domain: client, symbol, server: callee.clone() });
                };
                if callee.exports.as_ref().is_some_and(|all| !all.contains(function)) {
                    let (server, function) = (callee.name.clone(), function.clone());
                    return spec(SpecError::NotExported { domain: client, symbol, server, function });
                }
            }
            Callee::Host { .. } | Callee::Entry { .. } => {}
        }
    }
    if let Some((name, _)) = domain.registers.iter().find(|(name, _)| !manager::is_name(name)) {
        return Err(BindError::Name(name.clone()).into());
    }
    let mut names = HashSet::new();
    if let Some((name, _)) = domain.registers.iter().find(|(name, _)| !names.insert(name)) {
        return spec(SpecError::RegisteredTwice { domain: client(), entry: name.clone() });
    }
    if domain.spare > MAX_SPARE || domain.callbacks.is_some_and(|count| count > MAX_SPARE) {
        return spec(SpecError::TooManySpare { domain: client(), most: MAX_SPARE });
    }
    Ok(())
}

impl World {
    /// Starts a description of a world.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Puts a record in its place: from here on signal handlers and gates can find it.
    fn open(inner: Inner) -> Self {
        let mut world = Self::new(inner);
        signals::install();
        let (place, inner) = (world.place(), world.record());
        let watch = inner.watched.as_ref().map_or(ptr::null(), Watched::watch);
        let floor = inner.control.low() + signal_room::reserve();
        let context = inner.control.context();
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
                scratch: 0,
                depth: 0,
                domains: ptr::null_mut(),
                world: place.cast(),
                watch: watch.cast(),
                revive: ptr::null(),
                floor,
                since: 0,
                ticks: 0,
                room: false,
            });
            watch.as_ref().inspect(|w| w.attach(context));
        }
        for index in 0..inner.domains.len() {
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

/// Makes a world's watch if it has limits or budgets, or will have some.
fn watched(timed: bool, limits: Limits, domains: &[Domain]) -> Result<Option<Watched>, SpecError> {
    let budgets: Vec<Budget> = domains.iter().map(|d| d.spec.budget).collect();
    let watch = timed || limits.is_set() || budgets.iter().any(Budget::is_set);
    let watched = watch.then(|| Watched::new(limits, &budgets)).transpose();
    watched.map_err(|e| SpecError::Watchdog(e.to_string()))
}

/// What this machine offers; says once when calls will be slow.
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

/// 256 bits of the system's randomness.
fn os_seed() -> Result<[u8; 32], BuildError> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        filled += rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(MapError::of("a random seed"))?;
    }
    Ok(seed)
}
