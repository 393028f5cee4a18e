//! Limits in worlds that several threads enter. Each call of the host has its own budget of
//! instructions, exact to the instruction, and its own deadline. Budgets of time are those of a
//! domain's life, in all lanes together.

mod common;
mod lane_domains;
use common::{budgeted, function, kind, paying, spin};
use lane_domains::{Unary, alone, domain, lanes};
use sfi_loader::{
    Budget, CallError, DomainSpec, FaultKind, Import, Lane, LaneFn, Limits, Mode, Owner, Penalty, Restart, Used, World,
};
use std::time::{Duration, Instant};

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

const LIMIT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(600);

/// A domain with time to use. `burn(steps)` counts down. `together(own, other)` waits until both
/// are here and never ends.
fn burner(name: &str) -> DomainSpec {
    let together = "lea flags(%rip),%rcx\nmovl $1,%gs:(%ecx,%edi,4)\n1:\nmov (%rcx,%rsi,4),%eax\ntest %eax,%eax\njz 1b\n2:\njmp 2b";
    let burn = "mov %rdi,%rax\n1:\ndec %rax\njnz 1b\nmov $1,%eax\nret";
    domain(name, &(function("burn", burn) + &function("together", together)))
}

fn used(lane: &mut Lane<'_>) -> Used {
    lane.used("app").unwrap()
}

/// Lanes use a domain by turns, directly or by way of another domain. The budget is used up once
/// all of them together have used so much, also if no call is a long one. Then the domain is dead
/// in all lanes, and it has its whole budget again in its next life.
#[test]
fn lanes_share_a_budget_of_time() {
    let _alone = alone();
    let import = Import::domain("app", "burn").signature("(int) -> int").on_fault(-5);
    let front =
        || domain("front", &function("burn", "call burn2\nret")).threads_exposing(2).import("burn2", import.clone());
    for (budget, expected) in [(Budget::cpu(LIMIT), FaultKind::CpuBudget), (Budget::wall(LIMIT), FaultKind::TimeBudget)]
    {
        for (estacks, way) in [(1, "app"), (2, "app"), (1, "front"), (2, "front")] {
            let app = burner("app").threads_exposing(estacks).budget(budget);
            let lanes = lanes(2, [front(), app]);
            let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
            let burn: Unary = LaneFn::new(way, "burn");
            for life in 0..2 {
                let mut calls = 0;
                let last = loop {
                    let lane = if calls % 2 == 0 { &mut a } else { &mut b };
                    match burn.call(lane, (1_000_000,)) {
                        Ok(1) => calls += 1,
                        other => break other,
                    }
                };
                let charged = used(&mut a);
                // The rate of the counter is measured anew each time.
                let both = used(&mut b).wall.abs_diff(charged.wall);
                assert!(both < Duration::from_micros(50), "it is one account: {both:?}");
                let time = if expected == FaultKind::CpuBudget { charged.cpu } else { charged.wall };
                // A wait for a processor counts as wall clock.
                let most = if expected == FaultKind::CpuBudget { 2 * LIMIT } else { LONG };
                assert!(time >= LIMIT && time < most, "{time:?} after {calls} calls, life {life}");
                // The call in which it was over ended well, or is the last one.
                let crossings = if way == "app" { calls..=calls + 1 } else { 0..=0 };
                assert!(crossings.contains(&charged.crossings), "{charged:?}, {calls} calls");
                let dead = CallError::Dead { domain: "app".into() };
                match (way, last) {
                    ("front", last) => assert_eq!(last, Ok(-5i64 as u64)),
                    (_, Err(CallError::Fault(fault))) => assert_eq!(fault.kind, expected),
                    (_, last) => assert_eq!(last, Err(dead.clone())),
                }
                for lane in [&mut a, &mut b] {
                    assert_eq!(LaneFn::<fn(u64) -> u64>::new("app", "burn").call(lane, (1,)), Err(dead.clone()));
                }
                b.restart("app").unwrap();
                assert_eq!(used(&mut a), Used::default());
            }
        }
    }
}

/// Two lanes that never leave the domain use its budget twice as fast. It ends once, for both: the
/// lane that ends it has the fault, the other one finds it dead.
#[test]
fn lanes_use_a_budget_together() {
    let _alone = alone();
    for budget in [Budget::cpu(2 * LIMIT), Budget::wall(2 * LIMIT)] {
        let owner = Owner::new("mallory").penalty(Penalty::Constant(LONG));
        let app = burner("app").threads_exposing(2).budget(budget).restart(Restart::Always).owner(&owner);
        let lanes = lanes(2, [app]);
        let together: LaneFn<fn(u64, u64) -> u64> = LaneFn::new("app", "together");
        let results = std::thread::scope(|scope| {
            let threads = [(0, 1), (1, 0)].map(|args| {
                let (lanes, together) = (&lanes, &together);
                scope.spawn(move || together.call(&mut lanes.enter().unwrap(), args))
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let faults = results.iter().filter(|result| matches!(result, Err(CallError::Fault(_)))).count();
        assert_eq!(faults, 1, "{results:?}");
        let mut lane = lanes.enter().unwrap();
        let charged = used(&mut lane);
        let time = if budget.cpu.is_some() { charged.cpu } else { charged.wall };
        // Both together, and not each of them.
        let most = if budget.cpu.is_some() { 3 * LIMIT } else { LONG };
        assert!(time >= 2 * LIMIT && time < most, "{charged:?}");
        // The penalty holds in all lanes.
        let refused = Err(CallError::NotReady { domain: "app".into() });
        assert_eq!(LaneFn::<fn(u64) -> u64>::new("app", "burn").call(&mut lane, (1,)), refused);
        assert_eq!(owner.record().faults, 1);
    }
}

/// The host gives a domain its whole budget again, in any lane.
#[test]
fn a_budget_is_filled_again() {
    let _alone = alone();
    let lanes = lanes(2, [burner("app").budget(Budget::wall(LONG))]);
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    let burn: Unary = LaneFn::new("app", "burn");
    for _ in 0..2 {
        assert_eq!([&mut a, &mut b].map(|lane| burn.call(lane, (1_000_000,))), [Ok(1), Ok(1)]);
        let before = used(&mut a);
        assert!(before.wall > Duration::ZERO && before.crossings == 2, "{before:?}");
        b.refill("app").unwrap();
        assert_eq!((used(&mut a), used(&mut b)), (Used::default(), Used::default()));
    }
}

/// A call that overstays its own limit ends in its lane, and the domain in all lanes. Another
/// domain's long call goes on, and so does a call that led through the ended domain.
#[test]
fn a_deadline_ends_one_call_and_its_domain() {
    let _alone = alone();
    let import = Import::domain("app", "burn").signature("(int) -> int").on_fault(-5);
    let other = burner("other").threads_exposing(3).import("burn2", import);
    let owner = Owner::new("mallory").penalty(Penalty::Constant(LONG));
    let app = burner("app").threads_exposing(3).restart(Restart::Always).owner(&owner);
    let world = World::builder().timed().domain(app).domain(other);
    let lanes = world.lanes(3).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        // Some seconds, if nothing ends it.
        let within = scope.spawn(|| {
            let mut lane = lanes.enter().unwrap();
            let burn = lane.domain("app").unwrap().export::<fn(u64) -> u64>("burn").unwrap();
            kind(burn.call_within(&mut lane, Limits::wall(LIMIT), (u64::MAX,)))
        });
        let inside =
            scope.spawn(|| LaneFn::<fn(u64) -> u64>::new("app", "burn").call(&mut lanes.enter().unwrap(), (u64::MAX,)));
        let outside = scope
            .spawn(|| LaneFn::<fn(u64) -> u64>::new("other", "burn").call(&mut lanes.enter().unwrap(), (400_000_000,)));
        assert_eq!(within.join().unwrap(), FaultKind::TimeLimit);
        let inside = inside.join().unwrap();
        assert!(matches!(inside, Err(CallError::Dead { .. } | CallError::NotReady { .. })), "{inside:?}");
        assert_eq!(outside.join().unwrap(), Ok(1));
    });
    assert!(begin.elapsed() >= LIMIT);
    let refused = Err(CallError::NotReady { domain: "app".into() });
    let mut lane = lanes.enter().unwrap();
    assert_eq!(LaneFn::<fn(u64) -> u64>::new("app", "burn").call(&mut lane, (1,)), refused);
    assert_eq!(owner.record().faults, 1);
}
