//! The domains and exits of the tests of exits: a watcher, a middle, and a domain behind it.

use crate::common::{assemble, function};
use crate::registers::canary::{BACK, Canary, HOST, MIDDLE, OWN};
use crate::registers::*;
use sfi_loader::{
    Budget, Builder, CallError, DomainSpec, HostCall, HostError, Import, Machine, Manage, Mode, Trust, TypedFn, World,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

/// The end of the watcher's call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
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
pub enum Clock {
    /// No limit.
    None,
    /// A time limit, which the call exceeds.
    Limit,
    /// A budget for each server, which one exceeds.
    Budget,
}

/// A function of the watcher, the function of the middle (`m_`) or of the host (`h_`) that it
/// calls, and the end of the call.
pub struct Exit {
    pub name: &'static str,
    pub end: End,
    pub clock: Clock,
    /// The middle's function.
    pub middle: &'static str,
}

pub const fn exit(name: &'static str, end: End, clock: Clock, middle: &'static str) -> Exit {
    Exit { name, end, clock, middle }
}

/// A store outside the window.
const WILD: &str = "movl $0,%gs:16(%eax)";

/// The exits. `PASS` stands for the middle's canaries where a caller may find them, `DIE` for
/// canaries everywhere.
pub const EXITS: [Exit; 32] = [
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
    exit("m_undone", End::Recovered, Clock::None, "PASS call h_undo\nret"),
    exit("m_undone_fault", End::Failed, Clock::None, "call h_undo_fault\nDIE ud2"),
    exit("m_undone_several", End::Failed, Clock::None, "call back_undo_1\nret"),
    exit("m_undone_deep", End::Failed, Clock::None, "call back_undo_2\nret"),
    exit("m_unbound", End::Recovered, Clock::None, "PASS call unbound\nret"),
    exit("h_panic", End::Host, Clock::None, ""),
    exit("h_enter", End::Host, Clock::None, ""),
    exit("unbound", End::Failed, Clock::None, ""),
    exit("m_host_exit", End::Failed, Clock::None, "DIE call h_exit\nret"),
    exit("m_ordered", End::Over, Clock::Limit, "DIE call h_ordered\nret"),
    exit("m_ordered_inner", End::Over, Clock::Limit, "call back_ordered\nret"),
    exit("m_spin", End::Failed, Clock::Budget, "DIE 1: jmp 1b\nret"),
    exit("m_inner_spin", End::Recovered, Clock::Budget, "PASS call spin\nret"),
    exit("m_abandoned", End::Failed, Clock::Budget, "call back_spin\nret"),
    exit("m_late", End::Failed, Clock::Limit, "DIE 1: jmp 1b\nret"),
    exit("m_late_host", End::Failed, Clock::Limit, "call h_slow\nret"),
    exit("m_late_inner", End::Recovered, Clock::Limit, "PASS call spin\nret"),
    exit("m_late_abandoned", End::Failed, Clock::Limit, "call back_spin\nret"),
    exit("m_over", End::Over, Clock::Limit, "call back_over\nret"),
];

/// Returns the functions of a list that are in the text without GS, or the others.
fn choose<'a>(all: &[(&'a str, String)], quiet: &[&str], leaf: bool) -> Vec<(&'a str, String)> {
    all.iter().filter(|(name, _)| quiet.contains(name) == leaf).cloned().collect()
}

/// Assembles functions, without GS if they are the quiet ones.
fn text(data: &str, functions: &[(&str, String)], leaf: bool) -> String {
    let functions: String = functions.iter().map(|(name, body)| function(name, body)).collect();
    data.to_owned() + &if leaf { without_gs(&functions) } else { functions }
}

/// Assembles the domain behind the middle. It is hostile and changes every register. Without
/// `quiet` it has all functions, otherwise those of [`LEAF`] or the others.
pub fn back(width: Width, sight: Sight, quiet: Option<bool>) -> String {
    let ruin = BACK.everywhere(width);
    let all = [
        ("leave", format!("{}{ruin}ret", look(width, sight))),
        ("ruin", format!("{ruin}ud2")),
        ("spin", format!("{ruin}1: jmp 1b\nret")),
        ("back_1", format!("call die\n{ruin}ret")),
        ("back_undo_1", format!("call h_back_undo_1\ncall die\n{ruin}ret")),
        ("back_undo_2", format!("call h_back_undo_2\ncall die\n{ruin}ud2")),
        ("back_ordered", format!("call m_ordered_die\n{ruin}ret")),
        ("back_spin", format!("call slow_die\n{ruin}ret")),
        ("back_over", format!("call slow_die\n{ruin}1: jmp 1b\nret")),
        ("deep_die", format!("call m_again_die\n{ruin}ud2")),
        ("again_die", format!("call die\n{ruin}ud2")),
        ("deep_return", format!("call m_again_return\n{ruin}ret")),
        ("again_return", format!("call die\n{ruin}ret")),
        ("nested_1", format!("call h_nested\n{ruin}ret")),
        ("b_panic", format!("{ruin}call h_panicking\nret")),
    ];
    let leaf = quiet.unwrap_or_default();
    let all = if quiet.is_some() { choose(&all, &LEAF, leaf) } else { all.to_vec() };
    text(&(data() + &BACK.data()), &all, leaf)
}

/// The functions of [`back`] and of [`middle`] that call nobody. In a quiet world each list is the
/// text of a domain of its own that does not use GS.
pub const LEAF: [&str; 3] = ["leave", "ruin", "spin"];
pub const STILL: [&str; 4] = ["m_fault", "m_overflow", "m_spin", "m_late"];

/// The functions of the domain behind the middle that the middle calls.
pub const BEHIND: [&str; 15] = [
    "leave",
    "ruin",
    "spin",
    "back_1",
    "back_undo_1",
    "back_undo_2",
    "back_ordered",
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
pub struct Groups(pub u32);

impl Groups {
    pub const PRESERVED: u32 = 1;
    pub const VECTORS: u32 = 2;
    pub const ZMM: u32 = 4;
    pub const X87: u32 = 8;
    pub const MXCSR: u32 = 16;
    pub const ALL: u32 = 31;

    pub fn has(self, group: u32) -> bool {
        self.0 & group != 0
    }

    /// Puts a canary where a caller may find it, so not into preserved registers.
    pub fn pass(self, c: &Canary, width: Width) -> String {
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
    pub fn die(self, c: &Canary, width: Width) -> String {
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

/// Assembles the middle, or the functions of [`STILL`], or the others.
pub fn middle(groups: Groups, width: Width, quiet: Option<bool>) -> String {
    let (pass, die) = (groups.pass(&MIDDLE, width), groups.die(&MIDDLE, width));
    let body = |text: &str| text.replace("PASS ", &pass).replace("DIE ", &die);
    let exits = EXITS.iter().filter(|e| !e.middle.is_empty()).map(|e| (e.name, e.middle));
    let others = [
        ("die", "DIE ud2"),
        ("slow_die", "DIE 1: jmp 1b\nret"),
        ("m_ordered_die", "DIE call h_ordered\nret"),
        ("m_again_die", "call again_die\nret"),
        ("m_again_return", "call again_return\nret"),
        ("m_panic", "PASS call b_panic\nret"),
    ];
    let all: Vec<(&str, String)> = exits.chain(others).map(|(name, code)| (name, body(code))).collect();
    let leaf = quiet.unwrap_or_default();
    let all = if quiet.is_some() { choose(&all, &STILL, leaf) } else { all };
    text(&(data() + &MIDDLE.data()), &all, leaf)
}

/// Assembles the watcher. It names every register, plants its own canary, calls, and stores the
/// registers that it finds.
pub fn watcher(width: Width, sight: Sight) -> String {
    let mut text = data() + &OWN.data();
    for exit in &EXITS {
        text += &function(
            &format!("w_{}", exit.name),
            &format!("{}call {}\n{}ret", OWN.before_a_call(width), exit.name, look(width, sight)),
        );
    }
    // A stack argument at an unmapped place. r15 comes back from the gate.
    let call = format!(
        "mov %r15,%gs:kept(%eip)\n{}mov $64,%r15d\ncall nine\nmov %gs:kept(%eip),%r15\n{}ret\n",
        OWN.before_a_call(width),
        look(width, sight)
    );
    text + &function("w_nine", &call) + ".bss\nkept: .quad 0\n"
}

/// Returns an object, assembled once.
pub fn object(text: String) -> Vec<u8> {
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
pub struct Case {
    pub machine: Machine,
    pub width: Width,
    pub outer: Trust,
    pub inner: Trust,
    pub groups: Groups,
    pub mode: Mode,
    pub clock: Clock,
    /// The functions that call nobody are in domains of their own whose texts do not use GS.
    pub quiet: bool,
}

impl Case {
    /// Returns the domains, the watcher first.
    pub fn domains(&self) -> &'static [&'static str] {
        if self.quiet { &["watcher", "middle", "back", "still", "leaf"] } else { &["watcher", "middle", "back"] }
    }

    /// Returns the domain that the watcher calls for an exit.
    pub fn called(&self, exit: &str) -> &'static str {
        if self.quiet && STILL.contains(&exit) { "still" } else { "middle" }
    }

    /// Returns the domain in which the middle calls a function of [`BEHIND`].
    pub fn behind(&self, function: &str) -> &'static str {
        if self.quiet && LEAF.contains(&function) { "leaf" } else { "back" }
    }
}

/// The first limit of a call, and the budget. A call that does not reach its waiting place within
/// it is made again with twice the limit, so a busy machine needs no longer one.
pub const LIMIT: Duration = Duration::from_millis(2);

/// Offers a function of the host to a world that one thread enters, or to one with lanes.
pub fn offer(
    builder: Builder,
    lanes: bool,
    name: &str,
    function: impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + Sync + 'static,
) -> Builder {
    if lanes { builder.shared_fn(name, function) } else { builder.host_fn(name, function) }
}

/// Describes the domains, the watcher first.
pub fn describe(case: &Case, lanes: bool) -> Builder {
    let Case { width, outer, inner, groups, mode, .. } = *case;
    // The gates reset x87 in one of two ways. Modes do not matter for that.
    let sight = if mode == Mode::Full { Sight::Plain } else { Sight::Whole };
    let to =
        |domain: &str, name: &str, trust| Import::domain(domain, name).signature("() -> void").trust(trust).on_fault(3);
    // In lanes no binding is undone. One that leads nowhere from the start may pass floats later.
    let unbound = |domain: &str, name: &str, trust| match lanes {
        true => Import::host("h_plain").signature("() -> int"),
        false => to(domain, name, trust),
    };
    let host = |name: &str| Import::host(name).signature("() -> int").on_fault(3);
    let mut front = DomainSpec::new("watcher").mode(mode).object("watcher.o", object(watcher(width, sight)));
    for exit in &EXITS {
        front = match exit.end {
            End::Host => front.import(exit.name, host(exit.name)),
            _ if exit.name == "unbound" => front.import("unbound", unbound("middle", "die", outer)),
            _ => front.import(exit.name, to(case.called(exit.name), exit.name, outer)),
        };
    }
    let nine = format!("({}) -> void", ["int"; 9].join(", "));
    front = front.import("nine", Import::domain("middle", "m_return").signature(nine).trust(outer).on_fault(3));
    let quiet = case.quiet.then_some(false);
    let centre = middle(groups, width, quiet);
    // A check of mode match traps before the store.
    let centre = if mode == Mode::Match { centre.replace(WILD, "ud2") } else { centre };
    let mut centre = DomainSpec::new("middle").mode(mode).object("middle.o", object(centre));
    for name in BEHIND {
        centre = centre.import(name, to(case.behind(name), name, inner));
    }
    centre = centre.import("unbound", unbound(case.behind("leave"), "leave", inner));
    for name in ["h_nested", "h_plain", "h_error", "h_exit", "h_slow", "h_undo", "h_undo_fault", "h_ordered"] {
        centre = centre.import(name, host(name));
    }
    let mut last = DomainSpec::new("back").mode(mode).object("back.o", object(back(width, sight, quiet)));
    for name in ["die", "slow_die", "m_ordered_die", "m_again_die", "m_again_return"] {
        last = last.import(name, to("middle", name, Trust::MutualDistrust));
    }
    last = last.import("h_nested", host("h_nested")).import("h_panicking", host("h_panicking"));
    for name in ["h_back_undo_1", "h_back_undo_2"] {
        last = last.import(name, host(name));
    }
    let mut servers = vec![centre, last];
    if case.quiet {
        let quiet = |name: &str, text| DomainSpec::new(name).mode(mode).object("quiet.o", object(text));
        servers.push(quiet("still", middle(groups, width, Some(true))));
        servers.push(quiet("leaf", back(width, sight, Some(true))));
    }
    let budget = Budget { cpu: Some(LIMIT), ..Budget::default() };
    let mut builder = World::builder().machine(case.machine).timed().domain(front);
    for server in servers {
        builder = builder.domain(if case.clock == Clock::Budget { server.budget(budget) } else { server });
    }
    builder = offer(builder, lanes, "h_plain", move |_| {
        HOST.plant_here(width);
        Ok(0)
    });
    builder = offer(builder, lanes, "h_error", move |_| {
        HOST.plant_here(width);
        Err(HostError::new("an error"))
    });
    builder = offer(builder, lanes, "h_exit", move |_| {
        HOST.plant_here(width);
        Err(HostError::end_caller(0))
    });
    for (name, client, import) in [
        ("h_undo", "watcher", "m_undone"),
        ("h_undo_fault", "watcher", "m_undone_fault"),
        ("h_back_undo_1", "middle", "back_undo_1"),
        ("h_back_undo_2", "middle", "back_undo_2"),
    ] {
        builder = offer(builder, lanes, name, move |cx| {
            cx.disconnect(client, import).unwrap();
            HOST.plant_here(width);
            Ok(0)
        });
    }
    // As a signal handler of the host that comes meanwhile.
    builder = offer(builder, lanes, "h_ordered", move |_| {
        // SAFETY: a null pointer is allowed.
        assert!(!unsafe { sfi_loader::interrupt(std::ptr::null_mut()) });
        HOST.plant_here(width);
        Ok(0)
    });
    builder = offer(builder, lanes, "h_slow", move |_| {
        std::thread::sleep(WAIT.get() + WAIT.get() / 16);
        HOST.plant_here(width);
        Ok(0)
    });
    builder = offer(builder, lanes, "h_nested", move |cx| {
        let die: TypedFn<fn()> = cx.export("middle", "die").unwrap();
        assert!(matches!(die.call(cx, ()), Err(CallError::Fault(_))));
        HOST.plant_here(width);
        Ok(0)
    });
    builder = offer(builder, lanes, "h_panicking", move |_| {
        HOST.plant_here(width);
        resume_unwind(Box::new("planned"))
    });
    builder = offer(builder, lanes, "h_panic", move |cx| {
        let panic: TypedFn<fn()> = cx.export("middle", "m_panic").unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| panic.call(cx, ()))).is_err());
        HOST.plant_here(width);
        Ok(0)
    });
    builder = offer(builder, lanes, "h_enter", move |cx| {
        let enter: TypedFn<fn()> = cx.export("middle", "m_return").unwrap();
        enter.call(cx, ()).unwrap();
        HOST.plant_here(width);
        Ok(0)
    });
    builder
}

thread_local! {
    /// The limit of this thread's call.
    pub static WAIT: Cell<Duration> = const { Cell::new(LIMIT) };
}
