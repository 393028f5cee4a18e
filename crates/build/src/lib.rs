//! Builds sandboxed plugins in a Cargo build script: compiles, rewrites and verifies them.
//!
//! ```no_run
//! // build.rs
//! let zlib = "/usr/lib/x86_64-linux-gnu/libz.a";
//! sfi_build::Plugin::new("codec").file("plugin/codec.c").archive(zlib).build();
//! ```
//!
//! Cargo tells the compiler the archive's path, so the host can embed the archive:
//!
//! ```ignore
//! const CODEC: &[u8] = include_bytes!(env!("SFI_PLUGIN_CODEC"));
//! let codec = DomainSpec::new("codec").whole_archive("codec.a", CODEC);
//! let world = World::builder().domain(codec).build()?;
//! ```
//!
//! [`Plugin::file`] takes C, C++ and assembly, which the crate `cc` compiles. [`Plugin::archive`]
//! takes libraries that are compiled already, and [`Plugin::rust`] takes a crate. The build links
//! nothing. The loader links the archive's objects when it builds the domain, and verifies them
//! again.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod archive;
mod error;
mod objects;

pub use archive::archive;
pub use error::Error;
pub use sfi_contract::Mode;

use sfi_rewriter::Options;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A plugin to build.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `build` or `try_build`"]
pub struct Plugin {
    name: String,
    mode: Mode,
    budget: bool,
    saves: bool,
    compiler: cc::Build,
    is_compiled: bool,
    archives: Vec<PathBuf>,
    crates: Vec<PathBuf>,
    watched: Vec<PathBuf>,
    skip_refused: bool,
    out: Option<PathBuf>,
}

impl Plugin {
    /// Begins a plugin. Its archive is `NAME.sfi.a`. The environment variable `SFI_PLUGIN_NAME`
    /// holds the archive's path, where NAME is in capitals, with `_` for every other character.
    ///
    /// C and C++ are compiled with `-O2 -g` as position-independent code, whatever the host's
    /// profile is.
    pub fn new(name: impl Into<String>) -> Plugin {
        let mut compiler = cc::Build::new();
        compiler.cargo_metadata(false).opt_level(2).debug(true).pic(true).warnings(true);
        Plugin {
            name: name.into(),
            mode: Mode::default(),
            budget: false,
            saves: true,
            compiler,
            is_compiled: false,
            archives: Vec::new(),
            crates: Vec::new(),
            watched: Vec::new(),
            skip_refused: false,
            out: None,
        }
    }

    /// Sets the sandbox's mode. Default: write. The domain that loads the plugin must have the same
    /// mode.
    pub fn mode(mut self, mode: Mode) -> Plugin {
        self.mode = mode;
        self
    }

    /// Gives the plugin a budget of instructions, which the domain that loads it sets. Sources are
    /// compiled with `-ffixed-r14`, which gcc knows. Archives must have been compiled so.
    pub fn budget(mut self) -> Plugin {
        self.budget = true;
        self.compiler.flag("-ffixed-r14");
        self
    }

    /// Lets functions save registers in their frames and not on the control stack, as `sfi rewrite
    /// --no-saves` does. Calls take more time then. Garbage collectors that search the stack for
    /// pointers need this.
    pub fn no_saves(mut self) -> Plugin {
        self.saves = false;
        self
    }

    /// Adds a source file: C, C++ (by [`Plugin::compiler`] with `cpp(true)`) or assembly.
    pub fn file(mut self, path: impl AsRef<Path>) -> Plugin {
        self.compiler.file(path.as_ref());
        self.watched.push(path.as_ref().to_owned());
        self.is_compiled = true;
        self
    }

    /// Adds source files.
    pub fn files<P: AsRef<Path>>(self, paths: impl IntoIterator<Item = P>) -> Plugin {
        paths.into_iter().fold(self, Plugin::file)
    }

    /// Changes how sources are compiled: include paths, macros, flags, C++, another compiler.
    ///
    /// ```no_run
    /// let plugin = sfi_build::Plugin::new("codec").file("codec.cc");
    /// plugin.compiler(|cc| cc.cpp(true).define("NDEBUG", None)).build();
    /// ```
    pub fn compiler(mut self, change: impl FnOnce(&mut cc::Build) -> &mut cc::Build) -> Plugin {
        change(&mut self.compiler);
        self
    }

    /// Adds all members of a static library.
    pub fn archive(mut self, path: impl AsRef<Path>) -> Plugin {
        self.archives.push(path.as_ref().to_owned());
        self.watched.push(path.as_ref().to_owned());
        self
    }

    /// Adds a Rust crate, by the folder of its Cargo.toml.
    ///
    /// Cargo builds its library as a static library in the release profile with `panic=abort`. The
    /// library contains all of std, and parts of it may be refused: see [`Plugin::skip_refused`].
    pub fn rust(mut self, folder: impl AsRef<Path>) -> Plugin {
        self.crates.push(folder.as_ref().to_owned());
        self.watched.push(folder.as_ref().to_owned());
        self
    }

    /// Leaves out members of archives that cannot be rewritten, with a warning, instead of failing.
    /// A plugin that needs such a member fails when it is loaded, because a symbol is undefined.
    pub fn skip_refused(mut self) -> Plugin {
        self.skip_refused = true;
        self
    }

    /// Sets the output folder. Default: Cargo's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Plugin {
        self.compiler.out_dir(folder.as_ref());
        self.out = Some(folder.as_ref().to_owned());
        self
    }

    /// Builds the plugin, tells Cargo about it, and returns the archive's path. Ends the process
    /// with a message if something fails, as build scripts do.
    pub fn build(self) -> PathBuf {
        let (variable, watched) = (self.variable(), self.watched.clone());
        match self.try_build() {
            Ok(built) => {
                for path in watched {
                    println!("cargo::rerun-if-changed={}", path.display());
                }
                for warning in &built.warnings {
                    println!("cargo::warning={warning}");
                }
                println!("cargo::rustc-env={variable}={}", built.path.display());
                built.path
            }
            Err(error) => {
                let error = sfi_contract::text::chain(&error);
                eprintln!("{error}");
                for line in error.lines() {
                    println!("cargo::error={line}");
                }
                std::process::exit(1)
            }
        }
    }

    /// Builds the plugin. Prints nothing but the compiler's messages.
    ///
    /// # Errors
    /// The compiler, the rewriter, the validator or the verifier failed or refused an object.
    pub fn try_build(self) -> Result<Built, Error> {
        let folder = match &self.out {
            Some(folder) => folder.clone(),
            None => PathBuf::from(std::env::var_os("OUT_DIR").ok_or(Error::NoOutput)?),
        };
        let mut inputs = Vec::new();
        if self.is_compiled {
            inputs.extend(self.compiler.try_compile_intermediates().map_err(Error::Compiler)?);
        }
        inputs.extend(self.archives.iter().cloned());
        for source in &self.crates {
            inputs.push(static_library(source, &folder)?);
        }
        let rewritten = objects::rewrite(
            &inputs,
            &Options { mode: self.mode, budget: self.budget, saves: self.saves },
            self.skip_refused,
        )?;
        let path = folder.join(format!("{}.sfi.a", self.name));
        std::fs::write(&path, archive(&rewritten.members)?)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Built { path, warnings: rewritten.warnings })
    }

    /// Returns the environment variable that holds the archive's path while the host is compiled.
    fn variable(&self) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("SFI_PLUGIN_{}", self.name.chars().map(letter).collect::<String>())
    }
}

/// A plugin that was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Path of the archive.
    pub path: PathBuf,
    /// Members that were left out, and parts of objects that were dropped or are not proved.
    pub warnings: Vec<String>,
}

/// Has Cargo build a crate's library, and returns the static library's path.
fn static_library(source: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let target = folder.join("rust");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["rustc", "--release", "--lib", "--crate-type", "staticlib", "--message-format", "json"]);
    command.arg("--manifest-path").arg(source.join("Cargo.toml")).arg("--target-dir").arg(target);
    // The host's own flags would change the plugin. The host's target folder is locked meanwhile,
    // so the crate gets its own.
    command.args(["--", "-C", "panic=abort"]).env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    let output = command.output().map_err(|source| Error::Cargo { what: source.to_string() })?;
    if !output.status.success() {
        return Err(Error::Cargo { what: String::from_utf8_lossy(&output.stderr).into_owned() });
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let path = said.split('"').rfind(|word| word.ends_with(".a"));
    path.map(PathBuf::from).ok_or_else(|| Error::Cargo { what: "the crate has no static library".into() })
}
