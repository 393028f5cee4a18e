//! The handlers that are compared: in C for domains, and as functions of the host.

use crate::compile::rewritten;
use sfi_ash::handler::HandlerSpec;
use sfi_ash::native::{NativeCall, NativeHandler};
use sfi_contract::Mode;
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
            increment: rewritten("increment.c", INCREMENT, mode, budget)?,
            write: rewritten("write.c", WRITE, mode, budget)?,
        })
    }

    /// Returns a name for a column.
    pub(super) fn name(&self) -> String {
        format!("{} {}", if self.budget.is_some() { "budgeted" } else { "sandboxed" }, self.mode)
    }
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
