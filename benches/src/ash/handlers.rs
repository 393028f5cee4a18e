//! The handlers that are compared: in C for domains, and as functions of the host.

use anyhow::{Context, ensure};
use sfi_ash::handler::HandlerSpec;
use sfi_ash::native::{NativeCall, NativeHandler};
use sfi_contract::Mode;
use std::process::Command;
use std::time::Duration;

/// The sources: those of `examples/ash`, by links, which become files in a package.
const INCREMENT: &str = include_str!("increment.c");
const WRITE: &str = include_str!("write.c");

/// Instructions for a message of a handler with a budget: more than any message needs.
const BUDGET: u64 = 1_000_000;

/// Rewritten objects of both handlers for a mode.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) mode: Mode,
    pub(super) budget: Option<u64>,
    pub(super) increment: Vec<u8>,
    pub(super) write: Vec<u8>,
}

impl Objects {
    /// Compiles and rewrites them.
    pub(super) fn build(mode: Mode, budget: bool) -> anyhow::Result<Self> {
        Ok(Self {
            mode,
            budget: budget.then_some(BUDGET),
            increment: compile("increment.c", INCREMENT, mode, budget)?,
            write: compile("write.c", WRITE, mode, budget)?,
        })
    }

    /// Returns a name for a column.
    pub(super) fn name(&self) -> String {
        format!("{} {}", if self.budget.is_some() { "budgeted" } else { "sandboxed" }, self.mode)
    }
}

/// Compiles the last of some sources with gcc. It includes the others.
pub(super) fn gcc(sources: &[(&str, &str)], flags: &[&str]) -> anyhow::Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    for (name, text) in sources {
        std::fs::write(path(name), text)?;
    }
    let name = sources.last().context("no source")?.0;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-ffreestanding"]).args(flags).args(["-c", name, "-o", "out.o"]);
    let run = gcc.current_dir(directory.path()).output().context("`gcc` is missing")?;
    ensure!(run.status.success(), "gcc: {}", String::from_utf8_lossy(&run.stderr));
    Ok(std::fs::read(path("out.o"))?)
}

/// Compiles a handler and rewrites it.
fn compile(name: &str, text: &str, mode: Mode, budget: bool) -> anyhow::Result<Vec<u8>> {
    let flags: &[&str] = if budget { &["-ffixed-r14"] } else { &[] };
    let object = gcc(&[("ash.h", sfi_ash::HEADER), (name, text)], flags)?;
    let rewritten = sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode, budget });
    let rewritten = rewritten.map_err(|refusals| anyhow::anyhow!("{name} is refused: {}", refusals[0]))?;
    Ok(rewritten.bytes)
}

/// Describes a handler for a UDP port without code.
fn spec(name: &str, port: u16) -> anyhow::Result<HandlerSpec> {
    Ok(HandlerSpec {
        filter: format!("udp {port}").parse()?,
        owner: "bench".into(),
        state: 4096,
        segment: 64 << 10,
        // A busy machine ends no handler by chance.
        time: Duration::from_secs(10),
        ..HandlerSpec::new(name)
    })
}

/// Describes a handler in a domain.
pub(super) fn sandboxed(name: &str, port: u16, from: &Objects, object: &[u8]) -> anyhow::Result<HandlerSpec> {
    let objects = vec![(format!("{name}.o"), object.to_vec())];
    Ok(HandlerSpec { mode: from.mode, budget: from.budget, objects, ..spec(name, port)? })
}

/// Describes a handler of the host's own without a snapshot of its state.
pub(super) fn native_spec(name: &str, port: u16) -> anyhow::Result<HandlerSpec> {
    Ok(HandlerSpec { state: 0, ..spec(name, port)? })
}

/// Returns the increment as a function of the host.
pub(super) fn increment() -> NativeHandler {
    let mut sum = 0_u64;
    Box::new(move |call: &mut NativeCall<'_>| {
        let (at, mut data) = (call.head().payload(), [0; 8]);
        if call.head().length() - at != 8 || call.read(at, &mut data).is_err() {
            return false;
        }
        sum = sum.wrapping_add(u64::from_le_bytes(data));
        call.reply(&sum.to_le_bytes())
    })
}

/// Returns the write from afar as a function of the host.
pub(super) fn write() -> NativeHandler {
    Box::new(|call: &mut NativeCall<'_>| {
        let (at, mut data) = (call.head().payload(), [0; 8]);
        if call.read(at, &mut data).is_err() {
            return false;
        }
        let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes")) as usize;
        call.copy(word(0), at + 8, word(4)).is_ok() && call.reply(&data)
    })
}
