//! Options of `sfi run` that grant system calls to a program.

use crate::build_tree;
use crate::linked::{self, ChildOptions};
use crate::render::visible;
use anyhow::{Context, ensure};
use sfi_arbitration::{Arbiter, Beneath, Denial, Logger, Policy, Preopen, Quota, Record, Startable, Stdio, manifest};
use sfi_loader::manifest::{Log, Time};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of calls that are logged.
const RECORDS: u64 = 1 << 20;

/// Options about a program's system calls.
#[derive(Clone, Debug, clap::Args)]
pub struct Grants {
    /// Program: a directory that its paths may name, by this name. `.` and `/` mean the root of its
    /// tree, where it starts.
    #[arg(long = "dir", value_name = "HOST[::GUEST]")]
    pub directories: Vec<String>,
    /// Program: the directory where it starts, as its paths name it. Default: the root of its tree.
    #[arg(long, value_name = "GUEST")]
    pub cwd: Option<String>,
    /// Program: a directory like --dir that it may not change.
    #[arg(long = "dir-read", value_name = "HOST[::GUEST]")]
    pub readable: Vec<String>,
    /// Program: inside a build tree it sees that tree and may change it, but not remove the files
    /// that mark its root. It starts in this working directory, and has this environment. It may
    /// start the tree's outputs of `sfi cc` as --program says. The tree is that of Makefiles,
    /// or of configure, CMake or Meson, around the working directory. Sources outside the tree need
    /// --dir-read. Elsewhere this option grants nothing. Programs that are run by their names use
    /// it by default.
    #[arg(long)]
    pub build_tree: bool,
    /// Program: its directories include the file systems that are mounted beneath them. The
    /// kernel's own (/proc, /sys) stay out.
    #[arg(long)]
    pub mounts: bool,
    /// Program: a single file of any kind, for example a device, that its paths may name.
    /// /dev/null, /dev/zero and /dev/full are always there, and /dev/urandom and /dev/random if the
    /// group `random` is allowed.
    #[arg(long = "file", value_name = "HOST[::GUEST]")]
    pub files: Vec<String>,
    /// Program: a file like --file that it may not write.
    #[arg(long = "file-read", value_name = "HOST[::GUEST]")]
    pub readable_files: Vec<String>,
    /// Program: another program that it may start, by the name that it uses (`/bin/sh` for `system`
    /// and `popen`). Output of `sfi cc` runs in a domain of its own with this program's grants, and
    /// starts nothing. Any other program runs on this machine with all rights of the user, and with
    /// arguments that the domain chose: a shell or an interpreter means no sandbox. It must not lie
    /// in a directory that this program may change.
    #[arg(long = "program", value_name = "NAME[=FILE]")]
    pub programs: Vec<String>,
    /// Program: a variable that programs of this machine get from it, besides LANG, LC_*, TERM,
    /// COLUMNS, LINES and POSIXLY_CORRECT. PATH is this environment's.
    #[arg(long = "program-env", value_name = "NAME")]
    pub program_variables: Vec<String>,
    /// Program: it may have TCP and UDP sockets at 127.0.0.1 and ::1. They reach all services of
    /// this machine there.
    #[arg(long, value_name = "loopback", value_parser = ["loopback"])]
    pub net: Option<String>,
    /// Program: it may change no directory and no file.
    #[arg(long)]
    pub read_only: bool,
    /// Program: the system calls that it may make, by names and groups: io, files, changes, memory,
    /// time, random, process, sockets, all.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "all")]
    pub allow: Vec<String>,
    /// Program: system calls and groups to remove from --allow.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub deny: Vec<String>,
    /// Program: the error of all other system calls.
    #[arg(long, default_value = "ENOSYS", value_name = "ENOSYS|EPERM", value_parser = parse_denial)]
    pub denied: Denial,
    /// Program: number of descriptors that it may hold.
    #[arg(long, default_value_t = Quota::default().descriptors, value_name = "COUNT")]
    pub max_descriptors: usize,
    /// Program: MiB that it may write in all. Default: no limit.
    #[arg(long, value_name = "MiB")]
    pub max_written: Option<u64>,
    /// Program: number of files, directories and links that it may make in all.
    #[arg(long, default_value_t = Quota::default().created, value_name = "COUNT")]
    pub max_created: u64,
    /// Program: it may fork, without threads. So may one that may start programs. Each fork has
    /// memory of its own, up to the limits of the first.
    #[arg(long)]
    pub fork: bool,
    /// Program: number of programs that it may have started and not waited for. Its forks count,
    /// and so do those that they start.
    #[arg(long, default_value_t = Quota::default().children, value_name = "COUNT")]
    pub max_children: usize,
    /// Resolution of a program's clocks, of files' times, and of `host_clock`. A manifest sets it
    /// for each domain.
    #[arg(long, default_value = "1 us", value_name = "TIME")]
    pub clock_resolution: Time,
    /// Print each system call on standard error: all calls, or the refused ones. Addresses are
    /// offsets in the domain's window.
    #[arg(long, value_name = "all|refused", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = parse_log)]
    pub log_syscalls: Option<Log>,
    /// At the end, print on standard error how often each system call was made and refused.
    #[arg(long)]
    pub count_syscalls: bool,
    /// The directory or file that a grant was for the program that started this one, in the order
    /// of the grants.
    #[arg(long = "same", hide = true, value_name = "IDENTITY")]
    identities: Vec<OsString>,
}

impl Grants {
    /// Returns the arbiter. No sleep is longer than `time_limit`. `options` are those of `sfi run`
    /// for programs that run in domains of their own. Without them no program starts.
    pub fn arbiter(&self, time_limit: Option<Duration>, options: Option<&ChildOptions>) -> anyhow::Result<Arbiter> {
        let mut preopens = Vec::new();
        for (host, guest, writable) in self.names(&self.directories, &self.readable) {
            let preopen = Preopen::open(Path::new(host), guest, writable);
            let preopen = preopen.with_context(|| format!("cannot open the directory `{host}`"))?;
            preopens.push(preopen.mounts(self.mounts));
        }
        for (host, guest, writable) in self.names(&self.files, &self.readable_files) {
            let preopen = Preopen::file(Path::new(host), guest, writable);
            preopens.push(preopen.with_context(|| format!("cannot grant the file `{host}`"))?);
        }
        let identities: Vec<OsString> = preopens.iter().map(Preopen::identity).collect();
        let is_same = self.identities.is_empty() || self.identities == identities;
        ensure!(is_same, "a granted directory or file is another one than at the start of the first program");
        let written = self.max_written.map_or(u64::MAX, |mebibytes| mebibytes.saturating_mul(1 << 20));
        let (descriptors, created) = (self.max_descriptors, self.max_created);
        let children = self.max_children;
        let quota = Quota { descriptors, written, created, children, ..Quota::default() }.within(time_limit);
        let calls = manifest::calls(&self.allow, &self.deny)?;
        let (denial, clock) = (self.denied, self.clock_resolution.0);
        let (mut programs, mut beneath) = (Vec::new(), None);
        if let Some(options) = options.map(|options| options.same(&identities)) {
            let options = &options;
            programs = self.programs.iter().map(|grant| self.startable(grant, options)).collect::<Result<_, _>>()?;
            beneath = self.build_tree.then(|| in_tree(options)).transpose()?;
        }
        let loopback = self.net.is_some();
        let mut policy =
            Policy { calls, preopens, denial, quota, clock, programs, beneath, loopback, ..Policy::default() };
        if let Some(directory) = &self.cwd {
            policy = policy.start_in(directory).with_context(|| format!("cannot start in `{directory}`"))?;
        }
        let arbiter = Arbiter::new(policy, Stdio::inherit()?).program();
        Ok(logging(arbiter, self.log_syscalls.unwrap_or_default(), "", None))
    }
}

impl Grants {
    /// Says whether the program may have other processes. The build tree must be resolved.
    pub fn makes_processes(&self) -> bool {
        self.fork || self.build_tree || !self.programs.is_empty()
    }

    /// Returns a program that may be started. `grant`: `NAME=FILE`, or one word for both.
    fn startable(&self, grant: &str, options: &ChildOptions) -> anyhow::Result<Startable> {
        let (name, file) = grant.split_once('=').unwrap_or((grant, grant));
        let file = Path::new(file);
        let head = std::fs::File::open(file)
            .and_then(|file| Startable::head(&file))
            .with_context(|| format!("cannot read the program `{}`", file.display()))?;
        let startable = match linked::mode(&head) {
            Some(mode) => Startable::domain(name, file, &runner()?, options.with(mode)),
            None => Startable::host(name, file).map(|program| program.variables(&self.program_variables)),
        };
        startable.with_context(|| format!("cannot grant the program `{}`", file.display()))
    }

    /// Returns the options that give another program these grants, without those to start programs.
    /// The build tree must be resolved.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let lists = [
            ("dir", &self.directories),
            ("dir-read", &self.readable),
            ("file", &self.files),
            ("file-read", &self.readable_files),
            ("deny", &self.deny),
        ];
        for (option, list) in lists {
            words.extend(list.iter().map(|value| format!("--{option}={value}").into()));
        }
        let flags = [("mounts", self.mounts), ("read-only", self.read_only)];
        words.extend(flags.iter().filter(|(_, set)| *set).map(|(option, _)| format!("--{option}").into()));
        words.extend(self.net.iter().map(|net| format!("--net={net}").into()));
        words.extend(self.max_written.iter().map(|most| format!("--max-written={most}").into()));
        let denied = match self.denied {
            Denial::NoSys => "ENOSYS",
            Denial::NotPermitted => "EPERM",
        };
        words.extend([
            format!("--allow={}", self.allow.join(",")).into(),
            format!("--denied={denied}").into(),
            format!("--max-descriptors={}", self.max_descriptors).into(),
            format!("--max-created={}", self.max_created).into(),
            format!("--clock-resolution={} ns", self.clock_resolution.0.as_nanos()).into(),
        ]);
        words
    }

    /// Puts grants of the root and of its marks in the place of `--build-tree`, once for a program
    /// and all that it starts. Outside of a build tree the option is gone.
    pub fn resolve(&mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.build_tree) {
            return Ok(());
        }
        let directory = std::env::current_dir().context("cannot find the working directory")?;
        let Some(root) = build_tree::around(&directory, std::env::home_dir().as_deref()) else { return Ok(()) };
        let name = |path: &Path| match path.to_str().map(|name| (name, name.contains("::"))) {
            Some((name, false)) => Ok(name.to_owned()),
            Some((name, true)) => anyhow::bail!("the build tree's name `{}` has `::` in it", visible(name)),
            None => anyhow::bail!("the build tree's name is not UTF-8"),
        };
        self.tell_sources(&root);
        // The entry of a grant stays where it is. Without its marks the tree of a later run would
        // be another one.
        self.files.extend(build_tree::marks(&root).map(|mark| name(&mark)).collect::<Result<Vec<_>, _>>()?);
        self.directories.push(name(&root)?);
        let working = directory.to_str().context("the working directory's name is not UTF-8")?;
        self.cwd.get_or_insert_with(|| working.to_owned());
        self.build_tree = true;
        Ok(())
    }

    /// Tells the user about sources outside a build tree that no option grants.
    fn tell_sources(&self, root: &Path) {
        let Some(sources) = build_tree::told_sources(root) else { return };
        let mut granted = self.directories.iter().chain(&self.readable);
        let holds = |name: &String| {
            let host = name.split_once("::").map_or(name.as_str(), |(host, _)| host);
            Path::new(host).canonicalize().is_ok_and(|directory| sources.starts_with(directory))
        };
        if !granted.any(holds) {
            let name = sources.to_string_lossy();
            eprintln!(
                "sfi: the sources of this build tree seem to lie in `{0}`, which is not granted; \
                if they do: SFI_RUN_FLAGS='--build-tree --dir-read {0}'",
                visible(&name)
            );
        }
    }

    /// Returns the grants for writing and for reading: the name on the host, the name in the
    /// domain, and whether the domain may change it.
    fn names<'a>(
        &self,
        writable: &'a [String],
        readable: &'a [String],
    ) -> impl Iterator<Item = (&'a str, &'a str, bool)> + use<'a> {
        let may = !self.read_only;
        let all = writable.iter().map(move |name| (name, may)).chain(readable.iter().map(|name| (name, false)));
        all.map(|(name, may)| {
            let (host, guest) = name.split_once("::").unwrap_or((name, name));
            (host, guest, may)
        })
    }
}

/// Returns the program that runs others in domains.
fn runner() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// Lets a program start the programs of its build tree, in domains of their own.
fn in_tree(options: &ChildOptions) -> anyhow::Result<Beneath> {
    let options = options.clone();
    let options =
        move |head: &[u8]| linked::mode(head).filter(|mode| options.may_start(*mode)).map(|m| options.with(m));
    Ok(Beneath { runner: runner()?, options: Box::new(options) })
}

/// Adds a log on standard error. It ends after `records` calls.
pub fn logging(arbiter: Arbiter, log: Log, prefix: &str, records: Option<u64>) -> Arbiter {
    let prefix = prefix.to_owned();
    let mut left = records.unwrap_or(RECORDS);
    let logger: Logger = Box::new(move |record: &Record| {
        if left > 0 && (log == Log::All || !record.granted) {
            left -= 1;
            let more = if left == 0 { "; no more calls are logged" } else { "" };
            eprintln!("{prefix}{record}{more}");
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
