//! The way from addresses of the original code, as `sfi-debuginfo` packs them, to offsets of the
//! new code.

use crate::object::decode::InsnIndex;
use crate::object::read::SectionIndex;
use crate::text::emit::Label;
use crate::text::layout::Text;
use crate::text::originals::Originals;

/// A stretch of the new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    pub section: SectionIndex,
    pub begin: u64,
    pub end: u64,
}

/// A landing pad: code at the section's end that serves an instruction elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pad {
    /// Address of the instruction that it serves.
    pub serves: u64,
    /// Its place.
    pub place: Stretch,
}

pub(super) struct Places<'x, 'o, 'a> {
    code: &'x Originals<'o, 'a>,
    texts: &'x [Text],
    /// For each text the new offset of each instruction, and the offset where the code ends and
    /// landing pads begin.
    starts: Vec<(&'x [u32], u64)>,
}

impl<'x, 'o, 'a> Places<'x, 'o, 'a> {
    pub(super) fn new(code: &'x Originals<'o, 'a>, texts: &'x [Text]) -> Self {
        let starts = texts
            .iter()
            .map(|text| {
                let pads = text.marks.pads().first();
                (text.marks.code_places(), pads.map_or(text.bytes.len() as u64, |(at, _)| u64::from(*at)))
            })
            .collect();
        Places { code, texts, starts }
    }

    fn text(&self, section: SectionIndex) -> Option<usize> {
        self.code.sections.iter().position(|s| s.section == section)
    }

    /// Returns the new place of the instruction at an address, or of the next one.
    pub(super) fn start(&self, address: u64) -> Option<(SectionIndex, u64)> {
        let (section, text, insn) = self.find(address)?;
        let (starts, end) = &self.starts[text];
        let index = insn.number() - self.code.sections[text].first.number();
        Some((section, starts.get(index as usize).map_or(*end, |start| u64::from(*start))))
    }

    /// Finds the instruction at an address, or the next one. Returns section, text, and the
    /// instruction.
    fn find(&self, address: u64) -> Option<(SectionIndex, usize, InsnIndex)> {
        let (section, offset) = sfi_debuginfo::split(address)?;
        let text = self.text(section)?;
        let of = &self.code.sections[text];
        if offset > self.code.object.sections[section].data.len() as u64 {
            return None;
        }
        let insn = self.code.at(section, offset).unwrap_or_else(|| self.code.place(of, offset));
        Some((section, text, insn))
    }

    /// Returns the end of the code before an address. If a symbol ends there, it is the place
    /// before the padding.
    pub(super) fn end(&self, address: u64) -> Option<(SectionIndex, u64)> {
        let (section, text, insn) = self.find(address)?;
        match self.texts[text].labels.get(&Label::End(insn)) {
            Some(end) => Some((section, u64::from(*end))),
            None => self.start(address),
        }
    }

    /// Returns the new place of a range of code. `None` if it is empty or no code.
    pub(super) fn stretch(&self, range: gimli::Range) -> Option<Stretch> {
        let (section, begin) = self.start(range.begin)?;
        let (other, end) = self.end(range.end)?;
        (section == other && begin < end).then_some(Stretch { section, begin, end })
    }

    /// Returns the landing pads of a section, by the instructions that they serve.
    pub(super) fn pads(&self, section: SectionIndex) -> impl Iterator<Item = Pad> + '_ {
        let text = self.text(section).map(|text| &self.texts[text]);
        let pads = text.map_or(&[][..], |text| text.marks.pads());
        pads.iter().enumerate().map(move |(index, (at, serves))| {
            let end = pads.get(index + 1).map(|(next, _)| u64::from(*next));
            let size = text.map_or(0, |text| text.bytes.len() as u64);
            let insn = &self.code.insns[*serves];
            Pad {
                serves: sfi_debuginfo::address(section, u64::from(insn.offset)),
                place: Stretch { section, begin: u64::from(*at), end: end.unwrap_or(size) },
            }
        })
    }
}
