//! What `sfi run` grants to a program's system calls, by options.

use anyhow::Context;
use sfi_arbitration::{Arbiter, Denial, Logger, Policy, Preopen, Quota, Record, Stdio, manifest};
use sfi_loader::manifest::Log;
use std::path::Path;
use std::time::Duration;

/// Options about a program's system calls.
#[derive(Clone, Debug, clap::Args)]
pub struct Grants {
    /// Program: a directory that its paths may name, as they name it. `.` and `/` are the root of its tree, where it starts.
    #[arg(long = "dir", value_name = "HOST[::GUEST]")]
    pub directories: Vec<String>,
    /// Program: a directory like --dir that it may not change.
    #[arg(long = "dir-read", value_name = "HOST[::GUEST]")]
    pub readable: Vec<String>,
    /// Program: it may change no directory.
    #[arg(long)]
    pub read_only: bool,
    /// Program: the system calls that it may make, names and groups: io, files, changes, memory, time, random, process, all.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "all")]
    pub allow: Vec<String>,
    /// Program: system calls and groups taken away from --allow.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub deny: Vec<String>,
    /// Program: what other system calls return.
    #[arg(long, default_value = "ENOSYS", value_name = "ENOSYS|EPERM", value_parser = parse_denial)]
    pub denied: Denial,
    /// Program: how many descriptors it may hold.
    #[arg(long, default_value_t = Quota::default().descriptors, value_name = "COUNT")]
    pub max_descriptors: usize,
    /// Program: how much it may write in all, MiB. Default: no limit.
    #[arg(long, value_name = "MiB")]
    pub max_written: Option<u64>,
    /// Tell each system call on standard error: all, or those that are refused. Addresses are offsets in the domain's window.
    #[arg(long, value_name = "all|refused", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = parse_log)]
    pub log_syscalls: Option<Log>,
    /// At the end, tell on standard error how often each system call was made and refused.
    #[arg(long)]
    pub count_syscalls: bool,
}

impl Grants {
    /// The arbiter; no sleep is longer than `time_limit`.
    pub fn arbiter(&self, time_limit: Option<Duration>) -> anyhow::Result<Arbiter> {
        let mut preopens = Vec::new();
        let writable = self.directories.iter().map(|d| (d, !self.read_only));
        for (directory, writable) in writable.chain(self.readable.iter().map(|d| (d, false))) {
            let (host, guest) = directory.split_once("::").unwrap_or((directory, directory));
            let preopen = Preopen::open(Path::new(host), guest, writable);
            preopens.push(preopen.with_context(|| format!("cannot open the directory `{host}`"))?);
        }
        let mut quota = Quota { descriptors: self.max_descriptors, ..Quota::default() };
        if let Some(mebibytes) = self.max_written {
            quota.written = mebibytes.saturating_mul(1 << 20);
        }
        quota.sleep = time_limit.map_or(quota.sleep, |limit| limit.min(quota.sleep));
        let calls = manifest::calls(&self.allow, &self.deny)?;
        let arbiter = Arbiter::new(Policy { calls, preopens, denial: self.denied, quota }, Stdio::inherit()?).program();
        Ok(logging(arbiter, self.log_syscalls.unwrap_or_default(), ""))
    }
}

/// Adds a log on standard error.
pub fn logging(arbiter: Arbiter, log: Log, prefix: &str) -> Arbiter {
    let prefix = prefix.to_owned();
    let logger: Logger = Box::new(move |record: &Record| {
        if log == Log::All || !record.granted {
            eprintln!("{prefix}{record}");
        }
    });
    if log == Log::Off { arbiter } else { arbiter.logger(logger) }
}

fn parse_denial(text: &str) -> Result<Denial, String> {
    match text {
        "ENOSYS" => Ok(Denial::NoSys),
        "EPERM" => Ok(Denial::NotPermitted),
        _ => Err("expected ENOSYS or EPERM".into()),
    }
}

fn parse_log(text: &str) -> Result<Log, String> {
    match text {
        "all" => Ok(Log::All),
        "refused" => Ok(Log::Refused),
        _ => Err("expected all or refused".into()),
    }
}
