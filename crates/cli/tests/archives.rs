//! Gate, loader and rewriter find the same members in an archive. The gate gives no verdict on
//! bytes that it did not check.

mod support;

use serde_json::Value;
use support::Bench;

const MAIN: &str = ".text\n.globl f\n.type f,@function\nf:\n\tcall clock@PLT\n\tret\n";
const CLOCK: &str = ".text\n.globl clock\n.type clock,@function\nclock:\n\tcpuid\n\tmov $7,%eax\n\tret\n";
const BAD: &str = ".text\n.globl clock\n.type clock,@function\nclock:\n\tsyscall\n\tret\n";
const MANIFEST: &str =
    "[entry]\ndomain = 'app'\nfunction = 'f'\n[domains.app]\nobjects = ['main.o']\narchives = ['x.a']\n";

/// Returns a member of any name, with its padding.
fn entry(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    bytes
}

/// Returns archives that hide an object: how it hides, and all entries.
fn hidden(ok: &[u8], object: &[u8]) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let bsd = [&b"__.SYMDEF_evil.o\0\0\0\0"[..], object].concat();
    let exact = [&b"__.SYMDEF\0\0\0"[..], object].concat();
    vec![
        ("plain", vec![entry("ok.o/", ok), entry("c.o/", object)]),
        ("/ after", vec![entry("ok.o/", ok), entry("/", object)]),
        ("/SYM64/ after", vec![entry("ok.o/", ok), entry("/SYM64/", object)]),
        ("// after", vec![entry("ok.o/", ok), entry("//", object)]),
        ("second /", vec![entry("/", &[0; 4]), entry("/", object), entry("ok.o/", ok)]),
        ("second //", vec![entry("//", b"x/\n"), entry("//", object), entry("ok.o/", ok)]),
        ("__.SYMDEF after", vec![entry("ok.o/", ok), entry("__.SYMDEF", object)]),
        ("__.SYMDEFx", vec![entry("__.SYMDEFx.o/", object), entry("ok.o/", ok)]),
        ("BSD name", vec![entry("ok.o/", ok), entry("#1/20", &bsd)]),
        ("BSD name first", vec![entry("#1/20", &bsd), entry("ok.o/", ok)]),
        ("BSD table name after", vec![entry("ok.o/", ok), entry("#1/12", &exact)]),
        ("twice", vec![entry("ok.o/", ok), entry("ok.o/", object)]),
    ]
}

#[test]
fn members_that_look_like_tables_are_judged_and_loaded() {
    let bench = Bench::new();
    let assembled = |name: &str, source: &str| {
        bench.assemble(name, source);
        std::fs::read(bench.path(name)).unwrap()
    };
    let ok = assembled("ok.o", ".text\n.globl g\ng:\n\tret\n");
    let (bad, clock) = (assembled("bad.o", BAD), assembled("clock.o", CLOCK));
    assembled("main.o", MAIN);
    bench.write("m.toml", MANIFEST.as_bytes());
    bench.write("p.toml", b"instructions = { cpuid = false }");
    let write = |entries: Vec<Vec<u8>>| bench.write("x.a", &[b"!<arch>\n".to_vec(), entries.concat()].concat());
    for (how, entries) in hidden(&ok, &bad) {
        write(entries);
        let said = bench.run(&["verify", "--json", "x.a"], 1).stdout;
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(said["objects"].as_array().unwrap().len(), 2, "{how}");
        bench.run(&["verify", "--attest", "s.json", "x.a"], 1);
        bench.run(&["run", "m.toml"], 2);
    }
    for (how, entries) in hidden(&ok, &clock) {
        write(entries);
        bench.run(&["verify", "--policy", "p.toml", "x.a"], 1);
        bench.run(&["verify", "x.a"], 0);
        bench.run(&["run", "m.toml"], 7);
        // The rewriter finds these members too.
        bench.run(&["rewrite", "-o", "y.a", "x.a"], 0);
        let said: Value = serde_json::from_slice(&bench.run(&["verify", "--json", "y.a"], 0).stdout).unwrap();
        assert_eq!(said["objects"].as_array().unwrap().len(), 2, "{how}");
    }
    // No tool accepts an object at the place of a table.
    for name in ["/", "/SYM64/", "//", "__.SYMDEF", "__.SYMDEF SORTED"] {
        write(vec![entry(name, &clock), entry("ok.o/", &ok)]);
        for arguments in [&["verify", "x.a"][..], &["run", "m.toml"], &["rewrite", "-o", "y.a", "x.a"]] {
            let out = bench.run(arguments, 2);
            assert!(String::from_utf8_lossy(&out.stderr).contains("where a table belongs"), "{name}: {arguments:?}");
        }
    }
    // Members that are no objects are listed, and an archive with such a member is not safe.
    for (name, data) in
        [("empty.o/", &b""[..]), ("notes.txt/", b"text"), ("in.a/", b"!<arch>\n"), ("bc.o/", b"BC\xc0\xde")]
    {
        write(vec![entry("ok.o/", &ok), entry(name, data)]);
        let out = bench.run(&["verify", "x.a"], 2);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(&format!("x.a({})", name.trim_end_matches('/'))), "{said}");
        bench.run(&["run", "m.toml"], 2);
    }
}

#[test]
fn intermediate_code_is_never_safe() {
    let bench = Bench::new();
    bench.write("l.c", b"int g(int x) { return x * 3; }\n");
    let compile = |arguments: &[&str]| {
        support::succeed(
            std::process::Command::new("gcc").args(["-O2", "-c", "l.c"]).args(arguments).current_dir(bench.directory()),
        );
    };
    compile(&["-flto", "-fno-fat-lto-objects", "-o", "slim.o"]);
    compile(&["-flto", "-ffat-lto-objects", "-g", "-o", "fat.o"]);
    for object in ["slim.o", "fat.o"] {
        let said = bench.run(&["verify", "--json", object], 1).stdout;
        assert!(String::from_utf8_lossy(&said).contains("SFI-E08"), "{object}");
    }
    let refused = bench.run(&["rewrite", "slim.o"], 2);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("SFI-W13") && said.contains("-ffat-lto-objects"), "{said}");
    support::succeed(
        std::process::Command::new("clang").args(["-c", "-flto", "l.c", "-o", "llvm.o"]).current_dir(bench.directory()),
    );
    for (command, code) in [("rewrite", 2), ("verify", 2)] {
        let said = String::from_utf8(bench.run(&[command, "llvm.o"], code).stderr).unwrap();
        assert!(said.contains("LLVM bitcode instead of an object; compile without -flto and -emit-llvm"), "{said}");
    }
    let noted = bench.run(&["rewrite", "-o", "fat.sfi.o", "fat.o"], 0);
    assert!(String::from_utf8_lossy(&noted.stderr).contains("intermediate code"), "a note");
    bench.run(&["verify", "fat.sfi.o"], 0);
    let sections = support::succeed(std::process::Command::new("readelf").arg("-SW").arg(bench.path("fat.sfi.o")));
    assert!(!sections.contains("lto"), "{sections}");
}

#[test]
fn nothing_checked_is_no_verdict() {
    let bench = Bench::new();
    bench.write("empty.a", b"!<arch>\n");
    bench.write("table.a", &[b"!<arch>\n".to_vec(), entry("/", &[0; 4])].concat());
    bench.assemble("void.o", "");
    bench.archive("void.a", &["void.o"]);
    bench.assemble("data.o", ".data\n.globl d\nd:\t.quad 1\n");
    for input in ["empty.a", "table.a", "void.o", "void.a"] {
        for format in ["human", "json", "sarif"] {
            let out = bench.run(&["verify", "--format", format, input], 2);
            let said = [out.stdout, out.stderr].concat();
            assert!(String::from_utf8_lossy(&said).contains("nothing was checked"), "{input}, {format}");
        }
        if bench.run_code(&["verify", "--attest", "s.json", input]) == 2 && bench.path("s.json").exists() {
            let statement: Value = serde_json::from_slice(&std::fs::read(bench.path("s.json")).unwrap()).unwrap();
            assert_eq!(statement["predicate"]["result"], "FAILED", "{input}");
        }
    }
    // Data alone can be checked, and an empty object beside it changes nothing.
    bench.run(&["verify", "data.o", "void.o"], 0);
    bench.run(&["verify", "data.o", "empty.a"], 2);
}

/// Sizes that sections claim may overflow a sum of them.
#[test]
fn sizes_beyond_a_sum_are_refused() {
    let bench = Bench::new();
    let section = |number| format!(".section .b{number},\"aw\",@nobits\n.skip 0x7fffffffffffffff\n");
    bench.assemble("large.o", &(1..=3).map(section).collect::<String>());
    let said = bench.run(&["verify", "--json", "large.o"], 1).stdout;
    assert_eq!(String::from_utf8_lossy(&said).matches("SFI-E01").count(), 3);
}

/// The gate agrees with the loader about imports. If the gate takes a name for the object's own,
/// the loader does not grant it.
#[test]
fn imports_are_what_the_loader_grants() {
    let bench = Bench::new();
    let call = ".text\n.globl f\n.type f,@function\nf:\n\tcall host_write@PLT\n\tret\n";
    bench.assemble("plain.o", call);
    bench.write("strict.toml", b"imports = { allow = [\"host_read\", \"other_*\"] }");
    let manifest = |inputs: &str, more: &str| {
        let text = format!(
            "[entry]\ndomain = 'app'\nfunction = 'f'\n[domains.app]\n{inputs}\n[domains.app.imports]\n\
             host_write = {{ host = 'host_write', signature = '(ptr, int) -> int'{more} }}\n"
        );
        bench.write("m.toml", text.as_bytes());
    };
    let group = ".section .text.g,\"axG\",@progbits,g,comdat\n";
    for (how, definition, is_own) in [
        ("none", String::new(), false),
        ("weak", ".weak host_write\nhost_write: ret\n".to_owned(), true),
        ("strong", ".globl host_write\nhost_write: ret\n".to_owned(), true),
        ("local", ".globl h\n.set h,0\n".to_owned(), false),
        ("note", ".globl host_write\n.section .note.x,\"a\",@note\nhost_write: .long 0\n".to_owned(), false),
        ("eh", ".globl host_write\n.section .eh_frame,\"a\",@progbits\nhost_write: .long 0\n".to_owned(), false),
        ("debug", ".globl host_write\n.section .debug_x,\"\",@progbits\nhost_write: .long 0\n".to_owned(), false),
        ("group", format!("{group}.globl host_write\nhost_write: ret\n"), true),
    ] {
        bench.assemble("d.o", &definition);
        bench.assemble("both.o", &(call.to_owned() + &definition));
        std::fs::remove_file(bench.path("d.a")).ok();
        bench.archive("d.a", &["d.o"]);
        for (inputs, files) in [
            ("objects = ['both.o']", &["both.o"][..]),
            ("objects = ['plain.o', 'd.o']", &["plain.o", "d.o"]),
            ("objects = ['plain.o']\narchives = ['d.a']", &["plain.o", "d.a"]),
        ] {
            // In one object such a branch breaks a rule of its own.
            if files == ["both.o"] && ["note", "eh", "debug"].contains(&how) {
                bench.run(&["verify", "both.o"], 1);
                continue;
            }
            let arguments = [&["verify", "--json", "--policy", "strict.toml"], files].concat();
            let said = bench.run(&arguments, if is_own { 0 } else { 1 }).stdout;
            assert_eq!(String::from_utf8_lossy(&said).contains("SFI-P04"), !is_own, "{how}: {inputs}");
            manifest(inputs, "");
            let claimed = !["none", "local"].contains(&how);
            let out = bench.run(&["run", "m.toml"], if claimed { 2 } else { bench.run_code(&["run", "m.toml"]) });
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(said.contains("granted by the specification"), claimed, "{how}: {inputs}: {said}");
            manifest(inputs, ", override = true");
            let out = bench.run(&["run", "m.toml"], bench.run_code(&["run", "m.toml"]));
            assert!(!String::from_utf8_lossy(&out.stderr).contains("granted by"), "{how}: {inputs}");
        }
    }
}
