//! Programs use the host's resources and learn about the host only within their grants. The tests
//! are about quotas, clocks, and hostile values in every argument of every system call.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SFI: &str = env!("CARGO_BIN_EXE_sfi");

/// Compiles a program of the fixtures with `sfi cc`.
fn compile(directory: &Path, name: &str, mode: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs").join(name);
    compile_file(directory, &source, mode)
}

fn compile_file(directory: &Path, source: &Path, mode: &str) -> PathBuf {
    let program = directory.join("program");
    let mut command = Command::new(SFI);
    command.env("SFI_MODE", mode).args(["cc", "-O2"]).arg(source).arg("-o").arg(&program);
    let output = command.output().expect("sfi");
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command whose standard input stays open and empty.
fn run_waiting(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sfi starts");
    let input = child.stdin.take();
    let output = child.wait_with_output().expect("output");
    drop(input);
    output
}

/// Writes a manifest in which a program is a domain with this table of system calls.
fn manifest(directory: &Path, program: &Path, mode: &str, table: &str) -> PathBuf {
    let bytes = std::fs::read(program).expect("program");
    let archive = bytes.windows(8).position(|bytes| bytes == b"!<arch>\n").expect("an archive");
    std::fs::write(directory.join("program.a"), &bytes[archive..]).expect("archive");
    let manifest = directory.join("domains.toml");
    let text = format!(
        "[entry]\ndomain = \"program\"\nfunction = \"main\"\n[limits]\ncall = \"200 s\"\n[domains.program]\nmode = \"{mode}\"\n\
         memory = \"64 MiB\"\nobjects = []\narchives = [\"program.a\"]\n[domains.program.syscalls]\n{table}"
    );
    std::fs::write(&manifest, text).expect("manifest");
    manifest
}

/// Returns the bytes of all files beneath a directory.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("directory").map(|entry| entry.expect("entry").path());
    entries.map(|path| if path.is_dir() { size(&path) } else { path.metadata().expect("metadata").len() }).sum()
}

/// Memory, descriptors, inodes, bytes, time and log each have a bound in the manifest. A program
/// that asks for more gets exactly that bound.
#[test]
fn everything_that_a_domain_can_spend_is_bounded() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let program = compile(directory.path(), "spend.c", "full");
    std::fs::create_dir(at("data")).expect("data");
    assert!(Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo").success());
    let table = r#"
allow = ["all"]
log = "refused"
descriptors = ["stdin", "stdout", "stderr", { write = "out" }]
directories = { "/data" = { host = "data", access = "read-write" } }
files = { "/fifo" = { host = "fifo" } }
quota = { memory = "4 MiB", descriptors = 20, written = "256 KiB", created = 10, sleep = "0.1 s", wait = "0.1 s", records = 100 }
"#;
    let manifest = manifest(directory.path(), &program, "full", table);
    let start = Instant::now();
    let output = run_waiting(Command::new(SFI).args(["run", "--count-syscalls"]).arg(&manifest));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let head = &err[..err.len().min(2000)];
    assert_eq!(output.status.code(), Some(0), "{out}{head}");
    let waits = ["sleep: done", "until: done", "futex: Operation timed out", "read: Resource temporarily unavailable"]
        .into_iter()
        .chain(["fifo: Resource temporarily unavailable", "poll: done", "select: done"]);
    let mut expected: String = waits.map(|line| format!("{line}, bounded\n")).collect();
    expected += "pipe: Resource temporarily unavailable\ncreated: 10\ndescriptors: 16\n";
    let (got, memory) = out.rsplit_once("memory: ").expect("memory");
    assert_eq!(got, expected);
    let memory: u64 = memory.trim().parse().expect("a number");
    assert!((3 << 20..=4 << 20).contains(&memory), "{memory}");
    let spent = size(&at("data")) + at("out").metadata().expect("metadata").len() + output.stdout.len() as u64;
    assert!(spent <= 192 << 10, "{spent} bytes");
    assert_eq!(std::fs::read_dir(at("data")).expect("data").count(), 10);
    assert_eq!(err.lines().filter(|line| line.starts_with("program: ")).count(), 100, "{head}");
    let counts: Vec<&str> = err.lines().filter(|line| line.contains("unknown numbers refused")).collect();
    assert_eq!(counts, ["  100000 unknown numbers refused"]);
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn the_time_limit_ends_every_wait() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("wait.c");
    std::fs::write(&source, WAITS).expect("source");
    let program = compile_file(directory.path(), &source, "write");
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let named = format!("{}::/fifo", fifo.display());
    for way in ["read", "fifo", "poll", "select"] {
        let begin = Instant::now();
        let mut command = Command::new(SFI);
        command.args(["run", "--time-limit", "0.3", "--file", &named]).arg(&program).args(["--", way]);
        let output = run_waiting(&mut command);
        assert_eq!(output.status.code(), Some(3), "{way}: {}{}", text(&output.stdout), text(&output.stderr));
        assert!(begin.elapsed() < Duration::from_secs(60), "{way}");
    }
    // Beneath a directory no open waits for the other end of a FIFO.
    let granted = format!("{}::/d", directory.path().display());
    let output = run_waiting(Command::new(SFI).args(["run", "--dir", &granted]).arg(&program).args(["--", "/d/fifo"]));
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("Permission denied\n", Some(9)));
}

const WAITS: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char byte;
    struct pollfd in = {0, POLLIN, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(0, &set);
    if (argv[1][0] == '/') {
        if (open(argv[1], O_RDONLY) < 0) puts(strerror(errno));
        return 9;
    }
    for (;;) {
        if (!strcmp(argv[1], "read")) read(0, &byte, 1);
        else if (!strcmp(argv[1], "poll")) poll(&in, 1, -1);
        else if (!strcmp(argv[1], "select")) select(1, &set, 0, 0, 0);
        else read(open("/fifo", O_RDONLY), &byte, 1);
    }
}
"#;

#[test]
fn clocks_have_the_resolution_that_was_granted() {
    let directory = tempfile::tempdir().expect("directory");
    let program = compile(directory.path(), "clocks.c", "write");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("data");
    let granted = format!("{}::/data", data.display());
    for (resolution, step) in
        [(None, "1000"), (Some("1 ms"), "1000000"), (Some("50 us"), "50000"), (Some("0.1 s"), "100000000")]
    {
        let mut command = Command::new(SFI);
        command.args(["run", "--dir", &granted]);
        command.args(resolution.iter().flat_map(|time| ["--clock-resolution", time]));
        let output = run_waiting(command.arg(&program).args(["--", step]));
        assert_eq!(text(&output.stdout), "3600 checked\n", "{step}: {}", text(&output.stderr));
    }
    let table = "allow = [\"all\"]\nclock_resolution = \"1 ms\"\narguments = [\"1000000\"]\n\
                 directories = { \"/data\" = { host = \"data\", access = \"read-write\" } }\n";
    let manifest = manifest(directory.path(), &program, "write", table);
    let output = run_waiting(Command::new(SFI).arg("run").arg(&manifest));
    assert_eq!(text(&output.stdout), "3600 checked\n", "{}", text(&output.stderr));
}

/// The set-up of a libc needs no grant, so a program that may only write does write.
#[test]
fn set_up_does_not_depend_on_the_grant() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("hello.c");
    let code = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 4; }\n";
    std::fs::write(&source, code).expect("source");
    let program = compile_file(directory.path(), &source, "write");
    for (allow, expected) in
        [("io,memory", "hello\n"), ("io", "hello\n"), ("writev", "hello\n"), ("memory", ""), ("exit", "")]
    {
        let output = run_waiting(Command::new(SFI).args(["run", "--allow", allow]).arg(&program));
        assert_eq!(
            (text(&output.stdout).as_str(), output.status.code()),
            (expected, Some(4)),
            "{allow}: {}",
            text(&output.stderr)
        );
    }
    let output = run_waiting(Command::new(SFI).args(["run", "--deny", "all"]).arg(&program));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

/// Every call of the table gets every hostile value in every argument.
#[test]
fn hostile_values_in_every_argument() {
    for mode in ["write", "full"] {
        let directory = tempfile::tempdir().expect("directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["data", "ro"] {
            std::fs::create_dir(at(name)).expect("directory");
            std::fs::write(at(name).join("in"), "inside").expect("file");
        }
        std::fs::write(at("secret"), "secret").expect("file");
        std::os::unix::fs::symlink("..", at("data/up")).expect("link");
        let program = compile(directory.path(), "hostile_table.c", mode);
        let table = r#"
allow = ["all"]
descriptors = ["stdin", "stdout", "stderr"]
directories = { "/data" = { host = "data", access = "read-write" }, "/ro" = { host = "ro" } }
quota = { written = "64 MiB", created = 1000, sleep = "0 s", wait = "0 s" }
"#;
        let manifest = manifest(directory.path(), &program, mode, table);
        let output = run_waiting(Command::new(SFI).arg("run").arg(&manifest));
        let out = text(&output.stdout);
        let last = out.lines().last().unwrap_or_default().to_owned();
        println!("{mode}: {last}");
        let bad: Vec<&str> = out.lines().filter(|l| l.starts_with("TELLS ") || l.starts_with("CHANGED ")).collect();
        assert!(bad.is_empty(), "{mode}: {} lines, first {:?}", bad.len(), &bad[..bad.len().min(5)]);
        assert_eq!(output.status.code(), Some(0), "{mode}: {last} {}", text(&output.stderr));
        let calls: u64 = last.split(' ').next().expect("calls").parse().expect("a number of calls");
        assert!(calls > 500_000, "{last}");
        assert_eq!(std::fs::read_to_string(at("secret")).expect("secret"), "secret");
        assert_eq!(std::fs::read_to_string(at("ro/in")).expect("file"), "inside");
        assert_eq!(std::fs::read_dir(at("ro")).expect("ro").count(), 1);
    }
}

/// A program gets its name, its directory, and the variables of the environment that it was
/// granted.
#[test]
fn programs_start_where_and_as_they_are_told() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("start.c");
    std::fs::write(&source, STARTS).expect("source");
    let program = compile_file(directory.path(), &source, "write");
    std::fs::create_dir(directory.path().join("sub")).expect("directory");
    std::fs::write(directory.path().join("sub/f"), "x").expect("file");
    let granted = format!("{}::/d", directory.path().display());
    let options = [
        "run", "--dir", &granted, "--cwd", "/d/sub", "--argv0", "name", "--env", "GIVEN", "--env", "SET=2", "--env",
        "UNSET",
    ];
    let output = run_waiting(Command::new(SFI).args(options).arg(&program).env("GIVEN", "1").env("OTHER", "3"));
    assert_eq!(text(&output.stdout), "name in /d/sub with f: 1 2 0 0\n", "{}", text(&output.stderr));
    for wrong in ["/nowhere", "/d/sub/f", "/d/../d", "/dev/null"] {
        let options = ["run", "--dir", &granted, "--cwd", wrong];
        let output = run_waiting(Command::new(SFI).args(options).arg(&program));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains(&format!("cannot start in `{wrong}`")), "{}", text(&output.stderr));
    }
    let output = run_waiting(Command::new(SFI).arg("run").arg(&program));
    let expected = format!("{} in / without f: 0 0 0 0\n", program.display());
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    // None of these has to be text.
    let bytes = OsStr::from_bytes;
    let mut command = Command::new(SFI);
    command.args(["run", "--argv0"]).arg(bytes(b"\xff")).args(["--env", "GIVEN", "--env"]).arg(bytes(b"SET=\xfe"));
    command.arg(&program).arg("--").arg(bytes(b"\xc3\x28")).env("GIVEN", bytes(b"\x80"));
    let output = run_waiting(&mut command);
    assert_eq!(output.stdout, b"\xff in / without f: \x80 \xfe 0 0\n\xc3\x28\n", "{}", text(&output.stderr));
}

/// The devices that programs expect are as on the machine. Random ones need the grant of random
/// bytes, and nothing is written to them.
#[test]
fn devices_lead_nowhere() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("devices.c");
    std::fs::write(&source, DEVICES).expect("source");
    let native = directory.path().join("native");
    assert!(Command::new("gcc").arg(&source).arg("-o").arg(&native).status().expect("gcc").success());
    let expected = run_waiting(&mut Command::new(native));
    assert!(expected.status.success() && text(&expected.stdout).lines().count() == 6, "{}", text(&expected.stdout));
    let program = compile_file(directory.path(), &source, "full");
    let run = |options: &[&str]| {
        let output = run_waiting(Command::new(SFI).args(["run", "--mode", "full"]).args(options).arg(&program));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(run(&[]), text(&expected.stdout).replace("random: 0 16 6", "random: -30 16 -30"));
    let closed = run(&["--allow", "io,files,memory,process"]);
    assert_eq!(closed, text(&expected.stdout).replace("random: 0 16 6", "random: -2 -2 -2"));
}

/// The flags of descriptors are as natively after each call that makes or changes one.
#[test]
fn flags_of_descriptors_are_like_native_ones() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("flags.c");
    std::fs::write(&source, FLAGS).expect("source");
    let native = directory.path().join("native");
    assert!(Command::new("gcc").arg(&source).arg("-o").arg(&native).status().expect("gcc").success());
    let expected = run_waiting(&mut Command::new(native));
    assert!(expected.status.success() && text(&expected.stdout).lines().count() == 16, "{}", text(&expected.stdout));
    let program = compile_file(directory.path(), &source, "write");
    let output = run_waiting(Command::new(SFI).arg("run").arg(&program));
    assert_eq!(text(&output.stdout), text(&expected.stdout), "{}", text(&output.stderr));
}

/// Prints descriptor flags and waiting of new descriptors, and the errors of wrong flags.
const FLAGS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static void show(const char *how, int fd) {
    if (fd < 0) printf("%s: %d\n", how, errno);
    else printf("%s: %d %d\n", how, fcntl(fd, F_GETFD), (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}
int main(void) {
    int open_ = open("/dev/null", O_RDWR), closing = open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK), ends[2];
    show("open", open_);
    show("open, both flags", closing);
    show("dup", dup(closing));
    show("dup2", dup2(closing, 20));
    show("dup2, same", dup2(closing, closing));
    show("dup3", dup3(open_, 21, O_CLOEXEC));
    show("dup3, same", dup3(open_, open_, O_CLOEXEC));
    show("F_DUPFD", fcntl(closing, F_DUPFD, 23));
    show("F_DUPFD_CLOEXEC", fcntl(open_, F_DUPFD_CLOEXEC, 24));
    fcntl(closing, F_SETFD, 0);
    fcntl(open_, F_SETFD, FD_CLOEXEC);
    show("cleared", closing);
    show("set", open_);
    show("pipe", pipe(ends) ? -1 : ends[0]);
    show("pipe2", pipe2(ends, O_CLOEXEC | O_NONBLOCK) ? -1 : ends[1]);
    fcntl(ends[1], F_SETFL, 0);
    show("no longer nonblocking", ends[1]);
    show("pipe2, wrong", pipe2(ends, O_APPEND) ? -1 : ends[1]);
    printf("owner: %d %d", fcntl(open_, F_GETOWN), fcntl(99, F_GETOWN));
    printf(" %d\n", errno);
    return 0;
}
"#;

/// Prints the results of reading and writing each device, and of opening it for both.
const DEVICES: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
static char bytes[100000];
static int on(const char *name, int flags, int write_) {
    int fd = open(name, flags);
    if (fd < 0) return -errno;
    int result = flags == O_RDWR ? 0 : (int)(write_ ? write(fd, "secret", 6) : read(fd, bytes, 16));
    if (result < 0) result = -errno;
    close(fd);
    return result;
}
int main(void) {
    const char *names[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random"};
    for (int i = 0; i < 5; i++) {
        bytes[3] = 1;
        int both = on(names[i], O_RDWR, 0), in = on(names[i], O_RDONLY, 0), out = on(names[i], O_WRONLY, 1);
        printf("%s: %d %d %d\n", names[i], both, in, out);
    }
    struct stat stat_;
    int fd = open("/dev/zero", O_RDONLY);
    long all = 0, sum = 0;
    /* A signal may end a read before its time. */
    for (long some; (some = read(fd, bytes + all, sizeof bytes - all)) > 0;) all += some;
    for (long i = 0; i < all; i++) sum += bytes[i];
    printf("%ld %ld %d\n", all, sum, fstat(fd, &stat_) == 0 && S_ISCHR(stat_.st_mode));
    return 0;
}
"#;

const STARTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static const char *value(const char *name) { return getenv(name) ? getenv(name) : "0"; }
int main(int argc, char **argv) {
    char here[100];
    if (!getcwd(here, sizeof here)) return 1;
    printf("%s in %s %s f: %s %s %s %s\n", argv[0], here, access("f", R_OK) ? "without" : "with", value("GIVEN"), value("SET"), value("UNSET"), value("OTHER"));
    for (int i = 1; i < argc; i++) puts(argv[i]);
    return 0;
}
"#;

/// The kernel ends a process that writes beyond the host's limit of file sizes. The domain gets an
/// error instead.
#[test]
fn the_hosts_file_size_limit_does_not_end_the_host() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("large.c");
    std::fs::write(&source, LARGE).expect("source");
    let program = compile_file(directory.path(), &source, "write");
    let granted = format!("{}::/d", directory.path().display());
    let mut command = Command::new("sh");
    // 64 blocks of 512 bytes.
    command.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", SFI, "run", "--dir", &granted]).arg(&program);
    let output = run_waiting(&mut command);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("refused 5\n", Some(0)), "{:?}", output.status);
}

const LARGE: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static char bytes[1 << 20];
int main(void) {
    int fd = open("/d/f", O_CREAT | O_RDWR, 0600), appending = open("/d/f", O_RDWR | O_APPEND), refused = 0;
    refused += write(fd, bytes, sizeof bytes) < 0 && errno == EFBIG;
    refused += pwrite(fd, "x", 1, 1 << 20) < 0 && errno == EFBIG;
    refused += ftruncate(fd, 1 << 20) < 0 && errno == EFBIG;
    refused += truncate("/d/f", 1 << 20) < 0 && errno == EFBIG;
    while (write(appending, bytes, 4000) == 4000) ;
    refused += errno == EFBIG;
    printf("refused %d\n", refused);
    return 0;
}
"#;
