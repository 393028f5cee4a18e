//! Berths: the world of a thread that ended by itself takes the domain's next thread. Nothing of
//! the last thread reaches it.

mod common;
use common::{assemble, function, maps};
use sfi_loader::{
    Berth, BuildError, CallError, DomainSpec, FaultKind, FaultThread, HostCall, HostError, Import, Thread, ThreadStart,
    TypedFn, World,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, mpsc};

/// Held by each test, because mappings and threads belong to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls of `deep` in each other.
const DEEP: u64 = 20_000;
/// The largest area of the loader's that holds return addresses.
const LARGEST: u64 = 4 << 20;

/// `go()` passes the pointer of `run` to the host. A thread runs `run(way)`: see [`WAYS`].
fn program() -> Vec<u8> {
    let mut text = function("go", "lea run(%rip),%rdi\ncall host\nret");
    text += &function("run", &format!("mov %edi,%eax\ncmp $1,%eax\nje leaves\ncmp $2,%eax\nje faults\n{MORE}"));
    text += &function("leaves", "mov $1,%edi\ncall host\nud2");
    text += &function("faults", "xor %edi,%edi\nmov %rdi,%gs:16(%edi)\nret");
    // The scratch words of the TCB page, and what the last thread wrote there.
    text += &function("marks", "mov %gs:__sfi_tcb+0x500,%rax\naddr32 movl $77,%gs:__sfi_tcb+0x500\nret");
    text += &function("sees", "mov %gs:__sfi_tcb,%rax\nret");
    text += &function("begins", &format!("mov ${DEEP},%edi\ncall deep\nxor %eax,%eax\nret"));
    text += &function("deep", "test %edi,%edi\nje 1f\ndec %edi\ncall deep\nret\n1: mov $5,%edi\ncall host\nret");
    text += &function("local", "mov %gs:own,%rax\naddr32 movl $999,%gs:own\nret");
    text += ".section .tdata,\"awT\",@progbits\nown: .quad 0x1234\n";
    assemble(&text)
}

const MORE: &str = "cmp $3,%eax\nje marks\ncmp $4,%eax\nje sees\ncmp $5,%eax\nje begins\ncmp $6,%eax\nje local\nret";

/// The ways of `run`.
mod ways {
    pub const RETURNS: u64 = 0;
    pub const LEAVES: u64 = 1;
    pub const FAULTS: u64 = 2;
    pub const MARKS: u64 = 3;
    pub const SEES: u64 = 4;
    pub const DEEP: u64 = 5;
    pub const LOCAL: u64 = 6;
}

fn spec() -> DomainSpec {
    let import = Import::host("host").signature("(int) -> int");
    DomainSpec::new("app").object("app.o", program()).import("host", import).memory(1 << 20).threads_exposing(4)
}

/// A start at one of two places of the heap.
fn at(cx: &HostCall<'_>, place: u64, way: u64, number: u64) -> ThreadStart {
    let heap = cx.heap().start + place * 0x10000;
    ThreadStart { function: cx.arg(0), argument: way, stack: heap + 0x4000, pointer: heap + 0x8000, number }
}

/// Makes a thread whose host function ends it if it asks.
fn first(cx: &HostCall<'_>, start: &ThreadStart) -> Thread {
    let host = |cx: &mut HostCall<'_>| match cx.arg(0) {
        1 => Err(HostError::end_caller(0)),
        _ => Ok(0),
    };
    cx.thread(start, host).unwrap()
}

/// Runs a thread on a thread of the host.
fn run(thread: Thread) -> (Result<u64, CallError>, Option<Berth>) {
    std::thread::spawn(move || thread.run_and_leave()).join().unwrap()
}

/// Runs a thread in a berth. Returns its result and its berth.
fn again(cx: &HostCall<'_>, berth: Berth, place: u64, way: u64) -> (u64, Berth) {
    let (result, berth) = run(cx.thread_in(berth, &at(cx, place, way, 3)).unwrap());
    (result.unwrap(), berth.unwrap())
}

/// Calls a host function with the pointer of `run`, in a new world.
fn within(mut test: impl FnMut(&mut HostCall<'_>) + Send + 'static) -> World {
    let host = move |cx: &mut HostCall<'_>| {
        test(cx);
        Ok(0)
    };
    let mut world = World::builder().domain(spec()).host_fn("host", host).build().unwrap();
    let go: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("go").unwrap();
    go.call(&mut world, ()).unwrap();
    world
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_thread_that_ends_by_itself_leaves_a_berth() {
    let _alone = alone();
    within(|cx| {
        let (result, berth) = run(first(cx, &at(cx, 0, ways::RETURNS, 2)));
        assert_eq!(result, Ok(0));
        let (result, berth) = run(cx.thread_in(berth.unwrap(), &at(cx, 1, ways::LEAVES, 3)).unwrap());
        let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
        assert_eq!(fault.kind, FaultKind::Exit(0));
        let pointer = again(cx, berth.unwrap(), 0, ways::SEES).0;
        assert_eq!(pointer, cx.heap().start + 0x8000, "the thread pointer of the last one");
    });
}

/// A fault is that of the thread that runs, and leaves nothing. So does a thread that is stopped.
#[test]
fn a_thread_that_faults_or_is_stopped_leaves_none() {
    let _alone = alone();
    within(|cx| {
        let (_, berth) = run(first(cx, &at(cx, 0, ways::RETURNS, 2)));
        let (result, berth) = run(cx.thread_in(berth.unwrap(), &at(cx, 0, ways::FAULTS, 7)).unwrap());
        let Err(CallError::Fault(fault)) = result else { panic!("{result:?}") };
        assert!(matches!(fault.kind, FaultKind::Memory(_)), "{fault}");
        assert_eq!(fault.thread, Some(FaultThread::Further(7)));
        assert!(berth.is_none());
        let thread = first(cx, &at(cx, 0, ways::RETURNS, 2));
        thread.stopper().unwrap().stop();
        assert!(run(thread).1.is_none(), "it was stopped");
    });
}

#[test]
fn nothing_of_the_last_thread_is_left() {
    let _alone = alone();
    within(|cx| {
        let (result, berth) = run(first(cx, &at(cx, 0, ways::MARKS, 2)));
        assert_eq!(result, Ok(0));
        let (seen, berth) = again(cx, berth.unwrap(), 0, ways::MARKS);
        assert_eq!(seen, 0, "the TCB page");
        // The locals begin as the image has them, at the same place and at another one.
        let mut berth = Some(berth);
        for place in [0, 0, 1, 0] {
            let (seen, next) = again(cx, berth.take().unwrap(), place, ways::LOCAL);
            assert_eq!(seen, 0x1234, "place {place}");
            let written = cx.read(cx.heap().start + place * 0x10000 + 0x7000, 0x1000).unwrap();
            let own = written.chunks_exact(8).filter(|word| **word == 999_u64.to_le_bytes());
            assert_eq!(own.count(), 1, "they are not below the thread pointer");
            berth = Some(next);
        }
    });
}

/// Counts the words of the loader's own areas that lie in a window.
fn words_in(window: u64) -> usize {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut count = 0;
    for line in maps().iter().filter(|line| line.contains(" rw-p 00000000 00:00 0")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|x| u64::from_str_radix(x, 16).unwrap());
        let mut bytes = vec![0; (to - from).min(LARGEST) as usize];
        if to - from <= LARGEST && memory.read_exact_at(&mut bytes, from).is_ok() {
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            count += words.filter(|word| word >> 32 == window >> 32).count();
        }
    }
    count
}

/// The return addresses of the last thread are not kept.
#[test]
fn the_control_stack_is_given_back() {
    let _alone = alone();
    within(|cx| {
        let window = cx.heap().start;
        let (send, receive) = mpsc::channel();
        let host = move |_: &mut HostCall<'_>| {
            send.send(words_in(window)).unwrap();
            Ok(0)
        };
        let thread = cx.thread(&at(cx, 0, ways::DEEP, 2), host).unwrap();
        let (result, berth) = run(thread);
        assert_eq!(result, Ok(0));
        let (during, after) = (receive.recv().unwrap(), words_in(window));
        assert!(during as u64 > DEEP && after < 1000, "{during} words, and {after} afterwards");
        drop(berth);
    });
}

#[test]
fn a_berth_is_for_its_own_domain_only() {
    let _alone = alone();
    let (send, receive) = mpsc::channel();
    let first_world = within(move |cx| {
        let berth = run(first(cx, &at(cx, 0, ways::RETURNS, 2))).1.unwrap();
        send.send(berth).unwrap();
    });
    let berth = Mutex::new(Some(receive.recv().unwrap()));
    within(move |cx| {
        let berth = berth.lock().unwrap().take().unwrap();
        let refused = cx.thread_in(berth, &at(cx, 0, ways::RETURNS, 2)).unwrap_err();
        let BuildError::Initialiser { error, .. } = &refused else { panic!("{refused}") };
        assert_eq!(**error, CallError::WrongWorld);
    });
    drop(first_world);
}

/// Starts that a domain must not choose are refused as for a thread in a world of its own.
#[test]
fn a_start_is_checked_again() {
    let _alone = alone();
    within(|cx| {
        for change in [
            |start: &mut ThreadStart| start.function += 1,
            |start: &mut ThreadStart| start.stack = 16,
            |start: &mut ThreadStart| start.pointer += 8,
            |start: &mut ThreadStart| start.pointer += 1 << 20,
        ] {
            let berth = run(first(cx, &at(cx, 0, ways::RETURNS, 2))).1.unwrap();
            let mut start = at(cx, 0, ways::RETURNS, 3);
            change(&mut start);
            assert!(cx.thread_in(berth, &start).is_err(), "{start:?}");
        }
    });
}

#[test]
fn ten_thousand_threads_take_one_world() {
    let _alone = alone();
    let before = maps().len();
    let world = within(|cx| {
        let mut berth = run(first(cx, &at(cx, 0, ways::RETURNS, 2))).1;
        let during = maps().len();
        for number in 3..10_003 {
            let place = number % 2;
            let thread = cx.thread_in(berth.take().unwrap(), &at(cx, place, ways::LEAVES, number)).unwrap();
            berth = thread.run_and_leave().1;
        }
        // The host's allocator may have taken some.
        assert!(maps().len() <= during + 4, "{during} mappings, and {} afterwards", maps().len());
    });
    drop(world);
    assert!(maps().len() <= before + 4, "{before} mappings, and {} afterwards", maps().len());
    let named = |line: &&String| line.contains("memfd:");
    assert_eq!(maps().iter().filter(named).count(), 0);
}
