//! `sfi ash run`

use crate::cmd::ash::load;
use crate::cmd::ash::pcap;
use crate::cmd::run::parse_seconds;
use crate::render::visible;
use anyhow::Context;
use sfi_ash::back::Backend;
use sfi_ash::back::packet::Packets;
use sfi_ash::back::ring::ring;
use sfi_ash::back::udp::Udp;
use sfi_ash::back::uring::UringUdp;
use sfi_ash::back::xdp::Xdp;
use sfi_ash::engine::{Engine, Host, Message, Reason};
use sfi_ash::manifest::Manifest;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run handlers on messages.
///
/// Messages come from a capture through a ring in this process, from UDP sockets, from an interface
/// by a packet socket or by AF_XDP, or from a tap device. UDP needs no privilege: handlers see
/// headers that the engine writes. Interfaces need CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF.
///
/// The end of the run prints what happened to the messages of each handler.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi ash run handlers.toml --pcap in.pcap --out out.pcap
  sfi ash run handlers.toml --udp 127.0.0.1:7777 --udp 127.0.0.1:7778
  sfi ash run handlers.toml --uring 127.0.0.1:7777
  sfi ash run handlers.toml --interface veth0 --seconds 10
  sfi ash run handlers.toml --xdp veth0
  sfi ash run handlers.toml --tap tap0 --verbose

Exit codes:
  0  the capture, the messages or the time are over
  2  an error: the manifest, an object that the verifier refuses, a missing privilege")]
pub struct Args {
    /// The manifest of handlers.
    manifest: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Capture: write the frames that handlers sent to this file.
    #[arg(long, value_name = "FILE", requires = "pcap")]
    out: Option<PathBuf>,
    /// End after so many messages.
    #[arg(long, value_name = "COUNT")]
    messages: Option<u64>,
    /// End after this time.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// The longest message, bytes.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    longest: u32,
    /// Poll for so long before waiting for messages, microseconds.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    spin: u32,
    /// Print each message that goes the normal way, and each wake.
    #[arg(long)]
    verbose: bool,
}

/// The source of messages.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// Take the frames of a capture, through a ring in this process.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Take datagrams for this address. May be given more than once.
    #[arg(long, value_name = "IP:PORT")]
    udp: Vec<SocketAddrV4>,
    /// As --udp, through an io_uring: fewer system calls. Needs Linux 6.0.
    #[arg(long, value_name = "IP:PORT")]
    uring: Vec<SocketAddrV4>,
    /// Take the frames that arrive at an interface.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Take the frames of an interface's first queue by AF_XDP. The kernel does not see them then.
    #[arg(long, value_name = "NAME")]
    xdp: Option<String>,
    /// Make a tap device and take its frames.
    #[arg(long, value_name = "NAME")]
    tap: Option<String>,
}

/// The application: it counts and prints.
struct App {
    verbose: bool,
    normal: u64,
    wakes: u64,
}

impl Host for App {
    fn normal(&mut self, message: &Message<'_>) {
        self.normal += 1;
        if !self.verbose {
            return;
        }
        let name = message.handler.map_or_else(String::new, |name| format!("{}: ", visible(name)));
        let reason = match &message.reason {
            Reason::NoHandler => "no handler".to_owned(),
            Reason::Declined => "declined".to_owned(),
            Reason::Faulted(fault) => format!("fault: {}", visible(&fault.to_string())),
            Reason::Deferred => "left for later".to_owned(),
            Reason::Suspended => "suspended".to_owned(),
        };
        println!("{name}{reason}: {} bytes", message.bytes().len());
    }

    fn wake(&mut self, handler: &str, value: u32) {
        self.wakes += 1;
        if self.verbose {
            println!("{}: wake {value}", visible(handler));
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifest = load::manifest(&args.manifest)?;
    let directory = args.manifest.parent().unwrap_or(Path::new(""));
    let longest = args.longest as usize;
    let mut app = App { verbose: args.verbose, normal: 0, wakes: 0 };
    if let Some(path) = &args.source.pcap {
        replay(args, &manifest, path, &mut app)?;
        return Ok(ExitCode::SUCCESS);
    }
    let backend: Box<dyn Backend> = match &args.source {
        Source { interface: Some(name), .. } => {
            let packets = Packets::listen(name, longest);
            Box::new(packets.with_context(|| format!("cannot listen at `{}`: this needs CAP_NET_RAW", visible(name)))?)
        }
        Source { xdp: Some(name), .. } => {
            let xdp = Xdp::listen(name, 0).with_context(|| format!("no AF_XDP at `{}`", visible(name)))?;
            let copies = if xdp.is_zero_copy() { "zero copy" } else { "one copy" };
            eprintln!("AF_XDP: {copies}, program in {:?} mode", xdp.mode());
            Box::new(xdp)
        }
        Source { tap: Some(name), .. } => {
            let packets = Packets::tap(name, longest);
            Box::new(packets.with_context(|| format!("cannot make `{}`: this needs CAP_NET_ADMIN", visible(name)))?)
        }
        Source { uring, .. } if !uring.is_empty() => {
            let udp = UringUdp::bind(uring, longest).context("cannot bind UDP sockets on an io_uring")?;
            udp.addresses().for_each(|address| eprintln!("udp {address}"));
            Box::new(udp)
        }
        Source { udp, .. } => {
            let udp = Udp::bind(udp, longest).context("cannot bind the UDP sockets")?;
            udp.addresses().for_each(|address| eprintln!("udp {address}"));
            Box::new(udp)
        }
    };
    let mut engine = load::engine(&manifest, directory, backend)?;
    engine.set_spin(Duration::from_micros(args.spin.into()));
    serve(args, &mut engine, &mut app)?;
    report(&engine, &app);
    Ok(ExitCode::SUCCESS)
}

/// Handles messages until the run is over.
fn serve<B: Backend>(args: &Args, engine: &mut Engine<B>, app: &mut App) -> anyhow::Result<()> {
    let (start, mut handled) = (Instant::now(), 0);
    loop {
        let left = args.seconds.map(|limit| limit.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) || args.messages.is_some_and(|most| handled >= most) {
            return Ok(());
        }
        let time = left.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
        handled += engine.wait(app, time).context("the source of messages fails")? as u64;
    }
}

/// Handles the frames of a capture.
fn replay(args: &Args, manifest: &Manifest, path: &Path, app: &mut App) -> anyhow::Result<()> {
    let bytes = sfi_loader::manifest::file::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let (frames, cut) = pcap::read(&bytes).with_context(|| format!("cannot use `{}`", path.display()))?;
    if cut > 0 {
        eprintln!("note: {cut} frames of the capture were cut, and are left out");
    }
    let (mut injector, ring, sent) = ring(64, args.longest as usize)?;
    let directory = args.manifest.parent().unwrap_or(Path::new(""));
    let mut engine = load::engine(manifest, directory, ring)?;
    let most = args.messages.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let mut out = Vec::new();
    for frame in frames.iter().take(most) {
        injector.inject(frame).with_context(|| format!("a frame of {} bytes", frame.len()))?;
        engine.poll(app)?;
        out.extend(sent.try_iter());
    }
    if let Some(path) = &args.out {
        let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
        pcap::write(BufWriter::new(file), out.iter().map(Vec::as_slice))?;
    }
    report(&engine, app);
    Ok(())
}

/// Prints the counts of a run.
fn report<B: Backend>(engine: &Engine<B>, app: &App) {
    for (name, counts) in engine.counts() {
        let name = visible(name);
        println!(
            "{name}: {} messages: {} committed, {} declined, {} faulted, {} left for later, {} suspended; {} frames sent, \
             {} lost",
            counts.messages,
            counts.committed,
            counts.declined,
            counts.faulted,
            counts.deferred,
            counts.suspended,
            counts.sent,
            counts.lost
        );
    }
    println!("{} messages without a handler, {} on the normal way, {} wakes", engine.unclaimed, app.normal, app.wakes);
    if engine.undelivered > 0 {
        println!("{} of the frames sent were lost by the back end", engine.undelivered);
    }
}
