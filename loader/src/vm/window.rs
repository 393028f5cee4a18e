//! Windows at random places, and the mappings inside them.

use crate::vm::address::{HostAddress, WindowOffset};
use crate::vm::backing::Backing;
use crate::vm::closed::{Closed, PageAccess};
use crate::vm::ledger;
use crate::vm::space::AddressSpace;
use rand_chacha::ChaCha20Rng;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect};
use sfi_contract::layout::{PAGE_SIZE, WINDOW_SIZE};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most draws. With any sane address space the first or second succeeds.
pub(crate) const DRAWS: u32 = 10_000;

/// Protection of a mapping. There is no writable and executable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Protection {
    /// r--
    Read,
    /// rw-
    ReadWrite,
    /// r-x
    ReadExecute,
}

impl Protection {
    fn flags(self) -> ProtFlags {
        match self {
            Protection::Read => ProtFlags::READ,
            Protection::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Protection::ReadExecute => ProtFlags::READ | ProtFlags::EXEC,
        }
    }
}

/// Rounds up to whole pages.
pub(crate) const fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_SIZE)
}

/// A word of 64 bits that depends on the window's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct Word {
    /// Offset in its part or content.
    pub at: u32,
    /// The base is subtracted, not added: the word is the distance from the window to a fixed
    /// address.
    pub minus: bool,
}

/// The address space of a window.
#[derive(Debug)]
struct Reservation {
    base: HostAddress,
    /// Mappings of the window on the process' account.
    mappings: AtomicU64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // No domain runs in the window, and no references to window memory exist.
        ledger::release(self.base.number() / WINDOW_SIZE, *self.mappings.get_mut());
    }
}

/// A reserved window. Dropping it unmaps everything inside, once no view of it is left.
#[derive(Debug)]
pub(crate) struct Window {
    base: HostAddress,
    reservation: Option<Arc<Reservation>>,
    /// A domain with threads: the files of its memory. Other memory is private to the window.
    backing: Option<Arc<Backing>>,
    /// A view for another thread: the window in which the domain's text lies. It stays mapped as
    /// long as this one.
    text: Option<Arc<Reservation>>,
    /// The pages that the domain closed.
    closed: RefCell<Closed>,
}

impl Window {
    /// Draws a window uniformly among the free ones. It will take `mappings` mappings at most.
    pub(crate) fn reserve(rng: &mut ChaCha20Rng, space: AddressSpace, mappings: u64) -> Result<Self, Errno> {
        ledger::account(mappings)?;
        for _ in 0..DRAWS {
            let window = space.draw_window(rng);
            match ledger::reserve(window) {
                Ok(true) => {
                    let base = HostAddress::new(window * WINDOW_SIZE);
                    let reservation = Some(Arc::new(Reservation { base, mappings: mappings.into() }));
                    return Ok(Self { base, reservation, ..Self::none() });
                }
                Ok(false) => {}
                Err(error) => {
                    ledger::forget(mappings);
                    return Err(error);
                }
            }
        }
        ledger::forget(mappings);
        Err(Errno::NOMEM)
    }

    /// Takes memory that further windows can map.
    pub(crate) fn with_backing(self) -> Result<Self, Errno> {
        Ok(Self { backing: Some(Arc::new(Backing::create()?)), ..self })
    }

    /// Makes this window a view of another one, whose text runs and whose memory this one maps.
    pub(crate) fn viewing(self, other: &Window) -> Self {
        let text = other.text.clone().or_else(|| other.reservation.clone());
        Self { backing: other.backing.clone(), text, ..self }
    }

    /// Returns a handle that keeps the text's window and the memory, and has no address space of
    /// its own.
    pub(crate) fn origin(&self) -> Self {
        Self::none().viewing(self)
    }

    /// Returns another handle of this window. The window stays mapped as long as one is left.
    pub(crate) fn same(&self) -> Self {
        let Self { base, reservation, backing, text, closed } = self;
        let (reservation, backing, text) = (reservation.clone(), backing.clone(), text.clone());
        Self { base: *base, reservation, backing, text, closed: closed.clone() }
    }

    /// Returns an empty value without a window, in which nothing can be mapped.
    pub(crate) fn none() -> Self {
        Self { base: HostAddress::NULL, reservation: None, backing: None, text: None, closed: RefCell::default() }
    }

    /// Returns the window's base.
    pub(crate) fn base(&self) -> HostAddress {
        self.base
    }

    /// Returns the base that the domain counts its addresses from: that of the window in which its
    /// text runs.
    pub(crate) fn text_base(&self) -> HostAddress {
        self.text.as_ref().map_or(self.base, |text| text.base)
    }

    /// Says whether this is a view for a further thread.
    pub(crate) fn is_view(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the files of the memory, if further windows can map it.
    pub(crate) fn backing(&self) -> Option<&Arc<Backing>> {
        self.backing.as_ref()
    }

    /// Returns the address of a place in the window.
    pub(crate) fn at(&self, offset: WindowOffset) -> HostAddress {
        self.base + offset.bytes()
    }

    /// Returns the address by which the domain knows a place. In a view it differs from
    /// [`Window::at`].
    pub(crate) fn address(&self, offset: WindowOffset) -> HostAddress {
        self.text_base() + offset.bytes()
    }

    /// Returns the place in the window that an address means, or `None` for addresses elsewhere.
    pub(crate) fn place(&self, address: u64) -> Option<WindowOffset> {
        let from = |base: HostAddress| address.checked_sub(base.number()).filter(|distance| *distance < WINDOW_SIZE);
        from(self.base).or_else(|| from(self.text_base())).map(WindowOffset::new)
    }

    fn check(&self, offset: WindowOffset, length: u64) {
        assert!(
            !self.base.is_null()
                && offset == offset.page()
                && length > 0
                && length.is_multiple_of(PAGE_SIZE)
                && offset.checked_add(length).is_some_and(|end| end.bytes() <= WINDOW_SIZE),
            "mapping leaves the window"
        );
    }

    fn touch(&self, offset: WindowOffset, length: usize) {
        let end = offset.checked_add(length as u64);
        assert!(!self.base.is_null() && end.is_some_and(|end| end.bytes() <= WINDOW_SIZE), "access leaves the window");
    }

    /// Maps zeroed memory at `offset`, for the domain only: no other window maps it.
    pub(crate) fn map(&self, offset: WindowOffset, length: u64, protection: Protection) -> Result<(), Errno> {
        self.check(offset, length);
        // SAFETY: the range lies inside this reservation (checked above), which nobody else uses.
        unsafe {
            mmap_anonymous(
                self.at(offset).pointer(),
                length as usize,
                protection.flags(),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )?;
        }
        Ok(())
    }

    /// Maps a memory file from `from` on at `offset`, shared or copy-on-write.
    pub(crate) fn map_file(
        &self,
        offset: WindowOffset,
        length: u64,
        protection: Protection,
        file: BorrowedFd<'_>,
        from: u64,
        shared: bool,
    ) -> Result<(), Errno> {
        self.check(offset, length);
        let kind = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        // SAFETY: as in `map`.
        unsafe {
            mmap(self.at(offset).pointer(), length as usize, protection.flags(), kind | MapFlags::FIXED, file, from)?;
        }
        Ok(())
    }

    /// Unmaps a mapping. Its place stays reserved.
    pub(crate) fn unmap(&self, offset: WindowOffset, length: u64) -> Result<(), Errno> {
        self.check(offset, length);
        // SAFETY: as in `map`.
        unsafe { ledger::empty(self.at(offset).number(), length) }
    }

    /// Gives pages back to the kernel: the next access finds zeroes, or the file's bytes.
    pub(crate) fn discard(&self, offset: WindowOffset, length: u64) -> Result<(), Errno> {
        self.check(offset, length);
        if let Some(backing) = &self.backing {
            return backing.discard(offset, length);
        }
        // SAFETY: the range lies inside this reservation, and no reference to window memory is ever
        // made.
        unsafe { madvise(self.at(offset).pointer(), length as usize, Advice::LinuxDontNeed) }
    }

    /// Zeroes memory that is mapped writable.
    pub(crate) fn zero(&self, offset: WindowOffset, length: u64) {
        self.touch(offset, length as usize);
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(self.at(offset).pointer::<u8>(), 0, length as usize) };
    }

    /// Adds the base to words of memory that is mapped writable. Their places are relative to
    /// `offset`.
    pub(crate) fn rebase(&self, offset: WindowOffset, words: &[Word]) {
        let Some(last) = words.last() else { return };
        assert!(words.is_sorted(), "words out of order");
        self.touch(offset, last.at as usize + 8);
        for word in words {
            let at: *mut u64 = self.at(offset + u64::from(word.at)).pointer();
            let base = self.text_base().number();
            let base = if word.minus { base.wrapping_neg() } else { base };
            // SAFETY: as in `write`. All words lie at or before the last one.
            unsafe { at.write_unaligned(at.read_unaligned().wrapping_add(base)) };
        }
    }

    /// Changes the protection of mapped memory.
    pub(crate) fn protect(&self, offset: WindowOffset, length: u64, protection: Protection) -> Result<(), Errno> {
        self.check(offset, length);
        let flags = match protection {
            Protection::Read => MprotectFlags::READ,
            Protection::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
            Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
        };
        // SAFETY: the range lies inside this reservation.
        unsafe { mprotect(self.at(offset).pointer(), length as usize, flags) }
    }

    /// Sets the domain's access to pages that are mapped writable for it alone. If the kernel fails
    /// in between, all of them count as closed.
    ///
    /// # Errors
    /// The process cannot have so many mappings, or the window so many ranges.
    pub(crate) fn close(&self, range: &Range<u64>, access: PageAccess) -> Result<(), Errno> {
        if range.is_empty() || access == PageAccess::ReadWrite && !self.closed.borrow().meets(range) {
            return Ok(());
        }
        let before = self.closed.borrow().clone();
        let with = |access| {
            let mut closed = before.clone();
            closed.set(range, access);
            closed
        };
        let (wanted, worst) = (with(access), with(PageAccess::None));
        if wanted.is_full() && access != PageAccess::ReadWrite {
            return Err(Errno::NOMEM);
        }
        let (offset, length) = (WindowOffset::new(range.start), range.end - range.start);
        self.check(offset, length);
        let reservation = self.reservation.as_ref().ok_or(Errno::INVAL)?;
        let most = before.mappings().max(wanted.mappings()).max(worst.mappings());
        ledger::account(most - before.mappings())?;
        let flags = match access {
            PageAccess::None => MprotectFlags::empty(),
            PageAccess::Read => MprotectFlags::READ,
            PageAccess::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: the range lies inside this reservation. `Memory` asks `closed` before it touches
        // memory of the domain, and no reference to window memory exists.
        let result = unsafe { mprotect(self.at(offset).pointer(), length as usize, flags) };
        let now = if result.is_ok() { wanted } else { worst };
        ledger::forget(most - now.mappings());
        reservation.mappings.fetch_add(now.mappings().wrapping_sub(before.mappings()), Ordering::Relaxed);
        *self.closed.borrow_mut() = now;
        result
    }

    /// Says whether further handles of this window exist, so that another thread may copy.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_view() || self.backing.is_some() || self.reservation.as_ref().is_some_and(|r| Arc::strong_count(r) > 1)
    }

    /// Opens all pages that the domain closed.
    pub(crate) fn open(&self) -> Result<(), Errno> {
        let ranges: Vec<Range<u64>> = self.closed.borrow().ranges().collect();
        ranges.iter().try_for_each(|range| self.close(range, PageAccess::ReadWrite))
    }

    /// Returns the first place of a range that the domain closed for reading, or for writing.
    pub(crate) fn refuses(&self, range: &Range<u64>, write: bool) -> Option<WindowOffset> {
        self.closed.borrow().refuses(range, write).map(WindowOffset::new)
    }

    /// Writes to memory that is mapped writable.
    pub(crate) fn write(&self, offset: WindowOffset, bytes: &[u8]) {
        self.touch(offset, bytes.len());
        // SAFETY: inside the reservation. Callers write to segments that they mapped read-write,
        // and no reference to window memory is ever made.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset).pointer(), bytes.len()) };
    }

    /// Writes from host memory that others may write to, without making a reference to it.
    ///
    /// # Safety
    /// `length` bytes can be read at `from`.
    pub(crate) unsafe fn write_from(&self, offset: WindowOffset, from: *const u8, length: usize) {
        self.touch(offset, length);
        // SAFETY: as in `write`; see the function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from, self.at(offset).pointer(), length) };
    }

    /// Reads memory that is mapped readable into host memory that others may use, without making a
    /// reference to it.
    ///
    /// # Safety
    /// `length` bytes can be written at `to`.
    pub(crate) unsafe fn read_to(&self, offset: WindowOffset, to: *mut u8, length: usize) {
        self.touch(offset, length);
        // SAFETY: as in `read`; see the function's contract.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset).pointer(), to, length) };
    }

    /// Copies memory that is mapped readable to another window, where it is mapped writable.
    pub(crate) fn copy(&self, offset: WindowOffset, length: u64, to: &Window, at: WindowOffset) {
        self.touch(offset, length as usize);
        to.touch(at, length as usize);
        // SAFETY: inside both reservations. Otherwise as in `read` and `write`.
        unsafe { std::ptr::copy(self.at(offset).pointer::<u8>(), to.at(at).pointer(), length as usize) };
    }

    /// Loads an aligned word of 32 bits at once, from memory that is mapped readable and that other
    /// threads may write.
    pub(crate) fn load(&self, offset: WindowOffset) -> u32 {
        self.touch(offset, 4);
        assert!(offset.bytes().is_multiple_of(4), "an aligned word");
        // SAFETY: inside the reservation, aligned, and mapped. Code of a domain is no code of this
        // program, so its stores are like those of a device.
        unsafe { AtomicU32::from_ptr(self.at(offset).pointer()).load(Ordering::SeqCst) }
    }

    /// Stores an aligned word of 32 bits at once, and once, in memory that is mapped writable and
    /// that other threads may use. [`Window::write`] may store a word twice.
    pub(crate) fn store(&self, offset: WindowOffset, word: u32) {
        self.touch(offset, 4);
        assert!(offset.bytes().is_multiple_of(4), "an aligned word");
        // SAFETY: as in `load`; the caller mapped the word read-write.
        unsafe { AtomicU32::from_ptr(self.at(offset).pointer()).store(word, Ordering::SeqCst) };
    }

    /// Reads memory that is mapped readable.
    pub(crate) fn read(&self, offset: WindowOffset, out: &mut [u8]) {
        self.touch(offset, out.len());
        // SAFETY: inside the reservation. Callers read segments that they mapped.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset).pointer(), out.as_mut_ptr(), out.len()) };
    }
}
