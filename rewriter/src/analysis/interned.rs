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
    pub(crate) fn new(all: &PerInsn<T>) -> Interned<T> {
        let mut interned = Interned { of: PerInsn::new(), values: Vec::new(), numbers: HashMap::default() };
        interned.of.raw.reserve_exact(all.len());
        // Neighbours often have equal values.
        for same in all.raw.chunk_by(|a, b| a == b) {
            let number = interned.number(same[0]);
            interned.of.raw.extend(std::iter::repeat_n(number, same.len()));
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
