//! Stores of the bytes that a mask selects. The new code tests and stores each byte.

use crate::code::Index;
use crate::difference::{Difference, unproved, wrong};
use crate::sets::{self, RDI};
use crate::walk::{Block, Stand, Walk};
use iced_x86::{Code, Instruction, OpKind, Register};

/// Bytes of a vector.
const BYTES: u64 = 16;

impl Walk<'_, '_, '_> {
    /// Compares a masked store:
    ///
    /// ```text
    ///    [save flags, spill] ; pmovmskb %mask,%t
    ///    bt $0,%t ; jae 1f ; pextrb $0,%value,%gs:(%edi)
    /// 1: bt $1,%t ; jae 2f ; pextrb $1,%value,%gs:1(%edi)
    /// 2: ... [give back]
    /// ```
    pub(crate) fn masked_store(
        &mut self,
        at: Index,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<Option<Index>, Difference> {
        let context = self.context;
        let (ins, kept) = (context.old.text.insns[at].ins, context.old.kept[at]);
        if ins.op0_kind() != OpKind::MemorySegRDI || ins.segment_prefix() != Register::None {
            return unproved("a masked store with a segment or 32-bit addresses");
        }
        let (value, mask) = (ins.op1_register(), ins.op2_register());
        let (section, end) = (stand.place.0, u64::from(context.until[at]));
        let (old, mut new) = self.begin(stand, kept, false)?;
        let gathered = loop {
            let insn = *self.new_insn(stand.place)?;
            if matches!(insn.ins.code(), Code::Pmovmskb_r32_xmm | Code::VEX_Vpmovmskb_r32_xmm) {
                break insn;
            }
            if stand.place.0 != section || insn.end() >= end {
                return wrong("a masked store became something else");
            }
            self.run_to(&mut new, stand, (section, insn.end()))?;
        };
        let selected = gathered.ins.op0_register();
        let Some(number) = sets::number(selected).filter(|number| *number != RDI) else {
            return unproved("a mask's register");
        };
        if gathered.ins.op1_register() != mask || new.registers[RDI] != old.registers[RDI] {
            return wrong("a masked store has another mask or address");
        }
        let mut next = gathered.end();
        for byte in 0..BYTES {
            let test = *self.new_insn((section, next))?;
            let jump = *self.new_insn((section, test.end()))?;
            let store = *self.new_insn((section, jump.end()))?;
            next = store.end();
            let tests = test.ins.code() == Code::Bt_rm32_imm8
                && test.ins.op0_register() == selected
                && test.ins.immediate(1) == byte;
            let skips = jump.ins.code() == Code::Jae_rel8_64 && jump.ins.near_branch_target() == next;
            if !tests || !skips || !stores(&store.ins, value, byte) {
                return wrong(format!("byte {byte} of a masked store is stored in another way"));
            }
        }
        // The register of the mask and the flags hold something else, unless they are given back.
        new.registers[number] = self.values.junk();
        new.flags = std::array::from_fn(|_| self.values.junk());
        stand.place = (section, next);
        self.run_to(&mut new, stand, (section, end))?;
        let before = stand.facts.clone();
        self.step_facts(at, stand);
        let after = stand.facts.clone();
        let lost = self.compare(&old, &new, &after, kept, &mut stand.delta)?;
        self.note(at, &before, stand, self.graph.effects[at], lost, block);
        Ok(context.old.text.next(at))
    }
}

/// Says whether an instruction stores a byte of a vector at its place behind rdi.
fn stores(store: &Instruction, value: Register, byte: u64) -> bool {
    matches!(store.code(), Code::Pextrb_r32m8_xmm_imm8 | Code::VEX_Vpextrb_r32m8_xmm_imm8)
        && store.op0_kind() == OpKind::Memory
        && (store.segment_prefix(), store.memory_base()) == (Register::GS, Register::EDI)
        && store.memory_index() == Register::None
        && store.memory_displacement64() == byte
        && store.op1_register() == value
        && store.immediate(2) == byte
}
