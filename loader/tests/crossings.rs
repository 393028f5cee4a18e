//! Calls in every direction.
#![allow(clippy::type_complexity)]

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{CallError, DomainSpec, FaultKind, Import, LookupError, Pointer, TypedFn, World};
use std::sync::{Arc, Mutex};

fn one(text: &str) -> World {
    World::builder().domain(DomainSpec::new("a").object("a.o", assemble(text))).build().unwrap()
}

#[test]
fn integers_cross() {
    let mut world =
        one(&function("sub6", "lea (%rdi,%rsi),%rax\nadd %rdx,%rax\nadd %rcx,%rax\nadd %r8,%rax\nsub %r9,%rax\nret"));
    let f: TypedFn<fn(u64, i32, u8, i64, u64, u64) -> i64> = world.domain("a").unwrap().export("sub6").unwrap();
    assert_eq!(f.call(&mut world, (1, -2, 3, -4, 5, 100)), Ok(1 - 2 + 3 - 4 + 5 - 100));
}

#[test]
fn floats_cross() {
    let mut world = one(&(function("fma", "mulsd %xmm1,%xmm0\naddsd %xmm2,%xmm0\nret")
        + &function("last", "movaps %xmm7,%xmm0\nret")
        + &function("single", "addss %xmm1,%xmm0\nret")));
    let a = world.domain("a").unwrap();
    let fma: TypedFn<fn(f64, f64, f64) -> f64> = a.export("fma").unwrap();
    let last: TypedFn<fn(f64, f64, f64, f64, f64, f64, f64, f64) -> f64> = a.export("last").unwrap();
    let single: TypedFn<fn(f32, f32) -> f32> = a.export("single").unwrap();
    assert_eq!(fma.call(&mut world, (1.5, 4.0, 0.25)), Ok(6.25));
    assert_eq!(last.call(&mut world, (1., 2., 3., 4., 5., 6., 7., 8.)), Ok(8.));
    assert_eq!(single.call(&mut world, (0.5, 0.25)), Ok(0.75));
}

#[test]
fn stack_arguments_cross_from_the_host() {
    let mut world = one(&function(
        "pick",
        "mov %gs:(%r15d),%rax\nimul $10,%rax\nadd %gs:8(%r15d),%rax\nimul $10,%rax\nadd %gs:16(%r15d),%rax\nmov %r15,%rcx\nand $15,%ecx\nadd %rcx,%rax\nret",
    ));
    let pick: TypedFn<fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64> =
        world.domain("a").unwrap().export("pick").unwrap();
    assert_eq!(pick.call(&mut world, (0, 0, 0, 0, 0, 0, 7, 8, 9)), Ok(789));
}

fn two(app: &str, codec: &str, import: Import) -> World {
    World::builder()
        .domain(DomainSpec::new("app").object("app.o", assemble(app)).import("work", import))
        .domain(DomainSpec::new("codec").object("codec.o", assemble(codec)))
        .build()
        .unwrap()
}

#[test]
fn domains_call_each_other() {
    let mut world = two(
        &function(
            "run",
            "mov $77,%ebx\nmov $78,%r12d\ncall work\nsub $77,%ebx\nadd %rbx,%rax\nsub $78,%r12\nadd %r12,%rax\nret",
        ),
        &function("work", "mov $1,%ebx\nmov $2,%r12d\nmov $3,%ebp\nmov $4,%r15d\nlea (%rdi,%rsi,2),%rax\nret"),
        Import::domain("codec", "work").signature("(int, int) -> int"),
    );
    let run: TypedFn<fn(u64, u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
    for i in 0..1000 {
        assert_eq!(run.call(&mut world, (i, 5)), Ok(i + 10));
    }
}

#[test]
fn float_and_stack_arguments_cross_between_domains() {
    let signature = "(int, int, int, int, int, int, int, int, int, float, float) -> float";
    let mut world = two(
        &function(
            "run",
            "lea -32(%r15),%r15\nmovq $7,%gs:(%r15d)\nmovq $8,%gs:8(%r15d)\nmovq $9,%gs:16(%r15d)\ncall work\nlea 32(%r15),%r15\nret",
        ),
        &function(
            "work",
            "mov %gs:(%r15d),%rax\nimul $10,%rax\nadd %gs:8(%r15d),%rax\nimul $10,%rax\nadd %gs:16(%r15d),%rax\ncvtsi2sd %rax,%xmm2\naddsd %xmm2,%xmm0\nmulsd %xmm1,%xmm0\nret",
        ),
        Import::domain("codec", "work").signature(signature),
    );
    let run: TypedFn<fn(f64, f64) -> f64> = world.domain("app").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, (0.5, 2.0)), Ok(1579.0));
}

#[test]
fn host_functions_take_and_give() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let app = function("run", "call log6\nret")
        + &function("stacked", "lea -16(%r15),%r15\nmovq $42,%gs:8(%r15d)\ncall eighth\nlea 16(%r15),%r15\nret")
        + &function("floats", "call scale\nret")
        + &function(
            "preserved",
            "mov $5,%ebx\nmov $6,%ebp\nmov $7,%r12d\nmov $8,%r13d\nmov $9,%r14d\nmov %r15,%rax\nlea -64(%r15),%r15\nmov %rax,%gs:(%r15d)\ncall log6\nmov %gs:(%r15d),%rcx\nlea 64(%r15),%r15\nxor %eax,%eax\ncmp %rcx,%r15\nsetne %al\nadd %rbx,%rax\nadd %rbp,%rax\nadd %r12,%rax\nadd %r13,%rax\nadd %r14,%rax\nret",
        )
        + ".data\n.globl text\ntext: .asciz \"hello\"\n"
        + &function("greet", "lea text(%rip),%rdi\nmov $5,%esi\ncall put\nret");
    let mut world = World::builder()
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .import("log6", Import::host("log6"))
                .import("eighth", Import::host("eighth"))
                .import("scale", Import::host("scale").signature("(float, float) -> float"))
                .import("put", Import::host("put")),
        )
        .host_fn("log6", move |cx| {
            assert_eq!(cx.caller(), "app");
            log.lock().unwrap().push((0..6).map(|i| cx.arg(i)).collect::<Vec<_>>());
            Ok(cx.arg(0) + 1)
        })
        .host_fn("eighth", |cx| Ok(cx.arg(7)))
        .host_fn("scale", |cx| {
            let value = cx.arg_f64(0) * cx.arg_f64(1);
            cx.set_result_f64(value);
            Ok(0)
        })
        .host_fn("put", |cx| {
            assert_eq!(cx.read(cx.arg(0), cx.arg(1) as usize)?, b"hello");
            assert_eq!(cx.memory().read_c_string(cx.arg(0), 100)?, b"hello");
            cx.write(cx.arg(0), b"HELLO")?;
            Ok(3)
        })
        .build()
        .unwrap();
    let app = world.domain("app").unwrap();
    let run: TypedFn<fn(u64, u64, u64, u64, u64, u64) -> u64> = app.export("run").unwrap();
    let stacked: TypedFn<fn() -> u64> = app.export("stacked").unwrap();
    let floats: TypedFn<fn(f64, f64) -> f64> = app.export("floats").unwrap();
    let preserved: TypedFn<fn() -> u64> = app.export("preserved").unwrap();
    let greet: TypedFn<fn() -> u64> = app.export("greet").unwrap();
    let text = app.symbol("text").unwrap();
    assert_eq!(run.call(&mut world, (1, 2, 3, 4, 5, 6)), Ok(2));
    assert_eq!(*seen.lock().unwrap(), [[1, 2, 3, 4, 5, 6]]);
    assert_eq!(stacked.call(&mut world, ()), Ok(42));
    assert_eq!(floats.call(&mut world, (1.5, 3.0)), Ok(4.5));
    assert_eq!(preserved.call(&mut world, ()), Ok(35));
    assert_eq!(greet.call(&mut world, ()), Ok(3));
    assert_eq!(world.memory("app").unwrap().read(text.0, 5).unwrap(), b"HELLO");
}

#[test]
fn callbacks_and_nested_calls() {
    // run(): apply calls back `double_it`, which the domain passes as a function pointer.
    let app = function("run", "lea double_it(%rip),%rdi\nmov $21,%esi\ncall apply\nret")
        + &function("double_it", "lea (%rdi,%rdi),%rax\nret")
        + &function("by_pointer", &format!("lea double_it(%rip),%rax\n{CALL_RAX}ret"));
    let mut world = World::builder()
        .domain(DomainSpec::new("app").object("app.o", assemble(&app)).import("apply", Import::host("apply")))
        .host_fn("apply", |cx| {
            let (pointer, n) = (cx.arg(0), cx.arg(1));
            assert!(cx.function::<fn()>(0).is_err());
            assert!(cx.function::<fn()>(pointer + 8 * 100).is_err());
            let f = cx.function::<fn(u64) -> u64>(pointer)?;
            Ok(f.call(cx, (n,))? + f.call(cx, (1,))?)
        })
        .build()
        .unwrap();
    let app = world.domain("app").unwrap();
    let run: TypedFn<fn() -> u64> = app.export("run").unwrap();
    let by_pointer: TypedFn<fn(u64) -> u64> = app.export("by_pointer").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(44));
    assert_eq!(by_pointer.call(&mut world, (4,)), Ok(8));
}

/// A calls B, which calls A again, and so on. Every activation finds its own frame.
#[test]
fn mutual_recursion_keeps_every_frame() {
    let body = |next: &str| {
        format!(
            "test %rdi,%rdi\nje 1f\nlea -48(%r15),%r15\nmov %rdi,%gs:(%r15d)\nmov %rbx,%gs:8(%r15d)\nmov %rdi,%rbx\ndec %rdi\ncall {next}\ncmp %rbx,%gs:(%r15d)\njne 2f\nadd %rbx,%rax\nmov %gs:8(%r15d),%rbx\nlea 48(%r15),%r15\nret\n1: xor %eax,%eax\nret\n2: ud2"
        )
    };
    let mut world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&function("ping", &body("pong"))))
                .import("pong", Import::domain("b", "pong").signature("(int) -> int")),
        )
        .domain(
            DomainSpec::new("b")
                .object("b.o", assemble(&function("pong", &body("ping"))))
                .import("ping", Import::domain("a", "ping").signature("(int) -> int")),
        )
        .build()
        .unwrap();
    let ping: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export("ping").unwrap();
    assert_eq!(ping.call(&mut world, (1000,)), Ok(500_500));
    // The calls nest too deeply for the control stack. The innermost domain dies, and the other one
    // gets an error in each of its frames.
    let result = ping.call(&mut world, (1 << 40,));
    let faults = ["a", "b"].map(|name| world.domain(name).unwrap().last_fault().map(|f| f.kind));
    match faults {
        [Some(FaultKind::ControlStackOverflow), None] => assert!(matches!(result, Err(CallError::Fault(_)))),
        [None, Some(FaultKind::ControlStackOverflow)] => assert!(result.is_ok()),
        other => panic!("{other:?}"),
    }
    world.restart("a").unwrap();
    world.restart("b").unwrap();
    assert_eq!(ping.call(&mut world, (10,)), Ok(55));
}

/// A domain whose r15 is garbage when it calls out cannot be entered again until that call returns.
/// Nothing is corrupted.
#[test]
fn nested_entry_with_a_wild_stack_pointer_is_refused() {
    let app = function("run", "mov %r15,%r12\nmov $0x1234567890,%r15\ncall back\nmov %r12,%r15\nret")
        + &function("inner", "ret");
    let mut world = World::builder()
        .domain(DomainSpec::new("app").object("app.o", assemble(&app)).import("back", Import::host("back")))
        .host_fn("back", |cx| {
            let inner: TypedFn<fn()> = cx.function(0x100008).or(cx.function(0x100008))?;
            assert!(matches!(inner.call(cx, ()), Err(CallError::Busy { .. })));
            Ok(9)
        })
        .build();
    // `inner` has no slot unless its address is taken.
    let world_error = world.as_mut().map(|w| {
        let run: TypedFn<fn() -> u64> = w.domain("app").unwrap().export("run").unwrap();
        run.call(w, ())
    });
    assert_eq!(world_error.unwrap(), Ok(u64::MAX));
    let app = app.replace("call back", "lea inner(%rip),%rdi\ncall back");
    let mut world = World::builder()
        .domain(DomainSpec::new("app").object("app.o", assemble(&app)).import("back", Import::host("back")))
        .host_fn("back", |cx| {
            let inner: TypedFn<fn()> = cx.function(cx.arg(0))?;
            assert!(matches!(inner.call(cx, ()), Err(CallError::Busy { .. })));
            Ok(9)
        })
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(9));
    assert_eq!(run.call(&mut world, ()), Ok(9));
}

#[test]
fn pointers_are_rebased_to_the_callee() {
    let app =
        function("run", "lea buf(%rip),%rdi\ncall work\nret") + &function("null", "xor %edi,%edi\ncall work\nret");
    let codec = function("work", "test %rdi,%rdi\nje 1f\nmovl $0x5555,%gs:(%edi)\n1: mov %rdi,%rax\nret");
    let mut world = World::builder()
        .region("buffer", 10_000)
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .shared("buf", "buffer", sfi_loader::Access::ReadWrite)
                .import("work", Import::domain("codec", "work").signature("(ptr) -> ptr")),
        )
        .domain(DomainSpec::new("codec").object("codec.o", assemble(&codec)).shared(
            "its_buf",
            "buffer",
            sfi_loader::Access::ReadWrite,
        ))
        .build()
        .unwrap();
    let app = world.domain("app").unwrap();
    let run: TypedFn<fn() -> Pointer> = app.export("run").unwrap();
    let null: TypedFn<fn() -> Pointer> = app.export("null").unwrap();
    let buf = app.symbol("buf").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(buf));
    assert_eq!(null.call(&mut world, ()), Ok(Pointer(0)));
    let mut word = [0; 2];
    world.region("buffer").unwrap().read(0, &mut word).unwrap();
    assert_eq!(word, [0x55, 0x55]);
    assert_eq!(world.memory("codec").unwrap().read(buf.0, 2).unwrap(), [0x55, 0x55]);
    world.region("buffer").unwrap().write(3 * 4096 - 1, &[9]).unwrap();
    assert!(world.region("buffer").unwrap().write(3 * 4096 - 1, &[9, 9]).is_err());
}

#[test]
fn a_host_functions_panic_reaches_the_host_caller() {
    let app = function("run", "call work\nret");
    let mut world = World::builder()
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .import("work", Import::domain("codec", "work").signature("() -> int")),
        )
        .domain(
            DomainSpec::new("codec")
                .object("codec.o", assemble(&function("work", "call boom\nret")))
                .import("boom", Import::host("boom")),
        )
        .domain(DomainSpec::new("other").object("o.o", assemble(&function("fine", "mov $1,%eax\nret"))))
        .host_fn("boom", |_| panic!("with a message"))
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
    let fine: TypedFn<fn() -> u64> = world.domain("other").unwrap().export("fine").unwrap();
    for _ in 0..3 {
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.call(&mut world, ()))).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"with a message"));
        assert!(world.domain("app").unwrap().is_dead() && world.domain("codec").unwrap().is_dead());
        assert!(matches!(run.call(&mut world, ()), Err(CallError::Dead { .. })));
        assert_eq!(fine.call(&mut world, ()), Ok(1));
        world.restart("app").unwrap();
        world.restart("codec").unwrap();
    }
}

#[test]
fn a_host_functions_error_sets_the_error_word() {
    let app = function("run", "call fails\nadd __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret");
    let mut world = World::builder()
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .import("fails", Import::host("fails").on_fault(1000)),
        )
        .host_fn("fails", |_| Err(sfi_loader::HostError::new("no")))
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u32> = world.domain("app").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(1000 + sfi_loader::Status::Host as u32));
}

#[test]
fn a_world_moves_between_threads() {
    let mut world = one(&function("id", "mov %rdi,%rax\nret"));
    let id: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export("id").unwrap();
    assert_eq!(id.call(&mut world, (1,)), Ok(1));
    let mut world = std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(id.call(&mut world, (2,)), Ok(2));
            world
        })
        .join()
        .unwrap()
    });
    assert_eq!(id.call(&mut world, (3,)), Ok(3));
    let mut other = one(&function("id", "lea 1(%rdi),%rax\nret"));
    let more: TypedFn<fn(u64) -> u64> = other.domain("a").unwrap().export("id").unwrap();
    for i in 0..100 {
        assert_eq!(id.call(&mut world, (i,)), Ok(i));
        assert_eq!(more.call(&mut other, (i,)), Ok(i + 1));
    }
    assert!(matches!(more.call(&mut world, (1,)), Err(CallError::WrongWorld)));
    assert!(matches!(world.domain("b"), Err(LookupError::Domain(_))));
    assert!(matches!(world.domain("a").unwrap().export::<fn()>("nope"), Err(LookupError::Function { .. })));
}

#[test]
fn syscalls_are_refused_by_the_gateway() {
    let mut world = one(&function("run", "mov $39,%eax\ncall __sfi_syscall\nret"));
    let run: TypedFn<fn() -> i64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(-38));
}

/// The control stack is as deep after a million crossings as after one.
#[test]
fn crossings_leave_no_trace_on_the_control_stack() {
    let text = function("run", "mov $100,%ebx\n1: call tick\ndec %ebx\njne 1b\nlea inner(%rip),%rdi\ncall back\nret")
        + &function("inner", "call tick\nret");
    let ticks = Arc::new(Mutex::new(0u64));
    let count = ticks.clone();
    let mut world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&text))
                .import("tick", Import::host("tick"))
                .import("back", Import::host("back")),
        )
        .host_fn("tick", move |_| {
            *count.lock().unwrap() += 1;
            Ok(0)
        })
        .host_fn("back", |cx| {
            let inner = cx.function::<fn()>(cx.arg(0))?;
            for _ in 0..100 {
                inner.call(cx, ())?;
            }
            Ok(0)
        })
        .build()
        .unwrap();
    let run: TypedFn<fn()> = world.domain("a").unwrap().export("run").unwrap();
    for _ in 0..5000 {
        run.call(&mut world, ()).unwrap();
    }
    assert_eq!(*ticks.lock().unwrap(), 1_000_000);
}

/// Nesting of host functions and domains ends in an error, not in a stack overflow of the host. A
/// host function is not called again while it runs, so a domain needs many of them to nest deeply.
/// It finds them by function pointers.
#[test]
fn nesting_is_bounded() {
    let count = sfi_loader::MAX_DEPTH as usize + 6;
    let names: Vec<String> = (0..count).map(|i| format!("host{i}")).collect();
    let text = function(
        "run",
        &format!(
            "mov next(%rip),%rcx\nincq %gs:next(%eip)\nlea table(%rip),%rdx\nmov (%rdx,%rcx,8),%rax\nlea run(%rip),%rdi\n{CALL_RAX}ret"
        ),
    ) + &format!(".data\nnext: .quad 0\ntable: .quad {}\n", names.join(","));
    let mut builder = World::builder();
    let mut spec = DomainSpec::new("a").object("a.o", assemble(&text));
    for name in &names {
        spec = spec.import(name, Import::host(name));
        builder = builder.host_fn(name, |cx| {
            let run = cx.function::<fn() -> u64>(cx.arg(0))?;
            match run.call(cx, ()) {
                Ok(depth) => Ok(depth + 1),
                Err(CallError::TooDeep) => Ok(1000),
                Err(other) => Err(other.into()),
            }
        });
    }
    let mut world = builder.domain(spec).build().unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(999 + u64::from(sfi_loader::MAX_DEPTH)));
}

/// The gates for kernels without FSGSBASE and for processors without AVX do the same work.
#[test]
fn every_variant_of_the_gates_works() {
    use sfi_loader::Machine;
    for (avx, fsgsbase) in [(true, true), (true, false), (false, true), (false, false)] {
        if (avx && !std::arch::is_x86_feature_detected!("avx")) || (fsgsbase && !Machine::detect().fsgsbase) {
            continue;
        }
        let app = function(
            "run",
            "mov $3,%ebx\ncall work\nadd %rbx,%rax\nmov %rax,%rdi\nmov %gs:__sfi_header,%rcx\nmov __sfi_header(%rip),%rdx\nsub %rdx,%rcx\nadd %rcx,%rdi\ncall tell\nret",
        ) + &function("die", "ud2");
        let codec = function("work", "lea (%rdi,%rdi),%rax\nmov $99,%ebx\ncall tell\nret");
        let mut world = World::builder()
            .machine(Machine { avx, fsgsbase })
            .domain(
                DomainSpec::new("app")
                    .object("app.o", assemble(&app))
                    .import("work", Import::domain("codec", "work").signature("(int) -> int"))
                    .import("tell", Import::host("tell")),
            )
            .domain(DomainSpec::new("codec").object("codec.o", assemble(&codec)).import("tell", Import::host("tell")))
            .host_fn("tell", |cx| Ok(cx.arg(0) + 1))
            .build()
            .unwrap();
        let run: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
        let die: TypedFn<fn()> = world.domain("app").unwrap().export("die").unwrap();
        for i in 0..100 {
            assert_eq!(run.call(&mut world, (i,)), Ok(i + 1 + 3 + 1), "avx {avx}, fsgsbase {fsgsbase}");
        }
        assert!(matches!(die.call(&mut world, ()), Err(CallError::Fault(_))));
    }
}

/// Faults are caught on every thread, also after a world moved.
#[test]
fn faults_on_other_threads() {
    let mut world = one(&(function("die", "ud2") + &function("deep", "call deep\nret")));
    for _ in 0..4 {
        world = std::thread::spawn(move || {
            for name in ["die", "deep"] {
                let f: TypedFn<fn()> = world.domain("a").unwrap().export(name).unwrap();
                assert!(matches!(f.call(&mut world, ()), Err(CallError::Fault(_))));
                world.restart("a").unwrap();
            }
            world
        })
        .join()
        .unwrap();
    }
}

/// A host function sees the arguments that the import's signature names, and nothing else of its
/// caller.
#[test]
fn host_functions_see_only_the_arguments_of_their_signature() {
    let values: String = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]
        .iter()
        .enumerate()
        .map(|(i, r)| format!("mov ${},%{r}\n", i + 1))
        .collect();
    let floats: String = (0..8).map(|i| format!("mov ${},%eax\ncvtsi2sd %eax,%xmm{i}\n", 10 + i)).collect();
    let stack = "lea -32(%r15),%r15\nmovq $7,%gs:(%r15d)\nmovq $8,%gs:8(%r15d)\nmovq $9,%gs:16(%r15d)\n";
    let text = function("run", &format!("{floats}{stack}{values}call host\nlea 32(%r15),%r15\nret"));
    let object = assemble(&text);
    let all = |kind: &'static str, n: usize| vec![kind; n];
    let mut cases: Vec<Vec<&str>> = (0..=8).map(|n| all("int", n)).collect();
    cases.extend((0..=8).map(|n| all("float", n)));
    cases.extend((0..=8).map(|n| [all("int", n), all("float", 8 - n)].concat()));
    cases.push([all("float", 9), all("int", 2)].concat());
    for case in cases.iter().map(Some).chain([None]) {
        let seen = std::sync::Arc::new(std::sync::Mutex::new((Vec::new(), Vec::new())));
        let mine = seen.clone();
        let host = move |cx: &mut sfi_loader::HostCall<'_>| {
            *mine.lock().unwrap() =
                ((0..9).map(|i| cx.arg(i)).collect::<Vec<_>>(), (0..8).map(|i| cx.arg_f64(i)).collect::<Vec<_>>());
            Ok(0)
        };
        let import = Import::host("host");
        let import = match case {
            Some(case) => import.signature(format!("({}) -> int", case.join(", "))),
            None => import,
        };
        let spec = DomainSpec::new("app").object("app.o", object.clone()).import("host", import);
        let mut world = World::builder().domain(spec).host_fn("host", host).build().unwrap();
        let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
        run.call(&mut world, ()).unwrap();
        let count = |kind: &str| case.map_or(usize::MAX, |case| case.iter().filter(|k| **k == kind).count());
        let (ints, floats) = (count("int"), count("float"));
        let stack = if case.is_none() { usize::MAX } else { ints.saturating_sub(6) + floats.saturating_sub(8) };
        let expected: Vec<u64> = (0..9u64)
            .map(|i| if i < 6 { (i as usize) < ints } else { (i as usize - 6) < stack })
            .zip(1u64..)
            .map(|(named, value)| if named { value } else { 0 })
            .collect();
        let expected_floats: Vec<f64> = (0..8).map(|i| if i < floats { 10.0 + i as f64 } else { 0.0 }).collect();
        assert_eq!(*seen.lock().unwrap(), (expected, expected_floats), "{case:?}");
    }
}
