//! Faults that a domain handles itself: in one function of its own, once, with nothing in the
//! registers, and only while the host lets it.

mod common;
use common::{assemble, function};
use sfi_loader::{AddressClass, CallError, DomainSpec, FaultKind, Import, TypedFn, World};
use std::sync::{Arc, Mutex};

type Notes = Arc<Mutex<Vec<[u64; 4]>>>;

/// `arm` asks for SIGSEGV, `die` loads from 8 with a word in a preserved register, `entry` tells
/// the host of its arguments and that register, `leave` ends without a return.
fn world() -> (World, Notes) {
    let text = function("arm", "call allow\nret")
        + &function("die", "mov $77,%rbx\nmov 8,%rax\nret")
        + &function("look", "mov $1<<44,%rax\nmov (%rax),%rax\nret")
        + &function("nowhere", "mov $1<<60,%rax\nmov (%rax),%rax\nret")
        + &function("entry", "mov %rbx,%rcx\ncall note\nmov again(%rip),%eax\ntest %eax,%eax\nje 1f\njmp die\n1: ret")
        + &function("nest", "lea again(%rip),%rax\nmovl $1,%gs:(%eax)\nret")
        + ".data\nagain: .long 0\n";
    let notes = Notes::default();
    let told = Arc::clone(&notes);
    let spec = DomainSpec::new("a")
        .object("a.o", assemble(&text))
        .import("allow", Import::host("allow").signature("() -> int"))
        .import("note", Import::host("note").signature("(int, int, int, int) -> int"));
    let world = World::builder()
        .domain(spec)
        .host_fn("allow", |cx| Ok(cx.catch_faults(1 << 11, "entry").into()))
        .host_fn("note", move |cx| {
            told.lock().unwrap().push([0, 1, 2, 3].map(|index| cx.arg(index)));
            Ok(0)
        });
    (world.build().unwrap(), notes)
}

fn call(world: &mut World, name: &str) -> Result<u64, CallError> {
    let function: TypedFn<fn() -> u64> = world.domain("a").unwrap().export(name).unwrap();
    function.call(world, ())
}

/// The fault of a call that must fail.
fn fault(world: &mut World, name: &str) -> (FaultKind, Option<String>) {
    match call(world, name) {
        Err(CallError::Fault(fault)) => (fault.kind, fault.function.clone()),
        other => panic!("{other:?}"),
    }
}

const NULL: FaultKind = FaultKind::Memory(AddressClass::Null);
/// Signal, a fault of the page tables, the address, and nothing.
const NOTE: [u64; 4] = [11, 1, 8, 0];

#[test]
fn a_fault_is_caught_once_and_with_nothing_in_the_registers() {
    let (mut world, notes) = world();
    assert_eq!(call(&mut world, "arm").unwrap(), 1);
    // The return leads to the trap.
    let (kind, _) = fault(&mut world, "die");
    assert_eq!((kind, notes.lock().unwrap().as_slice()), (FaultKind::WildBranch, &[NOTE][..]));
}

#[test]
fn a_fault_of_the_entry_ends_the_domain() {
    let (mut world, notes) = world();
    call(&mut world, "nest").unwrap();
    call(&mut world, "arm").unwrap();
    assert_eq!(fault(&mut world, "die"), (NULL, Some("die".into())));
    assert_eq!(notes.lock().unwrap().as_slice(), [NOTE]);
}

#[test]
fn nothing_is_caught_unless_it_is_asked_for() {
    let (mut world, notes) = world();
    assert_eq!(fault(&mut world, "die"), (NULL, Some("die".into())));
    // A request ends with the life that made it.
    world.restart("a").unwrap();
    call(&mut world, "arm").unwrap();
    world.restart("a").unwrap();
    assert_eq!(fault(&mut world, "die"), (NULL, Some("die".into())));
    assert_eq!(notes.lock().unwrap().as_slice(), &[] as &[[u64; 4]]);
}

/// A domain does not learn which places outside its window have no memory.
#[test]
fn a_look_outside_the_window_is_not_caught() {
    for (name, class) in [("look", AddressClass::Outside), ("nowhere", AddressClass::Unknown)] {
        let (mut world, notes) = world();
        assert_eq!(call(&mut world, "arm").unwrap(), 1);
        assert_eq!(fault(&mut world, name), (FaultKind::Memory(class), Some(name.into())));
        assert_eq!(notes.lock().unwrap().as_slice(), &[] as &[[u64; 4]], "{name}");
    }
}
