//! Every form of the positive list that loads, by the window's base in a register (rule `SFI-L03`):
//! accepted, and executed at the last places that it reaches. It reads the window or the guard
//! behind it, and no byte further on.

use crate::instance::instance;
use crate::machine::{GUARD, Machine, PAGE, RAX, RSP, WINDOW, Window};
use iced_x86::{Code, Encoder, Register};
use sfi_contract::based::FARTHEST;
use sfi_contract::policy::{self, Class, Memory};
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, verify_text};

/// Window offset of the code.
const TEXT: u64 = 0x40_0000;
/// `mov %gs:__sfi_header,%r13 ; mov %eax,%r12d`
const BEFORE: [u8; 13] = [0x65, 0x67, 0x4c, 0x8b, 0x2c, 0x25, 0x00, 0xf0, 0x0f, 0x00, 0x41, 0x89, 0xc4];
/// Numbers and displacements. The first sum is aligned.
const PLACES: [(u64, u64); 5] =
    [(0xffff_ffc0, 0x7fc0), (0xffff_ffff, FARTHEST), (0xffff_ffff, 0), (0x8000_0000, FARTHEST), (0, 0)];

/// Returns the code of a load from `displacement(%r13,%r12)`.
fn load(code: Code, displacement: u64) -> Vec<u8> {
    let mut instruction = instance(code, true);
    instruction.set_memory_base(Register::R13);
    instruction.set_memory_index(Register::R12);
    instruction.set_memory_displ_size(8);
    instruction.set_memory_displacement64(displacement);
    let mut encoder = Encoder::new(64);
    let encoded = encoder.encode(&instruction, TEXT + BEFORE.len() as u64);
    encoded.unwrap_or_else(|error| panic!("{instruction}: {error}"));
    [&BEFORE[..], &encoder.take_buffer()].concat()
}

fn accepted(bytes: &[u8]) -> bool {
    let text = FinalText { bytes, offset: TEXT, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    let options = Options { mode: Mode::Full, clock: true, identity: true, ..Options::default() };
    verify_text(&text, &options).is_ok()
}

/// Runs all forms.
pub fn run() {
    let (mut machine, window, stack) = (Machine::new(), Window::new(), Window::new());
    crate::header(&window);
    stack.open(0, 16 * PAGE);
    let (mut forms, mut reads, mut absent) = (0, 0, Vec::new());
    for (code, form) in policy::allowed() {
        if form.memory != Memory::Load || form.class == Class::IndirectBranch {
            continue;
        }
        assert!(!accepted(&load(code, FARTHEST + 1)), "{code:?} is too far");
        let before = reads;
        for (number, displacement) in PLACES {
            let bytes = load(code, displacement);
            assert!(accepted(&bytes), "{code:?}");
            let mut start = crate::registers();
            (start.gpr[RSP], start.gpr[RAX]) = (stack.base + 8 * PAGE, 0xdead_beef_0000_0000 | number);
            let exit = machine.run_code(&window, TEXT, &bytes, start);
            // Operands that are not aligned, and forms that this processor does not have.
            if matches!(exit.vector, 6 | 13) {
                continue;
            }
            let from = exit.address.wrapping_sub(window.base + number + displacement);
            assert!(exit.is_page_fault() && !exit.is_write() && from < 128, "{code:?} at {number:#x}: {exit:x?}");
            assert!(exit.address - window.base < WINDOW + GUARD, "{code:?}: {exit:x?}");
            reads += 1;
        }
        forms += 1;
        if reads == before {
            absent.push(code);
        }
    }
    println!("{forms} forms, {reads} reads; this CPU cannot run {}", absent.len());
    // Without AVX and AVX-512 some are left.
    assert!(forms >= 1000 && forms - absent.len() >= 400, "{forms} forms");
}
