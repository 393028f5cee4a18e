//! Domains for tests of worlds with lanes.
#![allow(dead_code)]

use crate::common::{assemble, function};
use sfi_loader::{Builder, DomainSpec, LaneFn, Lanes, World};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A function of one word.
pub type Unary = LaneFn<fn(u64) -> u64>;

/// Keeps the other tests of the process out, because mappings and processors are everybody's.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Functions of every test's domains.
///
/// - `add(a, b)`
/// - `meet(own, other)` notes that the caller `own` is here and waits for `other`: 1 if both are.
/// - `keep(word, own, other)` writes the word to the data stack and the TCB page, meets the other
///   caller, and reads both back: 1 if nobody changed them.
/// - `pointer()` gives the thread pointer.
/// - `spin()`, `fault()`
/// - `count()` adds 1 to a word, by a load and a store.
/// - `error()` gives `__sfi_error`.
pub fn text() -> String {
    let mut text = function("add", "lea (%rdi,%rsi),%rax\nret");
    text += &function("meet", "mov %esi,%edx\nmov %edi,%esi\njmp wait");
    let wait = "lea flags(%rip),%rcx
        movl $1,%gs:(%ecx,%esi,4)
        mov $0x7fffffff,%edi
        1: mov (%rcx,%rdx,4),%eax
        test %eax,%eax
        jnz 2f
        dec %edi
        jnz 1b
        2: ret";
    text += &function("wait", wait);
    let keep = "mov %rdi,%gs:-64(%r15d)
        addr32 mov %rdi,%gs:__sfi_tcb+0x200
        mov %rdi,%r8
        call wait
        xor %ecx,%ecx
        cmp %gs:-64(%r15d),%r8
        cmovne %ecx,%eax
        addr32 cmp %gs:__sfi_tcb+0x200,%r8
        cmovne %ecx,%eax
        ret";
    text += &function("keep", keep);
    text += &function("pointer", "addr32 mov %gs:__sfi_tcb,%rcx\nmov %rcx,%rax\nret");
    text += &function("spin", "lea flags(%rip),%rcx\nmovl $1,%gs:(%ecx,%edi,4)\n1: jmp 1b");
    text += &function("fault", "xor %ecx,%ecx\nmovl $1,%gs:16(%ecx)\nret");
    text += &function("count", "lea counter(%rip),%rcx\nmov (%rcx),%rax\ninc %rax\nmov %rax,%gs:(%ecx)\nret");
    text += &function("error", "addr32 mov %gs:__sfi_error,%ecx\nmov %ecx,%eax\nret");
    text + ".data\n.globl flags\nflags: .fill 64,4,0\n.globl counter\ncounter: .quad 0\n"
}

pub fn domain(name: &str, more: &str) -> DomainSpec {
    DomainSpec::new(name).object("text.o", assemble(&(text() + ".text\n" + more)))
}

pub fn lanes(count: usize, specs: impl IntoIterator<Item = DomainSpec>) -> Lanes {
    specs.into_iter().fold(World::builder(), Builder::domain).lanes(count).unwrap()
}

pub fn two(name: &str, function: &str) -> LaneFn<fn(u64, u64) -> u64> {
    LaneFn::new(name, function)
}
