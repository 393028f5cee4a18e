//! Turns a manifest's `syscalls` table into a policy.

use crate::{BadCall, CLOCK_RESOLUTION, Calls, Denial, Policy, Preopen, Quota, Startable, Stdio};
use rustix::fs::{Mode, OFlags};
use sfi_loader::Access;
use sfi_loader::manifest::{Denied, Descriptor, Network, Syscalls};
use std::path::Path;
use std::time::Duration;

/// The error for a table whose grants cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A name in `allow` or `deny` is not known.
    #[error(transparent)]
    Call(#[from] BadCall),
    /// A directory, file or program cannot be opened.
    #[error("cannot open `{path}`")]
    File {
        /// The path as the manifest names it.
        path: String,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
}

/// Returns the calls of `allow` without those of `deny`.
///
/// # Errors
/// A name is no call or group that can be granted.
pub fn calls(allow: &[String], deny: &[String]) -> Result<Calls, BadCall> {
    let allowed = allow.iter().try_fold(Calls::none(), |calls, name| calls.allow(name))?;
    deny.iter().try_fold(allowed, |calls, name| calls.deny(name))
}

/// Returns the policy of a table. Paths are relative to `directory`, the manifest's. No sleep and
/// no wait is longer than `limit`, the manifest's limit of a call.
///
/// # Errors
/// [`TableError`].
pub fn policy(table: &Syscalls, directory: &Path, limit: Option<Duration>) -> Result<Policy, TableError> {
    let mut preopens = Vec::new();
    for (guest, grant) in &table.directories {
        let host = directory.join(&grant.host);
        let writable = grant.access == Access::ReadWrite;
        let preopen = Preopen::open(&host, guest, writable).map_err(|e| file(&host, e))?;
        preopens.push(preopen.mounts(grant.mounts));
    }
    for (guest, grant) in &table.files {
        let host = directory.join(&grant.host);
        let writable = grant.access == Access::ReadWrite;
        preopens.push(Preopen::file(&host, guest, writable).map_err(|e| file(&host, e))?);
    }
    let mut programs = Vec::new();
    for (name, grant) in &table.programs {
        let host = directory.join(&grant.host);
        let program = Startable::host(name, &host).map_err(|e| file(&host, e))?;
        programs.push(program.variables(&grant.environment));
    }
    let standard = Quota::default();
    let policy = Policy {
        calls: calls(&table.allow, &table.deny)?,
        preopens,
        denial: match table.denied {
            Denied::Enosys => Denial::NoSys,
            Denied::Eperm => Denial::NotPermitted,
        },
        quota: Quota {
            memory: table.quota.memory.map_or(standard.memory, |size| size.0),
            descriptors: table.quota.descriptors.unwrap_or(standard.descriptors),
            written: table.quota.written.map_or(standard.written, |size| size.0),
            created: table.quota.created.unwrap_or(standard.created),
            sleep: table.quota.sleep.map_or(standard.sleep, |time| time.0),
            wait: table.quota.wait.map_or(standard.wait, |time| time.0),
            children: table.quota.children.unwrap_or(standard.children),
        }
        .within(limit),
        clock: table.clock_resolution.map_or(CLOCK_RESOLUTION, |time| time.0),
        programs,
        loopback: table.network == Network::Loopback,
        ..Policy::default()
    };
    match &table.working_directory {
        Some(working) => policy.start_in(working).map_err(|e| file(Path::new(working), e)),
        None => Ok(policy),
    }
}

/// Opens the descriptors of a table, from number 0 on.
///
/// # Errors
/// One cannot be opened or duplicated.
pub fn descriptors(table: &Syscalls, directory: &Path) -> Result<Stdio, TableError> {
    let mut fds = Vec::new();
    for descriptor in &table.descriptors {
        let process = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| file(Path::new("descriptor"), e.into()));
        fds.push(match descriptor {
            Descriptor::None => None,
            Descriptor::Stdin => Some(process(rustix::stdio::stdin())?),
            Descriptor::Stdout => Some(process(rustix::stdio::stdout())?),
            Descriptor::Stderr => Some(process(rustix::stdio::stderr())?),
            Descriptor::Read(path) => Some(open(&directory.join(path), OFlags::RDONLY)?),
            Descriptor::Write(path) => {
                Some(open(&directory.join(path), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?)
            }
        });
    }
    Ok(Stdio { fds })
}

/// Opens a file of the host, without waiting for the other end of a FIFO. The arbiter waits when
/// the domain reads or writes.
fn open(path: &Path, flags: OFlags) -> Result<std::os::fd::OwnedFd, TableError> {
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, mode)
        .map_err(|e| file(path, e.into()))
}

fn file(path: &Path, error: std::io::Error) -> TableError {
    TableError::File { path: path.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host waits for neither end of a FIFO.
    #[test]
    fn nobody_waits_for_a_fifo() {
        let directory = tempfile::tempdir().expect("directory");
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("fifo"), Mode::from_raw_mode(0o600)).expect("FIFO");
        let table = |text: &str| {
            let manifest =
                format!("[domains.a]\nobjects = []\n[domains.a.syscalls]\nallow = []\ndescriptors = [{text}]\n");
            let manifest = sfi_loader::manifest::Manifest::parse(&manifest, Path::new("m.toml")).expect("a manifest");
            let syscalls = manifest.domains["a"].syscalls.clone().expect("a table");
            descriptors(&syscalls, directory.path()).map(|stdio| stdio.fds.len())
        };
        assert!(table("{ write = 'fifo' }").is_err());
        assert_eq!(table("{ read = 'fifo' }").expect("opened"), 1);
    }
}
