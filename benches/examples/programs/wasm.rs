//! A program as WebAssembly: compiled by clang, and run by wasm2c's C code and by Wasmtime.

use crate::HARNESS;
use anyhow::Context;
use rayon::prelude::*;
use sfi_benches::compile::run;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program as a native one of clang, by wasm2c, and the module for Wasmtime.
pub(crate) struct Built {
    pub(crate) clang: PathBuf,
    pub(crate) wasm2c: Option<PathBuf>,
    pub(crate) module: Option<PathBuf>,
}

/// Builds all forms. A program that WASI's libc cannot build (`setjmp`) has no module, which is
/// said on standard error.
pub(crate) fn build(files: &[PathBuf], flags: &[String], here: &Path, work: &Path) -> anyhow::Result<Built> {
    let resources = run(Command::new("clang").arg("-print-resource-dir"))?;
    let [main, heap, copy] = HARNESS.map(|name| here.join(name).with_extension("c"));
    let all: Vec<&PathBuf> = files.iter().chain([&main, &heap, &copy]).collect();
    let compiled = |(number, file): (usize, &&PathBuf)| -> anyhow::Result<PathBuf> {
        let object = work.join(format!("clang-{number}.o"));
        let mut command = Command::new("clang");
        command.args(["-O2", "-w", "-fPIE", "-fno-asynchronous-unwind-tables", "-nostdinc"]);
        command.args(["-isystem", "/usr/include/x86_64-linux-musl", "-isystem"]);
        command.arg(Path::new(resources.trim()).join("include"));
        run(command.args(flags).arg("-c").arg(file).arg("-o").arg(&object)).map(|_| object)
    };
    let objects = all.par_iter().enumerate().map(compiled).collect::<Result<Vec<_>, _>>()?;
    let clang = work.join("clang");
    run(Command::new("musl-gcc").arg("-static").args(&objects).arg("-o").arg(&clang).arg("-lm"))?;
    let module = work.join("module.wasm");
    let mut command = Command::new("clang");
    command.args(["--target=wasm32-wasi", "-O2", "-w", "-mexec-model=reactor", "-Wl,--export=work"]);
    command.args(["-D_WASI_EMULATED_GETPID", "-lwasi-emulated-getpid"]);
    command.args(flags).args(files).arg(&heap).arg(here.join("wasi.c")).arg("-o").arg(&module).arg("-lm");
    if let Err(error) = run(&mut command) {
        let text = format!("{error:#}");
        let why = text.split("error: ").nth(1).and_then(|why| why.lines().next()).unwrap_or("no reason");
        eprintln!("no WebAssembly of {}: {why}", work.display());
        return Ok(Built { clang, wasm2c: None, module: None });
    }
    let wasm2c = wasm2c(&module, &copy, here, work)?;
    Ok(Built { clang, wasm2c: Some(wasm2c), module: Some(module) })
}

/// Builds a native program of a module's C code, which copies by the functions in `copy`.
fn wasm2c(module: &Path, copy: &Path, here: &Path, work: &Path) -> anyhow::Result<PathBuf> {
    let code = work.join("module.c");
    run(Command::new("wasm2c").args(["-n", "bench"]).arg(module).arg("-o").arg(&code))?;
    let header = std::fs::read_to_string(work.join("module.h"))?;
    let mut imports = String::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("/* import:") {
            let declared = lines.next().and_then(|line| line.strip_suffix(';')).context("an import's declaration")?;
            writeln!(imports, "{declared} {{ abort(); }}")?;
        }
    }
    // A module without imports is instantiated with fewer arguments.
    let instance = if imports.is_empty() { "" } else { ", 0" };
    writeln!(imports, "#define INSTANTIATE(instance) Z_bench_instantiate(instance{instance})")?;
    std::fs::write(work.join("imports.h"), imports)?;
    let output = work.join("wasm2c");
    let mut command = Command::new("musl-gcc");
    command.args(["-O2", "-w", "-fPIE", "-static", "-I"]).arg(work).args(["-idirafter", "/usr/include"]);
    command.arg(here.join("wasm.c")).arg(copy).arg(&code).arg("/usr/share/wabt/wasm2c/wasm-rt-impl.c");
    run(command.args(["-I", "/usr/share/wabt/wasm2c", "-o"]).arg(&output).arg("-lm"))?;
    Ok(output)
}
