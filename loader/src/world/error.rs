//! Errors of building a world and of calling into it.

use crate::fault::Fault;
use crate::gate::records::status;
use crate::spec::signature::BadSignature;
use crate::vm::memory::MemoryError;
use std::fmt;

/// A world cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// An object is not readable.
    #[error("{file}: {why}")]
    Unreadable {
        /// Object or `archive(member)`.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// The verifier refused objects; every violation is listed.
    #[error("domain `{domain}` was refused:\n{}", lines(.violations))]
    Refused {
        /// Domain.
        domain: String,
        /// One line per violation.
        violations: Vec<String>,
    },
    /// The verifier refused the linked text. This is a defect of the loader.
    #[error("domain `{domain}`: the final text was refused:\n{}", lines(.violations))]
    FinalText {
        /// Domain.
        domain: String,
        /// One line per violation.
        violations: Vec<String>,
    },
    /// Symbols without a definition.
    #[error("domain `{domain}` has undefined symbols:\n{}", lines(.symbols))]
    Undefined {
        /// Domain.
        domain: String,
        /// `symbol (used in file)`, one per symbol.
        symbols: Vec<String>,
    },
    /// Symbols with more than one strong definition.
    #[error("domain `{domain}` defines symbols twice:\n{}", lines(.symbols))]
    Duplicate {
        /// Domain.
        domain: String,
        /// `symbol (file, file)`, one per symbol.
        symbols: Vec<String>,
    },
    /// Something that linking cannot do, with its place.
    #[error("domain `{domain}`: {place}: {why}")]
    Link {
        /// Domain.
        domain: String,
        /// File, section and offset.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The specification does not fit together.
    #[error("{0}")]
    Spec(String),
    /// A signature cannot be read.
    #[error("import `{symbol}` of domain `{domain}`: {error}")]
    Signature {
        /// Domain.
        domain: String,
        /// The import.
        symbol: String,
        /// What is wrong.
        error: BadSignature,
    },
    /// The operating system gave no memory.
    #[error("cannot map memory for {what}: {error}")]
    Memory {
        /// What it was for.
        what: String,
        /// The system's error.
        error: rustix::io::Errno,
    },
    /// The kernel allows no more mappings. Everything that exists keeps working.
    #[error(
        "SFI-M01: no more mappings for {what}: vm.max_map_count is {limit}, this process has {mappings}, with {domains} domains; \
         drop domains, place them densely, or raise the limit (sysctl vm.max_map_count)"
    )]
    Mappings {
        /// What they were for.
        what: String,
        /// `vm.max_map_count`.
        limit: u64,
        /// Mappings of the process.
        mappings: u64,
        /// Domains of the process.
        domains: u64,
    },
    /// [`crate::La57::Always`] on a machine without five-level paging.
    #[error(
        "SFI-M02: windows were to be placed in 56 bits of address, and this processor or its kernel has no five-level paging (la57); \
         leave `la57` out, or let it be \"if-available\""
    )]
    FiveLevels,
    /// A connection that a specification asks for cannot be made.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// The domains of an owner faulted too often ([`crate::Owner::most_faults`]).
    #[error("the domains of `{owner}` faulted {faults} times: that is the owner's whole budget")]
    Owner {
        /// The owner.
        owner: String,
        /// Faults so far.
        faults: u64,
    },
    /// An initialiser failed.
    #[error("an initialiser of domain `{domain}` failed: {error}")]
    Initialiser {
        /// Domain.
        domain: String,
        /// How.
        error: CallError,
    },
}

impl BuildError {
    /// The system refused memory for `what`; says so if that is because of the number of mappings.
    pub(crate) fn memory(what: &str, error: rustix::io::Errno) -> Self {
        if error == rustix::io::Errno::NOMEM {
            let p = crate::vm::ledger::pressure();
            if p.exhausted {
                let (limit, mappings, domains) = (p.limit, p.mappings, p.domains);
                return BuildError::Mappings { what: what.to_owned(), limit, mappings, domains };
            }
        }
        BuildError::Memory { what: what.to_owned(), error }
    }
}

/// Makes a [`BuildError::Memory`].
pub(crate) fn memory(what: &str) -> impl FnOnce(rustix::io::Errno) -> BuildError {
    let what = what.to_owned();
    move |error| BuildError::memory(&what, error)
}

fn lines(items: &[String]) -> String {
    items.iter().map(|i| format!("  {i}")).collect::<Vec<_>>().join("\n")
}

/// A connection cannot be made or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// Nobody registered the entry point.
    #[error("nobody registered the entry point `{0}`")]
    Entry(String),
    /// Neither a rule nor the host allows it.
    #[error("domain `{client}` may not connect to `{entry}`")]
    Refused {
        /// Who asked.
        client: String,
        /// For what.
        entry: String,
    },
    /// The client expects something else.
    #[error("the import of domain `{client}` and the entry point `{entry}` do not have the same signature or kind")]
    Signature {
        /// Who asked.
        client: String,
        /// For what.
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
    /// A call in progress needs what would change.
    #[error("domain `{domain}` is in the middle of a call")]
    Active {
        /// The domain.
        domain: String,
    },
    /// During a call a domain can only be loaded again if it uses no registers that it did not use before.
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
    /// No such domain or region.
    #[error("{0}")]
    Unknown(#[from] LookupError),
    /// The operating system gave no memory.
    #[error("cannot change the bindings: {0}")]
    Memory(rustix::io::Errno),
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
    /// The domain is active and its data stack pointer cannot be used for a nested call.
    #[error("domain `{domain}` is active with an unusable data stack")]
    Busy {
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
    /// The domain was loaded again, and the function has no name by which it could be found again or is gone.
    #[error("domain `{domain}` was loaded again and the function is gone")]
    Gone {
        /// Domain.
        domain: String,
    },
    /// A call with limits of its own in a world without any.
    #[error("the world was built without limits; see `Builder::timed`")]
    Untimed,
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

/// A host function's refusal. The domain that called finds its import's `on_fault` value and `__sfi_error` set.
#[derive(Debug)]
pub struct HostError {
    message: Box<str>,
    status: u32,
}

impl HostError {
    /// An error with a message for the host's own use.
    pub fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into(), status: status::HOST }
    }

    /// What the caller finds in `__sfi_error`.
    pub(crate) fn status(&self) -> u32 {
        self.status
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HostError {}

impl From<MemoryError> for HostError {
    fn from(error: MemoryError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<LookupError> for HostError {
    fn from(error: LookupError) -> Self {
        Self::new(error.to_string())
    }
}

/// A domain that was called failed: the caller of the host function finds the status that a call of its own would have given.
impl From<CallError> for HostError {
    fn from(error: CallError) -> Self {
        let status = match &error {
            CallError::Fault(_) => status::FAULT,
            CallError::Dead { .. } => status::DEAD,
            CallError::Busy { .. } | CallError::TooDeep => status::REFUSED,
            CallError::Arguments { .. } => status::ARGUMENTS,
            _ => status::HOST,
        };
        Self { status, ..Self::new(error.to_string()) }
    }
}
