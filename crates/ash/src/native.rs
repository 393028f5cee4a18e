//! Handlers of the host's own, which it trusts: functions in the receive loop.

use crate::call::{self, MOST_WAKES};
use crate::head::{Frame, Head};
use crate::packet;
use sfi_loader::{MemoryError, View};

/// A handler of the host's own. It returns whether it takes the message.
pub type NativeHandler = Box<dyn FnMut(&mut NativeCall<'_>) -> bool + Send>;

/// One message, as a handler of the host's own sees it.
#[derive(Debug)]
pub struct NativeCall<'a> {
    pub(crate) messages: &'a View,
    pub(crate) frame: Frame,
    pub(crate) head: Head,
    /// The handler's state.
    pub state: Option<&'a mut View>,
    /// The handler's segment.
    pub segment: Option<&'a mut View>,
    /// The handler's buffer.
    pub buffer: Option<&'a mut View>,
}

impl NativeCall<'_> {
    /// Returns the copy of the message's first bytes.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the place of the message in the back end's memory, for others that map it.
    pub fn at(&self) -> usize {
        self.frame.at
    }

    /// Copies bytes out of the message.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        self.place(offset, out.len()).and_then(|at| self.messages.read(at, out))
    }

    /// Copies a part of the message into the segment.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], also without a segment.
    pub fn copy(&mut self, to: usize, offset: usize, length: usize) -> Result<(), MemoryError> {
        let at = self.place(offset, length)?;
        let outside = MemoryError::OutOfBounds { offset: to as u64, length };
        self.segment.as_mut().ok_or(outside)?.copy_from(to, self.messages, at, length)
    }

    /// Sends an answer at the commit. Returns false if it cannot be sent.
    pub fn reply(&mut self, data: &[u8]) -> bool {
        let head = &self.head;
        call::with(|call| {
            let longest = call.longest;
            call.out.frame(longest, |bytes| packet::reply(head, data, bytes))
        })
    }

    /// Wakes the application at the commit. Returns false if there are too many wakes.
    pub fn wake(&mut self, value: u32) -> bool {
        call::with(|call| {
            let room = call.out.wakes.len() < MOST_WAKES;
            if room {
                call.out.wakes.push(value);
            }
            room
        })
    }

    fn place(&self, offset: usize, length: usize) -> Result<usize, MemoryError> {
        let end = offset.checked_add(length).filter(|end| *end <= self.head.length());
        end.map(|_| self.frame.at + offset).ok_or(MemoryError::OutOfBounds { offset: offset as u64, length })
    }
}
