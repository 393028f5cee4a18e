//! `sfi cc`

mod line;

use crate::bundle::Bundle;
use crate::members::write_output;
use anyhow::Context;
use line::{Item, Line};
use sfi_rewriter::Mode;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Compile and link a C program that runs in a domain, on a rewritten musl.
///
/// Takes the arguments of a C compiler. With -c, -S, -E or no inputs the compiler runs as it is (with -ffixed-r15 if it knows that,
/// because r15 is the data stack). A link gives one file that holds the rewritten program and the rewritten archives, and that runs itself
/// (`sfi run FILE`): so `./configure CC="sfi cc"` works.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  SFI_CC            the compiler, with arguments if any (default musl-gcc, Debian package musl-tools)
  SFI_LIBC_DIR      where libc.a is, stock or rewritten (default /usr/lib/x86_64-linux-musl)
  SFI_LIBC_INCLUDE  where its headers are, for compilers that are not musl's own (default: Debian's place)
  SFI_MODE          write, full or match (default write)
  SFI_RUN_FLAGS     when the program is run by its name: flags of `sfi run`, such as `--dir .::.`

Examples:
  sfi cc -O2 a.c b.c -lm -o prog && ./prog argument
  ./configure CC='sfi cc' && make && SFI_RUN_FLAGS='--dir .::.' make check
  sfi run --dir data::/data prog -- argument

Exit codes:
  the compiler's; 1 if an object was refused, 2 for other errors")]
pub struct Args {
    /// Arguments of the compiler.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Where Debian's musl-dev puts libc.a.
const LIBC_DIR: &str = "/usr/lib/x86_64-linux-musl";

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let compiler = std::env::var_os("SFI_CC").unwrap_or_else(|| "musl-gcc".into());
    drive(&Driver { compiler, cxx: false }, &args.arguments)
}

/// A compiler and the language that its programs are linked for.
pub struct Driver {
    /// The compiler, with arguments if any (`ccache gcc`).
    pub compiler: OsString,
    /// C++: exceptions, libstdc++ and what it needs.
    pub cxx: bool,
}

impl Driver {
    /// A command with the compiler's own arguments.
    pub fn command(&self) -> Command {
        let text = self.compiler.to_string_lossy();
        let mut words = text.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// What it answers on standard output; `None` if it fails.
    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let output = self.command().args(arguments).stderr(std::process::Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run(&self, command: &mut Command) -> anyhow::Result<std::process::ExitStatus> {
        command.status().with_context(|| advice(self))
    }

    /// What every compilation gets: position-independent code, the headers of the libc that will be linked, r15 left alone where the
    /// compiler can.
    fn flags(&self, libc: &Path) -> Vec<OsString> {
        let mut flags: Vec<OsString> = vec!["-fPIE".into()];
        if !self.cxx {
            flags.push("-fno-asynchronous-unwind-tables".into());
            // musl's own compiler knows its headers.
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

/// Debian's place of the headers that belong to a libc's directory.
fn include_of(libc: &Path) -> PathBuf {
    match libc.file_name().and_then(OsStr::to_str) {
        Some("lib") => libc.with_file_name("include"),
        Some(triple) => Path::new("/usr/include").join(triple),
        None => PathBuf::from("/usr/include"),
    }
}

/// Compiles or links.
pub fn drive(driver: &Driver, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = line::expand(arguments)?;
    let line = line::parse(&arguments)?;
    let libc = std::env::var_os("SFI_LIBC_DIR").map_or_else(|| PathBuf::from(LIBC_DIR), PathBuf::from);
    let flags = driver.flags(&libc);
    if line.compile_only || line.inputs.is_empty() {
        let status = driver.run(driver.command().args(&flags).args(&arguments))?;
        return Ok(code(status));
    }
    link(driver, &flags, &libc, &line)
}

fn advice(driver: &Driver) -> String {
    let (packages, variable) = if driver.cxx { ("g++ musl-dev", "SFI_CXX") } else { ("musl-tools musl-dev", "SFI_CC") };
    format!(
        "cannot run `{}`: install it (Debian: apt-get install {packages}) or name another compiler in {variable}",
        driver.compiler.display()
    )
}

fn code(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1))
}

/// Compiles the sources, rewrites everything, packs it into one file.
fn link(driver: &Driver, flags: &[OsString], libc_dir: &Path, line: &Line) -> anyhow::Result<ExitCode> {
    let mode: Mode = std::env::var("SFI_MODE").map_or(Ok(Mode::Write), |mode| mode.parse())?;
    let temporary = tempfile::tempdir()?;
    let mut bundle = Bundle::default();
    for (number, item) in line.inputs.iter().enumerate() {
        match item {
            Item::Source(path, language) => {
                let object = temporary.path().join(format!("{number}.o"));
                let mut command = driver.command();
                command.args(flags).args(&line.flags).arg("-c");
                if let Some(language) = language {
                    command.arg("-x").arg(language);
                }
                let status = driver.run(command.arg(path).arg("-o").arg(&object))?;
                if !status.success() {
                    return Ok(code(status));
                }
                bundle.add(&object, path)?;
            }
            Item::Object(path) => bundle.add(path, path)?,
            Item::Library(name) => {
                // In the end, whatever the line says.
                if matches!(&**name, "stdc++" | "gcc" | "gcc_s" | "gcc_eh" | "c") {
                    continue;
                }
                let file = format!("lib{name}.a");
                let found =
                    line.directories.iter().map(|d| d.join(&file)).chain([libc_dir.join(&file)]).find(|p| p.exists());
                let found = match found {
                    Some(path) => Some(path),
                    None => library(driver, &file)?,
                };
                let path = found.with_context(|| format!("cannot find `{file}`: give its directory with -L"))?;
                bundle.add(&path, &path)?;
            }
        }
    }
    if driver.cxx {
        crate::cmd::cxx::add_runtime(driver, temporary.path(), &mut bundle)?;
    }
    if !line.bare {
        if let Some(libgcc) = library(driver, "libgcc.a")? {
            bundle.add(&libgcc, &libgcc)?;
        }
        let libc = libc_dir.join("libc.a");
        bundle
            .add(&libc, &libc)
            .with_context(|| "a libc is needed: install musl-dev, or name its directory in SFI_LIBC_DIR")?;
    }
    let output = line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
    let roots = [sfi_support::object(mode), sfi_support::jumps_object(mode)];
    let Some(archive) = bundle.pack(mode, &roots.each_ref().map(Vec::as_slice))? else { return Ok(ExitCode::FAILURE) };
    let bytes = [crate::program::header(mode).into_bytes(), archive].concat();
    write_output(&output, &bytes, 0o755)?;
    Ok(ExitCode::SUCCESS)
}

/// A library that the compiler brings along, if it does.
pub fn library(driver: &Driver, file: &str) -> anyhow::Result<Option<PathBuf>> {
    let output = driver.command().arg(format!("-print-file-name={file}")).output().with_context(|| advice(driver))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(path.is_absolute().then_some(path).filter(|path| path.exists()))
}
