//! Every way out of a crossing, with a canary of each party in every register that the machine has.
//!
//! A watcher calls a middle domain. The middle calls a domain behind it or the host. One of them
//! returns, faults, panics, overstays its time, or is abandoned. Then the watcher stores all
//! registers. The cases are the product of the exits ([`EXITS`]), the trust of the watcher and of
//! the middle in their servers, the groups of registers that the middle's text names, and the
//! modes.
//!
//! [`Allowed`] describes the values that the watcher may find. It follows the words of the
//! contract, not the gates' flags: the watcher's own values, zeroes, and the values that the trust
//! levels let pass at a return. A failing exit lets nothing pass at any level.
//!
//! `SFI_EXITS=all` runs the whole product in all variants of the gates. The normal run leaves out
//! most cases that wait for a clock, and the variants for other machines.

mod common;
mod registers;

use common::{assemble, function};
use registers::canary::{BACK, Canary, HOST, MIDDLE, OWN, host_control};
use registers::*;
use sfi_loader::{
    Budget, CallError, DomainSpec, HostError, Import, Limits, Machine, Manage, Mode, Protection, Restart, Trust,
    TypedFn, World,
};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// The end of the watcher's call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The middle returns after the domain behind it returned.
    Returned,
    /// The middle returns after its own call failed or went to the host.
    Recovered,
    /// The call fails.
    Failed,
    /// The call goes to a host function, which returns.
    Host,
    /// The watcher ends too, so its registers are not compared.
    Over,
}

/// The limits under which the call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    /// No limit.
    None,
    /// A time limit, which the call exceeds.
    Limit,
    /// A budget for each server, which one exceeds.
    Budget,
}

/// A function of the watcher, the function of the middle (`m_`) or of the host (`h_`) that it
/// calls, and the end of the call.
struct Exit {
    name: &'static str,
    end: End,
    clock: Clock,
    /// The middle's function.
    middle: &'static str,
}

const fn exit(name: &'static str, end: End, clock: Clock, middle: &'static str) -> Exit {
    Exit { name, end, clock, middle }
}

/// The exits. `PASS` stands for the middle's canaries where a caller may find them, `DIE` for
/// canaries everywhere.
const EXITS: [Exit; 26] = [
    exit("m_return", End::Returned, Clock::None, "PASS call leave\nret"),
    exit("m_fault", End::Failed, Clock::None, "DIE ud2"),
    exit("m_wild", End::Failed, Clock::None, "DIE xor %eax,%eax\nmovl $0,%gs:16(%eax)\nret"),
    exit("m_overflow", End::Failed, Clock::None, "DIE 1: call 1b\nret"),
    exit("m_inner_fault", End::Recovered, Clock::None, "PASS call ruin\nret"),
    exit("m_dead", End::Recovered, Clock::None, "PASS call ruin\ncall leave\nret"),
    exit("m_several", End::Failed, Clock::None, "call back_1\nret"),
    exit("m_deep", End::Failed, Clock::None, "call deep_die\nret"),
    exit("m_deep_return", End::Failed, Clock::None, "call deep_return\nret"),
    exit("m_nested", End::Failed, Clock::None, "call h_nested\nret"),
    exit("m_nested_deep", End::Failed, Clock::None, "call nested_1\nret"),
    exit("m_host", End::Recovered, Clock::None, "PASS call h_plain\nret"),
    exit("m_host_error", End::Recovered, Clock::None, "PASS call h_error\nret"),
    exit("m_unbound", End::Recovered, Clock::None, "PASS call unbound\nret"),
    exit("h_panic", End::Host, Clock::None, ""),
    exit("h_enter", End::Host, Clock::None, ""),
    exit("unbound", End::Failed, Clock::None, ""),
    exit("m_host_exit", End::Failed, Clock::None, "DIE call h_exit\nret"),
    exit("m_spin", End::Failed, Clock::Budget, "DIE 1: jmp 1b\nret"),
    exit("m_inner_spin", End::Recovered, Clock::Budget, "PASS call spin\nret"),
    exit("m_abandoned", End::Failed, Clock::Budget, "call back_spin\nret"),
    exit("m_late", End::Failed, Clock::Limit, "DIE 1: jmp 1b\nret"),
    exit("m_late_host", End::Failed, Clock::Limit, "call h_slow\nret"),
    exit("m_late_inner", End::Recovered, Clock::Limit, "PASS call spin\nret"),
    exit("m_late_abandoned", End::Failed, Clock::Limit, "call back_spin\nret"),
    exit("m_over", End::Over, Clock::Limit, "call back_over\nret"),
];

/// Assembles the domain behind the middle. It is hostile and changes every register.
fn back(width: Width) -> String {
    let ruin = BACK.everywhere(width);
    let all = [
        ("leave", format!("{}{ruin}ret", dump(width))),
        ("ruin", format!("{ruin}ud2")),
        ("spin", format!("{ruin}1: jmp 1b\nret")),
        ("back_1", format!("call die\n{ruin}ret")),
        ("back_spin", format!("call slow_die\n{ruin}ret")),
        ("back_over", format!("call slow_die\n{ruin}1: jmp 1b\nret")),
        ("deep_die", format!("call m_again_die\n{ruin}ud2")),
        ("again_die", format!("call die\n{ruin}ud2")),
        ("deep_return", format!("call m_again_return\n{ruin}ret")),
        ("again_return", format!("call die\n{ruin}ret")),
        ("nested_1", format!("call h_nested\n{ruin}ret")),
        ("b_panic", format!("{ruin}call h_panicking\nret")),
    ];
    let functions: String = all.iter().map(|(name, body)| function(name, body)).collect();
    data() + &BACK.data() + &functions
}

/// The functions of the domain behind the middle that the middle calls.
const BEHIND: [&str; 12] = [
    "leave",
    "ruin",
    "spin",
    "back_1",
    "back_spin",
    "back_over",
    "deep_die",
    "again_die",
    "deep_return",
    "again_return",
    "nested_1",
    "b_panic",
];

/// The groups of registers that a text may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Groups(u32);

impl Groups {
    const PRESERVED: u32 = 1;
    const VECTORS: u32 = 2;
    const ZMM: u32 = 4;
    const X87: u32 = 8;
    const MXCSR: u32 = 16;
    const ALL: u32 = 31;

    fn has(self, group: u32) -> bool {
        self.0 & group != 0
    }

    /// Puts a canary where a caller may find it, so not into preserved registers.
    fn pass(self, c: &Canary, width: Width) -> String {
        let mut body = String::new();
        if self.has(Self::X87) {
            body += &c.x87_residue();
        }
        if self.has(Self::VECTORS | Self::ZMM) {
            body += &c.vectors(width.min(Width::Ymm));
        }
        if self.has(Self::ZMM) {
            body += &c.zmm(width);
        }
        body + &c.volatile()
    }

    /// Puts a canary everywhere.
    fn die(self, c: &Canary, width: Width) -> String {
        let mut body = String::new();
        if self.has(Self::MXCSR) {
            body += &c.mxcsr();
        }
        if self.has(Self::X87) {
            body += &c.x87_pending();
        }
        if self.has(Self::PRESERVED) {
            body += &c.preserved();
        }
        self.pass(c, width).replace(&c.x87_residue(), "") + &body
    }
}

fn middle(groups: Groups, width: Width) -> String {
    let (pass, die) = (groups.pass(&MIDDLE, width), groups.die(&MIDDLE, width));
    let body = |text: &str| text.replace("PASS ", &pass).replace("DIE ", &die);
    let mut text = data() + &MIDDLE.data();
    for exit in EXITS.iter().filter(|e| !e.middle.is_empty()) {
        text += &function(exit.name, &body(exit.middle));
    }
    for (name, code) in [
        ("die", "DIE ud2"),
        ("slow_die", "DIE 1: jmp 1b\nret"),
        ("m_again_die", "call again_die\nret"),
        ("m_again_return", "call again_return\nret"),
        ("m_panic", "PASS call b_panic\nret"),
    ] {
        text += &function(name, &body(code));
    }
    text
}

/// Assembles the watcher. It names every register, plants its own canary, calls, and stores the
/// registers that it finds.
fn watcher(width: Width) -> String {
    let mut text = data() + &OWN.data();
    for exit in &EXITS {
        text += &function(
            &format!("w_{}", exit.name),
            &format!("{}call {}\n{}ret", OWN.before_a_call(width), exit.name, dump(width)),
        );
    }
    // A stack argument at an unmapped place. r15 comes back from the gate.
    let call = format!(
        "mov %r15,%gs:kept(%eip)\n{}mov $64,%r15d\ncall nine\nmov %gs:kept(%eip),%r15\n{}ret\n",
        OWN.before_a_call(width),
        dump(width)
    );
    text + &function("w_nine", &call) + ".bss\nkept: .quad 0\n"
}

/// Returns an object, assembled once.
fn object(text: String) -> Vec<u8> {
    static DONE: LazyLock<Mutex<HashMap<String, Vec<u8>>>> = LazyLock::new(Mutex::default);
    if let Some(done) = DONE.lock().unwrap().get(&text) {
        return done.clone();
    }
    let made = assemble(&text);
    DONE.lock().unwrap().insert(text, made.clone());
    made
}

/// One world's part of the product.
#[derive(Clone, Copy, Debug)]
struct Case {
    machine: Machine,
    width: Width,
    outer: Trust,
    inner: Trust,
    groups: Groups,
    mode: Mode,
    clock: Clock,
}

/// The first limit of a call, and the budget. A call that does not reach its waiting place within
/// it is made again with twice the limit, so a busy machine needs no longer one.
const LIMIT: Duration = Duration::from_millis(2);

fn world(case: &Case) -> World {
    let Case { width, outer, inner, groups, mode, .. } = *case;
    let to =
        |domain: &str, name: &str, trust| Import::domain(domain, name).signature("() -> void").trust(trust).on_fault(3);
    let host = |name: &str| Import::host(name).signature("() -> int").on_fault(3);
    let mut front = DomainSpec::new("watcher").mode(mode).object("watcher.o", object(watcher(width)));
    for exit in &EXITS {
        front = match exit.end {
            End::Host => front.import(exit.name, host(exit.name)),
            _ if exit.name == "unbound" => front.import("unbound", to("middle", "die", outer)),
            _ => front.import(exit.name, to("middle", exit.name, outer)),
        };
    }
    let nine = format!("({}) -> void", ["int"; 9].join(", "));
    front = front.import("nine", Import::domain("middle", "m_return").signature(nine).trust(outer).on_fault(3));
    let mut centre = DomainSpec::new("middle").mode(mode).object("middle.o", object(middle(groups, width)));
    for name in BEHIND {
        centre = centre.import(name, to("back", name, inner));
    }
    centre = centre.import("unbound", to("back", "leave", inner));
    for name in ["h_nested", "h_plain", "h_error", "h_exit", "h_slow"] {
        centre = centre.import(name, host(name));
    }
    let mut last = DomainSpec::new("back").mode(mode).object("back.o", object(back(width)));
    for name in ["die", "slow_die", "m_again_die", "m_again_return"] {
        last = last.import(name, to("middle", name, Trust::MutualDistrust));
    }
    last = last.import("h_nested", host("h_nested")).import("h_panicking", host("h_panicking"));
    if case.clock == Clock::Budget {
        let budget = Budget { cpu: Some(LIMIT), ..Budget::default() };
        (centre, last) = (centre.budget(budget), last.budget(budget));
    }
    let builder = World::builder().machine(case.machine).timed();
    let mut world = builder
        .domain(front)
        .domain(centre)
        .domain(last)
        .host_fn("h_plain", move |_| {
            HOST.plant_here(width);
            Ok(0)
        })
        .host_fn("h_error", move |_| {
            HOST.plant_here(width);
            Err(HostError::new("an error"))
        })
        .host_fn("h_exit", move |_| {
            HOST.plant_here(width);
            Err(HostError::end_caller(0))
        })
        .host_fn("h_slow", move |_| {
            std::thread::sleep(WAIT.get() + WAIT.get() / 16);
            HOST.plant_here(width);
            Ok(0)
        })
        .host_fn("h_nested", move |cx| {
            let die: TypedFn<fn()> = cx.export("middle", "die").unwrap();
            assert!(matches!(die.call(cx, ()), Err(CallError::Fault(_))));
            HOST.plant_here(width);
            Ok(0)
        })
        .host_fn("h_panicking", move |_| {
            HOST.plant_here(width);
            resume_unwind(Box::new("planned"))
        })
        .host_fn("h_panic", move |cx| {
            let panic: TypedFn<fn()> = cx.export("middle", "m_panic").unwrap();
            assert!(catch_unwind(AssertUnwindSafe(|| panic.call(cx, ()))).is_err());
            HOST.plant_here(width);
            Ok(0)
        })
        .host_fn("h_enter", move |cx| {
            let enter: TypedFn<fn()> = cx.export("middle", "m_return").unwrap();
            enter.call(cx, ()).unwrap();
            HOST.plant_here(width);
            Ok(0)
        })
        .build()
        .unwrap();
    for client in ["watcher", "middle"] {
        world.disconnect(client, "unbound").unwrap();
    }
    world
}

thread_local! {
    /// The limit of this thread's call.
    static WAIT: Cell<Duration> = const { Cell::new(LIMIT) };
}

/// Makes the call, and returns the registers that the watcher found.
fn run(world: &mut World, case: &Case, name: &str, end: End) -> Dump {
    let call: TypedFn<fn()> = world.domain("watcher").unwrap().export(&format!("w_{name}")).unwrap();
    let mut last = String::new();
    // On a busy machine the limit may pass before the call reaches its waiting place.
    for attempt in 0..14 {
        let before = host_control();
        let result = if case.clock == Clock::Limit {
            WAIT.set(LIMIT * (1 << attempt));
            call.call_within(world, Limits { wall: Some(WAIT.get()), ..Limits::default() }, ())
        } else {
            call.call(world, ())
        };
        assert_eq!(host_control(), before, "the host's control state: {name}, {case:?}");
        let dead = ["watcher", "middle"].map(|name| world.domain(name).unwrap().is_dead());
        let planned = dead == [end == End::Over, matches!(end, End::Over | End::Failed)];
        last = format!("{result:?}, dead: {dead:?}");
        let seen = take(world, "watcher");
        revive(world);
        if case.clock == Clock::None {
            assert_eq!(result, Ok(()), "{name}, {case:?}");
            return seen;
        }
        if result.is_ok() == (end != End::Over) && planned {
            return seen;
        }
    }
    panic!("the call never came to where it waits: {name}, {case:?}, {last}");
}

fn revive(world: &mut World) {
    for name in ["watcher", "middle", "back"] {
        if world.domain(name).unwrap().is_dead() {
            world.restart(name).unwrap();
        }
        world.refill(name).unwrap();
    }
}

/// The values that may be found beside zeroes and the finder's own.
struct Allowed {
    /// In the result registers, vectors, zmm16-31 and masks, and the x87 registers.
    passing: [Vec<Canary>; 4],
    /// In the preserved registers.
    preserved: Vec<Canary>,
    /// Of MXCSR and of the x87 control word.
    control: [Vec<Canary>; 2],
}

impl Allowed {
    fn nothing() -> Self {
        Self { passing: Default::default(), preserved: Vec::new(), control: Default::default() }
    }

    /// Returns the values that may be found after a call, by the words of the trust levels. A
    /// server's values pass where client and server trust each other. Preserved registers are safe
    /// from a server that its client does not trust, and from one whose client does not name them.
    /// State that the middle does not name passes through it to nobody.
    fn after(case: &Case, end: End) -> Self {
        let mut all = Self::nothing();
        if !matches!(end, End::Returned | End::Recovered) {
            return all;
        }
        let groups = case.groups;
        let vectors = groups.has(Groups::VECTORS | Groups::ZMM);
        let named = [true, vectors, groups.has(Groups::ZMM), groups.has(Groups::X87)];
        let behind = end == End::Returned && case.inner == Trust::TrustedBoth;
        if case.outer == Trust::TrustedBoth {
            for (named, passing) in named.into_iter().zip(&mut all.passing) {
                passing.extend(named.then_some(MIDDLE));
                passing.extend((named && behind).then_some(BACK));
            }
            if behind {
                all.control[0].extend(groups.has(Groups::MXCSR).then_some(BACK));
                all.control[1].extend(groups.has(Groups::X87).then_some(BACK));
            }
        }
        let trusted = |t: Trust| t != Trust::MutualDistrust;
        let changed = end == End::Returned && trusted(case.outer) && trusted(case.inner);
        all.preserved.extend((changed && groups.has(Groups::PRESERVED)).then_some(BACK));
        all
    }
}

/// Says whether a domain's text has a window offset.
fn in_text(world: &World, domain: &str, offset: u64) -> bool {
    let segments = world.domain(domain).unwrap().segments();
    segments.iter().any(|s| s.protection == Protection::ReadExecute && (s.offset..s.end()).contains(&offset))
}

fn check(seen: &Dump, world: &World, case: &Case, allowed: &Allowed, result: Option<u64>, what: &str) {
    let [results, vectors, zmm, x87] = &allowed.passing;
    let one_of = |list: &[Canary], value: u64| list.iter().any(|c| c.word == value);
    let at = |register: &str| format!("{register}: {what}, {case:?}");
    let base = world.domain("watcher").unwrap().secret_base();
    for r in GPRS {
        let value = seen.gpr(r);
        if r == "r15" {
            assert_eq!(value >> 32, base >> 32, "{}", at(r));
        } else if PRESERVED.contains(&r) {
            assert!(value == OWN.word || one_of(&allowed.preserved, value), "{value:#x} in {}", at(r));
        } else if let ("rax", Some(result)) = (r, result) {
            assert_eq!(value, result, "{}", at(r));
        } else {
            // A trusted middle hands on the result of its own call.
            let failed = r == "rax" && value == 3 && !results.is_empty();
            let passes = failed || ["rax", "rdx"].contains(&r) && one_of(results, value);
            assert!(value == 0 || passes, "{value:#x} in {}", at(r));
        }
    }
    for register in 0..32 {
        // xmm0-15 never hold the watcher's values after a call that clears them.
        let (list, own) = if register < 16 { (vectors, !vectors.is_empty()) } else { (zmm, true) };
        for word in 0..seen.words(case.width, register) {
            let value = seen.word(VECTORS + 64 * register + 8 * word);
            let passes = value == 0 || (own && value == OWN.word) || one_of(list, value);
            assert!(passes, "{value:#x} in {}", at(&format!("vector {register}, word {word}")));
        }
    }
    if case.width == Width::Zmm {
        for k in 0..8 {
            let value = seen.word(MASKS + 8 * k);
            assert!(value == 0 || value == OWN.word || one_of(zmm, value), "{value:#x} in {}", at(&format!("k{k}")));
        }
    }
    let control = |list: &[Canary]| std::iter::once(OWN).chain(list.iter().copied()).collect::<Vec<_>>();
    let (mxcsr, list) = (seen.mxcsr(), control(&allowed.control[0]));
    assert!(list.iter().any(|c| c.mxcsr == mxcsr), "{mxcsr:#x} in {}", at("MXCSR"));
    let list = control(&allowed.control[1]);
    let image = seen.x87();
    assert!(list.iter().any(|c| c.control_word == image.control), "{:#x} in {}", image.control, at("x87 control"));
    if !x87.contains(&BACK) {
        assert_eq!((image.status & 0xb8ff, image.tag), (0, 0xffff), "{}", at("x87 status and tag"));
        let own = world.domain("watcher").unwrap().symbol(OWN.symbol()).unwrap().0 as u32;
        let last = x87.iter().map(|c| world.domain("middle").unwrap().symbol(c.symbol()).unwrap().0 as u32);
        assert!(
            image.operand == 0 || image.operand == own || last.into_iter().any(|l| l == image.operand),
            "{}",
            at("x87 operand")
        );
        // Some processors name the last operand only after an exception (SDM volume 1, 8.1.8), and
        // the last instruction always.
        let domains = ["watcher"].into_iter().chain((!x87.is_empty()).then_some("middle"));
        let place = u64::from(image.instruction);
        let passes = place == 0 || domains.into_iter().any(|name| in_text(world, name, place));
        assert!(passes, "{place:#x} in {}", at("x87 instruction"));
    }
    for (i, value) in image.registers.iter().enumerate() {
        let found = [OWN].iter().chain(x87).any(|c| *value == c.extended());
        // A domain that may leave the x87 stack to another may leave results there.
        let passes = *value == [0; 10] || found || x87.contains(&BACK);
        assert!(passes, "{value:x?} in {}", at(&format!("x87 register {i}")));
    }
    check_flags(seen, &at("flags"));
}

/// Checks the flags: the gates' own last result is zero, and AF is undefined.
fn check_flags(seen: &Dump, what: &str) {
    assert_eq!(seen.flags() & 0xffd5, 0x44, "{what}");
}

/// Checks the registers of the domain behind the middle when it is entered. In groups that the
/// middle names it sees the middle's values if the middle trusts it. It also sees the watcher's
/// values there if the watcher trusts the middle too.
fn check_entry(seen: &Dump, world: &World, case: &Case) {
    let trusted = |t: Trust| t != Trust::MutualDistrust;
    let vectors = case.groups.has(Groups::VECTORS | Groups::ZMM);
    let groups = [case.groups.has(Groups::PRESERVED), vectors, case.groups.has(Groups::ZMM)];
    let allowed = groups.map(|named| {
        let middle = (named && trusted(case.inner)).then_some(MIDDLE.word);
        let own = (named && trusted(case.inner) && trusted(case.outer)).then_some(OWN.word);
        [middle, own]
    });
    let passes = |list: &[Option<u64>], value: u64| value == 0 || list.contains(&Some(value));
    let base = world.domain("back").unwrap().secret_base();
    let volatile = [trusted(case.inner).then_some(MIDDLE.word)];
    for r in GPRS {
        let value = seen.gpr(r);
        let fine = match r {
            "r15" => value >> 32 == base >> 32,
            "rax" | "r10" | "r11" => value == 0,
            r if PRESERVED.contains(&r) => passes(&allowed[0], value),
            _ => passes(&volatile, value),
        };
        assert!(fine, "{value:#x} in {r} at the entry: {case:?}");
    }
    for register in 0..32 {
        let list = if register < 16 { &allowed[1] } else { &allowed[2] };
        for word in 0..seen.words(case.width, register) {
            let value = seen.word(VECTORS + 64 * register + 8 * word);
            assert!(passes(list, value), "{value:#x} in vector {register}, word {word} at the entry: {case:?}");
        }
    }
    if case.width == Width::Zmm {
        let values = (0..8).map(|k| seen.word(MASKS + 8 * k));
        assert!(values.into_iter().all(|value| passes(&allowed[2], value)), "masks at the entry: {case:?}");
    }
    check_flags(seen, &format!("flags at the entry: {case:?}"));
    if case.inner != Trust::TrustedBoth {
        assert_eq!(seen.mxcsr(), 0x1f80, "at the entry: {case:?}");
        seen.check_x87(0x37f);
    }
}

fn all() -> bool {
    std::env::var("SFI_EXITS").is_ok_and(|what| what == "all")
}

/// Returns the product: with every set of groups if `whole`, otherwise with none, each, and all of
/// them.
fn cases(clock: Clock, whole: bool) -> Vec<Case> {
    let here = (Machine::detect(), *widths().last().unwrap());
    let machines = if all() { variants() } else { vec![here] };
    let mut cases = Vec::new();
    for (machine, width) in machines {
        let wide = width == Width::Zmm;
        for groups in 0..=Groups::ALL {
            if (groups & Groups::ZMM != 0 && !wide) || !(whole || groups.count_ones() <= 1 || groups == Groups::ALL) {
                continue;
            }
            for outer in Trust::ALL {
                for inner in Trust::ALL {
                    for mode in [Mode::Write, Mode::Full] {
                        cases.push(Case { machine, width, outer, inner, groups: Groups(groups), mode, clock });
                    }
                }
            }
        }
    }
    cases
}

/// Runs the product. Reports the number of failed cases of each exit, after the first of each.
fn explore(clock: Clock, whole: bool) {
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    let (start, mut calls) = (Instant::now(), 0);
    let cases = cases(clock, whole);
    for case in &cases {
        let mut world = world(case);
        let mut verdict = |name: &'static str, check: &dyn Fn()| {
            if catch_unwind(AssertUnwindSafe(check)).is_err() {
                *failures.entry(name).or_default() += 1;
            }
        };
        for exit in EXITS.iter().filter(|e| e.clock == clock) {
            let seen = run(&mut world, case, exit.name, exit.end);
            calls += 1;
            let result = match exit.end {
                End::Over => continue,
                End::Failed => Some(3),
                End::Host => Some(0),
                _ => None,
            };
            let allowed = Allowed::after(case, exit.end);
            verdict(exit.name, &|| check(&seen, &world, case, &allowed, result, exit.name));
            if exit.end == End::Returned {
                let seen = take(&mut world, "back");
                verdict("the entry", &|| check_entry(&seen, &world, case));
            }
        }
        if clock == Clock::None {
            let seen = run(&mut world, case, "nine", End::Recovered);
            calls += 1;
            verdict("nine", &|| check(&seen, &world, case, &Allowed::nothing(), Some(3), "a wild stack argument"));
        }
    }
    println!("{clock:?}: {} worlds, {calls} exits in {:.0?}", cases.len(), start.elapsed());
    assert!(failures.is_empty(), "failed cases: {failures:?}");
}

#[test]
fn at_once() {
    explore(Clock::None, true);
}

#[test]
fn at_a_time_limit() {
    explore(Clock::Limit, all());
}

#[test]
fn after_a_budget() {
    explore(Clock::Budget, all());
}

/// A dead callee is restarted for a call. The host's values from that time are not seen.
#[test]
fn after_a_restart() {
    let (machine, width) = (Machine::detect(), *widths().last().unwrap());
    let groups = Groups(Groups::ALL);
    for outer in Trust::ALL {
        let case = Case { machine, width, outer, inner: outer, groups, mode: Mode::Full, clock: Clock::None };
        let front = data()
            + &OWN.data()
            + &function("w_work", &format!("{}call work\n{}ret", OWN.before_a_call(width), dump(width)))
            + &function("w_fault", &format!("{}call fault\n{}ret", OWN.before_a_call(width), dump(width)));
        let server = data()
            + &MIDDLE.data()
            + &function("work", &(groups.pass(&MIDDLE, width) + "ret"))
            + &function("fault", &(groups.die(&MIDDLE, width) + "ud2"));
        let to = |name: &str| Import::domain("middle", name).signature("() -> void").trust(outer).on_fault(3);
        let mut world = World::builder()
            .domain(
                DomainSpec::new("watcher")
                    .object("watcher.o", object(front))
                    .import("work", to("work"))
                    .import("fault", to("fault")),
            )
            .domain(DomainSpec::new("middle").object("middle.o", object(server)).restart(Restart::Limited(1)))
            .build()
            .unwrap();
        for (name, end, result) in [
            ("fault", End::Failed, Some(3)),
            ("work", End::Recovered, None),
            ("fault", End::Failed, Some(3)),
            ("work", End::Failed, Some(3)),
        ] {
            let call: TypedFn<fn()> = world.domain("watcher").unwrap().export(&format!("w_{name}")).unwrap();
            call.call(&mut world, ()).unwrap();
            let seen = take(&mut world, "watcher");
            check(&seen, &world, &case, &Allowed::after(&case, end), result, name);
        }
        assert!(world.domain("middle").unwrap().is_dead());
    }
}
