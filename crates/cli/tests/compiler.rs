//! `sfi cc` in place of a compiler: several files, clang, archives by path and by `-l`, a Makefile,
//! and errors.
//!
//! Needs musl-gcc, clang, make and binutils (Debian packages). A missing one fails the tests.

mod support;

use std::path::Path;
use std::process::{Command, Output};
use support::{Bench, succeed};

const HEADER: &str = "struct pair { long a; double b; };\nstruct pair twist(struct pair, int);\nlong mix(const long *, int);\nextern int calls;\n";
const TWIST: &str = "#include \"parts.h\"\n#include <math.h>\n\
    struct pair twist(struct pair p, int n) { calls++; p.a = p.a * 31 + n; p.b = sqrt(p.b * p.b + n); return p; }\n";
/// Needs more values than there are registers, so compilers use r15 unless it is reserved.
const MIX: &str = "#include \"parts.h\"\nint calls;\n\
    long mix(const long *v, int n) {\n\
        long a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7], i = v[8], j = v[9], k = v[10], l = v[11];\n\
        for (; n > 0; n--) {\n\
            a += b ^ n; b = (b << 3) + c; c ^= d + a; d -= e; e += f * 3; f ^= g; g += h - b; h ^= i + n;\n\
            i += j; j = (j >> 1) ^ k; k += l ^ a; l -= c + h;\n\
        }\n\
        return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;\n\
    }\n";
const MAIN: &str = "#include \"parts.h\"\n#include <stdio.h>\n#include <string.h>\n\
    int main(int argc, char **argv) {\n\
        long v[12]; struct pair p = { argc, 0.5 };\n\
        for (int i = 0; i < 12; i++) v[i] = (i + 1) * 0x9e3779b97f4a7c15;\n\
        for (int i = 0; i < argc; i++) p = twist(p, (int)strlen(argv[i]));\n\
        printf(\"%ld %.6f %lx %d\\n\", p.a, p.b, mix(v, 100), calls);\n\
        return 17;\n\
    }\n";
const MAKEFILE: &str = "CFLAGS = -O2\nLDLIBS = -L. -lparts -lm\n\
    prog: main.o libparts.a\n\t$(CC) $(CFLAGS) main.o $(LDLIBS) -o $@\n\
    libparts.a: libparts.a(twist.o) libparts.a(mix.o)\n\tranlib $@\n\
    check: prog\n\t./prog one three > out; test $$? = 17\n\
    .PHONY: check\n";

fn bench() -> Bench {
    let bench = Bench::new();
    for (name, text) in
        [("parts.h", HEADER), ("twist.c", TWIST), ("mix.c", MIX), ("main.c", MAIN), ("Makefile", MAKEFILE)]
    {
        bench.write(name, text.as_bytes());
    }
    bench
}

/// Returns the output of the native program.
fn native(bench: &Bench) -> String {
    let mut command = Command::new("gcc");
    command.args(["-O2", "main.c", "twist.c", "mix.c", "-lm", "-o", "native"]).current_dir(bench.directory());
    succeed(&mut command);
    let output = Command::new(bench.path("native")).args(["one", "three"]).current_dir(bench.directory()).output();
    let output = output.expect("runs");
    assert_eq!(output.status.code(), Some(17));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cc(bench: &Bench, compiler: &str, mode: &str, arguments: &[&str]) -> Output {
    let mut command = support::sfi(bench, &["cc"]);
    command.env("SFI_CC", compiler).env("SFI_MODE", mode).args(arguments).output().expect("sfi runs")
}

fn build(bench: &Bench, compiler: &str, mode: &str, arguments: &[&str]) {
    let output = cc(bench, compiler, mode, arguments);
    assert!(output.status.success(), "{compiler} {mode} {arguments:?}: {}", text(&output.stderr));
}

/// Runs the program. It must have the native program's path, because the output depends on the
/// length of the name.
fn check(bench: &Bench, mode: &str, program: &str, expected: &str) {
    let output = bench.run(&["run", "--mode", mode, program, "--", "one", "three"], 17);
    assert_eq!(text(&output.stdout), expected, "{mode} {program}: {}", text(&output.stderr));
}

/// Counts how often an object's code names r15.
fn r15(bench: &Bench, object: &str) -> usize {
    let mut command = Command::new("objdump");
    let listing = succeed(command.args(["-d", "--no-show-raw-insn", object]).current_dir(bench.directory()));
    assert!(listing.contains("<mix>:"), "{listing}");
    listing.matches("%r15").count()
}

#[test]
fn clang_and_gcc_compile_programs_of_several_files() {
    let bench = bench();
    let program = bench.path("native").display().to_string();
    let expected = native(&bench);
    for compiler in ["clang", "gcc", "musl-gcc", "clang -Wno-unused-command-line-argument"] {
        for (mode, level) in [("write", "-O2"), ("full", "-O1")] {
            build(&bench, compiler, mode, &[level, "main.c", "twist.c", "mix.c", "-lm", "-o", &program]);
            check(&bench, mode, &program, &expected);
        }
    }
}

/// gcc has a flag that reserves the register of the data stack, and gets it. clang 14 for this
/// machine has none, so its objects are rewritten like stock ones.
#[test]
fn r15_is_reserved_where_the_compiler_can() {
    let bench = bench();
    let plain = |compiler: &str| {
        let mut command = Command::new(compiler);
        succeed(command.args(["-O2", "-fPIE", "-c", "mix.c", "-o", "plain.o"]).current_dir(bench.directory()));
        r15(&bench, "plain.o")
    };
    let knows = |compiler: &str| {
        let mut command = Command::new(compiler);
        let status = command.args(["-ffixed-r15", "-c", "mix.c", "-o", "fixed.o"]).current_dir(bench.directory());
        status.output().expect("runs").status.success()
    };
    assert!(knows("gcc"));
    for compiler in ["gcc", "clang"] {
        assert!(plain(compiler) > 0, "{compiler} has registers to spare: the test needs a larger function");
        build(&bench, compiler, "write", &["-O2", "-c", "mix.c", "-o", "mix.o"]);
        assert_eq!(r15(&bench, "mix.o") == 0, knows(compiler), "{compiler}");
        bench.run(&["rewrite", "mix.o"], 0);
        bench.run(&["verify", "mix.sfi.o"], 0);
    }
}

/// A program with its own versions of functions that domains get in place of musl's.
const OWN: &str = "#include <spawn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
    static int moves;\n\
    void *memmove(void *to, const void *from, size_t n) {\n\
        char *t = to; const char *f = from; moves++;\n\
        if (t < f) while (n--) *t++ = *f++; else while (n--) t[n] = f[n];\n\
        return to;\n\
    }\n\
    int posix_spawn(pid_t *a, const char *b, const posix_spawn_file_actions_t *c, const posix_spawnattr_t *d,\n\
        char *const e[], char *const f[]) { return 42; }\n\
    pid_t vfork(void) { return 7; }\n\
    int main(void) {\n\
        char s[] = \"abcdef\";\n\
        memmove(s + 2, s, 4);\n\
        printf(\"%s %d %d %d\\n\", s, moves, posix_spawn(0, 0, 0, 0, 0, 0), (int)vfork());\n\
        return 17;\n\
    }\n";

#[test]
fn programs_have_their_own_versions_of_libc_functions() {
    let bench = bench();
    bench.write("own.c", OWN.as_bytes());
    for mode in ["write", "full"] {
        let flags = ["-O1", "-fno-builtin", "-fno-tree-loop-distribute-patterns"];
        build(&bench, "musl-gcc", mode, &[&flags[..], &["own.c", "-o", "own"]].concat());
        check(&bench, mode, "own", "ababcd 1 42 7\n");
    }
}

#[test]
fn archives_of_its_objects_link() {
    let bench = bench();
    let expected = native(&bench);
    let program = bench.path("native").display().to_string();
    for compiler in ["musl-gcc", "clang"] {
        for source in ["main", "twist", "mix"] {
            build(&bench, compiler, "write", &["-O2", "-c", &format!("{source}.c"), "-o", &format!("{source}.o")]);
        }
        std::fs::create_dir_all(bench.path("lib")).expect("directory");
        bench.archive("lib/libparts.a", &["twist.o", "mix.o"]);
        let links: [&[&str]; 4] = [
            &["main.o", "lib/libparts.a", "-lm"],
            &["main.o", "-Llib", "-lparts", "-lm"],
            &["-L", "lib", "main.o", "-lm", "-lparts"],
            // The link searches archives as a whole, wherever they stand.
            &["-Llib", "-lparts", "main.c"],
        ];
        for link in links {
            build(&bench, compiler, "full", &[link, &["-o", &program]].concat());
            check(&bench, "full", &program, &expected);
        }
        std::fs::remove_file(bench.path("lib/libparts.a")).expect("removed");
    }
    let absent = cc(&bench, "musl-gcc", "write", &["main.o", "-Llib", "-lparts", "-o", "absent"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("cannot find `libparts.a`: give its directory with -L"));
}

#[test]
fn a_plain_makefile_works() {
    let bench = bench();
    let expected = native(&bench);
    let own = Path::new(env!("CARGO_BIN_EXE_sfi")).parent().expect("a directory");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let mut make = Command::new("make");
    succeed(make.args(["CC=sfi cc", "check"]).env("PATH", path).current_dir(bench.directory()));
    let out = std::fs::read_to_string(bench.path("out")).expect("output");
    let words = |text: &str| text.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>();
    // The path of this program has another length.
    assert_eq!(words(&out), words(&expected));
}

/// Code with a budget of instructions: compiled in one step and in two, and refused where it cannot
/// have one.
#[test]
fn a_plugin_with_a_budget() {
    let bench = Bench::new();
    bench.write("spin.c", b"long spin(long n) { for (volatile long i = 0; i < n; i++); return n; }\n");
    bench.write("main.c", b"int main(void) { return 0; }\n");
    for mode in ["write", "full"] {
        build(&bench, "musl-gcc", mode, &["--plugin", "--budget", "-O2", "spin.c", "-o", "one.sfi.a"]);
        build(&bench, "musl-gcc", mode, &["--budget", "-O2", "-c", "spin.c", "-o", "spin.o"]);
        build(&bench, "musl-gcc", mode, &["--plugin", "--budget", "spin.o", "-o", "two.sfi.a"]);
        for archive in ["one", "two"] {
            bench.run(&["verify", "--mode", mode, "--budget", &format!("{archive}.sfi.a")], 0);
            for (count, code) in [(10, 10), (1_i64 << 40, 3)] {
                let manifest = format!(
                    "[domains.d]\nobjects = ['{archive}.sfi.a']\nmode = '{mode}'\ninstructions = 5000\n\
                     [entry]\ndomain = 'd'\nfunction = 'spin'\nargs = [{count}]\n"
                );
                bench.write("domains.toml", manifest.as_bytes());
                let output = bench.run(&["run", "domains.toml"], code);
                let fault = text(&output.stderr);
                assert!(code == 10 || fault.contains("budget"), "{mode} {archive}: {fault}");
            }
        }
    }
    let program = cc(&bench, "musl-gcc", "write", &["--budget", "main.c", "-o", "main"]);
    assert_eq!(program.status.code(), Some(2));
    assert!(text(&program.stderr).contains("--plugin"), "{}", text(&program.stderr));
}
