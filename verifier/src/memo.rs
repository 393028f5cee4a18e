//! Facts that were found before, by the heads of the instructions that they were found for.
//!
//! Why a remembered instruction need not be decoded again: which bytes are prefixes, opcode, ModRM
//! and SIB follows from these bytes themselves, one after the other, and so do the sizes of
//! displacement and immediate behind them (SDM volume 2, chapter 2); no head is the beginning of
//! another one. So where a text goes on with exactly the head of an instruction that was decoded,
//! held against all rules, and read alike by both decoders, that instruction stands there, but for
//! two numbers. Of these nothing follows but an address or a value; where a rule asks for one, and
//! for the distance of a branch, the sweep reads it from the text each time. The displacement of
//! EVEX is scaled: both decoders have to scale it alike, so one that is 0 teaches nothing.
//!
//! Which entry to look at is found by a guess of the instruction's shape ([`crate::length`]). A
//! wrong guess finds nothing, or an entry that has to match in its whole head just the same.

use crate::facts::Facts;
use crate::length::{Shape, guess, window};

/// Most entries. They fit into a core's own cache; more make it slower.
const LIMIT: usize = 1 << 14;

/// Instructions that broke no rule: for each hash the last two.
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
    /// Makes room for a text of this many bytes, or eight times it. Forgets if it grows, which is
    /// seldom.
    pub fn reserve(&mut self, text: usize) {
        let wanted = (text / 8).clamp(64, LIMIT).next_power_of_two();
        if wanted > self.entries.len() {
            self.entries = vec![Entry { head: 0, facts: Facts::NONE }; (8 * wanted).min(LIMIT)];
        }
    }

    /// The first of the two places for a head.
    #[inline]
    fn slot(&self, head: u64) -> usize {
        (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.entries.len().wrapping_sub(2)
    }

    /// The slot of the instruction that the text goes on with, and whether an entry is the one of
    /// it.
    #[inline]
    fn look(&self, text: &[u8]) -> (usize, impl Fn(&&Entry) -> bool) {
        let window = window(text);
        let shape = guess(window);
        let head = head(window, shape);
        let fits = shape.length() <= text.len();
        (self.slot(head), move |entry| entry.head == head && entry.facts.shape == shape && fits)
    }

    /// The facts of the instruction that the text goes on with, if they are the last for their
    /// hash.
    #[inline]
    pub fn recall(&self, text: &[u8]) -> Option<&Facts> {
        let (slot, is_it) = self.look(text);
        self.entries.get(slot).filter(is_it).map(|entry| &entry.facts)
    }

    /// The same if they are the last but one. They are the last from now on.
    #[inline]
    pub fn recall_older(&mut self, text: &[u8]) -> Option<Facts> {
        let (slot, is_it) = self.look(text);
        let facts = self.entries.get(slot + 1).filter(is_it)?.facts;
        self.entries.swap(slot, slot + 1);
        Some(facts)
    }

    /// The instruction that the text goes on with breaks no rule, and these are its facts.
    pub fn learn(&mut self, text: &[u8], facts: &Facts) {
        if self.entries.is_empty() || !(1..=8).contains(&facts.shape.head()) {
            return;
        }
        let head = head(window(text), facts.shape);
        let slot = self.slot(head);
        self.entries[slot + 1] = std::mem::replace(&mut self.entries[slot], Entry { head, facts: *facts });
    }
}

#[cfg(test)]
mod tests;
