//! Programs that start programs, and sockets: the output in a domain is the native one.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::{Bench, root, sfi, succeed};

const MODES: [&str; 3] = ["write", "full", "match"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Builds a fixture natively in one directory and for a domain in another.
fn build(natives: &Bench, domains: &Bench, mode: &str, name: &str) {
    let file = root().join("fixtures/processes").join(format!("{name}.c"));
    succeed(Command::new("musl-gcc").args(["-O2", "-w"]).arg(&file).arg("-o").arg(natives.path(name)));
    let mut cc = sfi(domains, &["cc"]);
    succeed(cc.env("SFI_MODE", mode).args(["-O2", "-w"]).arg(&file).args(["-o", name]));
}

fn native(bench: &Bench, name: &str) -> Output {
    Command::new(bench.path(name)).current_dir(bench.directory()).env("LANG", "C").output().expect("runs")
}

/// Runs a program in a domain with options.
fn run(bench: &Bench, mode: &str, name: &str, options: &[&str]) -> Output {
    let mut command = sfi(bench, &["run", "--time-limit", "60", "--mode", mode, "--env", "LANG=C", "--no-cache"]);
    command.args(options).arg(format!("./{name}")).output().expect("sfi runs")
}

#[test]
fn programs_start_others() {
    for mode in MODES {
        let (natives, domains) = (Bench::new(), Bench::new());
        for name in ["parent", "child"] {
            build(&natives, &domains, mode, name);
        }
        let expected = native(&natives, "parent");
        assert!(expected.status.success(), "{}", text(&expected.stderr));
        assert!(text(&expected.stdout).lines().count() > 15, "{}", text(&expected.stdout));
        let grants = ["--dir", ".", "--program", "/bin/sh", "--program", "/child=child"];
        let output = run(&domains, mode, "parent", &grants);
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{mode}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", text(&output.stderr));
    }
}

#[test]
fn what_is_not_granted_does_not_start() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "refused");
    let output = run(&domains, "write", "refused", &[]);
    let none = "system: -1 Function not implemented\npopen: Function not implemented\n\
        spawn: Function not implemented\nfork: Function not implemented\nsocket: Function not implemented\n";
    assert_eq!(text(&output.stdout), none, "{}", text(&output.stderr));
    // A name that is not granted does not exist. A denied call is unknown.
    let output = run(&domains, "write", "refused", &["--program", "/bin/true"]);
    let other = "system: -1 No such file or directory\npopen: No such file or directory\n\
        spawn: No such file or directory\nfork: a process\nsocket: Function not implemented\n";
    assert_eq!(text(&output.stdout), other, "{}", text(&output.stderr));
    // It forks if no program is granted, too, but only where the user said so.
    let output = run(&domains, "write", "refused", &["--fork"]);
    let forks = none.replace("fork: Function not implemented", "fork: a process");
    assert_eq!(text(&output.stdout), forks, "{}", text(&output.stderr));
    let output = run(&domains, "write", "refused", &["--fork", "--deny", "fork"]);
    assert_eq!(text(&output.stdout), none, "{}", text(&output.stderr));
    let output = run(&domains, "write", "refused", &["--fork", "--threads", "2"]);
    assert_eq!(text(&output.stdout), none, "{}", text(&output.stderr));
    let output = run(&domains, "write", "refused", &["--program", "/bin/sh", "--deny", "execve"]);
    assert_eq!(text(&output.stdout), forks, "{}", text(&output.stderr));
    let missing = run(&domains, "write", "refused", &["--program", "/nowhere/program"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot read the program `/nowhere/program`"), "{}", text(&missing.stderr));
}

#[test]
fn forks_do_what_they_do_natively() {
    for mode in MODES {
        let (natives, domains) = (Bench::new(), Bench::new());
        build(&natives, &domains, mode, "fork");
        natives.write("data", b"0123456789");
        domains.write("data", b"0123456789");
        let expected = native(&natives, "fork");
        assert!(expected.status.success(), "{}", text(&expected.stderr));
        assert!(text(&expected.stdout).lines().count() > 25, "{}", text(&expected.stdout));
        let output = run(&domains, mode, "fork", &["--dir", ".", "--program", "/bin/sh"]);
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{mode}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", text(&output.stderr));
    }
}

/// All forks of a program have one quota, which comes back when they are gone.
#[test]
fn forks_are_no_way_to_get_more() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "bomb");
    let options = ["--fork", "--dir", ".", "--max-children", "5", "--max-written", "3"];
    let output = run(&domains, "write", "bomb", &options);
    // Its writes to pipes and to standard output count, too.
    let rounds: String = (0..3).map(|round| format!("round {round}: 1 and 4\n")).collect();
    assert_eq!(text(&output.stdout), rounds + "5 writes\n", "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(domains.path("out")).expect("made").len(), 5 << 19);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_fork_ends_alone_and_with_its_parent() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "family");
    let family = |what: &str, options: &[&str]| {
        let mut command = sfi(&domains, &["run", "--no-cache", "--fork"]);
        command.args(options).args(["./family", "--", what]).output().expect("sfi runs")
    };
    let output = family("fault", &[]);
    assert_eq!(text(&output.stdout), "the child ended: 1\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("null pointer access in `main`"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&family("common", &[]).stdout), "Function not implemented\n");
    // All of them hold the pipe that is read here, so it ends when they do.
    let start = Instant::now();
    assert_eq!(text(&family("leave", &[]).stdout), "left\n");
    let output = family("spin", &["--time-limit", "0.5"]);
    assert_eq!(text(&output.stdout), "waits\n", "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(start.elapsed() < Duration::from_millis(2900), "{:?}", start.elapsed());
}

/// A fork has the secrets of placement that its parent has, so its look for other memory ends both.
#[test]
fn a_fork_does_not_look_for_its_parent() {
    for mode in ["write", "match"] {
        let (natives, domains) = (Bench::new(), Bench::new());
        build(&natives, &domains, mode, "family");
        let mut command = sfi(&domains, &["run", "--no-cache", "--fork", "--mode", mode]);
        let output = command.args(["./family", "--", "look"]).output().expect("sfi runs");
        assert_eq!(text(&output.stdout), "", "{mode}");
        assert_eq!(output.status.signal(), Some(9), "{mode}: {}", text(&output.stderr));
    }
}

/// Forks neither stop the time of their parent nor let it wait beyond its end.
#[test]
fn forks_do_not_stop_time() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "family");
    for (what, expected) in [("stop", "-1\n"), ("lock", "")] {
        let start = Instant::now();
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60"]).arg(env!("CARGO_BIN_EXE_sfi")).current_dir(domains.directory());
        command.args(["run", "--no-cache", "--fork", "--dir", ".", "--time-limit", "1", "./family", "--", what]);
        let output = command.output().expect("sfi runs");
        assert_eq!(output.status.code(), Some(3), "{what}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), expected, "{what}");
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: {:?}", start.elapsed());
    }
}

/// The common position of a file does not move between the price of a write and the write.
#[test]
fn forks_make_no_hole_that_nobody_paid() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "family");
    let mut command = sfi(&domains, &["run", "--no-cache", "--fork", "--dir", ".", "--max-written", "1"]);
    let output = command.args(["./family", "--", "hole"]).output().expect("sfi runs");
    assert_eq!(text(&output.stdout), "none\n", "{}", text(&output.stderr));
}

/// Signals that the parent of `sfi` ignores: a child's end is told nevertheless.
#[test]
fn ignored_signals_of_the_host_change_nothing() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "family");
    let text_of =
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("python3");
    command.args(["-c", text_of, env!("CARGO_BIN_EXE_sfi"), "run", "--no-cache", "--fork", "./family", "--", "wait"]);
    let output = command.current_dir(domains.directory()).output().expect("python3 runs");
    assert_eq!(text(&output.stdout), "1 7\n", "{}", text(&output.stderr));
}

/// Gives a program a build tree with files that are no programs.
fn make_tree(bench: &Bench) {
    use std::os::unix::fs::PermissionsExt;
    bench.write("Makefile", b"");
    bench.write("data", b"data\n");
    bench.write("text", b"text\n");
    std::fs::set_permissions(bench.path("text"), std::fs::Permissions::from_mode(0o700)).expect("changed");
}

#[test]
fn programs_replace_themselves() {
    for mode in MODES {
        let (natives, domains) = (Bench::new(), Bench::new());
        build(&natives, &domains, mode, "replace");
        make_tree(&natives);
        make_tree(&domains);
        for way in ["itself", "search", "shell", "threads", "wrong"] {
            let expected = Command::new(natives.path("replace"))
                .arg(way)
                .current_dir(natives.directory())
                .env_clear()
                .env("LANG", "C")
                .output()
                .expect("runs");
            let mut command = sfi(&domains, &["run", "--mode", mode, "--no-cache", "--build-tree"]);
            command.args(["--program", "/bin/sh", "--threads", if way == "threads" { "4" } else { "1" }]);
            // Inside a build tree a program has the environment of `sfi`.
            let output = command.args(["./replace", "--", way]).env_remove("PATH").output().expect("sfi runs");
            assert_eq!(text(&output.stdout), text(&expected.stdout), "{mode} {way}: {}", text(&output.stderr));
            assert_eq!(output.status, expected.status, "{mode} {way}: {}", text(&output.stderr));
        }
        for bench in [&natives, &domains] {
            assert_eq!(std::fs::read_to_string(bench.path("out")).expect("made"), "to the file\n");
        }
    }
}

#[test]
fn what_is_not_granted_replaces_nothing() {
    let (natives, domains, outside) = (Bench::new(), Bench::new(), Bench::new());
    build(&natives, &domains, "write", "replace");
    make_tree(&domains);
    let run = |way: &str, options: &[&str]| {
        let output = sfi(&domains, &["run"]).args(options).args(["./replace", "--", way]).output().expect("sfi runs");
        text(&output.stdout) + &text(&output.stderr)
    };
    assert_eq!(run("itself", &["--dir", "."]), "itself\nexecve: -1 Function not implemented\n");
    assert_eq!(run("itself", &["--program", "/bin/sh"]), "itself\nexecve: -1 No such file or directory\n");
    assert_eq!(run("itself", &["--build-tree", "--deny", "execve"]), "itself\nexecve: -1 Function not implemented\n");
    assert_eq!(run("shell", &["--build-tree"]), "shell\n");
    assert_eq!(std::fs::read_to_string(domains.path("out")).expect("made"), "execl: -1 No such file or directory\n");
    // A started program starts nothing, and no link leads out of the tree.
    assert_eq!(run("itself", &["--build-tree", "--started"]), "itself\nexecve: -1 Function not implemented\n");
    std::fs::rename(domains.path("replace"), outside.path("replace")).expect("moved");
    std::os::unix::fs::symlink(outside.path("replace"), domains.path("replace")).expect("a link");
    assert_eq!(run("itself", &["--build-tree"]), "itself\nexecve: -1 No such file or directory\n");
}

/// A program that another one starts in a domain gets the grants of the first one, and no more.
#[test]
fn a_started_domain_has_its_parents_grants() {
    let (natives, domains) = (Bench::new(), Bench::new());
    for name in ["starter", "grants"] {
        build(&natives, &domains, "write", name);
    }
    std::fs::create_dir(domains.path("data")).expect("made");
    domains.write("data/file", b"inside");
    domains.write("secret", b"outside");
    let program = ["--program", "/grants=grants"];
    let with = |options: &[&str]| {
        let output = run(&domains, "write", "starter", &[&program[..], options].concat());
        text(&output.stdout) + &text(&output.stderr)
    };
    let home = std::env::var_os("HOME").is_some();
    assert!(home, "the test needs a variable to hide");
    let out = with(&["--dir-read", "data", "--env", "SHOWN=yes"]);
    assert_eq!(
        out,
        "data/file: 6\ndata/new: Read-only file system\nsecret: No such file or directory\n\
        SHOWN=yes HOME=(null)\nsystem: -1\nstatus 0\n"
    );
    let out = with(&[]);
    assert!(out.starts_with("data/file: No such file or directory\n"), "{out}");
    // Whatever lies in its place when it is started is a program, or nothing.
    let manifest = "[entry]\ndomain = 'a'\nfunction = 'main'\n[domains.a]\nobjects = []\n";
    let replace = with(&["--dir", ".", "--env", &format!("REPLACE={manifest}")]);
    assert!(replace.contains("is not a program") && replace.contains("status 512"), "{replace}");
}

#[test]
fn sockets_work_on_the_loopback_interface() {
    let (natives, domains) = (Bench::new(), Bench::new());
    build(&natives, &domains, "write", "loopback");
    let expected = native(&natives, "loopback");
    assert!(expected.status.success() && text(&expected.stdout).lines().count() > 8, "{}", text(&expected.stdout));
    let output = run(&domains, "write", "loopback", &["--net", "loopback"]);
    assert_eq!(text(&output.stdout), text(&expected.stdout), "{}", text(&output.stderr));
    let refused = sfi(&domains, &["run", "--net", "all", "./loopback"]).output().expect("runs");
    assert_eq!(refused.status.code(), Some(2));
}
