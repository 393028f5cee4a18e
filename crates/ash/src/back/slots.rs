//! Memory in slots of one size, for messages that the kernel copies into it.

use crate::back::Area;
use crate::head::Frame;
use std::io;

/// Memory in slots, and those that are free.
#[derive(Debug)]
pub(super) struct Slots {
    /// The longest frame fills a slot.
    pub(super) area: Area,
    free: Vec<usize>,
}

impl Slots {
    /// Makes memory for this many slots.
    pub(super) fn new(count: usize, size: usize) -> io::Result<Self> {
        let size = size.next_multiple_of(64);
        let free = (0..count).rev().map(|slot| slot * size).collect();
        Ok(Self { area: Area::new((count * size) as u64, size)?, free })
    }

    /// Takes free slots, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<usize> {
        self.free.split_off(self.free.len() - most.min(self.free.len()))
    }

    /// Gives a slot back.
    pub(super) fn give(&mut self, at: usize) {
        self.free.push(at - at % self.area.longest);
    }

    /// Gives the slot of a frame back.
    pub(super) fn release(&mut self, frame: Frame) {
        self.give(frame.at);
    }
}
