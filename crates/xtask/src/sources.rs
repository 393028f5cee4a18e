//! Sources of whole programs from the distribution's source archive, fetched once into the target
//! directory.
//!
//! The machine's own package configuration names the archive and is not changed. A copy of it, with
//! source packages in place of binary ones, lies beside the sources.

use crate::setup::cargo;
use crate::{apt, testsuite};
use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian source packages.
pub const PACKAGES: &[&str] =
    &["bzip2", "expat", "libpng1.6", "libzstd", "lua5.4", "lz4", "sqlite3", "tcc", "xz-utils", "zlib"];

/// Debian source packages of further programs of `cargo xtask bench`.
pub const BENCH: &[&str] = &["brotli", "expat", "jansson", "libjpeg-turbo", "mujs", "pcre2"];

/// Returns the place of the packages' sources: `target/sources`.
pub fn directory() -> anyhow::Result<PathBuf> {
    // target/<profile>/xtask
    let exe = std::env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).context("xtask does not run from a target directory")?;
    Ok(target.join("sources"))
}

/// Fetches and unpacks missing sources.
///
/// # Errors
/// A package cannot be fetched; the message says what to do.
pub fn ensure() -> anyhow::Result<()> {
    testsuite::ensure(&directory()?)?;
    fetch(PACKAGES)
}

/// Fetches and unpacks the sources of packages that are missing.
///
/// # Errors
/// A package cannot be fetched; the message says what to do.
pub fn fetch(packages: &[&str]) -> anyhow::Result<()> {
    let root = directory()?;
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !root.join(p).join(".complete").exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("fetching the sources of {}", missing.join(" "));
    let apt = Apt::new(&root.join(".apt"))?;
    apt.run(&["update"], &root)?;
    for package in missing {
        let directory = root.join(package);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)?;
        let archives = directory.join(".archives");
        fs::create_dir(&archives)?;
        apt.run(&["source", "--download-only", package], &archives)?;
        unpack(&archives, &directory).with_context(|| format!("cannot unpack the source of {package}"))?;
        if package == "sqlite3" {
            amalgamate(&directory).context("cannot generate sqlite3.c")?;
        }
        fs::write(directory.join(".complete"), "")?;
    }
    Ok(())
}

/// Fetches and unpacks the sources of a crate, by its name and version, if they are missing.
///
/// # Errors
/// It cannot be fetched. The message quotes cargo.
pub fn fetch_crate(package: &str, (name, version): (&str, &str)) -> anyhow::Result<()> {
    let directory = directory()?.join(package);
    if directory.join(".complete").exists() {
        return Ok(());
    }
    eprintln!("fetching the crate {name}");
    let _ = fs::remove_dir_all(&directory);
    // cargo fetches the dependencies of a package.
    let user = directory.join(".user");
    fs::create_dir_all(user.join("src"))?;
    fs::write(user.join("src/lib.rs"), "")?;
    let manifest = format!("[package]\nname = \"user\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n");
    fs::write(user.join("Cargo.toml"), manifest)?;
    apt::quiet(Command::new(cargo()).args(["vendor", "--quiet"]).current_dir(&user))?;
    for entry in fs::read_dir(user.join("vendor").join(name))? {
        let path = entry?.path();
        fs::rename(&path, directory.join(path.file_name().unwrap_or_default()))?;
    }
    fs::remove_dir_all(user)?;
    Ok(fs::write(directory.join(".complete"), "")?)
}

/// Unpacks the upstream archive, without its top directory if it has one.
fn unpack(archives: &Path, directory: &Path) -> anyhow::Result<()> {
    let mut found = false;
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(".orig.tar.") || name.ends_with(".asc") {
            continue;
        }
        found = true;
        let status = Command::new("tar").arg("xf").arg(&path).arg("-C").arg(directory).status();
        ensure!(status.context("cannot run tar")?.success(), "tar failed on {name}");
    }
    ensure!(found, "there is no upstream archive in it");
    let visible = || -> anyhow::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(directory)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
        Ok(entries
            .into_iter()
            .filter(|p| !p.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b"."))
            .collect())
    };
    if let [only] = visible()?.as_slice()
        && only.is_dir()
    {
        for entry in fs::read_dir(only)? {
            let path = entry?.path();
            fs::rename(&path, directory.join(path.file_name().unwrap_or_default()))?;
        }
        fs::remove_dir(only)?;
    }
    Ok(())
}

/// Generates sqlite3.c and shell.c from their many files.
fn amalgamate(directory: &Path) -> anyhow::Result<()> {
    let quiet = |command: &mut Command| -> anyhow::Result<()> {
        let output = command.current_dir(directory).output()?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    quiet(Command::new("./configure").args(["--disable-tcl", "--disable-load-extension"]))?;
    quiet(Command::new("make").args(["sqlite3.c", "shell.c"]))
}

/// An apt with its own lists.
struct Apt {
    parts: PathBuf,
    lists: PathBuf,
}

impl Apt {
    fn new(directory: &Path) -> anyhow::Result<Apt> {
        let apt = Apt { parts: directory.join("parts"), lists: directory.join("lists") };
        fs::create_dir_all(&apt.parts)?;
        fs::create_dir_all(apt.lists.join("partial"))?;
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let suite = release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME="));
        let suite = suite.context("the sources come from Debian's archive, and this is no Debian")?;
        let mut any = false;
        let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|e| e.path());
        for path in parts.chain([PathBuf::from("/etc/apt/sources.list")]) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let (text, to) = match path.extension().and_then(|e| e.to_str()) {
                Some("sources") => (stanzas(&text, suite), "sources"),
                Some("list") => (lines(&text, suite), "list"),
                _ => continue,
            };
            if !text.is_empty() {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                fs::write(apt.parts.join(format!("{stem}.{to}")), text)?;
                any = true;
            }
        }
        ensure!(any, "no package source of `{suite}` in /etc/apt");
        Ok(apt)
    }

    fn run(&self, arguments: &[&str], directory: &Path) -> anyhow::Result<()> {
        let mut command = Command::new("apt-get");
        command
            .arg("-qq")
            .arg(format!("-oDir::Etc::SourceParts={}", self.parts.display()))
            .arg("-oDir::Etc::SourceList=/dev/null")
            .arg(format!("-oDir::State::Lists={}", self.lists.display()))
            .arg("-oAPT::Sandbox::User=root")
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let status = command.status().context("cannot run apt-get")?;
        if !status.success() {
            bail!("`apt-get {}` failed: {status}; the sources of whole programs come from there", arguments.join(" "));
        }
        Ok(())
    }
}

/// Keeps the stanzas (deb822) of the plain suite, as stanzas of sources. Point releases keep their
/// sources; those of updates come and go.
fn stanzas(text: &str, suite: &str) -> String {
    let mut out = String::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        let has = |name: &str, word: &str| field(name).is_some_and(|f| f.split_whitespace().any(|w| w == word));
        if !has("Suites", suite) || !has("Components", "main") || !has("Types", "deb") {
            continue;
        }
        for line in stanza.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            match line.split_once(':') {
                Some(("Types", _)) => out.push_str("Types: deb-src"),
                Some(("Suites", _)) => out.push_str(&format!("Suites: {suite}")),
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

/// Keeps the one-line entries of the plain suite, as entries of sources:
/// `deb [options] address suite component ...`.
fn lines(text: &str, suite: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"deb") && words.contains(&suite) && words.contains(&"main") {
            out.push_str(&format!("deb-src {}\n", words[1..].join(" ")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_derived() {
        let text = "Types: deb\n# comment\nURIs: http://mirror.example/debian\nSuites: trixie trixie-updates\nComponents: main\n\
                    Signed-By: /key\n\nTypes: deb\nURIs: http://mirror.example/security\nSuites: trixie-security\nComponents: main\n";
        let expected =
            "Types: deb-src\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\nSigned-By: /key\n\n";
        assert_eq!(stanzas(text, "trixie"), expected);
        let text = "# x\ndeb [signed-by=/k] http://mirror.example/debian trixie main contrib\ndeb http://m.example/d trixie-updates main\n\
                    deb https://other.example stable extra\n";
        assert_eq!(lines(text, "trixie"), "deb-src [signed-by=/k] http://mirror.example/debian trixie main contrib\n");
    }
}
