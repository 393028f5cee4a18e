//! `cargo xtask bench --start`: the time from the start of a short program to its end, natively and
//! in a domain.

use crate::sources;
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of each column.
const RUNS: usize = 101;

/// Compiles an empty program and sqlite's shell, measures them in turn, and prints medians.
///
/// # Errors
/// A program cannot be built, or fails.
pub fn run(sfi: &Path) -> anyhow::Result<()> {
    sources::fetch(&["sqlite3"])?;
    let sqlite = sources::directory()?.join("sqlite3");
    let directory = sources::directory()?.with_file_name("start");
    std::fs::create_dir_all(&directory)?;
    let at = |name: &str| directory.join(name);
    std::fs::write(at("empty.c"), "int main(void) { return 0; }\n")?;
    let options = ["-O2", "-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"];
    println!("| program | native, ms | first run or `--no-cache` | later runs |\n| --- | --- | --- | --- |");
    for (title, name, files, arguments) in [
        ("an empty program", "empty", vec![at("empty.c")], vec![]),
        ("`sqlite3 -version`", "sqlite", vec![sqlite.join("shell.c"), sqlite.join("sqlite3.c")], vec!["-version"]),
    ] {
        let (native, program) = (at(name), at(&format!("{name}.sfi")));
        let build = |command: &mut Command, output: &Path| -> anyhow::Result<()> {
            let status = command.args(options).args(&files).arg("-o").arg(output).arg("-lm").status();
            ensure!(status.context("the compiler does not start")?.success(), "cannot build {title}");
            Ok(())
        };
        build(&mut Command::new("gcc"), &native)?;
        build(Command::new(sfi).arg("cc"), &program)?;
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..RUNS {
            for (column, times) in times.iter_mut().enumerate() {
                let mut command = match column {
                    0 => Command::new(&native),
                    _ => Command::new(sfi),
                };
                if column > 0 {
                    command.arg("run").args((column == 1).then_some("--no-cache")).arg(&program).arg("--");
                }
                command.args(&arguments).env("XDG_CACHE_HOME", at("cache"));
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let start = Instant::now();
                ensure!(command.status()?.success(), "{title} failed");
                times.push(start.elapsed());
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e3
        };
        let [native, first, later] = &mut times;
        println!("| {title} | {:.2} | {:.2} | {:.2} |", median(native), median(first), median(later));
    }
    Ok(())
}
