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
    /// Has no instruction yet.
    pub(crate) fn empty() -> Interned<T> {
        Interned { of: PerInsn::new(), values: Vec::new(), numbers: HashMap::default() }
    }

    /// Stores the values of all instructions.
    pub(crate) fn new(all: impl Iterator<Item = T>) -> Interned<T> {
        let mut interned = Interned::empty();
        interned.reserve(all.size_hint().0);
        let mut last = None;
        for value in all {
            // Neighbours often have equal values.
            let number = match last {
                Some((same, number)) if same == value => number,
                _ => interned.number(value),
            };
            last = Some((value, number));
            interned.push(number);
        }
        interned
    }

    /// Has room for so many instructions.
    pub(crate) fn reserve(&mut self, insns: usize) {
        self.of.reserve_exact(insns);
    }

    /// Adds an instruction whose value has this number.
    pub(crate) fn push(&mut self, number: u32) {
        self.of.push(number);
    }

    /// Gives an instruction the value of this number.
    pub(crate) fn set(&mut self, at: InsnIndex, number: u32) {
        self.of[at] = number;
    }

    /// Returns the value of a number.
    pub(crate) fn value(&self, number: u32) -> T {
        self.values[number as usize]
    }

    /// Returns the number of a value.
    pub(crate) fn number(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u32 - 1
        })
    }
}

impl<T> Index<InsnIndex> for Interned<T> {
    type Output = T;

    fn index(&self, at: InsnIndex) -> &T {
        &self.values[self.of[at] as usize]
    }
}
