//! What the host asks for: domains, their parts, and what they may call. Plain descriptions,
//! checked when a world is built.

pub(crate) mod capability;
pub mod interface;
pub(crate) mod owner;
pub(crate) mod signature;

use crate::fault::limits::Budget;
use crate::spec::capability::Capability;
use crate::spec::interface::Declaration;
use crate::spec::owner::Owner;
use crate::spec::signature::Signature;
use sfi_contract::Mode;
use std::borrow::Cow;
use std::sync::Arc;

/// Default size of a heap, bytes.
pub const DEFAULT_MEMORY: u64 = 64 << 20;
/// Default size of a data stack, bytes.
pub const DEFAULT_STACK: u64 = 1 << 20;

/// What callers pass before the procedure's own arguments.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// How many procedures there are; a caller passes the number of one. `None`: there is one, and
    /// no number.
    pub procedures: Option<usize>,
    /// A caller passes a pointer to its bits.
    pub capability: Option<Capability>,
}

/// What a domain may do with a shared region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// How a domain lies in its window. The window itself always lies at a random place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Every part at a random page. Some eleven mappings of the kernel's.
    #[default]
    Scattered,
    /// Side by side around the places that the contract fixes: five or six mappings, so that ten
    /// thousand domains fit a process, and few page tables. What is secret then is the window's
    /// place alone.
    Dense,
}

/// One domain to be loaded.
#[derive(Clone, Debug)]
pub struct DomainSpec {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) clock: bool,
    pub(crate) memory: u64,
    pub(crate) stack: u64,
    pub(crate) files: Vec<File>,
    pub(crate) imports: Vec<(String, Import)>,
    pub(crate) shared: Vec<Share>,
    pub(crate) exports: Option<Vec<String>>,
    pub(crate) own_start: bool,
    pub(crate) placement: Placement,
    pub(crate) spare: usize,
    pub(crate) callbacks: Option<usize>,
    pub(crate) registers: Vec<(String, Entry)>,
    pub(crate) restart: Restart,
    pub(crate) root: bool,
    pub(crate) budget: Budget,
    pub(crate) owner: Option<Owner>,
    pub(crate) holds: Vec<(String, Capability)>,
}

/// Whether a domain that died is loaded again, at a fresh place, when it is called the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Restart {
    /// No: it is dead until [`crate::World::restart`].
    #[default]
    Never,
    /// Yes.
    Always,
    /// Yes, so many times.
    Limited(u32),
}

/// Most gateways of a domain that are bound at run time.
pub const MAX_SPARE: usize = 1024;
/// Functions that can be passed to a domain, unless [`DomainSpec::callbacks`] says otherwise, if
/// some import or entry point that leads to it has an `fn` in its signature.
pub const DEFAULT_CALLBACKS: usize = 64;

/// A function that a domain registers under a name, for others to connect to.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) functions: Vec<String>,
    pub(crate) signature: Option<String>,
    pub(crate) header: Option<Arc<Header>>,
}

impl Entry {
    /// A global function of the domain.
    pub fn function(function: impl Into<String>) -> Self {
        Self { functions: vec![function.into()], signature: None, header: None }
    }

    /// Several global functions behind one entry point: callers pass the number of one, from 0 on,
    /// as the first argument. The header that looks at it is host code between two crossings. It
    /// passes integers and pointers, up to the sixth argument, its own included, and is not entered
    /// again while it runs.
    pub fn procedures<I: IntoIterator<Item = S>, S: Into<String>>(functions: I) -> Self {
        let functions: Vec<String> = functions.into_iter().map(Into::into).collect();
        let header = Some(Arc::new(Header { procedures: Some(functions.len()), capability: None }));
        Self { functions, signature: None, header }
    }

    /// Callers pass a pointer to the 64 bytes of this capability, behind the number if there is
    /// one. The same kind of header compares them.
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        let procedures = self.header.as_ref().and_then(|h| h.procedures);
        self.header = Some(Arc::new(Header { procedures, capability: Some(capability) }));
        self
    }

    /// Declares what crosses, as for [`Import::signature`].
    #[must_use]
    pub fn signature(mut self, text: impl Into<String>) -> Self {
        self.signature = Some(text.into());
        self
    }

    /// The parsed signature.
    pub(crate) fn parsed(&self, domain: &str, name: &str) -> Result<Option<Signature>, crate::BuildError> {
        let parsed = self.signature.as_deref().map(str::parse).transpose();
        parsed.map_err(|error| crate::BuildError::Signature { domain: domain.into(), symbol: name.into(), error })
    }
}

/// An object or an archive.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub name: String,
    /// Shared, because the world keeps its specifications.
    pub bytes: Arc<Cow<'static, [u8]>>,
    pub archive: bool,
}

/// A shared region seen by a domain.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub symbol: String,
    pub region: String,
    pub access: Access,
}

impl DomainSpec {
    /// A domain without code, in mode write, with a heap of [`DEFAULT_MEMORY`] and a data stack of
    /// [`DEFAULT_STACK`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mode: Mode::Write,
            clock: false,
            memory: DEFAULT_MEMORY,
            stack: DEFAULT_STACK,
            files: Vec::new(),
            imports: Vec::new(),
            shared: Vec::new(),
            exports: None,
            own_start: false,
            placement: Placement::default(),
            spare: 0,
            callbacks: None,
            registers: Vec::new(),
            restart: Restart::Never,
            root: false,
            budget: Budget::NONE,
            owner: None,
            holds: Vec::new(),
        }
    }

    /// The mode that its objects must satisfy.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// It may read the processor's clock (`rdtsc`), if the world grants that too
    /// ([`crate::Builder::clock`]). By default its objects are refused if they do: a precise clock
    /// is what side channels are read with.
    #[must_use]
    pub fn clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// How it lies in its window.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Size of the heap in bytes, rounded up to pages. May be 0.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Size of the data stack in bytes, rounded up to pages.
    #[must_use]
    pub fn stack(mut self, bytes: u64) -> Self {
        self.stack = bytes;
        self
    }

    /// Adds a relocatable object; `name` is for messages.
    #[must_use]
    pub fn object(mut self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.files.push(File { name: name.into(), bytes: Arc::new(bytes.into()), archive: false });
        self
    }

    /// Adds an `ar` archive; members are linked when they define a symbol that is still undefined.
    #[must_use]
    pub fn archive(mut self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.files.push(File { name: name.into(), bytes: Arc::new(bytes.into()), archive: true });
        self
    }

    /// Takes all objects and archives out: to load a domain again from others.
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

    /// Maps a region of the world into the domain. `symbol` becomes its first byte, `symbol` with
    /// `_end` appended the byte behind it.
    #[must_use]
    pub fn shared(mut self, symbol: impl Into<String>, region: impl Into<String>, access: Access) -> Self {
        self.shared.push(Share { symbol: symbol.into(), region: region.into(), access });
        self
    }

    /// The domain's libc runs its initialisers and finalisers itself, when its start function is
    /// called; the loader does not.
    #[must_use]
    pub fn own_start(mut self) -> Self {
        self.own_start = true;
        self
    }

    /// Gateways without a binding, for connections at run time, at most [`MAX_SPARE`]. Default:
    /// none.
    #[must_use]
    pub fn spare_bindings(mut self, count: usize) -> Self {
        self.spare = count;
        self
    }

    /// Most different functions that others pass to this domain as `fn` in its life, at most
    /// [`MAX_SPARE`]. Each gets a gateway, which leads to this function or nowhere until the domain
    /// begins anew. Default: [`DEFAULT_CALLBACKS`], or none if no signature passes it a function.
    #[must_use]
    pub fn callbacks(mut self, count: usize) -> Self {
        self.callbacks = Some(count);
        self
    }

    /// Its gateways: those of its imports, those for connections at run time, and those for
    /// functions that are passed to it, in this order.
    pub(crate) fn gateways(&self) -> usize {
        self.imports.len() + self.spare + self.callbacks.unwrap_or(0)
    }

    /// Whether somebody may pass it a function, as far as signatures tell: its entry points', and
    /// those of imports from it.
    pub(crate) fn takes_functions<'i>(&self, mut imports: impl Iterator<Item = &'i Import>) -> bool {
        let passes = |signature: &Option<String>| {
            let parsed = signature.as_deref().map(str::parse::<Signature>);
            parsed.is_some_and(|signature| signature.is_ok_and(|signature| signature.has_functions()))
        };
        let from = |import: &Import| matches!(&import.callee, Callee::Domain { domain, .. } if *domain == self.name);
        self.registers.iter().any(|(_, entry)| passes(&entry.signature))
            || imports.any(|import| from(import) && passes(&import.signature))
    }

    /// Registers an entry point: others connect to it as `domain.name`.
    #[must_use]
    pub fn registers(mut self, name: impl Into<String>, entry: Entry) -> Self {
        self.registers.push((name.into(), entry));
        self
    }

    /// Who answers for its faults.
    #[must_use]
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Gives the domain a capability: its bits are written to the global variable `symbol` (64
    /// bytes) whenever the domain begins anew.
    #[must_use]
    pub fn holds(mut self, symbol: impl Into<String>, capability: &Capability) -> Self {
        self.holds.push((symbol.into(), capability.clone()));
        self
    }

    /// What the domain may use in its life, see [`Budget`].
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// A root domain sees all regions of its world, read-write, and may be granted
    /// `__sfi_make_visible` and `__sfi_make_invisible`.
    #[must_use]
    pub fn root(mut self) -> Self {
        self.root = true;
        self
    }

    /// What happens after the domain died.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// The functions that must be linked: those that are exported and registered, and those that
    /// others import.
    pub(crate) fn roots(&self, imported: &[String]) -> Vec<String> {
        let registered = self.registers.iter().flat_map(|(_, entry)| &entry.functions);
        self.exports.iter().flatten().chain(registered).chain(imported).cloned().collect()
    }

    /// The functions that other domains may import. Without this, all global functions.
    #[must_use]
    pub fn exports<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.exports = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

/// Where an import leads.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    Domain { domain: String, function: String },
    Host { function: String },
    Entry { name: String },
}

/// What the two sides of an import believe of each other (Yarvin et al. section 3.2): how much of
/// the registers the intermediary saves, clears and restores. Whatever the level, stores stay in
/// the window and the host is not reached: who is trusted wrongly can harm the values of those who
/// trust it, and of nobody else. Trust passes on: a domain shows those whom it trusts what was
/// shown to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Neither is trusted: everything that is not an argument or a result is cleared, the preserved
    /// registers are restored.
    #[default]
    MutualDistrust,
    /// The client trusts the server to preserve what functions preserve and to keep what it sees to
    /// itself. The server does not trust the client.
    TrustedServer,
    /// Each trusts the other: the data stack is switched, and the rest is what the ABI asks of
    /// functions.
    TrustedBoth,
}

impl Trust {
    /// All levels, the least trusting first.
    pub const ALL: [Self; 3] = [Self::MutualDistrust, Self::TrustedServer, Self::TrustedBoth];

    /// As in manifests.
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| {
            format!("unknown trust level `{text}`: expected `mutual-distrust`, `trusted-server` or `trusted-both`")
        })
    }
}

/// A granted crossing.
///
/// Without a [`signature`](Import::signature) all argument registers reach the callee and `rax`,
/// `rdx`, `xmm0`, `xmm1` come back, so values that the compiler left in them do too: anonymity
/// needs the signature.
#[derive(Clone, Debug)]
pub struct Import {
    pub(crate) callee: Callee,
    pub(crate) signature: Option<String>,
    pub(crate) interface: Option<Declaration>,
    pub(crate) on_fault: u64,
    pub(crate) trust: Trust,
    pub(crate) overrides: bool,
}

impl Import {
    /// A function of another domain.
    pub fn domain(domain: impl Into<String>, function: impl Into<String>) -> Self {
        let callee = Callee::Domain { domain: domain.into(), function: function.into() };
        Self { callee, signature: None, interface: None, on_fault: u64::MAX, trust: Trust::default(), overrides: false }
    }

    /// A function of the host.
    pub fn host(function: impl Into<String>) -> Self {
        let callee = Callee::Host { function: function.into() };
        Self { callee, signature: None, interface: None, on_fault: u64::MAX, trust: Trust::default(), overrides: false }
    }

    /// An entry point that a domain registers, `domain.name`. It is bound at once if it exists;
    /// otherwise calls fail with [`crate::Status::Unbound`] until somebody registers it and
    /// [`crate::World::connect`] binds it. The registered signature counts; one that is given here
    /// must be the same.
    pub fn entry(name: impl Into<String>) -> Self {
        let callee = Callee::Entry { name: name.into() };
        Self { callee, signature: None, interface: None, on_fault: u64::MAX, trust: Trust::default(), overrides: false }
    }

    /// Declares what crosses, see [`Signature`]: `(ptr, int, float) -> int`. All other registers
    /// are cleared, and arguments beyond the registers are copied from stack to stack.
    #[must_use]
    pub fn signature(mut self, text: impl Into<String>) -> Self {
        self.signature = Some(text.into());
        self
    }

    /// Declares what the function's pointers point to, see [`crate::spec::interface`]: buffers are
    /// copied from caller to callee and back.
    #[must_use]
    pub fn interface(mut self, declaration: Declaration) -> Self {
        self.signature = Some(declaration.signature());
        self.interface = Some(declaration);
        self
    }

    /// What the caller finds in `rax` when the callee faults or cannot be called. Default -1.
    #[must_use]
    pub fn on_fault(mut self, value: i64) -> Self {
        self.on_fault = value as u64;
        self
    }

    /// Takes the place of a definition in the domain's objects and archives. Without this, such a
    /// definition is an error: the gate takes the name for the object's own. Calls that an
    /// assembler bound inside one object stay as they are.
    #[must_use]
    pub fn overrides(mut self) -> Self {
        self.overrides = true;
        self
    }

    /// What client and server believe of each other. Default: nothing. Host functions are trusted
    /// anyway, and never trust.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// The parsed signature.
    pub(crate) fn parsed(&self) -> Result<Option<Signature>, crate::spec::signature::BadSignature> {
        self.signature.as_deref().map(str::parse).transpose()
    }
}
