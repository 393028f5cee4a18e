//! Jumps into the frames of callers: `__builtin_longjmp` and gotos out of nested functions.
//!
//! A function with a *receiver* stores its stack pointer beside the address of a label. Its
//! caller's part of the stack does not concern it. In the original program a word of its frame
//! holds the return address. In the new program this word has the depth of the control stack and
//! the lower half of its own address. The receiver's pad compares that half and cuts the control
//! stack. A far jump leads to receivers only, whose addresses are odd.

use crate::code::{Flow, Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::facts::Fact;
use crate::machine::Machine;
use crate::object::Spot;
use crate::sets::{self, RBP, RSP, Set, whole};
use crate::value::Node;
use crate::walk::{Block, Op, Stand, Walk};
use iced_x86::{Code as Opcode, FlowControl, Instruction, Mnemonic, OpKind, Register};
use sfi_contract::layout::{TCB_SCRATCH, TCB_SCRATCH_SLOTS};
use sfi_contract::names::{CUT, DEPTH};
use sfi_debuginfo::map::Keeping;

/// Most new instructions of a store and its check.
const MOST: usize = 60;

/// Registers that `__sfi_cut` changes: rdi, rsi, r10, r11.
const CUT_CHANGES: [usize; 4] = [7, 6, 10, 11];

/// Says whether an instruction moves a register to or from a spill place.
fn spilled(ins: &Instruction) -> bool {
    matches!(ins.code(), Opcode::Mov_r64_rm64 | Opcode::Mov_rm64_r64)
        && ins.segment_prefix() == Register::GS
        && ins.memory_base() == Register::None
        && ins.memory_index() == Register::None
        && ins.memory_displacement64().wrapping_sub(TCB_SCRATCH.symbolic()) < 8 * TCB_SCRATCH_SLOTS
}

fn loads_spilled(ins: &Instruction) -> bool {
    ins.op1_kind() == OpKind::Memory && spilled(ins)
}

impl Walk<'_, '_, '_> {
    /// Compares the beginning of a function with receivers, which notes the depth.
    pub(crate) fn lays_depth(&mut self, at: Index, stand: &mut Stand, block: &mut Block) -> Result<(), Difference> {
        let kept = self.context.old.kept[at];
        if kept.slot.is_some() {
            return wrong("r15 lives in the frame of a function that receives far jumps");
        }
        let (old, mut new) = self.begin(stand, kept, false)?;
        let call = self.run_to_branch(&mut new, stand, None)?;
        let depth = Some(Spot::Named(DEPTH.to_owned()));
        if call.ins.mnemonic() != Mnemonic::Call || self.context.new_target(&call) != depth {
            return wrong("a function that receives far jumps does not note the depth of the control stack");
        }
        for register in [Register::R10, Register::R11] {
            let junk = self.values.junk();
            new.write(&mut self.values, register, junk);
        }
        new.flags = std::array::from_fn(|_| self.values.junk());
        let counted = self.values.id(Node::Op(Mnemonic::Call, 0, Vec::new()));
        new.write(&mut self.values, Register::RAX, counted);
        stand.place.1 = call.end();
        let stores = new.stores.len();
        for _ in 0..MOST {
            if new.stores.len() == stores + 2 {
                break;
            }
            self.step_new(&mut new, stand)?;
        }
        let word = self.values.plus(old.registers[RSP], 0);
        let beside = self.values.plus(word, 4);
        // The depth counts the return of its own call.
        let left = self.values.plus(counted, -1);
        let noted = [(word, 4, self.values.bits(left, 0, 32)), (beside, 4, self.values.bits(word, 0, 32))];
        if new.stores[stores..] != noted {
            return wrong("a function that receives far jumps notes something else than its depth");
        }
        new.stores.truncate(stores);
        while loads_spilled(&self.new_insn(stand.place)?.ins) {
            self.step_new(&mut new, stand)?;
        }
        let facts = stand.facts.clone();
        let lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        if lost != 0 {
            block.ops.push(Op::Lose(at, lost));
        }
        Ok(())
    }

    /// Executes one new instruction. A branch must be that of a check.
    fn step_new(&mut self, new: &mut Machine, stand: &mut Stand) -> Result<(), Difference> {
        let insn = *self.new_insn(stand.place)?;
        match insn.ins.flow_control() {
            FlowControl::Next => {
                self.execute(new, &insn)?;
                stand.place.1 = insn.end();
                Ok(())
            }
            FlowControl::ConditionalBranch if self.ends_in_trap(stand.place.0, &insn) => {
                stand.place.1 = insn.ins.near_branch_target();
                Ok(())
            }
            _ => wrong("a branch that the original program does not have"),
        }
    }

    /// Compares a receiver's pad. Returns the registers and flags that the new program loses there.
    ///
    /// ```text
    /// [store] ; mov WORD+4,%esi ; lea WORD,%edi ; cmp %edi,%esi ; je 1f ; ud2
    /// 1: mov WORD,%edi ; lea 2f(%rip),%rsi ; jmp __sfi_cut
    /// 2: [load] ; jmp LABEL
    /// ```
    pub(crate) fn receives(&self, at: Index) -> Result<Set, Difference> {
        let context = self.context;
        let Some(pad) = context.old.pad[at] else { return wrong("a receiver has no pad") };
        let facts = self.graph.facts.get(&at);
        let word = facts.and_then(|facts| {
            [(RSP, Register::R15), (RBP, Register::RBP)].into_iter().find_map(|(held, base)| {
                match facts.registers[held] {
                    Fact::Stack(0, distance) => Some((base, distance.wrapping_neg())),
                    _ => None,
                }
            })
        });
        let Some((base, distance)) = word else { return unproved("the frame of a receiver is not known") };
        let mut place = (context.old.place[at].0 as usize, u64::from(pad));
        let mut next = || -> Result<Insn, Difference> {
            let insn = *self.new_insn(place)?;
            place.1 = insn.end();
            Ok(insn)
        };
        let mut stored = Vec::new();
        let mut own = next()?;
        while own.ins.op0_kind() == OpKind::Memory && spilled(&own.ins) {
            stored.push((own.ins.op1_register(), own.ins.memory_displacement64()));
            own = next()?;
        }
        let [here, compare, over, stop, depth, label, cut] =
            [next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let mut loaded = Vec::new();
        let mut jump = next()?;
        while jump.ins.op1_kind() == OpKind::Memory && spilled(&jump.ins) {
            loaded.push((jump.ins.op0_register(), jump.ins.memory_displacement64()));
            jump = next()?;
        }
        let names = |insn: &Insn, to: Register, more: i64| {
            let ins = &insn.ins;
            let plain = ins.memory_base().full_register() == base && ins.memory_index() == Register::None;
            let same = ins.memory_displacement64() as i32 == distance.wrapping_add(more) as i32;
            ins.op0_register() == to && plain && insn.displacement.is_none() && same
        };
        let compares = own.ins.code() == Opcode::Mov_r32_rm32
            && names(&own, Register::ESI, 4)
            && here.ins.code() == Opcode::Lea_r32_m
            && names(&here, Register::EDI, 0)
            && compare.ins.mnemonic() == Mnemonic::Cmp
            && compare.ins.op0_register() == Register::ESI
            && compare.ins.op1_register() == Register::EDI;
        let stops = over.ins.mnemonic() == Mnemonic::Je
            && over.ins.near_branch_target() == stop.end()
            && stop.ins.code() == Opcode::Ud2;
        let behind = Spot::Code(cut.section as usize, cut.end());
        let cuts = depth.ins.code() == Opcode::Mov_r32_rm32
            && names(&depth, Register::EDI, 0)
            && label.ins.code() == Opcode::Lea_r64_m
            && label.ins.op0_register() == Register::RSI
            && context.meanings(true, &label) == Some((Some((behind, 0)), None))
            && cut.ins.mnemonic() == Mnemonic::Jmp
            && context.new_target(&cut) == Some(Spot::Named(CUT.to_owned()))
            && jump.ins.mnemonic() == Mnemonic::Jmp
            && context.new_target(&jump) == Some(context.spot(at));
        let apart = |(n, (register, cell)): (usize, &(Register, u64))| {
            stored[..n].iter().all(|(r, c)| r != register && c.abs_diff(*cell) >= 8)
        };
        if !(compares && stops && cuts && stored == loaded && stored.iter().enumerate().all(apart)) {
            return wrong("the pad of a receiver does not cut the control stack to the frame's depth");
        }
        let kept = |number: &&usize| !loaded.iter().any(|(register, _)| sets::number(*register) == Some(**number));
        let changed = CUT_CHANGES.iter().filter(kept).fold(sets::ALL_FLAGS, |set, number| set | whole(*number));
        // A function that leaves r15 alone, as code does for which it is reserved, has it in its
        // home. Nothing moves that but code that changes r15 in the original program, too.
        let home = context.old.kept[at].how == Keeping::Home && !self.graph.changes(at, sets::R15);
        let untouched = if home { whole(sets::R15) } else { 0 };
        Ok((Self::LOST_TO_RECEIVERS & !untouched) | changed)
    }

    /// Says whether an indirect jump leads into the frame of a caller. Such a jump leaves on a
    /// stack pointer that was loaded, with a frame pointer that is not the caller's.
    pub(crate) fn is_far(&self, at: Index, stand: &Stand) -> bool {
        let Fact::Stack(by, 0) = stand.facts.registers[RSP] else { return false };
        let loads = by
            .checked_sub(1)
            .and_then(|by| self.context.old.text.insns.get(by as usize))
            .map(|by| &by.ins)
            .is_some_and(|ins| ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Memory);
        self.context.old.flow[at] == Flow::JumpIndirect && loads && !crate::facts::is_callers(&stand.facts, RBP)
    }

    /// Compares `test $1,%r32 ; jne 1f ; ud2 ; 1: xor $1,%r64` and the unsafe region. `branch` is
    /// the `jne`. `lost` is the set that the new program has lost before it.
    pub(crate) fn far_jump(
        &mut self,
        at: Index,
        branch: &Insn,
        lost: Set,
        (old, new): (&Machine, &mut Machine),
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<bool, Difference> {
        let section = branch.section as usize;
        let test = *self.new_insn((section, self.before(section, branch.offset())?))?;
        let stop = *self.new_insn((section, branch.end()))?;
        let clear = *self.new_insn((section, stop.end()))?;
        let register = test.ins.op0_register();
        let of = |insn: &Insn, mnemonic: Mnemonic| {
            let one = insn.ins.try_immediate(1).is_ok_and(|value| value == 1);
            insn.ins.mnemonic() == mnemonic
                && one
                && insn.ins.op0_register().full_register() == register.full_register()
        };
        let tells = of(&test, Mnemonic::Test)
            && branch.ins.mnemonic() == Mnemonic::Jne
            && branch.ins.near_branch_target() == stop.end()
            && stop.ins.code() == Opcode::Ud2
            && register.is_gpr32()
            && of(&clear, Mnemonic::Xor)
            && clear.ins.op0_register().is_gpr64();
        if !tells {
            return wrong("a jump into the frame of a caller does not tell receivers from other places");
        }
        self.expect_delta(stand, 0, "a jump into the frame of a caller")?;
        if lost & whole(RBP) != 0 || self.context.old.kept[at].place(RBP) != crate::alike::RegisterPlace::Register(RBP)
        {
            return wrong("a jump into the frame of a caller loses the frame pointer");
        }
        block.ops.push(Op::Need(at, whole(RBP)));
        block.ops.push(Op::Lose(at, lost));
        stand.place.1 = clear.end();
        let mask = self.run_to_branch(new, stand, None)?;
        if mask.ins.op0_register() != register {
            return wrong("the indirect branch became another one");
        }
        let insn = self.context.old.text.insns[at];
        self.region(at, &insn, &mask, old, new, false, block)?;
        block.forget_target(&insn);
        block.ops.push(Op::Far);
        Ok(false)
    }

    /// The preserved registers without rbp. At a receiver they hold the values that the far jump
    /// finds in them.
    pub(crate) const LOST_TO_RECEIVERS: Set = {
        let mut lost = 0;
        let mut number = 0;
        while number < sets::PRESERVED.len() {
            if sets::PRESERVED[number] != RBP {
                lost |= whole(sets::PRESERVED[number]);
            }
            number += 1;
        }
        lost
    };
}
