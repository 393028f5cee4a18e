//! `sfi cc` as a linker: linked parts, errors of the link, and the linker's options.
//!
//! Needs musl-gcc and binutils (Debian packages). A missing one fails the tests.

mod support;

use std::process::Output;
use support::Bench;

fn cc(bench: &Bench, arguments: &[&str]) -> Output {
    support::sfi(bench, &["cc"]).arg("-w").args(arguments).output().expect("sfi runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Links and runs a program. Returns its output.
fn run(bench: &Bench, arguments: &[&str]) -> String {
    let output = cc(bench, &[arguments, &["-o", "prog"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&bench.run(&["run", "prog"], 0).stdout)
}

/// Attempts a link that must fail. Returns its messages.
fn fail(bench: &Bench, arguments: &[&str]) -> String {
    let output = cc(bench, &[arguments, &["-o", "none"]].concat());
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
    assert!(!bench.path("none").exists(), "{arguments:?}");
    text(&output.stderr)
}

/// Compiles each file alone and makes an archive of the objects.
fn library(bench: &Bench, archive: &str, sources: &[&str], flags: &[&str]) {
    let objects: Vec<String> = sources.iter().map(|source| source.replace(".c", ".o")).collect();
    for (source, object) in sources.iter().zip(&objects) {
        let output = cc(bench, &[flags, &["-c", source, "-o", object]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    bench.archive(archive, &objects.iter().map(String::as_str).collect::<Vec<_>>());
}

fn bench() -> Bench {
    let bench = Bench::new();
    let sources = [
        ("empty.c", "int main(void) { return 0; }"),
        ("undefined.c", "int nobody_has_this(void); int main(void) { return nobody_has_this(); }"),
        ("one.c", "int f(void) { return 1; } int main(void) { return f(); }"),
        ("two.c", "int f(void) { return 2; }"),
        ("starts.c", "#include <stdio.h>\n__attribute__((constructor)) static void begin(void) { puts(\"begin\"); }"),
        ("extern.c", "extern int *shared; int main(void) { static int x = 7; shared = &x; return *shared - 7; }"),
        ("common.c", "int *shared;"),
        ("block.c", "#include <stdio.h>\nint level; int main(void) { printf(\"%d\\n\", level); return 0; }"),
        ("full.c", "int level = 5;"),
        (
            "wraps.c",
            "#include <stdio.h>\n#include <stdlib.h>\nvoid *__real_malloc(size_t);\n\
             void *__wrap_malloc(size_t n) { puts(\"wrapped\"); return __real_malloc(n); }\n\
             int answer(void) { return 42; }\nint reply(void);\n\
             int main(void) { free(malloc(3)); printf(\"%d\\n\", reply()); return 0; }",
        ),
    ];
    sources.into_iter().for_each(|(name, source)| bench.write(name, source.as_bytes()));
    bench
}

#[test]
fn undefined_and_duplicate_symbols_fail_the_link() {
    let bench = bench();
    let undefined = fail(&bench, &["undefined.c"]);
    assert!(undefined.contains("nobody_has_this (used in none(undefined.c))"), "{undefined}");
    let twice = fail(&bench, &["one.c", "two.c"]);
    assert!(twice.contains("f (none(one.c), none(two.c))"), "{twice}");
    // The link does not need the archive's definition, so there is no duplicate.
    library(&bench, "libtwo.a", &["two.c"], &[]);
    cc(&bench, &["one.c", "libtwo.a", "-o", "prog"]);
    bench.run(&["run", "prog"], 1);
}

#[test]
fn objects_of_the_command_line_are_linked_and_whole_archives() {
    let bench = bench();
    library(&bench, "libstarts.a", &["starts.c"], &[]);
    assert_eq!(run(&bench, &["empty.c", "starts.c"]), "begin\n");
    assert_eq!(run(&bench, &["empty.c", "libstarts.a"]), "");
    assert_eq!(run(&bench, &["empty.c", "-Wl,--whole-archive", "libstarts.a", "-Wl,--no-whole-archive"]), "begin\n");
    assert_eq!(run(&bench, &["empty.c", "-L.", "-Wl,--whole-archive,-lstarts,--no-whole-archive", "-lm"]), "begin\n");
    assert_eq!(run(&bench, &["empty.c", "-Wl,--whole-archive", "-Wl,--no-whole-archive", "libstarts.a"]), "");
}

#[test]
fn common_symbols_are_definitions() {
    let bench = bench();
    library(&bench, "libcommon.a", &["common.c"], &["-fcommon"]);
    assert_eq!(run(&bench, &["-fcommon", "extern.c", "common.c"]), "");
    assert_eq!(run(&bench, &["extern.c", "libcommon.a"]), "");
    // A definition with contents replaces a common block.
    library(&bench, "libfull.a", &["full.c"], &[]);
    assert_eq!(run(&bench, &["-fcommon", "block.c"]), "0\n");
    assert_eq!(run(&bench, &["-fcommon", "block.c", "libfull.a"]), "5\n");
}

#[test]
fn the_linkers_options_work_or_are_errors() {
    let bench = bench();
    let wrapped = ["wraps.c", "-Wl,--wrap=malloc", "-Wl,--defsym,reply=answer", "-Wl,-Map=prog.map"];
    assert_eq!(run(&bench, &wrapped), "wrapped\n42\n");
    let map = std::fs::read_to_string(bench.path("prog.map")).expect("a map");
    assert!(map.contains("(printf.lo)\n    wraps.c (printf)\n") && map.contains("LOAD wraps.c\n"), "{map}");
    let plain = fail(&bench, &["wraps.c"]);
    assert!(plain.contains("__real_malloc (used in") && plain.contains("reply (used in"), "{plain}");
    library(&bench, "libstarts.a", &["starts.c", "two.c"], &[]);
    assert_eq!(run(&bench, &["empty.c", "-l:libstarts.a", "-L."]), "");
    std::fs::rename(bench.path("starts.c"), bench.path("named.c")).expect("renamed");
    bench.write("starts.c", &[&std::fs::read(bench.path("named.c")).expect("read"), &b"\nint name;"[..]].concat());
    std::fs::remove_file(bench.path("libstarts.a")).expect("removed");
    library(&bench, "libstarts.a", &["starts.c"], &[]);
    for asks in [&["-u", "name"][..], &["-uname"], &["-Wl,-u,name"], &["-Wl,--undefined=name"], &["-Xlinker", "-uname"]]
    {
        assert_eq!(run(&bench, &[&["empty.c", "libstarts.a"], asks].concat()), "begin\n", "{asks:?}");
    }
    bench.write("script.ld", b"SECTIONS {}");
    for (refused, why) in [
        (&["-T", "script.ld"][..], "the loader places a domain's sections"),
        (&["-Wl,-T,script.ld"], "the loader places a domain's sections"),
        (&["-nostartfiles"], "a program starts in `main`"),
        (&["-e", "main"], "a program starts in `main`"),
        (&["-Wl,--frobnicate"], "the linker's option `--frobnicate` is not supported"),
        (&["-Wl,--defsym=f=5"], "a domain's symbol can be another name"),
        (&["-l:libnone.a"], "cannot find `libnone.a`"),
    ] {
        let error = fail(&bench, &[&["empty.c"], refused].concat());
        assert!(error.contains(why), "{error}");
    }
}

/// A refused member is an error of the link only if the link needs that member.
#[test]
fn refused_members_fail_the_link_that_needs_them() {
    let bench = bench();
    bench.assemble(
        "bad.o",
        ".globl f\n.type f,@function\nf: mov (%rsp),%rax\nadd $5,%rax\nmov %rax,(%rsp)\nret\n.size f,.-f\n",
    );
    bench.archive("libbad.a", &["bad.o"]);
    bench.write("needs.c", b"int f(void); int main(void) { return f(); }");
    assert_eq!(run(&bench, &["empty.c", "libbad.a"]), "");
    let error = fail(&bench, &["needs.c", "libbad.a"]);
    assert!(error.contains("--> libbad.a(bad.o)") && error.contains("error[SFI-"), "{error}");
}

/// `-shared` keeps objects for later links, as libtool and Makefiles expect.
#[test]
fn shared_libraries_are_linked_into_their_programs() {
    let bench = bench();
    let made = cc(&bench, &["-fPIC", "-shared", "two.c", "-Wl,-soname,libtwo.so.1", "-lm", "-o", "libtwo.so.1.2"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    std::os::unix::fs::symlink("libtwo.so.1.2", bench.path("libtwo.so")).expect("linked");
    bench.write("uses.c", b"#include <stdio.h>\nint f(void); int main(void) { printf(\"%d\\n\", f()); return 0; }");
    for library in [&["libtwo.so"][..], &["libtwo.so.1.2"], &["-L.", "-ltwo"]] {
        assert_eq!(run(&bench, &[&["uses.c"], library].concat()), "2\n");
    }
    // A library does not hold the code of libraries that it was linked with.
    bench.write("calls.c", b"int f(void); int g(void) { return f(); }");
    assert!(cc(&bench, &["-shared", "calls.c", "-L.", "-ltwo", "-o", "libcalls.so"]).status.success());
    bench.write("uses_both.c", b"int g(void); int main(void) { return g() - 2; }");
    assert!(fail(&bench, &["uses_both.c", "libcalls.so"]).contains("f (used in none(calls.c))"));
    assert_eq!(run(&bench, &["uses_both.c", "libcalls.so", "libtwo.so"]), "");
}

#[test]
fn zeroed_data_is_bounded_when_the_program_runs() {
    let bench = bench();
    let source = "#include <stdio.h>\nstatic char big[100 << 20];\n\
                  int main(int n, char **a) { big[n << 20] = 3; return printf(\"%d\\n\", big[1 << 20]) < 0; }";
    bench.write("big.c", source.as_bytes());
    let linked = cc(&bench, &["big.c", "-o", "big"]);
    assert!(linked.status.success(), "{}", text(&linked.stderr));
    assert_eq!(text(&bench.run(&["run", "big"], 0).stdout), "3\n");
    let refused = bench.run(&["run", "--memory", "64", "big"], 2);
    assert!(text(&refused.stderr).contains("give more `memory`"), "{}", text(&refused.stderr));
}
