//! The instructions that control reaches, while nothing else of a text is known.

use crate::object::read::SectionIndex;
use iced_x86::Instruction;
use std::ops::Range;

/// Most bytes of an instruction.
const LONGEST: u64 = 15;

/// A place of a section.
pub(super) type At = (SectionIndex, u64);

/// Instructions by their places.
#[derive(Default)]
pub(super) struct Insns {
    /// For each byte of each section the number of the instruction that begins there, plus one.
    starts: Vec<Vec<u32>>,
    insns: Vec<Instruction>,
}

impl Insns {
    /// Has room for sections of these sizes.
    pub(super) fn new(sizes: impl Iterator<Item = usize>) -> Insns {
        Insns { starts: sizes.map(|size| vec![0; size]).collect(), insns: Vec::new() }
    }

    /// Adds an instruction.
    pub(super) fn insert(&mut self, (section, offset): At, ins: Instruction) {
        self.insns.push(ins);
        self.starts[section][offset as usize] = self.insns.len() as u32;
    }

    /// Returns the instruction that begins at a place.
    pub(super) fn get(&self, (section, offset): At) -> Option<&Instruction> {
        let number = *self.starts.get(section)?.get(usize::try_from(offset).ok()?)?;
        self.insns.get((number as usize).checked_sub(1)?)
    }

    /// Returns the instructions that begin in a range of a section, in order.
    pub(super) fn range(
        &self,
        section: SectionIndex,
        range: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, &Instruction)> {
        let size = self.starts.get(section).map_or(0, |starts| starts.len() as u64);
        (range.start.min(size)..range.end.min(size))
            .filter_map(move |offset| Some((offset, self.get((section, offset))?)))
    }

    /// Returns the instructions before an offset that may cover it, the last one first.
    pub(super) fn before(&self, (section, offset): At) -> impl Iterator<Item = (u64, &Instruction)> {
        self.range(section, offset.saturating_sub(LONGEST)..offset).rev()
    }

    /// Returns all instructions, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (At, &Instruction)> {
        let all = |section| self.range(section, 0..u64::MAX).map(move |(offset, ins)| ((section, offset), ins));
        (0..self.starts.len()).flat_map(all)
    }
}

#[cfg(test)]
mod tests {
    use super::Insns;
    use iced_x86::{Code, Instruction};

    #[test]
    fn instructions_are_found_by_their_places() {
        let mut insns = Insns::new([40, 0, 4].into_iter());
        let ins = |len| {
            let mut ins = Instruction::with(Code::Nopd);
            ins.set_len(len);
            ins
        };
        for (at, len) in [((0, 30), 3), ((0, 0), 1), ((0, 15), 15), ((2, 3), 2)] {
            insns.insert(at, ins(len));
        }
        let all: Vec<_> = insns.iter().map(|(at, ins)| (at, ins.len())).collect();
        assert_eq!(all, [((0, 0), 1), ((0, 15), 15), ((0, 30), 3), ((2, 3), 2)]);
        assert!(insns.get((0, 15)).is_some_and(|ins| ins.len() == 15));
        for nothing in [(0, 1), (0, 40), (1, 0), (2, 0), (3, 0), (0, u64::MAX)] {
            assert!(insns.get(nothing).is_none(), "{nothing:?}");
        }
        let before = |at| insns.before(at).map(|(offset, _)| offset).collect::<Vec<_>>();
        assert_eq!(before((0, 15)), [0]);
        assert_eq!(before((0, 30)), [15]);
        assert_eq!(before((0, 31)), [30]);
        assert_eq!(before((0, 0)), []);
        assert_eq!(before((1, 5)), []);
        assert_eq!(insns.range(0, 1..31).map(|(offset, _)| offset).collect::<Vec<_>>(), [15, 30]);
    }
}
