//! Shared parts of the tests: handlers in C, and engines over the ring in this process.
#![allow(dead_code)]

use sfi_ash::back::ring::{Injector, Ring, Sent, ring};
use sfi_ash::engine::{Engine, Host, Message, Reason};
use sfi_ash::handler::{Handler, HandlerSpec};
use sfi_ash::packet::{Datagram, UDP_PAYLOAD};
use sfi_loader::Mode;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The modes of handlers.
pub const MODES: [Mode; 2] = [Mode::Write, Mode::Full];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a source to an object or to assembly (`-S`). A missing compiler fails the test.
pub fn gcc(source: &Path, kind: &str) -> Vec<u8> {
    gcc_with(source, kind, &[])
}

/// As `gcc`, with more options.
pub fn gcc_with(source: &Path, kind: &str, options: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g0", "-fPIE", "-ffreestanding", "-fno-builtin", "-fcf-protection=none", "-Wall"]);
    gcc.args(options);
    gcc.arg("-I").arg(root().join("crates/ash/include")).arg(kind).arg(source).arg("-o").arg(&out);
    assert!(gcc.status().expect("gcc is needed for these tests").success(), "gcc refused {}", source.display());
    std::fs::read(out).unwrap()
}

/// Compiles and rewrites a source.
pub fn compile(source: &Path, mode: Mode) -> Vec<u8> {
    rewrite(&gcc(source, "-c"), &sfi_rewriter::Options { mode, ..Default::default() })
}

/// Rewrites an object.
pub fn rewrite(object: &[u8], options: &sfi_rewriter::Options) -> Vec<u8> {
    sfi_rewriter::rewrite(object, options).expect("the object can be rewritten").bytes
}

/// Compiles and rewrites text.
pub fn compile_text(text: &str, extension: &str, mode: Mode) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join(format!("source.{extension}"));
    std::fs::write(&source, text).unwrap();
    compile(&source, mode)
}

/// Returns the path of an example.
pub fn example(name: &str) -> PathBuf {
    root().join("examples/ash").join(name)
}

/// Describes a handler for a UDP port from one object, with a page of state and of segment.
pub fn spec(name: &str, object: Vec<u8>, mode: Mode) -> HandlerSpec {
    HandlerSpec {
        filter: "udp 7777".parse().unwrap(),
        owner: "owner".into(),
        mode,
        objects: vec![(format!("{name}.o"), object)],
        state: 4096,
        segment: 4096,
        // So long that a busy machine does not end a handler by chance.
        time: Duration::from_secs(10),
        ..HandlerSpec::new(name)
    }
}

/// The messages and wakes that the application saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct App {
    /// The reasons and bytes of messages on the normal way.
    pub normal: Vec<(String, Vec<u8>)>,
    /// Wakes.
    pub wakes: Vec<(String, u32)>,
}

impl Host for App {
    fn normal(&mut self, message: &Message<'_>) {
        let reason = match &message.reason {
            Reason::Faulted(fault) => format!("Faulted: {}", fault.kind),
            other => format!("{other:?}"),
        };
        self.normal.push((reason, message.bytes()));
    }

    fn wake(&mut self, handler: &str, value: u32) {
        self.wakes.push((handler.to_owned(), value));
    }
}

/// An engine over the ring, and both of its ends.
pub struct Bench {
    pub engine: Engine<Ring>,
    pub injector: Injector,
    pub sent: Sent,
    pub app: App,
}

impl Bench {
    pub fn new(quotas: &[(&str, u32)]) -> Self {
        let (injector, ring, sent) = ring(256, 8192).unwrap();
        let quotas: BTreeMap<String, u32> = quotas.iter().map(|(name, quota)| (name.to_string(), *quota)).collect();
        // Ticks are so long that no test meets one by chance.
        let engine = Engine::new(ring, Duration::from_secs(3600), quotas);
        Self { engine, injector, sent, app: App::default() }
    }

    /// An engine with one handler.
    pub fn with(spec: HandlerSpec) -> Self {
        let mut bench = Self::new(&[]);
        bench.install(spec);
        bench
    }

    pub fn handler(&mut self, spec: HandlerSpec) -> Handler {
        use sfi_ash::back::Backend;
        let backend = self.engine.backend();
        Handler::new(spec, backend.memory(), backend.longest()).unwrap()
    }

    pub fn install(&mut self, spec: HandlerSpec) {
        let handler = self.handler(spec);
        self.engine.install(handler).unwrap();
    }

    /// Injects one frame and handles it. Returns the frames that were sent.
    pub fn take(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.injector.inject(frame).unwrap();
        assert_eq!(self.engine.poll(&mut self.app).unwrap(), 1);
        self.sent.try_iter().collect()
    }

    /// As `take` for a datagram. Returns the contents of the answers.
    pub fn datagram(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        self.take(&datagram(7777, data)).into_iter().map(|frame| frame[UDP_PAYLOAD..].to_vec()).collect()
    }

    /// Copies bytes of a handler's state.
    pub fn state(&self, handler: &str, length: usize) -> Vec<u8> {
        read(&self.engine.handler(handler).unwrap().keep().state().unwrap(), length)
    }

    /// Copies bytes of a handler's segment.
    pub fn segment(&self, handler: &str, length: usize) -> Vec<u8> {
        read(&self.engine.handler(handler).unwrap().keep().segment().unwrap(), length)
    }
}

fn read(view: &sfi_loader::View, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    view.read(0, &mut bytes).unwrap();
    bytes
}

/// The addresses of the tests' datagrams.
pub fn addresses(port: u16) -> Datagram {
    Datagram {
        from_mac: [2, 0, 0, 0, 0, 1],
        to_mac: [2, 0, 0, 0, 0, 2],
        from: "10.77.0.1:4000".parse().unwrap(),
        to: format!("10.77.0.2:{port}").parse().unwrap(),
    }
}

/// Makes the frame of a datagram.
pub fn datagram(port: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    addresses(port).write(data, &mut frame).unwrap();
    frame
}
