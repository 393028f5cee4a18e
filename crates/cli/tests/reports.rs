//! Long reports: the first twenty findings, and the number of the others by function. One report is
//! about all inputs of a command. Objects that need the same advice get it once.

mod support;

use support::{Bench, sfi, succeed};

/// Returns a function with a number of lines.
fn function(name: &str, line: &str, count: usize) -> String {
    format!(".text\n.globl {name}\n.type {name}, @function\n{name}:\n{}\tret\n", format!("\t{line}\n").repeat(count))
}

/// Makes an archive of two objects with 15 such lines each, in functions `f` and `g`.
fn archive(bench: &Bench, line: &str) {
    bench.assemble("f.o", &function("f", line, 15));
    bench.assemble("g.o", &function("g", line, 15));
    bench.archive("both.a", &["f.o", "g.o"]);
}

/// Returns what `sfi` prints, and how many lines have the text.
fn said(bench: &Bench, arguments: &[&str], text: &str) -> (String, usize) {
    let output = sfi(bench, arguments).output().unwrap();
    let all = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let count = all.lines().filter(|line| line.contains(text)).count();
    (all, count)
}

const REST: &str = "and 10 more, in `g` (10)";

#[test]
fn the_rewriter_prints_the_first_refusals() {
    let bench = Bench::new();
    archive(&bench, "wrmsr");
    for inputs in [&["both.a"][..], &["f.o", "g.o"]] {
        let (all, count) = said(&bench, &[&["rewrite"], inputs].concat(), "error[SFI-W03]");
        assert_eq!(count, 20, "{all}");
        assert!(all.contains(&format!("\nnote: {REST}\n")), "{all}");
        // The others are not told twice.
        assert_eq!(all.matches(" more").count(), 1, "{all}");
    }
    let (all, count) = said(&bench, &["rewrite", "f.o"], "error[SFI-W03]");
    assert_eq!(count, 15, "{all}");
    assert!(!all.contains(" more"), "{all}");
}

#[test]
fn the_gate_prints_the_first_violations_and_each_advice_once() {
    let bench = Bench::new();
    archive(&bench, "mov %rax,(%rdi)");
    for inputs in [&["both.a"][..], &["f.o", "g.o"]] {
        let (all, count) = said(&bench, &[&["verify"], inputs].concat(), "error[SFI-S01]");
        assert_eq!(count, 20, "{all}");
        assert!(all.contains(&format!("\nnote: {REST}\n")), "{all}");
        assert_eq!(all.matches("never rewritten").count(), 1, "{all}");
        assert!(all.contains(" and one other object: never rewritten"), "{all}");
        assert_eq!(all.matches(": 15 violations\n").count(), 2, "{all}");
    }
    let (json, count) = said(&bench, &["verify", "--json", "both.a"], "\"SFI-S01\"");
    assert_eq!(count, 30, "{json}");
}

#[test]
fn the_loader_prints_the_first_violations_and_symbols() {
    let bench = Bench::new();
    archive(&bench, "mov %rax,(%rdi)");
    let manifest = |objects: &str| {
        let text = format!(
            "[domains.a]\nobjects = [{objects}]\nexports = [\"f\"]\n[entry]\ndomain = \"a\"\nfunction = \"f\"\n"
        );
        bench.write("sfi.toml", text.as_bytes());
    };
    manifest("\"both.a\"");
    let (all, count) = said(&bench, &["run", "sfi.toml"], "SFI-S01");
    assert_eq!(count, 20, "{all}");
    assert!(all.ends_with(&format!("\n  {REST}\n")), "{all}");
    assert_eq!(all.matches("never rewritten").count(), 1, "{all}");

    let calls: String = (0..30).map(|n| format!("\tcall u{n:02}\n")).collect();
    bench.assemble("calls.o", &format!(".globl f\n.type f, @function\nf:\n{calls}\tret\n"));
    bench.run(&["rewrite", "calls.o"], 0);
    manifest("\"calls.sfi.o\"");
    let (all, count) = said(&bench, &["run", "sfi.toml"], "used in calls.sfi.o");
    assert_eq!(count, 20, "{all}");
    assert!(all.ends_with("  u19 (used in calls.sfi.o)\n  and 10 more, in `calls.sfi.o` (10)\n"), "{all}");

    let twice: String = (0..30).map(|n| format!(".globl d{n:02}\nd{n:02}:\n")).collect();
    let code = format!(".type f, @function\n{twice}f: ret\n");
    bench.assemble("one.o", &code);
    bench.assemble("two.o", &code);
    bench.run(&["rewrite", "one.o"], 0);
    bench.run(&["rewrite", "two.o"], 0);
    manifest("\"one.sfi.o\", \"two.sfi.o\"");
    let (all, count) = said(&bench, &["run", "sfi.toml"], "one.sfi.o, two.sfi.o");
    assert_eq!(count, 20, "{all}");
    assert!(all.contains("\n  and 10 more, in `"), "{all}");
}

/// Each of the objects of a program breaks the other mode.
#[test]
fn the_wrong_mode_of_a_program_is_one_line() {
    let bench = Bench::new();
    bench.write("main.c", b"#include <stdio.h>\nint main(void) { return printf(\"hello\\n\") != 6; }\n");
    let mut cc = sfi(&bench, &["cc", "-O2", "main.c", "-o", "prog"]);
    succeed(cc.env("SFI_MODE", "write"));
    let right = bench.run(&["run", "--no-cache", "prog"], 0);
    assert_eq!(String::from_utf8_lossy(&right.stdout), "hello\n");
    let wrong = bench.run(&["run", "--no-cache", "--mode", "full", "prog"], 2);
    let all = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(all.lines().count(), 1, "{all}");
    let (_, objects) = all.split_once(" and ").unwrap_or_else(|| panic!("{all}"));
    assert!(objects.split(' ').next().unwrap().parse::<usize>().unwrap() > 5, "{all}");
    let advice = "other objects: rewritten for mode write; build it with SFI_MODE=full, or rewrite it with `sfi rewrite \
                  --mode full`\n";
    assert!(all.ends_with(advice), "{all}");
}
