//! Errors of linking into live domains.

use crate::link::error::LinkError;
use crate::vm::error::MapError;
use crate::world::error::{BindError, CallError, LookupError};

/// A library cannot be linked into a domain, or unlinked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The objects cannot be verified or linked. The domain is as it was.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The domain's specification reserves no room.
    #[error("domain `{domain}` has no room for libraries; see `DomainSpec::link_room`")]
    NoRoom {
        /// The domain.
        domain: String,
    },
    /// A bound of the domain's [`crate::LinkRoom`] is reached. The domain is as it was.
    #[error("domain `{domain}`: library `{library}` exceeds the bound of {most} {what}; see `LinkRoom`")]
    Bound {
        /// The domain.
        domain: String,
        /// The library.
        library: String,
        /// The things that are bounded.
        what: &'static str,
        /// The bound.
        most: u64,
    },
    /// Domains with several threads take no libraries.
    #[error("domain `{domain}` may have several threads, so nothing is linked into it")]
    Threads {
        /// The domain.
        domain: String,
    },
    /// The domain faulted and was not restarted.
    #[error("domain `{domain}` is dead since an earlier fault; restart it")]
    Dead {
        /// The domain.
        domain: String,
    },
    /// The library uses registers that the domain did not use before, and a call is in progress.
    #[error("library `{library}` uses more registers than domain `{domain}`; link it when no call is in progress")]
    Busy {
        /// The domain.
        domain: String,
        /// The library.
        library: String,
    },
    /// A call in progress returns into the library, a fiber waits in it, or its initialisers or
    /// finalisers run.
    #[error("library `{library}` of domain `{domain}` is in the middle of a call")]
    Active {
        /// The domain.
        domain: String,
        /// The library.
        library: String,
    },
    /// Another library refers to its symbols.
    #[error("library `{library}` of domain `{domain}` is needed by library `{by}`")]
    Needed {
        /// The domain.
        domain: String,
        /// The library.
        library: String,
        /// The other one.
        by: String,
    },
    /// The library was unlinked, or went when its domain was restarted, reset or loaded again.
    #[error("the library is not linked any more")]
    Gone,
    /// The library has no such global symbol.
    #[error("library `{library}` has no global symbol `{symbol}`")]
    Symbol {
        /// The library.
        library: String,
        /// The symbol.
        symbol: String,
    },
    /// No such domain or instance.
    #[error(transparent)]
    Unknown(#[from] LookupError),
    /// A binding into the library, or one that depends on the registers that it uses, could not be
    /// written.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The operating system gave no memory.
    #[error(transparent)]
    Map(#[from] MapError),
    /// An initialiser failed. The domain is dead, as after any call that faults.
    #[error("an initialiser of library `{library}` failed")]
    Initialiser {
        /// The library.
        library: String,
        /// The failure of its call.
        #[source]
        error: Box<CallError>,
    },
    /// A finaliser failed. The domain is dead.
    #[error("a finaliser of library `{library}` failed")]
    Finaliser {
        /// The library.
        library: String,
        /// The failure of its call.
        #[source]
        error: Box<CallError>,
    },
}
