//! Indirect calls that compare their target with likely callees.
//!
//! ```text
//! lea f(%rip),%r11d ; cmp %r11d,%eax ; je 1f ; and $0xffff8,%eax ; call *%gs:__sfi_dispatch(%eax)
//! jmp 2f
//! 1: call f
//! 2:
//! ```
//!
//! Each branch must compare the call's target with the address of the function that is called
//! there, and all calls must go on at one place. Registers that are lost at one of them are lost.

use crate::code::{Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::machine::Machine;
use crate::sets::Set;
use crate::value::Node;
use crate::walk::{Stand, Walk};
use iced_x86::{FlowControl, Mnemonic, OpKind};

/// The calls before the unsafe region of an indirect call.
#[derive(Default)]
pub(crate) struct Guesses {
    /// The registers and flags that are lost at one of the calls.
    pub lost: Set,
    /// The places after the calls.
    pub behind: Vec<(usize, u64)>,
}

impl Walk<'_, '_, '_> {
    /// Follows the branches of an indirect call, the first of which is given. Returns what the
    /// calls there do, and the beginning of the unsafe region.
    pub(crate) fn guesses(
        &mut self,
        at: Index,
        mut branch: Insn,
        (old, new): (&Machine, &mut Machine),
        stand: &mut Stand,
    ) -> Result<(Guesses, Insn), Difference> {
        let kept = self.context.old.kept[at];
        let mut guesses = Guesses::default();
        while branch.ins.flow_control() == FlowControl::ConditionalBranch {
            let behind = self.guess(at, &branch, old, new)?;
            guesses.behind.push(behind);
            let facts = stand.facts.clone();
            guesses.lost |= self.compare(old, new, &facts, kept, &mut stand.delta)?;
            self.expect_delta(stand, 0, "a call")?;
            stand.place.1 = branch.end();
            branch = self.run_to_branch(new, stand, None)?;
        }
        Ok((guesses, branch))
    }

    /// Checks that a branch leads to the call of a function if that is the target of an indirect
    /// call. Returns the place after the call.
    fn guess(&mut self, at: Index, branch: &Insn, old: &Machine, new: &Machine) -> Result<(usize, u64), Difference> {
        let context = self.context;
        let section = branch.section as usize;
        let call = *self.new_insn((section, branch.ins.near_branch_target()))?;
        let function = context.new_target(&call).filter(|_| call.ins.mnemonic() == Mnemonic::Call);
        let to_call = branch.ins.mnemonic() == Mnemonic::Je && branch.immediate.or(branch.displacement).is_none();
        let Some(function) = function.filter(|_| to_call) else {
            return wrong("a branch before an indirect call leads to no call");
        };
        // The comparison must stand directly before the branch.
        let compare =
            context.new.at(section, branch.offset()).and_then(|next| context.new.insns.get(next.wrapping_sub(1)));
        let compared = compare.filter(|insn| {
            insn.section == branch.section
                && insn.end() == branch.offset()
                && insn.ins.mnemonic() == Mnemonic::Cmp
                && [0, 1]
                    .iter()
                    .all(|op| insn.ins.op_kind(*op) == OpKind::Register && insn.ins.op_register(*op).is_gpr32())
        });
        let Some(compared) = compared else {
            return unproved("a branch before an indirect call follows no comparison");
        };
        let [left, right] = [0, 1].map(|op| new.read(&mut self.values, compared.ins.op_register(op)));
        let function = self.values.id(Node::Spot(function));
        let address = self.values.bits(function, 0, 32);
        let other = if left == address { right } else { left };
        if ![left, right].contains(&address) || !self.is_target(&context.old.text.insns[at], old, other)? {
            return wrong("an indirect call compares something else than its target with the function that it calls");
        }
        Ok((section, call.end()))
    }

    /// Checks that all calls in place of one go on behind the last of them, and returns that place.
    pub(crate) fn meet(&self, guesses: &Guesses, behind: (usize, u64)) -> Result<(usize, u64), Difference> {
        let Some((&place, before)) = guesses.behind.split_last() else { return Ok(behind) };
        for from in before.iter().chain([&behind]) {
            let insn = self.new_insn(*from)?;
            let jumps = insn.ins.mnemonic() == Mnemonic::Jmp && insn.immediate.or(insn.displacement).is_none();
            if !jumps || (from.0, insn.ins.near_branch_target()) != place {
                return wrong("a call goes on elsewhere");
            }
        }
        Ok(place)
    }
}
