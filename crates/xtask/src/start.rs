//! `cargo xtask bench --start`: the time from the start of a short program to its end, natively and
//! in a domain, and that of `sfi --version`.

use crate::sources;
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of each column.
const RUNS: usize = 101;

/// Compiles an empty program and sqlite's shell, measures them in turn, and prints medians.
/// `released` is another `sfi` whose later runs and `--version` are measured, too.
///
/// # Errors
/// A program cannot be built, or fails.
pub fn run(sfi: &Path, released: Option<&Path>) -> anyhow::Result<()> {
    sources::fetch(&["sqlite3"])?;
    let sqlite = sources::directory()?.join("sqlite3");
    let directory = sources::directory()?.with_file_name("start");
    std::fs::create_dir_all(&directory)?;
    let at = |name: &str| directory.join(name);
    std::fs::write(at("empty.c"), "int main(void) { return 0; }\n")?;
    let options = ["-O2", "-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"];
    let mut columns = vec!["program", "native, ms", "first run or `--no-cache`", "later runs"];
    columns.extend(released.map(|_| "later runs, released `sfi`"));
    println!("| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
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
        let mut commands = vec![Command::new(&native)];
        for (sfi, again) in [(Some(sfi), false), (Some(sfi), true), (released, true)] {
            let Some(sfi) = sfi else { continue };
            let mut command = Command::new(sfi);
            command.arg("run").args((!again).then_some("--no-cache")).arg(&program).arg("--");
            commands.push(command);
        }
        for command in &mut commands {
            command.args(&arguments).env("XDG_CACHE_HOME", at("cache"));
        }
        println!("| {title} | {} |", medians(&mut commands)?.join(" | "));
    }
    versions(sfi, released, &directory)
}

/// Prints the time of `sfi --version`, and of empty programs in C, below which no command can be.
fn versions(sfi: &Path, released: Option<&Path>, directory: &Path) -> anyhow::Result<()> {
    let (mut titles, mut commands) = (Vec::new(), Vec::new());
    for (title, name, options) in [
        ("an empty C program, dynamic", "dynamic", &[][..]),
        ("an empty C program, static", "static", &["-static-pie"]),
    ] {
        let program = directory.join(name);
        let mut gcc = Command::new("gcc");
        gcc.arg("-O2").args(options).arg("-o").arg(&program).arg(directory.join("empty.c"));
        ensure!(gcc.status().context("the compiler does not start")?.success(), "cannot build {title}");
        titles.push(title);
        commands.push(Command::new(program));
    }
    for (title, sfi) in [("`sfi --version`", Some(sfi)), ("`sfi --version`, released", released)] {
        let Some(sfi) = sfi else { continue };
        let mut version = Command::new(sfi);
        version.arg("--version");
        titles.push(title);
        commands.push(version);
    }
    println!("\n| command | ms |\n| --- | --- |");
    for (title, median) in titles.iter().zip(medians(&mut commands)?) {
        println!("| {title} | {median} |");
    }
    Ok(())
}

/// Runs commands in turn. Returns the median of each in milliseconds.
fn medians(commands: &mut [Command]) -> anyhow::Result<Vec<String>> {
    for command in &mut *commands {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); commands.len()];
    for _ in 0..RUNS {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            let start = Instant::now();
            ensure!(command.status()?.success(), "{command:?} failed");
            times.push(start.elapsed());
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        format!("{:.2}", times[times.len() / 2].as_secs_f64() * 1e3)
    };
    Ok(times.iter_mut().map(median).collect())
}
