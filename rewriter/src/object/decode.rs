//! Phase 2: decodes every byte of every code section into instructions. Each has the relocations
//! that patch it and the place that it branches to.

use crate::object::cold::{Wholes, stem};
use crate::object::forms::{FormIndex, Forms, is_nop, placed};
pub(crate) use crate::object::index::{InsnIndex, InsnSet, PerInsn, SymbolNumber};
use crate::object::read::{Object, Place, Reloc, SectionIndex, SymbolIndex};
use crate::object::starts::Starts;
use crate::refusal::{Reason, Refusal};
use iced_x86::{
    Code as Opcode, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, MemoryOperand, Mnemonic,
    OpKind, Register,
};
use object::elf;
use sfi_contract::text::clean;
use std::num::NonZeroU32;
use std::ops::Deref;

/// The target of a direct branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dest {
    /// An instruction of this object, independent of name resolution.
    Insn(InsnIndex),
    /// A symbol that the linker resolves: undefined, or global and so preemptible.
    Symbol(SymbolNumber),
}

/// Every instruction of an object is in memory while its new code is made.
const _: () = assert!(size_of::<Insn>() == 28);

/// The way on from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Call(Dest),
    CallIndirect,
    Jump(Dest),
    /// Also jrcxz and the loop family.
    Branch(Dest),
    JumpIndirect,
    Return,
    /// ud2, hlt: control does not continue.
    Stop,
}

/// Index into a section's relocations. An optional one takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelocIndex(NonZeroU32);

impl RelocIndex {
    fn new(index: usize) -> Option<RelocIndex> {
        u32::try_from(index + 1).ok().and_then(NonZeroU32::new).map(RelocIndex)
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insn {
    /// The form that [`Code::ins`] returns.
    pub form: FormIndex,
    pub section: u32,
    pub offset: u32,
    /// The relocation that patches the displacement (or the branch's rel32).
    pub disp_reloc: Option<RelocIndex>,
    /// The relocation that patches the immediate.
    pub imm_reloc: Option<RelocIndex>,
    /// Offset of the displacement inside the instruction, if it is relocated or relative to rip.
    pub disp_at: u8,
    size: Size,
    pub flow: Flow,
}

/// An instruction's length in bytes, and [`NOP`].
#[derive(Clone, Copy, Debug)]
struct Size(u8);

/// The mark of an instruction that may be dropped.
const NOP: u8 = 0x80;

impl Size {
    fn of(ins: &Instruction) -> Size {
        Size(ins.len() as u8 | if is_nop(ins) { NOP } else { 0 })
    }
}

impl Insn {
    /// Says whether the instruction may be dropped (see [`is_nop`]).
    pub(crate) fn is_nop(&self) -> bool {
        self.size.0 & NOP != 0
    }

    /// Returns the instruction's length in bytes.
    pub(crate) fn len(&self) -> u8 {
        self.size.0 & !NOP
    }

    /// Returns the offset of the first byte after the instruction.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len())
    }

    /// Returns the bytes from the displacement to the instruction's end. Rip-relative addends leave
    /// them out.
    pub(crate) fn behind_displacement(&self) -> i64 {
        i64::from(self.len()) - i64::from(self.disp_at)
    }
}

/// A code section's instructions.
pub(crate) struct CodeSection {
    pub section: SectionIndex,
    /// First instruction and one past the last, which is [`CodeSection::trap`].
    pub first: InsnIndex,
    pub end: InsnIndex,
    /// A `ud2` after the section's last instruction, for branches and table entries that are never
    /// taken. It is no part of the code before it: nothing falls into it, and without a label it is
    /// not written.
    pub trap: InsnIndex,
    starts: Starts,
    /// Function symbols by offset: (offset, symbol).
    pub functions: Vec<(u64, SymbolIndex)>,
    /// Starts of functions' cold parts, in order.
    pub cold_parts: Vec<u64>,
}

/// A usual size of instructions in bytes. The list of instructions has this room at first.
const INSN_SIZE: usize = 4;

/// Most forms for which there is room from the start. Large objects have fewer than a third of
/// their instructions.
const MOST_FORMS: usize = 4096;

/// All code of an object.
pub(crate) struct Code<'o, 'a> {
    pub insns: PerInsn<Insn>,
    pub forms: Forms,
    pub map: CodeMap<'o, 'a>,
}

/// The places of an object's instructions.
pub(crate) struct CodeMap<'o, 'a> {
    pub object: &'o Object<'a>,
    pub sections: Vec<CodeSection>,
    /// Index into `sections` by section index.
    by_section: Vec<Option<usize>>,
    /// The functions of cold parts.
    pub wholes: Wholes,
}

impl<'o, 'a> Deref for Code<'o, 'a> {
    type Target = CodeMap<'o, 'a>;

    fn deref(&self) -> &CodeMap<'o, 'a> {
        &self.map
    }
}

impl CodeMap<'_, '_> {
    /// Returns the code section with this index, if it is one.
    pub(crate) fn section(&self, section: SectionIndex) -> Option<&CodeSection> {
        self.by_section.get(section).copied().flatten().map(|i| &self.sections[i])
    }

    /// Returns the section of an instruction.
    pub(crate) fn section_of(&self, at: InsnIndex) -> SectionIndex {
        self.sections[self.number_of(at)].section
    }

    /// Returns the index of an instruction's section in [`CodeMap::sections`].
    pub(crate) fn number_of(&self, at: InsnIndex) -> usize {
        self.sections.partition_point(|section| section.end <= at)
    }

    /// Returns the instruction that starts at an offset of a section.
    pub(crate) fn at(&self, section: SectionIndex, offset: u64) -> Option<InsnIndex> {
        let section = self.section(section)?;
        let number = section.starts.number(usize::try_from(offset).ok()?)?;
        Some(InsnIndex(section.first.0 + number))
    }

    /// Returns the instruction at an offset of a section. If none starts there, returns the next.
    pub(crate) fn place(&self, section: &CodeSection, offset: u64) -> InsnIndex {
        let size = self.object.sections[section.section].data.len();
        match usize::try_from(offset).ok().filter(|offset| *offset <= size) {
            Some(offset) => InsnIndex(section.first.0 + section.starts.before(offset)),
            None => section.end,
        }
    }

    /// Returns the function symbol at or before an offset.
    pub(crate) fn function_at(&self, section: SectionIndex, offset: u64) -> Option<SymbolIndex> {
        let functions = &self.section(section)?.functions;
        let next = functions.partition_point(|(start, _)| *start <= offset);
        functions[..next].last().map(|(_, symbol)| *symbol)
    }

    /// Returns a refusal that points at an offset of any section.
    pub(crate) fn refuse_offset(
        &self,
        section: SectionIndex,
        offset: u64,
        reason: Reason,
        detail: impl Into<String>,
    ) -> Refusal {
        refuse_at(self, section, offset, None, reason, detail.into())
    }
}

impl<'o, 'a> Code<'o, 'a> {
    /// Returns the indexes of all instructions.
    #[inline]
    pub(crate) fn indexes(&self) -> impl DoubleEndedIterator<Item = InsnIndex> + Clone + use<> {
        InsnIndex::FIRST.until(self.insns.next_key())
    }

    /// Returns all instructions with their indexes.
    #[inline]
    pub(crate) fn each(&self) -> impl Iterator<Item = (InsnIndex, &Insn)> {
        self.insns.raw.iter().zip(0..).map(|(insn, at)| (InsnIndex(at), insn))
    }

    /// Returns an instruction as decoded at address 0 (see [`Forms`]).
    #[inline]
    pub(crate) fn ins(&self, at: InsnIndex) -> &Instruction {
        self.form(&self.insns[at])
    }

    /// Returns the form of an instruction.
    #[inline]
    pub(crate) fn form(&self, insn: &Insn) -> &Instruction {
        self.forms.get(insn.form)
    }

    /// Says whether a call may return a second time, as the support code's `setjmp` and its like
    /// do.
    pub(crate) fn returns_twice(&self, dest: Dest) -> bool {
        let Dest::Symbol(symbol) = dest else { return false };
        let called = self.object.symbols[symbol.index()].name;
        sfi_contract::names::RETURNS_TWICE.iter().any(|name| name.as_bytes() == called)
    }

    /// Returns an instruction at its offset.
    pub(crate) fn placed(&self, at: InsnIndex) -> Instruction {
        placed(self.ins(at), self.insns[at].offset.into())
    }

    /// Puts another instruction in the place of one.
    pub(crate) fn replace(&mut self, at: InsnIndex, ins: &Instruction) {
        self.insns[at].form = self.forms.number(ins);
    }

    /// Returns a list with this value for each instruction.
    pub(crate) fn per_insn<T: Clone>(&self, value: T) -> PerInsn<T> {
        vec![value; self.insns.len()].into()
    }

    /// Returns the set of no instruction.
    pub(crate) fn no_insns(&self) -> InsnSet {
        InsnSet::new(self.insns.len())
    }

    /// Returns the relocation that patches an instruction's displacement.
    pub(crate) fn disp_reloc(&self, insn: &Insn) -> Option<&'o Reloc> {
        insn.disp_reloc.map(|r| &self.object.sections[insn.section as usize].relocs[r.index()])
    }

    /// Returns the relocation that patches an instruction's immediate.
    pub(crate) fn imm_reloc(&self, insn: &Insn) -> Option<&'o Reloc> {
        insn.imm_reloc.map(|r| &self.object.sections[insn.section as usize].relocs[r.index()])
    }

    /// Says whether a symbol is defined in a code section.
    pub(crate) fn is_code_symbol(&self, symbol: SymbolIndex) -> bool {
        matches!(self.object.symbols[symbol].place, Place::Section(s) if self.section(s).is_some())
    }

    /// Says whether an instruction is the trap after its section.
    pub(crate) fn is_trap(&self, at: InsnIndex) -> bool {
        self.section(self.insns[at].section as usize).is_some_and(|section| section.trap == at)
    }

    /// Returns a refusal that points at an instruction.
    pub(crate) fn refuse(&self, at: InsnIndex, reason: Reason, detail: impl Into<String>) -> Refusal {
        let insn = &self.insns[at];
        let ins = self.placed(at);
        refuse_at(self, insn.section as usize, insn.offset.into(), Some(&ins), reason, detail.into())
    }
}

fn refuse_at(
    code: &CodeMap<'_, '_>,
    section: SectionIndex,
    offset: u64,
    ins: Option<&Instruction>,
    reason: Reason,
    detail: String,
) -> Refusal {
    let instruction = ins.map(sfi_contract::syntax::text);
    let function = code.function_at(section, offset).map(|symbol| clean(code.object.symbols[symbol].name));
    let section = code.object.sections[section].display_name();
    Refusal { reason, section, offset, function, instruction, detail }
}

/// Decodes all code sections.
///
/// # Errors
/// [`Reason::DataInText`] if bytes do not decode or a relocation does not fit an instruction's
/// field, [`Reason::BranchTarget`] and [`Reason::Relocation`] if a branch leads to no instruction.
pub(crate) fn decode<'o, 'a>(object: &'o Object<'a>) -> Result<Code<'o, 'a>, Vec<Refusal>> {
    let mut code = Code {
        insns: PerInsn::new(),
        forms: Forms::default(),
        map: CodeMap {
            object,
            sections: Vec::new(),
            by_section: vec![None; object.sections.len()],
            wholes: Wholes::find(object),
        },
    };
    let mut refusals = Vec::new();
    let mut functions = vec![Vec::new(); object.sections.len()];
    for (index, symbol) in object.symbols.iter().enumerate() {
        if let Place::Section(section) = symbol.place
            && symbol.is_function()
        {
            functions[section].push((symbol.value, index));
        }
    }
    let bytes: usize =
        object.sections.iter().filter(|section| section.is_code()).map(|section| section.data.len()).sum();
    code.insns.raw.reserve(bytes / INSN_SIZE);
    code.forms.reserve((bytes / INSN_SIZE / 3).min(MOST_FORMS));
    for (index, section) in object.sections.iter().enumerate() {
        if section.is_code() {
            decode_section(&mut code, index, std::mem::take(&mut functions[index]), &mut refusals);
        }
    }
    if refusals.is_empty() {
        resolve_branches(&mut code, &mut refusals);
    }
    if refusals.is_empty() { Ok(code) } else { Err(refusals) }
}

fn decode_section(
    code: &mut Code<'_, '_>,
    index: SectionIndex,
    mut functions: Vec<(u64, SymbolIndex)>,
    refusals: &mut Vec<Refusal>,
) {
    let section = &code.object.sections[index];
    functions.sort_unstable();
    let cold = functions.iter().filter(|(_, symbol)| stem(code.object.symbols[*symbol].name).1);
    let cold_parts = cold.map(|(start, _)| *start).collect();
    let first = code.insns.next_key();
    code.map.by_section[index] = Some(code.sections.len());
    code.map.sections.push(CodeSection {
        section: index,
        first,
        end: first,
        trap: first,
        starts: Starts::new(section.data.len()),
        functions,
        cold_parts,
    });
    let last = code.sections.len() - 1;

    let mut decoder = Decoder::with_ip(64, section.data, 0, DecoderOptions::NONE);
    let mut next_reloc = 0;
    let mut gaps = section.gaps.iter().peekable();
    while decoder.can_decode() {
        let offset = decoder.position();
        if let Some((_, end)) = gaps.next_if(|(start, _)| *start <= offset as u64) {
            if decoder.set_position(*end as usize).is_err() {
                return;
            }
            continue;
        }
        if section.data[offset] == 0
            && code.insns.last().is_some_and(|last| last.section == index as u32 && ends_code(code.form(last)))
            && section.data[offset..].iter().all(|byte| *byte == 0)
        {
            // Free Pascal fills the end of a section with zeros.
            break;
        }
        decoder.set_ip(0);
        let ins = decoder.decode();
        if ins.is_invalid() {
            refusals.push(code.refuse_offset(index, offset as u64, Reason::DataInText, "the bytes do not decode"));
            return;
        }
        // Only relocations and places relative to rip ask for the fields.
        let patched = section.relocs.get(next_reloc).is_some_and(|r| r.offset < (offset + ins.len()) as u64);
        let fields = match patched || ins.is_ip_rel_memory_operand() {
            true => decoder.get_constant_offsets(&ins),
            false => ConstantOffsets::default(),
        };
        let mut insn = Insn {
            form: FormIndex::default(),
            section: index as u32,
            offset: offset as u32,
            disp_reloc: None,
            imm_reloc: None,
            disp_at: fields.displacement_offset() as u8,
            size: Size::of(&ins),
            flow: Flow::Next,
        };
        while let Some(reloc) = section.relocs.get(next_reloc).filter(|r| r.offset < (offset + ins.len()) as u64) {
            let field = (reloc.offset - offset as u64) as usize;
            if reloc.kind == elf::R_X86_64_NONE.0 {
            } else if fields.has_displacement() && field == fields.displacement_offset() {
                insn.disp_reloc = RelocIndex::new(next_reloc);
            } else if fields.has_immediate() && field == fields.immediate_offset() {
                insn.imm_reloc = RelocIndex::new(next_reloc);
            } else {
                refusals.push(code.refuse_offset(
                    index,
                    reloc.offset,
                    Reason::DataInText,
                    "a relocation patches something other than a displacement or an immediate",
                ));
            }
            next_reloc += 1;
        }
        insn.form = code.forms.number(&at_constant(ins, insn.disp_reloc.is_some()));
        code.map.sections[last].starts.add(offset);
        code.insns.push(insn);
    }
    trap_behind(code, last);
}

/// Says whether padding may follow an instruction: it goes elsewhere, or calls.
fn ends_code(ins: &Instruction) -> bool {
    !matches!(ins.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
}

/// Returns an instruction with the usual form in place of the one for an address of 64 bits:
///
/// ```text
/// movabs %eax,0xbbadbeef   becomes   mov %eax,0xbbadbeef
/// movabs 0x2000,%rax       becomes   mov 0x2000,%rax
/// ```
///
/// Compilers make them for stores that end a program. A store has an offset in the window, so an
/// address of up to 32 bits has this form. A load may have all bits of its address, and the usual
/// form extends the sign: it fits for 31 bits. If the address is that of a symbol, as in the medium
/// code model, a relocation gives it.
fn at_constant(ins: Instruction, relocated: bool) -> Instruction {
    let (opcode, store) = match ins.code() {
        Opcode::Mov_moffs8_AL => (Opcode::Mov_rm8_r8, true),
        Opcode::Mov_moffs16_AX => (Opcode::Mov_rm16_r16, true),
        Opcode::Mov_moffs32_EAX => (Opcode::Mov_rm32_r32, true),
        Opcode::Mov_moffs64_RAX => (Opcode::Mov_rm64_r64, true),
        Opcode::Mov_AL_moffs8 => (Opcode::Mov_r8_rm8, false),
        Opcode::Mov_AX_moffs16 => (Opcode::Mov_r16_rm16, false),
        Opcode::Mov_EAX_moffs32 => (Opcode::Mov_r32_rm32, false),
        Opcode::Mov_RAX_moffs64 => (Opcode::Mov_r64_rm64, false),
        _ => return ins,
    };
    let address = if relocated { 0 } else { ins.memory_displacement64() };
    if ins.segment_prefix() != Register::None || address >= if store { 1 << 32 } else { 1 << 31 } {
        return ins;
    }
    let place = MemoryOperand::with_displ(i64::from(address as i32) as u64, 4);
    let register = ins.op_register(u32::from(store));
    let made =
        if store { Instruction::with2(opcode, place, register) } else { Instruction::with2(opcode, register, place) };
    made.unwrap_or(ins)
}

/// Adds [`CodeSection::trap`]. If a function does not end with a branch, compilers may branch to
/// its end. clang emits no code for a function that is never called, such as one that only says so,
/// but leads pointers to it.
fn trap_behind(code: &mut Code<'_, '_>, section: usize) {
    let first = code.sections[section].first;
    let CodeSection { section, starts, trap, end, functions, .. } = &mut code.map.sections[section];
    let offset = code.map.object.sections[*section].data.len();
    *trap = code.insns.next_key();
    *end = trap.next();
    let empty = functions.last().is_some_and(|(start, _)| *start == offset as u64);
    let forms = &code.forms;
    if empty || code.insns[first..].iter().any(|insn| is_branch_to(insn, forms.get(insn.form), offset as u64)) {
        starts.add(offset);
    }
    starts.count();
    // ud2
    let mut ins = Instruction::with(Opcode::Ud2);
    ins.set_len(2);
    let (section, offset, size) = (*section as u32, offset as u32, Size::of(&ins));
    let (form, disp_at, flow) = (code.forms.number(&ins), 0, Flow::Stop);
    code.insns.push(Insn { form, section, offset, disp_reloc: None, imm_reloc: None, disp_at, size, flow });
}

/// Says whether an instruction branches to an offset of its own section.
fn is_branch_to(insn: &Insn, form: &Instruction, offset: u64) -> bool {
    form.op_count() == 1
        && form.op0_kind() == OpKind::NearBranch64
        && insn.imm_reloc.or(insn.disp_reloc).is_none()
        && placed(form, insn.offset.into()).near_branch_target() == offset
}

/// Says whether an instruction faults wherever it runs. No transaction is ever open, and there are
/// no shadow stacks.
fn stops(ins: &Instruction) -> bool {
    use Mnemonic::{Hlt, Incsspd, Incsspq, Ud2, Xend};
    matches!(ins.mnemonic(), Ud2 | Hlt | Xend | Incsspd | Incsspq)
}

/// Sets [`Insn::flow`] of all instructions.
fn resolve_branches(code: &mut Code<'_, '_>, refusals: &mut Vec<Refusal>) {
    for index in code.indexes() {
        let kind = code.ins(index).flow_control();
        if kind == FlowControl::Next && !stops(code.ins(index)) {
            continue;
        }
        let (insn, ins) = (code.insns[index], code.ins(index));
        let flow = match kind {
            FlowControl::Call if ins.is_call_near() => direct(code, index).map(Flow::Call),
            FlowControl::UnconditionalBranch => direct(code, index).map(Flow::Jump),
            FlowControl::ConditionalBranch => direct(code, index).map(Flow::Branch),
            // A transaction that aborts at once.
            FlowControl::XbeginXabortXend if ins.mnemonic() == Mnemonic::Xbegin => direct(code, index).map(Flow::Jump),
            // call *f@GOTPCREL(%rip) is a direct call in a static domain.
            FlowControl::IndirectCall => Ok(match got_branch(code, &insn) {
                Some(symbol) => Flow::Call(Dest::Symbol(SymbolNumber::new(symbol))),
                None => Flow::CallIndirect,
            }),
            FlowControl::IndirectBranch => Ok(match got_branch(code, &insn) {
                Some(symbol) => Flow::Jump(Dest::Symbol(SymbolNumber::new(symbol))),
                None => Flow::JumpIndirect,
            }),
            FlowControl::Return => Ok(Flow::Return),
            _ if stops(ins) => Ok(Flow::Stop),
            _ => Ok(Flow::Next),
        };
        match flow {
            Ok(flow) => code.insns[index].flow = flow,
            Err(refusal) => refusals.push(refusal),
        }
    }
}

fn got_branch(code: &Code<'_, '_>, insn: &Insn) -> Option<SymbolIndex> {
    let reloc = code.disp_reloc(insn)?;
    let got = [elf::R_X86_64_GOTPCREL.0, elf::R_X86_64_GOTPCRELX.0, elf::R_X86_64_REX_GOTPCRELX.0];
    let direct = code.form(insn).memory_base() == Register::RIP && reloc.addend == -4 && reloc.symbol != 0;
    (got.contains(&reloc.kind) && direct).then_some(reloc.symbol)
}

/// Returns the instruction with a `lock` prefix that a branch skips: `je 1f ; .byte 0xf0 ; 1:
/// cmpxchg ..`. With the prefix the instruction does the same work, atomically.
fn behind_lock(code: &Code<'_, '_>, insn: &Insn, target: u64) -> Option<InsnIndex> {
    let locked = code.at(insn.section as usize, target.checked_sub(1)?)?;
    let first = code.object.sections[insn.section as usize].data.get(code.insns[locked].offset as usize);
    (first == Some(&0xf0)).then_some(locked)
}

fn direct(code: &Code<'_, '_>, index: InsnIndex) -> Result<Dest, Refusal> {
    let insn = &code.insns[index];
    if !matches!(code.form(insn).op0_kind(), OpKind::NearBranch64) {
        return Err(code.refuse(index, Reason::NoSafeForm, "branch with an operand size prefix or far branch"));
    }
    // The decoder takes a branch's rel32 for an immediate.
    let Some(reloc) = code.imm_reloc(insn).or(code.disp_reloc(insn)) else {
        let target = code.placed(index).near_branch_target();
        return match code.at(insn.section as usize, target).or_else(|| behind_lock(code, insn, target)) {
            Some(dest) => Ok(Dest::Insn(dest)),
            None => Err(code.refuse(index, Reason::BranchTarget, "the target is not an instruction")),
        };
    };
    if ![elf::R_X86_64_PLT32.0, elf::R_X86_64_PC32.0].contains(&reloc.kind) {
        return Err(code.refuse(index, Reason::Relocation, format!("branch with relocation type {}", reloc.kind)));
    }
    let symbol = &code.object.symbols[reloc.symbol];
    let bias = reloc.addend.wrapping_add(4);
    match symbol.place {
        Place::Section(section) if code.section(section).is_some() => {
            if bias == 0 && symbol.is_open() {
                return Ok(Dest::Symbol(SymbolNumber::new(reloc.symbol)));
            }
            if symbol.is_indirect() {
                return Err(code.refuse(index, Reason::IndirectFunction, "a branch after an IFUNC's entry"));
            }
            let offset = symbol.value.wrapping_add_signed(bias);
            let trap = if code.form(insn).is_call_near() { None } else { code.never_reached(index, section, offset) };
            trap.or_else(|| code.at(section, offset))
                .map(Dest::Insn)
                .ok_or_else(|| code.refuse(index, Reason::BranchTarget, "the target is not an instruction"))
        }
        Place::Undefined if bias == 0 && reloc.symbol != 0 => Ok(Dest::Symbol(SymbolNumber::new(reloc.symbol))),
        _ => Err(code.refuse(index, Reason::BranchTarget, "the target lies outside the code")),
    }
}
