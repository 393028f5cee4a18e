//! Phase 8: the new instructions.
//!
//! r15 is the pointer of the data stack. The phase walks each section in order and knows `delta` at
//! every instruction: `r15 = rsp' + delta`, where rsp' is the stack pointer of the original
//! program. Pushes, pops and adjustments by constants change only `delta`.
//!
//! Calls need a delta of 0, returns one of 8, and each label has a canonical one. A single `lea`
//! before such a place produces it. The return address needs no instruction: it has 8 bytes on the
//! original stack and none on the data stack, so delta is 8 at a function's entry and at its `ret`.

mod absent;
pub(crate) mod based;
mod bits;
mod branch;
mod copied;
mod flags;
mod held;
mod home;
mod likely;
mod masked;
mod matching;
mod memory;
mod narrow;
mod operand;
mod receive;
mod returned;
mod scratch;
mod stack;
mod string;
mod tls;
mod tree;
mod vectors;

use crate::analysis::Found;
use crate::analysis::arrays::Arrays;
use crate::analysis::depth::{Height, States};
use crate::analysis::flow::FlowGraph;
use crate::analysis::height;
use crate::analysis::likely::Likely;
use crate::analysis::live::Liveness;
use crate::analysis::pads::Pads;
use crate::analysis::r15::kept::{Homes, R15};
use crate::analysis::r15::slot::Slots;
use crate::analysis::regs::{AllEffects, Set, bit};
use crate::analysis::saves::Saves;
use crate::analysis::trees::Trees;
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Dest, Flow, InsnIndex, InsnSet};
use crate::refusal::{Reason, Refusal};
use crate::stats::Stats;
use crate::text::copies::Copies;
use crate::text::emit::{Branch, Emitter, Label, LoaderSymbol, NoEncoding, Patch, Target, old};
use crate::unwind::Unwind;
use foldhash::{HashSet, HashSetExt};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use object::elf;
use sfi_contract::{Mode, policy};

/// The data stack's register.
const SP: Register = Register::R15;

/// The program and the results of all analyses.
pub(crate) struct Facts<'x, 'o, 'a> {
    pub code: &'x Code<'o, 'a>,
    pub addresses: &'x Addresses,
    pub graph: &'x FlowGraph,
    pub effects: &'x AllEffects,
    pub states: &'x States,
    /// Calls and labels of padding that a trap follows.
    pub stops: &'x HashSet<InsnIndex>,
    pub live: &'x Liveness,
    /// Instructions before which %al may hold a count of vector registers (see `count`).
    pub counts: &'x InsnSet,
    pub pads: &'x Pads,
    pub r15: &'x Homes,
    pub slots: &'x Slots,
    pub likely: &'x Likely,
    pub trees: &'x Trees,
    pub arrays: &'x Arrays,
    pub saves: &'x Saves,
    pub unwind: &'x Unwind,
    pub mode: Mode,
    /// r14 holds a budget.
    pub budget: bool,
}

impl<'x, 'o, 'a> Facts<'x, 'o, 'a> {
    pub(crate) fn new(
        code: &'x Code<'o, 'a>,
        addresses: &'x Addresses,
        unwind: &'x Unwind,
        found: &'x Found,
        (mode, budget): (Mode, bool),
    ) -> Self {
        let Found { graph, effects, states, stops, live, counts, pads, r15, slots, trees, arrays, saves, likely } =
            found;
        Facts {
            code,
            addresses,
            graph,
            effects,
            states,
            stops,
            live,
            counts,
            pads,
            r15,
            slots,
            likely,
            trees,
            arrays,
            saves,
            unwind,
            mode,
            budget,
        }
    }

    /// Refuses calls whose landing pad begins with an empty stack. An unwinder cannot give the pad
    /// the delta that belongs to it.
    pub(crate) fn check_landings(&self) -> Vec<Refusal> {
        let empty = |pad| canonical(self.graph, self.states, pad) != 0;
        let detail = "the stack is empty at the landing pad";
        let refuse = |call| self.code.refuse(call, Reason::ExceptionTables, detail);
        self.unwind.landings().filter(|(_, landing)| empty(landing.pad)).map(|(call, _)| refuse(call)).collect()
    }
}

/// A register that holds r15's value.
#[derive(Clone, Copy, Debug)]
struct Held {
    register: Register,
    /// The home does not have the value yet. The next instruction of the line that names r15 is
    /// known, and nothing before it changes the register.
    pending: bool,
}

/// Writes the new code of one section.
pub(crate) struct Transform<'x, 'o, 'a> {
    facts: &'x Facts<'x, 'o, 'a>,
    out: &'x mut Emitter,
    stats: &'x mut Stats,
    copies: &'x mut Copies,
    /// `r15 - rsp'`. Unknown after an instruction that control does not pass.
    delta: Option<i64>,
    /// The instruction being rewritten.
    at: InsnIndex,
    /// Bytes of nops dropped directly before. They show whether the next label was aligned.
    dropped: u64,
    /// Scratch registers in use.
    busy: Set,
    /// A register with r15's value, where r15 lives in memory.
    held: Option<Held>,
    /// Instructions that an earlier one absorbed.
    absorbed: HashSet<InsnIndex>,
    /// `rep movs` instructions between `std` and `cld`, which copy from the end.
    backward: HashSet<InsnIndex>,
}

impl<'x, 'o, 'a> Transform<'x, 'o, 'a> {
    /// Rewrites the code section at an index of [`Code::sections`].
    pub(crate) fn section(
        facts: &'x Facts<'x, 'o, 'a>,
        index: usize,
        out: &'x mut Emitter,
        (stats, copies): (&'x mut Stats, &'x mut Copies),
    ) -> Result<(), Vec<Refusal>> {
        let section = &facts.code.sections[index];
        let (absorbed, backward) = (HashSet::new(), HashSet::new());
        let mut this = Transform {
            facts,
            out,
            stats,
            copies,
            delta: None,
            at: section.first,
            dropped: 0,
            busy: 0,
            held: None,
            absorbed,
            backward,
        };
        let mut refusals = Vec::new();
        this.out.label(Label::Start(index as u32));
        let unused = |at: &InsnIndex| *at == section.trap && !facts.needs_trap(section);
        for at in section.first.until(section.end).filter(|at| !unused(at)) {
            this.at = at;
            this.hold();
            let arrived = this.arrive();
            this.out.mark(at, false);
            if let Err(refusal) = arrived.and_then(|()| this.instruction()) {
                refusals.push(refusal);
            }
            this.hold_on();
        }
        if refusals.is_empty()
            && let Err(refusal) = this.landing_pads(section.first, section.end)
        {
            refusals.push(refusal);
        }
        if refusals.is_empty() { Ok(()) } else { Err(refusals) }
    }

    /// Places the label of the current instruction, if it has one, with its canonical `delta`.
    fn arrive(&mut self) -> Result<(), Refusal> {
        let at = self.at;
        let Facts { graph, states, saves, .. } = *self.facts;
        let canonical = || canonical(graph, states, at);
        if self.delta.is_some() && at.before().is_some_and(|before| saves.is_dead_way(before, at, states)) {
            self.stop()?;
        }
        if self.facts.graph.end[at] {
            self.out.label(Label::End(at));
        }
        if !self.facts.graph.label[at] {
            if !self.facts.code.insns[at].is_nop() {
                self.dropped = 0;
                self.delta = self.delta.or_else(|| Some(canonical()));
            }
            return Ok(());
        }
        let canonical = canonical();
        if self.delta.is_some() {
            self.adjust_to(canonical)?;
        }
        self.delta = Some(canonical);
        self.align();
        self.out.label(old(at));
        Ok(())
    }

    /// Aligns functions, and places small loops that the original code aligned. The place of loops
    /// that call, or that are long, does not matter. Only forward jumps reach other labels, and
    /// aligning those gains nothing.
    fn align(&mut self) {
        let (at, dropped) = (self.at, std::mem::take(&mut self.dropped));
        let insn = &self.facts.code.insns[at];
        let limit = self.facts.code.object.sections[insn.section as usize].align.clamp(1, 32);
        let aligned = 1u64.checked_shl(insn.offset.trailing_zeros()).unwrap_or(limit).min(limit) as u32;
        // An alignment to 16 needs at most 15 bytes, so more padding means a larger one.
        let most = if dropped >= 16 { 32 } else { 16 };
        if self.facts.graph.entry[at] && aligned >= 16 {
            self.out.align(aligned.min(most));
        } else if self.facts.graph.looped[at] && dropped != 0 && aligned >= 8 && limit >= 16 {
            self.out.place_loop();
        }
    }

    fn instruction(&mut self) -> Result<(), Refusal> {
        let at = self.at;
        let (insn, ins) = (&self.facts.code.insns[at], self.facts.code.ins(at));
        self.stats.instructions += 1;
        if insn.is_nop() {
            self.dropped += u64::from(insn.len());
            return if self.facts.stops.contains(&at) { self.stop() } else { Ok(()) };
        }
        if self.absorbed.contains(&at) {
            return Ok(());
        }
        let Facts { arrays, trees, .. } = *self.facts;
        if trees.is_part(at) {
            return Ok(());
        }
        if !arrays.is_empty() {
            // A charge belongs to code of the instruction that it stands before.
            let idle = arrays.is_idle(at) && !self.facts.budget;
            if idle || (arrays.is_part(at) && insn.flow == Flow::Next) {
                return Ok(());
            }
            if let Some(array) = arrays.load(at) {
                return self.slot_of(ins, array);
            }
        }
        if self.facts.graph.entry[at] && !self.facts.graph.far.receivers(self.facts.graph.unit[at]).is_empty() {
            self.lay_depth()?;
        }
        if height::reads_return_address(self.facts.code, at, &self.facts.effects[at], &self.facts.states[at]) {
            self.lay_return_address()?;
        }
        if self.is_homed() && self.names_r15(ins) {
            return self.homed();
        }
        if self.copy() {
            return Ok(());
        }
        let (before, mut new) = (self.before(), *ins);
        if !self.special(&mut new)? {
            self.ordinary(new)?;
            self.keep(&before, ins);
        }
        Ok(())
    }

    /// Rewrites an instruction that names no r15 of the original code.
    fn lower(&mut self, mut ins: Instruction) -> Result<(), Refusal> {
        if self.special(&mut ins)? { Ok(()) } else { self.ordinary(ins) }
    }

    /// Rewrites an instruction that needs other code. Says whether it was one. If not, takes
    /// prefixes without a meaning from it, and gives it its shortest opcode.
    fn special(&mut self, ins: &mut Instruction) -> Result<bool, Refusal> {
        let at = self.at;
        let flat = matches!(ins.segment_prefix(), Register::CS | Register::DS | Register::ES | Register::SS);
        if flat || (ins.segment_prefix() != Register::None && !accesses_memory(ins)) {
            ins.set_segment_prefix(Register::None);
        }
        match self.facts.code.insns[at].flow {
            Flow::Call(dest) => self.call(dest)?,
            Flow::CallIndirect => self.call_indirect(*ins)?,
            Flow::Jump(dest) if ins.mnemonic() == Mnemonic::Xbegin => self.abort_transaction(dest)?,
            Flow::Jump(dest) => self.jump(dest)?,
            Flow::Branch(dest) => self.branch(*ins, dest)?,
            Flow::JumpIndirect => self.jump_indirect(*ins)?,
            Flow::Return => self.ret(*ins)?,
            // hlt is privileged. Some libraries crash with it on purpose, and ud2 crashes too.
            // Programs ask rdssp before incssp, and see that shadow stacks are off.
            Flow::Stop => self.stop()?,
            Flow::Next if self.backward.contains(&at) => self.copy_backwards(ins)?,
            Flow::Next if ins.is_string_instruction() => self.string(*ins)?,
            Flow::Next => return self.special_operation(ins),
        }
        Ok(true)
    }

    /// Rewrites an instruction that needs other code, and on which control goes on. Says whether it
    /// was one.
    fn special_operation(&mut self, ins: &mut Instruction) -> Result<bool, Refusal> {
        // These prefixes mean nothing here, or are hints (lock elision).
        ins.set_has_rep_prefix(false);
        ins.set_has_repne_prefix(false);
        vectors::shorten(ins);
        let ins = *ins;
        if self.narrow_operand(ins)? {
            return Ok(true);
        }
        match ins.mnemonic() {
            Mnemonic::Push => self.push(ins)?,
            Mnemonic::Pop => self.pop(ins)?,
            Mnemonic::Pushfq => self.push_flags()?,
            Mnemonic::Popfq => self.pop_flags()?,
            Mnemonic::Leave => self.leave()?,
            Mnemonic::Syscall => {
                // The support code saves registers below r15 and its red zone, so r15 must be rsp'.
                self.adjust_to(0)?;
                self.out.branch(Branch::Call, Target::Loader(LoaderSymbol::Syscall));
            }
            _ => {
                return Ok(self.absent_feature(ins)?
                    || self.thread_local(ins)?
                    || self.moving_operand(ins)?
                    || self.masked_store(ins)?
                    || self.stack_arithmetic(ins)?);
            }
        }
        Ok(true)
    }

    /// Emits a trap.
    fn stop(&mut self) -> Result<(), Refusal> {
        self.delta = None;
        self.put(&Instruction::with(Opcode::Ud2), &[])
    }

    /// Rewrites an instruction that needs no change but of its operands.
    fn ordinary(&mut self, mut ins: Instruction) -> Result<(), Refusal> {
        let effects = &self.facts.effects[self.at];
        if policy::lookup(ins.code()).is_none() {
            return Err(self.refuse(Reason::NoSafeForm, "the instruction is not on the positive list"));
        }
        let names_sp = (0..ins.op_count())
            .any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == Register::RSP);
        let base_sp = ins.memory_base().full_register() == Register::RSP;
        if names_sp {
            self.adjust_to(0)?;
            crate::analysis::r15::replace(&mut ins, Register::RSP, SP);
        } else if !base_sp && (effects.uses | effects.writes) & bit(Register::RSP) != 0 {
            return Err(self.refuse(Reason::StackPointerUse, "implicit use of the stack pointer"));
        }
        let (load, store) = (effects.memory_read, effects.memory_write);
        self.put_operand(ins, load, store)
    }

    /// Emits an instruction, in mode match after its check. Refuses it if it has no encoding.
    fn put(&mut self, ins: &Instruction, patches: &[Patch]) -> Result<(), Refusal> {
        self.check_store(ins, patches)?;
        self.out.insn(ins, patches).map_err(|NoEncoding(why)| {
            self.refuse(Reason::NoSafeForm, format!("no encoding for the new instruction: {why}"))
        })
    }

    /// Emits an instruction made by iced's constructors. Their errors become refusals.
    fn put_new(&mut self, ins: Result<Instruction, iced_x86::IcedError>) -> Result<(), Refusal> {
        let ins = ins.map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
        self.put(&ins, &[])
    }

    /// Emits `lea TARGET(%rip),%register`, of 32 or 64 bits. The addend counts from the target.
    fn address_into(&mut self, register: Register, target: impl Into<Target>, addend: i64) -> Result<(), Refusal> {
        let code = if register.is_gpr32() { Opcode::Lea_r32_m } else { Opcode::Lea_r64_m };
        let place = MemoryOperand::with_base_displ_size(Register::RIP, 0, 4);
        let lea = Instruction::with2(code, register, place)
            .map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
        self.put(&lea, &[Patch { immediate: false, kind: elf::R_X86_64_PC32.0, target: target.into(), addend }])
    }

    fn refuse(&self, reason: Reason, detail: impl Into<String>) -> Refusal {
        self.facts.code.refuse(self.at, reason, detail)
    }

    /// Returns the current `delta`, or 0 where it is unknown.
    fn delta(&self) -> i64 {
        self.delta.unwrap_or(0)
    }

    fn full(&self) -> bool {
        self.facts.mode == Mode::Full
    }

    fn is_homed(&self) -> bool {
        matches!(self.facts.r15[self.facts.graph.unit[self.at]], Some(R15::Home | R15::Exchanged(_)))
    }

    fn names_r15(&self, ins: &Instruction) -> bool {
        let operand = (0..ins.op_count())
            .any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == SP);
        operand || ins.memory_base().full_register() == SP || ins.memory_index().full_register() == SP
    }

    /// Returns `delta` at the target of a branch.
    fn delta_of(&self, dest: Dest) -> i64 {
        match insn_of(self.facts.code, dest) {
            // The branch is never taken, so any value does.
            Some(_) if self.facts.code.only_traps(dest) => self.delta(),
            Some(target) => canonical(self.facts.graph, self.facts.states, target),
            None => 8,
        }
    }
}

/// Returns `delta` at a label: 8 where the function has nothing on the stack, otherwise 0.
pub(crate) fn canonical(graph: &FlowGraph, states: &States, at: InsnIndex) -> i64 {
    if graph.is_mixed(at) {
        return 0;
    }
    if graph.entry[at] || states[at].rsp == Height::Known(0) { 8 } else { 0 }
}

/// Says whether an instruction accesses memory, so that its segment prefix has a meaning. On
/// registers and on addresses that are only computed it has none.
fn accesses_memory(ins: &Instruction) -> bool {
    let operand = |op| matches!(ins.op_kind(op), OpKind::Memory | OpKind::MemorySegRDI | OpKind::MemorySegEDI);
    let memory = (0..ins.op_count()).any(operand) || ins.is_string_instruction();
    memory && policy::lookup(ins.code()).is_none_or(|form| form.memory != policy::Memory::Address)
}
