//! Runs a few bytes of machine code on this processor with chosen registers and reports how they
//! ended.
//!
//! A 4 GiB window with guards is reserved and GS base points to it, as the loader does for a
//! domain. [`Machine::run`] raises `int3`. The signal handler replaces the interrupted context with
//! the requested one. The next signal of any kind is recorded, and the handler puts the old context
//! back. So the code under test needs no cooperation and may do anything.
//!
//! One machine per process, used by one thread.

// The field is one range of bytes, not the numbers in it.
#![allow(clippy::single_range_in_vec_init)]
// Each test file uses its part of this module.
#![allow(dead_code)]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::null_mut;

/// Size of a window.
pub const WINDOW: u64 = 1 << 32;
/// Unmapped bytes before and after a window.
pub const GUARD: u64 = 64 << 10;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Numbers of general registers.
pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

/// The `uc_mcontext.gregs` index of each general register by number.
const GREGS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Trap flag.
const TF: u64 = 1 << 8;

/// Registers before or after a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// By number, rax first.
    pub gpr: [u64; 16],
    pub rip: u64,
    pub flags: u64,
    /// The selectors of CS, GS, FS and SS as the kernel packs them.
    pub selectors: u64,
}

/// The end of the code's run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    pub signal: c_int,
    /// x86 exception vector: 1 single step, 3 int3, 6 #UD, 13 #GP, 14 #PF.
    pub vector: u64,
    /// Page fault error code: bit 1 write, bit 4 instruction fetch.
    pub error: u64,
    /// Address of a page fault.
    pub address: u64,
    pub registers: Registers,
    /// Extended state that differs from before: bits of [`state`].
    pub changed: u32,
    /// A digest of each part of the extended state, by the number of its bit.
    pub parts: [u64; 8],
}

/// Parts of the extended state.
pub mod state {
    pub const X87: u32 = 1;
    pub const MXCSR_CONTROL: u32 = 2;
    pub const XMM: u32 = 4;
    pub const YMM: u32 = 8;
    pub const OPMASK: u32 = 16;
    /// Upper halves of zmm0 to zmm15.
    pub const ZMM: u32 = 32;
    /// zmm16 to zmm31.
    pub const ZMM_HIGH: u32 = 64;
    /// The status flags of MXCSR. Any arithmetic changes them, so they are no part of
    /// [`Exit::changed`].
    ///
    /// [`Exit::changed`]: super::Exit::changed
    pub const MXCSR_FLAGS: u32 = 128;
}

impl Exit {
    pub fn is_page_fault(&self) -> bool {
        self.vector == 14
    }

    pub fn is_write(&self) -> bool {
        self.is_page_fault() && self.error & 2 != 0
    }
}

/// Bytes of extended state that are kept.
const XSTATE: usize = 8192;

/// State that the handler and [`Machine::run`] share.
struct Shared {
    entering: bool,
    active: bool,
    want: Registers,
    host: [i64; 23],
    host_state: [u8; XSTATE],
    start_state: [u8; XSTATE],
    pattern: bool,
    other: u32,
    exit: Exit,
}

struct Cell(UnsafeCell<Shared>);
// SAFETY: one thread uses it, in turn with the handler that interrupts this thread.
unsafe impl Sync for Cell {}

static SHARED: Cell = Cell(UnsafeCell::new(Shared {
    entering: false,
    active: false,
    want: Registers { gpr: [0; 16], rip: 0, flags: 0, selectors: 0 },
    host: [0; 23],
    host_state: [0; XSTATE],
    start_state: [0; XSTATE],
    pattern: false,
    other: 0,
    exit: Exit {
        signal: 0,
        vector: 0,
        error: 0,
        address: 0,
        registers: Registers { gpr: [0; 16], rip: 0, flags: 0, selectors: 0 },
        changed: 0,
        parts: [0; 8],
    },
}));

extern "C" fn handler(signal: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext_t. Nobody else touches SHARED while the handler
    // runs: the interrupted thread is its only user, and uses it only around the `int3`.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        let shared = &mut *SHARED.0.get();
        let gregs = &mut context.uc_mcontext.gregs;
        let xstate = context.uc_mcontext.fpregs.cast::<u8>();
        // struct _fpx_sw_bytes at 464: magic, extended_size, xfeatures, xstate_size.
        let size = (xstate.add(464 + 16).cast::<u32>().read() as usize).clamp(512, XSTATE);
        if shared.entering && signal == libc::SIGTRAP {
            shared.entering = false;
            shared.active = true;
            shared.host.copy_from_slice(gregs);
            xstate.copy_to(shared.host_state.as_mut_ptr(), size);
            for (register, index) in GREGS.iter().enumerate() {
                gregs[*index as usize] = shared.want.gpr[register] as i64;
            }
            gregs[libc::REG_RIP as usize] = shared.want.rip as i64;
            gregs[libc::REG_EFL as usize] = shared.want.flags as i64;
            if shared.pattern {
                let area = std::slice::from_raw_parts_mut(xstate, size);
                fill(area);
                disturb(area, shared.other);
            }
            xstate.copy_to(shared.start_state.as_mut_ptr(), size);
        } else if shared.active {
            shared.active = false;
            let exit = &mut shared.exit;
            exit.signal = signal;
            exit.vector = gregs[libc::REG_TRAPNO as usize] as u64;
            exit.error = gregs[libc::REG_ERR as usize] as u64;
            exit.address = gregs[libc::REG_CR2 as usize] as u64;
            for (register, index) in GREGS.iter().enumerate() {
                exit.registers.gpr[register] = gregs[*index as usize] as u64;
            }
            exit.registers.rip = gregs[libc::REG_RIP as usize] as u64;
            exit.registers.flags = gregs[libc::REG_EFL as usize] as u64;
            exit.registers.selectors = gregs[libc::REG_CSGSFS as usize] as u64;
            let after = std::slice::from_raw_parts(xstate, size);
            exit.changed = compare(&shared.start_state[..size], after);
            exit.parts = digests(after);
            gregs.copy_from_slice(&shared.host);
            xstate.copy_from(shared.host_state.as_ptr(), size);
        } else {
            // The signal is not one of the run: its next occurrence kills the process, which is the
            // honest report.
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Returns the place of each component of the extended state (CPUID leaf 0DH), with its bit in
/// XSTATE_BV.
fn components() -> [(u32, usize, usize, u32); 4] {
    let place = |i: u32| {
        // SAFETY: every x86-64 processor has the instruction. It changes nothing but its results.
        #[allow(unused_unsafe, reason = "the intrinsic is safe since Rust 1.94")]
        let leaf = unsafe { std::arch::x86_64::__cpuid_count(0xd, i) };
        (leaf.ebx as usize, leaf.eax as usize)
    };
    let (avx, mask, high, rest) = (place(2), place(5), place(6), place(7));
    [
        (2, avx.0, avx.1, state::YMM),
        (5, mask.0, mask.1, state::OPMASK),
        (6, high.0, high.1, state::ZMM),
        (7, rest.0, rest.1, state::ZMM_HIGH),
    ]
}

fn features(area: &[u8]) -> u64 {
    u64::from_le_bytes(area[464 + 8..464 + 16].try_into().unwrap_or_default())
}

/// Gives every vector and mask register contents that are not zero, and marks them in XSTATE_BV.
fn fill(area: &mut [u8]) {
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    let mut put = |bytes: &mut [u8]| {
        for byte in bytes {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (word >> 56) as u8;
        }
    };
    put(&mut area[160..416]);
    let present = features(area);
    for (bit, start, length, _) in components() {
        if present & (1 << bit) != 0 && start + length <= area.len() {
            put(&mut area[start..start + length]);
        }
    }
    if area.len() >= 576 {
        let filled = present & (0b1110_0111);
        area[512..520].copy_from_slice(&filled.to_le_bytes());
    }
}

/// Puts other values than [`fill`] into parts of the extended state: other bytes, all status flags,
/// an x87 stack with an unmasked division by zero pending.
fn disturb(area: &mut [u8], parts: u32) {
    let mut change = |range: std::ops::Range<usize>| area[range].iter_mut().for_each(|byte| *byte ^= 0xff);
    if parts & state::XMM != 0 {
        change(160..416);
    }
    for (_, start, length, flag) in components() {
        if parts & flag != 0 && length > 0 {
            change(start..start + length);
        }
    }
    if parts & state::MXCSR_FLAGS != 0 {
        area[24] |= 0x3f;
    }
    if parts & state::X87 != 0 {
        // Control, status and tag words, then the registers.
        area[..6].copy_from_slice(&[0x40, 0x03, 0x84, 0xa8, 0xff, 0]);
        area[32..160].fill(0x3f);
        if let Some(held) = area.get_mut(512) {
            *held |= 1;
        }
    }
}

/// Computes FNV-1a of each part, by the number of its bit. A part that XSTATE_BV marks as initial
/// counts as zero.
fn digests(area: &[u8]) -> [u64; 8] {
    let held = area.get(512..520).map_or(3, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
    let digest = |bit: u32, ranges: &[std::ops::Range<usize>]| {
        let bytes = ranges.iter().flat_map(|range| &area[range.clone()]);
        bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            let byte = if held & (1 << bit) != 0 { *byte } else { 0 };
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let mut parts = [0; 8];
    let mut put = |flag: u32, digest: u64| parts[flag.trailing_zeros() as usize] = digest;
    put(state::X87, digest(0, &[0..24, 32..160]));
    put(state::XMM, digest(1, &[160..416]));
    put(state::MXCSR_CONTROL, u64::from(area[24] & 0xc0) | u64::from(area[25]) << 8);
    put(state::MXCSR_FLAGS, u64::from(area[24] & 0x3f));
    for (bit, start, length, flag) in components() {
        if start + length <= area.len() {
            put(flag, digest(bit, &[start..start + length]));
        }
    }
    parts
}

/// Returns the parts of the extended state that differ.
fn compare(before: &[u8], after: &[u8]) -> u32 {
    let mut changed = 0;
    if before[..24] != after[..24] || before[32..160] != after[32..160] {
        changed |= state::X87;
    }
    // Bits 0 to 5 are the sticky status flags of any arithmetic.
    if (before[24] ^ after[24]) & !0x3f != 0 || before[25..28] != after[25..28] {
        changed |= state::MXCSR_CONTROL;
    }
    let (old, new) = (features(before), features(after));
    let held = |area: &[u8]| area.get(512..520).map_or(3, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
    let differs = |bit: u32, start: usize, length: usize| {
        (0..length).any(|i| {
            let value = |area: &[u8]| if held(area) & (1 << bit) != 0 { area[start + i] } else { 0 };
            value(before) != value(after)
        })
    };
    if differs(1, 160, 256) {
        changed |= state::XMM;
    }
    for (bit, start, length, flag) in components() {
        if old & new & (1 << bit) != 0 && start + length <= before.len() && differs(bit, start, length) {
            changed |= flag;
        }
    }
    changed
}

/// A process that is ready to run code. There is only one.
pub struct Machine(());

impl Machine {
    /// Installs the handlers on an alternate stack.
    pub fn new() -> Machine {
        // SAFETY: plain system calls with valid arguments; the stack lives as long as the process.
        unsafe {
            let stack = libc::stack_t {
                ss_sp: map(1 << 20, libc::PROT_READ | libc::PROT_WRITE) as *mut _,
                ss_flags: 0,
                ss_size: 1 << 20,
            };
            assert_eq!(libc::sigaltstack(&stack, null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
                assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
            }
        }
        Machine(())
    }

    /// Runs until the first signal. With `step` that is after one instruction at the latest. With
    /// `pattern` the vector registers are full of distinct bytes.
    pub fn run(&mut self, window: &Window, want: Registers, step: bool, pattern: bool) -> Exit {
        self.run_with(window, want, step, pattern, 0)
    }

    /// Runs with other values than the pattern in parts of the extended state: bits of [`state`].
    pub fn run_with(&mut self, window: &Window, want: Registers, step: bool, pattern: bool, other: u32) -> Exit {
        window.select();
        // SAFETY: the handler has the shared state to itself while the interrupted code is not in
        // this function. `int3` returns here with every register, vector registers included,
        // unchanged.
        unsafe {
            let shared = &mut *SHARED.0.get();
            shared.want = want;
            shared.want.flags = 0x202 | if step { TF } else { 0 };
            shared.pattern = pattern;
            shared.other = other;
            shared.exit = Exit::default();
            shared.entering = true;
            std::arch::asm!("int3");
            (*SHARED.0.get()).exit
        }
    }

    /// Copies code to a place of the window, puts `int3` after it, and runs it from its start.
    pub fn run_code(&mut self, window: &Window, offset: u64, code: &[u8], mut want: Registers) -> Exit {
        let page = offset & !(PAGE - 1);
        window.protect(page, 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let mut bytes = code.to_vec();
        bytes.push(0xcc);
        window.write(offset, &bytes);
        window.protect(page, 2 * PAGE, libc::PROT_READ | libc::PROT_EXEC);
        want.rip = window.base + offset;
        self.run(window, want, false, false)
    }
}

/// Reserves anonymous memory.
fn map(length: u64, protection: c_int) -> u64 {
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let at = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(null_mut(), length as usize, protection, flags, -1, 0)
    };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at as u64
}

/// 4 GiB of address space at a multiple of 4 GiB, with guards on both sides, and nothing accessible
/// at first.
pub struct Window {
    pub base: u64,
}

impl Window {
    pub fn new() -> Window {
        let start = map(2 * WINDOW + 2 * GUARD, libc::PROT_NONE);
        Window { base: (start + GUARD).next_multiple_of(WINDOW) }
    }

    /// Reserves a window at a random place of the lower half of the address space.
    pub fn random(mut random: impl FnMut() -> u64) -> Window {
        let length = (WINDOW + 2 * GUARD) as usize;
        loop {
            let base = (1 + random() % ((1 << 15) - 2)) * WINDOW;
            // SAFETY: a new anonymous mapping that replaces nothing.
            let at = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
                libc::mmap((base - GUARD) as *mut _, length, libc::PROT_NONE, flags, -1, 0)
            };
            if at as u64 == base - GUARD {
                return Window { base };
            }
            // The place is occupied. Any other error would not go away.
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{error}");
        }
    }

    /// Makes this the window of GS.
    fn select(&self) {
        const ARCH_SET_GS: libc::c_long = 0x1001;
        // SAFETY: nothing in this program uses GS.
        assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, self.base) }, 0);
    }

    /// Returns GS base as the kernel sees it.
    pub fn gs_base() -> u64 {
        const ARCH_GET_GS: libc::c_long = 0x1004;
        let mut base = 0u64;
        // SAFETY: the kernel writes one word there.
        assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_GS, &mut base) }, 0);
        base
    }

    /// Changes the protection of pages, given by offsets from the window's base.
    pub fn protect(&self, offset: u64, length: u64, protection: c_int) {
        assert!(offset + length <= WINDOW);
        // SAFETY: the range lies inside the reservation made by `new`.
        let result = unsafe { libc::mprotect((self.base + offset) as *mut _, length as usize, protection) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// Forgets the contents of pages.
    pub fn discard(&self, offset: u64, length: u64) {
        assert!(offset + length <= WINDOW);
        // SAFETY: private anonymous memory of the reservation.
        unsafe { libc::madvise((self.base + offset) as *mut _, length as usize, libc::MADV_DONTNEED) };
    }

    /// Makes pages accessible.
    pub fn open(&self, offset: u64, length: u64) {
        self.protect(offset, length, libc::PROT_READ | libc::PROT_WRITE);
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= WINDOW);
        // SAFETY: inside the reservation. A page that is not open faults and ends the process.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.base + offset) as *mut u8, bytes.len()) }
    }

    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        assert!(offset + length as u64 <= WINDOW);
        // SAFETY: as for `write`. No reference outlives the copy.
        unsafe { std::slice::from_raw_parts((self.base + offset) as *const u8, length).to_vec() }
    }

    /// Says whether the address lies in the window, or in the guard after it.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < WINDOW + GUARD
    }
}
