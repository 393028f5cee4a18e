//! Domain manifests: a world described in TOML.
//!
//! ```toml
//! [entry]                        # the call of `sfi run`; embedders need none
//! domain = "app"
//! function = "sfi_main"
//! args = [1, 2]                  # optional integers, at most six
//!
//! [regions]
//! exchange = "1 MiB"             # shared memory; sizes are bytes or "KiB", "MiB", "GiB"
//!
//! [files]
//! input = "data.bin"             # for host functions to open, relative to the manifest
//!
//! [domains.app]
//! objects = ["app.o"]            # relative to the manifest; all members of an archive
//! archives = ["rt.a"]            # members are linked as needed
//! mode = "write"                 # write (default), full or match
//! memory = "64 MiB"              # heap
//! stack = "1 MiB"                # data stack
//! control_stack = "1 MiB"        # return addresses, 8 bytes for each call in progress
//! clock = false                  # may read `rdtsc`: true (mode full only) or "exposing"
//! placement = "scattered"        # scattered (default) or dense
//!
//! [domains.app.imports]
//! host_write = { host = "host_write", signature = "(int, int) -> int" }
//! # Takes the place of a definition in the objects:
//! close = { host = "close", signature = "(int) -> int", override = true }
//!
//! [domains.app.imports.compress]
//! domain = "codec"
//! function = "compress"
//! signature = "(ptr, int) -> int"
//! on_fault = -1
//! trust = "mutual-distrust"
//!
//! [domains.app.imports.each]
//! domain = "codec"
//! function = "each"
//! # The first argument is a function of `app`:
//! signature = "(fn(int, ptr) -> int, int) -> int"
//!
//! [domains.app.shared]
//! buffer = { region = "exchange", access = "read-write" }
//!
//! [domains.codec]
//! objects = ["codec.o"]
//! exports = ["compress"]         # functions that other domains may import
//! # Functions whose pointers the host can look up; names may end in `*`. Default: those whose
//! # address the domain's code takes.
//! pointers = ["on_*"]
//! shared = { buffer = { region = "exchange" } }
//! # Loads it again, elsewhere, after a fault: "never" (default), "always" or a number of times.
//! restart = 3
//! # The time that the domain itself may use in its life. Default: no bound.
//! budget = { cpu = "1 s", wall = "5 s" }
//! # instructions = 20000              in each call of the host; objects of `sfi rewrite --budget`
//! owner = "alice"                # answers for its faults
//!
//! [domains.codec.registers]      # entry points, for others to connect to as `codec.NAME`
//! size = { function = "size", signature = "(int) -> int" }
//!
//! [domains.codec.registers.ops]
//! procedures = ["open", "close"]
//! capability = true
//! signature = "(int, int, int) -> int"
//!
//! [domains.tool]
//! objects = ["tool.o"]
//! root = false                   # a root domain sees all regions
//! spare_bindings = 4             # gateways for `__sfi_connect`
//! # Different functions that others may pass to it as `fn`. Default: 64 if a signature has an `fn`
//! # for it, else none.
//! callbacks = 64
//! # Fibers (`swapcontext`) that can wait while another one runs. Default: 64.
//! fibers = 64
//! # Threads at a time, the first one included. Default: 1. More only for a program that is alone,
//! # in mode full or with `clock = "exposing"`. In a world with lanes: callers at a time.
//! threads = 1
//! # Lanes: callers beyond that wait so long (default: 1 s), or "refuse".
//! busy = "10 ms"
//! # Libraries that it may open by name (`dlopen`), and the room for all that is linked into it.
//! libraries.codec = ["codec.sfi.o"]
//! link_room = { libraries = 64, slots = 4096, bytes = "16 MiB" }
//! imports.size = { entry = "codec.size" }  # an entry point by name
//! imports.__sfi_connect = { host = "__sfi_connect" }
//! capabilities.key = "codec.ops" # the variable `key` (64 bytes) gets the bits
//!
//! [[permit]]                     # a client and entry points for it; names may end in `*`
//! client = "tool"
//! entry = "codec.*"
//!
//! [owners.alice]
//! faults = 100                   # then nothing of hers is restarted any more; default: no bound
//! # Or one time for every fault, such as "1 s". Calls do not wait for it.
//! penalty = { first = "10 ms", most = "10 s", window = "1 min" }
//!
//! [limits]                       # of each call of the host: seconds or "ms", "s", "min"
//! call = "2 s"                   # wall clock; default: none
//! cpu = "1 s"                    # processor time
//!
//! [placement]
//! # Windows in 56 bits of address: true (an error if that is impossible), "if-available" or false
//! # (default).
//! la57 = "if-available"
//! ```

pub mod file;
mod interface_file;
mod libraries;
mod only;
mod syscalls;
mod values;

pub use interface_file::{InterfaceFile, Source};
pub use libraries::Room;
pub use syscalls::{Denied, Descriptor, Directory, Log, Network, Program, Quotas, Syscalls};
pub use values::{Clock, NoSize, Size, Time};

use crate::spec::capability::Capability;
use crate::spec::interface::Declaration;
use crate::spec::signature::Signature;
use crate::spec::{self, Access, DomainSpec, Import, Placement, Restart, Trust};
use crate::vm::space::La57;
use crate::world::builder::Builder;
use sfi_contract::Mode;
use sfi_verifier::elf::archive::is_archive;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use values::{
    access, busy, default_control_stack, default_memory, default_stack, la57, minus_one, mode, one_thread, read_write,
    restart, signature, trust,
};

/// A manifest in the form in which it was written.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The function that a run calls. A host that embeds the loader needs none.
    #[serde(default)]
    pub entry: Option<EntryCall>,
    /// Shared regions by name, and their sizes in bytes.
    #[serde(default)]
    pub regions: BTreeMap<String, Size>,
    /// Files that host functions may read, by name.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
    /// Interfaces by name, see [`crate::spec::interface`].
    #[serde(default)]
    pub interfaces: BTreeMap<String, Source>,
    /// Domains by name.
    pub domains: BTreeMap<String, Domain>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// The choice of address space for windows.
    #[serde(default)]
    pub placement: Space,
    /// Rules about connections.
    #[serde(default)]
    pub permit: Vec<Permit>,
    /// Owners by name.
    #[serde(default)]
    pub owners: BTreeMap<String, Owner>,
}

/// A rule, see [`Builder::permit`].
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permit {
    /// Domain. May end in `*`.
    pub client: String,
    /// Entry point. May end in `*`.
    pub entry: String,
}

/// An owner of domains.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// See [`crate::Owner::most_faults`].
    pub faults: Option<u64>,
    /// See [`crate::Owner::penalty`].
    #[serde(default)]
    pub penalty: Penalty,
}

/// The price of a fault, see [`crate::Penalty`].
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(untagged)]
pub enum Penalty {
    /// No delay.
    #[default]
    None,
    /// An equal delay for every fault.
    Constant(Time),
    /// A delay that doubles for every earlier fault.
    Adaptive(Adaptive),
}

/// See [`crate::Penalty::Adaptive`].
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// The delay for the first fault.
    pub first: Time,
    /// The longest delay.
    pub most: Time,
    /// The time for which faults count.
    pub window: Time,
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

/// Limits of a run.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall clock for each call of the host, see [`Builder::time_limit`].
    pub call: Option<Time>,
    /// Processor time for each call of the host, see [`Builder::cpu_limit`].
    pub cpu: Option<Time>,
}

/// The choice of address space for windows.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// See [`Builder::la57`].
    #[serde(default, deserialize_with = "la57")]
    pub la57: La57,
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

/// The function that a run calls.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryCall {
    /// Domain.
    pub domain: String,
    /// Global function of that domain.
    pub function: String,
    /// Integer arguments, at most six.
    #[serde(default)]
    pub args: Vec<i64>,
}

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

/// A manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The text is not a manifest; the message names line and column.
    #[error("`{}` is not a manifest", path.display())]
    Text {
        /// The manifest.
        path: PathBuf,
        /// The error and its place.
        #[source]
        error: Box<toml::de::Error>,
    },
    /// The manifest contradicts itself.
    #[error("{}: {why}", path.display())]
    Meaning {
        /// The manifest.
        path: PathBuf,
        /// The contradiction.
        why: String,
    },
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn load(path: &Path) -> Result<Self, ManifestError> {
        let unreadable = |error| ManifestError::File { path: path.to_owned(), error };
        Self::parse(&file::read_text(path).map_err(unreadable)?, path)
    }

    /// Reads a manifest's text; `path` is for messages.
    ///
    /// # Errors
    /// [`ManifestError::Text`] and [`ManifestError::Meaning`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ManifestError> {
        let wrong = |why: String| Err(ManifestError::Meaning { path: path.to_owned(), why });
        // A program may be larger, and is read in the same way.
        if text.len() as u64 > file::MOST_TEXT {
            return wrong(format!("it is larger than {} MiB", file::MOST_TEXT >> 20));
        }
        let manifest: Self = toml::from_str(text)
            .map_err(|error| ManifestError::Text { path: path.to_owned(), error: Box::new(error) })?;
        if let Some(entry) = &manifest.entry {
            if !manifest.domains.contains_key(&entry.domain) {
                return wrong(format!("entry: there is no domain `{}`", entry.domain));
            }
            if entry.args.len() > 6 {
                return wrong("entry: more than six arguments".into());
            }
        }
        for (name, domain) in &manifest.domains {
            let both = |r: &Registered| r.function.is_some() != r.procedures.is_empty();
            if let Some((entry, _)) = domain.registers.iter().find(|(_, r)| both(r)) {
                return wrong(format!(
                    "domain `{name}`: entry point `{entry}`: give either `function` or `procedures`"
                ));
            }
        }
        for (name, domain) in &manifest.domains {
            for (symbol, grant) in &domain.imports {
                let ways = [&grant.host, &grant.domain, &grant.entry].into_iter().flatten().count();
                if ways != 1 || grant.domain.is_none() && grant.function.is_some() {
                    return wrong(one_way(name, symbol));
                }
                if grant.host.is_some() && grant.trust.is_some() {
                    return wrong(format!(
                        "domain `{name}`: import `{symbol}`: a host function is trusted and does not trust: no `trust`"
                    ));
                }
                if let Some(interface) = &grant.interface {
                    if grant.domain.is_none()
                        || grant.signature.is_some()
                        || grant.trust.is_some()
                        || !manifest.interfaces.contains_key(interface)
                    {
                        return wrong(format!(
                            "domain `{name}`: import `{symbol}`: `interface` names one of `[interfaces]`, for a function of a domain, instead of `signature` and `trust`"
                        ));
                    }
                } else if grant.domain.is_some() && grant.signature.is_none() {
                    return wrong(format!(
                        "domain `{name}`, import `{symbol}`: a call to another domain needs a signature such as \
                         \"(int, ptr) -> int\": without it registers carry leftovers across, addresses among them"
                    ));
                }
            }
        }
        Ok(manifest)
    }

    /// Adds everything but the host functions to a description of a world. Paths are relative to
    /// `directory`.
    ///
    /// # Errors
    /// [`ManifestError::File`].
    pub fn build(&self, mut builder: Builder, directory: &Path) -> Result<Builder, ManifestError> {
        for (name, size) in &self.regions {
            builder = builder.region(name, size.0);
        }
        builder = builder.la57(self.placement.la57);
        if let Some(limit) = self.limits.call {
            builder = builder.time_limit(limit.0);
        }
        builder = builder.cpu_limit(self.limits.cpu.map(|l| l.0));
        for rule in &self.permit {
            builder = builder.permit(&rule.client, &rule.entry);
        }
        let owners: BTreeMap<&str, crate::Owner> = self.owners.iter().map(|(n, o)| (n.as_str(), o.owner(n))).collect();
        let mut capabilities = BTreeMap::new();
        for (name, domain) in &self.domains {
            for (entry, _) in domain.registers.iter().filter(|(_, r)| r.capability) {
                let capability = Capability::generate().map_err(|error| wrong(directory, crate::chain(&error)))?;
                capabilities.insert(format!("{name}.{entry}"), capability);
            }
        }
        for (name, domain) in &self.domains {
            let mut spec = domain
                .spec(name, directory, &|interface, function| self.declaration(interface, function, directory))?;
            for (entry, registered) in &domain.registers {
                spec = spec.registers(entry, registered.entry(capabilities.get(&format!("{name}.{entry}"))));
            }
            for (symbol, entry) in &domain.capabilities {
                let capability = capabilities.get(entry).ok_or_else(|| {
                    wrong(directory, format!("domain `{name}`: no entry point `{entry}` has a capability"))
                })?;
                spec = spec.holds(symbol, capability);
            }
            if let Some(owner) = &domain.owner {
                let found = owners.get(owner.as_str());
                let found =
                    found.ok_or_else(|| wrong(directory, format!("domain `{name}`: there is no owner `{owner}`")))?;
                spec = spec.owner(found);
            }
            builder = builder.domain(spec);
        }
        Ok(builder)
    }
}

impl Manifest {
    /// Returns the declarations of an interface. Paths are relative to `directory`.
    ///
    /// # Errors
    /// [`ManifestError`]: the file cannot be read, or there is no such interface.
    pub fn interface(&self, name: &str, directory: &Path) -> Result<Vec<Declaration>, ManifestError> {
        let source = self.interfaces.get(name);
        source.ok_or_else(|| wrong(directory, format!("there is no interface `{name}`")))?.read(directory)
    }

    fn declaration(&self, interface: &str, function: &str, directory: &Path) -> Result<Declaration, ManifestError> {
        let found = self.interface(interface, directory)?.into_iter().find(|d| d.name == function);
        let why = || format!("the interface `{interface}` declares no function `{function}`");
        found.ok_or_else(|| wrong(directory, why()))
    }
}

/// Returns the error for an import with no target, or with several.
fn one_way(domain: &str, symbol: &str) -> String {
    format!("domain `{domain}`: import `{symbol}`: give either `host`, `entry`, or `domain` and `function`")
}

fn wrong(directory: &Path, why: String) -> ManifestError {
    ManifestError::Meaning { path: directory.to_owned(), why }
}

impl Registered {
    fn entry(&self, capability: Option<&Capability>) -> spec::Entry {
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

impl Owner {
    fn owner(&self, name: &str) -> crate::Owner {
        let owner = crate::Owner::new(name).penalty(match self.penalty {
            Penalty::None => crate::Penalty::None,
            Penalty::Constant(time) => crate::Penalty::Constant(time.0),
            Penalty::Adaptive(Adaptive { first, most, window }) => {
                crate::Penalty::Adaptive { first: first.0, most: most.0, window: window.0 }
            }
        });
        match self.faults {
            Some(faults) => owner.most_faults(faults),
            None => owner,
        }
    }
}

impl Domain {
    fn spec(
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

#[cfg(test)]
mod tests;
