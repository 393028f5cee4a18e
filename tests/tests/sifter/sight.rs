//! The state that instructions see, by execution: the processor shows whether an outcome depends on
//! state.
//!
//! Every accepted encoding runs twice with equal registers and memory. The second time each group
//! of state that its usage does not name holds other values: preserved registers, vector and mask
//! registers, MXCSR's status flags, and the x87 state with an unmasked exception pending. The
//! outcome must be equal: the fault if any, all general registers and flags, memory, and all
//! unchanged groups. So an instruction that does not name a group can neither observe it nor fault
//! because of it.
//!
//! Encodings that do name a group show that the changes matter: some of them see it.

use super::{ALL, Accepted, Arena, TEXT, accepted, context};
use crate::machine::{Exit, Machine, PAGE, Registers, WINDOW, state};
use iced_x86::{Code, OpKind};
use sfi_contract::Mode;
use sfi_contract::policy::{self, Class};
use sfi_verifier::{Usage, Vectors};
use std::collections::BTreeMap;
use std::ops::Range;

/// The groups, with their parts of the machine's state.
const GROUPS: [(&str, u32); 4] = [
    ("zmm0-15", state::XMM | state::YMM | state::ZMM),
    ("zmm16-31 and k0-7", state::ZMM_HIGH | state::OPMASK),
    ("x87", state::X87),
    ("MXCSR", state::MXCSR_FLAGS),
];

/// Returns the parts that a usage does not name.
fn unnamed(usage: &Usage) -> u32 {
    let named = [usage.vectors > Vectors::None, usage.vectors >= Vectors::Zmm, usage.x87, usage.mxcsr];
    GROUPS.iter().zip(named).filter(|(_, named)| !named).fold(0, |all, ((_, parts), _)| all | parts)
}

/// Says whether the result changes from run to run, or depends on the processor.
fn is_random(accepted: &Accepted) -> bool {
    let code = accepted.instruction.code();
    let class = policy::lookup(code).map(|form| form.class);
    matches!(class, Some(Class::Clock | Class::Identity))
        || [Code::Rdrand_r16, Code::Rdrand_r32, Code::Rdrand_r64].contains(&code)
        || [Code::Rdseed_r16, Code::Rdseed_r32, Code::Rdseed_r64].contains(&code)
}

/// Bytes after an operand's address that an instruction may write.
const OPERAND: u64 = 128;

/// Returns the place of a memory operand in the window if it is sandboxed, as all written operands
/// are.
fn operand(accepted: &Accepted, start: &Registers) -> Option<Range<u64>> {
    let instruction = &accepted.instruction;
    let number = (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory)?;
    let address = instruction.virtual_address(number, 0, |register, _, _| {
        if register.is_segment_register() { Some(0) } else { Some(start.gpr[register.full_register().number()]) }
    })?;
    let offset = u64::from(address as u32);
    // Up to the page of the instruction, or the window's end.
    let end = if offset < TEXT { TEXT } else { WINDOW };
    (!(TEXT..TEXT + PAGE).contains(&offset)).then(|| offset..end.min(offset + OPERAND))
}

/// The outcome of a run.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    fault: (i32, u64, u64, u64),
    registers: Registers,
    parts: [u64; 8],
    memory: Vec<u8>,
}

fn run(machine: &mut Machine, arena: &Arena, accepted: &Accepted, start: Registers, other: u32) -> (Outcome, Exit) {
    arena.fill_stack();
    let memory = operand(accepted, &start);
    let length = |range: &Range<u64>| (range.end - range.start) as usize;
    if let Some(range) = &memory {
        arena.window.write(range.start, &vec![0x3c; length(range)]);
    }
    let exit = machine.run_with(&arena.window, start, true, true, other);
    let memory = memory.map(|range| arena.window.read(range.start, length(&range))).unwrap_or_default();
    let fault = (exit.signal, exit.vector, exit.error, exit.address);
    // TF and RF are the single step's own.
    let registers = Registers { flags: exit.registers.flags & !(1 << 8 | 1 << 16), ..exit.registers };
    (Outcome { fault, registers, parts: exit.parts, memory }, exit)
}

/// Says whether two outcomes are equal, apart from the state that was changed before.
fn same(mut first: Outcome, mut second: Outcome, changed: u32, registers: u16) -> bool {
    for outcome in [&mut first, &mut second] {
        for (bit, part) in outcome.parts.iter_mut().enumerate() {
            *part = if changed & (1 << bit) != 0 { 0 } else { *part };
        }
        for (number, register) in outcome.registers.gpr.iter_mut().enumerate() {
            *register = if registers & (1 << number) != 0 { 0 } else { *register };
        }
    }
    first == second
}

/// Checks that no accepted encoding's outcome depends on state that its usage does not name.
pub fn run_all() {
    let mut machine = Machine::new();
    let arena = Arena::new(libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ);
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let mut runs = 0u64;
    let count = accepted(ALL, Mode::Write, 5, |accepted, random| {
        if is_random(accepted) {
            return;
        }
        arena.place(&accepted.bytes);
        let start = arena.registers(random);
        let (first, exit) = run(&mut machine, &arena, accepted, start, 0);
        // The preserved registers, including r15.
        let free = Usage::PRESERVED & !accepted.usage.preserved_named;
        let mut other = start;
        for register in (0..16).filter(|n| free & (1 << n) != 0) {
            other.gpr[register] = !other.gpr[register];
        }
        let parts = unnamed(&accepted.usage);
        let (second, other_exit) = run(&mut machine, &arena, accepted, other, parts);
        assert!(
            same(first, second, parts, free),
            "sees what its usage does not name: {}\nand with that changed {other_exit:x?}",
            context(accepted, &start, &exit)
        );
        // A quarter of them is enough.
        let sampled = random.below(4) == 0;
        for (name, parts) in GROUPS.into_iter().filter(|(_, group)| sampled && group & parts == 0) {
            let (first, _) = run(&mut machine, &arena, accepted, start, 0);
            let (second, _) = run(&mut machine, &arena, accepted, start, parts);
            *seen.entry(name).or_default() += u64::from(!same(first, second, parts, 0));
        }
        runs += 2;
        if runs.is_multiple_of(2048) {
            arena.window.discard(0, TEXT);
            arena.window.discard(TEXT + PAGE, WINDOW - TEXT - PAGE);
        }
    });
    println!("{count} encodings, {runs} runs; that see what they name: {seen:?}");
    assert!(count > 50_000, "the sample is too small: {count} encodings");
    for (name, _) in GROUPS {
        let wide = std::arch::is_x86_feature_detected!("avx512bw") || !name.starts_with("zmm16");
        assert!(!wide || seen.get(name).is_some_and(|n| *n > 0), "nothing sees {name}: the change does not reach it");
    }
}
