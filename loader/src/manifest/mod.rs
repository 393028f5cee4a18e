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
//! control_stack = "1 MiB"        # 8 bytes for each call in progress and each saved register
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

mod domain;
mod error;
pub mod file;
mod interface_file;
mod libraries;
mod only;
mod owner;
mod syscalls;
mod text;
mod values;

pub use domain::{Budget, Domain, Grant, Registered, Share, Support, arbiter_of};
pub use error::ManifestError;
pub use interface_file::{InterfaceFile, Source};
pub use libraries::Room;
pub use owner::{Adaptive, Owner, Penalty};
pub use syscalls::{Denied, Descriptor, Directory, Log, Network, Program, Quotas, Syscalls};
pub use values::{Clock, NoSize, Size, Time};

use crate::manifest::domain::one_way;
use crate::manifest::error::wrong;
use crate::manifest::values::la57;
use crate::spec::capability::Capability;
use crate::spec::interface::Declaration;
use crate::vm::space::La57;
use crate::world::builder::Builder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
        let manifest: Self =
            text::read(text).map_err(|error| ManifestError::Text { path: path.to_owned(), error: Box::new(error) })?;
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

#[cfg(test)]
mod tests;
