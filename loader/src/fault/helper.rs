//! Threads that work for the host in the background: the watchdog, and those that tell of timers
//! and signals. Their number is known, so that a fork finds out whether the process has others.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// The helpers that were started and did not end.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Ends a helper in the count.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a helper. It must hold no lock that the host's calls need for longer than an instant, but
/// for those that a fork takes or forgets.
///
/// # Errors
/// The thread does not start.
pub fn start_helper(builder: Builder, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let counted = Counted;
    builder.spawn(move || {
        run();
        drop(counted);
    })?;
    Ok(())
}

/// Says whether this process has no threads but the calling one and helpers.
pub(super) fn are_all() -> io::Result<bool> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() <= 1 + COUNT.load(Ordering::Relaxed))
}

/// Forgets all helpers, which a new process does not have.
pub(super) fn forget_all() {
    COUNT.store(0, Ordering::Relaxed);
}
