//! Loads verified objects into fault domains of this process and calls between them.
//!
//! A [`World`] holds domains. Each domain lives in a 4 GiB window at a secret random place. Its
//! code was rewritten so that it cannot store or jump outside. Every object is verified before it
//! is linked, and again at the place where it runs. Calls cross through gateways that the
//! description grants, at the cost of a few function calls. A fault in a domain is an error of the
//! call, not the end of the process.
//!
//! ```no_run
//! use sfi_loader::{DomainSpec, Import, TypedFn, World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut world = World::builder()
//!     .domain(
//!         DomainSpec::new("app")
//!             .object("app.o", std::fs::read("app.o")?)
//!             .import("host_write", Import::host("write").signature("(int, int) -> int")),
//!     )
//!     .host_fn("write", |cx| {
//!         let bytes = cx.read(cx.arg(0), cx.arg(1) as usize)?;
//!         print!("{}", String::from_utf8_lossy(&bytes));
//!         Ok(bytes.len() as u64)
//!     })
//!     .build()?;
//! let add: TypedFn<fn(u64, u64) -> u64> = world.domain("app")?.export("add")?;
//! println!("{}", add.call(&mut world, (1, 2))?);
//! # Ok(())
//! # }
//! ```
//!
//! # Rules for hosts
//!
//! - Only verified text runs in a domain, but its results are its author's. Treat every argument
//!   and all of its memory as hostile. [`HostCall`] and [`Memory`] check bounds. The host must
//!   check the meaning.
//! - Linux leaves the GS base to user code. This library owns it on threads that enter domains.
//! - `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL` and `SIGTRAP` are handled from the first [`World`] on.
//!   Signals that belong to no domain go to the handlers that were installed before. Threads that
//!   enter domains get an alternate signal stack. Other handlers of the host should use it
//!   (`SA_ONSTACK`). A handler without that flag runs on the interrupted domain's control stack and
//!   gets 256 KiB there. If the domain has left less than one signal frame, the kernel drops the
//!   signal, and the domain ends with a control-stack overflow. Handlers must not call into a
//!   world.
//! - A call may run for ever unless the world has a limit ([`Builder::time_limit`]). From the first
//!   limit on, a thread of this library sends `SIGURG` to threads whose call overstays. Threads
//!   also send it to themselves when a handler without `SA_ONSTACK` needed room. They must not
//!   block it, and a handler that the host installs after the first [`World`] must pass it on. Host
//!   functions are not aborted: the domain is ended when they return to it. A child of `fork` has
//!   no such thread, and no limits.
//! - There is no defence against timing side channels and speculative execution.
//!
//! # Many domains
//!
//! A domain that is loaded once can have many instances. [`World::instantiate`] adds an instance to
//! the world. A [`Template`] gives instances that are worlds of their own, fresh ones or from a
//! [`Pool`], to any thread. Text is verified and linked once and shared. Each instance has its own
//! data.
//!
//! ```no_run
//! use sfi_loader::{DomainSpec, Placement, Pool, Template, TypedFn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let filter = std::fs::read("filter.o")?;
//! let spec = DomainSpec::new("filter").object("filter.o", filter).placement(Placement::Dense);
//! let pool = Pool::new(&Template::builder(spec).build()?, 64)?;
//! // In any thread:
//! let mut instance = pool.take()?;
//! let run: TypedFn<fn(u64) -> u64> = instance.domain("filter")?.export("run")?;
//! println!("{}", run.call(&mut *instance, (1,))?);
//! // Dropped, it is reset and goes back.
//! # Ok(())
//! # }
//! ```
//!
//! The data flow of loading: `spec` → `link` (`select` verifies, `symbols`, `layout`, `place`,
//! `dispatch`, `reloc`, `image`) → `load` (raise, seal, verify again) → `world` (bindings, calls).
//! Faults and time: `fault`. The assembly between domains: `gate`.

#![warn(unreachable_pub)]

mod fault;
mod fleet;
mod gate;
mod link;
mod load;
pub mod manifest;
mod spec;
mod vm;
mod world;

pub use fault::fork::Fork;
pub use fault::helper::start_helper;
pub use fault::limits::{Budget, Limits};
pub use fault::outside::{OUTSIDE_SIGNALS, end_by_signal, prepare_signals, take_signals, wait_for_signals};
pub use fault::report::{AddressClass, Fault, FaultKind};
pub use fault::signals::interrupt;
pub use fault::stray::{Distance, Nearest, Stray, Whose};
pub use fault::supervisor::supervise;
pub use fault::trace::{Backtrace, CallPath, FaultThread, Frame, Namer};
pub use fleet::lanes::{Lane, LaneFn, Lanes};
pub use fleet::pool::{Pool, PoolError, Pooled};
pub use fleet::server::{Exhausted, Lease, Server};
pub use fleet::template::{Template, TemplateBuilder};
#[doc(hidden)]
pub use gate::Machine;
pub use gate::records::{MAX_DEPTH, Status};
pub use gate::{GateCaller, GateCode};
pub use link::advice::{Advice, advice};
pub use link::check as check_link;
pub use link::error::{LinkError, Mention, RefusedObject};
pub use load::image_files::ImageFiles;
pub use load::image_store::ImageStore;
pub use load::observe::{RaisedObject, RaisedText, TextObserver, gates, observe_text};
pub use sfi_contract::Mode;
pub use sfi_contract::text::chain;
pub use sfi_debuginfo::Frame as Source;
pub use spec::busy::{Busy, DEFAULT_WAIT};
pub use spec::capability::{CAPABILITY_SIZE, Capability};
pub use spec::interface;
pub use spec::library::{Library, LinkRoom};
pub use spec::owner::{Event, Owner, Penalty, Record};
pub use spec::signature::{Argument, BadSignature, Signature};
pub use spec::threads::{MAX_LANES, MAX_THREADS};
pub use spec::{
    Access, DEFAULT_CALLBACKS, DEFAULT_CONTROL_STACK, DEFAULT_FIBERS, DEFAULT_MEMORY, DEFAULT_STACK, DomainSpec, Entry,
    Import, MAX_CONTROL_STACK, MAX_FIBERS, MAX_SPARE, MIN_CONTROL_STACK, Placement, Restart, Trust,
};
pub use vm::child::{apart, replace};
pub use vm::closed::PageAccess;
pub use vm::error::MapError;
pub use vm::ledger::window_of;
pub use vm::memory::{Memory, MemoryError, Segment};
pub use vm::region::View;
pub use vm::region_file::RegionFile;
pub use vm::space::{AddressSpace, La57};
pub use vm::window::Protection;
pub use world::berths::Berth;
pub use world::bindings::connect::Used;
pub use world::bindings::manage::{Connected, Manage};
pub use world::bindings::manager::Request;
pub use world::bindings::policy::BindingReport;
pub use world::builder::Builder;
pub use world::calls::buffers_in::{Bound, Element, Passed, Raw, bytes, bytes_mut};
pub use world::calls::buffers_out::{Elements, Received};
pub use world::calls::call::{Enter, TypedFn};
pub use world::calls::dynamic::DynFn;
pub use world::calls::header::{Service, Supervisor};
pub use world::calls::host_call::{HostCall, Tenant};
pub use world::calls::native::{Code, Registers, Returned};
pub use world::calls::prepared::{Ended, Prepared};
pub use world::calls::values::{Function, MAX_ARGUMENTS, Outcome, Pointer, Value};
pub use world::domain_ref::{DomainRef, PartPlaces, PlacementReport};
pub use world::error::{BindError, BuildError, CallError, HostError, LookupError, SpecError};
pub use world::held::World;
pub use world::instances::Instance;
pub use world::links::error::LibraryError;
pub use world::links::handle::Linked;
pub use world::threads::{Stopper, Thread, ThreadStart};
