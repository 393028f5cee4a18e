//! The compiler: its command, the flags of every compilation, and its own libraries.

use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler and the language that its programs are linked for.
pub struct Driver {
    /// The compiler, with arguments if any (`ccache gcc`).
    pub compiler: OsString,
    /// Says whether the language is C++, with exceptions and libstdc++.
    pub cxx: bool,
}

impl Driver {
    /// Returns a command with the compiler's own arguments.
    pub fn command(&self) -> Command {
        let text = self.compiler.to_string_lossy();
        let mut words = text.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// Returns the compiler's answer on standard output, or `None` if it fails.
    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let output = self.command().args(arguments).stderr(std::process::Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn run(&self, command: &mut Command) -> anyhow::Result<std::process::ExitStatus> {
        command.status().with_context(|| advice(self))
    }

    /// Returns the flags of every compilation: position-independent code and the headers of the
    /// libc of the link. Compilers that can do so also leave r15 alone.
    pub fn flags(&self, libc: &Path) -> Vec<OsString> {
        let mut flags: Vec<OsString> = vec!["-fPIE".into()];
        if !self.cxx {
            flags.push("-fno-asynchronous-unwind-tables".into());
            // musl's own compiler finds its headers.
            if !self.compiler.to_string_lossy().contains("musl") {
                let headers = std::env::var_os("SFI_LIBC_INCLUDE").map_or_else(|| include_of(libc), PathBuf::from);
                if self.ask(&["--version"]).is_some_and(|text| text.contains("clang")) {
                    flags.extend(["--target=x86_64-linux-musl", "-nostdlibinc", "-isystem"].map(OsString::from));
                    flags.push(headers.into());
                } else {
                    flags.extend(["-nostdinc".into(), "-isystem".into(), headers.into()]);
                    let own = self.ask(&["-print-file-name=include"]);
                    flags.extend(own.into_iter().flat_map(|own| ["-isystem".into(), own.trim().into()]));
                }
            }
        }
        if self.ask(&["-ffixed-r15", "-Werror", "-fsyntax-only", "-x", "c", "/dev/null"]).is_some() {
            flags.push("-ffixed-r15".into());
        }
        flags
    }
}

/// Returns the directory where Debian keeps the headers of a libc.
fn include_of(libc: &Path) -> PathBuf {
    match libc.file_name().and_then(OsStr::to_str) {
        Some("lib") => libc.with_file_name("include"),
        Some(triple) => Path::new("/usr/include").join(triple),
        None => PathBuf::from("/usr/include"),
    }
}

fn advice(driver: &Driver) -> String {
    let (packages, variable) = if driver.cxx { ("g++ musl-dev", "SFI_CXX") } else { ("musl-tools musl-dev", "SFI_CC") };
    format!(
        "cannot run `{}`: install it (Debian: apt-get install {packages}) or name another compiler in {variable}",
        driver.compiler.display()
    )
}

/// Returns the path of a library of the compiler, if it has that library.
pub fn library(driver: &Driver, file: &str) -> anyhow::Result<Option<PathBuf>> {
    let output = driver.command().arg(format!("-print-file-name={file}")).output().with_context(|| advice(driver))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(path.is_absolute().then_some(path).filter(|path| path.exists()))
}
