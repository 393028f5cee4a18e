//! The memory that a connection shares with its fast path: `struct block` and `struct words` of
//! `tcp.c`.

use super::vector::Avx2;
use sfi_ash::handler::Keep;
use sfi_loader::View;
use std::io;
use std::ops::Range;

/// Bytes of the state: a block.
pub const STATE: u64 = 4096;
/// Place of the ring in the buffer.
pub const RING: usize = 4096;
/// Bytes of the buffer: the application's words, and a ring of 64 KiB.
pub const BUFFER: u64 = RING as u64 + (64 << 10);

/// The connection, as library and fast path know it. See `tcp.c` for each field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `tcp.c`, where they are described")]
pub struct Block {
    pub live: u32,
    pub expected: u32,
    pub first: u32,
    pub most: u32,
    pub window: u32,
    pub owed: u32,
    pub edge: u32,
    pub peer: u32,
    pub own: u32,
    pub ports: u32,
    pub size: u32,
    pub arrived: u64,
}

/// Bytes of a block.
const BYTES: usize = 56;
/// Place of the fast path's wishes in the state, if another process has them.
const NOTE: usize = 2048;

/// The wishes of the fast path for a segment that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// An acknowledgement: a header of TCP.
    pub answer: Option<[u8; 20]>,
    /// The reason to wake the application.
    pub wake: Option<u32>,
}

impl Block {
    fn decode(bytes: &[u8; BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let arrived = u64::from(word(12)) | u64::from(word(13)) << 32;
        let [live, expected, first, most, window, owed, edge, peer, own, ports, size] = std::array::from_fn(word);
        Self { live, expected, first, most, window, owed, edge, peer, own, ports, size, arrived }
    }

    fn encode(&self) -> [u8; BYTES] {
        let Self { live, expected, first, most, window, owed, edge, peer, own, ports, size, arrived } = *self;
        let words = [live, expected, first, most, window, owed, edge, peer, own, ports, size, 0];
        let mut bytes = [0; BYTES];
        bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes[48..].copy_from_slice(&arrived.to_le_bytes());
        bytes
    }
}

/// The memory of a connection.
#[derive(Debug)]
pub struct Memory {
    state: View,
    buffer: View,
}

impl Memory {
    /// Maps the memory of a handler. Its state has [`STATE`] bytes, and its buffer [`RING`] bytes
    /// and a power of two.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(keep: &Keep) -> io::Result<Self> {
        Ok(Self { state: keep.state()?, buffer: keep.buffer()? })
    }

    /// Returns the bytes of the ring.
    pub fn size(&self) -> usize {
        self.buffer.len() - RING
    }

    /// Copies the block.
    pub fn block(&self) -> Block {
        let mut bytes = [0; BYTES];
        self.state.read(0, &mut bytes).expect("the state has a block");
        Block::decode(&bytes)
    }

    /// Overwrites the block.
    pub fn set_block(&mut self, block: &Block) {
        self.state.write(0, &block.encode()).expect("the state has a block");
    }

    fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.buffer.read(8 * at, &mut bytes).expect("the buffer has words");
        u64::from_le_bytes(bytes)
    }

    /// Returns the number of bytes that the application took.
    pub fn taken(&self) -> u64 {
        self.word(0)
    }

    /// Sets the number of bytes that the application took.
    pub fn set_taken(&mut self, taken: u64) {
        self.buffer.write(0, &taken.to_le_bytes()).expect("the buffer has words");
    }

    /// Returns the number of bytes that the application waits for, or 0.
    pub fn wanted(&self) -> u64 {
        self.word(1)
    }

    /// Sets the number of bytes that the application waits for, or 0.
    pub fn set_wanted(&mut self, wanted: u64) {
        self.buffer.write(8, &wanted.to_le_bytes()).expect("the buffer has words");
    }

    /// Returns the number of bytes that wait for the application.
    pub fn waiting(&self) -> usize {
        self.block().arrived.wrapping_sub(self.taken()).min(self.size() as u64) as usize
    }

    /// Leaves the wishes of the fast path for another process.
    pub fn note(&mut self, taken: Option<Taken>) {
        let mut bytes = [0; 28];
        if let Some(Taken { answer, wake }) = taken {
            bytes[0] = 1 | u8::from(answer.is_some()) << 1;
            bytes[4..8].copy_from_slice(&wake.unwrap_or(0).to_le_bytes());
            bytes[8..].copy_from_slice(&answer.unwrap_or([0; 20]));
        }
        self.state.write(NOTE, &bytes).expect("the state has a note");
    }

    /// Returns the wishes that another process left.
    pub fn noted(&mut self) -> Option<Taken> {
        let mut bytes = [0; 28];
        self.state.read(NOTE, &mut bytes).expect("the state has a note");
        let wake = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let answer = (bytes[0] & 2 != 0).then(|| bytes[8..].try_into().expect("twenty bytes"));
        (bytes[0] & 1 != 0).then_some(Taken { answer, wake: (wake != 0).then_some(wake) })
    }

    /// Returns the room for bytes that arrive, and none if the block was damaged.
    pub fn room(&self, block: &Block) -> usize {
        (self.size() as u64).saturating_sub(block.arrived.wrapping_sub(self.taken())) as usize
    }

    /// Returns the place in the buffer of a byte of the stream, and the bytes from there to the
    /// ring's end.
    pub fn place(&self, at: u64) -> (usize, usize) {
        let from = at as usize & (self.size() - 1);
        (RING + from, self.size() - from)
    }

    /// Copies bytes of the stream into the ring.
    pub fn put(&mut self, at: u64, data: &[u8]) {
        let (place, most) = self.place(at);
        let (first, rest) = data.split_at(most.min(data.len()));
        self.buffer.write(place, first).expect("the place lies in the ring");
        self.buffer.write(RING, rest).expect("data is shorter than the ring");
    }

    /// Copies a range of other memory into the ring, and returns its sum.
    pub fn pass(&mut self, at: u64, from: &View, range: Range<usize>, avx2: Avx2) -> Option<u64> {
        let (place, most) = self.place(at);
        let cut = range.end.min(range.start + most);
        let first = avx2.copy(&mut self.buffer, place, from, range.start..cut)?;
        let rest = avx2.copy(&mut self.buffer, RING, from, cut..range.end)?;
        // The words of a part after an odd number of bytes are turned round.
        let is_odd = (cut - range.start) % 2 == 1;
        Some(u64::from(first) + u64::from(if is_odd { rest.swap_bytes() } else { rest }))
    }

    /// Copies bytes of the stream out of the ring.
    pub fn get(&self, at: u64, out: &mut [u8]) {
        let (place, most) = self.place(at);
        let (first, rest) = out.split_at_mut(most.min(out.len()));
        self.buffer.read(place, first).expect("the place lies in the ring");
        self.buffer.read(RING, rest).expect("data is shorter than the ring");
    }
}
