//! Calls, jumps and returns.

use crate::code::{Dest, Flow, Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::facts::is_callers;
use crate::likely::Guesses;
use crate::machine::Machine;
use crate::object::{Spot, is_open, is_weak};
use crate::sets::{self, COUNT, RAX, Set, whole};
use crate::system::Line;
use crate::value::{Id, Node};
use crate::walk::{Block, Callee, Edge, Op, Stand, Walk, Way};
use iced_x86::{Code as Opcode, FlowControl, Instruction, Mnemonic, OpKind, Register};
use sfi_contract::layout::DISPATCH;
use sfi_elf::number::SHF_GROUP;

impl Walk<'_, '_, '_> {
    /// Compares a branch. Says whether control goes on after it.
    pub(crate) fn control(
        &mut self,
        at: Index,
        flow: Flow,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<bool, Difference> {
        let before = stand.place;
        let result = self.branch(at, flow, stand, block);
        if result.is_err() {
            stand.place = before;
        }
        result
    }

    fn branch(&mut self, at: Index, flow: Flow, stand: &mut Stand, block: &mut Block) -> Result<bool, Difference> {
        if let Some(search) = stand.slotted.and_then(|slotted| slotted.search) {
            return self.search(at, search, stand, block);
        }
        let context = self.context;
        let insn = context.old.text.insns[at];
        let kept = context.old.kept[at];
        let (old, mut new) = self.begin(stand, kept, false)?;
        let jump = match flow {
            Flow::Jump(dest) => self.target(dest),
            _ => None,
        };
        let mut branch = self.run_to_branch(&mut new, stand, jump.as_ref())?;
        let mut guesses = Guesses::default();
        if flow == Flow::CallIndirect {
            (guesses, branch) = self.guesses(at, branch, (&old, &mut new), stand)?;
        }
        let facts = stand.facts.clone();
        let lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)? | guesses.lost;
        if flow == Flow::JumpIndirect && self.is_far(at, stand) {
            block.ops.push(Op::Need(at, self.graph.effects[at].reads & !sets::ALL_FLAGS));
            return self.far_jump(at, &branch, lost, (&old, &mut new), stand, block);
        }
        if matches!(flow, Flow::Call(_) | Flow::CallIndirect | Flow::Return | Flow::JumpIndirect) {
            block.ops.push(Op::Need(at, self.graph.effects[at].reads & !sets::ALL_FLAGS));
        }
        if lost != 0 && flow != Flow::JumpIndirect {
            block.ops.push(Op::Lose(at, lost));
        }
        match flow {
            Flow::Call(dest) => {
                let target = self.target(dest);
                if branch.ins.mnemonic() != Mnemonic::Call || context.new_target(&branch) != target || target.is_none()
                {
                    return wrong("the call leads elsewhere");
                }
                self.expect_delta(stand, 0, "a call")?;
                if self.context.returns_twice(dest) {
                    let behind = self.values.id(Node::Spot(Spot::Code(branch.section as usize, branch.end())));
                    if new.registers[11] != behind {
                        return wrong("a function that returns twice does not get the place after its call");
                    }
                }
                let count = stand.facts.count;
                let local = context.old.insn_of(dest).filter(|to| self.graph.entry[*to]);
                self.called(
                    at,
                    local.map_or(Callee::Unknown { count }, |entry| Callee::Local { entry, count }),
                    stand,
                    block,
                    branch.end(),
                )
            }
            Flow::CallIndirect => {
                self.expect_delta(stand, 0, "a call")?;
                let end = self.region(at, &insn, &branch, &old, &new, true, block)?;
                let through = sets::number(insn.ins.op0_register()) == Some(RAX);
                let count = stand.facts.count && !through;
                if insn.ins.op0_kind() == OpKind::Register
                    && let Some(target) = sets::number(insn.ins.op0_register())
                    && !sets::PRESERVED.contains(&target)
                {
                    // The callee's address is no argument.
                    block.ops.push(Op::Forget(whole(target)));
                }
                let goes_on = self.called(at, Callee::Unknown { count }, stand, block, end)?;
                stand.place = self.meet(&guesses, stand.place)?;
                self.returns.extend(guesses.behind.iter().map(|place| (at, *place)));
                Ok(goes_on)
            }
            Flow::Jump(dest) => {
                if insn.ins.mnemonic() == Mnemonic::Xbegin {
                    // No reason, and no hint to try again.
                    let none = self.values.number(0);
                    if new.registers[RAX] != none {
                        return wrong("an aborted transaction gives a reason");
                    }
                    block.ops.push(Op::Gain(whole(RAX)));
                }
                if branch.ins.mnemonic() != Mnemonic::Jmp || context.new_target(&branch) != jump || jump.is_none() {
                    return wrong("the jump leads elsewhere");
                }
                self.leads(at, dest, stand, block, true)?;
                Ok(false)
            }
            Flow::Branch(dest) => {
                let target = self.target(dest);
                let end = self.conditional(&insn.ins, &branch, target.as_ref())?;
                block.ops.push(Op::Need(at, self.graph.effects[at].reads));
                self.leads(at, dest, stand, block, false)?;
                block.ops.push(Op::Gain(self.graph.effects[at].writes));
                stand.place.1 = end;
                self.step_facts(at, stand);
                Ok(true)
            }
            Flow::JumpIndirect => self.indirect(at, lost, &branch, (&old, &new), stand, block),
            Flow::Return => {
                let popped = if insn.ins.op_count() == 1 { i64::from(insn.ins.immediate16()) } else { 0 };
                if branch.ins.code() != Opcode::Retnq {
                    return wrong("the function does not return here");
                }
                self.expect_delta(stand, 8 + popped, "a return")?;
                self.leaves(stand)?;
                block.ops.push(Op::Return(at, self.unkept(stand)));
                Ok(false)
            }
            Flow::Stop => {
                if branch.ins.code() != Opcode::Ud2 {
                    return wrong("the program does not stop here");
                }
                Ok(false)
            }
            Flow::Next => unproved("no branch"),
        }
    }

    /// Compares a conditional branch. Returns the offset of the code after it.
    fn conditional(&self, old: &Instruction, branch: &Insn, target: Option<&Spot>) -> Result<u64, Difference> {
        if target.is_none() {
            return unproved("the branch's target is not known");
        }
        let short = !old.is_jcc_short_or_near();
        if old.mnemonic() != branch.ins.mnemonic()
            || (short && old.op_code().address_size() != branch.ins.op_code().address_size())
        {
            return wrong("the branch has another condition");
        }
        let leads = |insn: &Insn| self.context.new_target(insn);
        if leads(branch).as_ref() == target {
            return Ok(branch.end());
        }
        if short {
            // jrcxz 1f ; jmp 2f ; 1: jmp target ; 2:
            let section = branch.section as usize;
            let over = *self.new_insn((section, branch.end()))?;
            let far = *self.new_insn((section, over.end()))?;
            let here = leads(branch) == Some(Spot::Code(section, over.end()));
            let behind = leads(&over) == Some(Spot::Code(section, far.end()));
            let jumps = over.ins.mnemonic() == Mnemonic::Jmp && far.ins.mnemonic() == Mnemonic::Jmp;
            if here && behind && jumps && leads(&far).as_ref() == target {
                return Ok(far.end());
            }
        }
        wrong("the branch leads elsewhere")
    }

    /// Returns the new place of a branch's target.
    fn target(&self, dest: Dest) -> Option<Spot> {
        match dest {
            Dest::Insn(to) => Some(self.context.spot(to)),
            Dest::Symbol(symbol) => {
                let of = &self.context.pair.old.symbols[symbol];
                match self.context.old.insn_of(dest) {
                    Some(to) if !is_open(of) => Some(self.context.spot(to)),
                    _ => Some(Spot::Named(of.name.to_owned())),
                }
            }
            Dest::Nowhere => None,
        }
    }

    pub(crate) fn expect_delta(&self, stand: &Stand, wanted: i64, what: &str) -> Result<(), Difference> {
        if stand.delta == wanted {
            return Ok(());
        }
        wrong(format!("the data stack pointer is {} bytes from the stack pointer at {what}, not {wanted}", stand.delta))
    }

    /// Checks that the stack pointer at a function's end is where the caller left it.
    fn leaves(&self, stand: &Stand) -> Result<(), Difference> {
        match stand.facts.height() {
            Some(0) => {}
            Some(_) => return wrong("the function ends with something on the stack"),
            None => return unproved("the stack pointer at the function's end is not known to be the one at its entry"),
        }
        Ok(())
    }

    /// Returns the preserved registers that are not known to hold the caller's values.
    fn unkept(&self, stand: &Stand) -> u32 {
        sets::PRESERVED.iter().filter(|r| !is_callers(&stand.facts, **r)).fold(0, |set, r| set | 1 << r)
    }

    /// Follows a direct jump or branch, to a label or out of the function.
    fn leads(
        &mut self,
        at: Index,
        dest: Dest,
        stand: &mut Stand,
        block: &mut Block,
        jump: bool,
    ) -> Result<(), Difference> {
        let count = stand.facts.count;
        match self.context.old.insn_of(dest) {
            Some(to) if !self.graph.entry[to] || self.only_traps(dest) => {
                let after = block.ops.len();
                self.edge(Edge { from: at, to, lost: 0, after, way: Way::Plain }, stand, block)
            }
            Some(to) => {
                if self.saves.saved(stand.body, &stand.facts) != 0 {
                    return wrong("a jump to a function leaves words on the control stack");
                }
                // A jump to a function's beginning may stay inside a function with several entries.
                self.expect_delta(stand, 8, "a jump to a function")?;
                if stand.facts.height() == Some(0) || jump {
                    self.leaves(stand)?;
                }
                block.ops.push(Op::Tail(at, Callee::Local { entry: to, count }, self.unkept(stand)));
                Ok(())
            }
            None => {
                self.expect_delta(stand, 8, "a jump to a function")?;
                self.leaves(stand)?;
                block.ops.push(Op::Tail(at, Callee::Unknown { count }, self.unkept(stand)));
                Ok(())
            }
        }
    }

    /// Says whether a jump leads behind a section, where the new code has a trap, which needs
    /// nothing. If a function has its empty code there, and is weak or in a group, the linker may
    /// take another one. It takes no other definition of other functions, because two are an error.
    fn only_traps(&self, dest: Dest) -> bool {
        let old = &self.context.old;
        let Some(to) = old.insn_of(dest).filter(|to| old.is_trap(*to)) else { return false };
        let grouped = old.pair.old.sections[old.text.insns[to].section as usize].flags & u64::from(SHF_GROUP) != 0;
        match dest {
            Dest::Symbol(symbol) => !grouped && !is_weak(&old.pair.old.symbols[symbol]),
            _ => true,
        }
    }

    /// Compares the unsafe region: its register holds the target. Returns the offset after it.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn region(
        &mut self,
        at: Index,
        insn: &Insn,
        mask: &Insn,
        old: &Machine,
        new: &Machine,
        call: bool,
        block: &mut Block,
    ) -> Result<u64, Difference> {
        if !self.is_region(mask) {
            return wrong("the indirect branch became another one");
        }
        let branch = *self.new_insn((mask.section as usize, mask.end()))?;
        let register = mask.ins.op0_register();
        let through = branch.ins.memory_base() == register
            && branch.ins.memory_index() == Register::None
            && branch.ins.memory_displacement64() == DISPATCH.symbolic()
            && branch.ins.segment_prefix() == Register::GS
            && (branch.ins.flow_control() == FlowControl::IndirectCall) == call;
        if !through {
            return wrong("the indirect branch became another one");
        }
        let found = new.read(&mut self.values, register);
        if !self.is_target(insn, old, found)? {
            return wrong("the indirect branch leads elsewhere");
        }
        let lost = self.owner(at, register);
        block.ops.push(Op::Lose(at, lost | sets::ALL_FLAGS));
        Ok(branch.end())
    }

    /// Says whether a value is the lower half of an indirect branch's target, which is all that
    /// counts. In mode match the check reads all of the target.
    pub(crate) fn is_target(&mut self, insn: &Insn, old: &Machine, value: Id) -> Result<bool, Difference> {
        let mut is = false;
        for size in [4, 8] {
            let target = self.branch_operand(insn, old, size)?;
            is |= self.values.bits(target, 0, 32) == value;
        }
        Ok(is)
    }

    /// Returns the target of an indirect branch of the original program, or `size` bytes of it if
    /// it is in memory.
    fn branch_operand(&mut self, insn: &Insn, old: &Machine, size: u32) -> Result<Id, Difference> {
        if insn.ins.op0_kind() == OpKind::Register {
            return Ok(old.read(&mut self.values, insn.ins.op0_register()));
        }
        let Some(fields) = self.context.fields(&mut self.values, false, insn) else {
            return unproved("an operand's relocation is not understood");
        };
        let address = old.address(&mut self.values, insn, &fields)?;
        Ok(old.load(&mut self.values, address, size))
    }

    /// Returns the original register that a new one holds.
    fn owner(&self, at: Index, register: Register) -> Set {
        let Some(number) = sets::number(register) else { return 0 };
        let kept = self.context.old.kept[at];
        let holds = |r: &usize| *r != sets::RSP && kept.place(*r) == crate::alike::RegisterPlace::Register(number);
        (0..16).find(holds).map_or(0, whole)
    }

    /// Returns the preserved registers of the original program that live in some registers.
    fn lives_where(&self, at: Index, among: impl Fn(usize) -> bool) -> Set {
        let kept = self.context.old.kept[at];
        let there = |register: &&usize| matches!(kept.place(**register), crate::alike::RegisterPlace::Register(to) if among(to));
        sets::PRESERVED.iter().filter(there).fold(0, |set, register| set | whole(*register))
    }

    fn called(
        &mut self,
        at: Index,
        callee: Callee,
        stand: &mut Stand,
        block: &mut Block,
        end: u64,
    ) -> Result<bool, Difference> {
        block.ops.push(Op::Call(at, callee, self.unkept(stand)));
        let lost = self.lives_where(at, |to| !sets::PRESERVED.contains(&to));
        if lost != 0 {
            block.ops.push(Op::Lose(at, lost));
        }
        stand.place.1 = end;
        self.returns.push((at, stand.place));
        if let Some(landing) = self.graph.landings.get(&at) {
            let after = block.ops.len();
            self.edge(Edge { from: at, to: landing.pad, lost: 0, after, way: Way::Landing }, stand, block)?;
        }
        for &to in self.graph.receivers(at) {
            let (lost, after) = (self.receives(to)?, block.ops.len());
            self.edge(Edge { from: at, to, lost, after, way: Way::Receiver }, stand, block)?;
        }
        self.step_facts(at, stand);
        Ok(true)
    }

    pub(crate) fn system(
        &mut self,
        at: Index,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<Option<Index>, Difference> {
        let kept = self.context.old.kept[at];
        let (old, mut new) = self.begin(stand, kept, false)?;
        let branch = self.run_to_branch(&mut new, stand, None)?;
        let facts = stand.facts.clone();
        let lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        let gateway = Spot::Named(sfi_contract::names::SYSCALL.to_owned());
        if branch.ins.mnemonic() != Mnemonic::Call || self.context.new_target(&branch) != Some(gateway) {
            return wrong("the system call leads elsewhere");
        }
        self.expect_delta(stand, 0, "a system call")?;
        if lost != 0 {
            block.ops.push(Op::Lose(at, lost));
        }
        let (old, graph) = (&self.context.old, self.graph);
        let line = Line { effects: &graph.effects, before: |at| graph.only_before(old, at) };
        let taken = line.arguments(old, at);
        block.ops.push(Op::Call(at, Callee::System { taken }, 0));
        let lost = self.lives_where(at, |to| [RAX, 1, 11].contains(&to));
        if lost != 0 {
            block.ops.push(Op::Lose(at, lost));
        }
        stand.place.1 = branch.end();
        self.step_facts(at, stand);
        Ok(self.context.old.text.next(at))
    }

    fn indirect(
        &mut self,
        at: Index,
        before: Set,
        mask: &Insn,
        (old, new): (&Machine, &Machine),
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<bool, Difference> {
        let Some(targets) = self.graph.jumps.get(&at).cloned() else { return unproved("an indirect jump") };
        let insn = &self.context.old.text.insns[at];
        if sets::number(insn.ins.op0_register()) == Some(RAX) {
            // %al holds part of a code address, so it is no count.
            block.ops.push(Op::Untaken(COUNT));
        }
        let mut aside = Block::default();
        self.region(at, insn, mask, old, new, false, &mut aside)?;
        let lost = match aside.ops[..] {
            [Op::Lose(_, lost)] => lost | before,
            _ => before,
        };
        if targets.tail && (stand.facts.height().is_some() || targets.inside.is_empty()) {
            self.expect_delta(stand, 8, "a jump that may leave the function")?;
            self.leaves(stand)?;
            let through = sets::number(insn.ins.op0_register()) == Some(RAX);
            let (count, unkept) = (stand.facts.count && !through, self.unkept(stand));
            if targets.inside.is_empty() {
                // No label can be its target, so it is a tail call. Its callee is as unknown as
                // that of a call through a pointer.
                block.ops.push(Op::Lose(at, lost));
                block.forget_target(insn);
                block.ops.push(Op::Tail(at, Callee::Unknown { count }, unkept));
                return Ok(false);
            }
            block.ops.push(Op::Leave { at, count, lost, unkept });
        }
        if !targets.tail && targets.inside.is_empty() {
            return unproved("an indirect jump whose targets are not known");
        }
        let delta = stand.delta;
        let after = block.ops.len();
        let slotted = stand.slotted.take().map(|slotted| whole(slotted.register) | whole(slotted.base));
        let way = slotted.map_or(Way::Plain, Way::Switch);
        for to in targets.inside {
            if targets.tail && self.graph.facts.get(&to).and_then(|facts| facts.height()) != Some(0) {
                // The jump may be a tail call, so nothing is on the stack. It cannot lead to a
                // label with something there.
                continue;
            }
            // The slots of an array lead to the labels and not to their pads.
            let lost = match self.context.old.pad[to].filter(|_| slotted.is_none()) {
                None => lost,
                Some(pad) => {
                    // The landing pad's code is part of the way to the label.
                    let mut new = new.clone();
                    let kept = self.context.old.kept[at];
                    let register = mask.ins.op0_register();
                    let masked = self.values.junk();
                    new.write(&mut self.values, register.full_register(), masked);
                    new.flags = std::array::from_fn(|_| self.values.junk());
                    let (section, offset) = self.context.old.place[to];
                    let mut there = Stand { place: (section as usize, u64::from(pad)), ..stand.clone() };
                    let end = (section as usize, u64::from(offset));
                    self.run_to(&mut new, &mut there, end)?;
                    let facts = stand.facts.clone();
                    let mut delta = delta;
                    self.compare(old, &new, &facts, kept, &mut delta)?
                }
            };
            self.edge(Edge { from: at, to, lost, after, way }, stand, block)?;
        }
        Ok(false)
    }
}
