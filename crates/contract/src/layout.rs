//! Layout of a domain's 4 GiB window. Unit: bytes; every `*_OFFSET` counts from the window's base.
//!
//! GS base equals the window's base while the domain runs, so `%gs:OFFSET` names these places
//! directly.

/// Size and alignment of a window.
pub const WINDOW_SIZE: u64 = 1 << 32;

/// Least size of the unmapped guard behind the window. An 8-byte store at `%gs:0xfffffffc` does not
/// wrap.
pub const GUARD_SIZE: u64 = 64 << 10;

/// Page size of the target.
pub const PAGE_SIZE: u64 = 4096;

/// The header page: read-only to the domain. Its first word is the window's base ([`HEADER_BASE`]).
pub const HEADER_OFFSET: u64 = 0x000f_f000;
/// `u64`: the window's base. The string regions add it to a truncated pointer.
pub const HEADER_BASE: u64 = HEADER_OFFSET;
/// `u64`: address of the TCB page.
pub const HEADER_TCB: u64 = HEADER_OFFSET + 0x08;
/// `u64`: first byte of the heap.
pub const HEADER_HEAP_START: u64 = HEADER_OFFSET + 0x10;
/// `u64`: first byte behind the heap.
pub const HEADER_HEAP_END: u64 = HEADER_OFFSET + 0x18;
/// `u64`: lowest byte of the data stack.
pub const HEADER_STACK_LOW: u64 = HEADER_OFFSET + 0x20;
/// `u64`: first byte behind the data stack.
pub const HEADER_STACK_HIGH: u64 = HEADER_OFFSET + 0x28;
/// `u64`: the window's base, negated. Added to an address it gives the offset in the window (mode
/// match).
pub const HEADER_MINUS: u64 = HEADER_OFFSET + 0x38;

/// `u64`: the processor state that the system has switched on (XCR0, what `xgetbv` gives for 0 in
/// ecx), 0 if there is no `xgetbv`. Rewritten code reads it here.
pub const HEADER_FEATURES: u64 = HEADER_OFFSET + 0x30;

/// [`REGION_SLOTS`] words of 64 bits for mode match: the negated 4 GiB-aligned places of the common
/// addresses of the domain's shared regions, each at the number that [`region_slot`] gives, and
/// [`no_region`] elsewhere.
pub const HEADER_REGIONS: u64 = HEADER_OFFSET + 0x800;
/// Number of words at [`HEADER_REGIONS`].
pub const REGION_SLOTS: usize = 256;

/// The word of a slot without a region: no address that is looked up there is its negative.
pub const fn no_region(slot: usize) -> u64 {
    if slot == 0 { (1_u64 << 32).wrapping_neg() } else { 0 }
}

/// Where the window of an address is looked up: by the low byte of the address' upper half.
pub const fn region_slot(address: u64) -> usize {
    (address >> 32) as usize % REGION_SLOTS
}

/// The dispatch table: [`DISPATCH_SLOTS`] slots of 8 bytes, read-only to the domain. Each mapped
/// slot holds the absolute address of a legal indirect target. A function pointer is the absolute
/// address of a slot.
pub const DISPATCH_OFFSET: u64 = 0x0010_0000;
/// Number of slots the mask can reach.
pub const DISPATCH_SLOTS: usize = 1 << 17;
/// The mask of an indirect branch: turns any 32-bit value into the offset of a slot from
/// [`DISPATCH_OFFSET`].
pub const DISPATCH_MASK: u32 = 0x000f_fff8;

/// Thread locals end here and the TCB page begins: `fs:0` of the original code. Thread locals lie
/// below (ELF TLS variant II), down to [`TLS_LOW`].
pub const TP_OFFSET: u64 = 0x0030_0000;
/// Lowest offset that thread locals may use.
pub const TLS_LOW: u64 = 0x0020_0000;
/// Size of the TCB page(s) at [`TP_OFFSET`]. Read-write.
pub const TCB_SIZE: u64 = 0x1000;
/// `u64` in the TCB: the stack protector's canary (`fs:0x28` of the original code).
pub const TCB_CANARY: u64 = TP_OFFSET + 0x28;
/// `i32` in the TCB: the error of this domain's last outgoing crossing, 0 when it returned
/// normally. See [`crate::names::ERROR`].
pub const TCB_ERROR: u64 = TP_OFFSET + 0xe00;
/// `u64` in the TCB: address of the stack arguments on the caller's data stack, for servers that
/// read them there. See [`crate::names::CLIENT_STACK`].
pub const TCB_CLIENT_STACK: u64 = TP_OFFSET + 0xe08;
/// `u64` in the TCB: home of the register r15 of the original code (the rewriter's convention).
pub const TCB_R15: u64 = TP_OFFSET + 0xf00;
/// [`TCB_SCRATCH_SLOTS`] words of 8 bytes in the TCB that the rewriter spills scratch registers to.
pub const TCB_SCRATCH: u64 = TP_OFFSET + 0xf10;
/// Number of words at [`TCB_SCRATCH`].
pub const TCB_SCRATCH_SLOTS: u64 = 16;

/// Lowest offset of the randomly placed segments.
pub const SEGMENTS_LOW: u64 = 0x0040_0000;
/// The first bytes of a window are never mapped: null pointers trap, and they are a guard of the
/// window below.
pub const LOW_UNMAPPED: u64 = 0x0008_0000;
/// Text, read-only data and data are placed below this offset, so that rip-relative operands reach
/// each other, the dispatch table and the header page.
pub const IMAGE_HIGH: u64 = 0x7000_0000;

/// The fixed places, text and data must not collide, and the mask must cover the table exactly.
const _: () = {
    assert!(HEADER_OFFSET + PAGE_SIZE == DISPATCH_OFFSET);
    assert!(HEADER_MINUS < HEADER_REGIONS && HEADER_REGIONS + 8 * REGION_SLOTS as u64 <= DISPATCH_OFFSET);
    assert!(DISPATCH_OFFSET + (DISPATCH_SLOTS as u64) * 8 == TLS_LOW);
    assert!(DISPATCH_MASK as u64 == (DISPATCH_SLOTS as u64) * 8 - 8);
    assert!(TCB_SCRATCH + TCB_SCRATCH_SLOTS * 8 <= TP_OFFSET + TCB_SIZE);
    assert!(TP_OFFSET + TCB_SIZE <= SEGMENTS_LOW);
    assert!(IMAGE_HIGH < 1 << 31);
    assert!(LOW_UNMAPPED >= GUARD_SIZE && LOW_UNMAPPED < HEADER_OFFSET);
};
