//! Both programs in lockstep, from label to label. The state between two original instructions is
//! the present place of each original register, and `delta`: the distance of the data stack's
//! pointer from the original stack pointer, without the words of `saves`. Each label must have one
//! `delta`.

use crate::alike::{RegisterPlace, alike};
use crate::code::{Dest, Flow, Index, Insn, Kept};
use crate::context::Context;
use crate::difference::{Difference, unproved, wrong};
use crate::facts::{Fact, Facts, is_callers, is_fence, reads_text};
use crate::graph::Graph;
use crate::held::{self, Held};
use crate::machine::Machine;
use crate::object::kind;
use crate::saves::{BodyNumber, Saves};
use crate::sets::{self, PRESERVED, R15, RAX, RSP, Set, whole, wholes};
use crate::unread::{Search, Searches};
use crate::value::{Node, Values};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{InstructionInfoFactory, Mnemonic, OpKind};
use sfi_contract::layout::TCB_R15;
use std::collections::BTreeMap;

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of this object.
    Local { entry: Index, count: bool },
    /// A function that this object does not know. `count`: %al may hold the number of vector
    /// registers that are passed.
    Unknown { count: bool },
    /// The kernel. `taken`: the registers of arguments that this system call has.
    System { taken: &'static [usize] },
}

/// The effect of a piece of code on the validity of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The original program reads these.
    Need(Index, Set),
    /// The original program reads these preserved registers, which hold the caller's values.
    Take(u32),
    /// Both programs wrote these.
    Gain(Set),
    /// The new program lost these.
    Lose(Index, Set),
    /// The original program wrote these, which the new one lost.
    Wrote(Set),
    /// Both programs copied a register. Bits that are lost of it are lost of the copy.
    Copy { at: Index, from: usize, to: usize },
    /// Both programs combined two registers bit by bit. If one has lost its bits above the low
    /// byte, so has the result, and the flags that follow from all bytes are lost.
    Mix { at: Index, needed: Set, from: usize, to: usize },
    /// These hold nothing that the original program passes on to functions on purpose.
    Forget(Set),
    /// Functions take nothing from these on purpose.
    Untaken(Set),
    /// A call, with the preserved registers that are not known to hold the caller's values.
    Call(Index, Callee, u32),
    /// The function returns, with the preserved registers that are not known to hold the caller's
    /// values.
    Return(Index, u32),
    /// The function ends by a jump to another one, with the preserved registers that are not known
    /// to hold the caller's values.
    Tail(Index, Callee, u32),
    /// The function ends by a jump into the frame of a caller.
    Far,
    /// The function may end by a jump to an unknown function, or go on inside.
    Leave { at: Index, count: bool, lost: Set, unkept: u32 },
}

/// An edge to a label, with the registers and flags that are lost on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub from: Index,
    pub to: Index,
    pub lost: Set,
    /// The edge leaves after this many of the block's operations.
    pub after: usize,
    pub way: Way,
}

/// The way in which control goes along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// A switch takes the edge, and its target is in these registers.
    Switch(Set),
    /// An exception takes the edge. Both programs get values in rax and rdx on it.
    Landing,
    /// A far jump in a callee takes the edge. Both programs get a frame pointer on it.
    Receiver,
}

/// The operations and edges of the code after a label.
#[derive(Default)]
pub(crate) struct Block {
    pub ops: Vec<Op>,
    pub edges: Vec<Edge>,
}

impl Block {
    /// Notes that no function reads the register of an indirect jump that leads to it.
    pub(crate) fn forget_target(&mut self, jump: &Insn) {
        let target = jump.ins.op0_register();
        if let Some(target) = sets::number(target).filter(|_| jump.ins.op0_kind() == OpKind::Register) {
            self.ops.push(Op::Forget(whole(target)));
        }
    }
}

/// A register of the original program holds an entry, and that of the new one a slot of its target,
/// unless it compares.
#[derive(Clone, Copy)]
pub(crate) struct Slotted {
    pub register: usize,
    /// The original register that holds the table's address.
    pub base: usize,
    /// The original program has added the table's base.
    pub summed: bool,
    /// The new program compares the index instead, and has no slot.
    pub search: Option<Search>,
}

/// The state of the walk between two original instructions.
#[derive(Clone)]
pub(crate) struct Stand {
    pub facts: Facts,
    pub delta: i64,
    pub body: BodyNumber,
    /// Section and offset of the new code.
    pub place: (usize, u64),
    pub slotted: Option<Slotted>,
    pub held: Held,
}

/// The walk through both programs.
pub(crate) struct Walk<'x, 'p, 'a> {
    pub(crate) context: &'x Context<'p, 'a>,
    pub(crate) graph: &'x Graph,
    pub(crate) saves: &'x Saves,
    pub(crate) values: Values,
    pub(crate) factory: InstructionInfoFactory,
    /// Blocks by their labels.
    pub blocks: BTreeMap<Index, Block>,
    deltas: HashMap<Index, i64>,
    work: Vec<Index>,
    /// Differences, by original instruction.
    pub differences: Vec<(Index, (usize, u64), Difference)>,
    /// Instructions that were compared.
    pub compared: usize,
    /// Calls, with the new place after each.
    pub returns: Vec<(Index, (usize, u64))>,
    /// Switches that compare.
    pub searches: Searches,
    /// Facts that nobody needs, for the room of their lists.
    spare: Facts,
}

impl<'x, 'p, 'a> Walk<'x, 'p, 'a> {
    /// Walks from every entry.
    pub(crate) fn run(context: &'x Context<'p, 'a>, graph: &'x Graph, saves: &'x Saves) -> Walk<'x, 'p, 'a> {
        let mut walk = Walk {
            context,
            graph,
            saves,
            values: Values::default(),
            factory: InstructionInfoFactory::new(),
            blocks: BTreeMap::new(),
            deltas: HashMap::new(),
            work: Vec::new(),
            differences: Vec::new(),
            compared: 0,
            returns: Vec::new(),
            searches: Searches::default(),
            spare: Facts::default(),
        };
        for at in (0..graph.entry.len()).filter(|&at| graph.entry[at]) {
            walk.deltas.insert(at, 8);
            walk.work.push(at);
        }
        while let Some(head) = walk.work.pop() {
            let Some(facts) = graph.facts.get(&head) else { continue };
            let (section, offset) = context.old.place[head];
            let delta = walk.deltas[&head];
            let place = (section as usize, u64::from(offset));
            let (facts, body) = (Facts::clone(facts), saves.body(head));
            let mut stand = Stand { facts, delta, body, place, slotted: None, held: Held::default() };
            let mut block = Block::default();
            let mut at = head;
            if let Err(difference) = walk.block(&mut at, &mut stand, &mut block) {
                walk.differences.push((at, stand.place, difference));
            }
            // Most blocks are small, and all of them stay.
            block.ops.shrink_to_fit();
            block.edges.shrink_to_fit();
            walk.blocks.insert(head, block);
        }
        walk
    }

    fn block(&mut self, at: &mut Index, stand: &mut Stand, block: &mut Block) -> Result<(), Difference> {
        let head = *at;
        let mut called = None;
        if self.graph.entry[head] && !self.graph.receivers(head).is_empty() {
            self.lays_depth(head, stand, block)?;
        }
        loop {
            let here = *at;
            if here != head && self.graph.is_head(here) {
                if called.is_some_and(|call| self.graph.endless.contains(&call)) {
                    return self.goes_on(here, stand);
                }
                self.keeps_slot(stand, &[], true)?;
                return self.arrive(here, stand, block);
            }
            let insn = &self.context.old.text.insns[here];
            let has_code = !insn.is_nop() && self.context.has_code(here);
            if let Some(length) = self.context.charge(stand.place).filter(|_| has_code) {
                stand.place.1 += length;
                block.ops.push(Op::Lose(here, sets::ALL_FLAGS));
            }
            self.compared += 1;
            called = match self.context.old.flow[here] {
                Flow::Call(_) | Flow::CallIndirect => Some(here),
                _ if insn.is_nop() => called,
                _ => None,
            };
            let ops = block.ops.len();
            let next = if insn.is_nop() {
                self.context.old.text.next(here)
            } else if self.is_switch(here, stand, block)? {
                if std::mem::take(&mut stand.held).stale {
                    return wrong("the home of r15 has another value before a switch");
                }
                self.context.old.text.next(here)
            } else {
                match self.context.old.flow[here] {
                    Flow::Next => self.plain(here, stand, block)?,
                    flow => self.control(here, flow, stand, block)?.then(|| self.context.old.text.next(here)).flatten(),
                }
            };
            self.keeps_slot(stand, &block.ops[ops..], false)?;
            if self.context.stops.contains(&here) {
                self.stops(here, stand)?;
            }
            match next.filter(|_| !self.graph.is_endless(&self.context.old, here)) {
                Some(next) => *at = next,
                None => return self.ends(here, stand),
            }
        }
    }

    /// Executes the new code before a label, which brings `delta` to the label's value.
    fn arrive(&mut self, to: Index, stand: &mut Stand, block: &mut Block) -> Result<(), Difference> {
        let (section, offset) = self.context.old.place[to];
        let end = (section as usize, u64::from(offset));
        let kept = self.context.old.kept[to];
        let (old, mut new) = self.begin(stand, kept, false)?;
        self.run_to(&mut new, stand, end)?;
        let lost = self.compare(&old, &new, &stand.facts, kept, &mut stand.delta)?;
        let from = to;
        self.edge(Edge { from, to, lost, after: block.ops.len(), way: Way::Plain }, stand, block)
    }

    /// Adds an edge. All ways to a label must have one `delta`.
    pub(crate) fn edge(&mut self, edge: Edge, stand: &Stand, block: &mut Block) -> Result<(), Difference> {
        if self.context.old.is_trap(edge.to) {
            return self.traps_behind(edge.to);
        }
        let delta = *self.deltas.entry(edge.to).or_insert_with(|| {
            self.work.push(edge.to);
            stand.delta
        });
        if delta != stand.delta {
            let label = self.context.old.text.insns[edge.to].offset();
            return wrong(format!(
                "the data stack pointer is {} bytes from the stack pointer at {label:#x}, and {delta} on another way there",
                stand.delta
            ));
        }
        let from = self.context.old.kept[edge.from];
        let kept = self.context.old.kept[edge.to];
        if from != kept && !self.graph.entry[edge.to] {
            return unproved("r15 is kept in another way at the jump's target");
        }
        block.edges.push(edge);
        Ok(())
    }

    /// Compares an instruction that control passes.
    pub(crate) fn plain(
        &mut self,
        at: Index,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<Option<Index>, Difference> {
        let context = self.context;
        let (insn, kept) = (&context.old.text.insns[at], context.old.kept[at]);
        let effects = self.graph.effects[at];
        self.check_frame(at, stand)?;
        if !insn.is_nop() && reads_text(&stand.facts, &insn.ins, &effects) {
            return wrong("the original program reads bytes of its text, and the new one those of a slot");
        }
        let new = context.new.at(stand.place.0, stand.place.1);
        if let Some(new) = new.map(|n| &context.new.insns[n])
            && !self.touches_slot(at, stand, kept)
            && !self.reads_return_address(at, stand)
            && stand.held.survives(&effects, kept)
            && alike(context, kept, stand.delta, &effects, insn, new)
            && self.is_last(at, new)
        {
            stand.place.1 = new.end();
            let before = self.facts_before(at, stand);
            self.note(at, &before, stand, effects, 0, block);
            self.spare = before;
            return Ok(context.old.text.next(at));
        }
        self.long_way(at, stand, block)
    }

    /// Says whether no other code of an instruction follows this, or only code that brings the data
    /// stack pointer to its place at a label.
    pub(crate) fn is_last(&self, at: Index, new: &Insn) -> bool {
        let next = self.context.old.text.next(at);
        new.end() == u64::from(self.context.until[at]) || next.is_some_and(|next| self.graph.is_head(next))
    }

    /// Moves the facts past an instruction.
    pub(crate) fn step_facts(&self, at: Index, stand: &mut Stand) {
        self.graph.step(&self.context.old, at, &mut stand.facts);
    }

    /// Moves the facts past an instruction, and returns those before it.
    fn facts_before(&mut self, at: Index, stand: &mut Stand) -> Facts {
        let mut before = std::mem::take(&mut self.spare);
        before.clone_from(&stand.facts);
        self.step_facts(at, stand);
        before
    }

    fn long_way(&mut self, at: Index, stand: &mut Stand, block: &mut Block) -> Result<Option<Index>, Difference> {
        let context = self.context;
        let (insn, kept) = (context.old.text.insns[at], context.old.kept[at]);
        let mut effects = self.graph.effects[at];
        let saves = self.touches_slot(at, stand, kept) && self.saves(at, stand, kept);
        let (mut old, mut new) = self.begin(stand, kept, saves)?;
        new.narrow = insn.ins.memory_base().is_gpr32() || insn.ins.memory_index().is_gpr32();
        if self.reads_return_address(at, stand) {
            if !self.graph.receivers(at).is_empty() {
                return wrong("the word of the return address holds the depth of the control stack");
            }
            self.return_address(&mut old, &mut new, stand)?;
        }
        let mut last = at;
        let reloc = context.old_reloc_kind(&insn);
        let (moved, stack) = (self.saves.change(at)?, old.registers[RSP]);
        match insn.ins.mnemonic() {
            Mnemonic::Push | Mnemonic::Pop if moved.is_some() => {
                (old.saved, new.saved) = (Some(Vec::new()), Some(Vec::new()));
                old.save(&mut self.values, &insn.ins);
            }
            _ if matches!(reloc, Some(kind::TLSGD | kind::TLSLD)) => {
                last = self.thread_local(at, &mut old)?;
                effects.reads = 0;
                effects.writes = sets::ALL & !wholes(&PRESERVED);
            }
            Mnemonic::Pushfq => old.flags_on_stack(&mut self.values, &mut self.factory, true)?,
            Mnemonic::Popfq => old.flags_on_stack(&mut self.values, &mut self.factory, false)?,
            Mnemonic::Syscall => return self.system(at, stand, block),
            Mnemonic::Std => return self.backwards(at, stand, block),
            Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => return self.masked_store(at, stand, block),
            Mnemonic::Xabort | Mnemonic::Rdsspd | Mnemonic::Rdsspq | Mnemonic::Clflush => effects = Default::default(),
            Mnemonic::Clflushopt | Mnemonic::Clwb => effects = Default::default(),
            Mnemonic::Xtest => {
                effects.writes = sets::ALL_FLAGS;
                old.flags = [self.values.id(Node::Any); 6];
                let zero = self.values.number(0);
                for flag in [0, 4, 5] {
                    old.flags[flag] = zero;
                }
            }
            _ => {
                let fields = context.fields(&mut self.values, false, &insn);
                let Some(fields) = fields else { return unproved("an operand's relocation is not understood") };
                let mut plain = insn;
                if !insn.ins.is_string_instruction() {
                    plain.ins.set_has_rep_prefix(false);
                    plain.ins.set_has_repne_prefix(false);
                }
                old.step(&mut self.values, &mut self.factory, &plain, &fields)?;
            }
        }
        if let Some(change) = moved {
            old.registers[RSP] = self.values.plus(stack, change);
        }
        let before = stand.place;
        let end = (stand.place.0, u64::from(self.context.until[last]));
        self.run_to(&mut new, stand, end)?;
        let facts = self.facts_before(at, stand);
        if last != at {
            self.step_facts(last, stand);
        }
        let lost = match self.compare(&old, &new, &stand.facts, kept, &mut stand.delta) {
            Ok(lost) => lost,
            Err(difference) => {
                stand.place = before;
                return Err(difference);
            }
        };
        if old.saved.is_some() && lost & effects.writes != 0 {
            return wrong("a word of the control stack gets into another register");
        }
        let (held, lost) = held::find(&mut self.values, (&old, &new), kept, lost);
        stand.held = held;
        self.note(at, &facts, stand, effects, lost, block);
        self.spare = facts;
        Ok(context.old.text.next(last))
    }

    /// Checks that no instruction accesses the return address, which is not on the data stack. A
    /// read finds a copy there.
    fn check_frame(&mut self, at: Index, stand: &Stand) -> Result<(), Difference> {
        let effects = &self.graph.effects[at];
        let ins = &self.context.old.text.insns[at].ins;
        let accesses = (effects.loads || effects.stores) && ins.mnemonic() != Mnemonic::Push;
        let pops = matches!(ins.mnemonic(), Mnemonic::Pop | Mnemonic::Popfq | Mnemonic::Leave);
        let place =
            if pops { stand.facts.height().map(|h| (0, h)) } else { stand.facts.operand(&self.context.old, at) };
        if accesses
            && !is_fence(&self.context.old.text.insns[at])
            && !self.reads_return_address(at, stand)
            && !matches!(ins.mnemonic(), Mnemonic::Lea | Mnemonic::Leave)
            && let Some((0, distance)) = place
        {
            let size = if pops { 8 } else { i64::from(crate::machine::memory_size(ins)) };
            if distance < 8 && distance + size > 0 {
                return wrong("the return address is replaced, which is not on the data stack");
            }
        }
        Ok(())
    }

    /// Says whether an instruction saves the caller's value of the register that has a slot in the
    /// frame.
    fn saves(&self, at: Index, stand: &Stand, kept: Kept) -> bool {
        let ins = &self.context.old.text.insns[at].ins;
        let homed = kept.homed();
        let stored = match ins.mnemonic() {
            Mnemonic::Push if ins.op0_kind() == OpKind::Register => ins.op0_register(),
            Mnemonic::Mov if ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Register => {
                ins.op1_register()
            }
            _ => return false,
        };
        sets::number(stored) == Some(homed) && is_callers(&stand.facts, homed)
    }

    /// Says whether an instruction accesses the frame's slot that is r15's home.
    fn touches_slot(&self, at: Index, stand: &Stand, kept: Kept) -> bool {
        let Some(depth) = kept.slot else { return false };
        let ins = &self.context.old.text.insns[at].ins;
        let (place, size) = match ins.mnemonic() {
            Mnemonic::Push => (stand.facts.height().map(|h| (0, h - 8)), 8),
            Mnemonic::Pop => (stand.facts.height().map(|h| (0, h)), 8),
            Mnemonic::Lea => return false,
            _ => (stand.facts.operand(&self.context.old, at), i64::from(crate::machine::memory_size(ins))),
        };
        matches!(place, Some((0, distance)) if distance < 8 - depth && distance + size > -depth)
    }

    /// Returns both machines before an instruction. The new one has its copies of r15, which
    /// nobody knows afterwards.
    pub(crate) fn begin(
        &mut self,
        stand: &mut Stand,
        kept: Kept,
        saves: bool,
    ) -> Result<(Machine, Machine), Difference> {
        let values = &mut self.values;
        values.clear();
        let (registers, flags) = (Values::registers(), Values::flags());
        let mut old = Machine {
            registers,
            flags,
            others: Vec::new(),
            stores: Vec::new(),
            cells: Vec::new(),
            slot: None,
            saved: None,
            is_new: false,
            narrow: false,
        };
        let (saved, body) = (self.saves, stand.body);
        // A register at a known distance from another one is expressed by it. The stack pointer
        // comes first.
        let mut roots: Vec<(u32, usize, i64)> = Vec::new();
        for register in std::iter::once(RSP).chain((0..16).filter(|r| *r != RSP)) {
            let Fact::Stack(base, distance) = stand.facts.registers[register] else { continue };
            let distance = if base == 0 { saved.pointer(body, register, distance) } else { distance };
            match roots.iter().find(|(known, ..)| *known == base) {
                Some((_, root, less)) => {
                    old.registers[register] = values.plus(registers[*root], distance.wrapping_sub(*less));
                }
                None => roots.push((base, register, distance)),
            }
        }
        let mut new = Machine { is_new: true, ..old.clone() };
        new.registers = std::array::from_fn(|_| values.junk());
        new.registers[R15] = values.plus(old.registers[RSP], stand.delta);
        for register in (0..16).filter(|r| *r != RSP) {
            match kept.place(register) {
                RegisterPlace::Register(to) => new.registers[to] = old.registers[register],
                RegisterPlace::Home => new.cells = vec![(TCB_R15.symbolic(), old.registers[register])],
            }
        }
        if let Some(depth) = kept.slot {
            let homed = kept.homed();
            let token = values.id(Node::Token);
            let base = (0..16).find_map(|r| match stand.facts.registers[r] {
                Fact::Stack(0, distance) => Some((r, distance)),
                _ => None,
            });
            let Some((base, distance)) = base else { return unproved("the slot of r15 in the frame is lost") };
            let slot =
                values.plus(old.registers[base], saved.place(body, -depth) - saved.pointer(body, base, distance));
            let free =
                is_callers(&stand.facts, homed) && stand.facts.slot((0, -depth)) != Fact::Caller(homed as u8) && !saves;
            if free {
                // The register is not saved yet, or is given back. The slot is a word of the frame
                // like others.
                old.registers[homed] = token;
            } else if is_callers(&stand.facts, homed) {
                old.registers[homed] = token;
                new.slot = Some((slot, values.junk()));
            } else {
                new.slot = Some((slot, old.registers[homed]));
            }
            old.slot = (!free).then_some((slot, token));
            new.cells = vec![(TCB_R15.symbolic(), token)];
        }
        std::mem::take(&mut stand.held).give(values, kept, &old, &mut new);
        Ok((old, new))
    }

    /// Compares both machines after an instruction. Returns the registers and flags that the new
    /// program lost.
    pub(crate) fn compare(
        &mut self,
        old: &Machine,
        new: &Machine,
        after: &Facts,
        kept: Kept,
        delta: &mut i64,
    ) -> Result<Set, Difference> {
        if old.stores.len() != new.stores.len() {
            return wrong(format!("{} stores instead of {}", new.stores.len(), old.stores.len()));
        }
        if old.saved != new.saved {
            return wrong("the new code does not push or pop the word of the control stack");
        }
        for (mine, other) in old.stores.iter().zip(&new.stores) {
            if mine != other {
                let part = if mine.0 != other.0 { "address" } else { "value" };
                return wrong(format!("a store has another {part}"));
            }
        }
        for (register, _) in old.others.iter().chain(&new.others) {
            let of = |m: &Machine| m.others.iter().find(|(r, _)| r == register).map(|(_, id)| *id);
            if of(old) != of(new) {
                return wrong(format!("{register:?} differs").to_lowercase());
            }
        }
        let Some(distance) = self.values.difference(new.registers[R15], old.registers[RSP]) else {
            return wrong("the data stack pointer is no longer at a known distance from the stack pointer");
        };
        *delta = distance;
        let cell = |at: u64| new.cells.iter().find(|(cell, _)| *cell == at).map(|(_, id)| *id);
        let mut lost = 0;
        for register in (0..16).filter(|r| *r != RSP) {
            let value = match kept.place(register) {
                RegisterPlace::Register(to) => Some(new.registers[to]),
                RegisterPlace::Home if kept.slot.is_some() && !is_callers(after, register) => {
                    new.slot.map(|(_, held)| held)
                }
                RegisterPlace::Home => cell(TCB_R15.symbolic()),
            };
            let wanted = old.registers[register];
            if value != Some(wanted) {
                let low = self.values.bits(wanted, 0, 8);
                let same = value.is_some_and(|value| self.values.bits(value, 0, 8) == low);
                lost |= if same { 0x1_0000 << register } else { whole(register) };
            }
        }
        if kept.slot.is_some() {
            let token = self.values.id(Node::Token);
            let (mine, other) = (old.slot.map(|(_, held)| held), new.slot.map(|(_, held)| held));
            let given_back = is_callers(after, kept.homed()) && mine == other;
            if cell(TCB_R15.symbolic()) != Some(token) || (mine.is_some_and(|held| held != token) && !given_back) {
                return wrong("the caller's r15 is not kept");
            }
        }
        for flag in 0..6 {
            let undefined = *self.values.node(old.flags[flag]) == Node::Any;
            if old.flags[flag] != new.flags[flag] && !undefined {
                lost |= 1 << (32 + flag);
            }
        }
        Ok(lost)
    }

    /// Executes a general- or local-dynamic sequence, which gives an address. Its call belongs to
    /// it.
    fn thread_local(&mut self, at: Index, old: &mut Machine) -> Result<Index, Difference> {
        let context = self.context;
        let insn = &context.old.text.insns[at];
        let call = context.old.text.next(at).filter(|next| {
            matches!(context.old.flow[*next], Flow::Call(Dest::Symbol(symbol))
                if context.pair.old.symbols[symbol].name == "__tls_get_addr")
        });
        let Some(call) = call else { return unproved("no call of __tls_get_addr follows") };
        let Some(fields) = context.fields(&mut self.values, false, insn) else {
            return unproved("a thread local's relocation is not understood");
        };
        let pointer = self.values.number(sfi_contract::layout::TCB.symbolic() as i64);
        let base = old.load(&mut self.values, pointer, 8);
        old.registers[RAX] = match (context.old_reloc_kind(insn), fields.displacement) {
            (Some(kind::TLSGD), Some(distance)) => self.values.sum(base, distance, 1, 0),
            _ => base,
        };
        Ok(call)
    }
}
