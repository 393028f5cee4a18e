//! Registers that functions save on the control stack (rule `SFI-C03`), used well and in every bad
//! way: no saved word is ever taken for a return address.

mod common;
use common::{assemble, function, kind};
use sfi_loader::{
    Backtrace, BuildError, CallError, CallPath, DomainSpec, FaultKind, Import, Library, LibraryError, LinkRoom, Linked,
    Manage, TypedFn, World,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Call = TypedFn<fn(u64, u64) -> u64>;
type Put = TypedFn<fn(u64, u64, u64) -> u64>;

/// `down(n)` calls itself n times. It saves two registers if n is odd and none otherwise, and adds
/// 1 to the result. At the end it goes on through `jmp *%gs:leaf` with rdi and rsi from `words`.
/// All registers that it saves hold an address after a call.
fn walker() -> String {
    let mut text = ".data\n.globl words\nwords: .quad 0,0\n.globl leaf\nleaf: .quad 0\n".to_owned();
    text += &function(
        "down",
        "test %rdi,%rdi\nje 3f\ntest $1,%edi\nje 2f\n\
         push %rbx\npush %r12\nmov %rdi,%r12\nxor %edi,%edi\ncall __sfi_return\nmov %rax,%rbx\n\
         lea -1(%r12),%rdi\nmov %rbx,%r12\ncall down\nadd $1,%rax\npop %r12\npop %rbx\nret\n\
         2: dec %rdi\ncall down\nadd $1,%rax\nret\n\
         3: mov words(%rip),%rdi\nmov words+8(%rip),%rsi\nmov leaf(%rip),%r11\nand $0xffff8,%r11d\n\
         jmp *%gs:__sfi_dispatch(%r11d)",
    );
    // run(n): down(n), and 1 << 20 if it changed a register that it must preserve.
    text += &function(
        "run",
        "push %rbx\npush %rbp\npush %r12\nmov $0x1111,%ebx\nmov $0x2222,%r12d\nmov $0x3333,%ebp\ncall down\n\
         cmp $0x1111,%rbx\njne 1f\ncmp $0x2222,%r12\njne 1f\ncmp $0x3333,%rbp\njne 1f\n2: pop %r12\npop %rbp\npop %rbx\nret\n\
         1: add $1<<20,%rax\njmp 2b",
    );
    // put(first, second, leaf)
    text += &function(
        "put",
        "lea words(%rip),%rcx\nmov %rdi,%gs:(%ecx)\nmov %rsi,%gs:8(%ecx)\nlea leaf(%rip),%rcx\nmov %rdx,%gs:(%ecx)\nret",
    );
    text += &function("target", "mov $1000,%eax\nret");
    text += &function("slot_of_target", "lea target(%rip),%rax\nret");
    for stub in ["__sfi_depth", "__sfi_return", "__sfi_cut", "__sfi_keep", "__sfi_bring"] {
        text += &function(&format!("slot_of{stub}"), &format!("lea {stub}(%rip),%rax\nret"));
    }
    text
}

/// The words of `run(n)` at the leaf, from the outermost: true for return addresses.
fn words(n: u64) -> Vec<bool> {
    // Those that `run` saves, and its call of `down`.
    let mut all = vec![false, false, false, true];
    (1..=n).rev().for_each(|n| all.extend_from_slice(if n % 2 == 1 { &[false, false, true] } else { &[true] }));
    all
}

fn spec(name: &str) -> DomainSpec {
    DomainSpec::new(name).object("text.o", assemble(&walker())).fibers(2)
}

fn world(spec: DomainSpec) -> World {
    World::builder().domain(spec).time_limit(Duration::from_secs(20)).build().unwrap()
}

fn call(world: &mut World, name: &str, a: u64, b: u64) -> Result<u64, CallError> {
    let f: Call = world.domain("a").unwrap().export(name).unwrap();
    let result = f.call(world, (a, b));
    if result.is_err() {
        world.restart("a").unwrap();
    }
    result
}

/// Leaves `run(n)` through a stub with two arguments.
fn leave(world: &mut World, stub: &str, n: u64, first: u64, second: u64) -> Result<u64, CallError> {
    let slot = call(world, &format!("slot_of{stub}"), 0, 0).unwrap();
    let put: Put = world.domain("a").unwrap().export("put").unwrap();
    put.call(world, (first, second, slot)).unwrap();
    call(world, "run", n, 0)
}

/// Cuts to every depth from stacks of several shapes.
fn cut_everywhere(world: &mut World) {
    let target = call(world, "slot_of_target", 0, 0).unwrap();
    for n in [0, 1, 2, 3, 4, 9, 40] {
        let words = words(n);
        assert_eq!(leave(world, "__sfi_depth", n, 0, 0), Ok(words.len() as u64 + n), "{n}");
        for depth in 0..=words.len() {
            let result = leave(world, "__sfi_cut", n, depth as u64, target);
            // `target` returns to the innermost word that is left, or to the host. Each frame there
            // adds one.
            match depth.checked_sub(1).map(|last| words[last]) {
                None => assert_eq!(result, Ok(1000)),
                Some(false) => assert_eq!(kind(result), FaultKind::DeadFrame, "{depth} of {n}"),
                Some(true) => {
                    let frames = words[4..depth.max(4)].iter().filter(|is_return| **is_return).count() as u64;
                    // The outermost frame that saved registers puts them back. Without one they
                    // stay as the frames that are gone left them.
                    let lost = n > 0 && !words[4..depth].contains(&false);
                    assert_eq!(result, Ok(1000 + frames + (u64::from(lost) << 20)), "{depth} of {n}");
                }
            }
        }
        for wrong in [words.len() as u64 + 1, words.len() as u64 + 2, 1 << 32, 1 << 61, 1 << 63, u64::MAX] {
            assert_eq!(kind(leave(world, "__sfi_cut", n, wrong, target)), FaultKind::DeadFrame, "{wrong} of {n}");
        }
    }
}

#[test]
fn only_return_addresses_can_be_cut_to() {
    cut_everywhere(&mut world(spec("a")));
}

#[test]
fn saved_registers_come_back_from_calls_of_the_host_and_of_domains() {
    let mut world = World::builder()
        .domain(spec("a"))
        .domain(
            DomainSpec::new("b")
                .object(
                    "b.o",
                    assemble(&function(
                        "go",
                        "push %rbx\npush %rdi\npush %r15\nmov $5,%ebx\ncall run\nadd %rbx,%rax\npop %r15\npop %rdi\npop %rbx\n\
                         push %rdi\ncall run\npop %rdi\nadd %rdi,%rax\nret",
                    )),
                )
                .import("run", Import::domain("a", "run").signature("(int) -> int")),
        )
        .build()
        .unwrap();
    for n in [0, 1, 2, 7, 1000] {
        assert_eq!(leave(&mut world, "_target", n, 0, 0), Ok(1000 + n));
        let go: TypedFn<fn(u64) -> u64> = world.domain("b").unwrap().export("go").unwrap();
        assert_eq!(go.call(&mut world, (n,)), Ok(1000 + n + n));
    }
}

#[test]
fn instances_and_later_lives_have_the_same_depths() {
    let mut world = world(spec("a"));
    let target = call(&mut world, "slot_of_target", 0, 0).unwrap();
    assert_eq!(kind(leave(&mut world, "__sfi_cut", 3, 5, target)), FaultKind::DeadFrame);
    cut_everywhere(&mut world);
    for _ in 0..2 {
        let instance = world.instantiate("a").unwrap();
        let get = |world: &World, name: &str| -> Call { world.instance(instance).unwrap().export(name).unwrap() };
        let [cut, target] = ["slot_of__sfi_cut", "slot_of_target"].map(|name| {
            let f = get(&world, name);
            f.call(&mut world, (0, 0)).unwrap()
        });
        let run = get(&world, "run");
        let put: Put = world.instance(instance).unwrap().export("put").unwrap();
        let mut go = |depth: u64| {
            put.call(&mut world, (depth, target, cut)).unwrap();
            run.call(&mut world, (3, 0))
        };
        assert_eq!(go(7).unwrap() & 0xf_ffff, 1001);
        assert_eq!(kind(go(6)), FaultKind::DeadFrame);
        world.reset(instance).unwrap();
        world.discard(instance).unwrap();
    }
    // Other text at the same place of the world.
    let other =
        function("down", "push %rbx\ncall 1f\npop %rbx\nret\n1: mov $2,%edi\nlea target(%rip),%rsi\njmp __sfi_cut")
            + &function("target", "mov $7,%eax\nret");
    world.reload(DomainSpec::new("a").object("other.o", assemble(&other))).unwrap();
    assert_eq!(call(&mut world, "down", 0, 0), Ok(7));
    world.reload(spec("a")).unwrap();
    cut_everywhere(&mut world);
}

#[test]
fn a_push_at_the_control_stacks_end_is_a_fault_of_the_control_stack() {
    let text = function(
        "deep",
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\ncall deep\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret",
    ) + &function("deeper", "push %rbx\ncall deeper\npop %rbx\nret")
        + &function("good", "push %rdi\npop %rax\nret");
    // All distances of the end.
    let text = text
        + &function("one", "push %rdi\ncall deep\npop %rdi\nret")
        + &function("two", "push %rdi\npush %rdi\ncall deep\npop %rdi\npop %rdi\nret");
    let mut world = world(DomainSpec::new("a").object("a.o", assemble(&text)));
    for name in ["deep", "deeper", "one", "two"] {
        let Err(CallError::Fault(fault)) = call(&mut world, name, 0, 0) else { panic!() };
        assert_eq!(fault.kind, FaultKind::ControlStackOverflow, "{name}");
        let frames = fault.backtrace().frames;
        assert!(
            frames.iter().all(|frame| frame.function.as_deref().is_some_and(|f| f.starts_with("dee"))),
            "{frames:?}"
        );
        assert_eq!(call(&mut world, "good", 8, 0), Ok(8));
    }
}

#[test]
fn a_part_is_kept_only_where_nothing_is_saved() {
    let text = walker()
        + &function("landing", "mov $5000,%eax\nret")
        + &function("again", "lea landing(%rip),%rsi\njmp __sfi_bring")
        + &function("good", "push %rbx\nmov $9,%ebx\ncall 1f\nadd %rbx,%rax\npop %rbx\nret\n1: call __sfi_keep\nmov $1000,%eax\nret")
        + &function("bad", "push %rbx\ncall __sfi_keep\npop %rbx\nret")
        + &function("worse", "push %rbx\npush %rbp\ncall 1f\npop %rbp\npop %rbx\nret\n1: push %rbx\ncall __sfi_keep\npop %rbx\nret")
        // The return address is that of a call with a saved register.
        + &function("tail", "push %rbx\ncall 1f\npop %rbx\nret\n1: jmp __sfi_keep");
    let mut world = world(DomainSpec::new("a").object("text.o", assemble(&text)).fibers(2));
    assert_eq!(call(&mut world, "good", 1, 0), Ok(1009));
    // The register is that of the time of the call. It was not kept, so it is what it is now.
    assert!(call(&mut world, "again", 1, 0).unwrap() >= 5000);
    for bad in ["bad", "worse", "tail"] {
        assert_eq!(kind(call(&mut world, bad, 0, 0)), FaultKind::Fiber, "{bad}");
    }
    // Deeper parts come back whole.
    for n in [0, 1, 2, 3, 40] {
        assert_eq!(kind(leave(&mut world, "__sfi_keep", n, 1, 0)), FaultKind::Fiber, "a call of `run` or `down`");
    }
}

/// Tells the host's error of a world that must not be built.
fn refusal(what: &str, spec: DomainSpec) -> String {
    match World::builder().domain(spec).host_fn("host", |_| Ok(0)).build() {
        Err(error @ BuildError::Link(_)) => error.to_string(),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: it was built"),
    }
}

#[test]
fn no_way_into_the_text_leads_where_registers_are_saved() {
    let inside = "push %rbx\n.globl way\n.type way,@function\nway: pop %rbx\nret";
    let local = inside.replace(".globl way\n", "");
    // By a name, by a slot, as initialiser, as finaliser, as resolver.
    let pointer = |section: &str| format!(".section {section},\"aw\"\n.quad way\n");
    for (what, text) in [
        ("name", function("f", inside)),
        ("slot", function("f", &local) + &function("g", "lea way(%rip),%rax\nret")),
        ("data", function("f", &local) + &pointer(".data")),
        ("initialiser", function("f", &local) + &pointer(".init_array")),
        ("finaliser", function("f", &local) + &pointer(".fini_array")),
        (
            "resolver",
            function("f", &inside.replace("@function", "@gnu_indirect_function")) + &function("g", "call way\nret"),
        ),
        ("return", function("f", "push %rbx\nret")),
        ("stub", function("f", "push %rbx\njmp __sfi_depth")),
        ("import", function("f", "push %rbx\njmp host")),
        (
            "other section",
            function("f", "push %rbx\njmp g")
                + ".section .text.g,\"ax\"\n"
                + &function("g", "ret").replace(".text\n", ""),
        ),
    ] {
        let text = text.replace("\n\n", "\n");
        let error =
            refusal(what, DomainSpec::new("a").object("a.o", assemble(&text)).import("host", Import::host("host")));
        assert!(error.contains("SFI-C03"), "{what}: {error}");
        let spec = DomainSpec::new("a").object("a.o", assemble(&function("f", "ret"))).link_room(LinkRoom::default());
        let mut world = World::builder().domain(spec).build().unwrap();
        let library = Library::new("l").object("l.o", assemble(&text.replace("jmp host", "jmp f")));
        match world.link("a", &library) {
            Err(LibraryError::Link(error)) if what == "resolver" => drop(error),
            Err(LibraryError::Link(error)) => assert!(error.to_string().contains("SFI-C03"), "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// `call_back` saves a register, and the function below cuts to `depth`.
fn walking() -> String {
    function("call_back", "push %rbp\ncall leap\npop %rbp\nadd $10,%rax\nret")
        + &function("leap", "mov depth(%rip),%rdi\nlea landed(%rip),%rsi\njmp __sfi_cut")
        + &function("landed", "mov $100,%eax\nret")
        + &function("set", "lea depth(%rip),%rcx\nmov %rdi,%gs:(%ecx)\nret")
        + ".data\ndepth: .quad 0\n"
}

/// A library that saves registers and calls back.
fn saving() -> Library {
    let text =
        function("saves", "push %rbx\npush %rbx\nmov $1,%ebx\ncall call_back\nadd %rbx,%rax\npop %rbx\npop %rbx\nret");
    Library::new("saves").object("s.o", assemble(&text))
}

/// Cuts to depths below `saves`, with these results.
fn cut_over_a_library(world: &mut World, set: &Call, saver: Linked, good: [(u64, u64); 3]) {
    let saves: TypedFn<fn() -> u64> = saver.export(world, "saves").unwrap();
    for (depth, lands) in good {
        set.call(world, (depth, 0)).unwrap();
        assert_eq!(saves.call(world, ()), Ok(lands), "{depth}");
    }
}

#[test]
fn stubs_walk_over_libraries_that_save() {
    let room = |text: &str| {
        let spec = DomainSpec::new("a").object("a.o", assemble(text)).link_room(LinkRoom::default());
        World::builder().domain(spec).build().unwrap()
    };
    // Texts of the domain that save, and do not.
    let plain = function("one", "mov $1,%eax\nret");
    let other = function("two", "push %rbx\npush %rbp\nmov $2,%eax\npop %rbp\npop %rbx\nret");
    // Two registers and the call of the library, one and the call of `call_back`.
    let good = [(0, 100), (3, 101), (5, 111)];
    for (text, good, bad) in [
        (walking(), good, [1, 2, 4, 6]),
        (walking().replace("push %rbp\n", "").replace("pop %rbp\n", ""), [(0, 100), (3, 101), (4, 111)], [1, 2, 5, 6]),
    ] {
        let mut world = room(&text);
        for (round, bad) in bad.into_iter().enumerate() {
            let more = world.link("a", &Library::new("more").object("m.o", assemble(&other))).unwrap();
            let saver = world.link("a", &saving()).unwrap();
            if round % 2 == 1 {
                world.unlink(more).unwrap();
            }
            let set: Call = world.domain("a").unwrap().export("set").unwrap();
            cut_over_a_library(&mut world, &set, saver, good);
            set.call(&mut world, (bad, 0)).unwrap();
            let saves: TypedFn<fn() -> u64> = saver.export(&mut world, "saves").unwrap();
            assert_eq!(kind(saves.call(&mut world, ())), FaultKind::DeadFrame, "{bad}");
            // The library goes, and the domain's own depths stay.
            world.restart("a").unwrap();
        }
    }
    // The stubs are named by a library only, which comes after others that save.
    for text in [plain, other.clone()] {
        for bad in [1, 2, 4, 6] {
            let mut world = room(&text);
            let before = Library::new("before").object("m.o", assemble(&other.replace("two", "before")));
            let before = world.link("a", &before).unwrap();
            let walks = world.link("a", &Library::new("walks").object("w.o", assemble(&walking()))).unwrap();
            let saver = world.link("a", &saving()).unwrap();
            let set: Call = walks.export(&mut world, "set").unwrap();
            cut_over_a_library(&mut world, &set, saver, good);
            world.unlink(before).unwrap();
            cut_over_a_library(&mut world, &set, saver, good);
            world.unlink(saver).unwrap();
            let saver = world.link("a", &saving()).unwrap();
            cut_over_a_library(&mut world, &set, saver, good);
            set.call(&mut world, (bad, 0)).unwrap();
            let saves: TypedFn<fn() -> u64> = saver.export(&mut world, "saves").unwrap();
            let Err(CallError::Fault(fault)) = saves.call(&mut world, ()) else { panic!() };
            assert_eq!(fault.kind, FaultKind::DeadFrame, "{bad}");
            let names: Vec<_> = fault.backtrace().frames.into_iter().map(|frame| frame.function).collect();
            // The walk passed what it dropped.
            assert!(names.ends_with(&[None]) && names.len() <= 4, "{names:?}");
            world.restart("a").unwrap();
            assert!(world.link("a", &saving()).is_err(), "what it calls is gone");
        }
    }
}

/// Saved registers hold addresses after calls.
#[test]
fn backtraces_show_callers_and_no_saved_register() {
    let spoof = "xor %edi,%edi\ncall __sfi_return\nmov %rax,%rbx\nmov %rax,%rbp";
    let text = function("victim", "push %rbx\npush %rbp\ncall inner\npop %rbp\npop %rbx\nret")
        + &function("inner", "push %rbx\nmov (%rdx),%rax\npush %rbp\nint3")
        + &function("traps", "push %rbx\ntest %rdi,%rdi\nje 1f\npush %rbx\ncall out\npop %rbx\npop %rbx\nret\n1: int3")
        + &function("out", "push %rbx\ncall host\npop %rbx\nret")
        + &function("forever", "push %rbx\n1: push %rbp\npop %rbp\njmp 1b")
        + &function("innocent", &format!("{spoof}\nret"))
        + &function("liar", &format!("{spoof}\npush %rbx\ncall victim\npop %rbx\nret"))
        + &function("start", "call liar\nret")
        + &function("trapper", &format!("mov %rdi,%r12\n{spoof}\nmov %r12,%rdi\ncall traps\nret"))
        + &function("spinner", &format!("{spoof}\npush %rbp\ncall forever\npop %rbp\nret"));
    let spec = DomainSpec::new("a").object("a.o", assemble(&text)).import("host", Import::host("host"));
    let path: Arc<Mutex<Option<CallPath>>> = Arc::default();
    let noted = Arc::clone(&path);
    let mut world = World::builder()
        .domain(spec)
        .time_limit(Duration::from_millis(200))
        .host_fn("host", move |cx| {
            *noted.lock().unwrap() = Some(cx.path());
            Ok(0)
        })
        .build()
        .unwrap();
    let names = |trace: Backtrace| -> Vec<String> {
        trace.frames.into_iter().map(|frame| frame.function.unwrap_or_else(|| "host".into())).collect()
    };
    call(&mut world, "trapper", 1, 0).unwrap();
    let path = path.lock().unwrap().take().unwrap();
    assert_eq!(names(world.namer().backtrace(&path)), ["out", "traps", "trapper", "host"]);
    let mut fails = |name: &str, argument: u64| match call(&mut world, name, argument, 0) {
        Err(CallError::Fault(fault)) => (names(fault.backtrace()), fault.kind),
        other => panic!("{other:?}"),
    };
    assert_eq!(fails("start", 0).0, ["inner", "victim", "liar", "start", "host"]);
    assert_eq!(fails("trapper", 0), (["traps", "trapper", "host"].map(String::from).into(), FaultKind::Breakpoint));
    let (spins, kind) = fails("spinner", 0);
    assert_eq!((kind, &spins[..]), (FaultKind::TimeLimit, &["forever", "spinner", "host"].map(String::from)[..]));
}

/// A domain that handles its faults, or is interrupted if it calls `host` with another number than
/// 0.
fn handling(text: &str) -> World {
    let import = Import::host("host").signature("(int) -> int");
    let spec = DomainSpec::new("a").object("a.o", assemble(text)).import("host", import);
    let host = |cx: &mut sfi_loader::HostCall<'_>| {
        if cx.arg(0) == 0 {
            return Ok(cx.catch_faults(1 << libc::SIGSEGV | 1 << libc::SIGTRAP, "handler").into());
        }
        let allowed = cx.allow_interruptions("entry");
        cx.want_interruption(allowed);
        Ok(allowed.into())
    };
    World::builder().domain(spec).time_limit(Duration::from_secs(20)).host_fn("host", host).build().unwrap()
}

/// Handlers of faults cut to each word of the stack that they interrupt.
#[test]
fn handlers_of_faults_reach_return_addresses_only() {
    let text = function("arm", "xor %edi,%edi\ncall host\nret")
        + &function(
            "go",
            "push %rbx\npush %r12\nmov %rdi,%r12\nlea depth(%rip),%rcx\nmov %rsi,%gs:(%ecx)\nlea back(%rip),%rcx\n\
                           mov %rdx,%gs:(%ecx)\nmov $0x4141,%ebx\ncall middle\nadd $1,%rax\npop %r12\npop %rbx\nret",
        )
        + &function(
            "middle",
            "push %rbx\npush %rbx\npush %rbx\ntest %r12,%r12\njne 1f\nmov (0),%rax\nud2\n1: dec %r12\nje 2f\n\
             xor %eax,%eax\nmov 8(%rax),%rax\npop %rbx\npop %rbx\npop %rbx\nret\n2: int3",
        )
        + &function("handler", "push %rdi\ncall deeper\npop %rdi\nret")
        + &function(
            "deeper",
            "mov back(%rip),%eax\ntest %eax,%eax\njne 1f\nmov depth(%rip),%rdi\nlea landing(%rip),%rsi\njmp __sfi_cut\n1: ret",
        )
        + &function("landing", "mov $100,%eax\nret")
        + ".data\ndepth: .quad 0\nback: .quad 0\n";
    let mut world = handling(&text);
    // Of `go` two, its call, of `middle` three, the trap, of `handler` one, its call.
    let words = [false, false, true, false, false, false, true, false, true];
    for way in 0..3 {
        let mut go = |depth: u64, back: u64| {
            assert_eq!(call(&mut world, "arm", 0, 0), Ok(1));
            let go: Put = world.domain("a").unwrap().export("go").unwrap();
            let result = go.call(&mut world, (way, depth, back));
            if result.is_err() {
                world.restart("a").unwrap();
            }
            result
        };
        assert_eq!(go(0, 0), Ok(100));
        for depth in 1..=words.len() {
            let result = go(depth as u64, 0);
            match (words[depth - 1], depth) {
                (false, _) => assert_eq!(kind(result), FaultKind::DeadFrame, "{depth}"),
                (true, 3) => assert_eq!(result, Ok(101)),
                // Returns to the trap.
                (true, _) => {
                    let Err(CallError::Fault(fault)) = result else { panic!() };
                    let names = fault.backtrace().frames.into_iter().map(|frame| frame.function.unwrap_or_default());
                    assert_eq!(
                        (&fault.kind, names.collect::<Vec<_>>()),
                        (&FaultKind::WildBranch, vec!["go".into(), String::new()])
                    );
                }
            }
        }
        assert_eq!(kind(go(9, 1)), FaultKind::WildBranch);
        assert_eq!(kind(go(10, 0)), FaultKind::DeadFrame);
    }
}

/// An old state of an interruption comes back only where as many registers are saved as it had.
#[test]
fn interruptions_go_on_at_their_own_depth() {
    let waits =
        "lea way(%rip),%rcx\nmov %rdi,%gs:(%ecx)\ncall host\n1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b";
    let set = "lea flag(%rip),%rcx\nmovl $5,%gs:(%ecx)\n";
    let trap = "lea after(%rip),%rax\nor $0xff8,%eax\nand $0xffff8,%eax\njmp *%gs:__sfi_dispatch(%eax)";
    let text = function("one", &format!("push %rbx\nlea -64(%r15),%r15\n{waits}\nlea 64(%r15),%r15\npop %rbx\nret"))
        // Its stack pointer is that of `one` in `calls_one`.
        + &function("two", &format!("mov $0x4141,%ebx\npush %rbx\npush %rbx\n{waits}\ncmp $0x4141,%rbx\njne 2f\npop %rbx\npop %rbx\nret\n2: ud2"))
        + &function("calls_one", "call one\nret")
        + &function("leave", "xor %edi,%edi\nlea after(%rip),%rsi\njmp __sfi_cut")
        + &function("after", "mov $77,%eax\nret")
        // Leaves the interruption, or returns with the data stack pointer of `one`.
        + &function("entry", &format!("mov way(%rip),%rax\ncmp $2,%rax\nje leave\n{set}lea -64(%r15),%r15\nret"))
        + &function("clear", "lea flag(%rip),%rcx\nmovl $0,%gs:(%ecx)\nret")
        // Return addresses where `one` in `calls_one` had saved a register.
        + &function("forge", &format!("{set}call 1f\nret\n1: call 2f\nret\n2: {trap}"))
        + ".data\nflag: .quad 0\nway: .quad 0\n";
    let mut world = handling(&text);
    for _ in 0..3 {
        assert_eq!(call(&mut world, "calls_one", 2, 0), Ok(77));
        // The interruption before is still there, and its stack pointers are those of this return.
        assert_eq!(call(&mut world, "two", 1, 0), Ok(5));
        call(&mut world, "clear", 0, 0).unwrap();
        // The one of `one` is still there.
        assert_eq!(call(&mut world, "calls_one", 2, 0), Ok(77));
        assert_eq!(kind(call(&mut world, "forge", 0, 0)), FaultKind::WildBranch);
    }
    assert_eq!(call(&mut world, "calls_one", 1, 0), Ok(5));
}
