//! The programs and libraries, the same bytes wherever they are built.

use super::base::{Dist, compare, execute, headline};
use crate::python::Environment;
use crate::setup::cargo;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs and libraries of a release: the arguments of Cargo, the profile, the file, and whether
/// it is linked statically. Cargo optimises a library as a whole only if it makes no other form.
const PARTS: [(&[&str], &str, &str, bool); 2] = [
    (&["build", "-p", "sfi-cli"], "dist", "sfi", true),
    (&["rustc", "-p", "sfi-capi", "--lib", "--crate-type", "staticlib"], "libsfi", "libsfi.a", false),
];
/// The shared library, which is linked from the static one.
pub const SHARED: &str = "libsfi.so.0";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Most bytes of the shared library without symbols. It had 3,882,832 when this was set.
const MOST_SHARED: u64 = 4_000_000;

/// A finished build.
pub struct Built {
    /// The folder of all that belongs to this build.
    pub folder: PathBuf,
    /// The copy of the sources.
    pub sources: PathBuf,
    /// The folder of programs, libraries and the wheel.
    pub programs: PathBuf,
    /// The file name of the package for Python.
    pub wheel: String,
}

/// Builds in a folder of the work, in two whose names differ in length, and compares. With `once`
/// only in the first.
pub fn builds(dist: &Dist, python: &Environment, once: bool) -> anyhow::Result<(Built, Option<Built>)> {
    headline("programs and libraries");
    let first = build(dist, python, &dist.work.join("a"))?;
    if once {
        return Ok((first, None));
    }
    headline("the same in another folder");
    let second = build(dist, python, &dist.work.join("another/folder"))?;
    compare(&first.programs, &second.programs)?;
    Ok((first, Some(second)))
}

fn build(dist: &Dist, python: &Environment, folder: &Path) -> anyhow::Result<Built> {
    let (sources, target, programs) = (folder.join("sources"), folder.join("target"), folder.join("programs"));
    for folder in [&sources, &programs] {
        std::fs::create_dir_all(folder)?;
    }
    execute(Command::new("tar").arg("-xf").arg(&dist.archive).arg("-C").arg(&sources))?;
    let home = home()?;
    // Completes and runs a command that builds.
    let run = |mut build: Command, profile: &str, is_static: bool| {
        let mut flags = vec![
            format!("--remap-path-prefix={}=/sfi", sources.display()),
            format!("--remap-path-prefix={}=/target", target.display()),
            format!("--remap-path-prefix={}=/cargo", home.display()),
        ];
        if is_static {
            flags.push("-Ctarget-feature=+crt-static".to_owned());
        }
        build.args(["--profile", profile, "--target", TARGET]);
        build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        build.env("CARGO_TARGET_DIR", &target).env("SOURCE_DATE_EPOCH", &dist.time).current_dir(&sources);
        execute(&mut build)
    };
    for (arguments, profile, name, is_static) in PARTS {
        let mut build = Command::new(cargo());
        build.args(arguments).args(["--locked", "--quiet"]);
        run(build, profile, is_static)?;
        let made = target.join(TARGET).join(profile).join(name);
        std::fs::copy(&made, programs.join(name)).with_context(|| format!("{}", made.display()))?;
    }
    let shared = programs.join(SHARED);
    let (script, header) = (sources.join("crates/capi/link.sh"), sources.join("crates/capi/include/sfi.h"));
    execute(Command::new("sh").arg(script).arg(programs.join("libsfi.a")).arg(header).arg(&shared))?;
    execute(Command::new("strip").arg("--strip-unneeded").arg(&shared))?;
    let size = std::fs::metadata(&shared)?.len();
    println!("{SHARED}: {size} bytes");
    ensure!(size <= MOST_SHARED, "{SHARED} has {size} bytes, and at most {MOST_SHARED} are wanted");
    let wheels = folder.join("wheels");
    let mut build = python.build_wheel(&sources)?;
    build.arg("--out").arg(&wheels);
    run(build, "dist", false)?;
    let made = std::fs::read_dir(&wheels)?.next().context("maturin made no wheel")??;
    let wheel = made.file_name().into_string().ok().context("a strange name")?;
    std::fs::copy(made.path(), programs.join(&wheel))?;
    Ok(Built { folder: folder.to_owned(), sources, programs, wheel })
}

/// Returns cargo's folder, which holds the sources of dependencies.
fn home() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("no home directory")
}
