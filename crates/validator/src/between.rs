//! The new code between two places of the walk.

use crate::code::Insn;
use crate::difference::{Difference, unproved, wrong};
use crate::machine::Machine;
use crate::object::Spot;
use crate::sets::{self, RAX};
use crate::value::Id;
use crate::walk::{Stand, Walk};
use iced_x86::{Code as Opcode, FlowControl, Mnemonic, OpKind, Register, RflagsBits};
use sfi_contract::layout::{DISPATCH_MASK, TCB_SCRATCH, TCB_SCRATCH_SLOTS};

/// Most instructions of a check in mode match.
const CHECK: usize = 24;
/// Most new instructions that one original instruction may need.
const MOST: usize = 200;

impl Walk<'_, '_, '_> {
    pub(crate) fn new_insn(&self, place: (usize, u64)) -> Result<&Insn, Difference> {
        match self.context.new.insn_at(place.0, place.1) {
            Some(insn) => Ok(insn),
            None => wrong(format!("the new code goes on at {:#x}, which is no instruction", place.1)),
        }
    }

    /// Steps over a charge, which changes the flags and a register that the original program never
    /// names. Says whether there was one.
    fn pays(&mut self, new: &mut Machine, stand: &mut Stand) -> bool {
        let charge = self.context.charge(stand.place);
        if let Some(length) = charge {
            stand.place.1 += length;
            new.flags = std::array::from_fn(|_| self.values.junk());
        }
        charge.is_some()
    }

    /// Executes new code up to a place that it falls into. A jump leads to code that indirect jumps
    /// share.
    pub(crate) fn run_to(&mut self, new: &mut Machine, stand: &mut Stand, end: (usize, u64)) -> Result<(), Difference> {
        let begin = stand.place;
        let mut end = end;
        let mut flags = None;
        let mut stack: Option<(u64, Id)> = None;
        let mut skipped: Option<(u64, Machine)> = None;
        for _ in 0..MOST {
            if let Some((_, before)) = stack.take_if(|(over, _)| stand.place.1 == *over)
                && new.registers[sets::R15] != before
            {
                return wrong("a branch skips code that moves the data stack pointer");
            }
            if let Some((_, before)) = skipped.take_if(|(over, _)| stand.place.1 == *over) {
                self.unchanged(new, &before)?;
            }
            if stand.place == end {
                return Ok(());
            }
            if self.pays(new, stand) {
                continue;
            }
            let insn = *self.new_insn(stand.place)?;
            match insn.ins.flow_control() {
                FlowControl::UnconditionalBranch => {
                    let Some(Spot::Code(section, offset)) = self.context.new_target(&insn) else {
                        return wrong("a jump that the original program does not have");
                    };
                    stand.place = (section, offset);
                    if end.1 != offset {
                        end = (section, self.context.stretch_end(section, offset));
                    }
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    let over = insn.ins.near_branch_target();
                    if self.ends_in_trap(stand.place.0, &insn) {
                        // The check of segment matching traps only if the store lies outside.
                        stand.place.1 = over;
                    } else if self.is_retry(&insn) {
                        stand.place.1 = insn.end();
                    } else if self.skips_string(&insn, begin, end) {
                        flags = Some((over, new.flags));
                        stack = Some((over, new.registers[sets::R15]));
                        stand.place.1 = insn.end();
                    } else if insn.ins.mnemonic() == Mnemonic::Jrcxz && over <= end.1 && skipped.is_none() {
                        // The check of a string that runs zero times is skipped.
                        skipped = Some((over, new.clone()));
                        stand.place.1 = insn.end();
                    } else {
                        return wrong("a branch that the original program does not have");
                    }
                    continue;
                }
                FlowControl::Next => {}
                _ => return wrong("a branch that the original program does not have"),
            }
            stand.place.1 = self.string_region(new, &insn)?;
            if stand.place.1 != insn.end() {
                continue;
            }
            // A copy or fill keeps the flags only if the code before it does.
            if insn.ins.is_string_instruction()
                && insn.ins.rflags_modified() != RflagsBits::NONE
                && let Some((over, kept)) = flags
                && over == insn.end()
            {
                new.flags = kept;
            }
            self.execute(new, &insn)?;
        }
        wrong("the new code does not end")
    }

    /// Says whether a branch repeats an atomic change: `1: mov %rax,%t ; bts %r,%t ; lock cmpxchg
    /// %t,(mem) ; jne 1b`. The validator follows the last round, which succeeds.
    fn is_retry(&self, branch: &Insn) -> bool {
        let at = |offset: u64| self.context.new.insn_at(branch.section as usize, offset);
        // A charge of a budget may stand first.
        let target = branch.ins.near_branch_target();
        let copy = at(target + self.context.charge((branch.section as usize, target)).unwrap_or(0));
        let change = copy.and_then(|copy| at(copy.end()));
        // In mode match the exchange follows its check.
        let mut exchange = change.and_then(|change| at(change.end()));
        for _ in 0..CHECK {
            exchange = exchange.and_then(|insn| if insn.end() < branch.offset() { at(insn.end()) } else { Some(insn) });
        }
        let exchange = exchange.filter(|exchange| exchange.end() == branch.offset());
        let (Some(copy), Some(change), Some(exchange)) = (copy, change, exchange) else { return false };
        let word = sets::number(copy.ins.op0_register());
        let registers = |insn: &Insn| (sets::number(insn.ins.op0_register()), sets::number(insn.ins.op1_register()));
        branch.ins.mnemonic() == Mnemonic::Jne
            && copy.ins.mnemonic() == Mnemonic::Mov
            && registers(copy) == (word, Some(RAX))
            && matches!(change.ins.mnemonic(), Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
            && registers(change).0 == word
            && exchange.ins.mnemonic() == Mnemonic::Cmpxchg
            && exchange.ins.has_lock_prefix()
            && exchange.ins.op0_kind() == OpKind::Memory
            && registers(exchange).1 == word
            && ![word, Some(RAX)].contains(&sets::number(exchange.ins.memory_base()))
            && ![word, Some(RAX), None].contains(&registers(change).1)
    }

    /// Says whether a branch skips the rest of a check of mode match. The rest may branch to the
    /// same place. It changes only registers that the check restores and the rewriter's words, and
    /// ends with a trap.
    pub(crate) fn ends_in_trap(&self, section: usize, branch: &Insn) -> bool {
        let over = branch.ins.near_branch_target();
        let scratch: &[Register] = match branch.ins.mnemonic() {
            Mnemonic::Je => &[Register::RCX],
            Mnemonic::Jrcxz => &[Register::RCX, Register::RAX],
            _ => return false,
        };
        let mut at = branch.end();
        while at < over {
            let Some(insn) = self.context.new.insn_at(section, at) else {
                return false;
            };
            let ins = &insn.ins;
            let changes = scratch.contains(&ins.op0_register().full_register());
            let notes = ins.op0_kind() == OpKind::Memory
                && ins.segment_prefix() == Register::GS
                && ins.memory_base() == Register::None
                && ins.memory_index() == Register::None
                && ins.memory_displacement64().wrapping_sub(TCB_SCRATCH.symbolic()) < 8 * TCB_SCRATCH_SLOTS;
            at = insn.end();
            match ins.mnemonic() {
                Mnemonic::Int3 => return at == over,
                mnemonic if mnemonic == branch.ins.mnemonic() && ins.near_branch_target() == over => {}
                _ if changes || notes => {}
                _ => return false,
            }
        }
        false
    }

    pub(crate) fn execute(&mut self, new: &mut Machine, insn: &Insn) -> Result<(), Difference> {
        if new.save(&mut self.values, &insn.ins) {
            return Ok(());
        }
        if insn.ins.is_stack_instruction() || sets::number(insn.ins.op0_register()) == Some(sets::RSP) {
            return wrong("the control stack is used");
        }
        let Some(fields) = self.context.fields(&mut self.values, true, insn) else {
            return unproved("a relocation of the new code is not understood");
        };
        Ok(new.step(&mut self.values, &mut self.factory, insn, &fields)?)
    }

    /// Executes new code up to a branch and returns the branch. `jump`: the target, if the original
    /// instruction is a jump to it.
    pub(crate) fn run_to_branch(
        &mut self,
        new: &mut Machine,
        stand: &mut Stand,
        jump: Option<&Spot>,
    ) -> Result<Insn, Difference> {
        for _ in 0..MOST {
            if self.pays(new, stand) {
                continue;
            }
            let insn = *self.new_insn(stand.place)?;
            match insn.ins.flow_control() {
                FlowControl::UnconditionalBranch => {
                    let target = self.context.new_target(&insn);
                    if jump.is_some() && target.as_ref() == jump {
                        return Ok(insn);
                    }
                    let Some(Spot::Code(section, offset)) = target else { return Ok(insn) };
                    stand.place = (section, offset);
                }
                FlowControl::Next if self.is_region(&insn) => return Ok(insn),
                FlowControl::Next => {
                    stand.place.1 = self.string_region(new, &insn)?;
                    if stand.place.1 == insn.end() {
                        self.execute(new, &insn)?;
                    }
                }
                FlowControl::ConditionalBranch if self.is_check(&insn) => {
                    // The check of segment matching traps only if the pointer is no function's.
                    stand.place.1 = insn.ins.near_branch_target();
                }
                _ => return Ok(insn),
            }
        }
        wrong("the new code does not end")
    }

    /// Says whether this branch ends the check of an indirect branch in mode match: it skips a trap
    /// and leads to the check's last load.
    fn is_check(&self, insn: &Insn) -> bool {
        let at = |offset: u64| self.context.new.insn_at(insn.section as usize, offset);
        let trap = at(insn.end()).filter(|trap| trap.ins.mnemonic() == Mnemonic::Int3);
        let over = insn.ins.near_branch_target();
        let ends = |load: &Insn| {
            load.ins.code() == Opcode::Mov_r64_rm64
                && load.ins.op0_register() == Register::RCX
                && load.ins.segment_prefix() == Register::GS
                && load.ins.memory_displacement64() == sfi_contract::matching::SAVED.symbolic()
        };
        insn.ins.mnemonic() == Mnemonic::Je && trap.is_some_and(|trap| trap.end() == over) && at(over).is_some_and(ends)
    }

    /// Says whether the unsafe region of an indirect branch begins here.
    pub(crate) fn is_region(&self, insn: &Insn) -> bool {
        let ins = &insn.ins;
        let mask = ins.mnemonic() == Mnemonic::And
            && ins.op_count() == 2
            && ins.op0_kind() == OpKind::Register
            && ins.op0_register().is_gpr32()
            && ins.try_immediate(1).is_ok_and(|mask| mask as u32 == DISPATCH_MASK);
        let behind = || self.context.new.insn_at(insn.section as usize, insn.end()).map(|insn| &insn.ins);
        mask && behind()
            .is_some_and(|next| matches!(next.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall))
    }
}
