//! Phase 6c: checks that a function that leaves does so on its own stack.
//!
//! Return addresses lie on the control stack, which does not follow when code loads another stack
//! pointer. Calls on another stack work nevertheless, because calls and returns stay nested. But a
//! function may *leave* with a stack pointer that is not its own. It then switches to another chain
//! of calls, as coroutines do, and its control stack would be wrong. Far jumps
//! ([`crate::analysis::receive`]) take the control stack along.
//!
//! This phase proves for every path to a place where a function is left that the stack pointer
//! comes from its value at the function's entry. It comes by arithmetic, by copies between
//! registers, or from places of the frame to which nothing else is stored.

use crate::analysis::depth::{Height, States};
use crate::analysis::flow::{self, FlowGraph, JumpKind, PerUnit};
use crate::analysis::regs::{AllEffects, GPRS, Set, bit, callee_saved};
use crate::object::address::insn_of;
use crate::object::decode::{Code, Dest, Flow, InsnIndex, PerInsn};
use crate::object::read::Place;
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

const RSP: Set = 1 << 4;
const RBP: Set = 1 << 5;

/// A place of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Slot {
    /// Distance from the stack pointer at the function's entry.
    Distance(i64),
    /// Index register, scale and displacement, if the distance is not known: a place of a realigned
    /// stack, or below one, with any register as its base.
    Operand(Register, u32, i64),
    /// Every place that was pushed while the height was not known: a realigned stack. Its old
    /// pointer lies among them.
    Pushed,
}

/// Refuses functions that leave with a stack pointer that is not their own.
pub(crate) fn check(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    stops: &HashSet<InsnIndex>,
) -> Vec<Refusal> {
    let loads = |at: InsnIndex| {
        if effects[at].writes & RSP == 0 || code.insns[at].flow != Flow::Next {
            return false;
        }
        let ins = code.ins(at);
        let frame = matches!(states[at].rbp, Height::Known(_));
        match ins.mnemonic() {
            Mnemonic::Leave => !frame,
            Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Syscall => false,
            Mnemonic::Pop => ins.op0_register() == Register::RSP,
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And => ins.op0_register() != Register::RSP,
            Mnemonic::Lea => {
                ![Register::RSP, Register::RBP].contains(&ins.memory_base())
                    || (ins.memory_base() == Register::RBP && !frame)
            }
            _ => ins.op1_register() != Register::RBP || !frame,
        }
    };
    let suspect: HashSet<u32> = code.indexes().filter(|&at| loads(at)).map(|at| graph.unit[at]).collect();
    if suspect.is_empty() {
        return Vec::new();
    }
    let members = graph.members(&suspect);
    let mut own = Own {
        code,
        graph,
        effects,
        states,
        stops,
        before: code.per_insn(None),
        frames: Frames::find(code, graph, states, stops, &members),
        stores: HashMap::new(),
        leaves: leaves(code, graph, effects),
    };
    own.find(&members);
    let leaves = |at: InsnIndex| match code.insns[at].flow {
        Flow::Return => true,
        Flow::Jump(_) | Flow::Branch(_) => graph.leads_out(at),
        Flow::JumpIndirect => match graph.jump_kind(at) {
            JumpKind::Far => false,
            kind => kind != JumpKind::Inside || !graph.tables.contains_key(&at),
        },
        _ => false,
    };
    let foreign = |at: &InsnIndex| leaves(*at) && own.before[*at].is_some_and(|own| own & RSP == 0);
    let detail = "the function leaves on another stack than its own, as coroutines do: the control stack does not \
                  follow. Use swapcontext (BOOST_USE_UCONTEXT, MCO_USE_UCONTEXT)";
    members.iter().copied().filter(foreign).map(|at| code.refuse(at, Reason::StackPointerUse, detail)).collect()
}

/// Refuses jumps to other functions with something on the stack, as far as heights are known. The
/// other function would return to the word there. Such jumps also stand after calls that do not
/// return, where compilers do not care for the way on.
pub(crate) fn check_tails(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    states: &States,
    stops: &HashSet<InsnIndex>,
) -> Vec<Refusal> {
    let deep = |at: InsnIndex| matches!(states[at].rsp, Height::Known(height) if height != 0);
    let leaves = |at: InsnIndex| match code.insns[at].flow {
        Flow::Jump(_) | Flow::Branch(_) => graph.tail_calls(code, at),
        Flow::JumpIndirect => graph.jump_kind(at) != JumpKind::Far && graph.jump_targets(at).is_empty(),
        _ => false,
    };
    let mut found: Vec<InsnIndex> = code.indexes().filter(|&at| leaves(at) && deep(at)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let labels = graph.interior.values().flatten().copied().chain(graph.far.all());
    let mut work: Vec<InsnIndex> = graph.entry.iter().chain(labels).collect();
    let mut reached = code.no_insns();
    for at in &work {
        reached.insert(*at);
    }
    while let Some(at) = work.pop() {
        successors(code, graph, stops, at, |to| {
            if reached.insert(to) {
                work.push(to);
            }
        });
    }
    found.retain(|at| reached[*at]);
    let detail = "jumps to a function, which finds another word in place of its return address";
    found.into_iter().map(|at| code.refuse(at, Reason::ReturnAddress, detail)).collect()
}

struct Own<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    /// Calls that a trap follows.
    stops: &'x HashSet<InsnIndex>,
    /// Registers that hold addresses of the own stack, before each instruction that control
    /// reaches.
    before: PerInsn<Option<Set>>,
    frames: Frames,
    /// Stores to places of a frame: the instruction, and the register.
    stores: HashMap<(u32, Slot), Vec<(InsnIndex, Register)>>,
    /// Registers written by each unit that neither calls nor jumps to another one.
    leaves: PerUnit<Option<Set>>,
}

impl Own<'_, '_, '_> {
    fn find(&mut self, members: &[InsnIndex]) {
        for &at in members {
            if let Some((slot, register)) = self.store(at) {
                self.stores.entry((self.frames.of[at], slot)).or_default().push((at, register));
            }
        }
        let entries = || members.iter().copied().filter(|&at| self.graph.entry[at]);
        let mut work: Vec<InsnIndex> = entries().collect();
        for &at in &work {
            self.before[at] = Some(RSP);
        }
        let mut rest = members.iter().copied().filter(|&at| self.graph.label[at]);
        // A load depends on stores anywhere in the unit, so this repeats until nothing changes.
        // Each round starts with the last one's result and ends with fewer registers.
        loop {
            let mut changed = false;
            loop {
                while let Some(at) = work.pop() {
                    let after = self.transfer(at);
                    let before = &mut self.before;
                    successors(self.code, self.graph, self.stops, at, |to| {
                        if self.graph.entry[to] {
                            return;
                        }
                        let joined = Some(before[to].map_or(after, |own| own & after));
                        if std::mem::replace(&mut before[to], joined) != joined {
                            changed = true;
                            work.push(to);
                        }
                    });
                }
                // Labels that nothing seems to reach.
                let Some(at) = rest.find(|at| self.before[*at].is_none()) else { break };
                // Padding has no code before it.
                let next = self.graph.next(at).filter(|_| self.code.insns[at].is_nop());
                let after = next.and_then(|next| self.before[next]);
                self.before[at] = Some(after.unwrap_or(RSP | RBP));
                work.push(at);
            }
            if !changed {
                return;
            }
            work.extend(members.iter().copied().filter(|at| self.before[*at].is_some()));
        }
    }

    /// Returns the place of the frame that a memory operand is, if its base may hold an address of
    /// the own stack.
    fn slot(&self, at: InsnIndex, ins: &Instruction) -> Option<Slot> {
        let (base, index) = (ins.memory_base(), ins.memory_index());
        if !base.is_gpr64() || ins.segment_prefix() != Register::None {
            return None;
        }
        let displacement = ins.memory_displacement64() as i64;
        let height = match base {
            Register::RSP => self.states[at].rsp,
            Register::RBP => self.states[at].rbp,
            _ => Height::Computed,
        };
        Some(match height {
            Height::Known(height) if index == Register::None => Slot::Distance(displacement - height),
            _ => Slot::Operand(index, ins.memory_index_scale(), displacement),
        })
    }

    fn store(&self, at: InsnIndex) -> Option<(Slot, Register)> {
        let ins = self.code.ins(at);
        let pushed = || match self.states[at].rsp {
            Height::Known(height) => Slot::Distance(-8 - height),
            _ => Slot::Pushed,
        };
        match ins.mnemonic() {
            Mnemonic::Push if ins.op0_kind() == OpKind::Register => Some((pushed(), ins.op0_register())),
            Mnemonic::Mov if ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Register => {
                Some((self.slot(at, ins)?, ins.op1_register()))
            }
            _ => None,
        }
    }

    /// Says whether the place of the frame that an instruction loads from holds an address of the
    /// own stack.
    fn loads_own(&self, at: InsnIndex, slot: Slot) -> bool {
        let frame = self.frames.of[at];
        let holds = |at: InsnIndex, register: Register| {
            register.is_gpr64() && self.before[at].is_none_or(|own| own & bit(register) != 0)
        };
        let own = |&(at, register): &(InsnIndex, Register)| holds(at, register);
        let pushed = || {
            let pushed = self.stores.get(&(frame, Slot::Pushed));
            pushed.is_some_and(|pushed| pushed.iter().any(own))
        };
        let stores = || self.stores.get(&(frame, slot)).into_iter().flatten();
        // If the distance is not known, stores through other pointers look alike.
        let mut beside = stores().filter(|(at, _)| holds(*at, self.code.ins(*at).memory_base())).peekable();
        match slot {
            Slot::Distance(_) if stores().all(own) => stores().next().is_some(),
            // The place serves several variables, one after the other.
            Slot::Distance(_) if stores().any(own) => {
                self.last_stores(at, slot).is_some_and(|last| last.iter().all(own))
            }
            Slot::Distance(_) => false,
            Slot::Pushed => pushed(),
            Slot::Operand(..) if beside.peek().is_some() => beside.all(own),
            Slot::Operand(index, ..) => index == Register::None && pushed(),
        }
    }

    /// Returns the stores to a place that may be the last ones before an instruction. `None` if
    /// there may be none, on a path from the function's entry.
    fn last_stores(&self, at: InsnIndex, slot: Slot) -> Option<Vec<(InsnIndex, Register)>> {
        let (mut found, mut seen, mut work) = (Vec::new(), HashSet::new(), vec![at]);
        while let Some(at) = work.pop() {
            let before = self.frames.before(at);
            if before.is_empty() || self.graph.entry[at] {
                return None;
            }
            for &(_, at) in before.iter().filter(|(_, at)| seen.insert(*at)) {
                match self.store(at).filter(|(to, _)| *to == slot) {
                    Some((_, register)) => found.push((at, register)),
                    None => work.push(at),
                }
            }
        }
        Some(found)
    }

    /// Returns the registers that a callee leaves alone. If a function of this object calls nobody,
    /// these are all that it does not write. Hand-written code relies on that.
    fn kept(&self, dest: Dest) -> Set {
        let unit = insn_of(self.code, dest).map(|to| self.graph.unit[to]);
        callee_saved() | unit.and_then(|unit| self.leaves[unit]).map_or(0, |written| GPRS & !written)
    }

    fn transfer(&self, at: InsnIndex) -> Set {
        let before = self.before[at].unwrap_or(0);
        let (insn, ins) = (&self.code.insns[at], self.code.ins(at));
        match insn.flow {
            Flow::Call(dest) => return before & self.kept(dest),
            Flow::CallIndirect => return before & callee_saved(),
            _ => {}
        }
        let is_own = |register: Register| register.is_gpr64() && before & bit(register) != 0;
        let to = bit(ins.op0_register());
        let from = |op: u32| ins.op_kind(op) == OpKind::Register && is_own(ins.op_register(op));
        let result = match ins.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Popfq => return before,
            Mnemonic::Leave => {
                let stack = if before & RBP != 0 { before | RSP } else { before & !RSP };
                return stack & !RBP;
            }
            Mnemonic::Xchg if ins.op0_kind() == OpKind::Register && ins.op1_kind() == OpKind::Register => {
                let (a, b) = (bit(ins.op0_register()), bit(ins.op1_register()));
                let put = |set: Set, to: Set, own: bool| if own { set | to } else { set & !to };
                return put(put(before, a, from(1)), b, from(0));
            }
            Mnemonic::Pop => match self.states[at].rsp {
                Height::Known(height) => self.loads_own(at, Slot::Distance(-height)),
                _ => self.loads_own(at, Slot::Pushed),
            },
            Mnemonic::Mov if ins.op1_kind() == OpKind::Memory => {
                self.slot(at, ins).filter(|_| is_own(ins.memory_base())).is_some_and(|slot| self.loads_own(at, slot))
            }
            Mnemonic::Mov => from(1),
            Mnemonic::Lea => is_own(ins.memory_base()) || is_own(ins.memory_index()),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Or => from(0) || from(1),
            _ => false,
        };
        let written = self.effects[at].writes & 0xffff;
        let popped = if ins.mnemonic() == Mnemonic::Pop && to != RSP { before & RSP } else { 0 };
        let kept = (before & !written) | popped;
        if ins.op0_kind() == OpKind::Register && ins.op0_register().is_gpr64() && result { kept | to } else { kept }
    }
}

/// The frames of functions. A unit has several if functions jump to each other's beginning: at such
/// a jump the frame is empty.
struct Frames {
    /// The frame of each instruction, as one of the instructions that use it.
    of: PerInsn<u32>,
    /// Instructions with the same frame between which control passes, in order: the later one, and
    /// the earlier one.
    edges: Vec<(InsnIndex, InsnIndex)>,
}

impl Frames {
    fn find(
        code: &Code<'_, '_>,
        graph: &FlowGraph,
        states: &States,
        stops: &HashSet<InsnIndex>,
        members: &[InsnIndex],
    ) -> Frames {
        let starts: HashSet<InsnIndex> = (code.object.symbols.iter().filter(|symbol| symbol.is_function()))
            .filter_map(|symbol| match symbol.place {
                Place::Section(section) => code.at(section, symbol.value),
                _ => None,
            })
            .filter(|&at| states[at].rsp == Height::Known(0))
            .collect();
        let mut edges = Vec::with_capacity(members.len());
        for &at in members {
            let (jumps, falls) = match code.insns[at].flow {
                Flow::Jump(_) => (true, None),
                Flow::Branch(_) => (true, graph.next(at)),
                _ => (false, None),
            };
            successors(code, graph, stops, at, |to| {
                if !(jumps && Some(to) != falls && starts.contains(&to)) {
                    edges.push((to, at));
                }
            });
        }
        edges.sort_unstable();
        let of = flow::joined(code, edges.iter().copied());
        Frames { of, edges }
    }

    /// Returns the edges that lead to an instruction.
    fn before(&self, at: InsnIndex) -> &[(InsnIndex, InsnIndex)] {
        let first = self.edges.partition_point(|(to, _)| *to < at);
        let count = self.edges[first..].partition_point(|(to, _)| *to == at);
        &self.edges[first..first + count]
    }
}

/// Calls `visit` for every instruction that control may reach next. The code after a trap belongs
/// to other paths, whose registers the call before the trap does not have.
fn successors(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    stops: &HashSet<InsnIndex>,
    at: InsnIndex,
    mut visit: impl FnMut(InsnIndex),
) {
    let behind = graph.next(at).filter(|_| stops.contains(&at));
    let landing = if behind.is_some() { graph.landing(at).map(|landing| landing.pad) } else { None };
    graph.successors(code, at, |to| {
        if Some(to) != behind || Some(to) == landing {
            visit(to);
        }
    });
}

/// Returns the registers written by each unit in which only its own code runs.
fn leaves(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects) -> PerUnit<Option<Set>> {
    let mut written = PerUnit::new(code, Some(0));
    for (at, insn) in code.each() {
        let unit = graph.unit[at];
        let leaves = match insn.flow {
            Flow::Call(_) | Flow::CallIndirect => true,
            Flow::Jump(_) | Flow::Branch(_) => graph.target(at).is_none_or(|to| graph.unit[to] != unit),
            Flow::JumpIndirect => !graph.tables.contains_key(&at),
            Flow::Next => code.form(insn).mnemonic() == Mnemonic::Syscall,
            Flow::Return | Flow::Stop => false,
        };
        written[unit] = written[unit].filter(|_| !leaves).map(|set| set | (effects[at].writes & GPRS));
    }
    written
}
