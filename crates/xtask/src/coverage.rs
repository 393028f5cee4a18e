//! `cargo xtask coverage`

use crate::apt;
use crate::setup::{self, cargo};
use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Debian packages whose static archives are measured.
const PACKAGES: &[&str] = &[
    "libaom-dev",
    "libarchive-dev",
    "libblas-dev",
    "libbrotli-dev",
    "libbz2-dev",
    "libc6-dev",
    "libcrypto++-dev",
    "libcurl4-openssl-dev",
    "libevent-dev",
    "libexpat1-dev",
    "libffi-dev",
    "libfftw3-dev",
    "libflac-dev",
    "libfreetype-dev",
    "libgcc-12-dev",
    "libgcrypt20-dev",
    "libgfortran-12-dev",
    "libglib2.0-dev",
    "libgmp-dev",
    "libgsl-dev",
    "libhwloc-dev",
    "libjansson-dev",
    "libjpeg62-turbo-dev",
    "liblapack-dev",
    "liblua5.4-dev",
    "liblz4-dev",
    "liblzma-dev",
    "liblzo2-dev",
    "libmp3lame-dev",
    "libmpc-dev",
    "libmpfr-dev",
    "libncurses-dev",
    "libogg-dev",
    "libopenblas-pthread-dev",
    "libopus-dev",
    "libpcre2-dev",
    "libpng-dev",
    "libprotobuf-dev",
    "libreadline-dev",
    "libsnappy-dev",
    "libsodium-dev",
    "libspeex-dev",
    "libsqlite3-dev",
    "libssl-dev",
    "libstdc++-12-dev",
    "libtheora-dev",
    "libtiff-dev",
    "libuv1-dev",
    "libvorbis-dev",
    "libvpx-dev",
    "libwebp-dev",
    "libx264-dev",
    "libxml2-dev",
    "libxxhash-dev",
    "libyaml-dev",
    "libzstd-dev",
    "musl-dev",
    "zlib1g-dev",
];

/// Rewrites, proves and verifies every member of the static archives of Debian's -dev packages.
/// Downloads the packages without installing them, prints a line for each archive and the totals,
/// and fails if a bar is missed.
#[derive(clap::Args)]
pub struct Args {
    /// Sandbox modes; the report covers the first and sums up the others
    #[arg(long, default_value = "write,full,match", value_name = "MODE,...")]
    mode: String,
    /// Write the report to docs/COVERAGE.md, and its figures to docs/measured/coverage.json
    #[arg(long)]
    write: bool,
    /// Measure packages drawn at random from all of Debian's by this seed, and hold no bar against
    /// the totals; with --write only that part of the report is written
    #[arg(long, value_name = "SEED", conflicts_with = "packages")]
    draw: Option<u64>,
    /// Number of packages to draw
    #[arg(long, value_name = "COUNT", default_value_t = 150, requires = "draw")]
    count: usize,
    /// Measure these packages only, and hold no bar against the totals
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = setup::root()?;
    let cache = cache()?;
    let wanted: Vec<&str> = match args.packages.is_empty() {
        true => PACKAGES.to_vec(),
        false => args.packages.iter().map(String::as_str).collect(),
    };
    let trees = match args.draw {
        Some(seed) => draw(&cache, seed, args.count)?,
        None => fetch(&cache, &wanted)?,
    };
    let mut command = Command::new(cargo());
    command.args(["run", "--release", "--quiet", "--package", "sfi-tests", "--bin", "coverage", "--"]);
    command.args(["--mode", &args.mode, "--refused"]).arg(&cache);
    if args.write {
        command.arg("--report").arg(root.join("docs/COVERAGE.md"));
        command.arg("--json").arg(root.join("docs/measured/coverage.json"));
    }
    if !args.packages.is_empty() || args.draw.is_some() {
        command.arg("--part");
    }
    if let Some(seed) = args.draw {
        command.arg("--seed").arg(seed.to_string());
    }
    let status = command.args(trees).status().context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the directory of downloads. It is outside the repository, so each checkout has them.
fn cache() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    Ok(caches.context("neither XDG_CACHE_HOME nor HOME is set")?.join("sfi-coverage"))
}

/// Downloads and unpacks missing packages. A directory is named `package=version` and appears only
/// when it is complete.
fn fetch(cache: &Path, packages: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let (debs, trees) = (cache.join("debs"), cache.join("trees"));
    std::fs::create_dir_all(&debs)?;
    std::fs::create_dir_all(&trees)?;
    let mut have = unpacked(&trees)?;
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !have.contains_key(*p)).collect();
    if !missing.is_empty() {
        eprintln!("downloading {}", missing.join(" "));
        apt::download(&debs, &missing)?;
        for entry in std::fs::read_dir(&debs)? {
            unpack(&entry?.path(), &trees)?;
        }
        have = unpacked(&trees)?;
    }
    let mut list = Vec::new();
    for package in packages {
        match have.remove(*package) {
            Some(path) => list.push(path),
            None => bail!("`{package}` was downloaded, but there is no such directory in {}", trees.display()),
        }
    }
    Ok(list)
}

/// Draws packages with static archives in an order that the seed chooses. They come from all -dev
/// packages except those of [`PACKAGES`], those of GHC, whose code no C compiler made, and those
/// for other machines.
fn draw(cache: &Path, seed: u64, count: usize) -> anyhow::Result<Vec<PathBuf>> {
    let archives = apt::packages_with(&cache.join("lists"), ".a")?;
    let known = Command::new("apt-cache").arg("pkgnames").output().context("cannot run apt-cache")?;
    let known = String::from_utf8(known.stdout)?;
    let known: BTreeSet<&str> = known.lines().collect();
    let other = ["libghc-", "lib32", "libx32", "lib64"];
    let mut names: Vec<&str> = archives
        .iter()
        .map(String::as_str)
        .filter(|name| name.ends_with("-dev") && known.contains(name) && !PACKAGES.contains(name))
        .filter(|name| !other.iter().any(|start| name.starts_with(start)))
        .collect();
    names.sort_by_cached_key(|name| (rank(seed, name), *name));
    let mut drawn = Vec::new();
    let mut rest = names.as_slice();
    // The lists may be older than a package, which then has no archive any more.
    while drawn.len() < count {
        let (next, others) = rest.split_at(rest.len().min(count - drawn.len()));
        ensure!(!next.is_empty(), "Debian has only {} packages with static archives that can be drawn", drawn.len());
        for tree in fetch(cache, next)? {
            if has_archive(&tree)? {
                drawn.push(tree);
            }
        }
        rest = others;
    }
    Ok(drawn)
}

/// Computes FNV-1a of a seed and a name.
fn rank(seed: u64, name: &str) -> u64 {
    let text = format!("{seed}:{name}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Says whether a regular file below a directory is a static archive, judging by its name.
fn has_archive(directory: &Path) -> anyhow::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if (kind.is_dir() && has_archive(&path)?) || (kind.is_file() && path.extension().is_some_and(|e| e == "a")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unpacked(trees: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(trees)? {
        let path = entry?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some((package, _)) = name.split_once('=').filter(|(_, version)| !version.ends_with(".part")) {
            found.insert(package.to_owned(), path);
        }
    }
    Ok(found)
}

/// Unpacks `name_version_arch.deb` into the directory `name=version`.
fn unpack(deb: &Path, trees: &Path) -> anyhow::Result<()> {
    let file = deb.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut parts = file.strip_suffix(".deb").unwrap_or_default().split('_');
    let (Some(package), Some(version)) = (parts.next(), parts.next()) else { return Ok(()) };
    let tree = trees.join(format!("{package}={}", version.replace("%3a", ":")));
    if !tree.exists() {
        let part = tree.with_file_name(format!("{package}={version}.part"));
        let _ = std::fs::remove_dir_all(&part);
        apt::quiet(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&part))?;
        std::fs::rename(&part, &tree)?;
    }
    Ok(())
}
