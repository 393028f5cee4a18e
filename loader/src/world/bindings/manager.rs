//! The manager's data: entry points, rules, and the record of every binding.

use crate::gate::ids::{ById, DomainId};
use crate::gate::records::{DomainState, Status};
use crate::link::place::Map;
use crate::spec::signature::Signature;
use crate::world::bindings::lendings::Lendings;
use crate::world::bindings::record::{Record, To};
use sfi_contract::text::is_unprintable;
use std::collections::BTreeMap;

/// Whether text can be the name of a domain or of an entry point. The names of both are joined by a
/// dot, so that none may hold one: `net.tls.seal` would be the entry point of two domains. Hosts
/// print such names, and domains choose them while they run: every character is printable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('.') && !text.contains(is_unprintable)
}

/// A registered entry point.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its target.
    pub to: To,
    /// The domain that registered it.
    pub owner: Option<DomainId>,
    /// Returns the signature.
    pub signature: Option<Signature>,
    /// Whether the domain registered it while it ran.
    pub dynamic: bool,
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
pub struct Permit {
    pub client: String,
    pub entry: String,
}

/// The manager's data.
pub struct Manager {
    /// The places of shared regions in every window.
    pub map: Map,
    /// Records by number of the binding.
    pub records: Vec<Option<Record>>,
    /// The first record of each domain, and the number that it may use.
    pub ranges: ById<DomainId, (usize, usize)>,
    /// A domain that nobody can enter.
    pub nobody: *mut DomainState,
    pub entries: BTreeMap<String, Registered>,
    pub permits: Vec<Permit>,
    /// The number of rules when the world was built.
    pub first_permits: usize,
    pub hook: Option<Hook>,
    /// Entry points of supervisors, until they are registered.
    pub supervisors: Vec<(String, Option<Signature>)>,
    /// Functions that were passed to domains.
    pub lent: Lendings,
    /// The host changed entry points, imports or domains since the world was built.
    pub reshaped: bool,
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: made with `Box::into_raw` by `Manager::new`; the world that used it is being
        // dropped.
        unsafe { drop(Box::from_raw(self.nobody)) };
    }
}

impl Manager {
    pub fn new(map: Map, permits: Vec<Permit>) -> Self {
        let nobody = DomainState { dead: Status::Unbound, ..DomainState::nobody(DomainId::NOBODY) };
        Self {
            map,
            // The first record is the reviver's.
            records: vec![None],
            ranges: ById::new(),
            nobody: Box::into_raw(Box::new(nobody)),
            entries: BTreeMap::new(),
            first_permits: permits.len(),
            permits,
            hook: None,
            supervisors: Vec::new(),
            lent: Lendings::default(),
            reshaped: false,
        }
    }

    /// Decides whether the client may connect.
    pub(super) fn permitted(&mut self, client: &str, entry: &str) -> bool {
        let permitted = self.permits.iter().any(|p| matches(&p.client, client) && matches(&p.entry, entry));
        match &mut self.hook {
            Some(hook) => hook(&Request { client, entry, permitted }),
            None => permitted,
        }
    }

    /// Takes numbers for `count` records of a domain, and gives up its earlier ones.
    pub fn take_range(&mut self, domain: DomainId, count: usize) -> usize {
        self.lent.forget(domain);
        if self.ranges.next() == domain {
            self.ranges.push((0, 0));
        }
        let (start, capacity) = self.ranges[domain];
        self.records[start..start + capacity].fill(None);
        if count <= capacity {
            return start;
        }
        let start = self.free_range(count);
        self.records.resize(self.records.len().max(start + count), None);
        self.ranges[domain] = (start, count);
        start
    }

    /// Finds the first gap between the domains' ranges that is large enough.
    pub fn free_range(&self, count: usize) -> usize {
        let mut taken: Vec<(usize, usize)> = self.ranges.iter().copied().collect();
        taken.sort_unstable();
        let mut start = 1;
        for (low, length) in taken.into_iter().filter(|(_, length)| *length > 0) {
            if low >= start + count {
                return start;
            }
            start = start.max(low + length);
        }
        start
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
