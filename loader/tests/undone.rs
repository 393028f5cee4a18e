//! Bindings that are undone while a call returns by them: the callee still pays, for instructions
//! and for time, and its result is still judged by its own table.

mod common;
use common::{assemble, function, paying};
use sfi_loader::{Budget, CallError, DomainSpec, FaultKind, Import, Manage, Restart, Status, Trust, TypedFn, World};
use std::time::Duration;

/// More than any of these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The strings by which a domain registers `work`.
const NAMES: &str = ".data\nname: .asciz \"work\"\ntype: .asciz \"(int) -> int\"\n";

/// `open` registers `work`. `work(n)` takes it back, and then counts down from n: 12 instructions,
/// and 6 for each step.
fn server() -> String {
    let open = "lea name(%rip),%rdi\nlea work(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret";
    let work = "mov %rdi,%rbx\nlea name(%rip),%rdi\ncall __sfi_unregister\n\
                1:\nsub $6,%r14\njb 9f\ndec %rbx\njne 1b\nmov $7,%eax\nret";
    NAMES.to_owned() + &paying("open", 7, open) + &paying("work", 5, work)
}

/// Calls `open` and `work(1000)` rdi times. Returns the number of calls that gave 7.
fn client(pays: bool) -> String {
    let body = "mov %rdi,%rbx\nxor %ebp,%ebp\n1:\nsub $16,%r14\njb 9f\ncall open\nmov $1000,%edi\ncall work\n\
                xor %ecx,%ecx\ncmp $7,%rax\nsete %cl\nadd %rcx,%rbp\ndec %rbx\njne 1b\nmov %rbp,%rax\nret";
    match pays {
        true => paying("run", 4, body),
        false => function("run", &body.replace("sub $16,%r14\njb 9f\n", "")),
    }
}

fn spec(name: &str, text: &str) -> DomainSpec {
    DomainSpec::new(name).object("text.o", assemble(text))
}

fn registering(spec: DomainSpec) -> DomainSpec {
    ["__sfi_register", "__sfi_unregister"].into_iter().fold(spec, |spec, name| spec.import(name, Import::host(name)))
}

fn calling(spec: DomainSpec, trust: Trust) -> DomainSpec {
    spec.import("open", Import::domain("server", "open").trust(trust))
        .import("work", Import::entry("server.work").trust(trust).on_fault(-1))
}

fn unary(world: &World, domain: &str, name: &str) -> TypedFn<fn(u64) -> u64> {
    world.domain(domain).unwrap().export(name).unwrap()
}

/// Two domains together: a server that unregisters its entry point in each call of it, and a client
/// that calls it again. The server pays for its instructions all the same.
#[test]
fn an_undone_binding_charges_its_callee() {
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        let server = registering(spec("server", &server())).instructions(20_000);
        for most in [None, Some(1 << 40)] {
            let client = calling(spec("client", &client(most.is_some())), trust);
            let client = if let Some(most) = most { client.instructions(most) } else { client };
            let world = World::builder().domain(client).domain(server.clone()).permit("client", "server.work");
            let mut world = world.build().unwrap();
            let run = unary(&world, "client", "run");
            assert_eq!(run.call(&mut world, (1,)), Ok(1), "{trust}");
            let left = world.domain("server").unwrap().instructions_left().unwrap();
            assert!(left <= 20_000 - 6 * 1000, "{trust}: {left} of 20000 are left");
            // 3 calls fit.
            assert_eq!(run.call(&mut world, (100,)), Ok(3), "{trust}");
            assert!(world.domain("server").unwrap().is_dead());
            assert_eq!(
                world.domain("server").unwrap().last_fault().map(|fault| fault.kind),
                Some(FaultKind::InstructionBudget)
            );
        }
    }
}

/// The time of a callee is its own, too.
#[test]
fn an_undone_binding_charges_the_time_of_its_callee() {
    let work = "lea name(%rip),%rdi\ncall __sfi_unregister\nmov $60000000,%edi\n1:\ndec %rdi\njnz 1b\nmov $7,%eax\nret";
    let open = "lea name(%rip),%rdi\nlea work(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret";
    let text = NAMES.to_owned() + &function("open", open) + &function("work", work);
    let server = registering(spec("server", &text)).budget(Budget::wall(PATIENCE));
    let client = function("run", "call open\nmov $1,%edi\ncall work\nret");
    let client = calling(spec("client", &client), Trust::MutualDistrust).budget(Budget::wall(PATIENCE));
    let world = World::builder().domain(client).domain(server).permit("client", "server.work");
    let mut world = world.build().unwrap();
    let run = unary(&world, "client", "run");
    let start = std::time::Instant::now();
    assert_eq!(run.call(&mut world, (0,)), Ok(7));
    let wall = start.elapsed();
    let [client, server] = ["client", "server"].map(|name| world.used(name).unwrap().wall);
    assert!(server > wall.mul_f64(0.5) && client < server / 4, "client {client:?}, server {server:?} of {wall:?}");
}

/// A pointer to code is refused as a result, also if the binding was undone meanwhile.
#[test]
fn an_undone_binding_refuses_code() {
    let server = spec("server", &function("work", "call host\nlea work(%rip),%rax\nret"));
    let server = server.import("host", Import::host("host"));
    let text = function("run", "call work\nret") + &function("error", "mov __sfi_error(%rip),%eax\nret");
    let import = Import::domain("server", "work").signature("() -> ptr").on_fault(-3);
    let client = spec("client", &text).import("work", import);
    for undone in [false, true] {
        let host = move |cx: &mut sfi_loader::HostCall<'_>| {
            if undone {
                cx.disconnect("client", "work").unwrap();
            }
            Ok(0)
        };
        let world = World::builder().domain(client.clone()).domain(server.clone()).host_fn("host", host);
        let mut world = world.build().unwrap();
        let (run, error) = (unary(&world, "client", "run"), unary(&world, "client", "error"));
        assert_eq!(run.call(&mut world, (0,)), Ok(-3_i64 as u64), "undone: {undone}");
        assert_eq!(error.call(&mut world, (0,)), Ok(u64::from(u32::from(Status::Code))));
    }
}

/// A dead server is restarted for a call. Its initialiser calls the client, which works. The call
/// itself leads nowhere, because the entry point went with the server's life. The client has paid
/// for its work all the same.
#[test]
fn a_restart_within_a_call_renews_no_budget() {
    let open = "lea name(%rip),%rdi\nlea work(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret";
    let text = NAMES.to_owned()
        + &function("open", open)
        + &function("work", "mov $7,%eax\nret")
        + &function("die", "ud2")
        + &function("begin", "call spend\nret")
        + ".section .init_array,\"aw\"\n.quad begin\n";
    let server =
        registering(spec("server", &text)).restart(Restart::Always).import("spend", Import::domain("client", "spend"));
    // 5,000 instructions for each restart.
    let spend = paying("spend", 3, "mov $1000,%ecx\n1:\nsub $5,%r14\njb 9f\ndec %rcx\njne 1b\nret");
    let run =
        "mov %rdi,%rbx\n1:\nsub $9,%r14\njb 9f\ncall open\ncall die\nmov $1,%edi\ncall work\ndec %rbx\njne 1b\nret";
    let client = calling(spec("client", &(spend + &paying("run", 3, run))), Trust::MutualDistrust)
        .import("die", Import::domain("server", "die"))
        .instructions(20_000);
    let world = World::builder().domain(client).domain(server).permit("client", "server.work");
    let mut world = world.build().unwrap();
    let run = unary(&world, "client", "run");
    let result = run.call(&mut world, (1,));
    assert!(result.is_ok(), "{result:?}");
    assert!(world.domain("server").unwrap().restarts() > 0, "the server was restarted within the call");
    let left = world.domain("client").unwrap().instructions_left().unwrap();
    assert!(left <= 20_000 - 5_000, "{left} of 20000 are left");
    // A fourth restart is too much.
    let Err(CallError::Fault(fault)) = run.call(&mut world, (100,)) else { panic!("not ended") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::InstructionBudget, "client"));
}

/// A call of a dead server that is not restarted shows its caller no address of the host, whether
/// the caller has a budget or not.
#[test]
fn a_refused_restart_shows_no_register() {
    let body = |register: &str| format!("call die\ncall die\nmov %{register},%rax\nret");
    let registers = ["rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"];
    for pays in [true, false] {
        let text: Vec<String> = registers
            .iter()
            .map(|register| match pays {
                true => paying(register, 9, &body(register)),
                false => function(register, &body(register)),
            })
            .collect();
        let client = spec("client", &text.concat()).import("die", Import::domain("server", "die"));
        let client = if pays { client.instructions(1000) } else { client };
        let server = spec("server", &function("die", "ud2"));
        // The gates ask the host, because this domain could be restarted.
        let other = spec("other", &function("f", "ret")).restart(Restart::Always);
        let mut world = World::builder().domain(client).domain(server).domain(other).build().unwrap();
        for register in registers {
            let peek = unary(&world, "client", register);
            assert_eq!(peek.call(&mut world, (0,)), Ok(0), "{register}, pays: {pays}");
        }
    }
}

/// A function of a library unlinks the library by a tail call, so that no return address leads into
/// it. The binding that led to the function is undone, and the call returns by it.
#[test]
fn a_library_that_unlinks_itself_returns() {
    let open = "mov %rdi,%rsi\nlea name(%rip),%rdi\nlea type(%rip),%rdx\ncall __sfi_register\nret";
    let text = NAMES.to_owned() + &function("open", open);
    let server = registering(spec("server", &text)).import("unlink", Import::host("unlink"));
    let server = server.link_room(sfi_loader::LinkRoom::default());
    // Preserved registers hold the client's values after the call.
    let run = "mov $77,%ebx\nmov $78,%r12d\nmov $1,%edi\ncall work\ncmp $77,%rbx\njne 1f\ncmp $78,%r12\njne 1f\nret\n\
               1:\nmov $-9,%rax\nret";
    let busy = "mov $1,%ebx\nmov $2,%ebp\nmov $3,%r12d\nmov $4,%r13d\nmov $5,%r14d\njmp unlink";
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        for end in ["returns", "fails", "panics"] {
            let library = sfi_loader::Library::new("own").object("own.o", assemble(&function("work", busy)));
            let linked: std::sync::Arc<std::sync::Mutex<Option<sfi_loader::Linked>>> = std::sync::Arc::default();
            let known = std::sync::Arc::clone(&linked);
            let unlink = move |cx: &mut sfi_loader::HostCall<'_>| {
                cx.unlink(known.lock().unwrap().unwrap()).unwrap();
                match end {
                    "returns" => Ok(5),
                    "fails" => Err(sfi_loader::HostError::end_caller(0)),
                    _ => std::panic::resume_unwind(Box::new("planned")),
                }
            };
            let client = spec("client", &function("run", run));
            let client = client.import("work", Import::entry("server.work").trust(trust).on_fault(-1));
            let world = World::builder().domain(client).domain(server.clone()).permit("client", "server.work");
            let mut world = world.host_fn("unlink", unlink).build().unwrap();
            let own = world.link("server", &library).unwrap();
            *linked.lock().unwrap() = Some(own);
            let pointer = own.symbol(&mut world, "work").unwrap();
            assert_eq!(unary(&world, "server", "open").call(&mut world, (pointer.0,)), Ok(0));
            let run = unary(&world, "client", "run");
            if end == "panics" {
                let call = std::panic::AssertUnwindSafe(|| run.call(&mut world, (0,)));
                assert!(std::panic::catch_unwind(call).is_err());
                world.restart("client").unwrap();
                world.restart("server").unwrap();
            } else {
                // A trusted server may leave its own values in preserved registers when it returns.
                let result = run.call(&mut world, (0,)).map(|value| value as i64);
                let expected = match (end, trust) {
                    ("fails", _) => -1,
                    (_, Trust::MutualDistrust) => 5,
                    _ => -9,
                };
                assert_eq!(result, Ok(expected), "{trust}, {end}");
            }
            let run = unary(&world, "client", "run");
            assert_eq!(run.call(&mut world, (0,)), Ok(-1_i64 as u64), "{trust}, {end}: the entry point is gone");
        }
    }
}
