//! `posix_spawn`, a request of the support code in place of `fork`, and `execve`.
//!
//! All of it is copied from the domain before it is judged. File actions work on a copy of the
//! domain's descriptors, by the rules of the domain's own calls. The new program gets the first
//! three of the result.

use crate::descriptors::{Descriptors, Kind, Open};
use crate::errno::Errno;
use crate::paths::copy_in;
use crate::process::{Exit, SELF};
use crate::programs::{Start, Startable, meant};
use crate::start::ARGUMENT_BYTES;
use crate::tenant::State;
use crate::tree::Tree;
use crate::words::word;
use crate::{Arbiter, directories, files};
use rustix::fs::{Mode, OFlags};
use sfi_loader::HostCall;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most file actions of one request.
const ACTIONS: usize = 64;
/// Most words of an argument list or an environment.
const WORDS: usize = 8192;
/// The kernel's limit of one word (`MAX_ARG_STRLEN`).
const WORD: usize = 128 << 10;
/// Standard input, output and error.
const STANDARD: u64 = 3;

/// musl's `posix_spawn_file_actions_t`: the last action.
const LAST_ACTION: u64 = 8;
/// musl's `struct fdop`: the next older action, command, descriptor, source, flags, mode, path.
const OLDER: u64 = 0;
const COMMAND: u64 = 16;
const PATH: u64 = 36;
/// musl's numbers of the commands.
const CLOSE: u32 = 1;
const DUPLICATE: u32 = 2;
const OPEN: u32 = 3;
const CHANGE: u32 = 4;
const CHANGE_TO: u32 = 5;

/// Flags of `posix_spawnattr_t` that have no effect: a program starts with default actions, an
/// empty mask and its own process group.
const HARMLESS: u32 =
    (libc::POSIX_SPAWN_RESETIDS | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK) as u32 | USE_VFORK;
/// `POSIX_SPAWN_USEVFORK`
const USE_VFORK: u32 = 64;
/// A process group of its own, if the group that is asked for is 0.
const GROUP: u32 = libc::POSIX_SPAWN_SETPGROUP as u32;

/// Reads two numbers of 32 bits.
fn pair(cx: &HostCall<'_>, at: u64) -> Result<(u32, u32), Errno> {
    word(cx, at).map(|word| (word as u32, (word >> 32) as u32))
}

/// Copies a list of strings that ends with a null. `room` is the rest of the bytes for all lists.
fn strings(cx: &HostCall<'_>, list: u64, room: &mut usize) -> Result<Vec<OsString>, Errno> {
    let mut all = Vec::new();
    if list == 0 {
        return Ok(all);
    }
    loop {
        let pointer = word(cx, list.wrapping_add(8 * all.len() as u64))?;
        if pointer == 0 {
            return Ok(all);
        }
        let long = Errno(libc::E2BIG);
        let limit = WORD.min(*room);
        let bytes = cx.memory().read_c_string(pointer, limit).map_err(|error| match error {
            sfi_loader::MemoryError::Unterminated { .. } => long,
            _ => Errno::FAULT,
        })?;
        *room = room.checked_sub(bytes.len() + 9).filter(|_| all.len() < WORDS).ok_or(long)?;
        all.push(OsString::from_vec(bytes));
    }
}

/// Checks the attributes of a request.
fn check_attributes(cx: &HostCall<'_>, at: u64) -> Result<(), Errno> {
    if at == 0 {
        return Ok(());
    }
    let (flags, group) = pair(cx, at)?;
    let good = flags & !(HARMLESS | GROUP) == 0 && (flags & GROUP == 0 || group == 0);
    if good { Ok(()) } else { Err(Errno::INVAL) }
}

/// Returns the addresses of the file actions, in their order.
fn actions(cx: &HostCall<'_>, at: u64) -> Result<Vec<u64>, Errno> {
    let mut all = Vec::new();
    let mut next = if at == 0 { 0 } else { word(cx, at.wrapping_add(LAST_ACTION))? };
    while next != 0 {
        if all.len() == ACTIONS {
            return Err(Errno(libc::E2BIG));
        }
        all.push(next);
        next = word(cx, next.wrapping_add(OLDER))?;
    }
    all.reverse();
    Ok(all)
}

/// A program that is ready to start.
#[derive(Debug)]
pub(crate) struct Prepared {
    command: Command,
    /// The descriptors that it gets besides the standard ones: a program in a domain gets its file,
    /// and the rest of the quota that it has in common with its starter.
    passed: Vec<Arc<OwnedFd>>,
    /// Its working directory, which the command names until it runs.
    _directory: Option<OwnedFd>,
}

impl Prepared {
    /// Returns the numbers of the descriptors that it gets besides the standard ones.
    fn passed(&self) -> Vec<RawFd> {
        self.passed.iter().map(|file| file.as_raw_fd()).collect()
    }
}

impl Arbiter {
    /// Says whether no program is granted.
    pub fn starts_nothing(&self) -> bool {
        self.programs.is_empty() && self.beneath.is_none()
    }

    /// Finds the granted program that a domain means.
    fn granted(&self, tree: &Tree, path: &str, search: bool) -> Result<Cow<'_, Startable>, Errno> {
        let program = match (meant(&self.programs, path, &tree.working, search), &self.beneath) {
            (Some(program), _) => Cow::Borrowed(program),
            (None, Some(beneath)) if !search || path.contains('/') => Cow::Owned(beneath.program(tree, path)?),
            _ => return Err(Errno::NOENT),
        };
        if program.is_changeable(tree.preopens()) { Err(Errno::ACCES) } else { Ok(program) }
    }

    /// Prepares a granted program with arguments, environment, descriptors and working directory.
    fn prepare(
        &mut self,
        cx: &HostCall<'_>,
        program: &Startable,
        (argv, envp): (u64, u64),
        (files, tree): (&Descriptors, &Tree),
    ) -> Result<Prepared, Errno> {
        let mut room = ARGUMENT_BYTES as usize;
        let arguments = strings(cx, argv, &mut room)?;
        let environment = strings(cx, envp, &mut room)?;
        // A program of the host has no quota.
        let spending = if program.is_host() { None } else { Some(self.spending.share()?) };
        let number = spending.as_ref().map(|file| file.as_raw_fd());
        let start = Start { arguments, environment, working: tree.working.clone(), spending: number };
        let mut command = program.command(&start);
        let directory = if program.is_host() { tree.working_directory()? } else { None };
        // The new process has the descriptor until it runs the program.
        let place = directory.as_ref().map(|fd| format!("/proc/self/fd/{}", fd.as_raw_fd()));
        if program.is_host() {
            command.current_dir(place.as_deref().unwrap_or("/"));
        }
        let streams = (0..STANDARD).map(|number| stream(files, number)).collect::<Result<Vec<_>, _>>()?;
        connect(&mut command, streams);
        let passed = program.opened().into_iter().chain(spending).collect();
        Ok(Prepared { command, passed, _directory: directory })
    }

    /// Starts a granted program. Returns its number.
    pub(crate) fn spawn(&mut self, cx: &mut HostCall<'_>, state: &mut State, args: &[u64; 6]) -> Result<u64, Errno> {
        let [path, list, attributes, argv, envp, search] = *args;
        if self.starts_nothing() {
            return Err(self.denial.errno());
        }
        let path = copy_in(cx, path)?;
        let program = self.granted(&state.tree, &path, search != 0)?.into_owned();
        check_attributes(cx, attributes)?;
        let (mut files, mut tree) = (state.files.fork(), state.tree.clone());
        for action in actions(cx, list)? {
            let (command, descriptor) = pair(cx, action.wrapping_add(COMMAND))?;
            let (source, flags) = pair(cx, action.wrapping_add(COMMAND + 8))?;
            let (mode, _) = pair(cx, action.wrapping_add(COMMAND + 16))?;
            let path = action.wrapping_add(PATH);
            let descriptor = u64::from(descriptor);
            match command {
                // As in musl, closing what is not open is no error.
                CLOSE => drop(files.close(descriptor)),
                DUPLICATE => files.pass_on(source.into(), descriptor)?,
                OPEN => {
                    let (place, how) = ((files::CWD, path), (flags.into(), mode.into()));
                    let open = files::open(cx, &tree, &mut files, place, how, &mut self.spending)?;
                    if open != descriptor {
                        files.pass_on(open, descriptor)?;
                        files.close(open)?;
                    }
                }
                CHANGE => drop(directories::change(cx, &mut tree, path)?),
                CHANGE_TO => drop(directories::change_to(&mut tree, &files, descriptor)?),
                _ => return Err(Errno::INVAL),
            }
        }
        let mut prepared = self.prepare(cx, &program, (argv, envp), (&files, &tree))?;
        self.enter()?;
        let passed = prepared.passed();
        let started = state.children.start(&mut prepared.command, &passed, self.quota.children);
        self.entered(started)?;
        state.files.share_pipes();
        started
    }

    /// `execve`: ends the domain, and keeps a granted program to run in its place. Only a whole
    /// program is replaced, if its host does that.
    pub(crate) fn execute(
        &mut self,
        cx: &HostCall<'_>,
        state: &mut State,
        [path, argv, envp]: [u64; 3],
    ) -> Result<u64, Errno> {
        let Some(successor) = self.successor.clone().filter(|_| self.program && !self.starts_nothing()) else {
            return Err(self.denial.errno());
        };
        let path = copy_in(cx, path)?;
        let program = self.granted(&state.tree, &path, false)?.into_owned();
        successor.put(self.prepare(cx, &program, (argv, envp), (&state.files, &state.tree))?);
        state.exit = Some(Exit(NOT_REPLACED));
        Ok(0)
    }

    /// `wait4`. The program's use of resources is not told.
    pub(crate) fn wait(&mut self, cx: &mut HostCall<'_>, state: &mut State, args: &[u64; 6]) -> Result<u64, Errno> {
        /// Bytes of `struct rusage`.
        const USAGE: usize = 144;
        if self.starts_nothing() && !self.forks {
            return Err(self.denial.errno());
        }
        let [number, status, options, usage, ..] = *args;
        let options = options as i32;
        if options & !(libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) != 0 {
            return Err(Errno::INVAL);
        }
        for (at, length) in [(status, 4), (usage, USAGE)].into_iter().filter(|(at, _)| *at != 0) {
            cx.memory().writable(at, length)?;
        }
        let now = options & libc::WNOHANG != 0;
        let longest = if now { Duration::ZERO.into() } else { state.signals.patience(self.patience) };
        let Some((child, how)) = state.children.wait(number as i32, longest)? else {
            return if now { Ok(0) } else { Err(Errno::AGAIN) };
        };
        // Its place is free, also if the host waited for it.
        self.spending.leave(child as u32)?;
        let how = how?;
        if status != 0 {
            cx.write(status, &how.to_le_bytes())?;
        }
        if usage != 0 {
            cx.write(usage, &[0; USAGE])?;
        }
        Ok(child)
    }
}

/// The exit code of a program whose host does not replace it: the code of a shell that cannot run
/// a program.
const NOT_REPLACED: i32 = 126;

/// The program that a whole program asked to be replaced by (`execve`), in a handle that stays
/// valid after the arbiter is gone.
#[derive(Clone, Debug, Default)]
pub struct Successor(Arc<Mutex<Option<Prepared>>>);

impl Successor {
    fn put(&self, prepared: Prepared) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
    }

    /// Says whether no program was asked for.
    pub(crate) fn is_none(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Replaces this process by the program, if one was asked for. Returns the error if that fails.
    /// The domain's world must be gone, so that the programs end that it started.
    pub fn run(&self) -> Option<std::io::Error> {
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let passed = prepared.passed();
        Some(sfi_loader::replace(&mut prepared.command, &passed))
    }
}

/// Connects the three standard streams.
fn connect(command: &mut Command, streams: Vec<Stdio>) {
    let mut streams = streams.into_iter();
    let mut next = || streams.next().unwrap_or_else(Stdio::null);
    command.stdin(next()).stdout(next()).stderr(next());
}

/// Returns the stream for a descriptor. One that is closed, or that closes itself, leads nowhere.
fn stream(files: &Descriptors, number: u64) -> Result<Stdio, Errno> {
    match files.entry(number) {
        Ok(open) if !open.flags.cloexec => Ok(own(open)?.into()),
        _ => Ok(Stdio::null()),
    }
}

/// Returns a descriptor for another process. The domain's own pipes never wait, and programs expect
/// that theirs do, so such a pipe is opened once more. That waits for nobody, as it would for a
/// FIFO.
fn own(open: &Open) -> Result<OwnedFd, Errno> {
    if open.kind != Kind::Pipe || !open.made {
        return Ok(rustix::io::fcntl_dupfd_cloexec(&open.fd, STANDARD as i32)?);
    }
    let flags = rustix::fs::fcntl_getfl(&open.fd)?;
    let name = format!("/proc/self/fd/{}", open.fd.as_raw_fd());
    Ok(rustix::fs::open(name, flags & OFlags::ACCMODE | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?)
}

/// `kill`: a signal to the domain itself, to one of its children or to the process that it was
/// forked from.
pub(crate) fn kill(state: &mut State, own: u64, to: u64, signal: u64) -> Result<u64, Errno> {
    let number = to as i32;
    match u64::try_from(number) {
        Ok(to) if to == own || to == SELF => state.signals.send(&[SELF], signal),
        _ => state.children.send(number, u64::from(signal as u32)),
    }
}
