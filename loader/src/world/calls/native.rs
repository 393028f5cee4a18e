//! Calls by function pointer, with arguments that the host has already sorted into registers and
//! stack words. So everything crosses that the psABI can pass, structures by value included.

use crate::gate::ids::DomainId;
use crate::gate::records::{CallFrame, DomainState, Status};
use crate::vm::address::WindowOffset;
use crate::world::calls::buffers_in::CALLEE_RESERVE;
use crate::world::calls::call::{Enter, Hold, TypedFn};
use crate::world::calls::host_call::HostCall;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{CallError, Failure, LookupError};
use crate::world::held::Held;
use crate::world::inner::Inner;
use std::sync::Arc;

/// The arguments of a call, at the places that the psABI gives them (section 3.2.3).
#[derive(Clone, Copy, Debug)]
pub struct Registers<'s> {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// Low halves of xmm0 to xmm7, if any carries an argument.
    pub floats: Option<[u64; 8]>,
    /// Words on the stack, the first one at the lowest address.
    pub stack: &'s [u64],
}

/// The registers that a function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// rax and rdx.
    pub ints: [u64; 2],
    /// Low halves of xmm0 and xmm1.
    pub floats: [u64; 2],
}

/// A function of a domain, by a function pointer or by its name. After its domain was loaded again,
/// a function by a pointer is gone, and one by a name is found again.
#[derive(Clone, Debug)]
pub struct Code {
    index: DomainId,
    domain: Arc<str>,
    /// Without and with vector registers to load.
    words: TypedFn<fn()>,
    floats: TypedFn<fn(f64)>,
}

impl Inner {
    fn code(&self, index: DomainId, offset: WindowOffset, name: Option<Arc<str>>) -> Code {
        let domain = self.domains[index].name.as_str().into();
        let (words, floats) = (self.typed(index, offset, name.clone()), self.typed(index, offset, name));
        Code { index, domain, words, floats }
    }
}

impl DomainRef<'_> {
    /// Returns the function that a function pointer of the domain means.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn code_at(&self, pointer: u64) -> Result<Code, CallError> {
        let not = || CallError::NotAFunction { domain: self.domain().name.clone() };
        let offset = self.inner.code_at(self.index, pointer).ok_or_else(not)?;
        Ok(self.inner.code(self.index, offset, None))
    }

    /// Returns a global function.
    ///
    /// # Errors
    /// [`LookupError::Function`].
    pub fn code_named(&self, function: &str) -> Result<Code, LookupError> {
        let domain = self.domain();
        let unknown = || LookupError::Function { domain: domain.name.clone(), function: function.to_owned() };
        let offset = *domain.image.functions_by_name.get(function).ok_or_else(unknown)?;
        Ok(self.inner.code(self.index, offset, Some(function.into())))
    }
}

impl HostCall<'_> {
    /// Returns any domain of the caller's world.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn domain(&self, name: &str) -> Result<DomainRef<'_>, LookupError> {
        let inner = self.world();
        Ok(DomainRef { inner, index: inner.find(name)? })
    }
}

impl Code {
    fn wrong(&self) -> CallError {
        CallError::Arguments { domain: self.domain.to_string() }
    }

    /// Calls the function.
    ///
    /// # Errors
    /// As for [`TypedFn::call`](crate::TypedFn::call); [`CallError::Gone`] if the domain was loaded
    /// again since the function was looked up.
    ///
    /// # Panics
    /// As [`TypedFn::call`](crate::TypedFn::call).
    #[inline]
    pub fn call(&self, enter: &mut (impl Enter + ?Sized), registers: &Registers<'_>) -> Result<Returned, CallError> {
        let mut held = enter.held();
        if held.id != self.words.world {
            return Err(CallError::WrongWorld);
        }
        let callee = self.words.binding.callee;
        let _visit = match held.lane.is_some() {
            // SAFETY: the callee is this world's, which is held until the result is dropped.
            true => unsafe { Some(held.visit(callee).map_err(|s| held.failure(callee, Failure::Status(s)))?) },
            false => None,
        };
        // SAFETY: the world's number was compared, so the callee is its own, and its state and the
        // number live as long.
        match unsafe { (*self.words.binding.callee).sp == 0 || *self.words.fresh != self.words.generation } {
            true => self.call_again(held, registers),
            false => self.call_ready(held, registers),
        }
    }

    /// Calls the function in its world, whose domain can be entered and was not loaded again.
    #[inline]
    fn call_ready(&self, mut held: Held<'_>, registers: &Registers<'_>) -> Result<Returned, CallError> {
        let floats = registers.floats.is_some();
        let binding = if floats { &self.floats.binding } else { &self.words.binding };
        let state = binding.callee;
        let mut frame = CallFrame::new();
        frame.ints = registers.ints;
        frame.floats = registers.floats.unwrap_or_default();
        // SAFETY: the callee is the world's own and its state lives as long. The binding is the
        // world's, and `frame.sp` the callee's data stack pointer.
        unsafe {
            frame.sp = (*state).sp;
            if !registers.stack.is_empty() {
                frame.sp = push(&held, state, registers.stack).ok_or_else(|| self.wrong())?;
            }
            let crossed = held.again().cross_in_place(binding, &mut frame, floats);
            if crossed.is_err() {
                held.go_out(state, 0, true);
            }
            match crossed {
                Ok(()) => {}
                // The callee died below one of its own active calls.
                Err(Failure::Status(Status::Dead)) if (*state).fault.signal != 0 => {
                    return Err(held.failure(state, Failure::Status(Status::Fault)));
                }
                Err(failure) => return Err(held.failure(state, failure)),
            }
        }
        Ok(Returned { ints: [frame.rax, frame.rdx], floats: [frame.xmm0, frame.xmm1] })
    }

    /// Handles a callee that is dead, active, or was loaded again.
    #[cold]
    fn call_again(&self, mut held: Held<'_>, registers: &Registers<'_>) -> Result<Returned, CallError> {
        let entry = &self.words;
        // SAFETY: as in `call`.
        if unsafe { (*entry.binding.callee).life } != entry.life {
            return Err(CallError::Discarded);
        }
        held.ready(self.index)?;
        // SAFETY: as in `call`.
        if unsafe { *entry.fresh } == entry.generation {
            return self.call_ready(held, registers);
        }
        let functions = &held.domains[self.index].image.functions_by_name;
        let found = entry.name.as_ref().filter(|_| entry.link.is_none()).and_then(|name| functions.get(&**name));
        match found.copied() {
            Some(offset) => held.code(self.index, offset, None).call_ready(held, registers),
            None => Err(CallError::Gone { domain: self.domain.to_string() }),
        }
    }
}

/// Copies words to the callee's data stack. Returns their address, or `None` if there is no room.
///
/// # Safety
/// `state` is that of one of the world's domains, which can be entered.
unsafe fn push(held: &Held<'_>, state: *const DomainState, words: &[u64]) -> Option<u64> {
    // SAFETY: see the function's contract.
    let (index, sp, low) = unsafe { ((*state).index, (*state).sp, (*state).stack_low.number()) };
    let window = &held.domains[index].window;
    let at = sp.checked_sub((words.len() as u64).checked_mul(8)?)? & !15;
    let place = window.place(at).filter(|_| at >= low + CALLEE_RESERVE)?;
    for (i, word) in words.iter().enumerate() {
        // The range lies in the callee's data stack, which stays mapped read-write.
        window.write(place + 8 * i as u64, &word.to_le_bytes());
    }
    Some(at)
}
