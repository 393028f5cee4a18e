//! Crossings with buffers ([`crate::spec::interface`]): elements are copied straight from the
//! caller's memory to the callee's data stack, and back.
//!
//! The caller's lengths and pointers are checked against the caller's own memory, and against the
//! room on the callee's data stack, before the callee runs. None of the caller's memory is read
//! twice. A length behind a pointer is read from the copy, so that the callee sees the number that
//! was used. The copy back has the lengths that were checked, although the caller's memory may
//! change meanwhile (a shared region does).

use crate::gate::ids::DomainId;
use crate::gate::records::{DomainState, Status};
use crate::spec::Trust;
use crate::spec::interface::{Declaration, Direction, Kind, Length, Parameter, Scalar};
use crate::spec::signature::Signature;
use crate::vm::address::WindowOffset;
use crate::vm::window::Window;
use crate::world::calls::call::{Enter, Hold};
use crate::world::calls::functions::Loans;
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::Arguments;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{CallError, Failure, HostError, LookupError};
use crate::world::held::Held;
use crate::world::inner::Inner;
use sfi_contract::layout::WINDOW_SIZE;

/// Bytes of the callee's data stack that stay free for the callee itself.
pub(crate) const CALLEE_RESERVE: u64 = 16 << 10;

/// A host's argument for a [`Bound`] function, one for each parameter.
#[derive(Debug)]
pub enum Passed<'a> {
    /// A number: an integer extended to 64 bits, or the bits of a floating-point number. For a
    /// function: a pointer in the callee's terms ([`crate::World::lend`]) or 0.
    Word(u64),
    /// Elements that the callee reads.
    In(&'a [u8]),
    /// Elements that the callee writes.
    Out(&'a mut [u8]),
    /// Elements that the callee reads and writes.
    InOut(&'a mut [u8]),
}

/// An element of a buffer: integers and floating-point numbers.
pub trait Element: sealed::Plain {}
mod sealed {
    /// Types without padding, whose bits are all valid.
    pub trait Plain: Copy {}
}
macro_rules! elements {
    ($($t:ty),*) => { $( impl sealed::Plain for $t {} impl Element for $t {} )* };
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Returns the elements' bytes.
pub fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: elements have no padding, and every address is aligned for bytes.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Returns the elements' bytes, for writing.
pub fn bytes_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes`. All bits are valid elements.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// An argument for hosts in other languages. Others may hold its buffers and write to them
/// meanwhile, so no reference to them is made.
#[derive(Clone, Copy, Debug)]
pub enum Raw {
    /// A number, as in [`Passed::Word`].
    Word(u64),
    /// A buffer: its address, and its size in bytes.
    Buffer(*mut u8, usize),
}

/// A function of a domain with its declaration, for calls by the host.
#[derive(Clone, Debug)]
pub struct Bound {
    domain: String,
    declaration: Declaration,
}

impl DomainRef<'_> {
    /// Binds a function whose buffers cross by copy.
    ///
    /// # Errors
    /// [`LookupError::Function`].
    pub fn bind(&self, declaration: &Declaration) -> Result<Bound, LookupError> {
        self.export::<fn()>(&declaration.name)?;
        Ok(Bound { domain: self.domain().name.clone(), declaration: declaration.clone() })
    }
}

impl HostCall<'_> {
    /// Binds a function of any domain whose buffers cross by copy.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn bind(&mut self, domain: &str, declaration: &Declaration) -> Result<Bound, LookupError> {
        self.export::<fn()>(domain, &declaration.name)?;
        Ok(Bound { domain: domain.to_owned(), declaration: declaration.clone() })
    }
}

impl Bound {
    /// Returns the declaration of the function.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Calls the function with one argument for each parameter. Returns rax, or the bits of the
    /// floating-point result.
    ///
    /// # Errors
    /// [`CallError::Arguments`] if the arguments do not fit the declaration, a slice is shorter
    /// than its length, or the data stack has no room. Otherwise as [`crate::TypedFn::call`].
    pub fn call(&self, enter: &mut impl Enter, arguments: &mut [Passed<'_>]) -> Result<u64, CallError> {
        let fits = |(passed, kind): (&Passed<'_>, Kind)| match (passed, kind) {
            (Passed::Word(_), Kind::Number(_) | Kind::Function(_)) => true,
            (Passed::In(_), Kind::Buffer { direction, .. }) => direction == Direction::In,
            (Passed::Out(_), Kind::Buffer { direction, .. }) => direction == Direction::Out,
            (Passed::InOut(_), Kind::Buffer { direction, .. }) => direction == Direction::InOut,
            _ => false,
        };
        let word = |passed: &Passed<'_>| if let Passed::Word(word) = passed { *word } else { 0 };
        let as_declared = arguments.len() == self.kinds().len() && arguments.iter().zip(self.kinds()).all(fits);
        let words: Vec<u64> = arguments.iter().map(word).collect();
        self.cross(enter, as_declared, &words, &mut Slices(arguments))
    }

    /// Calls the function with buffers that are only known by their addresses. They may overlap. If
    /// other threads write to them meanwhile, the callee sees old or new elements, and lengths stay
    /// those that were checked.
    ///
    /// # Errors
    /// As [`Bound::call`].
    ///
    /// # Panics
    /// As [`crate::TypedFn::call`].
    ///
    /// # Safety
    /// The bytes of every buffer can be read, or written if the declaration says `out`, or both if
    /// `inout`.
    pub unsafe fn call_raw(&self, enter: &mut (impl Enter + ?Sized), arguments: &[Raw]) -> Result<u64, CallError> {
        let fits = |(raw, kind): (&Raw, Kind)| match raw {
            Raw::Word(_) => matches!(kind, Kind::Number(_) | Kind::Function(_)),
            Raw::Buffer(..) => matches!(kind, Kind::Buffer { .. }),
        };
        let word = |raw: &Raw| if let Raw::Word(word) = raw { *word } else { 0 };
        let as_declared = arguments.len() == self.kinds().len() && arguments.iter().zip(self.kinds()).all(fits);
        let words: Vec<u64> = arguments.iter().map(word).collect();
        self.cross(enter, as_declared, &words, &mut Raws(arguments))
    }

    fn kinds(&self) -> impl ExactSizeIterator<Item = Kind> {
        self.declaration.parameters.iter().map(|p| p.kind)
    }

    fn cross(
        &self,
        enter: &mut (impl Enter + ?Sized),
        as_declared: bool,
        words: &[u64],
        caller: &mut dyn Caller,
    ) -> Result<u64, CallError> {
        if !as_declared {
            return Err(CallError::Arguments { domain: self.domain.clone() });
        }
        let held = enter.held();
        let index = held.find(&self.domain).map_err(|_| CallError::Gone { domain: self.domain.clone() })?;
        call(held, index, &self.declaration, &self.declaration.name, words, caller)
    }
}

/// Returns the name of the host function that copies for an import. No import can name it.
pub(crate) fn host_name(client: &str, symbol: &str) -> String {
    format!("(interface) {client}.{symbol}")
}

/// Returns the registers of a call by a domain, one for each parameter.
pub(crate) fn words(cx: &HostCall<'_>, declaration: &Declaration) -> Vec<u64> {
    let (mut ints, mut floats) = (0, 0);
    let word = |parameter: &Parameter| match parameter.kind {
        Kind::Number(scalar) if scalar.is_float() => {
            floats += 1;
            cx.arg_f64(floats - 1).to_bits()
        }
        _ => {
            ints += 1;
            cx.arg(ints - 1)
        }
    };
    declaration.parameters.iter().map(word).collect()
}

/// Makes the target of an import with a declaration: it copies, calls the domain, and copies back.
pub(crate) fn forward(
    domain: String,
    function: String,
    declaration: Declaration,
) -> impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static {
    let signature = |parameter: &Parameter| match parameter.kind {
        Kind::Function(prototype) => prototype.signature().parse::<Signature>().ok(),
        Kind::Number(_) | Kind::Buffer { .. } => None,
    };
    let functions: Vec<Option<Signature>> = declaration.parameters.iter().map(signature).collect();
    move |cx| {
        let mut words = words(cx, &declaration);
        let caller = cx.caller_index();
        let mut loans = Loans::new(cx);
        let index = loans.cx.record().find(&domain)?;
        if index == caller {
            return Err(HostError::new("a domain does not cross to itself"));
        }
        loans.cx.held().ready(index)?;
        for (word, signature) in words.iter_mut().zip(&functions) {
            if let Some(signature) = signature {
                *word = loans.lend((caller, *word), index, signature, Trust::MutualDistrust)?;
            }
        }
        let mut memory = Pointers { caller, words: &words };
        let result = call(loans.cx.held(), index, &declaration, &function, &words, &mut memory)?;
        drop(loans);
        if declaration.result.is_some_and(Scalar::is_float) {
            cx.set_result_f64(f64::from_bits(result));
            return Ok(0);
        }
        Ok(result)
    }
}

/// The caller's side of the buffers, by number of the parameter. Every access is checked.
trait Caller {
    /// Copies the first `length` bytes to a window.
    fn load(&self, inner: &Inner, parameter: usize, length: u64, to: &Window, at: WindowOffset) -> bool;
    /// Copies `length` bytes from a window to the buffer.
    fn store(&mut self, inner: &Inner, parameter: usize, length: u64, from: &Window, at: WindowOffset) -> bool;
    /// Says whether the buffer has this many bytes that may be written.
    fn writable(&self, inner: &Inner, parameter: usize, length: u64) -> bool;
}

/// Buffers of the host.
struct Slices<'s, 'a>(&'s mut [Passed<'a>]);

impl Caller for Slices<'_, '_> {
    fn load(&self, _: &Inner, parameter: usize, length: u64, to: &Window, at: WindowOffset) -> bool {
        let from: &[u8] = match &self.0[parameter] {
            Passed::In(from) => from,
            Passed::InOut(from) => from,
            _ => return false,
        };
        let Some(from) = from.get(..length as usize) else { return false };
        to.write(at, from);
        true
    }

    fn store(&mut self, _: &Inner, parameter: usize, length: u64, from: &Window, at: WindowOffset) -> bool {
        let (Passed::Out(to) | Passed::InOut(to)) = &mut self.0[parameter] else { return false };
        let Some(to) = to.get_mut(..length as usize) else { return false };
        from.read(at, to);
        true
    }

    fn writable(&self, _: &Inner, parameter: usize, length: u64) -> bool {
        matches!(&self.0[parameter], Passed::Out(to) | Passed::InOut(to) if to.len() as u64 >= length)
    }
}

/// Buffers of a host by address. The caller of [`Bound::call_raw`] vouches for them.
struct Raws<'r>(&'r [Raw]);

impl Raws<'_> {
    /// Returns the address of a buffer, if it has this many bytes.
    fn place(&self, parameter: usize, length: u64) -> Option<*mut u8> {
        match self.0[parameter] {
            Raw::Buffer(at, bytes) if bytes as u64 >= length => Some(at),
            _ => None,
        }
    }
}

impl Caller for Raws<'_> {
    fn load(&self, _: &Inner, parameter: usize, length: u64, to: &Window, at: WindowOffset) -> bool {
        let from = self.place(parameter, length);
        // SAFETY: `length` bytes of the buffer can be read.
        from.map(|from| unsafe { to.write_from(at, from, length as usize) }).is_some()
    }

    fn store(&mut self, _: &Inner, parameter: usize, length: u64, from: &Window, at: WindowOffset) -> bool {
        let to = self.place(parameter, length);
        // SAFETY: `length` bytes of the buffer can be written.
        to.map(|to| unsafe { from.read_to(at, to, length as usize) }).is_some()
    }

    fn writable(&self, _: &Inner, parameter: usize, length: u64) -> bool {
        self.place(parameter, length).is_some()
    }
}

/// Buffers of a domain, by its pointers.
struct Pointers<'p> {
    caller: DomainId,
    words: &'p [u64],
}

impl Pointers<'_> {
    /// Returns the caller's window and the offset in it, if this many bytes are there.
    fn place<'i>(
        &self,
        inner: &'i Inner,
        parameter: usize,
        length: u64,
        write: bool,
    ) -> Option<(&'i Window, WindowOffset)> {
        let domain = &inner.domains[self.caller];
        let (memory, length) = (domain.memory(), usize::try_from(length).ok()?);
        let offset = match write {
            true => memory.find_writable(self.words[parameter], length).ok()?,
            false => memory.find(self.words[parameter], length).ok()?.1,
        };
        Some((&domain.window, offset))
    }
}

impl Caller for Pointers<'_> {
    fn load(&self, inner: &Inner, parameter: usize, length: u64, to: &Window, at: WindowOffset) -> bool {
        self.place(inner, parameter, length, false).map(|(from, offset)| from.copy(offset, length, to, at)).is_some()
    }

    fn store(&mut self, inner: &Inner, parameter: usize, length: u64, from: &Window, at: WindowOffset) -> bool {
        self.place(inner, parameter, length, true).map(|(to, offset)| from.copy(at, length, to, offset)).is_some()
    }

    fn writable(&self, inner: &Inner, parameter: usize, length: u64) -> bool {
        self.place(inner, parameter, length, true).is_some()
    }
}

/// A buffer's copy on the callee's data stack.
#[derive(Clone, Copy)]
struct Copy {
    parameter: usize,
    direction: Direction,
    offset: WindowOffset,
    length: u64,
}

/// Copies, crosses, and copies back. `words` has a number for each parameter, with any value for a
/// buffer.
fn call(
    mut held: Held<'_>,
    index: DomainId,
    declaration: &Declaration,
    function: &str,
    words: &[u64],
    caller: &mut dyn Caller,
) -> Result<u64, CallError> {
    let state = held.domains[index].state;
    // SAFETY: the state is the world's own. The copies lie on the callee's stack, so the lane is
    // inside before they are made and until they are copied back.
    unsafe {
        let _visit = held.visit(state).map_err(|status| held.failure(state, Failure::Status(status)))?;
        call_inside(held.again(), index, declaration, function, words, caller)
    }
}

fn call_inside(
    mut held: Held<'_>,
    index: DomainId,
    declaration: &Declaration,
    function: &str,
    words: &[u64],
    caller: &mut dyn Caller,
) -> Result<u64, CallError> {
    let (state, sp) = held.ready(index)?;
    let domain = &held.domains[index];
    let gone = || CallError::Gone { domain: domain.name.clone() };
    let offset = *domain.image.functions_by_name.get(function).ok_or_else(gone)?;
    // SAFETY: the state lives as long as the world.
    let stack = [sp, unsafe { (*state).stack_low.number() } + CALLEE_RESERVE].map(|at| domain.window.place(at));
    let [Some(top), Some(lowest)] = stack else { return Err(gone()) };
    // SAFETY: the domain is the world's own, and does not run.
    let wrong = move |held: &mut Held<'_>| unsafe { held.failure(state, Failure::Status(Status::Arguments)) };
    let Some(copies) = copy_in(&held, declaration, words, caller, &domain.window, (top, lowest)) else {
        return Err(wrong(&mut held));
    };

    let mut arguments = Arguments::new();
    for (i, parameter) in declaration.parameters.iter().enumerate() {
        match parameter.kind {
            Kind::Number(scalar) => arguments.push_word(words[i], scalar.is_float()),
            Kind::Function(_) => arguments.push_word(words[i], false),
            Kind::Buffer { .. } => {
                let copy = copies.iter().find(|c| c.parameter == i);
                arguments.push_word(copy.map_or(0, |c| held.domains[index].window.at(c.offset).number()), false);
            }
        }
    }
    // The callee's frames begin below the copies.
    let low = copies.iter().map(|c| c.offset).min().map_or(sp, |offset| held.domains[index].window.at(offset).number());
    // SAFETY: the state lives as long as the world, and nobody else uses it while the host runs.
    let generation = unsafe {
        (*state).sp = low;
        (*state).generation
    };
    let entered = held.enter_code(index, offset, declaration.has_floats(), &mut arguments);
    // SAFETY: as above.
    unsafe {
        if (*state).sp == low && (*state).generation == generation {
            (*state).sp = sp;
        }
    }
    entered?;
    let window = &held.domains[index].window;
    let stored = |c: &Copy| caller.store(&held, c.parameter, c.length, window, c.offset);
    if !copies.iter().filter(|c| c.direction.writes()).all(stored) {
        return Err(wrong(&mut held));
    }
    let float = declaration.result.is_some_and(Scalar::is_float);
    Ok(if float { arguments.frame.xmm0 } else { arguments.frame.rax })
}

impl Held<'_> {
    /// Prepares a domain for a call, and restarts it if necessary. Returns its state, and the place
    /// where its data stack goes on.
    pub(crate) fn ready(&mut self, index: DomainId) -> Result<(*mut DomainState, u64), CallError> {
        let state = self.domains[index].state;
        // SAFETY: the state lives as long as the world, and the domain does not run.
        unsafe {
            if (*state).dead != Status::Ok
                && let Err(status) = self.revive(index)
            {
                return Err(self.failure(state, Failure::Status(status)));
            }
            match (*state).sp {
                0 => Err(self.failure(state, Failure::Status(Status::Refused))),
                sp => Ok((state, sp)),
            }
        }
    }
}

/// Places the buffers from the data stack pointer downwards, 16-byte aligned, and fills them.
/// `room` holds the window offsets of the data stack pointer and of the lowest place. Returns
/// `None` if a value does not fit the declaration, or there is no room.
fn copy_in(
    inner: &Inner,
    declaration: &Declaration,
    words: &[u64],
    caller: &dyn Caller,
    window: &Window,
    (mut top, lowest): (WindowOffset, WindowOffset),
) -> Option<Vec<Copy>> {
    let mut copies: Vec<Copy> = Vec::new();
    // Lengths behind pointers come last, because they are read from the copies.
    for behind in [false, true] {
        for (parameter, declared) in declaration.parameters.iter().enumerate() {
            let Kind::Buffer { direction, element, length } = declared.kind else { continue };
            if behind != matches!(length, Length::Pointee(_)) {
                continue;
            }
            let count = match length {
                Length::Constant(count) => count,
                Length::Parameter(of) => number(words[of], declaration.parameters[of].kind)?,
                Length::Pointee(of) => {
                    let Kind::Buffer { element, .. } = declaration.parameters[of].kind else { return None };
                    let copy = copies.iter().find(|c| c.parameter == of && c.length >= element.size())?;
                    let mut word = [0; 8];
                    window.read(copy.offset, &mut word[..element.size() as usize]);
                    number(u64::from_le_bytes(word), Kind::Number(element))?
                }
            };
            let length = count.checked_mul(element.size()).filter(|bytes| *bytes < WINDOW_SIZE)?;
            if length == 0 {
                continue;
            }
            top = top.aligned_below(length, 16).filter(|at| *at >= lowest)?;
            if direction.writes() && !caller.writable(inner, parameter, length) {
                return None;
            }
            if direction.reads() {
                caller.load(inner, parameter, length, window, top).then_some(())?;
            } else {
                window.zero(top, length);
            }
            copies.push(Copy { parameter, direction, offset: top, length });
        }
    }
    Some(copies)
}

/// Returns a length from a register: as wide as its type, and not negative.
pub(crate) fn number(word: u64, kind: Kind) -> Option<u64> {
    let Kind::Number(scalar) = kind else { return None };
    let shift = 64 - 8 * scalar.size();
    match scalar {
        Scalar::Signed(_) => u64::try_from(((word << shift) as i64) >> shift).ok(),
        Scalar::Unsigned(_) => Some(word << shift >> shift),
        Scalar::Float(_) => None,
    }
}
