//! `mprotect` and the protections of `mmap`: closed pages fault in the domain, and the host's
//! copies of them are errors.

mod support;

use sfi_arbitration::{Policy, Stdio};
use sfi_loader::{AddressClass, FaultKind, MemoryError};
use support::Bench;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const ANYWHERE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const NONE: u64 = libc::PROT_NONE as u64;
const READ: u64 = libc::PROT_READ as u64;
const BOTH: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const TRAPPED: Result<(), FaultKind> = Err(FaultKind::Memory(AddressClass::Protected));
/// Largest number of closed ranges of a domain.
const MOST: u64 = 1024;

fn bench() -> Bench {
    Bench::with_memory(Policy::default(), Stdio { fds: Vec::new() }, 64 * MIB)
}

fn map(bench: &mut Bench, length: u64, protection: u64) -> u64 {
    let at = bench.ask(libc::SYS_mmap, &[0, length, protection, ANYWHERE, u64::MAX, 0]);
    u64::try_from(at).unwrap()
}

fn protect(bench: &mut Bench, at: u64, length: u64, protection: u64) -> i64 {
    bench.ask(libc::SYS_mprotect, &[at, length, protection])
}

fn refused(errno: i32) -> i64 {
    -i64::from(errno)
}

#[test]
fn closed_pages_trap() {
    for (protection, reads) in [(NONE, false), (READ, true)] {
        let mut bench = bench();
        let at = map(&mut bench, 3 * PAGE, BOTH);
        assert_eq!(bench.poke(at + PAGE, 7), Ok(()));
        assert_eq!(protect(&mut bench, at + PAGE, PAGE, protection), 0);
        assert_eq!((bench.poke(at + PAGE - 4, 1), bench.poke(at + 2 * PAGE, 1)), (Ok(()), Ok(())));
        // Opened again, the pages have their contents.
        assert_eq!(protect(&mut bench, at + PAGE, PAGE, BOTH), 0);
        assert_eq!((bench.peek(at + PAGE), bench.poke(at + PAGE, 8)), (Some(8 - 1), Ok(())));
        assert_eq!(protect(&mut bench, at, 2 * PAGE, protection), 0);
        assert_eq!(bench.poke(at + PAGE, 9), TRAPPED);
        // A new life of the domain has all of its heap.
        bench.restart();
        assert_eq!(bench.poke(at + PAGE, 9), Ok(()));
        let at = map(&mut bench, 3 * PAGE, protection);
        assert_eq!(bench.peek(at).is_some(), reads);
    }
}

#[test]
fn copies_of_closed_pages_are_errors() {
    let mut bench = bench();
    let at = map(&mut bench, 3 * PAGE, BOTH);
    let middle = at + PAGE;
    bench.memory().write(at, &vec![b'x'; 3 * PAGE as usize]).unwrap();
    assert_eq!(protect(&mut bench, middle, PAGE, NONE), 0);
    let place = middle & 0xffff_ffff;
    let closed = MemoryError::Closed { offset: place };
    let memory = bench.memory();
    assert_eq!(memory.read(middle, 1).unwrap_err(), closed);
    assert_eq!(memory.read(middle - 1, 2).unwrap_err(), closed);
    assert_eq!(memory.read(at, 3 * PAGE as usize).unwrap_err(), closed);
    assert_eq!(
        memory.read_into(middle + PAGE - 1, &mut [0; 2]).unwrap_err(),
        MemoryError::Closed { offset: place + PAGE - 1 }
    );
    assert_eq!(memory.load(middle).unwrap_err(), closed);
    // A string may end before them, and not in them.
    assert_eq!(memory.read_c_string(middle - 10, 100).unwrap_err(), closed);
    assert_eq!(
        memory.read_c_string(middle - 10, 5).unwrap_err(),
        MemoryError::Unterminated { offset: place - 10, limit: 5 }
    );
    assert_eq!(memory.read_c_string(middle, 5).unwrap_err(), closed);
    assert!(memory.writable(middle, 1).is_err() && memory.read(at, PAGE as usize).is_ok());
    assert!(bench.memory().write(middle - 1, b"ab").is_err());
    assert!(bench.memory().write(middle - 1, b"a").is_ok());
    // For the domain's system calls they are bad addresses.
    let fault = refused(libc::EFAULT);
    assert_eq!(bench.ask(libc::SYS_getcwd, &[middle, 100]), fault);
    assert_eq!(bench.ask(libc::SYS_getrandom, &[middle - 1, 100]), fault);
    assert_eq!(bench.ask(libc::SYS_chdir, &[middle - 10]), fault);
    // A request in a closed page answers nothing.
    assert_eq!(protect(&mut bench, middle, PAGE, READ), 0);
    assert_eq!(bench.memory().read(middle, 3).unwrap(), b"xxx");
    assert_eq!(bench.memory().write(middle, b"y").unwrap_err(), MemoryError::ReadOnly { offset: place });
    assert_eq!(bench.ask(libc::SYS_getrandom, &[middle, 4]), fault);
    assert_eq!(protect(&mut bench, middle, PAGE, BOTH), 0);
    assert_eq!(bench.ask(libc::SYS_getrandom, &[middle, 4]), 4);
}

#[test]
fn memory_that_is_given_out_is_open() {
    let mut bench = bench();
    let at = map(&mut bench, 4 * PAGE, NONE);
    assert_eq!(bench.ask(libc::SYS_munmap, &[at + PAGE, 2 * PAGE]), 0);
    assert_eq!(map(&mut bench, 2 * PAGE, BOTH), at + PAGE);
    assert_eq!((bench.peek(at + PAGE), bench.poke(at + 3 * PAGE - 4, 1)), (Some(0), Ok(())));
    // Free pages can be closed, and the next owner finds them open.
    let free = at - 8 * PAGE;
    assert_eq!(protect(&mut bench, free, 2 * PAGE, NONE), 0);
    assert_eq!(map(&mut bench, 8 * PAGE, BOTH), free);
    assert_eq!(bench.poke(free, 1), Ok(()));
    // The break grows over closed pages.
    let low = bench.memory().heap().start;
    assert_eq!(bench.ask(libc::SYS_brk, &[low + PAGE / 2]), (low + PAGE / 2) as i64);
    assert_eq!(protect(&mut bench, low, 3 * PAGE, READ), 0);
    assert_eq!(bench.ask(libc::SYS_brk, &[low + 2 * PAGE]), (low + 2 * PAGE) as i64);
    assert_eq!(bench.poke(low + PAGE, 1), Ok(()));
    // A closed mapping cannot move, because nobody can read it, and stays where it is.
    let maps = map(&mut bench, PAGE, NONE);
    let grow = [maps, PAGE, MIB, libc::MREMAP_MAYMOVE as u64];
    assert_eq!(bench.ask(libc::SYS_mremap, &grow), refused(libc::EFAULT));
    assert_eq!(protect(&mut bench, maps, PAGE, BOTH), 0);
    assert!(bench.ask(libc::SYS_mremap, &grow) > 0);
}

#[test]
fn a_host_with_an_address_keeps_pages_open() {
    let mut bench = bench();
    let at = map(&mut bench, 2 * PAGE, NONE);
    assert_eq!(bench.poke_open(at, 7), Ok(()));
    for protection in [NONE, READ] {
        assert_eq!(protect(&mut bench, at, PAGE, protection), 0);
        let other = map(&mut bench, PAGE, protection);
        assert_eq!((bench.poke(at, 8), bench.poke(other, 8)), (Ok(()), Ok(())));
        assert_eq!(bench.memory().read(other, 1).unwrap(), [8]);
    }
}

#[test]
fn only_heap_pages_are_closed() {
    let mut bench = bench();
    let (low, high) = (bench.memory().heap().start, bench.memory().heap().end);
    let window = low & !0xffff_ffff;
    let bad = refused(libc::EINVAL);
    let region = bench.at(0);
    for at in [window, region, low - PAGE, high - PAGE, high, low + 1, window + 0xffff_f000, !0 << 12, 0] {
        assert_eq!(protect(&mut bench, at, PAGE, NONE), bad, "{at:#x}");
    }
    for length in [high - low, u64::MAX, u64::MAX - PAGE, 1 << 32] {
        assert_eq!(protect(&mut bench, low, length, NONE), bad, "{length:#x}");
    }
    assert_eq!(protect(&mut bench, low, 0, NONE), 0);
    for bits in [libc::PROT_EXEC, libc::PROT_READ | libc::PROT_EXEC, -1] {
        assert_eq!(protect(&mut bench, low, PAGE, bits as u64), refused(libc::EACCES));
    }
    assert_eq!(bench.poke(low, 1), Ok(()));
    assert_eq!(bench.poke(region, 1), Ok(()));
}

#[test]
fn closed_ranges_are_counted() {
    let mut bench = bench();
    let at = map(&mut bench, 4 * MOST * PAGE, BOTH);
    let close = |bench: &mut Bench, i: u64| protect(bench, at + 2 * i * PAGE, PAGE, NONE);
    let first = (0..=MOST).find(|i| close(&mut bench, *i) != 0);
    assert_eq!(first, Some(MOST));
    assert_eq!(close(&mut bench, MOST), refused(libc::ENOMEM));
    assert_eq!(bench.poke(at + 2 * MOST * PAGE, 1), Ok(()), "what failed changed nothing");
    // One that is opened makes room, and so does joining two.
    assert_eq!(protect(&mut bench, at, PAGE, BOTH), 0);
    assert_eq!((close(&mut bench, MOST), close(&mut bench, MOST + 1)), (0, refused(libc::ENOMEM)));
    assert_eq!(protect(&mut bench, at + 3 * PAGE, PAGE, NONE), 0);
    assert_eq!(close(&mut bench, MOST + 1), 0);
    assert_eq!(bench.poke(at + 2 * MOST * PAGE, 1), TRAPPED);
}
