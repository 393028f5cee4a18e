//! Gateways entered in every bad way: with wild values in the registers, above all in the data
//! stack pointer; by a call, by a jump, by a pointer; with floating-point exceptions unmasked and
//! pending; at every depth of the control stack down to its end. The host survives, keeps its
//! floating-point state, and its neighbours' memory does not change.

mod forge;

use sfi_loader::{CallError, DomainSpec, FaultKind, Import, TypedFn, World};
use sfi_tests::random::Random;

/// Rounds, each with other registers.
const ROUNDS: u64 = 3000;
/// General registers in the order of the block that `go` loads; rdi comes last.
const REGISTERS: [&str; 15] =
    ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi"];
/// The words that a domain with a damaged neighbour finds in its data.
const PATTERN: u64 = 0x5c5c_5c5c_5c5c_5c5c;

fn assemble(name: &str, text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join(format!("{name}.s"));
    std::fs::write(&source, text).expect("the source");
    forge::assemble(&source, &folder.path().join(format!("{name}.o"))).expect("it assembles")
}

fn function(name: &str, body: &str) -> String {
    format!(".text\n.globl {name}\n.type {name}, @function\n{name}:\n{body}\n")
}

/// Loads every register from the block at `block`, then leaves through `exit`.
fn load_registers(block: &str) -> String {
    let mut text = String::new();
    for (i, register) in REGISTERS.iter().enumerate() {
        text += &format!("mov {block}+{}(%rip), %{register}\n", 8 * i);
    }
    text
}

/// Assembles a domain whose `by_call_N`, `by_jump_N` and `by_pointer_N` use import N with the
/// registers of the block. The first two report whether the preserved registers came back.
fn attacker(imports: &[&str]) -> Vec<u8> {
    let mut text =
        String::from(".data\n.globl block\nblock: .skip 128\n.globl pattern\npattern: .quad 0x5c5c5c5c5c5c5c5c\n");
    text += "wild_cw: .word 0x0f60\nwild_mxcsr: .long 0x0000003f\none: .double 1\nzero: .double 0\n";
    for import in imports {
        let check: String = ["rbx", "rbp", "r12", "r13", "r14", "r15"]
            .iter()
            .map(|r| {
                let index = REGISTERS.iter().position(|x| x == r).expect("it is there");
                format!("cmp block+{}(%rip), %{r}\njne 9f\n", 8 * index)
            })
            .collect();
        let verdict = format!("{check}mov $1, %eax\nret\n9: mov $2, %eax\nret");
        text += &function(
            &format!("by_call_{import}"),
            &format!("{}call {import}@PLT\n{verdict}", load_registers("block")),
        );
        text += &function(&format!("by_jump_{import}"), &format!("{}jmp {import}@PLT", load_registers("block")));
        text += &function(
            &format!("by_pointer_{import}"),
            &format!(
                "{}lea {import}(%rip), %rax\nand $0xffff8, %eax\ncall *%gs:__sfi_dispatch(%eax)\nret",
                load_registers("block")
            ),
        );
        // A pending x87 exception, all exceptions unmasked, and MMX state.
        text += &function(
            &format!("pending_{import}"),
            &format!(
                "fninit\nfldcw wild_cw(%rip)\nfldl one(%rip)\nfdivl zero(%rip)\nldmxcsr wild_mxcsr(%rip)\n{}jmp {import}@PLT",
                load_registers("block")
            ),
        );
        // Calls itself rdi deep, then the import.
        text += &function(
            &format!("deep_{import}"),
            &format!("test %rdi, %rdi\nje 1f\ndec %rdi\ncall deep_{import}@PLT\nret\n1: jmp {import}@PLT"),
        );
    }
    assemble("attacker", &text)
}

/// Assembles a callee that returns with wild values in its registers.
fn callee() -> Vec<u8> {
    let mut text = String::from(
        ".data\n.globl block\nblock: .skip 128\n.globl pattern\npattern: .quad 0x5c5c5c5c5c5c5c5c\nwild_cw: .word 0x0f60\nwild_mxcsr: .long 0x3f\none: .double 1\nzero: .double 0\n",
    );
    text += &function("wild", &format!("{}ret", load_registers("block")));
    text += &function(
        "wilder",
        &format!(
            "fninit\nfldcw wild_cw(%rip)\nfldl one(%rip)\nfdivl zero(%rip)\nldmxcsr wild_mxcsr(%rip)\n{}ret",
            load_registers("block")
        ),
    );
    text += &function("faulting", "ud2");
    assemble("callee", &text)
}

/// Returns MXCSR without its status flags, and the x87 control word.
fn float_state() -> (u32, u16) {
    let (mut mxcsr, mut control) = (0u32, 0u16);
    // SAFETY: both instructions store to the named variable and change nothing.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack));
        std::arch::asm!("fnstcw [{}]", in(reg) &mut control, options(nostack));
    }
    (mxcsr & 0xffc0, control)
}

/// Says whether the x87 unit works: no exception pending, registers free.
fn x87_works() -> bool {
    let mut sum = 0f64;
    let (a, b) = (1.5f64, 2.25f64);
    // SAFETY: loads two numbers, stores their sum, leaves the register stack empty.
    unsafe {
        std::arch::asm!(
            "fld qword ptr [{a}]", "fadd qword ptr [{b}]", "fstp qword ptr [{s}]",
            a = in(reg) &a, b = in(reg) &b, s = in(reg) &mut sum, options(nostack)
        );
    }
    sum == 3.75
}

const IMPORTS: [&str; 7] =
    ["host_int", "host_float", "host_many", "other_plain", "other_stack", "other_pointer", "other_faulting"];

fn world() -> World {
    let mut app = DomainSpec::new("attacker").memory(64 << 10).stack(64 << 10).object("attacker.o", attacker(&IMPORTS));
    app = app
        .import("host_int", Import::host("host_int").signature("(int, int) -> int"))
        .import("host_float", Import::host("host_float").signature("(float, int) -> float"))
        .import("host_many", Import::host("host_many"))
        .import("other_plain", Import::domain("other", "wild"))
        .import(
            "other_stack",
            Import::domain("other", "wild").signature("(int, int, int, int, int, int, int, int, int) -> int"),
        )
        .import("other_pointer", Import::domain("other", "wilder").signature("(ptr, ptr, int) -> ptr"))
        .import("other_faulting", Import::domain("other", "faulting"));
    World::builder()
        .domain(app)
        .domain(DomainSpec::new("other").memory(64 << 10).stack(64 << 10).object("callee.o", callee()))
        .host_fn("host_int", |cx| Ok(cx.arg(0) ^ cx.arg(1)))
        .host_fn("host_float", |cx| {
            let x = cx.arg_f64(0);
            cx.set_result_f64(x * 0.5);
            assert!(x87_works(), "the x87 state reached a host function");
            Ok(0)
        })
        .host_fn("host_many", |cx| {
            let sum = (0..12).map(|i| cx.arg(i)).fold(0u64, u64::wrapping_add);
            let _ = cx.read(cx.arg(0), cx.arg(1) as usize);
            let _ = cx.write(cx.arg(0), &[0x5c; 16]);
            assert!(x87_works(), "the x87 state reached a host function");
            Ok(sum)
        })
        .build()
        .expect("the world")
}

/// Fills both domains' register blocks. r15 is wild in most rounds.
fn fill(world: &mut World, random: &mut Random) {
    for domain in ["attacker", "other"] {
        let base = world.domain(domain).expect("it is there").secret_base();
        let at = world.domain(domain).expect("it is there").symbol("block").expect("it is there");
        let mut bytes = Vec::new();
        for _ in REGISTERS {
            let value = match random.next() % 8 {
                0 => 0,
                1 => u64::MAX,
                2 => base + (random.next() & 0xffff_ffff),
                3 => random.next() & 0xffff_ffff,
                4 => 1 << 63 | random.next(),
                5 => 0xffff_fff8,
                6 => base.wrapping_sub(8),
                _ => random.next(),
            };
            bytes.extend(value.to_le_bytes());
        }
        world.memory(domain).expect("it is there").write(at.0, &bytes).expect("its data");
    }
}

fn check(world: &mut World, before: (u32, u16), what: &str) {
    assert_eq!(float_state(), before, "{what}: the host's floating-point control state");
    assert!(x87_works(), "{what}: the host's x87 unit");
    for domain in ["attacker", "other"] {
        let at = world.domain(domain).expect("it is there").symbol("pattern").expect("it is there");
        let word = world.memory(domain).expect("it is there").read(at.0, 8).expect("its data");
        assert_eq!(word, PATTERN.to_le_bytes(), "{what}: data of {domain}");
    }
    for domain in ["attacker", "other"] {
        if world.domain(domain).expect("it is there").is_dead() {
            world.restart(domain).expect("it starts again");
        }
    }
}

#[test]
fn any_registers() {
    let mut world = world();
    let (mut random, before) = (Random(7), float_state());
    let (mut returned, mut faulted) = (0, 0);
    for round in 0..ROUNDS {
        let import = IMPORTS[round as usize % IMPORTS.len()];
        let way = ["by_call", "by_jump", "by_pointer", "pending"][(round as usize / IMPORTS.len()) % 4];
        fill(&mut world, &mut random);
        let name = format!("{way}_{import}");
        let f: TypedFn<fn() -> u64> =
            world.domain("attacker").expect("it is there").export(&name).expect("it is there");
        let what = format!("round {round}, {name}");
        match f.call(&mut world, ()) {
            Ok(value) => {
                returned += 1;
                assert!(way != "by_call" || value == 1, "{what}: preserved registers changed");
            }
            Err(CallError::Fault(_)) => faulted += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        check(&mut world, before, &what);
    }
    println!("{returned} returned, {faulted} faulted");
    assert!(returned > ROUNDS / 2, "{returned} returned, {faulted} faulted");
}

/// Calls deeper and deeper. At the control stack's end the domain faults. At no other depth
/// anything else happens.
#[test]
fn any_depth() {
    let mut world = world();
    let before = float_state();
    for import in IMPORTS {
        let f: TypedFn<fn(u64) -> u64> =
            world.domain("attacker").expect("it is there").export(&format!("deep_{import}")).expect("it is there");
        // Each call takes 8 bytes of the control stack. The first steps are large, then every depth
        // around the first failing one is tried.
        let (mut low, mut high) = (0u64, 1 << 20);
        let overflows = |world: &mut World, depth: u64| {
            let result = f.call(world, (depth,));
            let what = format!("{import} at depth {depth}");
            let over = match result {
                Ok(_) => false,
                Err(CallError::Fault(fault)) => {
                    assert_eq!(fault.kind, FaultKind::ControlStackOverflow, "{what}: {fault}");
                    true
                }
                Err(error) => panic!("{what}: {error}"),
            };
            check(world, before, &what);
            over
        };
        assert!(!overflows(&mut world, low) && overflows(&mut world, high), "{import}");
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if overflows(&mut world, middle) { high = middle } else { low = middle }
        }
        for depth in low.saturating_sub(50)..low + 700 {
            overflows(&mut world, depth);
        }
    }
}
