//! The contract's assumptions about the processor, executed on this one: the 32-bit truncation of
//! GS addressing, the bytes after a window's end, the unsafe regions, and every instruction form
//! that the verifier accepts.
//!
//! The tests of a process run one after another, because they share its signal handlers. Without
//! arguments two processes share the tests.

#[path = "../../crates/contract/tests/policy_table/instance.rs"]
#[allow(dead_code)]
mod instance;
mod machine;
mod sifter;

use libtest_mimic::{Arguments, Failed, Trial};
use machine::{Exit, Machine, PAGE, RAX, RCX, RDI, RSI, RSP, Registers, WINDOW, Window};
use object::{Object, ObjectSection};
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, verify_text};
use std::process::{Command, ExitCode, Stdio};

/// Offset of the code under test in its window.
const TEXT: u64 = 0x40_0000;

/// Tests that a second process runs. They take half of the time.
const SECOND: [&str; 2] =
    ["every_accepted_form_does_what_the_list_says", "every_accepted_form_sees_only_what_it_names"];

fn main() -> ExitCode {
    // SAFETY: a timer that ends the process. No test here takes that long.
    unsafe { libc::alarm(300) };
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests: &[(&str, fn())] = &[
        ("register_is_truncated", register_is_truncated),
        ("sum_is_truncated", sum_is_truncated),
        ("scaled_index_is_truncated", scaled_index_is_truncated),
        ("eip_relative_store", eip_relative_store),
        ("rip_relative_store", rip_relative_store),
        ("absolute_store", absolute_store),
        ("compressed_displacement", compressed_displacement),
        ("stores_run_past_the_end_into_the_guard", stores_run_past_the_end_into_the_guard),
        ("masked_stores_at_the_end", masked_stores_at_the_end),
        ("string_store_hits_the_guard", string_store_hits_the_guard),
        ("string_copy_hits_the_guard", string_copy_hits_the_guard),
        ("rebased_pointer_is_in_the_window", rebased_pointer_is_in_the_window),
        ("dispatch_ignores_the_upper_half", dispatch_ignores_the_upper_half),
        ("dispatch_stays_in_its_table", dispatch_stays_in_its_table),
        ("x87_environment_names_the_last_instruction", x87_environment_names_the_last_instruction),
        ("decoders_that_stand_alone_are_wrong", decoders_that_stand_alone_are_wrong),
        ("based_loads_run_past_the_end_into_the_guard", based_loads_run_past_the_end_into_the_guard),
        ("every_based_load_stays_in_window_and_guard", sifter::based::run),
        ("every_accepted_store_is_confined", sifter::stores),
        ("every_listed_store_is_executed", sifter::every_store::run),
        ("an_unconfined_store_is_seen", sifter::every_store::unconfined),
        ("every_accepted_form_does_what_the_list_says", sifter::effects),
        ("every_listed_silent_load_is_confined", sifter::silent::run),
        ("every_accepted_form_sees_only_what_it_names", sifter::sight::run_all),
        ("every_accepted_load_of_mode_full_is_confined", sifter::loads),
    ];
    if std::env::args().len() == 1 {
        return in_two_processes(tests.iter().map(|(name, _)| *name));
    }
    if !has_avx512() {
        eprintln!("SKIPPED: stores of AVX-512, which this processor does not have");
    }
    let trials = tests.iter().map(|(name, test)| {
        let (name, test) = (*name, *test);
        let trial = Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        });
        trial.with_ignored_flag(name == "compressed_displacement" && !has_avx512())
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Runs the tests in two processes, and prints what the second says after the first is done.
fn in_two_processes<'a>(names: impl Iterator<Item = &'a str>) -> ExitCode {
    let without = |names: &[&str]| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("--exact").args(names.iter().flat_map(|name| ["--skip", name]));
        command
    };
    let first: Vec<&str> = names.filter(|name| !SECOND.contains(name)).collect();
    let second = without(&first).stdout(Stdio::piped()).spawn().expect("a second process");
    let first = without(&SECOND).status().expect("a first process");
    let second = second.wait_with_output().expect("its output");
    print!("{}", String::from_utf8_lossy(&second.stdout));
    if first.success() && second.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says whether the processor has the forms of AVX-512 that the tests here name.
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw")
}

/// Assembles AT&T text.
fn assemble(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, object] = ["code.s", "code.o"].map(|name| folder.path().join(name));
    std::fs::write(&source, format!("{text}\n")).expect("the source");
    let gcc = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status();
    assert!(gcc.expect("gcc is needed for these tests").success(), "{text}");
    let object = std::fs::read(object).expect("the object");
    let file = object::File::parse(&*object).expect("an object");
    let code = file.section_by_name(".text").and_then(|text| text.data().ok()).expect("its code").to_vec();
    assert!(!code.is_empty());
    code
}

/// Returns registers with a control stack outside of the window.
fn registers() -> Registers {
    static STACK: std::sync::LazyLock<Window> = std::sync::LazyLock::new(|| {
        let stack = Window::new();
        stack.open(0, 16 * PAGE);
        stack
    });
    let mut registers = Registers::default();
    registers.gpr[RSP] = STACK.base + 8 * PAGE;
    registers
}

/// Runs code that must fault by a write at a window offset, and change nothing.
fn assert_store_at(window: &Window, exit: &Exit, offset: u64, what: &str) {
    let expected = window.base + offset;
    assert!(exit.is_write(), "{what}: no write fault but {exit:x?}");
    assert_eq!(exit.address, expected, "{what}: window {:#x}", window.base);
}

/// Stores by `mov %rax,%gs:disp32(%edi)` with registers and displacements that a 64-bit address
/// would carry far away.
fn register_is_truncated() {
    let (mut machine, window) = (Machine::new(), Window::new());
    let mut code = vec![0x65, 0x67, 0x48, 0x89, 0x87, 0, 0, 0, 0];
    for base in
        [0u64, u64::MAX, 1 << 31, 1 << 32, 0x8000_0000_0000_0000, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, 0xffff_fff8]
    {
        for displacement in [0i32, 1, -1, 8, -8, 0x7fff_ffff, i32::MIN] {
            code[5..9].copy_from_slice(&displacement.to_le_bytes());
            let mut start = registers();
            start.gpr[RDI] = base;
            let exit = machine.run_code(&window, TEXT, &code, start);
            let offset = base.wrapping_add(displacement as i64 as u64) & 0xffff_ffff;
            assert_store_at(&window, &exit, offset, &format!("base {base:#x} + {displacement:#x}"));
        }
    }
}

/// Stores with base, index and displacement together.
fn sum_is_truncated() {
    let (mut machine, window) = (Machine::new(), Window::new());
    let code = assemble("mov %rax,%gs:0x7ffffff0(%edi,%ecx)");
    for base in [0u64, u64::MAX, 0xffff_ffff, 0x1_0000_0000, 0xdead_beef_8000_0000] {
        for index in [0u64, u64::MAX, 0xffff_fff0, 0x8000_0000, 0x1234_5678_9abc_def0] {
            let mut start = registers();
            (start.gpr[RDI], start.gpr[RCX]) = (base, index);
            let exit = machine.run_code(&window, TEXT, &code, start);
            let offset = base.wrapping_add(index).wrapping_add(0x7fff_fff0) & 0xffff_ffff;
            assert_store_at(&window, &exit, offset, &format!("{base:#x} + {index:#x}"));
        }
    }
}

/// Stores with a negative index, scaled.
fn scaled_index_is_truncated() {
    let (mut machine, window) = (Machine::new(), Window::new());
    for (scale, code) in [
        (2, assemble("mov %eax,%gs:(%edi,%ecx,2)")),
        (4, assemble("mov %eax,%gs:(%edi,%ecx,4)")),
        (8, assemble("mov %eax,%gs:(%edi,%ecx,8)")),
    ] {
        for (base, index) in [(64u64, -1i64), (0x10_0000, -3), (0, -1), (0, 0x4000_0001), (0, i64::MIN), (5, i64::MAX)]
        {
            let mut start = registers();
            (start.gpr[RDI], start.gpr[RCX]) = (base, index as u64);
            let exit = machine.run_code(&window, TEXT, &code, start);
            let offset = base.wrapping_add((index as u64).wrapping_mul(scale)) & 0xffff_ffff;
            assert_store_at(&window, &exit, offset, &format!("{base:#x} + {index:#x} * {scale}"));
        }
    }
}

/// Stores by `mov %eax,%gs:disp32(%eip)`: the sum of the truncated rip and the displacement is
/// truncated.
fn eip_relative_store() {
    let (mut machine, window) = (Machine::new(), Window::new());
    for displacement in [0x1000i32, -0x1000, 0x7fff_ffff, i32::MIN, -0x40_0008, -0x40_0009, -1] {
        let mut code = vec![0x65, 0x67, 0x89, 0x05];
        code.extend_from_slice(&displacement.to_le_bytes());
        let exit = machine.run_code(&window, TEXT, &code, registers());
        let offset = (TEXT + 8).wrapping_add(displacement as i64 as u64) & 0xffff_ffff;
        assert_store_at(&window, &exit, offset, &format!("eip {displacement:+#x}"));
    }
}

/// Runs stores relative to rip whose operand ends, or begins, at an edge of the window. The store
/// faults at the offset that the check of the final text computed, and every store that it accepts
/// lies in the window.
fn rip_relative_store() {
    let (mut machine, window) = (Machine::new(), Window::new());
    // (width, before the displacement, after it)
    let forms: [(u64, &[u8], &[u8]); 8] = [
        (8, &[0x48, 0x89, 0x05], &[]),                    // mov %rax,d(%rip)
        (1, &[0x88, 0x25], &[]),                          // mov %ah,d(%rip)
        (4, &[0xc7, 0x05], &[0x78, 0x56, 0x34, 0x12]),    // movl $0x12345678,d(%rip)
        (2, &[0x66, 0x83, 0x05], &[0x07]),                // addw $7,d(%rip)
        (8, &[0xf0, 0x48, 0x0f, 0xc1, 0x05], &[]),        // lock xadd %rax,d(%rip)
        (16, &[0x0f, 0x11, 0x05], &[]),                   // movups %xmm0,d(%rip)
        (64, &[0x62, 0xf1, 0x7c, 0x48, 0x11, 0x05], &[]), // vmovups %zmm0,d(%rip)
        (108, &[0xdd, 0x35], &[]),                        // fnsave d(%rip)
    ];
    let (mut accepted, mut refused, mut count) = (0, 0, 0);
    for (width, before, behind) in forms.into_iter().filter(|(width, ..)| *width != 64 || has_avx512()) {
        count += 1;
        let length = (before.len() + 4 + behind.len()) as u64;
        let mut at = |text: u64, target: i64| {
            let distance = i32::try_from(target - (text + length) as i64).expect("within 2 GiB");
            let code = [before, &distance.to_le_bytes(), behind].concat();
            let anchors = Anchors::EXAMPLE;
            let text_of = FinalText { bytes: &code, offset: text, gateways: &[], slots: &[], anchors };
            let fine = verify_text(&text_of, &Options { mode: Mode::Full, ..Options::default() }).is_ok();
            *if fine { &mut accepted } else { &mut refused } += 1;
            let exit = machine.run_code(&window, text, &code, registers());
            let what = format!("{code:02x?} at {text:#x} to {target:#x}");
            assert!(exit.is_write(), "{what}: {exit:x?}");
            // The processor names any byte of those that it cannot write.
            let from = exit.address.wrapping_sub(window.base.wrapping_add_signed(target));
            assert!(from < width, "{what}: {exit:x?}");
            assert_eq!(fine, (0..=WINDOW as i64 - 128).contains(&target), "{what}");
            if fine {
                assert!(exit.address - window.base <= WINDOW - width, "{what}: {exit:x?}");
            }
        };
        for target in [0, 1, 0x1000, 0x7000_0000, -1, -(width as i64), 1 - width as i64, -4096] {
            at(TEXT, target);
        }
        let end = WINDOW as i64;
        for target in [end - 128, end - 127, end - width as i64 + 1, end - 1, end, end + 4096, 0x8000_0000] {
            at(WINDOW - 16 * PAGE, target);
        }
    }
    // One target of the store of one byte is the window's start once more.
    assert_eq!((accepted, refused), (6 * count + 1, 9 * count - 1));
}

/// Stores by `mov %rax,%gs:disp32` with 32-bit address size: the displacement is not sign-extended
/// beyond 32 bits.
fn absolute_store() {
    let (mut machine, window) = (Machine::new(), Window::new());
    for displacement in [0x40u32, 0x8000_0000, 0xffff_fff0] {
        let mut code = vec![0x65, 0x67, 0x48, 0x89, 0x04, 0x25];
        code.extend_from_slice(&displacement.to_le_bytes());
        let exit = machine.run_code(&window, TEXT, &code, registers());
        assert_store_at(&window, &exit, u64::from(displacement), &format!("{displacement:#x}"));
    }
}

/// Checks that EVEX multiplies a one-byte displacement by the operand's size before the truncation.
fn compressed_displacement() {
    let (mut machine, window) = (Machine::new(), Window::new());
    // vmovups %zmm0, %gs:disp8*64(%edi)
    for displacement in [1i8, -1, 127, -128] {
        let code = [0x65, 0x67, 0x62, 0xf1, 0x7c, 0x48, 0x11, 0x47, displacement as u8];
        for base in [0u64, 64, 0x1_0000_0040, u64::MAX - 63] {
            let mut start = registers();
            start.gpr[RDI] = base;
            let exit = machine.run_code(&window, TEXT, &code, start);
            let offset = base.wrapping_add((i64::from(displacement) * 64) as u64) & 0xffff_ffff;
            assert_store_at(&window, &exit, offset, &format!("{base:#x} + {displacement} * 64"));
        }
    }
}

/// Checks that a store in the window's last bytes does not wrap. It runs on and hits the guard, and
/// no byte is written.
///
/// Some processors (AMD family 25) make a wide store in parts, and truncate the address of each: a
/// part then lies at the window's start, which is never mapped.
fn stores_run_past_the_end_into_the_guard() {
    let (mut machine, window) = (Machine::new(), Window::new());
    window.open(WINDOW - PAGE, PAGE);
    let cases: [(&str, u64, Vec<u8>); 10] = [
        ("8 bytes", 8, assemble("mov %rax,%gs:(%edi)")),
        ("2 bytes", 2, assemble("mov %ax,%gs:(%edi)")),
        ("add", 8, assemble("add %rax,%gs:(%edi)")),
        ("lock xadd", 8, assemble("lock xadd %rax,%gs:(%edi)")),
        ("fstp", 10, assemble("fldz; fstpt %gs:(%edi)")),
        ("fnsave", 108, vec![0x65, 0x67, 0xdd, 0x37]),
        ("movups", 16, assemble("movups %xmm0,%gs:(%edi)")),
        ("vmovups ymm", 32, assemble("vmovups %ymm0,%gs:(%edi)")),
        ("vmovups zmm", 64, assemble("vmovups %zmm0,%gs:(%edi)")),
        ("vpcompressd", 64, assemble("kxnorw %k1,%k1,%k1; vpcompressd %zmm0,%gs:(%edi){%k1}")),
    ];
    for (what, width, code) in cases.into_iter().filter(|(_, width, _)| *width != 64 || has_avx512()) {
        for inside in [1, width / 2, width - 1] {
            window.write(WINDOW - 128, &[0xaa; 128]);
            let mut start = registers();
            (start.gpr[RDI], start.gpr[RAX]) = (WINDOW - inside, 0x1111_1111_1111_1111);
            let exit = machine.run_code(&window, TEXT, &code, start);
            // vpcompressd stores element by element, and the fault names the first one outside.
            if width > 16 {
                let past = exit.is_write() && is_past_the_end(&window, &exit, width);
                assert!(past, "{what}, {inside} bytes inside: {exit:x?}");
            } else {
                assert_store_at(&window, &exit, WINDOW, &format!("{what}, {inside} bytes inside"));
            }
        }
        // One byte further down it fits.
        let mut start = registers();
        start.gpr[RDI] = WINDOW - width.next_multiple_of(16);
        let exit = machine.run_code(&window, TEXT, &code, start);
        assert_eq!(exit.vector, 3, "{what}: it ends at int3, {exit:x?}");
    }
}

/// Says whether a fault is in the guard, or at the window's start, as the second half of a store.
fn is_past_the_end(window: &Window, exit: &Exit, width: u64) -> bool {
    exit.address.wrapping_sub(window.base) % WINDOW < width
}

/// Checks that masked stores touch their selected elements only: those inside the window are
/// written, any outside faults.
fn masked_stores_at_the_end() {
    let (mut machine, window) = (Machine::new(), Window::new());
    window.open(WINDOW - PAGE, PAGE);
    let evex = assemble("kmovq %rax,%k1; vmovdqu8 %zmm0,%gs:(%edi){%k1}");
    let masks = [(0xffffu64, false), (0x1_0000, true), (1 << 63, true), (0, false), (u64::MAX, true)];
    for (mask, faults) in masks.into_iter().filter(|_| has_avx512()) {
        window.write(WINDOW - 64, &[0xaa; 64]);
        let mut start = registers();
        (start.gpr[RDI], start.gpr[RAX]) = (WINDOW - 16, mask);
        let exit = machine.run_code(&window, TEXT, &evex, start);
        if faults {
            assert!(exit.is_write(), "mask {mask:#x}: {exit:x?}");
            assert!(is_past_the_end(&window, &exit, 64), "mask {mask:#x}: {exit:x?}");
        } else {
            assert_eq!(exit.vector, 3, "mask {mask:#x}: {exit:x?}");
        }
        assert_eq!(window.read(WINDOW - 64, 48), [0xaa; 48]);
    }
    // Every element is selected.
    let vex = assemble("vpcmpeqd %ymm1,%ymm1,%ymm1; vmaskmovps %ymm0,%ymm1,%gs:(%edi)");
    let mut start = registers();
    start.gpr[RDI] = WINDOW - 16;
    let exit = machine.run_code(&window, TEXT, &vex, start);
    assert!(exit.is_write() && is_past_the_end(&window, &exit, 32), "{exit:x?}");
}

/// Returns the string region: `mov %edi,%edi; add %gs:0xff000,%rdi`, then the instruction.
fn string_region(both: bool, instruction: &[u8]) -> Vec<u8> {
    let mut code = Vec::new();
    if both {
        code.extend([0x89, 0xf6, 0x65, 0x48, 0x03, 0x34, 0x25, 0x00, 0xf0, 0x0f, 0x00]);
    }
    code.extend([0x89, 0xff, 0x65, 0x48, 0x03, 0x3c, 0x25, 0x00, 0xf0, 0x0f, 0x00]);
    code.extend(instruction);
    code
}

fn header(window: &Window) {
    window.open(0xf_f000, PAGE);
    window.write(0xf_f000, &window.base.to_le_bytes());
    window.protect(0xf_f000, PAGE, libc::PROT_READ);
}

/// Checks `rep stosq` with a count of 2^61 - 1: it fills the window up to its last byte and stops
/// at the guard.
fn string_store_hits_the_guard() {
    let (mut machine, window) = (Machine::new(), Window::new());
    header(&window);
    window.open(WINDOW - 4 * PAGE, 4 * PAGE);
    for (what, instruction) in [
        ("stosb", &[0xf3, 0xaa][..]),
        ("stosw", &[0x66, 0xf3, 0xab]),
        ("stosd", &[0xf3, 0xab]),
        ("stosq", &[0xf3, 0x48, 0xab]),
    ] {
        for start_at in [WINDOW - 4 * PAGE, WINDOW - 3, 0xdead_beef_ffff_ff00] {
            window.write(WINDOW - 4 * PAGE, &[0xaa; 4 * PAGE as usize]);
            let mut start = registers();
            (start.gpr[RDI], start.gpr[RCX], start.gpr[RAX]) = (start_at, u64::MAX >> 3, 0x5555_5555_5555_5555);
            let exit = machine.run_code(&window, TEXT, &string_region(false, instruction), start);
            assert_store_at(&window, &exit, WINDOW, &format!("{what} from {start_at:#x}"));
            assert!(exit.registers.gpr[RDI] - window.base <= WINDOW, "{what}: rdi {:#x}", exit.registers.gpr[RDI]);
            let written = window.read(WINDOW - 4 * PAGE, 4 * PAGE as usize);
            let untouched = (start_at & 0xffff_ffff) - (WINDOW - 4 * PAGE);
            assert!(written[..untouched as usize].iter().all(|b| *b == 0xaa), "{what}: bytes below are untouched");
        }
    }
}

/// Checks `rep movs` whose destination, then whose source, runs off the window.
fn string_copy_hits_the_guard() {
    let (mut machine, window) = (Machine::new(), Window::new());
    header(&window);
    window.open(WINDOW - 4 * PAGE, 4 * PAGE);
    window.open(0x100_0000, 16 * PAGE);
    for instruction in [&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xa5]] {
        let mut start = registers();
        (start.gpr[RSI], start.gpr[RDI], start.gpr[RCX]) = (0x100_0000, 0xffff_ffff_ffff_f000, u64::MAX >> 3);
        let exit = machine.run_code(&window, TEXT, &string_region(true, instruction), start);
        assert_store_at(&window, &exit, WINDOW, "destination");
        let mut start = registers();
        (start.gpr[RSI], start.gpr[RDI], start.gpr[RCX]) = (0xffff_ffff_ffff_f000, 0x100_0000, u64::MAX >> 3);
        let exit = machine.run_code(&window, TEXT, &string_region(true, instruction), start);
        assert!(exit.is_page_fault() && !exit.is_write(), "source: {exit:x?}");
        assert_eq!(exit.address, window.base + WINDOW, "source");
    }
}

/// Runs a loop of based loads, accepted by the verifier, towards the window's end. It reads every
/// byte there with any upper half of the address, and the first one after the end faults.
fn based_loads_run_past_the_end_into_the_guard() {
    let (mut machine, window) = (Machine::new(), Window::new());
    header(&window);
    window.open(WINDOW - PAGE, PAGE);
    let load = "1: addr32 mov %gs:0xff000,%rdx; mov %eax,%esi; movzbl 0x7fff(%rdx,%rsi),%ecx; inc %rax; loop 1b";
    let code = assemble(load);
    let text = FinalText { bytes: &code, offset: TEXT, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    let verdict = verify_text(&text, &Options { mode: Mode::Full, ..Options::default() });
    assert!(verdict.is_ok(), "{verdict:?}");
    window.write(WINDOW - PAGE, &[2; PAGE as usize]);
    for garbage in [0, 1 << 32, u64::MAX << 32, 0x7fff_0000_0000_0000] {
        for before in [0, 1, 2, PAGE] {
            let mut start = registers();
            start.gpr[RAX] = garbage | (WINDOW - before - 0x7fff);
            let exit = machine.run_code(&window, TEXT, &code, start);
            assert!(exit.is_page_fault() && !exit.is_write(), "{garbage:#x} {before:#x}: {exit:x?}");
            assert_eq!(exit.address, window.base + WINDOW, "{garbage:#x} {before:#x}");
        }
        // The largest sum. The next number is 0, as the index has 32 bits.
        let mut start = registers();
        start.gpr[RAX] = garbage | 0xffff_ffff;
        let exit = machine.run_code(&window, TEXT, &code, start);
        assert!(exit.is_page_fault() && !exit.is_write(), "{garbage:#x}: {exit:x?}");
        assert_eq!(exit.address, window.base + WINDOW + 0x7ffe, "{garbage:#x}");
    }
}

/// Runs the two instructions of the region alone.
fn rebased_pointer_is_in_the_window() {
    let (mut machine, window) = (Machine::new(), Window::new());
    header(&window);
    for value in [0u64, u64::MAX, 1 << 31, 1 << 63, 0x1234_5678_9abc_def0] {
        let mut start = registers();
        (start.gpr[RDI], start.gpr[RSI]) = (value, !value);
        let exit = machine.run_code(&window, TEXT, &string_region(true, &[]), start);
        assert_eq!(exit.vector, 3, "{exit:x?}");
        assert_eq!(exit.registers.gpr[RDI], window.base + (value & 0xffff_ffff));
        assert_eq!(exit.registers.gpr[RSI], window.base + (!value & 0xffff_ffff));
    }
}

/// Runs `and $0xffff8,%R; call|jmp *%gs:0x100000(%R)` with garbage in the upper half and the low
/// bits.
fn dispatch_ignores_the_upper_half() {
    let (mut machine, window) = (Machine::new(), Window::new());
    window.open(0x10_0000, 256 * PAGE);
    let landing = window.base + TEXT + 0x800;
    for (call, code) in [
        (true, assemble("and $0xffff8,%ecx; call *%gs:0x100000(%ecx)")),
        (false, assemble("and $0xffff8,%ecx; jmp *%gs:0x100000(%ecx)")),
    ] {
        for slot in [0u64, 8, 0x7_fff8, 0xf_fff8] {
            for garbage in [0u64, 7, 0xffff_ffff_fff0_0000, 0x8000_0000_0000_0005, 0x1_0000_0000] {
                window.discard(0x10_0000, 256 * PAGE);
                window.write(0x10_0000 + slot, &landing.to_le_bytes());
                let mut start = registers();
                start.gpr[RCX] = slot | garbage;
                // The landing place must be `int3`. The kernel fills the code's page with zeros, so
                // it is written first.
                window.protect(TEXT, 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE);
                window.write(TEXT + 0x800, &[0xcc]);
                let exit = machine.run_code(&window, TEXT, &code, start);
                assert_eq!(
                    (exit.vector, exit.registers.rip),
                    (3, landing + 1),
                    "slot {slot:#x}, {garbage:#x}: {exit:x?}"
                );
                assert_eq!(exit.registers.gpr[RSP], start.gpr[RSP] - if call { 8 } else { 0 });
            }
        }
    }
}

/// Checks that the load lies in the 1 MiB of the table for any value of the register: an unmapped
/// table faults there and nowhere else.
fn dispatch_stays_in_its_table() {
    let (mut machine, window) = (Machine::new(), Window::new());
    let code = assemble("and $0xffff8,%r8d; jmp *%gs:0x100000(%r8d)");
    let mut value = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..1000 {
        value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut start = registers();
        start.gpr[8] = value;
        let exit = machine.run_code(&window, TEXT, &code, start);
        let offset = exit.address.wrapping_sub(window.base);
        assert!(exit.is_page_fault() && !exit.is_write(), "{value:#x}: {exit:x?}");
        assert_eq!(offset, 0x10_0000 + (value & 0xf_fff8), "{value:#x}");
    }
}

/// Shows why the loader resets the x87 state at crossings: `fnstenv` stores the address of the last
/// x87 instruction, whichever domain ran it.
fn x87_environment_names_the_last_instruction() {
    let (mut machine, window) = (Machine::new(), Window::new());
    window.open(0x100_0000, PAGE);
    let code = assemble("fldz; fnstenv %gs:(%edi); fninit; fnstenv %gs:(%esi)");
    let mut start = registers();
    (start.gpr[RDI], start.gpr[RSI]) = (0x100_0000, 0x100_0100);
    let exit = machine.run_code(&window, TEXT, &code, start);
    assert_eq!(exit.vector, 3, "{exit:x?}");
    let pointer = |offset: u64| u32::from_le_bytes(window.read(offset + 12, 4).try_into().expect("four bytes"));
    assert_eq!(pointer(0x100_0000), (window.base + TEXT) as u32, "the address of fldz");
    assert_eq!(pointer(0x100_0100), 0, "fninit forgets it");
}

/// Executes the cases in which one decoder of `tests/heads/known.rs` reads another operand than the
/// others.
fn decoders_that_stand_alone_are_wrong() {
    let (mut machine, window) = (Machine::new(), Window::new());
    window.open(0x100_0000, PAGE);
    let mut run = |prefixes: &[u8], rest: &[u8]| {
        window.write(0x100_0000, &[0xaa; 64]);
        let mut start = registers();
        (start.gpr[RDI], start.gpr[RAX], start.gpr[13]) = (0x100_0000, u64::MAX, 0x200_0000);
        let exit = machine.run_code(&window, TEXT, &[prefixes, rest].concat(), start);
        assert_eq!(exit.vector, 3, "{prefixes:02x?} {rest:02x?}: {exit:x?}");
        window.read(0x100_0000, 64).iter().filter(|byte| **byte != 0xaa).count()
    };
    for order in [[0x66, 0x65, 0x67], [0x65, 0x66, 0x67], [0x67, 0x65, 0x66], [0x66, 0x67, 0x65]] {
        // pcmpeqd %xmm0,%xmm0, then movntdq %xmm0,%gs:(%edi): 16 bytes, not the 8 of movntq
        let ones = [0x66, 0x0f, 0x76, 0xc0];
        let code = [&ones[..], &order, &[0x48, 0x0f, 0xe7, 0x07]].concat();
        assert_eq!(run(&[], &code), 16, "{order:02x?}");
        // mov %ax,%gs:(%edi): 2 bytes
        assert_eq!(run(&order, &[0x40, 0x89, 0x07]), 2, "{order:02x?}");
    }
    // REX.B with base 5 in the mode without a displacement: there is no base, and it is not r13d.
    assert_eq!(run(&[0x65, 0x67], &[0x41, 0x89, 0x04, 0x25, 0, 0, 0, 1]), 4);
    // 67 before a VEX prefix of two bytes does not change it. vpcmpeqd %xmm0,%xmm0,%xmm0; vmovdqa
    // %xmm0,%gs:(%edi)
    assert_eq!(run(&[], &[0xc5, 0xf9, 0x76, 0xc0, 0x65, 0x67, 0xc5, 0xf9, 0x7f, 0x07]), 16);
}
