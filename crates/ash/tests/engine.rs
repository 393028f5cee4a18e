//! The engine: involuntary aborts, hostile arguments, quotas, and handlers that come and go.

mod common;
use common::{App, Bench, MODES, compile, compile_text, datagram, example, spec};
use sfi_ash::account::FAULT_CHARGE;
use sfi_ash::back::Backend;
use sfi_ash::back::ring::{NotInjected, ring};
use sfi_ash::engine::{Counts, Engine, Host, Message};
use sfi_ash::handler::{Handler, HandlerError, HandlerSpec};
use sfi_loader::Mode;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A handler that does what the first byte of the message says.
const VILLAIN: &str = r#"
#include "ash.h"
static volatile unsigned long sink;
static unsigned char buffer[64];
static int again(int deep) { if (deep < 0) return 0; volatile char room[4096]; room[0] = deep; return again(deep + 1) + room[0]; }
int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload)
{
    unsigned char *state = ash_state;
    state[0] = 77;
    buffer[0]++;
    ash_copy(ash_segment, 0, 14);
    ash_reply("no", 2);
    ash_wake(1);
    switch (bytes[payload]) {
    case 0: return buffer[0];
    case 1: for (;;) sink++;
    case 2: *(volatile int *)(bytes[payload] - 2ul) = 1; break;
    case 3: *(volatile unsigned char *)bytes = 1; break;            /* the message is read-only */
    case 4: *(volatile unsigned char *)ash_segment = 1; break;      /* the segment, too */
    case 5: return again(0);
    case 6: ((void (*)(void))0x1234)(); break;
    case 7: __builtin_trap();
    case 8: return 0;
    }
    return 1;
}
"#;

#[test]
fn involuntary_aborts_leave_no_trace() {
    for mode in MODES {
        let object = compile_text(VILLAIN, "c", mode);
        let limit = HandlerSpec { time: Duration::from_millis(20), ..spec("villain", object, mode) };
        let mut bench = Bench::with(limit);
        let kinds = [
            (1, "time limit"),
            (2, "null pointer"),
            (3, "does not allow"),
            (4, "does not allow"),
            (5, "data stack"),
            (6, "not a function"),
            (7, "illegal instruction"),
        ];
        for (what, kind) in kinds {
            assert_eq!(bench.datagram(&[what]), [[0; 0]; 0], "nothing leaves");
            let app = std::mem::take(&mut bench.app);
            assert!(app.wakes.is_empty());
            assert_eq!(app.normal.len(), 1);
            assert_eq!(app.normal[0].1, datagram(7777, &[what]), "the message goes the normal way");
            assert!(app.normal[0].0.contains(kind), "{what}: {}", app.normal[0].0);
            assert_eq!(bench.state("villain", 4096), [0; 4096]);
            assert_eq!(bench.segment("villain", 4096), [0; 4096]);
        }
        // After a fault, other memory is as when the handler was loaded: the first run counts 1.
        assert_eq!(bench.datagram(&[0]), [[0; 0]; 0]);
        assert_eq!(bench.app.normal[0].0, "Declined");
        assert_eq!(bench.state("villain", 1), [77], "a voluntary abort undoes nothing by itself");
        assert_eq!(bench.datagram(&[8]), [b"no"]);
        assert_eq!(bench.app.wakes, [("villain".to_owned(), 1)]);
    }
}

/// Calls one trusted call with the arguments in the message, and replies its result.
///
/// The functions are declared with wider arguments than in the header, so that all bits arrive.
const CALLER: &str = r#"
int ash_copy(const void *, unsigned long, unsigned long);
int ash_reply(const void *, unsigned long);
int ash_send(unsigned long, const void *, unsigned long);
int ash_wake(unsigned long);
extern unsigned char ash_state[];
extern const unsigned char ash_segment[];
struct request { unsigned long which, base, a, b, c; };
static unsigned char own[64];
static const unsigned char fixed[64] = "fixed";
int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload)
{
    struct request r;
    int result;
    __builtin_memcpy(&r, bytes + payload, sizeof r);
    const void *bases[] = {0, own, fixed, ash_state, ash_segment, bytes, (const void *)ash_handle, &r};
    const unsigned char *at = (const unsigned char *)bases[r.base & 7] + r.a;
    switch (r.which) {
    case 0: result = ash_copy(at, r.b, r.c); break;
    case 1: result = ash_reply(at, r.b); break;
    case 2: result = ash_send(r.c, at, r.b); break;
    default: result = ash_wake(r.a);
    }
    if (result != 0 && result != -1)
        return 2;
    return ash_reply(&result, sizeof result);
}
"#;

#[test]
fn hostile_arguments_of_trusted_calls() {
    for mode in MODES {
        let mut bench = Bench::with(spec("caller", compile_text(CALLER, "c", mode), mode));
        let mut ask = |which: u64, base: u64, [a, b, c]: [u64; 3]| {
            let words = [which, base, a, b, c];
            let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut replies = bench.datagram(&data);
            assert!(bench.app.normal.is_empty(), "{words:?}: {:?}", bench.app.normal);
            (i32::from_le_bytes(replies.pop().unwrap().try_into().unwrap()), replies)
        };
        const OWN: u64 = 1;
        const FIXED: u64 = 2;
        const STATE: u64 = 3;
        const SEGMENT: u64 = 4;
        const MESSAGE: u64 = 5;
        const CODE: u64 = 6;
        let far = [u64::MAX, 1 << 32, 1 << 63, u64::from(u32::MAX), 1 << 31];
        // The message has 82 bytes.
        assert_eq!(ask(0, OWN, [0, 0, 64]).0, 0);
        assert_eq!(ask(0, STATE, [4014, 0, 82]).0, 0);
        assert_eq!(ask(0, SEGMENT, [4014, 0, 82]).0, 0);
        assert_eq!(ask(0, SEGMENT, [4096, 82, 0]).0, 0, "nothing to copy");
        let wrong = [
            (OWN, [0, 0, 83]),
            (OWN, [0, 82, 1]),
            (STATE, [4015, 0, 82]),
            (SEGMENT, [4015, 0, 82]),
            (SEGMENT, [u64::MAX, 0, 2]),
            (FIXED, [0, 0, 1]),
            (MESSAGE, [0, 0, 1]),
            (CODE, [0, 0, 1]),
            (0, [0, 0, 1]),
        ];
        for (base, arguments) in wrong {
            assert_eq!(ask(0, base, arguments).0, -1, "a copy to {base} with {arguments:?}");
        }
        for number in far {
            assert_eq!(ask(0, OWN, [0, number, 1]).0, -1, "offset {number:#x}");
            assert_eq!(ask(0, OWN, [0, 1, number]).0, -1, "length {number:#x}");
            assert_eq!(ask(0, OWN, [0, number, number]).0, -1);
            assert_eq!(ask(1, OWN, [0, number, 0]).0, -1, "an answer of {number:#x} bytes");
            assert_eq!(ask(2, OWN, [0, 1, number]).0, -1, "destination {number:#x}");
        }
        assert_eq!(ask(1, FIXED, [0, 5, 0]), (0, vec![b"fixed".to_vec()]));
        assert_eq!(ask(1, STATE, [4090, 7, 0]).0, -1, "beyond the state");
        assert_eq!(ask(1, 0, [0, 1, 0]).0, -1, "null");
        assert_eq!(ask(1, OWN, [0, 8193, 0]).0, -1, "longer than any frame");
        assert_eq!(ask(1, OWN, [0, 0, 0]), (0, vec![Vec::new()]), "an empty answer");
        assert_eq!(ask(2, OWN, [0, 1, 0]).0, -1, "there are no destinations");
        assert_eq!(ask(3, 0, [u64::MAX, 0, 0]).0, 0);
    }
}

#[test]
fn a_handler_of_the_hosts_own() {
    let mut bench = Bench::new(&[]);
    let native = Handler::native(
        spec("native", Vec::new(), Mode::Write),
        Box::new(|call| {
            let mut data = [0; 4];
            let at = call.head().payload();
            if call.read(at, &mut data).is_err() || call.copy(4093, at, 4).is_ok() {
                return false;
            }
            call.copy(4092, at, 4).is_ok() && call.reply(&data) && call.wake(data[0].into())
        }),
    );
    bench.engine.install(native.unwrap()).unwrap();
    assert_eq!(bench.datagram(b"four"), [b"four"]);
    assert_eq!(bench.segment("native", 4096)[4092..], *b"four");
    assert_eq!(bench.app.wakes, [("native".to_owned(), u32::from(b'f'))]);
    assert_eq!(bench.datagram(b"two"), [[0; 0]; 0]);
    assert_eq!(bench.app.normal.len(), 1);
}

#[test]
fn the_wishes_of_one_message_are_bounded() {
    let text = r#"
        #include "ash.h"
        int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload)
        {
            unsigned sends = 0, wakes = 0, copies = 0;
            while (sends < 1000 && ash_reply(bytes, 4) == 0) sends++;
            while (wakes < 1000 && ash_wake(wakes) == 0) wakes++;
            while (copies < 100000 && ash_copy(ash_segment, 0, 1024) == 0) copies++;
            unsigned *counts = (unsigned *)ash_state;
            counts[0] = sends; counts[1] = wakes; counts[2] = copies;
            return ASH_COMMIT;
        }"#;
    let mut bench = Bench::with(spec("greedy", compile_text(text, "c", Mode::Write), Mode::Write));
    let sent = bench.datagram(&[0; 2000]);
    let counts = bench.state("greedy", 12);
    let count = |at: usize| u32::from_le_bytes(counts[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((count(0), sent.len()), (sfi_ash::MOST_SENDS, sfi_ash::MOST_SENDS));
    assert_eq!((count(4), bench.app.wakes.len()), (sfi_ash::MOST_WAKES, sfi_ash::MOST_WAKES));
    assert_eq!(count(8), sfi_ash::MOST_UNDO / 1024);
}

#[test]
fn a_flood_is_left_for_later_and_others_are_served() {
    let object = compile(&example("increment.c"), Mode::Write);
    let mut bench = Bench::new(&[("flooded", 10), ("calm", 10)]);
    let one = spec("flooded", object.clone(), Mode::Write);
    bench.install(HandlerSpec { owner: "flooded".into(), ..one.clone() });
    bench.install(HandlerSpec {
        owner: "calm".into(),
        name: "calm".into(),
        filter: "udp 8888".parse().unwrap(),
        ..one
    });
    let number = 1_u64.to_le_bytes();
    for _ in 0..100 {
        bench.take(&datagram(7777, &number));
    }
    assert_eq!(bench.take(&datagram(8888, &number)).len(), 1);
    let counts: BTreeMap<&str, Counts> = bench.engine.counts().collect();
    let flooded = counts["flooded"];
    assert_eq!((flooded.committed, flooded.deferred), (10, 90));
    assert_eq!(counts["calm"].committed, 1);
    assert_eq!(bench.app.normal.len(), 90);
    assert!(bench.app.normal.iter().all(|(reason, _)| reason == "Deferred"));
}

#[test]
fn ticks_refill_accounts() {
    let (mut injector, ring, sent) = ring(64, 2048).unwrap();
    let quotas = BTreeMap::from([("owner".to_owned(), 2)]);
    let mut engine = Engine::new(ring, Duration::from_millis(5), quotas);
    let object = compile(&example("increment.c"), Mode::Write);
    let handler = spec("increment", object, Mode::Write);
    let handler = Handler::new(handler, engine.backend().memory(), 2048).unwrap();
    engine.install(handler).unwrap();
    let mut app = App::default();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(6));
        for _ in 0..5 {
            injector.inject(&datagram(7777, &1_u64.to_le_bytes())).unwrap();
        }
        engine.poll(&mut app).unwrap();
    }
    assert_eq!((sent.try_iter().count(), app.normal.len()), (6, 9));
}

#[test]
fn faults_are_charged_to_the_owner() {
    let object = compile_text(VILLAIN, "c", Mode::Write);
    let mut bench = Bench::new(&[("owner", 100)]);
    bench.install(spec("villain", object.clone(), Mode::Write));
    bench.datagram(&[7]);
    let mut committed = 0;
    while !bench.datagram(&[8]).is_empty() {
        committed += 1;
    }
    assert_eq!(committed, 100 - FAULT_CHARGE - 1);
    // A handler with a limit of faults gets no more messages after them.
    let mut bench = Bench::with(HandlerSpec { faults: Some(3), ..spec("villain", object, Mode::Write) });
    for _ in 0..5 {
        bench.datagram(&[7]);
    }
    let reasons: Vec<&str> = bench.app.normal.iter().map(|(reason, _)| reason.split(':').next().unwrap()).collect();
    assert_eq!(reasons, ["Faulted", "Faulted", "Faulted", "Suspended", "Suspended"]);
}

#[test]
fn handlers_come_and_go_while_traffic_flows() {
    let (mut injector, ring, sent) = ring(256, 2048).unwrap();
    let memory = ring.memory().clone();
    let mut engine = Engine::new(ring, Duration::from_secs(1), BTreeMap::new());
    let control = engine.control();
    let [stop, over] = [AtomicBool::new(false), AtomicBool::new(false)];
    let plain = spec("increment", compile(&example("increment.c"), Mode::Write), Mode::Write);
    thread::scope(|scope| {
        let engine = scope.spawn(|| {
            let mut app = App::default();
            let mut handled = 0;
            while !over.load(Ordering::Acquire) || engine.backend().wait(Duration::ZERO).unwrap() {
                handled += engine.wait(&mut app, Duration::from_millis(1)).unwrap();
            }
            (handled, app)
        });
        let traffic = scope.spawn(|| {
            let mut injected = 0_usize;
            while !stop.load(Ordering::Relaxed) {
                match injector.inject(&datagram(7777, &1_u64.to_le_bytes())) {
                    Ok(()) => injected += 1,
                    Err(NotInjected::Full) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
            injected
        });
        // Answers leave through a bounded channel, which is emptied here.
        let over = &over;
        let drained = scope.spawn(move || {
            let mut answers = 0;
            while !over.load(Ordering::Acquire) {
                answers += sent.recv_timeout(Duration::from_millis(1)).iter().count();
            }
            answers
        });
        let first = Handler::new(plain.clone(), &memory, 2048).unwrap();
        let keep = first.keep();
        control.install(first).recv().unwrap().unwrap();
        for _ in 0..20 {
            // Handlers that replace another one go on with its state.
            let next = Handler::with(plain.clone(), &memory, 2048, keep.clone()).unwrap();
            control.install(next).recv().unwrap().unwrap();
            control.remove("increment").recv().unwrap().unwrap();
            let next = Handler::with(plain.clone(), &memory, 2048, keep.clone()).unwrap();
            control.install(next).recv().unwrap().unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
        let injected = traffic.join().unwrap();
        // The engine stops after the traffic.
        over.store(true, Ordering::Release);
        let (handled, app) = engine.join().unwrap();
        assert_eq!(injected, handled, "no message is lost");
        assert!(drained.join().unwrap() > 0);
        assert!(app.normal.iter().all(|(reason, _)| reason == "NoHandler"));
        let mut counter = [0; 8];
        keep.state().unwrap().read(0, &mut counter).unwrap();
        let counted = u64::from_le_bytes(counter) as usize;
        assert_eq!(counted + app.normal.len(), handled, "each message is counted or goes the normal way");
        assert!(counted > 0);
    });
}

#[test]
fn the_memory_of_a_replaced_handler_must_fit() {
    let mut bench = Bench::new(&[]);
    let object = compile(&example("increment.c"), Mode::Write);
    let one = bench.handler(spec("increment", object.clone(), Mode::Write));
    let other = HandlerSpec { state: 8192, ..spec("increment", object, Mode::Write) };
    let backend = bench.engine.backend();
    let error = Handler::with(other, backend.memory(), backend.longest(), one.keep()).unwrap_err();
    assert!(matches!(error, HandlerError::Size(name) if name == "increment"));
}

/// Answers with the frame's neighbour in the ring, if the handler can see it.
const SPY: &str = r#"
#include "ash.h"
int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload)
{
    return ash_reply(bytes + 8192 + 42, 6);
}
"#;

#[test]
fn a_private_handler_sees_only_its_own_messages() {
    let object = compile_text(SPY, "c", Mode::Full);
    let secret = |bench: &mut Bench| {
        // The next slot still holds an earlier message for somebody else.
        bench.take(&datagram(7777, b"first"));
        bench.take(&datagram(9999, b"secret"));
        for _ in 2..256 {
            bench.take(&datagram(9998, b"others"));
        }
        bench.datagram(b"spy")
    };
    let common = spec("spy", object, Mode::Full);
    let mut open = Bench::with(common.clone());
    assert_eq!(secret(&mut open), [b"secret"], "the ring is one for all");
    let mut private = Bench::with(HandlerSpec { private: true, ..common });
    assert_eq!(secret(&mut private), [[0; 0]; 0]);
    assert_eq!(private.app.normal.last().unwrap().0, "Declined", "the call refused the range");
}

#[test]
fn a_handler_without_its_function_and_one_that_was_never_rewritten() {
    let mut bench = Bench::new(&[]);
    let backend = bench.engine.backend();
    let (memory, longest) = (backend.memory().clone(), backend.longest());
    let empty = compile_text("int other(void) { return 0; }", "c", Mode::Write);
    let error = Handler::new(spec("empty", empty, Mode::Write), &memory, longest).unwrap_err();
    assert!(error.to_string().contains("empty"), "{error}");
    let raw = common::gcc(&example("increment.c"), "-c");
    let error = Handler::new(spec("raw", raw, Mode::Write), &memory, longest).unwrap_err();
    assert!(matches!(error, HandlerError::Build { .. }), "{error:?}");
}

/// An application that runs another engine on the same thread when it is woken.
struct Waking(Bench, Vec<Vec<u8>>);

impl Host for Waking {
    fn normal(&mut self, _: &Message<'_>) {}

    fn wake(&mut self, _: &str, value: u32) {
        // The initialiser of a new handler makes trusted calls, too.
        let object = compile_text(&format!("{VILLAIN}{START}"), "c", Mode::Write);
        self.0.install(HandlerSpec { priority: value as i32, ..spec("started", object, Mode::Write) });
        let answers = self.0.datagram(&[8]);
        self.1.extend(answers);
    }
}

/// An initialiser that makes every trusted call. There is no message.
const START: &str = r#"
__attribute__((constructor)) static void start(void)
{
    if (ash_copy(ash_state, 0, 14) != -1 || ash_reply("no", 2) != -1 || ash_wake(7) != -1)
        __builtin_trap();
}
"#;

#[test]
fn a_woken_application_runs_other_handlers() {
    let mut bench = Bench::with(spec("villain", compile_text(VILLAIN, "c", Mode::Write), Mode::Write));
    let mut host = Waking(Bench::new(&[]), Vec::new());
    for round in 1..3 {
        bench.injector.inject(&datagram(7777, &[8])).unwrap();
        assert_eq!(bench.engine.poll(&mut host).unwrap(), 1);
        assert_eq!(bench.sent.try_iter().count(), 1, "its own answer leaves");
        assert_eq!(host.1.len(), round, "and that of the other engine");
    }
}
