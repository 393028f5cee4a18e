//! `sfi cc`

use crate::bundle::Bundle;
use crate::members::write_atomically;
use anyhow::{Context, bail};
use sfi_rewriter::Mode;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Compile and link a C program that runs in a domain, on a rewritten musl.
///
/// Takes the arguments of a C compiler. With -c, -S, -E or no inputs the compiler runs as it is (with -ffixed-r15 if it knows that,
/// because r15 is the data stack). A link gives one file that holds the rewritten program and the rewritten archives, and that runs itself
/// (`sfi run FILE`): so `./configure CC="sfi cc"` works.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  SFI_CC        the compiler (default musl-gcc, Debian package musl-tools)
  SFI_LIBC_DIR  where libc.a is (default /usr/lib/x86_64-linux-musl)
  SFI_MODE      write, full or match (default write)

Examples:
  sfi cc -O2 a.c b.c -lm -o prog && ./prog argument
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

/// What a command line of a compiler asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    /// Stops before linking.
    compile_only: bool,
    output: Option<PathBuf>,
    /// Sources, objects, archives and `-l` in order.
    inputs: Vec<Item>,
    /// Directories of `-L`.
    directories: Vec<PathBuf>,
    /// Everything else, for compiling.
    flags: Vec<OsString>,
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Source(PathBuf),
    Object(PathBuf),
    Library(String),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let compiler = std::env::var_os("SFI_CC").unwrap_or_else(|| "musl-gcc".into());
    drive(&Driver { compiler, cxx: false }, &args.arguments)
}

/// A compiler and the language that its programs are linked for.
pub struct Driver {
    /// The compiler's name.
    pub compiler: OsString,
    /// C++: exceptions, libstdc++ and what it needs.
    pub cxx: bool,
}

/// Compiles or links.
pub fn drive(driver: &Driver, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let line = parse(arguments)?;
    let hardening = flags(driver)?;
    if line.compile_only || line.inputs.is_empty() {
        let status = start(driver, Command::new(&driver.compiler).args(&hardening).args(arguments))?;
        return Ok(code(status));
    }
    link(driver, &hardening, &line)
}

fn parse(arguments: &[OsString]) -> anyhow::Result<Line> {
    let mut line = Line::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let mut value = |prefix: &str| -> anyhow::Result<OsString> {
            match text.strip_prefix(prefix) {
                Some("") => rest.next().cloned().with_context(|| format!("`{prefix}` wants a value")),
                Some(value) => Ok(value.into()),
                None => bail!("not {prefix}"),
            }
        };
        match &*text {
            "-c" | "-S" | "-E" | "-M" | "-MM" => line.compile_only = true,
            "-include" | "-isystem" | "-idirafter" | "-iquote" | "-MF" | "-MT" | "-MQ" | "-x" | "-Xlinker" | "-u" => {
                let value = rest.next().cloned();
                if !matches!(&*text, "-Xlinker" | "-u") {
                    line.flags.push(argument.clone());
                    line.flags.extend(value);
                }
            }
            _ if text.starts_with("-o") => line.output = Some(value("-o")?.into()),
            _ if text.starts_with("-L") => line.directories.push(value("-L")?.into()),
            _ if text.starts_with("-l") => line.inputs.push(Item::Library(value("-l")?.to_string_lossy().into_owned())),
            _ if text.starts_with("-Wl,")
                || matches!(&*text, "-static" | "-pie" | "-static-pie" | "-no-pie" | "-rdynamic" | "-s") => {}
            _ if text.starts_with('-') && text != "-" => line.flags.push(argument.clone()),
            _ => {
                let path = PathBuf::from(argument);
                let extension = path.extension().and_then(OsStr::to_str);
                line.inputs.push(match extension {
                    Some("o" | "a" | "obj" | "lo") => Item::Object(path),
                    _ => Item::Source(path),
                });
            }
        }
    }
    Ok(line)
}

/// What every compilation gets: position-independent code, r15 left alone where the compiler can.
fn flags(driver: &Driver) -> anyhow::Result<Vec<&'static str>> {
    let mut flags = vec!["-fPIE"];
    if !driver.cxx {
        flags.extend(["-fno-exceptions", "-fno-asynchronous-unwind-tables"]);
    }
    let mut probe = Command::new(&driver.compiler);
    probe.args(["-ffixed-r15", "-Werror", "-fsyntax-only", "-x", "c", "/dev/null"]);
    probe.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    if start(driver, &mut probe)?.success() {
        flags.push("-ffixed-r15");
    }
    Ok(flags)
}

fn start(driver: &Driver, command: &mut Command) -> anyhow::Result<std::process::ExitStatus> {
    command.status().with_context(|| advice(driver))
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
fn link(driver: &Driver, hardening: &[&str], line: &Line) -> anyhow::Result<ExitCode> {
    let mode: Mode = std::env::var("SFI_MODE").map_or(Ok(Mode::Write), |mode| mode.parse())?;
    let temporary = tempfile::tempdir()?;
    let libc_dir = std::env::var_os("SFI_LIBC_DIR").map_or_else(|| PathBuf::from(LIBC_DIR), PathBuf::from);
    let mut bundle = Bundle::default();
    for (number, item) in line.inputs.iter().enumerate() {
        match item {
            Item::Source(path) => {
                let object = temporary.path().join(format!("{number}.o"));
                let mut command = Command::new(&driver.compiler);
                command.args(hardening).args(&line.flags).arg("-c").arg(path).arg("-o").arg(&object);
                let status = start(driver, &mut command)?;
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
                let found = line.directories.iter().chain([&libc_dir]).map(|d| d.join(&file)).find(|p| p.exists());
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
    if let Some(libgcc) = library(driver, "libgcc.a")? {
        bundle.add(&libgcc, &libgcc)?;
    }
    let libc = libc_dir.join("libc.a");
    bundle
        .add(&libc, &libc)
        .with_context(|| "a libc is needed: install musl-dev, or name its directory in SFI_LIBC_DIR")?;
    let output = line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
    let roots = [sfi_support::object(), sfi_support::jumps_object()];
    let Some(archive) = bundle.pack(mode, &roots.each_ref().map(Vec::as_slice))? else { return Ok(ExitCode::FAILURE) };
    let bytes = [crate::program::HEADER, &archive].concat();
    write_atomically(&output, &bytes, 0o755)?;
    Ok(ExitCode::SUCCESS)
}

/// A library that the compiler brings along, if it does.
pub fn library(driver: &Driver, file: &str) -> anyhow::Result<Option<PathBuf>> {
    let mut command = Command::new(&driver.compiler);
    let output = command.arg(format!("-print-file-name={file}")).output().with_context(|| advice(driver))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(path.is_absolute().then_some(path).filter(|path| path.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        parse(&text.split(' ').map(OsString::from).collect::<Vec<_>>()).expect("parses")
    }

    #[test]
    fn a_link_is_told_from_a_compilation() {
        let l = line("-O2 -Wall a.c b.o -L. -Ldir -lm -Wl,--gc-sections -static -o prog");
        assert!(!l.compile_only);
        assert_eq!(l.output, Some("prog".into()));
        assert_eq!(l.flags, ["-O2", "-Wall"]);
        assert_eq!(l.directories, [PathBuf::from("."), "dir".into()]);
        assert_eq!(l.inputs, [Item::Source("a.c".into()), Item::Object("b.o".into()), Item::Library("m".into())]);
        assert!(line("-c a.c -o a.o").compile_only);
        assert_eq!(line("-include config.h a.c").flags, ["-include", "config.h"]);
        assert!(parse(&["-o".into()]).is_err());
    }
}
