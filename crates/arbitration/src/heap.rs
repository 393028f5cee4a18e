//! A domain's memory calls: `brk` from the bottom of its heap, `mmap` from the top.
//!
//! They reach no other part of the window: not text, dispatch table, header page or TCB page, and
//! no shared region. Memory that is given out or taken back is open. Only `mmap` and `mprotect`
//! close pages in use.

use crate::descriptors::{Descriptors, Kind};
use crate::errno::Errno;
use sfi_contract::layout::{PAGE_SIZE, WINDOW_SIZE};
use sfi_loader::{HostCall, MemoryError, PageAccess};
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest number of mappings of a domain: the kernel's own limit (`vm.max_map_count`).
const MOST_MAPS: usize = 65_530;

/// Zeros for one write. They are part of the program, so they are few.
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// The heap's records, in window offsets and whole pages.
#[derive(Debug)]
pub(crate) struct Heap {
    /// Bits of an address above the window offset.
    base: u64,
    low: u64,
    high: u64,
    brk: u64,
    /// The highest break so far. Memory above it is fresh.
    brk_used: u64,
    /// Length of each mapping, by its offset.
    maps: BTreeMap<u64, u64>,
    /// The lowest mapped offset so far. Memory below it is fresh.
    map_used: u64,
    /// Bytes that the domain may hold at a time.
    quota: u64,
    /// Says whether the domain asked for memory that forks would have in common.
    common: bool,
}

impl Heap {
    /// Makes the records of the caller's heap, with nothing in use.
    pub(crate) fn of(cx: &HostCall<'_>, quota: u64) -> Heap {
        let Range { start: low, end: high } = cx.heap();
        let offset = |address: u64| address & (WINDOW_SIZE - 1);
        let (start, end) = (offset(low), offset(low) + (high - low));
        // The last pages hold the program's arguments.
        let end = end.saturating_sub(crate::start::ARGUMENT_BYTES).max(start);
        Heap {
            base: low - start,
            low: start,
            high: end,
            brk: start,
            brk_used: start,
            maps: BTreeMap::new(),
            map_used: end,
            quota,
            common: false,
        }
    }

    /// Returns the bits of an address above the window offset.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the bytes that the domain may hold, and the free ones among them.
    pub(crate) fn size(&self) -> (u64, u64) {
        let total = (self.high - self.low).min(self.quota);
        (total, total.saturating_sub(self.given()))
    }

    /// Returns the bytes in use.
    fn given(&self) -> u64 {
        self.brk - self.low + self.maps.values().sum::<u64>()
    }

    fn within_quota(&self, more: u64) -> bool {
        self.given().saturating_add(more) <= self.quota
    }

    /// Sets the domain's access to the pages of a range.
    fn set_access(&self, cx: &mut HostCall<'_>, from: u64, to: u64, access: PageAccess) -> Result<(), Errno> {
        match cx.protect_heap(from, to.next_multiple_of(PAGE_SIZE) - from, access) {
            Ok(()) => Ok(()),
            Err(MemoryError::TooManyRanges) => Err(Errno::NOMEM),
            Err(_) => Err(Errno::ACCES),
        }
    }

    fn zero(cx: &mut HostCall<'_>, from: u64, to: u64) -> Result<(), Errno> {
        let mut at = from;
        while at < to {
            let length = (to - at).min(ZEROS.len() as u64);
            cx.write(at, &ZEROS[..length as usize])?;
            at += length;
        }
        Ok(())
    }

    /// Returns the lowest mapped offset.
    fn maps_low(&self) -> u64 {
        self.maps.keys().next().copied().unwrap_or(self.high)
    }

    /// `brk`: returns the new break, or the old one if it cannot move there.
    pub(crate) fn brk(&mut self, cx: &mut HostCall<'_>, address: u64) -> Result<u64, Errno> {
        let wanted = address.wrapping_sub(self.base);
        let more = wanted.saturating_sub(self.brk);
        if wanted >= self.low && wanted <= self.maps_low() && self.within_quota(more) {
            if wanted > self.brk {
                self.set_access(cx, self.brk & !(PAGE_SIZE - 1), wanted, PageAccess::ReadWrite)?;
                let reused = self.brk_used.min(wanted);
                Self::zero(cx, self.brk, reused)?;
                // Memory of former mappings is not fresh either.
                Self::zero(cx, self.map_used.max(self.brk), wanted)?;
            }
            self.brk = wanted;
            self.brk_used = self.brk_used.max(wanted);
        }
        Ok(self.base + self.brk)
    }

    /// Says whether the domain ever asked for memory that forks would have in common. It got
    /// private memory, which is the same until there is a fork.
    pub(crate) fn is_common(&self) -> bool {
        self.common
    }

    /// `mmap`: maps private memory that is never executable. A file's contents are copied.
    pub(crate) fn map(&mut self, cx: &mut HostCall<'_>, files: &Descriptors, args: &[u64; 6]) -> Result<u64, Errno> {
        let [hint, length, protection, flags, fd, offset] = *args;
        let flags = flags as i32;
        let access = access(protection)?;
        if flags & libc::MAP_TYPE != libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS == 0 {
            return Err(Errno::INVAL);
        }
        if length == 0 || length > WINDOW_SIZE {
            return Err(if length == 0 { Errno::INVAL } else { Errno::NOMEM });
        }
        let length = length.next_multiple_of(PAGE_SIZE);
        self.common |= flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let at = if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
            let replace = flags & libc::MAP_FIXED_NOREPLACE == 0;
            self.fixed(cx, hint, length, replace)?
        } else {
            self.find_gap(length).ok_or(Errno::NOMEM)?
        };
        if !self.within_quota(length) || self.maps.len() >= MOST_MAPS {
            return Err(Errno::NOMEM);
        }
        self.give(cx, at, length)?;
        let filled = match flags & libc::MAP_ANONYMOUS {
            0 => Self::fill(cx, files, (at, length), fd, offset),
            _ => Ok(()),
        };
        let closed = filled.and_then(|()| match access {
            PageAccess::ReadWrite => Ok(()),
            access => self.set_access(cx, at, at + length, access),
        });
        if let Err(error) = closed {
            self.maps.remove(&at);
            return Err(error);
        }
        Ok(self.base + at)
    }

    /// Adds a mapping in a free range and fills it with zeros.
    fn give(&mut self, cx: &mut HostCall<'_>, at: u64, length: u64) -> Result<(), Errno> {
        self.set_access(cx, at, at + length, PageAccess::ReadWrite)?;
        Self::zero(cx, at.max(self.map_used), at + length)?;
        Self::zero(cx, at, self.brk_used.min(at + length).max(at))?;
        self.map_used = self.map_used.min(at);
        self.maps.insert(at, length);
        Ok(())
    }

    /// Checks and frees a place that the domain chose. It must lie in the heap above the break.
    fn fixed(&mut self, cx: &mut HostCall<'_>, address: u64, length: u64, replace: bool) -> Result<u64, Errno> {
        let at = address.wrapping_sub(self.base);
        let floor = self.brk.next_multiple_of(PAGE_SIZE);
        let end = at.checked_add(length).ok_or(Errno::PERM)?;
        if !at.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::INVAL);
        }
        if at < floor || end > self.high {
            return Err(Errno::PERM);
        }
        let taken = self.maps.range(..end).any(|(start, mapped)| start + mapped > at);
        if taken && !replace {
            return Err(Errno::EXIST);
        }
        self.unmap(cx, address, length)?;
        Ok(at)
    }

    /// `mremap`: resizes a whole mapping or its tail, in place or at another place.
    pub(crate) fn remap(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6]) -> Result<u64, Errno> {
        let [address, old, new, flags, ..] = *args;
        if flags & !(libc::MREMAP_MAYMOVE as u64) != 0 || old == 0 || new == 0 {
            return Err(Errno::INVAL);
        }
        if new > WINDOW_SIZE {
            return Err(Errno::NOMEM);
        }
        self.check(address, old)?;
        let at = address.wrapping_sub(self.base);
        let (old, new) = (old.next_multiple_of(PAGE_SIZE), new.next_multiple_of(PAGE_SIZE));
        let (&start, &mapped) = self.maps.range(..=at).next_back().ok_or(Errno::FAULT)?;
        if at + old > start + mapped {
            return Err(Errno::FAULT);
        }
        if new <= old {
            if new < old {
                self.unmap(cx, address + new, old - new)?;
            }
            return Ok(address);
        }
        if !self.within_quota(new - old) {
            return Err(Errno::NOMEM);
        }
        let next = self.maps.range(start + 1..).next().map_or(self.high, |(next, _)| *next);
        if start + mapped == at + old && next - at >= new {
            self.give(cx, at + old, new - old)?;
            self.maps.remove(&(at + old));
            self.maps.insert(start, at + new - start);
            return Ok(address);
        }
        // The new place is one more mapping until the old one is gone, and a rest of the old one
        // may be another.
        if flags == 0 || self.maps.len() + 1 >= MOST_MAPS {
            return Err(Errno::NOMEM);
        }
        let to = self.find_gap(new).ok_or(Errno::NOMEM)?;
        self.give(cx, to, new)?;
        if let Err(error) = Self::copy(cx, at, to, old) {
            self.maps.remove(&to);
            return Err(error);
        }
        self.unmap(cx, address, old)?;
        Ok(self.base + to)
    }

    /// Copies bytes that the domain itself may read.
    fn copy(cx: &mut HostCall<'_>, from: u64, to: u64, length: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < length {
            let part = (length - done).min(1 << 20);
            let bytes = cx.read(from + done, part as usize)?;
            cx.write(to + done, &bytes)?;
            done += part;
        }
        Ok(())
    }

    fn fill(cx: &mut HostCall<'_>, files: &Descriptors, to: (u64, u64), fd: u64, offset: u64) -> Result<(), Errno> {
        let open = files.entry(fd)?;
        // Only regular files can be mapped, because reading them never waits.
        if open.kind != Kind::File {
            return Err(Errno(libc::ENODEV));
        }
        let fd = &open.fd;
        let mut bytes = vec![0; 1 << 20];
        let mut done = 0;
        while done < to.1 {
            let want = (to.1 - done).min(bytes.len() as u64) as usize;
            let count = rustix::io::pread(fd, &mut bytes[..want], offset.wrapping_add(done))?;
            if count == 0 {
                break;
            }
            cx.write(to.0 + done, &bytes[..count])?;
            done += count as u64;
        }
        Ok(())
    }

    /// Finds the highest gap above the break that is long enough.
    fn find_gap(&self, length: u64) -> Option<u64> {
        let mut end = self.high;
        for (&start, &mapped) in self.maps.iter().rev() {
            if end - (start + mapped) >= length {
                return Some(end - length);
            }
            end = start;
        }
        let floor = self.brk.next_multiple_of(PAGE_SIZE);
        (end.checked_sub(floor)? >= length).then(|| end - length)
    }

    /// `munmap`: removes whole mappings, and heads, tails and middles of them.
    pub(crate) fn unmap(&mut self, cx: &mut HostCall<'_>, address: u64, length: u64) -> Result<u64, Errno> {
        self.check(address, length)?;
        let start = address.wrapping_sub(self.base);
        let end = start + length.next_multiple_of(PAGE_SIZE);
        // A hole in the middle of a mapping makes two of it.
        if self.maps.len() >= MOST_MAPS && self.maps.range(..start).next_back().is_some_and(|(a, l)| a + l > end) {
            return Err(Errno::NOMEM);
        }
        let fresh = start.max(self.brk.next_multiple_of(PAGE_SIZE));
        if fresh < end {
            self.set_access(cx, fresh, end, PageAccess::ReadWrite)?;
        }
        let touched: Vec<(u64, u64)> =
            self.maps.range(..end).filter(|(at, mapped)| **at + **mapped > start).map(|(a, l)| (*a, *l)).collect();
        for (at, mapped) in touched {
            self.maps.remove(&at);
            if at < start {
                self.maps.insert(at, start - at);
            }
            if at + mapped > end {
                self.maps.insert(end, at + mapped - end);
            }
        }
        Ok(0)
    }

    /// `mprotect`: closes pages, or opens them again. They cannot become executable.
    pub(crate) fn protect(
        &self,
        cx: &mut HostCall<'_>,
        address: u64,
        length: u64,
        protection: u64,
    ) -> Result<u64, Errno> {
        let access = access(protection)?;
        self.check(address, length)?;
        if length > 0 {
            let start = address.wrapping_sub(self.base);
            self.set_access(cx, start, start + length, access)?;
        }
        Ok(0)
    }

    /// Checks that a range of whole pages lies in the heap.
    pub(crate) fn check(&self, address: u64, length: u64) -> Result<(), Errno> {
        let start = address.wrapping_sub(self.base);
        let end = length.checked_next_multiple_of(PAGE_SIZE).and_then(|l| start.checked_add(l)).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE_SIZE) || start < self.low || end > self.high {
            return Err(Errno::INVAL);
        }
        Ok(())
    }
}

/// Returns the access that a protection means. x86 has no pages that can be written and not read.
fn access(protection: u64) -> Result<PageAccess, Errno> {
    match protection as i32 {
        bits if bits & libc::PROT_EXEC != 0 => Err(Errno::ACCES),
        bits if bits & libc::PROT_WRITE != 0 => Ok(PageAccess::ReadWrite),
        bits if bits & libc::PROT_READ != 0 => Ok(PageAccess::Read),
        _ => Ok(PageAccess::None),
    }
}
