//! A view: the window of a further thread of a domain. It maps the domain's memory at the offsets
//! that this memory has in the first window, and nothing in it is executable: text runs in the
//! first window. Only the thread locals differ. At their place lies the thread's own memory from
//! the heap, and a TCB page that only this thread has.

use crate::link::REGION;
use crate::link::image::{EStack, Image, Source, ThreadLocals};
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::backing::Backing;
use crate::vm::error::MapError;
use crate::vm::region::Region;
use crate::vm::space::Draw;
use crate::vm::window::{Protection, Window};
use rustix::fd::AsFd;
use rustix::io::Errno;
use sfi_contract::Mode;
use sfi_contract::layout::{PAGE_SIZE, TCB_CANARY, TCB_SIZE};
use std::ops::Range;

/// Bytes above the first data stack pointer, so that code may read stack arguments that no caller
/// passed.
pub(crate) const STACK_SLACK: u64 = 1024;

/// Bytes at [`TCB_CANARY`] that all threads of a domain have in common: stack canary and pointer
/// guard.
pub(crate) const CANARIES: usize = 16;

/// The demands of a further thread. The domain chose them, and [`Seat::check`] has looked at them.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The domain's text window and its memory ([`Window::origin`]).
    pub origin: Window,
    /// The thread pointer: a page of the heap, or of an E-stack. The thread's locals lie below it.
    pub pointer: WindowOffset,
    /// The data stack pointer at the thread's start, in the heap or in an E-stack.
    pub stack: WindowOffset,
    /// The contents of the domain's canaries.
    pub canaries: [u8; CANARIES],
}

impl Seat {
    /// Says whether thread pointer and stack lie in the heap, with the locals below the pointer.
    /// Only there does a view map memory for its locals. So no thread's locals are memory that the
    /// domain may only read.
    pub(crate) fn check(&self, image: &Image, heap: &Range<WindowOffset>) -> bool {
        let Some(locals) = &image.thread_locals else { return false };
        let lowest = self.pointer.checked_sub(heap.start);
        self.pointer == self.pointer.page()
            && lowest.is_some_and(|below| below >= locals.length - TCB_SIZE)
            && self.pointer.checked_add(PAGE_SIZE).is_some_and(|end| end <= heap.end)
            && self.stack.bytes().is_multiple_of(16)
            && heap.contains(&self.stack)
    }

    /// Returns the data stack pointer at the thread's start as an address.
    ///
    /// In mode write it is one of the view, where the thread's stores go, because a processor is
    /// slow at loads and stores of one place by two addresses. In mode match the checks know only
    /// the addresses of the first window, and in mode full the upper half does not matter.
    pub(crate) fn stack_pointer(&self, window: &Window, mode: Mode) -> u64 {
        match mode {
            Mode::Write => window.at(self.stack).number(),
            Mode::Full | Mode::Match => window.address(self.stack).number(),
        }
    }
}

/// Maps the view of a further thread at a random place, with the regions that the domain sees.
pub(crate) fn view(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    image: &Image,
    seat: &Seat,
    regions: &[Region],
) -> Result<Window, MapError> {
    let memory = |error| MapError::new(&format!("a thread of domain `{}`", spec.name), error);
    // One mapping more than the first window: locals and TCB page are apart.
    let window = Window::reserve(draw.rng, draw.space, image.mapping_count() + 2).map_err(memory)?;
    let window = window.viewing(&seat.origin);
    fill(&window, image, seat).map_err(memory)?;
    for segment in image.segments.iter().filter(|segment| segment.shared) {
        let name = segment.name.strip_prefix(REGION);
        let Some(region) = regions.iter().find(|region| Some(&*region.name) == name) else { continue };
        let mapped = window.map_file(segment.start(), segment.length, segment.protection, region.file.as_fd(), 0, true);
        mapped.map_err(memory)?;
    }
    Ok(window)
}

fn fill(window: &Window, image: &Image, seat: &Seat) -> Result<(), Errno> {
    let (Some(backing), Some(locals)) = (window.backing(), &image.thread_locals) else { return Err(Errno::INVAL) };
    for m in &image.mappings {
        let (offset, length) = (m.offset, m.length);
        match (m.source, m.protection, &image.text_file) {
            (Source::Second(_), ..) => {}
            (Source::Text, _, Some(file)) => {
                window.map_file(offset, length, Protection::Read, file.as_fd(), 0, true)?;
            }
            (_, Protection::ReadWrite, _) => {
                window.map_file(offset, length, m.protection, backing.writable(), offset.bytes(), true)?;
            }
            (_, Protection::Read, _) => {
                window.map_file(offset, length, m.protection, backing.constant(), offset.bytes(), true)?;
            }
            (_, Protection::ReadExecute, _) => return Err(Errno::PERM),
        }
    }
    map_locals(window, backing, locals, seat.pointer)?;
    window.map(WindowOffset::new(image.anchors.tcb), TCB_SIZE, Protection::ReadWrite)?;
    start(window, image, seat);
    Ok(())
}

/// Maps the memory below a thread pointer at the place that code names.
fn map_locals(window: &Window, backing: &Backing, locals: &ThreadLocals, pointer: WindowOffset) -> Result<(), Errno> {
    match locals.length - TCB_SIZE {
        0 => Ok(()),
        below => {
            let from = (pointer - below).bytes();
            window.map_file(locals.place, below, Protection::ReadWrite, backing.writable(), from, true)
        }
    }
}

/// Seats another thread in the view of one that ended. Its TCB page is zeroed already, and `before`
/// was its pointer.
pub(crate) fn seat_again(window: &Window, image: &Image, seat: &Seat, before: WindowOffset) -> Result<(), Errno> {
    let (Some(backing), Some(locals)) = (window.backing(), &image.thread_locals) else { return Err(Errno::INVAL) };
    if seat.pointer != before {
        map_locals(window, backing, locals, seat.pointer)?;
    }
    start(window, image, seat);
    Ok(())
}

/// Writes the first contents of the thread's locals and of its TCB page, which is zeroed.
pub(crate) fn start(window: &Window, image: &Image, seat: &Seat) {
    let Some(locals) = &image.thread_locals else { return };
    let tcb = WindowOffset::new(image.anchors.tcb);
    window.write(tcb, &window.address(seat.pointer).number().to_le_bytes());
    window.write(WindowOffset::new(image.anchors.offset(TCB_CANARY)), &seat.canaries);
    if locals.size > 0 {
        window.zero(tcb - locals.size, locals.size);
        window.write(locals.initial.offset, &locals.initial.bytes);
        window.rebase(locals.initial.offset, &locals.initial.words);
    }
}

impl Seat {
    /// Returns the place of a lane: its E-stack, with the canaries of the first window.
    pub(crate) fn of_lane(first: &Window, image: &Image, estack: &EStack) -> Option<Self> {
        let locals = image.thread_locals.as_ref()?;
        let mut canaries = [0; CANARIES];
        first.read(WindowOffset::new(image.anchors.offset(TCB_CANARY)), &mut canaries);
        let pointer = estack.locals + (locals.length - TCB_SIZE);
        Some(Self { origin: first.origin(), pointer, stack: estack.stack[1] - STACK_SLACK, canaries })
    }
}
