//! The original program's control flow: functions, labels, targets of indirect jumps, and the facts
//! at each label.

use crate::code::{Dest, Flow, Index, Old, falls_through};
use crate::context::Context;
use crate::facts::{Fact, Facts, named_place};
use crate::jump_tables::{self, JumpTables};
use crate::landings::{Landing, Unwinding};
use crate::leaves::Leaves;
use crate::object::{is_function, is_open, is_weak, kind};
use crate::sets::{AllEffects, RBP, RSP};
use crate::system;
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Mnemonic, OpKind, Register};
use sfi_elf::Place;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The targets of an indirect jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Labels inside the function.
    pub inside: Vec<Index>,
    /// It may leave the function.
    pub tail: bool,
}

/// The places that are still to be followed.
#[derive(Default)]
struct Pending {
    /// Labels whose facts changed.
    work: Vec<Index>,
    /// For each label after a call, the call and the facts there.
    late: BTreeMap<Index, (Index, Facts)>,
    /// Jumps that may be tail calls, with the facts there.
    open: BTreeMap<Index, Facts>,
}

/// The original program's control flow.
pub(crate) struct Graph {
    /// Effects of each instruction.
    pub effects: Rc<AllEffects>,
    /// Instructions that some code or data names.
    pub label: Vec<bool>,
    /// Instructions where functions begin.
    pub entry: Vec<bool>,
    /// Those of them that are functions only because their address is taken and no jump around
    /// them can lead there.
    presumed: HashSet<Index>,
    /// Instructions that the dispatch slots may lead to.
    pub taken: Vec<bool>,
    /// Labels of which some pointer or instruction gives the address. The addresses of the others
    /// are only sums with entries of switch tables.
    pointed: Vec<bool>,
    /// Entries that code of other objects may reach.
    pub open: Vec<bool>,
    /// Entries for which the linker may take another definition, which may write other registers.
    pub replaced: Vec<bool>,
    /// Facts at each label that control may reach.
    pub facts: HashMap<Index, Box<Facts>>,
    /// Targets of the indirect jumps that control may reach.
    pub jumps: HashMap<Index, Targets>,
    /// Labels whose address is taken, by group of code.
    interior: HashMap<u32, Vec<Index>>,
    group: Vec<u32>,
    leaves: Leaves,
    /// Registers that each group of code pops.
    pops: HashSet<(u32, usize)>,
    /// Calls that do not return.
    pub endless: HashSet<Index>,
    /// Those of them after which the new code stops.
    stops: HashSet<Index>,
    /// Entries of switch tables: the target by the entry's place. Entries of 64 bits are in the
    /// second map.
    entries: [BTreeMap<(usize, i64), Index>; 2],
    /// Places of data that instructions name.
    named: BTreeMap<(usize, i64), Index>,
    /// The targets of exceptions, by call.
    pub landings: BTreeMap<Index, Landing>,
    /// The base of each PC32 entry, and an instruction that names it.
    bases: HashMap<(usize, i64), (i64, Index)>,
    /// Tables of pointers that only jumps read.
    pub jump_tables: JumpTables,
    /// Labels that jumps out of callees reach, by group.
    receivers: HashMap<u32, Receivers>,
}

/// Labels of one function that jumps out of its callees reach, with the facts there.
#[derive(Default)]
struct Receivers {
    labels: Vec<Index>,
    /// The stack pointer and the frame pointer where the function stores them.
    stack: Option<[Fact; 2]>,
    /// The frame at its calls.
    frame: Option<Facts>,
}

impl Graph {
    /// Finds the control flow. A taken label is no function if its function comes to it with
    /// something on the stack.
    pub(crate) fn find(context: &Context<'_, '_>, unwinding: &Unwinding) -> Graph {
        let effects = Rc::new(AllEffects::of(&context.old.text));
        let graph = Graph::with(context, unwinding, &effects, &HashSet::new());
        let mut inner = graph.presumed.clone();
        if !inner.is_empty() {
            let other = Graph::with(context, unwinding, &effects, &inner);
            inner.retain(|at| other.facts.get(at).is_some_and(|facts| facts.height() != Some(0)));
        }
        if inner.is_empty() { graph } else { Graph::with(context, unwinding, &effects, &inner) }
    }

    /// Finds the control flow. `inner`: taken labels that are no functions.
    fn with(
        context: &Context<'_, '_>,
        unwinding: &Unwinding,
        effects: &Rc<AllEffects>,
        inner: &HashSet<Index>,
    ) -> Graph {
        let old = &context.old;
        let count = old.text.insns.len();
        let mut graph = Graph {
            effects: Rc::clone(effects),
            label: vec![false; count],
            entry: vec![false; count],
            presumed: HashSet::new(),
            taken: vec![false; count],
            pointed: vec![false; count],
            open: vec![false; count],
            replaced: vec![false; count],
            facts: HashMap::new(),
            jumps: HashMap::new(),
            interior: HashMap::new(),
            group: Vec::new(),
            leaves: Leaves::default(),
            pops: HashSet::new(),
            endless: HashSet::new(),
            stops: context.stops.clone(),
            entries: [BTreeMap::new(), BTreeMap::new()],
            named: BTreeMap::new(),
            bases: HashMap::new(),
            jump_tables: JumpTables::find(old),
            receivers: HashMap::new(),
            landings: unwinding.landings(old),
        };
        graph.labels(old);
        graph.groups(old, inner);
        graph.leaves = Leaves::find(old, &graph.effects, &graph.group, &graph.entry);
        graph.flow(old);
        graph
    }

    /// Returns the base of the PC32 table that holds this entry, and an instruction that names it.
    /// The table's targets count from there.
    pub(crate) fn base(&self, section: usize, offset: i64) -> Option<(i64, Index)> {
        self.bases.get(&(section, offset)).copied()
    }

    /// Says whether there are facts about an instruction, as only labels have them.
    pub(crate) fn is_head(&self, at: Index) -> bool {
        self.label[at] && self.facts.contains_key(&at)
    }

    /// Returns the number of the code around an instruction that jumps connect.
    pub(crate) fn group(&self, at: Index) -> u32 {
        self.group[at]
    }

    /// Says whether a pointer names a label that is no function.
    pub(crate) fn is_pointed_label(&self, at: Index) -> bool {
        self.pointed[at] && !self.entry[at]
    }

    /// Says whether the code around an instruction pops a register.
    pub(crate) fn is_popped(&self, at: Index, register: usize) -> bool {
        self.pops.contains(&(self.group[at], register))
    }

    /// Says whether a call is of a function that never returns.
    pub(crate) fn is_endless(&self, old: &Old<'_, '_>, call: Index) -> bool {
        self.stops.contains(&call) || self.only_before(old, call).is_some_and(|before| system::exits(old, before, call))
    }

    /// Returns the instruction before one, if control comes from nowhere else.
    pub(crate) fn only_before(&self, old: &Old<'_, '_>, at: Index) -> Option<Index> {
        at.checked_sub(1).filter(|before| old.text.next(*before) == Some(at) && !self.label[at])
    }

    /// Returns the register that equals the stack pointer if a branch is not taken, as after the
    /// last round of a loop that lowers the stack pointer page by page.
    fn equals_stack(&self, old: &Old<'_, '_>, at: Index) -> Option<usize> {
        let before = self.only_before(old, at).filter(|_| old.text.insns[at].ins.mnemonic() == Mnemonic::Jne)?;
        let ins = &old.text.insns[before].ins;
        match (ins.mnemonic(), ins.op0_register(), ins.op1_register()) {
            (Mnemonic::Cmp, Register::RSP, other) | (Mnemonic::Cmp, other, Register::RSP) if other.is_gpr64() => {
                crate::sets::number(other)
            }
            _ => None,
        }
    }

    fn labels(&mut self, old: &Old<'_, '_>) {
        let pair = old.pair;
        let mut pointed = vec![false; self.label.len()];
        let mut jumped = vec![false; self.label.len()];
        self.named.extend(&self.jump_tables.bases);
        for landing in self.landings.values() {
            self.label[landing.pad] = true;
            jumped[landing.pad] = true;
        }
        for (at, insn) in old.text.insns.iter().enumerate() {
            match old.flow[at] {
                Flow::Call(dest) => {
                    if let Some(to) = old.insn_of(dest) {
                        self.entry[to] = true;
                    }
                }
                Flow::Jump(dest) | Flow::Branch(dest) => {
                    if let Some(to) = old.insn_of(dest) {
                        self.label[to] = true;
                        jumped[to] = true;
                    }
                }
                _ => {}
            }
            if let Some(place) = named_place(old, at) {
                self.named.entry(place).or_insert(at);
            }
            let branch = matches!(old.flow[at], Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_));
            if let Some(to) = old.address(at).filter(|_| !branch) {
                self.taken[to] = true;
                pointed[to] = true;
            }
            let got = old.relocation(at, insn.displacement).filter(|r| kind::is_got(r.kind) && !branch);
            if let Some(to) = got.and_then(|r| old.insn_of(Dest::Symbol(r.symbol))) {
                self.taken[to] = true;
                pointed[to] = true;
            }
        }
        let operands = pointed.clone();
        for (section, contents) in pair.old.sections.iter().enumerate() {
            if contents.is_executable() || !contents.is_allocated() || crate::object::may_go(contents) {
                continue;
            }
            let mut run = None;
            for reloc in &contents.relocations {
                let Some((text, value)) = pair.old_code(reloc.symbol) else { continue };
                let offset = reloc.offset as i64;
                let target = value.wrapping_add_signed(reloc.addend);
                if reloc.kind == kind::ABSOLUTE {
                    let by = self.jump_tables.by((section, offset));
                    let never = by.and_then(|by| old.never_reached(by, text, target));
                    if let Some(to) = never.or_else(|| old.text.at(text, target)) {
                        self.entries[1].insert((section, offset), to);
                        self.taken[to] = true;
                        pointed[to] |= by.is_none();
                        self.pointed[to] = true;
                    }
                } else if reloc.kind == kind::PC32 {
                    let start = match run {
                        Some((start, end)) if end == offset => start,
                        _ => offset,
                    };
                    run = Some((start, offset + 4));
                    let names = self.named.range((section, start)..=(section, offset)).map(|((_, b), by)| (*b, *by));
                    let Some((base, to)) = jump_tables::base_of(old, names, offset, (text, target)) else { continue };
                    self.bases.insert((section, offset), base);
                    if let Some(to) = to {
                        self.entries[0].insert((section, offset), to);
                        self.taken[to] = true;
                    }
                }
            }
        }
        self.pointed.iter_mut().zip(&pointed).for_each(|(mine, pointed)| *mine |= pointed);
        let mut named: HashMap<Index, bool> = HashMap::new();
        for symbol in &pair.old.symbols {
            let Place::Section(section) = symbol.place else { continue };
            let Some(to) = old.text.at(section, symbol.value) else { continue };
            let cold = jumped[to] && old.begins_cold_part(section, symbol.value);
            let inner = cold || self.taken[to] || old.is_padded_part(symbol, to);
            let called = pointed[to] && (operands[to] || !old.is_label_in_cold_part(section, symbol.value));
            if is_open(symbol) || (is_function(symbol) && (called || !inner)) {
                self.entry[to] = true;
                self.open[to] |= is_open(symbol) || called;
                named.entry(to).and_modify(|weak| *weak &= is_weak(symbol)).or_insert_with(|| is_weak(symbol));
            }
        }
        for (to, weak) in named {
            self.replaced[to] |= weak;
        }
        for at in 0..self.label.len() {
            self.label[at] |= self.entry[at] || self.taken[at];
        }
    }

    /// Joins code that jumps connect. Finds the taken labels inside functions with indirect jumps.
    fn groups(&mut self, old: &Old<'_, '_>, inner: &HashSet<Index>) {
        let count = self.label.len();
        let mut parent: Vec<u32> = (0..count as u32).collect();
        for at in 0..count {
            let next = old.text.next(at).filter(|n| !self.entry[*n]);
            match old.flow[at] {
                Flow::Jump(dest) | Flow::Branch(dest) => {
                    if let Some(to) = old.insn_of(dest).filter(|to| !self.entry[*to]) {
                        join(&mut parent, at, to);
                    }
                }
                _ => {}
            }
            if let Some(next) = next.filter(|_| falls_through(old.flow[at]) && !self.is_endless(old, at)) {
                join(&mut parent, at, next);
            }
        }
        for (&call, landing) in &self.landings {
            join(&mut parent, call, landing.pad);
        }
        // Code that names a switch table jumps to the table's targets.
        for at in 0..count {
            let base = named_place(old, at).or_else(|| jump_tables::base(old, at));
            let table = base.map(|(section, base)| self.table(section, base));
            for to in table.into_iter().flatten().filter(|to| !self.entry[*to]) {
                join(&mut parent, at, to);
            }
        }
        // A function's symbol tells its extent. Taken labels inside belong to the function.
        let mut extents: Vec<(usize, u64, u64, Index)> = Vec::new();
        for symbol in &old.pair.old.symbols {
            if let Place::Section(section) = symbol.place
                && is_function(symbol)
                && let Some(first) = old.text.at(section, symbol.value)
            {
                let end = if symbol.size == 0 { u64::MAX } else { symbol.value.saturating_add(symbol.size) };
                extents.push((section, symbol.value, end, first));
            }
        }
        extents.sort_unstable();
        let taken: Vec<Index> = (0..count).filter(|&at| self.taken[at] && !old.is_trap(at)).collect();
        for &at in &taken {
            let (section, offset) = (old.text.insns[at].section as usize, old.text.insns[at].offset());
            let before = extents.partition_point(|e| (e.0, e.1) <= (section, offset));
            let around = before.checked_sub(1).map(|n| extents[n]);
            let around = around.filter(|(within, _, end, _)| *within == section && offset < *end);
            match around {
                Some((.., first)) if !self.entry[at] => {
                    // An unlikely part that is no function belongs to its function.
                    let part = &old.text.insns[first];
                    let whole = old.wholes.get(&(part.section as usize, part.offset())).filter(|_| !self.entry[first]);
                    let whole = whole.and_then(|(section, offset)| old.text.at(*section, *offset));
                    join(&mut parent, at, whole.unwrap_or(first));
                }
                Some(_) => {}
                None if self.entry[at] => self.open[at] = true,
                None if !inner.contains(&at) => self.presume(at),
                None => {}
            }
        }
        self.group = (0..count).map(|at| root(&mut parent, at)).collect();
        for (at, insn) in old.text.insns.iter().enumerate().filter(|(_, i)| i.ins.mnemonic() == Mnemonic::Pop) {
            self.pops.extend(crate::sets::number(insn.ins.op0_register()).map(|register| (self.group[at], register)));
        }
        let jumping: HashSet<u32> =
            (0..count).filter(|&at| old.flow[at] == Flow::JumpIndirect).map(|at| self.group[at]).collect();
        let saving: HashSet<u32> = (0..count).filter(|&at| old.saves_stack(at)).map(|at| self.group[at]).collect();
        let data: HashSet<Index> = self.entries.iter().flat_map(|entries| entries.values().copied()).collect();
        for &at in &taken {
            let group = self.group[at];
            let received = old.pad[at].is_some() && saving.contains(&group) && !jumping.contains(&group);
            if !self.entry[at] && received && !data.contains(&at) {
                self.receivers.entry(group).or_default().labels.push(at);
                continue;
            }
            if !self.entry[at] && !jumping.contains(&self.group[at]) && !inner.contains(&at) {
                self.presume(at);
            }
            if !self.entry[at] {
                self.interior.entry(self.group[at]).or_default().push(at);
            }
        }
    }

    /// Takes a label for a function that some pointer calls.
    fn presume(&mut self, at: Index) {
        self.presumed.insert(at);
        self.entry[at] = true;
        self.open[at] = true;
    }

    /// Follows control from the entries until the facts no longer change.
    fn flow(&mut self, old: &Old<'_, '_>) {
        let mut pending =
            Pending { work: (0..self.entry.len()).rev().filter(|&at| self.entry[at]).collect(), ..Pending::default() };
        for &at in &pending.work {
            self.facts.insert(at, Box::new(Facts::entry()));
        }
        loop {
            while let Some(head) = pending.work.pop() {
                self.straight(old, head, &mut pending);
            }
            // A call does not return if other code reaches the label after it with another stack,
            // or if the next function begins there.
            if let Some((call, (to, facts))) = pending.late.pop_first() {
                if self.facts.get(&to).is_some_and(|known| !known.has_stack_of(&facts, to)) {
                    self.endless.insert(call);
                } else {
                    self.reach(to, &facts, &mut pending);
                }
                continue;
            }
            // A jump that may be a tail call cannot lead to labels that are reached with something
            // on the stack.
            let Some((at, facts)) = pending.open.pop_first() else { return };
            let Some(mut targets) = self.jumps.remove(&at) else { continue };
            targets.inside.retain(|to| self.facts.get(to).is_none_or(|f| f.height() == Some(0)) && !self.entry[*to]);
            for &to in &targets.inside {
                self.reach(to, &facts, &mut pending);
            }
            self.jumps.insert(at, targets);
        }
    }

    /// Joins the facts with which control arrives at a label.
    fn reach(&mut self, to: Index, facts: &Facts, pending: &mut Pending) {
        if self.entry[to] {
            return;
        }
        self.label[to] = true;
        let changed = match self.facts.get_mut(&to) {
            Some(known) => known.join(facts, Some(to)),
            None => self.facts.insert(to, Box::new(facts.clone())).is_none(),
        };
        if changed {
            pending.work.push(to);
        }
    }

    /// Moves facts past an instruction.
    pub(crate) fn step(&self, old: &Old<'_, '_>, at: Index, facts: &mut Facts) {
        let called = self.leaves.changed(old, at, &self.group);
        facts.step(old, &self.effects[at], at, named_place(old, at), called);
        if let Some(register) = self.equals_stack(old, at) {
            facts.find_stack(register);
        }
    }

    /// Follows control from a label to the next.
    fn straight(&mut self, old: &Old<'_, '_>, head: Index, pending: &mut Pending) {
        let mut facts = Facts::clone(&self.facts[&head]);
        let mut at = head;
        let mut called = None;
        loop {
            let flow = old.flow[at];
            if let Flow::Jump(dest) | Flow::Branch(dest) = flow
                && let Some(to) = old.insn_of(dest)
            {
                self.reach(to, &facts, pending);
            }
            if flow == Flow::JumpIndirect {
                let targets = self.targets(old, at, &facts);
                // The target in rax is no count.
                facts.count &= crate::sets::number(old.text.insns[at].ins.op0_register()) != Some(crate::sets::RAX);
                pending.open.remove(&at);
                if targets.tail && facts.height() == Some(0) {
                    pending.open.insert(at, facts.clone());
                } else {
                    for &to in &targets.inside {
                        self.reach(to, &facts, pending);
                    }
                }
                self.jumps.insert(at, targets);
            }
            self.note_receivers(old, at, &facts, pending);
            self.step(old, at, &mut facts);
            if let Some(landing) = self.landings.get(&at).copied() {
                let mut facts = facts.clone();
                facts.lower_arguments(landing.arguments);
                self.reach(landing.pad, &facts, pending);
            }
            if !falls_through(flow) {
                return;
            }
            called = match flow {
                Flow::Call(_) | Flow::CallIndirect => Some(at),
                _ if old.text.insns[at].is_nop() => called,
                _ => None,
            };
            if self.is_endless(old, at) {
                self.endless.insert(at);
                return;
            }
            let Some(next) = old.text.next(at) else { return };
            if self.label[next] {
                match called {
                    // The call may not return.
                    Some(call) => {
                        pending.late.insert(call, (next, facts));
                    }
                    None => self.reach(next, &facts, pending),
                }
                return;
            }
            at = next;
        }
    }

    /// Returns the receivers of the function around an instruction.
    pub(crate) fn receivers(&self, at: Index) -> &[Index] {
        self.receivers.get(&self.group[at]).map_or(&[], |receivers| receivers.labels.as_slice())
    }

    /// Says whether the code around an instruction changes a register.
    pub(crate) fn changes(&self, at: Index, register: usize) -> bool {
        let own = self.group[at];
        let same = |(at, group): (Index, &u32)| *group == own && self.effects[at].changes >> register & 1 != 0;
        self.group.iter().enumerate().any(same)
    }

    /// Returns all receivers.
    pub(crate) fn all_receivers(&self) -> impl Iterator<Item = Index> {
        self.receivers.values().flat_map(|receivers| receivers.labels.iter().copied())
    }

    /// Adds an instruction's facts to those of the receivers of its function. A receiver finds the
    /// stored stack and frame pointers, and the frame as the function's calls leave it.
    fn note_receivers(&mut self, old: &Old<'_, '_>, at: Index, facts: &Facts, pending: &mut Pending) {
        let Some(receivers) = self.receivers.get_mut(&self.group[at]) else { return };
        if old.saves_stack(at) {
            let here = [facts.registers[RSP], facts.registers[RBP]];
            receivers.stack = Some(match receivers.stack {
                Some(known) => [0, 1].map(|n| if known[n] == here[n] { here[n] } else { Fact::Unknown }),
                None => here,
            });
        }
        if matches!(old.flow[at], Flow::Call(_) | Flow::CallIndirect) {
            match &mut receivers.frame {
                Some(known) => _ = known.join(facts, None),
                None => receivers.frame = Some(facts.clone()),
            }
        }
        if let (Some([stack, frame]), Some(known)) = (receivers.stack, &receivers.frame) {
            let mut facts = known.clone();
            (facts.registers, facts.count) = ([Fact::Unknown; 16], false);
            (facts.registers[RSP], facts.registers[RBP]) = (stack, frame);
            for to in receivers.labels.clone() {
                self.reach(to, &facts, pending);
            }
        }
    }

    /// Returns the targets of an indirect jump, by the facts before it.
    fn targets(&self, old: &Old<'_, '_>, at: Index, facts: &Facts) -> Targets {
        let insn = &old.text.insns[at];
        let ins = &insn.ins;
        let fact = match ins.op0_kind() {
            OpKind::Register => crate::sets::number(ins.op0_register()).map_or(Fact::Unknown, |n| facts.registers[n]),
            _ => match crate::sets::number(ins.memory_base()).map(|n| facts.registers[n]) {
                Some(Fact::Address(section, base)) if ins.memory_index() != Register::None => {
                    Fact::Target(section, base.wrapping_add(ins.memory_displacement64() as i64))
                }
                _ => match jump_tables::base(old, at) {
                    Some((section, base)) => Fact::Target(section as u32, base),
                    None => Fact::Unknown,
                },
            },
        };
        let all = || self.interior.get(&self.group[at]).cloned().unwrap_or_default();
        match fact {
            Fact::Target(section, base) => {
                // Tables of other functions may follow.
                let mut inside = self.table(section as usize, base);
                inside.retain(|to| self.group[*to] == self.group[at]);
                let count = inside.len();
                inside.retain(|to| !self.entry[*to]);
                // With something on the stack, an unused entry leads to the next function.
                let tail = inside.len() != count || inside.is_empty();
                let tail = tail && matches!(facts.height(), Some(0) | None);
                Targets { inside: if inside.is_empty() { all() } else { inside }, tail }
            }
            Fact::Sum | Fact::Entry(..) => Targets { inside: all(), tail: false },
            _ if !matches!(facts.height(), Some(0) | None) => Targets { inside: all(), tail: false },
            _ if facts.sums.may_lead(old, at) => Targets { inside: all(), tail: true },
            // A pointer that code or data holds. No pointer leads to the targets of a switch.
            _ => Targets { inside: all().into_iter().filter(|to| self.pointed[*to]).collect(), tail: true },
        }
    }

    /// Returns the targets of the table at a place.
    fn table(&self, section: usize, base: i64) -> Vec<Index> {
        let mut found = Vec::new();
        for (entries, size) in self.entries.iter().zip([4, 8]) {
            let mut offset = base;
            while let Some(&to) = entries.get(&(section, offset)) {
                found.push(to);
                offset += size;
                if self.named.contains_key(&(section, offset)) {
                    break;
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns the number that stands for all that were joined with one.
pub(crate) fn root(parent: &mut [u32], mut at: usize) -> u32 {
    while parent[at] as usize != at {
        parent[at] = parent[parent[at] as usize];
        at = parent[at] as usize;
    }
    at as u32
}

/// Joins two numbers.
pub(crate) fn join(parent: &mut [u32], a: usize, b: usize) {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b) as usize] = a.min(b);
}
