//! A small TCP in user space, whose receiver has a fast path in a handler of messages.
//!
//! It is as complete as that of the paper on handlers: segments are retransmitted after a time,
//! segments that come too early are kept, and the receiver's window is respected. It has no control
//! of congestion, no fast retransmission and no options but the size of segments. Connections end
//! with FIN in both directions, or with RST.
//!
//! Time is that of the caller, so tests need no clock.

mod block;
mod endpoint;
pub mod fast;
mod segment;
mod vector;

use crate::compile::rewritten;
use sfi_ash::handler::HandlerSpec;
use sfi_contract::Mode;
use std::time::Duration;

pub use block::{BUFFER, Block, Memory, RING, STATE, Taken};
pub use endpoint::{Endpoint, Stage};
pub use segment::{ACK, Address, FIN, PUSH, RST, SYN, Segment, sum};
pub use vector::Avx2;

/// The fast path in C.
const HANDLER: &str = include_str!("tcp.c");
/// Its loop.
const PIPES: &str = "copy | checksum";

/// Describes the memory of a connection, and a handler for a port without code.
///
/// # Errors
/// None for ports that a filter can name.
pub fn memory(port: u16) -> anyhow::Result<HandlerSpec> {
    Ok(HandlerSpec {
        filter: format!("tcp {port}").parse()?,
        owner: "tcp".into(),
        state: STATE,
        buffer: BUFFER,
        // A busy machine ends no handler by chance.
        time: Duration::from_secs(10),
        ..HandlerSpec::new("tcp")
    })
}

/// Compiles and describes the fast path for a domain. It needs gcc.
///
/// # Errors
/// If it cannot be compiled.
pub fn sandboxed(port: u16, mode: Mode, budget: Option<u64>) -> anyhow::Result<HandlerSpec> {
    let object = rewritten("tcp.c", HANDLER, mode, budget.is_some())?;
    let pipes = vec![sfi_dilp::builtin::chain(PIPES)?];
    Ok(HandlerSpec { mode, budget, pipes, objects: vec![("tcp.o".into(), object)], ..memory(port)? })
}
