//! `sfi run --heap-report`: the blocks that programs and domains of manifests do not free.

mod support;

use std::process::Command;
use support::{Bench, succeed};

/// Builds a program, runs it with the report, and returns the standard error output.
fn report(name: &str, source: &str, driver: &str, code: i32, flags: &[&str]) -> String {
    let bench = Bench::new();
    bench.write(name, source.as_bytes());
    succeed(support::sfi(&bench, &[driver]).args(["-O0", "-g", "-w", "-fno-builtin", name, "-o", "prog"]));
    let arguments = [&["run", "--heap-report", "--no-cache", "--time-limit", "30"], flags, &["prog"]].concat();
    String::from_utf8(bench.run(&arguments, code).stderr).expect("text")
}

const LEAKS: &str = r#"
#include <stdlib.h>
#include <string.h>
static char *keep(unsigned long size) {
    return malloc(size);
}
int main(void) {
    for (int i = 0; i < 3; i++)
        keep(1000);
    char *grown = malloc(10);
    grown = realloc(grown, 5000);
    char *copy = strdup("1234567");
    void *zeros = calloc(3, 100);
    void *aligned = aligned_alloc(64, 128);
    for (int i = 0; i < 100; i++)
        free(malloc(i));
    free(zeros);
    return grown && copy && aligned ? 5 : 6;
}
"#;

#[test]
fn leaks_have_their_places() {
    let text = report("leaks.c", LEAKS, "cc", 5, &[]);
    let mut lines = text.lines();
    let first = lines.next().expect("a line");
    assert!(first.starts_with("heap of `program`: 6 blocks not freed, 8136 bytes; "), "{text}");
    let heads: Vec<&str> = text.lines().filter(|line| line.ends_with("allocated by")).collect();
    let expected = ["5000 bytes in 1 block", "3000 bytes in 3 blocks", "128 bytes in 1 block", "8 bytes in 1 block"];
    assert_eq!(heads, expected.map(|head| format!("  {head}, allocated by")));
    let place = |head: &str| text.split(head).nth(1).expect("the head").lines().skip(1).take(2).collect::<Vec<_>>();
    let grown = place("5000 bytes");
    assert!(grown[0].contains("program: main") && grown[0].ends_with("leaks.c:11"), "{text}");
    let kept = place("3000 bytes");
    assert!(kept[0].contains("program: keep") && kept[0].ends_with("leaks.c:5"), "{text}");
    assert!(kept[1].contains("program: main") && kept[1].ends_with("leaks.c:9"), "{text}");
    let copied = place(" 8 bytes");
    assert!(copied[0].contains("strdup") && copied[1].contains("program: main"), "{text}");
    assert!(!text.contains("no block"), "{text}");
}

#[test]
fn a_program_that_frees_everything_is_clean() {
    let source = LEAKS.replace("return grown", "free(grown); free(copy); free(aligned); return 5; return grown");
    let source = source.replace("keep(1000)", "free(keep(1000))");
    let text = report("clean.c", &source, "cc", 5, &[]);
    assert!(text.starts_with("heap of `program`: 0 blocks not freed, 0 bytes; "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn objects_of_cxx_are_blocks() {
    let source = "#include <vector>\nstruct S { std::vector<int> v; };\n\
                  S *make() {\n    return new S{std::vector<int>(1000)};\n}\n\
                  int main() { delete make(); return make() == nullptr; }\n";
    let text = report("objects.cc", source, "c++", 0, &[]);
    assert!(text.contains("4000 bytes in 1 block") && text.contains("24 bytes in 1 block"), "{text}");
    assert!(text.contains("objects.cc:4"), "{text}");
}

#[test]
fn a_report_comes_after_a_fault_and_counts_strange_frees() {
    let source = "#include <stdlib.h>\nint main(void) { malloc(77); char *p = malloc(100); free(p + 16); }\n";
    let text = report("faults.c", source, "cc", 3, &[]);
    assert!(text.contains("fault: ") && text.contains("177 bytes; 2 allocations"), "{text}");
    assert!(text.contains("1 free of what is no block"), "{text}");
}

#[test]
fn a_hostile_program_gets_a_bounded_report() {
    // Its own functions give numbers that are no blocks, in thousands of places. They are weak, so
    // that the assembler does not bind the calls.
    let calls: String = (0..3000).map(|n| format!("use(malloc({n}));\n")).collect();
    let source = format!(
        "static unsigned long next;\n\
         __attribute__((weak)) void *malloc(unsigned long n) {{ return (void *)(next += 0x123456789abcdef1); }}\n\
         __attribute__((weak)) void free(void *p) {{}}\n\
         void *volatile sink; static void use(void *p) {{ sink = p; }}\n\
         int main(void) {{ malloc(-1UL); malloc(-1UL);\n{calls} free((void *)-1UL); return 0; }}\n"
    );
    let text = report("hostile.c", &source, "cc", 0, &["--memory", "64"]);
    assert!(text.contains("3002 blocks not freed, 18446744073709551615 bytes"), "{text}");
    assert!(text.contains("places more"), "{text}");
    assert!(text.lines().count() < 300 && text.len() < 40_000, "{}", text.len());
}

#[test]
fn domains_of_a_manifest_have_reports() {
    let bench = Bench::new();
    let source = "#include <stdlib.h>\nint sfi_main(void) {\n    free(malloc(5));\n    return malloc(40) == 0;\n}\n";
    bench.write("plugin.c", source.as_bytes());
    succeed(support::sfi(&bench, &["cc"]).args([
        "--plugin",
        "-O0",
        "-g",
        "-fno-builtin",
        "plugin.c",
        "-o",
        "plugin.sfi.a",
    ]));
    bench.write("other.c", b"int unused(int x) { return x; }");
    succeed(Command::new("gcc").args(["-c", "other.c"]).current_dir(bench.directory()));
    bench.run(&["rewrite", "-o", "other.sfi.o", "other.o"], 0);
    let manifest = "[entry]\ndomain = \"plugin\"\nfunction = \"sfi_main\"\n[domains.plugin]\n\
                    objects = [\"plugin.sfi.a\"]\nsyscalls.allow = [\"memory\"]\n\
                    [domains.other]\nobjects = [\"other.sfi.o\"]\n";
    bench.write("domains.toml", manifest.as_bytes());
    let plain = bench.run(&["run", "domains.toml"], 0);
    assert!(plain.stderr.is_empty());
    let text = String::from_utf8(bench.run(&["run", "--heap-report", "domains.toml"], 0).stderr).expect("text");
    assert!(text.contains("heap of `plugin`: 1 block not freed, 40 bytes; 2 allocations, at most 40 bytes"), "{text}");
    assert!(text.contains("plugin.c:4"), "{text}");
    assert!(text.contains("heap of `other`: 0 blocks not freed, 0 bytes; 0 allocations"), "{text}");
}

#[test]
fn threads_have_no_report() {
    let bench = Bench::new();
    bench.write("one.c", b"int main(void) { return 0; }");
    succeed(support::sfi(&bench, &["cc"]).args(["one.c", "-o", "prog"]));
    let output = bench.run(&["run", "--heap-report", "--threads", "2", "prog"], 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--heap-report"));
}
