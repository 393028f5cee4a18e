//! The order in which facts travel against the flow of control until nothing changes.
//!
//! The instructions are cut into blocks: straight lines of one unit. Control enters a block only at
//! its first instruction, and leaves it only from its last one. Only the last one may be a call of
//! a function of the object. So a block reads only facts of the first instructions of others, and
//! it is visited again only if one of these changed.

use crate::analysis::flow::FlowGraph;
use crate::object::decode::{Code, Flow, Insn, InsnIndex};
use crate::object::starts::Starts;

/// The blocks of an object, with the blocks whose facts each reads.
pub(crate) struct Rounds {
    /// The first instruction of each block, and an end.
    starts: Vec<InsnIndex>,
    marks: Starts,
    /// The blocks that control may reach next from each.
    nexts: Lists,
    /// The block where the callee of each block's last instruction begins, or [`NONE`].
    callees: Vec<u32>,
    /// The blocks that read the facts of each.
    readers: Lists,
}

/// The number of no block.
const NONE: u32 = u32::MAX;

/// A list of blocks for each block.
struct Lists {
    /// The start of each list in `all`, and an end.
    first: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    fn of(&self, block: usize) -> &[u32] {
        &self.all[self.first[block] as usize..self.first[block + 1] as usize]
    }
}

impl Rounds {
    /// Cuts the code into blocks. Calls read the facts of their callees.
    pub(crate) fn new(code: &Code<'_, '_>, graph: &FlowGraph) -> Rounds {
        let mut marks = cuts(code, graph);
        marks.count();
        let blocks = marks.before(code.insns.len()) as usize;
        let mut starts = Vec::with_capacity(blocks + 1);
        starts.extend(marks.iter().map(InsnIndex::from));
        starts.push(code.insns.next_key());
        // All places that are asked for were marked.
        let number = |at: InsnIndex| marks.number(at.into()).unwrap_or(NONE);
        let mut nexts = Lists { first: Vec::with_capacity(blocks + 1), all: Vec::with_capacity(2 * blocks) };
        let mut callees = Vec::with_capacity(blocks);
        for end in &starts[1..] {
            nexts.first.push(nexts.all.len() as u32);
            let last = end.before().unwrap_or(InsnIndex::FIRST);
            graph.successors(code, last, |next| nexts.all.push(number(next)));
            callees.push(callee(graph, &code.insns[last], last).map_or(NONE, number));
        }
        nexts.first.push(nexts.all.len() as u32);
        let readers = readers(&nexts, &callees);
        Rounds { starts, marks, nexts, callees, readers }
    }

    /// Returns the numbers of all blocks.
    pub(crate) fn blocks(&self) -> std::ops::Range<usize> {
        0..self.callees.len()
    }

    /// Returns the block that begins at an instruction.
    pub(crate) fn beginning_at(&self, at: InsnIndex) -> Option<usize> {
        self.marks.number(at.into()).map(|block| block as usize)
    }

    /// Returns the instructions of a block.
    pub(crate) fn insns(&self, block: usize) -> impl DoubleEndedIterator<Item = InsnIndex> + use<> {
        self.starts[block].until(self.starts[block + 1])
    }

    /// Returns the last instruction of a block.
    pub(crate) fn last(&self, block: usize) -> InsnIndex {
        self.starts[block + 1].before().unwrap_or(InsnIndex::FIRST)
    }

    /// Returns the blocks that control may reach next. A callee does not count.
    pub(crate) fn nexts(&self, block: usize) -> impl Iterator<Item = usize> {
        self.nexts.of(block).iter().map(|next| *next as usize)
    }

    /// Returns the block where the callee of a block's last instruction begins, if it is a call of
    /// a function of the object.
    pub(crate) fn callee(&self, block: usize) -> Option<usize> {
        Some(self.callees[block]).filter(|callee| *callee != NONE).map(|callee| callee as usize)
    }

    /// Visits all blocks, the last one first, until no fact changes. `visit` says whether the fact
    /// of a block's first instruction changed. It also gets the list of blocks that must be visited
    /// again for other reasons.
    pub(crate) fn run(&self, mut visit: impl FnMut(usize, &mut Vec<usize>) -> bool) {
        let mut stale = vec![true; self.callees.len()];
        let mut again = Vec::new();
        let mut changed = true;
        while changed {
            changed = false;
            for block in self.blocks().rev() {
                if !std::mem::replace(&mut stale[block], false) {
                    continue;
                }
                changed = true;
                if visit(block, &mut again) {
                    self.readers.of(block).iter().for_each(|reader| stale[*reader as usize] = true);
                }
                again.drain(..).for_each(|block| stale[block] = true);
            }
        }
    }
}

/// Returns the places where blocks begin.
fn cuts(code: &Code<'_, '_>, graph: &FlowGraph) -> Starts {
    let mut marks = Starts::new(code.insns.len());
    let mut unit = None;
    let mut straight = true;
    for (at, insn) in code.each() {
        let same = unit.replace(graph.unit[at]) == Some(graph.unit[at]);
        if !straight || !same || graph.label[at] {
            marks.add(at.into());
        }
        let callee = callee(graph, insn, at);
        straight = callee.is_none() && graph.only_next(at).is_some();
        if !straight {
            graph.successors(code, at, |next| marks.add(next.into()));
            callee.into_iter().for_each(|to| marks.add(to.into()));
        }
    }
    graph.entry.iter().for_each(|at| marks.add(at.into()));
    marks
}

/// Returns the function of the object that an instruction calls.
fn callee(graph: &FlowGraph, insn: &Insn, at: InsnIndex) -> Option<InsnIndex> {
    if matches!(insn.flow, Flow::Call(_)) { graph.target(at) } else { None }
}

/// Turns the lists of the blocks that each block reads around.
fn readers(nexts: &Lists, callees: &[u32]) -> Lists {
    let each = |visit: &mut dyn FnMut(u32, u32)| {
        for (block, callee) in callees.iter().enumerate() {
            nexts.of(block).iter().for_each(|next| visit(*next, block as u32));
            if *callee != NONE {
                visit(*callee, block as u32);
            }
        }
    };
    let mut first = vec![0; callees.len() + 1];
    each(&mut |to, _| first[to as usize] += 1);
    let mut count = 0;
    for first in &mut first {
        count += *first;
        *first = count;
    }
    // Each list is filled from its end.
    let mut all = vec![0; count as usize];
    each(&mut |to, block| {
        let place = &mut first[to as usize];
        *place -= 1;
        all[*place as usize] = block;
    });
    Lists { first, all }
}
