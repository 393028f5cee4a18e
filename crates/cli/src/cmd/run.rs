//! `sfi run`

use crate::anonymity::odds::duration;
use crate::grants::Grants;
use crate::heap::{Heaps, Report};
use crate::linked::{ChildOptions, is_program};
use crate::render::visible;
use crate::{arbiters, descendants, layout, program};
use anyhow::{Context, bail, ensure};
use clap::Parser;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_loader::manifest::{Manifest, NoSize, Size, Time, file};
use sfi_loader::{
    Builder, CallError, HostCall, HostError, MAX_CONTROL_STACK, MIN_CONTROL_STACK, Owner, TypedFn, World,
};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Load the domains of a manifest and call its entry point.
///
/// The objects must be rewritten already (`sfi rewrite`). Objects that the verifier refuses do not
/// run.
///
/// A domain with a `syscalls` table may hold a rewritten stock libc. The table decides about its
/// system calls. If the entry point is `main` of such a domain, it runs as a whole program.
///
/// Host functions that a manifest can grant: `host_write(pointer, length)` writes to standard
/// output, `host_error` to standard error, `host_read(pointer, length)` reads standard input,
/// `host_read_file(name, offset, pointer, length)` and `host_file_size(name)` read the manifest's
/// files (`name` is a C string), `host_clock()` returns monotonic nanoseconds, `host_args(pointer,
/// length)` writes the arguments, each with a zero byte after it, and returns the length of all,
/// and `host_exit(code)` ends the run. Failures return -1.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi run domains.toml -- input.gz
  sfi run prog.sfi.a --dir data::. --time-limit 2.5 -- --verbose
  sfi run domains.toml --explain-layout
  gdb --args sfi run --gdb domains.toml
  perf record -k mono sfi run --perf domains.toml; perf inject --jit -i perf.data -o perf.jit

Exit codes:
  2  an error: the manifest, an object that the verifier refuses, a missing symbol
  3  the entry point's domain faulted or used up its time
  others: the program's status, or the entry point's result modulo 256")]
pub struct Args {
    /// The manifest, or a program: an archive or object that holds `main` and its libc, rewritten.
    #[arg(value_name = "MANIFEST|PROGRAM")]
    manifest: PathBuf,
    /// Program: mode that its objects must satisfy.
    #[arg(long, default_value = "write", value_name = "write|full|match")]
    mode: sfi_loader::Mode,
    /// Program: size of its heap, MiB.
    #[arg(long, default_value_t = 1024, value_name = "MiB", value_parser = mebibytes())]
    memory: u64,
    /// Program: size of its data stack, MiB.
    #[arg(long, default_value_t = 8, value_name = "MiB", value_parser = mebibytes())]
    stack: u64,
    /// Program: size of its control stack, which holds 8 bytes for each call in progress and for
    /// each register that its function saves there: 64KiB to 3584KiB.
    #[arg(long, default_value = "3MiB", value_name = "SIZE", value_parser = control_stack)]
    control_stack: u64,
    #[command(flatten)]
    grants: Grants,
    /// Program: a variable of its environment, which is empty otherwise. Without a value, the
    /// variable is as in this environment, if it is set.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<OsString>,
    /// Program: its own name, argv[0]. Default: the file's name.
    #[arg(long, value_name = "NAME")]
    argv0: Option<OsString>,
    /// End calls that take longer: the whole run of a program, or a manifest's entry point.
    /// Default: the manifest's limit, or none.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    time_limit: Option<Duration>,
    /// Program: number of threads that it may have at a time. A thread that counts is a clock, so
    /// more than one means for side channels what --clock means. A manifest says `threads`.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = thread_count)]
    threads: usize,
    /// Program: verify and link it even if it ran before, and keep no image of it. Images lie in
    /// $XDG_CACHE_HOME/sfi/images, or ~/.cache/sfi/images. Only this user's processes take them:
    /// each depends on a key in the user's keyring.
    #[arg(long)]
    no_cache: bool,
    /// Let a program, and the domains of a manifest with `clock = true`, read the processor's clock
    /// (`rdtsc`). Side channels are read with it: outside mode full a program finds the memory of
    /// this process. In a manifest such domains need `clock = "exposing"`.
    #[arg(long)]
    clock: bool,
    /// Print the mappings of each domain on standard error.
    #[arg(long)]
    explain_layout: bool,
    /// Print every binding on standard error: client and symbol, server and entry, trust level,
    /// signature, and the state that the crossing saves, clears and copies.
    #[arg(long)]
    explain_bindings: bool,
    /// With --explain-layout: print addresses too. They are secrets that keep domains apart.
    #[arg(long, requires = "explain_layout")]
    show_addresses: bool,
    /// With --explain-layout: draw each domain's window with the places of its parts, which are
    /// secrets.
    #[arg(long, requires = "explain_layout", value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the blocks of each domain's heap that were not freed, with the calls that allocated
    /// them. Calls of malloc, calloc, realloc, aligned_alloc and free are watched, and take longer.
    #[arg(long)]
    heap_report: bool,
    /// Show the domains' code to gdb: functions, lines, breakpoints, and backtraces through
    /// domains, crossings and host functions. For development: it gives places away.
    #[arg(long)]
    gdb: bool,
    /// Show the domains' code to perf: writes /tmp/perf-PID.map, and jit-PID.dump in the working
    /// directory or $JITDUMPDIR. For development: it gives places away.
    #[arg(long)]
    perf: bool,
    /// Draw all places from this seed, up to 64 hexadecimal digits. For tests: a known seed is no
    /// secret.
    #[arg(long, value_parser = parse_seed)]
    seed: Option<[u8; 32]>,
    /// A program started this one: it is a program, and its environment is that of --env and of
    /// --variables alone.
    #[arg(long, hide = true)]
    started: bool,
    /// Number of variables that the program which started this one gave to it, in variables of this
    /// process (`sfi_arbitration::variable`).
    #[arg(long, hide = true, default_value_t = 0, value_name = "COUNT")]
    variables: usize,
    /// The descriptor from which the program is read. Its name may lead to another file by now.
    #[arg(long, hide = true, value_name = "DESCRIPTOR")]
    opened: Option<u32>,
    /// The descriptor with the rest of the quota of the program that started this one.
    #[arg(long, hide = true, value_name = "DESCRIPTOR")]
    spending: Option<u32>,
    /// Arguments for the domains.
    #[arg(last = true)]
    args: Vec<OsString>,
}

/// The exit code after a fault of the entry point's domain.
const FAULT: u8 = 3;
/// Number of bytes of the longest file name that a domain may pass.
const NAME_LIMIT: usize = 4096;

/// The type of an entry point, which takes up to six integers.
type EntryPoint = fn(u64, u64, u64, u64, u64, u64) -> u64;

/// A domain's request to end the run, with its exit code. It unwinds through the domains as a panic
/// without a message.
struct Exit(u64);

/// Crossings and times of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    /// Calls between domains, and between domains and the host.
    pub crossings: u64,
    /// Processor time in domains.
    pub inside: Duration,
    /// Wall clock of the run, without loading.
    pub total: Duration,
    /// The entry point did not return.
    pub failed: bool,
}

impl Profile {
    /// Returns the profile of the domains of a world whose run began at `start`.
    fn of(world: &mut World, start: Instant) -> anyhow::Result<Self> {
        let names: Vec<String> = world.domains().map(str::to_owned).collect();
        let mut profile = Self { total: start.elapsed(), ..Self::default() };
        for name in names {
            let used = world.used(&name)?;
            profile.crossings += used.crossings;
            profile.inside += used.cpu;
        }
        Ok(profile)
    }
}

/// The budget of a domain that is only to be measured.
const NO_LIMIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs a manifest and measures it.
pub fn profile(manifest: &Path, args: &[OsString]) -> anyhow::Result<(ExitCode, Profile)> {
    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }
    let words = [OsStr::new("sfi run"), manifest.as_os_str(), OsStr::new("--")];
    let words = words.into_iter().chain(args.iter().map(OsString::as_os_str));
    let args = Whole::try_parse_from(words).context("the arguments cannot be passed on")?.args;
    let bytes = file::read(manifest).with_context(|| format!("cannot read `{}`", manifest.display()))?;
    ensure!(!is_program(&bytes), "`{}` is not a manifest", manifest.display());
    let mut profile = Profile::default();
    let code = run_manifest(&args, bytes, Some(&mut profile))?;
    Ok((code, profile))
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = &args.manifest;
    if observed(&args) {
        let files = sfi_debugger::show(&sfi_debugger::Options { gdb: args.gdb, perf: args.perf });
        files.context("cannot show the code to gdb or perf")?;
    }
    let opened = args.opened.map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
    let bytes = file::read(opened.as_ref().unwrap_or(path));
    let bytes = bytes.with_context(|| format!("cannot read `{}`", path.display()))?;
    if is_program(&bytes) {
        return run_program(&args, bytes);
    }
    // A manifest would grant what it likes.
    ensure!(!args.started, "`{}` is not a program", path.display());
    run_manifest(&args, bytes, None)
}

/// Says whether a debugger or perf sees the code. They look at one process.
fn observed(args: &Args) -> bool {
    args.gdb || args.perf
}

/// Goes on beneath a process that ends all that is left at the end: programs that leave their group
/// are found by another process only.
fn watch(args: &Args) -> anyhow::Result<()> {
    if observed(args) {
        return Ok(());
    }
    descendants::supervise().context("cannot watch over the processes of the program")
}

/// Runs the domains of a manifest.
fn run_manifest(args: &Args, bytes: Vec<u8>, profile: Option<&mut Profile>) -> anyhow::Result<ExitCode> {
    let path = &args.manifest;
    let text = String::from_utf8(bytes).with_context(|| format!("`{}` is not a manifest", path.display()))?;
    let mut manifest = Manifest::parse(&text, path)?;
    let entry = manifest.entry.clone().context("the manifest has no [entry]: nothing to run")?;
    arbiters::prepare(&mut manifest);
    let limit = args.time_limit.or(manifest.limits.call.map(|limit| limit.0));
    if limit.is_some() && profile.is_none() && arbiters::starts_programs(&manifest) {
        watch(args)?;
    }
    if profile.is_some() {
        for domain in manifest.domains.values_mut() {
            domain.budget.cpu.get_or_insert(Time(NO_LIMIT));
        }
    }
    let directory = args.manifest.parent().unwrap_or(Path::new(""));
    let mut heaps = heaps(args, manifest.domains.values().map(|domain| domain.threads))?;
    if let Some(heaps) = &mut heaps {
        heaps.watch_all(&mut manifest);
    }
    let mut builder = World::builder();
    if let Some(seed) = args.seed {
        builder = builder.seed(seed);
    }
    if args.clock {
        builder = builder.clock();
    }
    let mut builder = manifest.build(builder, directory)?;
    if let Some(limit) = args.time_limit {
        builder = builder.time_limit(limit);
    }
    let builder = offer(builder, &manifest, directory, args)?;
    let builder = heaps.iter().fold(builder, |builder, heaps| heaps.offer(builder));
    let arbiters::Added { builder, counts, crew } =
        arbiters::add(builder, &manifest, directory, args.grants.log_syscalls, limit)?;
    // Dropped after the world, because the world's end tells the owners of the last faults.
    let mut owners = Owners::default();
    let world = catch_unwind(AssertUnwindSafe(|| builder.build()));
    let mut world = match world {
        Ok(world) => world?,
        Err(payload) => return exit(payload),
    };
    owners.take(&world)?;
    let heaps = Report::new(heaps, &world);
    if args.explain_layout {
        eprint!("{}", layout::text(&world, args.show_addresses)?);
        if let Some(file) = &args.svg {
            std::fs::write(file, layout::picture(&world)?).with_context(|| format!("{}", file.display()))?;
        }
    }
    if args.explain_bindings {
        world.bindings().iter().for_each(|binding| eprintln!("binding {binding}"));
    }
    let tell = Told(if args.grants.count_syscalls { counts } else { Vec::new() });
    let start = Instant::now();
    if arbiters::is_program(&manifest) {
        let program = arbiters::program(&manifest, &entry.domain, &args.manifest, &args.args);
        let code = program::start(&mut world, &entry.domain, &program, crew.as_ref(), None, FAULT)?;
        if let Some(profile) = profile {
            *profile = Profile::of(&mut world, start)?;
        }
        return Ok(code);
    }
    let function: TypedFn<EntryPoint> = world.domain(&entry.domain)?.export(&entry.function)?;
    let arg = |i: usize| entry.args.get(i).copied().unwrap_or(0) as u64;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let result = function.call(&mut world, (arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)));
        report_faults(&world, &entry.domain);
        let measured = profile.map(|profile| {
            Profile::of(&mut world, start).map(|found| *profile = Profile { failed: result.is_err(), ..found })
        });
        measured.unwrap_or(Ok(())).expect("the domains are the world's");
        let end = world.shutdown();
        (result, end)
    }));
    std::io::stdout().flush()?;
    drop(tell);
    drop(heaps);
    match result {
        Err(payload) => exit(payload),
        Ok((Ok(value), end)) => {
            end.context("a finaliser failed")?;
            Ok(ExitCode::from(value as u8))
        }
        Ok((Err(CallError::Fault(fault)), _)) => {
            crate::print::fault(&fault);
            Ok(ExitCode::from(FAULT))
        }
        Ok((Err(error), _)) => bail!(error),
    }
}

/// Runs an archive or object as a whole program.
fn run_program(args: &Args, bytes: Vec<u8>) -> anyhow::Result<ExitCode> {
    let mut grants = args.grants.clone();
    grants.resolve()?;
    if args.time_limit.is_some() && !args.started && grants.makes_processes() {
        watch(args)?;
    }
    let passed = (0..args.variables).map(sfi_arbitration::variable);
    let passed = passed.map(|name| std::env::var_os(&name).with_context(|| format!("`{name}` is missing")));
    let asked = [passed.collect::<Result<Vec<_>, _>>()?, args.environment.clone()].concat();
    let all = !args.started && grants.build_tree;
    let setup = program::Setup {
        path: &args.manifest,
        mode: args.mode,
        memory: args.memory << 20,
        stack: args.stack << 20,
        control_stack: args.control_stack,
        grants: &grants,
        spending: args.spending,
        children: (!args.started).then(|| ChildOptions { words: inherited(args, &grants), mode: args.mode }),
        arguments: &args.args,
        name: args.argv0.as_deref(),
        environment: program::environment(asked.iter().map(OsString::as_os_str), all),
        seed: args.seed,
        clock: args.clock,
        time_limit: args.time_limit,
        threads: args.threads,
        keep: !args.no_cache,
        observed: observed(args),
        heaps: heaps(args, [args.threads])?,
    };
    program::run(setup, bytes, FAULT)
}

/// Returns the options that give another program what this one has.
fn inherited(args: &Args, grants: &Grants) -> Vec<OsString> {
    let mut words = grants.words();
    let values = [
        ("memory", args.memory.to_string()),
        ("stack", args.stack.to_string()),
        ("control-stack", args.control_stack.to_string()),
        ("threads", args.threads.to_string()),
    ];
    words.extend(values.iter().map(|(option, value)| format!("--{option}={value}").into()));
    words.extend(args.time_limit.map(|limit| format!("--time-limit={}", limit.as_secs_f64()).into()));
    let flags = [("no-cache", args.no_cache), ("clock", args.clock)];
    words.extend(flags.iter().filter(|(_, set)| *set).map(|(option, _)| format!("--{option}").into()));
    words
}

/// Returns the heaps to watch, if the user asks for that.
fn heaps(args: &Args, threads: impl IntoIterator<Item = usize>) -> anyhow::Result<Option<Heaps>> {
    if !args.heap_report {
        return Ok(None);
    }
    ensure!(threads.into_iter().all(|threads| threads == 1), "--heap-report: the domains have one thread");
    Ok(Some(Heaps::default()))
}

/// Prints the faults of domains that the entry's domain called. Their callers saw only an error.
fn report_faults(world: &World, entry: &str) {
    for name in world.domains().filter(|name| *name != entry) {
        if let Some(fault) = world.domain(name).ok().and_then(|d| d.last_fault()) {
            crate::print::fault(&fault);
        }
    }
}

/// Returns the exit code of a panic that is an [`Exit`]. Other panics go on.
fn exit(payload: Box<dyn std::any::Any + Send>) -> anyhow::Result<ExitCode> {
    std::io::stdout().flush()?;
    let other = match payload.downcast::<Exit>() {
        Ok(code) => return Ok(ExitCode::from(code.0 as u8)),
        Err(other) => other,
    };
    match other.downcast::<sfi_arbitration::Exit>() {
        Ok(code) => Ok(ExitCode::from(code.0 as u8)),
        Err(other) => resume_unwind(other),
    }
}

/// Prints the faults of the owners' domains when the run ends, for whatever reason.
#[derive(Default)]
struct Owners(Vec<Owner>);

impl Owners {
    /// Adds the owners of a world's domains, each once.
    fn take(&mut self, world: &World) -> anyhow::Result<()> {
        for name in world.domains() {
            let owner = world.domain(name)?.owner().cloned();
            self.0.extend(owner.filter(|owner| self.0.iter().all(|known| known.name() != owner.name())));
        }
        Ok(())
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        for owner in &self.0 {
            let record = owner.record();
            let (name, delay) = (visible(owner.name()), duration(record.delayed.as_secs_f64()));
            let faults = if record.faults == 1 { "fault" } else { "faults" };
            eprint!("owner `{name}`: {} {faults}, {} outside their domain's window", record.faults, record.outside);
            eprint!("{}", if record.delayed.is_zero() { String::new() } else { format!(", {delay} of penalties") });
            let pattern = "; a suspicious pattern: the last faults look like a search for other domains' memory";
            eprintln!("{}", if record.suspicious { pattern } else { "" });
        }
    }
}

/// Prints the counts of system calls when the run ends, for whatever reason.
struct Told(Vec<(String, sfi_arbitration::Counts)>);

impl Drop for Told {
    fn drop(&mut self) {
        for (name, counts) in &self.0 {
            eprint!("system calls of `{name}`:\n{counts}");
        }
    }
}

/// Adds the host functions that a manifest can grant.
fn offer(builder: Builder, manifest: &Manifest, directory: &Path, options: &Args) -> anyhow::Result<Builder> {
    let (mut files, mut sizes) = (Vec::new(), Vec::new());
    for (name, path) in &manifest.files {
        let path = directory.join(path);
        let (file, size) = file::open(&path).with_context(|| format!("cannot open `{}`", path.display()))?;
        files.push((name.clone(), file));
        sizes.push((name.clone(), size));
    }
    let step = options.grants.clock_resolution.0.as_nanos().max(1);
    let args: Vec<u8> = options.args.iter().flat_map(|a| a.as_bytes().iter().copied().chain([0])).collect();
    let start = Instant::now();
    Ok(builder
        .host_fn("host_write", |cx| write(cx, &mut std::io::stdout().lock()))
        .host_fn("host_error", |cx| write(cx, &mut std::io::stderr().lock()))
        .host_fn("host_read", |cx| {
            let (pointer, length) = (cx.arg(0), cx.arg(1));
            read(cx, &mut std::io::stdin().lock(), pointer, length)
        })
        .host_fn("host_read_file", move |cx| {
            let name = cx.memory().read_c_string(cx.arg(0), NAME_LIMIT)?;
            let found = files.iter_mut().find(|(n, _)| n.as_bytes() == name);
            let (_, file) = found.ok_or_else(|| HostError::new("no such file in the manifest"))?;
            file.seek(SeekFrom::Start(cx.arg(1))).map_err(host)?;
            let (pointer, length) = (cx.arg(2), cx.arg(3));
            read(cx, file, pointer, length)
        })
        .host_fn("host_file_size", move |cx| {
            let name = cx.memory().read_c_string(cx.arg(0), NAME_LIMIT)?;
            let found = sizes.iter().find(|(n, _)| n.as_bytes() == name);
            found.map(|(_, size)| *size).ok_or_else(|| HostError::new("no such file in the manifest"))
        })
        .host_fn("host_clock", move |_| Ok((start.elapsed().as_nanos() / step * step) as u64))
        .host_fn("host_args", move |cx| {
            let length = args.len().min(usize::try_from(cx.arg(1)).unwrap_or(usize::MAX));
            if length > 0 {
                cx.write(cx.arg(0), &args[..length])?;
            }
            Ok(args.len() as u64)
        })
        .host_fn("host_exit", |cx| resume_unwind(Box::new(Exit(cx.arg(0))))))
}

fn host(error: std::io::Error) -> HostError {
    HostError::new(error.to_string())
}

fn write(cx: &HostCall<'_>, to: &mut impl Write) -> Result<u64, HostError> {
    let bytes = cx.read(cx.arg(0), usize::try_from(cx.arg(1)).unwrap_or(usize::MAX))?;
    to.write_all(&bytes).map_err(host)?;
    Ok(bytes.len() as u64)
}

/// Reads once, at most a mebibyte, into the domain's memory.
fn read(cx: &mut HostCall<'_>, from: &mut impl Read, pointer: u64, length: u64) -> Result<u64, HostError> {
    let mut bytes = vec![0; length.min(1 << 20) as usize];
    let count = from.read(&mut bytes).map_err(host)?;
    cx.write(pointer, &bytes[..count])?;
    Ok(count as u64)
}

/// Parses a number of threads.
fn thread_count(text: &str) -> Result<usize, String> {
    let most = sfi_loader::MAX_THREADS;
    text.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(|| format!("expected 1 to {most}"))
}

/// Parses a number of mebibytes that a window has room for.
fn mebibytes() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=WINDOW_SIZE >> 20)
}

/// Parses the size of a control stack.
fn control_stack(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse().map_err(|e: NoSize| e.to_string())?;
    match (MIN_CONTROL_STACK..=MAX_CONTROL_STACK).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("expected {}KiB to {}KiB", MIN_CONTROL_STACK >> 10, MAX_CONTROL_STACK >> 10)),
    }
}

/// Parses seconds, such as 2 or 0.5.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "expected seconds, such as 2 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

fn parse_seed(text: &str) -> Result<[u8; 32], String> {
    if text.is_empty() || text.len() > 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("a seed is 1 to 64 hexadecimal digits".into());
    }
    let digits = format!("{text:0<64}");
    let mut seed = [0; 32];
    for (byte, pair) in seed.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|e| e.to_string())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|e| e.to_string())?;
    }
    Ok(seed)
}
