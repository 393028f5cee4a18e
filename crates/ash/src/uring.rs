//! Datagrams as requests of an io_uring, which the kernel carries out in memory of this module and
//! of a view.
//!
//! The kernel may write to the memory of a request until the request is complete. So that memory
//! lives in boxes, and is leaked if the kernel keeps requests to the end.
#![allow(unsafe_code)]

use crate::sys::Arrived;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use sfi_loader::View;
use std::collections::VecDeque;
use std::io;
use std::mem::{ManuallyDrop, size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Datagrams on their way out at a time.
const SENDS: usize = 64;
/// The bit of a request's number that says that it sends.
const SEND: u64 = 1 << 32;
/// The longest wait for requests that are taken back at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// The memory of one request.
struct Request {
    header: libc::msghdr,
    part: libc::iovec,
    name: libc::sockaddr_in,
    /// Bytes to send.
    bytes: Vec<u8>,
}

impl Request {
    fn new() -> Box<Self> {
        // SAFETY: all zeroes are valid values of these structures.
        let (header, part, name) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Box::new(Self { header, part, name, bytes: Vec::new() })
    }

    /// Describes the transfer of `length` bytes at a place, and returns the description.
    fn describe(&mut self, at: *mut u8, length: usize) -> *mut libc::msghdr {
        self.part = libc::iovec { iov_base: at.cast(), iov_len: length };
        self.header.msg_name = (&raw mut self.name).cast();
        self.header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        &raw mut self.header
    }
}

/// All memory that the kernel may use.
#[expect(clippy::vec_box, reason = "a reference to one request must not cover others, which the kernel may use")]
struct Memory {
    view: View,
    receives: Vec<Box<Request>>,
    sends: Vec<Box<Request>>,
}

/// A datagram, or an error, in a slot.
pub(crate) type Received = (usize, io::Result<Arrived>);

/// Requests for datagrams, and their results.
pub(crate) struct Requests {
    ring: IoUring,
    memory: ManuallyDrop<Memory>,
    /// Requests that the kernel has.
    pending: usize,
    free: Vec<usize>,
    ready: VecDeque<Received>,
    /// Datagrams that did not leave.
    lost: u64,
}

// SAFETY: the memory belongs to the value, and the kernel does not mind which thread uses the ring.
unsafe impl Send for Requests {}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Requests {
    /// Makes a ring for so many slots in a view.
    pub(crate) fn new(view: View, slots: usize) -> io::Result<Self> {
        let ring = IoUring::new((slots + SENDS).next_power_of_two() as u32)?;
        let requests = |count| (0..count).map(|_| Request::new()).collect();
        let memory = ManuallyDrop::new(Memory { view, receives: requests(slots), sends: requests(SENDS) });
        Ok(Self { ring, memory, pending: 0, free: (0..SENDS).collect(), ready: VecDeque::new(), lost: 0 })
    }

    /// Puts a request into the ring. The memory that it names must be that of the request.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the request names memory in boxes and in the view, which live until the kernel
        // has given the request back, see `drop`. Nobody uses that memory meanwhile.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        self.pending += 1;
        Ok(())
    }

    /// Asks for a datagram in a slot, at a place of the view. The slot must have no such request.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, slot: usize, at: usize, room: usize) -> io::Result<()> {
        let memory = &mut *self.memory;
        let inside = at.checked_add(room).is_some_and(|end| end <= memory.view.len());
        assert!(inside, "a slot leaves the memory");
        // SAFETY: the place lies in the view, as was checked.
        let place = unsafe { memory.view.as_ptr().add(at) };
        let header = memory.receives[slot].describe(place, room);
        let entry = opcode::RecvMsg::new(Fd(fd.as_raw_fd()), header).flags(libc::MSG_TRUNC as u32);
        self.push(&entry.build().user_data(slot as u64))
    }

    /// Sends a datagram with the next [`Requests::submit`]. [`Requests::lost`] counts later errors.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, to: SocketAddrV4, data: &[u8]) -> io::Result<()> {
        if self.free.is_empty() {
            self.submit()?;
            self.reap();
        }
        let number = self.free.pop().ok_or(io::ErrorKind::WouldBlock)?;
        let request = &mut self.memory.sends[number];
        request.bytes.clear();
        request.bytes.extend_from_slice(data);
        request.name.sin_family = libc::AF_INET as u16;
        request.name.sin_port = to.port().to_be();
        request.name.sin_addr.s_addr = u32::from(*to.ip()).to_be();
        let (place, length) = (request.bytes.as_mut_ptr(), request.bytes.len());
        let header = request.describe(place, length);
        let entry = opcode::SendMsg::new(Fd(fd.as_raw_fd()), header).flags(libc::MSG_DONTWAIT as u32);
        self.push(&entry.build().user_data(SEND | number as u64))
    }

    /// Gives the kernel all new requests.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.ring.submit().map(drop)
    }

    /// Collects the results.
    fn reap(&mut self) {
        while let Some(done) = self.ring.completion().next() {
            self.pending -= 1;
            let number = (done.user_data() & (SEND - 1)) as usize;
            if done.user_data() & SEND != 0 {
                self.free.push(number);
                self.lost += u64::from(done.result() < 0);
                continue;
            }
            let name = &self.memory.receives[number].name;
            let from =
                SocketAddrV4::new(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)), u16::from_be(name.sin_port));
            let from = (i32::from(name.sin_family) == libc::AF_INET).then_some(from);
            let result = match done.result() {
                length @ 0.. => Ok(Arrived { length: length as usize, from }),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            self.ready.push_back((number, result));
        }
    }

    /// Returns the number of datagrams that did not leave, since the last call.
    pub(crate) fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Returns the next datagram that arrived. It does not wait.
    pub(crate) fn next(&mut self) -> Option<Received> {
        if self.ready.is_empty() {
            self.reap();
        }
        self.ready.pop_front()
    }

    /// Waits for a datagram. Returns false if none came in time.
    pub(crate) fn wait(&mut self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        loop {
            self.reap();
            if !self.ready.is_empty() {
                return Ok(true);
            }
            let left = Timespec::from(end.saturating_duration_since(Instant::now()));
            match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&left)) {
                Ok(_) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {
                    self.reap();
                    return Ok(!self.ready.is_empty());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes all requests back. Returns whether the kernel has none any more.
    fn cancel(&mut self) -> io::Result<bool> {
        self.submit()?;
        self.ring.submitter().register_sync_cancel(Some(Timespec::from(PATIENCE)), CancelBuilder::any()).or_else(
            |error| match error.raw_os_error() {
                // There are none, or the kernel took them all back.
                Some(libc::ENOENT) => Ok(()),
                _ => Err(error),
            },
        )?;
        let end = Instant::now() + PATIENCE;
        self.reap();
        while self.pending > 0 && Instant::now() < end {
            self.ready.clear();
            self.wait(Duration::from_millis(10))?;
        }
        Ok(self.pending == 0)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if self.pending == 0 || self.cancel().unwrap_or(false) {
            // SAFETY: nobody uses the memory after this, and the kernel has no request.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
