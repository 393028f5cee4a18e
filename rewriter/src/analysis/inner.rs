//! Phase 4c: labels inside functions whose address is mere data.
//!
//! A taken label to which no jump of its unit can lead is presumed to be a function, which some
//! pointer calls. It is none if its function comes to it with something on the stack: nothing is on
//! the stack where a function begins. Programs take such addresses to tell where they are
//! (`&&here` in GNU C, without a computed goto).

use crate::analysis::depth::Height;
use crate::analysis::flow::{self, FlowGraph};
use crate::analysis::height::heights;
use crate::analysis::regs::AllEffects;
use crate::object::address::Addresses;
use crate::object::decode::{Code, InsnIndex};
use crate::unwind::Unwind;
use foldhash::{HashSet, HashSetExt};

/// Builds the graph.
pub(crate) fn graph(code: &Code<'_, '_>, addresses: &Addresses, unwind: &Unwind, effects: &AllEffects) -> FlowGraph {
    let graph = flow::build(code, addresses, unwind, &HashSet::new());
    if graph.presumed.is_empty() {
        return graph;
    }
    let mut inner: HashSet<InsnIndex> = graph.presumed.iter().copied().collect();
    let states = heights(code, &flow::build(code, addresses, unwind, &inner), effects, false);
    inner.retain(|at| !matches!(states[*at].rsp, Height::Unseen | Height::Known(0)));
    if inner.is_empty() { graph } else { flow::build(code, addresses, unwind, &inner) }
}
