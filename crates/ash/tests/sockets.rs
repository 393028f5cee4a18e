//! The back ends of sockets: UDP on the loopback interface, which runs everywhere, and whole frames
//! in a network namespace of the test's own, which need root.

mod common;
use common::{App, compile, example, spec};
use sfi_ash::back::Backend;
use sfi_ash::back::packet::Packets;
use sfi_ash::back::udp::Udp;
use sfi_ash::back::uring::UringUdp;
use sfi_ash::back::xdp::Xdp;
use sfi_ash::engine::{DEFAULT_TICK, Engine};
use sfi_ash::handler::{Handler, HandlerSpec};
use sfi_ash::packet::Datagram;
use sfi_loader::Mode;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest datagram.
const LONGEST: usize = 2048;

fn engine<B: Backend>(backend: B, filter: &str) -> Engine<B> {
    let mut engine = Engine::new(backend, DEFAULT_TICK, BTreeMap::new());
    let object = compile(&example("increment.c"), Mode::Write);
    let spec = HandlerSpec { filter: filter.parse().unwrap(), ..spec("increment", object, Mode::Write) };
    let backend = engine.backend();
    let handler = Handler::new(spec, backend.memory(), backend.longest()).unwrap();
    engine.install(handler).unwrap();
    engine
}

/// Runs an engine until `count` messages were handled.
fn handle<B: Backend>(engine: &mut Engine<B>, app: &mut App, count: usize) {
    let (start, mut handled) = (Instant::now(), 0);
    while handled < count {
        assert!(start.elapsed() < Duration::from_secs(20), "{handled} of {count} messages");
        handled += engine.wait(app, Duration::from_millis(50)).unwrap();
    }
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

/// Makes a back end on an io_uring. Without one the test says so.
fn uring(name: &str) -> Option<UringUdp> {
    match UringUdp::bind(&[ANY, ANY], LONGEST) {
        Ok(uring) => Some(uring),
        // Kernels without io_uring, and those that forbid it.
        Err(error) if matches!(error.raw_os_error(), Some(1 | 38)) => {
            eprintln!("SKIPPED {name}: no io_uring: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Exchanges datagrams with a back end of two sockets.
fn exchange<B: Backend>(backend: B, places: &[SocketAddrV4]) {
    let mut engine = engine(backend, &format!("udp {}", places[0].port()));
    let mut app = App::default();
    let client = client();
    let mut answer = [0; 16];
    for sum in [3_u64, 6, 9] {
        client.send_to(&3_u64.to_le_bytes(), places[0]).unwrap();
        handle(&mut engine, &mut app, 1);
        assert_eq!(client.recv_from(&mut answer).unwrap(), (8, places[0].into()));
        assert_eq!(answer[..8], sum.to_le_bytes());
    }
    // No filter matches the other socket. An empty datagram and the longest one arrive whole.
    let longest = vec![7; LONGEST];
    for data in [&b"elsewhere"[..], b"", &longest] {
        client.send_to(data, places[1]).unwrap();
    }
    handle(&mut engine, &mut app, 3);
    // Requests of an io_uring may be answered in another order.
    app.normal.sort_by_key(|(_, bytes)| bytes.len());
    let found: Vec<(&str, &[u8])> = app.normal.iter().map(|(reason, bytes)| (&**reason, &bytes[42..])).collect();
    assert_eq!(found, [("NoHandler", &b""[..]), ("NoHandler", b"elsewhere"), ("NoHandler", &longest)]);
    // A datagram that does not fit is dropped, and the slot is free again.
    client.send_to(&[0; LONGEST + 200], places[0]).unwrap();
    for _ in 0..600 {
        client.send_to(&1_u64.to_le_bytes(), places[0]).unwrap();
        handle(&mut engine, &mut app, 1);
        client.recv_from(&mut answer).unwrap();
    }
    assert_eq!(answer[..8], 609_u64.to_le_bytes());
    assert_eq!(engine.counts().next().unwrap().1.messages, 603);
    assert!(!engine.backend().wait(Duration::from_millis(1)).unwrap(), "nothing is left");
}

#[test]
fn datagrams_on_the_loopback_interface() {
    let udp = Udp::bind(&[ANY, ANY], LONGEST).unwrap();
    let places: Vec<_> = udp.addresses().collect();
    exchange(udp, &places);
}

#[test]
fn datagrams_through_an_io_uring() {
    let Some(uring) = uring("datagrams_through_an_io_uring") else { return };
    let places: Vec<_> = uring.addresses().collect();
    exchange(uring, &places);
    assert!(UringUdp::bind(&[], LONGEST).is_err(), "no socket");
    assert!(UringUdp::bind(&[ANY; 65], LONGEST).is_err(), "too many sockets");
}

/// A flood arrives whole, as far as there are slots, and many answers leave in one turn.
#[test]
fn a_flood_through_an_io_uring() {
    let Some(uring) = uring("a_flood_through_an_io_uring") else { return };
    let place = uring.addresses().next().unwrap();
    let mut engine = engine(uring, &format!("udp {}", place.port()));
    let (mut app, client, mut answer) = (App::default(), client(), [0; 16]);
    for round in 1..=20 {
        // More than the answers that are under way at a time, and more than the slots of a socket.
        for _ in 0..150 {
            client.send_to(&1_u64.to_le_bytes(), place).unwrap();
        }
        handle(&mut engine, &mut app, 150);
        let mut sums: Vec<u64> = Vec::new();
        for _ in 0..150 {
            assert_eq!(client.recv_from(&mut answer).unwrap(), (8, place.into()));
            sums.push(u64::from_le_bytes(answer[..8].try_into().unwrap()));
        }
        sums.sort_unstable();
        assert_eq!(sums, (150 * (round - 1) + 1..=150 * round).collect::<Vec<u64>>());
    }
    assert_eq!(engine.counts().next().unwrap().1.lost, 0);
}

/// Answers that the kernel takes and then cannot send are counted.
#[test]
fn answers_that_an_io_uring_cannot_send_are_counted() {
    let Some(uring) = uring("answers_that_an_io_uring_cannot_send_are_counted") else { return };
    let place = uring.addresses().next().unwrap();
    let mut engine = engine(uring, &format!("udp {}", place.port()));
    let frame = |to: SocketAddrV4| {
        let mut frame = Vec::new();
        Datagram { from_mac: [2; 6], to_mac: [2; 6], from: place, to }.write(b"data", &mut frame).unwrap();
        frame
    };
    let client = client();
    let SocketAddr::V4(good) = client.local_addr().unwrap() else { panic!("IPv4") };
    // Broadcasts are forbidden for these sockets.
    for to in [good, SocketAddrV4::new(Ipv4Addr::BROADCAST, 9), good, SocketAddrV4::new(Ipv4Addr::BROADCAST, 9)] {
        engine.backend().send(&frame(to)).unwrap();
    }
    let (mut app, mut answer, start) = (App::default(), [0; 16], Instant::now());
    while engine.undelivered < 2 && start.elapsed() < Duration::from_secs(10) {
        engine.wait(&mut app, Duration::from_millis(1)).unwrap();
    }
    assert_eq!(engine.undelivered, 2);
    for _ in 0..2 {
        assert_eq!(client.recv_from(&mut answer).unwrap(), (4, place.into()));
    }
    assert_eq!(engine.backend().lost(), 0, "they are counted once");
}

/// The kernel takes requests back when the thread that made them ends. They are made anew.
#[test]
fn an_io_uring_moves_to_another_thread() {
    let Some(uring) = uring("an_io_uring_moves_to_another_thread") else { return };
    let place = uring.addresses().next().unwrap();
    let mut backend = std::thread::spawn(move || {
        let mut backend = uring;
        assert!(!backend.wait(Duration::from_millis(1)).unwrap());
        backend
    })
    .join()
    .unwrap();
    let (client, start) = (client(), Instant::now());
    client.send_to(b"hello", place).unwrap();
    let mut frames = Vec::new();
    while frames.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "no datagram");
        backend.wait(Duration::from_millis(10)).unwrap();
        backend.receive(64, &mut frames).unwrap();
    }
    let mut bytes = vec![0; frames[0].length];
    backend.view().read(frames[0].at, &mut bytes).unwrap();
    assert_eq!(bytes[42..], *b"hello");
}

/// The end of a back end takes its requests back at once, also while datagrams arrive.
#[test]
fn an_io_uring_ends_with_requests_under_way() {
    let client = client();
    for _ in 0..50 {
        let Some(mut uring) = uring("an_io_uring_ends_with_requests_under_way") else { return };
        let place = uring.addresses().next().unwrap();
        uring.wait(Duration::ZERO).unwrap();
        let start = Instant::now();
        for _ in 0..20 {
            client.send_to(&[7; 500], place).unwrap();
        }
        drop(uring);
        assert!(start.elapsed() < Duration::from_secs(2), "the kernel keeps requests");
        assert!(UdpSocket::bind(place).is_ok(), "the socket is closed");
    }
}

/// Runs a test of this file again in a network namespace of its own. Returns true in there. Without
/// root there are no namespaces. The test says so then, and returns false.
fn in_namespace(name: &str) -> bool {
    const INSIDE: &str = "SFI_TEST_CHILD";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let probe = Command::new("unshare").args(["-n", "true"]).output().expect("util-linux is needed for these tests");
    if !probe.status.success() {
        eprintln!("SKIPPED {name}: no network namespaces: {}", String::from_utf8_lossy(&probe.stderr));
        return false;
    }
    let run = Command::new("unshare")
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}{said}", String::from_utf8_lossy(&run.stdout));
    said.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    false
}

/// Waits until a device sends frames.
fn await_carrier(device: &str) {
    let start = Instant::now();
    while !ip(&format!("-o link show {device}")).contains("LOWER_UP") {
        assert!(start.elapsed() < Duration::from_secs(10), "{device} has no carrier");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The kernel activates the queue a little later than it says.
    while ip(&format!("-o link show {device}")).contains("qdisc noop ") {
        assert!(start.elapsed() < Duration::from_secs(10), "{device} has no queue");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes a pair of devices that send to each other. Without the kernel's driver the test says so,
/// and the result is false.
fn veth(name: &str) -> bool {
    let add = ["link", "add", "outside", "type", "veth", "peer", "name", "inside"];
    let run = Command::new("ip").args(add).output().expect("iproute2 is needed for these tests");
    let said = String::from_utf8_lossy(&run.stderr);
    if said.contains("Unknown device type") || said.contains("not supported") {
        eprintln!("SKIPPED {name}: no veth devices: {said}");
        return false;
    }
    assert!(run.status.success(), "{said}");
    ip("link set inside up");
    ip("link set outside up");
    await_carrier("inside");
    true
}

fn ip(arguments: &str) -> String {
    let run = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is needed for these tests");
    assert!(run.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Sends datagrams from the kernel's side of a device and checks the answers.
fn ask<B: Backend>(mut engine: Engine<B>, device: &str) {
    ip(&format!("addr add 10.77.0.1/24 dev {device}"));
    ip(&format!("link set {device} up"));
    await_carrier(device);
    ip(&format!("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev {device}"));
    let client = UdpSocket::bind("10.77.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut app = App::default();
    for sum in 1..=300_u64 {
        client.send_to(&1_u64.to_le_bytes(), "10.77.0.2:7777").unwrap();
        let start = Instant::now();
        // Other traffic of the kernel's, such as router solicitations, goes the normal way.
        while engine.counts().next().unwrap().1.committed < sum {
            assert!(start.elapsed() < Duration::from_secs(20), "message {sum}");
            engine.wait(&mut app, Duration::from_millis(50)).unwrap();
        }
        assert_eq!(engine.counts().next().unwrap().1.lost, 0, "message {sum}");
        let mut answer = [0; 16];
        let (length, from) = client.recv_from(&mut answer).unwrap();
        assert_eq!((length, from.to_string().as_str()), (8, "10.77.0.2:7777"), "the kernel accepts the checksums");
        assert_eq!(answer[..8], sum.to_le_bytes());
    }
}

#[test]
fn frames_of_a_packet_socket() {
    if in_namespace("frames_of_a_packet_socket") && veth("frames_of_a_packet_socket") {
        ask(engine(Packets::listen("inside", LONGEST).unwrap(), "udp 7777"), "outside");
    }
}

#[test]
fn frames_of_a_tap_device() {
    if in_namespace("frames_of_a_tap_device") {
        match Packets::tap("outside", LONGEST) {
            Ok(tap) => ask(engine(tap, "udp 7777"), "outside"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("SKIPPED frames_of_a_tap_device: no tap devices: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn frames_of_af_xdp() {
    if in_namespace("frames_of_af_xdp") && veth("frames_of_af_xdp") {
        match Xdp::listen("inside", 0) {
            Ok(xdp) => ask(engine(xdp, "udp 7777"), "outside"),
            // The steps that a kernel without AF_XDP or bpf(2) refuses.
            Err(error)
                if ["os error 1)", "os error 38)", "os error 95)", "os error 97)"]
                    .iter()
                    .any(|e| error.to_string().contains(e)) =>
            {
                eprintln!("SKIPPED frames_of_af_xdp: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn devices_that_do_not_exist() {
    let error = Packets::listen("no-such-device", LONGEST).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(19), "{error}");
    assert!(Xdp::listen("no-such-device", 0).unwrap_err().to_string().starts_with("the interface"));
    assert!(Packets::tap("", LONGEST).is_err());
    assert!(Packets::tap("a-name-that-is-far-too-long", LONGEST).is_err());
}
