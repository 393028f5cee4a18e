//! Phase 9b: debug information for the new layout.
//!
//! It is made anew. For each compilation unit it has the name, directory and producer, the
//! functions and the functions inlined into them, and the line table. In the line table every
//! inserted instruction belongs to the line of the one that it serves. Variables, types, call sites
//! and frames are left out, because their descriptions name the old stack, old registers and old
//! addresses. Debug information that cannot be read is dropped, and the object is not refused for
//! it.

mod info;
mod line;
mod map;
mod places;
mod section;
mod values;

pub(crate) use section::{DebugReloc, DebugSection, DebugTarget};

use crate::object::decode::{CodeSection, InsnIndex};
use crate::object::read::{Object, Place};
use crate::text::layout::Text;
use crate::text::marks::Mark;
use crate::text::originals::Originals;
use gimli::write::{EndianVec, RelocateWriter, Relocation, RelocationTarget, Sections};
use object::elf;
use places::Places;
use sfi_debuginfo::map::{Keeping, Step, Trace};
use sfi_debuginfo::{Fuel, Meaning, Raw, Reloc};
use values::{Dropped, dropped};

/// Most rows, ranges, entries and bytes of strings in one object. It is far beyond the output of
/// compilers.
const BUDGET: u64 = 200_000_000;

/// Makes the new debug sections, with the map from new to original instructions. Returns no
/// sections if the object has no debug information. `texts` are in the order of
/// [`crate::object::decode::CodeMap::sections`].
///
/// # Errors
/// The reason why the debug information could not be carried over.
pub(crate) fn carry(code: &Originals<'_, '_>, texts: &[Text]) -> Result<Vec<DebugSection>, Dropped> {
    let sections = gather(code.object).map_err(dropped)?;
    if sections.is_empty() {
        return Ok(Vec::new());
    }
    let dwarf = sections.dwarf();
    let places = Places::new(code, texts);
    let mut fuel = Fuel::new(BUDGET);
    let new = info::convert(&dwarf, &places, &mut fuel)?;
    let mut new = write(new).map_err(dropped)?;
    if !new.is_empty() {
        new.push(map::section(code, texts));
    }
    Ok(new)
}

/// Returns the trace of every instruction. `keeping` gives the place of r15 at an instruction.
/// `texts` are in the order of [`crate::object::decode::CodeMap::sections`].
pub(crate) fn traces(
    code: &Originals<'_, '_>,
    texts: &[Text],
    mut keeping: impl FnMut(InsnIndex) -> (Keeping, Option<i64>),
) -> Vec<Trace> {
    let mut step = |mark: Mark| {
        let at = mark.insn;
        let (r15, slot) = keeping(at);
        Step { new: mark.at, old: code.insns[at].offset, pad: mark.pad, r15, slot }
    };
    let trace = |(of, text): (&CodeSection, &Text)| Trace {
        section: of.section,
        steps: text.marks.iter().map(&mut step).collect(),
    };
    code.sections.iter().zip(texts).map(trace).collect()
}

fn gather<'a>(object: &Object<'a>) -> Result<sfi_debuginfo::Sections<'a>, sfi_debuginfo::Malformed> {
    let raw = object.sections.iter().filter(|s| !s.is_alloc() && s.name.starts_with(b".debug_")).map(|s| Raw {
        name: s.name,
        data: s.data,
        compressed: s.flags & elf::SHF_COMPRESSED.0 != 0,
        grouped: s.flags & elf::SHF_GROUP.0 != 0,
        relocations: s
            .relocs
            .iter()
            .map(|r| Reloc { offset: r.offset, kind: r.kind, symbol: r.symbol, addend: r.addend })
            .collect(),
    });
    sfi_debuginfo::Sections::gather(raw, |symbol| {
        let symbol = object.symbols.get(symbol)?;
        Some(match symbol.place {
            Place::Section(section) if object.sections[section].is_code() => {
                Meaning::Code { section, offset: symbol.value }
            }
            _ => Meaning::Other(symbol.value),
        })
    })
}

/// Bytes of a section, with the relocations that apply to them.
#[derive(Clone)]
struct Recorder {
    bytes: EndianVec<gimli::LittleEndian>,
    relocations: Vec<Relocation>,
}

impl RelocateWriter for Recorder {
    type Writer = EndianVec<gimli::LittleEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.bytes
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.bytes
    }

    fn relocate(&mut self, relocation: Relocation) {
        self.relocations.push(relocation);
    }
}

fn write(mut dwarf: gimli::write::Dwarf) -> gimli::write::Result<Vec<DebugSection>> {
    if dwarf.units.count() == 0 {
        return Ok(Vec::new());
    }
    let mut sections = Sections::new(Recorder { bytes: EndianVec::new(gimli::LittleEndian), relocations: Vec::new() });
    dwarf.write(&mut sections)?;
    let mut all = Vec::new();
    sections.for_each_mut(|id, section| {
        if section.bytes.slice().is_empty() {
            return Ok(());
        }
        let relocs = section.relocations.iter().map(|r| DebugReloc {
            offset: r.offset as u64,
            size: r.size,
            target: match r.target {
                RelocationTarget::Symbol(section) => DebugTarget::Code(section),
                RelocationTarget::Section(id) => DebugTarget::Debug(id.name()),
            },
            addend: r.addend,
        });
        all.push(DebugSection { name: id.name(), relocs: relocs.collect(), bytes: section.bytes.take() });
        gimli::write::Result::Ok(())
    })?;
    Ok(all)
}
