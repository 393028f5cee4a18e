//! Gateway stubs: the only code of a window that is not verified, and the only way out of it. They
//! hold no secret.
//!
//! The stub area begins on the first page of the text segment. It holds the trap for unused
//! dispatch slots, the answer to system calls of domains without an arbiter, the five stubs of the
//! control stack, then one stub per import. A stub has 32 bytes, the traps and [`RETURN`] have 64,
//! [`BRING`] 96, [`CUT`] and [`KEEP`] 128.
//!
//! # The control stack's stubs
//!
//! Let *part* be the words between rsp and `context.top`, the frame that entered the domain,
//! without the last one, which is the return address into the gate. Only `call` and `push` of the
//! domain's verified text put words there, because gates remove the words that they push. Only
//! `ret`, `pop`, [`CUT`] and [`BRING`] remove them. So each word is a return address, the address
//! after a call of the domain, or a register that the domain saved. By rule `SFI-C03` they can be
//! told apart: from the innermost return address upwards, above each return address lie as many
//! saved words as the text has at that call ([`crate::gate::depths`]), and then the return address
//! of the function that made the call. Where a stub begins, rsp is at a return address. This
//! *order* is what stubs keep.
//!
//! - [`DEPTH`] returns the number of words.
//! - [`RETURN`] returns one of them. The dispatch table shows the domain return addresses anyway,
//!   with their base, and the others are its own registers.
//! - [`CUT`] drops the innermost of them and jumps to a slot. It compares the new length with the
//!   part's length as unsigned numbers, so the new length is between 0 and the present one. It
//!   walks: it drops a return address with the saved words above it, until the new length is
//!   reached, and traps if the walk passes it. So rsp is always at a return address. It stays
//!   within the part, aligned, at or below the return address into the gate, where the walk would
//!   end. The effect is that of some returns of the domain, and the slot leads to a place where
//!   nothing is saved, as that of any indirect jump. Each step is one instruction, so a walk at a
//!   fault finds the order too. No value that a domain keeps (`jmp_buf`, unwind tables) is trusted.
//! - [`KEEP`] copies the part, without its own return address, to one of the domain's places in
//!   host memory ([`crate::gate::kept`]). It traps unless nothing was saved at the call of it, so
//!   that the copy begins with a return address, as a part does at a jump to a slot.
//! - [`BRING`] puts the copy in the part's place and jumps to a slot. Only [`KEEP`] writes the
//!   places, and a domain that is restarted, reset or loaded again starts with empty ones. So every
//!   part that comes back is in the order of this domain's present text. A copy may come back in
//!   another crossing, and more than once, because it holds no frame. The return address into the
//!   gate stays where it is. The stub compares the new rsp with the floor of the control stack
//!   before anything changes. It sets rsp before it writes the words, so a handler of the host that
//!   runs on this stack writes below them.
//!
//! [`CUT`] and [`KEEP`] read depths from a map of the texts that save words. Above other return
//! addresses nothing is saved. They trap in a domain with a text that saves words and is not in the
//! map, which is so only if no object names the stubs.
//!
//! A callee's part begins at its own frame, so no domain can cut across a crossing. A part that
//! waits for a callee cannot be kept or replaced.

use crate::gate::depths::{STEP, TRAPS};
use crate::gate::ids::{BindingId, Id};
use crate::gate::kept::{PART_SHIFT, PART_WORDS};
use crate::gate::records::{BINDINGS_OFFSET, Binding, CONTROL_SIZE, Context, DomainState};
use core::mem::offset_of;
use sfi_contract::layout::DISPATCH_MASK;

/// Bytes of a stub.
const STUB: u64 = 32;
/// Offset of the traps: one for each depth, see [`crate::gate::depths`]. Branches reach the first
/// one only.
pub(crate) const TRAP: u64 = 0;
/// Offset of the stub that answers ENOSYS to a system call.
pub(crate) const SYSCALL: u64 = TRAP + TRAPS;
/// Offset of [`sfi_contract::names::DEPTH`].
pub(crate) const DEPTH: u64 = SYSCALL + STUB;
/// Offset of [`sfi_contract::names::RETURN`].
pub(crate) const RETURN: u64 = DEPTH + STUB;
/// Offset of [`sfi_contract::names::CUT`].
pub(crate) const CUT: u64 = RETURN + 2 * STUB;
/// Offset of [`sfi_contract::names::KEEP`].
pub(crate) const KEEP: u64 = CUT + 4 * STUB;
/// Offset of [`sfi_contract::names::BRING`].
pub(crate) const BRING: u64 = KEEP + 4 * STUB;
/// Offset of the first import's stub.
const IMPORTS: u64 = BRING + 3 * STUB;
/// Offset of the trap of [`RETURN`], its last two bytes.
pub(crate) const RETURN_TRAP: u64 = CUT - 2;
/// Offset of the trap of [`CUT`], its last two bytes.
pub(crate) const CUT_TRAP: u64 = KEEP - 2;
/// Offset of the trap of [`KEEP`], its last two bytes.
pub(crate) const KEEP_TRAP: u64 = BRING - 2;
/// Offset of the trap of [`BRING`], its last two bytes.
pub(crate) const BRING_TRAP: u64 = IMPORTS - 2;
/// Offsets of the stubs before those of imports.
pub(crate) const FIXED: [u64; 7] = [TRAP, SYSCALL, DEPTH, RETURN, CUT, KEEP, BRING];
/// Offset in the area from which on [`BRING`] has moved rsp. The words there may be old ones.
pub(crate) const BRINGING: u64 = BRING + 0x37;
/// `ud2`
const UD2: [u8; 2] = [0x0f, 0x0b];
/// `-ENOSYS`.
const ENOSYS: i32 = -38;

/// Returns a field's offset as a displacement of one byte, which is signed.
const fn disp8(offset: usize) -> u8 {
    assert!(offset < 128, "a displacement of one byte");
    offset as u8
}

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
pub(crate) enum Way {
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
    let traps = (TRAP..TRAP + TRAPS).step_by(STEP as usize);
    for trap in traps.chain([RETURN_TRAP, CUT_TRAP, KEEP_TRAP, BRING_TRAP]) {
        bytes[trap as usize..][..2].copy_from_slice(&UD2);
    }
    // mov $-ENOSYS,%rax
    // ret
    let mut refuse = vec![0x48, 0xc7, 0xc0];
    refuse.extend_from_slice(&ENOSYS.to_le_bytes());
    refuse.push(0xc3);
    let stack = [(DEPTH, depth()), (RETURN, return_address()), (CUT, cut(dispatch)), (KEEP, keep())];
    for (offset, code) in [(SYSCALL, refuse), (BRING, bring(dispatch))].into_iter().chain(stack) {
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
    code.extend_from_slice(&[0x49, 0x8b, 0x43, const { disp8(offset_of!(Context, top)) }]);
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
    code.extend_from_slice(&[0x4d, 0x8b, 0x5b, const { disp8(offset_of!(Context, top)) }]);
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
    // mov TOP(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, top)) }]);
    // sub %rsp,%r10
    // shr $3,%r10
    // dec %r10
    // cmp %r10,%rdi
    code.extend_from_slice(&[0x49, 0x29, 0xe2, 0x49, 0xc1, 0xea, 3, 0x49, 0xff, 0xca, 0x4c, 0x39, 0xd7]);
    // ja CUT_TRAP
    code.extend_from_slice(&[0x77, (CUT_TRAP - CUT) as u8 - code.len() as u8 - 2]);
    // The place of the last word that goes, and 8 more:
    // neg %rdi
    // mov TOP(%r11),%r10
    // lea -8(%r10,%rdi,8),%rdi
    code.extend_from_slice(&[0x48, 0xf7, 0xdf, 0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, top)) }]);
    code.extend_from_slice(&[0x49, 0x8d, 0x7c, 0xfa, 0xf8]);
    // mov CURRENT(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, current)) }]);
    open(&mut code, CUT_TRAP - CUT);
    // again: cmp %rdi,%rsp
    let again = code.len();
    code.extend_from_slice(&[0x48, 0x39, 0xfc]);
    // jae there
    code.extend_from_slice(&[0x73, 0]);
    let there = code.len();
    let outside = mapped(&mut code);
    // movzbl (%r11),%r11d
    // lea 8(%rsp,%r11,8),%rsp
    code.extend_from_slice(&[0x45, 0x0f, 0xb6, 0x1b, 0x4a, 0x8d, 0x64, 0xdc, 8]);
    // jmp again
    code.extend_from_slice(&[0xeb, (again as u8).wrapping_sub(code.len() as u8 + 2)]);
    land(&mut code, outside);
    // outside: add $8,%rsp
    code.extend_from_slice(&[0x48, 0x83, 0xc4, 8]);
    // jmp again
    code.extend_from_slice(&[0xeb, (again as u8).wrapping_sub(code.len() as u8 + 2)]);
    land(&mut code, there);
    // there: jne CUT_TRAP
    code.extend_from_slice(&[0x75, (CUT_TRAP - CUT) as u8 - code.len() as u8 - 2]);
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

/// Returns the code of [`sfi_contract::names::KEEP`].
fn keep() -> Vec<u8> {
    let mut code = Vec::new();
    header(&mut code);
    // mov CURRENT(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, current)) }]);
    // mov TOP(%r11),%rcx
    // sub %rsp,%rcx
    code.extend_from_slice(&[0x49, 0x8b, 0x4b, const { disp8(offset_of!(Context, top)) }, 0x48, 0x29, 0xe1]);
    // Without this call's return address and the one into the gate:
    // sub $16,%rcx
    // cmp $8*PART_WORDS,%rcx
    code.extend_from_slice(&[0x48, 0x83, 0xe9, 16, 0x48, 0x81, 0xf9]);
    code.extend_from_slice(&(8 * PART_WORDS as u32).to_le_bytes());
    // ja KEEP_TRAP
    code.extend_from_slice(&[0x77, (KEEP_TRAP - KEEP) as u8 - code.len() as u8 - 2]);
    // Nothing may have been saved at the call.
    open(&mut code, KEEP_TRAP - KEEP);
    let outside = mapped(&mut code);
    // cmpb $0,(%r11)
    code.extend_from_slice(&[0x41, 0x80, 0x3b, 0]);
    // jne KEEP_TRAP
    code.extend_from_slice(&[0x75, (KEEP_TRAP - KEEP) as u8 - code.len() as u8 - 2]);
    land(&mut code, outside);
    place(&mut code, KEEP_TRAP - KEEP);
    // shr $3,%rcx
    // mov %rcx,(%rdi)
    // add $8,%rdi
    // lea 8(%rsp),%rsi
    // rep movsq
    code.extend_from_slice(&[0x48, 0xc1, 0xe9, 3, 0x48, 0x89, 0x0f, 0x48, 0x83, 0xc7, 8]);
    code.extend_from_slice(&[0x48, 0x8d, 0x74, 0x24, 8, 0xf3, 0x48, 0xa5]);
    // xor %edi,%edi
    // xor %esi,%esi
    // xor %r10d,%r10d
    // xor %r11d,%r11d
    // ret
    code.extend_from_slice(&[0x31, 0xff, 0x31, 0xf6, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb, 0xc3]);
    code
}

/// Appends code that traps, at an offset of the stub, unless the map knows all texts of the domain
/// `r10`.
fn open(code: &mut Vec<u8>, trap: u64) {
    // cmpl $0,CLOSED(%r10)
    code.extend_from_slice(&[0x41, 0x83, 0x7a, const { disp8(offset_of!(DomainState, depths.closed)) }, 0]);
    // jne trap
    code.extend_from_slice(&[0x75, trap as u8 - code.len() as u8 - 2]);
}

/// Appends code that puts into r11 the address of the depth that lies above the return address at
/// rsp, in the map of the domain `r10`. If it is not in the map, it jumps to the place that
/// [`land`] gives it. Returns the end of this jump.
fn mapped(code: &mut Vec<u8>) -> usize {
    // mov (%rsp),%r11d
    // sub LOW(%r10),%r11d
    code.extend_from_slice(&[0x44, 0x8b, 0x1c, 0x24]);
    code.extend_from_slice(&[0x45, 0x2b, 0x5a, const { disp8(offset_of!(DomainState, depths.low)) }]);
    // cmp LENGTH(%r10),%r11d
    code.extend_from_slice(&[0x45, 0x3b, 0x5a, const { disp8(offset_of!(DomainState, depths.length)) }]);
    // jae outside
    code.extend_from_slice(&[0x73, 0]);
    let jump = code.len();
    // shr $2,%r11d
    // add MAP(%r10),%r11
    code.extend_from_slice(&[0x41, 0xc1, 0xeb, const { STEP.trailing_zeros() as u8 }]);
    code.extend_from_slice(&[0x4d, 0x03, 0x5a, const { disp8(offset_of!(DomainState, depths.map)) }]);
    jump
}

/// Lets the jump that ends at an offset lead to the end of the code.
fn land(code: &mut [u8], jump: usize) {
    code[jump - 1] = (code.len() - jump) as u8;
}

/// Appends code that puts the address of place number `rdi` of the domain `r10` into rdi. It traps
/// at an offset of the stub if there is no such place.
fn place(code: &mut Vec<u8>, trap: u64) {
    // cmp PARTS(%r10),%rdi
    code.extend_from_slice(&[0x49, 0x3b, 0x7a, const { disp8(offset_of!(DomainState, parts)) }]);
    // jae trap
    code.extend_from_slice(&[0x73, trap as u8 - code.len() as u8 - 2]);
    // shl $PART_SHIFT,%rdi
    // add PARTS_AT(%r10),%rdi
    code.extend_from_slice(&[
        0x48,
        0xc1,
        0xe7,
        PART_SHIFT,
        0x49,
        0x03,
        0x7a,
        const { disp8(offset_of!(DomainState, parts_at)) },
    ]);
}

/// Returns the code of [`sfi_contract::names::BRING`].
fn bring(dispatch: u64) -> Vec<u8> {
    let mut code = Vec::new();
    header(&mut code);
    // mov CURRENT(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, current)) }]);
    place(&mut code, BRING_TRAP - BRING);
    // mov (%rdi),%rcx
    // mov TOP(%r11),%r10
    code.extend_from_slice(&[0x48, 0x8b, 0x0f, 0x4d, 0x8b, 0x53, const { disp8(offset_of!(Context, top)) }]);
    // neg %rcx
    // lea -8(%r10,%rcx,8),%r10
    // neg %rcx
    code.extend_from_slice(&[0x48, 0xf7, 0xd9, 0x4d, 0x8d, 0x54, 0xca, 0xf8, 0x48, 0xf7, 0xd9]);
    // cmp FLOOR(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x3b, 0x53, const { disp8(offset_of!(Context, floor)) }]);
    // jb BRING_TRAP
    code.extend_from_slice(&[0x72, (BRING_TRAP - BRING) as u8 - code.len() as u8 - 2]);
    // mov %r10,%rsp
    // mov %esi,%r10d
    // lea 8(%rdi),%rsi
    // mov %rsp,%rdi
    // rep movsq
    code.extend_from_slice(&[0x4c, 0x89, 0xd4, 0x41, 0x89, 0xf2, 0x48, 0x8d, 0x77, 8]);
    code.extend_from_slice(&[0x48, 0x89, 0xe7, 0xf3, 0x48, 0xa5]);
    // xor %edi,%edi
    // xor %esi,%esi
    // xor %r11d,%r11d
    code.extend_from_slice(&[0x31, 0xff, 0x31, 0xf6, 0x45, 0x31, 0xdb]);
    // and $DISPATCH_MASK,%r10d
    code.extend_from_slice(&[0x41, 0x81, 0xe2]);
    code.extend_from_slice(&DISPATCH_MASK.to_le_bytes());
    // jmp *%gs:dispatch(%r10d)
    code.extend_from_slice(&[0x65, 0x67, 0x41, 0xff, 0xa2]);
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
    code.extend_from_slice(&[0x41, 0xff, 0x62, const { disp8(offset_of!(Binding, gate)) }]);
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
        for trap in (TRAP..SYSCALL).step_by(4) {
            assert_eq!(text(trap, 1), ["ud2"]);
        }
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
        let current = format!("mov {}(%r11),%r10", offset_of!(Context, current));
        let into = |offset: u64| format!("0x{offset:016X}");
        let state = |instruction: &str, offset: usize, rest: &str| format!("{instruction}0x{offset:X}(%r10){rest}");
        let open = |trap: u64| {
            let closed = offset_of!(DomainState, depths.closed);
            [state("cmpl $0,", closed, ""), format!("jne {}", into(trap))]
        };
        let mapped = |outside: u64| {
            [
                "mov (%rsp),%r11d".to_owned(),
                state("sub ", offset_of!(DomainState, depths.low), ",%r11d"),
                state("cmp ", offset_of!(DomainState, depths.length), ",%r11d"),
                format!("jae {}", into(outside)),
                "shr $2,%r11d".to_owned(),
                state("add ", offset_of!(DomainState, depths.map), ",%r11"),
            ]
        };
        let place = |trap: u64| {
            [
                format!("cmp 0x{:X}(%r10),%rdi", offset_of!(DomainState, parts)),
                format!("jae {}", into(trap)),
                "shl $0x10,%rdi".to_owned(),
                format!("add 0x{:X}(%r10),%rdi", offset_of!(DomainState, parts_at)),
            ]
        };
        let top_to = |register: &str| format!("mov 0x{top:X}(%r11),{register}");
        let copy = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
        let (again, outside, there) = (CUT + 0x34, CUT + 0x5A, CUT + 0x60);
        let lines = [
            &[top_to("%r10")][..],
            &copy(&["sub %rsp,%r10", "shr $3,%r10", "dec %r10", "cmp %r10,%rdi"]),
            &[format!("ja {}", into(CUT_TRAP)), "neg %rdi".to_owned(), top_to("%r10")],
            &["lea -8(%r10,%rdi,8),%rdi".to_owned(), current.clone()],
            &open(CUT_TRAP),
            &["cmp %rdi,%rsp".to_owned(), format!("jae {}", into(there))],
            &mapped(outside),
            &copy(&["movzbl (%r11),%r11d", "lea 8(%rsp,%r11,8),%rsp"]),
            &[format!("jmp {}", into(again)), "add $8,%rsp".to_owned(), format!("jmp {}", into(again))],
            &[format!("jne {}", into(CUT_TRAP))],
            &copy(&["xor %r10d,%r10d", "xor %r11d,%r11d", "xor %edi,%edi"]),
            &copy(&["and $0xFFFF8,%esi", "jmpq *%gs:0x100000(%esi)"]),
        ];
        check(CUT, &lines.concat().iter().map(String::as_str).collect::<Vec<_>>());
        let size = ["sub %rsp,%rcx".to_owned(), "sub $0x10,%rcx".to_owned(), "cmp $0xFFF8,%rcx".to_owned()];
        let lines = [
            &[current.clone(), top_to("%rcx")][..],
            &size,
            &[format!("ja {}", into(KEEP_TRAP))],
            &open(KEEP_TRAP),
            &mapped(KEEP + 0x45),
            &["cmpb $0,(%r11)".to_owned(), format!("jne {}", into(KEEP_TRAP))],
            &place(KEEP_TRAP),
            &copy(&["shr $3,%rcx", "mov %rcx,(%rdi)", "add $8,%rdi", "lea 8(%rsp),%rsi", "rep movsq (%rsi),(%rdi)"]),
            &copy(&["xor %edi,%edi", "xor %esi,%esi", "xor %r10d,%r10d", "xor %r11d,%r11d", "ret"]),
        ];
        check(KEEP, &lines.concat().iter().map(String::as_str).collect::<Vec<_>>());
        let lines = [
            &[current][..],
            &place(BRING_TRAP),
            &["mov (%rdi),%rcx".to_owned(), top_to("%r10")],
            &copy(&["neg %rcx", "lea -8(%r10,%rcx,8),%r10", "neg %rcx"]),
            &[format!("cmp 0x{:X}(%r11),%r10", offset_of!(Context, floor)), format!("jb {}", into(BRING_TRAP))],
            &copy(&["mov %r10,%rsp", "mov %esi,%r10d", "lea 8(%rdi),%rsi", "mov %rsp,%rdi", "rep movsq (%rsi),(%rdi)"]),
            &copy(&["xor %edi,%edi", "xor %esi,%esi", "xor %r11d,%r11d", "and $0xFFFF8,%r10d"]),
            &copy(&["jmpq *%gs:0x100000(%r10d)"]),
        ];
        check(BRING, &lines.concat().iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(text(BRINGING - 3, 2), ["mov %r10,%rsp", "mov %esi,%r10d"]);
        for trap in [RETURN_TRAP, CUT_TRAP, KEEP_TRAP, BRING_TRAP] {
            assert_eq!(text(trap, 1), ["ud2"]);
        }
        assert!(
            depth().len() <= (RETURN - DEPTH) as usize && return_address().len() <= (RETURN_TRAP - RETURN) as usize
        );
        assert!(cut(0x10_0000).len() <= (CUT_TRAP - CUT) as usize);
        assert!(keep().len() <= (KEEP_TRAP - KEEP) as usize && bring(0).len() <= (BRING_TRAP - BRING) as usize);
        assert!(gateway(&Stub { binding: BindingId::FIRST, way: Way::Host }).len() <= STUB as usize);
    }
}
