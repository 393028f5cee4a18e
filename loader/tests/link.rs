//! Libraries: objects that are linked into a live domain, and unlinked.

mod common;
use common::{CALL_RAX, assemble, function, kind, maps};
use sfi_loader::{
    CallError, DomainSpec, FaultKind, Import, Library, LibraryError, LinkError, LinkRoom, Linked, Manage, Mode,
    TypedFn, World,
};

type Run = TypedFn<fn(u64) -> u64>;

/// Stores rax in the variable `total`, and leaves it in rax.
const KEEP: &str = "mov total@GOTPCREL(%rip),%rcx\nmov %rax,%gs:(%ecx)\n";

/// A domain that adds to a variable, and calls a function by pointer.
fn app() -> String {
    let add = "mov total@GOTPCREL(%rip),%rcx\nmov (%rcx),%rax\nadd %rdi,%rax\nmov %rax,%gs:(%ecx)\nret";
    let call = format!("mov %rdi,%rax\nmov $7,%edi\n{CALL_RAX}ret");
    let twice = "lea (%rdi,%rdi),%rax\nret";
    let own = "mov twice@GOTPCREL(%rip),%rax\nret";
    let all = [("add", add), ("call", &call), ("twice", twice), ("twice_pointer", own)];
    let text: String = all.iter().map(|(name, body)| function(name, body)).collect();
    text + ".bss\n.globl total\n.type total,@object\n.balign 8\ntotal: .zero 8\n.size total,8\n"
}

fn spec(text: &str) -> DomainSpec {
    DomainSpec::new("a").object("a.o", assemble(text)).link_room(LinkRoom::default())
}

fn world() -> World {
    World::builder().domain(spec(&app())).build().unwrap()
}

fn library(text: &str) -> Library {
    Library::new("lib").object("lib.o", assemble(text))
}

/// Calls a function of the domain.
fn own(world: &mut World, name: &str, argument: u64) -> u64 {
    let function: Run = world.domain("a").unwrap().export(name).unwrap();
    function.call(world, (argument,)).unwrap()
}

/// Calls a function of a library.
fn run(world: &mut World, linked: Linked, name: &str, argument: u64) -> Result<u64, CallError> {
    let function: Run = linked.export(world, name).unwrap();
    function.call(world, (argument,))
}

/// Links objects that must be refused. Checks that the domain's mappings and segments are as before
/// and that it still works. Returns the error.
fn refused(world: &mut World, library: &Library) -> LibraryError {
    let segments = world.domain("a").unwrap().segments().to_vec();
    let before = own(world, "add", 0);
    let error = match world.link("a", library) {
        Ok(_) => panic!("it was linked"),
        Err(error) => error,
    };
    assert_eq!(world.domain("a").unwrap().segments(), segments);
    assert_eq!(own(world, "add", 1), before + 1);
    error
}

#[test]
fn a_library_uses_the_domain_and_its_data_stays() {
    for mode in Mode::ALL {
        if mode == Mode::Match {
            continue;
        }
        let text = app().replace("mov (%rcx),%rax", "mov %gs:(%ecx),%rax");
        let mut world = World::builder().domain(spec(&text).mode(mode)).build().unwrap();
        assert_eq!(own(&mut world, "add", 5), 5);
        let more = function("more", "add $0,%rdi\ncall add\nadd $100,%rax\nret")
            + &function("double", "call twice\nret")
            + &function("through", &format!("push_free: mov twice@GOTPCREL(%rip),%rax\n{CALL_RAX}ret"));
        let more = more.replace("push_free: ", "");
        let more = match mode {
            Mode::Full => more.replace("mov twice@GOTPCREL(%rip),%rax", "lea twice(%rip),%rax"),
            _ => more,
        };
        let linked = world.link("a", &library(&more)).unwrap();
        assert_eq!(run(&mut world, linked, "more", 6).unwrap(), 111);
        assert_eq!(run(&mut world, linked, "double", 21).unwrap(), 42);
        assert_eq!(run(&mut world, linked, "through", 21).unwrap(), 42);
        world.unlink(linked).unwrap();
        assert_eq!(own(&mut world, "add", 0), 11, "the domain's data stays");
        assert_eq!(world.unlink(linked), Err(LibraryError::Gone));
    }
}

#[test]
fn a_library_has_data_and_runs_initialisers_and_finalisers() {
    let mut world = world();
    let text = function("counter", "mov count(%rip),%rax\ninc %rax\nmov %rax,count(%rip)\nret")
        + &function("begin", &format!("mov $40,%eax\n{KEEP}ret"))
        + &function("end", &format!("mov total@GOTPCREL(%rip),%rdx\nmov (%rdx),%rax\nadd $2,%rax\n{KEEP}ret"))
        + &function("greeting", "lea text(%rip),%rax\nret")
        + &function("blank", "mov zero(%rip),%rax\nret")
        + ".data\ncount: .quad 7\n.bss\nzero: .zero 5000\n.section .rodata\ntext: .asciz \"good day\"\n\
           .section .init_array,\"aw\",@init_array\n.quad begin\n\
           .section .fini_array,\"aw\",@fini_array\n.quad end\n";
    let library = library(&text);
    let linked = world.link("a", &library).unwrap();
    assert_eq!(own(&mut world, "add", 0), 40, "the initialiser ran");
    assert_eq!(run(&mut world, linked, "counter", 0).unwrap(), 8);
    assert_eq!(run(&mut world, linked, "counter", 0).unwrap(), 9);
    assert_eq!(run(&mut world, linked, "blank", 0).unwrap(), 0);
    let text = run(&mut world, linked, "greeting", 0).unwrap();
    assert_eq!(world.memory("a").unwrap().read_c_string(text, 64).unwrap(), b"good day");
    world.unlink(linked).unwrap();
    assert_eq!(own(&mut world, "add", 0), 42, "the finaliser ran");
    assert!(world.memory("a").unwrap().read(text, 1).is_err(), "its constants are gone");
    let again = world.link("a", &library).unwrap();
    assert_eq!(run(&mut world, again, "counter", 0).unwrap(), 8, "its data is new");
}

#[test]
fn function_pointers_are_equal_and_trap_after_the_end() {
    let mut world = world();
    let text = function("mine", "lea 1(%rdi),%rax\nret")
        + &function("mine_pointer", "mov mine@GOTPCREL(%rip),%rax\nret")
        + &function("twice_here", "mov twice@GOTPCREL(%rip),%rax\nret");
    let library = library(&text);
    let linked = world.link("a", &library).unwrap();
    let other = world
        .link(
            "a",
            &Library::new("other")
                .object("o.o", assemble(&function("their_pointer", "mov mine@GOTPCREL(%rip),%rax\nret"))),
        )
        .unwrap();
    let pointer = run(&mut world, linked, "mine_pointer", 0).unwrap();
    assert_eq!(run(&mut world, other, "their_pointer", 0).unwrap(), pointer);
    assert_eq!(linked.symbol(&mut world, "mine").unwrap().0, pointer);
    let twice = run(&mut world, linked, "twice_here", 0).unwrap();
    assert_eq!(own(&mut world, "twice_pointer", 0), twice);
    assert_eq!(own(&mut world, "call", pointer), 8);
    assert_eq!(
        world.domain("a").unwrap().function_at::<fn(u64) -> u64>(pointer).unwrap().call(&mut world, (1,)).unwrap(),
        2
    );
    let mine: Run = linked.export(&mut world, "mine").unwrap();
    // The other library refers to this one.
    assert!(matches!(world.unlink(linked), Err(LibraryError::Needed { by, .. }) if by == "other"));
    world.unlink(other).unwrap();
    world.unlink(linked).unwrap();
    assert!(matches!(mine.call(&mut world, (1,)), Err(CallError::Gone { .. })));
    // The same library gets the same slots, so the pointer means the same function again.
    let again = world.link("a", &library).unwrap();
    assert_eq!(run(&mut world, again, "mine_pointer", 0).unwrap(), pointer);
    assert_eq!(own(&mut world, "call", pointer), 8);
    assert!(matches!(mine.call(&mut world, (1,)), Err(CallError::Gone { .. })), "a handle of the old link");
    world.unlink(again).unwrap();
    // Another library gets other slots.
    let different = self::library(
        &(function("mine", "mov $3,%eax\nret") + &function("mine_pointer", "mov mine@GOTPCREL(%rip),%rax\nret")),
    );
    let different = world.link("a", &different).unwrap();
    assert_ne!(run(&mut world, different, "mine_pointer", 0).unwrap(), pointer);
    let call: Run = world.domain("a").unwrap().export("call").unwrap();
    assert_eq!(kind(call.call(&mut world, (pointer,))), FaultKind::WildBranch);
    assert!(matches!(world.unlink(different), Err(LibraryError::Dead { .. })));
    world.restart("a").unwrap();
    assert_eq!(world.unlink(different), Err(LibraryError::Gone));
    assert_eq!(own(&mut world, "add", 0), 0);
}

#[test]
fn bad_objects_leave_the_domain_as_it_was() {
    let mut world = world();
    let refuse = |world: &mut World, text: &str| refused(world, &library(text));
    let error = refuse(&mut world, &function("f", "mov %rax,(%rdi)\nret"));
    assert!(matches!(error, LibraryError::Link(LinkError::Refused { .. })), "{error}");
    let error = refuse(&mut world, &function("f", "call nobody\nret"));
    assert!(matches!(error, LibraryError::Link(LinkError::Undefined { .. })), "{error}");
    let error = refuse(&mut world, &function("add", "ret"));
    assert!(error.to_string().contains("add (lib.o, the domain or a library)"), "{error}");
    let error = refuse(&mut world, &(function("f", "ret") + ".data\n.globl total\ntotal: .quad 1\n"));
    assert!(error.to_string().contains("total (lib.o"), "{error}");
    let error = refuse(&mut world, ".text\n.globl f\n.type f,@gnu_indirect_function\nf: ret\n");
    assert!(error.to_string().contains("IFUNC"), "{error}");
    let error = refuse(&mut world, &(function("f", "ret") + ".section .tbss,\"awT\",@nobits\n.zero 8\n"));
    assert!(error.to_string().contains("thread locals"), "{error}");
    // A branch into the middle of a function of the domain.
    let error = refuse(&mut world, &function("f", "call add+1\nret"));
    assert!(matches!(error, LibraryError::Link(LinkError::Refused { .. })), "{error}");
    let error = refuse(&mut world, &function("f", "call total\nret"));
    assert!(error.to_string().contains("not code"), "{error}");
    // Too large.
    let error = refuse(&mut world, &(function("f", "ret") + ".bss\n.zero 16777216\n"));
    assert!(matches!(error, LibraryError::Bound { what: "bytes", .. }), "{error}");
    // It works still.
    let linked = world.link("a", &library(&function("f", "mov $1,%eax\nret"))).unwrap();
    assert_eq!(run(&mut world, linked, "f", 0).unwrap(), 1);
}

#[test]
fn a_domain_without_room_takes_nothing() {
    let spec = DomainSpec::new("a").object("a.o", assemble(&app()));
    let mut world = World::builder().domain(spec).build().unwrap();
    let library = library(&function("f", "ret"));
    assert!(matches!(refused(&mut world, &library), LibraryError::NoRoom { .. }));
    assert!(matches!(world.link("b", &library), Err(LibraryError::Unknown(_))));
}

#[test]
fn imports_lead_where_the_domains_own_lead() {
    let text = app() + &function("ask", "call host_ask\nret");
    let spec = spec(&text).import("host_ask", Import::host("ask")).import("unused", Import::host("ask"));
    let mut world = World::builder().domain(spec).host_fn("ask", |cx| Ok(cx.arg(0) * 3)).build().unwrap();
    let linked = world.link("a", &library(&function("f", "call unused\ninc %rax\nret"))).unwrap();
    assert_eq!(run(&mut world, linked, "f", 5).unwrap(), 16);
    // A granted name is not replaced.
    let error = refused(&mut world, &library(&function("host_ask", "ret")));
    assert!(matches!(error, LibraryError::Link(LinkError::Granted { .. })), "{error}");
}

#[test]
fn faults_name_functions_of_libraries() {
    let mut world = world();
    let text = function("outer", "call inner\nret") + &function("inner", "nop\nmov 0x10,%rax\nret");
    let linked = world.link("a", &library(&text)).unwrap();
    let outer: Run = linked.export(&mut world, "outer").unwrap();
    let Err(CallError::Fault(fault)) = outer.call(&mut world, (0,)) else { panic!("no fault") };
    assert_eq!((fault.function.as_deref(), fault.offset), (Some("inner"), 1));
    let names: Vec<_> = fault.backtrace().frames.into_iter().filter_map(|frame| frame.function).collect();
    assert_eq!(names, ["inner", "outer"]);
    assert!(matches!(world.link("a", &library(&text)), Err(LibraryError::Dead { .. })));
}

#[test]
fn rounds_leave_nothing_behind() {
    let mut world = world();
    let text = function("f", "mov value(%rip),%rax\nret") + ".data\nvalue: .quad 9\n.section .rodata\n.quad f\n";
    let library = library(&text);
    let round = |world: &mut World| {
        let linked = world.link("a", &library).unwrap();
        assert_eq!(run(world, linked, "f", 0).unwrap(), 9);
        world.unlink(linked).unwrap();
    };
    round(&mut world);
    let (before, segments) = (maps().len(), world.domain("a").unwrap().segments().len());
    // More rounds than there are reserved slots.
    for _ in 0..5000 {
        round(&mut world);
    }
    assert!(maps().len() <= before + 2, "{} mappings, then {}", before, maps().len());
    assert_eq!(world.domain("a").unwrap().segments().len(), segments);
}

#[test]
fn arrays_of_slots_of_a_library_are_runs_that_it_gets_again() {
    let body = "lea 9f(,%rdi,8),%rsi\nand $0xffff8,%esi\njmp *%gs:__sfi_dispatch(%esi)\n";
    let text = function("pick", &format!("{body}1: mov $1,%eax\nret\n2: mov $2,%eax\nret"))
        + &function("pointer", "lea pick(%rip),%rax\nret")
        + ".section .sfi.slots,\"a\",@progbits\n9: .rept 100\n.quad 2b, 1b\n.endr\n";
    let room = LinkRoom { slots: 512, ..LinkRoom::default() };
    let mut world = World::builder().domain(spec(&app()).link_room(room)).build().unwrap();
    let [first, second, third] = [1, 2, 3].map(|_| library(&text));
    let mut pointers = Vec::new();
    for _ in 0..5 {
        let linked = [&first, &second].map(|library| world.link("a", &library.clone().private()).unwrap());
        for linked in linked {
            let found = [0, 1, 198, 199].map(|n| run(&mut world, linked, "pick", n).unwrap());
            assert_eq!(found, [2, 1, 2, 1]);
            pointers.push(run(&mut world, linked, "pointer", 0).unwrap());
        }
        // The words of the arrays are 400 of 512, so a third library has no room.
        let error = sfi_loader::chain(&refused(&mut world, &third.clone().private()));
        assert!(error.contains("reserved for libraries"), "{error}");
        for linked in linked {
            world.unlink(linked).unwrap();
        }
    }
    assert!(pointers.chunks(2).all(|pair| pair == &pointers[..2]), "{pointers:x?}");
    // The host gives the slots free, and they are no longer in a row for others.
    assert_eq!(world.recycle_slots("a").unwrap(), 402);
}
