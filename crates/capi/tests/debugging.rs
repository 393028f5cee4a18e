//! Hosts in C under gdb. Core dumps name the domain that died. After `sfi_debug_show` breakpoints
//! and backtraces reach into domains.

#[path = "../../../tests/src/gdb.rs"]
mod gdb;
mod support;

use sfi_loader::Mode;
use std::process::Command;
use std::time::Duration;
use support::{libraries, plugin, root, succeed};
use tempfile::TempDir;

const PLUGIN: &str = "\
long work(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum += i * 7;
    return sum;
}
long crash(long x) {
    return *(volatile long *)x + work(x);
}
";

/// With an argument it calls the domain. Then it stops.
const STOPS: &str = r#"
#include <sfi.h>
#include <signal.h>
int main(int count, char **arguments)
{
    sfi_world *world;
    sfi_function *crash;
    sfi_value place[] = {sfi_u(16)};

    (void)arguments;
    if (sfi_world_open("domains.toml", NULL, &world, NULL)) return 1;
    if (sfi_function_find(world, "codec", "crash", "(int) -> int", &crash, NULL)) return 2;
    if (count > 1 && sfi_call(world, crash, place, 1, NULL, NULL, NULL) != SFI_FAULT) return 3;
    raise(SIGSTOP);
    return 0;
}
"#;

/// With an argument it shows its domains to gdb. Then it calls a function of the domain.
const SHOWS: &str = r#"
#include <sfi.h>
int main(int count, char **arguments)
{
    sfi_world *world;
    sfi_function *work;
    sfi_value number[] = {sfi_i(3)}, result;

    (void)arguments;
    if (sfi_debug_show(0, NULL) != SFI_INVALID || sfi_debug_show(4, NULL) != SFI_INVALID) return 1;
    if (count > 1 && sfi_debug_show(SFI_DEBUG_GDB, NULL) != SFI_OK) return 2;
    if (count > 1 && sfi_debug_show(SFI_DEBUG_GDB, NULL) != SFI_IN_USE) return 3;
    if (sfi_world_open("domains.toml", NULL, &world, NULL)) return 4;
    if (sfi_function_find(world, "codec", "work", "(int) -> int", &work, NULL)) return 5;
    if (sfi_call(world, work, number, 1, NULL, &result, NULL) || result.i != 21) return 6;
    return 0;
}
"#;

/// Builds a host and its plugin in a folder.
fn host(source: &str, flags: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("codec.c"), PLUGIN).unwrap();
    std::fs::write(at("host.c"), source).unwrap();
    std::fs::write(at("domains.toml"), "[domains.codec]\nobjects = [\"codec.sfi.o\"]\nmemory = \"64 KiB\"\n").unwrap();
    plugin(directory.path(), &at("codec.c"), Mode::Write);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root("crates/capi/include")).args(flags);
    gcc.arg("host.c").args(["-o", "host"]).arg(libraries().join("libsfi.a")).current_dir(directory.path());
    succeed(gcc.args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]));
    directory
}

#[test]
fn a_core_dump_says_which_domain_died() {
    let directory = host(STOPS, &["-s"]);
    // gdb leaves out of a core dump what the kernel leaves out.
    let dump = |arguments: &[&str]| {
        let mut host = Command::new(directory.path().join("host"));
        let mut host = host.args(arguments).current_dir(directory.path()).spawn().unwrap();
        let id = host.id().to_string();
        let stopped = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T ");
        while !stopped() {
            assert!(host.try_wait().unwrap().is_none(), "the host ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = gdb::run(directory.path(), &["generate-core-file core"], &["-p", &id]);
        host.kill().unwrap();
        host.wait().unwrap();
        assert!(text.contains("Saved corefile core"), "{text}");
        std::fs::read(directory.path().join("core")).unwrap()
    };
    let expected: &[u8] = b"\0sfi fault: domain `codec`: null pointer access in `crash`\0";
    let says = |memory: &[u8]| memory.windows(expected.len()).any(|bytes| bytes == expected);
    assert!(says(&dump(&["called"])));
    assert!(!says(&dump(&[])));
}

#[test]
fn gdb_sees_the_domains_of_a_host_that_shows_them() {
    let directory = host(SHOWS, &["-g"]);
    let commands = ["break codec.c:4", "run", "backtrace", "kill"];
    let text = gdb::run(directory.path(), &commands, &["--args", "./host", "shown"]);
    let frame = |start: &str, end: &str| text.lines().any(|line| line.starts_with(start) && line.contains(end));
    assert!(frame("Breakpoint 1", "work () at ") && frame("#0  work () at ", "codec.c:4"), "{text}");
    assert!(frame("#1  ", "sfi_enter_"), "{text}");
    assert!(text.lines().rfind(|line| line.starts_with('#')).unwrap().contains("main ("), "{text}");

    let text = gdb::run(directory.path(), &commands, &["--args", "./host"]);
    assert!(text.contains("exited normally") && !text.contains("work () at "), "{text}");
}
