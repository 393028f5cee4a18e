//! One program's registers and memory as expressions, and the effects of instructions on them.

use crate::code::Insn;
use crate::object::Spot;
use crate::sets::{RBP, RDI, RSI, RSP, is_high, number};
use crate::value::{FLAG_PART, Id, Node, Values};
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use sfi_contract::Anchored;
use sfi_contract::based::FARTHEST;
use sfi_contract::layout::{HEADER_BASE, HEADER_FEATURES, TCB, TCB_R15, TCB_SCRATCH, TCB_SCRATCH_SLOTS};

/// A store: address, bytes, value.
pub(crate) type Store = (Id, u32, Id);

/// The state of one program.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub registers: [Id; 16],
    pub flags: [Id; 6],
    /// Vector registers and other special registers that were written.
    pub others: Vec<(Register, Id)>,
    pub stores: Vec<Store>,
    /// Words of the TCB page that belong to the rewriter, by symbolic number. Only the new program
    /// has them.
    pub cells: Vec<(u64, Id)>,
    /// The home of r15 in the frame: its address and its content.
    pub slot: Option<(Id, Id)>,
    /// The words that were pushed (true) and popped on the control stack, if the instruction is to
    /// do that.
    pub saved: Option<Vec<(bool, Id)>>,
    /// This is the new program.
    pub is_new: bool,
    /// The original instruction has an address of 32 bits. In the new program a segment must stand
    /// for the upper half.
    pub narrow: bool,
}

/// An instruction that the validator cannot follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown(pub String);

/// The values that relocations give to an instruction's fields, as expressions.
pub(crate) struct Fields {
    pub displacement: Option<Id>,
    pub immediate: Option<Id>,
    /// The value that the memory operand stands for. The linker makes it a constant.
    pub constant: Option<Id>,
}

pub(crate) fn unknown<T>(ins: &Instruction) -> Result<T, Unknown> {
    Err(Unknown(format!("`{}` is not understood here", sfi_contract::syntax::text(ins))))
}

impl Machine {
    /// Returns the version of memory: the number of stores so far.
    fn version(&self) -> u32 {
        self.stores.len() as u32
    }

    /// Returns the value of a register of any kind.
    pub(crate) fn read(&self, values: &mut Values, register: Register) -> Id {
        match number(register) {
            Some(at) if is_high(register) => values.bits(self.registers[at], 8, 8),
            Some(at) => values.bits(self.registers[at], 0, register.size() as u8 * 8),
            None => self.other(values, register),
        }
    }

    fn other(&self, values: &mut Values, register: Register) -> Id {
        let register = register.full_register();
        match self.others.iter().find(|(known, _)| *known == register) {
            Some((_, id)) => *id,
            None => values.id(Node::Other(register)),
        }
    }

    /// Gives a value to a register.
    pub(crate) fn write(&mut self, values: &mut Values, register: Register, value: Id) {
        let Some(at) = number(register) else {
            let register = register.full_register();
            self.others.retain(|(known, _)| *known != register);
            self.others.push((register, value));
            return;
        };
        let old = self.registers[at];
        self.registers[at] = match register.size() {
            8 => value,
            4 => values.bits(value, 0, 32),
            2 => values.insert(old, value, 0, 16),
            _ if is_high(register) => values.insert(old, value, 8, 8),
            _ => values.insert(old, value, 0, 8),
        };
    }

    /// Returns the address of the memory operand. The TCB has a symbolic number.
    pub(crate) fn address(&self, values: &mut Values, insn: &Insn, fields: &Fields) -> Result<Id, Unknown> {
        let ins = &insn.ins;
        let mut sum = values.number(0);
        let mut constant = ins.memory_displacement64() as i64;
        let computed = ins.mnemonic() == Mnemonic::Lea;
        let based = self.is_new && !computed && self.is_based(values, ins);
        let confined = based || self.is_new && ins.segment_prefix() == Register::GS;
        let stack = ins.memory_base() == Register::R15 && ins.memory_index() == Register::None;
        let mut narrow = self.is_new && self.narrow && !confined && !computed && !stack;
        if let Some(id) = fields.displacement {
            sum = values.sum(sum, id, 1, 0);
            constant = 0;
        } else if ins.is_ip_rel_memory_operand() {
            return unknown(ins);
        }
        for (register, scale) in [(ins.memory_base(), 1), (ins.memory_index(), ins.memory_index_scale())] {
            if matches!(register, Register::None | Register::RIP | Register::EIP) {
                continue;
            }
            let Some(at) = number(register) else {
                // An index of a gather.
                let vector = self.other(values, register);
                sum = values.sum(sum, vector, i64::from(scale), 0);
                continue;
            };
            if based && *values.node(self.registers[at]) == Node::Base {
                continue;
            }
            // The upper half of a symbol's address is the window, which 32 bits leave out.
            narrow |= !confined && register.is_gpr32() && fields.displacement.is_none();
            sum = values.sum(sum, self.registers[at], i64::from(scale), 0);
        }
        if narrow {
            let constant32 = i64::from(constant as i32);
            sum = values.plus(sum, constant32);
            constant = 0;
            // The original program's address stands for a place of the window.
            if self.is_new || computed {
                sum = values.bits(sum, 0, 32);
            }
        }
        if confined {
            if let Node::Bits(inner, 0, 32) = *values.node(sum) {
                sum = inner;
            }
            // The window's base is a multiple of 2^32, so 32 bits leave it out.
            let base = values.id(Node::Base);
            sum = values.without(sum, base);
            let low = ins.memory_base() == Register::None && ins.memory_index() == Register::None;
            constant = match Anchored::from_symbolic(constant as u64) {
                Some(_) => constant,
                None if low => constant & 0xffff_ffff,
                None => i64::from(constant as i32),
            };
        }
        if computed {
            // A segment has no effect on an address that is only computed.
        } else if ins.segment_prefix() == Register::FS {
            if self.is_new {
                return unknown(ins);
            }
            constant = constant.wrapping_add(TCB.symbolic() as i64);
        } else if ins.segment_prefix() == Register::GS && !self.is_new {
            return unknown(ins);
        }
        Ok(values.plus(sum, constant))
    }

    /// Says whether an operand is `d(%B,%N)`, where B has the window's base and N a number of 32
    /// bits. It is the same as `%gs:d(%N)`: if the place is mapped, neither sum wraps.
    fn is_based(&self, values: &Values, ins: &Instruction) -> bool {
        let value = |register: Register| {
            number(register).filter(|_| register.is_gpr64()).map(|at| values.node(self.registers[at]))
        };
        ins.segment_prefix() == Register::None
            && ins.memory_index_scale() == 1
            && ins.memory_displacement64() <= FARTHEST
            && matches!(value(ins.memory_base()), Some(Node::Base))
            && matches!(value(ins.memory_index()), Some(Node::Bits(_, 0, 32)))
    }

    /// Returns the offset of the rewriter's own word at an address, if the new program has one
    /// there.
    fn cell(&self, values: &Values, address: Id) -> Option<u64> {
        let number = values.as_number(address).filter(|_| self.is_new)? as u64;
        let scratch = number.wrapping_sub(TCB_SCRATCH.symbolic()) < 8 * TCB_SCRATCH_SLOTS;
        (number == TCB_R15.symbolic() || scratch).then_some(number)
    }

    /// Returns the content of memory.
    pub(crate) fn load(&self, values: &mut Values, address: Id, size: u32) -> Id {
        if let Some(cell) = self.cell(values, address) {
            let known = self.cells.iter().find(|(at, _)| *at == cell).map(|(_, id)| *id);
            let whole = known.unwrap_or_else(|| values.junk());
            return values.bits(whole, 0, size.min(8) as u8 * 8);
        }
        if self.is_new && size == 8 && values.as_number(address) == Some(HEADER_BASE.symbolic() as i64) {
            return values.id(Node::Base);
        }
        if let Some((_, value)) = self.slot.filter(|(slot, _)| *slot == address) {
            return values.bits(value, 0, size.min(8) as u8 * 8);
        }
        if let Node::Spot(Spot::Got(spot, offset)) = values.node(address).clone() {
            // The linker writes the entry, and nothing writes it again.
            let spot = values.id(Node::Spot(*spot));
            return values.plus(spot, offset);
        }
        let version = self.version();
        values.id(Node::Load(version, address, size))
    }

    /// Stores a value in memory.
    pub(crate) fn store(&mut self, values: &mut Values, address: Id, size: u32, value: Id) -> Result<(), Unknown> {
        if let Some(cell) = self.cell(values, address) {
            let held = self.cells.iter().find(|(at, _)| *at == cell).map(|(_, id)| *id);
            let part = || Unknown("part of a word of the TCB page is written".into());
            let value = match (size, held) {
                (8, _) => value,
                (4, Some(held)) => moved_pointer(values, held, value).ok_or_else(part)?,
                _ => return Err(part()),
            };
            self.cells.retain(|(at, _)| *at != cell);
            self.cells.push((cell, value));
            return Ok(());
        }
        if let Some((slot, held)) = &mut self.slot
            && *slot == address
        {
            if size != 8 {
                return Err(Unknown("part of the frame's slot for r15 is written".into()));
            }
            *held = value;
            return Ok(());
        }
        self.stores.push((address, size, value));
        Ok(())
    }

    /// Lowers the stack pointer and stores a value of 8 bytes there.
    pub(crate) fn push(&mut self, values: &mut Values, value: Id) -> Result<(), Unknown> {
        let below = values.plus(self.registers[RSP], -8);
        self.registers[RSP] = below;
        self.store(values, below, 8, value)
    }

    pub(crate) fn pop(&mut self, values: &mut Values) -> Id {
        let place = self.registers[RSP];
        let value = self.load(values, place, 8);
        self.registers[RSP] = values.plus(place, 8);
        value
    }

    /// Executes a push or pop of a register on the control stack. A pop gives what was pushed. Says
    /// whether it was one, where one is to be.
    pub(crate) fn save(&mut self, values: &mut Values, ins: &Instruction) -> bool {
        if self.saved.is_none() || number(ins.op0_register()) == Some(RSP) {
            return false;
        }
        let word = match ins.code() {
            Code::Push_r64 => self.read(values, ins.op0_register()),
            Code::Pop_r64 => {
                let word = values.id(Node::Op(Mnemonic::Pop, 0, Vec::new()));
                self.write(values, ins.op0_register(), word);
                word
            }
            _ => return false,
        };
        let saved = self.saved.get_or_insert_default();
        saved.push((ins.code() == Code::Push_r64, word));
        true
    }

    /// Returns the value of an operand.
    pub(crate) fn operand(&self, values: &mut Values, insn: &Insn, op: u32, fields: &Fields) -> Result<Id, Unknown> {
        let ins = &insn.ins;
        Ok(match ins.op_kind(op) {
            OpKind::Register => self.read(values, ins.op_register(op)),
            OpKind::Memory => {
                if let Some(id) = fields.constant {
                    return Ok(id);
                }
                let address = self.address(values, insn, fields)?;
                self.load(values, address, memory_size(ins))
            }
            _ => match (fields.immediate, ins.try_immediate(op)) {
                (Some(id), _) => id,
                (None, Ok(value)) => {
                    let width = match ins.op0_kind() {
                        OpKind::Register if op > 0 => ins.op0_register().size(),
                        OpKind::Memory => memory_size(ins) as usize,
                        _ => 8,
                    };
                    let value = if width == 4 { i64::from(value as u32) } else { value as i64 };
                    values.number(value)
                }
                _ => return unknown(ins),
            },
        })
    }

    fn put(&mut self, values: &mut Values, insn: &Insn, fields: &Fields, value: Id) -> Result<(), Unknown> {
        match insn.ins.op0_kind() {
            OpKind::Register => {
                self.write(values, insn.ins.op0_register(), value);
                Ok(())
            }
            _ => {
                let address = self.address(values, insn, fields)?;
                self.store(values, address, memory_size(&insn.ins), value)
            }
        }
    }

    /// Executes a string instruction that moves one word. The direction flag is clear, or
    /// `backwards` would compare the code.
    fn move_once(&mut self, values: &mut Values, ins: &Instruction) -> Result<(), Unknown> {
        let size = memory_size(ins);
        let word = match ins.op1_kind() {
            OpKind::Register => self.read(values, ins.op1_register()),
            _ => {
                let word = self.load(values, self.registers[RSI], size);
                self.registers[RSI] = values.plus(self.registers[RSI], i64::from(size));
                word
            }
        };
        match ins.op0_kind() {
            OpKind::Register => self.write(values, ins.op0_register(), word),
            _ => {
                let word = values.bits(word, 0, size as u8 * 8);
                self.store(values, self.registers[RDI], size, word)?;
                self.registers[RDI] = values.plus(self.registers[RDI], i64::from(size));
            }
        }
        Ok(())
    }

    /// Executes an instruction that is no branch.
    pub(crate) fn step(
        &mut self,
        values: &mut Values,
        factory: &mut InstructionInfoFactory,
        insn: &Insn,
        fields: &Fields,
    ) -> Result<(), Unknown> {
        let ins = &insn.ins;
        let wide = ins.op_count() > 0
            && match ins.op0_kind() {
                OpKind::Register => ins.op0_register().is_gpr64(),
                _ => memory_size(ins) == 8,
            };
        let general = |op: u32| ins.op_kind(op) != OpKind::Register || ins.op_register(op).is_gpr();
        match ins.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Fnop => Ok(()),
            // The linker ensures that the upper half of this address is zero.
            Mnemonic::Mov if ins.code() == Code::Mov_r32_imm32 && names_place(values, fields.immediate) => {
                let value = self.operand(values, insn, 1, fields)?;
                self.write(values, ins.op0_register().full_register(), value);
                Ok(())
            }
            Mnemonic::Mov if general(0) && general(1) => {
                let value = self.operand(values, insn, 1, fields)?;
                self.put(values, insn, fields, value)
            }
            Mnemonic::Movzx => {
                let value = self.operand(values, insn, 1, fields)?;
                self.put(values, insn, fields, value)
            }
            Mnemonic::Lea => {
                let address = self.address(values, insn, fields)?;
                self.put(values, insn, fields, address)
            }
            Mnemonic::Xchg if ins.op0_kind() == OpKind::Register && ins.op1_kind() == OpKind::Register => {
                let (a, b) = (self.operand(values, insn, 0, fields)?, self.operand(values, insn, 1, fields)?);
                self.write(values, ins.op0_register(), b);
                self.write(values, ins.op1_register(), a);
                Ok(())
            }
            Mnemonic::Add | Mnemonic::Sub if wide => {
                let (a, b) = (self.operand(values, insn, 0, fields)?, self.operand(values, insn, 1, fields)?);
                let sign = if ins.mnemonic() == Mnemonic::Add { 1 } else { -1 };
                let mut sum = values.sum(a, b, sign, 0);
                if self.is_new {
                    sum = restored_pointer(values, sum).unwrap_or(sum);
                }
                let mut aside = self.clone();
                aside.generic(values, factory, insn, fields)?;
                self.flags = aside.flags;
                self.put(values, insn, fields, sum)
            }
            _ if moves_once(ins) => self.move_once(values, ins),
            Mnemonic::Xlatb if ins.memory_base() == Register::RBX => {
                let index = self.read(values, Register::AL);
                let place = values.sum(self.registers[3], index, 1, 0);
                let value = self.load(values, place, 1);
                self.write(values, Register::AL, value);
                Ok(())
            }
            Mnemonic::Xgetbv if !self.is_new => {
                // The header page holds the answer for 0 in ecx.
                for (register, at) in [(Register::EAX, HEADER_FEATURES), (Register::EDX, HEADER_FEATURES.plus(4))] {
                    let place = values.number(at.symbolic() as i64);
                    let value = self.load(values, place, 4);
                    self.write(values, register, value);
                }
                Ok(())
            }
            Mnemonic::Lahf => {
                let flags = self.flags[..5].to_vec();
                let value = values.id(Node::Op(Mnemonic::Lahf, 0, flags));
                self.write(values, Register::AH, value);
                Ok(())
            }
            Mnemonic::Sahf => {
                let image = self.read(values, Register::AH);
                let known = match inner(values, image) {
                    Node::Op(Mnemonic::Lahf, _, flags) => Some(flags.clone()),
                    _ => None,
                };
                for flag in 0..5 {
                    self.flags[flag] = match &known {
                        Some(flags) => flags[flag],
                        None => {
                            let op = values.id(Node::Op(Mnemonic::Sahf, 0, vec![image]));
                            values.id(Node::Part(op, FLAG_PART + flag as u32))
                        }
                    };
                }
                Ok(())
            }
            Mnemonic::Push if !self.is_new => {
                let value = self.operand(values, insn, 0, fields)?;
                self.push(values, value)
            }
            Mnemonic::Pop if !self.is_new => {
                let value = self.pop(values);
                self.put(values, insn, fields, value)
            }
            Mnemonic::Leave if !self.is_new => {
                self.registers[RSP] = self.registers[RBP];
                self.registers[RBP] = self.pop(values);
                Ok(())
            }
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
                if ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Register && !self.is_new =>
            {
                self.bit_test(values, factory, insn, fields)
            }
            Mnemonic::Cmpxchg if self.is_new && ins.has_lock_prefix() => {
                // The loop around it ends when memory holds the value of rax.
                let size = memory_size(ins);
                let address = self.address(values, insn, fields)?;
                let (held, expected) = (self.load(values, address, size), self.registers[0]);
                if values.bits(expected, 0, size as u8 * 8) != values.bits(held, 0, size as u8 * 8) {
                    return self.generic(values, factory, insn, fields);
                }
                let value = self.read(values, ins.op1_register());
                self.flags = std::array::from_fn(|_| values.junk());
                self.store(values, address, size, value)
            }
            Mnemonic::Add if ins.code() == iced_x86::Code::Add_AL_imm8 && ins.immediate8() == 0x7f => {
                // After `seto %al` this addition restores the overflow flag.
                let al = self.read(values, Register::AL);
                self.generic(values, factory, insn, fields)?;
                if let Node::Part(op, _) = *inner(values, al)
                    && let Node::Op(Mnemonic::Seto, _, flags) = values.node(op)
                {
                    self.flags[5] = flags[0];
                }
                Ok(())
            }
            _ => self.generic(values, factory, insn, fields),
        }
    }
}

/// Says whether this is a string instruction that moves one word.
fn moves_once(ins: &Instruction) -> bool {
    let word = !ins.has_rep_prefix() && !ins.has_repne_prefix();
    let plain = |op| matches!(ins.op_kind(op), OpKind::MemoryESRDI | OpKind::MemorySegRSI | OpKind::Register);
    let moves = writes_memory(ins.mnemonic())
        || matches!(ins.mnemonic(), Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq);
    ins.is_string_instruction() && moves && word && plain(0) && plain(1) && ins.segment_prefix() == Register::None
}

/// Says whether an immediate is the address of a place: a spot, or a distance from one. Numbers of
/// thread locals and sizes are no addresses.
pub(crate) fn names_place(values: &Values, immediate: Option<Id>) -> bool {
    let place = |id: Id| matches!(values.node(id), Node::Spot(Spot::Data(_) | Spot::Code(..) | Spot::Named(_)));
    immediate.is_some_and(|id| match values.node(id) {
        Node::Sum(terms, _) => matches!(terms[..], [(term, 1)] if place(term)),
        _ => place(id),
    })
}

/// Returns the size of the memory operand in bytes.
pub(crate) fn memory_size(ins: &Instruction) -> u32 {
    ins.memory_size().size() as u32
}

/// Returns the pointer that a string instruction left, for a word that held the pointer before.
/// `low` is stored into the word's lower half. The upper half did not change, so the word then
/// holds the pointer that the instruction left.
fn moved_pointer(values: &Values, held: Id, low: Id) -> Option<Id> {
    string_pointer(values, low).filter(|(_, arguments)| arguments.contains(&held)).map(|(moved, _)| moved)
}

/// Returns the pointer that a string instruction left, for a sum of its lower half and of the
/// pointer before without its lower half.
fn restored_pointer(values: &mut Values, sum: Id) -> Option<Id> {
    for (low, factor) in values.terms(sum).0 {
        let Some((moved, arguments)) = string_pointer(values, low).filter(|_| factor == 1) else { continue };
        let arguments = arguments.to_vec();
        let upper = values.without(sum, low);
        for before in arguments {
            let part = values.bits(before, 0, 32);
            if values.sum(upper, part, 1, 0) == before {
                return Some(moved);
            }
        }
    }
    None
}

/// Returns the pointer that a string instruction left and the instruction's arguments, for the
/// pointer's lower half.
fn string_pointer(values: &Values, low: Id) -> Option<(Id, &[Id])> {
    use Mnemonic::{Cmpsb, Cmpsd, Cmpsq, Cmpsw, Lodsb, Lodsd, Lodsq, Lodsw, Scasb, Scasd, Scasq, Scasw};
    let Node::Bits(moved, 0, 32) = *values.node(low) else { return None };
    let Node::Part(op, part) = *values.node(moved) else { return None };
    let Node::Op(mnemonic, _, arguments) = values.node(op) else { return None };
    let reads = [Cmpsb, Cmpsw, Cmpsd, Cmpsq, Lodsb, Lodsw, Lodsd, Lodsq, Scasb, Scasw, Scasd, Scasq];
    let string = writes_memory(*mnemonic) || reads.contains(mnemonic);
    let pointer = [Register::RSI, Register::RDI].iter().any(|register| part == 100 + *register as u32);
    (string && pointer).then_some((moved, arguments))
}

/// Says whether a string instruction stores.
pub(crate) fn writes_memory(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Movsb, Movsd, Movsq, Movsw, Stosb, Stosd, Stosq, Stosw};
    matches!(mnemonic, Movsb | Movsd | Movsq | Movsw | Stosb | Stosd | Stosq | Stosw)
}

/// Returns the value whose low bits an expression is, or the expression itself.
fn inner(values: &Values, id: Id) -> &Node {
    match values.node(id) {
        Node::Bits(of, 0, _) => values.node(*of),
        node => node,
    }
}
