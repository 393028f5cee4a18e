//! The end of all processes that came of a program with a time limit.
//!
//! A program of the host may leave children, and the process group of a fork that became one is
//! that of the program. Such children come to the supervisor when their parent ends, and it ends
//! them after the program, by whatever the program ended.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper, wait, waitid,
};
use std::time::{Duration, Instant};

/// Goes on in a new process. This one ends all that comes of that one when it has ended.
///
/// # Errors
/// The kernel makes no process, or tells nothing about processes.
pub fn supervise() -> std::io::Result<()> {
    let own = getpid();
    std::fs::metadata("/proc/self/stat")?;
    set_child_subreaper(Some(own))?;
    sfi_loader::supervise(move || end(own))
}

/// Time between two looks at children that were killed.
const LOOK: Duration = Duration::from_micros(100);
/// The longest time without an end of any of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends all children of this process, and theirs, until none is left. Those with other rights
/// (setuid) take no signal and stay. So do those that such a process traces.
fn end(own: Pid) {
    let mut last = Instant::now();
    let any = || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
    };
    while any() {
        let Ok(children) = children(own) else { return };
        let killed = children.iter().filter(|pid| kill_process(**pid, Signal::KILL).is_ok()).count();
        if killed == 0 && !children.is_empty() {
            return;
        }
        // The children of a process come when it is gone. One that a descendant traces is not gone
        // before that descendant is, so nobody waits for it.
        std::thread::sleep(LOOK);
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {
            last = Instant::now();
        }
        if last.elapsed() > PATIENCE {
            return;
        }
    }
}

/// Returns the children of this process.
fn children(own: Pid) -> std::io::Result<Vec<Pid>> {
    let number = own.as_raw_nonzero();
    // Not every kernel has this list, and it may lack some.
    let list = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    let found: Vec<Pid> = list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect();
    if found.is_empty() { scan(own) } else { Ok(found) }
}

/// Returns the children of a process, of all that the kernel tells about.
fn scan(parent: Pid) -> std::io::Result<Vec<Pid>> {
    let parent = parent.as_raw_nonzero().get();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        // It may be gone. The name before the last parenthesis may be any text.
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        if after.split(' ').nth(1).and_then(|word| word.parse().ok()) == Some(parent) {
            found.push(pid);
        }
    }
    Ok(found)
}
