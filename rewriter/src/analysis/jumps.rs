//! Phase 5c: the origin of an indirect jump's target, and so its targets.
//!
//! This phase proves one of these, over all paths that [`Reach`] finds:
//!
//! - *A switch.* The target is a sum, and one summand comes only from `lea`s of switch tables (`lea
//!   table(%rip),%b ; movslq (%b,%i,4),%t ; add %b,%t ; jmp *%t`, also if the `lea` is far away, or
//!   the base was in the frame). The jump leads to the entries of these tables. Some path may hide
//!   the code before (a call that does not return). Then the form shows that it is a switch: `%b`
//!   is added to the value loaded from `(%b,%i,4)`. In this case the jump may lead to the entries
//!   of all tables of its unit.
//!   The target may be in the frame (`mov %t,8(%rsp) ; jmp *8(%rsp)`), where clang keeps the target
//!   of a switch that a loop repeats. A base may be in a register across the jumps of a loop. Then
//!   all these jumps are proven together, see [`prove_together`].
//! - *A switch of code for a fixed place*: `jmp *table(,%i,8)`, if only such jumps name the table.
//! - *A table of labels.* The target is loaded from an array of pointers whose base is named, and
//!   the array holds labels of the jump's own unit.
//! - *A pointer.* The target is loaded, passed, returned or named, and no sum. Then it is no entry
//!   of a switch table, and [`FlowGraph::settle`] decides between a tail call and labels that
//!   pointers name.
//!
//! The rest are sums whose summands are no tables. They are differences of labels that the
//! assembler resolved, which no relocation shows. They are refused. Sums with memory in units
//! without labels are not refused, because they add values that are known only at run time.

use crate::analysis::depth::States;
use crate::analysis::flow::{FlowGraph, Switch};
use crate::analysis::height;
use crate::analysis::reach::{Leaf, Reach};
use crate::analysis::regs::{AllEffects, bit};
use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, Insn, InsnIndex};
use crate::object::read::{Place, SectionIndex};
use foldhash::{HashMap, HashMapExt, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::collections::BTreeMap;

/// Most rounds of one proof by induction.
const ROUNDS: usize = 32;

/// Finds the targets of all jumps that use tables, and adds them to the graph. Returns the jumps to
/// a sum of which nothing is known, and the states before each instruction (see [`height`]).
pub(crate) fn prove(
    code: &Code<'_, '_>,
    graph: &mut FlowGraph,
    effects: &AllEffects,
    addresses: &Addresses,
) -> (Vec<InsnIndex>, States) {
    let tables = Tables::new(code, graph, addresses);
    let mut open: Vec<InsnIndex> =
        code.indexes().filter(|&at| code.insns[at].flow == Flow::JumpIndirect && !graph.far.is_jump(at)).collect();
    let mut by_form = false;
    // A jump whose targets are known is no predecessor of other labels. This may prove another
    // jump.
    loop {
        let states = height::heights(code, graph, effects, false);
        if open.is_empty() {
            return (Vec::new(), states);
        }
        let reach = Reach::new(code, graph, effects, &states);
        let mut round = Round::run(&Search { code, graph, reach: &reach, tables: &tables, by_form }, &open);
        if round.proven.is_empty() && round.forms.is_empty() && !by_form {
            by_form = true;
            round = Round::run(&Search { code, graph, reach: &reach, tables: &tables, by_form }, &open);
        }
        drop(reach);
        let found = !round.proven.is_empty();
        graph.tables.extend(round.proven);
        graph.switches.extend(round.switches);
        if !found && !prove_together(code, graph, effects, &tables, round.forms) {
            if by_form {
                return (round.sums, states);
            }
            by_form = true;
        }
        open.retain(|at| !graph.tables.contains_key(at));
    }
}

/// The results of one search for the targets of jumps.
#[derive(Default)]
struct Round {
    proven: Vec<(InsnIndex, Vec<InsnIndex>)>,
    switches: Vec<(InsnIndex, Switch)>,
    sums: Vec<InsnIndex>,
    /// Those sums that have the form of a switch.
    forms: Vec<InsnIndex>,
}

impl Round {
    fn run(search: &Search<'_, '_, '_, '_>, jumps: &[InsnIndex]) -> Round {
        let mut round = Round::default();
        for &at in jumps {
            match search.jump(at) {
                Target::Labels(targets) => {
                    round.switches.extend(search.one_table(at).map(|switch| (at, switch)));
                    round.proven.push((at, targets));
                }
                Target::Pointer => {}
                Target::Sum => {
                    round.sums.push(at);
                    round.forms.extend(search.has_form(at).then_some(at));
                }
            }
        }
        round
    }
}

/// Proves switches by induction over the jumps that are taken: if all of them led to the entries of
/// their tables so far, the next one does so, too. A base that is in a register across jumps needs
/// this, because the jumps themselves are on the paths to it. Says whether it found some.
///
/// First the jumps lead nowhere. Each round adds the targets that the paths then show, until none
/// is new. A jump with a path that shows something else is left out.
fn prove_together(
    code: &Code<'_, '_>,
    graph: &mut FlowGraph,
    effects: &AllEffects,
    tables: &Tables<'_>,
    mut jumps: Vec<InsnIndex>,
) -> bool {
    let mut hidden = labels_around(graph, &jumps);
    graph.tables.extend(jumps.iter().map(|at| (*at, Vec::new())));
    for _ in 0..ROUNDS {
        if jumps.is_empty() {
            return false;
        }
        let states = height::heights(code, graph, effects, false);
        let reach = Reach::new(code, graph, effects, &states).hiding(&hidden);
        let search = Search { code, graph, reach: &reach, tables, by_form: false };
        let (mut found, mut others, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        for &at in &jumps {
            match search.jump(at) {
                Target::Labels(targets) => {
                    switches.extend(search.one_table(at).map(|switch| (at, switch)));
                    found.push((at, targets));
                }
                Target::Pointer | Target::Sum => others.push(at),
            }
        }
        drop(reach);
        if !others.is_empty() {
            for at in &others {
                graph.tables.remove(at);
            }
            jumps.retain(|at| !others.contains(at));
            hidden = labels_around(graph, &jumps);
            graph.tables.extend(jumps.iter().map(|at| (*at, Vec::new())));
            continue;
        }
        let more = |(at, targets): &(InsnIndex, Vec<InsnIndex>)| graph.tables[at] != *targets;
        if found.iter().any(more) {
            for (at, targets) in found {
                let all = [graph.tables.remove(&at).unwrap_or_default(), targets].concat();
                graph.tables.insert(at, sorted(all));
            }
        } else if hidden.is_empty() {
            graph.switches.extend(switches);
            return true;
        } else {
            // The last round is the proof: no label has predecessors that are still to be found.
            hidden.clear();
        }
    }
    for at in &jumps {
        graph.tables.remove(at);
    }
    false
}

/// Returns the labels of the units of some jumps that only entries of switch tables name.
fn labels_around(graph: &FlowGraph, jumps: &[InsnIndex]) -> HashSet<InsnIndex> {
    let units: HashSet<u32> = jumps.iter().map(|at| graph.unit[*at]).collect();
    let pointed = |unit, at: &InsnIndex| graph.pointed.get(unit).is_some_and(|labels| labels.contains(at));
    let labels = |unit| graph.interior.get(unit).into_iter().flatten().copied().filter(move |at| !pointed(unit, at));
    units.iter().flat_map(labels).collect()
}

/// The origin of a jump's target.
enum Target {
    Labels(Vec<InsnIndex>),
    Pointer,
    Sum,
}

/// Tables, by the instructions and units that name them.
struct Tables<'x> {
    /// Targets of switch tables, by the instruction that names the table.
    named: HashMap<InsnIndex, &'x [InsnIndex]>,
    /// The number of the table that an instruction names.
    numbers: HashMap<InsnIndex, usize>,
    /// Targets of all switch tables that a unit names.
    of_unit: HashMap<u32, Vec<InsnIndex>>,
    /// Pointers to code in data, by place.
    pointers: HashMap<SectionIndex, BTreeMap<u64, InsnIndex>>,
}

impl<'x> Tables<'x> {
    fn new(code: &Code<'_, '_>, graph: &FlowGraph, addresses: &'x Addresses) -> Self {
        let mut named = HashMap::new();
        let mut of_unit = HashMap::<u32, Vec<InsnIndex>>::new();
        let mut numbers = HashMap::new();
        for (number, table) in addresses.tables.iter().enumerate() {
            numbers.extend(table.names.iter().map(|by| (*by, number)));
            named.extend(table.names.iter().map(|by| (*by, table.targets.as_slice())));
            for by in &table.names {
                of_unit.entry(graph.unit[*by]).or_default().extend(&table.targets);
            }
        }
        let mut pointers = HashMap::<_, BTreeMap<_, _>>::new();
        for (&(section, number), data) in addresses.data.iter().filter(|(_, data)| data.pointer) {
            if let Some(target) = crate::object::address::insn_of(code, data.dest) {
                let offset = code.object.sections[section].relocs[number].offset;
                pointers.entry(section).or_default().insert(offset, target);
            }
        }
        Tables { named, numbers, of_unit, pointers }
    }
}

struct Search<'s, 'x, 'o, 'a> {
    code: &'s Code<'o, 'a>,
    graph: &'s FlowGraph,
    reach: &'s Reach<'x, 'o, 'a>,
    tables: &'s Tables<'s>,
    /// A switch needs its form only. See [`Search::is_entry`].
    by_form: bool,
}

impl Search<'_, '_, '_, '_> {
    fn jump(&self, at: InsnIndex) -> Target {
        let Some(leaves) = self.reach.target(at) else {
            if let Some(targets) = self.tables.named.get(&at) {
                return Target::Labels(sorted(targets.to_vec()));
            }
            return self.array(at, at).map_or(Target::Pointer, Target::Labels);
        };
        let mut labels = Vec::new();
        let (mut sums, mut pointers) = (false, false);
        for leaf in leaves {
            let found = match leaf {
                Leaf::Sum(by) => {
                    let relocated = self.code.ins(by).op1_kind() == OpKind::Memory && !self.graph.has_interior(at);
                    match self.switch(by) {
                        Some(targets) => {
                            sums = true;
                            Some(targets)
                        }
                        None if relocated || self.leaves_frame(at) => None,
                        None => return Target::Sum,
                    }
                }
                Leaf::Load(by) => match self.tables.named.get(&by) {
                    Some(targets) => Some(targets.to_vec()),
                    None => self.array(at, by),
                },
                Leaf::Address(_) | Leaf::Result(_) | Leaf::Other(_) | Leaf::Outside => None,
            };
            match found {
                Some(targets) => labels.extend(targets),
                None => pointers = true,
            }
        }
        match (labels.is_empty(), pointers) {
            (false, false) => Target::Labels(sorted(labels)),
            (_, true) if sums => Target::Sum,
            _ => Target::Pointer,
        }
    }

    /// Says whether a jump ends its function: the frame was given up directly before it, and no
    /// pointer names a label of its unit. An apparent sum then comes from a path on which the
    /// register means something else.
    fn leaves_frame(&self, at: InsnIndex) -> bool {
        let before = at.before().map(|before| &self.code.insns[before]);
        let gives_up = |insn: &Insn| {
            let ins = self.code.form(insn);
            insn.section == self.code.insns[at].section
                && match ins.mnemonic() {
                    Mnemonic::Pop | Mnemonic::Leave => true,
                    Mnemonic::Add => ins.op0_register() == Register::RSP,
                    _ => false,
                }
        };
        !self.graph.pointed.contains_key(&self.graph.unit[at]) && before.is_some_and(gives_up)
    }

    /// Returns the entries of the switch tables that are one summand of a sum.
    fn switch(&self, by: InsnIndex) -> Option<Vec<InsnIndex>> {
        let summands = summands(self.code.ins(by))?;
        let proven = summands.into_iter().filter(|register| register.is_gpr64()).find_map(|summand| {
            let leaves = self.reach.leaves(by, summand);
            let tables: Option<Vec<&[InsnIndex]>> = leaves
                .iter()
                .map(|leaf| match leaf {
                    Leaf::Address(by) => self.tables.named.get(by).copied(),
                    _ => None,
                })
                .collect();
            Some(sorted(tables.filter(|tables| !tables.is_empty())?.concat()))
        });
        let form = || self.by_form && self.is_entry(by, summands);
        let any = || self.tables.of_unit.get(&self.graph.unit[by]).filter(|_| form());
        proven.or_else(|| any().cloned().map(sorted))
    }

    /// Says whether all values of a jump's target are sums with the form of a switch.
    fn has_form(&self, at: InsnIndex) -> bool {
        let is = |leaf: &Leaf| match leaf {
            Leaf::Sum(by) => summands(self.code.ins(*by)).is_some_and(|both| self.is_entry(*by, both)),
            _ => false,
        };
        self.reach.target(at).is_some_and(|leaves| leaves.iter().all(is))
    }

    /// Returns the parts of a switch that reads one table, if its base is in a register that no
    /// call may change.
    fn one_table(&self, at: InsnIndex) -> Option<Switch> {
        let jump = self.code.ins(at);
        if jump.op0_kind() != OpKind::Register {
            return None;
        }
        let only = |leaves: HashSet<Leaf>| (leaves.len() == 1).then(|| leaves.into_iter().next()).flatten();
        let Some(Leaf::Sum(sum)) = only(self.reach.leaves(at, jump.op0_register())) else { return None };
        let ins = self.code.ins(sum);
        let adds = ins.mnemonic() == Mnemonic::Add && ins.op1_kind() == OpKind::Register;
        let load = self.entry(sum, ins.op0_register(), ins.op1_register()).filter(|_| adds)?;
        let named = |leaf: &Leaf| match leaf {
            Leaf::Address(by) => self.tables.numbers.get(by).copied(),
            _ => None,
        };
        // The validator does not follow the base through callees that need not preserve it.
        let (leaves, kept) = self.reach.origins(load, ins.op1_register());
        let tables: Option<Vec<usize>> = leaves.iter().map(named).collect();
        let tables = tables.filter(|_| !kept)?;
        let table = *tables.first()?;
        tables.iter().all(|other| *other == table).then_some(Switch { load, sum, table })
    }

    /// Says whether a sum adds a table's base to the value loaded from `(%base,%index,4)`, in one
    /// straight line.
    fn is_entry(&self, by: InsnIndex, [a, b]: [Register; 2]) -> bool {
        self.entry(by, a, b).or_else(|| self.entry(by, b, a)).is_some()
    }

    /// Returns the load from `(%base,%index,4)` of an entry to which a sum in the same straight
    /// line adds the base.
    fn entry(&self, by: InsnIndex, entry: Register, base: Register) -> Option<InsnIndex> {
        let line = self.code.insns[..by].iter_enumerated().rev().take_while(|(_, insn)| insn.flow == Flow::Next);
        let written = bit(entry) | bit(base);
        let mut line = line.skip_while(|(at, _)| self.reach.effects(*at).writes & written == 0);
        let loads = |ins: &Instruction| {
            ins.mnemonic() == Mnemonic::Movsxd
                && ins.op0_register() == entry
                && ins.op1_kind() == OpKind::Memory
                && (ins.memory_base(), ins.memory_index_scale()) == (base, 4)
                && ins.memory_displacement64() == 0
        };
        line.next().filter(|(_, insn)| loads(self.code.form(insn))).map(|(at, _)| at)
    }

    /// Returns the labels of the jump's unit in the array of pointers that a memory operand reads
    /// an element of.
    fn array(&self, jump: InsnIndex, by: InsnIndex) -> Option<Vec<InsnIndex>> {
        let insn = &self.code.insns[by];
        let base = self.code.form(insn).memory_base();
        let mut labels = Vec::new();
        if base == Register::None || base == Register::RIP {
            labels.extend(self.labels(jump, by)?);
        } else {
            for leaf in self.reach.leaves(by, base) {
                let Leaf::Address(name) = leaf else { return None };
                labels.extend(self.labels(jump, name)?);
            }
        }
        (!labels.is_empty()).then(|| sorted(labels))
    }

    /// Returns the labels of the jump's unit among the pointers from the place that an instruction
    /// names.
    fn labels(&self, jump: InsnIndex, name: InsnIndex) -> Option<Vec<InsnIndex>> {
        let insn = &self.code.insns[name];
        let reloc = self.code.disp_reloc(insn).or(self.code.imm_reloc(insn))?;
        let symbol = &self.code.object.symbols[reloc.symbol];
        let Place::Section(section) = symbol.place else { return None };
        let relative = self.code.form(insn).memory_base() == Register::RIP;
        let bias = if relative { insn.behind_displacement() } else { 0 };
        let start = symbol.value.wrapping_add_signed(reloc.addend.wrapping_add(bias));
        let pointers = self.tables.pointers.get(&section)?;
        let unit = self.graph.unit[jump];
        let own = |label: &InsnIndex| self.graph.unit[*label] == unit && !self.graph.entry[*label];
        let run = pointers.range(start..).zip((start..).step_by(8)).take_while(|((offset, _), next)| *offset == next);
        let labels: Vec<InsnIndex> = run.map(|((_, label), _)| *label).collect();
        labels.first().is_some_and(own).then(|| labels.into_iter().filter(own).collect())
    }
}

/// Returns the registers that an instruction adds.
fn summands(ins: &Instruction) -> Option<[Register; 2]> {
    match ins.mnemonic() {
        Mnemonic::Add if ins.op1_kind() == OpKind::Register => Some([ins.op1_register(), ins.op0_register()]),
        Mnemonic::Lea if ins.memory_index_scale() == 1 && ins.memory_displacement64() == 0 => {
            Some([ins.memory_base(), ins.memory_index()])
        }
        _ => None,
    }
}

fn sorted(mut labels: Vec<InsnIndex>) -> Vec<InsnIndex> {
    labels.sort_unstable();
    labels.dedup();
    labels
}
