//! The small TCP and its fast path: every byte arrives once and in order, over links that lose,
//! repeat, reorder and damage frames, and each segment that is not predicted goes the slow way.

use sfi_ash::back::Backend;
use sfi_ash::back::packet::Packets;
use sfi_ash::back::ring::{Injector, Ring, Sent, ring};
use sfi_ash::engine::{Counts, Engine, Host, Message, Reason};
use sfi_ash::handler::{Handler, HandlerSpec, Keep};
use sfi_benches::tcp::{self, ACK, Address, Avx2, Endpoint, FIN, Memory, PUSH, Segment, Stage, fast};
use sfi_contract::Mode;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 80;

/// The fast path of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// None: all segments go the slow way.
    Slow,
    Native,
    /// With AVX2. Without it, as `Native`.
    Vector,
    Sandboxed(Mode, Option<u64>),
}

const WAYS: [Way; 6] = [
    Way::Slow,
    Way::Native,
    Way::Vector,
    Way::Sandboxed(Mode::Write, None),
    Way::Sandboxed(Mode::Full, None),
    Way::Sandboxed(Mode::Write, Some(100_000)),
];

/// A generator of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }
}

/// The faults of a link: each happens to one frame in so many, or never for 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    lost: u64,
    repeated: u64,
    damaged: u64,
    delayed: u64,
}

const MANY: Faults = Faults { lost: 10, repeated: 12, damaged: 15, delayed: 8 };
const FEW: Faults = Faults { lost: 80, repeated: 60, damaged: 100, delayed: 70 };
/// The receiver's window, as in the paper.
const WINDOW: u64 = 8 << 10;

/// The server's application.
struct App {
    server: Endpoint,
    now: Duration,
    /// One frame in so many is put off.
    behind: u64,
    random: Random,
    declined: u64,
    faulted: u64,
    wakes: Vec<u32>,
}

impl Host for App {
    fn normal(&mut self, message: &Message<'_>) {
        match message.reason {
            Reason::Declined => self.declined += 1,
            Reason::Faulted(_) => self.faulted += 1,
            Reason::NoHandler => {}
            ref other => panic!("{other:?}"),
        }
        match self.random.one_in(self.behind) {
            true => self.server.put_off(message.bytes()),
            false => self.server.receive(&message.bytes(), self.now),
        }
    }

    fn wake(&mut self, _: &str, value: u32) {
        self.wakes.push(value);
        self.server.poll(self.now);
    }
}

/// A server on an engine, a client, and the links between them.
struct Net {
    engine: Engine<Ring>,
    injector: Injector,
    sent: Sent,
    app: App,
    client: Endpoint,
    /// Frames on their way, with the time of their arrival and the direction.
    links: BTreeMap<(Duration, u64), (bool, Vec<u8>)>,
    count: u64,
    faults: Faults,
    random: Random,
}

fn address(number: u8, port: u16) -> Address {
    Address { mac: [2, 0, 0, 0, 0, number], socket: format!("10.77.0.{number}:{port}").parse().unwrap() }
}

fn memory(keep: &Keep) -> Memory {
    Memory::new(keep).unwrap()
}

/// Compiles a fast path once for all tests.
fn sandboxed(mode: Mode, budget: Option<u64>) -> HandlerSpec {
    type Compiled = ((Mode, Option<u64>), HandlerSpec);
    static SPECS: std::sync::Mutex<Vec<Compiled>> = std::sync::Mutex::new(Vec::new());
    let mut specs = SPECS.lock().unwrap();
    if let Some((_, spec)) = specs.iter().find(|(key, _)| *key == (mode, budget)) {
        return spec.clone();
    }
    let spec = tcp::sandboxed(PORT, mode, budget).expect("gcc is needed for these tests");
    specs.push(((mode, budget), spec.clone()));
    spec
}

/// Describes the memory of a connection with a small window.
fn plain() -> HandlerSpec {
    HandlerSpec { buffer: tcp::RING as u64 + WINDOW, ..tcp::memory(PORT).unwrap() }
}

/// Puts the fast path into an engine, and returns the connection's memory.
fn install<B: Backend>(engine: &mut Engine<B>, way: Way) -> Keep {
    let spec = plain();
    let keep = Keep::new(&spec).unwrap();
    let handler = match way {
        Way::Slow => return keep,
        Way::Native | Way::Vector => {
            let plain = HandlerSpec { state: 0, buffer: 0, ..spec };
            let code = match Avx2::detect().filter(|_| way == Way::Vector) {
                Some(avx2) => fast::vector(memory(&keep), engine.backend().memory().view().unwrap(), avx2),
                None => fast::native(memory(&keep), fast::Work::default()),
            };
            Handler::native(plain, code).unwrap()
        }
        Way::Sandboxed(mode, budget) => {
            let backend = engine.backend();
            let spec = HandlerSpec { buffer: spec.buffer, ..sandboxed(mode, budget) };
            Handler::with(spec, backend.memory(), backend.longest(), keep.clone()).unwrap()
        }
    };
    engine.install(handler).unwrap();
    keep
}

impl App {
    fn new(server: Endpoint, seed: u64) -> Self {
        let (now, random) = (Duration::ZERO, Random(seed + 77));
        Self { server, now, behind: 0, random, declined: 0, faulted: 0, wakes: Vec::new() }
    }
}

impl Net {
    fn new(way: Way, faults: Faults, seed: u64, most: u16) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (injector, ring, sent) = ring(64, 2048).unwrap();
        let mut engine = Engine::new(ring, Duration::from_secs(3600), BTreeMap::new());
        let keep = install(&mut engine, way);
        // Sequence numbers pass the largest one in most runs.
        let mut initial = || (random.below(100_000) as u32).wrapping_sub(50_000);
        let (one, other) = (initial(), initial());
        let server = Endpoint::listen(address(2, PORT), memory(&keep), one, most);
        let own = memory(&Keep::new(&plain()).unwrap());
        let client = Endpoint::connect(address(1, 4000), address(2, PORT), own, other, most, Duration::ZERO);
        let app = App::new(server, seed);
        Self { engine, injector, sent, app, client, links: BTreeMap::new(), count: 0, faults, random }
    }

    /// Sends a frame over a link.
    fn carry(&mut self, to_server: bool, frame: Vec<u8>) {
        let Faults { lost, repeated, damaged, delayed } = self.faults;
        if self.random.one_in(lost) {
            return;
        }
        let copies = 1 + u64::from(self.random.one_in(repeated));
        for _ in 0..copies {
            let mut frame = frame.clone();
            if self.random.one_in(damaged) {
                let bit = 14 * 8 + self.random.below(frame.len() as u64 * 8 - 14 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            let late = if self.random.one_in(delayed) { self.random.below(20_000) } else { 0 };
            self.count += 1;
            let at = self.app.now + Duration::from_micros(1000 + late);
            self.links.insert((at, self.count), (to_server, frame));
        }
    }

    /// Lets the engine handle a frame.
    fn inject(&mut self, frame: &[u8]) {
        self.injector.inject(frame).unwrap();
        assert_eq!(self.engine.poll(&mut self.app).unwrap(), 1);
    }

    /// Puts all frames of both sides on their way.
    fn collect(&mut self) {
        let now = self.app.now;
        self.app.server.poll(now);
        self.client.poll(now);
        let answers: Vec<Vec<u8>> = self.sent.try_iter().chain(self.app.server.take()).collect();
        answers.into_iter().for_each(|frame| self.carry(false, frame));
        self.client.take().into_iter().for_each(|frame| self.carry(true, frame));
    }

    /// Advances to the next event. Returns false if there is none.
    fn step(&mut self) -> bool {
        self.collect();
        let deadlines = [self.app.server.deadline(), self.client.deadline(), self.links.keys().next().map(|key| key.0)];
        let Some(next) = deadlines.into_iter().flatten().min() else { return false };
        self.app.now = self.app.now.max(next);
        while let Some(entry) = self.links.first_entry().filter(|entry| entry.key().0 <= next) {
            match entry.remove() {
                (true, frame) => self.inject(&frame),
                (false, frame) => self.client.receive(&frame, next),
            }
        }
        self.collect();
        true
    }

    fn counts(&self) -> Counts {
        self.engine.counts().map(|(_, counts)| counts).next().unwrap_or_default()
    }
}

/// The application at one end: it sends some bytes and keeps what arrives.
struct User {
    /// It reads at once, so the window never closes.
    is_prompt: bool,
    send: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
}

impl User {
    fn new(random: &mut Random, length: usize) -> Self {
        Self { is_prompt: false, send: (0..length).map(|_| random.next() as u8).collect(), sent: 0, got: Vec::new() }
    }

    fn act(&mut self, endpoint: &mut Endpoint, random: &mut Random, now: Duration) {
        if self.sent < self.send.len() {
            let end = (self.sent + 1 + random.below(6000) as usize).min(self.send.len());
            self.sent += endpoint.write(&self.send[self.sent..end], now);
        } else {
            endpoint.close(now);
        }
        if self.is_prompt || random.one_in(2) {
            let mut piece = vec![0; 1 + random.below(40_000) as usize];
            let count = endpoint.read(&mut piece);
            self.got.extend(&piece[..count]);
        }
    }
}

/// Sends bytes in both directions, and checks that all arrive.
fn transfer(net: &mut Net, lengths: [usize; 2], name: &str) {
    let mut random = Random(net.random.next() | 1);
    let mut users = lengths.map(|length| User::new(&mut random, length));
    users.iter_mut().for_each(|user| user.is_prompt = net.faults == Faults::default());
    for _ in 0..200_000 {
        let now = net.app.now;
        users[0].act(&mut net.client, &mut random, now);
        users[1].act(&mut net.app.server, &mut random, now);
        if !net.step() {
            net.app.now += Duration::from_millis(1);
        }
        let [client, server] = [&net.client, &net.app.server];
        if [client, server].iter().all(|end| end.is_over() && end.is_at_end()) {
            let [client, server] = users;
            assert!(server.got == client.send && client.got == server.send, "{name}: other bytes");
            return;
        }
        assert!(server.stage() != Stage::Reset && client.stage() != Stage::Reset, "{name}: a reset");
    }
    panic!("{name}: no end: {:?} {:?}", net.client, net.app.server);
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    for way in WAYS {
        let (mut committed, mut declined) = (0, 0);
        for seed in 0..24 {
            let most = [536, 1448, 100][seed as usize % 3];
            let faults = [FEW, MANY, FEW, Faults { delayed: 3, ..Faults::default() }][seed as usize % 4];
            let mut net = Net::new(way, faults, seed, most);
            net.app.behind = [0, 5][seed as usize % 2];
            transfer(&mut net, [200_000, 50_000], &format!("{way:?}, seed {seed}"));
            committed += net.counts().committed;
            declined += net.app.declined;
            assert_eq!(net.app.faulted, 0);
        }
        match way {
            Way::Slow => assert_eq!(committed, 0),
            _ => assert!(committed > 500 && declined > 500, "{way:?}: {committed} taken, {declined} declined"),
        }
    }
}

#[test]
fn a_clean_link_is_all_fast_path() {
    for way in &WAYS[1..] {
        for most in [536, 1448] {
            let mut net = Net::new(*way, Faults::default(), 1, most);
            transfer(&mut net, [1_000_000, 0], &format!("{way:?}"));
            let segments = 1_000_000 / u64::from(most);
            let counts = net.counts();
            assert!(counts.committed >= segments, "{way:?}: {counts:?}");
            // SYN, the handshake's end, the last segment with its FIN, and the FIN's answer.
            assert!(net.app.declined <= 4, "{way:?}: {counts:?}");
            assert!(counts.sent >= segments / 2 - 1, "every second segment is acknowledged: {counts:?}");
        }
    }
}

#[test]
fn a_handler_that_faults_in_the_middle_leaves_the_connection_right() {
    for budget in [150, 250, 400] {
        for seed in 0..3 {
            let mut net = Net::new(Way::Sandboxed(Mode::Write, Some(budget)), FEW, seed, 1448);
            transfer(&mut net, [100_000, 20_000], &format!("{budget} instructions"));
            assert!(net.app.faulted > 20, "{budget} instructions: {} faults", net.app.faulted);
        }
    }
}

/// An open connection whose client is the test.
struct Open {
    net: Net,
    expected: u32,
    acknowledged: u32,
}

impl Open {
    fn new(way: Way) -> Self {
        let mut net = Net::new(way, Faults::default(), 5, 1448);
        while net.client.stage() != Stage::Open || net.app.server.stage() != Stage::Open {
            assert!(net.step());
        }
        let block = net.app.server.memory().block();
        assert_eq!(block.live, 1);
        Self { net, expected: block.expected, acknowledged: block.first }
    }

    fn frame(&self, ahead: i32, flags: u8, data: &[u8]) -> Vec<u8> {
        let sequence = self.expected.wrapping_add(ahead as u32);
        let (from, to) = (address(1, 4000), address(2, PORT));
        let acknowledged = self.acknowledged;
        Segment { from, to, sequence, acknowledged, flags, window: 60_000, most: None, data }.frame()
    }

    /// Hands a frame to the engine. Returns whether the handler took it, the answers' numbers, and
    /// the bytes that the application read.
    fn take(&mut self, frame: &[u8]) -> (bool, Vec<u32>, Vec<u8>) {
        let before = self.net.counts().committed;
        self.net.inject(frame);
        let answers: Vec<Vec<u8>> = self.net.sent.try_iter().chain(self.net.app.server.take()).collect();
        let answers = answers.iter().map(|frame| Segment::parse(frame).expect("a whole segment").acknowledged);
        let answers: Vec<u32> = answers.map(|number| number.wrapping_sub(self.expected)).collect();
        let mut data = vec![0; 70_000];
        let count = self.net.app.server.read(&mut data);
        data.truncate(count);
        (self.net.counts().committed > before, answers, data)
    }
}

#[test]
fn segments_that_are_not_predicted_go_the_slow_way() {
    for way in &WAYS[1..] {
        let open = || Open::new(*way);
        let data: Vec<u8> = (0..101).collect();
        // Every second segment is acknowledged, also after an odd number of bytes.
        let mut it = open();
        let frame = it.frame(0, ACK, &data);
        assert_eq!(it.take(&frame), (true, vec![], data.clone()), "{way:?}");
        let frame = it.frame(101, ACK | PUSH, &data[..50]);
        assert_eq!(it.take(&frame), (true, vec![151], data[..50].to_vec()));
        // The ring's end may lie in a segment, also after an odd number of its bytes.
        let mut round = open();
        for number in 0..2 * WINDOW as i32 / 101 {
            let frame = round.frame(number * 101, ACK, &data);
            let (taken, _, found) = round.take(&frame);
            assert!(taken && found == data, "{way:?}: segment {number}");
        }
        // A repeated segment, and one of which a part is new.
        assert_eq!(it.take(&frame), (false, vec![151], vec![]), "a duplicate is acknowledged again");
        let frame = it.frame(141, ACK, &data[..20]);
        assert_eq!(it.take(&frame), (false, vec![], data[10..20].to_vec()));
        // A gap: the fast path takes nothing until it is filled.
        let mut it = open();
        let [second, third, first] =
            [it.frame(50, ACK, &data[50..100]), it.frame(100, ACK, &data[..10]), it.frame(0, ACK, &data[..50])];
        assert_eq!(it.take(&second), (false, vec![0], vec![]), "a gap is told at once");
        let (taken, answers, found) = it.take(&first);
        assert!(!taken && answers.len() <= 1);
        assert_eq!(found, data[..100]);
        assert!(it.take(&third).0, "the fast path goes on after the gap");
        // Damaged bytes in every part of a segment.
        let mut it = open();
        let frame = it.frame(0, ACK, &data);
        let before = it.net.app.server.memory().block();
        for at in 14..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x20;
            let (taken, answers, found) = it.take(&damaged);
            assert_eq!((taken, answers.len(), found.len()), (false, 0, 0), "{way:?}: byte {at}");
            assert_eq!(it.net.app.server.memory().block(), before);
        }
        assert!(it.take(&frame).0, "and then the whole one");
        // Flags, and acknowledgements of bytes that were never sent.
        for flags in [0, ACK | 0x20, ACK | 2, 2, 8] {
            let mut it = open();
            let frame = it.frame(0, flags, &data);
            assert!(!it.take(&frame).0, "flags {flags}");
        }
        let mut it = open();
        it.acknowledged = it.acknowledged.wrapping_add(1);
        let frame = it.frame(0, ACK, &data);
        assert_eq!(it.take(&frame), (false, vec![], data.clone()), "only the data counts");
        // Segments of other connections, also such whose addresses have the same sum.
        let mut it = open();
        for (from, to) in [((1, 4001), 2), ((3, 4000), 2), ((1, 4000), 3), ((2, 4000), 1), ((0, 4000), 3)] {
            let segment = it.frame(0, ACK, &data);
            let segment = Segment::parse(&segment).unwrap();
            let other = Segment { from: address(from.0, from.1), to: address(to, PORT), ..segment };
            assert_eq!(it.take(&other.frame()), (false, vec![], vec![]), "{way:?}: {other:?}");
        }
        // FIN with data, again, and data after it.
        let mut it = open();
        let frame = it.frame(0, ACK | FIN, &data);
        assert_eq!(it.take(&frame), (false, vec![102], data.clone()));
        assert!(it.net.app.server.is_at_end());
        assert_eq!(it.take(&frame), (false, vec![102], vec![]));
        let frame = it.frame(102, ACK, &data);
        assert_eq!(it.take(&frame), (false, vec![102], vec![]));
        // A reset.
        let mut it = open();
        let frame = it.frame(0, ACK | 4, &[]);
        assert!(!it.take(&frame).0 && it.net.app.server.stage() == Stage::Reset);
        assert_eq!(it.net.app.server.memory().block().live, 0);
    }
}

#[test]
fn the_application_is_woken_for_the_bytes_that_it_wants() {
    for way in &WAYS[1..] {
        let mut it = Open::new(*way);
        it.net.app.server.memory().set_wanted(100);
        for (ahead, length, wakes) in [(0, 99, 0), (99, 1, 1), (100, 1, 2)] {
            let frame = it.frame(ahead, ACK, &vec![7; length]);
            it.net.inject(&frame);
            assert_eq!(it.net.app.wakes, vec![fast::WAKE_DATA; wakes], "{way:?}");
        }
        // Its own bytes are acknowledged.
        let mut it = Open::new(*way);
        it.net.app.server.write(&[1; 10], Duration::ZERO);
        it.acknowledged = it.acknowledged.wrapping_add(10);
        let frame = it.frame(0, ACK, &[]);
        let (taken, _, found) = it.take(&frame);
        assert!(taken && found.is_empty(), "{way:?}");
        assert_eq!(it.net.app.wakes, [fast::WAKE_SENT]);
    }
}

#[test]
fn a_damaged_block_ends_the_connection_and_nothing_else() {
    let mut it = Open::new(Way::Slow);
    let mut block = it.net.app.server.memory().block();
    block.first = block.first.wrapping_add(1000);
    it.net.app.server.memory().set_block(&block);
    it.net.app.server.poll(Duration::ZERO);
    assert_eq!(it.net.app.server.stage(), Stage::Reset);
    let mut it = Open::new(Way::Slow);
    let block = tcp::Block { arrived: u64::MAX - 5, ..it.net.app.server.memory().block() };
    it.net.app.server.memory().set_block(&block);
    let frame = it.frame(0, ACK, b"data");
    it.take(&frame);
    assert_eq!(it.net.app.server.memory().size() as u64, WINDOW);
}

fn ip(arguments: &str) {
    let run = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is needed for these tests");
    assert!(run.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&run.stderr));
}

/// The kernel's client sends bytes, and returns the answer.
fn client(data: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect("10.77.0.2:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut half, whole) = (stream.try_clone().unwrap(), data.to_vec());
    let sender = thread::spawn(move || {
        whole.chunks(8192).for_each(|piece| half.write_all(piece).unwrap());
        half.shutdown(Shutdown::Write).unwrap();
    });
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    sender.join().unwrap();
    answer
}

/// Serves a connection of the kernel's at a tap device until both sides are done. All bytes go back
/// with every bit turned.
fn serve(engine: &mut Engine<Packets>, app: &mut App) {
    let (start, mut waiting) = (Instant::now(), Vec::new());
    while !app.server.is_over() {
        app.now = start.elapsed();
        assert!(app.now < Duration::from_secs(60), "no end: {:?}", app.server);
        engine.wait(app, Duration::from_millis(5)).unwrap();
        if waiting.is_empty() {
            waiting = vec![0; 10_000];
            let count = app.server.read(&mut waiting);
            waiting.truncate(count);
            waiting.iter_mut().for_each(|byte| *byte = !*byte);
        }
        let count = app.server.write(&waiting, app.now);
        waiting.drain(..count);
        if waiting.is_empty() && app.server.is_at_end() {
            app.server.close(app.now);
        }
        app.server.poll(app.now);
        app.server.take().iter().for_each(|frame| engine.backend().send(frame).unwrap());
    }
}

#[test]
fn the_kernel_is_a_good_partner() {
    let name = "the_kernel_is_a_good_partner";
    if std::env::var_os("SFI_TEST_CHILD").is_none() {
        let probe = Command::new("unshare").args(["-n", "true"]).output().expect("util-linux is needed");
        if !probe.status.success() || !Path::new("/dev/net/tun").exists() {
            return eprintln!("SKIPPED {name}: no network namespaces or no tap devices");
        }
        let mut run = Command::new("unshare");
        run.arg("-n").arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]);
        let run = run.env("SFI_TEST_CHILD", "1").output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{}{said}", String::from_utf8_lossy(&run.stdout));
        return;
    }
    let mut random = Random(99);
    let data: Vec<u8> = (0..300_001).map(|_| random.next() as u8).collect();
    let turned: Vec<u8> = data.iter().map(|byte| !byte).collect();
    for (number, way) in WAYS.into_iter().enumerate() {
        for most in [536, 1448] {
            let device = format!("tap{number}x{most}");
            let tap = Packets::tap(&device, 2048).unwrap();
            let mut engine = Engine::new(tap, Duration::from_secs(3600), BTreeMap::new());
            ip(&format!("addr add 10.77.0.1/24 dev {device}"));
            ip(&format!("link set {device} up"));
            ip(&format!("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev {device}"));
            let keep = install(&mut engine, way);
            // Our own numbers pass the largest one.
            let server = Endpoint::listen(address(2, PORT), memory(&keep), u32::MAX - 5000, most);
            let (mut app, whole) = (App::new(server, 1), data.clone());
            let client = thread::spawn(move || client(&whole));
            serve(&mut engine, &mut app);
            assert!(client.join().unwrap() == turned, "{way:?}, {most}: other bytes");
            let committed = engine.counts().map(|(_, counts)| counts.committed).next();
            let segments = data.len() as u64 / u64::from(most);
            assert!(committed.is_none_or(|count| count > segments * 9 / 10), "{way:?}, {most}: {committed:?}");
        }
    }
}
