//! One bit for each byte of a text.

/// A set of offsets below a fixed length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// Empties the set and makes room for the offsets below `length`.
    pub(crate) fn reset(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
    }

    #[inline]
    pub(crate) fn insert(&mut self, offset: usize) {
        if let Some(word) = self.words.get_mut(offset / 64) {
            *word |= 1 << (offset % 64);
        }
    }

    /// Takes out all offsets from `first` to `last`, both included.
    pub(crate) fn remove(&mut self, first: usize, last: usize) {
        for offset in first..=last {
            if let Some(word) = self.words.get_mut(offset / 64) {
                *word &= !(1 << (offset % 64));
            }
        }
    }

    /// Says whether the set has the offset. Offsets from the length on are never in it.
    #[inline]
    pub(crate) fn contains(&self, offset: u64) -> bool {
        let word = usize::try_from(offset / 64).ok().and_then(|i| self.words.get(i));
        word.is_some_and(|word| word & (1 << (offset % 64)) != 0)
    }
}
