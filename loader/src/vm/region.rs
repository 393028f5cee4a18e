//! Shared regions: memory files that several domains and the host map.
//!
//! A region lies at one offset in every window that it is mapped in. It is mapped once more,
//! read-only, at that offset of a 4 GiB-aligned place that is no window. The addresses there are
//! the *common addresses* of the region. Pointers to the region hold them, in every domain, as long
//! as the world lives. Loads read there. Stores, and the loads of mode full, use the lower 32 bits
//! only and so reach the bytes in the domain's own window.

use crate::vm::address::{HostAddress, WindowOffset};
use crate::vm::ledger;
use crate::vm::memory::{Memory, MemoryError};
use crate::vm::space::Draw;
use crate::vm::window::DRAWS;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sfi_contract::layout::{GUARD_SIZE, REGION_SLOTS, WINDOW_SIZE, region_slot};
use std::ffi::c_void;

/// A shared region.
pub(crate) struct Region {
    pub name: String,
    /// The memory. Domains map it.
    pub file: OwnedFd,
    /// The host's own view.
    pub view: View,
    pub place: Placed,
    /// The reservation for the common addresses.
    pub common: Common,
}

impl Region {
    /// Returns another handle of the region, for a further lane. The first one has the common
    /// addresses and outlives it.
    pub(crate) fn again(&self) -> Result<Self, Errno> {
        let file = self.file.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        let view = View::map(&file, self.view.length)?;
        let common = Common { owned: false, ..self.common };
        Ok(Self { name: self.name.clone(), file, view, place: self.place, common })
    }
}

/// The place of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its place in every window that it is mapped in.
    pub offset: WindowOffset,
    /// Length in bytes, whole pages.
    pub length: u64,
    /// The common address of its first byte, which has the offset as its lower half.
    pub common: HostAddress,
}

impl Placed {
    /// Says whether an address is one of the region's common ones.
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.common..self.common + self.length).contains(&HostAddress::new(address))
    }
}

/// Most 4 GiB-aligned places of a world's regions. Each has its own [`region_slot`].
const MOST_PLACES: usize = 128;
const _: () = assert!(MOST_PLACES <= REGION_SLOTS / 2);

/// The upper halves of common addresses, by [`region_slot`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uppers(pub [u32; REGION_SLOTS]);

impl Uppers {
    /// The table without any. No upper half with the slot 0 is 1.
    pub(crate) const NONE: Self = {
        let mut all = [0; REGION_SLOTS];
        all[0] = 1;
        Self(all)
    };

    /// Collects the upper halves of addresses.
    pub(crate) fn of(addresses: impl Iterator<Item = HostAddress>) -> Self {
        let mut all = Self::NONE;
        for address in addresses {
            let address = address.number();
            all.0[region_slot(address)] = (address >> 32) as u32;
        }
        all
    }

    /// Says whether the upper half of an address is in the table.
    pub(crate) fn hold(&self, address: u64) -> bool {
        u64::from(self.0[region_slot(address)]) == address >> 32
    }
}

/// The place of a region's common addresses, reserved with guards around it.
#[derive(Debug)]
pub(crate) struct Common {
    start: HostAddress,
    length: u64,
    /// True while the region is mapped there.
    shown: bool,
    /// True if the value owns the reservation. Otherwise another one maps the region.
    owned: bool,
}

/// Most mappings for a region's common addresses: the region itself and the reservations on both
/// sides.
const COMMON_MAPPINGS: u64 = 3;

impl Common {
    /// Reserves room for a region of `length` bytes at the `offset` of a 4 GiB-aligned place. Draws
    /// the place uniformly among the free ones. `before` holds the common addresses of the world's
    /// other regions. If there are many of them, their places are shared.
    pub(crate) fn reserve(
        draw: &mut Draw<'_>,
        offset: WindowOffset,
        length: u64,
        before: &[HostAddress],
    ) -> Result<Self, Errno> {
        ledger::account(COMMON_MAPPINGS)?;
        let found = Self::find(draw, offset, length, before);
        if found.is_err() {
            ledger::forget(COMMON_MAPPINGS);
        }
        found
    }

    fn find(draw: &mut Draw<'_>, offset: WindowOffset, length: u64, before: &[HostAddress]) -> Result<Self, Errno> {
        let (from, to) = (offset.bytes() - GUARD_SIZE, offset.bytes() + length + GUARD_SIZE);
        for attempt in 0..DRAWS as usize {
            let shared = before.len().checked_sub(MOST_PLACES).map(|more| before[(more + attempt) % MOST_PLACES]);
            let base = match shared {
                Some(address) => address.number() & !(WINDOW_SIZE - 1),
                None => draw.space.draw_window(draw.rng) * WINDOW_SIZE,
            };
            let free = match shared {
                Some(_) => ledger::reserve_at(base + from, to - from)?,
                None if before.iter().any(|other| region_slot(other.number()) == region_slot(base)) => false,
                // The whole 4 GiB must be free. Otherwise the upper half would reveal the place of
                // host memory there.
                None => {
                    ledger::reserve_at(base, WINDOW_SIZE)? && {
                        Self::give_back(base, from);
                        Self::give_back(base + to, WINDOW_SIZE - to);
                        true
                    }
                }
            };
            if free {
                ledger::leave_out_of_dumps(base + from, to - from);
                return Ok(Self { start: HostAddress::new(base + offset.bytes()), length, shown: false, owned: true });
            }
        }
        Err(Errno::NOMEM)
    }

    /// Unmaps a part of a reservation. At the kernel's limit on mappings the place stays reserved
    /// and is lost.
    fn give_back(at: u64, length: u64) {
        // SAFETY: part of a reservation that its owner no longer uses.
        let _ = unsafe { munmap(at as *mut c_void, length as usize) };
    }

    /// Returns the address of the region's first byte.
    pub(crate) fn address(&self) -> HostAddress {
        self.start
    }

    /// Maps the region's file read-only, or unmaps it.
    pub(crate) fn show(&mut self, file: &OwnedFd, shown: bool) -> Result<(), Errno> {
        if shown == self.shown || !self.owned {
            return Ok(());
        }
        // SAFETY: the range lies inside this reservation, which nobody else uses. No reference
        // points to it.
        unsafe {
            if shown {
                let (at, length) = (self.start.pointer(), self.length as usize);
                mmap(at, length, ProtFlags::READ, MapFlags::SHARED | MapFlags::FIXED, file.as_fd(), 0)?;
            } else {
                ledger::empty(self.start.number(), self.length)?;
            }
        }
        self.shown = shown;
        Ok(())
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        Self::give_back(self.start.number() - GUARD_SIZE, self.length + 2 * GUARD_SIZE);
        ledger::forget(COMMON_MAPPINGS);
    }
}

/// The host's mapping of a shared region.
#[derive(Debug)]
pub struct View {
    at: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to the value, and access goes only through copies by `&self` and
// `&mut self`.
unsafe impl Send for View {}

/// Makes a region of `length` bytes (whole pages) of zeroes.
pub(crate) fn create(length: u64) -> Result<(OwnedFd, View), Errno> {
    let file = memfd_create("region", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, length)?;
    let view = View::map(&file, length as usize)?;
    Ok((file, view))
}

impl View {
    /// Maps a file for the host.
    pub(crate) fn map(file: &OwnedFd, length: usize) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping of a file that nobody else can truncate.
        let at = unsafe {
            let rw = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), length, rw, MapFlags::SHARED, file.as_fd(), 0)?
        };
        Ok(Self { at: at.cast(), length })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Says whether the region is empty. It never is: regions have at least a page.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn check(&self, offset: usize, length: usize) -> Result<(), MemoryError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(MemoryError::OutOfBounds { offset: offset as u64, length }),
        }
    }

    /// Copies bytes out of the region.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], with the offset in the region.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        self.check(offset, out.len())?;
        // SAFETY: in bounds of the mapping, to which no reference is ever made. Other lanes of the
        // world, and writers of a `RegionFile` elsewhere, are like a device: the bytes may be a
        // mixture of old ones and new ones.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(offset), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], with the offset in the region.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check(offset, bytes.len())?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(offset), bytes.len()) };
        Ok(())
    }

    /// Copies bytes from another region, without a buffer between them.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], with the offset in the region that is too small.
    pub fn copy_from(&mut self, offset: usize, from: &View, at: usize, length: usize) -> Result<(), MemoryError> {
        self.check(offset, length)?;
        from.check(at, length)?;
        // SAFETY: in bounds of both mappings, which may show one file. Otherwise as in `read`.
        unsafe { std::ptr::copy(from.at.add(at), self.at.add(offset), length) };
        Ok(())
    }

    /// Returns the address of the first byte, for calls of the operating system. Others may write
    /// to the memory at any time, so nobody may make a reference to it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at
    }
}

impl Memory<'_> {
    /// Copies bytes of a region into the domain's memory, without a buffer between them.
    ///
    /// # Errors
    /// As [`Memory::writable`]; [`MemoryError::OutOfBounds`] with the offset in the region.
    pub fn write_from(&mut self, pointer: u64, from: &View, at: usize, length: usize) -> Result<(), MemoryError> {
        let offset = self.find_writable(pointer, length)?;
        from.check(at, length)?;
        // SAFETY: the range lies in the region, as was checked above.
        unsafe { self.window.write_from(offset, from.as_ptr().add(at), length) };
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value.
        let result = unsafe { munmap(self.at.cast(), self.length) };
        debug_assert!(result.is_ok(), "munmap of a region");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::space::AddressSpace;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Places differ in their slots as long as there are slots. Further regions share places at
    /// other offsets.
    #[test]
    fn common_places() {
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        let mut draw = Draw { rng: &mut rng, space: AddressSpace::Four };
        let (mut all, mut addresses) = (Vec::new(), Vec::new());
        for number in 0..3 * MOST_PLACES as u64 {
            let offset = WindowOffset::new(0x40_0000 + number * 0x3_0000);
            let common = Common::reserve(&mut draw, offset, 4096, &addresses).unwrap();
            assert_eq!(WindowOffset::of_pointer(common.address().number()), offset);
            addresses.push(common.address());
            all.push(common);
        }
        let uppers = Uppers::of(addresses.iter().copied());
        let addresses = addresses.into_iter().map(HostAddress::number).collect::<Vec<_>>();
        assert!(addresses.iter().all(|address| uppers.hold(*address)));
        let mut bases: Vec<u64> = addresses.iter().map(|address| address >> 32).collect();
        bases.sort_unstable();
        bases.dedup();
        assert_eq!(bases.len(), MOST_PLACES);
        // No other address is taken for one of them: no null pointer, no neighbour.
        for address in addresses.iter().copied().chain([0, 4096]) {
            for other in
                [address + (1 << 40), address.wrapping_sub(1 << 40), address ^ (1 << 32), address % WINDOW_SIZE]
            {
                assert_eq!(uppers.hold(other), bases.contains(&(other >> 32)), "{other:#x}");
            }
        }
        assert!((0..1 << 20).all(|upper: u64| !Uppers::NONE.hold(upper << 32)));
    }

    #[test]
    fn a_common_place_is_read_only_and_hidden() {
        let mut rng = ChaCha20Rng::from_seed([10; 32]);
        let mut draw = Draw { rng: &mut rng, space: AddressSpace::Four };
        let (file, mut view) = create(8192).unwrap();
        let mut common = Common::reserve(&mut draw, WindowOffset::new(0x1234_5000), 8192, &[]).unwrap();
        let protection = |address: u64| {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().find_map(|line| {
                let (range, rest) = line.split_once(' ')?;
                let (from, to) = range.split_once('-')?;
                let [from, to] = [from, to].map(|x| u64::from_str_radix(x, 16).unwrap());
                (from..to).contains(&address).then(|| rest[..4].to_owned())
            })
        };
        let at = common.address().number();
        for _ in 0..2 {
            assert_eq!([at - 1, at, at + 8191, at + 8192].map(protection), [(); 4].map(|()| Some("---p".to_owned())));
            common.show(&file, true).unwrap();
            let shown = ["---p", "r--s", "r--s", "---p"].map(|p| Some(p.to_owned()));
            assert_eq!([at - 1, at, at + 8191, at + 8192].map(protection), shown);
            view.write(4096, &[0x5a]).unwrap();
            // SAFETY: mapped readable.
            assert_eq!(unsafe { ((at + 4096) as *const u8).read_volatile() }, 0x5a);
            common.show(&file, false).unwrap();
        }
        drop(common);
        assert_eq!([at - 1, at, at + 8192].map(protection), [None, None, None]);
    }
}
