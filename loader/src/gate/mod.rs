//! The gates' assembly (`gate/*.s`) and the table of its addresses.

pub(crate) mod control_stack;
pub(crate) mod depths;
pub(crate) mod fault;
pub(crate) mod frame;
pub(crate) mod ids;
pub(crate) mod kept;
pub(crate) mod records;
pub(crate) mod room;
pub(crate) mod stubs;
pub(crate) mod sync;

use crate::gate::frame::{Frame, HostEntry, Kept};
use crate::gate::records::{
    Account, Binding, CallFrame, Context, DomainState, HostFrame, Status, ThreadState, Waits, flag,
};
use crate::gate::room::{Door, Room};
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::mem::{offset_of, size_of};
use core::ops::Range;
use sfi_contract::layout::DISPATCH_SIZE;
use sfi_verifier::{Usage, Vectors};

core::arch::global_asm!(
    include_str!("common.s"),
    include_str!("domain.s"),
    include_str!("enter.s"),
    include_str!("host.s"),
    include_str!("meter.s"),
    include_str!("lanes.s"),
    include_str!("variants.s"),
    CONTROL_SIZE = const crate::gate::records::CONTROL_SIZE,
    MXCSR = const MXCSR_DEFAULT,
    TCB_ERROR = const sfi_contract::layout::TCB_ERROR.addend,
    TCB_CLIENT_STACK = const sfi_contract::layout::TCB_CLIENT_STACK.addend,
    WORD = const size_of::<u64>(),
    ENTRY = const size_of::<HostEntry>(),
    ENTRY_BINDING = const offset_of!(HostEntry, start.binding),
    ENTRY_ENTRY = const offset_of!(HostEntry, start.entry),
    ENTRY_HOST_RSP = const offset_of!(HostEntry, host_rsp),
    FRAME_BINDING = const offset_of!(Frame, start.binding),
    FRAME_ENTRY = const offset_of!(Frame, start.entry),
    FRAME_CALLER = const offset_of!(Frame, caller),
    FRAME_OUTER = const offset_of!(Frame, outer),
    FRAME_SP = const offset_of!(Frame, sp),
    FRAME_BASE = const offset_of!(Frame, base),
    FRAME_CW = const offset_of!(Frame, control_word),
    FRAME_MXCSR = const offset_of!(Frame, mxcsr),
    FRAME_R15 = const offset_of!(Frame, r15),
    FRAME_R14 = const offset_of!(Frame, r14),
    FRAME_R13 = const offset_of!(Frame, r13),
    FRAME_R12 = const offset_of!(Frame, r12),
    FRAME_RBP = const offset_of!(Frame, rbp),
    FRAME_RBX = const offset_of!(Frame, rbx),
    FRAME_RETURN = const offset_of!(Frame, return_address),
    KEPT = const size_of::<Kept>(),
    KEPT_INTS = const offset_of!(Kept, ints),
    KEPT_VECTORS = const offset_of!(Kept, vectors),
    KEPT_BINDING = const offset_of!(Kept, binding),
    C_LIMIT = const offset_of!(Context, limit),
    C_CURRENT = const offset_of!(Context, current),
    C_TOP = const offset_of!(Context, top),
    C_CONTROL_SP = const offset_of!(Context, control_sp),
    C_HOST_RSP = const offset_of!(Context, host_rsp),
    C_THREAD = const offset_of!(Context, thread),
    C_HOST_MXCSR = const offset_of!(Context, host_mxcsr),
    C_HOST_CW = const offset_of!(Context, host_control_word),
    C_SCRATCH = const offset_of!(Context, scratch),
    C_X87_PLACES = const offset_of!(Context, x87_places),
    C_REVIVE = const offset_of!(Context, revive),
    C_TAKE = const offset_of!(Context, take),
    C_DOMAINS = const offset_of!(Context, domains),
    C_SINCE = const offset_of!(Context, since),
    C_TICKS = const offset_of!(Context, ticks),
    C_LOOK = const offset_of!(Context, waits) + offset_of!(Waits, look),
    C_LOOK_TICKS = const offset_of!(Context, waits) + offset_of!(Waits, ticks),
    C_LOOK_CLOCK = const offset_of!(Context, waits) + offset_of!(Waits, clock),
    C_PACE = const offset_of!(Context, waits) + offset_of!(Waits, pace),
    C_LEFT = const offset_of!(Context, waits) + offset_of!(Waits, left),
    C_ANSWER = const offset_of!(Context, waits) + offset_of!(Waits, answer),
    LOOK_PERIOD = const LOOK_PERIOD,
    LEAST_WAIT = const LEAST_WAIT,
    SYS_CLOCK = const libc::SYS_clock_gettime,
    THREAD_CLOCK = const libc::CLOCK_THREAD_CPUTIME_ID,
    D_BASE = const offset_of!(DomainState, base),
    D_TEXT_HIGH = const offset_of!(DomainState, text) + size_of::<u32>(),
    D_NEXT = const offset_of!(DomainState, next),
    D_DOOR = const offset_of!(DomainState, door),
    D_ROOM = const offset_of!(DomainState, room),
    DOOR_INSIDE = const offset_of!(Door, inside),
    DOOR_CLOSED = const offset_of!(Door, closed),
    ROOM_TURN = const offset_of!(Room, turn),
    FUTEX_WAKE = const libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
    SYS_FUTEX = const libc::SYS_futex,
    D_SP = const offset_of!(DomainState, sp),
    D_STACK_LOW = const offset_of!(DomainState, stack_low),
    D_STACK_HIGH = const offset_of!(DomainState, stack_high),
    D_DEAD = const offset_of!(DomainState, dead),
    D_TCB = const offset_of!(DomainState, tcb),
    D_DISPATCH = const offset_of!(DomainState, dispatch),
    D_DISPATCH_SIZE = const offset_of!(DomainState, dispatch_size),
    D_REGIONS = const offset_of!(DomainState, regions),
    D_TICKS = const offset_of!(DomainState, account) + offset_of!(Account, ticks),
    D_CROSSINGS = const offset_of!(DomainState, account) + offset_of!(Account, crossings),
    D_LEFT = const offset_of!(DomainState, left),
    D_INSTRUCTIONS = const offset_of!(DomainState, instructions),
    D_RELIEF = const offset_of!(DomainState, account) + offset_of!(Account, relief),
    B_CALLEE = const offset_of!(Binding, callee),
    B_SERVER = const offset_of!(Binding, server),
    B_ENTRY = const offset_of!(Binding, entry),
    B_ARGUMENTS = const offset_of!(Binding, arguments),
    B_RESULTS = const offset_of!(Binding, results),
    B_FAILED = const offset_of!(Binding, failed),
    B_ON_FAULT = const offset_of!(Binding, on_fault),
    B_FLAGS = const offset_of!(Binding, flags),
    B_FAILING = const offset_of!(Binding, failing),
    B_STACK_WORDS = const offset_of!(Binding, stack_words),
    B_POINTERS = const offset_of!(Binding, pointers),
    B_GATE = const offset_of!(Binding, gate),
    B_METERED = const offset_of!(Binding, metered),
    B_LANE = const offset_of!(Binding, lane),
    B_SHIM = const offset_of!(Binding, shim),
    H_INTS = const offset_of!(HostFrame, ints),
    H_FLOATS = const offset_of!(HostFrame, floats),
    H_R15 = const offset_of!(HostFrame, r15),
    H_RAX = const offset_of!(HostFrame, rax),
    H_RDX = const offset_of!(HostFrame, rdx),
    H_FRAME = const offset_of!(HostFrame, frame),
    H_XMM0 = const offset_of!(HostFrame, xmm0),
    H_XMM1 = const offset_of!(HostFrame, xmm1),
    HOST_FRAME = const size_of::<HostFrame>(),
    T_GS = const offset_of!(ThreadState, gs),
    F_IN = const flag::IN,
    F_OUT = const flag::OUT,
    F_EXIT = const flag::X87 | flag::MXCSR | flag::VECTORS | flag::CALLEE_PAYS,
    F_EXIT_STATE = const flag::X87 | flag::MXCSR,
    F_ENTER = const flag::X87 | flag::ZMM_IN | flag::VECTORS,
    F_ENTER_STATE = const flag::X87 | flag::ZMM_IN,
    F_LEAVE = const flag::X87 | flag::MXCSR | flag::FLOATS | flag::VECTORS | flag::CALLER_PAYS,
    F_CALLER_PAYS = const flag::CALLER_PAYS,
    F_CALLEE_PAYS = const flag::CALLEE_PAYS,
    F_VECTORS = const flag::VECTORS,
    F_PRESERVED = const flag::PRESERVED,
    F_CLIENT_STACK = const flag::CLIENT_STACK,
    F_STACK = const flag::STACK,
    F_POINTERS = const flag::POINTERS,
    F_X87 = const flag::X87,
    F_ZMM_IN = const flag::ZMM_IN,
    F_ZMM_OUT = const flag::ZMM_OUT,
    F_FLOATS = const flag::FLOATS,
    F_MXCSR = const flag::MXCSR,
    B_BASE = const offset_of!(Binding, base),
    B_MXCSR = const offset_of!(Binding, mxcsr),
    MXCSR_CONTROL = const MXCSR_CONTROL,
    F_POINTER_RESULT = const flag::POINTER_RESULT,
    ARCH_SET_GS = const ARCH_SET_GS,
    ARCH_PRCTL = const libc::SYS_arch_prctl,
    E_OK = const Status::Ok as u32,
    E_DEAD = const Status::Dead as u32,
    E_REFUSED = const Status::Refused as u32,
    E_ARGUMENTS = const Status::Arguments as u32,
    E_CODE = const Status::Code as u32,
    E_PANIC = const Status::Panic as u32,
    BLOCK = const DISPATCH_SIZE,
    options(att_syntax)
);

/// `ARCH_SET_GS` of `arch_prctl`, from `asm/prctl.h`.
const ARCH_SET_GS: u32 = 0x1001;

/// Ticks between two comparisons of charged ticks with the thread's clock: some 30 to 50 µs.
pub(crate) const LOOK_PERIOD: u64 = 100_000;
/// Fewest ticks that count as a wait. Changing to another thread and back takes longer.
pub(crate) const LEAST_WAIT: u64 = 5_000;

/// MXCSR at a function's entry (psABI 3.2.1): all exceptions masked, round to nearest, no flags.
pub(crate) const MXCSR_DEFAULT: u32 = 0x1f80;
/// The control bits of MXCSR. The others are status flags.
pub(crate) const MXCSR_CONTROL: u32 = 0xffc0;
/// All bits of MXCSR.
pub(crate) const MXCSR_ALL: u32 = 0xffff;

/// A shim of the host is called with its stack at this record, so the stack must stay aligned.
const _: () = assert!(size_of::<HostFrame>().is_multiple_of(16));

/// Addresses of the code that passes results of one kind, by the treatment of vector registers:
/// [`vectors`].
pub(crate) type Results = [usize; 3];

/// Indices of [`Results`].
pub(crate) mod vectors {
    /// No register is cleared, because the caller's text names none.
    pub(crate) const LEAVE: usize = 0;
    /// All registers are cleared but the result.
    pub(crate) const KEEP: usize = 1;
    /// All registers are cleared.
    pub(crate) const ALL: usize = 2;
}

/// Indices of [`Table::arguments`] for vector registers. 0 to 8 are counts of floats.
pub(crate) mod floats {
    /// xmm0-xmm7 pass whole. The others are cleared.
    pub(crate) const ANY: usize = 9;
    /// No vector register is cleared.
    pub(crate) const LEAVE: usize = 10;
}

/// Addresses of one variant of the gates.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// Gates between domains, by `policy::Preserved`, by whether they save the control words of x87
    /// and SSE for failures, and by whether they set the GS base.
    pub gates: [[[usize; 2]; 2]; 4],
    /// Gate to host functions.
    pub gate_host: usize,
    /// Entry from the host. Its calling convention is that of [`enter`].
    pub enter: usize,
    /// Continuation of a failed call between domains.
    pub failed: usize,
    /// Continuation of a failed entry from the host.
    pub enter_failed: usize,
    /// rax, rdx, xmm0, xmm1 pass.
    pub results_any: Results,
    /// No register passes.
    pub results_void: Results,
    /// rax passes.
    pub results_int: Results,
    /// The low half of xmm0 passes.
    pub results_float: Results,
    /// rax, rdx and the low halves of xmm0 and xmm1 pass.
    pub results_host: Results,
    /// Ways into functions, by the number of integer arguments and that of floats, see [`floats`].
    pub arguments: [[usize; 11]; 7],
}

/// Calls [`Table::enter`]. With `floats` the vector registers of `frame` are arguments, and the
/// binding must have the flag.
///
/// # Safety
/// `gate` is `enter` of the table. `context` is that of the world which `thread`, the caller's,
/// runs. `binding` is one of that world. All frames lie above `control_sp` on the control stack.
/// `frame.sp` is a data stack pointer of the callee.
#[inline(always)]
pub(crate) unsafe fn enter(
    gate: usize,
    context: *mut Context,
    binding: *const Binding,
    thread: *mut ThreadState,
    control_sp: u64,
    frame: &mut CallFrame,
    floats: bool,
) -> Status {
    let status: u64;
    // The registers that functions preserve are named, so the compiler saves those that it needs,
    // and saves none twice. rbx and rbp cannot be named here, so the gate preserves them.
    macro_rules! cross {
        ($($float:tt)*) => { asm!(
            "call rax",
            inlateout("rax") gate => frame.rax,
            inlateout("rdi") frame.ints[0] => _, inlateout("rsi") frame.ints[1] => _, inlateout("rdx") frame.ints[2] => status,
            inlateout("rcx") frame.ints[3] => _, inlateout("r8") frame.ints[4] => frame.rdx, inlateout("r9") frame.ints[5] => _,
            inlateout("r10") binding => _, inlateout("r11") context => _, inlateout("r12") control_sp => _, out("r13") _,
            inlateout("r14") thread => _, inlateout("r15") frame.sp => _,
            $($float)*
            clobber_abi("sysv64"),
        ) };
    }
    let (xmm0, xmm1): (f64, f64);
    // SAFETY: see the function's contract. The gate changes only memory and the registers named
    // here.
    unsafe {
        if floats {
            let f = frame.floats.map(f64::from_bits);
            cross!(
                inlateout("xmm0") f[0] => xmm0, inlateout("xmm1") f[1] => xmm1, in("xmm2") f[2], in("xmm3") f[3], in("xmm4") f[4],
                in("xmm5") f[5], in("xmm6") f[6], in("xmm7") f[7],
            );
        } else {
            cross!(lateout("xmm0") xmm0, lateout("xmm1") xmm1,);
        }
    }
    frame.xmm0 = xmm0.to_bits();
    frame.xmm1 = xmm1.to_bits();
    Status::of(status as u32)
}

unsafe extern "C" {
    static sfi_table_avx_fsgs: Table;
    static sfi_table_sse_fsgs: Table;
    static sfi_table_avx_prctl: Table;
    static sfi_table_sse_prctl: Table;
    static sfi_trap_control: u8;
    static sfi_meter_arguments: u8;
    static sfi_meter_results: u8;
    static sfi_lane_gate: u8;
    static sfi_lane_results: u8;
    static sfi_gates_begin: u8;
    static sfi_gates_end: u8;
}

/// Makes crossings by a binding between domains charge the domains' accounts.
pub(crate) fn meter(binding: &mut Binding) {
    binding.metered = [binding.arguments, binding.results];
    binding.arguments = (&raw const sfi_meter_arguments) as usize;
    binding.results = (&raw const sfi_meter_results) as usize;
}

/// Makes crossings by a binding between domains go through the callee's door.
pub(crate) fn lane(binding: &mut Binding, door: &Door) {
    binding.lane = [binding.gate, binding.results, core::ptr::from_ref(door) as usize];
    binding.gate = (&raw const sfi_lane_gate) as usize;
    binding.results = (&raw const sfi_lane_results) as usize;
}

/// Returns the addresses of the gates' code.
pub(crate) fn text() -> Range<u64> {
    (&raw const sfi_gates_begin) as u64..(&raw const sfi_gates_end) as u64
}

/// A stretch of the gates' code, and the way from a place in it to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateCode {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// The place of the caller's return address, while a callee runs.
    pub caller: GateCaller,
}

/// The place of the return address of a gate's caller, while the gate's callee runs. Distances in
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateCaller {
    /// A call between domains: so far above the stack pointer.
    Domain {
        /// The distance.
        above: u64,
    },
    /// An entry from the host: the word so far above the stack pointer points into the host's
    /// stack. The words there are the flags, rbx, rbp and the return address.
    Entry {
        /// The distance.
        word: u64,
    },
    /// A call of a host function: the word so far above the stack pointer points to a frame, and
    /// the return address lies so far above that.
    Host {
        /// The distance of the word.
        word: u64,
        /// The distance in the frame.
        above: u64,
    },
}

/// Returns the code of the gates of a table, as far as it calls: see `GATES` in gate/variants.s.
pub(crate) fn code(table: &Table) -> Vec<GateCode> {
    let above = offset_of!(Frame, return_address) as u64;
    let of = |from: usize, to: usize, caller| GateCode { addresses: from as u64..to as u64, caller };
    vec![
        of(table.gates[0][0][0], table.enter, GateCaller::Domain { above }),
        of(table.enter, table.gate_host, GateCaller::Entry { word: offset_of!(HostEntry, host_rsp) as u64 }),
        of(
            table.gate_host,
            table.arguments[0][0],
            GateCaller::Host { word: offset_of!(HostFrame, frame) as u64, above },
        ),
    ]
}

/// Returns the address at which a gate stops if the control stack is used up.
pub(crate) fn control_trap() -> u64 {
    (&raw const sfi_trap_control) as u64
}

/// The features of the machine and its kernel that choose the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// VEX instructions exist, so clearing must reach the upper halves of vector registers.
    pub avx: bool,
    /// `wrgsbase` works in user mode.
    pub fsgsbase: bool,
}

impl Machine {
    /// Detects the features of this machine.
    pub fn detect() -> Self {
        Self { avx: std::arch::is_x86_feature_detected!("avx"), fsgsbase: kernel_allows_fsgsbase() }
    }

    /// Returns the gates for this machine.
    pub fn table(self) -> &'static Table {
        // SAFETY: the four tables are constants of gate/variants.s with the layout of `Table`.
        unsafe {
            match (self.avx, self.fsgsbase) {
                (true, true) => &sfi_table_avx_fsgs,
                (false, true) => &sfi_table_sse_fsgs,
                (true, false) => &sfi_table_avx_prctl,
                (false, false) => &sfi_table_sse_prctl,
            }
        }
    }
}

/// Returns the state that a text can use on this processor, of that which its instructions name.
/// Without AVX-512 its instructions fault before they touch anything. The gates' own instructions,
/// which clear that state, would fault as well.
pub(crate) fn usage_here(usage: Usage) -> Usage {
    let most = if std::arch::is_x86_feature_detected!("avx512f") { Vectors::Zmm } else { Vectors::Ymm };
    Usage { vectors: usage.vectors.min(most), ..usage }
}

/// Asks the processor about itself.
#[allow(unused_unsafe, reason = "the intrinsic is safe since Rust 1.94")]
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 processor has the instruction, which changes nothing but its results.
    unsafe { __cpuid_count(leaf, subleaf) }
}

/// Returns the processor state that the system has enabled (XCR0), or 0 if the system does not use
/// `xsave`.
pub(crate) fn enabled_features() -> u64 {
    /// `CPUID.1:ECX.OSXSAVE`
    const OSXSAVE: u32 = 1 << 27;
    if cpuid(1, 0).ecx & OSXSAVE == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that `xgetbv` works here. It changes nothing but eax and edx.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Says whether `wrgsbase` works: `HWCAP2_FSGSBASE` (Linux 5.9,
/// Documentation/arch/x86/x86_64/fsgs.rst).
fn kernel_allows_fsgsbase() -> bool {
    const HWCAP2_FSGSBASE: usize = 1 << 1;
    rustix::param::linux_hwcap().1 & HWCAP2_FSGSBASE != 0
}
