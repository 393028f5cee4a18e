//! The functions behind the gateways of the domains that they were passed to. `lend` decides about
//! them.

use crate::fault::names::Names;
use crate::gate::ids::{DomainId, HostId};
use crate::spec::Trust;
use crate::spec::signature::Signature;
use crate::vm::address::WindowOffset;
use crate::world::calls::host::Host;
use std::collections::BTreeMap;
use std::sync::Weak;

/// A function that may be passed.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// Code of a domain.
    Domain {
        /// The domain.
        domain: DomainId,
        /// Number of the instance.
        life: u64,
        /// The names of the text that has it. They are never read, but tell texts apart, also
        /// those that are gone.
        text: Weak<Names>,
        /// Its place in the domain's window.
        offset: WindowOffset,
        /// The function's name and the distance from its start.
        name: Option<(String, u64)>,
    },
    /// A function of the host, by its name.
    Host(String),
    /// Nothing: the host took a function back, and its gateway may be used again.
    Forgotten,
}

impl Function {
    /// Says whether both are the same code.
    pub(super) fn is(&self, other: &Function) -> bool {
        match (self, other) {
            (Function::Host(name), Function::Host(known)) => name == known,
            (
                Function::Domain { domain, life, text, offset, .. },
                Function::Domain { domain: d, life: l, text: t, offset: o, .. },
            ) => (domain, life, offset) == (d, l, o) && Weak::ptr_eq(text, t),
            _ => false,
        }
    }

    /// Says whether this is the function of the same name in a domain that was loaded again.
    pub(super) fn follows(&self, other: &Function) -> bool {
        match (self, other) {
            (
                Function::Domain { domain, life, text, name: name @ Some(_), .. },
                Function::Domain { domain: d, life: l, text: t, name: n, .. },
            ) => (domain, life, name) == (d, l, n) && !Weak::ptr_eq(text, t),
            _ => false,
        }
    }
}

/// A gateway that belongs to a function.
#[derive(Debug)]
pub(crate) struct Lent {
    /// A number that no other gateway has.
    pub(super) id: u64,
    pub(super) function: Function,
    /// The domain whose share it counts to, or `None` for the host.
    pub(super) party: Option<DomainId>,
    pub(super) signature: Signature,
    pub(super) trust: Trust,
    /// Calls in progress that pass it.
    pub(super) calls: usize,
}

/// A function of the host that is lent until the host takes it back.
#[derive(Debug)]
pub(crate) struct OfHost {
    pub(super) callee: DomainId,
    pub(super) name: String,
    pub(super) loan: Loan,
    pub(super) host: HostId,
}

/// The gateways that belong to functions, by the domain to which they were passed.
#[derive(Default)]
pub(crate) struct Lendings {
    /// In the order of the gateways.
    pub(super) by_callee: BTreeMap<DomainId, Vec<Lent>>,
    pub(super) ids: u64,
    pub(super) hosts: Vec<OfHost>,
    /// Numbers of host functions that were taken back.
    pub(super) vacant: Vec<HostId>,
    /// Functions that were taken back while a host function ran. One of them may be running.
    pub(super) retired: Vec<Host>,
}

impl Lendings {
    /// Forgets a domain's gateways when it is restarted or loaded again, so that nobody holds
    /// pointers to them.
    pub(crate) fn forget(&mut self, callee: DomainId) {
        self.by_callee.remove(&callee);
    }

    /// Frees the gateway of a loan that ended.
    pub(super) fn forget_one(&mut self, loan: Loan) {
        let all = self.by_callee.get_mut(&loan.callee);
        let lent = all.and_then(|all| all.get_mut(loan.gateway));
        lent.into_iter().filter(|lent| lent.calls == 0).for_each(|lent| lent.function = Function::Forgotten);
    }

    pub(super) fn of(&self, callee: DomainId) -> &[Lent] {
        self.by_callee.get(&callee).map_or(&[], Vec::as_slice)
    }
}

/// One function that is lent to a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan {
    pub(super) callee: DomainId,
    pub(super) gateway: usize,
    pub(super) id: u64,
}
