//! Reads of a function's own return address. The new program puts it where the original one has it.

use crate::code::{Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::facts::Fact;
use crate::machine::{Machine, memory_size};
use crate::object::Spot;
use crate::value::Node;
use crate::walk::{Stand, Walk};
use iced_x86::{Code as Opcode, Mnemonic, OpKind, Register};
use sfi_contract::names::{DEPTH, RETURN};

impl Walk<'_, '_, '_> {
    /// Says whether an instruction reads the word that holds the return address, or a part of it.
    pub(crate) fn reads_return_address(&self, at: Index, stand: &Stand) -> bool {
        let effects = &self.graph.effects[at];
        let ins = &self.context.old.text.insns[at].ins;
        // A realigned stack has a copy of it for unwinders. No code reads that copy.
        let frame = matches!(ins.memory_base(), Register::RSP | Register::RBP);
        let pushes = ins.mnemonic() == Mnemonic::Push && ins.op0_kind() == OpKind::Memory && frame;
        let reads = effects.loads && (!effects.stores || pushes);
        let own = !matches!(ins.mnemonic(), Mnemonic::Pop | Mnemonic::Popfq | Mnemonic::Leave | Mnemonic::Lea);
        let place = stand.facts.operand(&self.context.old, at);
        let size = i64::from(memory_size(ins));
        reads && own && matches!(place, Some((0, distance)) if distance < 8 && distance + size > 0)
    }

    /// Executes the new code until rax holds the return address. The caller put the address into a
    /// word of the frame in the original program. The new program stores it there, and from here on
    /// both words are equal.
    ///
    /// ```text
    /// call __sfi_depth ; mov %rax,%rdi ; xor %eax,%eax ; sub $2,%rdi ; jb 1f
    /// call __sfi_return
    /// 1:
    /// ```
    pub(crate) fn return_address(
        &mut self,
        old: &mut Machine,
        new: &mut Machine,
        stand: &mut Stand,
    ) -> Result<(), Difference> {
        let first = self.run_to_branch(new, stand, None)?;
        let mut insns = vec![first];
        for _ in 0..5 {
            let last = insns[insns.len() - 1];
            insns.push(*self.new_insn((stand.place.0, last.end()))?);
        }
        let [depth, copy, none, less, below, address] = insns[..] else { return unproved("a return address") };
        let calls = |insn: &Insn, name: &str| {
            insn.ins.mnemonic() == Mnemonic::Call && self.context.new_target(insn) == Some(Spot::Named(name.to_owned()))
        };
        let copies = copy.ins.code() == Opcode::Mov_r64_rm64
            && copy.ins.op0_register() == Register::RDI
            && copy.ins.op1_register() == Register::RAX;
        let clears = none.ins.mnemonic() == Mnemonic::Xor
            && none.ins.op0_register() == Register::EAX
            && none.ins.op1_register() == Register::EAX;
        let steps = less.ins.code() == Opcode::Sub_rm64_imm8
            && less.ins.op0_register() == Register::RDI
            && less.ins.immediate(1) == 2;
        let skips = below.ins.mnemonic() == Mnemonic::Jb && below.ins.near_branch_target() == address.end();
        if !(calls(&depth, DEPTH) && copies && clears && steps && skips && calls(&address, RETURN)) {
            return wrong("the return address is read, which is not on the data stack");
        }
        for register in [Register::RDI, Register::R10, Register::R11] {
            let junk = self.values.junk();
            new.write(&mut self.values, register, junk);
        }
        new.flags = std::array::from_fn(|_| self.values.junk());
        let address_of_caller = self.values.id(Node::Op(Mnemonic::Ret, 0, Vec::new()));
        new.write(&mut self.values, Register::RAX, address_of_caller);
        let base = (0..16).find_map(|register| match stand.facts.registers[register] {
            Fact::Stack(0, distance) => Some((register, distance)),
            _ => None,
        });
        let Some((register, distance)) = base else { return unproved("the place of the return address is lost") };
        let place = self.values.plus(old.registers[register], distance.wrapping_neg());
        old.store(&mut self.values, place, 8, address_of_caller)?;
        stand.place.1 = address.end();
        Ok(())
    }
}
