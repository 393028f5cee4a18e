//! Every encoding that the verifier accepts, executed.
//!
//! The opcode space is walked by bytes, not by an assembler: all opcodes of the legacy, VEX and
//! EVEX maps with a sample of prefixes, ModRM, SIB, displacements and immediates drawn from a fixed
//! seed. If [`verify_text`] accepts a text of one instruction, it is executed with hostile
//! registers. The processor, not the decoder, shows its effects:
//!
//! - In [`stores`] nothing can be written, so that every store faults. The address must lie in the
//!   window or its guard.
//! - In [`effects`] the window can be written. The instruction must be as long as decoded. It may
//!   change no register that the verifier's usage does not name, nor rsp, segments, segment bases,
//!   or flags other than the arithmetic ones.
//! - In [`every_store`] each listed form that writes memory must be executed, with extreme
//!   registers at random windows.
//! - In [`silent`] each listed form whose mask may leave its access out must be executed, and
//!   faults in the window.
//! - In [`sight`] no outcome may depend on state that the usage does not name.
//! - In [`based`] each listed form that loads is executed by the window's base, and reads at most
//!   the guard.
//! - In [`loads`] (mode full) nothing can be read either, so every access must fault in the window.

pub mod based;
pub mod every_store;
pub mod sight;
pub mod silent;

use crate::machine::{Exit, Machine, PAGE, RSP, Registers, WINDOW, Window, state};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use sfi_contract::policy::{self, Memory};
use sfi_contract::{Anchors, Mode};
use sfi_tests::random::Random;
use sfi_verifier::{FinalText, Options, Usage, Vectors, verify_text};
use std::collections::HashSet;

/// Window offset of the instruction.
const TEXT: u64 = 0x40_0000;
/// Distance of the instruction from its page's start.
const INSET: u64 = 0x100;
/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

/// Calls `f` with 15 bytes for every candidate encoding.
fn candidates(random: &mut Random, mut f: impl FnMut(&[u8; 15], &mut Random)) {
    let segments: [&[u8]; 4] = [&[], &[0x65, 0x67], &[0x65], &[0x67]];
    let mandatory: [&[u8]; 4] = [&[], &[0x66], &[0xf3], &[0xf2]];
    for map in 0..4u8 {
        for opcode in 0..=255u8 {
            for reg in 0..8u8 {
                for prefix in mandatory {
                    for segment in segments {
                        for shape in 0..3 {
                            let mut bytes = Vec::with_capacity(32);
                            bytes.extend_from_slice(segment);
                            if random.below(8) == 0 {
                                bytes.push(0xf0);
                            }
                            bytes.extend_from_slice(prefix);
                            match random.below(4) {
                                0 => bytes.push(0x48),
                                1 => bytes.push(0x40 + random.below(16) as u8),
                                _ => {}
                            }
                            bytes.extend_from_slice([&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]][map as usize]);
                            bytes.push(opcode);
                            tail(&mut bytes, reg, shape, random);
                            f(&bytes[..15].try_into().expect("15 bytes"), random);
                        }
                    }
                }
            }
        }
    }
    // VEX with three bytes, and EVEX: the payload fields are random, the opcode is walked.
    for evex in [false, true] {
        for map in 1..=(if evex { 7 } else { 3u8 }) {
            for opcode in 0..=255u8 {
                for reg in 0..8u8 {
                    for segment in &segments[..2] {
                        for draw in 0..(if evex { 12 } else { 8 }) {
                            let mut bytes = Vec::with_capacity(32);
                            bytes.extend_from_slice(segment);
                            let pp = (draw % 4) as u8;
                            let vvvv = if random.below(2) == 0 { 0x78 } else { (random.below(16) as u8) << 3 };
                            let w = (random.below(2) as u8) << 7;
                            let inverted = if random.below(2) == 0 { 0xe0 } else { (random.below(8) as u8) << 5 };
                            if evex {
                                bytes.extend([0x62, inverted | 0x10 | map, w | vvvv | 4 | pp]);
                                let masked = random.pick(&[0u8, 0, 1, 2, 0x81]);
                                let length = random.pick(&[0u8, 0x20, 0x40, 0x40]);
                                let broadcast = if random.below(4) == 0 { 0x10 } else { 0 };
                                bytes.push(masked | length | broadcast | 8);
                            } else {
                                bytes.extend([0xc4, inverted | map, w | vvvv | ((random.below(2) as u8) << 2) | pp]);
                            }
                            bytes.push(opcode);
                            tail(&mut bytes, reg, draw % 3, random);
                            f(&bytes[..15].try_into().expect("15 bytes"), random);
                        }
                    }
                }
            }
        }
    }
}

/// Walks sandboxed memory operands alone, without chance: every opcode, extension, mandatory
/// prefix, W, vector length, masked or not.
fn memory_operands(random: &mut Random, mut f: impl FnMut(&[u8; 15], &mut Random)) {
    let mut emit = |head: &[u8], opcode: u8, reg: u8, random: &mut Random| {
        let mut bytes = vec![0x65, 0x67];
        bytes.extend_from_slice(head);
        bytes.push(opcode);
        tail(&mut bytes, reg, 1 + random.below(2), random);
        f(&bytes[..15].try_into().expect("15 bytes"), random);
    };
    for opcode in 0..=255u8 {
        for reg in 0..8u8 {
            for pp in 0..4u8 {
                for w in [0, 0x80] {
                    for map in 0..4usize {
                        let mut head = [&[][..], &[0x66], &[0xf3], &[0xf2]][pp as usize].to_vec();
                        head.extend(if w != 0 { vec![0x48] } else { vec![] });
                        head.extend([&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]][map]);
                        emit(&head, opcode, reg, random);
                    }
                    for map in 1..4 {
                        for length in [0, 4] {
                            emit(&[0xc4, 0xe0 | map, w | 0x78 | length | pp], opcode, reg, random);
                        }
                        // The register field selects the instruction only in a few groups, none of
                        // which stores.
                        for (length, mask) in [(0, 0), (0x20, 0), (0x40, 0), (0, 1), (0x20, 1), (0x40, 1)] {
                            if reg < 2 {
                                emit(&[0x62, 0xf0 | map, w | 0x7c | pp, length | mask | 8], opcode, reg, random);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds ModRM, SIB and the bytes that may follow.
fn tail(bytes: &mut Vec<u8>, reg: u8, shape: usize, random: &mut Random) {
    match shape {
        0 => bytes.push(0xc0 | reg << 3 | random.below(8) as u8),
        1 => bytes.push(((random.below(3) as u8) << 6) | reg << 3 | random.below(8) as u8),
        _ => {
            bytes.push(((random.below(3) as u8) << 6) | reg << 3 | 4);
            bytes.push(random.next() as u8);
        }
    }
    // Displacements and immediates are zero, so that branches reach the next instruction, or
    // random.
    if random.below(2) == 0 {
        bytes.extend([0; 12]);
    } else {
        bytes.extend(random.next().to_le_bytes());
        bytes.extend([0, 0, 0, 0]);
    }
    bytes.resize(bytes.len().max(15), 0);
}

/// One accepted instruction.
struct Accepted {
    instruction: Instruction,
    bytes: Vec<u8>,
    usage: Usage,
}

/// A walk of the opcode space.
type Walk = fn(&mut Random, &mut dyn FnMut(&[u8; 15], &mut Random));

/// Walks sandboxed memory operands alone.
const MEMORY: Walk = |random, f| memory_operands(random, f);
/// Walks all candidates.
const ALL: Walk = |random, f| {
    memory_operands(random, &mut *f);
    candidates(random, f);
};

/// Hands every accepted candidate of a walk to `f`. The decoder is only asked for the length.
fn accepted(walk: Walk, mode: Mode, seed: u64, mut f: impl FnMut(&Accepted, &mut Random)) -> u64 {
    let mut random = Random(seed);
    let mut count = 0;
    let options = Options { mode, ..Options::default() };
    let mut consider = |bytes: &[u8; 15], random: &mut Random| {
        let instruction = Decoder::with_ip(64, bytes, TEXT + INSET, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return;
        }
        // One more byte gives a branch with displacement 0 a target.
        let mut text = bytes[..instruction.len()].to_vec();
        text.push(0xcc);
        let text =
            FinalText { bytes: &text, offset: TEXT + INSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
        if let Ok(checked) = verify_text(&text, &options) {
            count += 1;
            let bytes = bytes[..instruction.len()].to_vec();
            f(&Accepted { instruction, bytes, usage: checked.usage }, random);
        }
    };
    walk(&mut random, &mut consider);
    count
}

/// The address space of a sifter: a window, and another one that registers point to.
struct Arena {
    window: Window,
    outside: Window,
    stack: Window,
}

impl Arena {
    fn new(window: i32, outside: i32) -> Arena {
        Arena::at(Window::new(), window, outside)
    }

    /// Makes an arena around an existing window, with the protections of its pages and of the pages
    /// that registers point to.
    fn at(place: Window, window: i32, outside: i32) -> Arena {
        let arena = Arena { window: place, outside: Window::new(), stack: Window::new() };
        arena.window.protect(0, WINDOW, window);
        arena.outside.protect(0, WINDOW, outside);
        arena.stack.open(0, 16 * PAGE);
        arena.window.open(TEXT, PAGE);
        arena.window.write(TEXT, &[0xcc; PAGE as usize]);
        arena.window.protect(TEXT, PAGE, libc::PROT_READ | libc::PROT_EXEC);
        arena
    }

    /// Puts the instruction into place. The text page is never writable while code runs.
    fn place(&self, bytes: &[u8]) {
        self.window.open(TEXT, PAGE);
        let mut field = [0xcc; 32];
        field[..bytes.len()].copy_from_slice(bytes);
        self.window.write(TEXT + INSET, &field);
        self.window.protect(TEXT, PAGE, libc::PROT_READ | libc::PROT_EXEC);
    }

    /// Returns registers that point outside with their 64 bits, and anywhere into the window with
    /// their lower half.
    fn registers(&self, random: &mut Random) -> Registers {
        let mut registers = Registers::default();
        for register in &mut registers.gpr {
            let low = match random.below(4) {
                0 => random.next() & 0xffff_ffff,
                1 => random.next() & 0xffff_ffc0,
                2 => WINDOW - 1 - random.below(64) as u64,
                _ => (random.next() & 0xf_ffc0) + 0x800_0000,
            };
            *register = match random.below(4) {
                0 => random.next() & !0xffff_ffff | low,
                _ => self.outside.base + low,
            };
        }
        registers.gpr[RSP] = self.stack.base + 8 * PAGE;
        registers.rip = self.window.base + TEXT + INSET;
        registers
    }

    /// Fills a control stack whose top leads to the text page's first byte.
    fn fill_stack(&self) -> Vec<u8> {
        let mut words = vec![0x5a; 1024];
        words[512..520].copy_from_slice(&(self.window.base + TEXT).to_le_bytes());
        self.stack.write(8 * PAGE - 512, &words);
        words
    }
}

fn context(accepted: &Accepted, start: &Registers, exit: &Exit) -> String {
    format!("`{}` {:02x?}\nbefore {start:x?}\nafter {exit:x?}", accepted.instruction, accepted.bytes)
}

/// Checks that every write fault of an accepted instruction lies in the window or in the guard
/// after it.
pub fn stores() {
    let mut machine = Machine::new();
    let arena = Arena::new(libc::PROT_READ, libc::PROT_READ);
    let (mut writes, mut ran, mut seen) = (0u64, 0u64, HashSet::new());
    let count = accepted(ALL, Mode::Write, 1, |accepted, random| {
        arena.place(&accepted.bytes);
        for _ in 0..2 {
            arena.fill_stack();
            let start = arena.registers(random);
            let exit = machine.run(&arena.window, start, true, true);
            ran += 1;
            if exit.is_write() {
                writes += 1;
                let code = accepted.instruction.code();
                assert!(every_store::is_listed(code), "not listed to write: {}", context(accepted, &start, &exit));
                seen.insert(code);
                assert!(arena.window.contains(exit.address), "ESCAPE: {}", context(accepted, &start, &exit));
            }
            no_strange_fault(accepted, &start, &exit);
        }
    });
    let listed: Vec<Code> = policy::allowed()
        .filter(|(_, form)| matches!(form.memory, Memory::Store | Memory::Lockable))
        .map(|(code, _)| code)
        .collect();
    let missing: Vec<&Code> = listed.iter().filter(|code| !seen.contains(*code)).collect();
    println!("{count} encodings, {ran} runs, {writes} stores of {} forms; not met: {missing:?}", seen.len());
    let least = if super::has_avx512() { 400 } else { 300 };
    assert!(seen.len() > least, "the sample is too small: {writes} stores of {} forms", seen.len());
}

/// Checks that no fault happens that an accepted instruction may not raise.
fn no_strange_fault(accepted: &Accepted, start: &Registers, exit: &Exit) {
    let instruction = &accepted.instruction;
    let touches_memory = (0..instruction.op_count()).any(|i| {
        use iced_x86::OpKind::*;
        matches!(
            instruction.op_kind(i),
            Memory | MemorySegRSI | MemorySegESI | MemoryESRDI | MemoryESEDI | MemorySegRDI
        )
    }) || instruction.mnemonic() == Mnemonic::Xlatb;
    match exit.vector {
        // #GP, or #SS if the base is rbp: the address is not canonical or not aligned.
        12 | 13 => assert!(touches_memory, "privileged: {}", context(accepted, start, exit)),
        14 => assert!(exit.error & 16 == 0, "wild jump: {}", context(accepted, start, exit)),
        3 => assert_eq!(instruction.mnemonic(), Mnemonic::Int3, "trap: {}", context(accepted, start, exit)),
        // #DE, #DB, #UD, #MF, #AC, #XM
        0 | 1 | 6 | 16 | 17 | 19 => {}
        vector => panic!("vector {vector}: {}", context(accepted, start, exit)),
    }
}

/// Checks the effects of accepted instructions that no fault stops.
pub fn effects() {
    let mut machine = Machine::new();
    let arena = Arena::new(libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ);
    let (mut completed, mut runs, mut undefined) = (0u64, 0u64, std::collections::BTreeMap::new());
    let count = accepted(ALL, Mode::Write, 2, |accepted, random| {
        arena.place(&accepted.bytes);
        for _ in 0..2 {
            let stack = arena.fill_stack();
            let start = arena.registers(random);
            let exit = machine.run(&arena.window, start, true, true);
            runs += 1;
            // The memory of successful stores is not needed again.
            if runs % 2048 == 0 {
                arena.window.discard(0, TEXT);
                arena.window.discard(TEXT + PAGE, WINDOW - TEXT - PAGE);
            }
            if exit.is_write() {
                assert!(arena.window.contains(exit.address), "ESCAPE: {}", context(accepted, &start, &exit));
            }
            no_strange_fault(accepted, &start, &exit);
            if exit.vector == 6 && accepted.instruction.mnemonic() != Mnemonic::Ud2 {
                *undefined.entry(format!("{:?}", accepted.instruction.code())).or_insert(0) += 1;
            }
            if exit.vector != 1 {
                continue;
            }
            completed += 1;
            check_effect(accepted, &arena, &start, &exit, &stack);
        }
    });
    println!("{count} encodings, {runs} runs, {completed} completed; undefined here: {undefined:?}");
    assert!(count > 50_000 && completed > 50_000, "the sample is too small: {count} encodings, {completed} completed");
}

fn check_effect(accepted: &Accepted, arena: &Arena, start: &Registers, exit: &Exit, stack: &[u8]) {
    let what = || context(accepted, start, exit);
    let next = start.rip + accepted.bytes.len() as u64;
    let flow = accepted.instruction.flow_control();
    let (mut rsp, mut stack) = (start.gpr[RSP], stack.to_vec());
    match flow {
        FlowControl::Return => {
            assert_eq!(exit.registers.rip, arena.window.base + TEXT, "return: {}", what());
            rsp += 8;
        }
        FlowControl::Call => {
            let target = accepted.instruction.near_branch_target() - (TEXT + INSET) + start.rip;
            assert_eq!(exit.registers.rip, target, "target: {}", what());
            stack[504..512].copy_from_slice(&next.to_le_bytes());
            rsp -= 8;
        }
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            let target = accepted.instruction.near_branch_target() - (TEXT + INSET) + start.rip;
            assert!(exit.registers.rip == target || exit.registers.rip == next, "target: {}", what());
        }
        _ if matches!(accepted.instruction.code(), Code::Push_r64 | Code::Pop_r64) => {
            assert_eq!(exit.registers.rip, next, "length: {}", what());
            let register = accepted.instruction.op0_register().number();
            if accepted.instruction.code() == Code::Push_r64 {
                stack[504..512].copy_from_slice(&start.gpr[register].to_le_bytes());
                rsp -= 8;
            } else {
                assert_eq!(exit.registers.gpr[register].to_le_bytes(), stack[512..520], "word: {}", what());
                rsp += 8;
            }
        }
        // A repeated string instruction stops after each round, and a gather may stop after each
        // element.
        _ if accepted.instruction.is_string_instruction() || accepted.instruction.is_vsib() => {
            assert!(exit.registers.rip == next || exit.registers.rip == start.rip, "length: {}", what());
        }
        _ => assert_eq!(exit.registers.rip, next, "length: {}", what()),
    }
    assert_eq!(exit.registers.gpr[RSP], rsp, "rsp: {}", what());
    assert_eq!(arena.stack.read(8 * PAGE - 512, 1024), stack, "control stack: {}", what());
    assert_eq!(Window::gs_base(), arena.window.base, "GS base: {}", what());
    let kept = !(ARITHMETIC | 1 << 8 | 1 << 16); // TF and RF are the single step's own
    assert_eq!(exit.registers.flags & kept, 0x202 & kept, "flags: {}", what());
    for register in 0..16 {
        let changed = exit.registers.gpr[register] != start.gpr[register];
        let named = accepted.usage.gprs_written & (1 << register) != 0;
        assert!(!changed || named || register == RSP, "usage misses a write of register {register}: {}", what());
    }
    let usage = accepted.usage;
    let missing = |part: u32, covered: bool| exit.changed & part != 0 && !covered;
    assert!(!missing(state::X87, usage.x87), "usage misses x87: {}", what());
    assert!(!missing(state::MXCSR_CONTROL, usage.mxcsr), "usage misses MXCSR: {}", what());
    assert!(!missing(state::XMM, usage.vectors >= Vectors::Xmm), "usage misses xmm: {}", what());
    // A VEX instruction clears its destination's upper part, to the end of the zmm register.
    assert!(!missing(state::YMM | state::ZMM, usage.vectors >= Vectors::Ymm), "usage misses ymm: {}", what());
    let wide = state::OPMASK | state::ZMM_HIGH;
    assert!(!missing(wide, usage.vectors >= Vectors::Zmm), "usage misses zmm16 to zmm31, or k: {}", what());
}

/// Checks that in mode full every access lies in the window or its guard.
pub fn loads() {
    let mut machine = Machine::new();
    let arena = Arena::new(libc::PROT_NONE, libc::PROT_NONE);
    let mut faults = 0u64;
    let count = accepted(ALL, Mode::Full, 3, |accepted, random| {
        arena.place(&accepted.bytes);
        for _ in 0..2 {
            arena.fill_stack();
            let start = arena.registers(random);
            let exit = machine.run(&arena.window, start, true, true);
            no_strange_fault(accepted, &start, &exit);
            if exit.is_page_fault() {
                faults += 1;
                let inside = arena.window.contains(exit.address);
                assert!(inside, "ESCAPE: {}", context(accepted, &start, &exit));
            }
            // A truncated address is always canonical, but may be misaligned.
            let truncated =
                accepted.bytes.starts_with(&[0x65, 0x67]) || accepted.instruction.is_ip_rel_memory_operand();
            let general = matches!(exit.vector, 12 | 13);
            assert!(!general || truncated, "an address that is not canonical: {}", context(accepted, &start, &exit));
        }
    });
    println!("{count} encodings, {faults} accesses");
    assert!(count > 20_000 && faults > 10_000, "the sample is too small: {count} encodings, {faults} accesses");
}
