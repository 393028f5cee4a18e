//! One domain: its table in the manifest, and the description of a domain for the loader.

use crate::manifest::error::{ManifestError, wrong};
use crate::manifest::file;
use crate::manifest::libraries::{self, Room};
use crate::manifest::syscalls::Syscalls;
use crate::manifest::values::{
    Clock, Size, Time, access, busy, default_control_stack, default_memory, default_stack, minus_one, mode, one_thread,
    read_write, restart, signature, trust,
};
use crate::spec::capability::Capability;
use crate::spec::interface::Declaration;
use crate::spec::signature::Signature;
use crate::spec::{self, Access, DomainSpec, Import, Placement, Restart, Trust};
use sfi_contract::Mode;
use sfi_verifier::elf::archive::is_archive;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One domain.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Relocatable objects, and archives of which all members are linked.
    #[serde(default)]
    pub objects: Vec<PathBuf>,
    /// Archives.
    #[serde(default)]
    pub archives: Vec<PathBuf>,
    /// Mode.
    #[serde(default, deserialize_with = "mode")]
    pub mode: Mode,
    /// Size of the heap.
    #[serde(default = "default_memory")]
    pub memory: Size,
    /// Size of the data stack.
    #[serde(default = "default_stack")]
    pub stack: Size,
    /// Size of the control stack, see [`DomainSpec::control_stack`].
    #[serde(default = "default_control_stack")]
    pub control_stack: Size,
    /// Lets it read the processor's clock, see [`DomainSpec::clock`].
    #[serde(default)]
    pub clock: Clock,
    /// Its layout in its window.
    #[serde(default)]
    pub placement: Placement,
    /// Functions that other domains may import.
    #[serde(default)]
    pub exports: Vec<String>,
    /// Functions that get function pointers, see [`DomainSpec::pointers`].
    #[serde(default)]
    pub pointers: Vec<String>,
    /// Granted crossings by symbol.
    #[serde(default)]
    pub imports: BTreeMap<String, Grant>,
    /// Shared regions by symbol.
    #[serde(default)]
    pub shared: BTreeMap<String, Share>,
    /// Entry points by name.
    #[serde(default)]
    pub registers: BTreeMap<String, Registered>,
    /// Gateways for connections at run time.
    #[serde(default)]
    pub spare_bindings: usize,
    /// Functions that others may pass to it, see [`DomainSpec::callbacks`].
    pub callbacks: Option<usize>,
    /// Fibers that can wait, see [`DomainSpec::fibers`].
    pub fibers: Option<usize>,
    /// Threads that it may have at a time, see [`DomainSpec::threads`].
    #[serde(default = "one_thread")]
    pub threads: usize,
    /// The lot of callers beyond that in a world with lanes, see [`DomainSpec::busy`].
    #[serde(default, deserialize_with = "busy")]
    pub busy: crate::Busy,
    /// Libraries that it may open, and their objects, see [`DomainSpec::library`].
    #[serde(default)]
    pub libraries: BTreeMap<String, Vec<PathBuf>>,
    /// The room for libraries, see [`DomainSpec::link_room`].
    pub link_room: Option<Room>,
    /// Makes it a root domain, which sees all regions.
    #[serde(default)]
    pub root: bool,
    /// Its restarts after faults.
    #[serde(default, deserialize_with = "restart")]
    pub restart: Restart,
    /// The time that it may use in its life.
    #[serde(default)]
    pub budget: Budget,
    /// The instructions that it may run in a call, see [`DomainSpec::instructions`].
    pub instructions: Option<u64>,
    /// The owner, who answers for its faults.
    pub owner: Option<String>,
    /// Names of entry points whose capabilities it gets, by the variable that holds the bits.
    #[serde(default)]
    pub capabilities: BTreeMap<String, String>,
    /// System calls. Without this table there are none.
    pub syscalls: Option<Syscalls>,
    /// Code that the embedding adds to a domain with system calls. It is no part of the text.
    #[serde(skip)]
    pub support: Option<Support>,
}

/// Code that the embedding links in addition to a stock libc.
#[derive(Clone, Debug)]
pub struct Support {
    /// Relocatable objects.
    pub objects: Vec<&'static [u8]>,
    /// Archives, of which the members that are needed are linked.
    pub archives: Vec<&'static [u8]>,
    /// True if the libc runs its initialisers itself, see [`DomainSpec::own_start`].
    pub own_start: bool,
}

/// Returns the name of the host function that answers a domain's system calls.
pub fn arbiter_of(domain: &str) -> String {
    format!("{}:{domain}", sfi_contract::names::ARBITRATE)
}

/// A granted crossing: to a function of the host or of a domain.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a table: { host = \"NAME\" }, { entry = \"DOMAIN.NAME\" } or { domain = \"DOMAIN\" }")]
pub struct Grant {
    /// Host function.
    pub host: Option<String>,
    /// Registered entry point.
    pub entry: Option<String>,
    /// Domain; with `function`.
    pub domain: Option<String>,
    /// Function of the domain; default: the symbol's name.
    pub function: Option<String>,
    /// The interface that declares the function: its buffers are copied. Instead of `signature`.
    pub interface: Option<String>,
    /// Signature.
    #[serde(default, deserialize_with = "signature")]
    pub signature: Option<Signature>,
    /// Result when the call fails.
    #[serde(default = "minus_one")]
    pub on_fault: i64,
    /// Calls to other domains: `mutual-distrust` (default), `trusted-server` or `trusted-both`, see
    /// [`Trust`].
    #[serde(default, deserialize_with = "trust")]
    pub trust: Option<Trust>,
    /// Replaces a definition in the domain's objects. Without it such a definition is an error.
    #[serde(default, rename = "override")]
    pub overrides: bool,
    /// Keeps the replaced definition for the host, see [`Import::wraps`]. The embedding says so.
    #[serde(skip)]
    pub wraps: bool,
}

/// A region seen by a domain.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Region.
    pub region: String,
    /// `read` or `read-write` (default).
    #[serde(default = "read_write", deserialize_with = "access")]
    pub access: Access,
}

/// A registered entry point.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// The entry point's one function. Either this or `procedures`.
    pub function: Option<String>,
    /// The entry point's functions, which callers name by number.
    #[serde(default)]
    pub procedures: Vec<String>,
    /// Signature.
    #[serde(deserialize_with = "signature")]
    pub signature: Option<Signature>,
    /// Demands a capability of callers. Domains whose `capabilities` name the entry point get it.
    #[serde(default)]
    pub capability: bool,
}

/// The time that a domain may use in its life, see [`crate::Budget`].
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Wall clock.
    pub wall: Option<Time>,
    /// Processor time.
    pub cpu: Option<Time>,
}

/// Returns the error for an import with no target, or with several.
pub(super) fn one_way(domain: &str, symbol: &str) -> String {
    format!("domain `{domain}`: import `{symbol}`: give either `host`, `entry`, or `domain` and `function`")
}

impl Registered {
    /// Describes the entry point, with its capability if it has one.
    pub(super) fn entry(&self, capability: Option<&Capability>) -> spec::Entry {
        let mut entry = match &self.function {
            Some(function) => spec::Entry::function(function),
            None => spec::Entry::procedures(self.procedures.iter().cloned()),
        };
        if let Some(signature) = &self.signature {
            entry = entry.signature(signature.to_string());
        }
        if let Some(capability) = capability {
            entry = entry.capability(capability.clone());
        }
        entry
    }
}

impl Domain {
    /// Describes the domain, as far as its own table does. Paths are relative to `directory`.
    ///
    /// # Errors
    /// [`ManifestError::File`]; what `declaration` says.
    pub(super) fn spec(
        &self,
        name: &str,
        directory: &Path,
        declaration: &dyn Fn(&str, &str) -> Result<Declaration, ManifestError>,
    ) -> Result<DomainSpec, ManifestError> {
        let read = |path: &Path| {
            let path = directory.join(path);
            file::read(&path).map_err(|error| ManifestError::File { path, error })
        };
        let mut spec = DomainSpec::new(name)
            .mode(self.mode)
            .memory(self.memory.0)
            .stack(self.stack.0)
            .control_stack(self.control_stack.0)
            .placement(self.placement)
            .exports(self.exports.iter().cloned())
            .pointers(self.pointers.iter().cloned())
            .spare_bindings(self.spare_bindings)
            .restart(self.restart)
            .budget(crate::Budget { wall: self.budget.wall.map(|t| t.0), cpu: self.budget.cpu.map(|t| t.0) });
        if self.root {
            spec = spec.root();
        }
        if let Some(most) = self.instructions {
            spec = spec.instructions(most);
        }
        spec = match self.clock {
            Clock::No => spec,
            Clock::Confined => spec.clock(),
            Clock::Exposing => spec.clock_exposing(),
        };
        if let Some(count) = self.callbacks {
            spec = spec.callbacks(count);
        }
        spec = spec.threads(self.threads).busy(self.busy);
        if let Some(count) = self.fibers {
            spec = spec.fibers(count);
        }
        for path in &self.objects {
            let (name, bytes) = (path.display().to_string(), read(path)?);
            spec = if is_archive(&bytes) { spec.whole_archive(name, bytes) } else { spec.object(name, bytes) };
        }
        for path in &self.archives {
            spec = spec.archive(path.display().to_string(), read(path)?);
        }
        for (symbol, grant) in &self.imports {
            let mut import = match (&grant.host, &grant.entry, &grant.domain) {
                (Some(function), ..) => Import::host(function),
                (None, Some(entry), _) => Import::entry(entry),
                (None, None, Some(domain)) => Import::domain(domain, grant.function.as_deref().unwrap_or(symbol)),
                (None, None, None) => return Err(wrong(directory, one_way(name, symbol))),
            };
            if let Some(interface) = &grant.interface {
                import = import.interface(declaration(interface, grant.function.as_deref().unwrap_or(symbol))?);
            }
            if let Some(signature) = &grant.signature {
                import = import.signature(signature.to_string());
            }
            if let Some(trust) = grant.trust {
                import = import.trust(trust);
            }
            import = match (grant.wraps, grant.overrides) {
                (true, _) => import.wraps(),
                (false, true) => import.overrides(),
                (false, false) => import,
            };
            spec = spec.import(symbol, import.on_fault(grant.on_fault));
        }
        spec = libraries::add(spec, &self.libraries, self.link_room, |path| read(path))?;
        if self.syscalls.is_some() {
            let import = Import::host(arbiter_of(name)).signature("(int) -> int");
            spec = spec.import(sfi_contract::names::ARBITRATE, import);
        }
        if let Some(support) = &self.support {
            for object in &support.objects {
                spec = spec.object("support", *object);
            }
            for archive in &support.archives {
                spec = spec.archive("support", *archive);
            }
            spec = if support.own_start { spec.own_start() } else { spec };
        }
        for (symbol, share) in &self.shared {
            spec = spec.shared(symbol, &share.region, share.access);
        }
        Ok(spec)
    }
}
