//! A copy of r15 in a dead register, where r15 lives in memory. Along a straight line instructions
//! use the copy, and the home gets the value after the last write. So a chain of instructions on
//! r15 does not wait for memory at each of them.

use super::scratch::ORDER;
use super::{Facts, Held, SP, Transform};
use crate::analysis::regs::{Set, bit};
use crate::object::decode::{Flow, InsnIndex};
use crate::refusal::Refusal;
use iced_x86::{Instruction, Mnemonic, Register};

/// Most instructions after one that names r15 among which another such one is looked for.
const LOOK_AHEAD: usize = 24;

impl Transform<'_, '_, '_> {
    /// Begins the current instruction: says which registers code of it must not take.
    pub(super) fn hold(&mut self) {
        if self.facts.graph.label[self.at] {
            debug_assert!(self.pending().is_none(), "a home without its value at a label");
            self.held = None;
        }
        self.busy = self.pending().map_or(0, bit);
    }

    /// Ends the current instruction.
    pub(super) fn hold_on(&mut self) {
        let kept =
            |held: &Held| self.facts.effects[self.at].writes & bit(held.register) == 0 && self.is_straight(self.at);
        self.held = self.held.filter(kept);
    }

    /// Returns the register whose value the home does not have yet.
    fn pending(&self) -> Option<Register> {
        self.held.filter(|held| held.pending).map(|held| held.register)
    }

    /// Returns the register with r15's value, if the current instruction can name it in r15's
    /// place.
    pub(super) fn held_for(&mut self, ins: &Instruction, avoid: Set) -> Result<Option<Register>, Refusal> {
        let Some(Held { register, pending }) = self.held else { return Ok(None) };
        let changed = self.facts.effects[self.at].writes;
        let changes = changed & bit(register) != 0;
        let fits = avoid & bit(register) == 0 && !(changes && changed & bit(SP) != 0) && !scans(ins);
        // Afterwards the register, or the place of the home, is another one.
        let last = changes || changed & bit(Register::RSP) != 0;
        if pending && (last || !fits) {
            self.store_home(register)?;
        }
        self.held = fits.then_some(Held { register, pending: pending && !last });
        Ok(fits.then_some(register))
    }

    /// Rewrites an instruction that names r15 with a register that has, or gets, its value. If the
    /// line names r15 again before the register changes, the home gets a new value later, or never.
    pub(super) fn with_held(&mut self, ins: &Instruction, register: Register) -> Result<(), Refusal> {
        let writes = self.facts.effects[self.at].writes & bit(SP) != 0;
        self.busy |= bit(register);
        let pending = self.pending().is_some();
        self.held = Some(Held { register, pending: false });
        self.with_register(ins, register)?;
        if !writes && !pending {
            return Ok(());
        }
        let pending = self.comes_again(register);
        self.held = Some(Held { register, pending });
        if pending { Ok(()) } else { self.store_home(register) }
    }

    /// Returns a dead register outside `avoid` that can hold r15 from the current instruction to
    /// the next ones of the line that name it, if there is one.
    pub(super) fn holder(&self, ins: &Instruction, avoid: Set) -> Option<Register> {
        if self.matching() || scans(ins) {
            return None;
        }
        let mut free = self.dead() & !avoid & !self.busy;
        let mut last = 0;
        for at in self.line() {
            if free == 0 {
                break;
            }
            // A save or a restore of the caller's r15 becomes nothing.
            if self.names_r15(self.facts.code.ins(at)) && !self.facts.slots.is_move(at) {
                last = free;
            }
            free &= !self.facts.effects[at].writes;
        }
        ORDER.into_iter().find(|register| last & bit(*register) != 0)
    }

    /// Says whether the line names r15 again before a register changes.
    fn comes_again(&self, register: Register) -> bool {
        let names = |at| self.names_r15(self.facts.code.ins(at));
        let ends = |at: InsnIndex| names(at) || self.facts.effects[at].writes & bit(register) != 0;
        self.line().find(|&at| ends(at)).is_some_and(names)
    }

    /// Returns the instructions after the current one to which control comes from no other place.
    fn line(&self) -> impl Iterator<Item = InsnIndex> {
        let (graph, code) = (self.facts.graph, self.facts.code);
        let first = Some(self.at).filter(|&at| self.is_straight(at));
        let next = move |&at: &InsnIndex| graph.next(at).filter(|&next| !graph.label[next] && self.is_straight(next));
        std::iter::successors(first, next).skip(1).take(LOOK_AHEAD).filter(|&at| !code.insns[at].is_nop())
    }

    /// Says whether an instruction has code of its own after which a held register keeps its value.
    fn is_straight(&self, at: InsnIndex) -> bool {
        let Facts { code, arrays, trees, .. } = *self.facts;
        let (insn, ins) = (&code.insns[at], code.ins(at));
        let other = trees.is_part(at) || arrays.is_idle(at) || arrays.is_part(at) || arrays.load(at).is_some();
        let calls = matches!(ins.mnemonic(), Mnemonic::Syscall | Mnemonic::Std | Mnemonic::Cld);
        insn.flow == Flow::Next && !other && !calls && !ins.is_string_instruction() && !self.absorbed.contains(&at)
    }
}

/// Says whether an instruction finds a bit. If there is none, it keeps its result's old value,
/// which may be that of a caller.
fn scans(ins: &Instruction) -> bool {
    matches!(ins.mnemonic(), Mnemonic::Bsf | Mnemonic::Bsr)
}
