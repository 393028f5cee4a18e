//! The programs that a domain started and did not wait for.

use crate::errno::Errno;
use crate::patience::{Patience, poll_until};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid, waitpid,
};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::process::Command;

/// The signals that stop a process. A fork that stopped its parent would stop the time limits too.
const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// A program that runs, or ended and the domain did not wait for it.
#[derive(Debug)]
struct Running {
    pid: Pid,
    /// Readable when it ended.
    end: OwnedFd,
}

impl Running {
    /// Returns its number, as the domain knows it.
    fn number(&self) -> u64 {
        self.pid.as_raw_nonzero().get().unsigned_abs().into()
    }

    /// Returns its process group. `None` if the host waited for the child, because the number may
    /// mean another group then: a host that waits for any child does, or one that ignores SIGCHLD.
    fn group(&self) -> Option<Pid> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.end.as_fd()), options) {
            Err(rustix::io::Errno::CHILD) => None,
            _ => Some(self.pid),
        }
    }
}

/// The number of a child that ended, and its status.
type Ended = (u64, Result<i32, Errno>);

/// The children of one life of a domain. They end with it, and so do the processes of their groups.
#[derive(Debug, Default)]
pub(crate) struct Children {
    running: Vec<Running>,
    /// The process that this one was forked from.
    parent: Option<(u32, OwnedFd)>,
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &self.running {
            let Some(group) = running.group() else { continue };
            // The group may be gone, and the child itself may have left it.
            let _ = kill_process_group(group, Signal::KILL);
            // A program that has other rights (setuid) takes no signal, and ends when it likes.
            if pidfd_send_signal(&running.end, Signal::KILL) != Err(rustix::io::Errno::PERM) {
                let _ = waitpid(Some(running.pid), WaitOptions::empty());
            }
        }
    }
}

impl Children {
    /// Starts a command with some descriptors of this process, unless there are `most` children.
    /// Returns its number.
    pub(crate) fn start(&mut self, command: &mut Command, passed: &[RawFd], most: usize) -> Result<u64, Errno> {
        if self.running.len() >= most {
            return Err(Errno::AGAIN);
        }
        self.adopt(sfi_loader::apart(command, passed).spawn()?.id())
    }

    /// Takes a child that was just started, by its number. It ends if that fails.
    pub(crate) fn adopt(&mut self, number: u32) -> Result<u64, Errno> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => {
                self.running.push(Running { pid, end });
                Ok(number.into())
            }
            Err(error) => {
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
                Err(error.into())
            }
        }
    }

    /// Begins a fork: the children so far are those of its parent.
    pub(crate) fn part(&mut self, parent: (u32, OwnedFd)) {
        self.running.clear();
        self.parent = Some(parent);
    }

    /// Returns the number of the process that this one was forked from, or 0.
    pub(crate) fn parent(&self) -> u64 {
        self.parent.as_ref().map_or(0, |(number, _)| u64::from(*number))
    }

    /// Returns the children that an argument of `wait4` means: one by its number, or all.
    fn meant(&self, number: i32) -> Vec<usize> {
        let is_meant = |running: &Running| number <= 0 || number == running.pid.as_raw_nonzero().get();
        (0..self.running.len()).filter(|place| is_meant(&self.running[*place])).collect()
    }

    /// Waits for the end of a child, never longer than `longest`. Returns its number and status, or
    /// `None` if none ended in that time. There is no status if the host waited for the child.
    pub(crate) fn wait(&mut self, number: i32, longest: impl Into<Patience>) -> Result<Option<Ended>, Errno> {
        let meant = self.meant(number);
        if meant.is_empty() {
            return Err(Errno(libc::ECHILD));
        }
        let end = longest.into().begin();
        let fd = |at: &usize| PollFd::new(&self.running[*at].end, PollFlags::IN);
        let mut ends: Vec<PollFd<'_>> = meant.iter().map(fd).collect();
        poll_until(&mut ends, &end)?;
        let ended = ends.iter().position(|end| !end.revents().is_empty());
        drop(ends);
        let Some(place) = ended.map(|ended| meant[ended]) else { return Ok(None) };
        let result = waitpid(Some(self.running[place].pid), WaitOptions::NOHANG);
        if let Ok(None) = result {
            return Ok(None);
        }
        let running = self.running.remove(place);
        let status = result.map(|ended| ended.map_or(0, |(_, status)| status.as_raw()));
        Ok(Some((running.number(), status.map_err(Errno::from))))
    }

    /// Sends a signal to a child or to the parent, or to a child's group if the number is negative.
    /// Signal 0 only asks. Nothing stops the parent.
    pub(crate) fn send(&self, number: i32, signal: u64) -> Result<u64, Errno> {
        let meant = u64::from(number.unsigned_abs());
        let child = self.running.iter().find(|running| running.number() == meant);
        let parent = self.parent.as_ref().filter(|(own, _)| u32::try_from(number) == Ok(*own));
        let signal = match i32::try_from(signal).map_err(|_| Errno::INVAL)? {
            0 => return if child.is_some() || parent.is_some() { Ok(0) } else { Err(Errno::SRCH) },
            signal if child.is_none() && parent.is_some() && STOPS.contains(&signal) => return Err(Errno::PERM),
            signal => Signal::from_named_raw(signal).ok_or(Errno::INVAL)?,
        };
        let sent = match (child, parent) {
            (Some(child), _) if number < 0 => kill_process_group(child.group().ok_or(Errno::SRCH)?, signal),
            (Some(Running { end, .. }), _) | (None, Some((_, end))) => pidfd_send_signal(end, signal),
            (None, None) => return Err(Errno::SRCH),
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
    use std::time::{Duration, Instant};

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
        let first = children.start(&mut shell("exit 7"), &[], 2).expect("started");
        assert_eq!(children.wait(first as i32, LONG), Ok(Some((first, Ok(7 << 8)))));
        assert_eq!(children.wait(first as i32, LONG), Err(Errno(libc::ECHILD)));
        let second = children.start(&mut shell("sleep 60"), &[], 2).expect("started");
        let third = children.start(&mut shell("sleep 60"), &[], 2).expect("started");
        assert_eq!(children.start(&mut shell("exit 0"), &[], 2), Err(Errno::AGAIN));
        assert_eq!(children.wait(-1, Duration::from_millis(1)), Ok(None));
        assert_eq!((children.send(second as i32, 0), children.send(second as i32, 15)), (Ok(0), Ok(0)));
        assert_eq!(children.wait(-1, LONG), Ok(Some((second, Ok(15)))));
        assert_eq!(children.send(-(third as i32), 9), Ok(0));
        assert_eq!(children.wait(0, LONG), Ok(Some((third, Ok(9)))));
    }

    #[test]
    fn no_other_process_is_signalled() {
        let mut children = Children::default();
        let child = children.start(&mut shell("sleep 60"), &[], 2).expect("started") as i32;
        let me = std::process::id() as i32;
        for number in [0, -1, 1, me, -me, child + 1, i32::MIN, i32::MAX] {
            assert_eq!(children.send(number, 9), Err(Errno::SRCH), "{number}");
        }
        for signal in [65, 1 << 31, u64::MAX] {
            assert_eq!(children.send(child, signal), Err(Errno::INVAL), "{signal}");
        }
        assert_eq!(children.wait(me, LONG), Err(Errno(libc::ECHILD)));
    }

    /// A fork that stopped its parent would stop the watch over its limits.
    #[test]
    fn nothing_stops_the_parent() {
        let mut children = Children::default();
        let mut parent = shell("sleep 60").spawn().expect("started");
        let pid = Pid::from_raw(parent.id() as i32).expect("a number");
        children.part((parent.id(), pidfd_open(pid, PidfdFlags::empty()).expect("open")));
        for signal in STOPS {
            assert_eq!(children.send(parent.id() as i32, signal as u64), Err(Errno::PERM), "{signal}");
        }
        assert_eq!(children.send(parent.id() as i32, 15), Ok(0));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(parent.wait().expect("ended").signal(), Some(15));
        let child = children.start(&mut shell("sleep 60"), &[], 1).expect("started") as i32;
        assert_eq!(children.send(child, libc::SIGSTOP as u64), Ok(0));
    }

    /// A host that waits for any child takes the end of this one. Its number may mean another
    /// process afterwards. Here it is made to mean one: the process group that is left has it.
    #[test]
    fn a_child_that_the_host_waited_for_is_gone() {
        let mut children = Children::default();
        let (ours, theirs) = std::io::pipe().expect("a pipe");
        let mut command = shell("sleep 60 & echo $!");
        command.stdin(std::process::Stdio::null()).stdout(theirs).stderr(std::process::Stdio::null());
        let child = children.start(&mut command, &[], 1).expect("started") as i32;
        drop(command);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&ours), &mut line).expect("a line");
        let other = line.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        let pid = Pid::from_raw(child).expect("a number");
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).expect("the host waits");
        let lives = || rustix::process::test_kill_process(other).is_ok();
        assert_eq!(children.send(-child, 9), Err(Errno::SRCH));
        assert_eq!(children.send(child, 9), Ok(0));
        drop(std::mem::take(&mut children));
        std::thread::sleep(Duration::from_millis(50));
        assert!(lives(), "another process was signalled");
        rustix::process::kill_process(other, Signal::KILL).expect("killed");

        let number = children.start(&mut shell("exit 0"), &[], 1).expect("started");
        let pid = Pid::from_raw(number as i32).expect("a number");
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).expect("the host waits");
        assert_eq!(children.wait(number as i32, LONG), Ok(Some((number, Err(Errno(libc::ECHILD))))));
        assert!(children.start(&mut shell("exit 0"), &[], 1).is_ok(), "the child still counts");
    }

    #[test]
    fn nobody_waits_for_a_child_that_takes_no_signal() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested without the rights of root");
            return;
        }
        let mut children = Children::default();
        let child = children.start(&mut shell("exec sleep 60"), &[], 1).expect("started") as i32;
        let start = Instant::now();
        let dropped = std::thread::spawn(move || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("only this thread changes");
            drop(children);
        });
        dropped.join().expect("dropped");
        assert!(start.elapsed() < LONG / 2);
        let pid = Pid::from_raw(child).expect("a number");
        rustix::process::kill_process(pid, Signal::KILL).expect("it still runs");
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).expect("the host waits");
    }

    #[test]
    fn children_end_with_their_parent() {
        let directory = tempfile::tempdir().expect("a directory");
        let (started, mark) = (directory.path().join("started"), directory.path().join("mark"));
        let mut children = Children::default();
        // The grandchild would make the mark.
        let text = format!("(touch {}; sleep 2; touch {}) & sleep 60", started.display(), mark.display());
        children.start(&mut shell(&text), &[], 2).expect("started");
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
        children.start(&mut command, &[], 1).expect("started");
        drop(command);
        let text = std::io::read_to_string(ours).expect("text");
        // The fourth is the directory that `ls` reads.
        assert_eq!(text, "0\n1\n2\n3\n");
    }
}
