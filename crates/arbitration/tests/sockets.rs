//! Sockets on the loopback interface, and pairs of sockets.

mod support;

use sfi_arbitration::{Calls, Policy, Quota, Stdio};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use support::{BUFFER, Bench};

const ADDRESS: u64 = 0x1000;
const LENGTH: u64 = 0x1100;
const INET: u64 = libc::AF_INET as u64;
const INET6: u64 = libc::AF_INET6 as u64;
const STREAM: u64 = libc::SOCK_STREAM as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;

fn refused(errno: i32) -> i64 {
    -i64::from(errno)
}

fn bench(loopback: bool) -> Bench {
    let quota = Quota { descriptors: 8, wait: Duration::from_secs(20), written: 1 << 20, ..Quota::default() };
    Bench::new(Policy { loopback, quota, ..Policy::default() }, Stdio { fds: Vec::new() })
}

fn v4(ip: [u8; 4], port: u16) -> Vec<u8> {
    [&[2, 0][..], &port.to_be_bytes(), &ip, &[0; 8]].concat()
}

fn v6(last: u8, port: u16) -> Vec<u8> {
    [&[10, 0][..], &port.to_be_bytes(), &[0; 19], &[last], &[0; 4]].concat()
}

const HERE: [u8; 4] = [127, 0, 0, 1];

/// Makes a call about a socket and an address.
fn with_address(bench: &mut Bench, call: i64, socket: u64, address: &[u8]) -> i64 {
    bench.put(ADDRESS, address);
    let at = bench.at(ADDRESS);
    bench.ask(call, &[socket, at, address.len() as u64])
}

/// Returns the address that a call tells.
fn told(bench: &mut Bench, call: i64, socket: u64) -> Vec<u8> {
    bench.put(LENGTH, &128_u32.to_le_bytes());
    let (at, length) = (bench.at(ADDRESS), bench.at(LENGTH));
    assert_eq!(bench.ask(call, &[socket, at, length]), 0);
    let length = u32::from_le_bytes(bench.get(LENGTH, 4).try_into().unwrap());
    bench.get(ADDRESS, length as usize)
}

fn port(address: &[u8]) -> u16 {
    u16::from_be_bytes([address[2], address[3]])
}

fn send(bench: &mut Bench, socket: u64, bytes: &[u8], flags: i32, to: Option<&[u8]>) -> i64 {
    bench.put(BUFFER, bytes);
    bench.put(ADDRESS, to.unwrap_or_default());
    let (buffer, at) = (bench.at(BUFFER), bench.at(ADDRESS));
    let (at, length) = to.map_or((0, 0), |to| (at, to.len() as u64));
    bench.ask(libc::SYS_sendto, &[socket, buffer, bytes.len() as u64, flags as u64, at, length])
}

fn receive(bench: &mut Bench, socket: u64, flags: i32) -> Result<Vec<u8>, i64> {
    bench.put(LENGTH, &128_u32.to_le_bytes());
    let (buffer, at, length) = (bench.at(BUFFER), bench.at(ADDRESS), bench.at(LENGTH));
    let count = bench.ask(libc::SYS_recvfrom, &[socket, buffer, 1000, flags as u64, at, length]);
    usize::try_from(count).map(|count| bench.get(BUFFER, count)).map_err(|_| count)
}

#[test]
fn sockets_are_granted() {
    let mut none = bench(false);
    let out = none.at(BUFFER);
    assert_eq!(none.ask(libc::SYS_socket, &[INET, STREAM, 0]), refused(libc::ENOSYS));
    assert_eq!(none.ask(libc::SYS_socketpair, &[libc::AF_UNIX as u64, STREAM, 0, out]), refused(libc::ENOSYS));
    assert_eq!(none.ask(libc::SYS_getsockname, &[0, out, out]), refused(libc::ENOSYS));
    let calls = Calls::all().deny("sockets").unwrap();
    let mut denied = Bench::new(Policy { calls, loopback: true, ..Policy::default() }, Stdio { fds: Vec::new() });
    let out = denied.at(BUFFER);
    assert_eq!(denied.ask(libc::SYS_socket, &[INET, STREAM, 0]), refused(libc::ENOSYS));
    assert_eq!(denied.ask(libc::SYS_socketpair, &[libc::AF_UNIX as u64, STREAM, 0, out]), refused(libc::ENOSYS));
    let mut bench = bench(true);
    let (raw, packet, local) = (libc::SOCK_RAW as u64, libc::AF_PACKET as u64, libc::AF_UNIX as u64);
    for (family, kind, protocol, errno) in [
        (INET, raw, 0, libc::EPROTONOSUPPORT),
        (INET, raw, libc::IPPROTO_ICMP as u64, libc::EPROTONOSUPPORT),
        (INET, DATAGRAM, libc::IPPROTO_ICMP as u64, libc::EPROTONOSUPPORT),
        (INET, STREAM, libc::IPPROTO_SCTP as u64, libc::EPROTONOSUPPORT),
        (packet, DATAGRAM, 0, libc::EAFNOSUPPORT),
        (libc::AF_NETLINK as u64, DATAGRAM, 0, libc::EAFNOSUPPORT),
        (local, STREAM, 0, libc::EAFNOSUPPORT),
    ] {
        let answer = bench.ask(libc::SYS_socket, &[family, kind, protocol]);
        assert_eq!(answer, refused(errno), "{family} {kind} {protocol}");
    }
    // They are counted with the descriptors.
    for number in 0..8 {
        assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), number);
    }
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), refused(libc::EMFILE));
}

#[test]
fn a_domain_serves_and_connects() {
    let mut bench = bench(true);
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), 0);
    assert_eq!(with_address(&mut bench, libc::SYS_bind, 0, &v4(HERE, 0)), 0);
    assert_eq!(bench.ask(libc::SYS_accept, &[0, 0, 0]), refused(libc::EINVAL));
    assert_eq!(bench.ask(libc::SYS_listen, &[0, 1 << 20]), 0);
    let own = told(&mut bench, libc::SYS_getsockname, 0);
    assert_eq!(own, v4(HERE, port(&own)));
    let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port(&own))).unwrap();
    bench.put(LENGTH, &16_u32.to_le_bytes());
    let (at, length) = (bench.at(ADDRESS), bench.at(LENGTH));
    assert_eq!(bench.ask(libc::SYS_accept4, &[0, at, length, libc::SOCK_CLOEXEC as u64]), 1);
    assert_eq!(bench.get(ADDRESS, 16), v4(HERE, stream.local_addr().unwrap().port()));
    stream.write_all(b"question").unwrap();
    assert_eq!(receive(&mut bench, 1, libc::MSG_PEEK).unwrap(), b"question");
    let buffer = bench.at(BUFFER);
    assert_eq!(bench.ask(libc::SYS_read, &[1, buffer, 100]), 8);
    assert_eq!(receive(&mut bench, 1, libc::MSG_DONTWAIT), Err(refused(libc::EAGAIN)));
    assert_eq!(send(&mut bench, 1, b"answer", libc::MSG_NOSIGNAL, None), 6);
    assert_eq!(bench.ask(libc::SYS_shutdown, &[1, libc::SHUT_WR as u64]), 0);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
    assert_eq!(send(&mut bench, 1, b"x", 0, None), refused(libc::EPIPE));
    // And to a server of the host.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), 2);
    assert_eq!(with_address(&mut bench, libc::SYS_connect, 2, &v4(HERE, port)), 0);
    assert!(server.accept().unwrap().1.ip().is_loopback());
    assert_eq!(told(&mut bench, libc::SYS_getpeername, 2), v4(HERE, port));
    drop(server);
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), 3);
    assert_eq!(with_address(&mut bench, libc::SYS_connect, 3, &v4(HERE, port)), refused(libc::ECONNREFUSED));
}

#[test]
fn other_addresses_are_out_of_reach() {
    let mut bench = bench(true);
    let (none, away) = (refused(libc::EADDRNOTAVAIL), refused(libc::ENETUNREACH));
    for (kind, socket) in [(STREAM, 0), (DATAGRAM, 1)] {
        assert_eq!(bench.ask(libc::SYS_socket, &[INET, kind, 0]), socket);
        let socket = socket as u64;
        for ip in [[0; 4], [127, 0, 0, 2], [10, 0, 0, 1], [255; 4], [224, 0, 0, 1]] {
            assert_eq!(with_address(&mut bench, libc::SYS_bind, socket, &v4(ip, 0)), none, "{ip:?}");
            assert_eq!(with_address(&mut bench, libc::SYS_connect, socket, &v4(ip, 9)), away, "{ip:?}");
            assert_eq!(send(&mut bench, socket, b"x", 0, Some(&v4(ip, 9))), away, "{ip:?}");
        }
        let family = refused(libc::EAFNOSUPPORT);
        // `AF_UNSPEC` would end the address of the socket.
        for address in [&[0; 16][..], &[1, 0, b'/', 0], &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(with_address(&mut bench, libc::SYS_connect, socket, address), family);
        }
        assert_eq!(with_address(&mut bench, libc::SYS_bind, socket, &v4(HERE, 0)[..15]), refused(libc::EINVAL));
        assert_eq!(bench.ask(libc::SYS_bind, &[socket, 8, 16]), refused(libc::EFAULT));
        assert_eq!(bench.ask(libc::SYS_bind, &[socket, 8, 0]), refused(libc::EINVAL));
    }
    assert_eq!(bench.ask(libc::SYS_socket, &[INET6, STREAM, 0]), 2);
    assert_eq!(with_address(&mut bench, libc::SYS_bind, 2, &v6(0, 0)), none);
    assert_eq!(with_address(&mut bench, libc::SYS_connect, 2, &v6(2, 9)), away);
}

/// The kernel would give a socket without an address one of all interfaces.
#[test]
fn a_socket_never_listens_elsewhere() {
    let mut bench = bench(true);
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, STREAM, 0]), 0);
    assert_eq!(bench.ask(libc::SYS_listen, &[0, 5]), 0);
    let own = told(&mut bench, libc::SYS_getsockname, 0);
    assert_eq!(own[4..8], HERE);
    let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = v4(HERE, peer.local_addr().unwrap().port());
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, DATAGRAM, 0]), 1);
    assert_eq!(send(&mut bench, 1, b"one", 0, Some(&address)), 3);
    let own = told(&mut bench, libc::SYS_getsockname, 1);
    assert_eq!((&own[4..8], port(&own) != 0), (&HERE[..], true));
    let mut bytes = [0; 10];
    let (count, from) = peer.recv_from(&mut bytes).unwrap();
    assert_eq!((count, from.port()), (3, port(&own)));
    peer.send_to(b"two", from).unwrap();
    assert_eq!(receive(&mut bench, 1, 0).unwrap(), b"two");
    assert_eq!(bench.get(ADDRESS, 16), address);
    assert_eq!(with_address(&mut bench, libc::SYS_connect, 1, &address), 0);
    assert_eq!(send(&mut bench, 1, b"three", 0, None), 5);
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, DATAGRAM, 0]), 2);
    assert_eq!(with_address(&mut bench, libc::SYS_connect, 2, &address), 0);
    assert_eq!(told(&mut bench, libc::SYS_getsockname, 2)[4..8], HERE);
}

#[test]
fn a_pair_leads_to_itself() {
    let mut bench = bench(true);
    let out = bench.at(BUFFER);
    let local = libc::AF_UNIX as u64;
    let nonblocking = STREAM | libc::SOCK_NONBLOCK as u64;
    assert_eq!(bench.ask(libc::SYS_socketpair, &[local, nonblocking, 0, 8]), refused(libc::EFAULT));
    assert_eq!(bench.ask(libc::SYS_socketpair, &[INET, STREAM, 0, out]), refused(libc::EOPNOTSUPP));
    assert_eq!(bench.ask(libc::SYS_socketpair, &[local, nonblocking, 0, out]), 0);
    assert_eq!(bench.get(BUFFER, 8), [0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(send(&mut bench, 0, b"text", 0, None), 4);
    assert_eq!(receive(&mut bench, 1, 0).unwrap(), b"text");
    assert_eq!(receive(&mut bench, 1, 0), Err(refused(libc::EAGAIN)));
    assert_eq!(told(&mut bench, libc::SYS_getsockname, 0), [1, 0]);
    // Neither names nor addresses lead a pair to other sockets.
    let name = [&[1, 0][..], b"/tmp/x\0"].concat();
    assert_eq!(with_address(&mut bench, libc::SYS_bind, 0, &name), refused(libc::EAFNOSUPPORT));
    assert!(with_address(&mut bench, libc::SYS_bind, 0, &v4(HERE, 0)) < 0);
    assert!(with_address(&mut bench, libc::SYS_connect, 0, &v4(HERE, 9)) < 0);
    for call in [libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg] {
        assert_eq!(bench.ask(call, &[0, out, 0]), refused(libc::ENOSYS));
    }
}

#[test]
fn only_its_own_sockets_obey() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let stdio = Stdio { fds: vec![Some(listener.into()), Some(reader.into())] };
    let mut bench = Bench::new(Policy { loopback: true, ..Policy::default() }, stdio);
    let buffer = bench.at(BUFFER);
    let calls = [
        (libc::SYS_accept, vec![0, 0]),
        (libc::SYS_listen, vec![5]),
        (libc::SYS_getsockname, vec![buffer, buffer]),
        (libc::SYS_setsockopt, vec![libc::SOL_SOCKET as u64, libc::SO_REUSEADDR as u64, buffer, 4]),
        (libc::SYS_shutdown, vec![2]),
        (libc::SYS_sendto, vec![buffer, 1, 0, 0, 0]),
        (libc::SYS_recvfrom, vec![buffer, 1, 0, 0, 0]),
    ];
    for (call, arguments) in calls {
        for (descriptor, errno) in [(0, libc::ENOTSOCK), (1, libc::ENOTSOCK), (2, libc::EBADF), (u64::MAX, libc::EBADF)]
        {
            let answer = bench.ask(call, &[&[descriptor], &arguments[..]].concat());
            assert_eq!(answer, refused(errno), "{call} {descriptor}");
        }
    }
}

#[test]
fn options_have_their_effect() {
    let mut bench = bench(true);
    assert_eq!(bench.ask(libc::SYS_socket, &[INET, DATAGRAM, 0]), 0);
    assert_eq!(with_address(&mut bench, libc::SYS_bind, 0, &v4(HERE, 0)), 0);
    let (at, length) = (bench.at(BUFFER), bench.at(LENGTH));
    let level = libc::SOL_SOCKET as u64;
    let get = |bench: &mut Bench, option: i32, room: u32| {
        bench.put(LENGTH, &room.to_le_bytes());
        let answer = bench.ask(libc::SYS_getsockopt, &[0, level, option as u64, at, length]);
        (answer, u32::from_le_bytes(bench.get(LENGTH, 4).try_into().unwrap()), bench.get(BUFFER, 16))
    };
    let (answer, size, bytes) = get(&mut bench, libc::SO_TYPE, 100);
    assert_eq!((answer, size, bytes[0]), (0, 4, DATAGRAM as u8));
    assert_eq!(get(&mut bench, libc::SO_TYPE, 2).1, 2);
    assert_eq!(get(&mut bench, libc::SO_TYPE, 1 << 31).0, refused(libc::EINVAL));
    bench.put(BUFFER, &[0, 50_000].map(u64::to_le_bytes).concat());
    let time = libc::SO_RCVTIMEO as u64;
    assert_eq!(bench.ask(libc::SYS_setsockopt, &[0, level, time, at, 16]), 0);
    let (answer, size, bytes) = get(&mut bench, libc::SO_RCVTIMEO, 16);
    assert_eq!((answer, size, &bytes[..8]), (0, 16, &[0; 8][..]));
    let start = Instant::now();
    assert_eq!(receive(&mut bench, 0, 0), Err(refused(libc::EAGAIN)));
    assert!((Duration::from_millis(40)..Duration::from_secs(10)).contains(&start.elapsed()));
    for wild in [[0, 1_000_000], [u64::MAX, 999_999], [u64::MAX / 1_000_000, 999_999], [1 << 63, 0], [0, u64::MAX]] {
        bench.put(BUFFER, &wild.map(u64::to_le_bytes).concat());
        assert_eq!(bench.ask(libc::SYS_setsockopt, &[0, level, time, at, 16]), refused(libc::EDOM), "{wild:?}");
    }
    assert_eq!(bench.ask(libc::SYS_setsockopt, &[0, level, time, at, 15]), refused(libc::EINVAL));
    assert_eq!(bench.ask(libc::SYS_setsockopt, &[0, level, time, 8, 16]), refused(libc::EFAULT));
    // Devices, priorities, marks and filters belong to the host.
    for option in [libc::SO_BINDTODEVICE, libc::SO_PRIORITY, libc::SO_MARK, libc::SO_ATTACH_FILTER, libc::SO_LINGER] {
        let answer = bench.ask(libc::SYS_setsockopt, &[0, level, option as u64, at, 16]);
        assert_eq!(answer, refused(libc::ENOPROTOOPT), "{option}");
    }
    let transparent = [0, libc::IPPROTO_IP as u64, libc::IP_TRANSPARENT as u64, at, 4];
    assert_eq!(bench.ask(libc::SYS_setsockopt, &transparent), refused(libc::ENOPROTOOPT));
}

#[test]
fn sent_bytes_are_paid() {
    let mut bench = bench(true);
    let out = bench.at(BUFFER);
    let kind = DATAGRAM | libc::SOCK_NONBLOCK as u64;
    assert_eq!(bench.ask(libc::SYS_socketpair, &[libc::AF_UNIX as u64, kind, 0, out]), 0);
    let bytes = vec![1; 60_000];
    let sent = (0..100).take_while(|_| {
        let sent = send(&mut bench, 0, &bytes, 0, None);
        assert!(sent == 60_000 && receive(&mut bench, 1, 0).is_ok() || sent == refused(libc::EDQUOT), "{sent}");
        sent > 0
    });
    assert_eq!(sent.count(), (1 << 20) / 60_000);
}
