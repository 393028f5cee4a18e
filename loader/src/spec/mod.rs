//! Descriptions of a world by its host: domains, their parts, and the functions that they may call.
//! They are checked when a world is built.

pub(crate) mod busy;
pub(crate) mod capability;
pub(crate) mod file;
pub mod interface;
pub(crate) mod library;
pub(crate) mod owner;
pub(crate) mod signature;
pub(crate) mod threads;

use crate::fault::limits::Budget;
use crate::spec::busy::Busy;
use crate::spec::capability::Capability;
use crate::spec::file::{File, FileKind};
use crate::spec::interface::Declaration;
use crate::spec::library::{CLOSE, Library, LinkRoom, OPEN, SYMBOL};
use crate::spec::owner::Owner;
use crate::spec::signature::Signature;
use sfi_contract::Mode;
use std::borrow::Cow;
use std::sync::Arc;

/// Default size of a heap, bytes.
pub const DEFAULT_MEMORY: u64 = 64 << 20;
/// Default size of a data stack, bytes.
pub const DEFAULT_STACK: u64 = 1 << 20;

/// The values that callers pass before the procedure's own arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header {
    /// The number of procedures. A caller passes the number of one. `None`: there is one procedure,
    /// and callers pass no number.
    pub procedures: Option<usize>,
    /// A caller passes a pointer to its bits.
    pub capability: Option<Capability>,
}

/// A domain's access to a shared region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// The layout of a domain in its window. The window itself always lies at a random place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Every part lies at a random page. Takes two of the kernel's mappings for each part and one
    /// more: 13 to 17.
    #[default]
    Scattered,
    /// The parts lie side by side, in one cluster at a random multiple of 1 MiB. Takes six mappings
    /// and few page tables, so that ten thousand domains fit a process. Takes eight if the data
    /// stack finds no room beside the thread locals. The window and the cluster's place in it are
    /// secret, but one part tells the places of all.
    Dense,
}

/// The description of one domain.
#[derive(Clone, Debug)]
pub struct DomainSpec {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) clock: bool,
    /// It may have the clock, or threads, although its loads are not confined.
    pub(crate) exposing: bool,
    pub(crate) memory: u64,
    pub(crate) stack: u64,
    pub(crate) control_stack: u64,
    pub(crate) files: Vec<File>,
    pub(crate) imports: Vec<(String, Import)>,
    pub(crate) shared: Vec<Share>,
    pub(crate) exports: Option<Vec<String>>,
    pub(crate) pointers: Vec<String>,
    pub(crate) own_start: bool,
    pub(crate) placement: Placement,
    pub(crate) spare: usize,
    pub(crate) callbacks: Option<usize>,
    pub(crate) fibers: usize,
    pub(crate) threads: usize,
    /// Lanes of the world, 0 unless it has lanes.
    pub(crate) lanes: usize,
    pub(crate) busy: Busy,
    pub(crate) registers: Vec<(String, Entry)>,
    pub(crate) restart: Restart,
    pub(crate) root: bool,
    pub(crate) budget: Budget,
    pub(crate) instructions: Option<u64>,
    pub(crate) owner: Option<Owner>,
    pub(crate) holds: Vec<(String, Capability)>,
    pub(crate) link_room: Option<LinkRoom>,
    pub(crate) libraries: Vec<Library>,
}

/// The choice whether the next call to a dead domain loads it again, at a fresh place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Restart {
    /// The domain stays dead until [`crate::World::restart`].
    #[default]
    Never,
    /// Every time.
    Always,
    /// This many times.
    Limited(u32),
}

/// Most gateways of a domain that are bound at run time.
pub const MAX_SPARE: usize = 1024;
/// Functions that can be passed to a domain unless [`DomainSpec::callbacks`] is set. Applies if an
/// import or entry point that leads to the domain has an `fn` in its signature.
pub const DEFAULT_CALLBACKS: usize = 64;
/// Fibers of a domain that can wait unless [`DomainSpec::fibers`] is set.
pub const DEFAULT_FIBERS: usize = 64;
/// Most fibers of a domain that can wait.
pub const MAX_FIBERS: usize = 1024;

/// Bytes of a world's control stack unless [`DomainSpec::control_stack`] is set.
pub const DEFAULT_CONTROL_STACK: u64 = 1 << 20;
/// Least bytes of a world's control stack.
pub const MIN_CONTROL_STACK: u64 = 64 << 10;
/// Most bytes of a world's control stack: 458,000 calls without saved registers.
pub const MAX_CONTROL_STACK: u64 = crate::gate::records::MAX_CONTROL_AREA;

/// A function that a domain registers under a name, for others to connect to.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) functions: Vec<String>,
    pub(crate) signature: Option<String>,
    pub(crate) header: Option<Arc<Header>>,
}

impl Entry {
    /// Describes an entry point that is a global function of the domain.
    pub fn function(function: impl Into<String>) -> Self {
        Self { functions: vec![function.into()], signature: None, header: None }
    }

    /// Describes an entry point with several global functions. Callers pass the number of one, from
    /// 0 on, as the first argument. The header that checks it is host code between two crossings.
    /// The header passes on integers and pointers, up to the sixth argument, its own included. It
    /// is not entered again while it runs.
    pub fn procedures<I: IntoIterator<Item = S>, S: Into<String>>(functions: I) -> Self {
        let functions: Vec<String> = functions.into_iter().map(Into::into).collect();
        let header = Some(Arc::new(Header { procedures: Some(functions.len()), capability: None }));
        Self { functions, signature: None, header }
    }

    /// Demands a capability. Callers pass a pointer to its 64 bytes, after the procedure's number
    /// if there is one. The header compares the bytes.
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        let procedures = self.header.as_ref().and_then(|h| h.procedures);
        self.header = Some(Arc::new(Header { procedures, capability: Some(capability) }));
        self
    }

    /// Declares the arguments and the result, as for [`Import::signature`].
    #[must_use]
    pub fn signature(mut self, text: impl Into<String>) -> Self {
        self.signature = Some(text.into());
        self
    }

    /// Returns the parsed signature.
    pub(crate) fn parsed(&self, domain: &str, name: &str) -> Result<Option<Signature>, crate::BuildError> {
        let parsed = self.signature.as_deref().map(str::parse).transpose();
        parsed.map_err(|error| crate::BuildError::Signature { domain: domain.into(), symbol: name.into(), error })
    }
}

/// A shared region seen by a domain.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub symbol: String,
    pub region: String,
    pub access: Access,
}

impl DomainSpec {
    /// Describes a domain without code, in mode write, with a heap of [`DEFAULT_MEMORY`] and a data
    /// stack of [`DEFAULT_STACK`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mode: Mode::Write,
            clock: false,
            exposing: false,
            memory: DEFAULT_MEMORY,
            stack: DEFAULT_STACK,
            control_stack: DEFAULT_CONTROL_STACK,
            files: Vec::new(),
            imports: Vec::new(),
            shared: Vec::new(),
            exports: None,
            pointers: Vec::new(),
            own_start: false,
            placement: Placement::default(),
            spare: 0,
            callbacks: None,
            fibers: DEFAULT_FIBERS,
            threads: 1,
            lanes: 0,
            busy: Busy::default(),
            registers: Vec::new(),
            restart: Restart::Never,
            root: false,
            budget: Budget::NONE,
            instructions: None,
            owner: None,
            holds: Vec::new(),
            link_room: None,
            libraries: Vec::new(),
        }
    }

    /// Sets the mode that its objects must satisfy.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Lets it read the processor's clock (`rdtsc`), if the world grants that too
    /// ([`crate::Builder::clock`]). Without this, objects with the instruction are refused, because
    /// side channels are read with a precise clock. Only in mode full: in the others its loads are
    /// not confined, and a domain with the clock finds the memory of other domains and of the host
    /// within seconds, by speculation and without a fault.
    #[must_use]
    pub fn clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// Lets it read the processor's clock as [`DomainSpec::clock`] does, but in every mode. In
    /// modes write and match all memory of the process counts as readable for the domain.
    #[must_use]
    pub fn clock_exposing(mut self) -> Self {
        self.exposing = true;
        self.clock()
    }

    /// Sets the layout in its window.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the size of the heap in bytes, rounded up to pages. May be 0.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the size of the data stack in bytes, rounded up to pages.
    #[must_use]
    pub fn stack(mut self, bytes: u64) -> Self {
        self.stack = bytes;
        self
    }

    /// Sets the size of the control stack in bytes, rounded up to pages. It holds 8 bytes for each
    /// call in progress, and for each register that a function has saved there. The domains of a
    /// world share one. It has the largest of their sizes when the world is built, and does not
    /// change when a domain is loaded again. At least [`MIN_CONTROL_STACK`] and at most
    /// [`MAX_CONTROL_STACK`]. Default: [`DEFAULT_CONTROL_STACK`].
    #[must_use]
    pub fn control_stack(mut self, bytes: u64) -> Self {
        self.control_stack = bytes;
        self
    }

    /// Adds a relocatable object; `name` is for messages.
    #[must_use]
    pub fn object(mut self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.files.push(File { name: name.into(), bytes: Arc::new(bytes.into()), kind: FileKind::Object });
        self
    }

    /// Adds an `ar` archive; members are linked when they define a symbol that is still undefined.
    #[must_use]
    pub fn archive(mut self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.files.push(File { name: name.into(), bytes: Arc::new(bytes.into()), kind: FileKind::Archive });
        self
    }

    /// Adds an `ar` archive whose members are all linked, as if each were an object.
    #[must_use]
    pub fn whole_archive(mut self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.files.push(File { name: name.into(), bytes: Arc::new(bytes.into()), kind: FileKind::WholeArchive });
        self
    }

    /// Removes all objects and archives, to load a domain again from others.
    #[must_use]
    pub fn without_files(mut self) -> Self {
        self.files.clear();
        self
    }

    /// Grants a crossing: the domain's undefined function `symbol` becomes a gateway.
    #[must_use]
    pub fn import(mut self, symbol: impl Into<String>, import: Import) -> Self {
        self.imports.push((symbol.into(), import));
        self
    }

    /// Maps a region of the world into the domain. `symbol` becomes its first byte, and `symbol`
    /// with `_end` appended the byte after it.
    #[must_use]
    pub fn shared(mut self, symbol: impl Into<String>, region: impl Into<String>, access: Access) -> Self {
        self.shared.push(Share { symbol: symbol.into(), region: region.into(), access });
        self
    }

    /// Leaves initialisers and finalisers to the domain's libc, whose start function runs them. The
    /// loader then does not.
    #[must_use]
    pub fn own_start(mut self) -> Self {
        self.own_start = true;
        self
    }

    /// Reserves room for code that is linked into the domain while it lives
    /// ([`crate::Manage::link`]). Without this nothing can be linked into it.
    #[must_use]
    pub fn link_room(mut self, room: LinkRoom) -> Self {
        self.link_room = Some(room);
        self
    }

    /// Lets the domain open a library by its name while it runs: `dlopen`, `dlsym` and `dlclose` of
    /// programs, or the loader's functions `__sfi_library_open`, `__sfi_library_symbol` and
    /// `__sfi_library_close`, which this grants. The objects are verified when they are opened. The
    /// room is [`LinkRoom::default`] unless [`DomainSpec::link_room`] says otherwise.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        self.link_room.get_or_insert_default();
        if self.libraries.is_empty() {
            let grants =
                [(OPEN, "(ptr, int) -> int", -1), (SYMBOL, "(int, ptr) -> int", 0), (CLOSE, "(int) -> int", -1)];
            for (name, signature, failed) in grants {
                self = self.import(name, Import::host(name).signature(signature).on_fault(failed));
            }
        }
        self.libraries.push(library);
        self
    }

    /// Sets the number of gateways without a binding, for connections at run time, at most
    /// [`MAX_SPARE`]. Default: none.
    #[must_use]
    pub fn spare_bindings(mut self, count: usize) -> Self {
        self.spare = count;
        self
    }

    /// Sets the number of different functions that others can pass to this domain as `fn` in its
    /// life, at most [`MAX_SPARE`]. Each gets a gateway. Until the domain is restarted or loaded
    /// again, the gateway leads to this function or nowhere. Default: [`DEFAULT_CALLBACKS`], or
    /// none if no signature passes it a function.
    #[must_use]
    pub fn callbacks(mut self, count: usize) -> Self {
        self.callbacks = Some(count);
        self
    }

    /// Sets the number of fibers of this domain (`swapcontext`) that can wait while another one
    /// runs, at most [`MAX_FIBERS`]. Each takes up to 64 KiB of host memory for its return
    /// addresses, a word for each call in progress. Memory is used once a fiber waits. Default:
    /// [`DEFAULT_FIBERS`].
    #[must_use]
    pub fn fibers(mut self, count: usize) -> Self {
        self.fibers = count;
        self
    }

    /// Returns the number of its gateways: those of its imports, then those for connections at run
    /// time, then those for functions that are passed to it.
    pub(crate) fn gateways(&self) -> usize {
        self.imports.len() + self.spare + self.lent_gateways()
    }

    /// Returns the number of its gateways for functions that are passed to it. A specification that
    /// is linked without a builder has none unless it asks for some.
    pub(crate) fn lent_gateways(&self) -> usize {
        self.callbacks.unwrap_or(0)
    }

    /// Says whether others may pass it a function. Looks at the signatures of its entry points and
    /// of imports that lead to it.
    pub(crate) fn takes_functions<'i>(&self, mut imports: impl Iterator<Item = &'i Import>) -> bool {
        let passes = |signature: &Option<String>| {
            let parsed = signature.as_deref().map(str::parse::<Signature>);
            parsed.is_some_and(|signature| signature.is_ok_and(|signature| signature.has_functions()))
        };
        let from = |import: &Import| matches!(&import.callee, Callee::Domain { domain, .. } if *domain == self.name);
        self.registers.iter().any(|(_, entry)| passes(&entry.signature))
            || imports.any(|import| from(import) && passes(&import.signature))
    }

    /// Registers an entry point. Others connect to it as `domain.name`.
    #[must_use]
    pub fn registers(mut self, name: impl Into<String>, entry: Entry) -> Self {
        self.registers.push((name.into(), entry));
        self
    }

    /// Sets the owner, who answers for its faults.
    #[must_use]
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Gives the domain a capability. Its bits are written to the global variable `symbol` (64
    /// bytes) whenever the domain is built, restarted or loaded again.
    #[must_use]
    pub fn holds(mut self, symbol: impl Into<String>, capability: &Capability) -> Self {
        self.holds.push((symbol.into(), capability.clone()));
        self
    }

    /// Sets the time that the domain may use in its life, see [`Budget`].
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the number of instructions that the domain may run in one call of the host, with all
    /// domains that lead back to it. The domain then accepts only objects with the checks of
    /// `sfi rewrite --budget`, and has neither fibers nor threads nor handlers of faults. Each call
    /// of the host begins with the whole budget.
    #[must_use]
    pub fn instructions(mut self, most: u64) -> Self {
        self.instructions = Some(most);
        self
    }

    /// Makes it a root domain. It sees all regions of its world, read-write, and may be granted
    /// `__sfi_make_visible` and `__sfi_make_invisible`.
    #[must_use]
    pub fn root(mut self) -> Self {
        self.root = true;
        self
    }

    /// Sets whether the domain restarts after it died.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Returns the functions that must be linked: those that are exported and registered, and those
    /// that others import.
    pub(crate) fn roots(&self, imported: &[String]) -> Vec<String> {
        let registered = self.registers.iter().flat_map(|(_, entry)| &entry.functions);
        self.exports.iter().flatten().chain(registered).chain(imported).cloned().collect()
    }

    /// Sets the functions that other domains may import. Without this, all global functions.
    #[must_use]
    pub fn exports<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.exports = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Gives these global functions function pointers, which the host can look up with
    /// [`DomainRef::symbol`](crate::DomainRef::symbol) and pass to the domain. Names may end in
    /// `*`. Without this, functions have one whose address the domain's own code takes.
    #[must_use]
    pub fn pointers<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.pointers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Says whether a global function gets a function pointer in any case.
    pub(crate) fn has_pointer(&self, function: &str) -> bool {
        self.pointers.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => function.starts_with(start),
            None => function == name,
        })
    }
}

/// The target of an import.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    Domain { domain: String, function: String },
    Host { function: String },
    Entry { name: String },
}

/// The trust between the two sides of an import (Yarvin et al. section 3.2). It decides how many
/// registers the gate saves, clears and restores. At every level stores stay in the window and the
/// host is out of reach: a side that does not deserve trust can harm the values of those who trust
/// it, and nobody else's. Trust passes on: a domain shows those that it trusts the values that were
/// shown to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Neither is trusted. Everything except arguments and results is cleared, and the preserved
    /// registers are restored.
    #[default]
    MutualDistrust,
    /// The client trusts the server to preserve the registers that functions preserve, and to keep
    /// the values that it sees to itself. The server does not trust the client.
    TrustedServer,
    /// Each trusts the other. The data stack is switched, and the rest is left to the ABI of
    /// functions.
    TrustedBoth,
}

impl Trust {
    /// All levels, the least trusting first.
    pub const ALL: [Self; 3] = [Self::MutualDistrust, Self::TrustedServer, Self::TrustedBoth];

    /// Returns the name, as in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Trust::MutualDistrust => "mutual-distrust",
            Trust::TrustedServer => "trusted-server",
            Trust::TrustedBoth => "trusted-both",
        }
    }
}

impl std::fmt::Display for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Trust {
    type Err = UnknownTrust;

    fn from_str(text: &str) -> Result<Self, UnknownTrust> {
        Self::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| UnknownTrust(text.to_owned()))
    }
}

/// A text is no trust level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trust level `{0}`: expected `mutual-distrust`, `trusted-server` or `trusted-both`")]
pub struct UnknownTrust(String);

/// A granted crossing.
///
/// Without a [`signature`](Import::signature) all argument registers reach the callee and `rax`,
/// `rdx`, `xmm0`, `xmm1` come back. So values that the compiler left in them cross too: anonymity
/// needs the signature.
#[derive(Clone, Debug)]
pub struct Import {
    pub(crate) callee: Callee,
    pub(crate) signature: Option<String>,
    pub(crate) interface: Option<Declaration>,
    pub(crate) on_fault: u64,
    pub(crate) trust: Trust,
    pub(crate) overrides: bool,
    pub(crate) wraps: bool,
}

impl Import {
    fn to(callee: Callee) -> Self {
        let (signature, interface, trust) = (None, None, Trust::default());
        Self { callee, signature, interface, on_fault: u64::MAX, trust, overrides: false, wraps: false }
    }

    /// Imports a function of another domain.
    pub fn domain(domain: impl Into<String>, function: impl Into<String>) -> Self {
        let callee = Callee::Domain { domain: domain.into(), function: function.into() };
        Self::to(callee)
    }

    /// Imports a function of the host.
    pub fn host(function: impl Into<String>) -> Self {
        let callee = Callee::Host { function: function.into() };
        Self::to(callee)
    }

    /// Imports an entry point that a domain registers, `domain.name`. It is bound at once if it
    /// exists. Otherwise calls fail with [`crate::Status::Unbound`] until a domain registers it and
    /// [`crate::Manage::connect`] binds it. The registered signature counts. A signature that is
    /// given here must be equal to it.
    pub fn entry(name: impl Into<String>) -> Self {
        let callee = Callee::Entry { name: name.into() };
        Self::to(callee)
    }

    /// Declares the arguments and the result, see [`Signature`]: `(ptr, int, float) -> int`. All
    /// other registers are cleared, and arguments beyond the registers are copied from stack to
    /// stack.
    #[must_use]
    pub fn signature(mut self, text: impl Into<String>) -> Self {
        self.signature = Some(text.into());
        self
    }

    /// Declares the buffers that the function's pointers point to, see [`crate::spec::interface`].
    /// They are copied from caller to callee and back.
    #[must_use]
    pub fn interface(mut self, declaration: Declaration) -> Self {
        self.signature = Some(declaration.signature());
        self.interface = Some(declaration);
        self
    }

    /// Sets the value that the caller finds in `rax` when the callee faults or cannot be called.
    /// Default: -1.
    #[must_use]
    pub fn on_fault(mut self, value: i64) -> Self {
        self.on_fault = value as u64;
        self
    }

    /// Lets the import replace a definition in the domain's objects and archives. Without this,
    /// such a definition is an error, because the gate takes the name for the object's own. Calls
    /// that an assembler bound inside one object stay as they are.
    #[must_use]
    pub fn overrides(mut self) -> Self {
        self.overrides = true;
        self
    }

    /// Replaces a definition as [`Import::overrides`] does, and keeps it for the host: the host
    /// function calls the replaced function ([`crate::HostCall::wrapped`]).
    #[must_use]
    pub fn wraps(self) -> Self {
        Self { wraps: true, ..self.overrides() }
    }

    /// Sets the trust between client and server. Default: none. Host functions are always trusted,
    /// and never trust.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Returns the parsed signature.
    pub(crate) fn parsed(&self) -> Result<Option<Signature>, crate::spec::signature::BadSignature> {
        self.signature.as_deref().map(str::parse).transpose()
    }
}
