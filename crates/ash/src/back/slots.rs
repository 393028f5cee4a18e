//! Memory in slots of one size, for messages that the kernel copies into it.

use crate::head::Frame;
use sfi_loader::{RegionFile, View};
use std::io;

/// Memory in slots, and those that are free.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) memory: RegionFile,
    pub(super) view: View,
    pub(super) size: usize,
    free: Vec<usize>,
}

impl Slots {
    /// Makes memory for this many slots.
    pub(super) fn new(count: usize, size: usize) -> io::Result<Self> {
        let size = size.next_multiple_of(64);
        let memory = RegionFile::create((count * size) as u64)?;
        let free = (0..count).rev().map(|slot| slot * size).collect();
        Ok(Self { view: memory.view()?, memory, size, free })
    }

    /// Takes free slots, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<usize> {
        self.free.split_off(self.free.len() - most.min(self.free.len()))
    }

    /// Gives a slot back.
    pub(super) fn give(&mut self, at: usize) {
        self.free.push(at - at % self.size);
    }

    /// Gives the slot of a frame back.
    pub(super) fn release(&mut self, frame: Frame) {
        self.give(frame.at);
    }
}
