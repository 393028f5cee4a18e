//! Running a whole program: one domain with its own libc, whose system calls are arbitrated.

use anyhow::{Context, bail};
use sfi_arbitration::{Arbiter, Exit, GATEWAY, Policy, Preopen, Program, Stdio};
use sfi_loader::{CallError, DomainSpec, Import, Mode, TypedFn, World};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What a program's file starts with: a shell script that runs the archive behind it.
pub const HEADER: &[u8] = b"#!/bin/sh\nexec sfi run \"$0\" -- \"$@\"\nexit 127\n";
/// How archives start.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// Whether a file is a program by its first bytes: an archive, an object, or what `sfi cc` wrote.
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER) || bytes.starts_with(ARCHIVE) || bytes.starts_with(b"\x7fELF")
}

/// The domain's name.
const DOMAIN: &str = "program";

/// What a program gets.
pub struct Setup<'a> {
    /// The file's name: `argv[0]`, and for messages.
    pub path: &'a Path,
    /// Mode its objects must satisfy.
    pub mode: Mode,
    /// Heap and data stack, bytes.
    pub memory: u64,
    pub stack: u64,
    /// `HOST` or `HOST::GUEST`: directories that its paths may name.
    pub directories: &'a [String],
    /// Whether it may change them.
    pub read_only: bool,
    /// Arguments behind the program's name.
    pub arguments: &'a [String],
    /// Environment, `NAME=value`.
    pub environment: Vec<String>,
    pub seed: Option<[u8; 32]>,
    /// Wall clock for the whole run.
    pub time_limit: Option<Duration>,
}

/// Runs a program out of its file's bytes; the exit code is its own, or `fault` if it faulted.
pub fn run(setup: Setup<'_>, mut bytes: Vec<u8>, fault: u8) -> anyhow::Result<ExitCode> {
    if bytes.starts_with(HEADER) {
        bytes.drain(..HEADER.len());
    }
    let name = setup.path.display().to_string();
    let spec = DomainSpec::new(DOMAIN)
        .mode(setup.mode)
        .memory(setup.memory)
        .stack(setup.stack)
        .own_start()
        .object("support", sfi_support::object())
        .object("jumps", sfi_support::jumps_object())
        .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int"));
    let spec = if bytes.starts_with(ARCHIVE) { spec.archive(name, bytes) } else { spec.object(name, bytes) };
    let mut arbiter = Arbiter::new(policy(&setup)?, Stdio::inherit()?);
    let builder = World::builder().domain(spec).time_limit(setup.time_limit);
    let mut builder = builder.host_fn(GATEWAY, move |cx| arbiter.host_call(cx));
    if let Some(seed) = setup.seed {
        builder = builder.seed(seed);
    }
    let mut world = builder.build()?;
    let pointer = place_arguments(&mut world, &setup)?;
    let start: TypedFn<fn(u64, u64) -> u64> = world.domain(DOMAIN)?.export(sfi_support::START)?;
    let count = 1 + setup.arguments.len() as u64;
    match catch_unwind(AssertUnwindSafe(|| start.call(&mut world, (count, pointer)))) {
        Err(payload) => match payload.downcast::<Exit>() {
            Ok(exit) => Ok(ExitCode::from(exit.0 as u8)),
            Err(other) => resume_unwind(other),
        },
        Ok(Ok(_)) => bail!("the program returned from its start without an exit"),
        Ok(Err(CallError::Fault(what))) => {
            crate::cmd::print_fault(&what);
            Ok(ExitCode::from(fault))
        }
        Ok(Err(error)) => bail!(error),
    }
}

fn policy(setup: &Setup<'_>) -> anyhow::Result<Policy> {
    let mut policy = Policy::default();
    for directory in setup.directories {
        let (host, guest) = directory.split_once("::").unwrap_or((directory, directory));
        let preopen = Preopen::open(Path::new(host), guest, !setup.read_only)
            .with_context(|| format!("cannot open the directory `{host}`"))?;
        policy.preopens.push(preopen);
    }
    Ok(policy)
}

/// Puts arguments and environment into the end of the heap; gives the address of argv.
fn place_arguments(world: &mut World, setup: &Setup<'_>) -> anyhow::Result<u64> {
    use sfi_contract::layout::HEADER_HEAP_END;
    let mut memory = world.memory(DOMAIN)?;
    let mut word = [0; 8];
    memory.read_into(HEADER_HEAP_END, &mut word)?;
    let address = u64::from_le_bytes(word) - sfi_arbitration::ARGUMENT_BYTES;
    let mut arguments = vec![setup.path.display().to_string()];
    arguments.extend_from_slice(setup.arguments);
    let program = Program { arguments, environment: setup.environment.clone() };
    let random = sfi_arbitration::random_bytes()?;
    let Some(bytes) = sfi_arbitration::arguments(&program, address, random) else {
        bail!("the arguments and the environment are longer than {} bytes", sfi_arbitration::ARGUMENT_BYTES)
    };
    memory.write(address, &bytes)?;
    Ok(address)
}
