//! yaxpeax-x86, the verifier's second decoder. Its reading takes only operands as written
//! registers, and no sizes of memory operands: in many forms yaxpeax gives the size of a register,
//! and the product does not use it.

use crate::reading::{Flow, Operand, Part, Reading, Segment, Unread, control};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::{InstDecoder, Instruction, Opcode, Operand as O, RegSpec, register_class as class};

/// Returns the reading of the first instruction in the bytes.
pub fn read(bytes: &[u8]) -> Result<Reading, Unread> {
    let i = InstDecoder::default().decode_slice(bytes).map_err(|_| Unread::Unknown)?;
    let mut reading = Reading { length: i.len().to_const() as u8, flow: flow(&i), ..Reading::default() };
    reading.spoken = control::SEGMENT | control::SYSTEM;
    reading.partial = true;
    let behavior = i.behavior();
    for n in 0..i.operand_count() {
        let access = behavior.operand_access(n);
        let (reads, writes) = (access.is_some_and(|a| a.is_read()), access.is_some_and(|a| a.is_write()));
        let operand = i.operand(n);
        if let Some(register) = named(&operand) {
            if writes {
                write(&mut reading, register);
            }
        } else if let Some((base, index, scale, displacement)) = address(&operand) {
            reading.add(Operand {
                base: base.map(part),
                index: index.map(part),
                scale,
                displacement,
                segment: if i.prefixes.gs() { Segment::Gs } else { Segment::Flat },
                narrow: Some(i.prefixes.address_size()),
                reads,
                writes,
                size: None,
            })?;
        } else if matches!(reading.flow, Flow::Conditional | Flow::Jump | Flow::Call) {
            reading.distance = match operand {
                O::ImmediateI8 { imm } => Some(imm.into()),
                O::ImmediateI32 { imm } => Some(imm.into()),
                _ => None,
            };
        }
    }
    Ok(reading)
}

fn flow(i: &Instruction) -> Flow {
    let direct = || matches!(i.operand(0), O::ImmediateI8 { .. } | O::ImmediateI32 { .. });
    match i.opcode() {
        Opcode::JMP if direct() => Flow::Jump,
        Opcode::JMP => Flow::IndirectJump,
        Opcode::CALL if direct() => Flow::Call,
        Opcode::CALL => Flow::IndirectCall,
        Opcode::RETURN => Flow::Return,
        Opcode::LOOP | Opcode::LOOPZ | Opcode::LOOPNZ | Opcode::JRCXZ => Flow::Conditional,
        opcode if opcode.is_jcc() => Flow::Conditional,
        Opcode::INT | Opcode::UD2 => Flow::Trap,
        Opcode::JMPF | Opcode::CALLF | Opcode::RETF | Opcode::IRET | Opcode::SYSCALL | Opcode::SYSENTER => Flow::Other,
        _ => Flow::Next,
    }
}

fn write(reading: &mut Reading, register: RegSpec) {
    let number = register.num();
    match register.class() {
        class::Q | class::D | class::W | class::RB => reading.write_general(number),
        class::B => reading.write_general(number & 3),
        class::X | class::Y | class::Z => reading.vectors |= 1 << number,
        class::K => reading.masks |= 1 << number,
        class::S => reading.control |= control::SEGMENT,
        class::CR | class::DR => reading.control |= control::SYSTEM,
        _ => {}
    }
}

fn named(operand: &O) -> Option<RegSpec> {
    match *operand {
        O::Register { reg }
        | O::RegisterMaskMerge { reg, .. }
        | O::RegisterMaskMergeSae { reg, .. }
        | O::RegisterMaskMergeSaeNoround { reg, .. } => Some(reg),
        _ => None,
    }
}

/// Returns base, index, scale and displacement of a memory operand.
fn address(operand: &O) -> Option<(Option<RegSpec>, Option<RegSpec>, u8, i32)> {
    Some(match *operand {
        O::AbsoluteU32 { addr } => (None, None, 1, addr as i32),
        O::AbsoluteU64 { addr } => (None, None, 1, addr as i32),
        O::MemDeref { base } | O::MemDerefMasked { base, .. } => (Some(base), None, 1, 0),
        O::Disp { base, disp } | O::DispMasked { base, disp, .. } => (Some(base), None, 1, disp),
        O::MemIndexScale { index, scale } | O::MemIndexScaleMasked { index, scale, .. } => {
            (None, Some(index), scale, 0)
        }
        O::MemIndexScaleDisp { index, scale, disp } | O::MemIndexScaleDispMasked { index, scale, disp, .. } => {
            (None, Some(index), scale, disp)
        }
        O::MemBaseIndexScale { base, index, scale } | O::MemBaseIndexScaleMasked { base, index, scale, .. } => {
            (Some(base), Some(index), scale, 0)
        }
        O::MemBaseIndexScaleDisp { base, index, scale, disp }
        | O::MemBaseIndexScaleDispMasked { base, index, scale, disp, .. } => (Some(base), Some(index), scale, disp),
        _ => return None,
    })
}

fn part(register: RegSpec) -> Part {
    match register.class() {
        class::Q => Part::Wide(register.num()),
        class::D => Part::Narrow(register.num()),
        class::RIP | class::EIP => Part::Ip,
        class::X | class::Y | class::Z => Part::Vector(register.num()),
        _ => Part::Odd,
    }
}
