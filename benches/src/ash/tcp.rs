//! Receivers of TCP on the ring in this process: tables II and VI of the paper, without a network.
//!
//! A client sends a window in segments. The time from there to the last acknowledgement is that of
//! the receiver alone. The data is where the application wants it then.

use super::{Row, Table, median_of};
use crate::fork::{self, Child, Shared};
use crate::tcp::{self, Address, Avx2, Endpoint, Memory, Stage, fast};
use anyhow::{Context, ensure};
use sfi_ash::back::Backend;
use sfi_ash::back::ring::{Injector, Ring, Sent, ring};
use sfi_ash::engine::{Engine, Host, Message};
use sfi_ash::handler::{Handler, HandlerSpec, Keep};
use sfi_ash::native::{NativeCall, NativeHandler};
use sfi_contract::Mode;
use sfi_loader::View;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The port of the server.
const PORT: u16 = 7778;
/// Instructions for a segment: more than any needs.
const BUDGET: u64 = 1_000_000;
/// The column of a receiver that needs AVX2.
const VECTOR: &str = "native, AVX2";
/// Windows of a sample.
const WINDOWS: usize = 64;
/// Round trips of a sample.
const TRIPS: usize = 256;
/// Time does not pass: nothing is sent again.
const NOW: Duration = Duration::ZERO;

/// The application of the server.
struct App {
    server: Endpoint,
    /// It answers four bytes with these. Otherwise it only takes them.
    answers: bool,
    declined: u64,
}

impl App {
    /// Takes what arrived.
    fn act(&mut self) {
        let mut data = [0; 4];
        if self.answers && self.server.read(&mut data) == data.len() {
            self.server.write(&data, NOW);
        }
    }
}

impl Host for App {
    fn normal(&mut self, message: &Message<'_>) {
        self.declined += 1;
        self.server.receive(&message.bytes(), NOW);
        self.act();
    }
    fn wake(&mut self, _: &str, _: u32) {
        self.act();
    }
}

/// A way to receive.
#[derive(Clone)]
pub(super) enum Way {
    /// The application's TCP, in the loop.
    Library,
    Native(fast::Work),
    /// With one loop of AVX2, as the sandboxed ones have.
    Vector(Avx2),
    Sandboxed(Mode, bool),
    Upcall,
}

/// A server, and a client that is connected to it.
struct Pair {
    engine: Engine<Ring>,
    injector: Injector,
    sent: Sent,
    app: App,
    client: Endpoint,
    /// Ends with the pair.
    _child: Option<Child>,
}

fn address(number: u8, port: u16) -> Address {
    let socket = std::net::SocketAddrV4::new([10, 77, 0, number].into(), port);
    Address { mac: [2, 0, 0, 0, 0, number], socket }
}

/// Starts a process that is woken for each segment, and returns the handler that asks it. `urgent`:
/// it has a real-time priority.
fn upcall(mut memory: Memory, mut own: Memory, messages: View, urgent: bool) -> anyhow::Result<(Child, NativeHandler)> {
    let shared = Shared::new()?;
    // The child has a copy of the address space, in which all views are the same memory.
    let words = shared.words();
    let child = Child::start(|| {
        // Without it, it is measured as it is.
        let _ = fork::real_time(urgent);
        let mut last = 0;
        loop {
            fork::wait_while(&words.request, last);
            last = words.request.load(Ordering::Acquire);
            let value = words.value.load(Ordering::Relaxed);
            let (at, length) = ((value >> 32) as usize, value as u32 as usize);
            let work = fast::Work::default();
            let taken = fast::take(&mut own, length, work, |from, out| messages.read(at + from, out).is_ok());
            own.note(taken);
            words.answer.store(last, Ordering::Release);
            fork::wake(&words.answer);
        }
    });
    let handler = Box::new(move |call: &mut NativeCall<'_>| {
        let words = shared.words();
        words.value.store((call.at() as u64) << 32 | call.head().length() as u64, Ordering::Relaxed);
        let before = words.answer.load(Ordering::Relaxed);
        words.request.store(before.wrapping_add(1), Ordering::Release);
        fork::wake(&words.request);
        fork::wait_while(&words.answer, before);
        memory.noted().is_some_and(|taken| fast::carry_out(&taken, call))
    });
    Ok((child.context("no process")?, handler))
}

impl Way {
    /// Puts the receiver of a port into an engine, unless it is the library. Returns the memory of
    /// its connection, and a process that it needs, which may be urgent.
    pub(super) fn install<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        port: u16,
        urgent: bool,
    ) -> anyhow::Result<(Keep, Option<Child>)> {
        let spec = HandlerSpec { name: format!("tcp {port}"), ..tcp::memory(port)? };
        let keep = Keep::new(&spec)?;
        let memory = || Memory::new(&keep);
        let messages = engine.backend().memory().view()?;
        let (code, child) = match *self {
            Way::Library => return Ok((keep, None)),
            Way::Sandboxed(mode, budget) => {
                let spec = HandlerSpec { name: spec.name, ..tcp::sandboxed(port, mode, budget.then_some(BUDGET))? };
                let backend = engine.backend();
                let handler = Handler::new(spec, backend.memory(), backend.longest())?;
                let keep = handler.keep();
                engine.install(handler)?;
                return Ok((keep, None));
            }
            Way::Native(work) => (fast::native(memory()?, work), None),
            Way::Vector(avx2) => (fast::vector(memory()?, messages, avx2), None),
            Way::Upcall => {
                let (child, code) = upcall(memory()?, memory()?, messages, urgent)?;
                (code, Some(child))
            }
        };
        engine.install(Handler::native(HandlerSpec { state: 0, buffer: 0, ..spec }, code)?)?;
        Ok((keep, child))
    }
}

/// Returns all ways to receive, with the names of their columns.
pub(super) fn ways(kinds: &[(String, Mode, bool)]) -> Vec<(String, Way)> {
    let mut ways = vec![("native".to_owned(), Way::Native(fast::Work::default()))];
    ways.extend(Avx2::detect().map(|avx2| (VECTOR.to_owned(), Way::Vector(avx2))));
    ways.extend(kinds.iter().map(|(name, mode, budget)| (name.clone(), Way::Sandboxed(*mode, *budget))));
    ways.push(("upcall, futex".into(), Way::Upcall));
    ways.push(("library in the loop".into(), Way::Library));
    ways
}

/// The work on the data of a segment or datagram, with the names of columns: table II.
pub(super) const WORKS: [(&str, fast::Work); 4] = [
    ("in place, no checksum", fast::Work { copy: false, sum: false }),
    ("in place", fast::Work { copy: false, sum: true }),
    ("no checksum", fast::Work { copy: true, sum: false }),
    ("copy and checksum", fast::Work { copy: true, sum: true }),
];

impl Pair {
    fn new(way: &Way, most: u16) -> anyhow::Result<Self> {
        let (injector, ring, sent) = ring(128, 2048)?;
        let mut engine = Engine::new(ring, Duration::from_secs(3600), BTreeMap::new());
        let (keep, child) = way.install(&mut engine, PORT, false)?;
        let server = Endpoint::listen(address(2, PORT), Memory::new(&keep)?, 1000, most);
        let own = Memory::new(&Keep::new(&tcp::memory(PORT)?)?)?;
        let client = Endpoint::connect(address(1, 4000), address(2, PORT), own, 9000, most, NOW);
        let app = App { server, answers: false, declined: 0 };
        let mut pair = Self { engine, injector, sent, app, client, _child: child };
        for _ in 0..3 {
            pair.exchange()?;
        }
        ensure!(pair.app.server.stage() == Stage::Open, "no connection");
        pair.app.declined = 0;
        Ok(pair)
    }

    /// Lets the server handle all that the client sends, and hands its answers back. Returns the
    /// time of the server.
    fn exchange(&mut self) -> anyhow::Result<Duration> {
        let frames = self.client.take();
        for frame in &frames {
            self.injector.inject(frame)?;
        }
        let start = Instant::now();
        let mut left = frames.len();
        while left > 0 {
            left -= self.engine.poll(&mut self.app)?;
        }
        if !self.app.answers {
            let arrived = self.app.server.memory().waiting();
            self.app.server.skip(arrived);
        }
        let own = self.app.server.take();
        let time = start.elapsed();
        let answers: Vec<Vec<u8>> = self.sent.try_iter().chain(own).collect();
        answers.iter().for_each(|frame| self.client.receive(frame, NOW));
        Ok(time)
    }

    /// Returns the bytes for each nanosecond, in writes of this length.
    fn throughput(&mut self, write: usize) -> anyhow::Result<f64> {
        let data = vec![7; write];
        let (mut time, mut bytes) = (Duration::ZERO, 0);
        for _ in 0..WINDOWS {
            bytes += self.client.write(&data, NOW);
            time += self.exchange()?;
        }
        ensure!(bytes == WINDOWS * write, "the client's data was not acknowledged");
        Ok(bytes as f64 / time.as_nanos() as f64)
    }

    /// Returns the nanoseconds from four bytes to their answer.
    fn latency(&mut self) -> anyhow::Result<f64> {
        self.app.answers = true;
        self.app.server.memory().set_wanted(4);
        let (mut time, mut data) = (Duration::ZERO, [0; 4]);
        for _ in 0..TRIPS {
            self.client.write(b"ping", NOW);
            time += self.exchange()?;
            ensure!(self.client.read(&mut data) == 4 && data == *b"ping", "no answer");
        }
        self.app.answers = false;
        self.app.server.memory().set_wanted(0);
        Ok(time.as_nanos() as f64 / TRIPS as f64)
    }
}

/// The sizes of segments and writes: those of the paper's small segments, and of Ethernet.
pub(super) const SIZES: [(u16, usize); 2] = [(536, 4096), (1448, 8192)];

/// Measures receivers, interleaved. Rows are made of samples of each column.
fn compare(
    ways: &[(String, Way)],
    rounds: u32,
    sizes: &[(u16, usize)],
    sample: impl Fn(&mut Pair, usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    for (most, write) in sizes {
        let mut pairs: Vec<Pair> = ways.iter().map(|(_, way)| Pair::new(way, *most)).collect::<anyhow::Result<_>>()?;
        let mut samples = vec![Vec::new(); ways.len()];
        // The first round warms up and does not count.
        for round in 0..=rounds {
            for (at, pair) in pairs.iter_mut().enumerate() {
                let value = sample(pair, *write).with_context(|| ways[at].0.clone())?;
                samples[at].extend((round > 0).then_some(value));
            }
        }
        for ((name, way), pair) in ways.iter().zip(&pairs) {
            ensure!(matches!(way, Way::Library) || pair.app.declined == 0, "{name} declined a segment");
        }
        rows.push(samples.into_iter().map(median_of).collect());
    }
    Ok(rows)
}

fn table(name: &'static str, title: &str, unit: &'static str, ways: &[(String, Way)], rows: Vec<Row>) -> Table {
    Table { name, title: title.into(), unit, columns: ways.iter().map(|(name, _)| name.clone()).collect(), rows }
}

/// Measures table VI (receivers), and of table II the costs of a copy and a checksum.
pub(super) fn measure(kinds: &[(String, Mode, bool)], rounds: u32) -> anyhow::Result<[Table; 3]> {
    let ways = ways(kinds);
    let named = |values: Vec<Vec<f64>>| -> Vec<Row> {
        let rows = SIZES.iter().zip(values);
        rows.map(|((most, write), values)| Row { name: format!("{most}, writes of {write}"), values }).collect()
    };
    let rates = compare(&ways, rounds, &SIZES, Pair::throughput)?;
    let rates = table("tcp", "Receiving TCP on the ring, by bytes of a segment", "bytes/ns", &ways, named(rates));
    let times = compare(&ways, rounds, &SIZES[1..], |pair, _| pair.latency())?;
    let rows = times.into_iter().map(|values| Row { name: "4 bytes".into(), values }).collect();
    let title = "Four bytes over TCP on the ring, from the ring to the application's answer";
    let times = table("tcp_answer", title, "ns", &ways, rows);
    let ways = WORKS.map(|(name, work)| (name.to_owned(), Way::Native(work)));
    let rows = named(compare(&ways, rounds, &SIZES, Pair::throughput)?);
    let title = "Receiving TCP natively on the ring, with and without copy and checksum";
    Ok([rates, times, table("tcp_work", title, "bytes/ns", &ways, rows)])
}
