//! Running a whole program: one domain with its own libc, whose system calls are arbitrated.

use crate::grants::Grants;
use anyhow::bail;
use sfi_arbitration::{Counts, Exit, GATEWAY, Program};
use sfi_loader::{CallError, DomainSpec, Import, LinkError, Mode, TypedFn, World};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What a program's file starts with: a shell script that runs the archive behind it.
const HEADER: &[u8] = b"#!/bin/sh\nexec sfi run ";
/// How the script ends.
const HEADER_END: &[u8] = b"\nexit 127\n";
/// How archives start.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// The script in front of a program whose objects satisfy `mode`.
pub fn header(mode: Mode) -> String {
    format!("#!/bin/sh\nexec sfi run --mode {mode} ${{SFI_RUN_FLAGS---build-tree}} \"$0\" -- \"$@\"\nexit 127\n")
}

/// How long the script in front of a program is: 0 without one.
pub fn script(bytes: &[u8]) -> usize {
    let end = bytes.starts_with(HEADER).then(|| bytes.windows(HEADER_END.len()).position(|w| w == HEADER_END));
    end.flatten().map_or(0, |end| end + HEADER_END.len())
}

/// Whether a file is a program by its first bytes: an archive, an object, or what `sfi cc` wrote.
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER) || bytes.starts_with(ARCHIVE) || bytes.starts_with(b"\x7fELF")
}

/// The domain's name.
const DOMAIN: &str = "program";
/// Bytes of zeroed data that a program may ask for when it is linked: as much as 32-bit
/// relocations reach.
const MOST_MEMORY: u64 = 1 << 31;

/// What a program gets.
pub struct Setup<'a> {
    /// The file's name, for messages.
    pub path: &'a Path,
    /// `argv[0]`; the file's name if there is none.
    pub name: Option<&'a str>,
    /// Mode its objects must satisfy.
    pub mode: Mode,
    /// Heap and data stack, bytes.
    pub memory: u64,
    pub stack: u64,
    /// What its system calls may do.
    pub grants: &'a Grants,
    /// Arguments behind the program's name.
    pub arguments: &'a [String],
    /// Environment, `NAME=value`.
    pub environment: Vec<String>,
    pub seed: Option<[u8; 32]>,
    /// It may read the processor's clock.
    pub clock: bool,
    /// Wall clock for the whole run.
    pub time_limit: Option<Duration>,
}

/// The domain of a program: of what `sfi cc` linked all that it packed, of another archive the
/// members that are needed.
fn domain(mode: Mode, name: &str, bytes: Vec<u8>, linked: bool) -> DomainSpec {
    let spec = DomainSpec::new(DOMAIN)
        .mode(mode)
        .own_start()
        .object("support", sfi_support::object(mode))
        .object("jumps", sfi_support::jumps_object(mode))
        .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int"));
    match () {
        () if linked => spec.whole_archive(name, bytes),
        () if bytes.starts_with(ARCHIVE) => spec.archive(name, bytes),
        () => spec.object(name, bytes),
    }
}

/// Says what running a linked program would say of its objects.
///
/// # Errors
/// Something is undefined or defined twice, fits no window, or breaks a rule. How much memory the
/// program is given is decided when it is run, so zeroed data may take [`MOST_MEMORY`] here.
pub fn check(mode: Mode, name: &str, archive: Vec<u8>) -> Result<(), LinkError> {
    sfi_loader::check_link(&domain(mode, name, archive, true).memory(MOST_MEMORY))
}

/// Runs a program out of its file's bytes; the exit code is its own, or `fault` if it faulted.
pub fn run(setup: Setup<'_>, mut bytes: Vec<u8>, fault: u8) -> anyhow::Result<ExitCode> {
    let linked = bytes.drain(..script(&bytes)).count() > 0;
    let spec = domain(setup.mode, &setup.path.display().to_string(), bytes, linked);
    let spec = spec.memory(setup.memory).stack(setup.stack);
    let spec = if setup.clock { spec.clock() } else { spec };
    let mut arbiter = setup.grants.arbiter(setup.time_limit)?;
    let counts = setup.grants.count_syscalls.then(|| arbiter.counts());
    let builder = World::builder().domain(spec).time_limit(setup.time_limit);
    let mut builder = builder.host_fn(GATEWAY, move |cx| arbiter.host_call(cx));
    if setup.clock {
        builder = builder.clock();
    }
    if let Some(seed) = setup.seed {
        builder = builder.seed(seed);
    }
    let mut world = builder.build()?;
    let mut arguments = vec![setup.name.map_or_else(|| own_name(setup.path, linked), str::to_owned)];
    arguments.extend_from_slice(setup.arguments);
    let program = Program { arguments, environment: setup.environment };
    start(&mut world, DOMAIN, &program, counts, fault)
}

/// The name that a program was called by. The shell that runs a linked program is told its path,
/// also where somebody found it in PATH by its name alone.
fn own_name(path: &Path, linked: bool) -> String {
    let directories = std::env::var_os("PATH").filter(|_| linked).unwrap_or_default();
    let found = std::env::split_paths(&directories).any(|directory| path.parent() == Some(&directory));
    let name = path.file_name().filter(|_| found && path.is_absolute());
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Runs the program in a domain of a world to its end.
pub fn start(
    world: &mut World,
    domain: &str,
    program: &Program,
    counts: Option<Counts>,
    fault: u8,
) -> anyhow::Result<ExitCode> {
    let pointer = place_arguments(world, domain, program)?;
    let start: TypedFn<fn(u64, u64) -> u64> = world.domain(domain)?.export(sfi_support::START)?;
    let count = program.arguments.len() as u64;
    let result = catch_unwind(AssertUnwindSafe(|| start.call(world, (count, pointer))));
    if let Some(counts) = counts {
        eprint!("{counts}");
    }
    match result {
        Err(payload) => match payload.downcast::<Exit>() {
            Ok(exit) => Ok(ExitCode::from(exit.0 as u8)),
            Err(other) => resume_unwind(other),
        },
        Ok(Ok(_)) => bail!("the program returned from its start without an exit"),
        Ok(Err(CallError::Fault(what))) => {
            crate::print::fault(&what);
            Ok(ExitCode::from(fault))
        }
        Ok(Err(error)) => bail!(error),
    }
}

/// Variables as they are asked for: `NAME=value`, or `NAME` for what it is in this process, if it
/// is set; and behind them `all` of this process.
pub fn environment(asked: &[String], all: bool) -> Vec<String> {
    let variable = |text: &String| match text.contains('=') {
        true => Some(text.clone()),
        false => std::env::var(text).ok().map(|value| format!("{text}={value}")),
    };
    let mut variables: Vec<String> = asked.iter().filter_map(variable).collect();
    if all {
        let texts =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        variables.extend(texts.map(|(name, value)| format!("{name}={value}")));
    }
    variables
}

/// Puts arguments and environment into the end of the heap; gives the address of argv.
fn place_arguments(world: &mut World, domain: &str, program: &Program) -> anyhow::Result<u64> {
    let mut memory = world.memory(domain)?;
    let address = memory.heap().end - sfi_arbitration::ARGUMENT_BYTES;
    let random = sfi_arbitration::random_bytes()?;
    let Some(bytes) = sfi_arbitration::arguments(program, address, random) else {
        bail!("the arguments and the environment are longer than {} bytes", sfi_arbitration::ARGUMENT_BYTES)
    };
    memory.write(address, &bytes)?;
    Ok(address)
}
