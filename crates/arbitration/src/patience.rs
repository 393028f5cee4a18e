//! The end of waits: a time, or a signal of another process.

use crate::errno::Errno;
use crate::inbox::Inbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a call may wait, and the signals of other processes that end the wait, by
/// their bits.
#[derive(Debug)]
pub(crate) struct Patience {
    time: Duration,
    signals: Option<(Arc<Inbox>, u64)>,
}

impl From<Duration> for Patience {
    fn from(time: Duration) -> Self {
        Patience { time, signals: None }
    }
}

impl Patience {
    /// Makes a wait that these signals of an inbox end.
    pub(crate) fn new(time: Duration, signals: Option<(Arc<Inbox>, u64)>) -> Self {
        Patience { time, signals }
    }

    /// Returns the longest time.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Shortens the time.
    pub(crate) fn at_most(self, time: Duration) -> Self {
        Patience { time: self.time.min(time), ..self }
    }

    /// Begins the wait.
    pub(crate) fn begin(self) -> End {
        End { at: Instant::now().checked_add(self.time), signals: self.signals }
    }

    /// Waits for the whole time.
    ///
    /// # Errors
    /// `EINTR`: a signal ended the wait.
    pub(crate) fn rest(self) -> Result<(), Errno> {
        poll_until(&mut Vec::new(), &self.begin()).map(drop)
    }
}

/// The end of a wait that began.
#[derive(Debug)]
pub(crate) struct End {
    /// `None`: only a signal ends it.
    at: Option<Instant>,
    signals: Option<(Arc<Inbox>, u64)>,
}

impl End {
    /// Returns the end of a call that does not wait.
    pub(crate) fn now() -> Self {
        Patience::from(Duration::ZERO).begin()
    }

    /// Says whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.at.is_some_and(|at| at <= Instant::now())
    }
}

/// Calls `poll` until the end of a wait. Signals that are the host's own do not end it.
pub(crate) fn poll_until<'f>(fds: &mut Vec<PollFd<'f>>, end: &'f End) -> Result<usize, Errno> {
    loop {
        let left = end.at.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let own = fds.len();
        fds.extend(end.signals.iter().map(|(inbox, _)| PollFd::new(inbox.bell(), PollFlags::IN)));
        let result = poll(fds, left.as_ref());
        let rings = fds.get(own).is_some_and(|bell| !bell.revents().is_empty());
        fds.truncate(own);
        let ready = match result {
            Err(rustix::io::Errno::INTR) => continue,
            result => result? - usize::from(rings),
        };
        match &end.signals {
            Some((inbox, open)) if rings && ready == 0 => {
                inbox.hush();
                if inbox.has(*open) {
                    return Err(Errno::INTR);
                }
            }
            _ => return Ok(ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn only_open_signals_end_a_wait() {
        let inbox = Arc::new(Inbox::new().expect("a descriptor"));
        let wait = |time, open| Patience::new(time, Some((Arc::clone(&inbox), open))).rest();
        inbox.choose(0b111);
        // It came before the wait, and it is not open: the wait goes on to its end.
        assert_eq!((inbox.put(0b10), wait(SHORT, 0b101)), (0, Ok(())));
        assert_eq!((inbox.put(0b100), wait(LONG, 0b101)), (0, Err(Errno::INTR)));
        assert_eq!((inbox.empty(), inbox.empty()), (0b110, 0));
        assert_eq!(wait(SHORT, !0), Ok(()));
        let start = Instant::now();
        let other = Arc::clone(&inbox);
        let sender = std::thread::spawn(move || {
            std::thread::sleep(SHORT);
            other.put(0b1)
        });
        assert_eq!(wait(LONG, !0), Err(Errno::INTR));
        assert!(start.elapsed() < LONG / 2);
        assert_eq!(sender.join().expect("sent"), 0);
    }
}
