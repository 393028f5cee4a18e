//! No value of one side is visible on the other, in either direction, for any register contents, in
//! all variants of the gates: with and without VEX instructions, with and without `wrgsbase`.
#![allow(clippy::type_complexity)]

mod common;
mod registers;
use common::{assemble, function};
use registers::canary::HOST;
use registers::*;
use sfi_loader::{DomainSpec, HostError, Import, Machine, Manage, Trust, TypedFn, World};
use std::arch::asm;

const SIGHTS: [Sight; 2] = [Sight::Whole, Sight::Plain];

/// Returns a client and a server. With `gs` the server's text uses GS.
fn pair((machine, width, other): (Machine, Width, Width), sight: Sight, gs: bool, signature: &str) -> World {
    let a = data()
        + &function("plant_and_call", &(plant(width) + "mov $7,%edi\nmovsd seven(%rip),%xmm0\ncall work\nret"))
        + "seven: .double 7.0\n".replace("seven:", ".section .rodata\nseven:").as_str()
        + &function("call_and_dump", &(plant(width) + "call give\n" + &look(width, sight) + "ret"));
    let b = data()
        + &function("work", &(look(other, sight) + "ret"))
        + &function("give", &(plant(other) + "mov secret(%rip),%r15\nmov $9,%eax\nret"));
    let b = if gs { b } else { without_gs(&b) };
    let world = World::builder()
        .machine(machine)
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&a))
                .import("work", Import::domain("b", "work").signature(signature))
                .import("give", Import::domain("b", "give").signature("() -> int")),
        )
        .domain(DomainSpec::new("b").object("b.o", assemble(&b)))
        .build()
        .unwrap();
    let left = world.bindings().iter().filter(|binding| binding.to_string().contains("GS base left alone")).count();
    assert_eq!(left, if gs { 0 } else { 2 }, "{:?}", world.bindings());
    world
}

/// All cases of [`pair`] but for the signature.
fn cases() -> Vec<((Machine, Width, Width), Sight, bool)> {
    let each = |pair| SIGHTS.into_iter().flat_map(move |sight| [(pair, sight, true), (pair, sight, false)]);
    pairs().into_iter().flat_map(each).collect()
}

#[test]
fn a_callee_sees_its_arguments_only() {
    for (variant, sight, gs) in cases() {
        let other = variant.2;
        for (signature, ints, floats) in [
            ("() -> void", false, false),
            ("(int) -> int", true, false),
            ("(float) -> float", false, true),
            ("(int, float) -> int", true, true),
        ] {
            let seven = [(0, 7f64.to_bits())];
            let mut world = pair(variant, sight, gs, signature);
            let f: TypedFn<fn()> = world.domain("a").unwrap().export("plant_and_call").unwrap();
            f.call(&mut world, ()).unwrap();
            let dump = take(&mut world, "b");
            check_gprs(&dump, &world, "b", if ints { &[("rdi", 7)] } else { &[] });
            dump.check_vectors(other, if floats { &seven } else { &[] });
            assert_eq!(dump.mxcsr(), 0x1f80);
            dump.check_x87(0x37f);
        }
    }
}

#[test]
fn a_caller_sees_the_result_only() {
    for (variant, sight, gs) in cases() {
        let width = variant.1;
        let mut world = pair(variant, sight, gs, "() -> void");
        let f: TypedFn<fn()> = world.domain("a").unwrap().export("call_and_dump").unwrap();
        f.call(&mut world, ()).unwrap();
        let dump = take(&mut world, "a");
        let mut allowed: Vec<(&str, u64)> = PRESERVED.iter().map(|r| (*r, SECRET)).collect();
        allowed.retain(|(r, _)| *r != "r15");
        allowed.push(("rax", 9));
        check_gprs(&dump, &world, "a", &allowed);
        dump.check_vectors(width, &[]);
        // The caller's own control state is back.
        assert_eq!(dump.mxcsr(), 0x7fbf);
        dump.check_x87(0x0f7f);
    }
}

/// Without a signature the argument and result registers pass. All others are cleared nevertheless.
#[test]
fn without_a_signature_only_argument_and_result_registers_pass() {
    let a = data() + &function("run", &(plant(Width::Ymm) + "call work\n" + &dump(Width::Ymm) + "ret"));
    let b = data() + &function("work", &(dump(Width::Ymm) + &plant(Width::Ymm) + "ret"));
    let mut world = World::builder()
        .domain(DomainSpec::new("a").object("a.o", assemble(&a)).import("work", Import::domain("b", "work")))
        .domain(DomainSpec::new("b").object("b.o", assemble(&b)))
        .build()
        .unwrap();
    let run: TypedFn<fn()> = world.domain("a").unwrap().export("run").unwrap();
    run.call(&mut world, ()).unwrap();
    let check = |dump: &Dump, gprs: &[&str], vectors: usize| {
        for r in GPRS.iter().filter(|r| **r != "r15" && !gprs.contains(r)) {
            assert_eq!(dump.gpr(r), 0, "{r}");
        }
        for register in 0..16 {
            for word in 0..4 {
                let expected = if register < vectors && word < 2 { SECRET } else { 0 };
                assert_eq!(dump.word(VECTORS + 64 * register + 8 * word), expected, "{register} {word}");
            }
        }
    };
    let seen = take(&mut world, "b");
    check(&seen, &["rdi", "rsi", "rdx", "rcx", "r8", "r9"], 8);
    assert_eq!(seen.gpr("rdi"), SECRET);
    let seen = take(&mut world, "a");
    check(&seen, &["rax", "rdx", "rbx", "rbp", "r12", "r13", "r14"], 2);
}

#[test]
fn the_host_shows_nothing_to_domains() {
    for ((machine, width), sight) in variants().into_iter().flat_map(|variant| SIGHTS.map(|sight| (variant, sight))) {
        let a = data()
            + &function("entered", &(look(width, sight) + "ret"))
            + &function("returned_to", &("call give\n".to_owned() + &look(width, sight) + "ret"));
        let mut world = World::builder()
            .machine(machine)
            .domain(
                DomainSpec::new("a")
                    .object("a.o", assemble(&a))
                    .import("give", Import::host("give").signature("() -> int")),
            )
            .host_fn("give", move |_| {
                HOST.plant_here(width);
                Ok(9)
            })
            .build()
            .unwrap();
        let entered: TypedFn<fn(u64)> = world.domain("a").unwrap().export("entered").unwrap();
        let returned_to: TypedFn<fn()> = world.domain("a").unwrap().export("returned_to").unwrap();
        HOST.plant_here(width);
        entered.call(&mut world, (7,)).unwrap();
        let dump = take(&mut world, "a");
        check_gprs(&dump, &world, "a", &[("rdi", 7)]);
        dump.check_vectors(width, &[]);
        dump.check_x87(0x37f);
        assert_eq!(dump.mxcsr(), 0x1f80);
        returned_to.call(&mut world, ()).unwrap();
        let dump = take(&mut world, "a");
        check_gprs(&dump, &world, "a", &[("rax", 9)]);
        dump.check_vectors(width, &[]);
        dump.check_x87(0x37f);
        assert_eq!(dump.mxcsr(), 0x1f80);
    }
}

/// The words that a host function sets: its integer, rdx, and the low halves of xmm0 and xmm1.
type Given = (u64, u64, u64, u64);

/// Returns what a caller sees in its registers after a call of a host function that sets these
/// words and leaves the host's values everywhere else. `fails`: the function fails then.
fn given_by_the_host((machine, width): (Machine, Width), sight: Sight, set: Given, fails: bool) -> (World, Dump) {
    let a = data() + &function("run", &("call give\n".to_owned() + &look(width, sight) + "ret"));
    let mut world = World::builder()
        .machine(machine)
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&a))
                .import("give", Import::host("give").signature("() -> int").on_fault(3)),
        )
        .host_fn("give", move |cx| {
            cx.set_result_f64(f64::from_bits(set.2));
            cx.set_second_result(set.1, f64::from_bits(set.3));
            HOST.plant_here(width);
            if fails { Err(HostError::new("no")) } else { Ok(set.0) }
        })
        .build()
        .unwrap();
    let run: TypedFn<fn()> = world.domain("a").unwrap().export("run").unwrap();
    run.call(&mut world, ()).unwrap();
    let dump = take(&mut world, "a");
    (world, dump)
}

/// A structure of two eightbytes comes back in two registers. The other two, and the rest of all
/// vector registers, hold nothing of the host.
#[test]
fn a_host_function_returns_the_registers_that_it_sets() {
    for (variant, sight) in variants().into_iter().flat_map(|variant| SIGHTS.map(|sight| (variant, sight))) {
        for (set, fails) in [
            ((9, 8, 0, 0), false),
            ((9, 0, 7, 0), false),
            ((0, 0, 7, 6), false),
            ((9, 8, 7, 6), false),
            ((9, 8, 7, 6), true),
        ] {
            let (world, dump) = given_by_the_host(variant, sight, set, fails);
            let (rax, rdx, xmm0, xmm1) = if fails { (3, 0, 0, 0) } else { set };
            check_gprs(&dump, &world, "a", &[("rax", rax), ("rdx", rdx)]);
            dump.check_vectors(variant.1, &[(0, xmm0), (1, xmm1)]);
            dump.check_x87(0x37f);
            assert_eq!(dump.mxcsr(), 0x1f80);
        }
    }
}

/// A failed call shows no more than one that returns.
#[test]
fn a_faulting_callee_shows_nothing() {
    for ((machine, width), sight) in variants().into_iter().flat_map(|variant| SIGHTS.map(|sight| (variant, sight))) {
        let a = data() + &function("run", &(plant(width) + "call work\n" + &look(width, sight) + "ret"));
        let b = data() + &function("work", &(plant(width) + "mov secret(%rip),%r15\nud2"));
        let mut world = World::builder()
            .machine(machine)
            .domain(
                DomainSpec::new("a")
                    .object("a.o", assemble(&a))
                    .import("work", Import::domain("b", "work").on_fault(3)),
            )
            .domain(DomainSpec::new("b").object("b.o", assemble(&b)))
            .build()
            .unwrap();
        let run: TypedFn<fn()> = world.domain("a").unwrap().export("run").unwrap();
        run.call(&mut world, ()).unwrap();
        let dump = take(&mut world, "a");
        let mut allowed = vec![("rax", 3)];
        allowed.extend(["rbx", "rbp", "r12", "r13", "r14"].map(|r| (r, SECRET)));
        check_gprs(&dump, &world, "a", &allowed);
        dump.check_vectors(width, &[]);
        dump.check_x87(0x0f7f);
        assert_eq!(dump.mxcsr(), 0x7fbf);
    }
}

thread_local! {
    static WORLD: std::cell::RefCell<Option<(World, TypedFn<fn()>)>> = const { std::cell::RefCell::new(None) };
}

extern "C" fn trampoline() {
    WORLD.with_borrow_mut(|w| {
        let (world, wreck) = w.as_mut().unwrap();
        let _ = wreck.call(world, ());
    });
}

/// A domain that destroys every register does not change the host's preserved registers and control
/// state, even with a fault.
#[test]
fn the_hosts_preserved_state_survives() {
    for end in ["ret", "ud2"] {
        for (machine, width) in variants() {
            let a = data() + &function("wreck", &(plant(width) + "mov secret(%rip),%r15\n" + end));
            let world = World::builder()
                .machine(machine)
                .domain(DomainSpec::new("a").object("a.o", assemble(&a)))
                .build()
                .unwrap();
            let wreck = world.domain("a").unwrap().export("wreck").unwrap();
            WORLD.set(Some((world, wreck)));
            let host_mxcsr: u32 = 0x9fc0; // flush and denormals to zero
            let host_cw: u16 = 0x027f; // double precision
            let (mut mxcsr, mut wrong): (u32, u64) = (0, 0);
            let mut environment = [0u8; 28];
            // SAFETY: a call of an `extern "C"` function with an aligned stack. All registers that
            // it may change are declared. The preserved ones and the control state are put back.
            unsafe {
                asm!(
                    "push rbx", "push rbp", "mov rbp, rsp", "and rsp, -16",
                    "ldmxcsr [r13]", "fldcw [r14]",
                    "push r12", "push r15", "push r13", "push r14",
                    "mov rax, 0x123456789a", "mov rbx, rax", "lea r12, [rax + 1]", "lea r13, [rax + 2]", "lea r14, [rax + 3]", "lea r15, [rax + 4]",
                    "call {f}",
                    "mov rax, 0x123456789a", "xor ecx, ecx",
                    "cmp rbx, rax", "setne cl", "mov rdx, rcx", "inc rax",
                    "cmp r12, rax", "setne cl", "add rdx, rcx", "inc rax",
                    "cmp r13, rax", "setne cl", "add rdx, rcx", "inc rax",
                    "cmp r14, rax", "setne cl", "add rdx, rcx", "inc rax",
                    "cmp r15, rax", "setne cl", "add rdx, rcx",
                    "pop r14", "pop r13", "pop r15", "pop r12",
                    "stmxcsr [r12]", "fnstenv [r15]",
                    "mov rsp, rbp", "pop rbp", "pop rbx",
                    f = sym trampoline,
                    inout("r13") &raw const host_mxcsr => _,
                    inout("r14") &raw const host_cw => _,
                    inout("r12") &raw mut mxcsr => _,
                    inout("r15") &raw mut environment => _,
                    out("rdx") wrong,
                    clobber_abi("C"),
                );
                let default: u32 = 0x1f80;
                asm!("ldmxcsr [{}]", "fninit", in(reg) &default);
            }
            assert_eq!(wrong, 0, "preserved registers");
            assert_eq!(mxcsr & 0xffc0, host_mxcsr & 0xffc0);
            assert_eq!(u16::from_le_bytes([environment[0], environment[1]]), host_cw);
            assert_eq!(&environment[8..10], [0xff, 0xff], "the x87 stack is not empty");
        }
    }
}

/// No word that a domain can read names a place of the host, of another domain, or of a region that
/// the domain does not see: not in the header page, not in stubs and tables, not in what calls,
/// buffers, functions that crossed, restarts and a fault have left. Common addresses may also stand
/// negated, as the checks of mode match have them.
#[test]
fn no_memory_of_a_domain_names_a_place_outside() {
    const WINDOW: u64 = 1 << 32;
    let text =
        ".section .rodata\n.globl where\nwhere: .asciz \"b.work\"\n.data\n.globl buffer\nbuffer: .fill 64, 8, 7\n"
            .to_owned()
            + &function("work", "lea 1(%rdi),%rax\nret")
            + &function(
                "run",
                "call give\nmov $3,%edi\ncall other\nlea buffer(%rip),%rdi\nmov $64,%esi\ncall their_sum\nret",
            )
            + &function("pass", "lea work(%rip),%rdi\ncall their_take\nret")
            + &function("take", "mov %rdi,%rax\nmov $5,%edi\nand $0xffff8,%eax\njmp *%gs:__sfi_dispatch(%eax)")
            + &function("sum", "mov (%rdi),%rax\nret")
            + &function("connect", "lea where(%rip),%rdi\ncall __sfi_connect\nret")
            + &function("die", "xor %edi,%edi\nmov %rdi,%gs:0x10(%edi)");
    let declaration: sfi_loader::interface::Declaration = "u64 sum(in u64 values[count], u64 count)".parse().unwrap();
    for mode in [sfi_loader::Mode::Write, sfi_loader::Mode::Full] {
        let text =
            if mode == sfi_loader::Mode::Full { text.replace("mov (%rdi)", "mov %gs:(%edi)") } else { text.clone() };
        let spec = |name: &str, other: &str| {
            DomainSpec::new(name)
                .mode(mode)
                .memory(16_384)
                .stack(65_536)
                .object("o.o", assemble(&text))
                .exports(["work", "sum", "take"])
                .import("give", Import::host("give").signature("() -> int"))
                .import("other", Import::domain(other, "work").signature("(int) -> int"))
                .import("their_take", Import::domain(other, "take").signature("(fn(int) -> int) -> int"))
                .import("their_sum", Import::domain(other, "sum").interface(declaration.clone()))
                .import("__sfi_connect", Import::host("__sfi_connect"))
                .registers("work", sfi_loader::Entry::function("work").signature("(int) -> int"))
                .spare_bindings(2)
                .restart(sfi_loader::Restart::Always)
        };
        let mut world = World::builder()
            .region("seen", 8192)
            .region("unseen", 8192)
            .domain(spec("a", "b").shared("r", "seen", sfi_loader::Access::ReadWrite))
            .domain(spec("b", "a").shared("u", "unseen", sfi_loader::Access::ReadWrite))
            .permit("*", "*")
            .timed()
            .host_fn("give", |_| Ok(9))
            .build()
            .unwrap();
        let call = |world: &mut World, name: &str| {
            let f: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export(name).unwrap();
            f.call(world, (1,))
        };
        for _ in 0..2 {
            assert_eq!(call(&mut world, "run"), Ok(7));
            assert_eq!(call(&mut world, "pass"), Ok(6));
            assert_ne!(call(&mut world, "connect"), Ok(0));
            assert!(call(&mut world, "die").is_err());
        }
        assert_eq!(call(&mut world, "run"), Ok(7));
        let places: Vec<(u64, u64)> = common::maps()
            .iter()
            .filter_map(|line| {
                let (start, end) = line.split_whitespace().next()?.split_once('-')?;
                Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
            })
            .collect();
        for (name, region) in [("a", "seen"), ("b", "unseen")] {
            let domain = world.domain(name).unwrap();
            let (base, segments) = (domain.secret_base(), domain.segments().to_vec());
            let common = world.region_in(name, region).unwrap().0 & !(WINDOW - 1);
            let own = |word: u64| [base, common].contains(&(word & !(WINDOW - 1)));
            let told = |word: u64| !own(word) && places.iter().any(|(start, end)| (*start..*end).contains(&word));
            let memory = world.memory(name).unwrap();
            let mut words = 0;
            for segment in segments {
                let bytes = memory.read(segment.offset, segment.length as usize).unwrap();
                for (at, word) in bytes.windows(8).enumerate() {
                    let word = u64::from_le_bytes(word.try_into().unwrap());
                    words += 1;
                    let negated = word.wrapping_neg();
                    // The place of its own region may be there, negated.
                    let tells = told(word) || told(negated) && negated != common;
                    assert!(!tells, "{name}: {word:#x} in {} at {at:#x}", segment.name);
                }
            }
            assert!(words > 20_000, "{words}");
        }
    }
}

/// A text with `fnstenv` sees no place of an x87 instruction that another domain or the host
/// executed, also if it joins the world when such places are there, and if it trusts everybody
/// between.
#[test]
fn no_text_sees_the_place_of_another_x87_instruction() {
    let see = "fnstenv %gs:area(%eip)\nmov area+12(%rip),%eax\nor area+20(%rip),%eax\nret";
    let see = ".bss\narea: .zero 32\n.text\n".to_owned()
        + &function("see", see)
        + &function("pass", &format!("call middle\n{see}"));
    let plain = function("see", "fld1\nfstp %st\nxor %eax,%eax\nret") + &function("pass", "call middle\nret");
    let spec = |text: &str| {
        let middle = Import::domain("middle", "work").signature("() -> int").trust(Trust::TrustedBoth);
        DomainSpec::new("a").object("a.o", assemble(text)).import("middle", middle)
    };
    for trust in [Trust::MutualDistrust, Trust::TrustedServer, Trust::TrustedBoth] {
        let middle = function("work", "call server\nret");
        let server = Import::domain("server", "work").signature("() -> int").trust(trust);
        // The status stays zero, so that nothing but the places tells of it.
        let load = function("work", "fldz\nfstp %st\nmov $1,%eax\nret");
        let mut world = World::builder()
            .domain(spec(&plain))
            .domain(DomainSpec::new("middle").object("m.o", assemble(&middle)).import("server", server))
            .domain(DomainSpec::new("server").object("s.o", assemble(&load)))
            .build()
            .unwrap();
        let call = |world: &mut World, name: &str| {
            let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export(name).unwrap();
            // SAFETY: the x87 stack is empty before and after, as the ABI wants it.
            unsafe { asm!("fldpi", "fstp st(0)", out("st(0)") _) };
            run.call(world, ()).unwrap()
        };
        assert_eq!(call(&mut world, "pass"), 1, "{trust}");
        world.reload(spec(&see)).unwrap();
        assert_eq!((call(&mut world, "see"), call(&mut world, "pass")), (0, 0), "{trust}");
    }
}
