//! The `syscalls` table of a domain: the permissions of its system calls. The arbitration code
//! turns it into a policy.
//!
//! ```toml
//! [domains.app.syscalls]
//! # Groups and names. Without them only set-up and exit are allowed.
//! allow = ["io", "files", "memory", "getrandom"]
//! deny = ["ftruncate"]                        # taken away again
//! denied = "EPERM"                            # the answer of others: ENOSYS (default) or EPERM
//! log = "refused"                             # off (default), refused or all: on standard error
//! descriptors = ["stdin", "stdout", "stderr", { read = "in.bin" }, "none", { write = "out.bin" }]
//! arguments = ["-v"]                          # between the program's name and the command line's
//! environment = ["LANG=C", "TERM"]            # without a value: as the host has it, if it has it
//! working_directory = "/data"                 # at the start; the root otherwise
//! clock_resolution = "1 ms"                   # of clocks and of files' times; 1 us otherwise
//! network = "loopback"                        # sockets at 127.0.0.1 and ::1; none otherwise
//!
//! [domains.app.syscalls.directories]
//! "/data" = { host = "data" }                 # read-only, relative to the manifest
//! "/out" = { host = "out", access = "read-write" }
//! "/tree" = { host = "tree", mounts = true }  # with the file systems mounted beneath it
//!
//! [domains.app.syscalls.files]
//! "/dev/urandom" = { host = "/dev/urandom" }  # single files, of any kind
//!
//! [domains.app.syscalls.programs]
//! "/bin/sh" = { host = "/bin/sh", environment = ["HOME"] }  # runs with all rights of the user
//!
//! [domains.app.syscalls.quota]
//! memory = "16 MiB"                           # of its heap
//! descriptors = 64
//! written = "1 GiB"                           # to all descriptors, in all
//! created = 1000                              # files, directories and links made, in all
//! sleep = "1 s"                               # of one call
//! wait = "1 s"                                # of one call, for a pipe, a terminal or a socket
//! children = 4                                # programs that run at a time
//! records = 10000                             # calls that are logged
//! ```

use crate::manifest::values::{Size, Time, access};
use crate::spec::Access;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The permissions of a domain's system calls.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syscalls {
    /// Names of calls and groups.
    pub allow: Vec<String>,
    /// Calls and groups taken away from `allow`.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The result of calls that are not allowed.
    #[serde(default)]
    pub denied: Denied,
    /// The calls that are logged.
    #[serde(default)]
    pub log: Log,
    /// Descriptors 0, 1, ... at the start.
    #[serde(default = "standard")]
    pub descriptors: Vec<Descriptor>,
    /// Directories by the names that the domain's paths use.
    #[serde(default)]
    pub directories: BTreeMap<String, Directory>,
    /// Files, of any kind, by the names that the domain's paths use.
    #[serde(default)]
    pub files: BTreeMap<String, File>,
    /// Programs of the host that the domain may start, by the names that it uses.
    #[serde(default)]
    pub programs: BTreeMap<String, Program>,
    /// The network that its sockets reach.
    #[serde(default)]
    pub network: Network,
    /// Quotas.
    #[serde(default)]
    pub quota: Quotas,
    /// Resolution of the domain's clocks, and of the times of files.
    pub clock_resolution: Option<Time>,
    /// A program's arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// A program's environment: `NAME=value`, or `NAME` for the host's own value.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The directory in which the program starts, by the domain's name for it.
    pub working_directory: Option<String>,
}

/// The result of a refused call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum Denied {
    /// `ENOSYS`: as if there were no such call.
    #[default]
    #[serde(rename = "ENOSYS")]
    Enosys,
    /// `EPERM`: as if it were forbidden.
    #[serde(rename = "EPERM")]
    Eperm,
}

/// The network that sockets reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// None: there are no sockets.
    #[default]
    None,
    /// 127.0.0.1 and ::1, with every service of the host there.
    Loopback,
}

/// The calls that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// None.
    #[default]
    Off,
    /// Those that are not allowed.
    Refused,
    /// All.
    All,
}

/// A descriptor at the start of the domain.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Descriptor {
    /// Closed.
    None,
    /// The process's standard input.
    Stdin,
    /// The process's standard output.
    Stdout,
    /// The process's standard error.
    Stderr,
    /// A file for reading.
    Read(PathBuf),
    /// A file for writing, made or emptied.
    Write(PathBuf),
}

/// A directory that a domain sees.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// The host's name for it.
    pub host: PathBuf,
    /// `read` (default) or `read-write`.
    #[serde(default = "read", deserialize_with = "access")]
    pub access: Access,
    /// Lets paths cross into file systems that are mounted beneath it.
    #[serde(default)]
    pub mounts: bool,
}

/// A single file that a domain sees: a regular file, a device, a FIFO.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The host's name for it.
    pub host: PathBuf,
    /// `read` (default) or `read-write`.
    #[serde(default = "read", deserialize_with = "access")]
    pub access: Access,
}

/// A program of the host that a domain may start. It runs with all rights of the user.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The host's name for it.
    pub host: PathBuf,
    /// Variables that it gets from the domain, besides those about language and terminal.
    #[serde(default)]
    pub environment: Vec<String>,
}

/// Quotas of a domain. One that is not set is unlimited, or the most that the arbitration code
/// allows.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// Bytes of its heap at a time.
    pub memory: Option<Size>,
    /// Descriptors at a time.
    pub descriptors: Option<usize>,
    /// Bytes written in all, including those by which files grow without a write.
    pub written: Option<Size>,
    /// Files, directories and links made in all.
    pub created: Option<u64>,
    /// Longest sleep of one call.
    pub sleep: Option<Time>,
    /// Longest wait of one call.
    pub wait: Option<Time>,
    /// Started programs that the domain did not wait for.
    pub children: Option<usize>,
    /// Calls that are logged.
    pub records: Option<u64>,
}

fn read() -> Access {
    Access::Read
}

fn standard() -> Vec<Descriptor> {
    vec![Descriptor::Stdin, Descriptor::Stdout, Descriptor::Stderr]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Manifest, text};

    #[test]
    fn the_documented_table_is_read() {
        let source = include_str!("syscalls.rs");
        let block = source.split("```").nth(1).unwrap();
        let table: String = block.lines().skip(1).map(|l| l.trim_start_matches("//!").to_owned() + "\n").collect();
        let text = format!("[entry]\ndomain = \"app\"\nfunction = \"main\"\n[domains.app]\nobjects = []\n{table}");
        let manifest: Manifest = text::read(&text).unwrap();
        let table = manifest.domains["app"].syscalls.as_ref().unwrap();
        assert_eq!((table.denied, table.log, table.allow.len()), (Denied::Eperm, Log::Refused, 4));
        assert_eq!(table.descriptors[3], Descriptor::Read("in.bin".into()));
        assert_eq!((&table.descriptors[4], table.descriptors.len()), (&Descriptor::None, 6));
        assert_eq!(table.directories["/data"].access, Access::Read);
        assert_eq!(table.directories["/out"].access, Access::ReadWrite);
        assert_eq!(table.quota.memory, Some(Size(16 << 20)));
        assert_eq!((table.quota.created, table.quota.records), (Some(1000), Some(10_000)));
        assert_eq!(table.clock_resolution.map(|time| time.0), Some(std::time::Duration::from_millis(1)));
        assert_eq!((table.directories["/data"].mounts, table.directories["/tree"].mounts), (false, true));
        assert_eq!((table.environment.len(), table.working_directory.as_deref()), (2, Some("/data")));
        assert_eq!(table.files["/dev/urandom"].access, Access::Read);
        assert_eq!((table.programs["/bin/sh"].environment.len(), table.quota.children), (1, Some(4)));
        assert_eq!(table.network, Network::Loopback);
        for (from, to, what) in [
            ("\"EPERM\"", "\"EACCES\"", "unknown variant `EACCES`"),
            ("\"refused\"", "\"some\"", "unknown variant `some`"),
            ("allow = ", "alow = ", "unknown field `alow`"),
            ("\"loopback\"", "\"all\"", "unknown variant `all`"),
            ("\"read-write\"", "\"write\"", "unknown access"),
        ] {
            let error = text::read::<Manifest>(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
