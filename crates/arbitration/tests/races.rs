//! Memory that changes while the arbiter answers a call. A second thread swaps requests, paths,
//! vectors and lengths in a shared region, as a domain of another world or the host could. Each
//! answer is one that some state of the memory deserves, and nothing else is touched.

mod support;

use sfi_arbitration::{Arbiter, GATEWAY, Policy, Preopen, Stdio};
use sfi_loader::{Access, DomainSpec, HostCall, HostError, Import, Manage, TypedFn, World};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::tenant;

const INSIDE: &str = "inside";
const OUTSIDE: &str = "outside";
/// A word of the host, and its value.
static CANARY: AtomicU64 = AtomicU64::new(SAFE);
const SAFE: u64 = 0x5afe_5afe_5afe_5afe;
const CALLS: usize = 4000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Offsets in the region: a request, a path, a vector, and a buffer.
const REQUEST: u64 = 0;
const PATH: u64 = 0x100;
const VECTOR: u64 = 0x1200;
const BUFFER: u64 = 0x2000;

struct Bench {
    world: World,
    /// Address of the region in the domain's window.
    region: u64,
}

impl Bench {
    fn new(directory: &Path) -> Self {
        std::fs::create_dir_all(directory.join("data")).unwrap();
        for (name, text) in [("data/file", INSIDE), ("file", OUTSIDE), ("data/writable", "")] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("../file", directory.join("data/link")).unwrap();
        let preopens = vec![Preopen::open(&directory.join("data"), "/data", true).unwrap()];
        let mut arbiter = Arbiter::new(Policy { preopens, ..Policy::default() }, Stdio::inherit().unwrap());
        let mut world = World::builder()
            .region("exchange", 1 << 16)
            .domain(
                DomainSpec::new("tenant")
                    .object("tenant.o", tenant(directory))
                    .shared("exchange", "exchange", Access::ReadWrite)
                    .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int")),
            )
            .host_fn(GATEWAY, move |cx: &mut HostCall<'_>| -> Result<u64, HostError> { arbiter.host_call(cx) })
            .build()
            .unwrap();
        let common = world.region_in("tenant", "exchange").unwrap().0;
        let region = world.domain("tenant").unwrap().secret_base() | common & 0xffff_ffff;
        Bench { world, region }
    }

    /// Makes a call with this request in the region.
    fn ask(&mut self, request: &[u64]) -> i64 {
        write(self.region + REQUEST, request);
        let ask: TypedFn<fn(u64) -> i64> = self.world.domain("tenant").unwrap().export("ask").unwrap();
        ask.call(&mut self.world, (self.region + REQUEST,)).unwrap()
    }

    /// Makes calls while a second thread writes one state after the other to a place, until `each`
    /// has seen enough. On a busy machine the second thread may wait for long.
    fn race(&mut self, place: u64, states: &[Vec<u64>], mut each: impl FnMut(&mut Bench) -> bool) {
        let (done, at) = (AtomicBool::new(false), self.region + place);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    states.iter().for_each(|state| write(at, state));
                }
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let (start, mut calls, mut enough) = (Instant::now(), 0, false);
                while (calls < CALLS || !enough) && start.elapsed() < PATIENCE {
                    enough = each(self);
                    calls += 1;
                }
            }));
            done.store(true, Ordering::Relaxed);
            result.unwrap();
        });
    }

    /// Returns the bytes that a descriptor reads, and closes it.
    fn contents(&mut self, descriptor: i64) -> String {
        let buffer = self.region + BUFFER;
        let count = self.ask(&[libc::SYS_read as u64, descriptor as u64, buffer, 64, 0, 0, 0]);
        assert_eq!(self.ask(&[libc::SYS_close as u64, descriptor as u64, 0, 0, 0, 0, 0]), 0);
        let bytes: Vec<u8> = (0..count as u64).map(|i| read(buffer + i)).collect();
        String::from_utf8(bytes).unwrap()
    }
}

/// Writes words to the region, which another thread may write too.
fn write(at: u64, words: &[u64]) {
    for (i, word) in words.iter().enumerate() {
        // SAFETY: the place lies in the region, which stays mapped while the world lives. All
        // accesses of this process to it are atomic, or copies by the loader, which expects
        // changes.
        unsafe { AtomicU64::from_ptr((at as *mut u64).add(i)) }.store(*word, Ordering::Relaxed);
    }
}

fn read(at: u64) -> u8 {
    // SAFETY: as in `write`.
    unsafe { (at as *const u8).read_volatile() }
}

/// Returns text as words, with zeros after it.
fn words(text: &str) -> Vec<u64> {
    let mut bytes = [0; 64];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_path_that_changes_leads_nowhere_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(directory.path());
    let outside = directory.path().join("file");
    let states = ["/data/file", "/data/../file", "/data/link", "/data/file/../../file", &outside.to_string_lossy(), ""];
    let path = bench.region + PATH;
    let (mut opened, mut refused) = (0, 0);
    bench.race(PATH, &states.map(words), |bench| {
        match bench.ask(&[libc::SYS_open as u64, path, 0, 0, 0, 0, 0]) {
            descriptor @ 0.. => {
                assert_eq!(bench.contents(descriptor), INSIDE);
                opened += 1;
            }
            _ => refused += 1,
        }
        opened > 10 && refused > 10
    });
    println!("{opened} opened, {refused} refused");
    assert!(opened > 10 && refused > 10, "{opened} opened, {refused} refused");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), OUTSIDE);
}

#[test]
fn vectors_and_lengths_that_change_reach_the_domain_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(directory.path());
    let (path, vector, buffer) = (bench.region + PATH, bench.region + VECTOR, bench.region + BUFFER);
    let host = CANARY.as_ptr() as u64;
    write(path, &words("/data/writable"));
    let descriptor = bench.ask(&[libc::SYS_open as u64, path, libc::O_RDWR as u64, 0, 0, 0, 0]);
    assert!(descriptor >= 0);
    let states = [
        vec![buffer, 8],
        vec![host, 8],
        vec![buffer, u64::MAX],
        vec![host & !0xfff, 1 << 12],
        vec![buffer, 1 << 31],
        vec![bench.region & !0xffff_ffff, 8],
    ];
    let (mut done, mut refused) = (0, 0);
    write(buffer, &[0x1111_1111_1111_1111]);
    bench.race(VECTOR, &states, |bench| {
        for number in [libc::SYS_writev, libc::SYS_readv] {
            assert!(bench.ask(&[libc::SYS_lseek as u64, descriptor as u64, 0, 0, 0, 0, 0]) == 0);
            match bench.ask(&[number as u64, descriptor as u64, vector, 1, 0, 0, 0]) {
                0.. => done += 1,
                _ => refused += 1,
            }
            assert_eq!(CANARY.load(Ordering::Relaxed), SAFE);
        }
        done > 10 && refused > 10
    });
    println!("{done} done, {refused} refused");
    assert!(done > 10 && refused > 10, "{done} done, {refused} refused");
    // No word of the host is in the file.
    let file = std::fs::read(directory.path().join("data/writable")).unwrap();
    assert!(file.windows(8).all(|word| word != SAFE.to_le_bytes()));
}

#[test]
fn a_request_that_changes_is_answered_as_one_that_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(directory.path());
    let (path, host) = (bench.region + PATH, CANARY.as_ptr() as u64);
    write(path, &words("/data/file"));
    let states = [
        vec![libc::SYS_open as u64, path, 0, 0, 0, 0, 0],
        vec![libc::SYS_open as u64, host, 0, 0, 0, 0, 0],
        vec![libc::SYS_getpid as u64, 0, 0, 0, 0, 0, 0],
        vec![libc::SYS_ptrace as u64, host, host, host, host, host, host],
        vec![libc::SYS_read as u64, 0, host, 0, 0, 0, 0],
    ];
    let ask: TypedFn<fn(u64) -> i64> = bench.world.domain("tenant").unwrap().export("ask").unwrap();
    let mut answers = std::collections::BTreeMap::new();
    bench.race(REQUEST, &states, |bench| {
        let answer = ask.call(&mut bench.world, (bench.region + REQUEST,)).unwrap();
        *answers.entry(answer.clamp(-4096, 1)).or_insert(0) += 1;
        assert_eq!(CANARY.load(Ordering::Relaxed), SAFE);
        answers.len() > 2
    });
    println!("{answers:?}");
    assert!(answers.len() > 2 && answers.keys().all(|answer| (-133..=1).contains(answer)), "{answers:?}");
}
