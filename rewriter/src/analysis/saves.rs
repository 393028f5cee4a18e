//! Phase 7e: registers that functions save on the control stack.
//!
//! A function that pushes preserved registers and pops them before it returns may do so on the
//! control stack (docs/CONTRACT.md, "Saved registers"). Then the pushes stay as they are, and the
//! words are no part of the frame on the data stack.
//!
//! The analysis divides units into *bodies*: instructions that control connects without entering a
//! function. A body keeps its saves there only if nothing else reaches their words: no operand lies
//! at them or above them, and the stack pointer passes them by these pushes and pops alone.
//! Whatever needs the depth 0 of the control stack (labels that pointers name, symbols, landing
//! pads, other sections) must lie where nothing is saved.
//!
//! ```text
//! a frame of the original program           on the data stack
//!     V-8   return address                      V     locals
//!     V-16  rbx, saved
//!     V-24  rbp, saved
//!     V-32  r12, saved
//!     ...   locals
//! ```
//!
//! The frame shrinks by a multiple of 16, because locals stay aligned: the place of the return
//! address goes with an odd number of words. A frame that holds nothing but words on the control
//! stack, and otherwise only aligns calls, is left out: r15 stays where it is.

use crate::analysis::depth::{Height, States};
use crate::analysis::flow::{self, FlowGraph, JumpKind};
use crate::analysis::live::Liveness;
use crate::analysis::regs::{AllEffects, FLAGS, bit};
use crate::analysis::trees::Trees;
use crate::object::decode::{Code, Dest, Flow, InsnIndex, PerInsn};
use crate::object::read::Place;
use crate::unwind::frames::{Cfa, Row, SP, Saved};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Code as Opcode, Instruction, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};

/// Most registers that a function saves there. The contract allows 15.
const MOST: usize = sfi_contract::saves::MOST as usize;

/// The number of no body.
const NONE: u32 = 0;

/// The saves of all bodies.
#[derive(Default)]
pub(crate) struct Saves {
    /// Pushes and pops on the control stack, with their change of `delta` (see `transform`).
    moves: HashMap<InsnIndex, i64>,
    /// The body of each instruction: [`NONE`], or its place in `frames` and 1. Empty if there is
    /// none.
    body: PerInsn<u32>,
    frames: Vec<Frame>,
}

/// The frame of a body.
struct Frame {
    /// The distances of the saved words below the entry's stack pointer, ascending.
    slots: Vec<i64>,
    /// The frame is left out.
    empty: bool,
}

impl Saves {
    /// Returns the change of `delta` at a push or pop on the control stack, and where a frame that
    /// is left out begins and ends.
    pub(crate) fn change(&self, at: InsnIndex) -> Option<i64> {
        self.moves.get(&at).copied()
    }

    fn frame(&self, at: InsnIndex) -> Option<&Frame> {
        self.body.get(at).filter(|body| **body != NONE).map(|body| &self.frames[*body as usize - 1])
    }

    fn slots(&self, at: InsnIndex) -> &[i64] {
        self.frame(at).map_or(&[], |frame| &frame.slots)
    }

    /// Says whether an instruction's function saves registers on the control stack, or has lost its
    /// frame.
    pub(crate) fn has_body(&self, at: InsnIndex) -> bool {
        self.frame(at).is_some()
    }

    /// Says whether a call finds registers on the control stack, or another frame.
    pub(crate) fn moves_frame(&self, call: InsnIndex, states: &States) -> bool {
        self.saved(call, states) != 0 || self.frame(call).is_some_and(|frame| frame.empty)
    }

    /// Returns the row of a call for the new frame. `None` if the old one does not fit the facts.
    pub(crate) fn row(&self, call: InsnIndex, states: &States, old: &Row) -> Option<Row> {
        /// The frame's address is where the return address ends.
        const FRAME: i64 = -8;
        let Height::Known(height) = states[call].rsp else { return None };
        let cfa = old.cfa;
        if cfa.register != SP || cfa.load || i64::from(cfa.offset) != height - FRAME {
            return None;
        }
        let saved = &self.slots(call)[..self.saved(call, states)];
        let above = self.shrinks(call, states, FRAME);
        let empty = self.frame(call).is_some_and(|frame| frame.empty);
        let offset = if empty { 0 } else { i64::from(cfa.offset) - above };
        let mut row = Row { cfa: Cfa { offset: i32::try_from(offset).ok()?, ..cfa }, words: saved.len() as u8, ..*old };
        for rule in &mut row.saved {
            *rule = match *rule {
                Saved::Same => Saved::Same,
                Saved::AtCfa(distance) => {
                    let depth = FRAME - i64::from(distance);
                    match saved.binary_search(&depth) {
                        Ok(word) => Saved::Word(word as u8),
                        Err(_) if empty => return None,
                        Err(_) => {
                            let moved = i64::from(distance) + above - self.shrinks(call, states, depth);
                            Saved::AtCfa(i32::try_from(moved).ok()?)
                        }
                    }
                }
                Saved::AtRbp(_) | Saved::Word(_) => return None,
            };
        }
        Some(row)
    }

    /// Returns the number of words that the function has saved before an instruction.
    pub(crate) fn saved(&self, at: InsnIndex, states: &States) -> usize {
        match states[at].rsp {
            Height::Known(height) => self.slots(at).partition_point(|slot| *slot <= height),
            _ => 0,
        }
    }

    /// Says whether dead code leads from one instruction to another where registers are saved.
    /// Nobody knows what dead code has saved, so it must not go on there.
    pub(crate) fn is_dead_way(&self, from: InsnIndex, to: InsnIndex, states: &States) -> bool {
        states[from].rsp == Height::Unseen && self.saved(to, states) != 0
    }

    /// Returns by how many bytes less a place of the frame lies above the stack pointer than in the
    /// original program. `depth` is its distance below the entry's stack pointer.
    pub(crate) fn shrinks(&self, at: InsnIndex, states: &States, depth: i64) -> i64 {
        let Height::Known(height) = states[at].rsp else { return 0 };
        let slots = self.slots(at);
        let between = |slot: &&i64| **slot > depth && **slot <= height;
        let words = slots.iter().filter(between).count();
        let filled = slots.len() % 2 == 1 && slots.first().is_some_and(|first| between(&first));
        8 * (words + usize::from(filled)) as i64
    }

    /// Finds the bodies that save registers on the control stack.
    pub(crate) fn find(
        code: &Code<'_, '_>,
        graph: &FlowGraph,
        effects: &AllEffects,
        states: &States,
        live: &Liveness,
        (roots, trees): (&PerInsn<u32>, &Trees),
    ) -> Saves {
        let mut bodies = HashMap::<u32, Body>::new();
        let find = Find { code, graph, effects, states, live, trees };
        for at in code.indexes().filter(|at| !code.insns[*at].is_nop()) {
            find.look(at, bodies.entry(roots[at]).or_default());
        }
        for body in bodies.values_mut() {
            body.decide();
        }
        find.drop_reached(roots, &mut bodies);
        let mut saves = Saves { body: code.per_insn(NONE), ..Saves::default() };
        let mut numbers = HashMap::<u32, u32>::new();
        for at in code.indexes() {
            let root = roots[at];
            let Some(body) = bodies.get(&root).filter(|body| body.empty || !body.saves.is_empty()) else { continue };
            saves.body[at] = *numbers.entry(root).or_insert_with(|| {
                saves.frames.push(Frame { slots: body.saves.keys().copied().collect(), empty: body.empty });
                saves.frames.len() as u32
            });
            let odd = body.saves.len() % 2 == 1;
            if let Some(slot) = find.slot_of(at).filter(|slot| body.saves.contains_key(slot)) {
                let first = odd && body.saves.keys().next() == Some(&slot);
                let sign = if code.ins(at).mnemonic() == Mnemonic::Push { -1 } else { 1 };
                saves.moves.insert(at, if first { 8 * sign } else { 0 });
            } else if let Some(by) = adjusts(code.ins(at)).filter(|_| body.empty && is_adjustment(code.ins(at))) {
                // The place of the return address goes with the frame.
                saves.moves.insert(at, if odd { 0 } else { -8 * by.signum() });
            }
        }
        saves
    }
}

/// Returns a number for each instruction that all of its body have.
pub(crate) fn bodies(code: &Code<'_, '_>, graph: &FlowGraph) -> PerInsn<u32> {
    let mut ways = Vec::new();
    for at in code.indexes() {
        graph.successors(code, at, |next| ways.extend((!graph.entry[next]).then_some((at, next))));
    }
    flow::joined(code, ways.into_iter())
}

/// Facts of a body.
#[derive(Default)]
struct Body {
    /// Something in it fits no saves.
    unfit: bool,
    /// Something in it needs the frame.
    framed: bool,
    /// Pushes of preserved registers by their words' distances below the entry's stack pointer.
    pushed: BTreeMap<i64, Register>,
    /// Such pops.
    popped: BTreeMap<i64, Register>,
    /// The distances of other words that are pushed or popped.
    words: BTreeSet<i64>,
    /// The distances of operands' last bytes, each with that of the stack pointer.
    operands: Vec<(i64, i64)>,
    /// The distances of the stack pointer at calls.
    calls: BTreeSet<i64>,
    /// Those at labels.
    labels: BTreeSet<i64>,
    /// Ranges that the stack pointer passes at once: from the first distance, without it, to the
    /// second.
    passes: Vec<(i64, i64)>,
    /// The saves: words that are pushed and popped.
    saves: BTreeMap<i64, Register>,
    /// The frame is left out.
    empty: bool,
}

impl Body {
    /// Notes the register of a word. A word has one register only.
    fn note(&mut self, push: bool, slot: i64, register: Register) {
        let words = if push { &mut self.pushed } else { &mut self.popped };
        self.unfit |= words.insert(slot, register).is_some_and(|before| before != register);
    }

    /// Chooses the saves, and whether the frame is left out.
    fn decide(&mut self) {
        self.choose();
        // With an odd number of words r15 is right already where the frame begins.
        let (top, odd) = (8 * self.saves.len() as i64, self.saves.len() % 2 == 1);
        let calls = self.calls.first().filter(|call| self.calls.len() == 1 && **call > top && (**call + 8) % 16 == 0);
        self.empty = calls.is_some_and(|call| self.passes.iter().all(|pass| *pass == (top, *call)))
            && !(self.unfit || self.framed)
            && self.pushed.len() == self.saves.len()
            && self.popped.len() == self.saves.len()
            && self.words.is_empty()
            && self.operands.is_empty()
            && (odd || self.labels.iter().all(|label| *label == 0 || Some(label) == calls));
    }

    fn choose(&mut self) {
        let both = |(slot, register): &(&i64, &Register)| self.popped.get(*slot) == Some(*register);
        let mut saves: BTreeMap<i64, Register> = self.pushed.iter().filter(both).map(|(s, r)| (*s, *r)).collect();
        let is_word = |slot: &&i64| !saves.contains_key(slot);
        self.words.extend(self.pushed.keys().chain(self.popped.keys()).filter(is_word));
        // The place of the return address goes with an odd number, and no word may lie there.
        let before = |first: &i64| self.words.first().is_some_and(|word| word < first);
        if saves.len() % 2 == 1 && saves.keys().next().is_some_and(before) {
            saves.pop_first();
        }
        let Some(&deepest) = saves.keys().next_back() else { return };
        let passed = |(from, to): &(i64, i64)| saves.range(from + 1..=*to).next().is_some();
        // A call from code that has pushed some of the words only finds another alignment.
        let aligned = |height: &i64| {
            let saved = saves.range(..=height).count();
            saved == 0 || saved % 2 == saves.len() % 2
        };
        // All places move by the same distance only where all words are pushed.
        let fits = saves.len() <= MOST
            && !saves.keys().any(|slot| self.words.contains(slot))
            && self.operands.iter().all(|(place, height)| *place > deepest && *height >= deepest)
            && self.calls.iter().all(aligned)
            && !self.passes.iter().any(passed);
        if fits && !self.unfit {
            self.saves = saves;
        }
    }
}

/// The facts that the search needs.
struct Find<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    live: &'x Liveness,
    trees: &'x Trees,
}

impl Find<'_, '_, '_> {
    /// Returns the distance of the word that a push or pop of a register stores or loads.
    fn slot_of(&self, at: InsnIndex) -> Option<i64> {
        let Height::Known(height) = self.states[at].rsp else { return None };
        match self.code.ins(at).code() {
            Opcode::Push_r64 => Some(height + 8),
            Opcode::Pop_r64 => Some(height),
            _ => None,
        }
    }

    /// Adds an instruction to its body.
    fn look(&self, at: InsnIndex, body: &mut Body) {
        let (code, graph) = (self.code, self.graph);
        let ins = code.ins(at);
        let height = match self.states[at].rsp {
            Height::Known(height) => height,
            Height::Unseen => return,
            _ => return body.unfit = true,
        };
        let inside = |kind| kind != JumpKind::Tail;
        body.unfit |= graph.is_mixed(at)
            || graph.landing(at).is_some()
            || !graph.far.receivers(graph.unit[at]).is_empty()
            || match code.insns[at].flow {
                Flow::JumpIndirect => inside(graph.jump_kind(at)) && self.trees.jump(at).is_none(),
                Flow::Call(dest) => code.returns_twice(dest),
                _ => false,
            };
        if matches!(code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect) {
            body.calls.insert(height);
        }
        if graph.label[at] {
            body.labels.insert(height);
        }
        body.framed |= ins.mnemonic() == Mnemonic::Syscall;
        let slot = self.slot_of(at);
        match (ins.mnemonic(), slot) {
            (Mnemonic::Push | Mnemonic::Pop, Some(slot)) if is_preserved(ins.op0_register()) => {
                body.note(ins.mnemonic() == Mnemonic::Push, slot, ins.op0_register());
            }
            // Among them are those that save r15, which lives in the word.
            (Mnemonic::Push | Mnemonic::Pushfq, _) => _ = body.words.insert(height + 8),
            (Mnemonic::Pop | Mnemonic::Popfq, _) => _ = body.words.insert(height),
            _ if self.effects[at].writes & bit(Register::RSP) != 0 && !is_transfer(ins) => match adjusts(ins) {
                Some(by) => {
                    body.passes.push((height.min(height + by), height.max(height + by)));
                    body.framed |= self.effects[at].writes & FLAGS & self.live.after[at] != 0;
                }
                None => body.unfit = true,
            },
            _ => {}
        }
        if names(ins, Register::RSP) && !is_adjustment(ins) {
            // A copy of the stack pointer leads to the frame's end.
            let copies = ins.mnemonic() == Mnemonic::Mov && ins.op0_kind() == OpKind::Register;
            let elsewhere = ![Register::RSP, Register::RBP].contains(&ins.op0_register());
            body.unfit |= !(copies && elsewhere && ins.op1_register() == Register::RSP);
            body.operands.push((height, height));
        }
        if ins.memory_base() == Register::RSP && !is_adjustment(ins) {
            let place = height - ins.memory_displacement64() as i64;
            // A place with an index, and one that is only computed, is where something begins.
            let begins = ins.mnemonic() == Mnemonic::Lea || ins.memory_index() != Register::None;
            let size = if begins { 1 } else { ins.memory_size().size().max(1) as i64 };
            body.operands.push((place - (size - 1), height));
        }
    }

    /// Drops the bodies that something reaches where registers are saved.
    fn drop_reached(&self, roots: &PerInsn<u32>, bodies: &mut HashMap<u32, Body>) {
        let saved = |body: &Body, at: InsnIndex| match self.states[at].rsp {
            Height::Known(height) => body.saves.range(..=height).next().is_some() || (body.empty && height != 0),
            _ => false,
        };
        let mut reach = |at: InsnIndex| {
            if let Some(body) = bodies.get_mut(&roots[at])
                && saved(body, at)
            {
                body.saves.clear();
                body.empty = false;
            }
        };
        for symbol in self.code.object.symbols.iter() {
            if let Place::Section(section) = symbol.place
                && let Some(section) = self.code.section(section)
            {
                // A symbol may stand at the section's end, where the trap is.
                Some(self.code.place(section, symbol.value)).filter(|at| *at < section.end).map(&mut reach);
            }
        }
        let named = self.graph.interior.values().flatten().filter(|at| !self.trees.is_released(**at));
        named.for_each(|at| reach(*at));
        for at in self.code.indexes() {
            if let Flow::Jump(dest) | Flow::Branch(dest) = self.code.insns[at].flow {
                let section = self.code.insns[at].section;
                let leaves = |next| self.graph.entry[next] || self.code.insns[next].section != section;
                if !matches!(dest, Dest::Insn(next) if !leaves(next)) {
                    reach(at);
                }
            }
        }
    }
}

/// Says whether a function preserves a register, other than r15.
fn is_preserved(register: Register) -> bool {
    matches!(register, Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14)
}

fn is_transfer(ins: &Instruction) -> bool {
    matches!(ins.mnemonic(), Mnemonic::Call | Mnemonic::Ret)
}

/// Returns by how much an adjustment of the stack pointer by a constant moves it down.
fn adjusts(ins: &Instruction) -> Option<i64> {
    match ins.mnemonic() {
        Mnemonic::Lea if ins.memory_base() == Register::RSP && ins.memory_index() == Register::None => {
            Some((ins.memory_displacement64() as i64).wrapping_neg())
        }
        Mnemonic::Sub => ins.try_immediate(1).ok().map(|by| by as i64),
        Mnemonic::Add => ins.try_immediate(1).ok().map(|by| (by as i64).wrapping_neg()),
        _ => None,
    }
}

fn is_adjustment(ins: &Instruction) -> bool {
    ins.op0_kind() == OpKind::Register && ins.op0_register() == Register::RSP && adjusts(ins).is_some()
}

/// Says whether an operand is the register.
fn names(ins: &Instruction, register: Register) -> bool {
    (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == register)
}
