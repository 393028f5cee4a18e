//! The records of interruptions ([`crate::fault::interrupt`]): where a domain goes on, and the
//! registers of the code that it interrupts.

use crate::gate::cpuid;
use crate::gate::records::{Caught, DomainState};
use libc::{REG_R15, REG_RSP};
use sfi_contract::layout::{STACK_BELOW, TCB_R15, TCB_SCRATCH, TCB_SCRATCH_SLOTS};
use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// Interruptions of one thread that have not returned. Further ones wait.
pub(super) const NESTED: usize = 4;
/// Registers that are kept: all but those of segments and of the exception.
pub(super) const REGISTERS: usize = libc::REG_EFL as usize + 1;
/// Words of the TCB page that code without calls uses: the home of r15 and the scratch words.
pub(super) const WORDS: usize = ((TCB_SCRATCH.addend - TCB_R15.addend) / 8) as usize + TCB_SCRATCH_SLOTS as usize;

/// The component of protection keys, which is the host's.
const KEYS: u32 = 9;
const KEYS_BIT: u64 = 1 << KEYS;
/// The component of x87.
const X87_BIT: u64 = 1;

/// The interruptions of a world with one domain.
#[derive(Debug)]
pub(crate) struct Interruptions {
    /// The domain, its text and trap, and the function.
    pub(super) domain: *const DomainState,
    pub(super) place: Caught,
    /// Offset of the protection keys in the floating-point state, if there are any.
    pub(super) keys: Option<usize>,
    /// The text names x87.
    pub(super) x87: bool,
    pub(super) kept: UnsafeCell<Stack>,
}

/// Interruptions that have not returned, the oldest first.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) kept: [Kept; NESTED],
    pub(super) used: usize,
}

/// The registers of interrupted code.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) registers: [i64; REGISTERS],
    /// The number of registers that the code had saved on the control stack.
    pub(super) depth: u64,
    pub(super) words: [u64; WORDS],
    pub(super) floats: Box<[u8]>,
}

/// Returns the bytes of the floating-point state that the processor's features need, and the offset
/// of the protection keys in it. CPUID is slow in a virtual machine, so it is asked once.
fn sizes() -> (usize, Option<usize>) {
    static SIZES: OnceLock<(usize, Option<usize>)> = OnceLock::new();
    *SIZES.get_or_init(|| {
        let all = cpuid(0xd, 0);
        let keys = cpuid(0xd, KEYS);
        let has_keys = all.eax >> KEYS & 1 == 1 && keys.eax >= 4;
        (all.ebx as usize, has_keys.then_some(keys.ebx as usize))
    })
}

impl Interruptions {
    /// Makes the record of a domain. `place` holds the function. `x87` says whether its text names
    /// x87.
    pub(crate) fn new(domain: *const DomainState, place: Caught, x87: bool) -> Self {
        let (size, keys) = sizes();
        let kept = std::array::from_fn(|_| Kept {
            registers: [0; REGISTERS],
            depth: 0,
            words: [0; WORDS],
            floats: vec![0; size].into_boxed_slice(),
        });
        Self { domain, place, keys, x87, kept: UnsafeCell::new(Stack { kept, used: 0 }) }
    }

    /// Returns the components of the floating-point state that are the host's.
    pub(super) fn of_host(&self) -> u64 {
        if self.x87 { KEYS_BIT } else { KEYS_BIT | X87_BIT }
    }
}

impl Stack {
    /// Returns the interruption to which a return belongs, by its depth and its stack pointers.
    /// Fibers with equal control stacks have different data stacks. Otherwise the last one counts.
    /// Async-signal-safe.
    pub(super) fn find(&self, (rsp, depth): (u64, u64), lead: i64) -> Option<usize> {
        let is_here = |kept: &Kept| kept.rsp() == rsp && kept.depth == depth;
        let here = || (0..self.used).rev().filter(|i| is_here(&self.kept[*i]));
        let own = |i: &usize| self.kept[*i].registers[REG_R15 as usize].wrapping_sub(STACK_BELOW) == lead;
        here().find(own).or_else(|| here().next())
    }

    /// Removes an interruption. Async-signal-safe.
    pub(super) fn remove(&mut self, number: usize) {
        self.kept[number..self.used].rotate_left(1);
        self.used -= 1;
    }
}

impl Kept {
    pub(super) fn rsp(&self) -> u64 {
        self.registers[REG_RSP as usize] as u64
    }
}
