//! Programs that a program starts get no more than it has.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

mod support;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Bench, root, sfi, succeed};

/// Builds the hostile program in a directory of a bench.
fn hostile(mode: &str) -> Bench {
    let bench = Bench::new();
    let file = root().join("fixtures/processes/hostile.c");
    succeed(sfi(&bench, &["cc"]).env("SFI_MODE", mode).args(["-O2", "-w"]).arg(file).args(["-o", "hostile"]));
    bench
}

/// Runs a command. Returns its output, errors last.
fn out(command: &mut Command) -> String {
    let output = command.output().expect("runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the program in a directory with a Makefile.
fn in_tree(bench: &Bench, tree: &Path, words: &[&str]) -> String {
    fs::copy(bench.path("hostile"), tree.join("hostile")).expect("copied");
    let mut run = sfi(bench, &["run", "--no-cache", "--build-tree", "./hostile", "--"]);
    out(run.args(words).current_dir(tree))
}

#[test]
fn a_tree_names_no_sources() {
    let bench = hostile("write");
    let tree = bench.directory().canonicalize().expect("a path").join("tree");
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("Makefile"), "").expect("written");
    let all = in_tree(&bench, &tree, &["sources", "/etc/passwd"]);
    let missing = "No such file or directory";
    assert_eq!(all, format!("first: {missing}\nchild: {missing}\nstart: No error information 1\n"));
    // The next run says what is missing, and reads no more.
    let all = in_tree(&bench, &tree, &["read", "/etc/passwd"]);
    assert!(all.starts_with(&format!("child: {missing}\n")) && all.contains("--dir-read /etc'"), "{all}");
}

#[test]
fn a_tree_keeps_its_root() {
    let bench = hostile("write");
    let top = bench.directory().canonicalize().expect("a path").join("outer");
    let tree = top.join("plain/build");
    fs::create_dir_all(&tree).expect("made");
    for directory in [&top, &tree] {
        fs::write(directory.join("Makefile"), "").expect("written");
    }
    let outside = top.join("outside");
    let busy = "Resource busy";
    for _ in 0..2 {
        let all = in_tree(&bench, &tree, &["root", outside.to_str().expect("a path")]);
        assert!(all.starts_with(&format!("unlink: {busy}\nrename: {busy}\nfirst: ")), "{all}");
        assert!(!all.contains("open") && all.contains("\nchild: "), "{all}");
        assert!(!outside.exists());
    }
}

#[test]
fn a_grant_is_the_same_directory_again() {
    let bench = hostile("write");
    for directory in ["d/a/conf", "out/conf"] {
        fs::create_dir_all(bench.path(directory)).expect("made");
    }
    bench.write("out/conf/secret", b"");
    bench.write("d/a/conf/secret", b"");
    let link = |to: &str| symlink(to, bench.path("d/link")).expect("a link");
    let run = || {
        let grants = ["--dir", "d::/", "--dir-read", "d/a/conf::/conf", "--program", "/self=hostile"];
        out(sfi(&bench, &["run", "--no-cache"]).args(grants).args(["./hostile", "--", "swap"]))
    };
    link("../out");
    let all = run();
    assert!(all.starts_with("renamed 0 0\nstart: No error information 2\n"), "{all}");
    assert!(all.contains("is another one than at the start"), "{all}");
    // A link to the directory itself leads to what was granted.
    fs::remove_file(bench.path("d/a")).expect("removed");
    fs::rename(bench.path("d/b"), bench.path("d/a")).expect("renamed");
    link("b");
    assert_eq!(run(), "renamed 0 0\nchild: open\nstart: No error information 0\n");
}

#[test]
fn the_command_itself_is_out_of_reach() {
    let bench = hostile("write");
    fs::create_dir_all(bench.path("d/bin")).expect("made");
    fs::copy(env!("CARGO_BIN_EXE_sfi"), bench.path("d/bin/sfi")).expect("copied");
    bench.write("d/evil", b"#!/bin/sh\necho native code\n");
    fs::set_permissions(bench.path("d/evil"), fs::Permissions::from_mode(0o700)).expect("changed");
    let mut run = Command::new(bench.path("d/bin/sfi"));
    run.args(["run", "--no-cache", "--dir", "d::/", "--program", "/self=hostile", "./hostile", "--", "runner"]);
    let all = out(run.current_dir(bench.directory()));
    assert_eq!(all, "renamed 0\nstart: Permission denied 0\n");
}

#[test]
fn a_program_starts_none_that_reads_more() {
    let (bench, other) = (hostile("full"), hostile("write"));
    bench.write("Makefile", b"");
    let mut run = sfi(&bench, &["run", "--no-cache", "--mode", "full", "--build-tree", "./first", "--"]);
    fs::rename(bench.path("hostile"), bench.path("first")).expect("renamed");
    fs::copy(other.path("hostile"), bench.path("hostile")).expect("copied");
    assert!(out(run.args(["root", "/x"])).ends_with("start: Exec format error 0\n"));
}

#[test]
fn a_time_limit_ends_what_forks_left() {
    let bench = hostile("write");
    let mut run = sfi(&bench, &["run", "--no-cache", "--time-limit", "1", "--dir", ".", "--program", "/bin/sh"]);
    run.args(["./hostile", "--", "orphan"]).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(run.status().expect("runs").code(), Some(3));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!bench.path("mark").exists());
}

/// The same for a program that ends before its time.
#[test]
fn a_time_limit_ends_what_a_program_left() {
    let bench = hostile("write");
    let mut run = sfi(&bench, &["run", "--no-cache", "--time-limit", "60", "--dir", ".", "--program", "/bin/sh"]);
    run.args(["./hostile", "--", "left"]).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(run.status().expect("runs").code(), Some(7));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!bench.path("mark").exists());
}

/// A fork ends the first process by a signal. Its supervisor ends what is left, and passes the
/// signal on.
#[test]
fn a_signal_is_no_way_out_of_a_time_limit() {
    let bench = hostile("write");
    for signal in [9, 15] {
        let mut run = sfi(&bench, &["run", "--no-cache", "--time-limit", "60", "--dir", ".", "--program", "/bin/sh"]);
        run.args(["./hostile", "--", "kill", &signal.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        assert_eq!(run.status().expect("runs").signal(), Some(signal));
    }
    std::thread::sleep(Duration::from_secs(4));
    assert!(!bench.path("mark").exists());
}

/// A process that another one traces ends when that one has ended. Nobody waits for it before.
#[test]
fn who_is_traced_is_not_waited_for() {
    let bench = hostile("write");
    bench.write("trace.c", TRACE);
    succeed(Command::new("gcc").args(["-O2", "-w", "trace.c", "-o", "sh"]).current_dir(bench.directory()));
    fs::create_dir(bench.path("d")).expect("made");
    let shell = format!("/bin/sh={}", bench.path("sh").display());
    let mut run = sfi(&bench, &["run", "--no-cache", "--time-limit", "60", "--dir", "d", "--program", &shell]);
    let start = std::time::Instant::now();
    let status = run.args(["./hostile", "--", "wait"]).stdout(Stdio::null()).status();
    assert_eq!(status.expect("runs").code(), Some(7));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

/// Leaves a process that is traced by a child of its sibling. All have left their group.
const TRACE: &[u8] = b"#include <sys/ptrace.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
    int main(void) {\n\
        int traced = fork();\n\
        if (!traced) { setsid(); for (;;) pause(); }\n\
        if (!fork()) {\n\
            setsid();\n\
            if (!fork()) { setsid(); ptrace(PTRACE_SEIZE, traced, 0, 0); for (;;) pause(); }\n\
            for (;;) pause();\n\
        }\n\
        usleep(300000);\n\
        return 0;\n\
    }\n";

/// The same for the programs of a manifest with a limit.
#[test]
fn a_time_limit_ends_what_domains_of_a_manifest_left() {
    const END: &[u8] = b"\nexit 127\n";
    let bench = hostile("write");
    let program = fs::read(bench.path("hostile")).expect("read");
    let script = program.windows(END.len()).position(|w| w == END).expect("a script") + END.len();
    bench.write("hostile.a", &program[script..]);
    bench.write(
        "domains.toml",
        b"limits = { call = \"60 s\" }\n\
          entry = { domain = \"app\", function = \"main\" }\n\
          [domains.app]\narchives = [\"hostile.a\"]\n\
          [domains.app.syscalls]\nallow = [\"all\"]\narguments = [\"spawn\"]\n\
          directories = { \"/\" = { host = \".\", access = \"read-write\" } }\n\
          programs = { \"/bin/sh\" = { host = \"/bin/sh\" } }\n",
    );
    let output = sfi(&bench, &["run", "domains.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(output.expect("runs").code(), Some(7));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!bench.path("mark").exists());
}

/// A program that is granted stays the file that it was, wherever its name leads to later.
#[test]
fn a_granted_program_is_the_same_file_again() {
    let (bench, other) = (hostile("write"), Bench::new());
    for directory in ["d/a", "out"] {
        fs::create_dir_all(bench.path(directory)).expect("made");
    }
    fs::copy(bench.path("hostile"), bench.path("d/a/hostile")).expect("copied");
    other.write("evil.c", b"#include <stdio.h>\nint main(void) { return puts(\"another\") < 0; }\n");
    succeed(sfi(&other, &["cc"]).args(["evil.c", "-o", "evil"]));
    fs::copy(other.path("evil"), bench.path("out/hostile")).expect("copied");
    symlink("../out", bench.path("d/link")).expect("a link");
    let mut run = sfi(&bench, &["run", "--no-cache", "--dir", "d::/", "--program", "/self=d/a/hostile"]);
    let all = out(run.args(["./hostile", "--", "elsewhere", "/self"]));
    assert_eq!(all, "renamed 0 0\ngranted\nstart: No error information 0\n");
}

/// Runs the program as `runner` in a mount namespace of its own, in which a directory that it may
/// write to has a second name. Returns the output and the error that is expected.
fn mounted(bench: &Bench, mount: &str, runner: &str, options: &[&str]) -> String {
    let mut run = Command::new("unshare");
    let script = format!("mount --bind {mount} && exec {runner} run --no-cache \"$@\" ./hostile -- runner");
    out(run.args(["-m", "sh", "-c", &script, "sh"]).args(options).current_dir(bench.directory()))
}

/// The domain writes to a program of the host by one name, and the host names it by another one.
#[test]
fn a_second_mount_hides_no_program() {
    if !Command::new("unshare").args(["-m", "true"]).status().expect("util-linux").success() {
        eprintln!("not tested without the right to mount");
        return;
    }
    let bench = hostile("write");
    for directory in ["d/bin", "opt", "e/bin", "real"] {
        fs::create_dir_all(bench.path(directory)).expect("made");
    }
    for directory in ["d/bin", "real"] {
        fs::copy(env!("CARGO_BIN_EXE_sfi"), bench.path(directory).join("sfi")).expect("copied");
    }
    for evil in ["d/evil", "e/evil"] {
        bench.write(evil, b"#!/bin/sh\necho native code\n");
        fs::set_permissions(bench.path(evil), fs::Permissions::from_mode(0o700)).expect("changed");
    }
    let own = env!("CARGO_BIN_EXE_sfi");
    let refused = "start: Permission denied 0\n";
    let (renamed, kept) = (format!("renamed 0\n{refused}"), format!("renamed -1\n{refused}"));
    // The directory of a program of the host, and of the command itself, is a part of the grant.
    let all = mounted(&bench, "d/bin opt", own, &["--dir", "d::/", "--program", "/self=opt/sfi"]);
    assert_eq!(all, renamed);
    fs::copy(own, bench.path("d/bin/sfi")).expect("copied");
    bench.write("d/evil", b"#!/bin/sh\necho native code\n");
    fs::set_permissions(bench.path("d/evil"), fs::Permissions::from_mode(0o700)).expect("changed");
    let all = mounted(&bench, "d/bin opt", "opt/sfi", &["--dir", "d::/", "--program", "/self=hostile"]);
    assert_eq!(all, renamed);
    // It is mounted within a grant that crosses mounts. Another mount takes no entry of this one.
    let all = mounted(&bench, "real e/bin", own, &["--mounts", "--dir", "e::/", "--program", "/self=real/sfi"]);
    assert_eq!(all, kept);
}

/// The process that watches over a time limit takes no action of its own.
#[test]
fn signals_pass_to_a_program_with_a_time_limit() {
    let bench = Bench::new();
    let file = root().join("fixtures/processes/signalled.c");
    succeed(sfi(&bench, &["cc", "-O2", "-w"]).arg(file).args(["-o", "signalled"]));
    let begin = |options: &[&str], words: &[&str]| {
        // A shell lets processes in the background ignore some of the signals.
        let mut run = Command::new("env");
        run.args(["--default-signal", env!("CARGO_BIN_EXE_sfi"), "run", "--no-cache"]);
        let mut run = run
            .current_dir(bench.directory())
            .args(options)
            .args(["./signalled", "--"])
            .args(words)
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("runs");
        let mut output = BufReader::new(run.stdout.take().expect("piped"));
        let mut text = String::new();
        output.read_line(&mut text).expect("a line");
        assert_eq!(text, "ready\n");
        (Pid::from_child(&run), run, output)
    };
    let children = |pid: Pid| {
        let number = pid.as_raw_nonzero();
        fs::read_to_string(format!("/proc/{number}/task/{number}/children")).expect("a list")
    };
    // A program that may not fork needs no second process.
    let (pid, mut run, _) = begin(&["--time-limit", "60"], &[]);
    assert_eq!(children(pid), "");
    kill_process(pid, Signal::USR1).expect("sent");
    assert_eq!(run.wait().expect("ended").code(), Some(10));
    let begin = |words: &[&str]| begin(&["--fork", "--time-limit", "60"], words);
    // To the command alone: once.
    let (pid, mut run, _) = begin(&[]);
    assert_ne!(children(pid), "");
    for (signal, wait) in [(Signal::TERM, 100), (Signal::TERM, 100), (Signal::USR1, 0)] {
        kill_process(pid, signal).expect("sent");
        std::thread::sleep(Duration::from_millis(wait));
    }
    assert_eq!(run.wait().expect("ended").code(), Some(12));
    // Default actions.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        let (pid, mut run, mut output) = begin(&["x"]);
        kill_process(pid, signal).expect("sent");
        assert_eq!(run.wait().expect("ended").signal(), Some(signal.as_raw()));
        // No process is left that could write.
        assert_eq!(output.read_to_string(&mut String::new()).expect("read"), 0);
    }
    // Stops, for the command alone and for its group, as a shell sends them.
    for send in [kill_process, kill_process_group] {
        let (pid, mut run, _) = begin(&[]);
        send(pid, Signal::TSTP).expect("sent");
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).expect("stopped").expect("a status");
        assert_eq!(status.stopping_signal(), Some(Signal::TSTP.as_raw()));
        kill_process(pid, Signal::USR1).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
        assert!(run.try_wait().expect("known").is_none(), "it is stopped");
        send(pid, Signal::CONT).expect("sent");
        assert_eq!(run.wait().expect("ended").code(), Some(10));
    }
}

/// A program and all that it starts in domains have one quota, by `posix_spawn` and by `execve`.
#[test]
fn starts_are_no_way_to_get_more() {
    let bench = hostile("write");
    fs::create_dir(bench.path("d")).expect("made");
    let mut run = sfi(&bench, &["run", "--no-cache", "--dir", "d::/", "--program", "/self=hostile"]);
    let all = out(run.args(["--max-written", "1", "--max-created", "4", "./hostile", "--", "quota"]));
    let files: Vec<_> = fs::read_dir(bench.path("d")).expect("a directory").map(|file| file.expect("a file")).collect();
    let written: u64 = files.iter().map(|file| file.metadata().expect("known").len()).sum();
    assert_eq!((files.len(), written), (4, 700_000), "{all}");
}

/// A limit that the program's arbiter does not know: the kernel sends SIGXFSZ.
#[test]
fn a_limit_of_file_sizes_ends_no_program() {
    let bench = hostile("write");
    let mut run = sfi(&bench, &["run", "--no-cache", "--dir", ".", "./hostile", "--", "large"]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    let mut output = BufReader::new(run.stdout.take().expect("piped"));
    let mut text = String::new();
    output.read_line(&mut text).expect("a line");
    succeed(Command::new("prlimit").args(["--pid", &run.id().to_string(), "--fsize=4096"]));
    drop(run.stdin.take());
    output.read_to_string(&mut text).expect("text");
    assert_eq!(text, "ready\n4096\n-1\nFile too large\n");
    assert_eq!(run.wait().expect("ended").code(), Some(7));
}
