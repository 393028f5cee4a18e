//! One handler: a domain in a world of its own, and its transactional memory.

use crate::call;
use crate::filter::Filter;
use crate::head::{Frame, Head};
use crate::native::{NativeCall, NativeHandler};
use crate::packet::Destination;
use crate::trusted::{self, Areas, Segment, Span};
use sfi_dilp::{Catalog, ComposeError, Options, Pipe};
use sfi_loader::{
    Access, BuildError, CallError, DomainSpec, Fault, LookupError, Mode, RegionFile, Restart, TypedFn, View, World,
};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The name of the domain in its world.
const DOMAIN: &str = "handler";
/// The function that handles a message: its address, its length, and the offset of its payload.
const ENTRY: &str = "ash_handle";
type Entry = fn(u64, u64, u64) -> u64;

/// The description of a handler.
#[derive(Clone, Debug)]
pub struct HandlerSpec {
    /// Its name.
    pub name: String,
    /// The messages that it wants.
    pub filter: Filter,
    /// Of several handlers that want a message, the one with the highest priority gets it, then the
    /// one whose filter looks at more bits, then the first by name.
    pub priority: i32,
    /// The owner, whose account pays.
    pub owner: String,
    /// The mode that its objects satisfy.
    pub mode: Mode,
    /// Its objects, with names for messages.
    pub objects: Vec<(String, Vec<u8>)>,
    /// Archives, as [`DomainSpec::archive`].
    pub archives: Vec<(String, Vec<u8>)>,
    /// Bytes of its heap.
    pub memory: u64,
    /// Bytes of its data stack.
    pub stack: u64,
    /// Bytes of its state, `ash_state`. The engine copies all of it before each message.
    pub state: u64,
    /// Bytes of its segment, `ash_segment`. Only trusted calls write to it.
    pub segment: u64,
    /// Bytes of its buffer, `ash_buffer`. Handler and application write to it, and no abort
    /// restores it.
    pub buffer: u64,
    /// Wall clock for one message. Does not count if there is a budget.
    pub time: Duration,
    /// Instructions for one message. Its objects then have the checks of `sfi rewrite --budget`,
    /// and no timer runs.
    pub budget: Option<u64>,
    /// Chains of pipes for `ash_ilp`, by their numbers. Each becomes one loop.
    pub pipes: Vec<Vec<Pipe>>,
    /// Places that it may send to.
    pub destinations: Vec<Destination>,
    /// It sees only its own messages, each copied for it, and not the memory that all messages
    /// arrive in.
    pub private: bool,
    /// Involuntary aborts after which it gets no more messages.
    pub faults: Option<u64>,
}

impl HandlerSpec {
    /// Describes a handler without code, for all messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            filter: Filter::default(),
            priority: 0,
            owner: String::new(),
            mode: Mode::Write,
            objects: Vec::new(),
            archives: Vec::new(),
            memory: 1 << 20,
            stack: 64 << 10,
            state: 0,
            segment: 0,
            buffer: 0,
            time: Duration::from_millis(100),
            budget: None,
            pipes: Vec::new(),
            destinations: Vec::new(),
            private: false,
            faults: None,
        }
    }

    /// Composes the loops of its pipes.
    ///
    /// # Errors
    /// Those of [`Catalog::add`].
    pub fn loops(&self) -> Result<Catalog, ComposeError> {
        let mut catalog = Catalog::new(Options { budget: self.budget.is_some(), ..Options::new(self.mode) });
        self.pipes.iter().try_for_each(|pipes| catalog.add(pipes).map(drop))?;
        Ok(catalog)
    }
}

/// The memory of a handler that lives longer than its code. Clones are one memory.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    state: Option<RegionFile>,
    segment: Option<RegionFile>,
    buffer: Option<RegionFile>,
}

impl Keep {
    /// Makes the memory that a handler asks for.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(spec: &HandlerSpec) -> io::Result<Self> {
        let make = |bytes| if bytes == 0 { Ok(None) } else { RegionFile::create(bytes).map(Some) };
        Ok(Self { state: make(spec.state)?, segment: make(spec.segment)?, buffer: make(spec.buffer)? })
    }

    /// Says whether a handler asks for memory of these sizes.
    fn fits(&self, spec: &HandlerSpec) -> bool {
        let fits = |file: &Option<RegionFile>, bytes: u64| {
            file.as_ref().map_or(0, RegionFile::bytes) == bytes.next_multiple_of(sfi_contract::layout::PAGE_SIZE)
        };
        fits(&self.state, spec.state) && fits(&self.segment, spec.segment) && fits(&self.buffer, spec.buffer)
    }

    /// Maps the state for the application.
    ///
    /// # Errors
    /// The operating system's; not found if the handler has none.
    pub fn state(&self) -> io::Result<View> {
        self.state.as_ref().ok_or(io::ErrorKind::NotFound)?.view()
    }

    /// Maps the segment for the application.
    ///
    /// # Errors
    /// As [`Keep::state`].
    pub fn segment(&self) -> io::Result<View> {
        self.segment.as_ref().ok_or(io::ErrorKind::NotFound)?.view()
    }

    /// Maps the buffer for the application.
    ///
    /// # Errors
    /// As [`Keep::state`].
    pub fn buffer(&self) -> io::Result<View> {
        self.buffer.as_ref().ok_or(io::ErrorKind::NotFound)?.view()
    }
}

/// A handler cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Its world cannot be built.
    #[error("handler `{handler}` cannot be loaded")]
    Build {
        /// The handler.
        handler: String,
        /// The reason.
        #[source]
        error: Box<BuildError>,
    },
    /// Its pipes are no loop.
    #[error("the pipes of handler `{handler}` cannot be composed")]
    Pipes {
        /// The handler.
        handler: String,
        /// The reason.
        #[source]
        error: ComposeError,
    },
    /// It has no entry point.
    #[error("handler `{handler}` has no function `{ENTRY}`")]
    Entry {
        /// The handler.
        handler: String,
        /// The failed look-up.
        #[source]
        error: LookupError,
    },
    /// The memory does not fit.
    #[error("handler `{0}`: the state, the segment or the buffer has another size than before")]
    Size(String),
    /// The operating system refuses memory.
    #[error("handler `{handler}` gets no memory")]
    Memory {
        /// The handler.
        handler: String,
        /// The reason.
        #[source]
        error: io::Error,
    },
}

/// The end of a handler's run.
#[derive(Debug)]
pub enum Ended {
    /// It took the message.
    Commit,
    /// It declined the message (voluntary abort).
    Decline,
    /// It faulted, or took too long (involuntary abort).
    Fault(Box<Fault>),
    /// It could not be entered.
    Unready(Box<CallError>),
}

/// The snapshot of a handler's state.
struct State {
    view: View,
    saved: Vec<u8>,
}

/// A handler's code in its domain.
struct Sandboxed {
    world: World,
    entry: TypedFn<Entry>,
    /// The address of the message memory in the handler's terms.
    frames: u64,
    /// The memory of a handler that sees only its own messages.
    private: Option<View>,
}

/// The code of a handler.
enum Code {
    Sandboxed(Box<Sandboxed>),
    Native(NativeHandler),
}

/// A handler that is ready for messages.
pub struct Handler {
    spec: HandlerSpec,
    code: Code,
    state: Option<State>,
    segment: Option<View>,
    /// The buffer, for code of the host's own.
    buffer: Option<View>,
    keep: Keep,
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl Handler {
    /// Verifies, links and places a handler for messages in this memory, each of at most `longest`
    /// bytes.
    ///
    /// # Errors
    /// [`HandlerError`].
    pub fn new(spec: HandlerSpec, frames: &RegionFile, longest: usize) -> Result<Self, HandlerError> {
        let keep = Keep::new(&spec).map_err(memory(&spec.name))?;
        Self::with(spec, frames, longest, keep)
    }

    /// As [`Handler::new`], with the memory of an earlier handler.
    ///
    /// # Errors
    /// [`HandlerError`].
    pub fn with(spec: HandlerSpec, frames: &RegionFile, longest: usize, keep: Keep) -> Result<Self, HandlerError> {
        if !keep.fits(&spec) {
            return Err(HandlerError::Size(spec.name));
        }
        let failed = memory(&spec.name);
        let own = spec.private.then(|| RegionFile::create(longest as u64)).transpose().map_err(&failed)?;
        let seen = own.as_ref().unwrap_or(frames);
        let view = |file: &Option<RegionFile>| file.as_ref().map(RegionFile::view).transpose();
        let span = Arc::new(OnceLock::new());
        let segment = || Ok(Segment { view: view(&keep.segment).map_err(&failed)?, span: Arc::clone(&span) });
        let areas = Areas { frames: frames.view().map_err(&failed)?, segments: [segment()?, segment()?] };
        let build = |error| HandlerError::Build { handler: spec.name.clone(), error: Box::new(error) };
        let passed = (!spec.pipes.is_empty() && keep.segment.is_some()).then(|| RegionFile::create(passed(longest)));
        let passed = passed.transpose().map_err(&failed)?;
        let world = describe(&spec, seen, &keep, passed.as_ref());
        let world = world.map_err(|error| HandlerError::Pipes { handler: spec.name.clone(), error })?;
        let world = trusted::offer(world, areas, spec.destinations.clone()).build().map_err(build)?;
        let domain = world.domain(DOMAIN).expect("the domain was described");
        let entry = domain.export(ENTRY);
        let entry = entry.map_err(|error| HandlerError::Entry { handler: spec.name.clone(), error })?;
        let place = |symbol: &str| domain.symbol(symbol).map(|pointer| pointer.0);
        if let (Some(at), Some(segment)) = (place("ash_segment"), &keep.segment) {
            let _ = span.set(Span { at: u64::from(at as u32), length: segment.bytes() });
        }
        let frames = place("ash_frames").expect("the region was described");
        let private = own.as_ref().map(RegionFile::view).transpose().map_err(&failed)?;
        Self::assemble(spec, Code::Sandboxed(Box::new(Sandboxed { world, entry, frames, private })), keep)
    }

    /// Makes a handler of the host's own. A panic in it goes through the engine.
    ///
    /// # Errors
    /// [`HandlerError::Memory`].
    pub fn native(spec: HandlerSpec, code: NativeHandler) -> Result<Self, HandlerError> {
        let keep = Keep::new(&spec).map_err(memory(&spec.name))?;
        Self::assemble(spec, Code::Native(code), keep)
    }

    fn assemble(spec: HandlerSpec, code: Code, keep: Keep) -> Result<Self, HandlerError> {
        let failed = memory(&spec.name);
        let state = keep.state().map(Some).or_else(absent).map_err(&failed)?;
        let state = state.map(|view| State { saved: vec![0; view.len()], view });
        let segment = keep.segment().map(Some).or_else(absent).map_err(&failed)?;
        let buffer = keep.buffer().map(Some).or_else(absent).map_err(&failed)?;
        Ok(Self { spec, code, state, segment, buffer, keep })
    }

    /// Returns its description.
    pub fn spec(&self) -> &HandlerSpec {
        &self.spec
    }

    /// Returns its memory, for the application and for a handler that replaces this one.
    pub fn keep(&self) -> Keep {
        self.keep.clone()
    }

    /// Runs it on a message. After an involuntary abort its state and its segment are as before.
    pub(crate) fn run(&mut self, messages: &View, frame: Frame, head: Head, longest: usize) -> Ended {
        let code = match &mut self.code {
            Code::Sandboxed(code) => code,
            Code::Native(code) => {
                call::begin(None, longest);
                let (state, segment) = (self.state.as_mut().map(|state| &mut state.view), self.segment.as_mut());
                let taken =
                    code(&mut NativeCall { messages, frame, head, state, segment, buffer: self.buffer.as_mut() });
                return if taken { Ended::Commit } else { Ended::Decline };
            }
        };
        let at = match &mut code.private {
            None => code.frames + frame.at as u64,
            Some(own) => match own.copy_from(0, messages, frame.at, head.length()) {
                Ok(()) => code.frames,
                Err(_) => return Ended::Decline,
            },
        };
        if let Some(state) = &mut self.state {
            state.view.read(0, &mut state.saved).expect("the snapshot has the state's size");
        }
        let arguments = (at, head.length() as u64, head.payload() as u64);
        call::begin(Some((frame, head)), longest);
        let result = code.entry.call(&mut code.world, arguments);
        call::end();
        match result {
            // The function returns an `int`, so the upper half of the register says nothing.
            Ok(result) if result as u32 == 0 => Ended::Commit,
            Ok(_) => Ended::Decline,
            Err(error) => {
                self.undo();
                match error {
                    CallError::Fault(fault) => Ended::Fault(Box::new(fault)),
                    error => Ended::Unready(Box::new(error)),
                }
            }
        }
    }

    fn undo(&mut self) {
        if let Some(state) = &mut self.state {
            state.view.write(0, &state.saved).expect("the snapshot has the state's size");
        }
        if let Some(segment) = &mut self.segment {
            call::with(|call| call.undo.restore(segment));
        }
    }
}

/// Takes memory that a handler did not ask for as none.
fn absent(error: io::Error) -> io::Result<Option<View>> {
    if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
}

fn memory(handler: &str) -> impl Fn(io::Error) -> HandlerError + use<> {
    let handler = handler.to_owned();
    move |error| HandlerError::Memory { handler: handler.clone(), error }
}

/// Returns the bytes that a loop stores at most for a message: gauges make it at most 64 times as
/// long, and it may end with a part of a word of at most 64 bytes.
fn passed(longest: usize) -> u64 {
    64 * (longest as u64 + 64)
}

/// Describes the world of a handler that sees messages in this memory. `passed` is for bytes that
/// loops pass to the segment.
fn describe(
    spec: &HandlerSpec,
    seen: &RegionFile,
    keep: &Keep,
    passed: Option<&RegionFile>,
) -> Result<sfi_loader::Builder, ComposeError> {
    let mut domain = DomainSpec::new(DOMAIN)
        .mode(spec.mode)
        .memory(spec.memory)
        .stack(spec.stack)
        .restart(Restart::Always)
        .exports([ENTRY])
        .shared("ash_frames", "frames", Access::Read);
    for (name, bytes) in &spec.objects {
        domain = domain.object(name.clone(), bytes.clone());
    }
    for (name, bytes) in &spec.archives {
        domain = domain.archive(name.clone(), bytes.clone());
    }
    if !spec.pipes.is_empty() {
        domain = domain.object("pipes", spec.loops()?.object()?);
    }
    let mut world = World::builder().region_file("frames", seen);
    match spec.budget {
        Some(most) => domain = domain.instructions(most),
        None => world = world.time_limit(spec.time),
    }
    if let Some(state) = &keep.state {
        world = world.region_file("state", state);
        domain = domain.shared("ash_state", "state", Access::ReadWrite);
    }
    if let Some(segment) = &keep.segment {
        world = world.region_file("segment", segment);
        domain = domain.shared("ash_segment", "segment", Access::Read);
    }
    if let Some(buffer) = &keep.buffer {
        world = world.region_file("buffer", buffer);
        domain = domain.shared("ash_buffer", "buffer", Access::ReadWrite);
    }
    if let Some(passed) = passed {
        world = world.region_file("loop", passed);
        domain = domain.shared("ash_loop", "loop", Access::ReadWrite);
    }
    Ok(world.domain(trusted::grant(domain)))
}
