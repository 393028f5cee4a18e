//! Facts that were found before, by the heads of the instructions that they were found for.
//!
//! Why a remembered instruction need not be decoded again: which bytes are prefixes, opcode, ModRM and SIB follows from these bytes
//! themselves, one after the other, and so do the sizes of displacement and immediate behind them (SDM volume 2, chapter 2); no head is the
//! beginning of another one. So where a text goes on with exactly the head of an instruction that was decoded, held against all
//! rules, and read alike by both decoders, that instruction stands there, but for two numbers. Of these nothing follows but an address
//! or a value; where a rule asks for one, and for the distance of a branch, the sweep reads it from the text each time. The displacement of
//! EVEX is scaled: both decoders have to scale it alike, so one that is 0 teaches nothing.
//!
//! Which entry to look at is found by a guess of the instruction's shape ([`crate::length`]). A wrong guess finds nothing, or an entry
//! that has to match in its whole head just the same.

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

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The bytes of the head, 0 behind them.
    head: u64,
    /// Their shape is 0 if there is no entry.
    facts: Facts,
}

/// The first bytes of the eight that follow, as many as a head has: 1 to 8.
#[inline]
fn head(window: u64, shape: Shape) -> u64 {
    window & u64::MAX >> (64u32.wrapping_sub(8 * shape.head() as u32) & 63)
}

impl Memo {
    /// Makes room for a text of this many bytes, or eight times it. Forgets if it grows, which is seldom.
    pub fn reserve(&mut self, text: usize) {
        let wanted = (text / 8).clamp(64, LIMIT).next_power_of_two();
        if wanted > self.entries.len() {
            self.entries = vec![Entry { head: 0, facts: Facts::NONE }; (8 * wanted).min(LIMIT)];
        }
    }

    #[inline]
    fn slot(&self, head: u64) -> usize {
        (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.entries.len().wrapping_sub(1)
    }

    /// The facts of the instruction that begins with these 8 bytes, if they are known.
    #[inline]
    pub fn recall(&self, window: u64) -> Option<&Facts> {
        let shape = guess(window);
        let head = head(window, shape);
        let entry = self.entries.get(self.slot(head))?;
        (entry.head == head && entry.facts.shape == shape).then_some(&entry.facts)
    }

    /// The instruction that begins with these 8 bytes breaks no rule, and these are its facts.
    pub fn learn(&mut self, window: u64, facts: &Facts) {
        if self.entries.is_empty() || !(1..=8).contains(&facts.shape.head()) {
            return;
        }
        let head = head(window, facts.shape);
        let slot = self.slot(head);
        self.entries[slot] = Entry { head, facts: *facts };
    }
}

#[cfg(test)]
mod tests;
