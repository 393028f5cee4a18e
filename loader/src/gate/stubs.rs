//! Gateway stubs: the only code of a window that is not verified, and the only way out of it. They
//! hold no secret.
//!
//! The stub area begins on the first page of the text segment. It holds the trap for unused
//! dispatch slots, the answer to system calls of domains without an arbiter, the three stubs of the
//! control stack, then one stub per import. A stub has 32 bytes, and [`RETURN`] and [`CUT`] have
//! 64.
//!
//! # The control stack's stubs
//!
//! Let *part* be the words between rsp and `context.top`, the frame that entered the domain,
//! without the last one, which is the return address into the gate. Only `call` of the domain's
//! verified text puts words there, because gates remove the words that they push. Only `ret` and
//! [`CUT`] remove them. So every word of the part is the address after a call of the domain.
//!
//! - [`DEPTH`] returns their number.
//! - [`RETURN`] returns one of them. The dispatch table shows the domain such addresses anyway,
//!   with their base.
//! - [`CUT`] drops the innermost of them and jumps to a slot. It compares the new length with the
//!   part's length as unsigned numbers, so the new length is between 0 and the present one. rsp
//!   stays within the part, aligned, at or below the return address into the gate. So the effect is
//!   that of some returns of the domain. The jump is an indirect jump like any other, into the
//!   window, and its faults are the domain's. No value that a domain keeps (`jmp_buf`, unwind
//!   tables) is trusted.
//!
//! A callee's part begins at its own frame, so no domain can cut across a crossing.

use crate::gate::ids::{BindingId, Id};
use crate::gate::records::{BINDINGS_OFFSET, Binding, CONTROL_SIZE, Context};
use core::mem::offset_of;
use sfi_contract::layout::DISPATCH_MASK;

/// Bytes of a stub.
const STUB: u64 = 32;
/// Offset of the trap.
pub(crate) const TRAP: u64 = 0;
/// Offset of the stub that answers ENOSYS to a system call.
pub(crate) const SYSCALL: u64 = STUB;
/// Offset of [`sfi_contract::names::DEPTH`].
pub(crate) const DEPTH: u64 = 2 * STUB;
/// Offset of [`sfi_contract::names::RETURN`].
pub(crate) const RETURN: u64 = 3 * STUB;
/// Offset of [`sfi_contract::names::CUT`].
pub(crate) const CUT: u64 = 5 * STUB;
/// Offset of the first import's stub.
const IMPORTS: u64 = 7 * STUB;
/// Offset of the trap of [`RETURN`], its last two bytes.
pub(crate) const RETURN_TRAP: u64 = CUT - 2;
/// Offset of the trap of [`CUT`], its last two bytes.
pub(crate) const CUT_TRAP: u64 = IMPORTS - 2;
/// Offsets of the stubs before those of imports.
pub(crate) const FIXED: [u64; 5] = [TRAP, SYSCALL, DEPTH, RETURN, CUT];
/// `ud2`
const UD2: [u8; 2] = [0x0f, 0x0b];
/// `-ENOSYS`.
const ENOSYS: i32 = -38;

/// Returns the offset of an import's stub.
pub(crate) fn import(index: usize) -> u64 {
    IMPORTS + STUB * index as u64
}

/// Returns the bytes of the area. Text begins after it.
pub(crate) fn size(imports: usize) -> u64 {
    import(imports).next_multiple_of(64)
}

/// Bytes of an IFUNC's stub.
pub(crate) const CHOICE: u64 = 16;

/// Returns the bytes of the stubs of IFUNCs, which follow the area.
pub(crate) fn choices_size(choices: usize) -> u64 {
    (CHOICE * choices as u64).next_multiple_of(64)
}

/// Returns the stub of an IFUNC. It jumps to the function in a dispatch slot of its own, which is
/// the trap until the resolver has chosen.
pub(crate) fn choice(slot: u64) -> [u8; CHOICE as usize] {
    let mut code = [0xcc; CHOICE as usize];
    // jmp *%gs:slot
    code[..4].copy_from_slice(&[0x65, 0xff, 0x24, 0x25]);
    code[4..8].copy_from_slice(&(slot as u32).to_le_bytes());
    code
}

/// A gateway stub's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    /// Its binding in the world.
    pub binding: BindingId,
    /// The kind of target that it may lead to.
    pub way: Way,
}

/// The kinds of targets that a stub may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One function of another domain, for ever.
    Domain,
    /// One function of the host, for ever.
    Host,
    /// The target of the binding, which is made and undone at run time.
    Binding,
}

/// Returns the stub area of a domain. `dispatch` is the window offset of its dispatch table's
/// block.
pub(crate) fn emit(stubs: &[Stub], dispatch: u64) -> Vec<u8> {
    let mut bytes = vec![0xcc; size(stubs.len()) as usize];
    for trap in [TRAP, RETURN_TRAP, CUT_TRAP] {
        bytes[trap as usize..][..2].copy_from_slice(&UD2);
    }
    // mov $-ENOSYS,%rax
    // ret
    let mut refuse = vec![0x48, 0xc7, 0xc0];
    refuse.extend_from_slice(&ENOSYS.to_le_bytes());
    refuse.push(0xc3);
    for (offset, code) in [(SYSCALL, refuse), (DEPTH, depth()), (RETURN, return_address()), (CUT, cut(dispatch))] {
        bytes[offset as usize..][..code.len()].copy_from_slice(&code);
    }
    for (i, stub) in stubs.iter().enumerate() {
        let code = gateway(stub);
        bytes[import(i) as usize..][..code.len()].copy_from_slice(&code);
    }
    bytes
}

/// Sets `r11` to the control stack's header.
fn header(code: &mut Vec<u8>) {
    // mov %rsp,%r11
    code.extend_from_slice(&[0x49, 0x89, 0xe3]);
    // and $-CONTROL_SIZE,%r11
    code.extend_from_slice(&[0x49, 0x81, 0xe3]);
    code.extend_from_slice(&(-(CONTROL_SIZE as i32)).to_le_bytes());
}

/// Returns the stub [`sfi_contract::names::DEPTH`].
fn depth() -> Vec<u8> {
    let mut code = Vec::new();
    header(&mut code);
    // mov TOP(%r11),%rax
    code.extend_from_slice(&[0x49, 0x8b, 0x43, offset_of!(Context, top) as u8]);
    // sub %rsp,%rax
    // shr $3,%rax
    // dec %rax
    code.extend_from_slice(&[0x48, 0x29, 0xe0, 0x48, 0xc1, 0xe8, 3, 0x48, 0xff, 0xc8]);
    // xor %r11d,%r11d
    // ret
    code.extend_from_slice(&[0x45, 0x31, 0xdb, 0xc3]);
    code
}

/// Returns the stub [`sfi_contract::names::RETURN`].
fn return_address() -> Vec<u8> {
    let mut code = Vec::new();
    header(&mut code);
    // mov TOP(%r11),%r11
    code.extend_from_slice(&[0x4d, 0x8b, 0x5b, offset_of!(Context, top) as u8]);
    // mov %r11,%rax
    // sub %rsp,%rax
    // shr $3,%rax
    // dec %rax
    // cmp %rax,%rdi
    code.extend_from_slice(&[
        0x4c, 0x89, 0xd8, 0x48, 0x29, 0xe0, 0x48, 0xc1, 0xe8, 3, 0x48, 0xff, 0xc8, 0x48, 0x39, 0xc7,
    ]);
    // jae RETURN_TRAP
    code.extend_from_slice(&[0x73, (RETURN_TRAP - RETURN) as u8 - code.len() as u8 - 2]);
    // neg %rdi
    // mov -16(%r11,%rdi,8),%rax
    // neg %rdi
    code.extend_from_slice(&[0x48, 0xf7, 0xdf, 0x49, 0x8b, 0x44, 0xfb, 0xf0, 0x48, 0xf7, 0xdf]);
    // xor %r11d,%r11d
    // ret
    code.extend_from_slice(&[0x45, 0x31, 0xdb, 0xc3]);
    code
}

/// Returns the stub [`sfi_contract::names::CUT`].
fn cut(dispatch: u64) -> Vec<u8> {
    let mut code = Vec::new();
    header(&mut code);
    // mov TOP(%r11),%r11
    code.extend_from_slice(&[0x4d, 0x8b, 0x5b, offset_of!(Context, top) as u8]);
    // mov %r11,%r10
    // sub %rsp,%r10
    // shr $3,%r10
    // dec %r10
    // cmp %r10,%rdi
    code.extend_from_slice(&[
        0x4d, 0x89, 0xda, 0x49, 0x29, 0xe2, 0x49, 0xc1, 0xea, 3, 0x49, 0xff, 0xca, 0x4c, 0x39, 0xd7,
    ]);
    // ja CUT_TRAP
    code.extend_from_slice(&[0x77, (CUT_TRAP - CUT) as u8 - code.len() as u8 - 2]);
    // neg %rdi
    // lea -8(%r11,%rdi,8),%rsp
    code.extend_from_slice(&[0x48, 0xf7, 0xdf, 0x49, 0x8d, 0x64, 0xfb, 0xf8]);
    // xor %r10d,%r10d
    // xor %r11d,%r11d
    // xor %edi,%edi
    code.extend_from_slice(&[0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb, 0x31, 0xff]);
    // and $DISPATCH_MASK,%esi
    code.extend_from_slice(&[0x81, 0xe6]);
    code.extend_from_slice(&DISPATCH_MASK.to_le_bytes());
    // jmp *%gs:dispatch(%esi)
    code.extend_from_slice(&[0x65, 0x67, 0xff, 0xa6]);
    code.extend_from_slice(&(dispatch as u32).to_le_bytes());
    code
}

/// Returns a gateway stub. r10 and r11 are free at a call between objects (psABI 3.2.1).
fn gateway(stub: &Stub) -> Vec<u8> {
    let mut code = Vec::with_capacity(STUB as usize);
    header(&mut code);
    // lea BINDING(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8d, 0x93]);
    let offset = BINDINGS_OFFSET + (stub.binding.place() * size_of::<Binding>()) as u64;
    code.extend_from_slice(&(offset as u32).to_le_bytes());
    // jmp *GATE(%r10)
    const GATE: usize = offset_of!(Binding, gate);
    const { assert!(GATE < 128, "a displacement of one byte") };
    code.extend_from_slice(&[0x41, 0xff, 0x62, GATE as u8]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

    #[test]
    fn stubs_say_what_the_comments_say() {
        let stubs = [(3, Way::Domain), (30_000, Way::Host), (5, Way::Binding)];
        let bytes = emit(&stubs.map(|(binding, way)| Stub { binding: BindingId::of(binding), way }), 0x10_0000);
        let text = |offset: u64, count: usize| {
            let mut decoder = Decoder::with_ip(64, &bytes[offset as usize..], offset, DecoderOptions::NONE);
            let mut formatter = GasFormatter::new();
            (0..count)
                .map(|_| {
                    let mut line = String::new();
                    formatter.format(&decoder.decode(), &mut line);
                    line
                })
                .collect::<Vec<_>>()
        };
        let lea = format!("lea 0x{:X}(%r11),%r10", 4096 + 3 * size_of::<Binding>());
        let jump = format!("jmpq *0x{:X}(%r10)", offset_of!(Binding, gate));
        assert_eq!(text(import(0), 4), ["mov %rsp,%r11", "and $0xFFFFFFFFFFC00000,%r11", &lea, &jump]);
        assert_eq!([text(import(1), 4)[3].as_str(), &text(import(2), 4)[3]], [&jump[..]; 2]);
        let stub = choice(0x10_0008);
        let mut line = String::new();
        GasFormatter::new().format(&Decoder::new(64, &stub, DecoderOptions::NONE).decode(), &mut line);
        assert_eq!(line, "jmpq *%gs:0x100008");
        assert_eq!(text(TRAP, 1), ["ud2"]);
        assert_eq!(text(SYSCALL, 2), ["mov $0xFFFFFFFFFFFFFFDA,%rax", "ret"]);
        let head = ["mov %rsp,%r11", "and $0xFFFFFFFFFFC00000,%r11"];
        let check = |offset: u64, lines: &[&str]| {
            let all: Vec<&str> = head.iter().chain(lines).copied().collect();
            assert_eq!(text(offset, all.len()), all);
        };
        let top = offset_of!(Context, top);
        let load_top = format!("mov 0x{top:X}(%r11),%r11");
        let count = ["sub %rsp,%rax", "shr $3,%rax", "dec %rax"];
        check(DEPTH, &[&[&format!("mov 0x{top:X}(%r11),%rax")[..]], &count[..], &["xor %r11d,%r11d", "ret"]].concat());
        let at = format!("jae 0x{RETURN_TRAP:016X}");
        let load = ["neg %rdi", "mov -0x10(%r11,%rdi,8),%rax", "neg %rdi", "xor %r11d,%r11d", "ret"];
        let lines = [&[&load_top[..], "mov %r11,%rax"], &count[..], &["cmp %rax,%rdi", &at], &load[..]];
        check(RETURN, &lines.concat());
        let at = format!("ja 0x{CUT_TRAP:016X}");
        let count = [&load_top[..], "mov %r11,%r10", "sub %rsp,%r10", "shr $3,%r10", "dec %r10", "cmp %r10,%rdi", &at];
        let jump = ["neg %rdi", "lea -8(%r11,%rdi,8),%rsp", "xor %r10d,%r10d", "xor %r11d,%r11d", "xor %edi,%edi"];
        check(CUT, &[&count[..], &jump[..], &["and $0xFFFF8,%esi", "jmpq *%gs:0x100000(%esi)"]].concat());
        assert_eq!((text(RETURN_TRAP, 1), text(CUT_TRAP, 1)), (vec!["ud2".to_owned()], vec!["ud2".to_owned()]));
        assert!(
            depth().len() <= (RETURN - DEPTH) as usize && return_address().len() <= (RETURN_TRAP - RETURN) as usize
        );
        assert!(cut(0x10_0000).len() <= (CUT_TRAP - CUT) as usize);
        assert!(gateway(&Stub { binding: BindingId::FIRST, way: Way::Host }).len() <= STUB as usize);
    }
}
