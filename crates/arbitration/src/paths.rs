//! Paths that a domain passes: the copies of them, and their look-up in the domain's tree.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::tree::{Start, Tree};
use crate::walk::{Found, Intent, Last, walk};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;

/// Longest path that a domain may pass, in bytes.
pub(crate) const PATH_LIMIT: usize = 4096;

/// Copies a path from a domain's memory.
pub(crate) fn copy_in(cx: &HostCall<'_>, pointer: u64) -> Result<String, Errno> {
    let bytes = cx.memory().read_c_string(pointer, PATH_LIMIT).map_err(|error| match error {
        sfi_loader::MemoryError::Unterminated { .. } => Errno::NAMETOOLONG,
        _ => Errno::FAULT,
    })?;
    String::from_utf8(bytes).map_err(|_| Errno::NOENT)
}

impl Tree {
    /// Looks up a path at `pointer`, relative to the descriptor `at` of the domain.
    pub(crate) fn find(
        &self,
        cx: &HostCall<'_>,
        files: &Descriptors,
        (at, pointer): (u64, u64),
        last: Last,
        intent: Intent,
    ) -> Result<Found, Errno> {
        let path = copy_in(cx, pointer)?;
        let base = match at as u32 as i32 {
            _ if path.starts_with('/') => "",
            libc::AT_FDCWD => &self.working,
            _ => files.entry(at)?.directory.as_deref().ok_or(Errno::NOTDIR)?,
        };
        self.look_up(base, &path, last, intent)
    }

    /// Returns the descriptor of the domain that a path names: `/dev/stdin`, `/dev/stdout`,
    /// `/dev/stderr`, `/dev/fd/N` or `/proc/self/fd/N`. A grant of that name goes first.
    pub(crate) fn descriptor(&self, cx: &HostCall<'_>, pointer: u64) -> Result<Option<u64>, Errno> {
        let path = copy_in(cx, pointer)?;
        let number = match path.as_str() {
            "/dev/stdin" => "0",
            "/dev/stdout" => "1",
            "/dev/stderr" => "2",
            path => match path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/")) {
                Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => number,
                _ => return Ok(None),
            },
        };
        Ok(number.parse::<u32>().ok().filter(|_| self.granted(&path).is_none()).map(u64::from))
    }

    /// Opens the host's directory for the working directory. `None`: the domain is above its
    /// grants.
    pub(crate) fn working_directory(&self) -> Result<Option<OwnedFd>, Errno> {
        let name = if self.working.is_empty() { "/" } else { &self.working };
        let found = self.look_up("", name, Last::Follow, Intent::Read)?;
        if found.is_above() {
            return Ok(None);
        }
        Ok(Some(rustix::io::fcntl_dupfd_cloexec(found.target()?.0, 3)?))
    }

    /// Looks up a path relative to a directory's name.
    pub(crate) fn look_up(&self, base: &str, path: &str, last: Last, intent: Intent) -> Result<Found, Errno> {
        match self.locate(base, path)? {
            Start::Grant(start, rest) => walk(self, start, &rest, last, intent),
            Start::Above(name) => Found::above(name),
        }
    }
}
