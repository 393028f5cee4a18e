//! Errors of building a world and of calling into it.

use crate::fault::report::Fault;
use crate::gate::records::Status;
use crate::link::error::LinkError;
use crate::spec::signature::BadSignature;
use crate::vm::error::MapError;
use crate::vm::memory::MemoryError;
use std::fmt;

/// A world cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Objects cannot be verified or linked.
    #[error(transparent)]
    Link(LinkError),
    /// The operating system refused memory.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The watchdog's thread, which limits and budgets need, does not start.
    #[error("the watchdog thread does not start")]
    Watchdog(#[source] std::io::Error),
    /// The specification does not fit together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A signature cannot be read.
    #[error("the signature of `{symbol}` of domain `{domain}` cannot be read")]
    Signature {
        /// Domain.
        domain: String,
        /// The import.
        symbol: String,
        /// The error in it.
        #[source]
        error: BadSignature,
    },
    /// A connection that a specification asks for cannot be made.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The domains of an owner faulted too often ([`crate::Owner::most_faults`]).
    #[error("the domains of `{owner}` faulted {faults} times: that is the owner's whole budget")]
    Owner {
        /// The owner.
        owner: String,
        /// Faults so far.
        faults: u64,
    },
    /// A domain is not restarted yet, because its owner's penalties are not over and the caller
    /// does not wait.
    #[error("the domains of `{owner}` wait for penalties to be over")]
    NotReady {
        /// The owner.
        owner: String,
    },
    /// An initialiser failed.
    #[error("an initialiser of domain `{domain}` failed")]
    Initialiser {
        /// Domain.
        domain: String,
        /// The failure of its call.
        #[source]
        error: Box<CallError>,
    },
}

/// A specification, or a name that a host asks for, does not fit the world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A domain whose loads are not confined would have the processor's clock.
    #[error(
        "domain `{domain}` may read the clock in mode {mode}, where loads are not confined: it can find and read \
         the memory of other domains and of the host; use mode full, or say that it may \
         (`clock = \"exposing\"`, `DomainSpec::clock_exposing`)"
    )]
    Clock {
        /// The domain.
        domain: String,
        /// Its mode.
        mode: sfi_contract::Mode,
    },
    /// A world cannot have lanes.
    #[error("the world cannot have lanes: {why}")]
    Lanes {
        /// The reason.
        why: String,
    },
    /// A budget of instructions that cannot be kept.
    #[error(
        "the budget of instructions of domain `{0}` is a number from 1 to 2^63 - 1, in mode write or full, and without libraries"
    )]
    Instructions(String),
    /// Two domains, or a domain and a supervisor, with one name.
    #[error("two domains are named `{0}`")]
    TwoDomains(String),
    /// Two host functions with one name.
    #[error("two host functions are named `{0}`")]
    TwoHostFunctions(String),
    /// Two regions with one name.
    #[error("two regions are named `{0}`")]
    TwoRegions(String),
    /// A region that is empty or larger than 2 GiB.
    #[error("region `{region}` has {bytes} bytes: a region has at least one, and at most 2 GiB")]
    RegionSize {
        /// The region.
        region: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A symbol has two grants.
    #[error("domain `{domain}`: `{symbol}` is granted twice")]
    GrantedTwice {
        /// The client.
        domain: String,
        /// The symbol.
        symbol: String,
    },
    /// A domain shares a region that does not exist.
    #[error("domain `{domain}`: there is no region `{region}`")]
    UnknownRegion {
        /// The domain.
        domain: String,
        /// The region.
        region: String,
    },
    /// An import of a host function that does not exist.
    #[error("domain `{domain}`: import `{symbol}`: the host offers no function `{function}`")]
    UnknownHostFunction {
        /// The client.
        domain: String,
        /// The import.
        symbol: String,
        /// The function.
        function: String,
    },
    /// An import from a domain that does not exist.
    #[error("domain `{domain}`: import `{symbol}`: there is no domain `{server}`")]
    UnknownServer {
        /// The client.
        domain: String,
        /// The import.
        symbol: String,
        /// The domain that was named.
        server: String,
    },
    /// An import of a function that its domain does not export.
    #[error("domain `{domain}`: import `{symbol}`: domain `{server}` does not export `{function}`")]
    NotExported {
        /// The client.
        domain: String,
        /// The import.
        symbol: String,
        /// The domain that has the function.
        server: String,
        /// The function.
        function: String,
    },
    /// An import of a function that its domain does not have.
    #[error("domain `{domain}`: import `{symbol}`: domain `{server}` has no global function `{function}`")]
    NoFunction {
        /// The client.
        domain: String,
        /// The import.
        symbol: String,
        /// The domain that was asked.
        server: String,
        /// The function.
        function: String,
    },
    /// An entry point is registered twice.
    #[error("domain `{domain}`: the entry point `{entry}` is registered twice")]
    RegisteredTwice {
        /// The server.
        domain: String,
        /// The entry point.
        entry: String,
    },
    /// More gateways for connections at run time, or for functions that are passed to it, than a
    /// domain may have ([`crate::MAX_SPARE`]).
    #[error("domain `{domain}`: more than {most} gateways for connections at run time or for functions")]
    TooManySpare {
        /// The client.
        domain: String,
        /// The most that are allowed.
        most: usize,
    },
    /// A control stack that is too small or too large.
    #[error("domain `{domain}`: a control stack of {bytes} bytes; it has at least {least} and at most {most}")]
    ControlStack {
        /// The domain.
        domain: String,
        /// The size that it asks for.
        bytes: u64,
        /// The least that is allowed.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// More fibers than a domain may have ([`crate::MAX_FIBERS`]).
    #[error("domain `{domain}`: more than {most} fibers")]
    TooManyFibers {
        /// The domain.
        domain: String,
        /// The most that are allowed.
        most: usize,
    },
    /// A domain with threads and something that it cannot have, or too many threads.
    #[error("domain `{domain}` with threads: {why}")]
    Threads {
        /// The domain.
        domain: String,
        /// The contradiction.
        why: &'static str,
    },
    /// A capability that a domain holds has no variable of 64 bytes of writable memory.
    #[error("domain `{domain}`: capability `{symbol}`: there is no such variable of 64 bytes of writable memory")]
    CapabilityVariable {
        /// The holder.
        domain: String,
        /// The variable.
        symbol: String,
    },
    /// The header of an entry point cannot be added, changed or taken away at run time.
    #[error("the header of `{domain}.{entry}` exists from the start or not at all, and cannot change")]
    Header {
        /// The server.
        domain: String,
        /// The entry point.
        entry: String,
    },
    /// A domain is loaded again under another name.
    #[error("domain `{domain}` cannot become `{name}`")]
    Renamed {
        /// The domain.
        domain: String,
        /// The name in the new specification.
        name: String,
    },
    /// No such domain or instance.
    #[error(transparent)]
    Unknown(#[from] LookupError),
}

impl From<LookupError> for BuildError {
    fn from(error: LookupError) -> Self {
        Self::Spec(error.into())
    }
}

impl From<LinkError> for BuildError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Map(error) => Self::Map(error),
            error => Self::Link(error),
        }
    }
}

/// A connection cannot be made or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// Nobody registered the entry point.
    #[error("nobody registered the entry point `{0}`")]
    Entry(String),
    /// Neither a rule nor the host's own function allows it.
    #[error("domain `{client}` may not connect to `{entry}`")]
    Refused {
        /// The domain that asked.
        client: String,
        /// The entry point that it asked for.
        entry: String,
    },
    /// The client's import declares another signature or kind.
    #[error("the import of domain `{client}` and the entry point `{entry}` do not have the same signature or kind")]
    Signature {
        /// The domain that asked.
        client: String,
        /// The entry point that it asked for.
        entry: String,
    },
    /// The client's specification has no such import.
    #[error("domain `{domain}` has no import `{symbol}`")]
    Import {
        /// The client.
        domain: String,
        /// The symbol.
        symbol: String,
    },
    /// All gateways that the client has for connections at run time are in use.
    #[error("domain `{domain}` has no free gateway; see `DomainSpec::spare_bindings`")]
    NoSpare {
        /// The client.
        domain: String,
    },
    /// All gateways of the domain for functions that are passed to it have a function already.
    #[error("domain `{domain}` has no gateway left for a function; see `DomainSpec::callbacks`")]
    NoCallback {
        /// The domain.
        domain: String,
    },
    /// The host already lends the domain a function of this name, or lends none.
    #[error("domain `{domain}`: a function `{name}` of the host is lent twice, or not at all")]
    Lent {
        /// The domain.
        domain: String,
        /// The function's name.
        name: String,
    },
    /// A call in progress needs the binding or the domain that would change.
    #[error("domain `{domain}` is in the middle of a call")]
    Active {
        /// The domain.
        domain: String,
    },
    /// During a call a domain can only be loaded again if it uses no registers that it did not use
    /// before.
    #[error("domain `{domain}` uses more registers than before; load it when no call is in progress")]
    Busy {
        /// The domain.
        domain: String,
    },
    /// Instances of the domain run the same text.
    #[error(
        "SFI-M03: domain `{domain}` is or has an instance, which runs the image that would be replaced; discard instances before it is loaded again"
    )]
    Instances {
        /// The domain.
        domain: String,
    },
    /// Memory ran out in the middle of a reload, so bindings lead to the old domain, which is gone.
    #[error("memory ran out when domain `{domain}` was loaded again: it is dead until a reload succeeds")]
    Torn {
        /// The domain.
        domain: String,
    },
    /// A name that is empty, holds the separator, a dot, or a character that cannot be printed.
    #[error(
        "`{}` is no name: it is empty, or has a dot, which stands between a domain and its entry point, or a character that cannot be printed",
        sfi_contract::text::clean(.0.as_bytes())
    )]
    Name(String),
    /// The name is taken.
    #[error("the entry point `{0}` is registered already")]
    Taken(String),
    /// A domain registered too many entry points while it ran.
    #[error("domain `{domain}` registers too many entry points")]
    TooMany {
        /// The domain.
        domain: String,
    },
    /// No such function.
    #[error("domain `{domain}` has no global function `{function}`")]
    Function {
        /// The server.
        domain: String,
        /// The function.
        function: String,
    },
    /// Bindings and regions of a world with lanes do not change.
    #[error("the world has lanes, so its bindings and regions do not change")]
    Lanes,
    /// No such domain or region.
    #[error(transparent)]
    Unknown(#[from] LookupError),
    /// The operating system refused memory.
    #[error("cannot change the bindings")]
    Memory(#[source] rustix::io::Errno),
}

/// A call did not return.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The callee faulted. It is dead until [`crate::World::restart`].
    #[error("{0}")]
    Fault(Fault),
    /// The callee had faulted before, or was left by a panic of a host function.
    #[error("domain `{domain}` is dead since an earlier fault; restart it")]
    Dead {
        /// Domain.
        domain: String,
    },
    /// The callee is dead and will be restarted automatically, but its owner's penalties are not
    /// over ([`crate::Penalty`]). [`crate::World::ready_at`] gives the time of their end.
    #[error("domain `{domain}` is dead since an earlier fault and waits for its owner's penalties")]
    NotReady {
        /// Domain.
        domain: String,
    },
    /// The domain is active and its data stack pointer cannot be used for a nested call.
    #[error("domain `{domain}` is active with an unusable data stack")]
    Busy {
        /// Domain.
        domain: String,
    },
    /// Other callers have all E-stacks of the domain, and the time to wait for one is over
    /// ([`crate::DomainSpec::busy`]).
    #[error("other callers are in domain `{domain}`")]
    Occupied {
        /// Domain.
        domain: String,
    },
    /// Other callers have all E-stacks of the domain, and wait for domains that this caller is in.
    #[error("deadlock: the callers in domain `{domain}` wait for this one")]
    Deadlock {
        /// Domain.
        domain: String,
    },
    /// Calls between host and domains are nested too deeply.
    #[error("calls between host and domains are nested too deeply")]
    TooDeep,
    /// Stack arguments do not fit the callee's data stack.
    #[error("stack arguments do not fit the data stack of domain `{domain}`")]
    Arguments {
        /// Domain.
        domain: String,
    },
    /// The domain was loaded again, and the function is gone or has no name by which it could be
    /// found again.
    #[error("domain `{domain}` was loaded again and the function is gone")]
    Gone {
        /// Domain.
        domain: String,
    },
    /// A call with limits of its own in a world without any.
    #[error("the world was built without limits; see `Builder::timed`")]
    Untimed,
    /// A call with limits of its own, and the watchdog's thread, which no limit needed before, does
    /// not start. The function is not called.
    #[error("the watchdog thread, which a limit needs, does not start ({0})")]
    Watchdog(std::io::ErrorKind),
    /// The call has a budget of instructions, but its domain has none, or the budget is no number
    /// from 1 to 2^63 - 1.
    #[error("a budget of instructions needs a domain with one")]
    Unbudgeted,
    /// The function belongs to another world.
    #[error("the function belongs to another world")]
    WrongWorld,
    /// The function belongs to an instance that was discarded.
    #[error("the instance was discarded")]
    Discarded,
    /// A pointer that is no function of the domain.
    #[error("the pointer is no function of domain `{domain}`")]
    NotAFunction {
        /// Domain.
        domain: String,
    },
}

/// The reason why a call by the host did not return, before it is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A status of a gate, other than [`Status::Ok`].
    Status(Status),
    /// See [`CallError::TooDeep`].
    TooDeep,
    /// See [`CallError::Gone`].
    Gone,
    /// See [`CallError::WrongWorld`].
    WrongWorld,
    /// See [`CallError::Discarded`].
    Discarded,
}

/// A name that does not exist in a world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No such domain.
    #[error("there is no domain `{0}`")]
    Domain(String),
    /// No such function.
    #[error("domain `{domain}` has no global function `{function}`")]
    Function {
        /// Domain.
        domain: String,
        /// Function.
        function: String,
    },
    /// The instance was discarded, or belongs to another world.
    #[error("the instance does not exist in this world")]
    Instance,
    /// No such region.
    #[error("there is no shared region `{0}`")]
    Region(String),
}

/// A host function's refusal. The domain that called gets its import's `on_fault` value, and
/// `__sfi_error` is set.
#[derive(Debug)]
pub struct HostError {
    message: Box<str>,
    status: Status,
    exit: Option<i32>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl HostError {
    /// Makes an error with a message for the host's own use.
    pub fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into(), status: Status::Host, exit: None, source: None }
    }

    /// Makes an error that sets the caller's `__sfi_error` to this status.
    pub(crate) fn of_status(status: Status, message: impl Into<Box<str>>) -> Self {
        Self { status, ..Self::new(message) }
    }

    /// Makes an error that ends the domain that called. The domain is dead, and its own callers get
    /// a fault of the kind [`crate::FaultKind::Exit`].
    pub fn end_caller(code: i32) -> Self {
        Self { exit: Some(code), ..Self::new("the domain ended itself") }
    }

    /// Returns the exit status for a caller that is to end.
    pub(crate) fn exit(&self) -> Option<i32> {
        self.exit
    }

    /// Returns the status for the caller's `__sfi_error`.
    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl From<MemoryError> for HostError {
    fn from(error: MemoryError) -> Self {
        Self { source: Some(error.into()), ..Self::new("the caller's memory cannot be used") }
    }
}

impl From<LookupError> for HostError {
    fn from(error: LookupError) -> Self {
        Self { source: Some(error.into()), ..Self::new("the host function named an unknown domain or entry") }
    }
}

/// A domain that the host function called failed. The function's caller gets the status that a call
/// of its own would have given.
impl From<CallError> for HostError {
    fn from(error: CallError) -> Self {
        let status = match &error {
            CallError::Fault(_) => Status::Fault,
            CallError::Dead { .. } => Status::Dead,
            CallError::NotReady { .. } => Status::NotReady,
            CallError::Occupied { .. } => Status::Occupied,
            CallError::Deadlock { .. } => Status::Deadlock,
            CallError::Busy { .. } | CallError::TooDeep => Status::Refused,
            CallError::Arguments { .. } => Status::Arguments,
            _ => Status::Host,
        };
        Self { status, source: Some(error.into()), ..Self::new("a call of the host function failed") }
    }
}
