//! The origin of a register's value: the instructions whose writes reach a point, and the leaves of
//! a chain of moves.
//!
//! The predecessors are a superset: an indirect jump whose targets are not proven counts as a
//! predecessor of every label of its unit. So a claim about *all* definitions holds on every path.
//! Code that this analysis does not see reaches a function's entry, and [`Leaf::Outside`] tells so.
//! Moves between registers are followed, and so are stores to and loads from a place of the frame.

use crate::analysis::depth::{Height, State, States};
use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{AllEffects, Effects, Set, bit, callee_saved};
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Most instructions that are searched for definitions.
const REACH: usize = 100_000;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leaf {
    /// `lea place(%rip)` or `mov $place`: the address of a place.
    Address(InsnIndex),
    /// A load from memory that is no place of the frame.
    Load(InsnIndex),
    /// A sum or difference.
    Sum(InsnIndex),
    /// The result of a call.
    Result(InsnIndex),
    /// Anything else that is computed.
    Other(InsnIndex),
    /// An argument, or a value whose origin is not known.
    Outside,
}

/// Definitions of registers, found by a search against the flow of control.
pub(crate) struct Reach<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    /// The predecessors of each instruction: a range of `before`.
    near: PerInsn<Range<u32>>,
    before: Vec<InsnIndex>,
    /// Indirect jumps that may lead to any label of their unit, by unit.
    open: HashMap<u32, Vec<InsnIndex>>,
    /// Labels that the open jumps may reach.
    reached: HashSet<InsnIndex>,
    /// Labels that may have predecessors which are still to be found.
    hidden: Option<&'x HashSet<InsnIndex>>,
    /// Stores to places of frames, by unit and place.
    stores: HashMap<(u32, Register, i64), Vec<InsnIndex>>,
    /// The results of earlier searches. The jumps of an interpreter ask for one set of registers
    /// again and again.
    known: RefCell<HashMap<(InsnIndex, Register), Rc<Definitions>>>,
    /// Marks of a search for definitions, of values that were followed, and of their definitions.
    marks: [RefCell<Marks>; 3],
}

/// The registers that one search has met, by instruction.
struct Marks {
    /// Number of the search.
    search: u32,
    /// The last search that met each instruction, and registers.
    met: PerInsn<(u32, Set)>,
}

impl Marks {
    fn new(code: &Code<'_, '_>) -> RefCell<Marks> {
        RefCell::new(Marks { search: 0, met: code.per_insn((0, 0)) })
    }

    /// Begins a search, which has met nothing.
    fn begin(&mut self) -> &mut Marks {
        self.search += 1;
        self
    }

    /// Marks a register at an instruction. Says whether the search meets it for the first time.
    fn meet(&mut self, at: InsnIndex, register: Register) -> bool {
        const OTHER: Set = 1 << 31;
        let registers = if bit(register) == 0 { OTHER } else { bit(register) };
        let (search, met) = &mut self.met[at];
        if std::mem::replace(search, self.search) != self.search {
            *met = 0;
        }
        let before = *met;
        *met |= registers;
        before & registers == 0
    }
}

/// The writes of a register that may reach a point.
#[derive(Default)]
struct Definitions {
    by: Vec<InsnIndex>,
    /// There are paths without one.
    outside: bool,
    /// A callee that need not preserve the register leaves the value there.
    kept: bool,
}

impl<'x, 'o, 'a> Reach<'x, 'o, 'a> {
    /// Finds predecessors and stores to frames.
    pub(crate) fn new(
        code: &'x Code<'o, 'a>,
        graph: &'x FlowGraph,
        effects: &'x AllEffects,
        states: &'x States,
    ) -> Self {
        let mut near = code.per_insn(0..0u32);
        let each = |visit: &mut dyn FnMut(InsnIndex, InsnIndex)| {
            for at in code.indexes() {
                if code.insns[at].flow != Flow::JumpIndirect || graph.tables.contains_key(&at) {
                    // This function does not find values that another one left in a register. That
                    // holds even if padding or a call that does not return seems to fall into it.
                    let foreign = |next: InsnIndex| graph.entry[next] && graph.unit[next] != graph.unit[at];
                    graph.successors(code, at, |next| {
                        if !foreign(next) {
                            visit(at, next)
                        }
                    });
                }
            }
        };
        each(&mut |_, next| near[next].end += 1);
        let mut behind = 0;
        for near in &mut near {
            let count = near.end;
            *near = behind..behind;
            behind += count;
        }
        let mut before = vec![InsnIndex::FIRST; behind as usize];
        each(&mut |at, next| {
            before[near[next].end as usize] = at;
            near[next].end += 1;
        });
        let mut open = HashMap::<u32, Vec<InsnIndex>>::new();
        let mut stores = HashMap::<_, Vec<InsnIndex>>::new();
        for (at, insn) in code.each() {
            let unit = graph.unit[at];
            if insn.flow == Flow::JumpIndirect && graph.has_interior(at) && !graph.tables.contains_key(&at) {
                open.entry(unit).or_default().push(at);
            }
            if effects[at].memory_write
                && let Some((base, place)) = frame_place(code.form(insn), &states[at])
            {
                stores.entry((unit, base, place)).or_default().push(at);
            }
        }
        let labels = open.keys().filter_map(|unit| graph.interior.get(unit));
        let reached = labels.flatten().copied().collect();
        let (known, marks) = (RefCell::default(), std::array::from_fn(|_| Marks::new(code)));
        Reach { code, graph, effects, states, near, before, open, reached, hidden: None, stores, known, marks }
    }

    /// Takes the predecessors of some labels for complete, although nothing may seem to reach them.
    pub(crate) fn hiding(self, labels: &'x HashSet<InsnIndex>) -> Self {
        Reach { hidden: Some(labels), ..self }
    }

    /// Returns the effects of an instruction on registers.
    pub(crate) fn effects(&self, at: InsnIndex) -> &Effects {
        &self.effects[at]
    }

    /// Returns every instruction whose write of a register may reach `at`.
    fn definitions(&self, at: InsnIndex, register: Register) -> Rc<Definitions> {
        let at = self.line_head(at, register);
        if let Some(known) = self.known.borrow().get(&(at, register)) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.search(at, register));
        self.known.borrow_mut().insert((at, register), Rc::clone(&found));
        found
    }

    /// Returns the first place of the straight line to `at` in which nothing writes a register. All
    /// places of this line have equal definitions.
    fn line_head(&self, mut at: InsnIndex, register: Register) -> InsnIndex {
        while let [earlier] = *self.near(at)
            && !self.graph.entry[at]
            && !self.reached.contains(&at)
            && !self.defines(earlier, register)
            && !self.keeps(earlier, register)
            && earlier < at
        {
            at = earlier;
        }
        at
    }

    fn near(&self, at: InsnIndex) -> &[InsnIndex] {
        let Range { start, end } = self.near[at];
        &self.before[start as usize..end as usize]
    }

    fn defines(&self, at: InsnIndex, register: Register) -> bool {
        let call = matches!(self.code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect);
        let result = call && bit(register) & crate::analysis::regs::results() != 0;
        result || self.effects[at].writes & bit(register) != 0
    }

    /// Says whether a call keeps a value in a register that functions need not preserve.
    fn keeps(&self, at: InsnIndex, register: Register) -> bool {
        let call = matches!(self.code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect);
        call && bit(register) & callee_saved() == 0
    }

    fn search(&self, at: InsnIndex, register: Register) -> Definitions {
        let mut found = Definitions::default();
        let mut hub = false;
        let mut marks = self.marks[0].borrow_mut();
        let marks = marks.begin();
        marks.meet(at, register);
        let mut count = 1;
        let mut work = vec![at];
        while let Some(at) = work.pop() {
            let near = self.near(at);
            let jumps = self.reached.contains(&at) && !std::mem::replace(&mut hub, true);
            let far = self.open.get(&self.graph.unit[at]).filter(|_| jumps).map_or(&[][..], Vec::as_slice);
            // Nothing reaches the padding after a jump, and it is no label.
            let seen = self.reached.contains(&at) || self.hidden.is_some_and(|labels| labels.contains(&at));
            let unknown = near.is_empty() && self.graph.label[at] && !seen;
            found.outside |= self.graph.entry[at] || unknown;
            if count > REACH {
                found.outside = true;
                return found;
            }
            for earlier in near.iter().chain(far).copied() {
                if !marks.meet(earlier, register) {
                    continue;
                }
                count += 1;
                if self.defines(earlier, register) {
                    found.by.push(earlier);
                } else {
                    found.kept |= self.keeps(earlier, register);
                    work.push(earlier);
                }
            }
        }
        found
    }

    /// Returns the origins of the value that a register has before `at`.
    pub(crate) fn leaves(&self, at: InsnIndex, register: Register) -> HashSet<Leaf> {
        self.origins(at, register).0
    }

    /// Returns the origins of an indirect jump's target. It is in a register, or in a place of the
    /// frame whose height is known. `None` if it is elsewhere in memory.
    pub(crate) fn target(&self, jump: InsnIndex) -> Option<HashSet<Leaf>> {
        let ins = self.code.ins(jump);
        if ins.op0_kind() == OpKind::Register {
            return Some(self.leaves(jump, ins.op0_register()));
        }
        let (mut leaves, mut values) = (HashSet::new(), Vec::new());
        let (base, _) = frame_place(ins, &self.states[jump])?;
        let stores = self.stores_to_place_of(jump).filter(|_| base == Register::None)?;
        self.stored(stores, &mut leaves, &mut values);
        self.follow(values, &mut leaves);
        Some(leaves)
    }

    /// Returns the origins of a value, and whether it relies on callees that leave it in a register
    /// which they need not preserve.
    pub(crate) fn origins(&self, at: InsnIndex, register: Register) -> (HashSet<Leaf>, bool) {
        let mut leaves = HashSet::new();
        let kept = self.follow(vec![(at, register)], &mut leaves);
        (leaves, kept)
    }

    /// Adds the origins of the values that some registers have before instructions. Says whether
    /// they rely on callees, see [`Reach::origins`].
    fn follow(&self, mut work: Vec<(InsnIndex, Register)>, leaves: &mut HashSet<Leaf>) -> bool {
        let mut kept = false;
        let (mut values, mut writes) = (self.marks[1].borrow_mut(), self.marks[2].borrow_mut());
        let (values, writes) = (values.begin(), writes.begin());
        work.retain(|&(at, register)| values.meet(at, register));
        while let Some((at, register)) = work.pop() {
            let mut next = Vec::new();
            let definitions = self.definitions(at, register);
            kept |= definitions.kept;
            for &by in definitions.by.iter().filter(|&&by| writes.meet(by, register)) {
                self.step(by, register, leaves, &mut next);
            }
            if definitions.outside {
                leaves.insert(Leaf::Outside);
            }
            work.extend(next.into_iter().filter(|&(at, register)| values.meet(at, register)));
        }
        kept
    }

    /// Returns the stores to the place of the frame that an instruction's memory operand is.
    fn stores_to_place_of(&self, at: InsnIndex) -> Option<&[InsnIndex]> {
        let (base, place) = frame_place(self.code.ins(at), &self.states[at])?;
        self.stores.get(&(self.graph.unit[at], base, place)).map(Vec::as_slice)
    }

    /// Handles one definition of a register: adds a leaf, or values to follow.
    fn step(
        &self,
        by: InsnIndex,
        register: Register,
        leaves: &mut HashSet<Leaf>,
        next: &mut Vec<(InsnIndex, Register)>,
    ) {
        let (insn, ins) = (&self.code.insns[by], self.code.ins(by));
        let from = |op| (ins.op_kind(op) == OpKind::Register).then(|| ins.op_register(op).full_register());
        let plain = ins.op_count() >= 1 && from(0) == Some(register.full_register());
        match ins.mnemonic() {
            _ if matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect) => _ = leaves.insert(Leaf::Result(by)),
            _ if !plain => _ = leaves.insert(Leaf::Other(by)),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd if ins.op1_kind() == OpKind::Memory => {
                match self.stores_to_place_of(by) {
                    Some(stores) => self.stored(stores, leaves, next),
                    None => _ = leaves.insert(Leaf::Load(by)),
                }
            }
            Mnemonic::Mov if ins.op1_kind() == OpKind::Register => next.extend(from(1).map(|source| (by, source))),
            Mnemonic::Mov => _ = leaves.insert(Leaf::Address(by)),
            Mnemonic::Lea if ins.memory_base() == Register::RIP => _ = leaves.insert(Leaf::Address(by)),
            Mnemonic::Lea
                if ins.memory_index() == Register::None
                    && insn.disp_reloc.is_none()
                    && ins.memory_displacement64() == 0 =>
            {
                next.push((by, ins.memory_base().full_register()));
            }
            Mnemonic::Lea | Mnemonic::Add | Mnemonic::Sub => _ = leaves.insert(Leaf::Sum(by)),
            Mnemonic::Pop => _ = leaves.insert(Leaf::Load(by)),
            _ if is_conditional_move(ins) => {
                next.push((by, register));
                match from(1) {
                    Some(source) => next.push((by, source)),
                    None => _ = leaves.insert(Leaf::Load(by)),
                }
            }
            _ => _ = leaves.insert(Leaf::Other(by)),
        }
    }

    /// Handles the stores to a place of the frame.
    fn stored(&self, stores: &[InsnIndex], leaves: &mut HashSet<Leaf>, next: &mut Vec<(InsnIndex, Register)>) {
        for &store in stores {
            let ins = self.code.ins(store);
            if ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Register {
                next.push((store, ins.op1_register().full_register()));
            } else {
                leaves.insert(Leaf::Other(store));
            }
        }
    }
}

/// Returns the place of the frame that an instruction's memory operand is: its distance from the
/// function's entry without a register. If the height is not known, it is base register and
/// displacement.
pub(crate) fn frame_place(ins: &Instruction, state: &State) -> Option<(Register, i64)> {
    let operand = (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory);
    if !operand || ins.memory_index() != Register::None || ins.segment_prefix() != Register::None {
        return None;
    }
    let height = match ins.memory_base() {
        Register::RSP => state.rsp,
        Register::RBP => state.rbp,
        _ => return None,
    };
    let displacement = ins.memory_displacement64() as i64;
    Some(match height {
        Height::Known(height) => (Register::None, displacement - height),
        _ => (ins.memory_base(), displacement),
    })
}

fn is_conditional_move(ins: &Instruction) -> bool {
    ins.condition_code() != ConditionCode::None && ins.op_count() == 2
}
