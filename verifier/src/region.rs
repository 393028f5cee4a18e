//! Unsafe regions: the few instructions whose safety depends on those right before them.
//!
//! ```text
//! and  $0xffff8,%R ; call|jmp *%gs:0x100000(%R)                          an indirect branch
//! mov %edi,%edi ; add %gs:0xff000,%rdi ; stos, movs, scas                a string instruction by rdi
//! mov %esi,%esi ; add %gs:0xff000,%rsi ; lods                            one by rsi (mode full)
//! mov %esi,%esi ; add ...,%rsi ; mov %edi,%edi ; add ...,%rdi ; movs, cmps   one by both (mode full)
//! ```
//!
//! The tracker follows a sweep and knows how much of such a sequence lies directly behind.

use crate::prefix::Prefixes;
use iced_x86::{Code, Instruction, OpKind, Register};
use sfi_contract::layout::{DISPATCH_MASK, DISPATCH_OFFSET, HEADER_BASE};
use sfi_contract::policy::prefix::{P65, P67};

/// The instructions directly behind the sweep form this prefix of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    /// `and $0xffff8,%R`
    Masked(Register),
    /// `mov %edi,%edi`
    DiTruncated,
    /// ... `add %gs:0xff000,%rdi`
    Di,
    /// `mov %esi,%esi`
    SiTruncated,
    /// ... `add %gs:0xff000,%rsi`
    Si,
    /// rsi is ready, and `mov %edi,%edi`
    SiDiTruncated,
    /// ... `add %gs:0xff000,%rdi`
    SiDi,
}

/// Which pointers of a string instruction must be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointers {
    pub rdi: bool,
    pub rsi: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tracker {
    state: State,
    start: u64,
}

impl Tracker {
    /// The start of the region that an indirect branch at the sweep's place completes.
    pub fn indirect_branch(&self, instruction: &Instruction, prefixes: Prefixes) -> Option<u64> {
        let State::Masked(register) = self.state else { return None };
        // call|jmp *%gs:0x100000(%R): 65 67 [41] FF /2|/4, no index, no other prefix.
        let matches = prefixes.seen & (P65 | P67) == P65 | P67
            && prefixes.rex & 0xfe & !0x40 == 0
            && instruction.op0_kind() == OpKind::Memory
            && instruction.memory_base() == register
            && instruction.memory_index() == Register::None
            && instruction.memory_displacement64() == DISPATCH_OFFSET;
        matches.then_some(self.start)
    }

    /// The start of the region that a string instruction at the sweep's place completes.
    pub fn string(&self, needs: Pointers) -> Option<u64> {
        let ready = match (needs.rdi, needs.rsi) {
            (true, true) => self.state == State::SiDi,
            (true, false) => matches!(self.state, State::Di | State::SiDi),
            (false, true) => self.state == State::Si,
            (false, false) => false,
        };
        ready.then_some(self.start)
    }

    /// Moves behind one instruction at `at`.
    #[inline]
    pub fn step(&mut self, at: u64, instruction: &Instruction, prefixes: Prefixes) {
        let next = match instruction.code() {
            Code::And_rm32_imm32 | Code::And_EAX_imm32 => mask(instruction),
            Code::Mov_r32_rm32 | Code::Mov_rm32_r32 => truncate(instruction, self.state),
            Code::Add_r64_rm64 if is_rebase(instruction, prefixes) => match (instruction.op0_register(), self.state) {
                (Register::RDI, State::DiTruncated) => State::Di,
                (Register::RDI, State::SiDiTruncated) => State::SiDi,
                (Register::RSI, State::SiTruncated) => State::Si,
                _ => State::None,
            },
            _ => State::None,
        };
        if matches!(next, State::Masked(_) | State::DiTruncated | State::SiTruncated) {
            self.start = at;
        }
        self.state = next;
    }
}

/// `and $0xffff8,%R` with any 32-bit register but esp.
fn mask(instruction: &Instruction) -> State {
    let register = instruction.op0_register();
    if instruction.op0_kind() == OpKind::Register
        && register != Register::ESP
        && instruction.immediate32() == DISPATCH_MASK
    {
        State::Masked(register)
    } else {
        State::None
    }
}

/// `mov %edi,%edi` or `mov %esi,%esi`
fn truncate(instruction: &Instruction, state: State) -> State {
    if instruction.op0_kind() != OpKind::Register || instruction.op1_kind() != OpKind::Register {
        return State::None;
    }
    match (instruction.op0_register(), instruction.op1_register(), state) {
        (Register::EDI, Register::EDI, State::Si) => State::SiDiTruncated,
        (Register::EDI, Register::EDI, _) => State::DiTruncated,
        (Register::ESI, Register::ESI, _) => State::SiTruncated,
        _ => State::None,
    }
}

/// `add %gs:0xff000,%r`: no base, no index, the header page's first word.
pub(crate) fn is_rebase(instruction: &Instruction, prefixes: Prefixes) -> bool {
    instruction.code() == Code::Add_r64_rm64
        && instruction.op1_kind() == OpKind::Memory
        && prefixes.seen & P65 != 0
        && instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == HEADER_BASE
}
