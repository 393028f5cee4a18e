//! The calls in progress at a fault, read from the control stack. It holds return addresses, saved
//! registers and the gates' frames, and no code of a domain can write there but by `call` and
//! `push`. The verifier knows where registers are saved, so they are never taken for return
//! addresses. So this needs no unwind tables and cannot be misled.
//!
//! The signal handler notes addresses only ([`walk`]: no allocation, bounded length). Names and
//! lines are looked up on request.

use crate::fault::names::Names;
use crate::gate::control_stack::ControlStack;
use crate::gate::fault::{DEPTH, HOST, Trace};
use crate::gate::frame::Active;
use crate::gate::ids::{DomainId, Id};
use crate::gate::records::{Context, DomainState};
use crate::gate::stubs;
use crate::vm::address::WindowOffset;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::text::clean;
use sfi_debuginfo::Frame as Source;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Returns the place of the innermost return address of the domain that runs, or stopped at an
/// instruction: above the words that its function has saved. While a stub replaces them, that is
/// the place above all of them. Async-signal-safe.
///
/// # Safety
/// `context` is the context of the world that this thread runs, and the rest are its rsp and the
/// address of the instruction.
pub(crate) unsafe fn innermost(context: &Context, rsp: u64, instruction: u64) -> u64 {
    // SAFETY: domain states live as long as their world, and their texts as long as they can run.
    unsafe {
        match context.current.as_ref().filter(|domain| domain.runs_at(instruction)) {
            Some(domain) if BRINGS.contains(&domain.depths.in_stubs(instruction)) => context.top - WORD,
            Some(domain) => rsp.wrapping_add(domain.depths.at(instruction) * WORD),
            None => rsp,
        }
    }
}

/// Notes the calls in progress, from the return address at `at` on. Async-signal-safe.
///
/// # Safety
/// `context` is the context of the world that this thread runs. A domain runs, or the host is
/// calling from one. `at` is a place in the stack area whose word is a return address of the
/// running domain's code, or `context.top` if there is none.
pub(crate) unsafe fn walk(context: &Context, at: u64) -> Trace {
    let mut trace = Trace::EMPTY;
    if !ControlStack::area(context).contains(&at) {
        return trace;
    }
    let mut part = Some(Active::running(context, at));
    // SAFETY: the control stack's frames are the gates' own. `at` and the stack area above it are
    // mapped, and domain states live as long as their frames.
    unsafe {
        while let Some(active) = part {
            // The last word below the frame is the gate's own return address.
            let (domain, mut at) = (&*active.domain, active.at);
            while at < (active.entered as u64).saturating_sub(WORD) {
                let address = *(at as *const u64);
                trace.push(place(domain, address));
                at += (1 + domain.depths.above(address)) * WORD;
            }
            if active.entered_by_host() {
                trace.push(HOST);
            }
            part = active.outer(context);
        }
    }
    trace
}

/// The part of the stubs in which the words above rsp are not all those of the domain.
const BRINGS: Range<u64> = stubs::BRINGING..stubs::BRING_TRAP;

/// Bytes of a word of the control stack.
const WORD: u64 = 8;

/// Packs a return address with its domain's index, in the form that is noted. Every return address
/// of a domain's code lies in its window.
fn place(domain: &DomainState, address: u64) -> u64 {
    (domain.index.place() as u64) << 32 | (address.wrapping_sub(domain.text.number()) % WINDOW_SIZE)
}

/// The calls that are in progress when a domain calls a host function: numbers that are cheap to
/// take, to compare and to keep. [`Namer`] names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallPath {
    places: Box<[u64]>,
    more: u32,
}

impl CallPath {
    /// Keeps a trace.
    pub(crate) fn new(trace: &Trace) -> Self {
        let noted = &trace.places[..(trace.count as usize).min(DEPTH)];
        Self { places: noted.into(), more: trace.more() }
    }
}

/// The names of the places of a world's domains as they were when it was made. It outlives the
/// world.
pub struct Namer {
    pub(crate) domains: Vec<(String, Arc<Names>)>,
}

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.domains.iter().map(|(name, _)| name)).finish()
    }
}

impl Namer {
    /// Names the calls of a path of the same world. Reads debug information within bounds, and its
    /// contents are the word of the objects' authors.
    pub fn backtrace(&self, path: &CallPath) -> Backtrace {
        let mut trace = Trace::EMPTY;
        path.places.iter().for_each(|place| trace.push(*place));
        name(&places(&trace, 0, |index, _| self.domains.get(index.place()).cloned()), path.more)
    }
}

/// A place that can be named later, after its world is gone.
#[derive(Clone)]
pub(crate) enum TracedPlace {
    /// The host: a call of a function of a domain, or a host function that made one.
    Host,
    /// Code of a domain.
    Code {
        /// The domain's name.
        domain: String,
        /// The names of its places.
        names: Arc<Names>,
        /// Window offset of a byte of the instruction.
        offset: u64,
    },
}

/// Returns the places of a trace without the `skip` innermost ones. `domain` gives the name of a
/// domain, and the names around a place of its text.
pub(crate) fn places(
    trace: &Trace,
    skip: usize,
    domain: impl Fn(DomainId, WindowOffset) -> Option<(String, Arc<Names>)>,
) -> Vec<TracedPlace> {
    let noted = &trace.places[..(trace.count as usize).min(DEPTH)];
    let name = |place: &u64| match *place {
        HOST => Some(TracedPlace::Host),
        place => {
            // The return address follows the call. The byte before it belongs to the call.
            let offset = (place & 0xffff_ffff).saturating_sub(1);
            let (domain, names) = domain(DomainId::of((place >> 32) as usize), WindowOffset::new(offset))?;
            Some(TracedPlace::Code { domain, names, offset })
        }
    };
    noted.iter().skip(skip).filter_map(name).collect()
}

/// The thread in which a fault happened, where calls of several are in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultThread {
    /// A further thread of a domain with threads, by its number there (`gettid`).
    Further(u64),
    /// A lane ([`crate::Lane::number`]).
    Lane(usize),
}

impl fmt::Display for FaultThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultThread::Further(number) => write!(f, "thread {number}"),
            FaultThread::Lane(number) => write!(f, "lane {number}"),
        }
    }
}

/// The calls that were in progress at a fault, innermost first. The first frame is the place of the
/// fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backtrace {
    /// The frames; at most 49.
    pub frames: Vec<Frame>,
    /// Number of outer frames that were not noted.
    pub more: u32,
    /// The thread that made the calls, if it was a further one of the domain or a lane.
    pub thread: Option<FaultThread>,
}

/// A call in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The domain, or `None` for the host.
    pub domain: Option<String>,
    /// The function, by the symbol at or before the place.
    pub function: Option<String>,
    /// Offset of the place from the function's start in bytes. For a call it is that of the call's
    /// last byte.
    pub offset: u64,
    /// File and line, innermost first if functions were inlined there. Empty without debug
    /// information.
    pub source: Vec<Source>,
}

/// Names all places, reading each object's debug information once.
pub(crate) fn name(places: &[TracedPlace], more: u32) -> Backtrace {
    let mut frames: Vec<Frame> = vec![Frame::default(); places.len()];
    let mut done: Vec<*const Names> = Vec::new();
    for first in places {
        let TracedPlace::Code { names, .. } = first else { continue };
        if done.contains(&Arc::as_ptr(names)) {
            continue;
        }
        done.push(Arc::as_ptr(names));
        let mine = |place: &TracedPlace| match place {
            TracedPlace::Code { names: other, offset, .. } if Arc::ptr_eq(names, other) => Some(*offset),
            _ => None,
        };
        let (numbers, offsets): (Vec<usize>, Vec<u64>) =
            places.iter().enumerate().filter_map(|(number, place)| Some((number, mine(place)?))).unzip();
        for ((number, offset), source) in numbers.into_iter().zip(&offsets).zip(names.sources(&offsets)) {
            let function = names.function(*offset);
            let (function, offset) =
                function.map_or((None, 0), |(name, offset)| (Some(clean(name.as_bytes())), offset));
            frames[number] = Frame { domain: None, function, offset, source };
        }
    }
    for (frame, place) in frames.iter_mut().zip(places) {
        if let TracedPlace::Code { domain, .. } = place {
            frame.domain = Some(domain.clone());
        }
    }
    Backtrace { frames, more, thread: None }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(domain) = &self.domain else { return f.write_str("host") };
        write!(f, "{}: ", clean(domain.as_bytes()))?;
        match &self.function {
            Some(function) => write!(f, "{function}+{:#x}", self.offset)?,
            None => f.write_str("??")?,
        }
        match self.source.first() {
            Some(source) if source.line.is_some() => write!(f, " at {source}"),
            _ => Ok(()),
        }
    }
}

/// The longest cycle of calls that is recognised.
const CYCLE: usize = 8;

impl Backtrace {
    /// Counts the repetitions of the `length` frames from `at` on, one after the other.
    fn repeats(&self, at: usize, length: usize) -> usize {
        let cycle = &self.frames[at..at + length];
        self.frames[at..].chunks_exact(length).take_while(|frames| *frames == cycle).count()
    }

    /// Finds the shortest cycle that begins at a frame and repeats three times or more. Returns its
    /// length and its count.
    fn cycle(&self, at: usize) -> Option<(usize, usize)> {
        let longest = CYCLE.min((self.frames.len() - at) / 3);
        (1..=longest).map(|length| (length, self.repeats(at, length))).find(|(_, times)| *times >= 3)
    }
}

/// Prints one line for each frame, and one for each function that was inlined into it. A recursion
/// is printed once.
impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The frames of a cycle that are printed, and the ones after them that are left out.
        let (mut written, mut repeated) = (0..0, 0);
        let mut left_out = 0..0;
        for (number, frame) in self.frames.iter().enumerate() {
            if left_out.contains(&number) {
                continue;
            }
            if number >= written.end
                && let Some((length, times)) = self.cycle(number)
            {
                (written, repeated) = (number..number + length, times - 1);
                left_out = written.end..number + length * times;
            }
            let outermost = self.more == 0 && number + 1 == self.frames.len();
            match self.thread.filter(|_| outermost) {
                Some(thread) => writeln!(f, "{number:4}: {frame}, {thread}")?,
                None => writeln!(f, "{number:4}: {frame}")?,
            }
            // The first source is the frame's own place. The last one is the function itself, which
            // the symbol has named.
            for pair in frame.source.windows(2) {
                let inlined = pair[0].function.as_deref().unwrap_or("??");
                writeln!(f, "        {inlined}, inlined at {}", pair[1])?;
            }
            if number + 1 == written.end {
                match written.len() {
                    1 => writeln!(f, "      the same call {repeated} times more")?,
                    calls => writeln!(f, "      the same {calls} calls {repeated} times more")?,
                }
            }
        }
        if self.more > 0 {
            write!(f, "      and {} more", self.more)?;
            self.thread.map_or(Ok(()), |thread| write!(f, ", {thread}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
