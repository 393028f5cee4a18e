//! Values of instructions of which only few differ.

use crate::object::decode::{InsnIndex, PerInsn};
use foldhash::HashMap;
use std::hash::Hash;
use std::ops::Index;

/// A value for each instruction. Equal values are stored once.
pub(crate) struct Interned<T> {
    /// Index into `values`.
    of: PerInsn<u32>,
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash> Interned<T> {
    /// Stores the values of all instructions.
    pub(crate) fn new(all: impl Iterator<Item = T>) -> Interned<T> {
        let mut interned = Interned { of: PerInsn::new(), values: Vec::new(), numbers: HashMap::default() };
        interned.of.reserve_exact(all.size_hint().0);
        let mut last = None;
        for value in all {
            // Neighbours often have equal values.
            let number = match last {
                Some((same, number)) if same == value => number,
                _ => interned.number(value),
            };
            last = Some((value, number));
            interned.of.push(number);
        }
        interned
    }

    /// Returns the number of a value.
    fn number(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u32 - 1
        })
    }
}

impl<T> Index<InsnIndex> for Interned<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: InsnIndex) -> &T {
        &self.values[self.of[at] as usize]
    }
}
