//! The signals of a domain: its actions, its pending signals, its timer, and the requests of the
//! support code that calls its handlers.
//!
//! All of this concerns only the domain. Its signals reach no other process. Those of other
//! processes arrive in its [`Inbox`]. The arbiter trusts no value that a handler returns with.

mod threads;

pub(crate) use threads::{ThreadSignals, bit_of};

use crate::clock::{Clock, duration};
use crate::errno::Errno;
use crate::inbox::Inbox;
use crate::patience::Patience;
use crate::process::{Exit, SELF};
use crate::words::word;
use sfi_contract::requests::{
    AGAIN, FRAME_CONTEXT_MASK, FRAME_END, FRAME_INFO, FRAME_MASK, FRAME_SIGNAL, FRAME_SIZE, FRAME_STACK, MARK, WAITING,
};
use sfi_loader::{HostCall, OUTSIDE_SIGNALS};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of signals. The first is 1.
const SIGNALS: u64 = 64;
/// Bytes of a signal set.
const SET: u64 = 8;
/// Signals that are ignored by default.
const HARMLESS: [i32; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];

/// Returns the bits of the signals that are ignored by default.
pub(crate) fn harmless() -> u64 {
    HARMLESS.iter().map(|signal| bit(*signal as u64)).sum()
}
/// Signals of faults.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// `si_code` of a signal that a process sent.
const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
/// Bytes below the data stack pointer that interrupted code may be using.
const RED_ZONE: u64 = 128;

/// musl's signal for the cancellation of a thread. Its handler cannot divert the interrupted call,
/// so the call must fail with `EINTR`, at which musl cancels the thread.
const CANCEL: u64 = 33;

const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// The signals that no mask blocks.
const UNBLOCKABLE: u64 = bit(libc::SIGKILL as u64) | bit(libc::SIGSTOP as u64);

/// The calls that are made again after a handler with `SA_RESTART`.
const RESTARTED: [i64; 9] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_wait4,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
];

/// Says whether a call moves data or waits for a program or a connection, so that it is made again
/// after a handler with `SA_RESTART`.
pub(crate) fn is_transfer(number: i64) -> bool {
    RESTARTED.contains(&number)
}

/// `struct kernel_sigaction`.
#[derive(Clone, Copy, Debug, Default)]
struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl Action {
    /// Says whether the domain has a handler for the signal.
    fn is_handled(&self) -> bool {
        self.handler != libc::SIG_DFL as u64 && self.handler != libc::SIG_IGN as u64
    }

    fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 as u64 != 0
    }
}

/// The next step for pending signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// A handler must be called. `again` says that the interrupted call must be made again.
    Handler {
        again: bool,
    },
    /// A signal ends the domain.
    End(Exit),
}

/// The signals of one life of a domain.
#[derive(Debug)]
pub(crate) struct Signals {
    actions: [Action; SIGNALS as usize],
    mask: u64,
    pending: u64,
    /// `sigsuspend`: the mask that comes back when the handler returns.
    suspended: Option<u64>,
    /// `ITIMER_REAL`: its next end, and the time between ends.
    timer: Option<Instant>,
    interval: Duration,
    /// `sigaltstack`: address, flags, size.
    stack: [u64; 3],
    /// Faults that the host turns into signals, as the arbiter told it last.
    caught: u64,
    /// The clock of which timers tell no more than it does.
    clock: Clock,
    /// The signals of other processes, once a program with one thread gets them.
    inbox: Option<Arc<Inbox>>,
}

impl Signals {
    /// Makes the signals of a new life, with the timer on a clock.
    pub(crate) fn new(clock: Clock) -> Self {
        Signals {
            clock,
            actions: [Action::default(); SIGNALS as usize],
            mask: 0,
            pending: 0,
            suspended: None,
            timer: None,
            interval: Duration::ZERO,
            stack: [0, libc::SS_DISABLE as u64, 0],
            caught: 0,
            inbox: None,
        }
    }

    /// Begins a fork: no signal and no timer of the process that it was made of counts.
    pub(crate) fn part(&mut self) {
        (self.pending, self.timer, self.interval, self.inbox) = (0, None, Duration::ZERO, None);
    }

    /// `rt_sigaction`.
    pub(crate) fn action(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6]) -> Result<u64, Errno> {
        let [signal, new, old, size, ..] = *args;
        let kills = signal as i32 == libc::SIGKILL || signal as i32 == libc::SIGSTOP;
        if signal == 0 || signal > SIGNALS || size != SET || new != 0 && kills {
            return Err(Errno::INVAL);
        }
        let read = |new: u64| -> Result<Action, Errno> {
            let word = |index: u64| word(cx, new.wrapping_add(8 * index));
            Ok(Action { handler: word(0)?, flags: word(1)?, restorer: word(2)?, mask: word(3)? })
        };
        let new = if new == 0 { None } else { Some(read(new)?) };
        let action = &mut self.actions[signal as usize - 1];
        if old != 0 {
            let words = [action.handler, action.flags, action.restorer, action.mask];
            cx.write(old, &words.map(u64::to_le_bytes).concat())?;
        }
        if let Some(new) = new {
            *action = new;
        }
        Ok(0)
    }

    /// `rt_sigprocmask`.
    pub(crate) fn mask(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6]) -> Result<u64, Errno> {
        let [how, new, old, size, ..] = *args;
        if size != SET {
            return Err(Errno::INVAL);
        }
        let set = if new == 0 { None } else { Some(word(cx, new)?) };
        if old != 0 {
            cx.write(old, &self.mask.to_le_bytes())?;
        }
        if let Some(set) = set {
            self.set_mask(match how as i32 {
                libc::SIG_BLOCK => self.mask | set,
                libc::SIG_UNBLOCK => self.mask & !set,
                libc::SIG_SETMASK => set,
                _ => return Err(Errno::INVAL),
            });
        }
        Ok(0)
    }

    fn set_mask(&mut self, mask: u64) {
        self.mask = mask & !UNBLOCKABLE;
    }

    /// `kill` and its relatives: a signal to the domain itself becomes pending. Other processes do
    /// not exist for it.
    pub(crate) fn send(&mut self, to: &[u64], signal: u64) -> Result<u64, Errno> {
        if to.iter().any(|pid| *pid as u32 != SELF as u32) {
            return Err(Errno::SRCH);
        }
        let signal = u64::from(signal as u32);
        if signal > SIGNALS {
            return Err(Errno::INVAL);
        }
        if signal != 0 {
            self.pending |= bit(signal);
        }
        Ok(0)
    }

    /// `rt_sigpending`.
    pub(crate) fn pending(&mut self, cx: &mut HostCall<'_>, out: u64) -> Result<u64, Errno> {
        self.tick();
        cx.write(out, &(self.pending & self.mask).to_le_bytes())?;
        Ok(0)
    }

    /// `sigaltstack`.
    pub(crate) fn stack(&mut self, cx: &mut HostCall<'_>, new: u64, old: u64) -> Result<u64, Errno> {
        let read = |new: u64| -> Result<[u64; 3], Errno> {
            let word = |index: u64| word(cx, new.wrapping_add(8 * index));
            Ok([word(0)?, word(1)? & 0xffff_ffff, word(2)?])
        };
        let new = if new == 0 { None } else { Some(read(new)?) };
        if old != 0 {
            cx.write(old, &self.stack.map(u64::to_le_bytes).concat())?;
        }
        if let Some(new) = new {
            if new[1] & libc::SS_DISABLE as u64 == 0 && new[2] < libc::MINSIGSTKSZ as u64 {
                return Err(Errno::NOMEM);
            }
            self.stack = new;
        }
        Ok(0)
    }

    /// `alarm`: sets the timer in seconds. Returns the seconds that were left.
    pub(crate) fn alarm(&mut self, seconds: u64) -> u64 {
        let left = self.left();
        self.interval = Duration::ZERO;
        self.timer = self.end_after(Duration::from_secs(u64::from(seconds as u32)));
        left.as_secs() + u64::from(left.subsec_nanos() >= 500_000_000 || left.as_secs() == 0 && !left.is_zero())
    }

    /// `setitimer` for real time, and `getitimer` if `new` is 0.
    pub(crate) fn timer(&mut self, cx: &mut HostCall<'_>, which: u64, new: u64, old: u64) -> Result<u64, Errno> {
        if which as i32 != libc::ITIMER_REAL {
            return Err(Errno::INVAL);
        }
        let time = |at: u64| -> Result<Duration, Errno> {
            let (seconds, micro) = (word(cx, at)?, word(cx, at.wrapping_add(8))?);
            if micro >= 1_000_000 || seconds > u32::MAX.into() {
                return Err(Errno::INVAL);
            }
            Ok(Duration::from_secs(seconds) + Duration::from_micros(micro))
        };
        let new = if new == 0 { None } else { Some((time(new)?, time(new.wrapping_add(16))?)) };
        if old != 0 {
            let words = [self.interval, self.left()].map(|time| [time.as_secs(), time.subsec_micros().into()]);
            cx.write(old, &words.concat().into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
        }
        if let Some((interval, value)) = new {
            self.interval = interval;
            self.timer = self.end_after(value);
        }
        Ok(0)
    }

    /// Returns the end of a timer that begins now, with a step of the clock, or none if its time is
    /// zero.
    fn end_after(&self, time: Duration) -> Option<Instant> {
        let time = Some(time).filter(|time| !time.is_zero())?;
        Instant::now().checked_add(self.clock.aligned(time))
    }

    /// Returns the time until the timer's end.
    fn rest(&self) -> Duration {
        self.timer.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Returns the time until the timer's end, as the domain may know it.
    fn left(&self) -> Duration {
        self.clock.whole(self.rest())
    }

    /// Returns the wait of a call that waits for `longest`: the timer and signals of other
    /// processes end it before.
    pub(crate) fn patience(&self, longest: Duration) -> Patience {
        self.patience_but(longest, self.mask)
    }

    /// As [`Signals::patience`], where these signals do not end the wait.
    fn patience_but(&self, longest: Duration, blocked: u64) -> Patience {
        let signals = self.inbox.as_ref().map(|inbox| (Arc::clone(inbox), !(blocked | self.ignored())));
        Patience::new(longest.min(self.until()), signals)
    }

    /// Returns the signals of other processes that the domain ignores.
    fn ignored(&self) -> u64 {
        self.with_action(OUTSIDE_SIGNALS, |action| action.handler == libc::SIG_IGN as u64)
    }

    /// Returns the time that a call may wait before the timer interrupts it.
    pub(crate) fn until(&self) -> Duration {
        let blocked = self.mask & bit(libc::SIGALRM as u64) != 0;
        self.timer_end().filter(|_| !blocked).map_or(Duration::MAX, |_| self.rest())
    }

    /// Returns the timer's next end, unless its signal is ignored.
    pub(crate) fn timer_end(&self) -> Option<Instant> {
        self.timer.filter(|_| self.actions[libc::SIGALRM as usize - 1].handler != libc::SIG_IGN as u64)
    }

    /// Returns `EINTR` for a call that waited until the timer ended, and other answers unchanged.
    pub(crate) fn interrupt(&self, number: i64, answer: Result<u64, Errno>) -> Result<u64, Errno> {
        let in_vain = match answer {
            Err(Errno::AGAIN) => is_transfer(number),
            Ok(0) => [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6].contains(&number),
            _ => false,
        };
        if in_vain && self.until().is_zero() { Err(Errno::INTR) } else { answer }
    }

    /// `pause` and `sigsuspend`: waits for the timer or for another process. Never waits longer
    /// than `longest`.
    pub(crate) fn suspend(&mut self, mask: Option<u64>, longest: Duration) -> Result<u64, Errno> {
        if let Some(mask) = mask {
            let before = self.mask;
            self.suspended.get_or_insert(before);
            self.set_mask(mask);
        }
        self.tick();
        if self.first().is_none() {
            let _ = self.patience(longest).rest();
        }
        Err(Errno::INTR)
    }

    /// `rt_sigtimedwait`: removes a pending signal of a set without calling its handler.
    pub(crate) fn wait(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6], longest: Duration) -> Result<u64, Errno> {
        let [set, info, time, ..] = *args;
        let set = word(cx, set)?;
        let time = if time == 0 { longest } else { self.clock.patience(duration(cx, time)?).min(longest) };
        self.tick();
        let mut vain = Errno::AGAIN;
        if self.pending & set == 0 {
            vain = self.patience_but(time, self.mask & !set).rest().err().unwrap_or(vain);
            self.tick();
        }
        let signal = self.take(set).ok_or(vain)?;
        if info != 0 {
            cx.write(info, &information(signal, SI_USER, 0))?;
        }
        Ok(signal)
    }

    /// Takes a pending signal of a set.
    fn take(&mut self, set: u64) -> Option<u64> {
        let found = self.pending & set;
        let signal = (found != 0).then(|| u64::from(found.trailing_zeros()) + 1)?;
        self.pending &= !bit(signal);
        Some(signal)
    }

    /// Makes the timer's signal pending if its time is over, and those that other processes sent.
    fn tick(&mut self) {
        self.pending |= self.inbox.as_ref().map_or(0, |inbox| inbox.empty());
        let now = Instant::now();
        if let Some(end) = self.timer.filter(|end| *end <= now) {
            self.pending |= bit(libc::SIGALRM as u64);
            let next = end.checked_add(self.clock.whole(self.interval));
            self.timer = next.filter(|next| *next > now).or_else(|| self.end_after(self.interval));
        }
    }

    /// Returns the first pending signal that is not blocked. Drops those that are ignored.
    fn first(&mut self) -> Option<u64> {
        loop {
            let open = self.pending & !self.mask;
            if open == 0 {
                return None;
            }
            let signal = u64::from(open.trailing_zeros()) + 1;
            let action = self.actions[signal as usize - 1];
            let harmless = action.handler == libc::SIG_DFL as u64 && HARMLESS.contains(&(signal as i32));
            if action.handler != libc::SIG_IGN as u64 && !harmless {
                return Some(signal);
            }
            self.pending &= !bit(signal);
        }
    }

    /// Returns the action that is due after a call. `interrupted` says whether a signal interrupted
    /// it.
    pub(crate) fn due(&mut self, interrupted: bool) -> Due {
        self.tick();
        match self.first() {
            None => {
                self.resume();
                Due::Nothing
            }
            Some(signal) => match self.actions[signal as usize - 1] {
                action if action.is_handled() => {
                    Due::Handler { again: interrupted && action.has(libc::SA_RESTART) && signal != CANCEL }
                }
                _ => Due::End(Exit(128 + signal as i32)),
            },
        }
    }

    /// Asks the support code to call a handler, in the mark of its request.
    pub(crate) fn ask(&mut self, cx: &mut HostCall<'_>, request: u64, again: bool) -> Result<(), Errno> {
        let mark = if again { AGAIN } else { WAITING };
        Ok(cx.write(request.wrapping_add(MARK), &mark.to_le_bytes())?)
    }

    /// Returns the handler of the next signal and writes its frame to `frame`. Returns 0 if none is
    /// pending.
    pub(crate) fn next(&mut self, cx: &mut HostCall<'_>, frame: u64) -> Result<u64, Errno> {
        let signal = self.first().filter(|signal| self.actions[*signal as usize - 1].is_handled());
        let Some(signal) = signal else {
            self.resume();
            return Ok(0);
        };
        self.pending &= !bit(signal);
        let before = self.suspended.take().unwrap_or(self.mask);
        self.begin(cx, frame, information(signal, SI_USER, 0), (signal, before))
    }

    /// Says whether a signal has its default action.
    pub(crate) fn is_default(&self, signal: u64) -> bool {
        self.actions[signal as usize - 1].handler == libc::SIG_DFL as u64
    }

    /// Returns those of some signals, by their bits, that the domain handles or ignores.
    pub(crate) fn chosen(&self, of: u64) -> u64 {
        self.with_action(of, |action| action.handler != libc::SIG_DFL as u64)
    }

    /// Returns those of some signals, by their bits, that have such an action.
    fn with_action(&self, of: u64, such: impl Fn(&Action) -> bool) -> u64 {
        let (mut rest, mut found) = (of, 0);
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            found |= if such(&self.actions[first.trailing_zeros() as usize]) { first } else { 0 };
            rest &= !first;
        }
        found
    }

    /// Lets signals of other processes arrive by an inbox.
    pub(crate) fn arrive_by(&mut self, inbox: &Arc<Inbox>) {
        self.inbox.get_or_insert_with(|| Arc::clone(inbox));
    }

    /// Brings back the mask from before a suspension, because no handler will.
    fn resume(&mut self) {
        if let Some(mask) = self.suspended.take() {
            self.set_mask(mask);
        }
    }

    /// `rt_sigreturn`.
    pub(crate) fn end(&mut self, mask: u64) -> u64 {
        self.set_mask(mask);
        0
    }

    /// Returns the handler for a fault's signal, or 0 if there is none. Its frame lies on the stack
    /// of `sigaltstack`, or below the data stack pointer at the fault.
    pub(crate) fn fault(&mut self, cx: &mut HostCall<'_>, request: u64, args: &[u64; 6]) -> Result<u64, Errno> {
        let [signal, code, address, pointer, ..] = *args;
        self.caught = 0;
        let Some(action) = self.actions.get((signal as usize).wrapping_sub(1)).copied() else { return Ok(0) };
        if !action.is_handled() || self.mask & bit(signal) != 0 {
            return Ok(0);
        }
        let [low, flags, size] = self.stack;
        let own = action.has(libc::SA_ONSTACK) && flags & libc::SS_DISABLE as u64 == 0;
        let inside = pointer.wrapping_sub(low) < size;
        let top = if own && !inside { low.wrapping_add(size) } else { pointer.wrapping_sub(RED_ZONE) };
        let frame = top.wrapping_sub(FRAME_SIZE) & !15;
        cx.write(request.wrapping_add(FRAME_STACK), &frame.to_le_bytes())?;
        let before = self.mask;
        self.begin(cx, frame, information(signal, code as i32, address), (signal, before))
    }

    /// Writes a handler's frame and blocks the signals that must not interrupt the handler.
    fn begin(
        &mut self,
        cx: &mut HostCall<'_>,
        frame: u64,
        information: [u8; 128],
        (signal, before): (u64, u64),
    ) -> Result<u64, Errno> {
        let action = self.actions[signal as usize - 1];
        let mut bytes = vec![0; FRAME_END as usize];
        let mut put = |at: u64, with: &[u8]| bytes[at as usize..at as usize + with.len()].copy_from_slice(with);
        put(FRAME_MASK, &before.to_le_bytes());
        put(FRAME_SIGNAL, &signal.to_le_bytes());
        put(FRAME_INFO, &information);
        put(FRAME_CONTEXT_MASK, &before.to_le_bytes());
        cx.write(frame, &bytes)?;
        let own = if action.has(libc::SA_NODEFER) { 0 } else { bit(signal) };
        self.set_mask(self.mask | action.mask | own);
        if action.has(libc::SA_RESETHAND) {
            self.actions[signal as usize - 1] = Action::default();
        }
        Ok(action.handler)
    }

    /// Returns the faults that have a handler and are not blocked, if the host was last told of
    /// others.
    pub(crate) fn caught(&mut self) -> Option<u64> {
        let open = FAULTS.iter().map(|signal| *signal as u64);
        let open = open.filter(|s| self.actions[*s as usize - 1].is_handled() && self.mask & bit(*s) == 0);
        let now = open.map(|signal| 1 << signal).fold(0, |all, bit: u64| all | bit);
        (now != std::mem::replace(&mut self.caught, now)).then_some(now)
    }
}

/// Returns the bytes of a `siginfo_t`.
fn information(signal: u64, code: i32, address: u64) -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes[..4].copy_from_slice(&(signal as u32).to_le_bytes());
    let code = if signal == libc::SIGALRM as u64 { SI_KERNEL } else { code };
    bytes[8..12].copy_from_slice(&code.to_le_bytes());
    let word = if FAULTS.contains(&(signal as i32)) && code != SI_USER { address } else { SELF };
    bytes[16..24].copy_from_slice(&word.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_reach_only_the_domain_itself() {
        let mut signals = Signals::new(Clock::new(Duration::ZERO, Duration::MAX));
        assert_eq!(signals.send(&[2], 9), Err(Errno::SRCH));
        assert_eq!(signals.send(&[u64::MAX], 9), Err(Errno::SRCH));
        assert_eq!(signals.send(&[1], 65), Err(Errno::INVAL));
        assert_eq!((signals.send(&[1, 1], 0), signals.due(false)), (Ok(0), Due::Nothing));
        assert_eq!((signals.send(&[1], libc::SIGCHLD as u64), signals.due(false)), (Ok(0), Due::Nothing));
        assert_eq!((signals.send(&[1], 15), signals.due(false)), (Ok(0), Due::End(Exit(143))));
        signals.actions[14].handler = libc::SIG_IGN as u64;
        assert_eq!((signals.due(false), signals.pending), (Due::Nothing, 0));
    }

    #[test]
    fn blocked_signals_wait_and_handlers_are_due() {
        let mut signals = Signals::new(Clock::new(Duration::ZERO, Duration::MAX));
        signals.set_mask(u64::MAX);
        assert_eq!((signals.send(&[1], 10), signals.due(false)), (Ok(0), Due::Nothing));
        assert_eq!((signals.send(&[1], 9), signals.due(false)), (Ok(0), Due::End(Exit(137))));
        signals.pending &= !bit(9);
        signals.set_mask(0);
        assert_eq!(signals.due(false), Due::End(Exit(138)));
        signals.actions[9].handler = 0x1000;
        assert_eq!(signals.due(true), Due::Handler { again: false });
        signals.actions[9].flags = libc::SA_RESTART as u64;
        assert_eq!(
            (signals.due(true), signals.due(false)),
            (Due::Handler { again: true }, Due::Handler { again: false })
        );
    }

    #[test]
    fn a_timer_ends_once_or_again() {
        let mut signals = Signals::new(Clock::new(Duration::ZERO, Duration::MAX));
        assert_eq!((signals.alarm(100), signals.until() > Duration::from_secs(90)), (0, true));
        assert_eq!((signals.alarm(0), signals.until()), (100, Duration::MAX));
        signals.timer = Some(Instant::now());
        signals.interval = Duration::from_secs(50);
        assert_eq!(signals.due(false), Due::End(Exit(142)));
        assert!(signals.until() > Duration::from_secs(40));
        // Ends that nobody looked at are one signal.
        signals.timer = Instant::now().checked_sub(Duration::from_secs(500));
        assert_eq!(signals.due(false), Due::End(Exit(142)));
        assert!(signals.until() > Duration::from_secs(40) && signals.until() <= Duration::from_secs(50));
    }

    /// A timer is no finer clock than the domain has.
    #[test]
    fn a_timer_tells_steps_only() {
        let step = Duration::from_secs(7);
        let mut signals = Signals::new(Clock::new(step, Duration::from_secs(1)));
        // A timer ends at the first step after its time, so it has up to one step more.
        for (seconds, least) in [(1, step), (8, 2 * step)] {
            signals.alarm(seconds);
            assert!(signals.rest() < Duration::from_secs(seconds) + step);
            let left = signals.left();
            assert!(left == least || left == least + step, "{seconds} s: {left:?}");
        }
        // Half-seconds round `alarm`'s answer, and steps come first.
        assert_eq!(signals.alarm(0) % 7, 0);
        let mut signals = Signals::new(Clock::new(Duration::MAX, Duration::MAX));
        assert_eq!(signals.alarm(u64::MAX), 0);
        assert!(signals.left() >= Duration::from_secs(u32::MAX.into()));
    }

    #[test]
    fn faults_are_caught_while_they_are_handled() {
        let mut signals = Signals::new(Clock::new(Duration::ZERO, Duration::MAX));
        assert_eq!(signals.caught(), None);
        signals.actions[libc::SIGSEGV as usize - 1].handler = 0x1000;
        assert_eq!((signals.caught(), signals.caught()), (Some(1 << libc::SIGSEGV), None));
        signals.set_mask(bit(libc::SIGSEGV as u64));
        assert_eq!((signals.caught(), signals.caught()), (Some(0), None));
    }
}
