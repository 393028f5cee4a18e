//! The registers that calls of functions of the object may change. Hand-written code keeps values
//! across such calls in any register that the function does not write.

use crate::code::{Flow, Index, Old, falls_through};
use crate::sets::{AllEffects, PRESERVED, RSP};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::Mnemonic;

/// General registers, as bits by number.
pub(crate) type Registers = u32;

/// The registers that unknown functions may change.
pub(crate) const VOLATILE: Registers = {
    let (mut set, mut number) = (0xffff & !(1 << RSP), 0);
    while number < PRESERVED.len() {
        set &= !(1 << PRESERVED[number]);
        number += 1;
    }
    set
};

/// The volatile registers that each group of code may change, with its callees.
#[derive(Default)]
pub(crate) struct Leaves(HashMap<u32, Registers>);

impl Leaves {
    /// Finds the registers. `group`: the group of each instruction. `entry`: where functions begin.
    pub(crate) fn find(old: &Old<'_, '_>, effects: &AllEffects, group: &[u32], entry: &[bool]) -> Leaves {
        let mut changed: HashMap<u32, Registers> = HashMap::new();
        let mut ways: HashSet<(u32, u32)> = HashSet::new();
        for (at, insn) in old.text.insns.iter().enumerate() {
            let mut to = Vec::new();
            let mut known = insn.ins.mnemonic() != Mnemonic::Syscall;
            match old.flow[at] {
                Flow::Call(dest) | Flow::Jump(dest) | Flow::Branch(dest) => match old.insn_of(dest) {
                    Some(target) => to.push(target),
                    None => known = false,
                },
                Flow::CallIndirect | Flow::JumpIndirect => known = false,
                Flow::Next | Flow::Return | Flow::Stop => {}
            }
            if falls_through(old.flow[at]) {
                to.extend(old.text.next(at).filter(|next| entry[*next]));
            }
            let own = if known { effects[at].changes & VOLATILE } else { VOLATILE };
            *changed.entry(group[at]).or_default() |= own;
            ways.extend(to.into_iter().map(|to| (group[at], group[to])).filter(|(from, to)| from != to));
        }
        loop {
            let mut more = false;
            for (from, to) in &ways {
                let reached = changed[from] | changed[to];
                more |= changed.insert(*from, reached) != Some(reached);
            }
            if !more {
                return Leaves(changed);
            }
        }
    }

    /// Returns the registers that a call may change.
    pub(crate) fn changed(&self, old: &Old<'_, '_>, call: Index, group: &[u32]) -> Registers {
        let Flow::Call(dest) = old.flow[call] else { return VOLATILE };
        old.insn_of(dest).and_then(|to| self.0.get(&group[to])).copied().unwrap_or(VOLATILE)
    }
}
