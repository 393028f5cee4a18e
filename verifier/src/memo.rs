//! A cache from instruction heads to their facts.
//!
//! A remembered instruction need not be decoded again, for these reasons:
//! - The bytes themselves decide, one after the other, which of them are prefixes, opcode, ModRM
//!   and SIB, and the lengths of displacement and immediate (SDM volume 2, chapter 2). No head is
//!   the beginning of another one.
//! - Suppose that a text goes on with exactly the head of an instruction that was decoded, held
//!   against all rules, and read alike by both decoders. Then that instruction stands there, with
//!   other numbers at most.
//! - The numbers only give an address or a value. Where a rule asks for one, and for the distance
//!   of a branch, the sweep reads it from the text each time.
//! - The displacement of EVEX is scaled, and both decoders have to scale it alike. A displacement
//!   of 0 does not show that, so such an instruction is not learned.
//!
//! A guess of the instruction's shape ([`crate::length`]) finds the entry. With a wrong guess the
//! look-up finds no entry, or one whose whole head has to match as well.

use crate::facts::Facts;
use crate::length::{Shape, guess, window};

/// Most entries. They fit into a core's own cache. More of them make the look-up slower.
const LIMIT: usize = 1 << 14;

/// Instructions that broke no rule: the last two for each hash.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Their number is a power of two.
    entries: Vec<MemoEntry>,
    /// Bytes of text so far.
    seen: usize,
}

#[derive(Clone, Copy, Debug)]
struct MemoEntry {
    /// The bytes of the head, then zeros.
    head: u64,
    /// The facts. Their shape is 0 if there is no entry.
    facts: Facts,
}

/// Returns the first bytes of the window, 1 to 8, the length of the head.
#[inline]
fn head(window: u64, shape: Shape) -> u64 {
    window & u64::MAX >> (64u32.wrapping_sub(8 * shape.head() as u32) & 63)
}

impl Memo {
    /// Makes room for a further text of this many bytes, and for more texts, up to eight times as
    /// long in all. If the table grows, it forgets its entries. That happens seldom.
    pub(crate) fn reserve(&mut self, text: usize) {
        self.seen = self.seen.saturating_add(text);
        let wanted = (self.seen / 8).clamp(64, LIMIT).next_power_of_two();
        if wanted > self.entries.len() {
            self.entries = vec![MemoEntry { head: 0, facts: Facts::NONE }; (8 * wanted).min(LIMIT)];
        }
    }

    /// Returns the first of the two slots for a head.
    #[inline]
    fn slot(&self, head: u64) -> usize {
        (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.entries.len().wrapping_sub(2)
    }

    /// Returns the slot of the instruction that the text begins with, and a test whether an entry
    /// is that instruction's.
    #[inline]
    fn look(&self, text: &[u8]) -> (usize, impl Fn(&&MemoEntry) -> bool) {
        let window = window(text);
        let shape = guess(window);
        let head = head(window, shape);
        let fits = shape.length() <= text.len();
        (self.slot(head), move |entry| entry.head == head && entry.facts.shape == shape && fits)
    }

    /// Returns the facts of the instruction that the text begins with, if they are the last for
    /// their hash.
    #[inline]
    pub(crate) fn recall(&self, text: &[u8]) -> Option<&Facts> {
        let (slot, is_it) = self.look(text);
        self.entries.get(slot).filter(is_it).map(|entry| &entry.facts)
    }

    /// Returns the facts of the instruction that the text begins with, if they are the last but one
    /// for their hash. They become the last.
    #[inline]
    pub(crate) fn recall_older(&mut self, text: &[u8]) -> Option<Facts> {
        let (slot, is_it) = self.look(text);
        let facts = self.entries.get(slot + 1).filter(is_it)?.facts;
        self.entries.swap(slot, slot + 1);
        Some(facts)
    }

    /// Remembers the facts of the instruction that the text begins with. The instruction must break
    /// no rule.
    pub(crate) fn learn(&mut self, text: &[u8], facts: &Facts) {
        if self.entries.is_empty() || !(1..=8).contains(&facts.shape.head()) {
            return;
        }
        let head = head(window(text), facts.shape);
        let slot = self.slot(head);
        self.entries[slot + 1] = std::mem::replace(&mut self.entries[slot], MemoEntry { head, facts: *facts });
    }
}

#[cfg(test)]
mod tests;
