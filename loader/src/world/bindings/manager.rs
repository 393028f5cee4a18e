//! The manager's data: entry points, rules, and the record of every binding.

use crate::gate::ids::{BindingId, ById, DomainId, Id, Run};
use crate::gate::records::{DomainState, Status};
use crate::spec::signature::Signature;
use crate::world::bindings::lendings::Lendings;
use crate::world::bindings::record::{Record, To};
use crate::world::error::BindError;
use sfi_contract::text::is_unprintable;
use std::collections::{BTreeMap, BTreeSet};

/// Says whether text can be the name of a domain or of an entry point. A dot joins both names, so
/// neither may hold one: `net.tls.seal` would be an entry point of two domains. Domains choose such
/// names while they run and hosts print them, so every character must be printable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('.') && !text.contains(is_unprintable)
}

/// A registered entry point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registered {
    /// Its target.
    pub to: To,
    /// The domain that registered it.
    pub owner: Option<DomainId>,
    /// Its signature.
    pub signature: Option<Signature>,
    /// The party that registered it.
    pub by: By,
}

/// The party that registered an entry point, which decides how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The domain's specification: for as long as the domain has this specification.
    Specification,
    /// The host, while the world exists: until the host takes it back.
    Host,
    /// The domain itself while it ran: for its present life.
    Domain,
}

/// A client's request for a connection.
#[derive(Debug)]
pub struct Request<'r> {
    /// The domain that would call.
    pub client: &'r str,
    /// The entry point's name, `domain.name`.
    pub entry: &'r str,
    /// The verdict of the rules ([`crate::Builder::permit`]).
    pub permitted: bool,
}

/// The host's own decision about connections.
pub(crate) type Hook = Box<dyn FnMut(&Request<'_>) -> bool + Send>;

/// Client and entry point of a rule; each may end in `*`.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pub client: String,
    pub entry: String,
}

/// The host's decisions about connections of domains to entry points.
pub(crate) struct Rules {
    pub permits: Vec<Permit>,
    /// The number of permits when the world was built.
    first: usize,
    hook: Option<Hook>,
}

impl Rules {
    pub(crate) fn new(permits: Vec<Permit>, hook: Option<Hook>) -> Self {
        Self { first: permits.len(), permits, hook }
    }

    /// Forgets the permits that were added since the world was built.
    pub(crate) fn reset(&mut self) {
        self.permits.truncate(self.first);
    }

    /// Decides whether the client may connect.
    pub(super) fn allow(&mut self, client: &str, entry: &str) -> bool {
        let permitted = self.permits.iter().any(|p| matches(&p.client, client) && matches(&p.entry, entry));
        match &mut self.hook {
            Some(hook) => hook(&Request { client, entry, permitted }),
            None => permitted,
        }
    }
}

/// The manager's data.
pub(crate) struct Manager {
    /// Records by number of the binding.
    pub records: ById<BindingId, Option<Record>>,
    /// The records that each domain may use.
    pub runs: ById<DomainId, Run<BindingId>>,
    /// A domain that nobody can enter.
    pub nobody: *mut DomainState,
    pub entries: BTreeMap<String, Registered>,
    /// Entry points that the host took back. Only the host registers them again.
    pub withdrawn: BTreeSet<String>,
    pub rules: Rules,
    /// Entry points of supervisors, until they are registered.
    pub supervisors: Vec<(String, Option<Signature>)>,
    /// Functions that were passed to domains.
    pub lent: Lendings,
    /// The host changed entry points, imports or domains since the world was built.
    pub reshaped: bool,
    /// Nothing changes any more, because other lanes have the same bindings and regions.
    pub fixed: bool,
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: made with `Box::into_raw` by `Manager::new`; the world that used it is being
        // dropped.
        unsafe { drop(Box::from_raw(self.nobody)) };
    }
}

impl Manager {
    pub(crate) fn new(rules: Rules, supervisors: Vec<(String, Option<Signature>)>) -> Self {
        let nobody = DomainState { dead: Status::Unbound, ..DomainState::nobody(DomainId::NOBODY) };
        Self {
            // The first record is the reviver's.
            records: ById::from_iter([None]),
            runs: ById::new(),
            nobody: Box::into_raw(Box::new(nobody)),
            entries: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            rules,
            supervisors,
            lent: Lendings::default(),
            reshaped: false,
            fixed: false,
        }
    }

    /// Refuses changes in worlds with lanes.
    pub(crate) fn changes(&self) -> Result<(), BindError> {
        if self.fixed { Err(BindError::Lanes) } else { Ok(()) }
    }

    /// Takes numbers for `count` records of a domain, and gives up its earlier ones. Returns the
    /// first.
    pub(crate) fn take_run(&mut self, domain: DomainId, count: usize) -> BindingId {
        self.lent.forget(domain);
        if self.runs.next() == domain {
            self.runs.push(Run { first: BindingId::FIRST, count: 0 });
        }
        let run = self.runs[domain];
        run.ids().for_each(|id| self.records[id] = None);
        if count <= run.count {
            return run.first;
        }
        let run = Run { first: self.free_run(count), count };
        while self.records.next() < run.first.after(count) {
            self.records.push(None);
        }
        self.runs[domain] = run;
        run.first
    }

    /// Finds the first gap between the domains' numbers that is large enough.
    pub(crate) fn free_run(&self, count: usize) -> BindingId {
        let mut taken: Vec<Run<BindingId>> = self.runs.iter().copied().filter(|run| run.count > 0).collect();
        taken.sort_unstable();
        let mut first = BindingId::FIRST;
        for run in taken {
            if run.first >= first.after(count) {
                return first;
            }
            first = first.max(run.first.after(run.count));
        }
        first
    }
}

/// Says whether a pattern matches. It matches itself or, with `*` at its end, any text that begins
/// with the rest.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    }
}
