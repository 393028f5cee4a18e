//! Further threads of a domain.
//!
//! A thread is a world of its own, with one domain: a [view](crate::load::view) of the first
//! thread's window. So each thread has its own control stack, gates' records, signal stack and
//! watch, and one thread at a time is in a world, as everywhere else. The worlds have nothing in
//! common but pages that the domain may write, pages that nobody can write any more, and the window
//! in which the text runs. That window stays mapped while one of them is left.

use crate::fault::interrupted::Interruptions;
use crate::fault::watch::{self, Watch};
use crate::fault::watchdog;
use crate::fault::watched::Watched;
use crate::gate::ids::{DomainId, Id};
use crate::gate::records::CallFrame;
use crate::load::view::{CANARIES, Seat};
use crate::spec::{Callee, DomainSpec};
use crate::vm::address::WindowOffset;
use crate::world::builder::Builder;
use crate::world::calls::host::Host;
use crate::world::calls::host_call::HostCall;
use crate::world::domain::Domain;
use crate::world::error::{BuildError, CallError, HostError, SpecError};
use crate::world::held::World;
use sfi_contract::layout::TCB_CANARY;
use std::sync::Arc;

/// The start of a thread, as a domain asks for it. Everything in it is hostile.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStart {
    /// A function pointer of the domain.
    pub function: u64,
    /// The function's argument.
    pub argument: u64,
    /// The data stack pointer, in the domain's heap.
    pub stack: u64,
    /// The thread pointer: a page of the domain's heap, with room for thread locals below it.
    pub pointer: u64,
    /// The thread's number, by which backtraces name it.
    pub number: u64,
}

/// A further thread of a domain, before it runs.
#[derive(Debug)]
pub struct Thread {
    pub(super) world: World,
    pub(super) function: WindowOffset,
    pub(super) argument: u64,
    /// The thread pointer.
    pub(super) pointer: WindowOffset,
}

/// Ends the calls of one thread, from any other thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Watch>);

impl Stopper {
    /// Ends the call in progress, and every later one, as at the end of a time limit: at once if
    /// the domain runs, or when the host function that runs returns to it.
    pub fn stop(&self) {
        watchdog::stop(&self.0);
    }

    /// Interrupts the thread's domain once, see [`HostCall::allow_interruptions`]: at once if it
    /// runs its own code, or as soon as it does.
    pub fn interrupt(&self) {
        watchdog::interrupt(&self.0);
    }
}

impl HostCall<'_> {
    /// Returns the number of threads that the caller may have, its first one included.
    pub fn threads(&self) -> usize {
        self.spec().threads
    }

    /// Returns the end of the calling thread's calls. Worlds of domains with threads have one, and
    /// so have worlds with limits and those that are [`Builder::timed`], unless the watchdog's
    /// thread does not start.
    pub fn stopper(&self) -> Option<Stopper> {
        Some(Stopper(self.watchdog()?.shared()))
    }

    /// Returns the world's part in the watchdog, which runs then.
    fn watchdog(&self) -> Option<&Watched> {
        let watched = self.world().time.watched.as_ref()?;
        (watched.is_by_watchdog() && watched.start().is_ok()).then_some(watched)
    }

    /// Says whether the call in progress is over: the domain will not go on when the host function
    /// returns. Functions that wait look at this from time to time.
    pub fn is_over(&self) -> bool {
        // SAFETY: the context lives as long as the world.
        let context = unsafe { &*self.world().gates.control.context() };
        watch::of(context).is_some_and(|watch| watch.is_stopped() || watch.overdue() != 0)
    }

    /// Lets the calling thread be interrupted ([`Stopper::interrupt`]), until the caller's life
    /// ends. The caller then goes on in its global function `entry`, without arguments. If that
    /// returns, the thread goes on where it was, with all its registers. Returns whether the caller
    /// has such a function, is alone in its world, and has threads or is in a world that the
    /// watchdog looks at ([`Builder::timed`]) and whose thread starts.
    pub fn allow_interruptions(&mut self, entry: &str) -> bool {
        let world = self.world();
        if world.domains.len() != 1 || world.lane.is_some() {
            return false;
        }
        let (Some(place), Some(watched)) = (self.continuation(0, entry), self.watchdog()) else { return false };
        let domain = &world.domains[self.caller_index()];
        watched.shared().allow_interruptions(Interruptions::new(domain.state, place, domain.usage.x87));
        true
    }

    /// Says whether an interruption of the calling thread is wanted and did not come yet.
    pub fn is_interruption_wanted(&self) -> bool {
        self.world().time.watched.as_ref().is_some_and(|watched| watched.shared().is_interruption_wanted())
    }

    /// Wants an interruption of the calling thread after this call, or gives up one that was wanted
    /// before.
    pub fn want_interruption(&self, wanted: bool) {
        self.world().time.watched.as_ref().inspect(|watched| watched.want(wanted));
    }

    /// Makes a further thread of the caller. `host` is the function that the thread calls where the
    /// caller calls this one.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`] and [`CallError::Arguments`] for values that the domain must not
    /// choose, as [`BuildError::Initialiser`]. Otherwise as for [`Builder::build`].
    pub fn thread(
        &self,
        start: &ThreadStart,
        host: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Result<Thread, BuildError> {
        let (seat, function) = self.seat(start)?;
        let Domain { spec, image, .. } = &self.world().domains[self.caller_index()];
        let gateway = gateway(spec)
            .filter(|_| spec.lanes == 0)
            .ok_or_else(|| refused(spec, CallError::NotAFunction { domain: spec.name.clone() }))?;
        let pointer = seat.pointer;
        let builder = Builder {
            domains: vec![DomainSpec::clone(spec)],
            hosts: vec![Host::new(gateway.to_owned(), host)],
            prepared: Some(Arc::clone(image)),
            seat: Some(seat),
            thread: Some(start.number),
            clock: spec.clock,
            ..Builder::default()
        };
        Ok(Thread { world: builder.build()?, function, argument: start.argument, pointer })
    }

    /// Checks the start of a thread of the caller. Returns its demands and its function.
    pub(super) fn seat(&self, start: &ThreadStart) -> Result<(Seat, WindowOffset), BuildError> {
        let domain = &self.world().domains[self.caller_index()];
        let (image, spec) = (&domain.image, &domain.spec);
        let text = image.text.0..image.text.0 + image.text.1;
        let function = self.world().own_function(self.caller_index(), start.function).filter(|at| text.contains(at));
        let function = function.ok_or_else(|| refused(spec, CallError::NotAFunction { domain: spec.name.clone() }))?;
        let mut canaries = [0; CANARIES];
        domain.window.read(WindowOffset::new(image.anchors.offset(TCB_CANARY)), &mut canaries);
        let seat = Seat {
            origin: domain.window.origin(),
            pointer: WindowOffset::of_pointer(start.pointer),
            stack: WindowOffset::of_pointer(start.stack),
            canaries,
        };
        match image.heap().is_some_and(|heap| seat.check(image, &heap)) {
            true => Ok((seat, function)),
            false => Err(refused(spec, CallError::Arguments { domain: spec.name.clone() })),
        }
    }
}

/// Returns the error of a start that a domain must not choose.
pub(super) fn refused(spec: &DomainSpec, error: CallError) -> BuildError {
    BuildError::Initialiser { domain: spec.name.clone(), error: Box::new(error) }
}

/// Returns the one host function that a domain with threads calls.
fn gateway(spec: &DomainSpec) -> Option<&str> {
    match spec.imports.as_slice() {
        [(_, import)] => match &import.callee {
            Callee::Host { function } => Some(function),
            _ => None,
        },
        _ => None,
    }
}

impl Thread {
    /// Returns the end of the thread.
    pub fn stopper(&self) -> Option<Stopper> {
        self.world.get().time.watched.as_ref().map(|watched| Stopper(watched.shared()))
    }

    /// Runs the thread on this thread of the host, to its end. Returns the function's result.
    ///
    /// # Errors
    /// [`CallError`], for example the fault that ended the thread.
    pub fn run(mut self) -> Result<u64, CallError> {
        self.enter()
    }

    /// Calls the thread's function.
    pub(super) fn enter(&mut self) -> Result<u64, CallError> {
        let mut held = self.world.held();
        let binding = held.host_binding(DomainId::of(0), self.function);
        let callee = binding.callee;
        // SAFETY: the binding and the callee are the world's own, and its data stack pointer is in
        // its state while it lives.
        unsafe {
            let mut frame = CallFrame { sp: (*callee).sp, ..CallFrame::new() };
            frame.ints[0] = self.argument;
            match held.again().cross(&binding, &mut frame, false) {
                Ok(()) => Ok(frame.rax),
                Err(failure) => Err(held.failure(callee, failure)),
            }
        }
    }
}

impl Builder {
    /// Checks that domains with threads are alone, and have nothing that one thread at a time must
    /// use.
    pub(super) fn check_threads(&self) -> Result<(), SpecError> {
        let alone = |domain: &&DomainSpec| domain.has_threads() && domain.lanes == 0;
        let Some(domain) = self.domains.iter().find(alone) else { return Ok(()) };
        let refuse = |why| Err(SpecError::Threads { domain: domain.name.clone(), why });
        if self.domains.len() > 1 || !self.regions.is_empty() || !self.supervisors.is_empty() {
            return refuse("its world has other domains, regions or supervisors");
        }
        if self.cpu_limit.is_some() {
            return refuse("limits of processor time count one thread only");
        }
        if self.prepared.is_some() && self.seat.is_none() {
            return refuse("it is not made from a template");
        }
        Ok(())
    }
}

/// Checks what the specification of a domain with threads says about the domain itself.
pub(crate) fn check(domain: &DomainSpec) -> Result<(), SpecError> {
    let refuse = |why| Err(SpecError::Threads { domain: domain.name.clone(), why });
    if domain.threads == 0 || domain.threads > crate::MAX_THREADS {
        return refuse("a domain has 1 to 256 threads");
    }
    if !domain.has_threads() {
        return Ok(());
    }
    if domain.mode != sfi_contract::Mode::Full && !domain.exposing {
        return refuse(
            "a thread that counts is a clock, and outside mode full a domain with a clock finds the memory of the \
             process; use mode full, or say that it may (`clock = \"exposing\"`, `DomainSpec::threads_exposing`)",
        );
    }
    if domain.lanes > 0 {
        return Ok(());
    }
    if gateway(domain).is_none() || domain.spare > 0 || !domain.registers.is_empty() || !domain.shared.is_empty() {
        return refuse("it may import one host function, and nothing else");
    }
    if domain.budget.is_set()
        || domain.instructions.is_some()
        || domain.owner.is_some()
        || domain.restart != crate::Restart::Never
    {
        return refuse("it has no budget, no owner and no restarts");
    }
    Ok(())
}

/// Refuses what only domains with one thread can do.
pub(crate) fn only_without(domain: &DomainSpec) -> Result<(), BuildError> {
    match domain.has_threads() && domain.lanes == 0 {
        true => {
            Err(SpecError::Threads { domain: domain.name.clone(), why: "it begins only once; build a new world" }
                .into())
        }
        false => Ok(()),
    }
}
