//! `cargo xtask bench --tools`: the speed of the rewriter, the verifier and the loader on archives
//! of the system, and the memory of `sfi rewrite`, with the validator's proof and without.
//!
//! The argument is the `sfi` binary. Each figure is the best of several rounds. Rewriting counts
//! the time of one thread. The archives are not validated.

use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_loader::{DomainSpec, World};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const ARCHIVES: [&str; 3] = ["libcrypto.a", "libsqlite3.a", "libc.a"];
/// Rounds of a measurement in this process.
const ROUNDS: usize = 3;
/// Functions of the large object. They make some ten megabytes of file.
const FUNCTIONS: u32 = 40_000;

/// Returns the members of an archive.
fn members(bytes: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    let archive = object::read::archive::ArchiveFile::parse(bytes)?;
    archive.members().map(|m| Ok(m?.data(bytes)?)).collect()
}

/// Returns the least time of some rounds.
fn best<T>(rounds: usize, mut round: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<(Duration, T)> {
    let mut least = None;
    for _ in 0..rounds {
        let start = Instant::now();
        let result = round()?;
        let elapsed = start.elapsed();
        if least.as_ref().is_none_or(|(time, _)| elapsed < *time) {
            least = Some((elapsed, result));
        }
    }
    least.context("no rounds")
}

/// Prints the speed of rewriting each archive.
fn rewriting() -> anyhow::Result<()> {
    for name in ARCHIVES {
        let bytes = std::fs::read(Path::new(LIBRARIES).join(name)).with_context(|| format!("cannot read {name}"))?;
        let members = members(&bytes)?;
        for mode in [Mode::Write, Mode::Full] {
            let options = sfi_rewriter::Options { mode, ..Default::default() };
            let (time, text) = best(ROUNDS, || {
                let rewritten = members.iter().filter_map(|member| sfi_rewriter::rewrite(member, &options).ok());
                Ok(rewritten.map(|output| output.stats.text_in).sum::<u64>())
            })?;
            let (milliseconds, speed) = (time.as_secs_f64() * 1e3, text as f64 / time.as_secs_f64() / 1e6);
            println!("| rewrite {name}, mode {mode}, MB of text | {:.2} |", text as f64 / 1e6);
            println!("| its time on one core, ms | {milliseconds:.0} |");
            println!("| MB of text per second | {speed:.1} |");
        }
    }
    Ok(())
}

/// Makes one large object: functions with loops, switches, calls and strings.
fn large(directory: &Path) -> anyhow::Result<PathBuf> {
    let [source, object] = ["large.c", "large.o"].map(|name| directory.join(name));
    let mut text = String::from(
        "struct node { struct node *next; long keys[8]; };\n\
         __attribute__((noinline)) void out(long *k, const char *s) { *k += *s; }\n",
    );
    for number in 0..FUNCTIONS {
        let factor = number % 97 + 3;
        writeln!(
            text,
            "long f{number}(struct node *n, long k) {{ long s = {number}; for (; n; n = n->next) {{ \
             switch (n->keys[k & 7] & 3) {{ case 0: s += n->keys[1] * {factor}; break; \
             case 1: out(&s, \"f{number}\"); break; default: n->keys[2] ^= s; }} }} return s; }}"
        )?;
    }
    std::fs::write(&source, text)?;
    let status = Command::new("gcc").args(["-O2", "-c", "-o"]).arg(&object).arg(&source).status();
    ensure!(status.context("gcc does not start")?.success(), "gcc failed");
    Ok(object)
}

/// Returns the time of a command and its peak of memory, in bytes.
fn measured(command: &mut Command) -> anyhow::Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command.spawn().context("sfi does not start")?;
    let mut peak = 0;
    // The kernel counts the peak, and the child tells it until it ends.
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak.max(peak_of(child.id()).unwrap_or(peak));
        std::thread::sleep(Duration::from_millis(1));
    };
    ensure!(status.success(), "sfi rewrite failed");
    Ok((start.elapsed(), peak))
}

/// Prints the time and the peak of memory of rewriting one large object, with the proof and
/// without, and the time to load it.
fn large_object(sfi: &Path) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let object = large(directory.path())?;
    let rewritten = directory.path().join("large.sfi.o");
    let size = std::fs::metadata(&object)?.len();
    for (what, options) in [("rewrite", &["--no-validate"][..]), ("rewrite and prove", &[])] {
        let mut command = Command::new(sfi);
        let (time, peak) = measured(command.arg("rewrite").args(options).arg("-o").arg(&rewritten).arg(&object))?;
        println!("| {what} an object of {:.1} MB, ms | {:.0} |", size as f64 / 1e6, time.as_secs_f64() * 1e3);
        println!("| its peak of memory, MB | {:.0} |", peak as f64 / 1e6);
    }
    let bytes = std::fs::read(&rewritten)?;
    let text: u64 = {
        use object::{Object, ObjectSection};
        let file = object::File::parse(&*bytes)?;
        file.sections().filter(|s| s.kind() == object::SectionKind::Text).map(|s| s.size()).sum()
    };
    let (time, _) = best(ROUNDS, || {
        Ok(World::builder().domain(DomainSpec::new("large").object("large.o", bytes.clone())).build()?)
    })?;
    println!("| load {:.1} MB of text, ms | {:.1} |", text as f64 / 1e6, time.as_secs_f64() * 1e3);
    Ok(())
}

/// Returns the peak of a process's resident memory, if it still runs.
fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

fn main() -> anyhow::Result<()> {
    let sfi = std::env::args().nth(1).context("no sfi")?;
    println!("| | |\n| --- | --- |");
    rewriting()?;
    large_object(Path::new(&sfi))
}
