//! The process' account of address space: the parts that belong to windows.
//!
//! A window at `i * 4 GiB` is reserved without access together with the guard after it, the first
//! 64 KiB of the next 4 GiB. The first 512 KiB of a window are never mapped, so a directly
//! following window serves as guard too. The registry lets windows be neighbours. Their
//! reservations meet, and the kernel keeps one mapping for them.

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use sfi_contract::layout::{GUARD_SIZE, WINDOW_SIZE};
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Mappings that are left to the host. A process that uses up the kernel's limit cannot even start
/// a thread or grow its heap.
const HOST_MAPPINGS: u64 = 512;

/// The process' windows, by number.
struct Registry {
    /// Windows in use.
    live: HashSet<u64>,
    /// Windows that are not in use but still reserved, because the kernel could not unmap them at
    /// its limit.
    spare: HashSet<u64>,
    /// Mappings of windows and control stacks, at most.
    mappings: u64,
    /// `vm.max_map_count`.
    limit: u64,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| {
    Mutex::new(Registry { live: HashSet::new(), spare: HashSet::new(), mappings: 0, limit: map_limit() })
});

fn registry() -> MutexGuard<'static, Registry> {
    // A panic while the lock is held leaves the registry whole, so a poisoned lock is good.
    REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn map_limit() -> u64 {
    /// The kernel's default, for systems where `/proc` is not mounted.
    const DEFAULT: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
}

impl Registry {
    fn held(&self, window: u64) -> bool {
        self.live.contains(&window) || self.spare.contains(&window)
    }

    /// Returns the part of a window's reservation that no neighbour holds.
    fn extent(&self, window: u64) -> (u64, u64) {
        let guard = |held: bool| if held { GUARD_SIZE } else { 0 };
        let start = window * WINDOW_SIZE + guard(window > 0 && self.held(window - 1));
        let end = (window + 1) * WINDOW_SIZE + guard(!self.held(window + 1));
        (start, end)
    }
}

/// Reserves a window if its place is free. Returns `false` if other memory is there.
pub(crate) fn reserve(window: u64) -> Result<bool, Errno> {
    let mut registry = registry();
    if registry.live.contains(&window) {
        return Ok(false);
    }
    if !registry.spare.remove(&window) {
        let (start, end) = registry.extent(window);
        if !reserve_at(start, end - start)? {
            return Ok(false);
        }
        leave_out_of_dumps(start, end - start);
    }
    registry.live.insert(window);
    mark(window, true);
    Ok(true)
}

/// Unmaps a window and everything in it.
pub(crate) fn release(window: u64, mappings: u64) {
    let mut registry = registry();
    registry.mappings -= mappings;
    registry.live.remove(&window);
    mark(window, false);
    let (start, end) = registry.extent(window);
    // SAFETY: the range belongs to the window alone, whose owner no longer uses it.
    if unsafe { munmap(start as *mut c_void, (end - start) as usize) }.is_err() {
        // One mapping holds this reservation and the neighbours', and the kernel's limit leaves no
        // room to cut it. The window's contents go, and the reservation waits for its next use.
        // SAFETY: as above.
        if unsafe { empty(start, end - start) }.is_ok() {
            registry.spare.insert(window);
        } else {
            // The window can neither be unmapped nor emptied. It stays as it is and is never used
            // again.
            registry.live.insert(window);
        }
    }
}

/// Reserves a range without access. Returns `false` if other memory is there.
pub(crate) fn reserve_at(start: u64, length: u64) -> Result<bool, Errno> {
    // SAFETY: MAP_FIXED_NOREPLACE never touches an existing mapping, and the new one allows no
    // access.
    let result = unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        mmap_anonymous(start as *mut c_void, length as usize, ProtFlags::empty(), flags)
    };
    match result {
        Ok(at) if at as u64 == start => Ok(true),
        // A kernel older than 4.17 takes the address as a hint. SAFETY: unmaps the mapping that was
        // just made.
        Ok(at) => unsafe { munmap(at, length as usize).map(|()| false) },
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes the contents of a part of a reservation. Its place stays reserved.
///
/// # Safety
/// The range belongs to the caller alone, who no longer uses what is there.
pub(crate) unsafe fn empty(start: u64, length: u64) -> Result<(), Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: see the function's contract.
    unsafe { mmap_anonymous(start as *mut c_void, length as usize, ProtFlags::empty(), flags)? };
    leave_out_of_dumps(start, length);
    Ok(())
}

/// Keeps a range without access out of core dumps. gdb would write 4 GiB of zeroes for each window.
/// Later mappings in the range are dumped as usual.
pub(crate) fn leave_out_of_dumps(start: u64, length: u64) {
    // SAFETY: the advice changes neither contents nor access of the range.
    let advised = unsafe { madvise(start as *mut c_void, length as usize, Advice::LinuxDontDump) };
    // A kernel that refuses only writes larger dumps.
    debug_assert!(advised.is_ok(), "madvise of a reservation: {advised:?}");
}

/// Counts mappings that the caller is about to make.
///
/// # Errors
/// They would leave the host too few of the mappings that the kernel allows.
pub(crate) fn account(mappings: u64) -> Result<(), Errno> {
    let mut registry = registry();
    if registry.mappings + mappings + HOST_MAPPINGS.min(registry.limit / 2) > registry.limit {
        return Err(Errno::NOMEM);
    }
    registry.mappings += mappings;
    Ok(())
}

/// Takes mappings off the account.
pub(crate) fn forget(mappings: u64) {
    registry().mappings -= mappings;
}

/// The state of the process with respect to the kernel's limit on mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// `vm.max_map_count`.
    pub limit: u64,
    /// Mappings of the process, all of them.
    pub mappings: u64,
    /// Windows in use.
    pub domains: u64,
    /// True if the limit keeps the process from mapping more.
    pub exhausted: bool,
}

/// Counts the process' mappings. Slow if there are many. Allocates nothing large.
pub(crate) fn pressure() -> Pressure {
    use std::io::Read;
    let mut mappings = 0;
    if let Ok(mut maps) = std::fs::File::open("/proc/self/maps") {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = maps.read(&mut buffer) {
            mappings += buffer[..count].iter().filter(|b| **b == b'\n').count() as u64;
        }
    }
    let registry = registry();
    // A window takes a handful of mappings. The count may be off by some mappings that are no lines
    // of the file.
    let near = |count: u64| count + 64 >= registry.limit;
    let exhausted = near(mappings) || near(registry.mappings + HOST_MAPPINGS.min(registry.limit / 2));
    Pressure { limit: registry.limit, mappings, domains: registry.live.len() as u64, exhausted }
}

/// Number of windows in 47 bits of address space.
const LOW_WINDOWS: usize = 1 << 15;
/// The live windows of those: a bit for each, so that look-ups need no lock.
static LOW: [AtomicU64; LOW_WINDOWS / 64] = [const { AtomicU64::new(0) }; LOW_WINDOWS / 64];

/// Notes for look-ups whether a window is live.
fn mark(window: u64, live: bool) {
    if let Some(word) = LOW.get(window as usize / 64) {
        let bit = 1 << (window % 64);
        _ = if live { word.fetch_or(bit, Ordering::Release) } else { word.fetch_and(!bit, Ordering::Release) };
    }
}

/// Returns the base of the window that an address of this process lies in. Memory of the host lies
/// in none. The base is a secret, because other domains can find the domain's memory with it.
pub fn window_of(address: u64) -> Option<u64> {
    let window = address / WINDOW_SIZE;
    let live = match LOW.get(window as usize / 64) {
        Some(word) => word.load(Ordering::Acquire) >> (window % 64) & 1 != 0,
        None => registry().live.contains(&window),
    };
    live.then_some(window * WINDOW_SIZE)
}

/// Returns the number of windows that this process uses.
pub(crate) fn live() -> u64 {
    registry().live.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_live_windows_only() {
        let first = three();
        let at = |window: u64, offset: u64| (first + window) * WINDOW_SIZE + offset;
        assert_eq!(window_of(at(1, 0)), Some(at(1, 0)));
        assert_eq!(window_of(at(1, WINDOW_SIZE - 1)), Some(at(1, 0)));
        release(first + 1, 0);
        assert_eq!(window_of(at(1, 5)), None);
        assert_eq!(window_of(at(2, 5)), Some(at(2, 0)));
        release(first, 0);
        release(first + 2, 0);
        assert_eq!([window_of(0), window_of(&raw const first as u64), window_of(u64::MAX)], [None; 3]);
    }

    /// Returns the first of three neighbouring windows that are free. No place is certainly far
    /// from the windows of other tests, so it retries.
    fn three() -> u64 {
        (1000..20_000)
            .find(|first| {
                let taken: Vec<u64> = (*first..first + 3).take_while(|w| reserve(*w).unwrap()).collect();
                if taken.len() < 3 {
                    taken.iter().for_each(|w| release(*w, 0));
                }
                taken.len() == 3
            })
            .expect("three free neighbours")
    }

    fn mapped(start: u64, end: u64) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut covered = start;
        for line in maps.lines() {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [from, to] = [from, to].map(|x| u64::from_str_radix(x, 16).unwrap());
            if from <= covered && covered < to {
                covered = to;
            }
        }
        covered >= end
    }

    #[test]
    fn neighbours_share_guards_whatever_goes_first() {
        let at = |window: u64| window * WINDOW_SIZE;
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let first = three();
            assert!(!reserve(first).unwrap(), "reserved twice");
            let mut alive = vec![0, 1, 2];
            for gone in order {
                for w in &alive {
                    assert!(
                        mapped(at(first + w), at(first + w + 1) + GUARD_SIZE),
                        "{order:?}: window {w} of {alive:?}"
                    );
                }
                release(first + gone, 0);
                alive.retain(|w| *w != gone);
                assert!(!mapped(at(first + gone) + GUARD_SIZE, at(first + gone) + 2 * GUARD_SIZE));
            }
            assert!(!mapped(at(first), at(first) + 1) && !mapped(at(first + 3), at(first + 3) + 1));
        }
    }
}
