//! Destinations of output: existing files, devices, links, and pipes without a reader.

mod support;

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use support::{Bench, sfi};

const SOURCE: &str = ".text\n.globl f\n.type f,@function\nf:\n\tmov %rax,(%rdi)\n\tret\n";

fn mode(bench: &Bench, name: &str) -> u32 {
    std::fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_output_replaces_regular_files_only() {
    let bench = Bench::new();
    bench.assemble("f.o", SOURCE);
    bench.run(&["rewrite", "-o", "fresh.o", "f.o"], 0);
    let wanted = std::fs::read(bench.path("fresh.o")).unwrap();
    let rewrite = |out: &str| bench.run(&["rewrite", "-o", out, "f.o"], 0);

    // A character device stays a device. The test risks only a device of its own, if it may make
    // one, and then opens `/dev/null` itself.
    let null = bench.path("null");
    let made = Command::new("mknod").arg(&null).args(["c", "1", "3"]).stderr(Stdio::null()).status();
    if made.is_ok_and(|status| status.success()) {
        rewrite("null");
        assert!(std::fs::metadata(&null).unwrap().file_type().is_char_device());
    }
    rewrite("/dev/null");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());

    support::succeed(Command::new("mkfifo").arg(bench.path("fifo")));
    let fifo = bench.path("fifo");
    let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    rewrite("fifo");
    assert_eq!(reader.join().unwrap(), wanted);
    assert!(std::fs::metadata(bench.path("fifo")).unwrap().file_type().is_fifo());

    // Links are followed: relative, absolute, in a chain, and to a file that does not exist yet.
    std::fs::create_dir(bench.path("deep")).unwrap();
    bench.write("deep/there.o", b"old");
    symlink("there.o", bench.path("deep/link.o")).unwrap();
    symlink("deep/link.o", bench.path("chain.o")).unwrap();
    symlink(bench.path("deep/new.o"), bench.path("dangling.o")).unwrap();
    for (link, target) in [("chain.o", "deep/there.o"), ("dangling.o", "deep/new.o")] {
        rewrite(link);
        assert!(std::fs::symlink_metadata(bench.path(link)).unwrap().is_symlink(), "{link}");
        assert_eq!(std::fs::read(bench.path(target)).unwrap(), wanted, "{link}");
    }
    symlink("circle.o", bench.path("circle.o")).unwrap();
    bench.run(&["rewrite", "-o", "circle.o", "f.o"], 2);

    // The mode stays, and no temporary file is left beside the output.
    bench.write("kept.o", b"old");
    std::fs::set_permissions(bench.path("kept.o"), PermissionsExt::from_mode(0o640)).unwrap();
    rewrite("kept.o");
    assert_eq!((std::fs::read(bench.path("kept.o")).unwrap(), mode(&bench, "kept.o")), (wanted.clone(), 0o640));
    assert!(
        std::fs::read_dir(bench.directory()).unwrap().all(|e| !e
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".tmp"))
    );
    // A regular file is replaced and not overwritten, so a reader with the old file open keeps its
    // bytes.
    let before = std::fs::metadata(bench.path("kept.o")).unwrap().ino();
    let mut open = std::fs::File::open(bench.path("kept.o")).unwrap();
    rewrite("kept.o");
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, wanted);
    assert_ne!(std::fs::metadata(bench.path("kept.o")).unwrap().ino(), before);
}

/// Every subcommand writes into a pipe without a reader. None panics, and none that prints ends
/// with success.
#[test]
fn closed_pipes_end_the_program_quietly() {
    let bench = Bench::new();
    bench.assemble("bad.o", SOURCE);
    bench.run(&["rewrite", "-o", "good.o", "bad.o"], 0);
    bench.write("m.toml", b"[entry]\ndomain = 'app'\nfunction = 'f'\n[domains.app]\nobjects = ['good.o']\n");
    bench.write("i.toml", b"[domains.app]\nobjects = ['good.o']\n[interfaces.i]\nfile = 'i.h'\n");
    // Each row says whether the command prints on the standard output.
    let cases: &[(&[&str], bool)] = &[
        (&["verify", "good.o"], true),
        (&["verify", "bad.o"], true),
        (&["verify", "--json", "bad.o"], true),
        (&["verify", "--format", "sarif", "bad.o"], true),
        (&["verify", "--stats", "good.o"], true),
        (&["verify", "missing.o"], false),
        (&["rewrite", "--stats", "-o", "out.o", "bad.o"], true),
        (&["rewrite", "--stats", "--json", "-o", "out.o", "bad.o"], true),
        (&["rewrite", "missing.o"], false),
        (&["explain"], true),
        (&["explain", "SFI-S01"], true),
        (&["objdump", "good.o"], true),
        (&["addr2line", "good.o", "f"], true),
        (&["anonymity", "m.toml"], true),
        (&["anonymity", "--json", "m.toml"], true),
        (&["model"], true),
        (&["completion", "bash"], true),
        (&["ash", "header"], true),
        (&["man", "pages"], false),
        (&["bench", "crossing", "--rounds", "1", "--json"], true),
        (&["bind", "missing.toml"], false),
        (&["run", "--explain-layout", "m.toml"], false),
        (&["cc", "missing.c"], false),
        (&["c++", "missing.cc"], false),
    ];
    let help = String::from_utf8(bench.run(&["--help"], 0).stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in
        commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|c| !c.is_empty() && *c != "help")
    {
        assert!(cases.iter().any(|(arguments, _)| arguments[0] == command), "`{command}` is not in the table");
    }
    for (arguments, prints) in cases {
        // First only the standard output has no reader, then the standard error output has none
        // either.
        for both in [false, true] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = sfi(&bench, arguments);
            command.stdout(writer.try_clone().unwrap()).stdin(Stdio::null());
            let child = if both { command.stderr(writer) } else { command.stderr(Stdio::piped()) }.spawn().unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!said.contains("panicked"), "{arguments:?}: {said}");
            let code = output.status.code();
            assert!(code.is_some_and(|code| code != 101), "{arguments:?}: {:?}", output.status);
            assert!(!prints || code != Some(0), "{arguments:?} says that all is well: {said}");
        }
    }
    // A full disk is reported, and is no success.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sfi(&bench, &["addr2line", "good.o", "f"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write"), "{output:?}");
}
