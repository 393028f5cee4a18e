//! Every form of the positive list whose mask may leave its access out (rule `SFI-L02`), executed
//! in a window without a readable page. Each access that it makes faults inside, for any values of
//! its vectors. Sums of vectors are truncated like those of registers.

use super::every_store::present;
use super::{Accepted, Arena, INSET, TEXT, context, no_strange_fault};
use crate::instance::instance;
use crate::machine::{Machine, RSP};
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};
use sfi_contract::policy::{self, Memory};
use sfi_contract::{Anchors, Mode};
use sfi_tests::random::Random;
use sfi_verifier::{FinalText, Options, Usage, verify_text};

/// Encodings of each form.
const ENCODINGS: u32 = 48;
/// Runs of each encoding.
const RUNS: u32 = 4;

/// Returns one of a form's encodings. Index, base, scale and mask follow from the number. `None` if
/// two vectors would be equal, which gathers forbid.
fn encoding(code: Code, number: u32) -> Option<Instruction> {
    let mut instruction = instance(code, true);
    let vector = |like: Register, n: u32| Register::values().nth((like as u32 - like.number() as u32 + n) as usize);
    let index = instruction.memory_index();
    if index != Register::None {
        instruction.set_memory_index(vector(index, number % 4 + 8)?);
        instruction.set_memory_index_scale(1 << (number % 3));
    } else {
        instruction.set_memory_index([Register::None, Register::ECX, Register::R9D][number as usize % 3]);
        instruction.set_memory_index_scale(1);
    }
    instruction.set_memory_base([Register::R13D, Register::EDI, Register::EAX][number as usize / 3 % 3]);
    instruction.set_segment_prefix(Register::GS);
    if instruction.has_op_mask() {
        instruction.set_op_mask([Register::K1, Register::K2, Register::K5, Register::K7][number as usize % 4]);
    }
    for operand in 0..instruction.op_count() {
        let register = instruction.op_register(operand);
        if instruction.op_kind(operand) == OpKind::Register {
            instruction.set_op_register(operand, vector(register, number / 4 % 3 + 2 * operand)?);
        }
    }
    Some(instruction)
}

/// Returns the encoding if the verifier accepts it in mode full.
fn accepted(instruction: Instruction) -> Accepted {
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction, TEXT + INSET).unwrap_or_else(|error| panic!("{instruction}: {error}"));
    let bytes = encoder.take_buffer();
    for mode in Mode::ALL {
        let text =
            FinalText { bytes: &bytes, offset: TEXT + INSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
        let options = Options { mode, ..Options::default() };
        verify_text(&text, &options).unwrap_or_else(|found| panic!("{instruction} in mode {mode}: {found:?}"));
    }
    Accepted { instruction, bytes, usage: Usage::default() }
}

/// Runs all forms.
pub fn run() {
    let mut machine = Machine::new();
    let mut random = Random(7);
    let arena = Arena::new(libc::PROT_NONE, libc::PROT_NONE);
    let (mut forms, mut accesses, mut absent) = (0, 0, Vec::new());
    for (code, form) in policy::allowed() {
        if !matches!(form.memory, Memory::Gather | Memory::Masked) {
            continue;
        }
        let before = accesses;
        for found in (0..ENCODINGS).filter_map(|number| encoding(code, number)).map(accepted) {
            arena.place(&found.bytes);
            for _ in 0..RUNS {
                let start = arena.registers(&mut random);
                assert!(arena.stack.contains(start.gpr[RSP]));
                let exit = machine.run(&arena.window, start, true, true);
                no_strange_fault(&found, &start, &exit);
                if exit.is_page_fault() {
                    accesses += 1;
                    assert!(arena.window.contains(exit.address), "ESCAPE: {}", context(&found, &start, &exit));
                }
            }
        }
        forms += 1;
        if accesses == before {
            assert!(!code.cpuid_features().iter().all(|feature| present(*feature)), "{code:?} never reached memory");
            absent.push(code);
        }
    }
    println!("{forms} forms, {accesses} accesses, all inside; this CPU cannot run {absent:?}");
    assert!(forms >= 32, "{forms} forms");
}
