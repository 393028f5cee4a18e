//! A linked domain: plain bytes and offsets, ready to be sealed.

use crate::memory::Segment;
use sfi_verifier::Usage;
use std::collections::HashMap;

/// A domain's memory as it is at its start, and the tables that the host keeps about it. Offsets count from the window's base.
pub struct Image {
    /// What is mapped.
    pub segments: Vec<Segment>,
    /// Bytes that are written before sealing: offset and contents, by page-aligned segment part.
    pub contents: Vec<Content>,
    /// Offset of the first byte of text behind the stubs, and the text's length in bytes.
    pub text: (u64, u64),
    /// Offset of the trap that unused dispatch slots lead to.
    pub trap: u64,
    /// Gateway entries, the trap included.
    pub gateways: Vec<u64>,
    /// Dispatch table: the code offset of every used slot. Slot 0 is the trap.
    pub slots: Vec<u64>,
    /// Functions by offset: offset, size (0 if unknown), name.
    pub functions: Vec<(u64, u64, String)>,
    /// Global functions by name.
    pub functions_by_name: HashMap<String, u64>,
    /// Global variables by name.
    pub variables: HashMap<String, u64>,
    /// Code offsets of initialisers, in order.
    pub initialisers: Vec<u64>,
    /// Code offsets of finalisers, in order.
    pub finalisers: Vec<u64>,
    /// Unmapped bytes below the data stack, `[start, end)`.
    pub stack_guard: [u64; 2],
    /// What the text uses.
    pub usage: Usage,
}

/// Initial bytes.
pub struct Content {
    /// Window offset.
    pub offset: u64,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Written again at a restart.
    pub writable: bool,
}

impl Image {
    /// The function around an offset: its name and the distance to its start.
    pub fn function(&self, offset: u64) -> Option<(String, u64)> {
        if !(self.text.0..self.text.0 + self.text.1).contains(&offset) {
            return None;
        }
        let index = self.functions.partition_point(|(start, _, _)| *start <= offset).checked_sub(1)?;
        let (start, _, name) = &self.functions[index];
        Some((name.clone(), offset - start))
    }
}
