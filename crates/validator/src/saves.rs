//! Registers that functions save on the control stack.
//!
//! The new program may keep a push of a register, and the pops of its word, as they are. Then the
//! word is no part of the frame on the data stack, and the frame shrinks. The walk compares the new
//! program with the original one *without these words*: a save stores nothing and leaves the stack
//! pointer alone, and a pop of it gives the register its value at the save.
//!
//! ```text
//! the original frame      without the words
//!       0  return               0  return
//!      -8  rbx                 -8  locals, all higher by 16
//!     -16  rbp
//!     -24  locals
//! ```
//!
//! The program without the words does the same if nothing else reaches them ([`check`]):
//! each word belongs to one register, no operand and no pointer leads to it or above it, and only
//! its own pushes and pops move the stack pointer over it. If the number of words is odd, the place
//! of the return address goes too, so that locals stay aligned: the first save adds 8 more.
//!
//! A frame that holds nothing but saved words, and otherwise only aligns calls, may be left out:
//! the new code of its body leaves r15 alone. Then calls find the data stack as the function did.
//!
//! A *body* is the code between which control goes without entering a function. The saves of a
//! body are the words that some push of the new program saves. All other pushes and pops of these
//! words must be the same in both programs, which the walk checks.

use crate::code::{Dest, Flow, Index, falls_through};
use crate::context::{Context, has_memory};
use crate::difference::{Difference, wrong};
use crate::facts::{Fact, Facts};
use crate::frames::{Row, Rule};
use crate::graph::{Graph, join, root};
use crate::machine::memory_size;
use crate::report::Verdict;
use crate::sets::{RSP, number};
use foldhash::{HashMap, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::collections::BTreeMap;

/// The saves of all bodies.
#[derive(Default)]
pub(crate) struct Saves {
    /// For each label, the number of its body, if the body has saves.
    of: HashMap<Index, u32>,
    /// The words of each body.
    words: Vec<Words>,
    /// Pushes and pops of saved words, and where a frame that is left out begins and ends, with
    /// their change of the stack pointer.
    moves: HashMap<Index, i64>,
    /// Calls that find words on the control stack, or no frame: the body, and the distance of the
    /// stack pointer from its place at the entry.
    calls: HashMap<Index, (u32, i64)>,
    /// Pushes of the new program that save nothing, with the reason.
    faults: HashMap<Index, Difference>,
}

/// The saved words of a body by their distance from the stack pointer at the entry, with their
/// registers. If the frame is left out, the distance of the stack pointer at calls.
#[derive(Clone, Default)]
struct Words(BTreeMap<i64, usize>, Option<i64>);

impl Words {
    /// Returns the number of words that are saved if the stack pointer is at a distance from that
    /// at the entry.
    fn saved(&self, height: i64) -> usize {
        self.0.range(height..).count()
    }

    /// Returns by how much a place is higher without the words.
    fn shift(&self, place: i64) -> i64 {
        if let Some(floor) = self.1.filter(|floor| place <= *floor) {
            return 8 - floor;
        }
        let saved = self.saved(place);
        let filled = self.0.len() % 2 == 1 && saved != 0;
        8 * (saved as i64 + i64::from(filled))
    }

    /// Returns the distance of the deepest word.
    fn deepest(&self) -> i64 {
        self.0.keys().next().copied().unwrap_or(i64::MAX)
    }

    /// Says whether a range of places overlaps a word.
    fn overlaps(&self, from: i64, end: i64) -> bool {
        self.0.range(from.saturating_sub(7)..end).next().is_some()
    }
}

/// The body of the walk's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyNumber(Option<u32>);

impl Saves {
    /// Finds the saves. The new program must have pushes, or there are none.
    pub(crate) fn find(context: &Context<'_, '_>, graph: &Graph) -> Saves {
        let mut saves = Saves::default();
        let old = &context.old;
        let kept = |&at: &Index| {
            let place = (old.place[at].0 as usize, u64::from(old.place[at].1));
            let first = place.1 + context.charge(place).unwrap_or(0);
            let pushes = |ins: &Instruction| ins.mnemonic() == Mnemonic::Push;
            pushes(&old.text.insns[at].ins)
                && context.has_code(at)
                && context.new.insn_at(place.0, first).is_some_and(|insn| pushes(&insn.ins))
        };
        let pushes: HashSet<Index> = (0..old.text.insns.len()).filter(kept).collect();
        let [framed, mut groups] = frames(context, graph);
        groups.extend(pushes.iter().map(|push| graph.group(*push)));
        for body in bodies(context, graph, &groups) {
            body.decide(context, &pushes, |at| framed.contains(&graph.group(at)), &mut saves);
        }
        saves
    }

    /// Returns the body of a label.
    pub(crate) fn body(&self, label: Index) -> BodyNumber {
        BodyNumber(self.of.get(&label).copied())
    }

    fn words(&self, body: BodyNumber) -> Option<&Words> {
        body.0.map(|body| &self.words[body as usize])
    }

    /// Returns the distance of a register's place in the frame from the stack pointer at the entry,
    /// without the words. All registers but the stack pointer lead to places below the words, or
    /// follow from pointers there.
    pub(crate) fn pointer(&self, body: BodyNumber, register: usize, place: i64) -> i64 {
        match self.words(body) {
            Some(words) if register != RSP => place.wrapping_add(words.shift(i64::MIN)),
            _ => self.place(body, place),
        }
    }

    /// Returns the distance of a place from the stack pointer at the entry, without the words.
    pub(crate) fn place(&self, body: BodyNumber, place: i64) -> i64 {
        self.words(body).map_or(place, |words| place.wrapping_add(words.shift(place)))
    }

    /// Returns the number of words that are saved where these facts hold.
    pub(crate) fn saved(&self, body: BodyNumber, facts: &Facts) -> usize {
        self.words(body).zip(facts.height()).map_or(0, |(words, height)| words.saved(height))
    }

    /// Returns the row of a call without the words. `None` if the original one is about another
    /// frame.
    pub(crate) fn row(&self, call: Index, old: &Row) -> Option<Row> {
        /// The frame's address, relative to the stack pointer at the entry.
        const FRAME: i64 = 8;
        let Some(&(body, height)) = self.calls.get(&call) else { return Some(old.clone()) };
        let words = &self.words[body as usize];
        if old.base != RSP || old.loaded || i64::from(old.distance) != FRAME - height {
            return None;
        }
        let distance = FRAME + words.shift(FRAME) - height - words.shift(height);
        let mut row = Row { distance: distance as i32, words: words.saved(height) as u8, ..old.clone() };
        for rule in &mut row.rules {
            *rule = match *rule {
                Rule::Same => Rule::Same,
                Rule::AtFrame(distance) => {
                    let place = FRAME + i64::from(distance);
                    if place >= height && words.0.contains_key(&place) {
                        Rule::Word(words.saved(place + 8) as u8)
                    } else if words.1.is_some() {
                        return None;
                    } else {
                        Rule::AtFrame((i64::from(distance) + words.shift(place) - words.shift(FRAME)) as i32)
                    }
                }
                Rule::AtRbp(_) | Rule::Word(_) => return None,
            };
        }
        Some(row)
    }

    /// Returns the change of the stack pointer without the words, if a push or pop is one of them,
    /// or if the frame that begins or ends here is left out.
    ///
    /// # Errors
    /// If the new program saves a register that the original one does not merely save.
    pub(crate) fn change(&self, at: Index) -> Result<Option<i64>, Difference> {
        match self.faults.get(&at) {
            Some(fault) => Err(fault.clone()),
            None => Ok(self.moves.get(&at).copied()),
        }
    }
}

/// An instruction's effect on the stack.
enum Event {
    /// It pushes or pops a word. `register`: of 64 bits, if it is one.
    Word {
        word: i64,
        register: Option<usize>,
        push: bool,
    },
    /// It accesses places up to an end, or has a pointer to one.
    Reach {
        end: i64,
    },
    /// It counts places from the stack pointer, which is here.
    Counts {
        height: i64,
    },
    /// It moves the stack pointer.
    Pass {
        height: i64,
        then: i64,
    },
    Call {
        height: i64,
    },
    /// Something that fits no saves.
    Unfit(Verdict, &'static str),
}

/// Code between which control goes without entering a function.
#[derive(Default)]
struct Body {
    heads: Vec<Index>,
    events: Vec<(Index, Event)>,
}

impl Body {
    /// Returns the distance of the stack pointer at calls, if the frame holds nothing but the words
    /// and is all there where a function is called.
    fn floor(&self, words: &Words) -> Option<i64> {
        let top = -8 * words.0.len() as i64;
        let floor = self.events.iter().find_map(|(_, event)| match event {
            Event::Call { height } => Some(*height),
            _ => None,
        })?;
        let holds = |(_, event): &(Index, Event)| match event {
            Event::Word { word, .. } => words.0.contains_key(word),
            Event::Pass { height, then } => [(top, floor), (floor, top)].contains(&(*height, *then)),
            Event::Call { height } => *height == floor,
            Event::Reach { .. } | Event::Counts { .. } | Event::Unfit(..) => false,
        };
        let whole = floor < top && floor % 16 == -8 && words.0.keys().next().is_none_or(|deepest| *deepest == top);
        (whole && self.events.iter().all(holds)).then_some(floor)
    }

    /// Finds the saved words, and checks that nothing else reaches them. `is_framed` says whether
    /// code has a frame on the data stack.
    fn decide(
        self,
        context: &Context<'_, '_>,
        pushes: &HashSet<Index>,
        is_framed: impl Fn(Index) -> bool,
        saves: &mut Saves,
    ) {
        let mut words = Words::default();
        let mut kept = Vec::new();
        for (at, event) in self.events.iter().filter(|(at, _)| pushes.contains(at)) {
            kept.push(*at);
            if let Event::Word { word, register, .. } = event {
                words.0.insert(*word, register.unwrap_or(RSP));
            }
        }
        words.1 = self.floor(&words).filter(|_| self.heads.first().is_some_and(|head| !is_framed(*head)));
        if kept.is_empty() && words.1.is_none() {
            return;
        }
        let fault = self.events.iter().find_map(|(at, event)| Some((*at, check(context, &words, *at, event).err()?)));
        if let Some((at, fault)) = fault {
            let what = format!("{} ({:#x})", fault.what, context.old.text.insns[at].offset());
            let fault = Difference { what, ..fault };
            saves.faults.extend(kept.into_iter().map(|push| (push, fault.clone())));
            return;
        }
        for (at, event) in &self.events {
            match event {
                Event::Word { word, push, .. } if words.0.contains_key(word) => {
                    let change = words.shift(*word) - words.shift(*word + 8) - 8;
                    saves.moves.insert(*at, if *push { change } else { -change });
                }
                Event::Pass { height, then } if words.1.is_some() => {
                    let change = then + words.shift(*then) - height - words.shift(*height);
                    saves.moves.insert(*at, change);
                }
                Event::Call { height } if words.1.is_some() || words.saved(*height) != 0 => {
                    saves.calls.insert(*at, (saves.words.len() as u32, *height));
                }
                _ => {}
            }
        }
        saves.of.extend(self.heads.into_iter().map(|head| (head, saves.words.len() as u32)));
        saves.words.push(words);
    }
}

/// Checks that an instruction does not touch saved words, other than by a push or pop of a word's
/// register.
fn check(context: &Context<'_, '_>, words: &Words, at: Index, event: &Event) -> Result<(), Difference> {
    let deepest = words.deepest();
    let slot = context.old.kept[at].slot.map(|depth| -depth);
    if slot.is_some_and(|slot| words.overlaps(slot, slot + 8)) {
        return wrong("the home of r15 is a word of the control stack");
    }
    // With an odd number, the places below the words reach up to that of the return address.
    let odd = words.0.len() % 2 == 1;
    let taken = |place: i64| odd && words.0.keys().next_back().is_some_and(|first| place > *first);
    if slot.is_some_and(taken) {
        return wrong("the home of r15 has the place of another word");
    }
    match event {
        Event::Word { word, register, .. } => match words.0.get(word) {
            Some(owner) if *owner == RSP || *register != Some(*owner) => {
                wrong("a word of the control stack is not that of one register")
            }
            Some(_) => Ok(()),
            None if words.overlaps(*word, word + 8) => wrong("a word overlaps one of the control stack"),
            None if taken(*word) => wrong("a word above those of the control stack has the place of another one"),
            None => Ok(()),
        },
        Event::Reach { end } if *end > deepest => wrong("a word of the control stack is not only saved"),
        Event::Counts { height } if *height > deepest => {
            wrong("a place of the frame is computed where not all words are on the control stack")
        }
        Event::Pass { height, then } if words.overlaps(*height.min(then), *height.max(then)) => {
            wrong("the stack pointer passes a word of the control stack")
        }
        Event::Call { height } if words.shift(*height) % 16 != 0 => {
            wrong("the data stack has another alignment at a call")
        }
        Event::Unfit(verdict, what) => Err(Difference { verdict: *verdict, what: (*what).to_owned() }),
        _ => Ok(()),
    }
}

/// Returns the groups of code that move the stack pointer by constants. Those whose new code
/// changes r15 come first, and then the others.
fn frames(context: &Context<'_, '_>, graph: &Graph) -> [HashSet<u32>; 2] {
    let old = &context.old;
    let all = 0..old.text.insns.len();
    let adjusts = |at: &Index| is_adjustment(&old.text.insns[*at].ins);
    let mut without: HashSet<u32> = all.clone().filter(adjusts).map(|at| graph.group(at)).collect();
    let mut framed = HashSet::default();
    let changes = |ins: &Instruction| ins.op0_register() == Register::R15 && ins.mnemonic() == Mnemonic::Lea;
    for at in all.filter(|at| context.has_code(*at)) {
        let group = graph.group(at);
        let (section, offset) = old.place[at];
        if without.contains(&group)
            && context.new.run(section as usize, offset, context.until[at]).any(|insn| changes(&insn.ins))
        {
            without.remove(&group);
            framed.insert(group);
        }
    }
    [framed, without]
}

/// Returns the bodies of groups.
fn bodies(context: &Context<'_, '_>, graph: &Graph, groups: &HashSet<u32>) -> impl Iterator<Item = Body> {
    let mut heads: Vec<Index> = graph.facts.keys().copied().filter(|at| groups.contains(&graph.group(*at))).collect();
    heads.sort_unstable();
    let mut search = Search { context, graph, heads: &heads, parents: (0..heads.len() as u32).collect() };
    let events: Vec<_> = (0..heads.len()).map(|head| search.block(head)).collect();
    let mut bodies = BTreeMap::<u32, Body>::new();
    for (head, events) in events.into_iter().enumerate() {
        let body = bodies.entry(root(&mut search.parents, head)).or_default();
        body.heads.push(heads[head]);
        body.events.extend(events);
    }
    bodies.into_values()
}

/// The search for bodies and their events.
struct Search<'x, 'p, 'a> {
    context: &'x Context<'p, 'a>,
    graph: &'x Graph,
    heads: &'x [Index],
    /// For each head the number of another one of its body, or its own.
    parents: Vec<u32>,
}

impl Search<'_, '_, '_> {
    /// Joins a head with a label that control reaches from there.
    fn join(&mut self, head: usize, to: Index, events: &mut Vec<(Index, Event)>) {
        if self.graph.entry[to] || self.context.old.is_trap(to) {
            return;
        }
        match self.heads.binary_search(&to) {
            Ok(to) => join(&mut self.parents, head, to),
            Err(_) => events.push((to, Event::Unfit(Verdict::Unproved, "the function has other parts"))),
        }
    }

    /// Follows control from a head to the next.
    fn block(&mut self, head: usize) -> Vec<(Index, Event)> {
        let (old, graph) = (&self.context.old, self.graph);
        let mut events = Vec::new();
        let mut at = self.heads[head];
        let mut facts = Facts::clone(&graph.facts[&at]);
        let mut before = Facts::default();
        let mut called = None;
        if !graph.receivers(at).is_empty() {
            events.push((at, Event::Unfit(Verdict::Wrong, "a far jump leads into the function")));
        }
        loop {
            let flow = old.flow[at];
            if let Flow::Jump(dest) | Flow::Branch(dest) = flow
                && let Some(to) = old.insn_of(dest)
            {
                self.join(head, to, &mut events);
            }
            if let Some(targets) = graph.jumps.get(&at).filter(|_| flow == Flow::JumpIndirect) {
                targets.inside.iter().for_each(|to| self.join(head, *to, &mut events));
            }
            if let Some(landing) = graph.landings.get(&at) {
                self.join(head, landing.pad, &mut events);
            }
            before.clone_from(&facts);
            graph.step(old, at, &mut facts);
            if !old.text.insns[at].is_nop() {
                self.look(at, &before, &facts, &mut events);
            }
            called = match flow {
                Flow::Call(_) | Flow::CallIndirect => Some(at),
                _ if old.text.insns[at].is_nop() => called,
                _ => None,
            };
            if !falls_through(flow) || graph.is_endless(old, at) {
                return events;
            }
            let Some(next) = old.text.next(at) else { return events };
            if graph.label[next] {
                if !called.is_some_and(|call| graph.endless.contains(&call)) {
                    self.join(head, next, &mut events);
                }
                return events;
            }
            at = next;
        }
    }

    /// Notes what an instruction does to the stack.
    fn look(&self, at: Index, before: &Facts, after: &Facts, events: &mut Vec<(Index, Event)>) {
        let mut note = |event| events.push((at, event));
        let old = &self.context.old;
        let ins = &old.text.insns[at].ins;
        if old.is_trap(at) || old.flow[at] == Flow::Stop {
            return;
        }
        let (Some(height), Some(then)) = (before.height(), after.height()) else {
            return note(Event::Unfit(Verdict::Unproved, "the place of the stack pointer is not known"));
        };
        if matches!(old.flow[at], Flow::Call(_) | Flow::CallIndirect) {
            note(Event::Call { height });
        }
        if self.graph.landings.contains_key(&at) {
            note(Event::Unfit(Verdict::Wrong, "an exception leads into the function"));
        }
        if matches!(old.flow[at], Flow::Call(dest) if self.context.returns_twice(dest)) {
            note(Event::Unfit(Verdict::Wrong, "the function calls one that returns twice"));
        }
        let own = number(ins.op0_register())
            .filter(|register| ins.op0_kind() == OpKind::Register && *register != RSP && ins.op0_register().is_gpr64());
        let moves = match ins.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq => Some((true, height - 8, height - 8)),
            Mnemonic::Pop | Mnemonic::Popfq => Some((false, height, height + 8)),
            _ => None,
        };
        match moves {
            Some((push, word, expected)) if then == expected => {
                let register = own.filter(|_| matches!(ins.mnemonic(), Mnemonic::Push | Mnemonic::Pop));
                note(Event::Word { word, register, push });
            }
            _ if then != height => note(Event::Pass { height, then }),
            _ => {}
        }
        if moves.is_none() && !is_adjustment(ins) && (names_stack_pointer(ins) || ins.mnemonic() == Mnemonic::Leave) {
            // A pointer to the frame is always higher by the same distance.
            note(Event::Counts { height });
            note(Event::Reach { end: then });
        }
        if reads_stack_pointer(ins) {
            note(Event::Counts { height });
            // Code that gets the pointer may read from there upwards.
            note(Event::Reach { end: height + 1 });
        }
        self.look_at_operand(at, before, height, &mut note);
    }

    /// Notes the places that a memory operand may have.
    fn look_at_operand(&self, at: Index, before: &Facts, height: i64, note: &mut impl FnMut(Event)) {
        let insn = &self.context.old.text.insns[at];
        let ins = &insn.ins;
        let base = number(ins.memory_base()).filter(|base| has_memory(ins) && !before.is_loaded(*base));
        let Some(base) = base else { return };
        let Fact::Stack(0, from) = before.registers[base] else { return };
        if insn.displacement.is_some() {
            return note(Event::Unfit(Verdict::Unproved, "a place of the frame has a relocation"));
        }
        let place = from.wrapping_add(ins.memory_displacement64() as i64);
        let computed = ins.mnemonic() == Mnemonic::Lea || ins.memory_index() != Register::None;
        let size = match ins.mnemonic() {
            _ if is_adjustment(ins) => return,
            // Pointers that follow from others may lie anywhere, such as behind an array's end.
            _ if computed && base != RSP => return,
            _ if computed => 1,
            // The processor computes the address after it moved the stack pointer.
            Mnemonic::Pop => 16,
            _ => i64::from(memory_size(ins)).max(1),
        };
        note(Event::Reach { end: place.saturating_add(size) });
        if base == RSP {
            note(Event::Counts { height });
        }
    }
}

/// Says whether an instruction moves the stack pointer by a constant.
fn is_adjustment(ins: &Instruction) -> bool {
    let constant = match ins.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub => ins.try_immediate(1).is_ok(),
        Mnemonic::Lea => number(ins.memory_base()) == Some(RSP) && ins.memory_index() == Register::None,
        _ => false,
    };
    constant && is_stack_pointer(ins, 0)
}

/// Says whether an operand is the stack pointer, or a part of it.
fn is_stack_pointer(ins: &Instruction, op: u32) -> bool {
    op < ins.op_count() && ins.op_kind(op) == OpKind::Register && number(ins.op_register(op)) == Some(RSP)
}

fn names_stack_pointer(ins: &Instruction) -> bool {
    (0..ins.op_count()).any(|op| is_stack_pointer(ins, op))
}

/// Says whether an instruction has the stack pointer as an operand that it reads, and does not just
/// move it by a constant.
fn reads_stack_pointer(ins: &Instruction) -> bool {
    let written = matches!(ins.mnemonic(), Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Pop) || is_adjustment(ins);
    (0..ins.op_count()).any(|op| is_stack_pointer(ins, op) && (op != 0 || !written))
}

impl Context<'_, '_> {
    /// Says whether a call is of a function that returns twice.
    pub(crate) fn returns_twice(&self, dest: Dest) -> bool {
        use sfi_contract::names::RETURNS_TWICE;
        matches!(dest, Dest::Symbol(symbol) if RETURNS_TWICE.contains(&self.pair.old.symbols[symbol].name))
    }
}
