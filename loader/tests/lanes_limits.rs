//! Budgets of instructions in worlds that several threads enter: each call of the host has its own,
//! exact to the instruction, whoever is in the domain meanwhile.

mod common;
mod lane_domains;
use common::{budgeted, kind, paying, spin};
use lane_domains::{Unary, alone, lanes};
use sfi_loader::{CallError, FaultKind, Import, LaneFn, Mode, Restart};

/// Several threads run one budgeted domain, with one E-stack by turns and with several at once.
/// None pays for another one.
#[test]
fn each_call_has_the_whole_budget() {
    let _alone = alone();
    let app = || budgeted("app", &spin(), 50_003);
    for spec in [app(), app().mode(Mode::Full).threads(3), app().threads_exposing(3)] {
        let lanes = lanes(3, [spec]);
        let spin: Unary = LaneFn::new("app", "spin");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for i in 0..200 {
                        let mut lane = lanes.enter().unwrap();
                        let steps = if i % 2 == 0 { 10_000 } else { 1 };
                        assert_eq!(spin.call(&mut lane, (steps,)), Ok(0));
                        let left = lane.domain("app").unwrap().instructions_left();
                        assert_eq!(left, Some(50_000 - 5 * steps));
                    }
                });
            }
        });
    }
}

/// A budget that is used up is a fault: the domain ends for all lanes, and begins again.
#[test]
fn the_end_of_a_budget_ends_the_domain_for_all() {
    let _alone = alone();
    let lanes = lanes(2, [budgeted("app", &spin(), 503).threads_exposing(2)]);
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    let spin: Unary = LaneFn::new("app", "spin");
    for _ in 0..2 {
        assert_eq!([&mut a, &mut b].map(|lane| spin.call(lane, (100,))), [Ok(0), Ok(0)]);
        assert_eq!(kind(spin.call(&mut a, (101,))), FaultKind::InstructionBudget);
        assert_eq!(spin.call(&mut b, (1,)), Err(CallError::Dead { domain: "app".into() }));
        b.restart("app").unwrap();
    }
}

/// A budgeted client and a budgeted server, whose E-stack the lanes take from each other: the way
/// through the loader changes neither side's rest.
#[test]
fn taking_an_estack_costs_no_budget() {
    let _alone = alone();
    let client = paying("run", 3, "call spin\nsub $4,%r14\njb 9f\nadd $7,%rax\nret");
    let front = |name: &str| {
        let import = Import::domain("back", "spin").signature("(int) -> int").on_fault(-5);
        budgeted(name, &client, 100).import("spin", import)
    };
    let back = || budgeted("back", &spin(), 503).restart(Restart::Always);
    let lanes = lanes(2, [front("one"), front("two"), back()]);
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    for _ in 0..50 {
        for (lane, name) in [(&mut a, "one"), (&mut b, "two")] {
            let run: Unary = LaneFn::new(name, "run");
            assert_eq!(run.call(lane, (100,)), Ok(7));
            let left = ["back", name].map(|name| lane.domain(name).unwrap().instructions_left());
            assert_eq!(left, [Some(0), Some(93)]);
            // The server's budget is used up, the client's is not.
            assert_eq!(run.call(lane, (101,)), Ok(2));
            assert_eq!(lane.domain(name).unwrap().instructions_left(), Some(93));
        }
    }
}
