//! Every way out of a crossing, with a canary of each party in every register that the machine has.
//!
//! A watcher calls a middle domain. The middle calls a domain behind it or the host. One of them
//! returns, faults, panics, overstays its time, or is abandoned. Then the watcher stores all
//! registers. In a quiet world the called functions that call nobody run with the GS base of their
//! client. The cases are the product of the exits ([`EXITS`]), the trust of the watcher and of
//! the middle in their servers, the groups of registers that the middle's text names, the modes,
//! and quiet worlds or others.
//!
//! [`Allowed`] describes the values that the watcher may find. It follows the words of the
//! contract, not the gates' flags: the watcher's own values, zeroes, and the values that the trust
//! levels let pass at a return. A failing exit lets nothing pass at any level.
//!
//! `SFI_EXITS=all` runs the whole product in all variants of the gates. The normal run leaves out
//! most cases that wait for a clock, and the variants for other machines.

mod common;
mod exit_worlds;
mod registers;

use common::function;
use exit_worlds::*;
use registers::canary::{BACK, Canary, MIDDLE, OWN, host_control};
use registers::*;
use sfi_loader::{
    DomainRef, DomainSpec, Import, Lane, Limits, Machine, Manage, Mode, Protection, Restart, Trust, TypedFn, World,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn world(case: &Case) -> World {
    let mut world = describe(case, false).build().unwrap();
    for client in ["watcher", "middle"] {
        world.disconnect(client, "unbound").unwrap();
    }
    // The functions that call nobody leave the GS base alone.
    for report in world.bindings() {
        let (Some(symbol), Some(work)) = (report.symbol, report.work) else { continue };
        let quiet = case.quiet && LEAF.iter().chain(&STILL).any(|name| *name == symbol);
        assert_eq!(work.contains("GS base left alone"), quiet, "{symbol}: {work}");
    }
    world
}

/// Fills the areas for registers with a value that nobody has, so that the registers that are found
/// there were stored by the next call, with the GS base of this domain.
fn blank(world: &mut World, case: &Case) {
    for name in case.domains() {
        let area = world.domain(name).unwrap().symbol("area").unwrap();
        world.memory(name).unwrap().write(area.0, &[0x11; SIZE]).unwrap();
    }
}

/// Makes the call, and returns the registers that the watcher found.
fn run(world: &mut World, case: &Case, name: &str, end: End) -> Dump {
    let call: TypedFn<fn()> = world.domain("watcher").unwrap().export(&format!("w_{name}")).unwrap();
    let mut last = String::new();
    // On a busy machine the limit may pass before the call reaches its waiting place.
    for attempt in 0..14 {
        blank(world, case);
        let before = host_control();
        let result = if case.clock == Clock::Limit {
            WAIT.set(LIMIT * (1 << attempt));
            call.call_within(world, Limits { wall: Some(WAIT.get()), ..Limits::default() }, ())
        } else {
            call.call(world, ())
        };
        assert_eq!(host_control(), before, "the host's control state: {name}, {case:?}");
        let dead = ["watcher", case.called(name)].map(|name| world.domain(name).unwrap().is_dead());
        let planned = dead == [end == End::Over, matches!(end, End::Over | End::Failed)];
        last = format!("{result:?}, dead: {dead:?}");
        let seen = take(world, "watcher");
        revive(world, case);
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

fn revive(world: &mut World, case: &Case) {
    for name in case.domains() {
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

/// A world that one thread enters, or a lane of another one.
trait Domains {
    fn named(&self, domain: &str) -> DomainRef<'_>;
}

impl Domains for World {
    fn named(&self, domain: &str) -> DomainRef<'_> {
        self.domain(domain).unwrap()
    }
}

impl Domains for Lane<'_> {
    fn named(&self, domain: &str) -> DomainRef<'_> {
        self.domain(domain).unwrap()
    }
}

/// Says whether a domain's text has a window offset.
fn in_text(world: &impl Domains, domain: &str, offset: u64) -> bool {
    world
        .named(domain)
        .segments()
        .iter()
        .any(|s| s.protection == Protection::ReadExecute && (s.offset..s.end()).contains(&offset))
}

fn check(seen: &Dump, world: &impl Domains, case: &Case, allowed: &Allowed, result: Option<u64>, what: &str) {
    let [results, vectors, zmm, x87] = &allowed.passing;
    let base = world.named("watcher").secret_base();
    let one_of = |list: &[Canary], value: u64| list.iter().any(|c| c.word == value);
    let at = |register: &str| format!("{register}: {what}, {case:?}");
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
        let own = world.named("watcher").symbol(OWN.symbol()).unwrap().0 as u32;
        let last = x87.iter().map(|c| world.named("middle").symbol(c.symbol()).unwrap().0 as u32);
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
        let found = [OWN].iter().chain(x87).any(|c| holds(value, c.extended()));
        // A domain that may leave the x87 stack to another may leave results there.
        let passes = is_reset(value) || found || x87.contains(&BACK);
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
fn check_entry(seen: &Dump, world: &impl Domains, case: &Case) {
    let trusted = |t: Trust| t != Trust::MutualDistrust;
    let vectors = case.groups.has(Groups::VECTORS | Groups::ZMM);
    let groups = [case.groups.has(Groups::PRESERVED), vectors, case.groups.has(Groups::ZMM)];
    let allowed = groups.map(|named| {
        let middle = (named && trusted(case.inner)).then_some(MIDDLE.word);
        let own = (named && trusted(case.inner) && trusted(case.outer)).then_some(OWN.word);
        [middle, own]
    });
    let passes = |list: &[Option<u64>], value: u64| value == 0 || list.contains(&Some(value));
    let base = world.named(case.behind("leave")).secret_base();
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
                    for mode in Mode::ALL {
                        let case =
                            Case { machine, width, outer, inner, groups: Groups(groups), mode, clock, quiet: false };
                        cases.extend([case, Case { quiet: true, ..case }]);
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
                let seen = take(&mut world, case.behind("leave"));
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
        let case =
            Case { machine, width, outer, inner: outer, groups, mode: Mode::Full, clock: Clock::None, quiet: false };
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

/// In a lane every call goes through a door, which is open or closed. The domains cannot change
/// their bindings, so the exits by undone and unbound ones are left
/// out.
#[test]
fn in_a_lane() {
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases(Clock::None, false) {
        let lanes = describe(case, true).lanes(2).unwrap();
        let mut both = [lanes.enter().unwrap(), lanes.enter().unwrap()];
        let known = |e: &&Exit| e.clock == Clock::None && !e.name.contains("undone") && !e.name.contains("unbound");
        for exit in EXITS.iter().filter(known) {
            // The other lane finds closed doors. The second call finds those open that did not end.
            for (round, lane) in [0, 0, 1].into_iter().enumerate() {
                let lane = &mut both[lane];
                let call: TypedFn<fn()> = lane.named("watcher").export(&format!("w_{}", exit.name)).unwrap();
                let before = host_control();
                call.call(lane, ()).unwrap();
                assert_eq!(host_control(), before, "the host's control state: {}, {case:?}", exit.name);
                let [seen, back] = ["watcher", case.behind("leave")].map(|domain| taken(lane, domain));
                for domain in case.domains() {
                    if lane.named(domain).is_dead() {
                        lane.restart(domain).unwrap();
                    }
                }
                let result = match exit.end {
                    End::Failed => Some(3),
                    End::Host => Some(0),
                    _ => None,
                };
                let allowed = Allowed::after(case, exit.end);
                let what = format!("{}, round {round}, in a lane", exit.name);
                let checked = || {
                    check(&seen, lane, case, &allowed, result, &what);
                    if exit.end == End::Returned {
                        check_entry(&back, lane, case);
                    }
                };
                if catch_unwind(AssertUnwindSafe(checked)).is_err() {
                    *failures.entry(exit.name).or_default() += 1;
                }
            }
        }
    }
    assert!(failures.is_empty(), "failed cases: {failures:?}");
}

/// Takes the registers that a domain of a lane stored.
fn taken(lane: &mut Lane<'_>, domain: &str) -> Dump {
    let area = lane.named(domain).symbol("area").unwrap();
    Dump(lane.memory(domain).unwrap().read(area.0, SIZE).unwrap())
}

/// The task of a restarted domain's initialiser.
static TASK: AtomicU64 = AtomicU64::new(0);

/// A dead callee is restarted for a call, and its initialiser ends in every way: it returns, calls
/// the client, which faults, faults itself, and overstays the limit.
#[test]
fn in_the_middle_of_a_restart() {
    let (machine, width) = (Machine::detect(), *widths().last().unwrap());
    let groups = Groups(Groups::ALL);
    let plant = BACK.everywhere(width);
    let begin = format!(
        "call h_task\ncmp $1,%eax\nje 1f\ncmp $2,%eax\nje 2f\ncmp $3,%eax\nje 3f\n{plant}ret\n\
         1:\ncall die\n{plant}ret\n2:\n{plant}ud2\n3:\n{plant}4: jmp 4b\nret"
    );
    let back = data()
        + &BACK.data()
        + &function("work", &format!("{plant}ret"))
        + &function("fault", "ud2")
        + &function("begin", &begin)
        + ".section .init_array,\"aw\"\n.quad begin\n";
    let centre = data()
        + &MIDDLE.data()
        + &function("go", &format!("{}call work\nret", groups.pass(&MIDDLE, width)))
        + &function("die", &format!("{}ud2", groups.die(&MIDDLE, width)));
    let front =
        data() + &OWN.data() + &function("w_go", &format!("{}call go\n{}ret", OWN.before_a_call(width), dump(width)));
    for (outer, inner) in Trust::ALL.into_iter().flat_map(|outer| Trust::ALL.map(|inner| (outer, inner))) {
        // The initialiser runs when the world is built, too.
        TASK.store(0, Ordering::Relaxed);
        let case = Case { machine, width, outer, inner, groups, mode: Mode::Write, clock: Clock::None, quiet: false };
        let to = |domain: &str, name: &str, trust| {
            Import::domain(domain, name).signature("() -> void").trust(trust).on_fault(3)
        };
        let mut world = World::builder()
            .timed()
            .domain(
                DomainSpec::new("watcher").object("w.o", object(front.clone())).import("go", to("middle", "go", outer)),
            )
            .domain(
                DomainSpec::new("middle")
                    .object("m.o", object(centre.clone()))
                    .import("work", to("back", "work", inner)),
            )
            .domain(
                DomainSpec::new("back")
                    .object("b.o", object(back.clone()))
                    .import("die", to("middle", "die", Trust::MutualDistrust))
                    .import("h_task", Import::host("h_task").signature("() -> int"))
                    .restart(Restart::Always),
            )
            .host_fn("h_task", |_| Ok(TASK.load(Ordering::Relaxed)))
            .build()
            .unwrap();
        for (task, end) in [(0, End::Returned), (1, End::Failed), (2, End::Recovered), (3, End::Recovered)] {
            TASK.store(0, Ordering::Relaxed);
            for name in ["watcher", "middle", "back"] {
                if world.domain(name).unwrap().is_dead() {
                    world.restart(name).unwrap();
                }
            }
            let fault: TypedFn<fn()> = world.domain("back").unwrap().export("fault").unwrap();
            fault.call(&mut world, ()).unwrap_err();
            TASK.store(task, Ordering::Relaxed);
            let call: TypedFn<fn()> = world.domain("watcher").unwrap().export("w_go").unwrap();
            let limits = Limits { wall: Some(Duration::from_millis(if task == 3 { 20 } else { 10_000 })), cpu: None };
            let before = host_control();
            call.call_within(&mut world, limits, ()).unwrap();
            assert_eq!(host_control(), before, "task {task}, {case:?}");
            assert_eq!(world.domain("middle").unwrap().is_dead(), end == End::Failed, "task {task}, {case:?}");
            let seen = take(&mut world, "watcher");
            let result = (end == End::Failed).then_some(3);
            check(&seen, &world, &case, &Allowed::after(&case, end), result, &format!("task {task}"));
        }
    }
}
