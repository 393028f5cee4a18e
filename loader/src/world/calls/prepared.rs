//! Calls that a host in another language prepares once and makes often: no allocation, no look-up
//! by name, and arguments that the host writes to the place where the callee reads them.
//!
//! That place is the callee's data stack, the A-stack of Bryce & Muller, "Matching Micro-Kernels to
//! Modern Applications using Fine-Grained Memory Protection", section 3.2: the caller and the
//! callee both see it, so an argument is copied once.

use crate::fault::thread;
use crate::gate::ids::DomainId;
use crate::gate::records::{CallFrame, DomainState, Status, ThreadState, flag};
use crate::spec::signature::{Argument, Outcome, Signature};
use crate::world::calls::buffers_in::CALLEE_RESERVE;
use crate::world::calls::call::{Enter, Hold, TypedFn};
use crate::world::calls::values::{Arguments, FLOAT_REGISTERS, INT_REGISTERS, MAX_ARGUMENTS};
use crate::world::domain_ref::DomainRef;
use crate::world::error::{CallError, Failure, LookupError};
use crate::world::held::{Held, World};
use crate::world::inner::Inner;
use crate::world::lanes::take::Visit;
use std::sync::Arc;

/// A function of a domain, prepared for many calls. It finds its function again after the domain
/// was restarted or loaded again.
#[derive(Debug)]
pub struct Prepared {
    index: DomainId,
    domain: Arc<str>,
    name: Arc<str>,
    signature: Signature,
    /// Bit `i`: argument `i` travels in a vector register.
    floats: u32,
    /// Says whether each argument has a register, and the world neither lanes nor a limit of time.
    straight: bool,
    /// Says whether handlers of the host may end calls.
    interruptible: bool,
    /// The argument for each general and for each vector register. Those without one get the first
    /// argument once more.
    words: [u8; INT_REGISTERS],
    float_words: [u8; FLOAT_REGISTERS],
    entry: TypedFn<fn()>,
    /// Lowest address of the room of the next call, 0 for none.
    room: u64,
}

/// The word that registers hold in calls without arguments.
static NO_WORD: u64 = 0;

/// The end of a call that failed. Only for [`Prepared::error`] of the same function and world.
#[derive(Debug)]
pub struct Ended(Failure);

/// Finds a function of a domain. `floats`: some arguments travel in vector registers.
fn find(inner: &Inner, index: DomainId, name: &Arc<str>, floats: bool) -> Option<TypedFn<fn()>> {
    let offset = *inner.domains[index].image.functions_by_name.get(&**name)?;
    let mut entry: TypedFn<fn()> = inner.typed(index, offset, Some(Arc::clone(name)));
    entry.binding.flags |= if floats { flag::FLOATS } else { 0 };
    Some(entry)
}

impl DomainRef<'_> {
    /// Prepares calls of a global function.
    ///
    /// # Errors
    /// [`LookupError::Function`].
    pub fn prepare(&self, function: &str, signature: Signature) -> Result<Prepared, LookupError> {
        let inner = self.inner;
        let domain = &inner.domains[self.index];
        let unknown = || LookupError::Function { domain: domain.name.clone(), function: function.to_owned() };
        let bit = |(i, argument): (usize, &Argument)| u32::from(*argument == Argument::Float) << i;
        let floats = signature.arguments.iter().take(MAX_ARGUMENTS).enumerate().map(bit).sum();
        let count = signature.arguments.len();
        // The numbers of the arguments of one kind, in order.
        let places = |float: bool| (0..count.min(MAX_ARGUMENTS)).filter(move |at| (floats >> at & 1 != 0) == float);
        let (mut ints, mut vectors) = (places(false), places(true));
        let words = std::array::from_fn(|_| ints.next().map_or(0, |at| at as u8));
        let float_words = std::array::from_fn(|_| vectors.next().map_or(0, |at| at as u8));
        let in_registers = count <= MAX_ARGUMENTS && ints.next().is_none() && vectors.next().is_none();
        let straight = in_registers && inner.lane.is_none() && !inner.is_limited();
        let interruptible = inner.is_watched();
        let name: Arc<str> = function.into();
        let entry = find(inner, self.index, &name, floats != 0).ok_or_else(unknown)?;
        let domain = domain.name.as_str().into();
        let index = self.index;
        let room = 0;
        Ok(Prepared {
            index,
            domain,
            name,
            signature,
            floats,
            straight,
            interruptible,
            words,
            float_words,
            entry,
            room,
        })
    }
}

impl Prepared {
    /// Returns the signature.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    fn wrong(&self) -> CallError {
        CallError::Arguments { domain: self.domain.to_string() }
    }

    /// Returns the data stack pointer of a callee that can be entered and lives where it did when
    /// the function was found.
    ///
    /// # Safety
    /// The function is of a world that is held.
    #[inline(always)]
    unsafe fn fresh(&self) -> Option<u64> {
        let state = self.entry.binding.callee;
        // SAFETY: the callee is this world's. Its state lives as long as the world, and nobody else
        // uses it while the host runs.
        let (sp, generation) = unsafe { ((*state).sp, (*state).generation) };
        (sp != 0 && generation == self.entry.generation).then_some(sp)
    }

    /// Makes the callee ready, and finds the function again if the callee lives at another place.
    /// Returns its state and its data stack pointer.
    #[inline]
    fn refresh(&mut self, held: &mut Held<'_>) -> Result<(*mut DomainState, u64), CallError> {
        if held.id != self.entry.world {
            return Err(CallError::WrongWorld);
        }
        // SAFETY: the world is this one.
        match unsafe { self.fresh() } {
            Some(sp) => Ok((self.entry.binding.callee, sp)),
            None => self.refresh_again(held),
        }
    }

    /// Handles a callee that is dead, active, or lives at another place since the last call.
    #[cold]
    fn refresh_again(&mut self, held: &mut Held<'_>) -> Result<(*mut DomainState, u64), CallError> {
        // SAFETY: as in `fresh`.
        if unsafe { (*self.entry.binding.callee).life } != self.entry.life {
            return Err(CallError::Discarded);
        }
        let (state, sp) = held.ready(self.index)?;
        // SAFETY: as in `fresh`.
        unsafe {
            if (*state).generation != self.entry.generation {
                let found = find(held, self.index, &self.name, self.floats != 0);
                self.entry = found.ok_or_else(|| CallError::Gone { domain: self.domain.to_string() })?;
            }
        }
        Ok((state, sp))
    }

    /// Makes room for the arguments of the next call on the callee's data stack. Returns its
    /// address, for the host and for the callee, a multiple of 16. The bytes hold leftovers of the
    /// callee. The callee is restarted first if it is dead and may be restarted.
    ///
    /// # Errors
    /// [`CallError::Arguments`] if the data stack has no room, or in a lane; otherwise as
    /// [`TypedFn::call`](crate::TypedFn::call) for a callee that cannot be entered.
    #[inline]
    pub fn room(&mut self, enter: &mut (impl Enter + ?Sized), size: usize) -> Result<*mut u8, CallError> {
        let mut held = enter.held();
        self.room = 0;
        // Between two calls another lane may have the stack.
        if held.lane.is_some() {
            return Err(self.wrong());
        }
        let (_, sp) = self.refresh(&mut held)?;
        // SAFETY: `refresh` gave the data stack pointer.
        self.room = unsafe { self.room_below(sp, size) }.ok_or_else(|| self.wrong())?;
        Ok(self.room as *mut u8)
    }

    /// Returns the address of a room of the callee, if its data stack has that much.
    ///
    /// # Safety
    /// `sp` is the data stack pointer of the callee, which is of a world that is held.
    #[inline(always)]
    unsafe fn room_below(&self, sp: u64, size: usize) -> Option<u64> {
        // SAFETY: as in `fresh`.
        let low = unsafe { (*self.entry.binding.callee).stack_low.number() } + CALLEE_RESERVE;
        sp.checked_sub(size as u64).map(|at| at & !15).filter(|at| *at >= low)
    }

    /// Makes room if the callee is ready and has it. Never panics. `None`: nothing happened, and
    /// [`Prepared::room`] makes the room or says why not.
    #[inline(always)]
    pub fn room_straight(&mut self, world: &mut World, size: usize) -> Option<*mut u8> {
        let held = world.held();
        if held.lane.is_some() || held.id != self.entry.world {
            return None;
        }
        // SAFETY: the world is this one, and `fresh` gives the data stack pointer.
        let room = unsafe { self.fresh().and_then(|sp| self.room_below(sp, size)) }?;
        self.room = room;
        Some(room as *mut u8)
    }

    /// Calls the function with one word for each argument, as
    /// [`DynFn::call`](crate::DynFn::call). The room that was made before belongs to this call and
    /// is gone after it.
    ///
    /// # Errors
    /// As for [`DynFn::call`](crate::DynFn::call).
    ///
    /// # Panics
    /// As [`TypedFn::call`](crate::TypedFn::call).
    #[inline]
    pub fn call(&mut self, enter: &mut (impl Enter + ?Sized), words: &[u64]) -> Result<u64, CallError> {
        let mut held = enter.held();
        let straight = if held.is_nested() { None } else { self.straight(held.again(), words) };
        match straight {
            Some(Ok(result)) => Ok(result),
            Some(Err(ended)) => Err(self.ended(&mut held, ended)),
            None => self.call_by_list(&mut held, words),
        }
    }

    /// Makes the call if it takes no more than the crossing: each argument has a register, the
    /// callee is ready, and the call has no limits and is not in a lane. Never panics. `None`:
    /// nothing happened, and [`Prepared::call`] makes the call or says why not.
    ///
    /// # Errors
    /// The call failed. [`Prepared::error`] puts it into words.
    #[inline(always)]
    pub fn call_straight(&mut self, world: &mut World, words: &[u64]) -> Option<Result<u64, Ended>> {
        self.straight(world.held(), words)
    }

    /// Puts the end of a call of this function into words.
    ///
    /// # Panics
    /// As [`TypedFn::call`](crate::TypedFn::call).
    #[cold]
    pub fn error(&mut self, world: &mut World, ended: Ended) -> CallError {
        self.ended(&mut world.held(), ended)
    }

    /// Makes the call as [`Prepared::call_straight`] does. The call is not nested.
    #[inline(always)]
    fn straight(&mut self, held: Held<'_>, words: &[u64]) -> Option<Result<u64, Ended>> {
        if self.room != 0 || self.floats != 0 {
            return self.straight_aside(held, words);
        }
        let (state, sp) = self.straight_to(&held, words)?;
        // SAFETY: `straight_to` gave both.
        Some(unsafe { self.straight_at::<false>(held, state, words, sp) })
    }

    /// Makes a straight call that room was made for, or with arguments in vector registers.
    #[inline(never)]
    fn straight_aside(&mut self, held: Held<'_>, words: &[u64]) -> Option<Result<u64, Ended>> {
        let (state, sp) = self.straight_to(&held, words)?;
        // SAFETY: `straight_to` gave both.
        let cross = |sp| unsafe {
            match self.floats {
                0 => self.straight_at::<false>(held, state, words, sp),
                _ => self.straight_at::<true>(held, state, words, sp),
            }
        };
        if self.room == 0 {
            return Some(cross(sp));
        }
        // SAFETY: the callee is this world's, and ready.
        let crossed = unsafe { Self::below(self.entry.binding.callee, self.room, cross) };
        if crossed.is_some() {
            self.room = 0;
        }
        crossed
    }

    /// Runs a call whose callee's data stack begins at a room. `None`: the room is one of an
    /// earlier life, above the data stack pointer.
    ///
    /// # Safety
    /// The callee is of a world that is held, and can be entered.
    #[inline(always)]
    unsafe fn below<R>(callee: *mut DomainState, room: u64, call: impl FnOnce(u64) -> R) -> Option<R> {
        // SAFETY: see the function's contract. The state lives as long as the world, and nobody
        // else uses it while the host runs.
        unsafe {
            let (sp, generation) = ((*callee).sp, (*callee).generation);
            if room > sp || room < (*callee).stack_low.number() {
                return None;
            }
            (*callee).sp = room;
            let result = call(room);
            // A fault clears the pointer, and a restart sets it.
            if (*callee).sp == room && (*callee).generation == generation {
                (*callee).sp = sp;
            }
            Some(result)
        }
    }

    /// Returns this thread's state and the callee's data stack pointer if nothing stands in the way
    /// of a straight call.
    #[inline(always)]
    fn straight_to(&self, held: &Held<'_>, words: &[u64]) -> Option<(*mut ThreadState, u64)> {
        let all = words.len() == self.signature.arguments.len();
        // A domain with a budget may have joined the world since `prepare`.
        if !self.straight || !all || held.id != self.entry.world || held.is_budgeted() {
            return None;
        }
        let state = thread::state();
        // SAFETY: the world is this one. The thread's state is its own.
        unsafe { if (*state).ready { self.fresh().map(|sp| (state, sp)) } else { None } }
    }

    /// Crosses in a straight call. `FLOATS`: some arguments travel in vector registers.
    ///
    /// # Safety
    /// `straight_to` gave `state` and a data stack pointer for these words, and `sp` is one of the
    /// callee.
    #[inline(always)]
    unsafe fn straight_at<const FLOATS: bool>(
        &self,
        held: Held<'_>,
        state: *mut ThreadState,
        words: &[u64],
        sp: u64,
    ) -> Result<u64, Ended> {
        let words = if words.is_empty() { &raw const NO_WORD } else { words.as_ptr() };
        // SAFETY: see the function's contract. There are as many words as arguments. The binding is
        // the world's own, and the world has no limits, see `prepare` and `straight_to`.
        unsafe {
            // Each word goes from the host's memory to its register. A copy as a whole would read
            // the words that the host has just written two at a time, and wait for both.
            let [a, b, c, d, e, f] = self.words.each_ref();
            let word = |at: &u8| *words.add((*at).into());
            let ints = [word(a), word(b), word(c), word(d), word(e), word(f)];
            let mut frame = CallFrame { ints, sp, ..CallFrame::new() };
            if FLOATS {
                frame.floats = self.float_words.each_ref().map(word);
            }
            let crossed = match self.interruptible {
                true => held.cross_interruptible(state, &self.entry.binding, &mut frame, FLOATS),
                false => held.cross_straight(state, &self.entry.binding, &mut frame, FLOATS),
            };
            crossed.map(|()| self.result(&frame)).map_err(Ended)
        }
    }

    /// Returns the result of a call.
    #[inline(always)]
    fn result(&self, frame: &CallFrame) -> u64 {
        match self.signature.outcome {
            Outcome::Void => 0,
            Outcome::Int | Outcome::Pointer => frame.rax,
            Outcome::Float => frame.xmm0,
        }
    }

    /// Ends a call without a door that failed.
    #[cold]
    fn ended(&mut self, held: &mut Held<'_>, ended: Ended) -> CallError {
        // SAFETY: the callee is this world's: the call entered it.
        unsafe { Self::failed(held, self.entry.binding.callee, ended.0) }
    }

    /// Calls with arguments of all kinds, in all circumstances.
    #[inline(never)]
    fn call_by_list(&mut self, held: &mut Held<'_>, words: &[u64]) -> Result<u64, CallError> {
        if words.len() != self.signature.arguments.len() || words.len() > MAX_ARGUMENTS {
            return Err(self.wrong());
        }
        if held.id != self.entry.world {
            return Err(CallError::WrongWorld);
        }
        let mut arguments = Arguments::new();
        for (i, word) in words.iter().enumerate() {
            arguments.push_word(*word, self.floats >> i & 1 != 0);
        }
        let state = self.entry.binding.callee;
        // SAFETY: the callee is this world's, which the caller holds until it drops the result.
        let _visit: Option<Visit> = unsafe {
            match held.lane.is_some() {
                true => Some(held.visit(state).map_err(|status| held.failure(state, Failure::Status(status)))?),
                false => None,
            }
        };
        self.call_inside(held, &mut arguments)
    }

    /// Crosses, with the room that was made for the call.
    fn call_inside(&mut self, held: &mut Held<'_>, arguments: &mut Arguments) -> Result<u64, CallError> {
        let room = std::mem::take(&mut self.room);
        let (state, sp) = self.refresh(held)?;
        // SAFETY: the callee is this world's, and ready. The binding is the world's own.
        let crossed = unsafe {
            let mut cross = |sp| {
                arguments.frame.sp = sp;
                match !arguments.has_stack() || held.push_arguments(state, arguments) {
                    true => held.again().cross_in_place(&self.entry.binding, &mut arguments.frame, self.floats != 0),
                    false => Err(Failure::Status(Status::Arguments)),
                }
            };
            match room {
                0 => cross(sp),
                room => Self::below(state, room, cross).ok_or_else(|| self.wrong())?,
            }
        };
        match crossed {
            Ok(()) => Ok(self.result(&arguments.frame)),
            // SAFETY: the state is that of a domain of this world.
            Err(failure) => Err(unsafe { Self::failed(held, state, failure) }),
        }
    }

    /// Ends a call that failed.
    ///
    /// # Safety
    /// `state` is that of one of the world's domains.
    #[cold]
    unsafe fn failed(held: &mut Held<'_>, state: *mut DomainState, failure: Failure) -> CallError {
        // SAFETY: see the function's contract.
        unsafe {
            held.go_out(state, 0, true);
            match failure {
                // The callee died below one of its own active calls.
                Failure::Status(Status::Dead) if (*state).fault.signal != 0 => {
                    held.failure(state, Failure::Status(Status::Fault))
                }
                failure => held.failure(state, failure),
            }
        }
    }

    /// Returns the host's address of memory of the callee, after a check that the whole range is
    /// memory that the callee may read. The callee may change the bytes in its next call, and takes
    /// them away when it is restarted or loaded again. From the first view on it closes no pages
    /// ([`crate::HostCall::protect_heap`]), and libraries that it closes stay. Bytes also go with a
    /// library that the host unlinks ([`crate::Manage::unlink`]), and with a region that the host
    /// or a root domain hides ([`crate::Manage::make_invisible`], `__sfi_make_invisible`).
    ///
    /// # Errors
    /// [`CallError::WrongWorld`]; [`CallError::Discarded`]; [`CallError::Arguments`] if the range
    /// is not the callee's.
    #[inline]
    pub fn view(&self, enter: &mut (impl Enter + ?Sized), pointer: u64, size: usize) -> Result<*const u8, CallError> {
        let held = enter.held();
        if held.id != self.entry.world {
            return Err(CallError::WrongWorld);
        }
        let domain = &held.domains[self.index];
        // Another instance may have the place of a discarded one.
        if domain.life != self.entry.life {
            return Err(CallError::Discarded);
        }
        let (_, offset) = domain.memory().find(pointer, size).map_err(|_| self.wrong())?;
        domain.viewed.set(true);
        Ok(domain.window.at(offset).number() as *const u8)
    }
}
