//! Cycles of a load or store by the form of its address, and of a write of the GS base.
//!
//! A sandboxed access adds the window's base to a 32-bit offset. Three forms can do that: the GS
//! override, a base register with the offset as index, and such a register after an instruction
//! that truncates the address. Processors differ in which one is free, so the choice of the form
//! is a choice for a processor.
//!
//! Three cycles are a link of a chain of multiplications (newer processors join additions of
//! constants). So the clock's frequency does not matter. Each figure is the least of many short
//! rounds, which other work on the machine does not change. The kernel must allow `wrgsbase`
//! (FSGSBASE).

use anyhow::ensure;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::arch::asm;
use std::ptr::null_mut;
use std::time::Instant;

/// Rounds of each form, in turn with all others.
const ROUNDS: usize = 400;
/// Times that a round executes its form, a multiple of 16.
const TIMES: u64 = 1 << 16;
/// Offset of the accessed words from the window's base.
const PLACE: usize = 0x1000_0000;
/// Cycles of the first form.
const MULTIPLICATION: f64 = 3.0;

/// The addresses that a form works with. `base` is also the GS base.
#[derive(Clone, Copy)]
struct Window {
    base: u64,
}

impl Window {
    /// Maps one page of a 4 GiB-aligned window and makes the window's base the GS base.
    fn new() -> anyhow::Result<Window> {
        const SIZE: usize = 1 << 32;
        // SAFETY: a new mapping at a place of the kernel's choice. It lives as long as the process.
        let start = unsafe { mmap_anonymous(null_mut(), 2 * SIZE, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let base = (start as usize).next_multiple_of(SIZE);
        let place = (base + PLACE) as *mut [u64; 4];
        // SAFETY: the page lies in the mapping, and nothing else knows it.
        unsafe {
            mprotect(place.cast(), 4096, MprotectFlags::READ | MprotectFlags::WRITE)?;
            // Two words that point to the first one, and two zeros.
            place.write([place as u64, place as u64, 0, 0]);
        }
        // SAFETY: no code of this process uses GS.
        let set = unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1001, base) };
        ensure!(set == 0, "cannot set the GS base: {}", std::io::Error::last_os_error());
        Ok(Window { base: base as u64 })
    }
}

/// A measured form: its name, and a function that executes it [`TIMES`] times.
type Form = (&'static str, fn(Window));

/// Builds the list of forms. In each rax, rcx and r8 point to the words, r15 is their offset, r14
/// the window's base, and rdx 0. A form may change rax, rdx and r9 to r11.
macro_rules! forms {
    ($( $name:literal = $code:literal; )*) => {
        const FORMS: &[Form] = &[ $( ($name, |window| {
            // SAFETY: the form accesses the mapped words only, and changes no register but those
            // that are named here. `forms!` has the list.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    ".rept 16",
                    $code,
                    ".endr",
                    "sub $16, {count}",
                    "jnz 2b",
                    count = inout(reg) TIMES => _,
                    inout("rax") window.base + PLACE as u64 => _,
                    in("rcx") window.base + PLACE as u64,
                    in("r8") window.base + PLACE as u64,
                    inout("rdx") 0_u64 => _,
                    out("r9") _,
                    out("r10") _,
                    out("r11") _,
                    in("r14") window.base,
                    in("r15") PLACE as u64,
                    options(att_syntax, nostack),
                );
            }
        }), )* ];
    };
}

forms! {
    "one multiplication" = "imul %rdx, %rdx";
    "chain of loads, (%rax)" = "mov (%rax), %rax";
    "chain of loads, %gs:(%eax)" = "mov %gs:(%eax), %rax";
    "chain of loads, mov %eax,%r11d; %gs:(%r11)" = "mov %eax, %r11d; mov %gs:(%r11), %rax";
    "chain of loads, mov %eax,%r11d; (%r14,%r11)" = "mov %eax, %r11d; mov (%r14,%r11), %rax";
    "chain of loads, 8(%rax)" = "mov 8(%rax), %rax";
    "chain of loads, %gs:8(%eax)" = "mov %gs:8(%eax), %rax";
    "chain of loads, mov %eax,%r11d; 8(%r14,%r11)" = "mov %eax, %r11d; mov 8(%r14,%r11), %rax";
    "chain of loads, lea 8(%rax),%r11d; (%r14,%r11)" = "lea 8(%rax), %r11d; mov (%r14,%r11), %rax";
    "chain of loads, 8(%rax,%rdx,8)" = "mov 8(%rax,%rdx,8), %rax; xor %edx, %edx";
    "chain of loads, %gs:8(%eax,%edx,8)" = "mov %gs:8(%eax,%edx,8), %rax; xor %edx, %edx";
    "chain of loads, lea 8(%rax,%rdx,8),%r11d; (%r14,%r11)" =
        "lea 8(%rax,%rdx,8), %r11d; mov (%r14,%r11), %rax; xor %edx, %edx";
    "two loads, 8(%rcx)" = "mov (%rcx), %r9; mov 8(%r8), %r10";
    "two loads, %gs:8(%ecx)" = "mov %gs:(%ecx), %r9; mov %gs:8(%r8d), %r10";
    "two loads, 8(%r14,%r15)" = "mov (%r14,%r15), %r9; mov 8(%r14,%r15), %r10";
    "two stores, 16(%rcx)" = "mov %rdx, 16(%rcx); mov %rdx, 24(%r8)";
    "two stores, %gs:16(%ecx)" = "mov %rdx, %gs:16(%ecx); mov %rdx, %gs:24(%r8d)";
    "two stores, 16(%r14,%r15)" = "mov %rdx, 16(%r14,%r15); mov %rdx, 24(%r14,%r15)";
    "store and load again, 16(%rcx)" = "mov %rdx, 16(%rcx); mov 16(%rcx), %rdx";
    "store and load again, %gs:16(%ecx)" = "mov %rdx, %gs:16(%ecx); mov %gs:16(%ecx), %rdx";
    "store and load again, 16(%r14,%r15)" = "mov %rdx, 16(%r14,%r15); mov 16(%r14,%r15), %rdx";
    "wrgsbase" = "wrgsbase %r14";
}

fn main() -> anyhow::Result<()> {
    const { assert!(TIMES.is_multiple_of(16)) };
    let window = Window::new()?;
    let mut least = vec![f64::MAX; FORMS.len()];
    for _ in 0..ROUNDS {
        for ((_, execute), least) in FORMS.iter().zip(&mut least) {
            let start = Instant::now();
            execute(window);
            *least = least.min(start.elapsed().as_nanos() as f64);
        }
    }
    let cycle = least[0] / MULTIPLICATION;
    for ((name, _), nanoseconds) in FORMS.iter().zip(&least) {
        println!("{name:<54} {:>6.2} cycles {:>7.2} ns", nanoseconds / cycle, nanoseconds / TIMES as f64);
    }
    Ok(())
}
