//! Loads damaged objects and runs them in child processes. The input is a folder of jobs, the
//! output one line for each job.
//!
//! A job is an object and its mode. Beside it live a sibling domain and memory of the host, both
//! full of a pattern. After every call the patterns must be whole. A call that does not end within
//! its time ends the process with [`HANG`], and the parent starts another process after that job.
//! Any other exit code than 0 or [`HANG`] is a finding.

use sfi_contract::Mode;
use sfi_loader::{CallError, DomainSpec, Import, TypedFn, World};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Names the folder to a child process.
pub const FOLDER: &str = "SFI_INMATES";
/// The first job to run.
pub const FIRST: &str = "SFI_INMATES_FIRST";
/// Names the sibling's object.
const SIBLING: &str = "SFI_INMATES_SIBLING";
/// Exit code: a call did not end.
const HANG: i32 = 42;
/// Time limit of one call.
const CALL_MILLISECONDS: i64 = 50;
/// Bytes of each pattern.
const PATTERN: usize = 1 << 16;

/// An object to run.
pub struct Job {
    pub mode: Mode,
    pub object: Vec<u8>,
    pub what: String,
}

/// The outcome of all jobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects that the loader refused.
    pub refused: u64,
    /// Objects that were loaded and whose functions were called.
    pub ran: u64,
    /// Objects with a call that did not end.
    pub hung: u64,
    /// Calls that returned, and that faulted.
    pub returned: u64,
    pub faulted: u64,
}

/// Runs all jobs in child processes. Panics if one crashes, or reports a broken pattern.
pub fn run(folder: &Path, jobs: &[Job], runtime: &BTreeMap<ModeName, Vec<PathBuf>>, sibling: &Path) -> Tally {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("a folder");
    for (index, job) in jobs.iter().enumerate() {
        std::fs::write(folder.join(format!("{index}.o")), &job.object).expect("a job");
    }
    let list: String = jobs.iter().map(|job| format!("{}\n", job.mode)).collect();
    std::fs::write(folder.join("modes"), list).expect("the list");
    for (mode, paths) in runtime {
        let lines: String = paths.iter().map(|p| format!("{}\n", p.display())).collect();
        std::fs::write(folder.join(format!("runtime-{}", mode.0)), lines).expect("the list");
    }
    let (mut tally, mut first) = (Tally::default(), 0);
    while first < jobs.len() {
        let log = folder.join(format!("log-{first}"));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(FOLDER, folder).env(FIRST, first.to_string()).env(SIBLING, sibling);
        command.stdout(std::fs::File::create(&log).expect("a log")).stdin(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().expect("a child process");
        let status = loop {
            if let Some(status) = child.try_wait().expect("the child's status") {
                break status;
            }
            if start.elapsed() > Duration::from_secs(120) {
                let _ = child.kill();
                let _ = child.wait();
                panic!("a child does not end; see {}", log.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = std::fs::read_to_string(&log).expect("the log");
        let last = text
            .lines()
            .filter_map(|line| line.strip_prefix("job "))
            .filter_map(|n| n.parse::<usize>().ok())
            .next_back();
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["refused"] => tally.refused += 1,
                ["ran", returned, faulted] => {
                    tally.ran += 1;
                    tally.returned += returned.parse::<u64>().expect("a number");
                    tally.faulted += faulted.parse::<u64>().expect("a number");
                }
                _ => {}
            }
        }
        first = match status.code() {
            Some(0) => jobs.len(),
            Some(HANG) => {
                tally.hung += 1;
                last.expect("a hang belongs to a job") + 1
            }
            _ => {
                let job = last.map_or("none", |n| &jobs[n].what);
                panic!("job {last:?} ended the process: {status}\n{job}\n{}\n{text}", folder.display());
            }
        };
    }
    tally
}

/// A mode as a key: its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModeName(pub &'static str);

/// Runs all jobs of the folder from the first on, as the child process.
pub fn main(folder: &Path) -> ExitCode {
    let first: usize = std::env::var(FIRST).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let modes = std::fs::read_to_string(folder.join("modes")).expect("the list");
    let host = vec![0xa7u8; PATTERN];
    hang_is_an_exit();
    for (index, mode) in modes.lines().enumerate().skip(first) {
        println!("job {index}");
        std::io::stdout().flush().expect("stdout");
        let mode: Mode = mode.parse().expect("a mode");
        let object = std::fs::read(folder.join(format!("{index}.o"))).expect("the object");
        let runtime = std::fs::read_to_string(folder.join(format!("runtime-{mode}"))).expect("the runtime's list");
        let names = functions(&object);
        let Some(mut world) = build(object, mode, &runtime) else {
            println!("refused");
            continue;
        };
        let (mut returned, mut faulted) = (0, 0);
        for name in names {
            for arguments in [(0, 0, 0), (0x50_0000, 64, 3), (u64::MAX, 1 << 63, 0xffff_fff8)] {
                let Ok(f) = world.domain("mutant").and_then(|d| d.export::<fn(u64, u64, u64) -> u64>(&name)) else {
                    continue;
                };
                match within_time(|| f.call(&mut world, arguments)) {
                    Ok(_) => returned += 1,
                    Err(CallError::Fault(_) | CallError::Dead { .. }) => {
                        faulted += 1;
                        if within_time(|| world.restart("mutant")).is_err() {
                            break;
                        }
                    }
                    Err(error) => panic!("{name}: {error}"),
                }
                check(&mut world, &host);
            }
        }
        println!("ran {returned} {faulted}");
    }
    ExitCode::SUCCESS
}

/// Returns global functions of an object, at most eight.
fn functions(object: &[u8]) -> Vec<String> {
    let report = sfi_verifier::verify(object, &sfi_verifier::Options::default());
    let symbols = report.map(|report| {
        let place = |s: &sfi_verifier::elf::Symbol<'_>| matches!(s.place, sfi_verifier::elf::Place::Section(_));
        let global = report.object.symbols.iter().filter(|s| s.binding != 0 && place(s));
        global.map(|s| s.name.to_owned()).take(8).collect::<Vec<_>>()
    });
    symbols.unwrap_or_default()
}

fn build(object: Vec<u8>, mode: Mode, runtime: &str) -> Option<World> {
    // The runtime defines symbols that fixtures import. The neighbour has data of its own.
    let mut spec = DomainSpec::new("mutant").mode(mode).memory(1 << 20).stack(64 << 10).object("mutant.o", object);
    for path in runtime.lines() {
        spec = spec.object(path.to_owned(), std::fs::read(path).expect("the runtime"));
    }
    spec = spec.import("host_write", Import::host("host_write"));
    let sibling = std::fs::read(std::env::var(SIBLING).expect("the sibling's object")).expect("the sibling's object");
    let world = within_time(|| {
        World::builder()
            .domain(spec)
            .domain(DomainSpec::new("sibling").memory(64 << 10).stack(64 << 10).object("sibling.o", sibling))
            .host_fn("host_write", |call| {
                let bytes = call.read(call.arg(0), usize::try_from(call.arg(1)).unwrap_or(usize::MAX))?;
                Ok(bytes.len() as u64)
            })
            .build()
    });
    let mut world = world.ok()?;
    let at = world.domain("sibling").expect("it is there").symbol("pattern").expect("it is there");
    world.memory("sibling").expect("it is there").write(at.0, &[0x5c; PATTERN]).expect("its data");
    Some(world)
}

/// Checks that the patterns are whole and the sibling works.
fn check(world: &mut World, host: &[u8]) {
    assert!(host.iter().all(|b| *b == 0xa7), "ESCAPE: the host's pattern is broken");
    let at = world.domain("sibling").expect("it is there").symbol("pattern").expect("it is there");
    let pattern = world.memory("sibling").expect("it is there").read(at.0, PATTERN).expect("its data");
    assert!(pattern.iter().all(|b| *b == 0x5c), "ESCAPE: the sibling's pattern is broken");
    let f: TypedFn<fn(u64, u64) -> u64> =
        world.domain("sibling").expect("it is there").export("sum").expect("it is there");
    assert_eq!(f.call(world, (40, 2)), Ok(42), "ESCAPE: the sibling does not work");
}

extern "C" fn hang(_: libc::c_int) {
    // SAFETY: ends the process at once. The interrupted code does not go on.
    unsafe { libc::_exit(HANG) }
}

fn hang_is_an_exit() {
    // SAFETY: a handler that only ends the process, on the thread's alternate stack if it has one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = hang as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
    }
}

/// Runs `f` under a timer.
fn within_time<T>(f: impl FnOnce() -> T) -> T {
    let set = |milliseconds: i64| {
        let value = libc::timeval { tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000 };
        let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
        // SAFETY: a timer of this process.
        assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) }, 0);
    };
    set(CALL_MILLISECONDS);
    let result = f();
    set(0);
    result
}
