//! Calls that a host in another language prepares once and makes often: no allocation, no look-up
//! by name, and arguments that the host writes to the place where the callee reads them.
//!
//! That place is the callee's data stack, the A-stack of Bryce & Muller, "Matching Micro-Kernels to
//! Modern Applications using Fine-Grained Memory Protection", section 3.2: the caller and the
//! callee both see it, so an argument is copied once.

use crate::gate::ids::DomainId;
use crate::gate::records::{DomainState, Status, flag};
use crate::spec::signature::{Argument, Outcome, Signature};
use crate::world::calls::buffers_in::CALLEE_RESERVE;
use crate::world::calls::call::{Enter, Hold, TypedFn};
use crate::world::calls::values::{Arguments, INT_REGISTERS, MAX_ARGUMENTS};
use crate::world::domain_ref::DomainRef;
use crate::world::error::{CallError, Failure, LookupError};
use crate::world::held::Held;
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
    /// Number of the arguments if each has a general register, else [`usize::MAX`].
    ints: usize,
    entry: TypedFn<fn()>,
    /// Lowest address of the room of the next call, 0 for none.
    room: u64,
}

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
        let ints = Some(signature.arguments.len()).filter(|count| floats == 0 && *count <= INT_REGISTERS);
        let ints = ints.unwrap_or(usize::MAX);
        let name: Arc<str> = function.into();
        let entry = find(inner, self.index, &name, floats != 0).ok_or_else(unknown)?;
        let domain = domain.name.as_str().into();
        Ok(Prepared { index: self.index, domain, name, signature, floats, ints, entry, room: 0 })
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

    /// Makes the callee ready, and finds the function again if the callee lives at another place.
    /// Returns its state and its data stack pointer.
    #[inline]
    fn refresh(&mut self, held: &mut Held<'_>) -> Result<(*mut DomainState, u64), CallError> {
        if held.id != self.entry.world {
            return Err(CallError::WrongWorld);
        }
        let state = self.entry.binding.callee;
        // SAFETY: the callee is this world's, and its state lives as long as the world.
        let (sp, generation) = unsafe { ((*state).sp, (*state).generation) };
        if sp != 0 && generation == self.entry.generation {
            return Ok((state, sp));
        }
        self.refresh_again(held)
    }

    /// Handles a callee that is dead, active, or lives at another place since the last call.
    #[cold]
    fn refresh_again(&mut self, held: &mut Held<'_>) -> Result<(*mut DomainState, u64), CallError> {
        // SAFETY: as in `refresh`.
        if unsafe { (*self.entry.binding.callee).life } != self.entry.life {
            return Err(CallError::Discarded);
        }
        let (state, sp) = held.ready(self.index)?;
        // SAFETY: as in `refresh`.
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
        let (state, sp) = self.refresh(&mut held)?;
        // SAFETY: as in `refresh`.
        let low = unsafe { (*state).stack_low.number() } + CALLEE_RESERVE;
        let room = sp.checked_sub(size as u64).map(|at| at & !15).filter(|at| *at >= low);
        self.room = room.ok_or_else(|| self.wrong())?;
        Ok(self.room as *mut u8)
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
    #[inline(always)]
    pub fn call(&mut self, enter: &mut (impl Enter + ?Sized), words: &[u64]) -> Result<u64, CallError> {
        let mut held = enter.held();
        if words.len() != self.ints || held.lane.is_some() {
            return self.call_by_list(&mut held, words);
        }
        let mut arguments = Arguments::new();
        // Each word goes from the host's memory to its register. A copy as a whole would read the
        // words that the host has just written two at a time, and wait for both.
        arguments.frame.ints = match *words {
            [] => [0; INT_REGISTERS],
            [a] => [a, 0, 0, 0, 0, 0],
            [a, b] => [a, b, 0, 0, 0, 0],
            [a, b, c] => [a, b, c, 0, 0, 0],
            [a, b, c, d] => [a, b, c, d, 0, 0],
            [a, b, c, d, e] => [a, b, c, d, e, 0],
            [a, b, c, d, e, f] => [a, b, c, d, e, f],
            _ => return Err(self.wrong()),
        };
        self.call_inside(&mut held, &mut arguments)
    }

    /// Calls with arguments of all kinds, or in a lane by the callee's door.
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
    #[inline(always)]
    fn call_inside(&mut self, held: &mut Held<'_>, arguments: &mut Arguments) -> Result<u64, CallError> {
        let room = std::mem::take(&mut self.room);
        let (state, sp) = self.refresh(held)?;
        // SAFETY: the state lives as long as the world, and nobody else uses it while the host
        // runs. The binding is the world's own. A room above the data stack pointer is one of an
        // earlier life. A fault clears the pointer, and a restart sets it.
        unsafe {
            if room != 0 {
                if room > sp || room < (*state).stack_low.number() {
                    return Err(self.wrong());
                }
                (*state).sp = room;
            }
            arguments.frame.sp = (*state).sp;
            let fits = !arguments.has_stack() || {
                // The copy leaves the arguments of other calls without an address.
                let mut copy = *arguments;
                let fits = held.push_arguments(state, &mut copy);
                *arguments = copy;
                fits
            };
            let crossed = match fits {
                true => held.again().cross(&self.entry.binding, &mut arguments.frame, self.floats != 0),
                false => Err(Failure::Status(Status::Arguments)),
            };
            if room != 0 && (*state).sp == room && (*state).generation == self.entry.generation {
                (*state).sp = sp;
            }
            if let Err(failure) = crossed {
                return Err(Self::failed(held, state, failure));
            }
        }
        Ok(match self.signature.outcome {
            Outcome::Void => 0,
            Outcome::Int | Outcome::Pointer => arguments.frame.rax,
            Outcome::Float => arguments.frame.xmm0,
        })
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
