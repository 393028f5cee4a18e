//! The manager (Yarvin et al. section 3.2.1): entry points that servers register, and connections
//! of clients by name.
//!
//! A binding is a record outside every window; a stub finds it by its number. So connecting and
//! disconnecting never touch sealed text: they write the record. A record without a server leads to
//! a domain that nobody can enter.

pub(crate) mod connect;
pub(crate) mod lend;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod visibility;

use crate::fault::watchdog::Watched;
use crate::gate::records::{Binding, DomainState, Status};
use crate::gate::stubs::{Stub, Way};
use crate::link::place::Map;
use crate::spec::signature::Signature;
use crate::spec::{Callee, DomainSpec, Entry, Import, Restart, Trust};
use crate::world::Inner;
use crate::world::bindings::lend::Lendings;
use crate::world::bindings::policy::BindingReport;
use crate::world::bindings::record::{Common, Record, To};
use crate::world::calls::buffers_in;
use crate::world::calls::builtin;
use crate::world::calls::header;
use crate::world::calls::host::Host;
use crate::world::domain::Domain;
use crate::world::error::{BindError, BuildError, SpecError};
use crate::world::frames::Activity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether text can be the name of a domain or of an entry point. The names of both are joined by a
/// dot, so that none may hold one: `net.tls.seal` would be the entry point of two domains.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('.')
}

/// Most entry points that one domain registers at run time.
const MAX_REGISTERED: usize = 64;

/// A registered entry point.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Where it leads.
    pub to: To,
    /// Index of the domain that registered it.
    pub owner: Option<usize>,
    /// What crosses.
    pub signature: Option<Signature>,
    /// Registered by the domain while it ran.
    pub dynamic: bool,
}

/// Somebody asks for a connection.
#[derive(Debug)]
pub struct Request<'r> {
    /// The domain that would call.
    pub client: &'r str,
    /// The entry point's name, `domain.name`.
    pub entry: &'r str,
    /// What the rules say ([`crate::Builder::permit`]).
    pub permitted: bool,
}

/// The host's own decision about connections.
pub type Hook = Box<dyn FnMut(&Request<'_>) -> bool + Send>;

/// Client and entry point of a rule; each may end in `*`.
#[derive(Clone, Debug)]
pub struct Permit {
    pub client: String,
    pub entry: String,
}

/// What the manager keeps.
pub struct Manager {
    /// What shared regions take of every window.
    pub map: Map,
    /// By number of the binding.
    pub records: Vec<Option<Record>>,
    /// First record of each domain, and how many it may use.
    pub ranges: Vec<(usize, usize)>,
    /// A domain that nobody can enter.
    pub nobody: *mut DomainState,
    pub entries: BTreeMap<String, Registered>,
    pub permits: Vec<Permit>,
    /// How many of them were there when the world was built.
    pub first_permits: usize,
    pub hook: Option<Hook>,
    /// Entry points of supervisors, until they are registered.
    pub supervisors: Vec<(String, Option<Signature>)>,
    /// Functions that were passed to domains.
    pub lent: Lendings,
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
        let nobody = DomainState { dead: Status::Unbound, ..DomainState::nobody(u32::MAX as usize) };
        Self {
            map,
            // The first is the reviver's.
            records: vec![None],
            ranges: Vec::new(),
            nobody: Box::into_raw(Box::new(nobody)),
            entries: BTreeMap::new(),
            first_permits: permits.len(),
            permits,
            hook: None,
            supervisors: Vec::new(),
            lent: Lendings::default(),
        }
    }

    /// Whether the client may connect.
    fn permitted(&mut self, client: &str, entry: &str) -> bool {
        let permitted = self.permits.iter().any(|p| matches(&p.client, client) && matches(&p.entry, entry));
        match &mut self.hook {
            Some(hook) => hook(&Request { client, entry, permitted }),
            None => permitted,
        }
    }

    /// Numbers for `count` records of a domain. What it had before is given up.
    pub fn take_range(&mut self, domain: usize, count: usize) -> usize {
        self.lent.forget(domain);
        self.ranges.resize(self.ranges.len().max(domain + 1), (0, 0));
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

    /// The first gap between the domains' ranges that is large enough.
    pub fn free_range(&self, count: usize) -> usize {
        let mut taken = self.ranges.clone();
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

/// A pattern matches itself; with `*` at its end, everything that begins with the rest.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    }
}

/// The stubs of a domain whose first record has this number.
pub fn stubs(spec: &DomainSpec, start: usize) -> Vec<Stub> {
    let way = |import: &Import| match import.callee {
        Callee::Host { .. } => Way::Host,
        Callee::Domain { .. } if import.interface.is_some() => Way::Host,
        Callee::Domain { .. } => Way::Domain,
        Callee::Entry { .. } => Way::Binding,
    };
    let imports = spec.imports.iter().map(|(_, import)| way(import));
    let others = std::iter::repeat_n(Way::Binding, spec.gateways() - spec.imports.len());
    imports.chain(others).enumerate().map(|(i, way)| Stub { binding: start + i, way }).collect()
}

/// The records of a domain's stubs. `find` gives the index of another domain by name.
pub fn records(
    client: usize,
    spec: &DomainSpec,
    domains: &dyn Fn(&str) -> Option<usize>,
    hosts: &[String],
) -> Result<Vec<Record>, BuildError> {
    let mut all = Vec::new();
    for ((symbol, import), stub) in spec.imports.iter().zip(stubs(spec, 0)) {
        let signature = import.parsed().map_err(|error| BuildError::Signature {
            domain: spec.name.clone(),
            symbol: symbol.clone(),
            error,
        })?;
        let client_name = || (spec.name.clone(), symbol.clone());
        let host = |function: &str| {
            hosts.iter().position(|h| h == function).map(To::Host).ok_or_else(|| {
                let (domain, symbol) = client_name();
                SpecError::UnknownHostFunction { domain, symbol, function: function.to_owned() }
            })
        };
        let (to, entry) = match &import.callee {
            Callee::Host { function } => (host(function)?, None),
            Callee::Domain { .. } if import.interface.is_some() => {
                (host(&buffers_in::host_name(&spec.name, symbol))?, None)
            }
            Callee::Domain { domain: server, function } => {
                let domain = domains(server).ok_or_else(|| {
                    let (domain, symbol) = client_name();
                    SpecError::UnknownServer { domain, symbol, server: server.clone() }
                })?;
                (To::Function { domain, function: function.clone() }, None)
            }
            Callee::Entry { name } => (To::Nobody, Some(name.clone())),
        };
        let symbol = Some(symbol.clone());
        let expected = signature.clone();
        let (on_fault, trust) = (import.on_fault, import.trust);
        let (lent, way) = (false, stub.way);
        all.push(Record { client, symbol, lent, way, to, entry, signature, expected, on_fault, trust });
    }
    let spare = Record {
        client,
        symbol: None,
        lent: false,
        way: Way::Binding,
        to: To::Nobody,
        entry: None,
        signature: None,
        expected: None,
        on_fault: u64::MAX,
        trust: Trust::MutualDistrust,
    };
    let lent = Record { lent: true, signature: Some(Signature::NOTHING), ..spare.clone() };
    all.extend(std::iter::repeat_n(spare, spec.spare));
    all.extend(std::iter::repeat_n(lent, spec.callbacks.unwrap_or(0)));
    Ok(all)
}

impl Inner {
    pub fn common(&self) -> Common<'_> {
        Common {
            table: self.table,
            domains: &self.domains,
            hosts: &self.hosts,
            nobody: self.manager.nobody,
            metered: self.watched.as_ref().is_some_and(Watched::is_metered),
        }
    }

    /// See [`Domain::passes_floats`].
    pub fn passes_floats(&self, index: usize) -> bool {
        let spec = &self.domains[index].spec;
        let asks = |(_, import): &(String, Import)| matches!(&import.callee, Callee::Host { function } if function == builtin::REGISTER);
        let dynamic = spec.spare > 0 || !spec.registers.is_empty() || spec.imports.iter().any(asks);
        let of = |r: &&Record| r.client == index || r.to.domain() == Some(index);
        dynamic
            || self
                .manager
                .records
                .iter()
                .flatten()
                .filter(of)
                .any(|r| r.to == To::Nobody && !r.lent || r.passes_floats())
    }

    /// Floats will cross to or from these domains: those that name no register for them are treated
    /// as if they did, from now on. Not while calls are in progress, whose frames were made for
    /// domains in which such registers are somebody else's.
    pub fn pass_floats(&mut self, sides: &[Option<usize>]) -> Result<(), BindError> {
        let named = |index: usize| sides.contains(&Some(index));
        let new = |d: &Domain| named(d.origin) && !d.side().has_vectors();
        let Some(first) = self.domains.iter().find(|d| new(d)) else { return Ok(()) };
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        if unsafe { (*self.control.context()).depth } > 0 {
            return Err(BindError::Busy { domain: first.name.clone() });
        }
        for domain in self.domains.iter_mut().filter(|d| named(d.origin)) {
            if domain.side().has_vectors() {
                domain.passes_floats = true;
                continue;
            }
            domain.passes_floats = true;
            // What the host looked up before does not clear what this domain may hand on now.
            // SAFETY: the state lives as long as the world.
            unsafe { (*domain.state).generation += 1 };
        }
        let records = self.manager.records.iter().enumerate();
        let touched = |r: &Record| named(r.client) || r.to.domain().is_some_and(named);
        let numbers: Vec<usize> =
            records.filter(|(_, r)| r.as_ref().is_some_and(touched)).map(|(number, _)| number).collect();
        self.write(numbers)
    }

    /// All bindings, for people.
    pub fn reports(&self) -> Vec<BindingReport> {
        let common = self.common();
        let records = self.manager.records.iter().flatten();
        records.filter(|r| !r.lent || r.to != To::Nobody).map(|record| common.report(record)).collect()
    }

    /// Writes the bindings of some records.
    pub fn write(&mut self, numbers: impl IntoIterator<Item = usize>) -> Result<(), BindError> {
        let (common, records) = (self.common(), &self.manager.records);
        let bindings: Vec<(usize, Binding)> =
            numbers.into_iter().filter_map(|n| records[n].as_ref().map(|r| (n, common.binding(r)))).collect();
        self.control.write_bindings(&bindings).map_err(BindError::Memory)
    }

    /// Makes room for all records and writes them.
    pub fn write_all(&mut self) -> Result<(), BindError> {
        let count = self.manager.records.len();
        if count == 1 && self.domains.iter().all(|d| d.spec.restart == Restart::Never) {
            return Ok(());
        }
        self.control.reserve_bindings(count).map_err(BindError::Memory)?;
        self.write(1..count)?;
        if self.domains.iter().any(|d| d.spec.restart != Restart::Never) { self.write_reviver() } else { Ok(()) }
    }

    pub fn write_reviver(&mut self) -> Result<(), BindError> {
        let Some(host) = self.hosts.iter().position(|h| h.name == builtin::REVIVE) else { return Ok(()) };
        let reviver = self.common().reviver(host);
        self.control.write_bindings(&[(0, reviver)]).map_err(BindError::Memory)?;
        let restarts = self.domains.iter().any(|d| d.spec.restart != Restart::Never);
        let at = if restarts { self.control.binding(0) } else { std::ptr::null() };
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        unsafe { (*self.control.context()).revive = at };
        Ok(())
    }

    /// The rest of building: bindings, entry points, connections by name.
    pub fn set_up(&mut self) -> Result<(), BuildError> {
        for record in self.manager.records.iter().flatten() {
            if let (Some(symbol), To::Function { domain, function }) = (&record.symbol, &record.to)
                && !self.domains[*domain].image.functions_by_name.contains_key(function)
            {
                let [domain, server] = [record.client, *domain].map(|index| self.domains[index].name.clone());
                let (symbol, function) = (symbol.clone(), function.clone());
                return Err(SpecError::NoFunction { domain, symbol, server, function }.into());
            }
        }
        for index in 0..self.domains.len() {
            self.domains[index].passes_floats = self.passes_floats(index);
        }
        self.write_all()?;
        for index in 0..self.domains.len() {
            self.show_all(index)?;
            self.hand_out(index)?;
            for (name, entry) in all_registered(index, &self.domains[index].spec, &self.hosts)? {
                self.register(index, &name, entry)?;
            }
            let spec = Arc::clone(&self.domains[index].spec);
            for function in spec.registers.iter().flat_map(|(_, entry)| &entry.functions) {
                if !self.domains[index].image.functions_by_name.contains_key(function) {
                    return Err(BindError::Function { domain: spec.name.clone(), function: function.clone() }.into());
                }
            }
        }
        for (name, signature) in std::mem::take(&mut self.manager.supervisors) {
            let host = self.hosts.iter().position(|h| h.name == name);
            let to = To::Host(host.ok_or_else(|| BindError::Entry(name.clone()))?);
            let entry = Registered { to, owner: None, signature, dynamic: false };
            if self.manager.entries.insert(name.clone(), entry).is_some() {
                return Err(BindError::Taken(name).into());
            }
        }
        Ok(self.connect_waiting(true)?)
    }

    /// Registers an entry point. The name is the domain's followed by a dot and `name`, which has
    /// none.
    pub fn register(&mut self, domain: usize, name: &str, entry: Registered) -> Result<(), BindError> {
        if !is_name(name) {
            return Err(BindError::Name(name.to_owned()));
        }
        let full = format!("{}.{name}", self.domains[domain].name);
        if self.manager.entries.contains_key(&full) {
            return Err(BindError::Taken(full));
        }
        let dynamic = self.manager.entries.values().filter(|e| e.dynamic && e.owner == Some(domain)).count();
        if entry.dynamic && dynamic >= MAX_REGISTERED {
            return Err(BindError::TooMany { domain: self.domains[domain].name.clone() });
        }
        if let To::Function { function, .. } = &entry.to
            && !self.domains[domain].image.functions_by_name.contains_key(function)
        {
            return Err(BindError::Function { domain: self.domains[domain].name.clone(), function: function.clone() });
        }
        self.manager.entries.insert(full, entry);
        Ok(())
    }

    /// The calls in progress.
    pub fn activity(&self) -> Activity {
        // SAFETY: a reference to the record exists only while the host runs, on the thread that
        // holds the world.
        unsafe { Activity::of(self) }
    }

    /// Takes an entry point back: what was connected to it leads nowhere.
    pub fn unregister(&mut self, entry: &str) -> Result<(), BindError> {
        self.manager.entries.remove(entry).ok_or_else(|| BindError::Entry(entry.to_owned()))?;
        let connected = |r: &Option<Record>| r.as_ref().is_some_and(|r| r.entry.as_deref() == Some(entry));
        let records = &self.manager.records;
        let all: Vec<usize> = (0..records.len()).filter(|n| connected(&records[*n])).collect();
        all.into_iter().try_for_each(|number| self.undo(number, true))
    }

    /// Connects a client by name: its import `symbol`, or a free gateway. Returns the record's
    /// number. Instances of a domain share their bindings.
    pub fn connect(&mut self, client: usize, symbol: Option<&str>, entry: &str) -> Result<usize, BindError> {
        let registered = self.manager.entries.get(entry).cloned().ok_or_else(|| BindError::Entry(entry.to_owned()))?;
        let client = self.domains[client].origin;
        let name = self.domains[client].name.clone();
        if !self.manager.permitted(&name, entry) {
            return Err(BindError::Refused { client: name, entry: entry.to_owned() });
        }
        let active = self.activity();
        let number = match symbol {
            Some(symbol) => self.find_import(client, symbol)?,
            None => match self.spare(client, entry, &active)? {
                Spare::Connected(number) => return Ok(number),
                Spare::Free(number) => number,
            },
        };
        if registered.signature.as_ref().is_none_or(Signature::has_floats) {
            self.pass_floats(&[Some(client), registered.to.domain()])?;
        }
        if active.bindings.contains(&self.control.binding(number)) {
            return Err(BindError::Active { domain: name });
        }
        let record = self.manager.records[number].as_mut().ok_or_else(|| BindError::Entry(entry.to_owned()))?;
        let fits = match record.way {
            Way::Binding => true,
            Way::Host => matches!(registered.to, To::Host(_)),
            Way::Domain => registered.to.domain().is_some(),
        };
        let same = record.expected.is_none() || record.expected == registered.signature;
        if !fits || !same {
            return Err(BindError::Signature { client: name, entry: entry.to_owned() });
        }
        record.to = registered.to;
        record.signature = registered.signature;
        record.entry = Some(entry.to_owned());
        self.write([number])?;
        Ok(number)
    }

    fn find_import(&self, client: usize, symbol: &str) -> Result<usize, BindError> {
        let (start, count) = self.manager.ranges[self.domains[client].origin];
        let found = |n: &usize| self.manager.records[*n].as_ref().is_some_and(|r| r.symbol.as_deref() == Some(symbol));
        (start..start + count)
            .find(found)
            .ok_or_else(|| BindError::Import { domain: self.domains[client].name.clone(), symbol: symbol.to_owned() })
    }

    /// A gateway of the client that is connected already, or a free one that no call in progress
    /// uses.
    fn spare(&self, client: usize, entry: &str, active: &Activity) -> Result<Spare, BindError> {
        let (start, count) = self.manager.ranges[client];
        let spares = || {
            let all = (start..start + count).map(|n| (n, &self.manager.records[n]));
            all.filter_map(|(n, r)| r.as_ref().filter(|r| r.symbol.is_none() && !r.lent).map(|r| (n, r)))
        };
        if let Some((n, _)) = spares().find(|(_, r)| r.to != To::Nobody && r.entry.as_deref() == Some(entry)) {
            return Ok(Spare::Connected(n));
        }
        let free = |n: usize| !active.bindings.contains(&self.control.binding(n));
        let found = spares().find(|(n, r)| r.to == To::Nobody && free(*n)).map(|(n, _)| Spare::Free(n));
        found.ok_or_else(|| BindError::NoSpare { domain: self.domains[client].name.clone() })
    }

    /// Makes a record lead nowhere. With `keep` an import remembers the entry point's name.
    pub fn undo(&mut self, number: usize, keep: bool) -> Result<(), BindError> {
        let Some(record) = self.manager.records[number].as_mut() else { return Ok(()) };
        let server = std::mem::replace(&mut record.to, To::Nobody).domain();
        if record.symbol.is_none() || !keep {
            record.entry = None;
        }
        let at = self.control.binding(number);
        let active = self.activity();
        if let Some(server) = server.filter(|server| !active.domains.contains(server)) {
            // SAFETY: no call returns to it.
            unsafe { self.release_unbound(server) };
        }
        if !active.bindings.contains(&at) {
            return self.write([number]);
        }
        // A call in progress returns by this record: only what later calls read is changed.
        // SAFETY: a mapped record.
        let mut binding = unsafe { *at };
        binding.callee = self.manager.nobody;
        binding.shim = crate::world::calls::host::unbound();
        self.control.write_bindings(&[(number, binding)]).map_err(BindError::Memory)
    }

    /// Disconnects an import of a client.
    pub fn disconnect(&mut self, client: usize, symbol: &str) -> Result<(), BindError> {
        let number = self.find_import(client, symbol)?;
        self.undo(number, false)
    }

    /// The function pointer of a client's gateway that is bound at run time.
    pub fn pointer(&self, client: usize, number: usize) -> u64 {
        let domain = &self.domains[client];
        let spare = number - self.manager.ranges[domain.origin].0 - domain.spec.imports.len();
        domain.window.base() + domain.image.spares[spare]
    }

    /// The record behind such a pointer, and behind one of a function that was passed to the
    /// client.
    pub fn number(&self, client: usize, pointer: u64) -> Option<usize> {
        let domain = &self.domains[client];
        let offset = pointer & (sfi_contract::layout::WINDOW_SIZE - 1);
        let spare = domain.image.spares.iter().position(|slot| *slot == offset)?;
        Some(self.manager.ranges[domain.origin].0 + domain.spec.imports.len() + spare)
    }

    /// Connects what asks for its entry point by name and leads nowhere, where the entry point
    /// exists. `strict`: a refusal is an error; otherwise what is refused goes on leading nowhere.
    pub fn connect_waiting(&mut self, strict: bool) -> Result<(), BindError> {
        let waiting: Vec<(usize, String, String)> = self
            .manager
            .records
            .iter()
            .flatten()
            .filter(|r| r.to == To::Nobody)
            .filter_map(|r| Some((r.client, r.symbol.clone()?, r.entry.clone()?)))
            .filter(|(_, _, entry)| self.manager.entries.contains_key(entry))
            .collect();
        for (client, symbol, entry) in waiting {
            let connected = self.connect(client, Some(&symbol), &entry);
            if strict {
                connected?;
            }
        }
        Ok(())
    }

    /// Writes the capabilities that a domain holds into its variables.
    pub fn hand_out(&mut self, index: usize) -> Result<(), BuildError> {
        let domain = &self.domains[index];
        for (symbol, capability) in &domain.spec.holds {
            let wrong = || SpecError::CapabilityVariable { domain: domain.name.clone(), symbol: symbol.clone() };
            let at = domain.image.variables.get(symbol).ok_or_else(wrong)?;
            let written = domain.memory().write(*at, capability.secret_bytes());
            written.map_err(|_| wrong())?;
        }
        Ok(())
    }
}

/// What a specification registers, by name.
pub fn all_registered(
    index: usize,
    spec: &DomainSpec,
    hosts: &[Host],
) -> Result<Vec<(String, Registered)>, BuildError> {
    spec.registers.iter().map(|(name, entry)| registered(index, &spec.name, (name, entry), hosts)).collect()
}

/// An entry point of a domain. What has a header leads to the header.
pub fn registered(
    index: usize,
    domain: &str,
    (name, entry): (&str, &Entry),
    hosts: &[Host],
) -> Result<(String, Registered), BuildError> {
    let signature = entry.parsed(domain, name)?;
    let to = match (&entry.header, entry.functions.as_slice()) {
        (None, [function]) => To::Function { domain: index, function: function.clone() },
        // Several functions have a header.
        _ => {
            let header = header::host_name(domain, name);
            let wrong = || SpecError::Header { domain: domain.to_owned(), entry: name.to_owned() };
            To::Host(hosts.iter().position(|h| h.name == header).ok_or_else(wrong)?)
        }
    };
    Ok((name.to_owned(), Registered { to, owner: Some(index), signature, dynamic: false }))
}

/// See [`Inner::spare`].
enum Spare {
    Connected(usize),
    Free(usize),
}
