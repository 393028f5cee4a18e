//! Numbers of instructions and symbols.

use crate::object::read::SymbolIndex;
use fixedbitset::FixedBitSet;
use std::ops::Index;
use typed_index_collections::TiVec;

/// Index into [`crate::object::decode::Code::insns`]. It is packed so that
/// [`crate::object::decode::Flow`] takes five bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed)]
pub(crate) struct InsnIndex(pub(super) u32);

/// A value for each instruction.
pub(crate) type PerInsn<T> = TiVec<InsnIndex, T>;

/// A set of instructions. It takes a bit for each instruction of the object.
pub(crate) struct InsnSet(FixedBitSet);

impl InsnSet {
    /// Makes the set of no instruction, for an object with so many.
    pub(crate) fn new(insns: usize) -> InsnSet {
        InsnSet(FixedBitSet::with_capacity(insns))
    }

    /// Adds an instruction. Says whether it is new.
    pub(crate) fn insert(&mut self, at: InsnIndex) -> bool {
        !self.0.put(at.into())
    }

    /// Returns all instructions in their order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = InsnIndex> {
        self.0.ones().map(InsnIndex::from)
    }
}

impl Index<InsnIndex> for InsnSet {
    type Output = bool;

    #[inline]
    fn index(&self, at: InsnIndex) -> &bool {
        &self.0[usize::from(at)]
    }
}

impl InsnIndex {
    /// The index of an object's first instruction.
    pub(crate) const FIRST: InsnIndex = InsnIndex(0);

    /// An index above those of all instructions.
    pub(crate) const LAST: InsnIndex = InsnIndex(u32::MAX);

    /// Returns the index as a number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the index after this one.
    pub(crate) fn next(self) -> InsnIndex {
        InsnIndex(self.0 + 1)
    }

    /// Returns the index before this one, unless this is the first.
    pub(crate) fn before(self) -> Option<InsnIndex> {
        self.0.checked_sub(1).map(InsnIndex)
    }

    /// Returns the indexes from this one to the one before `end`.
    pub(crate) fn until(self, end: InsnIndex) -> impl DoubleEndedIterator<Item = InsnIndex> + Clone {
        (self.0..end.0).map(InsnIndex)
    }
}

impl From<usize> for InsnIndex {
    /// Objects with 2^32 instructions and more are not read: they would take 200 GB.
    fn from(at: usize) -> InsnIndex {
        InsnIndex(at as u32)
    }
}

impl From<InsnIndex> for usize {
    fn from(at: InsnIndex) -> usize {
        at.0 as usize
    }
}

/// Index of a symbol. A relocation has 32 bits for it. It is packed like [`InsnIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed)]
pub(crate) struct SymbolNumber(u32);

impl SymbolNumber {
    pub(crate) fn new(symbol: SymbolIndex) -> SymbolNumber {
        SymbolNumber(symbol as u32)
    }

    /// Returns the index as a number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the index into the symbols.
    pub(crate) fn index(self) -> SymbolIndex {
        self.0 as SymbolIndex
    }
}
