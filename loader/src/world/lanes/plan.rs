//! Building a world with lanes: what it may have, and what its lanes have in common.

use crate::fault::lanes;
use crate::gate::ids::{ById, DomainId, Id};
use crate::link::error::LinkError;
use crate::load::raised::{self, Raised};
use crate::spec::threads::MAX_LANES;
use crate::spec::{Access, Callee, DomainSpec};
use crate::vm::error::MapError;
use crate::vm::region::Region;
use crate::vm::space::Draw;
use crate::world::builder::Builder;
use crate::world::calls::host_call::HostCall;
use crate::world::error::{BuildError, HostError, SpecError};
use crate::world::held::World;
use crate::world::lanes::faults::Faults;
use crate::world::lanes::{Group, Home, Lane, Shared, Waits};
use sfi_contract::Mode;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// The loader's own functions that change a world, whose lanes would then differ.
const CHANGING: [&str; 6] = [
    "__sfi_connect",
    "__sfi_disconnect",
    "__sfi_register",
    "__sfi_unregister",
    "__sfi_make_visible",
    "__sfi_make_invisible",
];

impl Builder {
    /// Offers a host function that several threads may run at once. Worlds with lanes have no
    /// others. A domain may call it again while it runs.
    #[must_use]
    pub fn shared_fn(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + Sync + 'static,
    ) -> Self {
        self.shared.push((name.into(), Arc::new(function)));
        self
    }

    /// Builds the lanes of one world.
    pub(crate) fn build_lanes(mut self, count: usize) -> Result<Vec<World>, BuildError> {
        self.domains.iter_mut().for_each(|domain| domain.lanes = count);
        self.check_lanes(count)?;
        let members = lanes::found(self.domains.len(), count).map_err(BuildError::Watchdog)?;
        let home = |spec: &DomainSpec| Home {
            estacks: spec.threads,
            busy: spec.busy,
            restart: spec.restart,
            broken: AtomicBool::new(false),
            birth: AtomicU64::new(0),
            faults: Faults::new(count),
            memory: Mutex::new(None),
        };
        let homes: ById<DomainId, Home> = self.domains.iter().map(home).collect();
        let waits = Waits { waiting: vec![None; count], renewing: vec![(None, 0); homes.len()] };
        let group = Arc::new(Group { members, homes, regions: Mutex::default(), waits: Mutex::new(waits) });
        let others: Vec<Self> = (1..count).map(|number| self.again(&group, number)).collect();
        self.lane = Some(Lane { group, number: 0 });
        let mut worlds = vec![self.build()?];
        for other in others {
            worlds.push(other.build()?);
        }
        Ok(worlds)
    }

    /// Describes a further lane. It gets its domains from the first one, without their files.
    fn again(&self, group: &Arc<Group>, number: usize) -> Self {
        // A known seed would draw known places twice.
        let seed = self.seed.map(|mut seed| {
            seed[0] ^= number as u8;
            seed
        });
        Self {
            seed,
            machine: self.machine,
            domains: self.domains.iter().map(|spec| spec.clone().without_files()).collect(),
            regions: self.regions.clone(),
            time_limit: self.time_limit,
            cpu_limit: self.cpu_limit,
            timed: self.timed,
            interruptible: self.interruptible,
            la57: self.la57,
            clock: self.clock,
            permits: self.permits.clone(),
            shared: self.shared.clone(),
            lane: Some(Lane { group: Arc::clone(group), number }),
            ..Self::default()
        }
    }

    /// Returns the lane to build if it is not the first one.
    pub(crate) fn further_lane(&self) -> Option<&Lane> {
        self.lane.as_ref().filter(|lane| lane.number > 0)
    }

    pub(super) fn check_lanes(&self, count: usize) -> Result<(), BuildError> {
        let refuse = |why: &str| Err(SpecError::Lanes { why: why.to_owned() }.into());
        if !(1..=MAX_LANES).contains(&count) {
            return refuse("a world has 1 to 64 of them");
        }
        if !self.hosts.is_empty() {
            return refuse("several threads may run its host functions at once (`Builder::shared_fn`)");
        }
        let images = self.image_store.is_some() || self.image_files.is_some();
        if self.hook.is_some() || !self.supervisors.is_empty() || images {
            return refuse("it has no permission hook, no supervisors and no kept images");
        }
        for domain in &self.domains {
            let refuse = |why: &str| Err(SpecError::Lanes { why: format!("domain `{}` {why}", domain.name) }.into());
            let links = domain.link_room.is_some() || !domain.libraries.is_empty();
            if domain.spare > 0 || links {
                return refuse("may have no spare gateways and no room for libraries");
            }
            if domain.has_threads() && domain.mode == Mode::Match {
                return refuse("in mode match has one E-stack");
            }
            if passes_functions(domain)? {
                return refuse("passes functions to domains, or takes some");
            }
            let changes =
                |callee: &Callee| matches!(callee, Callee::Host { function } if CHANGING.contains(&&**function));
            if domain.imports.iter().any(|(_, import)| changes(&import.callee)) {
                return refuse("may change neither bindings nor regions");
            }
            if let Some(region) = self.counted(domain) {
                let why = "is not in mode full and sees a region that another domain may write: that is a clock";
                return refuse(&format!("{why} (`{region}`; `DomainSpec::threads_exposing`)"));
            }
        }
        Ok(())
    }

    /// Returns a region in which another domain could count while this one runs in another lane,
    /// if this one's loads are not confined. It would tell the time as precisely as a thread.
    fn counted(&self, domain: &DomainSpec) -> Option<&str> {
        let sees = |spec: &DomainSpec, region: &str, write: bool| {
            let shares =
                |share: &crate::spec::Share| share.region == region && (!write || share.access == Access::ReadWrite);
            spec.root || spec.shared.iter().any(shares)
        };
        if domain.mode == Mode::Full || domain.exposing {
            return None;
        }
        let others = || self.domains.iter().filter(|other| other.name != domain.name);
        let counted = |region: &&str| sees(domain, region, false) && others().any(|other| sees(other, region, true));
        self.regions.iter().map(|(name, _)| name.as_str()).find(counted)
    }

    /// Returns the regions of a further lane.
    pub(crate) fn regions_again(&self, lane: &Lane) -> Result<Vec<Region>, BuildError> {
        let regions = lane.group.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let again = |region: &Region| {
            region.again().map_err(|error| MapError::new(&format!("region `{}`", region.name), error))
        };
        Ok(regions.iter().map(again).collect::<Result<_, _>>()?)
    }
}

/// Says whether functions cross between the domain and others.
fn passes_functions(domain: &DomainSpec) -> Result<bool, BuildError> {
    for (symbol, import) in &domain.imports {
        let wrong = |error| BuildError::Signature { domain: domain.name.clone(), symbol: symbol.clone(), error };
        let host = matches!(import.callee, Callee::Host { .. });
        if !host && import.parsed().map_err(wrong)?.is_some_and(|signature| signature.has_functions()) {
            return Ok(true);
        }
    }
    for (name, entry) in &domain.registers {
        let wrong = |error| BuildError::Signature { domain: domain.name.clone(), symbol: name.clone(), error };
        let parsed = entry.signature.as_deref().map(str::parse::<crate::spec::signature::Signature>).transpose();
        if parsed.map_err(wrong)?.is_some_and(|signature| signature.has_functions()) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Shared {
    /// Returns the memory of a domain that the first lane raised.
    pub(super) fn of(raised: &Raised) -> Self {
        let (image, window) = (Arc::clone(&raised.image), raised.window.same());
        Self { image, window, kept: vec![raised.kept.same()], views: Vec::new() }
    }
}

impl Lane {
    /// Raises a domain of a further lane: the first lane's window, or a view of it.
    pub(crate) fn raise(
        &self,
        draw: &mut Draw<'_>,
        spec: &DomainSpec,
        index: DomainId,
        regions: &[Region],
    ) -> Result<Raised, LinkError> {
        let failed = || MapError::new(&format!("a lane of domain `{}`", spec.name), rustix::io::Errno::INVAL);
        let mut memory = self.home(index).memory();
        self.raise_in(memory.as_mut().ok_or_else(failed)?, draw, spec, regions)
    }

    /// Raises a domain of a further lane in the first lane's memory.
    pub(super) fn raise_in(
        &self,
        shared: &mut Shared,
        draw: &mut Draw<'_>,
        spec: &DomainSpec,
        regions: &[Region],
    ) -> Result<Raised, LinkError> {
        let failed = || MapError::new(&format!("a lane of domain `{}`", spec.name), rustix::io::Errno::INVAL);
        let image = Arc::clone(&shared.image);
        if !spec.has_threads() {
            let kept = shared.kept.first().ok_or_else(failed)?;
            return Ok(raised::same(&shared.window, kept, image));
        }
        let (seat, estack) = shared.seat(self.number).ok_or_else(failed)?;
        let raised = raised::lane(draw, spec, image, (&seat, estack.stack), regions)?;
        shared.kept.push(raised.kept.same());
        shared.views.push((raised.window.same(), self.number));
        Ok(raised)
    }

    /// Shares the domains and regions of the first lane with those that are built later.
    pub(crate) fn share(&self, loaded: &[Raised], regions: &[Region]) -> Result<(), BuildError> {
        for (index, raised) in loaded.iter().enumerate() {
            *self.home(DomainId::of(index)).memory() = Some(Shared::of(raised));
        }
        let again = |region: &Region| {
            region.again().map_err(|error| MapError::new(&format!("region `{}`", region.name), error))
        };
        let all = regions.iter().map(again).collect::<Result<Vec<_>, _>>()?;
        *self.group.regions.lock().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(())
    }
}
