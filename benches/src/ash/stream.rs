//! Receivers of TCP and UDP over veth, between two network namespaces: tables II and VI of the
//! paper, with a network.
//!
//! Both sides are engines on AF_XDP that poll. The sender of TCP is the library of [`crate::tcp`].
//! All receivers are in one engine, each with a port of its own, so that they are measured in turn.

use super::tcp::{SIZES, WORKS, Way, ways};
use super::wire::{PATIENCE, Server};
use super::{Place, Row, Table, median_of};
use crate::fork::{self, Child};
use crate::tcp::{self, Address, Endpoint, Memory, Stage, fast};
use anyhow::{Context, bail, ensure};
use sfi_ash::back::Backend;
use sfi_ash::back::xdp::Xdp;
use sfi_ash::engine::{Engine, Host, Message};
use sfi_ash::handler::{Handler, HandlerSpec, Keep};
use sfi_ash::native::{NativeCall, NativeHandler};
use sfi_contract::Mode;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The first port of TCP, and that of UDP. The receivers that follow have the ports after them.
const TCP_PORT: u16 = 7800;
const UDP_PORT: u16 = 7900;
/// Pairs of segments in a sample of TCP. The last one of an odd number would be acknowledged late.
const SEGMENTS: usize = 512;
/// Datagrams after which the receiver answers, trains of a sample, and bytes of a datagram.
const TRAIN: usize = 6;
const TRAINS: usize = 64;
const DATAGRAM: usize = 1472;
/// Round trips of a sample.
const TRIPS: usize = 256;
/// The first byte of a datagram that is answered.
const LAST: u8 = 1;

/// Words between the client and the server.
#[derive(Default)]
struct Shared {
    /// The receiver in use.
    active: AtomicUsize,
    /// It answers four bytes with these. Otherwise it only takes what arrives.
    answers: AtomicBool,
    stop: AtomicBool,
    /// Bytes that the receivers took.
    arrived: AtomicU64,
    /// Segments of open connections that went the slow way.
    declined: AtomicU64,
}

/// Takes the frames of a device, whose last socket the kernel may not have ended yet.
fn listen(device: &str) -> anyhow::Result<Xdp> {
    let start = Instant::now();
    loop {
        match Xdp::listen(device, 0) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other.with_context(|| format!("AF_XDP at {device}")),
        }
    }
}

fn address(number: u8, port: u16) -> Address {
    let socket = std::net::SocketAddrV4::new([10, 77, 3, number].into(), port);
    Address { mac: [2, 0, 0, 0, 3, number], socket }
}

/// Receives datagrams with a part of the work, and answers the last one of a train.
fn datagrams(mut memory: Memory, work: fast::Work) -> NativeHandler {
    let mut arrived = 0;
    Box::new(move |call: &mut NativeCall<'_>| {
        let (from, to) = (call.head().payload(), call.head().length());
        let read = |at: usize, out: &mut [u8]| call.read(at, out).is_ok();
        let Some(found) = fast::pass(&mut memory, arrived, from..to, work, read) else { return false };
        arrived += (to - from) as u64;
        let Some(bytes) = call.head().get(26, 17) else { return false };
        let (addresses, rest) = bytes.split_at(8);
        let (header, data) = rest.split_at(8);
        let length = u64::from((0x11 + (to - from + 8) as u16).swap_bytes());
        let is_right = !work.sum || tcp::sum(addresses, u64::from(tcp::sum(header, found + length))) == 0xffff;
        is_right && (data[0] != LAST || call.reply(&[LAST; 4]))
    })
}

/// Makes a datagram to a port.
fn datagram(port: u16, data: &[u8]) -> Vec<u8> {
    let (from, to) = (address(1, 4000), address(2, port));
    let length = (8 + data.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + length).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.socket.ip().octets().into_iter().chain(to.socket.ip().octets()));
    let found = !tcp::sum(&ip, 0);
    ip[10..12].copy_from_slice(&found.to_le_bytes());
    ip.extend([from.socket.port(), port, length, 0].into_iter().flat_map(u16::to_be_bytes));
    ip.extend_from_slice(data);
    let found = !tcp::sum(&ip[12..], u64::from((0x11 + length).swap_bytes()));
    ip[26..28].copy_from_slice(&found.to_le_bytes());
    [&to.mac[..], &from.mac[..], &[8, 0], &ip].concat()
}

/// One receiver of TCP.
struct Connection {
    server: Endpoint,
    /// Ends with the connection.
    _child: Option<Child>,
}

/// The applications of the server.
struct Apps {
    connections: Vec<Connection>,
    shared: Arc<Shared>,
    now: Duration,
}

impl Apps {
    /// Takes what arrived for the receiver in use, or answers it.
    fn act(&mut self) {
        let Some(Connection { server, .. }) = self.connections.get_mut(self.shared.active.load(Ordering::Relaxed))
        else {
            return;
        };
        let mut data = [0; 4];
        if !self.shared.answers.load(Ordering::Relaxed) {
            let waiting = server.memory().waiting();
            if waiting > 0 {
                server.skip(waiting);
                self.shared.arrived.fetch_add(waiting as u64, Ordering::Release);
            }
        } else if server.read(&mut data) == data.len() {
            server.write(&data, self.now);
        }
    }
}

impl Host for Apps {
    fn normal(&mut self, message: &Message<'_>) {
        let frame = message.bytes();
        let place = frame.get(36..38).map(|port| u16::from_be_bytes([port[0], port[1]]).wrapping_sub(TCP_PORT));
        let Some(connection) = place.and_then(|place| self.connections.get_mut(usize::from(place))) else { return };
        let is_open = message.handler.is_some() && connection.server.stage() == Stage::Open;
        self.shared.declined.fetch_add(u64::from(is_open), Ordering::Relaxed);
        connection.server.receive(&frame, self.now);
    }
    fn wake(&mut self, _: &str, _: u32) {}
}

/// Runs the server's side until the client is done.
fn serve(
    (ways, works, most): (&[Way], &[fast::Work], u16),
    shared: &Arc<Shared>,
    place: Place,
    ready: &Sender<()>,
) -> anyhow::Result<()> {
    let mut engine = Engine::new(Xdp::listen("in3", 0).context("AF_XDP")?, Duration::from_secs(3600), BTreeMap::new());
    let mut connections = Vec::new();
    for (port, way) in (TCP_PORT..).zip(ways) {
        let (keep, child) = way.install(&mut engine, port, true)?;
        let server = Endpoint::listen(address(2, port), Memory::new(&keep)?, 1000, most);
        connections.push(Connection { server, _child: child });
    }
    for (port, work) in (UDP_PORT..).zip(works) {
        let spec = HandlerSpec { name: format!("udp {port}"), ..tcp::memory(port)? };
        let memory = Memory::new(&Keep::new(&spec)?)?;
        let spec = HandlerSpec { filter: format!("udp {port}").parse()?, state: 0, buffer: 0, ..spec };
        engine.install(Handler::native(spec, datagrams(memory, *work))?)?;
    }
    let mut apps = Apps { connections, shared: Arc::clone(shared), now: Duration::ZERO };
    let start = Instant::now();
    // On one processor the client would keep an ordinary thread from running.
    fork::real_time(true).context("no real-time priority")?;
    ready.send(())?;
    while !shared.stop.load(Ordering::Relaxed) {
        apps.now = start.elapsed();
        let count = engine.poll(&mut apps)?;
        apps.act();
        let now = apps.now;
        if let Some(Connection { server, .. }) = apps.connections.get_mut(shared.active.load(Ordering::Relaxed)) {
            server.poll(now);
            server.take().iter().try_for_each(|frame| engine.backend().send(frame))?;
        }
        if count == 0 && place.is_shared() {
            std::thread::yield_now();
        }
    }
    fork::real_time(false).context("no ordinary priority")
}

/// The client's side of all receivers.
#[derive(Default)]
struct Senders {
    connections: Vec<Endpoint>,
    active: usize,
    now: Duration,
    /// Answers to datagrams.
    answers: usize,
}

impl Host for Senders {
    fn normal(&mut self, message: &Message<'_>) {
        let frame = message.bytes();
        match (frame.get(23), self.connections.get_mut(self.active)) {
            (Some(17), _) => self.answers += 1,
            (Some(6), Some(connection)) => connection.receive(&frame, self.now),
            _ => {}
        }
    }
    fn wake(&mut self, _: &str, _: u32) {}
}

/// The server's side at work.
struct Serving {
    shared: Arc<Shared>,
    done: Receiver<anyhow::Result<()>>,
}

impl Serving {
    /// Ends it, and returns how it went.
    fn end(&self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.done.recv_timeout(PATIENCE).context("the receivers do not end")?
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whoever dropped it has an error already, or the result.
        let _ = self.end();
    }
}

/// Both sides.
struct Line {
    engine: Engine<Xdp>,
    senders: Senders,
    shared: Arc<Shared>,
    serving: Serving,
    start: Instant,
    place: Place,
}

impl Line {
    /// Starts the receivers, and opens their connections.
    fn new(server: &Server, place: Place, ways: Vec<Way>, works: Vec<fast::Work>, most: u16) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (ready, is_ready) = channel();
        let (count, there) = (ways.len() as u16, Arc::clone(&shared));
        let done = server.begin(move || serve((&ways, &works, most), &there, place, &ready));
        // The server compiles its handlers first.
        let serving = Serving { shared: Arc::clone(&shared), done };
        if is_ready.recv_timeout(6 * PATIENCE).is_err() {
            serving.end()?;
            bail!("the receivers do not start");
        }
        let engine = Engine::new(listen("out3")?, Duration::from_secs(3600), BTreeMap::new());
        let start = Instant::now();
        let mut line = Self { engine, senders: Senders::default(), shared, serving, start, place };
        for port in TCP_PORT..TCP_PORT + count {
            let own = Memory::new(&Keep::new(&tcp::memory(port)?)?)?;
            let to = address(2, port);
            let connection = Endpoint::connect(address(1, 4000), to, own, 9000, most, line.start.elapsed());
            line.senders.connections.push(connection);
            line.choose(usize::from(port - TCP_PORT));
            line.until("no connection", |line| line.sender().stage() == Stage::Open)?;
        }
        line.shared.declined.store(0, Ordering::Relaxed);
        Ok(line)
    }

    fn choose(&mut self, active: usize) {
        self.senders.active = active;
        self.shared.active.store(active, Ordering::Relaxed);
    }

    fn sender(&mut self) -> &mut Endpoint {
        &mut self.senders.connections[self.senders.active]
    }

    /// Sends and receives what there is.
    fn turn(&mut self) -> anyhow::Result<()> {
        self.senders.now = self.start.elapsed();
        let now = self.senders.now;
        if let Some(sender) = self.senders.connections.get_mut(self.senders.active) {
            sender.poll(now);
            sender.take().iter().try_for_each(|frame| self.engine.backend().send(frame))?;
        }
        if self.engine.poll(&mut self.senders)? == 0 && self.place.is_shared() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Goes on until something is so.
    fn until(&mut self, why: &'static str, mut is_so: impl FnMut(&mut Self) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_so(self) {
            self.turn()?;
            ensure!(start.elapsed() < PATIENCE, why);
        }
        Ok(())
    }

    /// Returns the bytes for each nanosecond that a receiver of TCP takes, from the first write on.
    fn stream(&mut self, active: usize, most: u16, write: usize) -> anyhow::Result<f64> {
        self.choose(active);
        let whole = 2 * SEGMENTS * usize::from(most);
        let (data, before) = (vec![7; write], self.shared.arrived.load(Ordering::Acquire));
        let (start, mut sent) = (Instant::now(), 0);
        self.until("no data arrives", |line| {
            let now = line.start.elapsed();
            sent_more(line.sender(), &data, whole, &mut sent, now);
            line.shared.arrived.load(Ordering::Acquire) - before >= whole as u64
        })?;
        Ok(whole as f64 / start.elapsed().as_nanos() as f64)
    }

    /// Returns the microseconds from four bytes over TCP to their answer.
    fn trip(&mut self, active: usize) -> anyhow::Result<f64> {
        self.choose(active);
        self.shared.answers.store(true, Ordering::Relaxed);
        let (start, mut data) = (Instant::now(), [0; 4]);
        for _ in 0..TRIPS {
            let now = self.start.elapsed();
            self.sender().write(b"ping", now);
            self.until("no answer", |line| line.sender().memory().waiting() >= 4)?;
            self.sender().read(&mut data);
            // A receiver that copies nothing returns zeroes.
            ensure!([*b"ping", [0; 4]].contains(&data), "another answer: {data:?}");
        }
        let time = start.elapsed();
        self.shared.answers.store(false, Ordering::Relaxed);
        Ok(time.as_nanos() as f64 / 1000.0 / TRIPS as f64)
    }

    /// Sends trains of datagrams, each after the answer to the one before. Returns their time.
    fn trains(&mut self, port: u16, length: usize, train: usize, count: usize) -> anyhow::Result<Duration> {
        let frame = |mark| datagram(port, &vec![mark; length]);
        let (first, last) = (frame(0), frame(LAST));
        // No connection takes part.
        self.choose(usize::MAX);
        let start = Instant::now();
        for _ in 0..count {
            let before = self.senders.answers;
            for number in 1..=train {
                self.engine.backend().send(if number == train { &last } else { &first })?;
            }
            self.until("no answer to a datagram", |line| line.senders.answers > before)?;
        }
        Ok(start.elapsed())
    }

    /// Ends the server's side. Segments that went the slow way, after one was lost, are so few that
    /// medians do not show them.
    fn end(self) -> anyhow::Result<()> {
        self.serving.end()?;
        let declined = self.shared.declined.load(Ordering::Relaxed);
        ensure!(declined <= SEGMENTS as u64 / 10, "the receivers declined {declined} segments");
        Ok(())
    }
}

/// Writes as much as the connection takes.
fn sent_more(sender: &mut Endpoint, data: &[u8], whole: usize, sent: &mut usize, now: Duration) {
    while *sent < whole {
        match sender.write(&data[..data.len().min(whole - *sent)], now) {
            0 => return,
            count => *sent += count,
        }
    }
}

/// Takes samples of receivers in turn, and returns the medians.
fn compare(
    line: &mut Line,
    count: usize,
    rounds: u32,
    mut sample: impl FnMut(&mut Line, usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    let mut samples = vec![Vec::new(); count];
    // The first round warms up and does not count.
    for round in 0..=rounds {
        for (at, samples) in samples.iter_mut().enumerate() {
            let value = sample(line, at)?;
            samples.extend((round > 0).then_some(value));
        }
    }
    Ok(samples.into_iter().map(median_of).collect())
}

/// Measures table VI (receivers) and table II (copies and checksums) over veth.
pub(super) fn measure(
    server: &Server,
    place: Place,
    kinds: &[(String, Mode, bool)],
    rounds: u32,
) -> anyhow::Result<[Table; 4]> {
    fork::real_time(true).context("no real-time priority")?;
    let ways = ways(kinds);
    let (names, ways): (Vec<String>, Vec<Way>) = ways.into_iter().unzip();
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for (most, write) in SIZES {
        let mut line = Line::new(server, place, ways.clone(), Vec::new(), most)?;
        let values = compare(&mut line, ways.len(), rounds, |line, at| line.stream(at, most, write))?;
        rates.push(Row { name: format!("{most}, writes of {write}"), values });
        if most == SIZES[1].0 {
            let values = compare(&mut line, ways.len(), rounds, Line::trip)?;
            times.push(Row { name: "4 bytes".into(), values });
        }
        line.end()?;
    }
    let works = WORKS.map(|(_, work)| work);
    let (most, write) = SIZES[1];
    let mut line = Line::new(server, place, works.map(Way::Native).into(), works.into(), most)?;
    let trains = compare(&mut line, works.len(), rounds, |line, at| {
        let time = line.trains(UDP_PORT + at as u16, DATAGRAM, TRAIN, TRAINS)?;
        Ok((TRAINS * TRAIN * DATAGRAM) as f64 / time.as_nanos() as f64)
    })?;
    let stream = compare(&mut line, works.len(), rounds, |line, at| line.stream(at, most, write))?;
    let single = compare(&mut line, works.len(), rounds, |line, at| {
        Ok(line.trains(UDP_PORT + at as u16, 4, 1, TRIPS)?.as_nanos() as f64 / 1000.0 / TRIPS as f64)
    })?;
    let trips = compare(&mut line, works.len(), rounds, Line::trip)?;
    line.end()?;
    fork::real_time(false).context("no ordinary priority")?;
    let work_rates = [(format!("UDP, {TRAIN} datagrams of {DATAGRAM}"), trains), (format!("TCP, {most}"), stream)];
    let work_times = [("UDP, 4 bytes".to_owned(), single), ("TCP, 4 bytes".to_owned(), trips)];
    let rows = |rows: [(String, Vec<f64>); 2]| rows.map(|(name, values)| Row { name, values }).into();
    let works: Vec<String> = WORKS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let table = |name, title: &str, unit, columns: &[String], rows: Vec<Row>| Table {
        name,
        title: title.into(),
        unit,
        columns: columns.to_vec(),
        rows,
    };
    Ok([
        table("tcp_veth", "Receiving TCP over veth, by bytes of a segment", "bytes/ns", &names, rates),
        table("tcp_veth_answer", "Four bytes over TCP on veth and back", "us", &names, times),
        table(
            "work_veth",
            "Receiving natively over veth, with and without copy and checksum",
            "bytes/ns",
            &works,
            rows(work_rates),
        ),
        table(
            "work_veth_answer",
            "Round trip over veth, with and without copy and checksum",
            "us",
            &works,
            rows(work_times),
        ),
    ])
}
