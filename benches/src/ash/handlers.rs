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

/// Rewritten objects of both handlers for a mode.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) mode: Mode,
    pub(super) increment: Vec<u8>,
    pub(super) write: Vec<u8>,
}

impl Objects {
    /// Compiles and rewrites them.
    pub(super) fn build(mode: Mode) -> anyhow::Result<Self> {
        Ok(Self { mode, increment: compile("increment.c", INCREMENT, mode)?, write: compile("write.c", WRITE, mode)? })
    }
}

/// Compiles a source with gcc and rewrites it.
fn compile(name: &str, text: &str, mode: Mode) -> anyhow::Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path(name), text)?;
    std::fs::write(path("ash.h"), sfi_ash::HEADER)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-ffreestanding", "-c", name, "-o", "out.o"]).current_dir(directory.path());
    let run = gcc.output().context("`gcc` is missing")?;
    ensure!(run.status.success(), "gcc: {}", String::from_utf8_lossy(&run.stderr));
    let object = std::fs::read(path("out.o"))?;
    let rewritten = sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode, budget: false });
    let rewritten = rewritten.map_err(|refusals| anyhow::anyhow!("{name} is refused: {}", refusals[0]))?;
    Ok(rewritten.bytes)
}

/// Describes a handler for a UDP port.
pub(super) fn spec(name: &str, port: u16, mode: Mode, object: Option<&[u8]>) -> anyhow::Result<HandlerSpec> {
    Ok(HandlerSpec {
        filter: format!("udp {port}").parse()?,
        owner: "bench".into(),
        mode,
        objects: object.map(|bytes| (format!("{name}.o"), bytes.to_vec())).into_iter().collect(),
        state: 4096,
        segment: 64 << 10,
        // A busy machine ends no handler by chance.
        time: Duration::from_secs(10),
        ..HandlerSpec::new(name)
    })
}

/// Describes a handler of the host's own without a snapshot of its state.
pub(super) fn native_spec(name: &str, port: u16) -> anyhow::Result<HandlerSpec> {
    Ok(HandlerSpec { state: 0, ..spec(name, port, Mode::Write, None)? })
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
