//! The order in which facts travel against the flow of control until nothing changes.
//!
//! The instructions are cut into segments: straight runs of one unit, each up to the next label. A
//! segment is visited again only if a fact changed that it reads: at a place in another segment, or
//! at a place before the instruction that reads it.

use crate::analysis::flow::FlowGraph;
use crate::object::decode::{Code, Flow, InsnIndex};

/// The segments of an object, with the places whose facts each reads.
pub(crate) struct Rounds {
    /// The first instruction of each segment, and an end.
    starts: Vec<InsnIndex>,
    /// For each instruction the start of its readers in `readers`. The next one's is the end.
    first: Vec<u32>,
    /// Segments to visit again if a fact changes.
    readers: Vec<u32>,
}

impl Rounds {
    /// Cuts the code into segments. Calls read the facts of their callees.
    pub(crate) fn new(code: &Code<'_, '_>, graph: &FlowGraph) -> Rounds {
        let (mut starts, mut last) = (Vec::new(), None);
        for (at, unit) in graph.unit.iter_enumerated() {
            if last.replace(*unit) != Some(*unit) || graph.label[at] {
                starts.push(at);
            }
        }
        starts.push(code.insns.next_key());
        let each = |visit: &mut dyn FnMut(InsnIndex, u32)| {
            for (segment, bounds) in starts.windows(2).enumerate() {
                for at in bounds[0].until(bounds[1]) {
                    let behind = |to: &InsnIndex| *to > at && *to < bounds[1];
                    let mut read = |to: InsnIndex| {
                        if !behind(&to) {
                            visit(to, segment as u32);
                        }
                    };
                    graph.successors(code, at, &mut read);
                    if matches!(code.insns[at].flow, Flow::Call(_)) {
                        graph.target(at).into_iter().for_each(read);
                    }
                }
            }
        };
        let mut first = vec![0; code.insns.len() + 1];
        each(&mut |to, _| first[usize::from(to)] += 1);
        let mut count = 0;
        for first in &mut first {
            count += *first;
            *first = count;
        }
        // Each list is filled from its end.
        let mut readers = vec![0; count as usize];
        each(&mut |to, segment| {
            let place = &mut first[usize::from(to)];
            *place -= 1;
            readers[*place as usize] = segment;
        });
        Rounds { starts, first, readers }
    }

    /// Visits all instructions, the last one first, until no fact changes. `visit` says whether the
    /// fact of an instruction changed. It also gets the list of places that others must read again.
    pub(crate) fn run(&self, mut visit: impl FnMut(InsnIndex, &mut Vec<InsnIndex>) -> bool) {
        let segments = self.starts.len() - 1;
        let mut stale = vec![true; segments];
        let mut again = Vec::new();
        let mut changed = true;
        while changed {
            changed = false;
            for segment in (0..segments).rev() {
                if !std::mem::replace(&mut stale[segment], false) {
                    continue;
                }
                for at in self.starts[segment].until(self.starts[segment + 1]).rev() {
                    if visit(at, &mut again) {
                        let (first, end) = (self.first[usize::from(at)], self.first[usize::from(at) + 1]);
                        for reader in &self.readers[first as usize..end as usize] {
                            stale[*reader as usize] = true;
                        }
                    }
                }
                for at in again.drain(..) {
                    stale[self.starts.partition_point(|start| *start <= at) - 1] = true;
                }
                changed = true;
            }
        }
    }
}
