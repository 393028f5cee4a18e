//! The instructions of an object without their places. Equal ones are stored once.

use foldhash::fast::RandomState;
use iced_x86::{Instruction, Mnemonic, OpKind};
use indexmap::IndexSet;
use std::hash::{Hash, Hasher};

/// Number of a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormIndex(u32);

impl From<FormIndex> for usize {
    fn from(form: FormIndex) -> usize {
        form.0 as usize
    }
}

/// All forms of an object. A form is an instruction as decoded at address 0: operands relative to
/// rip and targets of branches count from its first byte. Its length may be that of another
/// encoding.
#[derive(Default)]
pub(crate) struct Forms(IndexSet<Form, RandomState>);

/// An instruction whose hash counts only the parts that differ most. All of them would take longer
/// than decoding does.
#[derive(PartialEq, Eq)]
struct Form(Instruction);

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ins = &self.0;
        let registers = [ins.op0_register(), ins.op1_register(), ins.memory_base(), ins.memory_index()];
        let parts = registers.into_iter().fold(ins.code() as u64, |parts, register| parts << 9 ^ register as u64);
        state.write_u64(parts ^ u64::from(ins.immediate32()) << 24);
        state.write_u64(ins.memory_displacement64());
    }
}

impl Forms {
    /// Makes room for some forms.
    pub(crate) fn reserve(&mut self, forms: usize) {
        self.0.reserve(forms);
    }

    /// Returns the number of an instruction's form.
    pub(crate) fn number(&mut self, ins: &Instruction) -> FormIndex {
        FormIndex(self.0.insert_full(Form(*ins)).0 as u32)
    }

    /// Returns a form.
    #[inline]
    pub(crate) fn get(&self, form: FormIndex) -> &Instruction {
        &self.0[usize::from(form)].0
    }

    /// Counts the forms.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all forms in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Instruction> {
        self.0.iter().map(|form| &form.0)
    }
}

/// Says whether an instruction may be dropped: padding, alignment, landing pads of control-flow
/// enforcement.
pub(crate) fn is_nop(ins: &Instruction) -> bool {
    matches!(ins.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Fnop)
}

/// Returns a form as the instruction at an offset.
pub(crate) fn placed(form: &Instruction, offset: u64) -> Instruction {
    let mut ins = *form;
    ins.set_ip(offset);
    if form.op0_kind() == OpKind::NearBranch64 {
        ins.set_near_branch64(form.near_branch_target().wrapping_add(offset));
    }
    if form.is_ip_rel_memory_operand() {
        ins.set_memory_displacement64(form.memory_displacement64().wrapping_add(offset));
    }
    ins
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const CODE: &[&[u8]] = &[
        &[0x48, 0x89, 0xd8],                   // mov %rbx,%rax
        &[0x48, 0x8b, 0xc3],                   // mov %rbx,%rax, the other encoding
        &[0x48, 0x8b, 0x05, 4, 0, 0, 0],       // mov 4(%rip),%rax
        &[0x48, 0x8b, 0x05, 8, 0, 0, 0],       // mov 8(%rip),%rax
        &[0x83, 0x3d, 4, 0, 0, 0, 1],          // cmpl $1,4(%rip)
        &[0x74, 0x10],                         // je
        &[0x74, 0x20],                         // je, to another place
        &[0x0f, 0x84, 0x0c, 0, 0, 0],          // je, the long form
        &[0xe8, 0xfb, 0xff, 0xff, 0xff],       // call to itself
        &[0xe3, 0x10],                         // jrcxz
        &[0x48, 0xb8, 1, 0, 0, 0, 1, 0, 0, 0], // movabs $0x100000001,%rax
        &[0x48, 0xb8, 1, 0, 0, 0, 2, 0, 0, 0], // movabs $0x200000001,%rax
    ];

    fn decode(bytes: &[u8], offset: u64) -> Instruction {
        Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE).decode()
    }

    #[test]
    fn equal_instructions_are_one_form() {
        let mut forms = Forms::default();
        let mut numbers = || CODE.iter().map(|bytes| usize::from(forms.number(&decode(bytes, 0)))).collect::<Vec<_>>();
        let first = numbers();
        assert_eq!(first, (0..CODE.len()).collect::<Vec<_>>());
        assert_eq!(numbers(), first);
        assert_eq!(forms.len(), CODE.len());
        assert_eq!(*forms.get(FormIndex(4)), decode(CODE[4], 0));
    }

    #[test]
    fn placed_forms_are_the_instructions_at_their_offsets() {
        for bytes in CODE {
            for offset in [0, 5, 0x1000, 0xffff_0000] {
                let (made, decoded) = (placed(&decode(bytes, 0), offset), decode(bytes, offset));
                assert!(made.eq_all_bits(&decoded), "{made} and {decoded} at {offset}");
            }
        }
    }
}
