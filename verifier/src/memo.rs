//! Facts that were found before, by the bytes they were found for.
//!
//! Why a remembered instruction need not be decoded again: what an instruction is, and how long it is, follows from its own bytes and
//! from nothing else, and no instruction is the beginning of another one. So where a text goes on with exactly the bytes of an
//! instruction that was decoded, held against all rules, and read alike by both decoders, that instruction stands there, whatever follows.
//!
//! Two numbers are left out of the comparison, because nothing but an address follows from their value (SDM volume 2, sections 2.1.5 and
//! 3.1.1.3): the distance of a direct branch, which the sweep reads from the text each time, and the displacement of a memory operand.
//! Where a rule asks for a certain displacement, and where EVEX scales it, it is not left out
//! ([`Facts::new`](crate::facts::Facts::new)).
//!
//! Which entry to look at is found by a guess of the instruction's shape ([`crate::length`]). A wrong guess finds nothing, or an entry
//! that has to match in all its bytes just the same.

use crate::facts::{Facts, Shape};
use crate::length::guess;

/// Most entries. They fit into a core's own cache; more make it slower.
const LIMIT: usize = 1 << 14;

/// Instructions that broke no rule, one for each hash.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// As many as a power of two.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The bytes, 0 for those that are left out and for those behind the end.
    key: u128,
    /// Their shape has the length 0 if there is no entry.
    facts: Facts,
}

/// The lowest bytes, by their number.
static FIRST: [u128; 16] = {
    let mut mask = [0; 16];
    let mut n = 1;
    while n < 16 {
        mask[n] = mask[n - 1] << 8 | 0xff;
        n += 1;
    }
    mask
};

/// All bytes but those of a field.
static BUT: [u128; 256] = {
    let mut mask = [u128::MAX; 256];
    let mut field = 0;
    while field < 256 {
        mask[field] = !(FIRST[field >> 4] << ((field & 15) << 3));
        field += 1;
    }
    mask
};

/// What has to be the same.
#[inline]
fn key(window: u128, shape: Shape) -> u128 {
    window & FIRST[shape.length()] & BUT[usize::from(shape.0 >> 8)]
}

/// The next 16 bytes; 0 behind the text.
#[inline]
fn window(text: &[u8]) -> u128 {
    match text.first_chunk::<16>() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => text.iter().rev().fold(0, |window, byte| window << 8 | u128::from(*byte)),
    }
}

impl Memo {
    /// Makes room for a text of this many bytes. Forgets if it grows.
    pub fn reserve(&mut self, text: usize) {
        let wanted = (text / 8).clamp(64, LIMIT).next_power_of_two();
        if wanted > self.entries.len() {
            self.entries = vec![Entry::default(); wanted];
        }
    }

    #[inline]
    fn slot(&self, key: u128) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (key as u64 ^ ((key >> 64) as u64).wrapping_mul(ODD)).wrapping_mul(ODD);
        (mixed >> 32) as usize & self.entries.len().wrapping_sub(1)
    }

    /// The facts of the instruction that the text begins with, if they are known, and its length.
    #[inline]
    pub fn recall(&self, text: &[u8]) -> Option<(usize, &Facts)> {
        let window = window(text);
        let (length, shape) = guess(window as u64);
        let key = key(window, shape);
        let entry = self.entries.get(self.slot(key))?;
        (entry.key == key && entry.facts.shape == shape && length <= text.len()).then_some((length, &entry.facts))
    }

    /// These bytes are one instruction that breaks no rule, and these are its facts.
    pub fn learn(&mut self, instruction: &[u8], facts: Facts) {
        let key = key(window(instruction), facts.shape);
        let slot = self.slot(key);
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = Entry { key, facts };
        }
    }
}

#[cfg(test)]
mod tests;
