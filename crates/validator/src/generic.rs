//! Instructions that are executed as unknown functions of what they read.

use crate::code::Insn;
use crate::machine::{Fields, Machine, Unknown, memory_size, names_place, unknown, writes_memory};
use crate::sets::{self, FLAGS, number};
use crate::value::{FLAG_PART, Id, Node, Values};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

impl Machine {
    /// Executes an instruction as an unknown function: equal inputs give equal results.
    pub(crate) fn generic(
        &mut self,
        values: &mut Values,
        factory: &mut InstructionInfoFactory,
        insn: &Insn,
        fields: &Fields,
    ) -> Result<(), Unknown> {
        let ins = &insn.ins;
        let info = factory.info(ins);
        let mut arguments = Vec::new();
        let mut explicit = 0u32;
        let mut select = shape(ins);
        let string = ins.is_string_instruction();
        let mut memory = None;
        for op in 0..ins.op_count() {
            let kind = ins.op_kind(op);
            match kind {
                OpKind::Register => {
                    if let Some(at) = number(ins.op_register(op)) {
                        explicit |= 1 << at;
                    }
                    select = select.wrapping_mul(31).wrapping_add(ins.op_register(op).size() as u32);
                    let reads = !matches!(info.op_access(op), OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess);
                    if reads {
                        arguments.push(self.read(values, ins.op_register(op)));
                    }
                }
                OpKind::Memory => {
                    for register in [ins.memory_base(), ins.memory_index()] {
                        if let Some(at) = number(register) {
                            explicit |= 1 << at;
                        }
                    }
                    select = select.wrapping_mul(31).wrapping_add(memory_size(ins));
                    if fields.constant.is_none() {
                        let address = self.address(values, insn, fields)?;
                        memory = Some((op, address));
                    }
                    match info.op_access(op) {
                        OpAccess::Write => {}
                        OpAccess::NoMemAccess => arguments.extend(memory.map(|(_, address)| address)),
                        _ => arguments.push(self.operand(values, insn, op, fields)?),
                    }
                }
                _ if ins.try_immediate(op).is_ok() => {
                    if names_place(values, fields.immediate) {
                        // A register of 8 bytes may take its place.
                        select = select.wrapping_mul(31).wrapping_add(8);
                    }
                    arguments.push(self.operand(values, insn, op, fields)?);
                }
                OpKind::NearBranch64 => return unknown(ins),
                _ => {}
            }
        }
        let used: Vec<(Register, OpAccess)> =
            info.used_registers().iter().map(|u| (u.register(), u.access())).collect();
        for (register, access) in &used {
            let implicit = number(*register).is_none_or(|at| explicit & (1 << at) == 0);
            let reads = !matches!(access, OpAccess::Write | OpAccess::None);
            let named =
                (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op) == *register);
            if implicit
                && reads
                && !named
                && !matches!(register, Register::RIP | Register::EIP)
                && !is_segment(*register)
            {
                arguments.push(self.read(values, *register));
            }
        }
        let zeroing = ins.op_count() == 2
            && ins.op0_kind() == OpKind::Register
            && ins.op1_kind() == OpKind::Register
            && ins.op0_register() == ins.op1_register()
            && matches!(ins.mnemonic(), Mnemonic::Xor | Mnemonic::Sub | Mnemonic::Sbb);
        if zeroing || sets::gives_constant(ins) {
            arguments.clear();
        }
        let reads = ins.rflags_read();
        for (at, flag) in FLAGS.iter().enumerate() {
            if reads & flag != 0 {
                arguments.push(self.flags[at]);
            }
        }
        if string {
            let version = self.stores.len() as i64;
            arguments.push(values.number(version));
        }
        let op = values.id(Node::Op(ins.mnemonic(), select, arguments));
        let mut results = Vec::new();
        for index in 0..ins.op_count() {
            let writes = matches!(
                info_access(factory, ins, index),
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
            );
            if writes && ins.op_kind(index) == OpKind::Register {
                let part = values.id(Node::Part(op, index));
                self.write(values, ins.op_register(index), part);
                results.push(ins.op_register(index));
            } else if writes
                && ins.op_kind(index) == OpKind::Memory
                && let Some((_, address)) = memory
            {
                let part = values.id(Node::Part(op, index));
                self.store(values, address, memory_size(ins), part)?;
            }
        }
        for (register, access) in used {
            let writes = !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
            if writes && !results.contains(&register) {
                let explicit = number(register).is_some_and(|at| results.iter().any(|r| number(*r) == Some(at)));
                if explicit {
                    continue;
                }
                let part = values.id(Node::Part(op, 100 + register as u32));
                self.write(values, register, part);
            }
        }
        if string && writes_memory(ins.mnemonic()) {
            self.stores.push((op, u32::MAX, op));
        }
        let undefined = ins.rflags_undefined();
        for (at, flag) in FLAGS.iter().enumerate() {
            if ins.rflags_modified() & flag != 0 {
                let part = values.id(Node::Part(op, FLAG_PART + at as u32));
                self.flags[at] = if undefined & flag != 0 && !self.is_new {
                    values.id(Node::Any)
                } else if sets::keeps_flags(ins) {
                    // The flag may also stay as it was.
                    values.id(Node::Op(ins.mnemonic(), u32::MAX, vec![part, self.flags[at]]))
                } else {
                    part
                };
            }
        }
        self.compare(values, ins, op);
        self.carry(values, ins, op);
        Ok(())
    }

    /// Sets the carry flag after a bit test. All kinds of bit test give the bit as it was before.
    fn carry(&mut self, values: &mut Values, ins: &Instruction, op: Id) {
        let tests = matches!(ins.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
        if let Node::Op(_, select, arguments) = values.node(op).clone()
            && tests
        {
            let bit = values.id(Node::Op(Mnemonic::Bt, select, arguments));
            self.flags[0] = values.id(Node::Part(bit, FLAG_PART));
        }
    }

    /// Sets the flags so that `test %r,%r` and `cmp $0,%r` agree, but for AF.
    fn compare(&mut self, values: &mut Values, ins: &Instruction, op: Id) {
        let Node::Op(mnemonic, _, arguments) = values.node(op).clone() else { return };
        let tested = match (mnemonic, &*arguments) {
            (Mnemonic::Test, [a, b]) if a == b => *a,
            (Mnemonic::Cmp, [a, zero]) if values.as_number(*zero) == Some(0) => *a,
            _ => return,
        };
        let size = match ins.op0_kind() {
            OpKind::Register => ins.op0_register().size() as u32,
            _ => memory_size(ins),
        };
        let sign = values.id(Node::Op(Mnemonic::Test, u32::MAX - size, vec![tested]));
        let zero = values.number(0);
        for flag in [1, 3, 4] {
            self.flags[flag] = values.id(Node::Part(sign, FLAG_PART + flag as u32));
        }
        self.flags[0] = zero;
        self.flags[5] = zero;
    }
}

/// Returns the properties beside mnemonic and operands that select an instruction's effect.
fn shape(ins: &Instruction) -> u32 {
    let flags = [
        ins.has_lock_prefix(),
        ins.has_rep_prefix() && ins.is_string_instruction(),
        ins.has_repne_prefix() && ins.is_string_instruction(),
        ins.is_broadcast(),
        ins.zeroing_masking(),
        ins.suppress_all_exceptions(),
    ];
    let bits = flags.iter().fold(0u32, |bits, flag| bits << 1 | u32::from(*flag));
    let masks = (ins.op_mask() as u32) << 6 | (ins.rounding_control() as u32) << 16;
    bits | masks | ins.op_count() << 24
}

fn info_access(factory: &mut InstructionInfoFactory, ins: &Instruction, op: u32) -> OpAccess {
    factory.info(ins).op_access(op)
}

fn is_segment(register: Register) -> bool {
    register.is_segment_register()
}
