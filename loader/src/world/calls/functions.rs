//! Calls that pass functions: the host lends them to the callee while the call lasts
//! (`world/bindings/lend.rs`).
//!
//! An import with an `fn` in its signature leads to this code of the host instead of to the gate
//! between domains, so other imports cost nothing extra. Calls of the callee through a lent
//! function are calls between domains like all others.

use crate::gate::ids::DomainId;
use crate::gate::records::{Binding, Context, HostFrame, Status};
use crate::spec::Trust;
use crate::spec::signature::{Argument, Outcome, Signature};
use crate::world::bindings::lendings::Loan;
use crate::world::bindings::record::To;
use crate::world::calls::host::Shim;
use crate::world::calls::host_call::HostCall;
use crate::world::calls::shim;
use crate::world::calls::values::Arguments;
use crate::world::error::HostError;
use crate::world::inner::Inner;

/// Returns the `shim` of bindings to domains that pass functions.
pub(crate) fn lends() -> usize {
    unsafe extern "C" fn lends(context: *mut Context, binding: *const Binding, frame: *mut HostFrame) -> Status {
        // SAFETY: the gate passes what a host function's shim gets.
        unsafe { shim::run(context, binding, frame, forward) }
    }
    let shim: Shim = lends;
    shim as *const () as usize
}

/// A call of a host function, and the functions that it lends to its callee. They are taken back
/// when it is over, however it ends.
pub(crate) struct Loans<'a, 'c> {
    /// The call.
    pub cx: &'a mut HostCall<'c>,
    loans: Vec<Loan>,
}

impl Drop for Loans<'_, '_> {
    fn drop(&mut self) {
        for loan in self.loans.drain(..) {
            // If the binding cannot be written the function stays lent: then the kernel refuses
            // what it allowed before.
            let _ = self.cx.record().end_loan(loan);
        }
    }
}

impl<'a, 'c> Loans<'a, 'c> {
    /// Starts without loans.
    pub(crate) fn new(cx: &'a mut HostCall<'c>) -> Self {
        Self { cx, loans: Vec::new() }
    }

    /// Lends a function of one domain to another. Returns the pointer in the callee's terms. Null
    /// stays null.
    pub(crate) fn lend(
        &mut self,
        (caller, pointer): (DomainId, u64),
        callee: DomainId,
        signature: &Signature,
        trust: Trust,
    ) -> Result<u64, HostError> {
        if pointer == 0 {
            return Ok(0);
        }
        let inner = self.cx.record();
        let no_function = || HostError::of_status(Status::Function, "an `fn` argument is no function of the caller");
        let offset = inner.own_function(caller, pointer).ok_or_else(no_function)?;
        let (function, to) = (inner.function_of(caller, offset), To::Code { domain: caller, offset });
        let lent = inner.lend(callee, function, to, signature, back(trust));
        let (loan, pointer) = lent.map_err(|error| HostError::of_status(Status::Exhausted, error.to_string()))?;
        self.loans.push(loan);
        Ok(pointer)
    }
}

/// Returns the trust level of calls back, in which the callee is the client. A client trusts only a
/// domain that trusts it both ways.
fn back(trust: Trust) -> Trust {
    if trust == Trust::TrustedBoth { trust } else { Trust::MutualDistrust }
}

/// Calls the domain that the caller's import leads to.
fn forward(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (caller, number) = (cx.caller_index(), cx.binding_id());
    let mut held = cx.held();
    let unbound = || HostError::of_status(Status::Unbound, "the import leads nowhere");
    let server = |inner: &Inner| inner.manager.records[number].as_ref()?.to.domain();
    let callee = server(&held).ok_or_else(unbound)?;
    held.ready(callee)?;
    // Pointers of the callee lead nowhere after its restart.
    let record = held.manager.records[number].as_ref().ok_or_else(unbound)?;
    let offset = record.to.place_in(&held.domains[callee]).ok_or_else(unbound)?;
    let (signature, trust) = (record.signature.clone().unwrap_or(Signature::NOTHING), record.trust);
    let mut loans = Loans::new(cx);
    let mut arguments = Arguments::new();
    let (mut ints, mut floats) = (0, 0);
    for argument in &signature.arguments {
        if *argument == Argument::Float {
            arguments.push_word(loans.cx.arg_f64(floats).to_bits(), true);
            floats += 1;
            continue;
        }
        let word = loans.cx.arg(ints);
        ints += 1;
        let word = match argument {
            Argument::Function(signature) => loans.lend((caller, word), callee, signature, trust)?,
            Argument::Pointer => loans.cx.record().domains[callee].rebase(word),
            Argument::Int | Argument::Float => word,
        };
        arguments.push_word(word, false);
    }
    let mut held = loans.cx.held();
    held.enter_code(callee, offset, floats > 0, &mut arguments)?;
    let (result, float) = (arguments.frame.rax, arguments.frame.xmm0);
    match signature.outcome {
        Outcome::Void => Ok(0),
        Outcome::Int => Ok(result),
        Outcome::Pointer if held.is_code(callee, result) => {
            Err(HostError::of_status(Status::Code, "a `ptr` result is a function pointer"))
        }
        Outcome::Pointer => Ok(held.domains[caller].rebase(result)),
        Outcome::Float => {
            loans.cx.set_result_f64(f64::from_bits(float));
            Ok(0)
        }
    }
}
