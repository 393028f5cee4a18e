//! Cold parts of functions, and places before them that no path reaches.

use crate::object::cold::stem;
use crate::object::decode::{Code, Flow, InsnIndex};
use crate::object::read::{SectionIndex, SymbolIndex};

impl Code<'_, '_> {
    /// Says whether the cold part of a function begins with an instruction.
    pub(crate) fn begins_cold_part(&self, at: InsnIndex) -> bool {
        let insn = &self.insns[at];
        let section = self.section(insn.section as usize);
        section.is_some_and(|section| section.cold_parts.binary_search(&insn.offset.into()).is_ok())
    }

    /// Says whether the cold part of a function begins after a call. Such a call does not return,
    /// because compilers let no code fall into another function's cold part.
    pub(crate) fn ends_cold_part(&self, at: InsnIndex) -> bool {
        let insn = &self.insns[at];
        let call = matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect);
        call && self
            .section(insn.section as usize)
            .is_some_and(|section| section.cold_parts.binary_search(&insn.end()).is_ok())
    }

    /// Returns the trap that stands for a place of a section, if a branch or table entry of the
    /// code at `from` that leads there is never taken.
    ///
    /// If a compiler knows that a place is not reached, it emits no code for it. Its label then is
    /// at the next thing: the section's end, or the cold part of another function (`other.cold`),
    /// because gcc collects all unlikely code in one section. Functions can have other names than
    /// their compiler gave them (`objcopy --prefix-symbols`), so the other function must exist.
    pub(crate) fn never_reached(&self, from: InsnIndex, section: SectionIndex, offset: u64) -> Option<InsnIndex> {
        let target = self.section(section)?;
        if offset == self.object.sections[section].data.len() as u64 {
            return Some(target.trap);
        }
        let base = |symbol: SymbolIndex| stem(self.object.symbols[symbol].name);
        let starts = |functions: &'_ [(u64, SymbolIndex)], at: u64| -> Vec<&[u8]> {
            functions.iter().filter(|(start, _)| *start == at).map(|(_, symbol)| base(*symbol).0).collect()
        };
        let first = target.functions.partition_point(|(start, _)| *start < offset);
        let here = target.functions[first..].iter().take_while(|(start, _)| *start == offset);
        // An empty cold part has no code of its function.
        let here: Vec<_> = here.filter(|(_, symbol)| !self.is_empty_part(*symbol)).collect();
        if here.is_empty() || here.iter().any(|(_, symbol)| !base(*symbol).1) {
            return None;
        }
        let insn = &self.insns[from];
        let own = self.function_at(insn.section as usize, insn.offset.into())?;
        let own = starts(&self.section(insn.section as usize)?.functions, self.object.symbols[own].value);
        let exists = |name: &[u8]| self.object.symbols.iter().any(|s| s.is_function() && s.name == name);
        let foreign = here.iter().map(|(_, symbol)| base(*symbol).0).all(|name| !own.contains(&name) && exists(name));
        foreign.then_some(target.trap)
    }

    /// Says whether a symbol is one of a function's cold part that begins with padding. gcc pads a
    /// part whose first code is a landing pad, and nothing leads to the padding.
    pub(crate) fn is_padded_part(&self, symbol: SymbolIndex, first: InsnIndex) -> bool {
        let symbol = &self.object.symbols[symbol];
        symbol.is_function() && !symbol.is_open() && stem(symbol.name).1 && self.insns[first].is_nop()
    }

    /// Says whether a place that a pointer names is a label of a function: its cold part begins
    /// there, and nothing else does. A table of labels, as for computed gotos, has the pointer. A
    /// cold part is no function, so no program calls it by its address.
    pub(crate) fn is_label_in_cold_part(&self, section: SectionIndex, offset: u64) -> bool {
        let Some(text) = self.section(section) else { return false };
        let first = text.functions.partition_point(|(start, _)| *start < offset);
        let here = text.functions[first..].iter().take_while(|(start, _)| *start == offset);
        let mut here = here.map(|(_, symbol)| *symbol).filter(|symbol| !self.is_empty_part(*symbol));
        here.next().is_some_and(|part| self.wholes.of(part) != part) && here.next().is_none()
    }

    /// Says whether a symbol is that of a cold part without code.
    fn is_empty_part(&self, symbol: SymbolIndex) -> bool {
        let symbol = &self.object.symbols[symbol];
        stem(symbol.name).1 && symbol.size == 0
    }
}
