//! Phase 7h: the functions to which indirect calls are likely to lead.
//!
//! Programs call through tables of functions: `call *8(%rax)`, where rax has the address of a
//! *row*, such as the table of a class or one of an array of structures. If the rows of this object
//! have few functions at that distance, the call compares its target with their addresses first and
//! calls the one that it is:
//!
//! ```text
//! lea f(%rip),%r11d ; cmp %r11d,%eax ; jne 1f ; call f ; jmp 2f
//! 1: and $0xffff8,%eax ; call *%gs:__sfi_dispatch(%eax) ; 2:
//! ```
//!
//! A wrong guess costs a comparison. A right one waits for neither the mask nor the slot, which is
//! what counts where the processor predicts the target wrongly.

use crate::analysis::flow::FlowGraph;
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Dest, Flow, InsnIndex};
use crate::object::read::{Place, SectionIndex, Symbol};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{OpKind, Register};
use object::elf;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most functions with which a call compares.
pub(crate) const MOST: usize = 3;
/// Size of the largest elements of arrays, bytes.
const LARGEST: u64 = 1 << 12;
/// Bytes of a pointer.
const WORD: u64 = 8;

/// Pointers to functions, by section and offset.
type Pointers = BTreeMap<(SectionIndex, u64), Dest>;

/// The likely callees of indirect calls.
#[derive(Default)]
pub(crate) struct Likely {
    /// By distance from the row's beginning.
    callees: HashMap<u64, Vec<Dest>>,
}

impl Likely {
    /// Finds the rows of the object.
    pub(crate) fn find(code: &Code<'_, '_>, addresses: &Addresses, graph: &FlowGraph) -> Likely {
        let mut pointers = Pointers::new();
        for (&(section, reloc), data) in &addresses.data {
            let function = insn_of(code, data.dest).filter(|to| data.pointer && graph.entry[*to] && !code.is_trap(*to));
            if function.is_some() && !code.returns_twice(data.dest) {
                pointers.insert((section, code.object.sections[section].relocs[reloc].offset), data.dest);
            }
        }
        if pointers.is_empty() {
            return Likely::default();
        }
        let mut distances: Vec<u64> = code.indexes().filter_map(|at| distance(code, at)).collect();
        distances.sort_unstable();
        distances.dedup();
        let mut callees = HashMap::<u64, Vec<Dest>>::new();
        let mut behind = (0, 0);
        for (section, whole, class) in arrays(code) {
            // One array of several in a place is enough.
            if (section, whole.start) < behind {
                continue;
            }
            behind = (section, whole.end);
            let mut row = whole.start..whole.start;
            let size = (!class).then(|| stride(code, &pointers, (section, &whole), &distances));
            for (&(_, offset), dest) in pointers.range((section, whole.start)..(section, whole.end)) {
                match size {
                    Some(size) => row.start = offset - (offset - whole.start) % size,
                    None if offset != row.end => row.start = offset,
                    None => {}
                }
                row.end = offset + WORD;
                let known = callees.entry(offset - row.start).or_default();
                if known.len() <= MOST && !known.contains(dest) {
                    known.push(*dest);
                }
            }
        }
        callees.retain(|distance, known| known.len() <= MOST && distances.binary_search(distance).is_ok());
        Likely { callees }
    }

    /// Returns the likely callees of an indirect call.
    pub(crate) fn callees(&self, code: &Code<'_, '_>, call: InsnIndex) -> &[Dest] {
        let distance = if self.callees.is_empty() { None } else { distance(code, call) };
        distance.and_then(|distance| self.callees.get(&distance)).map_or(&[], Vec::as_slice)
    }
}

/// Returns the distance at which an indirect call finds its target in a row.
fn distance(code: &Code<'_, '_>, at: InsnIndex) -> Option<u64> {
    let insn = &code.insns[at];
    if insn.flow != Flow::CallIndirect || code.disp_reloc(insn).is_some() {
        return None;
    }
    let ins = code.ins(at);
    let through = ins.op0_kind() == OpKind::Memory
        && ins.memory_base().is_gpr64()
        && ins.memory_base() != Register::RSP
        && ins.segment_prefix() == Register::None;
    let distance = ins.memory_displacement64();
    (through && distance.is_multiple_of(WORD) && distance < LARGEST).then_some(distance)
}

/// Returns the places of arrays of rows, in order, and whether each has the tables of a class. A
/// class of several bases has a table for each, behind words that are no functions (Itanium C++ ABI
/// 2.5).
fn arrays(code: &Code<'_, '_>) -> Vec<(SectionIndex, Range<u64>, bool)> {
    let place = |symbol: &Symbol<'_>| match symbol.place {
        Place::Section(section) if symbol.kind == elf::STT_OBJECT.0 && symbol.size >= WORD => {
            let inside = symbol.end() <= code.object.sections[section].data.len() as u64;
            inside.then(|| (section, symbol.value..symbol.end(), symbol.name.starts_with(b"_ZTV")))
        }
        _ => None,
    };
    let mut arrays: Vec<_> = code.object.symbols.iter().filter_map(place).collect();
    arrays.sort_unstable_by_key(|(section, whole, _)| (*section, whole.start, whole.end));
    arrays
}

/// Returns the size of an array's elements: the smallest one after which pointers repeat. If all
/// words lead to functions, all calls fit into it.
fn stride(
    code: &Code<'_, '_>,
    pointers: &Pointers,
    (section, whole): (SectionIndex, &Range<u64>),
    distances: &[u64],
) -> u64 {
    let size = whole.end - whole.start;
    let relocs = &code.object.sections[section].relocs;
    // Whether each word is a pointer, and whether it leads to a function.
    let from = relocs.partition_point(|reloc| reloc.offset < whole.start);
    let inside = relocs[from..].iter().take_while(|reloc| reloc.offset < whole.end);
    let words: Vec<(u64, bool)> =
        inside.map(|reloc| (reloc.offset - whole.start, pointers.contains_key(&(section, reloc.offset)))).collect();
    let repeats = |stride: u64| {
        let first = words.partition_point(|(offset, _)| *offset < stride);
        let count = (size / stride) as usize;
        first * count == words.len()
            && words[first..].iter().zip(&words).all(|(next, word)| *next == (word.0 + stride, word.1))
    };
    let fits = |stride: &u64| size.is_multiple_of(*stride) && repeats(*stride);
    let furthest = distances.iter().rev().find(|distance| **distance < size).copied().unwrap_or(0);
    let functions = words.len() as u64 == size / WORD && words.iter().all(|(_, function)| *function);
    let smallest = if functions { furthest / WORD + 1 } else { 1 };
    (smallest..=(size / 2).min(LARGEST) / WORD).map(|words| words * WORD).find(fits).unwrap_or(size)
}
