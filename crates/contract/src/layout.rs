//! Layout of a domain's 4 GiB window. Unit: bytes; every `*_OFFSET` counts from the window's base.
//!
//! GS base equals the window's base while the domain runs, so `%gs:OFFSET` names a place of the
//! window. The places that code names ([`crate::anchor`]) have no fixed offset: the loader draws
//! one for each domain.

use crate::anchor::{Anchor, Anchored};

/// Size and alignment of a window.
pub const WINDOW_SIZE: u64 = 1 << 32;

/// Least size of the unmapped guard after the window. So an 8-byte store at `%gs:0xfffffffc` does
/// not wrap.
pub const GUARD_SIZE: u64 = 64 << 10;

/// Page size of the target.
pub const PAGE_SIZE: u64 = 4096;

/// The header page: read-only to the domain. Its first word is the window's base ([`HEADER_BASE`]).
pub const HEADER: Anchored = Anchor::Header.at(0);
/// `u64`: the window's base. The string regions add it to a truncated pointer.
pub const HEADER_BASE: Anchored = HEADER;
/// `u64`: address of the TCB page.
pub const HEADER_TCB: Anchored = Anchor::Header.at(0x08);
/// `u64`: first byte of the heap.
pub const HEADER_HEAP_START: Anchored = Anchor::Header.at(0x10);
/// `u64`: first byte after the heap.
pub const HEADER_HEAP_END: Anchored = Anchor::Header.at(0x18);
/// `u64`: lowest byte of the data stack.
pub const HEADER_STACK_LOW: Anchored = Anchor::Header.at(0x20);
/// `u64`: first byte after the data stack.
pub const HEADER_STACK_HIGH: Anchored = Anchor::Header.at(0x28);
/// `u64`: the processor state that the system has switched on (XCR0, the answer of `xgetbv` for ecx
/// = 0), 0 if there is no `xgetbv`. Rewritten code reads it here.
pub const HEADER_FEATURES: Anchored = Anchor::Header.at(0x30);
/// `u64`: the window's base, negated. Its sum with an address is the offset in the window (mode
/// match).
pub const HEADER_MINUS: Anchored = Anchor::Header.at(0x38);
/// `u64`: the address of [`DISPATCH`], negated. Its sum with a function pointer is the offset in
/// the table (mode match).
pub const HEADER_MINUS_DISPATCH: Anchored = Anchor::Header.at(0x40);
/// `u64`: bytes that the locals of a further thread take below its thread pointer, in whole pages.
pub const HEADER_LOCALS: Anchored = Anchor::Header.at(0x48);

/// [`REGION_SLOTS`] words of 64 bits for mode match. The word at the number that [`region_slot`]
/// gives holds the 4 GiB-aligned place of a shared region's common addresses, negated. Words
/// without a region hold [`no_region`].
pub const HEADER_REGIONS: Anchored = Anchor::Header.at(0x800);
/// Number of words at [`HEADER_REGIONS`].
pub const REGION_SLOTS: usize = 256;

/// Returns the word of a slot without a region. No address that is looked up there is its negative.
pub const fn no_region(slot: usize) -> u64 {
    if slot == 0 { (1_u64 << 32).wrapping_neg() } else { 0 }
}

/// Returns the number of the word for an address: the low byte of the address' upper half.
pub const fn region_slot(address: u64) -> usize {
    (address >> 32) as usize % REGION_SLOTS
}

/// The block of the dispatch table: [`DISPATCH_SIZE`] bytes of the window, aligned to their size.
/// Only the table is mapped in it. The table has slots of 8 bytes and is read-only to the domain.
/// The loader also draws the page of the block where the table begins. Each mapped slot holds the
/// absolute address of a legal indirect target. A function pointer is the absolute address of a
/// slot.
pub const DISPATCH: Anchored = Anchor::Dispatch.at(0);
/// Number of slots that the mask can reach.
pub const DISPATCH_SLOTS: usize = 1 << 17;
/// Size and alignment of the table's block.
pub const DISPATCH_SIZE: u64 = 8 * DISPATCH_SLOTS as u64;
/// The mask of an indirect branch. It turns any 32-bit value into the offset of a slot from
/// [`DISPATCH`].
pub const DISPATCH_MASK: u32 = 0x000f_fff8;

/// End of the thread locals and beginning of the TCB page: `fs:0` of the original code. Thread
/// locals lie below (ELF TLS variant II), at most [`TLS_SIZE`] bytes.
pub const TCB: Anchored = Anchor::Tcb.at(0);
/// Most bytes of thread locals.
pub const TLS_SIZE: u64 = 0x0010_0000;
/// Size of the TCB page(s) at [`TCB`]. Read-write.
pub const TCB_SIZE: u64 = 0x1000;
/// `u64` in the TCB: the stack protector's canary (`fs:0x28` of the original code).
pub const TCB_CANARY: Anchored = Anchor::Tcb.at(0x28);
/// `i32` in the TCB: the error of this domain's last outgoing crossing, 0 when it returned
/// normally. See [`crate::names::ERROR`].
pub const TCB_ERROR: Anchored = Anchor::Tcb.at(0xe00);
/// `u64` in the TCB: address of the stack arguments on the caller's data stack, for servers that
/// read them there. See [`crate::names::CLIENT_STACK`].
pub const TCB_CLIENT_STACK: Anchored = Anchor::Tcb.at(0xe08);
/// `u64` in the TCB: home of the register r15 of the original code (the rewriter's convention).
pub const TCB_R15: Anchored = Anchor::Tcb.at(0xf00);
/// [`TCB_SCRATCH_SLOTS`] words of 8 bytes in the TCB that the rewriter spills scratch registers to.
pub const TCB_SCRATCH: Anchored = Anchor::Tcb.at(0xf10);
/// Number of words at [`TCB_SCRATCH`].
pub const TCB_SCRATCH_SLOTS: u64 = 16;

/// Lowest offset of the randomly placed segments.
pub const SEGMENTS_LOW: u64 = 0x0040_0000;
/// The first bytes of a window are never mapped. Null pointers trap there, and they are a guard of
/// the window below.
pub const LOW_UNMAPPED: u64 = 0x0008_0000;
/// Text, read-only data, data and the anchors are placed below this offset. So rip-relative
/// operands reach each other, and a displacement of 32 bits holds the offset of an anchor, extended
/// with zeros or with its sign.
pub const IMAGE_HIGH: u64 = 0x7000_0000;

/// Most bytes by which the rewriter lets the data stack pointer be above the stack pointer of the
/// original code.
pub const STACK_LEAD: i64 = 2048;
/// Bytes below the data stack pointer that code may be using at any instruction: the lead, single
/// words that pass it, and the red zone of 128 bytes (psABI 3.2.2).
pub const STACK_BELOW: i64 = STACK_LEAD + 128 + 128;

/// The parts of a page must not collide, and the mask must cover the table exactly.
const _: () = {
    let page = PAGE_SIZE as i32;
    assert!(HEADER_LOCALS.addend < HEADER_REGIONS.addend);
    assert!(HEADER_REGIONS.addend + 8 * REGION_SLOTS as i32 <= page);
    assert!(DISPATCH_SIZE.is_power_of_two() && DISPATCH_MASK as u64 == DISPATCH_SIZE - 8);
    assert!(TCB_SCRATCH.addend + 8 * TCB_SCRATCH_SLOTS as i32 <= TCB_SIZE as i32);
    assert!(IMAGE_HIGH < 1 << 31 && IMAGE_HIGH.is_multiple_of(DISPATCH_SIZE));
    assert!(LOW_UNMAPPED >= GUARD_SIZE && SEGMENTS_LOW >= LOW_UNMAPPED && SEGMENTS_LOW >= DISPATCH_SIZE);
};
