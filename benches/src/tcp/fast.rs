//! The fast path as code of the host: what `tcp.c` does, in the loop or in another process.

use super::block::{Block, Memory, Taken};
use super::segment::{ACK, PUSH, sum};
use super::vector::Avx2;
use sfi_ash::native::{NativeCall, NativeHandler};
use sfi_loader::View;
use std::ops::Range;

/// The application has the bytes that it waits for.
pub const WAKE_DATA: u32 = 1;
/// Bytes that were sent are acknowledged.
pub const WAKE_SENT: u32 = 2;

/// Bytes of the headers of Ethernet, IP and TCP without options.
pub const PAYLOAD: usize = 54;
/// Bytes that are copied and summed at a time. The cache holds them.
const PIECE: usize = 512;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn pseudo(block: &Block, length: usize) -> u64 {
    u64::from(block.peer) + u64::from(block.own) + 0x0600 + u64::from((length as u16).swap_bytes())
}

/// The work on a segment's data. Measurements leave a part of it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Copy the data to the ring.
    pub copy: bool,
    /// Check its sum.
    pub sum: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self { copy: true, sum: true }
    }
}

/// Takes a segment, if it is predicted. `read` copies bytes of the frame.
pub fn take(memory: &mut Memory, length: usize, work: Work, read: impl Fn(usize, &mut [u8]) -> bool) -> Option<Taken> {
    let pass =
        |memory: &mut Memory, block: &Block, data| pass(memory, block.arrived, PAYLOAD..PAYLOAD + data, work, &read);
    take_by(memory, length, work.sum, &read, pass)
}

/// Takes a segment, if it is predicted. `pass` passes its data to the ring, and returns the sum.
fn take_by(
    memory: &mut Memory,
    length: usize,
    sums: bool,
    read: impl Fn(usize, &mut [u8]) -> bool,
    pass: impl FnOnce(&mut Memory, &Block, usize) -> Option<u64>,
) -> Option<Taken> {
    let mut head = [0; PAYLOAD];
    let block = memory.block();
    if block.live == 0 || length < PAYLOAD || !read(0, &mut head) {
        return None;
    }
    let (data, (ip, tcp)) = (length - PAYLOAD, head[14..].split_at(20));
    let acknowledged = word(tcp, 8).swap_bytes();
    let is_predicted = word(ip, 12) == block.peer
        && word(ip, 16) == block.own
        && word(tcp, 0) == block.ports
        && word(tcp, 4).swap_bytes() == block.expected
        && ip[0] == 0x45
        && (tcp[12], tcp[13] & !PUSH) == (0x50, ACK)
        && acknowledged.wrapping_sub(block.first) <= block.most.wrapping_sub(block.first)
        && (data > 0 || acknowledged != block.first)
        && data <= memory.room(&block)
        && sum(ip, 0) == 0xffff;
    if !is_predicted {
        return None;
    }
    let found = pass(memory, &block, data)?;
    let is_right = !sums || sum(tcp, pseudo(&block, 20 + data) + found) == 0xffff;
    is_right.then(|| finish(memory, block, tcp, data))
}

/// Passes a range of a frame to the ring, piece by piece, and returns its sum. `arrived` is its
/// place in the stream.
pub fn pass(
    memory: &mut Memory,
    arrived: u64,
    range: Range<usize>,
    work: Work,
    read: impl Fn(usize, &mut [u8]) -> bool,
) -> Option<u64> {
    let (mut found, mut piece) = (0, [0; PIECE]);
    if !work.copy && !work.sum {
        return Some(0);
    }
    for at in range.clone().step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(range.end - at)];
        if !read(at, piece) {
            return None;
        }
        if work.sum {
            found += u64::from(sum(piece, 0));
        }
        if work.copy {
            memory.put(arrived.wrapping_add((at - range.start) as u64), piece);
        }
    }
    Some(found)
}

/// Advances the connection by a segment whose data is in its place.
fn finish(memory: &mut Memory, mut block: Block, tcp: &[u8], data: usize) -> Taken {
    let mut taken = Taken::default();
    let acknowledged = word(tcp, 8).swap_bytes();
    block.arrived = block.arrived.wrapping_add(data as u64);
    block.expected = block.expected.wrapping_add(data as u32);
    block.owed += u32::from(data > 0);
    if data > 0 && block.owed >= 2 {
        let window = memory.room(&block).min(usize::from(u16::MAX)) as u16;
        block.owed = 0;
        block.edge = block.expected.wrapping_add(u32::from(window));
        taken.answer = Some(acknowledgement(&block, window));
    }
    let wanted = memory.wanted();
    if wanted > 0 && block.arrived.wrapping_sub(memory.taken()) >= wanted {
        taken.wake = Some(WAKE_DATA);
    } else if acknowledged != block.first {
        taken.wake = Some(WAKE_SENT);
    }
    block.window = u32::from(u16::from_be_bytes([tcp[14], tcp[15]]));
    block.first = acknowledged;
    memory.set_block(&block);
    taken
}

fn acknowledgement(block: &Block, window: u16) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(&block.ports.rotate_left(16).to_le_bytes());
    out[4..8].copy_from_slice(&block.most.to_be_bytes());
    out[8..12].copy_from_slice(&block.expected.to_be_bytes());
    (out[12], out[13]) = (0x50, ACK);
    out[14..16].copy_from_slice(&window.to_be_bytes());
    let found = !sum(&out, pseudo(block, out.len()));
    out[16..18].copy_from_slice(&found.to_le_bytes());
    out
}

/// Returns the fast path as a handler in the receive loop.
pub fn native(mut memory: Memory, work: Work) -> NativeHandler {
    Box::new(move |call: &mut NativeCall<'_>| {
        let taken = take(&mut memory, call.head().length(), work, |at, out| call.read(at, out).is_ok());
        taken.is_some_and(|taken| carry_out(&taken, call))
    })
}

/// Returns the fast path as a handler in the receive loop, with one loop of AVX2 that copies and
/// sums. `messages` is the memory that frames arrive in.
pub fn vector(mut memory: Memory, messages: View, avx2: Avx2) -> NativeHandler {
    Box::new(move |call: &mut NativeCall<'_>| {
        let (frame, length) = (call.at(), call.head().length());
        let read = |at: usize, out: &mut [u8]| call.read(at, out).is_ok();
        let taken = take_by(&mut memory, length, true, read, |memory, block, data| {
            let from = frame + PAYLOAD;
            memory.pass(block.arrived, &messages, from..from + data, avx2)
        });
        taken.is_some_and(|taken| carry_out(&taken, call))
    })
}

/// Answers and wakes in the name of the fast path.
pub fn carry_out(taken: &Taken, call: &mut NativeCall<'_>) -> bool {
    taken.answer.is_none_or(|answer| call.reply(&answer)) && taken.wake.is_none_or(|value| call.wake(value))
}
