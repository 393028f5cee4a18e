//! Sockets on the loopback interface, and pairs of sockets.
//!
//! Each address is copied and judged here, and the kernel gets the copy: 127.0.0.1 and ::1, and no
//! other. A socket that has no address yet gets a loopback address before the kernel would choose
//! one of all interfaces. The calls work only on sockets that the domain made itself, and wait only
//! in `poll`, because all of these sockets are non-blocking for the host.

use crate::descriptors::{Descriptors, Flags, Kind, Open};
use crate::errno::Errno;
use crate::patience::Patience;
use crate::spending::Spending;
use crate::transfer::CHUNK;
use crate::wait;
use rustix::event::PollFlags;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType};
use sfi_loader::HostCall;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes of `sockaddr_in` and of `sockaddr_in6`.
const V4: usize = 16;
const V6: usize = 28;
/// Longest queue of a listening socket.
const BACKLOG: i32 = 128;
/// Bits of a type that are flags.
const FLAGS: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
/// The host's flags of each socket.
const OWN: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

const NOT_A_SOCKET: Errno = Errno(libc::ENOTSOCK);
const NO_FAMILY: Errno = Errno(libc::EAFNOSUPPORT);
const NO_OPTION: Errno = Errno(libc::ENOPROTOOPT);
const NO_SUPPORT: Errno = Errno(libc::EOPNOTSUPP);

fn open(fd: OwnedFd, flags: Flags) -> Open {
    Open { fd: fd.into(), kind: Kind::Socket, flags, alone: false, directory: None, writable: false, made: true }
}

/// Returns a socket that the domain made.
fn own(files: &Descriptors, number: u64) -> Result<&Open, Errno> {
    let open = files.entry(number)?;
    if open.made && open.kind == Kind::Socket { Ok(open) } else { Err(NOT_A_SOCKET) }
}

/// Reads a type with its flags.
fn kind_of(word: u64) -> Result<(SocketType, Flags), Errno> {
    let word = word as i32;
    let nonblocking = word & libc::SOCK_NONBLOCK != 0;
    let flags = Flags { nonblocking, cloexec: word & libc::SOCK_CLOEXEC != 0 };
    match word & !FLAGS {
        libc::SOCK_STREAM => Ok((SocketType::STREAM, flags)),
        libc::SOCK_DGRAM => Ok((SocketType::DGRAM, flags)),
        _ => Err(Errno(libc::EPROTONOSUPPORT)),
    }
}

/// `socket`: TCP and UDP.
pub(crate) fn socket(files: &mut Descriptors, family: u64, kind: u64, protocol: u64) -> Result<u64, Errno> {
    let (kind, flags) = kind_of(kind)?;
    let family = match family as i32 {
        libc::AF_INET => AddressFamily::INET,
        libc::AF_INET6 => AddressFamily::INET6,
        _ => return Err(NO_FAMILY),
    };
    let usual = if kind == SocketType::STREAM { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP };
    if protocol as i32 != 0 && protocol as i32 != usual {
        return Err(Errno(libc::EPROTONOSUPPORT));
    }
    files.has_room()?;
    let fd = net::socket_with(family, kind, OWN, None)?;
    if family == AddressFamily::INET6 {
        net::sockopt::set_ipv6_v6only(&fd, true)?;
    }
    files.insert(open(fd, flags))
}

/// `socketpair`: two sockets that lead to each other.
pub(crate) fn pair(cx: &mut HostCall<'_>, files: &mut Descriptors, args: &[u64; 6]) -> Result<u64, Errno> {
    let [family, kind, protocol, out, ..] = *args;
    if family as i32 != libc::AF_UNIX {
        return Err(NO_SUPPORT);
    }
    if protocol as i32 != 0 {
        return Err(Errno(libc::EPROTONOSUPPORT));
    }
    let (kind, flags) = kind_of(kind)?;
    cx.memory().writable(out, 8)?;
    let (first, second) = net::socketpair(AddressFamily::UNIX, kind, OWN, None)?;
    let first = files.insert(open(first, flags))?;
    let second = match files.insert(open(second, flags)) {
        Ok(second) => second,
        Err(error) => {
            files.close(first)?;
            return Err(error);
        }
    };
    cx.write(out, &[(first as u32).to_le_bytes(), (second as u32).to_le_bytes()].concat())?;
    Ok(0)
}

/// Copies an address. `elsewhere` is the error for addresses of other interfaces.
fn address(cx: &HostCall<'_>, at: u64, length: u64, elsewhere: i32) -> Result<SocketAddr, Errno> {
    let length = length as u32 as usize;
    if length < 2 {
        return Err(Errno::INVAL);
    }
    let bytes = cx.read(at, length.min(V6))?;
    judge(&bytes, elsewhere)
}

/// Returns the address that bytes mean, if it is a loopback address.
fn judge(bytes: &[u8], elsewhere: i32) -> Result<SocketAddr, Errno> {
    let family = bytes.first_chunk().map(|family| i32::from(u16::from_le_bytes(*family)));
    let (least, at) = match family {
        Some(libc::AF_INET) => (V4, 4),
        Some(libc::AF_INET6) => (V6, 8),
        _ => return Err(NO_FAMILY),
    };
    if bytes.len() < least {
        return Err(Errno::INVAL);
    }
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip = match least {
        V4 => bytes[at..].first_chunk().map(|ip: &[u8; 4]| IpAddr::V4(Ipv4Addr::from(*ip))),
        _ => bytes[at..].first_chunk().map(|ip: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*ip))),
    };
    match ip {
        Some(ip) if ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST => Ok(SocketAddr::new(ip, port)),
        _ => Err(Errno(elsewhere)),
    }
}

/// Writes an address, cut to the length at `length`, and the length that it has.
fn put_address(cx: &mut HostCall<'_>, from: Option<SocketAddrAny>, out: u64, length: u64) -> Result<(), Errno> {
    if out == 0 {
        return Ok(());
    }
    let room = cx.memory().load(length)?;
    if i32::try_from(room).is_err() {
        return Err(Errno::INVAL);
    }
    let bytes = address_bytes(from);
    cx.write(out, &bytes[..bytes.len().min(room as usize)])?;
    cx.write(length, &(bytes.len() as u32).to_le_bytes())?;
    Ok(())
}

/// Returns an address as the kernel writes it. A socket of a pair has none.
fn address_bytes(from: Option<SocketAddrAny>) -> Vec<u8> {
    let family = from.as_ref().map_or(AddressFamily::UNIX, SocketAddrAny::address_family);
    let mut bytes = family.as_raw().to_le_bytes().to_vec();
    match from.map(SocketAddr::try_from) {
        Some(Ok(SocketAddr::V4(v4))) => {
            bytes.extend(v4.port().to_be_bytes());
            bytes.extend(v4.ip().octets());
            bytes.resize(V4, 0);
        }
        Some(Ok(SocketAddr::V6(v6))) => {
            bytes.extend(v6.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.resize(V6, 0);
        }
        _ => {}
    }
    bytes
}

/// Gives a socket a loopback address if it has none.
fn settle(open: &Open) -> Result<(), Errno> {
    let any = match SocketAddr::try_from(net::getsockname(&open.fd)?) {
        Ok(SocketAddr::V4(name)) if name.port() == 0 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Ok(SocketAddr::V6(name)) if name.port() == 0 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => return Ok(()),
    };
    Ok(net::bind(&open.fd, &SocketAddr::new(any, 0))?)
}

/// `bind`.
pub(crate) fn bind(cx: &HostCall<'_>, files: &Descriptors, args: &[u64; 6]) -> Result<u64, Errno> {
    let open = own(files, args[0])?;
    let address = address(cx, args[1], args[2], libc::EADDRNOTAVAIL)?;
    Ok(net::bind(&open.fd, &address).map(|()| 0)?)
}

/// `listen`.
pub(crate) fn listen(files: &Descriptors, number: u64, backlog: u64) -> Result<u64, Errno> {
    let open = own(files, number)?;
    settle(open)?;
    Ok(net::listen(&open.fd, (backlog as i32).clamp(0, BACKLOG)).map(|()| 0)?)
}

/// Makes a call that may have to wait. It is made again if another process was faster.
fn patiently<R>(
    open: &Open,
    events: PollFlags,
    longest: Patience,
    mut call: impl FnMut() -> Result<R, Errno>,
) -> Result<R, Errno> {
    let end = longest.begin();
    loop {
        wait::ready(open, events, &end)?;
        match call() {
            Err(Errno::AGAIN) if open.waits() => {}
            result => return result,
        }
    }
}

/// `accept` and `accept4`.
pub(crate) fn accept(
    cx: &mut HostCall<'_>,
    files: &mut Descriptors,
    [number, out, length]: [u64; 3],
    flags: u64,
    longest: Patience,
) -> Result<u64, Errno> {
    if flags as i32 & !FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let listener = own(files, number)?;
    files.has_room()?;
    let accept = || Ok(net::acceptfrom_with(&listener.fd, OWN)?);
    // A socket that does not listen is never ready.
    if !net::sockopt::socket_acceptconn(&listener.fd)? {
        return Err(Errno::INVAL);
    }
    let (fd, from) = patiently(listener, PollFlags::IN, longest, accept)?;
    put_address(cx, from, out, length)?;
    let (_, flags) = kind_of(flags | libc::SOCK_STREAM as u64)?;
    files.insert(open(fd, flags))
}

/// `connect`.
pub(crate) fn connect(
    cx: &HostCall<'_>,
    files: &Descriptors,
    args: &[u64; 6],
    longest: Patience,
) -> Result<u64, Errno> {
    let open = own(files, args[0])?;
    let address = address(cx, args[1], args[2], libc::ENETUNREACH)?;
    settle(open)?;
    match net::connect(&open.fd, &address) {
        Err(rustix::io::Errno::INPROGRESS) if open.waits() => {
            wait::ready(open, PollFlags::OUT, &longest.begin()).map_err(|error| match error {
                Errno::INTR => error,
                _ => Errno(libc::EINPROGRESS),
            })?;
            net::sockopt::socket_error(&open.fd)??;
            Ok(0)
        }
        result => Ok(result.map(|()| 0)?),
    }
}

/// `getsockname`, and `getpeername`.
pub(crate) fn name(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    [number, out, length]: [u64; 3],
    peer: bool,
) -> Result<u64, Errno> {
    let open = own(files, number)?;
    if out == 0 {
        return Err(Errno::FAULT);
    }
    let name = if peer { net::getpeername(&open.fd)? } else { Some(net::getsockname(&open.fd)?) };
    put_address(cx, name, out, length).map(|()| 0)
}

/// `shutdown`.
pub(crate) fn shutdown(files: &Descriptors, number: u64, how: u64) -> Result<u64, Errno> {
    let how = match how as i32 {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return Err(Errno::INVAL),
    };
    Ok(net::shutdown(&own(files, number)?.fd, how).map(|()| 0)?)
}

/// Returns the longest wait of a call: none with `MSG_DONTWAIT`, and the socket's own limit.
fn limits(open: &Open, flags: i32, which: net::sockopt::Timeout, longest: Patience) -> Result<Patience, Errno> {
    if flags & libc::MSG_DONTWAIT != 0 {
        return Ok(Duration::ZERO.into());
    }
    Ok(longest.at_most(net::sockopt::socket_timeout(&open.fd, which)?.unwrap_or(Duration::MAX)))
}

/// `sendto`, and `send` with a null address.
pub(crate) fn send(
    cx: &HostCall<'_>,
    files: &Descriptors,
    args: &[u64; 6],
    spending: &mut Spending,
    longest: Patience,
) -> Result<u64, Errno> {
    let [number, pointer, count, flags, to, length] = *args;
    let open = own(files, number)?;
    let flags = flags as i32;
    if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) != 0 {
        return Err(NO_SUPPORT);
    }
    let to = if to == 0 { None } else { Some(address(cx, to, length, libc::ENETUNREACH)?) };
    let bytes = cx.read(pointer, count.min(CHUNK) as usize)?;
    if to.is_some() {
        settle(open)?;
    }
    let longest = limits(open, flags, net::sockopt::Timeout::Send, longest)?;
    let always = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let send = || match &to {
        Some(to) => Ok(net::sendto(&open.fd, &bytes, always, to)?),
        None => Ok(net::send(&open.fd, &bytes, always)?),
    };
    spending.write(bytes.len() as u64, || Ok(patiently(open, PollFlags::OUT, longest, send)? as u64))
}

/// `recvfrom`, and `recv` with a null address.
pub(crate) fn receive(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    args: &[u64; 6],
    longest: Patience,
) -> Result<u64, Errno> {
    let [number, pointer, count, flags, out, length] = *args;
    let open = own(files, number)?;
    let flags = flags as i32;
    if flags & !(libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_NOSIGNAL) != 0 {
        return Err(NO_SUPPORT);
    }
    let count = count.min(CHUNK) as usize;
    cx.memory().writable(pointer, count)?;
    let longest = limits(open, flags, net::sockopt::Timeout::Recv, longest)?;
    let mut how = RecvFlags::DONTWAIT;
    how.set(RecvFlags::PEEK, flags & libc::MSG_PEEK != 0);
    let mut bytes = vec![0; count];
    let (got, from) = patiently(open, PollFlags::IN, longest, || {
        let (got, _, from) = net::recvfrom(&open.fd, &mut bytes[..], how)?;
        Ok((got, from))
    })?;
    cx.write(pointer, &bytes[..got])?;
    put_address(cx, from, out, length)?;
    Ok(got as u64)
}

/// Reads an option's value: a number, or a time of two words.
fn value(cx: &HostCall<'_>, at: u64, length: u64, time: bool) -> Result<u64, Errno> {
    let size = if time { 16 } else { 4 };
    if (length as u32 as usize) < size {
        return Err(Errno::INVAL);
    }
    let bytes = cx.read(at, size)?;
    let word = |from: usize| bytes[from..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    match time {
        // In microseconds. Nobody waits for more than a century.
        true if word(0) <= u32::MAX.into() && word(8) < 1_000_000 => Ok(word(0) * 1_000_000 + word(8)),
        true => Err(Errno(libc::EDOM)),
        false => Ok(bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word)).into()),
    }
}

/// `setsockopt`.
pub(crate) fn set(cx: &HostCall<'_>, files: &Descriptors, args: &[u64; 6]) -> Result<u64, Errno> {
    use net::sockopt::{self, Timeout};
    let [number, level, option, at, length, _] = *args;
    let fd = &own(files, number)?.fd;
    let time = || value(cx, at, length, true).map(|us| Some(Duration::from_micros(us)).filter(|time| !time.is_zero()));
    let number = || value(cx, at, length, false);
    match (level as i32, option as i32) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => sockopt::set_socket_reuseaddr(fd, number()? != 0)?,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => sockopt::set_socket_keepalive(fd, number()? != 0)?,
        // The kernel has a limit for both.
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => sockopt::set_socket_send_buffer_size(fd, number()? as u32 as usize)?,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => sockopt::set_socket_recv_buffer_size(fd, number()? as u32 as usize)?,
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => sockopt::set_socket_timeout(fd, Timeout::Recv, time()?)?,
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => sockopt::set_socket_timeout(fd, Timeout::Send, time()?)?,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => sockopt::set_tcp_nodelay(fd, number()? != 0)?,
        // It is set, and stays so.
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if number()? != 0 => {}
        _ => return Err(NO_OPTION),
    }
    Ok(0)
}

/// `getsockopt`.
pub(crate) fn get(cx: &mut HostCall<'_>, files: &Descriptors, args: &[u64; 6]) -> Result<u64, Errno> {
    use net::sockopt::{self, Timeout};
    let [number, level, option, out, length, _] = *args;
    let fd = &own(files, number)?.fd;
    let time = |which| -> Result<Vec<u8>, Errno> {
        let time = sockopt::socket_timeout(fd, which)?.unwrap_or_default();
        Ok([time.as_secs(), time.subsec_micros().into()].map(u64::to_le_bytes).concat())
    };
    let number = match (level as i32, option as i32) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => sockopt::socket_type(fd)?.as_raw(),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => sockopt::socket_domain(fd)?.as_raw().into(),
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            sockopt::socket_error(fd)?.err().map_or(0, |error| error.raw_os_error() as u32)
        }
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => sockopt::socket_acceptconn(fd)?.into(),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => sockopt::socket_reuseaddr(fd)?.into(),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => sockopt::socket_keepalive(fd)?.into(),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => sockopt::socket_send_buffer_size(fd)? as u32,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => sockopt::socket_recv_buffer_size(fd)? as u32,
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => return put_value(cx, &time(Timeout::Recv)?, out, length),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => return put_value(cx, &time(Timeout::Send)?, out, length),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => sockopt::tcp_nodelay(fd)?.into(),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => sockopt::ipv6_v6only(fd)?.into(),
        _ => return Err(NO_OPTION),
    };
    put_value(cx, &number.to_le_bytes(), out, length)
}

/// Writes an option's value, cut to the length at `length`, and its length there.
fn put_value(cx: &mut HostCall<'_>, bytes: &[u8], out: u64, length: u64) -> Result<u64, Errno> {
    let room = i32::try_from(cx.memory().load(length)?).map_err(|_| Errno::INVAL)?;
    let bytes = &bytes[..bytes.len().min(room as usize)];
    cx.write(out, bytes)?;
    cx.write(length, &(bytes.len() as u32).to_le_bytes())?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(ip: [u8; 4]) -> Vec<u8> {
        [&[2, 0, 0x12, 0x34][..], &ip, &[0; 8]].concat()
    }

    fn v6(ip: [u16; 8]) -> Vec<u8> {
        let ip: Vec<u8> = ip.iter().flat_map(|word| word.to_be_bytes()).collect();
        [&[10, 0, 0x12, 0x34, 0, 0, 0, 0][..], &ip, &[0; 4]].concat()
    }

    #[test]
    fn only_loopback_addresses_are_good() {
        for (bytes, address) in [(v4([127, 0, 0, 1]), "127.0.0.1:4660"), (v6([0, 0, 0, 0, 0, 0, 0, 1]), "[::1]:4660")] {
            let good = judge(&bytes, 1).expect("good");
            assert_eq!(good.to_string(), address);
            assert_eq!(address_bytes(Some(good.into())), bytes);
            assert_eq!(judge(&bytes[..bytes.len() - 1], 1), Err(Errno::INVAL));
        }
        let mapped = v6([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]);
        let others = [v4([0; 4]), v4([127, 0, 0, 2]), v4([1, 0, 0, 127]), v4([255; 4]), v6([0; 8]), mapped];
        for bytes in others.into_iter().chain([v6([0xfe80, 0, 0, 0, 0, 0, 0, 1])]) {
            assert_eq!(judge(&bytes, 7), Err(Errno(7)), "{bytes:?}");
        }
        for family in [0, 1, 3, 16, 17, 255] {
            let bytes = [&[family, 0][..], &v4([127, 0, 0, 1])[2..]].concat();
            assert_eq!(judge(&bytes, 7), Err(NO_FAMILY), "{family}");
        }
        assert_eq!((judge(&[], 7), judge(&[2], 7)), (Err(NO_FAMILY), Err(NO_FAMILY)));
        // A family has two bytes.
        assert_eq!(judge(&[&[2, 1][..], &v4([127, 0, 0, 1])[2..]].concat(), 7), Err(NO_FAMILY));
    }
}
