//! Arbitration: answers to a domain's system calls (Wahbe et al., section 3.4).
//!
//! A domain cannot execute `syscall`. Rewritten code calls the gateway `__sfi_syscall` instead. Its
//! support code in the domain passes number and arguments to the host function [`GATEWAY`]. The
//! [`Arbiter`] answers from its own records if it can, and calls the kernel only with descriptors
//! and paths of its own. No pointer, descriptor or path of a domain ever reaches the kernel. The
//! arbiter copies every argument before it checks it, because a shared region may change meanwhile.
//!
//! Calls that are not granted fail with `ENOSYS` or `EPERM` ([`Policy`]), and are counted.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod alarm;
mod answer;
mod calls;
mod changes;
mod children;
mod clock;
mod crew;
mod descriptors;
mod directories;
mod errno;
mod file_system;
mod files;
mod fork;
mod futex;
mod granted_file;
mod heap;
mod inbox;
mod log;
pub mod manifest;
mod mounts;
mod outside;
mod paths;
mod patience;
mod policy;
mod process;
mod programs;
mod signals;
mod sockets;
mod spawn;
mod spending;
mod start;
mod sync;
mod tenant;
mod transfer;
mod tree;
mod wait;
mod walk;
mod words;

pub use calls::{BadCall, Calls};
pub use crew::{Crew, Death};
pub use descriptors::Stdio;
pub use log::{Counts, Logger, Record};
pub use policy::{CLOCK_RESOLUTION, Denial, Policy, Quota};
pub use process::Exit;
pub use programs::{Beneath, Options, Startable, variable};
pub use spawn::Successor;
pub use start::{ARGUMENT_BYTES, Program, arguments, random_bytes};
pub use tree::Preopen;

use alarm::Alarm;
use clock::Clock;
use errno::Errno;
use heap::Heap;
use inbox::Inbox;
use outside::{Outside, end_by};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::requests;
use sfi_loader::{Builder, HostCall, HostError, OUTSIDE_SIGNALS, Stopper};
use signals::Due;
use spending::Spending;
use std::sync::Arc;
use std::time::Duration;
use tenant::{State, Tenants};

/// Name of the host function that the support code calls with a pointer to a [`Request`].
pub const GATEWAY: &str = sfi_contract::names::ARBITRATE;

/// A system call: number and six arguments, as the support code stores them (seven words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the call (x86-64 table).
    pub number: i64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
}

impl Request {
    /// Size in memory, in bytes.
    pub const SIZE: usize = 56;

    /// Copies the request of a call.
    fn of(cx: &HostCall<'_>) -> Result<Request, HostError> {
        let bytes = cx.read(cx.arg(0), Request::SIZE)?;
        Request::parse(&bytes).ok_or_else(|| HostError::new("short request"))
    }

    fn parse(bytes: &[u8]) -> Option<Request> {
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let number = words.next()? as i64;
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = words.next()?;
        }
        Some(Request { number, args })
    }
}

/// The arbitration code of one domain.
///
/// A domain that is restarted, reset or loaded again begins with nothing but the policy: its
/// descriptors, heap, working directory and signals are those of a new process. Instances of the
/// domain are processes of their own. [`Quota::written`] counts the bytes that all of them write.
pub struct Arbiter {
    calls: Calls,
    denial: Denial,
    quota: Quota,
    spending: Spending,
    clock: Clock,
    /// The programs that the domain may start.
    programs: Vec<Startable>,
    /// The programs beneath its directories that it may start.
    beneath: Option<Beneath>,
    /// Takes the program that replaces this one, if the host runs it.
    successor: Option<Successor>,
    /// Says whether the domain may have sockets.
    loopback: bool,
    /// The state of each life of the domain and of its instances.
    tenants: Tenants,
    /// Says whether the domain is a whole program, so that its exit ends the run.
    program: bool,
    /// Says whether the domain has threads, which wait outside of the arbiter.
    threads: bool,
    /// The longest wait of one call.
    patience: Duration,
    counts: Counts,
    logger: Option<Logger>,
    /// Says whether a whole program's exit ends this process at once.
    at_once: bool,
    /// Says whether a whole program may fork.
    forks: bool,
    /// The signals of other processes that were taken, if they are the domain's.
    outside: Option<Outside>,
    /// The place where they come for a domain without threads, once it handles or ignores one.
    inbox: Option<Arc<Inbox>>,
    /// The timer of a domain without threads, once it was set.
    alarm: Option<Alarm>,
}

impl std::fmt::Debug for Arbiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arbiter").field("calls", &self.calls).field("tenants", &self.tenants).finish_non_exhaustive()
    }
}

impl Arbiter {
    /// Makes an arbiter with the grants of a policy. `stdio` are the domain's first descriptors.
    pub fn new(policy: Policy, stdio: Stdio) -> Self {
        let preopens = tree::with_devices(policy.preopens, policy.calls.contains(libc::SYS_getrandom));
        let clock = Clock::new(policy.clock, policy.quota.sleep);
        Arbiter {
            calls: policy.calls,
            denial: policy.denial,
            spending: Spending::new(&policy.quota),
            clock,
            tenants: Tenants::new(preopens, policy.working, stdio, policy.quota.descriptors, clock),
            quota: policy.quota,
            programs: policy.programs,
            beneath: policy.beneath,
            successor: None,
            loopback: policy.loopback,
            program: false,
            threads: false,
            patience: policy.quota.wait,
            counts: Counts::default(),
            logger: None,
            at_once: false,
            forks: false,
            outside: None,
            inbox: None,
            alarm: None,
        }
    }

    /// Passes every call to `logger`.
    #[must_use]
    pub fn logger(mut self, logger: Logger) -> Self {
        self.logger = Some(logger);
        self
    }

    /// Makes the domain a whole program: its exit unwinds the host with [`Exit`].
    #[must_use]
    pub fn program(mut self) -> Self {
        self.program = true;
        self
    }

    /// Passes on signals that other processes send to this one, once the domain handles or ignores
    /// them: SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM and SIGCHLD. Without a handler of
    /// the domain the process ends, as by the signal. A domain that is not alone in its world, or
    /// that has no support code, gets none.
    #[must_use]
    pub fn outside_signals(mut self) -> Self {
        self.outside = Some(Outside::default());
        self
    }

    /// Ends this process at once at the exit of a whole program without threads, with its code, in
    /// place of unwinding the host. For hosts that have nothing else to do.
    #[must_use]
    pub fn exit_at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Spends from the quota of the program that started this one, whose rest is in a descriptor of
    /// this process (`sfi run --spending`).
    ///
    /// # Errors
    /// It is no such descriptor.
    pub fn spends_from(mut self, descriptor: u32) -> std::io::Result<Self> {
        self.spending.join(descriptor).map_err(|Errno(code)| std::io::Error::from_raw_os_error(code))?;
        Ok(self)
    }

    /// Lets a whole program without threads fork, with this process. For hosts that have nothing
    /// else to do, and no thread of their own: the new process ends at the program's exit, without
    /// unwinding the host. A program and its forks have at most [`Quota::children`] processes at a
    /// time besides the first, those included that they start. Without this, `fork` fails.
    #[must_use]
    pub fn forks(mut self) -> Self {
        self.forks = true;
        self
    }

    /// Lets the domain replace itself by a granted program (`execve`), if it is a whole program. It
    /// ends, and the host runs the program ([`Successor::run`]). Without this, `execve` fails.
    #[must_use]
    pub fn successor(mut self, successor: &Successor) -> Self {
        self.successor = Some(successor.clone());
        self
    }

    /// Offers the arbiter to its domain, as the host function `gateway` of a world. If the domain
    /// is alone in the world, the signal of its timer and those of other processes interrupt it
    /// while it computes ([`Builder::timed`]). Otherwise the timer's waits for the domain's next
    /// call.
    pub fn offer(mut self, builder: Builder, gateway: impl Into<String>, alone: bool) -> Builder {
        let builder = if alone && (self.has_timer() || self.outside.is_some()) { builder.timed() } else { builder };
        builder.host_fn(gateway, move |cx| self.host_call(cx))
    }

    /// Says whether the domain may have a timer.
    fn has_timer(&self) -> bool {
        [libc::SYS_alarm, libc::SYS_setitimer].into_iter().any(|number| self.calls.contains(number))
    }

    /// Returns the counts of calls that were made and refused. The handle stays valid after the
    /// arbiter is gone.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Answers one call. This is the host function [`GATEWAY`].
    ///
    /// # Errors
    /// The request itself is not readable memory of the domain.
    pub fn host_call(&mut self, cx: &mut HostCall<'_>) -> Result<u64, HostError> {
        let request = Request::of(cx)?;
        let (mut state, mut heap) = self.take(cx);
        let answer = self.respond(cx, &mut state, &mut heap, &request, None);
        if let Some(exit) = state.exit {
            // The programs that it started end with it.
            drop(state);
            return self.end(exit);
        }
        self.watch(cx, &mut state);
        self.keep(state, heap);
        Ok(encode(answer))
    }

    /// Lets the end of the timer and signals of other processes interrupt the domain while it
    /// computes, if the world allows that.
    fn watch(&mut self, cx: &mut HostCall<'_>, state: &mut State) {
        let end = state.signals.timer_end();
        let chosen = self.chosen(state);
        let (timer, signals) = (end.is_some() || self.alarm.is_some(), chosen != 0 || self.inbox.is_some());
        if !timer && !signals {
            return;
        }
        let interrupted =
            state.interrupted.get_or_insert_with(|| cx.allow_interruptions(sfi_contract::names::HANDLERS));
        let Some(stopper) = cx.stopper().filter(|_| *interrupted) else { return };
        if signals {
            self.listen(state, chosen, &stopper);
        }
        if timer {
            self.alarm.get_or_insert_default().set(end, || move || stopper.interrupt());
        }
    }

    /// Returns the signals of other processes that the domain handles or ignores, by their bits, if
    /// it gets any.
    fn chosen(&self, state: &State) -> u64 {
        self.outside.as_ref().map_or(0, |_| state.signals.chosen(OUTSIDE_SIGNALS))
    }

    /// Takes the signals of other processes that the domain handles or ignores.
    fn listen(&mut self, state: &mut State, chosen: u64, stopper: &Stopper) {
        if self.inbox.is_none() {
            self.inbox = Inbox::new().ok().map(Arc::new);
        }
        let (Some(inbox), Some(outside)) = (&self.inbox, &self.outside) else { return };
        state.signals.arrive_by(inbox);
        inbox.choose(chosen);
        outside.take(chosen, || {
            let (inbox, stopper) = (Arc::downgrade(inbox), stopper.clone());
            move |signals| {
                let other = inbox.upgrade().map_or(signals, |inbox| inbox.put(signals));
                stopper.interrupt();
                end_by(other);
            }
        });
    }

    /// Takes the caller's state out of the arbiter, and its heap out of the state.
    fn take(&mut self, cx: &HostCall<'_>) -> (State, Heap) {
        let mut state = self.tenants.take(cx.tenant());
        let heap = state.heap.take().unwrap_or_else(|| Heap::of(cx, self.quota.memory));
        (state, heap)
    }

    /// Puts back what [`Arbiter::take`] took.
    fn keep(&mut self, mut state: State, heap: Heap) {
        state.heap = Some(heap);
        self.tenants.put(state);
    }

    /// Works on the caller's state.
    fn with<R>(
        &mut self,
        cx: &mut HostCall<'_>,
        work: impl FnOnce(&mut Self, &mut HostCall<'_>, &mut State, &mut Heap) -> R,
    ) -> R {
        let (mut state, mut heap) = self.take(cx);
        let result = work(self, cx, &mut state, &mut heap);
        self.keep(state, heap);
        result
    }

    /// Answers a request: one of the support code, or a system call, whose answer may be given.
    fn respond(
        &mut self,
        cx: &mut HostCall<'_>,
        state: &mut State,
        heap: &mut Heap,
        request: &Request,
        given: Option<Result<u64, Errno>>,
    ) -> Result<u64, Errno> {
        let answer = match support(cx, state, request) {
            Some(answer) => answer,
            None => self.call(cx, state, heap, request, given),
        };
        if let Some(faults) = state.signals.caught() {
            cx.catch_faults(faults, sfi_contract::names::FAULT);
        }
        answer
    }

    /// Answers a system call, and starts a handler or ends the domain if a signal is due. `given`
    /// is the answer if the call was made already.
    fn call(
        &mut self,
        cx: &mut HostCall<'_>,
        state: &mut State,
        heap: &mut Heap,
        request: &Request,
        given: Option<Result<u64, Errno>>,
    ) -> Result<u64, Errno> {
        let number = if request.number == requests::EXECUTE { libc::SYS_execve } else { request.number };
        let granted = self.calls.contains(number);
        self.counts.add(number, granted);
        if request.number == libc::SYS_exit || request.number == libc::SYS_exit_group {
            self.record(request, [heap.base(), window_of(cx)], granted, Ok(0));
        }
        let answer = match given {
            Some(answer) => answer,
            None if granted => self.answer(cx, state, heap, request),
            None => Err(self.denial.errno()),
        };
        let answer = state.signals.interrupt(request.number, answer);
        // A host ignores SIGPIPE for its libraries.
        let silent = number == libc::SYS_sendto && request.args[3] as i32 & libc::MSG_NOSIGNAL != 0;
        if self.program && answer == Err(Errno(libc::EPIPE)) && !silent {
            state.signals.send(&[process::SELF], libc::SIGPIPE as u64)?;
        }
        self.record(request, [heap.base(), window_of(cx)], granted, answer);
        if state.exit.is_none() && request.number != libc::SYS_rt_sigreturn {
            let again = answer == Err(Errno::INTR) && signals::is_transfer(request.number);
            match state.signals.due(again) {
                Due::Nothing => {}
                Due::Handler { again } => state.signals.ask(cx, cx.arg(0), again)?,
                Due::End(exit) => state.exit = Some(exit),
            }
        }
        answer
    }

    /// Returns the domain's process number. Programs of the host would send a signal to process 1
    /// to another one, and so would forks, so with them the number is this process'.
    pub(crate) fn number(&self) -> u64 {
        let known = self.forks || self.programs.iter().any(Startable::is_host);
        if known { std::process::id().into() } else { process::SELF }
    }

    /// Ends the domain. Its state is already gone.
    fn end(&self, exit: Exit) -> Result<u64, HostError> {
        if self.program && self.at_once && self.successor.as_ref().is_none_or(Successor::is_none) {
            std::process::exit(exit.0 & 0xff);
        }
        if self.program {
            std::panic::resume_unwind(Box::new(exit));
        }
        Err(HostError::end_caller(exit.0))
    }

    /// Passes a call to the log and to `tracing`. `bases` are those of the domain's windows.
    fn record(&mut self, request: &Request, bases: [u64; 2], granted: bool, answer: Result<u64, Errno>) {
        tracing::trace!(number = request.number, granted, ?answer, "system call");
        let Some(logger) = &mut self.logger else { return };
        let own = |word: u64| bases.contains(&(word & !(WINDOW_SIZE - 1)));
        let reduce = |word: u64| if own(word) { word & (WINDOW_SIZE - 1) } else { word };
        logger(&Record {
            number: request.number,
            args: request.args.map(reduce),
            answer: answer.map(reduce).map_err(|Errno(code)| code),
            granted,
        });
    }
}

/// Returns an answer in the form of the kernel's.
fn encode(answer: Result<u64, Errno>) -> u64 {
    match answer {
        Ok(value) => value,
        Err(Errno(code)) => -i64::from(code) as u64,
    }
}

/// Returns the base of the window that the caller's stack lies in. In a further thread that is not
/// the window that the heap's addresses name.
fn window_of(cx: &HostCall<'_>) -> u64 {
    cx.arg(0) & !(WINDOW_SIZE - 1)
}

/// Answers a request of the support code that is no system call. These requests are about the
/// domain's own signals. As in the kernel, a handler whose frame cannot be written ends the domain.
fn support(cx: &mut HostCall<'_>, state: &mut State, request: &Request) -> Option<Result<u64, Errno>> {
    let at = cx.arg(0);
    let handler = match request.number {
        requests::NEXT => match state.signals.due(false) {
            Due::End(exit) => {
                state.exit = Some(exit);
                Ok(0)
            }
            _ => state.signals.next(cx, at),
        },
        // Domains with threads have an answer of their own.
        requests::SPAWN | requests::LEAVE => return Some(Err(Errno::NOSYS)),
        requests::FAULTED => state.signals.fault(cx, at, &request.args),
        // The handler of a fault returned, and the instruction would fault again.
        requests::RETURNED => {
            state.exit = Some(Exit(128 + (request.args[1] & 0x7f) as i32));
            Ok(0)
        }
        _ => return None,
    };
    if handler.is_err() {
        state.exit = Some(Exit(128 + libc::SIGSEGV));
    }
    Some(handler)
}
