//! Zydis, through the crate that holds its source.

use crate::reading::{Flow, Operand, Part, Reading, Segment, Unread, control};
use zydis::ffi::{DecodedOperandKind, MemoryInfo};
use zydis::{
    CpuFlag, FullInstruction, InstructionCategory, MachineMode, MemoryOperandType, Mnemonic, OperandAction, Register,
    RegisterClass,
};

/// Returns the reading of the first instruction in the bytes.
pub fn read(decoder: &zydis::Decoder, bytes: &[u8]) -> Result<Reading, Unread> {
    let i: FullInstruction = decoder.decode_first(bytes).ok().flatten().ok_or(Unread::Unknown)?;
    let mut reading = Reading { length: i.length, flow: flow(&i), ..Reading::default() };
    reading.spoken = u16::MAX;
    let saves = matches!(i.mnemonic, Mnemonic::PUSH | Mnemonic::POP);
    for operand in i.operands() {
        let reads = operand.action.intersects(OperandAction::READ | OperandAction::CONDREAD);
        let writes = operand.action.intersects(OperandAction::WRITE | OperandAction::CONDWRITE);
        match &operand.kind {
            DecodedOperandKind::Reg(register) if writes => write(&mut reading, *register),
            DecodedOperandKind::Mem(memory)
                if memory.base == Register::RSP && (saves || reading.flow != Flow::Next) => {}
            DecodedOperandKind::Mem(memory) => {
                let touched = memory.ty != MemoryOperandType::AGEN;
                let (narrow, size) = (Some(i.address_width == 32), Some(operand.size / 8));
                let (reads, writes) = (reads && touched, writes && touched);
                reading.add(Operand { narrow, reads, writes, size, ..address(memory) })?;
            }
            DecodedOperandKind::Imm(immediate) if immediate.is_relative => {
                reading.distance = Some(immediate.value as i64);
            }
            _ => {}
        }
    }
    let flags = i.cpu_flags;
    if (flags.modified | flags.set_1 | flags.undefined).contains(CpuFlag::DF) {
        reading.control |= control::DIRECTION;
    }
    let system = CpuFlag::TF | CpuFlag::IF | CpuFlag::IOPL | CpuFlag::NT | CpuFlag::RF | CpuFlag::VM;
    let system = system | CpuFlag::AC | CpuFlag::VIF | CpuFlag::VIP | CpuFlag::ID;
    if (flags.modified | flags.set_1 | flags.set_0 | flags.undefined).intersects(system) {
        reading.control |= control::FLAGS;
    }
    Ok(reading)
}

fn flow(i: &FullInstruction) -> Flow {
    let direct = i.operands().iter().any(|o| matches!(&o.kind, DecodedOperandKind::Imm(imm) if imm.is_relative));
    match (i.meta.category, direct) {
        (InstructionCategory::COND_BR, _) => Flow::Conditional,
        (InstructionCategory::UNCOND_BR, true) => Flow::Jump,
        (InstructionCategory::UNCOND_BR, false) => Flow::IndirectJump,
        (InstructionCategory::CALL, true) => Flow::Call,
        (InstructionCategory::CALL, false) => Flow::IndirectCall,
        (InstructionCategory::RET, _) => Flow::Return,
        _ if matches!(i.mnemonic, Mnemonic::INT3 | Mnemonic::UD2) => Flow::Trap,
        (InstructionCategory::INTERRUPT | InstructionCategory::SYSCALL | InstructionCategory::SYSRET, _) => Flow::Other,
        _ => Flow::Next,
    }
}

fn number(register: Register) -> u8 {
    register.largest_enclosing(MachineMode::LONG_64).id()
}

fn write(reading: &mut Reading, register: Register) {
    use RegisterClass as C;
    match register.class() {
        C::GPR8 | C::GPR16 | C::GPR32 | C::GPR64 => reading.write_general(number(register)),
        C::XMM | C::YMM | C::ZMM => reading.vectors |= 1 << register.id(),
        C::MASK => reading.masks |= 1 << register.id(),
        C::SEGMENT => reading.control |= control::SEGMENT,
        C::TMM => reading.control |= control::TILE,
        C::X87 | C::MMX | C::FLAGS | C::IP => {}
        _ if register == Register::MXCSR => reading.control |= control::MXCSR,
        _ if matches!(register, Register::X87CONTROL | Register::X87STATUS | Register::X87TAG) => {}
        _ => reading.control |= control::SYSTEM,
    }
}

fn address(memory: &MemoryInfo) -> Operand {
    let displacement = if memory.disp.has_displacement { memory.disp.displacement as i32 } else { 0 };
    Operand {
        base: part(memory.base),
        index: part(memory.index),
        scale: memory.scale.max(1),
        displacement,
        segment: match memory.segment {
            Register::GS => Segment::Gs,
            Register::FS => Segment::Fs,
            _ => Segment::Flat,
        },
        narrow: None,
        reads: false,
        writes: false,
        size: None,
    }
}

fn part(register: Register) -> Option<Part> {
    use RegisterClass as C;
    Some(match register.class() {
        C::INVALID => return None,
        C::GPR64 => Part::Wide(register.id()),
        C::GPR32 => Part::Narrow(register.id()),
        C::IP => Part::Ip,
        C::XMM | C::YMM | C::ZMM => Part::Vector(register.id()),
        _ => Part::Odd,
    })
}
