//! Calls whose signature is known only at run time, for hosts that are not compiled with it, such
//! as those in C.

use crate::gate::ids::DomainId;
use crate::spec::signature::{Argument, Outcome, Signature};
use crate::vm::address::WindowOffset;
use crate::world::calls::call::{Enter, Hold, TypedFn};
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::{Arguments, Function, MAX_ARGUMENTS};
use crate::world::domain_ref::DomainRef;
use crate::world::error::{CallError, LookupError};
use crate::world::held::Held;
use crate::world::inner::Inner;
use std::sync::Arc;

/// A function of a domain with its signature. It is looked up once and called often. Like
/// [`TypedFn`], it finds its function again after the domain was loaded again.
#[derive(Clone, Debug)]
pub struct DynFn {
    domain: Arc<str>,
    signature: Signature,
    entry: Way,
}

/// The way in: with or without vector registers to load.
#[derive(Clone, Debug)]
enum Way {
    Words(TypedFn<fn()>),
    Floats(TypedFn<fn(f64)>),
}

impl DynFn {
    fn new(inner: &Inner, index: DomainId, offset: WindowOffset, name: Option<Arc<str>>, signature: Signature) -> Self {
        let floats = signature.arguments.contains(&Argument::Float);
        let entry = if floats {
            Way::Floats(inner.typed(index, offset, name))
        } else {
            Way::Words(inner.typed(index, offset, name))
        };
        Self { domain: inner.domains[index].name.as_str().into(), signature, entry }
    }

    /// Returns the signature.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Calls the function with one word for each argument: integers extended to 64 bits, pointers
    /// in the domain's terms, the bits of floating-point numbers. Returns rax, or the bits of the
    /// floating-point result.
    ///
    /// # Errors
    /// [`CallError::Arguments`] if their number is not the signature's, or more than
    /// [`MAX_ARGUMENTS`] do not fit into registers; otherwise as [`TypedFn::call`].
    ///
    /// # Panics
    /// As [`TypedFn::call`].
    pub fn call(&self, enter: &mut (impl Enter + ?Sized), words: &[u64]) -> Result<u64, CallError> {
        let expected = &self.signature.arguments;
        if words.len() != expected.len() || self.signature.registers().stack_words as usize > MAX_ARGUMENTS {
            return Err(CallError::Arguments { domain: self.domain.to_string() });
        }
        let mut arguments = Arguments::new();
        for (word, argument) in words.iter().zip(expected) {
            arguments.push_word(*word, *argument == Argument::Float);
        }
        let held = enter.held();
        match &self.entry {
            Way::Words(function) => cross(function, held, &mut arguments),
            Way::Floats(function) => cross(function, held, &mut arguments),
        }?;
        Ok(match self.signature.outcome {
            Outcome::Void => 0,
            Outcome::Int | Outcome::Pointer => arguments.frame.rax,
            Outcome::Float => arguments.frame.xmm0,
        })
    }
}

/// Crosses, and puts a failure into words.
fn cross<F: Function>(function: &TypedFn<F>, mut held: Held<'_>, arguments: &mut Arguments) -> Result<(), CallError> {
    function.enter(held.again(), arguments).map_err(|failure| {
        // SAFETY: the callee is the world's, or `enter` found that it is another's.
        unsafe { held.failure(function.binding.callee, failure) }
    })
}

impl Inner {
    fn dynamic(&self, index: DomainId, function: &str, signature: Signature) -> Result<DynFn, LookupError> {
        let domain = &self.domains[index];
        let unknown = || LookupError::Function { domain: domain.name.clone(), function: function.to_owned() };
        let offset = *domain.image.functions_by_name.get(function).ok_or_else(unknown)?;
        Ok(DynFn::new(self, index, offset, Some(function.into()), signature))
    }
}

impl DomainRef<'_> {
    /// Returns a global function with the given signature.
    ///
    /// # Errors
    /// [`LookupError::Function`].
    pub fn export_dynamic(&self, function: &str, signature: Signature) -> Result<DynFn, LookupError> {
        self.inner.dynamic(self.index, function, signature)
    }

    /// Returns the function that a function pointer of the domain means, with the given signature.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn dynamic_at(&self, pointer: u64, signature: Signature) -> Result<DynFn, CallError> {
        let nothing = || CallError::NotAFunction { domain: self.inner.domains[self.index].name.clone() };
        let offset = self.inner.code_at(self.index, pointer).ok_or_else(nothing)?;
        Ok(DynFn::new(self.inner, self.index, offset, None, signature))
    }
}

impl HostCall<'_> {
    /// Returns the function that the caller passed as integer argument `index`, with the signature
    /// that its import declares for that `fn`. It leads to the function until the caller's domain
    /// is loaded again. `None` if the caller passed NULL.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`] if the import declares something else.
    pub fn passed(&mut self, index: usize) -> Result<Option<DynFn>, CallError> {
        let is_int = |argument: &&Argument| **argument != Argument::Float;
        let ints = self.signature().map_or(&[][..], |s| &s.arguments).iter().filter(is_int);
        let declared = match ints.skip(self.skipped()).nth(index) {
            Some(Argument::Function(signature)) => (**signature).clone(),
            _ => return Err(CallError::NotAFunction { domain: self.caller().to_owned() }),
        };
        match self.arg(index) {
            0 => Ok(None),
            pointer => self.function_dynamic(pointer, declared).map(Some),
        }
    }

    /// Returns a global function of any domain with the given signature.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn export_dynamic(&mut self, domain: &str, function: &str, signature: Signature) -> Result<DynFn, LookupError> {
        let inner = self.record();
        inner.dynamic(inner.find(domain)?, function, signature)
    }

    /// Returns the caller's function that a function pointer means.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn function_dynamic(&mut self, pointer: u64, signature: Signature) -> Result<DynFn, CallError> {
        let caller = self.caller_index();
        let inner = self.record();
        let nothing = || CallError::NotAFunction { domain: inner.domains[caller].name.clone() };
        let offset = inner.code_at(caller, pointer).ok_or_else(nothing)?;
        Ok(DynFn::new(inner, caller, offset, None, signature))
    }
}
