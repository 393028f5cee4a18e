//! The C++ runtime of a program, gcc's library for OpenMP, and the functions that open libraries.

use super::compiler::{Driver, library};
use crate::bundle::Bundle;
use anyhow::{Context, ensure};
use std::path::Path;

/// Beginning of the names of the functions that raise and catch exceptions.
const UNWINDER: &str = "_Unwind_";

/// Adds the C++ runtime.
///
/// C++ gets libstdc++ and the unwinder, with the functions that libstdc++ expects of a libc.
/// Programs in C get the unwinder if an object or a member of an archive raises or catches
/// exceptions, as static libraries of Rust do.
pub fn add_runtime(driver: &Driver, cxx: bool, temporary: &Path, bundle: &mut Bundle) -> anyhow::Result<()> {
    if cxx {
        let library = library(driver, "libstdc++.a")?;
        let library = library.with_context(
            || "cannot find libstdc++.a: install libstdc++-12-dev, or name another compiler in SFI_CXX",
        )?;
        bundle.add(&library, &library, false)?;
    } else if !bundle.wants(UNWINDER)? {
        return Ok(());
    }
    // The personality of C compiled with -fexceptions. The other members are another unwinder.
    if let Some(library) = library(driver, "libgcc_eh.a")? {
        bundle.add_member(&library, "unwind-c.o")?;
    }
    sfi_support::CXX_SOURCES.into_iter().try_for_each(|source| compile(driver, source, temporary, bundle))
}

/// Adds gcc's library for OpenMP, with the functions that it expects of a libc.
pub fn add_openmp(driver: &Driver, temporary: &Path, bundle: &mut Bundle) -> anyhow::Result<()> {
    let library = library(driver, "libgomp.a")?;
    let library = library.with_context(
        || "cannot find libgomp.a, which comes with gcc: name gcc in SFI_CC, or g++ in SFI_CXX, for -fopenmp",
    )?;
    bundle.add(&library, &library, false)?;
    compile(driver, sfi_support::OPENMP_SOURCE, temporary, bundle)
}

/// Adds `dlopen` and its like if an object or a member of an archive names one of them.
pub fn add_libraries(driver: &Driver, temporary: &Path, bundle: &mut Bundle) -> anyhow::Result<()> {
    for name in sfi_support::LIBRARY_FUNCTIONS {
        if bundle.wants(name)? {
            return compile(driver, sfi_support::LIBRARY_SOURCE, temporary, bundle);
        }
    }
    Ok(())
}

/// Compiles a part of the runtime and adds it.
fn compile(driver: &Driver, (name, source): (&str, &str), temporary: &Path, bundle: &mut Bundle) -> anyhow::Result<()> {
    let file = temporary.join(format!("sfi-{name}.c"));
    let object = file.with_extension("o");
    std::fs::write(&file, source)?;
    let mut command = driver.command();
    command.args(["-x", "c", "-O2", "-fPIE", "-funwind-tables", "-fexceptions", "-ffreestanding", "-w", "-c"]);
    let status = command.arg(&file).arg("-o").arg(&object).status()?;
    ensure!(status.success(), "`{}` does not compile the runtime's `{name}.c`", driver.compiler.display());
    bundle.add(&object, &object, false)
}
