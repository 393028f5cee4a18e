//! Round trips over veth between two network namespaces.

use super::handlers::{self, Objects};
use super::{Place, Row, Table, ebpf, median_of, net, peers};
use crate::fork::{self, Child};
use anyhow::{Context, bail};
use sfi_ash::back::Backend;
use sfi_ash::back::xdp::Xdp;
use sfi_ash::bpf::{self, Attach, Attached, Map, Program};
use sfi_ash::engine::{Control, Engine, Host, Message};
use sfi_ash::handler::Handler;
use sfi_loader::RegionFile;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The port of all servers.
const PORT: u16 = 7777;
/// Pairs of devices. The engine has the first, eBPF the second, and processes the third. The fourth
/// is for [`super::stream`].
const PAIRS: u8 = 4;
/// Round trips of one sample.
const TRIPS: usize = 200;
/// The time for which an engine that spins polls before it waits.
const SPIN: Duration = Duration::from_micros(50);
/// The longest wait for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

struct App;

impl Host for App {
    fn normal(&mut self, _: &Message<'_>) {}
    fn wake(&mut self, _: &str, _: u32) {}
}

/// Work for the server's thread, which is in the other namespace.
type Job = Box<dyn FnOnce() + Send>;

/// Wishes of the client's side.
#[derive(Default)]
struct Flags {
    /// The engine polls. Otherwise it waits with epoll.
    polls: AtomicBool,
    /// The engine polls for a short time before it waits.
    spins: AtomicBool,
    stop: AtomicBool,
}

/// The server's side: an engine on AF_XDP in a thread of its own, and an XDP program.
pub(super) struct Server {
    control: Control,
    memory: RegionFile,
    longest: usize,
    flags: Arc<Flags>,
    jobs: Sender<Job>,
    place: Place,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// A note about the mode of AF_XDP.
    pub(super) note: String,
    _pass: (Program, Attached),
}

/// The report of the server's thread once it is ready.
struct Ready {
    control: Control,
    memory: RegionFile,
    longest: usize,
    note: String,
}

impl Server {
    /// Makes two namespaces, this thread in one of them, and starts the server in the other.
    pub(super) fn start(place: Place) -> anyhow::Result<Self> {
        net::enter_new()?;
        let flags = Arc::new(Flags::default());
        let (jobs, todo) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let wishes = Arc::clone(&flags);
        let thread = thread::spawn(move || -> anyhow::Result<()> {
            net::enter_new()?;
            tell.send(fork::thread())?;
            gone.recv()?;
            serve(&wishes, place, &todo, &ready)
        });
        let failed = |thread: JoinHandle<anyhow::Result<()>>| match thread.join() {
            Ok(Err(error)) => error,
            _ => anyhow::anyhow!("the server's thread ended"),
        };
        let Ok(number) = told.recv() else { return Err(failed(thread)) };
        for pair in 0..PAIRS {
            net::pair(pair, number)?;
        }
        // A frame that XDP sends back needs a receiver whose driver expects such frames.
        let pass = Program::load(&bpf::pass())?;
        let attached = pass.attach("out1", Attach::Native).context("XDP at a veth device")?;
        let _ = go.send(());
        let Ok(Ready { control, memory, longest, note }) = is_ready.recv() else { return Err(failed(thread)) };
        for pair in 0..PAIRS {
            net::await_queue(&format!("out{pair}"))?;
        }
        let _pass = (pass, attached);
        Ok(Self { control, memory, longest, flags, jobs, place, thread: Some(thread), note, _pass })
    }

    /// Puts a handler into the engine.
    fn install(&self, handler: Handler) -> anyhow::Result<()> {
        let answer = self.control.install(handler).recv_timeout(PATIENCE);
        Ok(answer.context("the engine does not take a handler over")??)
    }

    /// Does something on the server's thread, and returns its result.
    fn there<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> anyhow::Result<R> {
        self.begin(job).recv_timeout(PATIENCE).context("the server's thread ended, or does not run")
    }

    /// Begins something on the server's thread. Its result arrives once it is done.
    pub(super) fn begin<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
        let (done, result) = mpsc::channel();
        let job: Job = Box::new(move || _ = done.send(job()));
        // A thread that ended drops the job, and with it the sender of its result.
        let _ = self.jobs.send(job);
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The bench has its results, or its error, already.
            let _ = thread.join();
        }
    }
}

/// Runs the server's thread.
fn serve(flags: &Flags, place: Place, jobs: &Receiver<Job>, ready: &Sender<Ready>) -> anyhow::Result<()> {
    for pair in 0..PAIRS {
        net::ip(&format!("link set in{pair} up"))?;
    }
    net::ip("addr add 10.77.2.2/24 dev in2")?;
    for pair in 0..PAIRS {
        net::await_queue(&format!("in{pair}"))?;
    }
    let xdp = Xdp::listen("in0", 0).context("AF_XDP at a veth device")?;
    let copies = if xdp.is_zero_copy() { "zero copy" } else { "one copy" };
    let note = format!("AF_XDP: {copies}, program in {:?} mode", xdp.mode());
    let (program, _map): (Program, Map) = ebpf::increment(PORT).context("the eBPF program")?;
    let _attached = program.attach("in1", Attach::Native).context("XDP at a veth device")?;
    let (memory, longest) = (xdp.memory().clone(), xdp.longest());
    let mut engine = Engine::new(xdp, Duration::from_secs(1), BTreeMap::new());
    ready.send(Ready { control: engine.control(), memory, longest, note })?;
    fork::pin(place.server)?;
    while !flags.stop.load(Ordering::Relaxed) {
        while let Ok(job) = jobs.try_recv() {
            job();
        }
        if flags.polls.load(Ordering::Relaxed) {
            for _ in 0..64 {
                if engine.poll(&mut App)? == 0 && place.is_shared() {
                    thread::yield_now();
                }
            }
        } else {
            // On a processor of both sides the client cannot run while the engine polls.
            let spins = flags.spins.load(Ordering::Relaxed) && !place.is_shared();
            engine.set_spin(if spins { SPIN } else { Duration::ZERO });
            engine.wait(&mut App, Duration::from_millis(20))?;
        }
    }
    Ok(())
}

/// A client that polls for its answers for a short time, and then waits. The kernel may have to do
/// its part of the work on this processor.
struct Client(UdpSocket);

/// The time for which the client polls.
const POLLS: Duration = Duration::from_micros(200);

impl Client {
    fn new() -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Returns the microseconds of a round trip.
    fn trip(&self, to: &str) -> anyhow::Result<f64> {
        let mut answer = [0; 16];
        let start = Instant::now();
        self.0.send_to(&1_u64.to_le_bytes(), to)?;
        let mut polling = true;
        self.0.set_nonblocking(true)?;
        loop {
            match self.0.recv(&mut answer) {
                Ok(8) => return Ok(start.elapsed().as_nanos() as f64 / 1000.0),
                Ok(length) => bail!("an answer of {length} bytes"),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if !polling => bail!("no answer from {to}"),
                Err(_) if start.elapsed() > POLLS => {
                    polling = false;
                    self.0.set_nonblocking(false)?;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns the times of many round trips.
    fn trips(&self, to: &str, count: usize) -> anyhow::Result<Vec<f64>> {
        (0..count).map(|_| self.trip(to)).collect()
    }
}

/// The places of the servers.
const ENGINE: &str = "10.77.0.2:7777";
const EBPF: &str = "10.77.1.2:7777";
const KERNEL: &str = "10.77.2.2:7777";

/// A process that answers, or none.
struct Peer<'s> {
    server: &'s Server,
    child: Option<Child>,
}

impl Drop for Peer<'_> {
    /// Ends the process. It may have the engine's processor and priority, so an engine that polls
    /// would keep it from ending.
    fn drop(&mut self) {
        let polls = self.server.flags.polls.swap(false, Ordering::Relaxed);
        self.child = None;
        self.server.flags.polls.store(polls, Ordering::Relaxed);
    }
}

/// A way to answer an increment.
enum Way<'a> {
    Native,
    Sandboxed(&'a Objects),
    Upcall,
    Ebpf,
    Process { polling: bool },
}

impl Way<'_> {
    fn name(&self) -> String {
        match self {
            Way::Native => "native in the loop".into(),
            Way::Sandboxed(objects) => objects.name(),
            Way::Upcall => "upcall, futex".into(),
            Way::Ebpf => "eBPF/XDP, map".into(),
            Way::Process { polling: true } => "process, polling".into(),
            Way::Process { polling: false } => "process, blocked".into(),
        }
    }

    /// Gets the server ready for it. The result has the address, and a process that answers.
    /// `ordinary`: such a process has the priority of any other.
    fn prepare<'s>(&self, server: &'s Server, ordinary: bool) -> anyhow::Result<(&'static str, Peer<'s>)> {
        let mut peer = Peer { server, child: None };
        let place = match self {
            Way::Native => {
                server.install(Handler::native(handlers::native_spec("increment", PORT)?, handlers::increment())?)?;
                ENGINE
            }
            Way::Sandboxed(objects) => {
                let spec = handlers::sandboxed("increment", PORT, objects, &objects.increment)?;
                server.install(Handler::new(spec, &server.memory, server.longest)?)?;
                ENGINE
            }
            Way::Upcall => {
                let (child, code) = server.there(move || peers::upcall(ordinary))??;
                peer.child = Some(child);
                server.install(Handler::native(handlers::native_spec("increment", PORT)?, code)?)?;
                ENGINE
            }
            Way::Ebpf => EBPF,
            Way::Process { polling } => {
                let how = peers::How { polling: *polling, yields: server.place.is_shared(), ordinary };
                peer.child = Some(server.there(move || peers::serve(KERNEL, how))??);
                KERNEL
            }
        };
        Ok((place, peer))
    }
}

fn ways(objects: &[Objects]) -> Vec<Way<'_>> {
    let mut ways = vec![Way::Native];
    ways.extend(objects.iter().map(Way::Sandboxed));
    ways.extend([Way::Ebpf, Way::Upcall, Way::Process { polling: false }, Way::Process { polling: true }]);
    ways
}

/// Measures one sample of a way.
fn sample(
    server: &Server,
    client: &Client,
    way: &Way<'_>,
    (count, ordinary): (usize, bool),
) -> anyhow::Result<Vec<f64>> {
    let (place, peer) = way.prepare(server, ordinary)?;
    // An engine that polls takes a processor from processes that answer without it.
    let idle = matches!(way, Way::Process { .. } | Way::Ebpf);
    let polling = &server.flags.polls;
    let polls = polling.swap(polling.load(Ordering::Relaxed) && !idle, Ordering::Relaxed);
    let times = client.trips(place, count.min(20)).and_then(|_| client.trips(place, count));
    polling.store(polls, Ordering::Relaxed);
    drop(peer);
    times.with_context(|| way.name())
}

/// Gives client and server a priority over ordinary processes, as a receive path in the kernel has,
/// or takes it back.
fn prioritise(server: &Server, on: bool) -> anyhow::Result<()> {
    server.there(move || fork::real_time(on))?.context("no real-time priority")?;
    fork::real_time(on).context("no real-time priority")
}

/// Measures round trips of all ways, interleaved: with an engine that polls, and with one that
/// waits. Client, engine and processes all have a priority, so a busy machine disturbs them little.
pub(super) fn round_trips(server: &Server, objects: &[Objects], rounds: u32) -> anyhow::Result<Table> {
    let client = Client::new()?;
    let ways = ways(objects);
    let mut rows = Vec::new();
    prioritise(server, true)?;
    for (name, polls, spins) in
        [("the engine polls", true, false), ("polls 50 us, then waits", false, true), ("waits", false, false)]
    {
        server.flags.polls.store(polls, Ordering::Relaxed);
        server.flags.spins.store(spins, Ordering::Relaxed);
        let mut samples = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for (way, samples) in ways.iter().zip(&mut samples) {
                samples.extend(sample(server, &client, way, (TRIPS, false))?);
            }
        }
        rows.push(Row { name: name.into(), values: samples.into_iter().map(median_of).collect() });
    }
    prioritise(server, false)?;
    Ok(Table {
        name: "round_trip",
        title: "Round trip of an increment over veth, client in another namespace".into(),
        unit: "us",
        columns: ways.iter().map(Way::name).collect(),
        rows,
    })
}

/// Measures round trips beside processes that compute. The engine's thread and the client have a
/// priority. Processes that answer are as ordinary as those that compute.
pub(super) fn figure(server: &Server, objects: &[Objects], counts: &[usize], rounds: u32) -> anyhow::Result<Table> {
    let client = Client::new()?;
    let ways = ways(objects);
    server.flags.polls.store(false, Ordering::Relaxed);
    server.flags.spins.store(true, Ordering::Relaxed);
    prioritise(server, true)?;
    let mut rows = Vec::new();
    for count in counts {
        let busy = peers::Busy::start(*count)?;
        thread::sleep(Duration::from_millis(100));
        let mut values = Vec::new();
        for way in &ways {
            let mut samples = Vec::new();
            for _ in 0..rounds {
                // Processes that wait for their turn take long.
                let is_slow = matches!(way, Way::Upcall | Way::Process { .. }) && *count > 0;
                samples.extend(sample(server, &client, way, (if is_slow { 10 } else { TRIPS }, true))?);
            }
            values.push(median_of(samples));
        }
        drop(busy);
        rows.push(Row { name: count.to_string(), values });
    }
    prioritise(server, false)?;
    Ok(Table {
        name: "figure",
        title: "Round trip of an increment beside runnable processes; the engine polls 50 us, then waits".into(),
        unit: "us",
        columns: ways.iter().map(Way::name).collect(),
        rows,
    })
}
