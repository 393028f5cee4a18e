//! The needs of the tasks on this machine. Missing packages are installed where that is possible,
//! and named otherwise. Nothing is skipped.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the repository's root.
///
/// # Errors
/// The folder in which this program was built is gone.
pub fn root() -> anyhow::Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.join("../..").canonicalize().context("the repository is not where this program was built")
}

/// Returns Cargo's folder of what it builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target))
}

/// A Debian package and the proof that it is installed.
pub struct Need {
    package: &'static str,
    proof: Proof,
}

/// The proof that a package is installed.
enum Proof {
    /// A program of this name can be run.
    Program(&'static str),
    /// One of these files exists.
    File(&'static [&'static str]),
    /// Python has a module of this name.
    Module(&'static str),
}

const GCC: Need = Need { package: "gcc", proof: Proof::Program("gcc") };
const BINUTILS: Need = Need { package: "binutils", proof: Proof::Program("readelf") };
const LIBC: Need =
    Need { package: "libc6-dev", proof: Proof::File(&["/usr/lib/x86_64-linux-gnu/crt1.o", "/usr/lib64/crt1.o"]) };
const ZLIB: Need =
    Need { package: "zlib1g-dev", proof: Proof::File(&["/usr/lib/x86_64-linux-gnu/libz.a", "/usr/lib64/libz.a"]) };
const MAKE: Need = Need { package: "make", proof: Proof::Program("make") };

/// The needs of the demo.
pub const DEMO: &[Need] = &[GCC, BINUTILS, LIBC, ZLIB];

/// The needs of the tests.
pub const BASE: &[Need] = &[
    GCC,
    BINUTILS,
    LIBC,
    ZLIB,
    Need { package: "g++", proof: Proof::Program("g++") },
    Need { package: "gfortran", proof: Proof::Program("gfortran") },
    Need { package: "clang", proof: Proof::Program("clang") },
    Need { package: "cmake", proof: Proof::Program("cmake") },
    Need { package: "ninja-build", proof: Proof::Program("ninja") },
    Need { package: "meson", proof: Proof::Program("meson") },
    Need { package: "bazel-bootstrap", proof: Proof::Program("bazel") },
    Need {
        package: "musl-dev",
        proof: Proof::File(&["/usr/lib/x86_64-linux-musl/libc.a", "/usr/lib/musl/lib/libc.a"]),
    },
    Need { package: "musl-tools", proof: Proof::Program("musl-gcc") },
    // Another decoder, to compare with the verifier's.
    Need { package: "llvm-dev", proof: Proof::File(&["/usr/include/llvm/MC/MCDisassembler/MCDisassembler.h"]) },
    Need { package: "pkg-config", proof: Proof::Program("pkg-config") },
    // They are shown the code of domains.
    Need { package: "gdb", proof: Proof::Program("gdb") },
    Need { package: "linux-perf", proof: Proof::Program("perf") },
    // Network namespaces and devices in them.
    Need { package: "iproute2", proof: Proof::File(&["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"]) },
    // Random programs, and the sources of whole programs.
    // (csmith writes a file where it runs, also when it is asked for its version.)
    Need { package: "csmith", proof: Proof::File(&["/usr/bin/csmith"]) },
    Need { package: "libcsmith-dev", proof: Proof::File(&["/usr/include/csmith/csmith.h"]) },
    MAKE,
    // The library in the example with RLBox.
    Need { package: "libexpat1-dev", proof: Proof::File(&["/usr/lib/x86_64-linux-gnu/libexpat.a"]) },
    Need { package: "tcl", proof: Proof::File(&["/usr/bin/tclsh"]) },
    Need { package: "xz-utils", proof: Proof::Program("xz") },
    Need { package: "bzip2", proof: Proof::File(&["/usr/bin/bzip2", "/bin/bzip2"]) },
];

/// The needs of the extension for PostgreSQL.
pub const POSTGRES: &[Need] = &[
    GCC,
    MAKE,
    Need { package: "postgresql-15", proof: Proof::File(&["/usr/lib/postgresql/15/bin/initdb"]) },
    Need { package: "postgresql-server-dev-15", proof: Proof::File(&["/usr/include/postgresql/15/server/postgres.h"]) },
];

/// The needs of the package for Python and of its example.
pub const PYTHON: &[Need] = &[
    GCC,
    ZLIB,
    Need { package: "python3", proof: Proof::Program("python3") },
    // Python can make environments without it, but not with pip in them.
    Need { package: "python3-venv", proof: Proof::Module("ensurepip") },
    Need { package: "libpng-dev", proof: Proof::File(&["/usr/lib/x86_64-linux-gnu/libpng16.a"]) },
    Need { package: "musl-dev", proof: Proof::File(&["/usr/lib/x86_64-linux-musl/libc.a"]) },
];

/// The needs of programs as WebAssembly.
pub const WASM: &[Need] = &[
    Need { package: "clang", proof: Proof::Program("clang") },
    Need { package: "lld", proof: Proof::Program("wasm-ld") },
    Need { package: "wabt", proof: Proof::Program("wasm2c") },
    Need { package: "wasi-libc", proof: Proof::File(&["/usr/include/wasm32-wasi/stdio.h"]) },
    Need {
        package: "libclang-rt-14-dev-wasm32",
        proof: Proof::File(&["/usr/lib/llvm-14/lib/clang/14.0.6/lib/wasi/libclang_rt.builtins-wasm32.a"]),
    },
];

/// The needs of other projects' builds.
pub const AUTOTOOLS: &[Need] = &[
    Need { package: "autoconf", proof: Proof::Program("autoconf") },
    Need { package: "automake", proof: Proof::Program("automake") },
    Need { package: "libtool", proof: Proof::Program("libtoolize") },
    Need { package: "m4", proof: Proof::Program("m4") },
];

/// The compilers of the long suites, beside gcc and clang.
pub const COMPILERS: &[Need] = &[
    Need { package: "gcc-11", proof: Proof::Program("gcc-11") },
    Need { package: "clang-16", proof: Proof::Program("clang-16") },
    Need { package: "clang-19", proof: Proof::Program("clang-19") },
];

/// Lists all compilers of the long suites, with commas between them.
pub fn compilers() -> String {
    let more = COMPILERS.iter().map(|need| need.package);
    ["gcc", "clang"].into_iter().chain(more).collect::<Vec<_>>().join(",")
}

impl Need {
    fn met(&self) -> bool {
        match self.proof {
            Proof::Program(name) => runs(Command::new(name).arg("--version")),
            Proof::Module(name) => runs(Command::new("python3").args(["-c", &format!("import {name}")])),
            Proof::File(paths) => paths.iter().any(|p| Path::new(p).exists()),
        }
    }
}

/// Says whether a command can be run and succeeds.
fn runs(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    uid.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Makes sure that all needs are met.
///
/// # Errors
/// Something is missing and cannot be installed; the message says what to do.
pub fn ensure(needs: &[Need]) -> anyhow::Result<()> {
    ensure!(cfg!(all(target_arch = "x86_64", target_os = "linux")), "this product runs on x86-64 Linux");
    let missing: Vec<&str> = needs.iter().filter(|n| !n.met()).map(|n| n.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let debian = Path::new("/etc/debian_version").exists() && runs(Command::new("apt-get").arg("--version"));
    if !debian {
        bail!("missing: {list} (Debian's names); install their counterparts on this system and run this again");
    }
    if !is_root() {
        bail!("missing: {list}\n  run: sudo apt-get update && sudo apt-get install --yes {list}");
    }
    eprintln!("installing {list}");
    apt(&["update", "-qq"])?;
    // Another apt may hold the lock for a while. An interrupted installation is finished by a
    // second one.
    let install = ["install", "-qq", "--yes", "--no-install-recommends", "-oDPkg::Lock::Timeout=120"];
    let install = [&install, missing.as_slice()].concat();
    if let Err(error) = apt(&install) {
        eprintln!("{error:#}; trying again");
        apt(&install)?;
    }
    let still: Vec<&str> = needs.iter().filter(|n| !n.met()).map(|n| n.package).collect();
    ensure!(still.is_empty(), "apt-get succeeded, but still missing: {}", still.join(" "));
    Ok(())
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().context("cannot run apt-get")?;
    ensure!(status.success(), "`apt-get {}` failed: {status}", arguments.join(" "));
    Ok(())
}

/// Makes sure that cargo has rustfmt and clippy.
///
/// # Errors
/// They are missing and rustup cannot add them; the message says what to do.
pub fn components() -> anyhow::Result<()> {
    for (subcommand, component, package) in [("fmt", "rustfmt", "rustfmt"), ("clippy", "clippy", "rust-clippy")] {
        let there = || runs(Command::new(cargo()).args([subcommand, "--version"]));
        if there() {
            continue;
        }
        let added = runs(Command::new("rustup").args(["component", "add", component]));
        if !added || !there() {
            bail!(
                "cargo {subcommand} is missing: run `rustup component add {component}` or install Debian's {package}"
            );
        }
    }
    Ok(())
}

/// Returns the cargo that runs this task.
pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
