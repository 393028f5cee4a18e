//! Images that runs of a program keep for the next run.
//!
//! Needs gcc and musl-dev (Debian packages). A missing one fails the tests.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{Bench, sfi, succeed};

/// Prints, calls through a pointer in its data, and faults if it has an argument.
const PROGRAM: &[u8] = b"#include <stdio.h>
static int twice(int n) { return 2 * n; }
int (*volatile call)(int) = twice;
static int count = 20;
int main(int argc, char **argv)
{
    printf(\"%d %s\\n\", call(++count), argv[argc - 1]);
    if (argc > 1) *(volatile int *)8 = 1;
    return count;
}
";

fn entries(directory: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(directory.join("sfi/images"));
    list.map(|list| list.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}

/// Returns the entries, which nobody else may read or write.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    };
    entries(directory).into_iter().map(read).collect()
}

#[test]
fn a_second_run_is_like_the_first() {
    let bench = Bench::new();
    // Some containers have no keyrings. Programs run there, too.
    let store = sfi_loader::ImageStore::open(&bench.path("store"));
    let kept = store.inspect_err(|error| eprintln!("SKIPPED: no store of images here: {error}")).is_ok();
    bench.write("program.c", PROGRAM);
    for mode in ["write", "full"] {
        succeed(sfi(&bench, &["cc", "-g", "-O2", "program.c", "-o", "program"]).env("SFI_MODE", mode));
        let run = |options: &[&str], argument: &str| {
            let words = [&["run", "--mode", mode], options, &["program", "--", argument]].concat();
            let words = if argument.is_empty() { &words[..words.len() - 1] } else { &words };
            let output = sfi(&bench, words).env("XDG_CACHE_HOME", bench.path(mode)).output().expect("sfi runs");
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        for argument in ["", "fault"] {
            let first = run(&["--no-cache"], argument);
            let before = entries(&bench.path(mode));
            assert_eq!(before.len(), usize::from(kept && !argument.is_empty()), "no entry is made");
            assert_eq!(run(&[], argument), first);
            let made = contents(&bench.path(mode));
            assert_eq!(made.len(), usize::from(kept));
            assert_eq!(run(&[], argument), first);
            assert_eq!(run(&["--env", "A=1", "--dir", ".::data"], argument), first, "grants are not in the image");
            assert!(contents(&bench.path(mode)) == made, "it was taken");
            let (code, output, messages) = first;
            match argument {
                "" => assert_eq!((code, &*output, &*messages), (Some(21), "42 program\n", "")),
                _ => {
                    assert_eq!((code, &*output), (Some(3), "42 fault\n"));
                    assert!(messages.contains("program.c:8"), "{messages}");
                }
            }
        }
        // A changed program has another image.
        let changed = String::from_utf8_lossy(PROGRAM).replace("count = 20", "count = 30");
        bench.write("program.c", changed.as_bytes());
        succeed(sfi(&bench, &["cc", "-g", "-O2", "program.c", "-o", "program"]).env("SFI_MODE", mode));
        assert_eq!(run(&[], "").0, Some(31));
        assert_eq!(entries(&bench.path(mode)).len(), 2 * usize::from(kept));
        bench.write("program.c", PROGRAM);
    }
}

#[test]
fn without_a_home_no_image_is_kept() {
    let bench = Bench::new();
    bench.write("program.c", PROGRAM);
    succeed(&mut sfi(&bench, &["cc", "program.c", "-o", "program"]));
    let mut command = sfi(&bench, &["run", "program"]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    assert_eq!(command.status().expect("sfi runs").code(), Some(21));
    command.env("XDG_CACHE_HOME", "/proc/nowhere");
    assert_eq!(command.status().expect("sfi runs").code(), Some(21));
}
