//! An image in a window: raised once, and reset any number of times. No page is ever writable and
//! executable. A sealed page never becomes writable again, except for the dispatch slots of IFUNCs
//! while no code of the domain runs (see `world/ifunc.rs`).

use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::DomainId;
use crate::gate::kept::KeptParts;
use crate::gate::records::{Account, Caught, DomainState, Status};
use crate::link::REGION;
use crate::link::error::LinkError;
use crate::link::image::{Content, Image, Mapping, Source};
use crate::link::select::options;
use crate::load::keep::Keep;
use crate::load::observe::{self, Observed};
use crate::load::verify;
use crate::load::view::{self, STACK_SLACK, Seat};
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::backing::Backing;
use crate::vm::error::MapError;
use crate::vm::memory::Segment;
use crate::vm::region::{Region, Uppers};
use crate::vm::space::Draw;
use crate::vm::window::{Protection, Window};
use foldhash::HashMap;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use sfi_contract::layout::{PAGE_SIZE, TCB_CANARY};
use sfi_verifier::{Checked, Verifier};
use std::sync::Arc;

/// Stacks begin and end on pages.
const _: () = assert!(STACK_SLACK < PAGE_SIZE && STACK_SLACK.is_multiple_of(16));

/// An image in a window of its own, ready to run.
pub(crate) struct Raised {
    pub window: Window,
    pub image: Arc<Image>,
    /// Data stack pointer at an entry.
    pub initial_sp: u64,
    /// The data stack.
    pub stack: [WindowOffset; 2],
    /// The return addresses and saved registers of its fibers.
    pub kept: KeptParts,
    /// A debugger's record of the text.
    pub observed: Observed,
}

/// Raises the first window of an image, and verifies its contents as they will run. `entry` is the
/// place where the image is kept for other processes.
pub(crate) fn first(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    mut image: Image,
    regions: &[Region],
    entry: Option<&dyn Keep>,
    verifier: &mut Verifier,
) -> Result<Raised, LinkError> {
    store(&mut image, spec)?;
    let window = fill(draw, &spec.name, &image, regions)?;
    // The bytes in a file need no second place here. Those that were verified take it.
    let shared = image.shares_text();
    let mut room = if shared { image.take_text() } else { Vec::new() };
    let checked = verify(&window, &image, spec, verifier, &mut room)?;
    image.note(checked);
    if shared {
        image.put_text(room);
    }
    // Only here all of it is known to be good.
    if let Some(entry) = entry {
        entry.keep(&mut image);
    }
    image.forget();
    Raised::new(window, Arc::new(image), spec)
}

/// Raises another window of an image. Shared text was verified in the first one, and nobody could
/// write it since. Text that is a copy is verified again.
pub(crate) fn again(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    image: Arc<Image>,
    regions: &[Region],
) -> Result<Raised, LinkError> {
    let window = fill(draw, &spec.name, &image, regions)?;
    if !image.shares_text() {
        let checked = verify(&window, &image, spec, &mut Verifier::new(&options(spec)), &mut Vec::new())?;
        // The depths are those of the image. No word that depends on the base is an instruction.
        if checked.saves != *image.saves {
            let why = "registers are saved at other places than in the first window".to_owned();
            return Err(LinkError::Place { domain: spec.name.clone(), place: "text".to_owned(), why });
        }
    }
    Raised::new(window, image, spec)
}

/// Writes large contents of an image to files.
pub(crate) fn store(image: &mut Image, spec: &DomainSpec) -> Result<(), LinkError> {
    let failed = |error| MapError::new(&format!("the image of domain `{}`", spec.name), error);
    Ok(image.store().map_err(failed)?)
}

/// Reserves a window at a random place, maps the image in it and seals it.
fn fill(draw: &mut Draw<'_>, name: &str, image: &Image, regions: &[Region]) -> Result<Window, LinkError> {
    let memory = |error| MapError::new(&format!("domain `{name}`"), error);
    let window = Window::reserve(draw.rng, draw.space, image.mapping_count()).map_err(memory)?;
    let window = if image.thread_locals.is_some() { window.with_backing().map_err(memory)? } else { window };
    let regions: HashMap<&str, &Region> = regions.iter().map(|r| (r.name.as_str(), r)).collect();
    let region = |segment: &Segment| Some(regions.get(segment.name.strip_prefix(REGION)?)?.file.as_fd());
    raise(&window, image, draw.rng, region).map_err(memory)?;
    Ok(window)
}

fn verify(
    window: &Window,
    image: &Image,
    spec: &DomainSpec,
    verifier: &mut Verifier,
    room: &mut Vec<u8>,
) -> Result<Checked, LinkError> {
    verify::verify(window, image, spec, verifier, room)
        .map_err(|violations| LinkError::FinalText { domain: spec.name.clone(), violations })
}

/// Raises the view of a further thread.
pub(crate) fn view(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    image: Arc<Image>,
    seat: &Seat,
) -> Result<Raised, LinkError> {
    let window = view::view(draw, spec, &image, seat, &[])?;
    let initial_sp = seat.stack_pointer(&window, spec.mode);
    // The data stack lies in the heap, which stays mapped as well.
    let stack = image.heap().map_or(image.stack, |heap| [heap.start, heap.end]);
    Ok(Raised { initial_sp, stack, ..Raised::new(window, image, spec)? })
}

/// Raises the window of a further lane in a domain that several may be in.
pub(crate) fn lane(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    image: Arc<Image>,
    (seat, stack): (&Seat, [WindowOffset; 2]),
    regions: &[Region],
) -> Result<Raised, LinkError> {
    let window = view::view(draw, spec, &image, seat, regions)?;
    let initial_sp = seat.stack_pointer(&window, spec.mode);
    Ok(Raised { initial_sp, stack, ..Raised::new(window, image, spec)? })
}

/// Returns a domain that several lanes are in one after the other, for a further lane: the same
/// window.
pub(crate) fn same(window: &Window, kept: &KeptParts, image: Arc<Image>) -> Raised {
    let (window, kept, stack) = (window.same(), kept.same(), image.stack);
    let initial_sp = window.at(stack[1] - STACK_SLACK).number();
    Raised { window, image, initial_sp, stack, kept, observed: Observed::default() }
}

impl Raised {
    fn new(window: Window, image: Arc<Image>, spec: &DomainSpec) -> Result<Self, LinkError> {
        let initial_sp = window.at(image.stack[1] - STACK_SLACK).number();
        // Return addresses that come back twice would run instructions that were paid for once.
        let count = if image.switches_fibers && spec.instructions.is_none() { spec.fibers } else { 0 };
        let kept = KeptParts::map(count).map_err(|error| MapError::new(&format!("domain `{}`", spec.name), error))?;
        // The text of a further thread is that of the first window.
        let observed = if window.is_view() { Observed::default() } else { observe::tell(&spec.name, &window, &image) };
        let stack = image.stack;
        Ok(Self { window, image, initial_sp, stack, kept, observed })
    }

    /// Returns the state of the domain for the gates.
    pub(crate) fn state(&self, index: DomainId, generation: u64) -> DomainState {
        let base = self.window.base();
        let (parts_at, parts) = self.kept.places();
        let [low, high] = self.stack;
        DomainState {
            base,
            sp: self.initial_sp,
            stack_low: self.window.at(low),
            stack_high: self.window.at(high),
            dead: Status::Ok,
            index,
            tcb: self.window.at(WindowOffset::new(self.image.anchors.tcb)),
            dispatch: self.image.table.bytes() as u32,
            dispatch_size: self.image.table_size() as u32,
            generation,
            life: 0,
            next: std::ptr::null_mut(),
            parts_at,
            parts,
            depths: self.image.depths(),
            regions: Uppers::NONE,
            text: self.window.text_base(),
            door: std::ptr::null(),
            room: std::ptr::null(),
            account: Account::default(),
            instructions: 0,
            left: 0,
            caught: Caught::default(),
            fault: RawFault::default(),
            trace: Trace::EMPTY,
        }
    }
}

/// Maps, writes and seals. `region` gives the memory file of a shared region's segment.
pub(crate) fn raise<'f>(
    window: &Window,
    image: &Image,
    rng: &mut ChaCha20Rng,
    region: impl Fn(&Segment) -> Option<BorrowedFd<'f>>,
) -> Result<(), Errno> {
    for segment in image.segments.iter().filter(|s| s.shared) {
        if let Some(file) = region(segment) {
            window.map_file(segment.start(), segment.length, segment.protection, file, 0, true)?;
        }
    }
    for mapping in &image.mappings {
        match (window.backing(), mapping.source, &image.text_file) {
            (_, Source::Text, Some(file)) => map_text(window, mapping, file.as_fd())?,
            (Some(backing), ..) => map_backed(window, backing, mapping)?,
            (None, ..) => map_private(window, image, mapping)?,
        }
    }
    for content in &image.contents {
        write(window, content);
    }
    canary(window, image, rng);
    for m in image.mappings.iter().filter(|m| m.source != Source::Text && m.protection != Protection::ReadWrite) {
        window.protect(m.offset, m.length, m.protection)?;
    }
    window.backing().map_or(Ok(()), |backing| backing.seal())
}

/// Maps text that all instances share.
fn map_text(window: &Window, text: &Mapping, file: BorrowedFd<'_>) -> Result<(), Errno> {
    window.map_file(text.offset, text.length, text.protection, file, 0, !observe::observed())
}

/// Maps memory of a domain without threads, writable.
fn map_private(window: &Window, image: &Image, m: &Mapping) -> Result<(), Errno> {
    match (m.source, &image.data_file) {
        (Source::Data(at), Some(file)) => {
            window.map_file(m.offset, m.length, Protection::ReadWrite, file.as_fd(), at, false)
        }
        _ => window.map(m.offset, m.length, Protection::ReadWrite),
    }
}

/// Maps memory of a domain with threads, writable. All of it comes from files, so that further
/// windows can map it.
fn map_backed(window: &Window, backing: &Backing, m: &Mapping) -> Result<(), Errno> {
    let (file, from) = match (m.source, m.protection) {
        // Text that must be copied would have to be writable and executable memory of a file.
        (_, Protection::ReadExecute) => return Err(Errno::PERM),
        (Source::Second(second), _) => (backing.writable(), second),
        (_, Protection::ReadWrite) => (backing.writable(), m.offset),
        (_, Protection::Read) => (backing.constant(), m.offset),
    };
    window.map_file(m.offset, m.length, Protection::ReadWrite, file, from.bytes(), true)
}

/// Resets the writable memory of an instance to its start, so that no byte survives, and opens the
/// pages that it closed. Shared regions stay.
pub(crate) fn reset(window: &Window, image: &Image, rng: &mut ChaCha20Rng) -> Result<(), Errno> {
    window.open()?;
    for (start, end) in &image.discarded {
        window.discard(*start, *end - *start)?;
    }
    for (start, end) in &image.zeroed {
        window.zero(*start, *end - *start);
    }
    for content in image.contents.iter().filter(|c| c.writable) {
        write(window, content);
    }
    canary(window, image, rng);
    Ok(())
}

/// Writes initial bytes. Stored ones are there already, except for the words that depend on the
/// base.
fn write(window: &Window, content: &Content) {
    if !content.stored {
        window.write(content.offset, &content.bytes);
    }
    window.rebase(content.offset, &content.words);
}

/// Writes a new stack canary, whose first byte is zero, and a new pointer guard for this instance.
fn canary(window: &Window, image: &Image, rng: &mut ChaCha20Rng) {
    let at = WindowOffset::new(image.anchors.offset(TCB_CANARY));
    window.write(at, &(rng.next_u64() & !0xff).to_le_bytes());
    window.write(at + 8, &rng.next_u64().to_le_bytes());
}
