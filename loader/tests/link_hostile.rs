//! Libraries and calls in progress, lives, bounds and other domains: hostile or unlucky uses of
//! linking into a live domain.

mod common;
use common::{CALL_RAX, assemble, function, kind};
use sfi_loader::{
    BuildError, CallError, DomainSpec, Entry, FaultKind, Import, Library, LibraryError, LinkError, LinkRoom, Linked,
    Manage, Mode, Pool, Restart, Template, Trust, TypedFn, World,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Run = TypedFn<fn(u64) -> u64>;

fn spec(text: &str) -> DomainSpec {
    DomainSpec::new("a").object("a.o", assemble(text)).link_room(LinkRoom::default())
}

/// A library of this name.
fn named(name: &str, text: &str) -> Library {
    Library::new(name).object(format!("{name}.o"), assemble(text))
}

fn one(value: u64) -> String {
    function("one", &format!("mov ${value},%eax\nret"))
}

fn own(world: &mut World, name: &str, argument: u64) -> Result<u64, CallError> {
    let function: Run = world.domain("a").unwrap().export(name).unwrap();
    function.call(world, (argument,))
}

fn run(world: &mut World, linked: Linked, name: &str, argument: u64) -> Result<u64, CallError> {
    let function: Run = linked.export(world, name).unwrap();
    function.call(world, (argument,))
}

#[test]
fn a_host_function_links_during_a_call_of_the_domain() {
    let text = function("go", &format!("call host_link\n{CALL_RAX}inc %rax\nret"));
    let spec = spec(&text).import("host_link", Import::host("link"));
    let library = named("one", &one(41)).private();
    let link = move |cx: &mut sfi_loader::HostCall<'_>| {
        let linked = cx.link("a", &library).unwrap();
        Ok(linked.symbol(cx, "one").unwrap().0)
    };
    let mut world = World::builder().domain(spec).host_fn("link", link).build().unwrap();
    assert_eq!(own(&mut world, "go", 0).unwrap(), 42);
    assert_eq!(own(&mut world, "go", 0).unwrap(), 42, "a second link of the same library");
}

#[test]
fn a_library_with_an_active_frame_stays() {
    let text = function("ask", "call host_unlink\nret");
    let spec = spec(&text).import("host_unlink", Import::host("unlink"));
    let handle: Arc<Mutex<Option<Linked>>> = Arc::default();
    let seen = Arc::clone(&handle);
    let unlink = move |cx: &mut sfi_loader::HostCall<'_>| match cx.unlink(seen.lock().unwrap().unwrap()) {
        Ok(()) => Ok(1),
        Err(LibraryError::Active { .. }) => Ok(2),
        Err(error) => panic!("{error}"),
    };
    let mut world = World::builder().domain(spec).host_fn("unlink", unlink).build().unwrap();
    // A frame of its own, a frame below one of the domain, a call as its last instruction, and no
    // frame at all.
    let text = function("direct", "call host_unlink\nadd $10,%rax\nret")
        + &function("below", "call ask\nadd $20,%rax\nret")
        + &function("last", "call host_unlink\n.byte 0xcc\nret")
        + &function("tail", "jmp host_unlink")
        + &function("at_end", "call host_unlink");
    let library = named("asks", &text);
    let linked = world.link("a", &library).unwrap();
    *handle.lock().unwrap() = Some(linked);
    assert_eq!(run(&mut world, linked, "direct", 0).unwrap(), 12);
    assert_eq!(run(&mut world, linked, "below", 0).unwrap(), 22);
    // No instruction of the library runs any more, so it goes.
    assert_eq!(run(&mut world, linked, "tail", 0).unwrap(), 1);
    assert_eq!(world.unlink(linked), Err(LibraryError::Gone));
    // The return address is the byte after the last instruction.
    let linked = world.link("a", &library).unwrap();
    *handle.lock().unwrap() = Some(linked);
    let at_end: Run = linked.export(&mut world, "at_end").unwrap();
    assert!(
        matches!(at_end.call(&mut world, (0,)), Err(CallError::Fault(fault)) if fault.kind == FaultKind::Breakpoint)
    );
}

#[test]
fn a_finaliser_cannot_unlink_its_library() {
    let spec = spec(&function("f", "ret")).import("host_unlink", Import::host("unlink"));
    let handle: Arc<Mutex<Option<Linked>>> = Arc::default();
    let seen = Arc::clone(&handle);
    let results: Arc<Mutex<Vec<LibraryError>>> = Arc::default();
    let errors = Arc::clone(&results);
    let unlink = move |cx: &mut sfi_loader::HostCall<'_>| {
        errors.lock().unwrap().extend(cx.unlink(seen.lock().unwrap().unwrap()).err());
        Ok(0)
    };
    let mut world = World::builder().domain(spec).host_fn("unlink", unlink).build().unwrap();
    let text = function("end", "jmp host_unlink") + ".section .fini_array,\"aw\",@fini_array\n.quad end\n.quad end\n";
    let linked = world.link("a", &named("ends", &text)).unwrap();
    *handle.lock().unwrap() = Some(linked);
    world.unlink(linked).unwrap();
    let active = |error: &LibraryError| matches!(error, LibraryError::Active { .. });
    let results = results.lock().unwrap();
    assert!(results.len() == 2 && results.iter().all(active), "{results:?}");
}

#[test]
fn a_library_in_which_a_fiber_waits_stays() {
    let text = function("stay", "xor %edi,%edi\ncall __sfi_keep\nret");
    let mut world = World::builder().domain(spec(&text)).build().unwrap();
    let linked = world.link("a", &named("fiber", &function("f", "call stay\nret"))).unwrap();
    run(&mut world, linked, "f", 0).unwrap();
    assert!(matches!(world.unlink(linked), Err(LibraryError::Active { .. })));
    // The place gets other return addresses.
    own(&mut world, "stay", 0).unwrap();
    world.unlink(linked).unwrap();
}

#[test]
fn initialisers_have_the_limits_of_calls() {
    let builder = World::builder().domain(spec(&one(1))).time_limit(Duration::from_millis(50));
    let mut world = builder.build().unwrap();
    let array = ".section .init_array,\"aw\",@init_array\n.quad begin\n";
    let endless = named("endless", &(function("begin", "1: jmp 1b") + array));
    let Err(LibraryError::Initialiser { error, .. }) = world.link("a", &endless) else { panic!("it returned") };
    assert!(matches!(*error, CallError::Fault(fault) if fault.kind == FaultKind::TimeLimit));
    assert!(matches!(world.link("a", &endless), Err(LibraryError::Dead { .. })));
    world.restart("a").unwrap();
    assert_eq!(own(&mut world, "one", 0).unwrap(), 1);
    let faults = named("faults", &(function("begin", "mov 0,%rax\nret") + array));
    assert!(matches!(world.link("a", &faults), Err(LibraryError::Initialiser { .. })));
    let fault = world.domain("a").unwrap().last_fault().unwrap();
    assert_eq!(fault.function.as_deref(), Some("begin"));
}

#[test]
fn an_object_of_another_mode_is_refused() {
    let text = function("f", "mov (%rdi),%rax\nret") + ".section .note.sfi,\"\",@note\n.long 0\n";
    let mut world = World::builder().domain(spec(&one(1)).mode(Mode::Full)).build().unwrap();
    let Err(LibraryError::Link(LinkError::Refused { objects, .. })) = world.link("a", &named("loads", &text)) else {
        panic!("it was linked")
    };
    assert_eq!(objects[0].violations.len(), 1);
    let match_mode = |text: &str| {
        let mut world = World::builder().domain(spec(&one(1)).mode(Mode::Match)).build().unwrap();
        world.link("a", &named("stores", text)).err()
    };
    assert!(matches!(
        match_mode(&function("f", "mov %rax,%gs:(%edi)\nret")),
        Some(LibraryError::Link(LinkError::Refused { .. }))
    ));
    assert_eq!(match_mode(&function("f", "mov $1,%eax\nret")), None);
}

#[test]
fn libraries_refer_to_each_other_only_backwards() {
    let mut world = World::builder().domain(spec(&one(1))).build().unwrap();
    let first = function("first", "call second\ninc %rax\nret");
    let second = function("second", "test %rdi,%rdi\nje 1f\ndec %rdi\ncall first\nret\n1: mov $10,%eax\nret");
    let alone = world.link("a", &named("first", &first));
    assert!(matches!(alone, Err(LibraryError::Link(LinkError::Undefined { .. }))));
    let both = Library::new("both").object("1.o", assemble(&first)).object("2.o", assemble(&second));
    let both = world.link("a", &both).unwrap();
    assert_eq!(run(&mut world, both, "first", 3).unwrap(), 14);
    // A private library's names are its own, and may be those of other libraries.
    let private = named("private", &function("hidden", "mov $2,%eax\nret")).private();
    world.link("a", &private).unwrap();
    let asks = named("asks", &function("f", "call hidden\nret"));
    assert!(matches!(world.link("a", &asks), Err(LibraryError::Link(LinkError::Undefined { .. }))));
    // A clash with a library that others see is an error, as one with the domain is.
    let clash = world.link("a", &named("clash", &function("first", "ret")));
    assert!(matches!(clash, Err(LibraryError::Link(LinkError::Duplicate { .. }))));
}

#[test]
fn a_weak_definition_does_not_replace_the_domains() {
    let data = ".data\n.globl number\nnumber: .quad 5\n";
    let text = one(1) + &function("get", "mov number@GOTPCREL(%rip),%rax\nmov (%rax),%rax\nret") + data;
    let mut world = World::builder().domain(spec(&text)).build().unwrap();
    let text = one(2).replace(".globl", ".weak")
        + ".comm number,8,8\n"
        + &function("f", "call one\nmov number@GOTPCREL(%rip),%rcx\nadd (%rcx),%rax\nret")
        + &function("set", "mov number@GOTPCREL(%rip),%rcx\nmov %rdi,%gs:(%ecx)\nret");
    let linked = world.link("a", &named("weak", &text)).unwrap();
    assert_eq!(run(&mut world, linked, "f", 0).unwrap(), 6);
    run(&mut world, linked, "set", 9).unwrap();
    assert_eq!(own(&mut world, "get", 0).unwrap(), 9);
}

#[test]
fn relocations_reach_nothing_foreign() {
    let text = one(1) + ".section .tbss,\"awT\",@nobits\n.globl local\n.type local,@tls_object\nlocal: .zero 8\n";
    let mut world = World::builder().domain(spec(&text)).build().unwrap();
    let tries = [
        // A thread local of the domain, absolute places of code, a place outside the window.
        "mov %gs:local@TPOFF,%rax\nret",
        "mov $one,%eax\nret",
        "mov one-0x7fffffff(%rip),%rax\nmov %rax,one-0x70000000(%rip)\nret",
    ];
    for text in tries {
        let error = world.link("a", &named("foreign", &function("f", text)));
        assert!(matches!(error, Err(LibraryError::Link(_))), "{text}: {error:?}");
        assert_eq!(own(&mut world, "one", 0).unwrap(), 1);
    }
}

#[test]
fn all_is_bounded_and_slots_are_not_reused_by_themselves() {
    let room = LinkRoom { libraries: 3, slots: 512, bytes: 1 << 20 };
    let mut world = World::builder().domain(spec(&one(1)).link_room(room)).build().unwrap();
    let pointers = |count: usize| {
        let places: String = (0..count).map(|i| format!(".globl g{i}\ng{i}: nop\n")).collect();
        let words: String = (0..count).map(|i| format!(".quad g{i}\n")).collect();
        named("many", &format!(".text\n{places}ret\n.data\n{words}"))
    };
    let error = world.link("a", &pointers(513)).unwrap_err();
    assert!(error.to_string().contains("LinkRoom::slots"), "{error}");
    // A new library each time. Its pointer is the only one that leads to it.
    let next = |world: &mut World, value: u64| {
        let linked = world.link("a", &named("next", &function("f", &format!("mov ${value},%eax\nret")))).unwrap();
        let pointer = linked.symbol(world, "f");
        let result = pointer.map(|pointer| {
            let function = world.domain("a").unwrap().function_at::<fn() -> u64>(pointer.0).unwrap();
            assert_eq!(function.call(world, ()).unwrap(), value);
            pointer.0
        });
        world.unlink(linked).unwrap();
        result
    };
    let first = next(&mut world, 0).unwrap();
    let more: Vec<u64> = (1..6).map(|value| next(&mut world, value).unwrap()).collect();
    assert!(!more.contains(&first));
    let rest = world.link("a", &pointers(506)).unwrap();
    assert!(matches!(next(&mut world, 7), Err(LibraryError::Bound { what: "function pointers", most: 512, .. })));
    assert_eq!(world.recycle_slots("a").unwrap(), 6);
    let again: Vec<u64> = (0..6).map(|value| next(&mut world, value).unwrap()).collect();
    assert!(again.iter().all(|pointer| *pointer == first || more.contains(pointer)), "{again:x?}");
    world.unlink(rest).unwrap();
    for i in 0..3 {
        world.link("a", &named("n", &function(&format!("f{i}"), "ret"))).unwrap();
    }
    let error = world.link("a", &named("n", &function("g", "ret"))).unwrap_err();
    assert!(matches!(error, LibraryError::Bound { what: "libraries", most: 3, .. }), "{error}");
    let spec = spec(&one(1)).link_room(LinkRoom { slots: 1 << 17, ..room });
    assert!(matches!(World::builder().domain(spec).build(), Err(BuildError::Link(LinkError::Place { .. }))));
}

#[test]
fn a_reset_a_reload_and_a_pool_drop_libraries() {
    let text = one(1) + &function("call", &format!("mov %rdi,%rax\n{CALL_RAX}ret"));
    let library = named("two", &function("two", "mov $2,%eax\nret"));
    let mut world = World::builder().domain(spec(&text).restart(Restart::Always)).build().unwrap();
    let segments = world.domain("a").unwrap().segments().len();
    let again: [&dyn Fn(&mut World); 3] = [
        &|world| world.restart("a").unwrap(),
        &|world| world.reload(spec(&text).restart(Restart::Always)).unwrap(),
        &|world| {
            assert_eq!(kind(own(world, "call", 0)), FaultKind::WildBranch);
            assert_eq!(own(world, "one", 0).unwrap(), 1, "restarted by the call");
        },
    ];
    for new_life in again {
        let linked = world.link("a", &library).unwrap();
        let two: Run = linked.export(&mut world, "two").unwrap();
        let pointer = linked.symbol(&mut world, "two").unwrap().0;
        assert_eq!(own(&mut world, "call", pointer).unwrap(), 2);
        new_life(&mut world);
        assert!(matches!(two.call(&mut world, (0,)), Err(CallError::Gone { .. })));
        assert_eq!(world.unlink(linked), Err(LibraryError::Gone));
        assert_eq!(linked.symbol(&mut world, "two"), Err(LibraryError::Gone));
        assert!(world.domain("a").unwrap().function_at::<fn()>(pointer).is_err());
        assert_eq!(world.domain("a").unwrap().segments().len(), segments);
    }
    let pool = Pool::new(&Template::builder(spec(&text)).build().unwrap(), 1).unwrap();
    for _ in 0..3 {
        let mut tenant = pool.take().unwrap();
        let linked = tenant.link("a", &library).unwrap();
        let two: Run = linked.export(&mut *tenant, "two").unwrap();
        assert_eq!(two.call(&mut *tenant, (0,)).unwrap(), 2);
        assert_eq!(tenant.domain("a").unwrap().segments().len(), segments + 1);
    }
}

#[test]
fn instances_have_libraries_of_their_own() {
    let text = one(1) + &function("call", &format!("mov %rdi,%rax\n{CALL_RAX}ret"));
    let mut world = World::builder().domain(spec(&text)).build().unwrap();
    let library = named("two", &function("two", "mov $2,%eax\nret"));
    world.link("a", &library).unwrap();
    let instance = world.instantiate("a").unwrap();
    let linked = world.link_instance(instance, &library).unwrap();
    let two: Run = linked.export(&mut world, "two").unwrap();
    assert_eq!(two.call(&mut world, (0,)).unwrap(), 2);
    world.reset(instance).unwrap();
    assert!(matches!(two.call(&mut world, (0,)), Err(CallError::Gone { .. })));
    let linked = world.link_instance(instance, &library).unwrap();
    let two: Run = linked.export(&mut world, "two").unwrap();
    assert_eq!(two.call(&mut world, (0,)).unwrap(), 2);
    world.discard(instance).unwrap();
    assert!(two.call(&mut world, (0,)).is_err());
    assert_eq!(world.unlink(linked), Err(LibraryError::Gone));
    assert!(matches!(world.link_instance(instance, &library), Err(LibraryError::Unknown(_))));
}

#[test]
fn other_domains_lose_their_way_into_a_library() {
    let register =
        function("offer", "mov %rdi,%rsi\nlea name(%rip),%rdi\nlea signature(%rip),%rdx\ncall __sfi_register\nret")
            + ".section .rodata\nname: .asciz \"two\"\nsignature: .asciz \"(int) -> int\"\n";
    let server = spec(&(one(1) + &register)).import("__sfi_register", Import::host("__sfi_register"));
    let client = DomainSpec::new("c")
        .object("c.o", assemble(&function("ask", "call two\nret")))
        .import("two", Import::entry("a.two").signature("(int) -> int"));
    let mut world = World::builder().domain(server).domain(client).permit("c", "a.*").build().unwrap();
    let linked = world.link("a", &named("two", &function("two", "lea 2(%rdi),%rax\nret"))).unwrap();
    let pointer = linked.symbol(&mut world, "two").unwrap().0;
    assert_eq!(own(&mut world, "offer", pointer).unwrap(), 0);
    world.connect("c", "two", "a.two").unwrap();
    let ask: Run = world.domain("c").unwrap().export("ask").unwrap();
    assert_eq!(ask.call(&mut world, (5,)).unwrap(), 7);
    world.unlink(linked).unwrap();
    assert_eq!(ask.call(&mut world, (5,)).unwrap(), u64::MAX);
    assert_eq!(own(&mut world, "one", 0).unwrap(), 1);
}

#[test]
fn more_registers_are_admitted_between_calls_only() {
    let text = one(1) + &function("go", "call host_link\nret");
    let library = named("wide", &function("wide", "vpxor %ymm1,%ymm1,%ymm1\nfldz\nfstp %st\nmov $3,%eax\nret"));
    let seen = library.clone();
    let link = move |cx: &mut sfi_loader::HostCall<'_>| match cx.link("a", &seen) {
        Ok(_) => Ok(1),
        Err(LibraryError::Busy { .. }) => Ok(2),
        Err(error) => panic!("{error}"),
    };
    let spec = spec(&text).import("host_link", Import::host("link").signature("() -> int"));
    let mut world = World::builder().domain(spec).host_fn("link", link).build().unwrap();
    assert!(!world.domain("a").unwrap().usage().x87);
    let go: Run = world.domain("a").unwrap().export("go").unwrap();
    assert_eq!(go.call(&mut world, (0,)).unwrap(), 2);
    let linked = world.link("a", &library).unwrap();
    assert!(world.domain("a").unwrap().usage().x87);
    assert_eq!(run(&mut world, linked, "wide", 0).unwrap(), 3);
    // Now it uses no more than before.
    world.unlink(linked).unwrap();
    assert_eq!(go.call(&mut world, (0,)).unwrap(), 1);
}

#[test]
fn entry_points_of_the_host_find_a_reloaded_domain_without_its_library() {
    let mut world = World::builder().domain(spec(&one(1))).build().unwrap();
    world.link("a", &named("two", &function("two", "mov $2,%eax\nret"))).unwrap();
    // The host's own registrations name functions of the domain's objects.
    assert!(world.register("a", "two", Entry::function("two")).is_err());
    assert!(world.domain("a").unwrap().export::<fn()>("two").is_err());
}

#[test]
fn text_is_sealed_and_lies_anywhere() {
    let mut world = World::builder().domain(spec(&one(1))).build().unwrap();
    let base = world.domain("a").unwrap().secret_base();
    let mut places = Vec::new();
    for round in 0..16 {
        let linked = world.link("a", &named("n", &function("f", &format!("mov ${round},%eax\nret")))).unwrap();
        let segments = world.domain("a").unwrap().segments().to_vec();
        let text = segments.iter().find(|s| s.name == "library `n`: text").unwrap();
        places.push(text.offset);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let at = format!("{:x}-", base + text.offset);
        let line = maps.lines().find(|line| line.starts_with(&at)).expect("its mapping");
        assert!(line.contains(" r-xs ") && line.contains("memfd:library"), "{line}");
        // The host cannot write there through the domain's eyes either.
        let pointer = base + text.offset;
        assert!(world.memory("a").unwrap().write(pointer, &[0xc3]).is_err());
        world.unlink(linked).unwrap();
    }
    places.sort_unstable();
    places.dedup();
    assert!(places.len() > 12, "{places:x?}");
}

/// A library is the first text of its domain that names x87. Another domain's text named it before,
/// so its values are in the registers when a third domain, which does not, calls the library.
#[test]
fn a_library_with_x87_sees_no_registers_of_others() {
    let data = ".data\n.globl area\narea: .zero 108\nodd: .word 0x27f\n";
    let look = "fnsave %gs:area(%eip)\nfldcw odd(%rip)\nfld1\nmov $1,%eax\nret";
    let text = function("through", &format!("mov hook(%rip),%rax\n{CALL_RAX}ret"));
    let server = spec(&(text + ".bss\n.globl hook\nhook: .quad 0\n"));
    let middle = DomainSpec::new("middle").object("m.o", assemble(&function("pass", "call look\nret")));
    let front = "fldpi\nfldpi\nfstp %st\nfstp %st\ncall pass\nfnstcw %gs:word(%eip)\nmovzwl word(%rip),%eax\n\
                 fninit\nret";
    let front = function("run", front) + ".bss\nword: .quad 0\n";
    let front = DomainSpec::new("front").object("f.o", assemble(&front));
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        // The front trusts the middle, which does not name x87, and nobody trusts the server.
        let to_middle = Import::domain("middle", "pass").signature("() -> int").trust(Trust::TrustedBoth);
        let to_server = Import::domain("a", "through").signature("() -> int").trust(trust);
        let world = World::builder()
            .domain(front.clone().import("pass", to_middle))
            .domain(middle.clone().import("look", to_server))
            .domain(server.clone());
        let mut world = world.build().unwrap();
        let library = named("look", &(function("look", look) + data));
        let linked = world.link("a", &library).unwrap();
        let pointer = linked.symbol(&mut world, "look").unwrap().0;
        let hook = world.domain("a").unwrap().symbol("hook").unwrap().0;
        world.memory("a").unwrap().write(hook, &pointer.to_le_bytes()).unwrap();
        let run: Run = world.domain("front").unwrap().export("run").unwrap();
        assert_eq!(run.call(&mut world, (0,)), Ok(0x37f), "{trust}");
        let area = linked.symbol(&mut world, "area").unwrap();
        let seen = world.memory("a").unwrap().read(area.0, 108).unwrap();
        let reset = [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        assert!(seen[28..].chunks(10).all(|register| register == reset), "{trust}: {:x?}", &seen[28..]);
        assert_eq!(seen[..2], [0x7f, 3], "{trust}");
    }
}

/// A library in an instance names registers that the instance's domain does not name. The bindings
/// that both share clear them all the same.
#[test]
fn a_library_of_an_instance_sees_no_registers_of_others() {
    let through = function("through", &format!("mov hook(%rip),%rax\n{CALL_RAX}ret"));
    let text = through + &function("keep", "jmp work") + ".bss\n.globl hook\nhook: .quad 0\n";
    let secret = "mov $0x5ec3e7,%eax\nmovq %rax,%xmm5\nmovq %rax,%mm3\nret";
    let server = DomainSpec::new("server").object("s.o", assemble(&function("work", secret)));
    let look = "call work\nmovups %xmm5,%gs:area(%eip)\nmovq %mm3,%gs:area+16(%eip)\nemms\nret";
    let library = named("look", &(function("look", look) + ".bss\n.globl area\narea: .zero 32\n"));
    for trust in [Trust::MutualDistrust, Trust::TrustedServer] {
        let work = Import::domain("server", "work").signature("() -> int").trust(trust);
        let world = World::builder().domain(spec(&text).import("work", work)).domain(server.clone());
        let mut world = world.build().unwrap();
        let instance = world.instantiate("a").unwrap();
        let linked = world.link_instance(instance, &library).unwrap();
        let look: Run = linked.export(&mut world, "look").unwrap();
        assert_eq!(look.call(&mut world, (0,)), Ok(0x5ec3e7), "{trust}");
        let area = linked.symbol(&mut world, "area").unwrap();
        let name = world.instance(instance).unwrap().name().to_owned();
        let seen = world.memory(&name).unwrap().read(area.0, 32).unwrap();
        assert!(seen.iter().all(|byte| *byte == 0), "{trust}: {seen:x?}");
    }
}

/// The time of a link is in proportion to the library's size, also if it is linked again.
#[test]
fn many_arrays_and_initialisers_take_little_time() {
    const COUNT: usize = 4000;
    let mut text = String::from(".text\n1: ret\n");
    for number in 0..COUNT {
        text += &format!(".section .sfi.slots,\"a\",@progbits,unique,{number}\n.quad 1b\n");
    }
    text += ".text\n";
    for number in 0..COUNT {
        text += &format!(".globl f{number}\nf{number}: ret\n.section .init_array,\"aw\"\n.quad f{number}\n.text\n");
    }
    let library = named("arrays", &text);
    let spec = spec(&one(1)).link_room(LinkRoom { slots: 2 * COUNT, ..LinkRoom::default() });
    let mut world = World::builder().domain(spec).build().unwrap();
    let mut time = || {
        let start = Instant::now();
        let linked = world.link("a", &library).unwrap();
        world.unlink(linked).unwrap();
        start.elapsed()
    };
    let first = time();
    for _ in 0..2 {
        let again = time();
        assert!(again < first * 4 + Duration::from_secs(1), "{again:?} after {first:?}");
    }
    assert!(first < Duration::from_secs(20), "{first:?}");
}
