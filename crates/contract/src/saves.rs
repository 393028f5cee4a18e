//! Registers that functions save on the control stack (docs/CONTRACT.md, "Saved registers").

/// The most words that a function may have there besides its return address. There are no more
/// registers.
pub const MOST: u8 = 15;

/// A range of text where words are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deep {
    /// Offset of its first byte in the text.
    pub start: u32,
    /// Offset of the byte behind it.
    pub end: u32,
    /// The number of words above the return address, 1 to [`MOST`].
    pub depth: u8,
}

/// The places of a text where words are saved: ranges in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saves(pub Vec<Deep>);

impl Saves {
    /// Returns the number of words that are saved at an offset in the text.
    pub fn depth(&self, offset: u64) -> u8 {
        let next = self.0.partition_point(|deep| u64::from(deep.end) <= offset);
        self.0.get(next).filter(|deep| u64::from(deep.start) <= offset).map_or(0, |deep| deep.depth)
    }

    /// Says whether nothing is saved anywhere.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_depths_and_gaps_have_none() {
        let range = |start, end, depth| Deep { start, end, depth };
        let saves = Saves(vec![range(2, 5, 1), range(5, 9, 2), range(20, 21, 3)]);
        let depths: Vec<u8> = [0, 1, 2, 4, 5, 8, 9, 19, 20, 21].map(|offset| saves.depth(offset)).into();
        assert_eq!(depths, [0, 0, 1, 1, 2, 2, 0, 0, 3, 0]);
        assert!(!saves.is_empty() && Saves::default().is_empty() && Saves::default().depth(7) == 0);
    }
}
