//! The places of instructions in a section.

/// The offsets where the instructions of a section start, as bits.
pub(crate) struct Starts {
    bits: Vec<u64>,
    /// The instructions before each word of `bits`.
    before: Vec<u32>,
}

impl Starts {
    /// Makes the set of no offset, for offsets up to `end`.
    pub(crate) fn new(end: usize) -> Starts {
        Starts { bits: vec![0; end / 64 + 1], before: Vec::new() }
    }

    /// Adds the start of an instruction.
    pub(crate) fn add(&mut self, offset: usize) {
        self.bits[offset / 64] |= 1 << (offset % 64);
    }

    /// Counts the instructions. None may be added after that.
    pub(crate) fn count(&mut self) {
        let mut count = 0;
        self.before = Vec::with_capacity(self.bits.len());
        for bits in &self.bits {
            self.before.push(count);
            count += bits.count_ones();
        }
    }

    /// Returns the offsets in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.bits.iter().enumerate().flat_map(|(word, bits)| {
            let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|rest| *rest != 0);
            let all = std::iter::successors(Some(*bits).filter(|bits| *bits != 0), rest);
            all.map(move |bits| 64 * word + bits.trailing_zeros() as usize)
        })
    }

    /// Returns the number of the instruction that starts at an offset.
    pub(crate) fn number(&self, offset: usize) -> Option<u32> {
        let (bits, bit) = (*self.bits.get(offset / 64)?, 1 << (offset % 64));
        let before = *self.before.get(offset / 64)?;
        (bits & bit != 0).then(|| before + (bits & (bit - 1)).count_ones())
    }

    /// Returns the number of the instructions that start before an offset up to the set's end.
    pub(crate) fn before(&self, offset: usize) -> u32 {
        let below = self.bits[offset / 64] & ((1 << (offset % 64)) - 1);
        self.before[offset / 64] + below.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::Starts;

    #[test]
    fn instructions_are_numbered_by_their_offsets() {
        let offsets = [0, 1, 63, 64, 65, 127, 130, 192, 200];
        let mut starts = Starts::new(200);
        for offset in offsets {
            starts.add(offset);
        }
        starts.count();
        assert!(starts.iter().eq(offsets));
        for offset in 0..300 {
            let number = offsets.iter().position(|at| *at == offset).map(|number| number as u32);
            assert_eq!(starts.number(offset), number, "{offset}");
            let before = offsets.iter().filter(|at| **at < offset).count() as u32;
            assert!(offset > 200 || starts.before(offset) == before, "{offset}");
        }
    }
}
