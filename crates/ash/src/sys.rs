//! Calls of the operating system on raw memory, behind functions that check every range.
//!
//! The kernel writes messages into memory that handlers see, to which no reference is ever made.
#![allow(unsafe_code)]

use sfi_loader::View;
use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Turns a result of libc into one of Rust.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A descriptor that tells when others are readable.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    /// Makes one.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a descriptor for input.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event lives during the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Waits for input. Returns false if none came in time.
    pub(crate) fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let time = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the event lives during the call, and has room for the one that is asked for.
        match check(unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, time) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            other => other.map(|count| count > 0),
        }
    }
}

/// A message that the kernel copied into a slot.
#[derive(Clone, Copy)]
pub(crate) struct Arrived {
    /// Bytes of the whole message. More than the slot's room if it was cut.
    pub length: usize,
    /// The sender of a datagram.
    pub from: Option<SocketAddrV4>,
}

/// Most messages of one call.
const BATCH: usize = 64;

/// Receives messages without waiting, each at one of the places in the view, with `room` bytes.
/// Messages fill the places in order.
pub(crate) fn receive(fd: BorrowedFd<'_>, view: &View, places: &[usize], room: usize) -> io::Result<Vec<Arrived>> {
    let places = &places[..places.len().min(BATCH)];
    let inside = |at: &usize| at.checked_add(room).is_some_and(|end| end <= view.len());
    assert!(places.iter().all(inside), "a slot leaves the memory");
    // SAFETY: all zeroes are valid values of these structures.
    let mut names: [libc::sockaddr_in; BATCH] = unsafe { zeroed() };
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
    for (index, at) in places.iter().enumerate() {
        // SAFETY: the place lies in the view, as was checked.
        parts[index] = libc::iovec { iov_base: unsafe { view.as_ptr().add(*at) }.cast(), iov_len: room };
        let header = &mut headers[index].msg_hdr;
        header.msg_name = (&raw mut names[index]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        header.msg_iov = &raw mut parts[index];
        header.msg_iovlen = 1;
    }
    // musl declares them without a sign.
    let flags = (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _;
    // SAFETY: the headers lead to arrays that live during the call, and to places of the view, to
    // which no reference exists.
    let count = check(unsafe {
        libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), places.len() as u32, flags, std::ptr::null_mut())
    });
    let count = match count {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        other => other? as usize,
    };
    let arrived = (0..count).map(|index| {
        let name = &names[index];
        let port = u16::from_be(name.sin_port);
        let from = SocketAddrV4::new(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)), port);
        let is_ip = i32::from(name.sin_family) == libc::AF_INET;
        Arrived { length: headers[index].msg_len as usize, from: is_ip.then_some(from) }
    });
    Ok(arrived.collect())
}

/// Returns the number of a network interface of this namespace.
pub(crate) fn interface(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a C string that lives during the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn set<T>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives during the call, and its size is passed.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Opens a packet socket for all frames that arrive at an interface.
pub(crate) fn packet_socket(index: u32) -> io::Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed. Protocol 0: nothing arrives before the socket is bound.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    /// Leaves out frames that this machine sends. Since Linux 4.20.
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
    set(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
    // SAFETY: all zeroes are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the address lives during the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(fd)
}

/// Sends a frame.
pub(crate) fn send(fd: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
    // SAFETY: the frame lives during the call.
    let sent = unsafe { libc::send(fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens a new tap device. Frames are read and written without further headers.
pub(crate) fn tap(name: &str) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let options =
        std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let fd = OwnedFd::from(options?);
    // SAFETY: all zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: the request lives during the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
    Ok(fd)
}

/// Reads one frame from a device into the view. `None` if there is none.
pub(crate) fn read(fd: BorrowedFd<'_>, view: &View, at: usize, room: usize) -> io::Result<Option<usize>> {
    assert!(at.checked_add(room).is_some_and(|end| end <= view.len()), "a slot leaves the memory");
    // SAFETY: the range lies in the view, to which no reference exists.
    let count = unsafe { libc::read(fd.as_raw_fd(), view.as_ptr().add(at).cast(), room) };
    match usize::try_from(count) {
        Ok(count) => Ok(Some(count)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}
