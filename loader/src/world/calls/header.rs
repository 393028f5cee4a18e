//! The header of an entry point (Bryce & Muller section 2.2). It runs before the procedure, takes
//! the procedure's number and the capability off the arguments, and decides. It is host code, so
//! neither side can bypass it.

use crate::spec::capability::{CAPABILITY_SIZE, Capability};
use crate::spec::signature::{Argument, Signature};
use crate::spec::{Entry, Header, Trust};
use crate::world::calls::functions::Loans;
use crate::world::calls::host_call::{HostCall, HostFn};
use crate::world::error::HostError;

impl Header {
    /// Checks the header's arguments and returns the number of the procedure. The procedure's own
    /// arguments are [`HostCall::arg`] from 0 on.
    pub(crate) fn check(&self, cx: &mut HostCall<'_>) -> Result<usize, HostError> {
        let mut taken = 0;
        let mut number = 0;
        if let Some(count) = self.procedures {
            let found = usize::try_from(cx.arg(0)).ok().filter(|n| *n < count);
            number = found.ok_or_else(|| HostError::new("there is no such procedure"))?;
            taken = 1;
        }
        if let Some(capability) = &self.capability {
            let mut shown = [0; CAPABILITY_SIZE];
            cx.memory().read_into(cx.arg(taken), &mut shown)?;
            if !capability.matches(&shown) {
                return Err(HostError::new("the capability is wrong"));
            }
            taken += 1;
        }
        cx.skip(taken);
        Ok(number)
    }
}

/// A supervisor domain: trusted code of the host behind the same gateways, without a sandbox.
pub struct Supervisor {
    pub(crate) name: String,
    pub(crate) services: Vec<(String, Service)>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Makes a supervisor without entry points. Its name must be unique among those of domains.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), services: Vec::new() }
    }

    /// Registers an entry point. Domains connect to it as `supervisor.name`.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>, service: Service) -> Self {
        self.services.push((name.into(), service));
        self
    }
}

/// The code of an entry point of a [`Supervisor`].
pub struct Service {
    procedures: Vec<HostFn>,
    numbered: bool,
    capability: Option<Capability>,
    pub(crate) signature: Option<String>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("procedures", &self.procedures.len()).finish_non_exhaustive()
    }
}

impl Service {
    /// Makes a service of one procedure, without a number.
    pub fn function(procedure: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static) -> Self {
        Self { procedures: vec![Box::new(procedure)], numbered: false, capability: None, signature: None }
    }

    /// Makes a service of several procedures, without any yet. A caller names one by its number,
    /// the first argument.
    pub fn procedures() -> Self {
        Self { procedures: Vec::new(), numbered: true, capability: None, signature: None }
    }

    /// Adds a procedure with the next number, from 0 on. Its arguments begin after the header's.
    #[must_use]
    pub fn procedure(
        mut self,
        procedure: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Self {
        self.procedures.push(Box::new(procedure));
        self
    }

    /// Demands a capability. Callers pass a pointer to its bits, after the number if there is one.
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        self.capability = Some(capability);
        self
    }

    /// Declares the arguments and the result, the header's arguments included, as for
    /// [`crate::Import::signature`].
    #[must_use]
    pub fn signature(mut self, text: impl Into<String>) -> Self {
        self.signature = Some(text.into());
        self
    }

    /// Returns the function of the entry point.
    pub(crate) fn into_function(self) -> HostFn {
        let Self { mut procedures, numbered, capability, .. } = self;
        let header = Header { procedures: numbered.then_some(procedures.len()), capability };
        Box::new(move |cx| {
            let number = header.check(cx)?;
            let procedure = procedures.get_mut(number).ok_or_else(|| HostError::new("there is no procedure"))?;
            procedure(cx)
        })
    }
}

/// Returns the name of the host function that is the header of a domain's entry point. No import
/// can name it.
pub(crate) fn host_name(domain: &str, entry: &str) -> String {
    format!("(header) {domain}.{entry}")
}

/// Makes the header of a domain's entry point, which checks and then calls the domain.
pub(crate) fn forward(domain: String, entry: &Entry) -> Option<HostFn> {
    let header = entry.header.clone()?;
    let (functions, signature) = (entry.functions.clone(), entry.signature.clone());
    let signature: Option<Signature> = signature.and_then(|text| text.parse().ok());
    Some(Box::new(move |cx| {
        let number = header.check(cx)?;
        let function = functions.get(number).ok_or_else(|| HostError::new("there is no procedure"))?;
        let taken = cx.skipped();
        let mut words = [0; 6];
        for (i, word) in words.iter_mut().enumerate().take(6 - taken) {
            *word = cx.arg(i);
            let kind = signature.as_ref().and_then(|s| s.arguments.get(taken + i));
            if kind == Some(&Argument::Pointer) {
                *word = cx.rebase(&domain, *word)?;
            }
        }
        let mut loans = Loans::new(cx);
        for (i, argument) in signature.iter().flat_map(|s| &s.arguments).skip(taken).enumerate().take(6 - taken) {
            if let Argument::Function(function) = argument {
                let (caller, callee) = (loans.cx.caller_index(), loans.cx.record().find(&domain)?);
                words[i] = loans.lend((caller, words[i]), callee, function, Trust::MutualDistrust)?;
            }
        }
        let [a, b, c, d, e, f] = words;
        let function = loans.cx.export::<fn(u64, u64, u64, u64, u64, u64) -> u64>(&domain, function)?;
        let called = function.call(loans.cx, (a, b, c, d, e, f));
        Ok(called?)
    }))
}
