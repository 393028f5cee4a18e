//! Programs that are run by their names, in a build tree and elsewhere.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Bench, succeed};

const READS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv) {\n\
        char here[4096], line[64] = \"\"; const char *value = getenv(\"TREE_KIND\");\n\
        FILE *in = fopen(argv[1], \"r\"), *out = fopen(\"made\", \"w\");\n\
        if (in) fgets(line, sizeof line, in);\n\
        printf(\"%s|%d|%s|%s|%s\\n\", line, out != 0, value ? value : \"-\", getcwd(here, sizeof here), argv[0]);\n\
        return argc - 2;\n\
    }\n";

/// Runs the program by its name in a directory of the bench.
fn run(bench: &Bench, directory: &Path, flags: Option<&str>, argument: &Path) -> Output {
    let own = Path::new(env!("CARGO_BIN_EXE_sfi")).parent().expect("a directory");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let mut program = Command::new(bench.path("prog"));
    program.arg(argument).current_dir(directory).env("PATH", path).env("TREE_KIND", "oak").env_remove("SFI_RUN_FLAGS");
    flags.map(|flags| program.env("SFI_RUN_FLAGS", flags));
    program.output().expect("runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn a_build_tree_is_granted_and_nothing_else() {
    let bench = Bench::new();
    let top = bench.directory().canonicalize().expect("a path");
    let (tests, source): (PathBuf, PathBuf) = (top.join("build/tests"), top.join("source"));
    [&tests, &source].iter().for_each(|directory| std::fs::create_dir_all(directory).expect("made"));
    bench.write("reads.c", READS.as_bytes());
    bench.write("source/data", b"data");
    bench.write("outside", b"outside");
    bench.write("build/inside", b"inside");
    succeed(support::sfi(&bench, &["cc"]).args(["-O2", "reads.c", "-o", "prog"]));
    let name = bench.path("prog").display().to_string();
    // Without a tree nothing is granted.
    let nothing = format!("|0|-|/|{name}");
    assert_eq!(out(&run(&bench, &tests, None, Path::new("../inside"))), nothing);
    bench.write("build/config.log", b"  $ ../source/configure CC=x\n");
    let here = tests.display();
    let granted = |line: &str| format!("{line}|1|oak|{here}|{name}");
    for (argument, line) in
        [("../inside", "inside"), ("../../source/data", "data"), ("../../outside", ""), ("/etc/passwd", "")]
    {
        assert_eq!(out(&run(&bench, &tests, None, Path::new(argument))), granted(line), "{argument}");
    }
    assert_eq!(out(&run(&bench, &tests, None, &source.join("data"))), granted("data"));
    // The program cannot change the sources.
    let made = run(&bench, &source, None, Path::new("data"));
    assert_eq!((out(&made), source.join("made").exists()), (nothing.clone(), false));
    // `SFI_RUN_FLAGS` replaces the default, even if it is empty.
    assert_eq!(out(&run(&bench, &tests, Some(""), Path::new("../inside"))), nothing);
    // The shell finds the program in PATH, and the program gets the name that was typed.
    let own = Path::new(env!("CARGO_BIN_EXE_sfi")).parent().expect("a directory");
    let path = format!("{}:{}:{}", own.display(), top.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let found = succeed(shell.args(["-c", "prog none"]).env("PATH", path).env("SFI_RUN_FLAGS", ""));
    assert_eq!(found, "|0|-|/|prog\n");
}
