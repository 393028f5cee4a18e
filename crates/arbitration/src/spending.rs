//! The host's resources that a domain may still use: those for files, and processes.
//!
//! A program has them in common with its forks and with the programs that it starts in domains.
//! From the first of them on, the numbers are in a file that all of them have. Each changes them
//! under a lock. The kernel gives the lock of a process back when it ends.

use crate::descriptors::Open;
use crate::errno::Errno;
use crate::policy::Quota;
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, fcntl_lock, memfd_create};
use rustix::process::{Resource, getrlimit};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two attempts to get the lock.
const RETRY: Duration = Duration::from_micros(50);

/// The rest of a domain's quota.
#[derive(Debug)]
pub(crate) struct Spending {
    /// The numbers, unless they are in a file.
    rest: Rest,
    /// The file with the numbers, once other processes change them too.
    common: Option<Arc<OwnedFd>>,
    /// Size of the largest file that this process may write. The kernel ends the process by a
    /// signal beyond it.
    largest: u64,
    /// The longest wait for another process.
    wait: Duration,
}

/// The numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rest {
    written: u64,
    created: u64,
    /// The processes of forked programs: each one's number and its parent's. One that is about to
    /// start has no number yet.
    running: Vec<(u32, u32)>,
}

impl Rest {
    /// Returns the numbers as the file has them, in 64-bit words. The last one is a zero.
    fn words(&self) -> Vec<u64> {
        let running = self.running.iter().map(|(number, parent)| u64::from(*parent) << 32 | u64::from(*number));
        [self.written, self.created].into_iter().chain(running).chain([0]).collect()
    }

    /// Reads what [`Rest::words`] gave.
    fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Rest> {
        let (written, created) = (words.next()?, words.next()?);
        let running = words.take_while(|word| *word != 0).map(|word| (word as u32, (word >> 32) as u32)).collect();
        Some(Rest { written, created, running })
    }

    /// Pays for bytes.
    fn pay(&mut self, price: u64) -> Result<(), Errno> {
        self.written = self.written.checked_sub(price).ok_or(Errno::DQUOT)?;
        Ok(())
    }

    /// Gives back a part of a price.
    fn give_back(&mut self, back: u64) -> Result<(), Errno> {
        self.written = self.written.saturating_add(back);
        Ok(())
    }

    /// Removes a process that ended, and those that end with it.
    fn remove(&mut self, number: u32) {
        self.running.retain(|(other, _)| *other != number);
        while let Some(place) = self.running.iter().position(|(_, parent)| *parent == number) {
            let (below, _) = self.running.remove(place);
            if below != 0 {
                self.remove(below);
            }
        }
    }
}

/// The start of a write in a regular file, and the file's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    start: u64,
    size: u64,
}

impl Extent {
    /// Returns the extent of a write to a file, at its position or at `at`.
    pub(crate) fn of(open: &Open, at: Option<u64>) -> Result<Extent, Errno> {
        let size = rustix::fs::fstat(&open.fd)?.st_size as u64;
        let start = match at {
            _ if rustix::fs::fcntl_getfl(&open.fd)?.contains(OFlags::APPEND) => size,
            Some(at) => at,
            None => rustix::fs::tell(&open.fd)?,
        };
        Ok(Extent { start, size })
    }

    fn end(self, count: u64) -> u64 {
        self.start.saturating_add(count)
    }

    /// Returns the price of a number of bytes, with those of a hole before them.
    fn price(self, count: u64) -> u64 {
        if count == 0 { 0 } else { count.max(self.end(count).saturating_sub(self.size)) }
    }
}

impl Spending {
    pub(crate) fn new(quota: &Quota) -> Spending {
        let largest = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        let rest = Rest { written: quota.written, created: quota.created, running: Vec::new() };
        Spending { rest, common: None, largest, wait: quota.wait }
    }

    /// Lets processes that are made from now on spend from the same quota. Returns the file with
    /// the numbers.
    pub(crate) fn share(&mut self) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(file) = &self.common {
            return Ok(file.clone());
        }
        let file = Arc::new(memfd_create("spending", MemfdFlags::CLOEXEC)?);
        put(&file, &self.rest)?;
        self.common = Some(file.clone());
        Ok(file)
    }

    /// Spends from the quota of another process, whose numbers are in a descriptor of this one.
    pub(crate) fn join(&mut self, number: u32) -> Result<(), Errno> {
        let name = format!("/proc/self/fd/{number}");
        let file = rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        get(&file)?;
        self.common = Some(Arc::new(file));
        Ok(())
    }

    /// Works while no other process changes the numbers, or the positions of files that processes
    /// have in common. `work` must not come here again.
    ///
    /// # Errors
    /// `EAGAIN`: another process, which may be stopped, keeps the lock for longer than a call may
    /// wait.
    pub(crate) fn alone<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R, Errno>) -> Result<R, Errno> {
        let Some(file) = &self.common else { return work(self) };
        lock(file, self.wait)?;
        let result = work(self);
        if let Some(file) = &self.common {
            fcntl_lock(file, FlockOperation::Unlock)?;
        }
        result
    }

    /// Changes the numbers.
    fn change<R>(&mut self, work: impl FnOnce(&mut Rest) -> Result<R, Errno>) -> Result<R, Errno> {
        self.alone(|spending| spending.change_alone(work))
    }

    /// Changes the numbers within [`Spending::alone`].
    fn change_alone<R>(&mut self, work: impl FnOnce(&mut Rest) -> Result<R, Errno>) -> Result<R, Errno> {
        let Some(file) = &self.common else { return work(&mut self.rest) };
        let mut rest = get(file)?;
        let before = rest.clone();
        let result = work(&mut rest)?;
        if rest != before {
            put(file, &rest)?;
        }
        Ok(result)
    }

    /// Changes the processes. Without forks nobody counts them here.
    fn change_running(&mut self, work: impl FnOnce(&mut Rest) -> Result<(), Errno>) -> Result<(), Errno> {
        if self.common.is_some() { self.change(work) } else { Ok(()) }
    }

    /// Pays for a file, a directory or a link before it is made.
    pub(crate) fn create(&mut self) -> Result<(), Errno> {
        self.change(|rest| {
            rest.created = rest.created.checked_sub(1).ok_or(Errno::DQUOT)?;
            Ok(())
        })
    }

    /// Gives back the price of a file that another process made.
    pub(crate) fn uncreate(&mut self) -> Result<(), Errno> {
        self.change(|rest| {
            rest.created = rest.created.saturating_add(1);
            Ok(())
        })
    }

    /// Pays for bytes, and writes them. The result of `write` says how many were written, and the
    /// others cost nothing.
    pub(crate) fn write(&mut self, count: u64, write: impl FnOnce() -> Result<u64, Errno>) -> Result<u64, Errno> {
        self.change(|rest| rest.pay(count))?;
        let done = write();
        let back = count.saturating_sub(done.unwrap_or(0));
        if back > 0 {
            self.change(|rest| rest.give_back(back))?;
        }
        done
    }

    /// As [`Spending::write`], into a file, whose extent `look` finds. Nobody moves the file's
    /// position between the look and the write.
    pub(crate) fn write_in(
        &mut self,
        look: impl FnOnce() -> Result<Extent, Errno>,
        count: u64,
        write: impl FnOnce() -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        self.alone(|spending| {
            let extent = look()?;
            if count > 0 && extent.end(count) > spending.largest {
                return Err(Errno(libc::EFBIG));
            }
            let most = extent.price(count);
            spending.change_alone(|rest| rest.pay(most))?;
            let done = write();
            let back = most.saturating_sub(done.map_or(0, |written| extent.price(written)));
            if back > 0 {
                spending.change_alone(|rest| rest.give_back(back))?;
            }
            done
        })
    }

    /// Gives a file a length, and pays for its growth.
    pub(crate) fn resize(&mut self, fd: &OwnedFd, length: u64) -> Result<u64, Errno> {
        if length > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        self.alone(|spending| {
            let growth = length.saturating_sub(rustix::fs::fstat(fd)?.st_size as u64);
            if growth > 0 && length > spending.largest {
                return Err(Errno(libc::EFBIG));
            }
            spending.change_alone(|rest| rest.pay(growth))?;
            let done = rustix::fs::ftruncate(fd, length);
            if done.is_err() && growth > 0 {
                spending.change_alone(|rest| rest.give_back(growth))?;
            }
            Ok(done.map(|()| 0)?)
        })
    }

    /// Pays for a process that `parent` starts, if there are fewer than `most`. Without forks there
    /// is nothing to pay.
    pub(crate) fn enter(&mut self, parent: u32, most: usize) -> Result<(), Errno> {
        self.change_running(|rest| {
            if rest.running.len() >= most {
                return Err(Errno::AGAIN);
            }
            rest.running.push((0, parent));
            Ok(())
        })
    }

    /// Names the process that `parent` started, or gives its place back if none did.
    pub(crate) fn entered(&mut self, parent: u32, number: Option<u32>) -> Result<(), Errno> {
        self.change_running(|rest| {
            let Some(place) = rest.running.iter().position(|entry| *entry == (0, parent)) else { return Ok(()) };
            match number {
                Some(number) => rest.running[place].0 = number,
                None => drop(rest.running.remove(place)),
            }
            Ok(())
        })
    }

    /// Gives back the place of a process that was waited for.
    pub(crate) fn leave(&mut self, number: u32) -> Result<(), Errno> {
        self.change_running(|rest| {
            rest.remove(number);
            Ok(())
        })
    }
}

/// Locks the numbers. The kernel would wait without end for a process that is stopped.
fn lock(file: &OwnedFd, longest: Duration) -> Result<(), Errno> {
    let start = Instant::now();
    loop {
        match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) if start.elapsed() < longest => {
                std::thread::sleep(RETRY);
            }
            Err(rustix::io::Errno::ACCESS) => return Err(Errno::AGAIN),
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Reads the numbers.
fn get(file: &OwnedFd) -> Result<Rest, Errno> {
    let mut bytes = vec![0; rustix::fs::fstat(file)?.st_size as usize];
    let count = rustix::io::pread(file, &mut bytes, 0)?;
    let words = bytes[..count].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    Rest::from_words(words).ok_or(Errno(libc::EIO))
}

/// Writes the numbers, by one call.
fn put(file: &OwnedFd, rest: &Rest) -> Result<(), Errno> {
    let bytes: Vec<u8> = rest.words().into_iter().flat_map(u64::to_le_bytes).collect();
    rustix::io::pwrite(file, &bytes, 0)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spending(written: u64, largest: u64) -> Spending {
        let rest = Rest { written, created: 1, running: Vec::new() };
        Spending { rest, common: None, largest, wait: Duration::from_millis(50) }
    }

    #[test]
    fn holes_cost_what_they_add_to_the_size() {
        let at = |start, size| Extent { start, size };
        assert_eq!(at(0, 0).price(10), 10);
        assert_eq!(at(0, 100).price(10), 10);
        assert_eq!(at(95, 100).price(10), 10);
        assert_eq!(at(100, 100).price(10), 10);
        assert_eq!(at(1 << 40, 100).price(1), (1 << 40) + 1 - 100);
        assert_eq!(at(u64::MAX, 0).price(10), u64::MAX);
        assert_eq!(at(1 << 40, 100).price(0), 0);
        for common in [false, true] {
            let mut spending = spending(50, 80);
            if common {
                spending.share().expect("a file");
            }
            let all = || Ok(10);
            assert_eq!(spending.write_in(|| Ok(at(41, 0)), 10, all), Err(Errno::DQUOT));
            assert_eq!(spending.write_in(|| Ok(at(71, 71)), 10, all), Err(Errno(libc::EFBIG)));
            assert_eq!(spending.write_in(|| Ok(at(40, 0)), 10, || Err(Errno::AGAIN)), Err(Errno::AGAIN));
            assert_eq!(spending.write_in(|| Ok(at(40, 0)), 10, || Ok(5)), Ok(5));
            assert_eq!((spending.write(6, all), spending.write(5, || Ok(5))), (Err(Errno::DQUOT), Ok(5)));
            assert_eq!((spending.create(), spending.create()), (Ok(()), Err(Errno::DQUOT)));
        }
    }

    /// A started program takes what its starter left, and leaves the rest to it.
    #[test]
    fn a_started_program_spends_from_its_starters_quota() {
        let (mut first, mut started) = (spending(10, 100), spending(10, 100));
        let number = |file: &OwnedFd| std::os::fd::AsRawFd::as_raw_fd(file) as u32;
        assert_eq!(first.write(4, || Ok(4)), Ok(4));
        let file = first.share().expect("a file");
        assert_eq!(started.join(number(&file)), Ok(()));
        assert_eq!((started.write(7, || Ok(7)), started.write(5, || Ok(5))), (Err(Errno::DQUOT), Ok(5)));
        assert_eq!((started.create(), first.create()), (Ok(()), Err(Errno::DQUOT)));
        assert_eq!((first.write(2, || Ok(2)), first.write(1, || Ok(1))), (Err(Errno::DQUOT), Ok(1)));
        let other = std::fs::File::open("/dev/null").expect("a device").into();
        assert!(spending(10, 100).join(number(&other)).is_err());
        assert!(spending(10, 100).join(u32::MAX).is_err());
    }

    /// A fork that dies without waiting for its own leaves no places behind.
    #[test]
    fn places_of_processes_come_back() {
        let mut spending = spending(0, 0);
        assert_eq!(spending.enter(1, 0), Ok(()), "nothing was forked");
        spending.share().expect("a file");
        for (parent, number) in [(1, 2), (2, 3), (3, 4), (1, 5)] {
            assert_eq!(spending.enter(parent, 5), Ok(()));
            assert_eq!(spending.entered(parent, Some(number)), Ok(()));
        }
        // It died before it named the one that it was starting.
        assert_eq!((spending.enter(4, 5), spending.enter(1, 5)), (Ok(()), Err(Errno::AGAIN)));
        assert_eq!(spending.leave(2), Ok(()));
        let left = spending.change(|rest| Ok(rest.running.clone()));
        assert_eq!(left, Ok(vec![(5, 1)]));
        assert_eq!((spending.enter(1, 2), spending.entered(1, None)), (Ok(()), Ok(())));
        assert_eq!((spending.enter(1, 2), spending.enter(1, 2)), (Ok(()), Err(Errno::AGAIN)));
    }

    /// A process that was stopped keeps its lock. Its relatives must not wait for it without end.
    #[test]
    fn a_stopped_process_stops_no_other() {
        let mut spending = spending(10, 10);
        spending.share().expect("a file");
        let number = spending.common.as_ref().map(std::os::fd::AsRawFd::as_raw_fd).expect("a file");
        // Locks are a process' own, so another one takes it.
        let path = format!("/proc/{}/fd/{number}", std::process::id());
        let text = "import fcntl, os, sys\nfile = open(sys.argv[1], 'r+b', buffering=0)\n\
            fcntl.lockf(file, fcntl.LOCK_EX)\nprint('locked', flush=True)\nsys.stdin.read()\n";
        let mut other = std::process::Command::new("python3");
        other.args(["-c", text, &path]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut other = other.spawn().expect("python3 starts");
        let mut line = String::new();
        let output = other.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let first = spending.create();
            send.send(first).expect("sent");
        });
        let first = receive.recv_timeout(Duration::from_secs(20));
        drop(other.stdin.take());
        other.wait().expect("ended");
        assert_eq!((line.as_str(), first), ("locked\n", Ok(Err(Errno::AGAIN))));
    }
}
