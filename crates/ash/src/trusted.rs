//! The trusted calls of handlers. Each checks its whole range once, and every argument is hostile.

use crate::call::{self, MOST_WAKES};
use crate::packet::{self, Destination, NoFrame};
use crate::undo::{MOST_UNDO, Undo};
use sfi_loader::{Builder, DomainSpec, HostCall, HostError, Import, View};
use std::sync::{Arc, OnceLock};

/// The place of a segment in its handler's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Window offset of its first byte.
    pub at: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Span {
    /// Returns the place in the segment that a range of the window means. `None` if no part of the
    /// range lies in the segment, and an error if only a part does.
    fn place(&self, pointer: u64, length: usize) -> Result<Option<usize>, HostError> {
        let from = u64::from(pointer as u32);
        let to = from + length as u64;
        let (low, high) = (self.at, self.at + self.length);
        match (from >= low && to <= high, to <= low || from >= high) {
            (true, _) => Ok(Some((from - low) as usize)),
            (false, true) => Ok(None),
            (false, false) => Err(HostError::new("the range leaves the segment")),
        }
    }
}

/// A handler's segment, for one of the calls that write to it.
pub(crate) struct Segment {
    /// Its memory, if the handler has one.
    pub view: Option<View>,
    /// Its place, known once the world is built.
    pub span: Arc<OnceLock<Span>>,
}

impl Segment {
    /// Keeps the bytes of a range for the undo, and returns the place that may be written. `None`
    /// if no part of the range lies in the segment.
    fn open(&mut self, undo: &mut Undo, pointer: u64, length: usize) -> Result<Option<(&mut View, usize)>, HostError> {
        let (Some(span), Some(view)) = (self.span.get(), &mut self.view) else { return Ok(None) };
        let Some(place) = span.place(pointer, length)? else { return Ok(None) };
        match undo.keep(view, place, length)? {
            true => Ok(Some((view, place))),
            false => Err(HostError::new("too many bytes for one message")),
        }
    }
}

/// Memory of a handler that trusted calls read and write.
pub(crate) struct Areas {
    /// The memory that messages arrive in.
    pub frames: View,
    /// The handler's segment, for `ash_copy` and for `ash_store`.
    pub segments: [Segment; 2],
}

/// The symbols and signatures of the trusted calls.
const CALLS: [(&str, &str); 5] = [
    ("ash_copy", "(ptr, int, int) -> int"),
    ("ash_store", "(ptr, ptr, int) -> int"),
    ("ash_send", "(int, ptr, int) -> int"),
    ("ash_reply", "(ptr, int) -> int"),
    ("ash_wake", "(int) -> int"),
];

/// Grants the trusted calls.
pub(crate) fn grant(spec: DomainSpec) -> DomainSpec {
    CALLS.iter().fold(spec, |spec, (name, signature)| spec.import(*name, Import::host(*name).signature(*signature)))
}

/// Offers the trusted calls.
pub(crate) fn offer(builder: Builder, areas: Areas, destinations: Vec<Destination>) -> Builder {
    let Areas { frames, segments: [mut one, mut other] } = areas;
    builder
        .host_fn("ash_copy", move |cx| copy(cx, &frames, &mut one))
        .host_fn("ash_store", move |cx| store(cx, &mut other))
        .host_fn("ash_send", move |cx| {
            let to = usize::try_from(cx.arg(0)).ok().and_then(|index| destinations.get(index));
            let to = to.ok_or_else(|| HostError::new("no such destination"))?;
            frame(cx, cx.arg(1), cx.arg(2), |head, data, out| packet::send(head, to, data, out))
        })
        .host_fn("ash_reply", |cx| frame(cx, cx.arg(0), cx.arg(1), packet::reply))
        .host_fn("ash_wake", |cx| wake(cx.arg(0)))
}

fn outside() -> HostError {
    HostError::new("no message is being handled")
}

/// Copies a part of the message into the handler's memory or its segment.
fn copy(cx: &mut HostCall<'_>, frames: &View, segment: &mut Segment) -> Result<u64, HostError> {
    let (pointer, offset, length) = (cx.arg(0), cx.arg(1), cx.arg(2));
    call::with(|call| {
        let (frame, head) = call.message().ok_or_else(outside)?;
        let end = offset.checked_add(length).filter(|end| *end <= head.length() as u64);
        end.ok_or_else(|| HostError::new("the range leaves the message"))?;
        let (at, length) = (frame.at + offset as usize, length as usize);
        if length == 0 {
            return Ok(0);
        }
        match segment.open(&mut call.undo, pointer, length)? {
            Some((view, place)) => view.copy_from(place, frames, at, length)?,
            None => cx.memory().write_from(pointer, frames, at, length)?,
        }
        Ok(0)
    })
}

/// Copies a part of the handler's memory into its segment.
fn store(cx: &mut HostCall<'_>, segment: &mut Segment) -> Result<u64, HostError> {
    let (pointer, data, length) = (cx.arg(0), cx.arg(1), cx.arg(2));
    call::with(|call| {
        let call = &mut *call;
        call.message().ok_or_else(outside)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_UNDO);
        let length = length.ok_or_else(|| HostError::new("too many bytes for one message"))?;
        if length == 0 {
            return Ok(0);
        }
        call.scratch.resize(length, 0);
        cx.memory().read_into(data, &mut call.scratch)?;
        let place = segment.open(&mut call.undo, pointer, length)?;
        let (view, place) = place.ok_or_else(|| HostError::new("the range lies outside of the segment"))?;
        view.write(place, &call.scratch)?;
        Ok(0)
    })
}

/// Takes a frame that the handler wants to send.
fn frame(
    cx: &HostCall<'_>,
    pointer: u64,
    length: u64,
    make: impl FnOnce(&crate::head::Head, &[u8], &mut Vec<u8>) -> Result<(), NoFrame>,
) -> Result<u64, HostError> {
    call::with(|call| {
        let call = &mut *call;
        let longest = call.longest;
        let length = usize::try_from(length).ok().filter(|length| *length <= longest);
        let length = length.ok_or_else(|| HostError::new("the frame would be too long"))?;
        call.scratch.resize(length, 0);
        if length > 0 {
            cx.memory().read_into(pointer, &mut call.scratch)?;
        }
        let (_, head) = call.message.as_ref().ok_or_else(outside)?;
        let taken = call.out.frame(longest, |bytes| make(head, &call.scratch, bytes));
        if taken { Ok(0) } else { Err(HostError::new("no such frame can be sent")) }
    })
}

/// Notes that the application is to be woken.
fn wake(value: u64) -> Result<u64, HostError> {
    call::with(|call| {
        call.message().ok_or_else(outside)?;
        if call.out.wakes.len() == MOST_WAKES {
            return Err(HostError::new("too many wakes for one message"));
        }
        call.out.wakes.push(value as u32);
        Ok(0)
    })
}
