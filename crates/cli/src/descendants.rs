//! The end of all processes that came of a program with a time limit.
//!
//! A program of the host may leave children, and the process group of a fork that became one is
//! that of this process. Such children come to this process when theirs ends, and it ends them.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// Processes that come of this one, from now on.
#[derive(Debug)]
pub struct Descendants {
    /// This process, and none of its forks.
    owner: Pid,
}

impl Descendants {
    /// Lets the kernel give all orphans that come of this process to it.
    pub fn adopt() -> std::io::Result<Descendants> {
        let owner = getpid();
        set_child_subreaper(Some(owner))?;
        Ok(Descendants { owner })
    }

    /// Ends them. Those with other rights (setuid) take no signal and stay.
    pub fn end(self) -> std::io::Result<()> {
        if getpid() != self.owner {
            return Ok(());
        }
        // The children of a process come when it is gone.
        loop {
            let killed: Vec<Pid> =
                children(self.owner)?.into_iter().filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).collect();
            if killed.is_empty() {
                break;
            }
            for pid in killed {
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
        }
        Ok(set_child_subreaper(None)?)
    }
}

/// Returns the children of a process.
fn children(parent: Pid) -> std::io::Result<Vec<Pid>> {
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
