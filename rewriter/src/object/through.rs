//! Reads through an address: follows a register from the instruction that put an address there.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::hash::Hash;

/// Most instructions that are searched for a use of a register.
const REACH: usize = 20_000;
/// Registers that functions preserve, as bits by number: rbx, rbp, r12 to r15.
const PRESERVED: u32 = 0xf028;
/// Registers that carry results: rax, rdx.
const RESULTS: u32 = 0x5;

/// The ways on from an instruction.
pub(crate) struct Ways<P> {
    /// The target of a branch or call.
    pub target: Option<P>,
    /// The instruction after it.
    pub next: Option<P>,
    /// It is a call.
    pub call: bool,
}

/// Instructions, and their order.
pub(crate) trait Program {
    /// A place in it.
    type Place: Copy + Eq + Hash;

    /// Returns the instruction at a place.
    fn insn(&self, at: Self::Place) -> Option<&Instruction>;

    /// Returns the places that follow an instruction. `None`: nobody knows them.
    fn ways(&self, at: Self::Place) -> Option<Ways<Self::Place>>;
}

/// Follows registers.
pub(crate) struct Follower {
    factory: InstructionInfoFactory,
}

impl Follower {
    /// Makes a follower.
    pub(crate) fn new() -> Follower {
        Follower { factory: InstructionInfoFactory::new() }
    }

    /// Returns the instructions that read memory through an instruction's register, or through a
    /// register computed from it, on some path. Addresses in memory are not followed.
    pub(crate) fn reads_through<T: Program>(
        &mut self,
        program: &T,
        from: T::Place,
        register: Register,
    ) -> HashSet<T::Place> {
        let mut found = HashSet::new();
        let mut seen: HashMap<T::Place, u32> = HashMap::new();
        let mut steps: HashSet<T::Place> = HashSet::new();
        let mut work: Vec<(T::Place, u32)> =
            program.ways(from).and_then(|ways| ways.next).map(|next| (next, bit(register))).into_iter().collect();
        while let Some((at, holds)) = work.pop() {
            let Some(ins) = program.insn(at) else { continue };
            let before = seen.entry(at).or_default();
            if holds & !*before == 0 || steps.len() > REACH {
                continue;
            }
            *before |= holds;
            let holds = *before;
            steps.insert(at);
            let info = self.factory.info(ins);
            if reads(ins, info, holds) {
                found.insert(at);
            }
            let after = step(ins, info, holds);
            let Some(Ways { target, next, call }) = program.ways(at).filter(|_| after != 0) else { continue };
            // A function of another object keeps the preserved registers only.
            let kept = match (call, target) {
                (true, None) => after & PRESERVED,
                (true, Some(_)) => after & !RESULTS,
                (false, _) => after,
            };
            work.extend(target.map(|at| (at, after)).into_iter().chain(next.map(|at| (at, kept))));
        }
        found
    }
}

/// Says whether an instruction reads memory through one of some registers.
fn reads(ins: &Instruction, info: &InstructionInfo, holds: u32) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    // `mov -1(%ptr,%table),%r64` and `call *-1(%ptr,%table)` read the entry of a virtual
    // function, if a pointer to a member (Itanium C++ ABI) is odd. The address of a function is
    // even, and this code is not reached with it.
    let is_word = match ins.mnemonic() {
        Mnemonic::Mov => ins.op0_register().is_gpr64(),
        mnemonic => matches!(mnemonic, Mnemonic::Call | Mnemonic::Jmp),
    };
    let member = is_word && ins.memory_index() != Register::None && ins.memory_displacement64() as i64 == -1;
    !member
        && info.used_memory().iter().any(|m| {
            matches!(m.access(), Read | CondRead | ReadWrite | ReadCondWrite)
                && (bit(m.base()) | bit(m.index())) & holds != 0
        })
}

/// Returns the registers that hold the address, or a sum with it, after an instruction.
fn step(ins: &Instruction, info: &InstructionInfo, holds: u32) -> u32 {
    let address = bit(ins.memory_base()) | bit(ins.memory_index());
    let (mut uses, mut written) = (0, 0);
    for used in info.used_registers() {
        match used.access() {
            OpAccess::Read | OpAccess::CondRead => uses |= bit(used.register()),
            OpAccess::Write => written |= bit(used.register()),
            _ => (uses, written) = (uses | bit(used.register()), written | bit(used.register())),
        }
    }
    // lea, mov, add, sub: the result is still an address of the same data.
    let carries = matches!(ins.mnemonic(), Mnemonic::Lea | Mnemonic::Mov | Mnemonic::Add | Mnemonic::Sub)
        && (uses | address) & holds != 0
        && ins.op0_kind() == OpKind::Register;
    if carries { holds | bit(ins.op0_register()) } else { holds & !written }
}

/// Returns a general register as a bit.
fn bit(register: Register) -> u32 {
    if register.is_gpr() { 1 << (register.full_register() as u32 - Register::RAX as u32) } else { 0 }
}
