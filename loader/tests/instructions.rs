//! Budgets of instructions: their exact end, their way through domains and the host, and the
//! objects and domains that they refuse.

mod common;
use common::{CALL_RAX, assemble, budgeted, function, kind, paying, spin};
use sfi_contract::{Mode, Rule};
use sfi_loader::{
    BuildError, CallError, DomainSpec, FaultKind, Import, LinkError, Restart, SpecError, Trust, TypedFn, World,
};

fn unary(world: &World, domain: &str, name: &str) -> TypedFn<fn(u64) -> u64> {
    world.domain(domain).unwrap().export(name).unwrap()
}

fn ended(result: Result<u64, CallError>, domain: &str) {
    let Err(CallError::Fault(fault)) = result else { panic!("not ended: {result:?}") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::InstructionBudget, domain), "{fault}");
}

#[test]
fn the_last_instruction_that_is_paid_for_is_the_last_one() {
    let mut world = World::builder().domain(budgeted("a", &spin(), 503)).build().unwrap();
    let spin = unary(&world, "a", "spin");
    let left = |world: &World| world.domain("a").unwrap().instructions_left();
    // Each call begins with the whole budget.
    for _ in 0..3 {
        assert_eq!(spin.call(&mut world, (100,)), Ok(0));
        assert_eq!(left(&world), Some(0));
        assert_eq!(spin.call(&mut world, (1,)), Ok(0));
        assert_eq!(left(&world), Some(495));
    }
    let mut prepared = world.domain("a").unwrap().prepare("spin", "(int) -> int".parse().unwrap()).unwrap();
    for _ in 0..3 {
        assert_eq!(prepared.call(&mut world, &[100]), Ok(0));
        assert_eq!(left(&world), Some(0));
    }
    let result = spin.call(&mut world, (101,));
    let Err(CallError::Fault(fault)) = &result else { panic!("not ended: {result:?}") };
    assert_eq!((fault.kind, fault.function.as_deref()), (FaultKind::InstructionBudget, Some("spin")));
    assert_eq!(
        fault.to_string().split(" in ").next(),
        Some("domain `a`: the domain's budget of instructions is used up")
    );
    assert_eq!(spin.call(&mut world, (1,)), Err(CallError::Dead { domain: "a".into() }));
    world.restart("a").unwrap();
    assert_eq!(spin.call(&mut world, (100,)), Ok(0));
    // 0 counts down for 2^64 steps.
    ended(spin.call(&mut world, (0,)), "a");
}

#[test]
fn a_call_has_a_budget_of_its_own() {
    let text = spin();
    let free = DomainSpec::new("free").object("text.o", assemble(&text));
    let mut world = World::builder().domain(budgeted("a", &text, 503)).domain(free).build().unwrap();
    let spin = unary(&world, "a", "spin");
    assert_eq!(spin.call_with_instructions(&mut world, 50_003, (10_000,)), Ok(0));
    assert_eq!(spin.call(&mut world, (100,)), Ok(0));
    for most in [0, 1 << 63] {
        assert_eq!(spin.call_with_instructions(&mut world, most, (1,)), Err(CallError::Unbudgeted));
    }
    ended(spin.call_with_instructions(&mut world, 502, (100,)), "a");
    let other = unary(&world, "free", "spin");
    assert_eq!(other.call_with_instructions(&mut world, 50, (1,)), Err(CallError::Unbudgeted));
}

/// Calls `work` rdi times.
fn client() -> String {
    paying(
        "run",
        3,
        "mov %rdi,%rbx\n1:\nsub $8,%r14\njb 9f\nmov $3,%edi\ncall work\ndec %rbx\njne 1b\nmov %r12,%rax\nret",
    )
}

#[test]
fn every_domain_pays_for_itself() {
    let builder = || World::builder().domain(budgeted("server", &spin(), 1000));
    let import = || Import::domain("server", "spin");
    // 3 + 8 n instructions in the client, 18 n in the server.
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        let spec = |most| budgeted("client", &client(), most).import("work", import().trust(trust));
        let mut world = builder().domain(spec(1000)).build().unwrap();
        let run = unary(&world, "client", "run");
        for _ in 0..2 {
            assert_eq!(run.call(&mut world, (55,)), Ok(0));
            let left = |name: &str| world.domain(name).unwrap().instructions_left();
            assert_eq!((left("client"), left("server")), (Some(1000 - 3 - 55 * 8), Some(1000 - 55 * 18)), "{trust}");
        }
        // The server is ended, and its caller goes on with its own budget.
        assert_eq!(run.call(&mut world, (56,)), Ok(0));
        assert_eq!(world.domain("client").unwrap().instructions_left(), Some(1000 - 3 - 56 * 8));
        let spin = unary(&world, "server", "spin");
        assert_eq!(spin.call(&mut world, (1,)), Err(CallError::Dead { domain: "server".into() }));
        let mut world = builder().domain(spec(200)).build().unwrap();
        let run = unary(&world, "client", "run");
        ended(run.call(&mut world, (40,)), "client");
    }
}

#[test]
fn calls_back_do_not_renew_a_budget() {
    // Each calls the other twice, as deep as the argument says: 2^60 calls.
    let text = |other: &str| {
        paying(
            "run",
            14,
            &format!(
                "test %rdi,%rdi\nje 1f\nlea -1(%rdi),%rbx\nmov %rbx,%rdi\ncall {other}\nmov %rbx,%rdi\ncall {other}\n1:\nret"
            ),
        )
    };
    for most in [1_000, 20_000] {
        let spec = |name: &str, import: &str, other: &str| {
            budgeted(name, &text(import), most).import(import, Import::domain(other, "run").trust(Trust::TrustedBoth))
        };
        let mut world = World::builder().domain(spec("a", "to_b", "b")).domain(spec("b", "to_a", "a")).build().unwrap();
        let run = unary(&world, "a", "run");
        assert_eq!(run.call(&mut world, (4,)), Ok(0));
        let result = run.call(&mut world, (60,));
        // One of them dies first. The other one goes on, or dies at its own end.
        assert!(result.is_ok() || kind(result.clone()) == FaultKind::InstructionBudget, "{result:?}");
        let dead = ["a", "b"].map(|name| {
            let run = unary(&world, name, "run");
            matches!(run.call(&mut world, (0,)), Err(CallError::Dead { .. }))
        });
        assert!(dead.contains(&true));
    }
}

#[test]
fn the_host_hands_the_budget_on() {
    let text = client() + &spin();
    let back = |cx: &mut sfi_loader::HostCall<'_>| -> Result<u64, sfi_loader::HostError> {
        let spin: TypedFn<fn(u64) -> u64> = cx.export("a", "spin").expect("it has it");
        Ok(spin.call(cx, (3,)).expect("within the budget"))
    };
    let spec = budgeted("a", &text, 1000).import("work", Import::host("back"));
    let mut world = World::builder().domain(spec).host_fn("back", back).build().unwrap();
    let run = unary(&world, "a", "run");
    assert_eq!(run.call(&mut world, (20,)), Ok(0));
    assert_eq!(world.domain("a").unwrap().instructions_left(), Some(1000 - 3 - 20 * (8 + 18)));
}

#[test]
fn others_keep_and_change_r14_in_vain() {
    let free = function("work", "mov $-1,%r14\nshr $1,%r14\nret");
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        // A server without a budget writes the client's.
        let client = budgeted("client", &client(), 1000).import("work", Import::domain("free", "work").trust(trust));
        let server = DomainSpec::new("free").object("free.o", assemble(&free));
        let mut world = World::builder().domain(client).domain(server).build().unwrap();
        let run = unary(&world, "client", "run");
        assert_eq!(run.call(&mut world, (100,)), Ok(0), "{trust}");
        assert_eq!(world.domain("client").unwrap().instructions_left(), Some(1000 - 3 - 100 * 8), "{trust}");
        ended(run.call(&mut world, (1000,)), "client");
        // A client without one keeps its r14, whether the server returns or ends.
        let text = function("keep", "mov $77,%r14d\ncall work\nmov %r14,%rax\nret");
        let client = DomainSpec::new("client").object("keep.o", assemble(&text));
        let client = client.import("work", Import::domain("server", "spin").trust(trust));
        let mut world = World::builder().domain(client).domain(budgeted("server", &spin(), 1000)).build().unwrap();
        let keep = unary(&world, "client", "keep");
        assert_eq!(keep.call(&mut world, (10,)), Ok(77), "{trust}");
        assert_eq!(keep.call(&mut world, (1000,)), Ok(77), "{trust}");
        assert_eq!(keep.call(&mut world, (10,)), Ok(77), "{trust}");
    }
}

#[test]
fn a_restarted_domain_has_its_whole_budget() {
    let spec = budgeted("server", &spin(), 1000).restart(Restart::Always);
    let client = budgeted("client", &client(), 1000).import("work", Import::domain("server", "spin"));
    let mut world = World::builder().domain(spec).domain(client).build().unwrap();
    let run = unary(&world, "client", "run");
    // The server ends after 55 calls, and begins anew.
    assert_eq!(run.call(&mut world, (100,)), Ok(0));
    assert!(world.domain("server").unwrap().restarts() > 0);
    assert_eq!(world.domain("client").unwrap().instructions_left(), Some(1000 - 3 - 100 * 8));
}

/// Returns the rules of an object or text that a budgeted domain refuses.
fn refused(text: &str, mode: Mode) -> Vec<Rule> {
    let built = World::builder().domain(budgeted("a", text, 1000).mode(mode)).build();
    let mut rules: Vec<Rule> = match built.err() {
        Some(BuildError::Link(LinkError::Refused { objects, .. })) => {
            objects.iter().flat_map(|object| object.violations.iter().map(|v| v.rule)).collect()
        }
        Some(BuildError::Link(LinkError::FinalText { violations, .. })) => violations.iter().map(|v| v.rule).collect(),
        other => panic!("{other:?}: {text}"),
    };
    rules.dedup();
    rules
}

#[test]
fn other_objects_are_refused() {
    let plain = function("f", "ret");
    assert_eq!(refused(&plain, Mode::Write), [Rule::Uncharged], "an entry point without a charge");
    assert_eq!(refused(&function("f", "1:\njmp 1b"), Mode::Write), [Rule::Uncharged]);
    assert_eq!(refused(&function("f", "mov %rax,%r14\nret"), Mode::Write), [Rule::BudgetRegister]);
    let small = paying("f", 2, "ret");
    assert_eq!(refused(&small, Mode::Write), [Rule::ChargeAmount]);
    let called = paying("f", 9, "call g\nret") + ".globl g\n.hidden g\n.type g,@function\ng: nop\nret\n";
    assert_eq!(refused(&called, Mode::Full), [Rule::Uncharged]);
    let pointer = paying("f", 9, &format!("mov table(%rip),%rax\n{CALL_RAX}ret"))
        + ".globl g\ng: nop\nret\n.data\ntable: .quad g\n";
    assert_eq!(refused(&pointer, Mode::Write), [Rule::Uncharged], "a slot");
    let initialiser = paying("f", 9, "ret") + ".globl g\ng: nop\nret\n.section .init_array,\"aw\"\n.quad g\n";
    assert_eq!(refused(&initialiser, Mode::Write), [Rule::Uncharged], "an initialiser");
    // All of them are fine without a budget.
    for text in [plain, small, called, pointer, initialiser] {
        World::builder().domain(DomainSpec::new("a").object("text.o", assemble(&text))).build().unwrap();
    }
}

#[test]
fn budgets_that_cannot_be_kept_are_refused() {
    let text = spin();
    for spec in [
        budgeted("a", &text, 0),
        budgeted("a", &text, 1 << 63),
        budgeted("a", &text, 1000).mode(Mode::Match),
        budgeted("a", &text, 9).link_room(sfi_loader::LinkRoom::default()),
    ] {
        let built = World::builder().domain(spec).build();
        assert!(matches!(built, Err(BuildError::Spec(SpecError::Instructions(_)))), "{:?}", built.err());
    }
    World::builder().domain(budgeted("a", &text, (1 << 63) - 1)).build().unwrap();
}

#[test]
fn no_fibers_and_no_handlers_of_faults() {
    let keep = paying("keep", 9, "call __sfi_keep\nxor %eax,%eax\nret");
    let mut world = World::builder().domain(budgeted("a", &keep, 1000)).build().unwrap();
    let run = unary(&world, "a", "keep");
    assert_eq!(kind(run.call(&mut world, (0,))), FaultKind::Fiber);
    // It asks for the trap of its charges, and would go on with a register that never runs out.
    let text = paying("f", 9, "call catch\nret") + &paying("on", 3, "1:\nsub $3,%r14\njb 9f\njmp 1b") + &spin();
    let catch = |cx: &mut sfi_loader::HostCall<'_>| Ok::<u64, sfi_loader::HostError>(cx.catch_faults(!0, "on").into());
    let spec = |most: bool| {
        let spec = DomainSpec::new("a").object("text.o", assemble(&text)).import("catch", Import::host("catch"));
        let free = || function("free", "call catch\nret");
        if most { spec.instructions(500) } else { spec.object("free.o", assemble(&free())) }
    };
    let mut world = World::builder().domain(spec(true)).host_fn("catch", catch).build().unwrap();
    let f = unary(&world, "a", "f");
    assert_eq!(f.call(&mut world, (0,)), Ok(0));
    ended(unary(&world, "a", "spin").call(&mut world, (0,)), "a");
    let mut world = World::builder().domain(spec(false)).host_fn("catch", catch).build().unwrap();
    assert_eq!(unary(&world, "a", "free").call(&mut world, (0,)), Ok(1));
}

/// A client passes a function, which the server calls. Each pays for its own text, at every level,
/// also if the server dies meanwhile.
#[test]
fn functions_that_cross_pay() {
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        for dies in [false, true] {
            let client = paying("run", 9, "lea each(%rip),%rdi\ncall serve\nmov %r12,%rax\nret")
                + &paying("each", 2, "1:\nsub $4,%r14\njb 9f\nmov $7,%eax\nret");
            let end = if dies { "ud2" } else { "ret" };
            let call = |charge: u32| format!("sub ${charge},%r14\njb 9f\nmov %rbx,%rax\n{CALL_RAX}");
            let server = paying("serve", 4, &format!("mov %rdi,%rbx\n{}{}{}{end}", call(5), call(5), call(6)));
            let import = Import::domain("server", "serve").signature("(fn() -> int) -> int").trust(trust);
            let client = budgeted("client", &client, 1000).import("serve", import);
            let world = World::builder().domain(client).domain(budgeted("server", &server, 1000));
            let mut world = world.build().unwrap();
            let run = unary(&world, "client", "run");
            assert!(run.call(&mut world, (0,)).is_ok(), "{trust}");
            let left = |name: &str| world.domain(name).unwrap().instructions_left().unwrap();
            assert_eq!(left("client"), 1000 - 9 - 3 * (2 + 4), "{trust}, dies: {dies}");
            assert!(dies || left("server") == 1000 - 4 - 16, "{trust}: {}", left("server"));
        }
    }
}
