//! Facts about the program. Nothing here changes code.

pub(crate) mod arrays;
pub(crate) mod count;
pub(crate) mod depth;
pub(crate) mod ends;
pub(crate) mod flow;
pub(crate) mod frame_walk;
pub(crate) mod height;
pub(crate) mod inner;
pub(crate) mod interned;
pub(crate) mod jumps;
pub(crate) mod likely;
pub(crate) mod live;
pub(crate) mod own;
pub(crate) mod pads;
pub(crate) mod r15;
pub(crate) mod reach;
pub(crate) mod receive;
pub(crate) mod received;
pub(crate) mod regs;
pub(crate) mod rounds;
pub(crate) mod saves;
pub(crate) mod spent;
pub(crate) mod switches;
pub(crate) mod text_reads;
pub(crate) mod trees;

use crate::analysis::arrays::Arrays;
use crate::analysis::depth::States;
use crate::analysis::flow::FlowGraph;
use crate::analysis::likely::Likely;
use crate::analysis::live::Liveness;
use crate::analysis::pads::Pads;
use crate::analysis::r15::kept::{Homes, R15};
use crate::analysis::r15::slot::Slots;
use crate::analysis::regs::AllEffects;
use crate::analysis::rounds::Rounds;
use crate::analysis::saves::Saves;
use crate::analysis::trees::Trees;
use crate::object::address::Addresses;
use crate::object::decode::{Code, InsnIndex, InsnSet};
use crate::refusal::{Reason, Refusal};
use crate::unwind::Unwind;
use foldhash::HashSet;
use iced_x86::Register;
use sfi_contract::Mode;

/// The results of all analyses.
pub(crate) struct Found {
    pub graph: FlowGraph,
    pub effects: AllEffects,
    pub states: States,
    /// Calls that a trap follows.
    pub stops: HashSet<InsnIndex>,
    pub live: Liveness,
    /// Instructions before which %al may hold a count of vector registers (see `count`).
    pub counts: InsnSet,
    pub pads: Pads,
    pub r15: Homes,
    pub slots: Slots,
    pub trees: Trees,
    pub arrays: Arrays,
    pub saves: Saves,
    pub likely: Likely,
}

/// Runs all analyses, and renames r15 in `code` where that frees it. Returns the results and every
/// obstacle.
pub(crate) fn run(
    code: &mut Code<'_, '_>,
    addresses: &Addresses,
    unwind: &Unwind,
    (mode, budget, saves): (Mode, bool, bool),
) -> (Found, Vec<Refusal>) {
    let mut effects = regs::effects(code);
    let mut graph = inner::graph(code, addresses, unwind, &effects);
    let budgeted = if budget { regs::bit(sfi_contract::budget::REGISTER) } else { 0 };
    let names = |at: &InsnIndex| !code.insns[*at].is_nop() && (effects[*at].uses | effects[*at].writes) & budgeted != 0;
    let detail = "r14 holds the budget; compile with -ffixed-r14";
    let insns = code.indexes().filter(|_| budget);
    let named: Vec<Refusal> = insns.filter(names).map(|at| code.refuse(at, Reason::NoSafeForm, detail)).collect();
    let (sums, mut states) = jumps::prove(code, &mut graph, &effects, addresses);
    while graph.settle(code, &states) {
        states = height::heights(code, &graph, &effects, false);
    }
    // Without such labels the last states are those.
    if !graph.interior.is_empty() {
        states = height::heights(code, &graph, &effects, true);
    }
    graph.find_mixed(&states);
    let mut stops = ends::find(code, &graph, &states);
    let mut refusals = height::check_return_addresses(code, &effects, &states);
    refusals.extend(named);
    refusals.extend(height::check_returns(code, &graph, &states));
    refusals.extend(own::check_tails(code, &graph, &states, &stops));
    refusals.extend(own::check(code, &graph, &effects, &states, &stops));
    refusals.extend(received::check(code, &graph, &effects, budgeted));
    refusals.extend(text_reads::check(code, &graph, &effects, &states, addresses));
    refusals.extend(frame_walk::check(code, &graph, &effects, &states));
    let detail = "the target is a sum, and not with the base of a switch table";
    refusals.extend(sums.into_iter().map(|at| code.refuse(at, Reason::CodeAddress, detail)));
    let (passed, takes, more) = r15::passed::find(code, &graph, &effects, &states, addresses);
    refusals.extend(more);
    let r15 = r15::decide(code, &graph, &effects, &states, (&passed, &takes), budgeted);
    r15::rename(code, &graph, &r15, &mut effects);
    // The heights depend on no other register.
    if r15.iter().any(|(_, kept)| matches!(kept, Some(R15::Renamed(Register::RBP) | R15::Exchanged(Register::RBP)))) {
        states = height::heights(code, &graph, &effects, true);
        stops.extend(ends::find(code, &graph, &states));
    }
    let slots = Slots::find(code, &graph, &effects, &states, &r15, &passed);
    let rounds = Rounds::new(code, &graph);
    let live = live::liveness(code, &graph, &rounds, &effects);
    let counts = count::counts(code, addresses, &graph, &rounds, &effects);
    // In mode match the check of a jump reads the whole address.
    let lines = match mode {
        Mode::Match => Vec::new(),
        Mode::Write | Mode::Full => switches::find(code, &graph, &rounds, &effects, &live),
    };
    // A charge belongs to code of the instruction that it stands before.
    let (mut trees, mut found) = (Trees::default(), Saves::default());
    if saves {
        let bodies = saves::bodies(code, &graph);
        if !budget {
            trees = Trees::find(code, addresses, &graph, &bodies, &lines);
        }
        found = Saves::find(code, &graph, &effects, &states, &live, (&bodies, &trees));
        trees.keep(addresses, |jump| found.has_body(jump));
    }
    let saves = found;
    let arrays = Arrays::find(code, addresses, lines.iter().filter(|line| trees.jump(line.jump).is_none()));
    let pads = Pads::find(code, &graph, &live, &counts, (&arrays, &trees));
    // Checks and charges belong to the unsafe region, which such calls branch around.
    let likely = match mode {
        Mode::Write | Mode::Full if !budget => Likely::find(code, addresses, &graph),
        _ => Likely::default(),
    };
    (Found { graph, effects, states, stops, live, counts, pads, r15, slots, trees, arrays, saves, likely }, refusals)
}
