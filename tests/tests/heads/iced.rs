//! iced-x86, the verifier's first decoder.

use crate::reading::{Flow, Operand, Part, Reading, Segment, Unread, control};
use iced_x86::{
    Code, CodeSize, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register, RflagsBits,
};
use sfi_contract::policy::{self, Memory};

/// Returns the reading of a decoded instruction.
pub fn read(factory: &mut InstructionInfoFactory, i: &Instruction) -> Result<Reading, Unread> {
    let info = factory.info(i);
    let mut reading = Reading { length: i.len() as u8, flow: flow(i), ..Reading::default() };
    reading.spoken = control::STACK | control::SEGMENT | control::SYSTEM | control::DIRECTION | control::TILE;
    if matches!(reading.flow, Flow::Conditional | Flow::Jump | Flow::Call) {
        reading.distance = Some(i.near_branch64().wrapping_sub(i.next_ip()) as i64);
    }
    let repeated = i.has_rep_prefix() || i.has_repne_prefix();
    for memory in info.used_memory() {
        let saves = matches!(i.code(), Code::Push_r64 | Code::Pop_r64);
        if memory.base() == Register::RSP && (saves || reading.flow != Flow::Next) {
            continue;
        }
        let base = part(memory.base());
        // `used_memory` holds the sum for an operand relative to rip.
        let relative = i.is_ip_rel_memory_operand();
        let displacement = match relative {
            true => memory.displacement().wrapping_sub(i.next_ip()),
            false => memory.displacement(),
        };
        let access = memory.access();
        use OpAccess as A;
        reading.add(Operand {
            base: if relative { Some(Part::Ip) } else { base },
            index: part(memory.index()),
            scale: if memory.index() == Register::None { 1 } else { memory.scale() as u8 },
            displacement: displacement as i32,
            segment: segment(memory.segment()),
            narrow: Some(memory.address_size() == CodeSize::Code32),
            reads: matches!(access, A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite),
            writes: matches!(access, A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite),
            // A repeated instruction has no fixed size.
            size: (!repeated).then_some(memory.memory_size().size() as u16),
        })?;
    }
    if is_address_only(i) {
        reading.add(Operand {
            base: part(i.memory_base()),
            index: part(i.memory_index()),
            scale: if i.memory_index() == Register::None { 1 } else { i.memory_index_scale() as u8 },
            displacement: match i.is_ip_rel_memory_operand() {
                true => i.memory_displacement64().wrapping_sub(i.next_ip()) as i32,
                false => i.memory_displacement64() as i32,
            },
            segment: segment(i.memory_segment()),
            narrow: None,
            reads: false,
            writes: false,
            size: None,
        })?;
    }
    for used in info.used_registers() {
        use OpAccess as A;
        if !matches!(used.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite) {
            continue;
        }
        let register = used.register();
        let number = register.number() as u8;
        if register.is_gpr() {
            reading.write_general(register.full_register().number() as u8);
        } else if register.is_vector_register() {
            reading.vectors |= 1 << number;
        } else if register.is_k() {
            reading.masks |= 1 << number;
        } else if register.is_segment_register() {
            reading.control |= control::SEGMENT;
        } else if register.is_tmm() {
            reading.control |= control::TILE;
        } else if !register.is_st() && !register.is_mm() {
            reading.control |= control::SYSTEM;
        }
    }
    if i.rflags_modified() & !i.rflags_cleared() & RflagsBits::DF != 0 {
        reading.control |= control::DIRECTION;
    }
    Ok(reading)
}

/// Says whether the instruction names an address and touches no memory: `lea`, `nop`.
fn is_address_only(i: &Instruction) -> bool {
    let operand = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    operand && policy::lookup(i.code()).is_some_and(|form| form.memory == Memory::Address)
}

fn flow(i: &Instruction) -> Flow {
    match i.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::ConditionalBranch => Flow::Conditional,
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::Call => Flow::Call,
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        _ if matches!(i.code(), Code::Int3 | Code::Ud2) => Flow::Trap,
        _ => Flow::Other,
    }
}

fn segment(register: Register) -> Segment {
    match register {
        Register::GS => Segment::Gs,
        Register::FS => Segment::Fs,
        _ => Segment::Flat,
    }
}

fn part(register: Register) -> Option<Part> {
    let number = register.number() as u8;
    match register {
        Register::None => None,
        Register::RIP | Register::EIP => Some(Part::Ip),
        _ if register.is_gpr64() => Some(Part::Wide(number)),
        _ if register.is_gpr32() => Some(Part::Narrow(number)),
        _ if register.is_vector_register() => Some(Part::Vector(number)),
        _ => Some(Part::Odd),
    }
}
