//! Owners of domains that several threads enter at once: the faults of all lanes count, once each.

mod common;
mod lane_domains;
use common::{function, kind};
use lane_domains::{alone, domain, two};
use sfi_loader::{
    BuildError, CallError, DomainSpec, FaultKind, Import, Lane, LaneFn, Lanes, Owner, Penalty, Restart, Status, World,
};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(600);

/// A client that lets `bad` fault and then stays in a host function, and the faulty domain.
fn build(bad: DomainSpec, lanes: usize) -> (Lanes, Receiver<()>, Sender<()>) {
    let (inside, seen) = channel();
    let (go, wait) = channel::<()>();
    let (inside, wait) = (Mutex::new(inside), Mutex::new(wait));
    let import = |name: &str| Import::domain("bad", name).signature("(int, int) -> int").on_fault(-5);
    let front = domain("front", &(function("hold", "call die\ncall block\nret") + &function("ask", "call sum\nret")))
        .threads_exposing(lanes)
        .import("die", import("fault"))
        .import("sum", import("add"))
        .import("block", Import::host("block"));
    let world = World::builder().domain(front).domain(bad).shared_fn("block", move |_| {
        inside.lock().unwrap().send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        Ok(7)
    });
    (world.lanes(lanes).unwrap(), seen, go)
}

fn fault(lane: &mut Lane<'_>) -> Result<u64, CallError> {
    LaneFn::<fn() -> u64>::new("bad", "fault").call(lane, ())
}

/// A fault that only another domain has seen, in a lane that is still in its call, makes the other
/// lanes wait. It counts once, and says the same as in its own lane.
#[test]
fn a_fault_of_another_lane_counts_before_the_next_life() {
    let _alone = alone();
    for estacks in [1, 2] {
        let owner = Owner::new("mallory").penalty(Penalty::Constant(LONG));
        let bad = domain("bad", "").threads_exposing(estacks).restart(Restart::Always).owner(&owner);
        let (lanes, seen, go) = build(bad, 2);
        // The lane that faults is the second one, which has a view if there are two E-stacks.
        let (one, other) = (lanes.enter().unwrap(), lanes.enter().unwrap());
        let (mut first, mut second) = if one.number() == 0 { (one, other) } else { (other, one) };
        assert_eq!(first.ready_at("bad").unwrap(), None);
        std::thread::scope(|scope| {
            // If this fails the other thread goes on, too.
            let go = go;
            let held = scope.spawn(|| LaneFn::<fn() -> u64>::new("front", "hold").call(&mut second, ()));
            seen.recv().unwrap();
            let begin = Instant::now();
            let refused = Err(CallError::NotReady { domain: "bad".into() });
            assert_eq!(two("bad", "add").call(&mut first, (1, 2)), refused);
            let ask: LaneFn<fn(u64, u64) -> u64> = two("front", "ask");
            if estacks == 2 {
                assert_eq!(ask.call(&mut first, (1, 2)), Ok(-5i64 as u64));
                let error: LaneFn<fn() -> u64> = LaneFn::new("front", "error");
                assert_eq!(error.call(&mut first, ()), Ok(Status::NotReady as u64));
            }
            assert!(first.ready_at("bad").unwrap().unwrap() > begin + LONG / 2);
            assert!(begin.elapsed() < LONG / 2);
            let record = owner.record();
            assert_eq!((record.faults, record.outside, record.delayed), (1, 0, LONG));
            go.send(()).unwrap();
            assert_eq!(held.join().unwrap(), Ok(7));
        });
        assert_eq!(first.domain("bad").unwrap().restarts(), 0);
        let own = second.domain("bad").unwrap().last_fault().unwrap();
        assert_eq!(two("bad", "add").call(&mut second, (1, 2)), Err(CallError::NotReady { domain: "bad".into() }));
        drop((first, second));
        drop(lanes);
        let record = owner.record();
        assert_eq!(record.faults, 1, "nobody tells it twice");
        let told = &record.history[0].fault;
        assert_eq!((&told.kind, told.to_string()), (&own.kind, own.to_string()));
    }
}

/// Without a penalty, and after it, calls restart the domain. The host's restart waits.
#[test]
fn a_penalty_ends_and_the_host_waits_for_its_end() {
    let _alone = alone();
    let owner = Owner::new("alice").penalty(Penalty::Constant(DELAY));
    let bad = domain("bad", "").threads_exposing(2).restart(Restart::Always).owner(&owner);
    let (lanes, ..) = build(bad, 2);
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    for _ in 0..2 {
        assert!(matches!(kind(fault(&mut a)), FaultKind::Memory(_)));
        let begin = Instant::now();
        b.restart("bad").unwrap();
        assert!(begin.elapsed() >= DELAY * 3 / 4, "{:?}", begin.elapsed());
        assert_eq!(two("bad", "add").call(&mut a, (1, 2)), Ok(3));
    }
    assert!(matches!(kind(fault(&mut b)), FaultKind::Memory(_)));
    std::thread::sleep(DELAY);
    assert_eq!(two("bad", "add").call(&mut a, (1, 2)), Ok(3));
    assert_eq!((owner.record().faults, a.domain("bad").unwrap().restarts()), (3, 1));
    let (lanes, ..) = build(domain("bad", "").restart(Restart::Always).owner(&Owner::new("bob")), 2);
    let mut lane = lanes.enter().unwrap();
    for _ in 0..5 {
        assert!(matches!(kind(fault(&mut lane)), FaultKind::Memory(_)));
        assert_eq!(two("bad", "add").call(&mut lane, (1, 2)), Ok(3));
    }
}

/// An owner's limit of faults holds for all lanes together, and ends restarts of calls and of the
/// host. A domain of another owner goes on.
#[test]
fn a_limit_of_faults_is_one_for_all_lanes() {
    let _alone = alone();
    let owner = Owner::new("mallory").most_faults(3);
    let bad = domain("bad", "").threads_exposing(3).restart(Restart::Always).owner(&owner);
    let (lanes, ..) = build(bad, 3);
    let mut all = [0; 3].map(|_| lanes.enter().unwrap());
    for lane in &mut all {
        assert!(matches!(kind(fault(lane)), FaultKind::Memory(_)));
    }
    assert_eq!(owner.record().faults, 3);
    for lane in &mut all {
        assert_eq!(two("bad", "add").call(lane, (1, 2)), Err(CallError::Dead { domain: "bad".into() }));
        let refused = lane.restart("bad");
        assert!(matches!(refused, Err(BuildError::Owner { faults: 3, .. })), "{refused:?}");
        assert_eq!(two("front", "add").call(lane, (1, 2)), Ok(3));
    }
    assert_eq!(all[0].domain("bad").unwrap().restarts(), 2, "the third one was refused");
}

/// Callers that fault at once count one by one: as many as got a fault.
#[test]
fn faults_of_one_life_count_one_by_one() {
    let _alone = alone();
    let owner = Owner::new("mallory");
    let meet = function("meet_fault", "call meet\nxor %ecx,%ecx\nmovl $1,%gs:16(%ecx)\nret");
    let bad = domain("bad", &meet).threads_exposing(2).restart(Restart::Always).owner(&owner);
    let (lanes, ..) = build(bad, 2);
    let (mut faults, mut rounds) = (0, 0);
    while rounds < 50 {
        let results = std::thread::scope(|scope| {
            let run = |own| {
                let lanes = &lanes;
                scope.spawn(move || two("bad", "meet_fault").call(&mut lanes.enter().unwrap(), (own, 1 - own)))
            };
            [0, 1].map(run).map(|thread| thread.join().unwrap())
        });
        rounds += 1;
        for result in results {
            match result {
                Err(CallError::Fault(_)) => faults += 1,
                Err(CallError::Dead { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    drop(lanes);
    assert!(faults >= rounds);
    assert_eq!(owner.record().faults, faults);
}
