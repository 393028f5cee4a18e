//! The content of a host's core dump after a fault of a domain.

mod support;

use sfi_loader::Mode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;
use support::{libraries, plugin, root, succeed};

const PLUGIN: &str = "long crash(long x) { return *(volatile long *)x; }";

/// With an argument it calls the domain. Then it stops.
const HOST: &str = r#"
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

#[test]
fn a_core_dump_says_which_domain_died() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("codec.c"), PLUGIN).unwrap();
    std::fs::write(at("host.c"), HOST).unwrap();
    std::fs::write(at("domains.toml"), "[domains.codec]\nobjects = [\"codec.sfi.o\"]\nmemory = \"64 KiB\"\n").unwrap();
    plugin(directory.path(), &at("codec.c"), Mode::Write);
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-s", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root("crates/capi/include"));
    gcc.arg(at("host.c")).arg("-o").arg(at("host")).arg(libraries().join("libsfi.a"));
    succeed(gcc.args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]));
    // A core dump of the kernel holds the memory that the host can write, without windows.
    let memory = |arguments: &[&str]| {
        let mut host = Command::new(at("host")).args(arguments).current_dir(directory.path()).spawn().unwrap();
        let id = host.id();
        let stopped = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T ");
        while !stopped() {
            assert!(host.try_wait().unwrap().is_none(), "the host ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        let file = File::open(format!("/proc/{id}/mem")).unwrap();
        let mut all = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            file.read_exact_at(&mut bytes, start).unwrap();
            all.extend(bytes);
        }
        host.kill().unwrap();
        host.wait().unwrap();
        all
    };
    let expected: &[u8] = b"\0sfi fault: domain `codec`: null pointer access in `crash`\0";
    let says = |memory: &[u8]| memory.windows(expected.len()).any(|bytes| bytes == expected);
    assert!(says(&memory(&["called"])));
    assert!(!says(&memory(&[])));
}
