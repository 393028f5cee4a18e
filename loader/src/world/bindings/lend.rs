//! Functions that are passed to a domain as `fn`. While a call that passes them lasts, gateways of
//! the callee lead to functions of its caller, or of the host.
//!
//! A domain has a number of gateways for that ([`DomainSpec::callbacks`]). When a function is
//! passed for the first time it gets one of them. Until the callee is restarted or loaded again,
//! the gateway's slot means this function while it is lent, and nothing otherwise. So a pointer
//! that the callee keeps never means another function, and the pointers of one function are equal.
//! A client cannot take more than its share while others have none.
//!
//! A host that registers ever new functions of its own can give that up ([`World::forget_lent`]).
//! The callee can call any of the host's functions that are lent to it anyway, so an old pointer
//! gives it nothing that it does not have.

use crate::gate::ids::{BindingId, DomainId, HostId};
use crate::spec::signature::Signature;
use crate::spec::{DEFAULT_CALLBACKS, DomainSpec, Trust};
use crate::vm::address::WindowOffset;
use crate::world::bindings::lendings::{Function, Lent, Loan, OfHost};
use crate::world::bindings::record::{Record, To};
use crate::world::calls::host::Host;
use crate::world::calls::host_call::HostCall;
use crate::world::calls::values::Pointer;
use crate::world::error::{BindError, BuildError, HostError};
use crate::world::held::World;
use crate::world::inner::Inner;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

impl Inner {
    /// Fills in [`DomainSpec::callbacks`] in a specification that is loaded again without it.
    pub(crate) fn reserve_callbacks(&self, spec: &mut DomainSpec) {
        let known = self.domains.iter().find(|d| d.name == spec.name).map_or(0, |d| d.spec.lent_gateways());
        let imports = self.domains.iter().flat_map(|d| &d.spec.imports).map(|(_, import)| import);
        let asked = if spec.takes_functions(imports) { DEFAULT_CALLBACKS } else { 0 };
        spec.callbacks.get_or_insert(known.max(asked));
    }

    /// Returns the code that a function pointer of a domain means if it is one of the domain's own:
    /// the address of a slot that is used for code of the domain or for a gateway that leads
    /// somewhere.
    pub(crate) fn own_function(&self, domain: DomainId, pointer: u64) -> Option<WindowOffset> {
        let from = &self.domains[domain];
        let code = from.code_in(from.window.place(pointer)?)?;
        let leads = match self.number(domain, pointer) {
            Some(number) => self.manager.records[number].as_ref().is_some_and(|r| r.to != To::Nobody),
            None => true,
        };
        (leads && code != from.image.trap).then_some(code)
    }

    /// Describes a function of a domain that is to be lent.
    pub(crate) fn function_of(&self, domain: DomainId, offset: WindowOffset) -> Function {
        let from = &self.domains[domain];
        // Only an image is followed by another one.
        let name = from.image.function(offset);
        Function::Domain { domain, life: from.life, text: Arc::downgrade(from.names_at(offset)), offset, name }
    }

    /// Returns the number of the record of a domain's gateway.
    fn lent_number(&self, callee: DomainId, gateway: usize) -> BindingId {
        let spec = &self.domains[callee].spec;
        self.manager.runs[callee].at(spec.imports.len() + spec.spare + gateway)
    }

    /// Says whether a call through a domain's gateway is in progress.
    fn is_running(&self, callee: DomainId, gateway: usize) -> bool {
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        if unsafe { (*self.gates.control.context()).depth } == 0 {
            return false;
        }
        let at = self.gates.control.binding(self.lent_number(callee, gateway));
        self.activity().bindings.contains(&at)
    }

    /// Lends a function to a domain. Returns the pointer, in the domain's terms. Instances share
    /// their gateways with the domain that they are instances of.
    pub(crate) fn lend(
        &mut self,
        callee: DomainId,
        function: Function,
        to: To,
        signature: &Signature,
        trust: Trust,
    ) -> Result<(Loan, u64), BindError> {
        self.manager.changes()?;
        let origin = self.domains[callee].origin;
        let party = to.domain().map(|domain| self.domains[domain].origin);
        let gateway = self.gateway(origin, party, &function, signature, trust);
        let none = || BindError::NoCallback { domain: self.domains[origin].name.clone() };
        let gateway = gateway.ok_or_else(none)?;
        let number = self.lent_number(origin, gateway);
        // A call in progress returns by the binding.
        let unused = self.manager.lent.of(origin).get(gateway).is_some_and(|lent| lent.calls == 0);
        if unused && self.is_running(origin, gateway) {
            return Err(none());
        }
        if self.manager.lent.of(origin).get(gateway).is_none_or(|lent| lent.calls == 0) {
            if signature.has_floats() {
                self.pass_floats(&[Some(origin), to.domain()])?;
            }
            let record = self.manager.records[number]
                .as_mut()
                .ok_or_else(|| BindError::NoCallback { domain: self.domains[origin].name.clone() })?;
            (record.to, record.signature, record.trust) = (to, Some(signature.clone()), trust);
            if let Err(error) = self.write([number]) {
                self.manager.records[number].as_mut().into_iter().for_each(|record| record.to = To::Nobody);
                return Err(error);
            }
        }
        let lendings = &mut self.manager.lent;
        let all = lendings.by_callee.entry(origin).or_default();
        if gateway == all.len() {
            lendings.ids += 1;
            let (id, signature) = (lendings.ids, signature.clone());
            all.push(Lent { id, function, party, signature, trust, calls: 1 });
        } else {
            let lent = &mut all[gateway];
            (lent.function, lent.trust) = (function, trust);
            lent.signature.clone_from(signature);
            lent.calls += 1;
        }
        let loan = Loan { callee: origin, gateway, id: all[gateway].id };
        Ok((loan, self.pointer(callee, number)))
    }

    /// Returns the gateway that a function has, or the next free one if its party's share allows
    /// that.
    fn gateway(
        &self,
        callee: DomainId,
        party: Option<DomainId>,
        function: &Function,
        signature: &Signature,
        trust: Trust,
    ) -> Option<usize> {
        let known = self.manager.lent.of(callee);
        let alike = |l: &Lent| l.signature == *signature && l.trust == trust;
        let moved = |l: &Lent| l.calls == 0 && alike(l) && function.follows(&l.function);
        let found = known.iter().position(|l| alike(l) && function.is(&l.function));
        let free = |l: &Lent, gateway: usize| {
            l.calls == 0 && matches!(l.function, Function::Forgotten) && !self.is_running(callee, gateway)
        };
        let forgotten = || (0..known.len()).find(|gateway| free(&known[*gateway], *gateway));
        let next = || {
            let own = known.iter().filter(|l| l.party == party).count();
            let room = known.len() < self.domains[callee].spec.lent_gateways() && own < self.share(callee, party);
            room.then_some(known.len())
        };
        let of_host = matches!(function, Function::Host(_));
        let reused = || if of_host { forgotten() } else { None };
        found.or_else(|| known.iter().position(moved)).or_else(reused).or_else(next)
    }

    /// Returns the number of a domain's gateways that one party may have. All connected clients
    /// that pass functions have equal rights, and so has the host if it lends some.
    fn share(&self, callee: DomainId, party: Option<DomainId>) -> usize {
        let passes = |r: &&Record| r.to.domain() == Some(callee) && r.passes_functions();
        let clients = self.manager.records.iter().flatten().filter(passes).map(|r| Some(r.client));
        let known = self.manager.lent.of(callee).iter().map(|l| l.party);
        let parties: BTreeSet<Option<DomainId>> = clients.chain(known).chain([party]).collect();
        self.domains[callee].spec.lent_gateways().div_ceil(parties.len())
    }

    /// Notes that a call that passed a function is over. After the last one the gateway leads
    /// nowhere.
    pub(crate) fn end_loan(&mut self, loan: Loan) -> Result<(), BindError> {
        let all = self.manager.lent.by_callee.get_mut(&loan.callee);
        let lent = all.and_then(|all| all.get_mut(loan.gateway)).filter(|lent| lent.id == loan.id);
        let Some(lent) = lent else { return Ok(()) };
        lent.calls -= 1;
        if lent.calls > 0 {
            return Ok(());
        }
        self.undo(self.lent_number(loan.callee, loan.gateway), false)
    }

    /// Frees a domain's gateways when it is restarted at its place: undoes their bindings made at
    /// run time, and frees those for functions. Does nothing while instances of the domain may hold
    /// pointers to them.
    pub(crate) fn recall(&mut self, callee: DomainId) -> Result<(), BindError> {
        if self.has_instances(callee) {
            return Ok(());
        }
        let Some(run) = self.manager.runs.get(callee).copied() else { return Ok(()) };
        let bound = |r: &Record| r.symbol.is_none() && r.to != To::Nobody;
        for number in run.ids() {
            if self.manager.records[number].as_ref().is_some_and(bound) {
                self.undo(number, false)?;
            }
        }
        self.manager.lent.forget(callee);
        let hosts = &mut self.manager.lent.hosts;
        let gone: Vec<OfHost> = hosts.extract_if(.., |of| of.callee == callee).collect();
        gone.into_iter().for_each(|of| self.vacate_host(of.host));
        Ok(())
    }

    /// Reads a signature, and lends a function of the host with it.
    fn lend_read(&mut self, domain: &str, name: &str, signature: &str, host: Host) -> Result<Pointer, BuildError> {
        let signature = read(domain, name, signature)?;
        Ok(Pointer(self.lend_host(domain, name, &signature, host)?))
    }

    /// Lends a function of the host to a domain until it is taken back.
    fn lend_host(&mut self, domain: &str, name: &str, signature: &Signature, function: Host) -> Result<u64, BindError> {
        let callee = self.find(domain)?;
        if self.host_loan(callee, name).is_some() {
            return Err(BindError::Lent { domain: domain.to_owned(), name: name.to_owned() });
        }
        let host = self.manager.lent.vacant.pop().unwrap_or(self.hosts.next());
        self.hosts.put(host, function);
        let lent = Function::Host(name.to_owned());
        match self.lend(callee, lent, To::Host(host), signature, Trust::MutualDistrust) {
            Ok((loan, pointer)) => {
                self.manager.lent.hosts.push(OfHost { callee, name: name.to_owned(), loan, host });
                Ok(pointer)
            }
            Err(error) => {
                self.vacate_host(host);
                Err(error)
            }
        }
    }

    fn host_loan(&self, callee: DomainId, name: &str) -> Option<usize> {
        self.manager.lent.hosts.iter().position(|of| of.callee == callee && of.name == name)
    }

    /// Drops a function of the host to which no record leads. While a host function runs, it may be
    /// this one, and is dropped later.
    fn vacate_host(&mut self, host: HostId) {
        let empty = Host::new(LENT.to_owned(), |_| Err(HostError::new("taken back")));
        let gone = std::mem::replace(&mut self.hosts[host], empty);
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        let running = unsafe { (*self.gates.control.context()).depth } > 0;
        let lent = &mut self.manager.lent;
        lent.vacant.push(host);
        lent.retired.push(gone);
        if !running {
            lent.retired.clear();
        }
    }

    fn take_back(&mut self, domain: &str, name: &str, forget: bool) -> Result<(), BindError> {
        let callee = self.find(domain)?;
        let missing = || BindError::Lent { domain: domain.to_owned(), name: name.to_owned() };
        let place = self.host_loan(callee, name).ok_or_else(missing)?;
        let of = self.manager.lent.hosts.swap_remove(place);
        self.end_loan(of.loan)?;
        self.vacate_host(of.host);
        if forget && !self.has_instances(callee) {
            self.manager.lent.forget_one(of.loan);
        }
        Ok(())
    }
}

/// Name of host functions that are lent. No import can name it.
const LENT: &str = "(lent)";

/// Reads the signature of a function that is to be lent.
fn read(domain: &str, name: &str, signature: &str) -> Result<Signature, BuildError> {
    signature.parse().map_err(|error| BuildError::Signature {
        domain: domain.to_owned(),
        symbol: name.to_owned(),
        error,
    })
}

impl HostCall<'_> {
    /// Lends a function of the host to a domain, as [`World::lend_reentrant`].
    ///
    /// # Errors
    /// As [`World::lend`]; also [`BindError::Busy`] if the signature is the first of the domain
    /// with a `float`.
    pub fn lend_reentrant(
        &mut self,
        domain: &str,
        name: &str,
        signature: &str,
        function: impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Result<Pointer, BuildError> {
        self.record().lend_read(domain, name, signature, Host::reentrant(LENT.to_owned(), function))
    }

    /// Takes back a function that was lent, as [`World::forget_lent`]. It may be the one that runs,
    /// which then returns normally.
    ///
    /// # Errors
    /// As [`World::take_back`].
    pub fn forget_lent(&mut self, domain: &str, name: &str) -> Result<(), BindError> {
        self.record().take_back(domain, name, true)
    }
}

impl World {
    /// Lends a function of the host to a domain. Returns a function pointer in the domain's terms,
    /// for arguments that the domain expects to be functions. The pointer works until
    /// [`World::take_back`], or until the domain is restarted or loaded again. Later calls through
    /// it fail with [`crate::Status::Unbound`]. The loan uses one of the domain's gateways for
    /// functions ([`DomainSpec::callbacks`]), which keeps this name until the domain is restarted
    /// or loaded again.
    ///
    /// # Errors
    /// [`BuildError::Signature`], [`BuildError::Bind`].
    pub fn lend(
        &mut self,
        domain: &str,
        name: &str,
        signature: &str,
        function: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Result<Pointer, BuildError> {
        self.record().lend_read(domain, name, signature, Host::new(LENT.to_owned(), function))
    }

    /// Lends a function of the host that may be called again while it runs, see [`World::lend`].
    ///
    /// # Errors
    /// As [`World::lend`].
    pub fn lend_reentrant(
        &mut self,
        domain: &str,
        name: &str,
        signature: &str,
        function: impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    ) -> Result<Pointer, BuildError> {
        self.record().lend_read(domain, name, signature, Host::reentrant(LENT.to_owned(), function))
    }

    /// Takes back a function that was lent.
    ///
    /// # Errors
    /// [`BindError::Lent`] if none of this name is lent, [`BindError::Unknown`].
    pub fn take_back(&mut self, domain: &str, name: &str) -> Result<(), BindError> {
        self.record().take_back(domain, name, false)
    }

    /// Takes back a function that was lent, and its gateway with it. The gateway may then be given
    /// to a function with another name, so an old pointer that the domain kept may come to mean
    /// that function. Gateways of domains with instances stay with their names.
    ///
    /// # Errors
    /// As [`World::take_back`].
    pub fn forget_lent(&mut self, domain: &str, name: &str) -> Result<(), BindError> {
        self.record().take_back(domain, name, true)
    }

    /// Lends a function of the host to a domain while `body` runs, see [`World::lend`]:
    ///
    /// ```no_run
    /// # type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;
    /// # fn f(world: &mut sfi_loader::World) -> Done {
    /// use sfi_loader::{Pointer, TypedFn};
    ///
    /// let apply: TypedFn<fn(Pointer, i64) -> i64> = world.domain("plugin")?.export("apply")?;
    /// let result = world.lending(
    ///     "plugin",
    ///     "twice",
    ///     "(int) -> int",
    ///     |cx| Ok(2 * cx.arg(0)),
    ///     |world, twice| apply.call(world, (twice, 21)),
    /// )??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`World::lend`].
    ///
    /// # Panics
    /// Resumes the panic of `body`. The function is taken back first.
    pub fn lending<R>(
        &mut self,
        domain: &str,
        name: &str,
        signature: &str,
        function: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
        body: impl FnOnce(&mut World, Pointer) -> R,
    ) -> Result<R, BuildError> {
        let pointer = self.lend(domain, name, signature, function)?;
        let result = catch_unwind(AssertUnwindSafe(|| body(self, pointer)));
        // `body` may have taken the function back, or put another world in the place of this one.
        let ended = match self.take_back(domain, name) {
            Err(BindError::Lent { .. } | BindError::Unknown(_)) => Ok(()),
            ended => ended,
        };
        let result = result.unwrap_or_else(|payload| resume_unwind(payload));
        Ok(ended.map(|()| result)?)
    }
}
