//! Building a world: verify, link, place, relocate, seal, verify again, bind, initialise.

use crate::context::{Binding, CONTROL_RESERVE, Context, flag};
use crate::error::{BuildError, HostError};
use crate::gate::{MXCSR_ALL, MXCSR_CONTROL, Machine, Table};
use crate::host::{HostCall, HostFn, dispatch, dispatch_limited};
use crate::image::Image;
use crate::link::{self, Plan, Site};
use crate::place::{Places, place, place_regions};
use crate::signature::{Outcome, Signature};
use crate::spec::{Callee, DomainSpec, Import};
use crate::stubs::Stub;
use crate::watchdog::Watched;
use crate::window::{ControlStack, pages};
use crate::world::{Domain, Host, Inner, Region, World};
use crate::{fault, instances, region};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sfi_verifier::{Usage, Vectors};
use std::collections::HashSet;
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
    hosts: Vec<(String, HostFn)>,
    regions: Vec<(String, u64)>,
    time_limit: Option<Duration>,
    prepared: Option<Arc<Image>>,
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

    /// Draws all places from this seed instead of the system's randomness. For tests: a known seed is no secret.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Uses the gates for another machine. For tests; on a processor with AVX the gates without it leave the upper halves of
    /// vector registers as they are.
    #[doc(hidden)]
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Adds a domain.
    #[must_use]
    pub fn domain(mut self, spec: DomainSpec) -> Self {
        self.domains.push(spec);
        self
    }

    /// Offers a host function. It runs on the host's stack while its caller waits. A panic in it ends the calls that are in
    /// progress and is resumed in the host code that entered the domain. While it runs it cannot be called again.
    #[must_use]
    pub fn host_fn(
        mut self,
        name: impl Into<String>,
        function: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Self {
        self.hosts.push((name.into(), Box::new(function)));
        self
    }

    /// Adds a region of zeroed memory that domains may share, `bytes` rounded up to pages.
    #[must_use]
    pub fn region(mut self, name: impl Into<String>, bytes: u64) -> Self {
        self.regions.push((name.into(), bytes));
        self
    }

    /// Ends every call of the host that takes longer, wall clock; default: none. The domain that runs then faults with
    /// [`crate::FaultKind::TimeLimit`]; it need not be the one that loops. If another domain called it, that one sees the error and
    /// may go on, for the same time again; so a call takes at most the limit times the number of domains, a little more, and what
    /// the last host function takes: these are not aborted, but the domain is ended when they return to it. Calls of a host
    /// function back into its world belong to the call that they are part of. Initialisers and finalisers are calls too, each.
    /// The precision is an eighth of the limit, at least a millisecond and at most a quarter of a second.
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

    /// Builds the world. Every object is verified before anything of it is mapped, and the linked text again where it will run.
    ///
    /// # Errors
    /// [`BuildError`]; nothing stays mapped then.
    pub fn build(self) -> Result<World, BuildError> {
        self.check()?;
        let mut rng = ChaCha20Rng::from_seed(self.seed.map_or_else(os_seed, Ok)?);
        let plans = self.plan()?;
        let regions = self.make_regions()?;
        let lengths: Vec<u64> = regions.iter().map(|r| r.length).collect();
        let (map, offsets) = place_regions(&mut rng, &lengths)?;
        let mut domains = Vec::new();
        if let (Some(image), [spec]) = (&self.prepared, self.domains.as_slice()) {
            let raised = instances::again(&mut rng, &spec.name, Arc::clone(image), spec.mode, &regions)?;
            domains.push(Domain::new(0, spec.name.clone(), spec.mode, raised));
        }
        for (index, (spec, plan)) in self.domains.iter().zip(&plans).enumerate() {
            let places = place(&mut rng, spec, &plan.layout, &map)?;
            domains.push(self.load(&mut rng, index, plan, &places, &regions, &offsets)?);
        }
        drop(plans);
        let table = self.machine.unwrap_or_else(machine).table();
        let bindings = self.bind(&domains, table)?;
        let control = ControlStack::map(&mut rng, &bindings).map_err(memory("the control stack and its bindings"))?;
        let any_x87 = domains.iter().any(|d| d.image.usage.x87);
        let watched = self.time_limit.map(Watched::new).transpose();
        let watched = watched.map_err(|e| BuildError::Spec(format!("the watchdog thread does not start: {e}")))?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let hosts = self.hosts.into_iter().map(|(_, function)| Host { function, busy: false }).collect();
        let inner = Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            table,
            depth: 0,
            any_x87,
            domains,
            hosts,
            regions,
            panic: None,
            watched,
            control,
            rng,
            lives: 0,
            vacant: Vec::new(),
            gone: Vec::new(),
        };
        let world = World { inner: Box::into_raw(Box::new(inner)) };
        fault::install();
        start(&world);
        // Those of a prepared world run when it is used.
        let count = if self.prepared.is_some() { 0 } else { self.domains.len() };
        for index in 0..count {
            // SAFETY: the world is new and owned here.
            unsafe {
                let offsets = (&(*world.inner).domains)[index].image.initialisers.clone();
                Inner::run_all(world.inner, index, &offsets)
                    .map_err(|error| BuildError::Initialiser { domain: self.domains[index].name.clone(), error })?;
            }
        }
        Ok(world)
    }

    /// Names that must be unique or exist.
    fn check(&self) -> Result<(), BuildError> {
        let spec = |text: String| Err(BuildError::Spec(text));
        let mut names = HashSet::new();
        for domain in &self.domains {
            if !names.insert(domain.name.as_str()) {
                return spec(format!("two domains are named `{}`", domain.name));
            }
            let mut symbols = HashSet::new();
            let shared = domain.shared.iter().map(|s| &s.symbol);
            for symbol in domain.imports.iter().map(|(s, _)| s).chain(shared) {
                if !symbols.insert(symbol) {
                    return spec(format!("domain `{}`: `{symbol}` is granted twice", domain.name));
                }
            }
            for share in &domain.shared {
                if !self.regions.iter().any(|(name, _)| *name == share.region) {
                    return spec(format!("domain `{}`: there is no region `{}`", domain.name, share.region));
                }
            }
            for (symbol, import) in &domain.imports {
                match &import.callee {
                    Callee::Host { function } if !self.hosts.iter().any(|(name, _)| name == function) => {
                        return spec(format!(
                            "domain `{}`: import `{symbol}`: the host offers no function `{function}`",
                            domain.name
                        ));
                    }
                    Callee::Domain { domain: callee, function } => {
                        let Some(callee) = self.domains.iter().find(|d| d.name == *callee) else {
                            return spec(format!(
                                "domain `{}`: import `{symbol}`: there is no domain `{callee}`",
                                domain.name
                            ));
                        };
                        if callee.exports.as_ref().is_some_and(|all| !all.contains(function)) {
                            return spec(format!(
                                "domain `{}`: import `{symbol}`: domain `{}` does not export `{function}`",
                                domain.name, callee.name
                            ));
                        }
                    }
                    Callee::Host { .. } => {}
                }
            }
        }
        let mut names = HashSet::new();
        for (region, bytes) in &self.regions {
            if !names.insert(region) || *bytes == 0 || *bytes > 1 << 31 {
                return spec(format!("region `{region}` is named twice, empty or larger than 2 GiB"));
            }
        }
        let mut names = HashSet::new();
        for (host, _) in &self.hosts {
            if !names.insert(host) {
                return spec(format!("two host functions are named `{host}`"));
            }
        }
        Ok(())
    }

    /// Plans every domain. What other domains import, and what is exported, pulls archive members.
    fn plan(&self) -> Result<Vec<Plan<'_>>, BuildError> {
        let mut plans = Vec::new();
        if self.prepared.is_some() {
            return Ok(plans);
        }
        for spec in &self.domains {
            let mut roots = spec.exports.clone().unwrap_or_default();
            for (_, import) in self.domains.iter().flat_map(|d| &d.imports) {
                if let Callee::Domain { domain, function } = &import.callee
                    && *domain == spec.name
                {
                    roots.push(function.clone());
                }
            }
            plans.push(link::plan(spec, &roots)?);
        }
        Ok(plans)
    }

    fn make_regions(&self) -> Result<Vec<Region>, BuildError> {
        let make = |(name, bytes): &(String, u64)| {
            let length = pages(*bytes);
            let (file, view) = region::create(length).map_err(memory(&format!("region `{name}`")))?;
            Ok(Region { name: name.clone(), length, file, view })
        };
        self.regions.iter().map(make).collect()
    }

    /// Reserves a window, links for it, seals it and verifies what is in it.
    fn load(
        &self,
        rng: &mut ChaCha20Rng,
        index: usize,
        plan: &Plan<'_>,
        places: &Places,
        regions: &[Region],
        offsets: &[u64],
    ) -> Result<Domain, BuildError> {
        let spec = &self.domains[index];
        let find = |name: &str| regions.iter().position(|r| r.name == name).unwrap_or_default();
        let shared: Vec<(u64, u64)> = spec
            .shared
            .iter()
            .map(|s| find(&s.region))
            .map(|region| (offsets[region], regions[region].length))
            .collect();
        let before: usize = self.domains[..index].iter().map(|d| d.imports.len()).sum();
        let host = |import: &Import| matches!(import.callee, Callee::Host { .. });
        let stubs: Vec<Stub> = spec
            .imports
            .iter()
            .enumerate()
            .map(|(i, (_, import))| Stub { binding: before + i, host: host(import) })
            .collect();
        let site = Site { places, regions: &shared, stubs: &stubs };
        let image = link::link(spec, plan, &site)?;
        let raised = instances::first(rng, &spec.name, image, spec.mode, regions)?;
        Ok(Domain::new(index, spec.name.clone(), spec.mode, raised))
    }

    /// One binding per import, in the order of the domains and their imports.
    fn bind(&self, domains: &[Domain], table: &Table) -> Result<Vec<Binding>, BuildError> {
        let any_x87 = domains.iter().any(|d| d.image.usage.x87);
        let mut bindings = Vec::new();
        for (spec, caller) in self.domains.iter().zip(domains) {
            for (symbol, import) in &spec.imports {
                let signature = import.parsed().map_err(|error| BuildError::Signature {
                    domain: spec.name.clone(),
                    symbol: symbol.clone(),
                    error,
                })?;
                let mut binding = policy(signature.as_ref(), table);
                binding.on_fault = import.on_fault;
                let zmm = |usage: Usage| usage.vectors >= Vectors::Zmm;
                binding.flags |= if zmm(caller.image.usage) { flag::ZMM_OUT } else { 0 };
                match &import.callee {
                    Callee::Host { function } => {
                        let host = self.hosts.iter().position(|(name, _)| name == function);
                        binding.host = host.unwrap_or_default() as u32;
                        binding.flags &= !(flag::STACK | flag::POINTERS | flag::POINTER_RESULT);
                        let floats = signature.as_ref().is_none_or(|s| s.registers().floats > 0);
                        binding.flags |= if floats { flag::FLOATS } else { 0 };
                        binding.flags |= if any_x87 { flag::X87 } else { 0 };
                        binding.flags |= if caller.image.usage.mxcsr { flag::MXCSR } else { 0 };
                    }
                    Callee::Domain { domain, function } => {
                        let missing = || {
                            BuildError::Spec(format!(
                                "domain `{}`: import `{symbol}`: domain `{domain}` has no global function `{function}`",
                                spec.name
                            ))
                        };
                        let callee = domains.iter().find(|d| d.name == *domain).ok_or_else(missing)?;
                        let offset = callee.image.functions_by_name.get(function).ok_or_else(missing)?;
                        binding.callee = callee.state;
                        binding.base = callee.window.base();
                        binding.entry = callee.window.base() + offset;
                        let (from, to) = (caller.image.usage, callee.image.usage);
                        binding.flags |= if zmm(to) { flag::ZMM_IN } else { 0 };
                        binding.flags |= if from.x87 || to.x87 { flag::X87 } else { 0 };
                        binding.flags |= if from.mxcsr || to.mxcsr { flag::MXCSR } else { 0 };
                    }
                }
                bindings.push(binding);
            }
        }
        Ok(bindings)
    }
}

/// The bits of MXCSR that matter to a domain: without an instruction that names it, the status flags are invisible.
pub fn mxcsr_mask(usage: Usage) -> u32 {
    if usage.mxcsr { MXCSR_ALL } else { MXCSR_CONTROL }
}

/// What a signature lets through.
fn policy(signature: Option<&Signature>, table: &Table) -> Binding {
    let mut binding = Binding {
        callee: ptr::null_mut(),
        entry: 0,
        arguments: table.arguments[6][9],
        results: table.results_any,
        failed: table.failed,
        on_fault: 0,
        flags: 0,
        stack_words: 0,
        pointers: 0,
        host: 0,
        mxcsr: MXCSR_CONTROL,
        base: 0,
    };
    let Some(signature) = signature else { return binding };
    let registers = signature.registers();
    binding.arguments = table.arguments[registers.ints][registers.floats];
    binding.stack_words = registers.stack_words;
    binding.pointers = registers.pointers;
    binding.flags |= if registers.stack_words > 0 { flag::STACK } else { 0 };
    binding.flags |= if registers.pointers != 0 { flag::POINTERS } else { 0 };
    binding.results = match signature.outcome {
        Outcome::Void => table.results_void,
        Outcome::Int | Outcome::Pointer => table.results_int,
        Outcome::Float => table.results_float,
    };
    binding.flags |= if signature.outcome == Outcome::Pointer { flag::POINTER_RESULT } else { 0 };
    binding
}

/// Fills the header of the control stack.
fn start(world: &World) {
    // SAFETY: the world is new and owned by the caller; the header page is mapped read-write.
    unsafe {
        let inner = world.inner;
        let control = &(*inner).control;
        let watch = (*inner).watched.as_ref().map_or(ptr::null(), Watched::watch);
        let host_dispatch = if watch.is_null() { dispatch } else { dispatch_limited } as *const () as usize;
        control.context().write(Context {
            gate_domain: (*inner).table.gate_domain,
            gate_host: (*inner).table.gate_host,
            limit: control.low() + CONTROL_RESERVE,
            current: ptr::null_mut(),
            top: 0,
            control_sp: control.top(),
            host_rsp: 0,
            thread: ptr::null_mut(),
            host_dispatch,
            host_mxcsr: 0,
            scratch: 0,
            world: inner,
            watch,
        });
    }
}

fn memory(what: &str) -> impl FnOnce(rustix::io::Errno) -> BuildError {
    let what = what.to_owned();
    move |error| BuildError::memory(&what, error)
}

/// What this machine offers; says once when calls will be slow.
fn machine() -> Machine {
    static MACHINE: std::sync::OnceLock<Machine> = std::sync::OnceLock::new();
    *MACHINE.get_or_init(|| {
        let machine = Machine::detect();
        if !machine.fsgsbase {
            eprintln!("warning: this kernel does not let programs set GS base; every crossing costs system calls");
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
            .map_err(memory("a random seed"))?;
    }
    Ok(seed)
}
