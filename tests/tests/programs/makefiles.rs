//! Builds of other projects with `CC="sfi cc"`: their configure scripts, Makefiles and tests.

use crate::build;
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_tests::libraries::libc;
use sfi_tests::paths::sfi;
use sfi_tests::run::must;
use sfi_tests::sources::package;
use std::path::Path;
use std::process::Command;

/// Copies a package's source and runs commands in it, which must succeed. The last one's output
/// must hold `expected`.
fn build(name: &str, mode: Mode, commands: &[&str], expected: &str) -> anyhow::Result<()> {
    let source = package(name)?;
    let temporary = tempfile::tempdir()?;
    let work = temporary.path().join("source");
    must(Command::new("cp").arg("-r").arg(&source).arg(&work), temporary.path())?;
    let mut output = String::new();
    for command in commands {
        let done = must(&mut shell(command, mode, &work)?, temporary.path()).with_context(|| (*command).to_owned())?;
        output = String::from_utf8_lossy(&done.stdout).into_owned();
    }
    ensure!(output.contains(expected), "the output does not hold `{expected}`: {output}");
    Ok(())
}

fn shell(text: &str, mode: Mode, directory: &Path) -> anyhow::Result<Command> {
    let path = std::env::var("PATH").unwrap_or_default();
    let own = sfi()?.parent().context("sfi has a directory")?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).current_dir(directory);
    command.env("PATH", format!("{}:{path}", own.display())).env("SFI_RUN_FLAGS", "--dir .::.");
    command.env("SFI_MODE", mode.name()).env("SFI_LIBC_DIR", libc(mode)?).env("SFI_CC", build::COMPILER);
    Ok(command)
}

/// Builds zlib. Its configure compiles and runs programs of its own. Its tests run `example` and
/// pipe `minigzip` into itself.
pub fn zlib() -> anyhow::Result<()> {
    let commands = ["CC='sfi cc' CFLAGS='-O2 -w' ./configure --static", "make static teststatic"];
    build("zlib", Mode::Full, &commands, "*** zlib test OK ***")
}

/// Builds bzip2 by its Makefile: a library, two programs, six comparisons with files of the
/// package.
pub fn bzip2() -> anyhow::Result<()> {
    let make =
        "make CC='sfi cc' CFLAGS='-O2 -w -D_FILE_OFFSET_BITS=64' all && ./bzip2 --version </dev/null 2>&1 | head -1";
    let compare =
        ["sample1.rb2 sample1.bz2", "sample2.rb2 sample2.bz2", "sample3.rb2 sample3.bz2", "sample1.tst sample1.ref"];
    let compare: Vec<String> = compare.iter().map(|pair| format!("cmp {pair}")).collect();
    build("bzip2", Mode::Write, &[make, &compare.join(" && ")], "")
}

/// Builds libpng with its configure, Makefiles and libtool (autotools), against the distribution's
/// libz.a, and runs its test.
pub fn libpng() -> anyhow::Result<()> {
    let flags = "--host=x86_64-linux-musl --disable-shared --disable-hardware-optimizations";
    let headers = package("zlib")?;
    let configure = format!("./configure CC='sfi cc' CFLAGS='-O1 -w' CPPFLAGS=-I{} {flags}", headers.display());
    build("libpng1.6", Mode::Write, &[&configure, "make pngtest", "./pngtest pngtest.png"], "libpng passes test")
}

/// Builds xz with its configure (autotools: some two hundred small programs), its libraries and
/// programs, and makes one round trip.
pub fn xz() -> anyhow::Result<()> {
    let configure = "./configure CC='sfi cc' CFLAGS='-O1 -w' --host=x86_64-linux-musl --disable-shared --disable-threads --disable-nls --disable-assembler";
    let commands = [
        configure,
        "make -C src/liblzma",
        "make -C src/xz",
        "./src/xz/xz -9 < COPYING | ./src/xz/xz -d | cmp - COPYING && echo same",
    ];
    build("xz-utils", Mode::Write, &commands, "same")
}
