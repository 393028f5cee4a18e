//! Further threads of a domain: what their windows map, and what a domain may ask for.

mod common;
use common::{assemble, function};
use sfi_loader::{
    BuildError, CallError, DomainSpec, FaultThread, HostCall, HostError, Import, Manage, Mode, SpecError, Template,
    ThreadStart, TypedFn, World,
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Held by each test, because the mappings belong to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// `go()` passes the pointers of `body` and `spin` to the host. `body(place)` stores its thread
/// pointer there, through its own window.
fn program() -> Vec<u8> {
    let mut text = function("go", "lea body(%rip),%rsi\nlea spin(%rip),%rdx\ncall host\nret");
    text += &function("body", "mov %gs:__sfi_tcb,%rax\nmov %rax,%gs:(%edi)\ncall host\nret");
    text += &function("spin", "1: jmp 1b");
    text += &function("look", "mov (%rdi),%rax\nret");
    assemble(&text)
}

fn spec() -> DomainSpec {
    let import = Import::host("host").signature("(int, int, int) -> int");
    DomainSpec::new("app").object("app.o", program()).import("host", import).memory(1 << 20).threads_exposing(4)
}

/// Returns the permissions and the names of the mappings in each window of domains with threads.
fn windows() -> Vec<(u64, Vec<(String, String)>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut all: Vec<(u64, Vec<(String, String)>)> = Vec::new();
    for line in maps.lines().filter(|line| line.contains("memfd:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let window = u64::from_str_radix(words[0].split('-').next().unwrap(), 16).unwrap() >> 32;
        let entry = (words[1].to_owned(), words[5].to_owned());
        match all.iter_mut().find(|(base, _)| *base == window) {
            Some((_, entries)) => entries.push(entry),
            None => all.push((window, vec![entry])),
        }
    }
    all
}

/// Makes a thread at the start that `choose` makes of the heap's start and of the function.
fn start(cx: &HostCall<'_>, choose: impl Fn(u64, u64) -> ThreadStart) -> Result<sfi_loader::Thread, BuildError> {
    cx.thread(&choose(cx.heap().start, cx.arg(1)), |cx| Ok(cx.arg(0)))
}

fn fit(heap: u64, function: u64) -> ThreadStart {
    ThreadStart { function, argument: heap + 64, stack: heap + 0x4000, pointer: heap + 0x8000, number: 2 }
}

/// Returns a world whose domain has one thread.
fn single() -> World {
    World::builder().domain(spec().threads(1)).host_fn("host", |_| Ok(0)).build().unwrap()
}

/// Calls `go` in a world whose host function reports to a channel.
fn go(report: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static) -> (World, u64) {
    let mut world = World::builder().domain(spec()).host_fn("host", report).build().unwrap();
    let go: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("go").unwrap();
    let result = go.call(&mut world, (1,)).unwrap();
    (world, result)
}

#[test]
fn a_view_maps_the_memory_and_executes_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = |report: Sender<_>| {
        move |cx: &mut HostCall<'_>| {
            let thread = start(cx, fit).map_err(|error| HostError::new(error.to_string()))?;
            report.send(windows()).unwrap();
            let result = std::thread::spawn(move || thread.run()).join().unwrap().unwrap();
            let heap = cx.heap().start;
            let stored = u64::from_le_bytes(cx.read(heap + 64, 8)?.try_into().unwrap());
            report.send(windows()).unwrap();
            assert_eq!(result, heap + 64, "the host function that the thread called");
            Ok(u64::from(stored == heap + 0x8000))
        }
    };
    let (send, receive) = channel();
    let (world, same) = go(seen(send));
    assert_eq!(same, 1, "what the thread stored is in the domain's memory: its thread pointer");
    let (during, after) = (receive.recv().unwrap(), receive.recv().unwrap());
    assert_eq!((during.len(), after.len()), (2, 1), "{during:?}");
    let executable = |entries: &[(String, String)]| entries.iter().any(|(rights, _)| rights.contains('x'));
    assert_eq!(during.iter().filter(|(_, entries)| executable(entries)).count(), 1, "{during:?}");
    for (rights, name) in during.iter().flat_map(|(_, entries)| entries) {
        let expected: &[&str] = match name.as_str() {
            "/memfd:memory" => &["rw-s"],
            "/memfd:constants" => &["r--s"],
            _ => &["r--s", "r-xs"],
        };
        assert!(expected.contains(&rights.as_str()), "{rights} {name}");
    }
    drop(world);
    assert_eq!(windows(), []);
}

/// The text stays mapped while a thread is left, and its end comes from outside.
#[test]
fn a_thread_outlives_its_world_and_is_stopped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (send, receive) = channel();
    let (mut first, _) = go(move |cx| {
        let spin = cx.arg(2);
        let thread = start(cx, |heap, _| fit(heap, spin));
        send.send(thread.map_err(|error| HostError::new(error.to_string()))?).unwrap();
        Ok(0)
    });
    let look: TypedFn<fn(u64) -> u64> = first.domain("app").unwrap().export("look").unwrap();
    let heap = first.memory("app").unwrap().heap().start;
    assert_eq!(look.call(&mut first, (heap,)).unwrap(), 0);
    drop(first);
    let thread = receive.recv().unwrap();
    let stopper = thread.stopper().unwrap();
    let runs = std::thread::spawn(move || thread.run());
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(!runs.is_finished());
    stopper.stop();
    let Err(CallError::Fault(fault)) = runs.join().unwrap() else { panic!("not stopped") };
    assert_eq!(fault.thread, Some(FaultThread::Further(2)));
    let backtrace = fault.backtrace().to_string();
    assert!(backtrace.ends_with(": host, thread 2\n"), "{backtrace}");
}

#[test]
fn what_a_thread_must_not_have_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (world, refused) = go(|cx| {
        let choices: [fn(u64, u64) -> ThreadStart; 11] = [
            |heap, function| ThreadStart { function: 0, ..fit(heap, function) },
            |heap, function| ThreadStart { function: function + 1, ..fit(heap, function) },
            |heap, function| ThreadStart { function: heap, ..fit(heap, function) },
            |heap, function| ThreadStart { function: function + 0x10000, ..fit(heap, function) },
            |heap, function| ThreadStart { stack: heap + 8, ..fit(heap, function) },
            |heap, function| ThreadStart { stack: heap - 16, ..fit(heap, function) },
            |heap, function| ThreadStart { stack: function & !15, ..fit(heap, function) },
            |heap, function| ThreadStart { pointer: heap + 8, ..fit(heap, function) },
            |heap, function| ThreadStart { pointer: heap + (1 << 20), ..fit(heap, function) },
            |heap, function| ThreadStart { pointer: function & !4095, ..fit(heap, function) },
            |heap, function| ThreadStart { pointer: heap - 4096, ..fit(heap, function) },
        ];
        let refused = choices.iter().filter(|choose| start(cx, choose).is_err()).count();
        assert!(start(cx, fit).is_ok());
        Ok(refused as u64)
    });
    assert_eq!(refused, 11);
    drop(world);
}

#[test]
fn domains_with_threads_are_alone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = |spec: DomainSpec, more: fn(sfi_loader::Builder) -> sfi_loader::Builder| {
        let result = more(World::builder().domain(spec).host_fn("host", |_| Ok(0))).build();
        assert!(matches!(result, Err(BuildError::Spec(SpecError::Threads { .. }))), "{result:?}");
    };
    refused(spec().threads(0), |b| b);
    refused(spec().threads(257), |b| b);
    refused(spec(), |b| b.domain(DomainSpec::new("other")));
    refused(spec(), |b| b.region("r", 4096));
    refused(spec(), |b| b.cpu_limit(std::time::Duration::from_secs(1)));
    refused(spec().restart(sfi_loader::Restart::Always), |b| b);
    refused(spec().spare_bindings(1), |b| b);
    let write = DomainSpec::new("app").mode(Mode::Write).threads(2);
    refused(write, |b| b);
    let template = Template::builder(spec()).build();
    assert!(template.is_err() || template.is_ok_and(|template| template.instance().is_err()));
    // In a live world each is refused as well, and changes nothing.
    let (mut world, _) = go(|cx| Ok(u64::from(start(cx, fit).is_ok())));
    let refusals = [
        world.restart("app").unwrap_err(),
        world.reload(spec()).unwrap_err(),
        world.reload(spec().threads(1)).unwrap_err(),
        world.instantiate("app").unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, BuildError::Spec(SpecError::Threads { .. })), "{refusal:?}");
        assert!(refusal.to_string().contains("build a new world"), "{refusal}");
    }
    let go: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("go").unwrap();
    assert_eq!(go.call(&mut world, (1,)).unwrap(), 1, "it makes threads as before");
    // A domain with one thread does not become one with several.
    let refusal = single().reload(spec()).unwrap_err();
    assert!(matches!(refusal, BuildError::Spec(SpecError::Threads { .. })), "{refusal:?}");
}
