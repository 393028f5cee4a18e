//! A stock archive that was not compiled for this project: the distribution's libz.a.

use anyhow::Context;
use sfi_contract::Mode;
use sfi_tests::build::{Configuration, Objects, runtime};
use sfi_tests::paths::fixture;
use sfi_tests::run::{must, run};
use sfi_tests::sandbox;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Returns the place of libz.a on Debian or Fedora.
fn libz() -> PathBuf {
    let places = ["/usr/lib/x86_64-linux-gnu/libz.a", "/usr/lib64/libz.a"];
    let found = places.iter().map(Path::new).find(|p| p.exists());
    found.expect("libz.a is missing: run `cargo xtask setup`, or install zlib1g-dev").to_owned()
}

fn members(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let to = directory.join("members");
    std::fs::create_dir(&to)?;
    must(Command::new("ar").arg("x").arg(libz()).current_dir(&to), directory)?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&to)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    anyhow::ensure!(paths.len() >= 10, "libz.a has only {} members", paths.len());
    Ok(paths)
}

fn configuration() -> Configuration {
    let (compiler, level) = ("gcc".parse().expect("a compiler"), "2".parse().expect("a level"));
    Configuration { compiler, level, flags: vec!["-fPIE".to_owned()] }
}

/// Compiles the program.
fn program() -> anyhow::Result<Objects> {
    let directory = tempfile::tempdir()?;
    let object = directory.path().join("round_trip.o");
    let mut command = Command::new("gcc");
    command.args(["-O2", "-fPIE", "-Wall", "-Wextra", "-Werror", "-I"]).arg(fixture("rt"));
    command.arg("-c").arg(fixture("zlib/round_trip.c")).arg("-o").arg(&object);
    must(&mut command, directory.path())?;
    Ok(Objects { paths: vec![object], directory })
}

fn round_trip(mode: Mode) -> anyhow::Result<()> {
    let program = program()?;
    let runtime = runtime(&configuration())?;
    let directory = program.directory.path();

    let native = directory.join("native");
    let mut link = Command::new("gcc");
    link.args(&program.paths).args(runtime.native()).arg(libz()).args(["-z", "noexecstack", "-o"]).arg(&native);
    must(&mut link, directory)?;
    let expected = run(&mut Command::new(native), directory, Duration::from_secs(60))?;
    anyhow::ensure!(expected.stdout.len() > 3000, "the native program says little");

    let members = members(directory)?;
    let rewritten = directory.join("rewritten");
    let members = sandbox::rewrite_files(members.iter().map(PathBuf::as_path), mode, &rewritten)?;
    let archive = directory.join("libz.a");
    must(Command::new("ar").arg("rcsD").arg(&archive).args(&members), directory)?;
    let files = program.paths.iter().map(PathBuf::as_path).chain(runtime.domain());
    let mut objects = sandbox::rewrite_files(files, mode, &directory.join("objects"))?;
    objects.push(archive);
    let outcome = sandbox::execute(&objects, mode, directory).context("running")?;
    assert_eq!(
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&expected.stdout),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.status, expected.status);
    Ok(())
}

#[test]
fn round_trip_in_mode_write() {
    round_trip(Mode::Write).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn round_trip_in_mode_full() {
    round_trip(Mode::Full).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn round_trip_in_mode_match() {
    round_trip(Mode::Match).unwrap_or_else(|e| panic!("{e:#}"));
}
