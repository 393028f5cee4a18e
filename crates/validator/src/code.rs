//! The instructions of both objects, and the targets of the original ones.

use crate::cold::{self, Functions, stem};
use crate::object::{self, Pair, is_function, is_indirect, is_open, kind, relocations};
use foldhash::{HashMap, HashMapExt};
use iced_x86::Register;
use iced_x86::{Code as Opcode, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use sfi_debuginfo::map::{Keeping, Trace};
use sfi_elf::{Object, Place, Relocation};

/// Index of an instruction.
pub(crate) type Index = usize;

const NONE: u32 = u32::MAX;

/// An instruction of either object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insn {
    /// Decoded with `ip` = offset in the section.
    pub ins: Instruction,
    /// Index of the section.
    pub section: u32,
    /// Index of the relocation that patches the displacement.
    pub displacement: Option<u32>,
    /// Index of the relocation that patches the immediate or the branch's distance.
    pub immediate: Option<u32>,
    /// Offset of the displacement in the instruction, if a relocation patches it.
    field: u8,
}

impl Insn {
    /// Returns the offset in the section.
    pub(crate) fn offset(&self) -> u64 {
        self.ins.ip()
    }

    /// Returns the offset of the first byte after it.
    pub(crate) fn end(&self) -> u64 {
        self.ins.next_ip()
    }

    /// Returns the bytes from the displacement, which a relocation patches, to the instruction's
    /// end.
    pub(crate) fn behind(&self) -> i64 {
        self.ins.len() as i64 - i64::from(self.field)
    }

    /// Says whether it does nothing.
    pub(crate) fn is_nop(&self) -> bool {
        matches!(self.ins.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Fnop)
    }
}

/// Instructions of the code sections of one object.
#[derive(Default)]
pub(crate) struct Text {
    pub insns: Vec<Insn>,
    /// For each section, the instruction at each offset.
    at: Vec<Vec<u32>>,
}

impl Text {
    /// Returns the instruction at an offset.
    pub(crate) fn at(&self, section: usize, offset: u64) -> Option<Index> {
        match self.at.get(section)?.get(usize::try_from(offset).ok()?) {
            Some(&index) if index != NONE => Some(index as usize),
            _ => None,
        }
    }

    /// Returns the instruction at an offset, itself.
    pub(crate) fn insn_at(&self, section: usize, offset: u64) -> Option<&Insn> {
        self.at(section, offset).map(|at| &self.insns[at])
    }

    /// Returns the instruction after this one.
    pub(crate) fn next(&self, at: Index) -> Option<Index> {
        let insn = &self.insns[at];
        let next = at + 1;
        self.insns
            .get(next)
            .filter(|n| n.section == insn.section && n.offset() == insn.end())
            .map(|_| next)
            .or_else(|| self.at(insn.section as usize, insn.end()))
    }

    /// Returns the instructions from one offset of a section to another one.
    pub(crate) fn run(&self, section: usize, from: u32, until: u32) -> impl Iterator<Item = &Insn> {
        let first = self.at(section, u64::from(from));
        let rest = first.map_or(&[][..], |first| &self.insns[first..]);
        rest.iter().take_while(move |insn| insn.section as usize == section && insn.offset() < u64::from(until))
    }

    fn add(&mut self, index: usize, object: &Object<'_>, decoder: &mut Decoder<'_>) -> Result<(), String> {
        let section = &object.sections[index];
        let offset = decoder.ip();
        let ins = decoder.decode();
        if ins.is_invalid() {
            return Err(format!("{}+{offset:#x} does not decode", section.name));
        }
        let mut patches = relocations(section, offset, ins.next_ip()).peekable();
        // Only relocations ask where the fields lie.
        let fields = patches.peek().map(|_| decoder.get_constant_offsets(&ins)).unwrap_or_default();
        let mut insn = Insn { ins, section: index as u32, displacement: None, immediate: None, field: field(&fields) };
        insn.ins.set_code(one_name(&ins));
        for (number, reloc) in patches {
            let at = (reloc.offset - offset) as usize;
            if reloc.kind == kind::NONE {
            } else if let Some(place) = object::anchored(object, reloc).filter(|_| at == fields.displacement_offset()) {
                insn.ins.set_memory_displacement64(place.symbolic());
            } else if fields.has_displacement() && at == fields.displacement_offset() {
                insn.displacement = Some(number as u32);
            } else if fields.has_immediate() && at == fields.immediate_offset() {
                insn.immediate = Some(number as u32);
            } else {
                return Err(format!("{}+{:#x}: a relocation patches no field", section.name, reloc.offset));
            }
        }
        self.at[index][offset as usize] = self.insns.len() as u32;
        self.insns.push(insn);
        Ok(())
    }

    /// Says whether an `int3` stands at a place.
    pub(crate) fn is_trap(&self, section: usize, offset: u32) -> bool {
        self.insn_at(section, u64::from(offset)).is_some_and(|insn| insn.ins.mnemonic() == Mnemonic::Int3)
    }

    /// Decodes every instruction of the new object.
    pub(crate) fn of_new(pair: &Pair<'_>) -> Result<Text, String> {
        let mut text = Text { insns: Vec::new(), at: vec![Vec::new(); pair.new.sections.len()] };
        for (index, section) in pair.new.sections.iter().enumerate().filter(|(_, s)| s.is_executable()) {
            text.at[index] = vec![NONE; section.data.len() + 1];
            let mut decoder = Decoder::with_ip(64, section.data, 0, DecoderOptions::NONE);
            while decoder.can_decode() {
                text.add(index, &pair.new, &mut decoder)?;
            }
        }
        text.insns.shrink_to_fit();
        Ok(text)
    }

    /// Decodes the original instructions at the places that the traces name. If a trace leaves out
    /// an instruction, the walk fails when something leads there.
    pub(crate) fn of_old(pair: &Pair<'_>, traces: &[Trace]) -> Result<Text, String> {
        let mut text = Text { insns: Vec::new(), at: vec![Vec::new(); pair.old.sections.len()] };
        for trace in traces {
            let Some(section) = pair.old.sections.get(trace.section) else { return Err("a trace of nothing".into()) };
            text.at[trace.section] = vec![NONE; section.data.len() + 1];
            let mut decoder = Decoder::with_ip(64, section.data, 0, DecoderOptions::NONE);
            for step in trace.steps.iter().filter(|step| !step.pad) {
                let offset = step.old as usize;
                if offset == section.data.len() {
                    // A branch to the section's end runs into the loader's trap.
                    let mut ins = Instruction::with(Opcode::Ud2);
                    ins.set_len(2);
                    ins.set_ip(offset as u64);
                    text.at[trace.section][offset] = text.insns.len() as u32;
                    let section = trace.section as u32;
                    text.insns.push(Insn { ins, section, displacement: None, immediate: None, field: 0 });
                    continue;
                }
                if decoder.set_position(offset).is_err() {
                    return Err("a trace after the section's end".into());
                }
                decoder.set_ip(offset as u64);
                text.add(trace.section, &pair.old, &mut decoder)?;
            }
        }
        text.insns.shrink_to_fit();
        Ok(text)
    }
}

/// Returns one opcode for all opcodes of SSE that do the same: plain moves of integers, of double
/// and of single precision, and the ways to clear a register.
fn one_name(ins: &Instruction) -> Opcode {
    use Opcode::*;
    let clears = ins.op_count() == 2
        && ins.op0_kind() == OpKind::Register
        && ins.op1_kind() == OpKind::Register
        && ins.op0_register() == ins.op1_register();
    match ins.code() {
        Movdqa_xmm_xmmm128 | Movapd_xmm_xmmm128 => Movaps_xmm_xmmm128,
        Movdqa_xmmm128_xmm | Movapd_xmmm128_xmm => Movaps_xmmm128_xmm,
        Movdqu_xmm_xmmm128 | Movupd_xmm_xmmm128 => Movups_xmm_xmmm128,
        Movdqu_xmmm128_xmm | Movupd_xmmm128_xmm => Movups_xmmm128_xmm,
        Movlpd_xmm_m64 => Movlps_xmm_m64,
        Movlpd_m64_xmm => Movlps_m64_xmm,
        Movhpd_xmm_m64 => Movhps_xmm_m64,
        Movhpd_m64_xmm => Movhps_m64_xmm,
        Pxor_xmm_xmmm128 | Xorpd_xmm_xmmm128 if clears => Xorps_xmm_xmmm128,
        other => other,
    }
}

fn field(fields: &ConstantOffsets) -> u8 {
    fields.displacement_offset() as u8
}

/// The target of a direct branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dest {
    /// An instruction of the object.
    Insn(Index),
    /// A symbol that the linker resolves.
    Symbol(usize),
    /// A place that the validator does not know.
    Nowhere,
}

/// The way on from an instruction of the original object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Call(Dest),
    CallIndirect,
    Jump(Dest),
    Branch(Dest),
    JumpIndirect,
    Return,
    Stop,
}

/// The place of the original r15 at an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub how: Keeping,
    pub slot: Option<i64>,
}

/// The original code, with the trace's account of it.
pub(crate) struct Old<'p, 'a> {
    pub pair: &'p Pair<'a>,
    pub text: Text,
    pub flow: Vec<Flow>,
    /// New section and offset of each instruction's code. `pad` has the offset of its landing pad.
    pub place: Vec<(u32, u32)>,
    pub pad: Vec<Option<u32>>,
    pub kept: Vec<Kept>,
    /// Names of functions by place.
    pub functions: Functions<'a>,
    /// The functions of unlikely parts, by the part's place.
    pub wholes: HashMap<cold::Place, cold::Place>,
}

/// Says whether an instruction always faults: a domain has no transaction that could end, because
/// each aborts where it begins, and no shadow stack.
fn faults(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Xend | Mnemonic::Incsspd | Mnemonic::Incsspq)
}

/// Says whether control may go on after an instruction.
pub(crate) fn falls_through(flow: Flow) -> bool {
    !matches!(flow, Flow::Jump(_) | Flow::JumpIndirect | Flow::Return | Flow::Stop)
}

impl<'p, 'a> Old<'p, 'a> {
    /// Says whether an instruction is `mov %rsp,m`, or the second of `mov %rsp,%r` and `mov %r,m`.
    pub(crate) fn saves_stack(&self, at: Index) -> bool {
        let ins = &self.text.insns[at].ins;
        if ins.mnemonic() != Mnemonic::Mov || ins.op0_kind() != OpKind::Memory {
            return false;
        }
        let copies = |copy: Index| {
            let copy = &self.text.insns[copy].ins;
            copy.mnemonic() == Mnemonic::Mov
                && copy.op1_register() == Register::RSP
                && copy.op0_register() == ins.op1_register()
        };
        let copy = at.checked_sub(1).filter(|copy| self.text.next(*copy) == Some(at));
        ins.op1_register() == Register::RSP || (ins.op1_register().is_gpr64() && copy.is_some_and(copies))
    }

    /// Decodes the original object and finds the targets of its branches.
    pub(crate) fn read(pair: &'p Pair<'a>, traces: &[Trace]) -> Result<Old<'p, 'a>, String> {
        let text = Text::of_old(pair, traces)?;
        let count = text.insns.len();
        let mut old = Old {
            pair,
            text,
            flow: vec![Flow::Next; count],
            place: vec![(0, 0); count],
            pad: vec![None; count],
            kept: vec![Kept::default(); count],
            functions: Functions::new(),
            wholes: HashMap::new(),
        };
        for symbol in pair.old.symbols.iter().filter(|s| is_function(s)) {
            if let Place::Section(section) = symbol.place {
                let (name, cold) = stem(symbol.name);
                // An empty unlikely part has no code of its function.
                if !cold || symbol.size != 0 {
                    old.functions.entry((section, symbol.value)).or_default().push((name, cold));
                }
            }
        }
        old.wholes = cold::wholes(&old.functions);
        for trace in traces {
            let new = pair.new_of[trace.section].ok_or("the trace of a section that is gone")?;
            for step in &trace.steps {
                let Some(at) = old.text.at(trace.section, u64::from(step.old)) else { continue };
                if step.pad {
                    old.pad[at] = Some(step.new);
                } else {
                    old.place[at] = (new as u32, step.new);
                    old.kept[at] = Kept { how: step.r15, slot: step.slot };
                }
            }
        }
        for at in 0..count {
            if let Some(ins) = old.retpoline(at) {
                old.text.insns[at] = Insn { section: old.text.insns[at].section, ..Insn::plain(ins) };
            }
            old.flow[at] = old.flow_of(at);
        }
        Ok(old)
    }

    /// Says whether an instruction is the trap that stands for a section's end.
    pub(crate) fn is_trap(&self, at: Index) -> bool {
        let insn = &self.text.insns[at];
        insn.offset() == self.pair.old.sections[insn.section as usize].data.len() as u64
    }

    /// Returns the relocation of an instruction's field.
    pub(crate) fn relocation(&self, at: Index, number: Option<u32>) -> Option<&'p Relocation> {
        let section = &self.pair.old.sections[self.text.insns[at].section as usize];
        section.relocations.get(number? as usize)
    }

    /// Returns the instruction of this object that a destination means.
    pub(crate) fn insn_of(&self, dest: Dest) -> Option<Index> {
        match dest {
            Dest::Insn(at) => Some(at),
            Dest::Symbol(symbol) if !is_indirect(&self.pair.old.symbols[symbol]) => {
                let (section, offset) = self.pair.old_code(symbol)?;
                self.text.at(section, offset)
            }
            _ => None,
        }
    }

    fn flow_of(&self, at: Index) -> Flow {
        let insn = &self.text.insns[at];
        let ins = &insn.ins;
        let got = || {
            let reloc = self.relocation(at, insn.displacement)?;
            let direct = ins.memory_base() == Register::RIP && reloc.addend == -4 && reloc.symbol != 0;
            (kind::is_got(reloc.kind) && direct).then_some(Dest::Symbol(reloc.symbol))
        };
        match ins.flow_control() {
            FlowControl::Call if ins.is_call_near() => Flow::Call(self.direct(at)),
            FlowControl::UnconditionalBranch => Flow::Jump(self.direct(at)),
            FlowControl::ConditionalBranch => Flow::Branch(self.direct(at)),
            FlowControl::XbeginXabortXend if ins.mnemonic() == Mnemonic::Xbegin => Flow::Jump(self.direct(at)),
            FlowControl::IndirectCall => got().map_or(Flow::CallIndirect, Flow::Call),
            FlowControl::IndirectBranch => got().map_or(Flow::JumpIndirect, Flow::Jump),
            FlowControl::Return => Flow::Return,
            _ if matches!(ins.code(), Opcode::Ud2 | Opcode::Hlt) || faults(ins.mnemonic()) => Flow::Stop,
            _ => Flow::Next,
        }
    }

    /// Returns the real meaning of a call whose callee does not return to it. The callee may begin
    /// by replacing its return address (`call 1f ; ... ; 1: mov %r,(%rsp) ; ret`): the call is a
    /// jump. Or it begins by dropping its return address: the call is a return.
    fn retpoline(&self, at: Index) -> Option<Instruction> {
        let call = self.text.insns[at].ins;
        let Dest::Insn(callee) = call.is_call_near().then(|| self.direct(at))? else { return None };
        let first = &self.text.insns[callee];
        let second = &self.text.insns[self.text.next(callee)?];
        let plain = first.displacement.is_none() && first.immediate.is_none();
        let (top, to_stack) = (first.ins.memory_base() == Register::RSP, first.ins.op0_register() == Register::RSP);
        let offset = first.ins.memory_displacement64();
        let alone = top && first.ins.memory_index() == Register::None;
        let mut meant = match first.ins.code() {
            _ if !plain || second.ins.code() != Opcode::Retnq => None,
            Opcode::Lea_r64_m if alone && to_stack && offset == 8 => Some(Instruction::with(Opcode::Retnq)),
            Opcode::Add_rm64_imm8 if to_stack && first.ins.immediate(1) == 8 => Some(Instruction::with(Opcode::Retnq)),
            Opcode::Mov_rm64_r64 if alone && offset == 0 && first.ins.op1_register() != Register::RSP => {
                Instruction::with1(Opcode::Jmp_rm64, first.ins.op1_register()).ok()
            }
            _ => None,
        }?;
        meant.set_len(call.len());
        meant.set_ip(call.ip());
        Some(meant)
    }

    fn direct(&self, at: Index) -> Dest {
        let insn = &self.text.insns[at];
        if insn.ins.op0_kind() != OpKind::NearBranch64 {
            return Dest::Nowhere;
        }
        let section = insn.section as usize;
        let Some(reloc) = self.relocation(at, insn.immediate.or(insn.displacement)) else {
            let target = insn.ins.near_branch_target();
            let never = self.never_reached(at, section, target);
            return never
                .or_else(|| self.text.at(section, target))
                .or_else(|| self.behind_lock(section, target))
                .map_or(Dest::Nowhere, Dest::Insn);
        };
        let bias = reloc.addend.wrapping_add(4);
        match self.pair.old_code(reloc.symbol) {
            Some(_) if bias == 0 && is_open(&self.pair.old.symbols[reloc.symbol]) => Dest::Symbol(reloc.symbol),
            Some((section, value)) => {
                let offset = value.wrapping_add_signed(bias);
                let never = self.never_reached(at, section, offset).filter(|_| !insn.ins.is_call_near());
                never.or_else(|| self.text.at(section, offset)).map_or(Dest::Nowhere, Dest::Insn)
            }
            None if bias == 0 => Dest::Symbol(reloc.symbol),
            None => Dest::Nowhere,
        }
    }

    /// Returns the code whose address is an instruction's operand.
    pub(crate) fn address(&self, at: Index) -> Option<Index> {
        let insn = &self.text.insns[at];
        let lea = insn.ins.mnemonic() == Mnemonic::Lea && insn.ins.memory_base() == Register::RIP;
        if lea && insn.displacement.is_none() {
            return self.text.at(insn.section as usize, insn.ins.memory_displacement64());
        }
        let displacement = self.relocation(at, insn.displacement).filter(|r| lea && !kind::is_got(r.kind));
        let (reloc, bias) = match displacement {
            Some(reloc) => (reloc, insn.behind()),
            None => (self.relocation(at, insn.immediate)?, 0),
        };
        let (section, value) = self.pair.old_code(reloc.symbol)?;
        self.text.at(section, value.wrapping_add_signed(reloc.addend.wrapping_add(bias)))
    }

    /// Returns the instruction with a `lock` prefix that a branch skips. The branch may as well not
    /// skip it.
    fn behind_lock(&self, section: usize, target: u64) -> Option<Index> {
        let before = target.checked_sub(1)?;
        let byte = self.pair.old.sections[section].data.get(usize::try_from(before).ok()?);
        self.text.at(section, before).filter(|_| byte == Some(&0xf0))
    }
}

impl Insn {
    /// Returns an instruction of neither object.
    pub(crate) fn plain(ins: Instruction) -> Insn {
        Insn { ins, section: 0, displacement: None, immediate: None, field: 0 }
    }
}
