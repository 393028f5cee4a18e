//! Bounds-checked access to a domain's memory from the host.

use crate::vm::address::WindowOffset;
use crate::vm::closed::PageAccess;
use crate::vm::window::{Protection, Window};
use sfi_contract::layout::PAGE_SIZE;
use std::ops::Range;

/// A mapped part of a window.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Segment {
    /// A name of its contents, for people.
    pub name: String,
    /// Window offset of its first byte.
    pub offset: u64,
    /// Length in bytes, whole pages.
    pub length: u64,
    /// The domain's access to it.
    pub protection: Protection,
    /// True for a shared region.
    pub shared: bool,
}

impl Segment {
    /// Returns the window offset after its last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Returns the place of its first byte.
    pub(crate) fn start(&self) -> WindowOffset {
        WindowOffset::new(self.offset)
    }

    /// Says whether a place lies in it.
    pub(crate) fn holds(&self, place: WindowOffset) -> bool {
        (self.offset..self.end()).contains(&place.bytes())
    }
}

/// The range is not memory of the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Part of the range is not mapped, or it lies in more than one segment.
    #[error("{length} bytes at window offset {offset:#x} are not in one segment of the domain")]
    OutOfBounds {
        /// Offset in the domain's window.
        offset: u64,
        /// Bytes of the range.
        length: usize,
    },
    /// The domain itself closed a page of the range ([`crate::HostCall::protect_heap`]).
    #[error("window offset {offset:#x} is in a page that the domain closed")]
    Closed {
        /// Offset in the domain's window.
        offset: u64,
    },
    /// The process can have no more mappings, or the domain no more closed ranges.
    #[error("no room for another range of closed pages")]
    TooManyRanges,
    /// The domain itself may not write there.
    #[error("window offset {offset:#x} is not writable memory of the domain")]
    ReadOnly {
        /// Offset in the domain's window.
        offset: u64,
    },
    /// No terminating zero byte was found.
    #[error("no end of the string at window offset {offset:#x} within {limit} bytes")]
    Unterminated {
        /// Offset in the domain's window.
        offset: u64,
        /// Bytes that were searched.
        limit: usize,
    },
}

/// A domain's memory, in the domain's own terms. Of a pointer only the lower 32 bits count, the
/// offset in the window, as for the domain's stores. So pointers from shared regions work,
/// whichever domain wrote them.
#[derive(Debug)]
pub struct Memory<'w> {
    pub(crate) window: &'w Window,
    pub(crate) segments: &'w [Segment],
}

/// The name of the heap's segment.
pub(crate) const HEAP: &str = "heap";

impl Memory<'_> {
    /// Returns the heap, as addresses in the domain's own terms. The range is empty if there is
    /// none.
    pub fn heap(&self) -> Range<u64> {
        let heap = self.segments.iter().find(|segment| segment.name == HEAP);
        let (start, end) = heap.map_or((0, 0), |heap| (heap.offset, heap.end()));
        let [start, end] = [start, end].map(|offset| self.window.address(WindowOffset::new(offset)).number());
        start..end
    }

    /// Sets the domain's own access to whole pages of its heap. Memory that several threads map
    /// stays open, because another thread may close it while the host copies it.
    pub(crate) fn protect_heap(&self, pointer: u64, length: u64, access: PageAccess) -> Result<(), MemoryError> {
        let place = WindowOffset::of_pointer(pointer);
        let error = MemoryError::OutOfBounds { offset: place.bytes(), length: length as usize };
        let end = place.bytes().checked_add(length).ok_or(error)?;
        let inside = |s: &&Segment| s.name == HEAP && s.holds(place) && end <= s.end();
        let whole = place == place.page() && length.is_multiple_of(PAGE_SIZE) && length > 0;
        self.segments.iter().find(inside).filter(|_| whole).ok_or(error)?;
        if self.window.is_shared() {
            return Ok(());
        }
        self.window.close(&(place.bytes()..end), access).map_err(|_| MemoryError::TooManyRanges)
    }

    /// Finds the segment that holds the range. Returns it and the range's window offset.
    pub(crate) fn find(&self, pointer: u64, length: usize) -> Result<(&Segment, WindowOffset), MemoryError> {
        let place = WindowOffset::of_pointer(pointer);
        let error = MemoryError::OutOfBounds { offset: place.bytes(), length };
        let end = place.bytes().checked_add(length as u64).ok_or(error)?;
        let found = self.segments.iter().find(|s| s.holds(place) && end <= s.end()).ok_or(error)?;
        match self.window.refuses(&(place.bytes()..end), false) {
            Some(closed) => Err(MemoryError::Closed { offset: closed.bytes() }),
            None => Ok((found, place)),
        }
    }

    /// Loads a word of 32 bits at once, while other threads may write it.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`MemoryError::OutOfBounds`] also for an address that is no multiple of
    /// 4.
    pub fn load(&self, pointer: u64) -> Result<u32, MemoryError> {
        let (_, offset) = self.find(pointer, 4)?;
        match offset.bytes().is_multiple_of(4) {
            true => Ok(self.window.load(offset)),
            false => Err(MemoryError::OutOfBounds { offset: offset.bytes(), length: 4 }),
        }
    }

    /// Stores a word of 32 bits at once, and once, while other threads may use it. A copy
    /// ([`Memory::write`]) may store it twice, and undo what another thread made of it in between.
    ///
    /// # Errors
    /// As [`Memory::writable`]; [`MemoryError::OutOfBounds`] also for an address that is no
    /// multiple of 4.
    pub fn store(&mut self, pointer: u64, word: u32) -> Result<(), MemoryError> {
        let offset = self.find_writable(pointer, 4)?;
        if !offset.bytes().is_multiple_of(4) {
            return Err(MemoryError::OutOfBounds { offset: offset.bytes(), length: 4 });
        }
        self.window.store(offset, word);
        Ok(())
    }

    /// Copies `length` bytes out of the domain's memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], [`MemoryError::Closed`].
    pub fn read(&self, pointer: u64, length: usize) -> Result<Vec<u8>, MemoryError> {
        let (_, offset) = self.find(pointer, length)?;
        let mut bytes = vec![0; length];
        self.window.read(offset, &mut bytes);
        Ok(bytes)
    }

    /// Fills `out` from the domain's memory.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn read_into(&self, pointer: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (_, offset) = self.find(pointer, out.len())?;
        self.window.read(offset, out);
        Ok(())
    }

    /// Copies a C string out of the domain's memory, without its zero byte.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`MemoryError::Unterminated`] if there is no zero byte within `limit`
    /// bytes or before the segment's end.
    pub fn read_c_string(&self, pointer: u64, limit: usize) -> Result<Vec<u8>, MemoryError> {
        let (segment, offset) = self.find(pointer, 1)?;
        let rest = offset.bytes()..segment.end();
        let closed = self.window.refuses(&rest, false);
        let end = closed.map_or(rest.end, WindowOffset::bytes);
        let limit = limit.min((end - offset.bytes()) as usize);
        let mut bytes = Vec::new();
        let mut chunk = [0; 256];
        while bytes.len() < limit {
            let part = &mut chunk[..(limit - bytes.len()).min(256)];
            self.window.read(offset + bytes.len() as u64, part);
            if let Some(end) = part.iter().position(|b| *b == 0) {
                bytes.extend_from_slice(&part[..end]);
                return Ok(bytes);
            }
            bytes.extend_from_slice(part);
        }
        match closed {
            Some(closed) if bytes.len() as u64 == end - offset.bytes() => {
                Err(MemoryError::Closed { offset: closed.bytes() })
            }
            _ => Err(MemoryError::Unterminated { offset: offset.bytes(), limit }),
        }
    }

    /// Checks that the range is memory of the domain.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn in_bounds(&self, pointer: u64, length: usize) -> Result<(), MemoryError> {
        self.find(pointer, length).map(|_| ())
    }

    /// Checks that the domain itself may write to the range. Returns its window offset.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`MemoryError::ReadOnly`].
    pub fn writable(&self, pointer: u64, length: usize) -> Result<u64, MemoryError> {
        self.find_writable(pointer, length).map(WindowOffset::bytes)
    }

    pub(crate) fn find_writable(&self, pointer: u64, length: usize) -> Result<WindowOffset, MemoryError> {
        let (segment, offset) = self.find(pointer, length)?;
        if segment.protection != Protection::ReadWrite {
            return Err(MemoryError::ReadOnly { offset: offset.bytes() });
        }
        let range = offset.bytes()..offset.bytes() + length as u64;
        match self.window.refuses(&range, true) {
            Some(closed) => Err(MemoryError::ReadOnly { offset: closed.bytes() }),
            None => Ok(offset),
        }
    }

    /// Copies bytes into the domain's memory.
    ///
    /// # Errors
    /// As [`Memory::writable`].
    pub fn write(&mut self, pointer: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let offset = self.find_writable(pointer, bytes.len())?;
        self.window.write(offset, bytes);
        Ok(())
    }
}
