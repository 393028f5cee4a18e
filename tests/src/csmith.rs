//! Random programs (csmith), compared natively and in domains.

use crate::build::{Compiler, Configuration, Level, Objects, runtime};
use crate::run::must;
use crate::{native, sandbox};
use anyhow::Context;
use sfi_contract::Mode;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One random program, in two configurations that its seed chooses (gcc and clang at some level, gcc with and without `-ffixed-r15`), and
/// in all modes.
///
/// # Errors
/// A difference, with the configuration.
pub fn random_program(seed: u64) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("random.c");
    let mut generate = Command::new("csmith");
    generate.args(["--no-argc", "--float", "--seed", &seed.to_string(), "--output"]).arg(&source);
    must(generate.current_dir(directory.path()), directory.path())?;
    for (index, compiler) in [Compiler::Gcc, Compiler::Clang].into_iter().enumerate() {
        let level = Level::ALL[(seed as usize + index) % Level::ALL.len()];
        let mut flags = vec!["-fPIE".to_owned()];
        if compiler.has_fixed_r15() && (seed / Level::ALL.len() as u64).is_multiple_of(2) {
            flags.push("-ffixed-r15".to_owned());
        }
        let configuration = Configuration { compiler, level, flags };
        compare(&source, &configuration).with_context(|| configuration.to_string())?;
    }
    Ok(())
}

fn compare(source: &Path, configuration: &Configuration) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let object = directory.path().join("random.o");
    let mut compile = Command::new(configuration.compiler.to_string());
    compile.args(["-w", "-Dmain=sfi_main", "-I"]).arg("/usr/include/csmith");
    compile
        .arg(format!("-{}", configuration.level))
        .args(&configuration.flags)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object);
    must(&mut compile, directory.path())?;
    let runtime = runtime(configuration)?;
    let program = Objects { paths: vec![object], directory };
    let scratch = program.directory.path();
    // A random program may run for ever: then there is nothing to compare.
    let Ok(expected) = native::execute(&program, &runtime) else { return Ok(()) };
    anyhow::ensure!(expected.status.code().is_some(), "the native program ends with {}", expected.status);
    for mode in Mode::ALL {
        let files = program.paths.iter().map(PathBuf::as_path).chain(runtime.domain());
        let rewritten = sandbox::rewrite_files(files, mode, &scratch.join(mode.name()))?;
        let outcome = sandbox::execute(&rewritten, mode, scratch)?;
        anyhow::ensure!(
            outcome.stdout == expected.stdout && outcome.status == expected.status,
            "mode {mode}: natively {} {:?}, in a domain {} {:?} {}",
            expected.status,
            String::from_utf8_lossy(&expected.stdout),
            outcome.status,
            String::from_utf8_lossy(&outcome.stdout),
            outcome.stderr
        );
    }
    Ok(())
}
