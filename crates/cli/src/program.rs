//! Running a whole program: one domain with its own libc, whose system calls are arbitrated.

use crate::grants::Grants;
use crate::heap::{Heaps, Report};
use crate::linked::{ARCHIVE, ChildOptions, script};
use anyhow::{Context, bail};
use sfi_arbitration::{Counts, Crew, Death, Exit, GATEWAY, Program, Successor};
use sfi_loader::{CallError, DomainSpec, ImageStore, Import, LinkError, Mode, TypedFn, World};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Name of the domain.
const DOMAIN: &str = "program";
/// The most bytes of zeroed data that a program may have when it is linked, which is the reach of
/// 32-bit relocations.
const MOST_MEMORY: u64 = 1 << 31;

/// The settings of a run.
pub struct Setup<'a> {
    /// The file's name, for messages.
    pub path: &'a Path,
    /// `argv[0]`. Default: the file's name.
    pub name: Option<&'a OsStr>,
    /// The mode that its objects must satisfy.
    pub mode: Mode,
    /// Bytes of the heap, and of the data stack.
    pub memory: u64,
    pub stack: u64,
    /// Bytes of its control stack.
    pub control_stack: u64,
    /// The grants of its system calls.
    pub grants: &'a Grants,
    /// The descriptor with the rest of its quota, if another program started it.
    pub spending: Option<u32>,
    /// The options for programs that it starts. Without them it starts none.
    pub children: Option<ChildOptions>,
    /// Arguments after the program's name.
    pub arguments: &'a [OsString],
    /// Environment, `NAME=value`.
    pub environment: Vec<OsString>,
    pub seed: Option<[u8; 32]>,
    /// Says whether it may read the processor's clock.
    pub clock: bool,
    /// Limit of wall-clock time for the whole run.
    pub time_limit: Option<Duration>,
    /// Number of threads that it may have at a time.
    pub threads: usize,
    /// Keeps its verified image for the next run.
    pub keep: bool,
    /// A debugger or perf sees its code.
    pub observed: bool,
    /// Watches its heap.
    pub heaps: Option<Heaps>,
}

/// Returns the domain of a program. An archive of `sfi cc` is loaded as a whole, other archives
/// only with the members that are needed.
fn domain(mode: Mode, name: &str, bytes: Vec<u8>, linked: bool) -> DomainSpec {
    let spec = DomainSpec::new(DOMAIN).mode(mode).own_start().object("support", sfi_support::object(mode));
    let spec = with_support(spec, mode);
    match () {
        () if linked => spec.whole_archive(name, bytes),
        () if bytes.starts_with(ARCHIVE) => spec.archive(name, bytes),
        () => spec.object(name, bytes),
    }
}

/// Adds the support code that all domains with a libc have.
fn with_support(spec: DomainSpec, mode: Mode) -> DomainSpec {
    spec.object("jumps", sfi_support::jumps_object(mode))
        .archive("contexts", sfi_support::contexts_archive(mode))
        .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int"))
}

/// Returns the error that a run of a linked program would report about its objects.
///
/// # Errors
/// A symbol is undefined or defined twice, or the code does not fit into a window or breaks a
/// rule. The memory of a program is chosen when it runs, so zeroed data may take [`MOST_MEMORY`]
/// here.
pub fn check(mode: Mode, name: &str, archive: Vec<u8>) -> Result<(), LinkError> {
    sfi_loader::check_link(&domain(mode, name, archive, true).memory(MOST_MEMORY))
}

/// Returns the error that a manifest with a domain of these objects would report about them, if the
/// manifest granted nothing but system calls. Code with a budget of instructions has none of these.
///
/// # Errors
/// As for [`check`].
pub fn check_plugin(mode: Mode, budget: bool, name: &str, archive: Vec<u8>) -> Result<(), LinkError> {
    let spec = DomainSpec::new(DOMAIN).mode(mode);
    let spec = match budget {
        true => spec.instructions(u64::from(u32::MAX)),
        false => with_support(spec.object("support", sfi_support::library(mode)), mode),
    };
    sfi_loader::check_link(&spec.whole_archive(name, archive).memory(MOST_MEMORY))
}

/// Runs a program from the bytes of its file. Returns the program's exit code, or `fault` if it
/// faulted.
pub fn run(mut setup: Setup<'_>, mut bytes: Vec<u8>, fault: u8) -> anyhow::Result<ExitCode> {
    sfi_loader::prepare_signals()?;
    let linked = bytes.drain(..script(&bytes)).count() > 0;
    let spec = domain(setup.mode, &setup.path.display().to_string(), bytes, linked);
    let spec = spec.memory(setup.memory).stack(setup.stack).control_stack(setup.control_stack);
    // The user says so, and this process has no other domain.
    let spec = if setup.clock { spec.clock_exposing() } else { spec };
    let mut spec = spec.threads_exposing(setup.threads);
    if let Some(heaps) = &mut setup.heaps {
        spec = heaps.watch(DOMAIN, spec);
    }
    let successor = Successor::default();
    let arbiter =
        setup.grants.arbiter(setup.time_limit, setup.children.as_ref())?.successor(&successor).outside_signals();
    let arbiter = match setup.spending {
        Some(number) => arbiter.spends_from(number).context("cannot spend from the quota of the first program")?,
        None => arbiter,
    };
    // Counts, blocks of the heap and records of debuggers come after the end.
    let at_once = !setup.observed && !setup.grants.count_syscalls && setup.heaps.is_none();
    // A process that another one started starts none.
    let forks = setup.children.is_some() && (setup.grants.fork || !arbiter.starts_nothing());
    let arbiter = if at_once && forks { arbiter.forks() } else { arbiter };
    let arbiter = if at_once { arbiter.exit_at_once() } else { arbiter };
    let counts = setup.grants.count_syscalls.then(|| arbiter.counts());
    let builder = World::builder().domain(spec).time_limit(setup.time_limit);
    let (mut builder, crew) = match setup.threads {
        1 => (arbiter.offer(builder, GATEWAY, true), None),
        _ => {
            let crew = Crew::new(arbiter);
            (builder.host_fn(GATEWAY, crew.first()), Some(crew))
        }
    };
    builder = setup.heaps.iter().fold(builder, |builder, heaps| heaps.offer(builder));
    if setup.clock {
        builder = builder.clock();
    }
    if let Some(seed) = setup.seed {
        builder = builder.seed(seed);
    }
    // Without a home or a keyring each run verifies the program.
    if let Some(store) = images().filter(|_| setup.keep).and_then(|path| ImageStore::open(&path).ok()) {
        builder = builder.image_store(store);
    }
    let mut world = builder.build()?;
    let report = Report::new(setup.heaps.take(), &world);
    let mut arguments = vec![setup.name.map_or_else(|| own_name(setup.path, linked), OsStr::to_owned)];
    arguments.extend_from_slice(setup.arguments);
    let program = Program { arguments, environment: setup.environment };
    let code = start(&mut world, DOMAIN, &program, crew.as_ref(), counts, fault);
    drop((report, world, crew));
    let code = code?;
    match successor.run() {
        Some(error) => Err(error).context("cannot run the program that replaces this one"),
        None => Ok(code),
    }
}

/// Returns the directory of the user's verified images (XDG Base Directory Specification).
fn images() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("sfi/images"))
}

/// Returns the name that the user called a program by. The script of a linked program passes its
/// path, even if the user's shell found it in PATH by its name alone.
fn own_name(path: &Path, linked: bool) -> OsString {
    let directories = std::env::var_os("PATH").filter(|_| linked).unwrap_or_default();
    let found = std::env::split_paths(&directories).any(|directory| path.parent() == Some(&directory));
    let name = path.file_name().filter(|_| found && path.is_absolute());
    name.unwrap_or(path.as_os_str()).to_owned()
}

/// Runs the program in a domain of a world to its end, and ends its further threads.
pub fn start(
    world: &mut World,
    domain: &str,
    program: &Program,
    crew: Option<&Crew>,
    counts: Option<Counts>,
    fault: u8,
) -> anyhow::Result<ExitCode> {
    let pointer = place_arguments(world, domain, program)?;
    let start: TypedFn<fn(u64, u64) -> u64> = world.domain(domain)?.export(sfi_support::START)?;
    let count = program.arguments.len() as u64;
    let result = catch_unwind(AssertUnwindSafe(|| start.call(world, (count, pointer))));
    let result = match crew.and_then(Crew::end) {
        Some(Death::Exit(exit)) => Err(Box::new(exit) as _),
        Some(Death::Failed(error)) => Ok(Err(error)),
        Some(Death::Panicked(payload)) => Err(payload),
        None => result,
    };
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

/// Returns the variables of an environment. `asked` has `NAME=value`, or `NAME` for the value in
/// this process, if it is set. With `all` the variables of this process follow.
pub fn environment<'a>(asked: impl IntoIterator<Item = &'a OsStr>, all: bool) -> Vec<OsString> {
    let pair = |(name, value): (OsString, OsString)| [name, value].join(OsStr::new("="));
    let variable = |text: &OsStr| match text.as_bytes().contains(&b'=') {
        true => Some(text.to_owned()),
        false => std::env::var_os(text).map(|value| pair((text.to_owned(), value))),
    };
    let own = std::env::vars_os().filter(|_| all).map(pair);
    asked.into_iter().filter_map(variable).chain(own).collect()
}

/// Writes arguments and environment to the end of the heap. Returns the address of argv.
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
