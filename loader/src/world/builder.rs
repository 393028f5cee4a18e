//! A host's wishes for a world, and the way from them to the world.

use crate::gate::Machine;
use crate::link::image::Image;
use crate::load::image_files::ImageFiles;
use crate::load::image_store::ImageStore;
use crate::load::view::Seat;
use crate::spec::DomainSpec;
use crate::spec::signature::Signature;
use crate::vm::region_file::RegionFile;
use crate::vm::space::La57;
use crate::world::bindings::manager::{Hook, Permit, Request};
use crate::world::calls::header::Supervisor;
use crate::world::calls::host::Host;
use crate::world::calls::host_call::{HostCall, SharedFn};
use crate::world::error::{BuildError, HostError};
use crate::world::held::World;
use crate::world::lanes::Lane;
use std::sync::Arc;
use std::time::Duration;

/// Describes a world.
#[derive(Default)]
pub struct Builder {
    pub(super) seed: Option<[u8; 32]>,
    pub(super) machine: Option<Machine>,
    pub(super) domains: Vec<DomainSpec>,
    pub(super) hosts: Vec<Host>,
    pub(super) regions: Vec<(String, u64)>,
    pub(super) region_files: Vec<(String, RegionFile)>,
    pub(super) time_limit: Option<Duration>,
    pub(super) cpu_limit: Option<Duration>,
    pub(super) timed: bool,
    pub(super) interruptible: bool,
    pub(super) la57: La57,
    pub(super) clock: bool,
    pub(super) prepared: Option<Arc<Image>>,
    pub(super) image_store: Option<ImageStore>,
    pub(super) image_files: Option<Arc<dyn ImageFiles>>,
    /// The place of a further thread in its domain.
    pub(super) seat: Option<Seat>,
    /// The number of a further thread.
    pub(super) thread: Option<u64>,
    pub(super) permits: Vec<Permit>,
    pub(super) supervisors: Vec<(String, Option<Signature>)>,
    pub(super) bad_signature: Option<BuildError>,
    pub(super) hook: Option<Hook>,
    /// Host functions that several threads may run at once.
    pub(super) shared: Vec<(String, SharedFn)>,
    /// The lane that the world is.
    pub(super) lane: Option<Lane>,
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

    /// Lets domains that ask for it ([`DomainSpec::clock`]) read the processor's clock (`rdtsc`).
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

    /// Uses the gates for another machine. For tests. On a processor with AVX the gates without it
    /// do not change the upper halves of vector registers.
    #[doc(hidden)]
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets whether windows are drawn from the 56 bits of five-level paging. Default: from 47. A
    /// guess then has 512 times as many places to hit, at the price of one more level of page
    /// tables.
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
    /// ends the calls in progress and is resumed in the host code that entered the domain. While it
    /// runs it cannot be called again.
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

    /// Adds a region of memory that exists already, and that other worlds may use too. Its bytes
    /// stay as they are, also after the world's end.
    #[must_use]
    pub fn region_file(mut self, name: impl Into<String>, file: &RegionFile) -> Self {
        let name = name.into();
        self.region_files.push((name.clone(), file.clone()));
        self.region(name, file.bytes())
    }

    /// Ends every call of the host that takes longer by the wall clock. Default: none.
    ///
    /// At the limit the running domain faults with [`crate::FaultKind::TimeLimit`]. It need not be
    /// the one that loops. If another domain called it, that one sees the error and has a quarter
    /// of the limit, at least 10 ms and at most 250 ms, in which to return. That time is for all
    /// domains of the call together, also those that are called or restarted meanwhile. After it
    /// every domain of the call ends. So a call takes at most the limit, that time, twice the
    /// precision, and the time of the last host function. Host functions are not aborted, but the
    /// domain is ended when they return to it.
    ///
    /// Calls of a host function back into its world belong to the call that they are part of. Each
    /// initialiser and finaliser is a call, too. The precision is an eighth of the limit, at least
    /// a millisecond and at most a quarter of a second.
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.time_limit = limit.into();
        self
    }

    /// Uses the image of the one domain, which a world with the same description linked before.
    #[must_use]
    pub(crate) fn prepared(mut self, image: Arc<Image>) -> Self {
        self.prepared = Some(image);
        self
    }

    /// Takes the image of a world with one domain from this store, and keeps it there otherwise. A
    /// domain whose image is found is not verified again. Its window is at a fresh random place,
    /// but the places in the window are those of the first run. So this is for programs that are
    /// alone in their process. Domains with shared regions, owners, entry points or capabilities
    /// have no entry, and neither have worlds with a seed.
    #[must_use]
    pub fn image_store(mut self, store: ImageStore) -> Self {
        self.image_store = Some(store);
        self
    }

    /// Takes and keeps images as [`Builder::image_store`] does, but as sealed memory files that the
    /// host's processes pass to each other. All processes that take an image map the same text. An
    /// image store has precedence.
    #[must_use]
    pub fn image_files(mut self, files: Arc<dyn ImageFiles>) -> Self {
        self.image_files = Some(files);
        self
    }

    /// Ends every call of the host that uses more processor time, as [`Builder::time_limit`] does
    /// for the wall clock. The time of host functions counts.
    #[must_use]
    pub fn cpu_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.cpu_limit = limit.into();
        self
    }

    /// Lets single calls have limits of their own
    /// ([`TypedFn::call_within`](crate::TypedFn::call_within)). A world with any limit or budget
    /// allows that anyway. The watchdog's thread starts with the first limit that is set, or with
    /// the first wish for interruptions.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    /// Lets a signal handler of the host end the call in progress ([`crate::interrupt`]). A world
    /// without limits and budgets then needs no watchdog: no thread is started and no signal is
    /// unblocked.
    #[must_use]
    pub fn interruptible(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// Allows clients to connect to entry points. Both are names of domains and of entry points
    /// (`domain.name`), which may end in `*`. A connection that no rule allows is refused, unless
    /// [`Builder::permission`] decides otherwise.
    #[must_use]
    pub fn permit(mut self, client: impl Into<String>, entry: impl Into<String>) -> Self {
        self.permits.push(Permit { client: client.into(), entry: entry.into() });
        self
    }

    /// Adds a supervisor domain: trusted code of the host behind entry points and gateways like a
    /// domain's.
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

    /// Sets the function that has the last word on connections. It sees the verdict of the rules.
    #[must_use]
    pub fn permission(mut self, hook: impl FnMut(&Request<'_>) -> bool + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }
}

impl World {
    /// Starts a description of a world.
    pub fn builder() -> Builder {
        Builder::new()
    }
}
