//! `sfi bind` writes files that compile, and both sides understand each other. `BLESS=1` rewrites
//! the generated files.

#[rustfmt::skip]
#[path = "interface/codec.rs"]
mod codec;
#[deny(warnings)]
#[rustfmt::skip]
#[path = "interface/inward.rs"]
mod inward;
#[deny(warnings)]
#[rustfmt::skip]
#[path = "interface/nullary.rs"]
mod nullary;
mod support;

use codec::Codec;
use sfi_loader::{CallError, DomainSpec, Import, Mode, TypedFn, World};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::Bench;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interface").join(name)
}

fn bind(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sfi")).arg("bind").args(arguments).output().expect("sfi runs")
}

/// Compiles a source with gcc and rewrites it.
fn rewritten(name: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("out.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-fno-stack-protector", "-Wall", "-Werror", "-c", "-o"]).arg(&object).arg(file(name));
    assert!(gcc.status().expect("gcc is needed").success());
    let bytes = std::fs::read(object).unwrap();
    sfi_rewriter::rewrite(&bytes, &sfi_rewriter::Options { mode: Mode::Write, ..Default::default() })
        .unwrap_or_else(|r| panic!("{}", r[0]))
        .bytes
}

fn world() -> World {
    let declarations = sfi_loader::manifest::InterfaceFile::load(&file("codec.toml")).unwrap().functions;
    let mut client = DomainSpec::new("client").object("client.o", rewritten("client.c"));
    for d in declarations {
        client = client.import(d.name.clone(), Import::domain("server", d.name.clone()).interface(d).on_fault(-7));
    }
    World::builder()
        .domain(client)
        .domain(DomainSpec::new("server").object("server.o", rewritten("server.c")))
        .build()
        .unwrap()
}

#[test]
fn the_generated_files_are_what_it_writes() {
    let rust = ["codec.rs", "inward.rs", "nullary.rs"].map(|name| ("rust", name));
    for (emit, name) in [("header", "codec.h")].into_iter().chain(rust) {
        let from = file(name).with_extension("toml");
        let output = bind(&[from.to_str().unwrap(), "--emit", emit]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(file(name), &output.stdout).unwrap();
        }
        assert_eq!(String::from_utf8(output.stdout).unwrap(), std::fs::read_to_string(file(name)).unwrap(), "{name}");
    }
    let fixtures = support::root().join("fixtures/c-host");
    for interface in ["thumb", "service"] {
        for (emit, name) in [("header", format!("{interface}.h")), ("c-host", format!("{interface}_host.h"))] {
            let output = bind(&[fixtures.join(interface).with_extension("toml").to_str().unwrap(), "--emit", emit]);
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(fixtures.join(&name), &output.stdout).unwrap();
            }
            let written = std::fs::read_to_string(fixtures.join(&name)).unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), written, "{name}");
        }
    }
    // The header is valid C++ too.
    let mut check = Command::new("g++");
    let status = check.args(["-fsyntax-only", "-Wall", "-Werror", "-x", "c++"]).arg(file("codec.h")).status();
    assert!(status.expect("g++ is needed").success());
}

#[test]
fn plugins_on_both_sides() {
    let mut world = world();
    let client: TypedFn<fn(i32) -> i32> = world.domain("client").unwrap().export("client").unwrap();
    // The client checks ten runs of a hundred bytes, which pack into twenty bytes. The second run
    // is of ones, the mean is 3, and two checks hold.
    assert_eq!(client.call(&mut world, (64,)), Ok(20_100_132));
    assert_eq!(client.call(&mut world, (19,)), Ok(-1), "the server's own refusal");
    assert_eq!(client.call(&mut world, (1 << 30,)), Ok(-7), "more room than the client has: the crossing's refusal");
}

#[test]
fn a_host_with_slices() {
    let mut world = world();
    let codec = Codec::connect(&world, "server").unwrap();
    let (mut packed, mut size) = ([0; 8], [8]);
    assert_eq!(codec.pack(&mut world, &mut packed, &mut size, b"aaab", 4), Ok(0));
    assert_eq!((packed, size), ([3, b'a', 1, b'b', 0, 0, 0, 0], [4]));
    assert_eq!(codec.mean(&mut world, &[1.0, 2.5], 2), Ok(1.75));
    let mut numbers = [1, 2, 3, 4, 5, 6, 7, -8];
    assert_eq!(codec.count_up(&mut world, &mut numbers, -1), Ok(()));
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, -9]);
    assert_eq!(codec.nothing(&mut world), Ok(0x1234_5678_9abc_def0));
    assert!(matches!(codec.mean(&mut world, &[1.0], 2), Err(CallError::Arguments { .. })));
    assert!(Codec::connect(&world, "client").is_err());
}

/// Every interface compiles as the C side of a host, in C and C++, without a warning.
#[test]
fn hosts_in_c_and_cxx() {
    let bench = Bench::new();
    let include = support::root().join("crates/capi/include");
    let fixtures = support::root().join("fixtures/c-host");
    for toml in
        ["codec", "inward", "nullary"].map(file).into_iter().chain(["thumb", "service"].map(|n| fixtures.join(n)))
    {
        let toml = toml.with_extension("toml");
        bench.run(&["bind", toml.to_str().unwrap(), "--emit", "c-host", "-o", "host.h"], 0);
        for (compiler, language) in [("gcc", "c"), ("g++", "c++")] {
            let mut check = Command::new(compiler);
            check
                .args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language, "-I"])
                .arg(&include);
            support::succeed(check.arg(bench.path("host.h")).current_dir(bench.directory()));
        }
    }
    for (name, function, what) in [
        ("a", "void f(u8 class)", "`class` is no name in C"),
        ("a", "void while()", "`while` is no name in C"),
        ("a", "void f(u8 sfi_client)", "are taken"),
        ("a", "void connect()", "a meaning of its own"),
        ("a", "u8 user()", "a meaning of its own"),
        ("sfi", "void f()", "cannot be the name of a type"),
        ("9", "void f()", "cannot be the name of a type"),
        ("double", "void f()", "cannot be the name of a type"),
    ] {
        let toml = format!("{name}.toml");
        bench.write(&toml, format!("functions = [\"{function}\"]").as_bytes());
        let output = bench.run(&["bind", &toml, "--emit", "c-host"], 2);
        assert!(String::from_utf8(output.stderr).unwrap().contains(what), "{name}: {function}");
    }
}

/// Generated modules import only the names that they use, so they compile without a warning.
#[test]
fn interfaces_without_buffers_or_parameters() {
    let text = ".globl first, second, sum, negate\n.type first,@function\n.type second,@function\n.type sum,@function\n\
                .type negate,@function\n.text\nfirst: mov $7,%eax\nret\nsecond: ret\nsum: mov %gs:4(%edi),%eax\nadd %gs:(%edi),%eax\n\
                ret\nnegate: mov %edi,%eax\nneg %eax\nret\n";
    let bench = Bench::new();
    bench.assemble("plain.o", text);
    let spec = DomainSpec::new("plain").object("plain.o", std::fs::read(bench.path("plain.o")).unwrap());
    let mut world = World::builder().domain(spec).build().unwrap();
    let nullary = nullary::Nullary::connect(&world, "plain").unwrap();
    assert_eq!((nullary.first(&mut world), nullary.second(&mut world)), (Ok(7), Ok(())));
    let inward = inward::Inward::connect(&world, "plain").unwrap();
    assert_eq!((inward.sum(&mut world, &[3, 4], 2), inward.negate(&mut world, 5)), (Ok(7), Ok(-5)));
}

#[test]
fn manifests_and_mistakes() {
    let bench = Bench::new();
    let entry = "[entry]\ndomain = \"a\"\nfunction = \"f\"\n[domains.a]\n";
    bench.write("two.toml", format!("{entry}[interfaces]\none = [\"void f(u8 x)\"]\ntwo = \"own.toml\"\n").as_bytes());
    bench.write("own.toml", b"functions = [\"u8 g()\"]\n");
    bench.write("bad.toml", b"functions = [\"u8 g(in u8 x)\"]\n");
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    assert!(text(bench.run(&["bind", "two.toml", "--interface", "one"], 0)).contains("void f(uint8_t x);"));
    assert!(text(bench.run(&["bind", "two.toml", "--interface", "two"], 0)).contains("uint8_t g(void);"));
    let error = |output: Output| String::from_utf8(output.stderr).unwrap();
    assert!(error(bench.run(&["bind", "two.toml"], 2)).contains("choose one with --interface"));
    assert!(
        error(bench.run(&["bind", "two.toml", "--interface", "three"], 2)).contains("there is no interface `three`")
    );
    assert!(error(bench.run(&["bind", "bad.toml"], 2)).contains("is no parameter"));
    assert!(error(bench.run(&["bind", "none.toml"], 2)).contains("none.toml"));
}
