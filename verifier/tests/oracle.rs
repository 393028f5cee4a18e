//! Another judge of accepted instructions: iced's instruction information, which the verifier does
//! not use. `SFI_ORACLE_CASES=10000000 cargo test --release -p sfi-verifier --test oracle` runs
//! longer.

#[path = "support/random.rs"]
mod random;

use iced_x86::{
    Code, CodeSize, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use proptest::test_runner::TestRng;
use random::random;
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, verify_text};

fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// Panics if an accepted instruction could do harm.
fn judge(
    instruction: &Instruction,
    bytes: &[u8],
    mode: Mode,
    usage: &sfi_verifier::Usage,
    factory: &mut InstructionInfoFactory,
) {
    let context = || format!("{instruction} {bytes:02x?} in mode {mode}");
    let info = factory.info(instruction);
    let control_stack =
        matches!(instruction.code(), Code::Retnq | Code::Call_rel32_64 | Code::Push_r64 | Code::Pop_r64);
    for memory in info.used_memory() {
        let confined = memory.segment() == Register::GS && memory.address_size() == CodeSize::Code32;
        let stack = control_stack && memory.base() == Register::RSP;
        // The second check computes the target, in the window of this text.
        let relative = instruction.is_ip_rel_memory_operand()
            && memory.segment() == Register::DS
            && memory.address_size() == CodeSize::Code64;
        assert!(usage.gs || memory.segment() != Register::GS, "usage misses GS: {}", context());
        let inside = relative && memory.displacement() < (1 << 32) - memory.memory_size().size().max(1) as u64;
        if is_write(memory.access()) {
            assert!(confined || stack || inside, "writes: {}", context());
        }
        if is_read(memory.access()) && mode == Mode::Full {
            let header = memory.segment() == Register::GS
                && memory.base() == Register::None
                && memory.displacement() == Anchors::EXAMPLE.header;
            assert!(confined || stack || inside || header, "reads: {}", context());
        }
    }
    for used in info.used_registers() {
        let register = used.register();
        assert!(control_stack || register.full_register() != Register::RSP, "rsp: {}", context());
        assert!(
            !register.is_segment_register() || register == Register::GS || !is_write(used.access()),
            "{}",
            context()
        );
        assert!(register != Register::FS, "fs: {}", context());
        assert!(!register.is_cr() && !register.is_dr() && !register.is_tr() && !register.is_bnd(), "{}", context());
        if is_write(used.access()) && register.is_gpr() && register.full_register() != Register::RSP {
            let bit = 1 << register.full_register().number();
            assert!(usage.gprs_written & bit != 0, "usage misses {register:?}: {}", context());
        }
        if register.is_gpr() {
            let bit = 1 << register.full_register().number() & sfi_verifier::Usage::PRESERVED;
            assert!(usage.preserved_named & bit == bit, "usage misses that {register:?} is named: {}", context());
        }
        if register.is_vector_register() {
            assert!(usage.vectors >= sfi_verifier::Vectors::Xmm, "{}", context());
            // A VEX instruction clears the upper part of its zmm register without naming it.
            let named = (0..instruction.op_count()).any(|i| instruction.op_register(i).is_zmm());
            let high = named || register.number() >= 16;
            assert!(!high || usage.vectors == sfi_verifier::Vectors::Zmm, "{}", context());
        }
        assert!(!(register.is_mm() || register.is_st()) || usage.x87, "{}", context());
    }
    assert!(!instruction.is_privileged() && !instruction.is_save_restore_instruction(), "{}", context());
    let flow = instruction.flow_control();
    assert!(!matches!(flow, FlowControl::IndirectBranch | FlowControl::IndirectCall), "{}", context());
}

#[test]
fn accepted_instructions_are_harmless() {
    let cases: u64 = std::env::var("SFI_ORACLE_CASES").ok().map_or(300_000, |n| n.parse().expect("a number"));
    let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut factory = InstructionInfoFactory::new();
    let mut accepted = [0u64; 2];
    for _ in 0..cases {
        let random = random(&mut rng);
        let instruction = Decoder::with_ip(64, &random, 0x40_0000, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            continue;
        }
        let bytes = &random[..instruction.len()];
        for (i, mode) in [Mode::Write, Mode::Full].into_iter().enumerate() {
            let text = FinalText { bytes, offset: 0x40_0000, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
            if let Ok(checked) = verify_text(&text, &Options { mode, ..Options::default() }) {
                accepted[i] += 1;
                judge(&instruction, bytes, mode, &checked.usage, &mut factory);
            }
        }
    }
    // The test means nothing if little is accepted.
    assert!(accepted[0] > cases / 50 && accepted[1] > cases / 50, "{accepted:?} of {cases}");
}
