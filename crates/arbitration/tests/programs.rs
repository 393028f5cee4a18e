//! Programs that a domain starts: `posix_spawn` as the support code asks for it, `wait4`, `kill`.

mod support;

use sfi_arbitration::{Calls, Policy, Preopen, Quota, Startable, Stdio};
use sfi_contract::requests::EXECUTE;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{BUFFER, Bench};

/// Places in the region.
const NAME: u64 = 0x1000;
const ACTIONS: u64 = 0x8000;
const ATTRIBUTES: u64 = 0xc000;
const WORDS: u64 = 0x10000;
/// Bytes from one file action to the next.
const ACTION: u64 = 256;
const LONG: Duration = Duration::from_secs(60);

const CLOSE: u32 = 1;
const DUPLICATE: u32 = 2;
const OPEN: u32 = 3;
const CHANGE: u32 = 4;

fn refused(errno: i32) -> i64 {
    -i64::from(errno)
}

fn shell() -> Startable {
    Startable::host("/bin/sh", Path::new("/bin/sh")).unwrap()
}

fn policy(programs: Vec<Startable>) -> Policy {
    Policy { programs, quota: Quota { children: 2, wait: LONG, ..Quota::default() }, ..Policy::default() }
}

/// A request in the tenant's region.
struct Asked {
    bench: Bench,
    /// Offset of the next free byte for words.
    free: u64,
    actions: u64,
}

impl Asked {
    fn new(policy: Policy, stdio: Stdio) -> Asked {
        Asked { bench: Bench::new(policy, stdio), free: WORDS, actions: 0 }
    }

    /// Stores a list of strings. Returns its address.
    fn list(&mut self, words: &[&str]) -> u64 {
        let mut pointers = Vec::new();
        for word in words {
            pointers.extend(self.bench.at(self.free).to_le_bytes());
            self.bench.put(self.free, &[word.as_bytes(), &[0]].concat());
            self.free += word.len() as u64 + 1;
        }
        pointers.extend([0; 8]);
        self.free = self.free.next_multiple_of(8);
        let at = self.free;
        self.bench.put(at, &pointers);
        self.free += pointers.len() as u64;
        self.bench.at(at)
    }

    /// Adds a file action: musl's list begins with the last one.
    fn action(&mut self, command: u32, [descriptor, source, flags, mode]: [u32; 4], path: &str) {
        let at = ACTIONS + ACTION * (self.actions + 1);
        let older = if self.actions == 0 { 0 } else { self.bench.at(at - ACTION) };
        let mut bytes = [older, 0].map(u64::to_le_bytes).concat();
        bytes.extend([command, descriptor, source, flags, mode].map(u32::to_le_bytes).concat());
        self.bench.put(at, &[&bytes, path.as_bytes(), &[0]].concat());
        self.actions += 1;
        let last = self.bench.at(at);
        self.bench.put(ACTIONS, &[0, last].map(u64::to_le_bytes).concat());
    }

    /// Starts a program, with the actions so far.
    fn start(&mut self, path: &str, arguments: &[&str], environment: &[&str], search: u64) -> i64 {
        self.bench.put(NAME, &[path.as_bytes(), &[0]].concat());
        let (argv, envp) = (self.list(arguments), self.list(environment));
        let actions = if self.actions == 0 { 0 } else { self.bench.at(ACTIONS) };
        let name = self.bench.at(NAME);
        self.bench.ask(EXECUTE, &[name, actions, 0, argv, envp, search])
    }

    fn shell(&mut self, text: &str) -> i64 {
        self.start("/bin/sh", &["sh", "-c", text], &[], 0)
    }

    /// Waits for a program. Returns the answer and its status.
    fn wait(&mut self, number: i64, options: i32) -> (i64, i32) {
        let status = self.bench.at(BUFFER);
        self.bench.put(BUFFER, &[0xff; 4]);
        let answer = self.bench.ask(libc::SYS_wait4, &[number as u64, status, options as u64, 0]);
        (answer, i32::from_le_bytes(self.bench.get(BUFFER, 4).try_into().unwrap()))
    }
}

fn nothing() -> Stdio {
    Stdio { fds: Vec::new() }
}

#[test]
fn granted_programs_run_and_are_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let stdio = Stdio { fds: vec![None, Some(fs::File::create(&out).unwrap().into()), None] };
    let mut asked = Asked::new(policy(vec![shell()]), stdio);
    assert_eq!(asked.wait(-1, 0).0, refused(libc::ECHILD));
    let child = asked.start("/bin/sh", &["me", "-c", "echo $0 $LANG $OTHER; exit 3"], &["LANG=C", "OTHER=x"], 0);
    assert!(child > 1, "{child}");
    assert_eq!(asked.wait(child, 0), (child, 3 << 8));
    // The domain chooses no other name for a program of the host.
    assert_eq!(fs::read_to_string(&out).unwrap(), "/bin/sh C\n");
    assert_eq!(asked.wait(child, 0).0, refused(libc::ECHILD));
    let found = asked.start("sh", &["sh", "-c", "kill -9 $$"], &[], 1);
    assert_eq!(asked.wait(-1, 0), (found, 9));
    // The process number is one that programs can use.
    assert_eq!(asked.bench.ask(libc::SYS_getpid, &[]), i64::from(std::process::id()));
    assert_eq!(asked.bench.ask(libc::SYS_kill, &[std::process::id().into(), 0]), 0);
}

#[test]
fn only_granted_programs_run() {
    let mut none = Asked::new(policy(Vec::new()), nothing());
    assert_eq!(none.shell("exit 0"), refused(libc::ENOSYS));
    assert_eq!(none.bench.ask(libc::SYS_getpid, &[]), 1);
    let calls = Calls::all().deny("execve").unwrap();
    let mut denied = Asked::new(Policy { calls, ..policy(vec![shell()]) }, nothing());
    assert_eq!(denied.shell("exit 0"), refused(libc::ENOSYS));
    let mut asked = Asked::new(policy(vec![shell()]), nothing());
    for (path, search) in [("sh", 0), ("/bin/ls", 0), ("ls", 1), ("/bin", 0), ("/bin/sh/", 1), ("", 1), ("/", 0)] {
        let answer = asked.start(path, &["x"], &[], search);
        assert_eq!(answer, if path == "/bin/sh/" { answer.max(1) } else { refused(libc::ENOENT) }, "{path}");
        asked.wait(-1, 0);
    }
    for number in [libc::SYS_execve, libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone] {
        assert_eq!(asked.bench.ask(number, &[]), refused(libc::ENOSYS), "{number}");
    }
}

#[test]
fn file_actions_are_those_of_the_domain() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    let preopens = vec![Preopen::open(directory.path(), "/d", true).unwrap()];
    let mut asked = Asked::new(Policy { preopens, ..policy(vec![shell()]) }, nothing());
    let create = (libc::O_CREAT | libc::O_WRONLY) as u32;
    asked.action(CHANGE, [0; 4], "/d/sub");
    asked.action(OPEN, [7, 0, create, 0o600], "../text");
    asked.action(DUPLICATE, [1, 7, 0, 0], "");
    asked.action(CLOSE, [7, 0, 0, 0], "");
    asked.action(CLOSE, [9, 0, 0, 0], "");
    let child = asked.shell("echo text; touch here; ls /proc/self/fd >&1");
    assert_eq!(asked.wait(child, 0), (child, 0));
    assert_eq!(fs::read_to_string(directory.path().join("text")).unwrap(), "text\n0\n1\n2\n3\n");
    assert!(directory.path().join("sub/here").exists());
    // The domain's own descriptors and directory are as before.
    assert_eq!(asked.bench.ask(libc::SYS_fcntl, &[1, 1]), refused(libc::EBADF));
    let buffer = asked.bench.at(BUFFER);
    assert_eq!(asked.bench.ask(libc::SYS_getcwd, &[buffer, 100]), 2);
    for (command, numbers, path, errno) in [
        (OPEN, [1, 0, 0, 0], "/etc/passwd", libc::ENOENT),
        (OPEN, [1, 0, 0, 0], "/d/../etc/passwd", libc::EACCES),
        (OPEN, [1, 0, libc::O_PATH as u32, 0], "/d/text", libc::EINVAL),
        (OPEN, [4096, 0, 0, 0], "/d/text", libc::EBADF),
        (DUPLICATE, [1, 2, 0, 0], "", libc::EBADF),
        (DUPLICATE, [u32::MAX, u32::MAX, 0, 0], "", libc::EBADF),
        (CHANGE, [0; 4], "/etc", libc::ENOENT),
        (99, [0; 4], "", libc::EINVAL),
    ] {
        asked.actions = 0;
        asked.action(command, numbers, path);
        assert_eq!(asked.shell("exit 0"), refused(errno), "{command} {path}");
    }
}

#[test]
fn pipes_lead_to_the_program_and_wait() {
    let mut asked = Asked::new(policy(vec![shell()]), nothing());
    let buffer = asked.bench.at(BUFFER);
    assert_eq!(asked.bench.ask(libc::SYS_pipe2, &[buffer, libc::O_CLOEXEC as u64]), 0);
    asked.action(DUPLICATE, [1, 1, 0, 0], "");
    let child = asked.shell("sleep 0.2; echo text");
    assert!(child > 0);
    assert_eq!(asked.bench.ask(libc::SYS_close, &[1]), 0);
    assert_eq!(asked.bench.ask(libc::SYS_read, &[0, buffer, 100]), 5);
    assert_eq!(asked.bench.get(BUFFER, 5), b"text\n");
    assert_eq!(asked.bench.ask(libc::SYS_read, &[0, buffer, 100]), 0);
    assert_eq!(asked.wait(child, 0), (child, 0));
    // A descriptor that closes itself is not passed on.
    assert_eq!(asked.bench.ask(libc::SYS_pipe2, &[buffer, libc::O_CLOEXEC as u64]), 0);
    asked.actions = 0;
    let child = asked.shell("echo lost");
    assert_eq!(asked.wait(child, 0).0, child);
    assert_eq!(asked.bench.ask(libc::SYS_fcntl, &[1, libc::F_SETFL as u64, libc::O_NONBLOCK as u64]), 0);
    assert_eq!(asked.bench.ask(libc::SYS_read, &[1, buffer, 100]), refused(libc::EAGAIN));
}

/// To open a FIFO once more would wait for its other end.
#[test]
fn a_fifo_is_passed_on_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let preopens = vec![Preopen::file(&fifo, "/fifo", false).unwrap()];
    let mut asked = Asked::new(Policy { preopens, ..policy(vec![shell()]) }, nothing());
    assert_eq!(asked.bench.ask_path(libc::SYS_open, "/fifo", &[libc::O_NONBLOCK as u64]), 0);
    let child = asked.shell("cat; exit 6");
    assert_eq!(asked.wait(child, 0), (child, 6 << 8));
}

#[test]
fn children_are_counted_and_end_with_the_domain() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let mut asked = Asked::new(policy(vec![shell()]), nothing());
    let first = asked.shell(&format!("sleep 3; touch {}", mark.display()));
    let second = asked.shell("sleep 60");
    assert_eq!(asked.shell("exit 0"), refused(libc::EAGAIN));
    assert_eq!(asked.wait(-1, libc::WNOHANG), (0, -1));
    assert_eq!(asked.bench.ask(libc::SYS_kill, &[second as u64, libc::SIGTERM as u64]), 0);
    assert_eq!(asked.wait(second, 0), (second, libc::SIGTERM));
    let start = Instant::now();
    // A new life has no children, and those of the old one are gone.
    asked.bench.restart();
    assert_eq!(asked.wait(first, 0).0, refused(libc::ECHILD));
    std::thread::sleep(Duration::from_millis(3200).saturating_sub(start.elapsed()));
    assert!(!mark.exists());
}

#[test]
fn nobody_else_is_signalled_or_waited_for() {
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut asked = Asked::new(policy(vec![shell()]), nothing());
    let child = asked.shell("sleep 60");
    let (parent, init) = (u64::from(std::os::unix::process::parent_id()), 2);
    for number in [u64::from(other.id()), parent, init, 0, u64::MAX, -i64::from(other.id()) as u64] {
        assert_eq!(asked.bench.ask(libc::SYS_kill, &[number, 9]), refused(libc::ESRCH), "{number:#x}");
        let waited = asked.wait(number as i64, libc::WNOHANG).0;
        let any = number as i32 <= 0;
        assert_eq!(waited, if any { 0 } else { refused(libc::ECHILD) }, "{number:#x}");
    }
    assert!(other.try_wait().unwrap().is_none());
    for signal in [65, u64::from(u32::MAX)] {
        assert_eq!(asked.bench.ask(libc::SYS_kill, &[child as u64, signal]), refused(libc::EINVAL));
    }
    assert_eq!(asked.wait(child, -1).0, refused(libc::EINVAL));
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn hostile_requests_are_errors() {
    let mut asked = Asked::new(policy(vec![shell()]), nothing());
    let (name, argv) = (asked.bench.at(NAME), asked.list(&["sh", "-c", "exit 0"]));
    asked.bench.put(NAME, b"/bin/sh\0");
    let (fault, long) = (refused(libc::EFAULT), refused(libc::E2BIG));
    let bad = [8, 0xffff_fff8];
    for at in bad {
        for place in 0..5 {
            let mut words = [name, 0, 0, argv, 0, 0];
            words[place] = at;
            assert_eq!(asked.bench.ask(EXECUTE, &words), fault, "{place} {at:#x}");
        }
    }
    // Attributes that would leave the group or the session.
    for (flags, group, answer) in
        [(2, 1, libc::EINVAL), (128, 0, libc::EINVAL), (32, 0, libc::EINVAL), (1 << 16, 0, libc::EINVAL)]
    {
        asked.bench.put(ATTRIBUTES, &[flags, group].map(u32::to_le_bytes).concat());
        let attributes = asked.bench.at(ATTRIBUTES);
        assert_eq!(asked.bench.ask(EXECUTE, &[name, 0, attributes, argv, 0, 0]), refused(answer), "{flags} {group}");
    }
    // A list of actions without an end.
    let (at, place) = (asked.bench.at(ACTIONS), asked.bench.at(ACTIONS + ACTION));
    asked.bench.put(ACTIONS, &[0, place].map(u64::to_le_bytes).concat());
    asked.bench.put(ACTIONS + ACTION, &[place, 0, 1 | 9 << 32, 0, 0].map(u64::to_le_bytes).concat());
    assert_eq!(asked.bench.ask(EXECUTE, &[name, at, 0, argv, 0, 0]), long);
    // Lists and words without an end.
    let word = asked.list(&["word"]);
    let pointer = u64::from_le_bytes(asked.bench.get(word - asked.bench.at(0), 8).try_into().unwrap());
    asked.bench.put(0x20_0000, &pointer.to_le_bytes().repeat(1 << 16));
    let endless = asked.bench.at(0x20_0000);
    for place in [3, 4] {
        let mut words = [name, 0, 0, argv, 0, 0];
        words[place] = endless;
        assert_eq!(asked.bench.ask(EXECUTE, &words), long, "{place}");
    }
    asked.bench.put(0x30_0000, &[b'x'; 1 << 20]);
    let huge = asked.bench.at(0x30_0000);
    asked.bench.put(0x20_0000, &[huge, 0].map(u64::to_le_bytes).concat());
    assert_eq!(asked.bench.ask(EXECUTE, &[name, 0, 0, endless, 0, 0]), long);
    assert_eq!(asked.wait(-1, 0).0, refused(libc::ECHILD), "nothing was started");
    // A program without arguments has a name.
    let child = asked.bench.ask(EXECUTE, &[name, 0, 0, 0, 0, 0]);
    assert_eq!(asked.wait(child, 0), (child, 0));
}

#[test]
fn a_program_that_the_domain_could_write_does_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("program");
    fs::copy("/bin/true", &file).unwrap();
    let program = Startable::host("/program", &file).unwrap();
    for (writable, good) in [(false, true), (true, false)] {
        let preopens = vec![Preopen::open(directory.path(), "/d", writable).unwrap()];
        let mut asked = Asked::new(Policy { preopens, ..policy(vec![program.clone()]) }, nothing());
        let child = asked.start("/program", &["x"], &[], 0);
        assert_eq!(child > 0, good, "{child}");
        assert_eq!(asked.wait(-1, 0).0, if good { child } else { refused(libc::ECHILD) });
    }
}

/// A host that waits for a child takes its status. The place of the child is free all the same.
#[test]
fn a_child_that_the_host_waited_for_leaves_its_place() {
    // Its quota is shared, as that of a program with forks.
    let program = Startable::domain("/p", Path::new("/bin/sh"), Path::new("/bin/true"), Vec::new()).unwrap();
    let mut asked = Asked::new(policy(vec![program]), nothing());
    for _ in 0..5 {
        let child = asked.start("/p", &["p"], &[], 0);
        assert!(child > 1, "{child}");
        let pid = rustix::process::Pid::from_raw(child as i32).unwrap();
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(asked.wait(child, 0).0, refused(libc::ECHILD));
    }
}
