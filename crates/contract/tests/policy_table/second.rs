//! The registers and memory that each form writes, by a second source: yaxpeax-x86's tables of
//! operands and of other effects. The verifier compares the operands of every instruction at run
//! time (rule `SFI-D05`). This test compares the effects that are no operands, once for each form.

use crate::instance::instance;
use crate::selection::is_save;
use iced_x86::{Code, Encoder, OpKind};
use sfi_contract::policy::{self, Class, Memory};
use yaxpeax_x86::long_mode::{InstDecoder, Opcode, Operand, RegSpec, register_class as class};

/// Returns the bit of a general register. Without REX, byte registers 4 to 7 are ah, ch, dh, bh.
fn bit(register: RegSpec) -> u16 {
    match register.class() {
        class::Q | class::D | class::W | class::RB => 1 << register.num(),
        class::B => 1 << (register.num() & 3),
        _ => 0,
    }
}

/// Says whether yaxpeax-x86 reports more than the manual. These forms write no memory, and `jrcxz`
/// does not write rcx.
fn is_erratum(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::FRSTOR | Opcode::JRCXZ)
}

#[test]
fn a_second_source_knows_no_other_writes() {
    let (mut compared, mut unread) = (0, Vec::new());
    for (code, form) in policy::allowed() {
        // Rule SFI-S04 covers the pointers of string instructions. Gathers write registers only.
        if form.class == Class::String || form.memory == Memory::Gather {
            continue;
        }
        for memory in [false, true] {
            let instruction = instance(code, memory);
            let mut encoder = Encoder::new(64);
            // Rule SFI-S03 refuses memory operands that move.
            let never = matches!(form.memory, Memory::None | Memory::Moving);
            if never && memory || encoder.encode(&instruction, 0).is_err() {
                continue;
            }
            let Ok(second) = InstDecoder::default().decode_slice(&encoder.take_buffer()) else {
                unread.push(code);
                continue;
            };
            let (opcode, behavior) = (second.opcode(), second.behavior());
            let accesses: Vec<(Operand, bool)> = match behavior.all_operands() {
                Ok(all) => all.iter().map(|(operand, access)| (operand, access.is_write())).collect(),
                // yaxpeax-x86 does not report the other effects of these.
                Err(_) => (0..second.operand_count())
                    .map(|n| (second.operand(n), behavior.operand_access(n).is_some_and(|access| access.is_write())))
                    .collect(),
            };
            let named = |i: u32| match instruction.op_kind(i) {
                OpKind::Register if form.writes & (1 << i) != 0 && instruction.op_register(i).is_gpr() => {
                    1 << instruction.op_register(i).full_register().number()
                }
                _ => 0,
            };
            let listed = (0..instruction.op_count()).map(named).fold(form.clobbers, |all, bit| all | bit);
            let (mut registers, mut stores) = (0, 0);
            for (operand, _) in accesses.iter().filter(|(_, written)| *written) {
                match operand {
                    Operand::Register { reg } => registers |= bit(*reg),
                    operand => stores += u32::from(operand.is_memory()),
                }
            }
            let is_memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
            let mut expected = u32::from(is_memory && matches!(form.memory, Memory::Store | Memory::Lockable));
            if matches!(code, Code::Call_rel32_64 | Code::Call_rm64 | Code::Retnq) || is_save(code) {
                // The word on the control stack, and rsp.
                registers &= !(1 << 4);
                expected += u32::from(!matches!(code, Code::Retnq | Code::Pop_r64));
            }
            if !is_erratum(opcode) {
                assert_eq!(stores, expected, "{code:?}: {accesses:?}");
                assert_eq!(registers & !listed, 0, "{code:?}: {accesses:?}");
            }
            compared += 1;
        }
    }
    unread.dedup();
    println!("{compared} encodings compared; {} forms that yaxpeax-x86 does not read", unread.len());
    assert!(compared > 5500 && unread.len() < 220, "{compared} {unread:?}");
}
