//! The programs that a domain started and did not wait for.

use crate::errno::Errno;
use crate::wait;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

/// A program that runs, or ended and nobody waited for it. So its number means no other process.
#[derive(Debug)]
struct Running {
    child: Child,
    /// Readable when it ended.
    end: OwnedFd,
}

impl Running {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

/// The children of one life of a domain. They end with it, and so do the processes of their groups.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<Running>);

impl Drop for Children {
    fn drop(&mut self) {
        for running in &mut self.0 {
            if let Some(pid) = running.pid() {
                // The group may be gone, and the child itself may have left it.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Children {
    /// Starts a command, unless there are `most` children. Returns its number.
    pub(crate) fn start(&mut self, command: &mut Command, most: usize) -> Result<u64, Errno> {
        if self.0.len() >= most {
            return Err(Errno::AGAIN);
        }
        let mut child = sfi_loader::apart(command).spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => {
                let number = u64::from(child.id());
                self.0.push(Running { child, end });
                Ok(number)
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Returns the children that an argument of `wait4` means: one by its number, or all.
    fn meant(&self, number: i32) -> Vec<usize> {
        let is_meant = |running: &Running| number <= 0 || u32::try_from(number) == Ok(running.child.id());
        (0..self.0.len()).filter(|place| is_meant(&self.0[*place])).collect()
    }

    /// Waits for the end of a child, never longer than `longest`. Returns its number and status, or
    /// `None` if none ended in that time.
    pub(crate) fn wait(&mut self, number: i32, longest: Duration) -> Result<Option<(u64, i32)>, Errno> {
        let meant = self.meant(number);
        if meant.is_empty() {
            return Err(Errno(libc::ECHILD));
        }
        let mut ends: Vec<PollFd<'_>> = meant.iter().map(|at| PollFd::new(&self.0[*at].end, PollFlags::IN)).collect();
        wait::poll_until(&mut ends, wait::end(longest))?;
        let ended = ends.iter().position(|end| !end.revents().is_empty());
        drop(ends);
        let Some(place) = ended.map(|ended| meant[ended]) else { return Ok(None) };
        let Some(status) = self.0[place].child.try_wait()? else { return Ok(None) };
        let running = self.0.remove(place);
        Ok(Some((running.child.id().into(), status.into_raw())))
    }

    /// Sends a signal to a child, or to its group if the number is negative. Signal 0 only asks.
    pub(crate) fn send(&self, number: i32, signal: u64) -> Result<u64, Errno> {
        let one = self.0.iter().find(|running| running.child.id() == number.unsigned_abs()).ok_or(Errno::SRCH)?;
        let signal = match i32::try_from(signal).map_err(|_| Errno::INVAL)? {
            0 => return Ok(0),
            signal => Signal::from_named_raw(signal).ok_or(Errno::INVAL)?,
        };
        let sent = match one.pid() {
            Some(pid) if number < 0 => kill_process_group(pid, signal),
            _ => pidfd_send_signal(&one.end, signal),
        };
        // It may have ended.
        match sent {
            Err(rustix::io::Errno::SRCH) => Ok(0),
            other => Ok(other.map(|()| 0)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn children_are_waited_for_and_signalled() {
        let mut children = Children::default();
        assert_eq!(children.wait(-1, LONG), Err(Errno(libc::ECHILD)));
        let first = children.start(&mut shell("exit 7"), 2).expect("started");
        assert_eq!(children.wait(first as i32, LONG), Ok(Some((first, 7 << 8))));
        assert_eq!(children.wait(first as i32, LONG), Err(Errno(libc::ECHILD)));
        let second = children.start(&mut shell("sleep 60"), 2).expect("started");
        let third = children.start(&mut shell("sleep 60"), 2).expect("started");
        assert_eq!(children.start(&mut shell("exit 0"), 2), Err(Errno::AGAIN));
        assert_eq!(children.wait(-1, Duration::from_millis(1)), Ok(None));
        assert_eq!((children.send(second as i32, 0), children.send(second as i32, 15)), (Ok(0), Ok(0)));
        assert_eq!(children.wait(-1, LONG), Ok(Some((second, 15))));
        assert_eq!(children.send(-(third as i32), 9), Ok(0));
        assert_eq!(children.wait(0, LONG), Ok(Some((third, 9))));
    }

    #[test]
    fn no_other_process_is_signalled() {
        let mut children = Children::default();
        let child = children.start(&mut shell("sleep 60"), 2).expect("started") as i32;
        let me = std::process::id() as i32;
        for number in [0, -1, 1, me, -me, child + 1, i32::MIN, i32::MAX] {
            assert_eq!(children.send(number, 9), Err(Errno::SRCH), "{number}");
        }
        for signal in [65, 1 << 31, u64::MAX] {
            assert_eq!(children.send(child, signal), Err(Errno::INVAL), "{signal}");
        }
        assert_eq!(children.wait(me, LONG), Err(Errno(libc::ECHILD)));
    }

    #[test]
    fn children_end_with_their_parent() {
        let directory = tempfile::tempdir().expect("a directory");
        let (started, mark) = (directory.path().join("started"), directory.path().join("mark"));
        let mut children = Children::default();
        // The grandchild would make the mark.
        let text = format!("(touch {}; sleep 2; touch {}) & sleep 60", started.display(), mark.display());
        children.start(&mut shell(&text), 2).expect("started");
        let start = Instant::now();
        while !started.exists() {
            assert!(start.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(children);
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!mark.exists());
    }

    #[test]
    fn no_descriptor_of_the_host_is_passed_on() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        // Without the flag that closes it: a copy made by the standard library always has it.
        rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty()).expect("set");
        let mut children = Children::default();
        let (ours, theirs) = std::io::pipe().expect("a pipe");
        let mut command = shell("ls /proc/self/fd");
        command.stdin(std::process::Stdio::null()).stdout(theirs).stderr(std::process::Stdio::null());
        children.start(&mut command, 1).expect("started");
        drop(command);
        let text = std::io::read_to_string(ours).expect("text");
        // The fourth is the directory that `ls` reads.
        assert_eq!(text, "0\n1\n2\n3\n");
    }
}
