//! Guards of the heap: memory is zero when it is given out, nothing outside is, and all of it is
//! counted.

mod support;

use rustix::process::Resource;
use sfi_arbitration::{ARGUMENT_BYTES, Policy, Quota, Stdio};
use support::{BUFFER, Bench};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const ANYWHERE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const FIXED: u64 = ANYWHERE | libc::MAP_FIXED as u64;
const REFUSED: i64 = -(libc::ENOMEM as i64);
/// Largest number of mappings of a domain.
const MOST_MAPS: u64 = 65_530;

/// Returns a tenant, and the ends of its heap.
fn bench(quota: u64, memory: u64, stdio: Stdio) -> (Bench, u64, u64) {
    let policy = Policy { quota: Quota { memory: quota, ..Quota::default() }, ..Policy::default() };
    let mut bench = Bench::with_memory(policy, stdio, memory);
    let heap = bench.memory().heap();
    (bench, heap.start, heap.end)
}

fn usual(quota: u64) -> (Bench, u64, u64) {
    bench(quota, 16 * MIB, Stdio { fds: Vec::new() })
}

fn map(bench: &mut Bench, at: u64, length: u64, flags: u64) -> i64 {
    bench.ask(libc::SYS_mmap, &[at, length, 3, flags, u64::MAX, 0])
}

fn brk(bench: &mut Bench, to: u64) -> u64 {
    bench.ask(libc::SYS_brk, &[to]) as u64
}

fn dirty(bench: &mut Bench, at: u64, length: u64) {
    bench.memory().write(at, &vec![0x5a; length as usize]).unwrap();
}

fn is_zero(bench: &mut Bench, at: u64, length: u64) -> bool {
    bench.memory().read(at, length as usize).unwrap().iter().all(|byte| *byte == 0)
}

#[test]
fn memory_is_zero_when_it_is_given_out() {
    let (mut bench, low, _) = usual(u64::MAX);
    // The break, again over itself.
    assert_eq!(brk(&mut bench, low + 4 * PAGE), low + 4 * PAGE);
    dirty(&mut bench, low, 4 * PAGE);
    assert_eq!(brk(&mut bench, low + 10), low + 10);
    assert_eq!(brk(&mut bench, low + 4 * PAGE), low + 4 * PAGE);
    assert!(is_zero(&mut bench, low + 10, 4 * PAGE - 10));
    // A mapping over a former break.
    dirty(&mut bench, low, 4 * PAGE);
    assert_eq!(brk(&mut bench, low), low);
    assert_eq!(map(&mut bench, low + PAGE, 2 * PAGE, FIXED), (low + PAGE) as i64);
    assert!(is_zero(&mut bench, low + PAGE, 2 * PAGE));
    // The break over a former mapping.
    let at = low + 8 * PAGE;
    assert_eq!(map(&mut bench, at, 4 * PAGE, FIXED), at as i64);
    dirty(&mut bench, at, 4 * PAGE);
    assert_eq!(bench.ask(libc::SYS_munmap, &[at, 4 * PAGE]), 0);
    assert_eq!(bench.ask(libc::SYS_munmap, &[low + PAGE, 2 * PAGE]), 0);
    assert_eq!(brk(&mut bench, low + 12 * PAGE), low + 12 * PAGE);
    assert!(is_zero(&mut bench, at, 4 * PAGE));
}

#[test]
fn the_parts_of_the_heap_stay_apart() {
    let (mut bench, low, high) = usual(u64::MAX);
    let at = low + MIB;
    assert_eq!(map(&mut bench, at, PAGE, FIXED), at as i64);
    assert_eq!(brk(&mut bench, at + PAGE), low, "the break runs into a mapping");
    assert_eq!(brk(&mut bench, at), at);
    // The last bytes hold the program's arguments.
    let end = high - ARGUMENT_BYTES;
    assert_eq!(map(&mut bench, end, PAGE, FIXED), -i64::from(libc::EPERM));
    let first = map(&mut bench, 0, PAGE, ANYWHERE);
    assert_eq!(first, (end - PAGE) as i64);
    assert_eq!(map(&mut bench, 0, high - at - PAGE, ANYWHERE), REFUSED);
}

#[test]
fn a_mapping_grows_within_the_quota() {
    let (mut bench, ..) = usual(8 * MIB);
    let at = map(&mut bench, 0, 4 * MIB, ANYWHERE) as u64;
    let may_move = libc::MREMAP_MAYMOVE as u64;
    assert_eq!(bench.ask(libc::SYS_mremap, &[at, 4 * MIB, 9 * MIB, may_move]), REFUSED);
    assert!(bench.ask(libc::SYS_mremap, &[at, 4 * MIB, 8 * MIB, may_move]) > 0);
    assert_eq!(map(&mut bench, 0, PAGE, ANYWHERE), REFUSED);
}

#[test]
fn only_regular_files_are_mapped() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let (mut bench, ..) = bench(u64::MAX, 16 * MIB, Stdio { fds: vec![Some(reader.into())] });
    let private = libc::MAP_PRIVATE as u64;
    assert_eq!(bench.ask(libc::SYS_mmap, &[0, PAGE, 1, private, 0, 0]), -i64::from(libc::ENODEV));
}

#[test]
fn the_number_of_mappings_is_bounded() {
    let length = (2 * MOST_MAPS + 10) * PAGE;
    let (mut bench, ..) = bench(u64::MAX, length + 8 * MIB, Stdio { fds: Vec::new() });
    let at = map(&mut bench, 0, length, ANYWHERE) as u64;
    // A hole in the middle makes two of one. They are made from the top.
    let mut holes = (1..=MOST_MAPS + 1).map(|i| at + length - 2 * i * PAGE);
    let refused = holes.find_map(|hole| Some(bench.ask(libc::SYS_munmap, &[hole, PAGE])).filter(|answer| *answer != 0));
    assert_eq!(refused, Some(REFUSED));
    assert_eq!(holes.count(), 1, "there are as many mappings as may be");
    assert_eq!(map(&mut bench, 0, PAGE, ANYWHERE), REFUSED);
    let last = at + length - PAGE;
    assert_eq!(bench.ask(libc::SYS_mremap, &[last, PAGE, 2 * MIB, libc::MREMAP_MAYMOVE as u64]), REFUSED);
    assert_eq!(bench.ask(libc::SYS_munmap, &[last, PAGE]), 0);
    assert!(map(&mut bench, 0, PAGE, ANYWHERE) > 0);
}

/// A limit changes to nothing but what it is, and another process has none.
#[test]
fn limits_stay() {
    let mut bench = Bench::new(Policy::default(), Stdio::default());
    let (old, new) = (bench.at(BUFFER), bench.at(BUFFER + 64));
    let set = |bench: &mut Bench, kind: u64, limits: [u64; 2]| {
        bench.put(BUFFER + 64, &limits.map(u64::to_le_bytes).concat());
        bench.ask(libc::SYS_prlimit64, &[0, kind, new, old])
    };
    let refused = -i64::from(libc::EPERM);
    for kind in [Resource::Core, Resource::Data, Resource::Nofile, Resource::Stack].map(|kind| kind as u64) {
        assert_eq!(bench.ask(libc::SYS_prlimit64, &[0, kind, 0, old]), 0, "{kind}");
        let limit = u64::from_le_bytes(bench.get(BUFFER, 8).try_into().unwrap());
        assert_eq!(bench.get(BUFFER, 16), [limit, limit].map(u64::to_le_bytes).concat(), "{kind}");
        assert_eq!(set(&mut bench, kind, [limit; 2]), 0, "{kind}");
        for other in [[limit, limit ^ 4096], [limit ^ 4096, limit]] {
            assert_eq!(set(&mut bench, kind, other), refused, "{kind}");
        }
    }
    let core = Resource::Core as u64;
    assert_eq!(bench.ask(libc::SYS_prlimit64, &[0, core, 1 << 40, 0]), -i64::from(libc::EFAULT));
    assert_eq!(bench.ask(libc::SYS_prlimit64, &[2, core, 0, old]), refused);
}
