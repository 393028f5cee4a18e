//! The places of the new code that serve original instructions.

use crate::object::decode::InsnIndex;

/// A place from which on the code serves an original instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The place: an item while the code is emitted, an offset once it is laid out.
    pub at: u32,
    pub insn: InsnIndex,
    /// The code is a landing pad, which stands apart.
    pub pad: bool,
}

/// The marks of one section in the order of their places: one for each instruction from the first
/// on, then the landing pads.
#[derive(Default)]
pub(crate) struct Marks {
    first: Option<InsnIndex>,
    code: Vec<u32>,
    pads: Vec<(u32, InsnIndex)>,
}

impl Marks {
    /// Returns no marks, with room for those of a number of instructions.
    pub(crate) fn with_capacity(insns: usize) -> Marks {
        Marks { code: Vec::with_capacity(insns), ..Marks::default() }
    }

    /// Marks the code of the next instruction.
    pub(crate) fn code(&mut self, at: u32, insn: InsnIndex) {
        let first = *self.first.get_or_insert(insn);
        debug_assert_eq!(usize::from(first) + self.code.len(), usize::from(insn));
        self.code.push(at);
    }

    /// Marks a landing pad.
    pub(crate) fn pad(&mut self, at: u32, insn: InsnIndex) {
        self.pads.push((at, insn));
    }

    /// Returns the places of the instructions' code, from the first instruction on.
    pub(crate) fn code_places(&self) -> &[u32] {
        &self.code
    }

    /// Returns the landing pads, with the instructions that they serve.
    pub(crate) fn pads(&self) -> &[(u32, InsnIndex)] {
        &self.pads
    }

    /// Returns all marks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Mark> {
        let first = self.first.unwrap_or(InsnIndex::FIRST);
        let code = self.code.iter().zip(first.until(InsnIndex::LAST));
        let code = code.map(|(at, insn)| Mark { at: *at, insn, pad: false });
        code.chain(self.pads.iter().map(|(at, insn)| Mark { at: *at, insn: *insn, pad: true }))
    }

    /// Returns the instruction that the code at a place serves.
    pub(crate) fn served(&self, at: u32) -> Option<InsnIndex> {
        if let Some(pad) = self.pads.partition_point(|(start, _)| *start <= at).checked_sub(1) {
            return Some(self.pads[pad].1);
        }
        let number = self.code.partition_point(|start| *start <= at).checked_sub(1)?;
        self.first.map(|first| InsnIndex::from(usize::from(first) + number))
    }

    /// Returns all marks with the places where they end: the next mark, or `end`.
    pub(crate) fn ranges(&self, end: u32) -> impl Iterator<Item = (Mark, u32)> {
        let ends = self.iter().skip(1).map(|next| next.at).chain([end]);
        self.iter().zip(ends)
    }

    /// Returns the marks at other places.
    pub(crate) fn moved(&self, place: impl Fn(u32) -> u32) -> Marks {
        Marks {
            first: self.first,
            code: self.code.iter().map(|at| place(*at)).collect(),
            pads: self.pads.iter().map(|(at, insn)| (place(*at), *insn)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Marks};
    use crate::object::decode::InsnIndex;

    #[test]
    fn marks_keep_instructions_and_end_where_the_next_one_begins() {
        let [second, third] = [InsnIndex::from(1), InsnIndex::from(2)];
        let mut marks = Marks::default();
        marks.code(0, second);
        marks.code(4, third);
        marks.pad(9, second);
        assert_eq!([0, 3, 4, 8, 9].map(|at| marks.served(at)), [second, second, third, third, second].map(Some));
        let moved = marks.moved(|at| 2 * at);
        let mark = |at, insn, pad| Mark { at, insn, pad };
        let expected = [(mark(0, second, false), 8), (mark(8, third, false), 18), (mark(18, second, true), 25)];
        assert_eq!(moved.ranges(25).collect::<Vec<_>>(), expected);
        assert_eq!(Marks::default().ranges(3).count(), 0);
    }
}
