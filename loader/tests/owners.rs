//! The price of faults for the owners of domains, and its manifest.

mod common;
use common::{assemble, function};
use sfi_loader::manifest::Manifest;
use sfi_loader::{
    BuildError, CallError, DomainSpec, Import, Manage, Owner, Passed, Penalty, Restart, Status, TypedFn, World,
};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(40);

fn faulty(name: &str, owner: Option<&Owner>) -> DomainSpec {
    let text = function("die", "mov 8,%rax\nret")
        + &function("probe", "mov $0x7000,%rax\nshl $32,%rax\nadd %rdi,%rax\nmov (%rax),%rax\nret")
        + &function("answer", "mov $42,%eax\nret");
    let spec = DomainSpec::new(name).memory(0).object("f.o", assemble(&text));
    owner.map_or(spec.clone(), |owner| spec.owner(owner))
}

fn call(world: &mut World, domain: &str, name: &str) -> Result<u64, CallError> {
    let f: TypedFn<fn(u64) -> u64> = world.domain(domain).unwrap().export(name).unwrap();
    f.call(world, (0,))
}

#[test]
fn every_fault_delays_all_domains_of_the_owner() {
    let owner = Owner::new("alice").penalty(Penalty::Constant(DELAY));
    let builder = World::builder().domain(faulty("a", Some(&owner))).domain(faulty("b", Some(&owner)));
    let mut world = builder.domain(faulty("other", None)).build().unwrap();
    assert_eq!(owner.record().faults, 0);
    for name in ["a", "b", "other"] {
        assert!(call(&mut world, name, "die").is_err());
    }
    let record = owner.record();
    assert_eq!((record.faults, record.delayed, record.outside, record.suspicious), (2, 2 * DELAY, 0, false));
    let names: Vec<&str> = record.history.iter().map(|e| e.fault.domain.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let start = Instant::now();
    world.restart("other").unwrap();
    let other = start.elapsed();
    world.restart("b").unwrap();
    assert!(start.elapsed() >= DELAY * 3 / 2, "one after the other: {:?}", start.elapsed());
    assert!(other < start.elapsed() / 2, "who has another owner does not wait: {other:?}");
    world.restart("a").unwrap();
    assert_eq!(call(&mut world, "a", "answer"), Ok(42));
    // A new world of the same owner waits too.
    assert!(call(&mut world, "a", "die").is_err());
    let start = Instant::now();
    drop(World::builder().domain(faulty("c", Some(&owner))).build().unwrap());
    assert!(start.elapsed() >= DELAY / 2, "{:?}", start.elapsed());
}

#[test]
fn an_adaptive_penalty_doubles() {
    let (first, most, window) = (Duration::from_millis(2), Duration::from_millis(12), Duration::from_secs(60));
    let owner = Owner::new("alice").penalty(Penalty::Adaptive { first, most, window });
    let mut world = World::builder().domain(faulty("a", Some(&owner))).build().unwrap();
    let mut expected = Duration::ZERO;
    for delay in [2, 4, 8, 12, 12] {
        assert!(call(&mut world, "a", "die").is_err());
        expected += Duration::from_millis(delay);
        assert_eq!(owner.record().delayed, expected);
        world.restart("a").unwrap();
    }
}

/// A fault that only a domain has seen counts as well, at the latest when the faulty domain lives
/// again.
#[test]
fn a_budget_of_faults_ends_restarts() {
    let owner = Owner::new("alice").most_faults(3);
    let app = function("run", "call die\nret");
    let app = DomainSpec::new("app").object("app.o", assemble(&app)).import("die", Import::domain("bad", "die"));
    let bad = || faulty("bad", Some(&owner)).restart(Restart::Always);
    let mut world = World::builder().domain(app).domain(bad()).build().unwrap();
    let run: TypedFn<fn() -> i64> = world.domain("app").unwrap().export("run").unwrap();
    for _ in 0..10 {
        assert_eq!(run.call(&mut world, ()), Ok(-1));
    }
    assert_eq!(owner.record().faults, 3, "it was restarted twice");
    assert_eq!(world.domain("bad").unwrap().restarts(), 2, "and not the third time");
    assert_eq!(call(&mut world, "bad", "answer"), Err(CallError::Dead { domain: "bad".into() }));
    let refused = |result: Result<(), BuildError>| match result {
        Err(BuildError::Owner { owner, faults }) => assert_eq!((owner.as_str(), faults), ("alice", 3)),
        other => panic!("{other:?}"),
    };
    refused(world.restart("bad"));
    refused(world.reload(bad()));
    refused(world.instantiate("bad").map(drop));
    refused(World::builder().domain(bad()).build().map(drop));
}

/// A caller of a domain that waits for its owner's penalties gets an error at once. It neither
/// waits nor is ended for it.
#[test]
fn a_penalty_is_not_the_clients() {
    let delay = Duration::from_secs(600);
    for penalty in [delay, DELAY] {
        let owner = Owner::new("mallory").penalty(Penalty::Constant(penalty));
        let signature = "(int) -> int";
        let app = function("run", "call die\nmov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret")
            + &function("ask", "call answer\nret");
        let import = |name: &str| Import::domain("bad", name).signature(signature).on_fault(-9);
        let app = DomainSpec::new("app")
            .object("app.o", assemble(&app))
            .import("die", import("die"))
            .import("answer", import("answer"));
        let bad = faulty("bad", Some(&owner)).restart(Restart::Always);
        let mut world = World::builder().domain(app).domain(bad).time_limit(Duration::from_secs(60)).build().unwrap();
        assert_eq!(world.ready_at("bad"), Ok(None));
        let start = Instant::now();
        assert_eq!(call(&mut world, "app", "run"), Ok(Status::Fault.into()));
        let ready = world.ready_at("bad").unwrap();
        if penalty == delay {
            let ready = ready.unwrap();
            assert!((start + delay..=Instant::now() + delay).contains(&ready), "the penalty counts from the fault on");
            for _ in 0..3 {
                assert_eq!(call(&mut world, "app", "run"), Ok(Status::NotReady.into()));
                assert_eq!(call(&mut world, "app", "ask").map(|v| v as i64), Ok(-9));
                assert_eq!(call(&mut world, "bad", "answer"), Err(CallError::NotReady { domain: "bad".into() }));
            }
            let bound: sfi_loader::interface::Declaration = "i64 answer(in u8 text[n], u64 n)".parse().unwrap();
            let bound = world.domain("bad").unwrap().bind(&bound).unwrap();
            let buffers = &mut [Passed::In(b"x"), Passed::Word(1)];
            assert_eq!(bound.call(&mut world, buffers), Err(CallError::NotReady { domain: "bad".into() }));
            assert!(start.elapsed() < delay, "{:?}", start.elapsed());
            assert_eq!(world.ready_at("bad"), Ok(Some(ready)), "asking costs nothing");
            assert_eq!((owner.record().faults, world.domain("bad").unwrap().restarts()), (1, 0));
        } else {
            std::thread::sleep(ready.map_or(Duration::ZERO, |ready| ready.saturating_duration_since(Instant::now())));
            assert_eq!(call(&mut world, "app", "ask"), Ok(42), "it is restarted when the penalty is over");
            assert_eq!(world.domain("bad").unwrap().restarts(), 1);
        }
        assert!(!world.domain("app").unwrap().is_dead());
    }
}

/// Many accesses outside the own window are a search for other domains.
#[test]
fn a_search_is_suspicious() {
    let owner = Owner::new("mallory");
    let mut world = World::builder().domain(faulty("m", Some(&owner)).restart(Restart::Always)).build().unwrap();
    for _ in 0..20 {
        assert!(call(&mut world, "m", "die").is_err());
    }
    assert!(!owner.record().suspicious, "mistakes are none");
    for i in 0..8 {
        assert!(!owner.record().suspicious, "{i}");
        assert!(call(&mut world, "m", "probe").is_err());
    }
    let record = owner.record();
    assert_eq!((record.faults, record.outside, record.suspicious), (28, 8, true));
}

const MANIFEST: &str = r#"
[entry]
domain = "app"
function = "run"

[regions]
shared = 4096

[domains.app]
objects = ["app.o"]
imports.add = { entry = "codec.add" }
imports.guarded = { entry = "codec.guarded" }
imports.__sfi_connect = { host = "__sfi_connect" }
spare_bindings = 1
root = true
capabilities.key = "codec.guarded"

[domains.codec]
objects = ["codec.o"]
restart = 1
owner = "bob"
budget = { cpu = "10 s" }

[domains.codec.registers]
add = { function = "add", signature = "(int, int) -> int" }
guarded = { procedures = ["add", "die"], capability = true, signature = "(int, int, int, int) -> int" }

[[permit]]
client = "app"
entry = "codec.*"

[owners.bob]
faults = 2
penalty = "1 ms"
"#;

fn manifest(text: &str) -> Result<World, String> {
    let directory = tempfile::tempdir().unwrap();
    let app = ".data\n.globl key\nkey: .skip 64\nname: .asciz \"codec.add\"\n.text\n".to_owned()
        + &function("run", "mov $1,%edi\nmov $2,%esi\ncall add\nret")
        + &function("guarded_call", "lea key(%rip),%rsi\nmov $5,%edx\nmov $6,%ecx\ncall guarded\nret")
        + &function(
            "connect",
            "lea name(%rip),%rdi\ncall __sfi_connect\ntest %rax,%rax\nsetne %al\nmovzbl %al,%eax\nret",
        );
    let codec = function("add", "lea (%rdi,%rsi),%rax\nret") + &function("die", "ud2");
    for (name, text) in [("app.o", app), ("codec.o", codec)] {
        std::fs::write(directory.path().join(name), assemble(&text)).unwrap();
    }
    let path = directory.path().join("domains.toml");
    std::fs::write(&path, text).unwrap();
    let manifest = Manifest::load(&path).map_err(|e| sfi_loader::chain(&e))?;
    let builder = manifest.build(World::builder(), directory.path()).map_err(|e| sfi_loader::chain(&e))?;
    builder.build().map_err(|e| sfi_loader::chain(&e))
}

#[test]
fn a_manifest_says_all_this() {
    let mut world = manifest(MANIFEST).unwrap();
    let app = world.domain("app").unwrap();
    let [run, connect] = ["run", "connect"].map(|name| app.export::<fn() -> i64>(name).unwrap());
    let guarded: TypedFn<fn(u64) -> i64> = app.export("guarded_call").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(3));
    assert_eq!(connect.call(&mut world, ()), Ok(1));
    assert_eq!(guarded.call(&mut world, (0,)), Ok(11), "with the capability that the manager drew");
    assert!(world.region_in("app", "shared").is_some() && world.region_in("codec", "shared").is_none());
    for (restarts, result) in [(1, 3), (1, -1)] {
        assert_eq!(guarded.call(&mut world, (1,)), Ok(-1));
        let ready = world.ready_at("codec").unwrap();
        std::thread::sleep(ready.map_or(Duration::ZERO, |ready| ready.saturating_duration_since(Instant::now())));
        assert_eq!(run.call(&mut world, ()), Ok(result));
        assert_eq!(world.domain("codec").unwrap().restarts(), restarts);
    }
    // A restarted domain gets the manifest's capabilities, too.
    let mut world = manifest(MANIFEST).unwrap();
    world.restart("app").unwrap();
    let guarded: TypedFn<fn(u64) -> i64> = world.domain("app").unwrap().export("guarded_call").unwrap();
    assert_eq!(guarded.call(&mut world, (0,)), Ok(11));
    for (from, to, error) in [
        ("codec.*", "codex.*", "may not connect"),
        (
            "capabilities.key = \"codec.guarded\"",
            "capabilities.key = \"codec.add\"",
            "no entry point `codec.add` has a capability",
        ),
        ("capabilities.key", "capabilities.nokey", "there is no such variable"),
        ("owner = \"bob\"", "owner = \"bert\"", "there is no owner `bert`"),
        ("function = \"add\"", "function = \"sub\"", "no global function `sub`"),
    ] {
        assert!(MANIFEST.contains(from));
        let found = manifest(&MANIFEST.replace(from, to)).map(drop).unwrap_err();
        assert!(found.contains(error), "{found}");
    }
}
