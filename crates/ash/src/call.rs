//! The message that a handler handles now, as the trusted calls see it, and all that the handler
//! asked for. Nothing of it happens before the handler commits.

use crate::head::{Frame, Head};
use crate::undo::Undo;
use std::cell::RefCell;

/// Most frames that a handler may send for one message.
pub const MOST_SENDS: usize = 16;
/// Most wakes that a handler may ask for with one message.
pub const MOST_WAKES: usize = 16;

/// The call in progress.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub message: Option<(Frame, Head)>,
    /// Bytes of the longest frame that the back end sends.
    pub longest: usize,
    pub out: Outbox,
    pub undo: Undo,
    /// Bytes on their way into a frame.
    pub scratch: Vec<u8>,
}

/// Frames and wakes that wait for the commit.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pub wakes: Vec<u32>,
}

impl Outbox {
    /// Takes another frame, which `write` appends to the bytes that it gets. Returns false if there
    /// is no room for it, or if it is longer than `longest`.
    pub(crate) fn frame<E>(&mut self, longest: usize, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> bool {
        let start = self.bytes.len();
        if self.ends.len() == MOST_SENDS || write(&mut self.bytes).is_err() || self.bytes.len() - start > longest {
            self.bytes.truncate(start);
            return false;
        }
        self.ends.push(self.bytes.len());
        true
    }

    /// Returns the frames.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.wakes.clear();
    }
}

impl Call {
    /// Returns the message. `None` outside a call, as in an initialiser of a handler.
    pub(crate) fn message(&self) -> Option<(Frame, &Head)> {
        self.message.as_ref().map(|(frame, head)| (*frame, head))
    }
}

thread_local! {
    static CALL: RefCell<Call> = RefCell::default();
}

/// Lends the call in progress.
pub(crate) fn with<R>(body: impl FnOnce(&mut Call) -> R) -> R {
    CALL.with_borrow_mut(body)
}

/// Begins a call. Trusted calls see the message.
pub(crate) fn begin(message: Option<(Frame, Head)>, longest: usize) {
    with(|call| {
        call.out.clear();
        call.undo.clear();
        call.longest = longest;
        call.message = message;
    });
}

/// Ends a call. The wishes stay until the next one begins.
pub(crate) fn end() {
    with(|call| call.message = None);
}

/// Takes the wishes of the last call.
pub(crate) fn take() -> Outbox {
    with(|call| std::mem::take(&mut call.out))
}

/// Gives the memory of wishes back, once they happened.
pub(crate) fn give_back(mut out: Outbox) {
    out.clear();
    with(|call| call.out = out);
}
