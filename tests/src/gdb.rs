//! gdb, run for real. Tests of other packages include this file.

use std::path::Path;
use std::process::Command;

/// Settings for output that tests read.
const SETTINGS: [&str; 4] =
    ["set debuginfod enabled off", "set breakpoint pending on", "set width 0", "set backtrace limit 100"];

/// Runs gdb with commands in a folder, on the program that `arguments` name (`--args` and a command
/// line, `-p` and a process). Returns what both print.
pub fn run(directory: &Path, commands: &[&str], arguments: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch"]).current_dir(directory);
    for line in SETTINGS.iter().chain(commands) {
        gdb.args(["-ex", line]);
    }
    let output = gdb.args(arguments).output().expect("gdb: run `cargo xtask setup`");
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}
