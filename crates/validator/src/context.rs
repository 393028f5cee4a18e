//! Both programs side by side: the meaning of each field, in terms of the new object.

use crate::code::{Flow, Index, Insn, Old, Text};
use crate::machine::Fields;
use crate::object::{Pair, Spot, is_local, is_open, kind, spot_of};
use crate::value::{Id, Node, Values};
use foldhash::{HashMap, HashMapExt, HashSet};
use iced_x86::{Code as Opcode, OpKind};
use sfi_contract::layout::TCB;
use sfi_contract::note::Note;
use sfi_contract::{budget, names};
use sfi_debuginfo::map::Trace;
use sfi_elf::Relocation;

/// Most bytes between a place that code names and the table that it means.
const LEAD: u64 = 64;

/// Both programs.
pub(crate) struct Context<'p, 'a> {
    pub pair: &'p Pair<'a>,
    pub old: Old<'p, 'a>,
    pub new: Text,
    /// For the new place of each landing pad, the place of its label.
    pads: HashMap<(usize, u64), u64>,
    /// For each new section, the places where the code of an instruction begins, in order.
    starts: HashMap<usize, Vec<u64>>,
    /// The end of each original instruction's code.
    pub until: Vec<u32>,
    /// Calls whose new code has a trap.
    pub stops: HashSet<Index>,
    /// The new object's note says that it pays for its instructions.
    budgeted: bool,
}

/// A field's meaning: a spot and a distance from it.
type Meaning = (Spot, i64);

impl<'p, 'a> Context<'p, 'a> {
    /// Decodes both.
    pub(crate) fn read(pair: &'p Pair<'a>, traces: &[Trace]) -> Result<Context<'p, 'a>, String> {
        let old = Old::read(pair, traces)?;
        let new = Text::of_new(pair)?;
        let note = pair.new.sections.iter().find(|section| section.name == names::NOTE_SECTION);
        let budgeted = note.and_then(|note| Note::decode(note.data)).is_some_and(|note| note.budget);
        let mut starts = HashMap::new();
        let mut until = vec![0; old.text.insns.len()];
        let mut pads = HashMap::new();
        for trace in traces {
            let section = pair.new_of[trace.section].ok_or("the trace of a section that is gone")?;
            let mut end = pair.new.sections[section].data.len() as u32;
            // The traps of the last charges. Without them control would come to the loader's. A
            // trap of the original program stays.
            let last = trace.steps.last().map_or(0, |step| {
                let own = old.text.at(trace.section, u64::from(step.old)).is_some_and(|at| old.flow[at] == Flow::Stop);
                step.new + u32::from(own)
            });
            while budgeted && end > last && new.is_trap(section, end - 1) {
                end -= 1;
            }
            for (number, step) in trace.steps.iter().enumerate() {
                let Some(at) = old.text.at(trace.section, u64::from(step.old)) else { continue };
                if !step.pad {
                    until[at] = trace.steps.get(number + 1).map_or(end, |next| next.new);
                }
            }
            let mut begins: Vec<u64> = trace.steps.iter().map(|step| u64::from(step.new)).collect();
            begins.push(u64::from(end));
            begins.sort_unstable();
            begins.dedup();
            starts.insert(section, begins);
        }
        for (at, pad) in old.pad.iter().enumerate() {
            if let Some(pad) = pad {
                let (section, offset) = old.place[at];
                pads.insert((section as usize, u64::from(*pad)), u64::from(offset));
            }
        }
        let stops = |&at: &Index| {
            let (section, offset) = old.place[at];
            let calls = matches!(old.flow[at], Flow::Call(_) | Flow::CallIndirect);
            (calls || old.text.insns[at].is_nop())
                && new.run(section as usize, offset, until[at]).any(|insn| insn.ins.code() == Opcode::Ud2)
        };
        let stops = (0..old.flow.len()).filter(stops).collect();
        Ok(Context { pair, old, new, pads, starts, until, stops, budgeted })
    }

    /// Says whether an original instruction has code of its own. A charge at the place of one that
    /// has none stands before the code of the next one that has some, and the walk pays it there.
    pub(crate) fn has_code(&self, at: Index) -> bool {
        self.until[at] != self.old.place[at].1
    }

    /// Returns the length of the charge at a place of the new code. Only budgeted objects have
    /// charges.
    pub(crate) fn charge(&self, (section, offset): (usize, u64)) -> Option<u64> {
        if !self.budgeted {
            return None;
        }
        let data = self.pair.new.sections.get(section)?.data;
        let charge = budget::charge(data.get(usize::try_from(offset).ok()?..)?)?;
        let trap = usize::try_from(offset.checked_add_signed(charge.trap)?).ok()?;
        (data.get(trap) == Some(&0xcc)).then_some(charge.length as u64)
    }

    /// Finds an instruction of the original program that names the budget's register, if the new
    /// object is budgeted. Then charges and the program would change each other's values.
    pub(crate) fn names_the_budget(&self) -> Option<Index> {
        let names = |insn: &Insn| {
            let ins = &insn.ins;
            let operands = (0..ins.op_count()).filter(|op| ins.op_kind(*op) == OpKind::Register);
            let mut named = operands.map(|op| ins.op_register(op)).chain([ins.memory_base(), ins.memory_index()]);
            !insn.is_nop() && named.any(|register| register.full_register() == budget::REGISTER)
        };
        self.old.text.insns.iter().position(|insn| self.budgeted && names(insn))
    }

    /// Makes addresses of receivers odd: only those count as addresses of their labels.
    pub(crate) fn mark_receivers(&mut self, receivers: impl Iterator<Item = Index>) {
        for at in receivers {
            let section = self.old.place[at].0 as usize;
            let Some(pad) = self.old.pad[at].map(u64::from) else { continue };
            if let Some(label) = self.pads.remove(&(section, pad)) {
                self.pads.insert((section, pad + 1), label);
            }
        }
    }

    /// Returns the end of the stretch of code that contains an offset.
    pub(crate) fn stretch_end(&self, section: usize, offset: u64) -> u64 {
        let Some(starts) = self.starts.get(&section) else { return offset };
        starts.get(starts.partition_point(|start| *start <= offset)).copied().unwrap_or(offset)
    }

    /// Returns the new place of an original instruction as a spot.
    pub(crate) fn spot(&self, at: Index) -> Spot {
        let (section, offset) = self.old.place[at];
        Spot::Code(section as usize, u64::from(offset))
    }

    /// Returns a place of the new code as a spot. For a landing pad it is the place of its label.
    pub(crate) fn new_spot(&self, section: usize, offset: u64) -> Spot {
        Spot::Code(section, self.pads.get(&(section, offset)).copied().unwrap_or(offset))
    }

    /// Returns the symbol that stands for a section of the original object.
    pub(crate) fn section_symbol(&self, section: usize) -> Option<usize> {
        let is = |s: &sfi_elf::Symbol<'_>| {
            s.kind == sfi_elf::number::STT_SECTION && s.place == sfi_elf::Place::Section(section)
        };
        self.pair.old.symbols.iter().position(is)
    }

    /// Returns the meaning of `symbol + more` in the original object.
    pub(crate) fn old_meaning(&self, symbol: usize, more: i64) -> Option<Meaning> {
        match self.pair.old_code(symbol) {
            Some(_) if more == 0 && is_open(&self.pair.old.symbols[symbol]) => {
                Some((Spot::Named(self.pair.old.symbols[symbol].name.to_owned()), 0))
            }
            Some((section, value)) => {
                let offset = value.wrapping_add_signed(more);
                match self.old.text.at(section, offset) {
                    Some(at) => Some((self.spot(at), 0)),
                    None => self.carved(section, offset),
                }
            }
            None => {
                spot_of(&self.pair.old, symbol, |s| self.pair.new_of[s]).map(|(spot, at)| (spot, at.wrapping_add(more)))
            }
        }
    }

    /// Returns the new place of data from the original text.
    pub(crate) fn carved(&self, section: usize, offset: u64) -> Option<Meaning> {
        let text = &self.pair.old.sections[section];
        let end = |start: u64| self.old.text.at(section, start).map(|at| self.old.text.insns[at].end());
        // No instruction before the last one, and those with which it may share bytes, ends later.
        let last = (0..offset).rev().find(|start| end(*start).is_some());
        let ends = last.map(|last| (last.saturating_sub(15)..=last).filter_map(end).max().unwrap_or(0));
        let start = ends.unwrap_or(0).min(offset);
        let align = text.align.max(1);
        let first = start & !(align - 1);
        let find = |first: u64| {
            self.pair.carved.iter().copied().find(|&at| {
                let copy = self.pair.new.sections[at].data;
                let original = text.data.get(first as usize..).and_then(|rest| rest.get(..copy.len()));
                copy.len() as u64 > offset - first && original == Some(copy)
            })
        };
        // The copy of a table begins earlier if code names a place before the table.
        let places = (0..=LEAD / align).map_while(|n| first.checked_sub(n * align));
        let (first, copy) = places.into_iter().find_map(|first| Some((first, find(first)?)))?;
        Some((Spot::Data(copy), (offset - first) as i64))
    }

    /// Returns the meaning of `symbol + more` in the new object.
    pub(crate) fn new_meaning(&self, symbol: usize, more: i64) -> Option<Meaning> {
        let object = &self.pair.new;
        let of = object.symbols.get(symbol)?;
        match of.place {
            sfi_elf::Place::Section(section) if object.sections[section].is_executable() => {
                if more == 0 && is_open(of) {
                    return Some((Spot::Named(of.name.to_owned()), 0));
                }
                Some((self.new_spot(section, of.value.wrapping_add_signed(more)), 0))
            }
            _ => spot_of(object, symbol, Some).map(|(spot, at)| (spot, at.wrapping_add(more))),
        }
    }

    /// Returns the place of code that a symbol of the new object means, be it a landing pad.
    pub(crate) fn new_place(&self, symbol: usize) -> Option<Spot> {
        let of = self.pair.new.symbols.get(symbol)?;
        match of.place {
            sfi_elf::Place::Section(section) if self.pair.new.sections[section].is_executable() => {
                Some(Spot::Code(section, of.value))
            }
            _ => None,
        }
    }

    fn meaning(&self, is_new: bool, symbol: usize, more: i64) -> Option<Meaning> {
        if is_new { self.new_meaning(symbol, more) } else { self.old_meaning(symbol, more) }
    }

    /// Returns the meaning that a relocation gives to a field. `behind`: bytes from the field to
    /// the instruction's end, if the field is relative to rip.
    fn field(&self, is_new: bool, reloc: &Relocation, behind: Option<i64>) -> Option<Meaning> {
        let more = reloc.addend.wrapping_add(behind.unwrap_or(0));
        let thread = |kind: u32| kind::is_thread(kind) || matches!(kind, kind::TLSGD | kind::TLSLD);
        match (reloc.kind, behind) {
            (k, _) if thread(k) => {
                let (spot, at) = self.meaning(is_new, reloc.symbol, 0)?;
                Some((Spot::Thread(Box::new(spot)), at.wrapping_add(more)))
            }
            (k, Some(_)) if kind::is_got(k) => {
                let (spot, at) = self.meaning(is_new, reloc.symbol, 0)?;
                Some((Spot::Got(Box::new(spot), at), more))
            }
            // The offset in the window, where the original program counts from the thread pointer.
            (kind::WORD | kind::SIGNED_WORD, None) if is_new && is_local(&self.pair.new, reloc.symbol) => {
                let (spot, at) = self.meaning(is_new, reloc.symbol, 0)?;
                Some((Spot::Thread(Box::new(spot)), at.wrapping_add(more).wrapping_add(TCB.symbolic() as i64)))
            }
            (kind::PC32 | kind::PLT32, Some(_)) => self.meaning(is_new, reloc.symbol, more),
            (kind::ABSOLUTE | kind::WORD | kind::SIGNED_WORD, None) => self.meaning(is_new, reloc.symbol, more),
            // The original program adds both, so the GOT may be anywhere: its address is 0.
            (kind::GOTPC32, Some(_)) if !is_new && more == 0 => Some((Spot::Number, 0)),
            (kind::GOTOFF64, None) if !is_new => self.meaning(is_new, reloc.symbol, more),
            (32 | 33, None) => {
                let name = |object: &sfi_elf::Object<'_>| object.symbols.get(reloc.symbol).map(|s| s.name.to_owned());
                let name = if is_new { name(&self.pair.new) } else { name(&self.pair.old) };
                Some((Spot::Size(name?), more))
            }
            _ => None,
        }
    }

    /// Returns the meanings of an instruction's fields, by relocations or the instruction itself.
    /// `None` if one is not understood.
    pub(crate) fn meanings(&self, is_new: bool, insn: &Insn) -> Option<(Option<Meaning>, Option<Meaning>)> {
        let object = if is_new { &self.pair.new } else { &self.pair.old };
        let relocations = &object.sections.get(insn.section as usize)?.relocations;
        let relative = insn.ins.is_ip_rel_memory_operand();
        let displacement = match insn.displacement {
            Some(number) => {
                let reloc = relocations.get(number as usize)?;
                Some(self.field(is_new, reloc, relative.then(|| insn.behind()))?)
            }
            None if relative && !is_new => {
                let (section, offset) = (insn.section as usize, insn.ins.memory_displacement64());
                Some(match self.old.text.at(section, offset) {
                    Some(at) => (self.spot(at), 0),
                    None => self.carved(section, offset)?,
                })
            }
            // The address of code is that of a dispatch slot, and only a relocation gives it.
            None if relative => return None,
            None => None,
        };
        let immediate = match insn.immediate {
            Some(number) => Some(self.field(is_new, relocations.get(number as usize)?, None)?),
            None => None,
        };
        Some((displacement, immediate))
    }

    /// Returns the values of an instruction's fields as expressions.
    pub(crate) fn fields(&self, values: &mut Values, is_new: bool, insn: &Insn) -> Option<Fields> {
        if insn.displacement.is_none() && insn.immediate.is_none() && !insn.ins.is_ip_rel_memory_operand() {
            return Some(Fields { displacement: None, immediate: None, constant: None });
        }
        let (displacement, immediate) = self.meanings(is_new, insn)?;
        let mut expression = |meaning: Meaning| -> Id {
            let spot = match meaning.0 {
                Spot::Number => values.number(0),
                spot => values.id(Node::Spot(spot)),
            };
            values.plus(spot, meaning.1)
        };
        let displacement = displacement.map(&mut expression);
        let immediate = immediate.map(&mut expression);
        let initial = insn.displacement.filter(|_| !is_new).and_then(|number| {
            let reloc = self.pair.old.sections[insn.section as usize].relocations.get(number as usize)?;
            (reloc.kind == kind::GOTTPOFF).then_some(())
        });
        let constant = initial.and(displacement);
        Some(Fields { displacement, immediate, constant })
    }

    /// Returns the target of a direct branch of the new code.
    pub(crate) fn new_target(&self, insn: &Insn) -> Option<Spot> {
        let section = insn.section as usize;
        match insn.immediate.or(insn.displacement) {
            Some(number) => {
                let reloc = self.pair.new.sections[section].relocations.get(number as usize)?;
                let branch = matches!(reloc.kind, kind::PLT32 | kind::PC32);
                let (spot, at) = self.new_meaning(reloc.symbol, reloc.addend.wrapping_add(4)).filter(|_| branch)?;
                (at == 0).then_some(spot)
            }
            None => Some(Spot::Code(section, insn.ins.near_branch_target())),
        }
    }
}

/// Says whether an operand is explicit memory.
pub(crate) fn has_memory(ins: &iced_x86::Instruction) -> bool {
    (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory)
}
