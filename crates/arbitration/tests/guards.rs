//! Guards that a program meets rarely: bits of modes, positions of directories, long transfers, and
//! waits.

mod support;

use sfi_arbitration::{Policy, Preopen, Quota, Stdio};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{BUFFER, Bench};

const CREATE: u64 = (libc::O_CREAT | libc::O_WRONLY) as u64;
const HERE: u64 = libc::AT_FDCWD as u64;
/// A wait of the policy. No test here may last as long.
const WAIT: Duration = Duration::from_secs(30);

/// Returns a tenant with a directory that it may change, `/d`, and one that it may read, `/r`.
fn bench(directory: &Path, quota: Quota, stdio: Stdio) -> Bench {
    for name in ["d", "r"] {
        fs::create_dir(directory.join(name)).unwrap();
        fs::write(directory.join(name).join("file"), "contents").unwrap();
    }
    let grant = |name: &str, writable| Preopen::open(&directory.join(name), format!("/{name}"), writable).unwrap();
    Bench::new(Policy { preopens: vec![grant("d", true), grant("r", false)], quota, ..Policy::default() }, stdio)
}

fn none() -> Stdio {
    Stdio { fds: Vec::new() }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn no_special_bits_of_modes_are_set() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut bench = bench(directory.path(), Quota::default(), none());
    assert_eq!(bench.ask_path(libc::SYS_open, "/d/new", &[CREATE, 0o7755]), 0);
    assert_eq!(mode(&at("d/new")), 0o755);
    assert_eq!(bench.ask(libc::SYS_fchmod, &[0, 0o7711]), 0);
    assert_eq!(mode(&at("d/new")), 0o711);
    assert_eq!(bench.ask_path(libc::SYS_chmod, "/d/new", &[0o7700]), 0);
    assert_eq!(mode(&at("d/new")), 0o700);
    assert_eq!(bench.ask_path(libc::SYS_mkdir, "/d/sub", &[0o7755]), 0);
    assert_eq!(mode(&at("d/sub")), 0o755);
}

#[test]
fn attributes_under_a_read_only_grant_stay() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r/file");
    let mut bench = bench(directory.path(), Quota::default(), none());
    let before = (mode(&file), fs::metadata(&file).unwrap().modified().unwrap());
    let refused = -i64::from(libc::EROFS);
    assert_eq!(bench.ask_path(libc::SYS_chmod, "/r/file", &[0o777]), refused);
    let path = bench.at(support::PATH);
    assert_eq!(bench.ask(libc::SYS_utimensat, &[HERE, path, 0, 0]), refused);
    assert_eq!((mode(&file), fs::metadata(&file).unwrap().modified().unwrap()), before);
}

#[test]
fn a_directory_waits_for_a_buffer_that_exists() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = bench(directory.path(), Quota::default(), none());
    assert_eq!(bench.ask_path(libc::SYS_open, "/d", &[libc::O_DIRECTORY as u64]), 0);
    assert_eq!(bench.ask(libc::SYS_getdents64, &[0, 8, 4096]), -i64::from(libc::EFAULT));
    let buffer = bench.at(BUFFER);
    let count = bench.ask(libc::SYS_getdents64, &[0, buffer, 4096]);
    let entries = bench.get(BUFFER, usize::try_from(count).unwrap());
    assert!(entries.windows(5).any(|name| name == b"file\0"), "{entries:?}");
}

#[test]
fn one_call_moves_a_bounded_number_of_bytes() {
    const MOST: i64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let mut bench = bench(directory.path(), Quota::default(), none());
    let buffer = bench.at(BUFFER);
    assert_eq!(bench.ask_path(libc::SYS_open, "/d/large", &[CREATE, 0o600]), 0);
    assert_eq!(bench.ask(libc::SYS_write, &[0, buffer, 3 << 20]), MOST);
    let parts: Vec<u8> = [buffer, 700 << 10, buffer, 700 << 10].iter().flat_map(|word| word.to_le_bytes()).collect();
    bench.put(support::PATH, &parts);
    let vector = bench.at(support::PATH);
    assert_eq!(bench.ask(libc::SYS_writev, &[0, vector, 2]), MOST);
    assert_eq!(fs::metadata(directory.path().join("d/large")).unwrap().len(), 2 << 20);
    assert_eq!(bench.ask_path(libc::SYS_open, "/d/large", &[0, 0]), 1);
    assert_eq!(bench.ask(libc::SYS_read, &[1, buffer, 3 << 20]), MOST);
    bench.put(support::PATH, &parts);
    assert_eq!(bench.ask(libc::SYS_preadv, &[1, vector, 2, 0]), MOST);
}

#[test]
fn growth_by_ftruncate_is_paid() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = bench(directory.path(), Quota { written: 1000, ..Quota::default() }, none());
    for (name, answer) in [("/d/one", 0), ("/d/two", -i64::from(libc::EDQUOT))] {
        let file = bench.ask_path(libc::SYS_open, name, &[CREATE, 0o600]);
        assert_eq!(bench.ask(libc::SYS_ftruncate, &[file as u64, 600]), answer, "{name}");
    }
}

#[test]
fn nobody_waits_who_asked_not_to() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let stdio = Stdio { fds: vec![Some(reader.into())] };
    let mut bench = bench(directory.path(), Quota { wait: WAIT, ..Quota::default() }, stdio);
    let (start, buffer, again) = (Instant::now(), bench.at(BUFFER), -i64::from(libc::EAGAIN));
    assert_eq!(bench.ask(libc::SYS_fcntl, &[0, libc::F_SETFL as u64, libc::O_NONBLOCK as u64]), 0);
    assert_eq!(bench.ask(libc::SYS_read, &[0, buffer, 1]), again);
    // A domain with one thread would wait for itself at its own pipe.
    assert_eq!(bench.ask(libc::SYS_pipe, &[buffer]), 0);
    assert_eq!(bench.ask(libc::SYS_read, &[1, buffer, 1]), again);
    let mut written = 0;
    let full = loop {
        match bench.ask(libc::SYS_write, &[2, buffer, 1 << 20]) {
            count if count > 0 => written += count,
            error => break error,
        }
    };
    assert_eq!((written, full), (65536, again));
    assert!(start.elapsed() < WAIT, "it waited");
    // A set of more descriptors than FD_SETSIZE is not read.
    bench.put(BUFFER, &[0; 16]);
    assert_eq!(bench.ask(libc::SYS_select, &[1025, 0, 0, 0, buffer]), -i64::from(libc::EINVAL));
}

/// Names the part of [`a_terminal_stays_its_own`] that runs in a session of its own.
const SESSION: &str = "SFI_TEST_CHILD";

#[test]
fn a_terminal_stays_its_own() {
    if std::env::var_os(SESSION).is_none() {
        let mut again = Command::new("setsid");
        again.args(["--wait".as_ref(), std::env::current_exe().unwrap().as_os_str()]);
        let status = again.args(["--exact", "a_terminal_stays_its_own"]).env(SESSION, "1").status();
        assert!(status.expect("setsid, of util-linux").success());
        return;
    }
    assert!(fs::File::open("/dev/tty").is_err(), "a new session has no terminal");
    let main = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx").unwrap();
    let mut name = [0; 64];
    // SAFETY: the descriptor is open, and the buffer is as long as is said.
    let named = unsafe {
        let main = std::os::fd::AsRawFd::as_raw_fd(&main);
        libc::grantpt(main) == 0 && libc::unlockpt(main) == 0 && libc::ptsname_r(main, name.as_mut_ptr(), 64) == 0
    };
    assert!(named, "{}", std::io::Error::last_os_error());
    // SAFETY: `ptsname_r` ended it with a zero.
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) }.to_str().unwrap();
    let policy = Policy { preopens: vec![Preopen::file(Path::new(name), "/tty", true).unwrap()], ..Policy::default() };
    let mut bench = Bench::new(policy, none());
    assert_eq!(bench.ask_path(libc::SYS_open, "/tty", &[libc::O_RDWR as u64]), 0);
    assert!(fs::File::open("/dev/tty").is_err(), "the domain's terminal became the host's");
}

#[test]
fn processor_time_is_the_threads() {
    const BUSY: Duration = Duration::from_millis(300);
    let directory = tempfile::tempdir().unwrap();
    let mut bench = bench(directory.path(), Quota::default(), none());
    let buffer = bench.at(BUFFER);
    let time = |bench: &mut Bench, number, which| {
        assert_eq!(bench.ask(number, &[which, buffer]), 0);
        let bytes = bench.get(BUFFER, 32);
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..][..8].try_into().unwrap());
        // `clock_gettime` counts nanoseconds, `getrusage` microseconds in and out of the kernel.
        match number {
            libc::SYS_getrusage => Duration::new(word(0) + word(2), (word(1) + word(3)) as u32 * 1000),
            _ => Duration::new(word(0), word(1) as u32),
        }
    };
    let clocks = [
        (libc::SYS_clock_gettime, libc::CLOCK_PROCESS_CPUTIME_ID as u64),
        (libc::SYS_clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID as u64),
        (libc::SYS_getrusage, libc::RUSAGE_SELF as u64),
    ];
    let before = clocks.map(|(number, which)| time(&mut bench, number, which));
    let busy = || {
        let start = Instant::now();
        while start.elapsed() < BUSY {}
    };
    std::thread::spawn(busy).join().unwrap();
    let waited = clocks.map(|(number, which)| time(&mut bench, number, which));
    busy();
    let worked = clocks.map(|(number, which)| time(&mut bench, number, which));
    for (i, clock) in clocks.iter().enumerate() {
        assert!(waited[i] - before[i] < BUSY / 10, "{clock:?} counts another thread: {before:?}, {waited:?}");
        assert!(worked[i] > waited[i], "{clock:?} counts nothing");
    }
}

#[test]
fn descriptors_have_names() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let file = directory.path().join("out");
    let stdio = Stdio { fds: vec![Some(reader.into()), Some(fs::File::create(&file).unwrap().into()), None] };
    let mut bench = bench(directory.path(), Quota { descriptors: 6, ..Quota::default() }, stdio);
    let (read, write, both) = (libc::O_RDONLY as u64, libc::O_WRONLY as u64, libc::O_RDWR as u64);
    let refused = |errno: i32| -i64::from(errno);
    assert_eq!(bench.ask_path(libc::SYS_open, "/dev/stdout", &[write | libc::O_TRUNC as u64]), 2);
    assert_eq!(bench.ask_path(libc::SYS_open, "/dev/fd/0", &[read | libc::O_NONBLOCK as u64]), 3);
    assert_eq!(bench.ask_path(libc::SYS_open, "/proc/self/fd/2", &[write]), 4);
    let buffer = bench.at(BUFFER);
    bench.put(BUFFER, b"text");
    for descriptor in [1, 2, 4] {
        assert_eq!(bench.ask(libc::SYS_write, &[descriptor, buffer, 4]), 4);
    }
    assert_eq!(fs::read(&file).unwrap(), b"texttexttext");
    assert_eq!(bench.ask(libc::SYS_read, &[3, buffer, 4]), refused(libc::EAGAIN));
    drop(writer);
    // A child of another test has the writer, too, until it runs its program.
    let end = Instant::now() + Duration::from_secs(10);
    while bench.ask(libc::SYS_read, &[3, buffer, 4]) == refused(libc::EAGAIN) && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(bench.ask(libc::SYS_read, &[3, buffer, 4]), 0);
    // No descriptor gets more than it had, and no other file is reached.
    for (path, flags, errno) in [
        ("/dev/stdin", write, libc::EACCES),
        ("/dev/stdin", both, libc::EACCES),
        ("/dev/stdout", read, libc::EACCES),
        ("/dev/stdout", write | (libc::O_CREAT | libc::O_EXCL) as u64, libc::EEXIST),
        ("/dev/stdout", write | libc::O_DIRECTORY as u64, libc::ENOTDIR),
        ("/dev/fd/5", read, libc::ENOENT),
        ("/dev/fd/4294967296", read, libc::ENOENT),
        ("/dev/fd/", read, libc::ENOENT),
        ("/dev/fd/+0", read, libc::ENOENT),
        ("/dev/fd/0/..", read, libc::ENOENT),
        ("/proc/self/fd/../mem", read, libc::ENOENT),
        ("/proc/self/mem", both, libc::ENOENT),
        ("/proc/1/fd/0", read, libc::ENOENT),
    ] {
        assert_eq!(bench.ask_path(libc::SYS_open, path, &[flags]), refused(errno), "{path} {flags:#x}");
    }
    let pipe = bench.ask_path(libc::SYS_stat, "/dev/fd/3", &[buffer]);
    let mode = u32::from_le_bytes(bench.get(BUFFER + 24, 4).try_into().unwrap());
    assert_eq!((pipe, mode & libc::S_IFMT), (0, libc::S_IFIFO));
    assert_eq!(bench.ask_path(libc::SYS_open, "/dev/stdout", &[write]), 5);
    assert_eq!(bench.ask_path(libc::SYS_open, "/dev/stdout", &[write]), refused(libc::EMFILE), "they are counted");
}
