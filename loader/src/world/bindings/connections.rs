//! Registering entry points, and connecting and disconnecting clients.

use crate::gate::ids::{BindingId, DomainId};
use crate::gate::stubs::Way;
use crate::spec::signature::Signature;
use crate::vm::address::WindowOffset;
use crate::world::bindings::manager::{By, Registered, is_name};
use crate::world::bindings::record::{Record, To};
use crate::world::calls::shim;
use crate::world::error::BindError;
use crate::world::frames::Activity;
use crate::world::inner::Inner;

/// Most entry points that one domain registers at run time.
const MAX_REGISTERED: usize = 64;

impl Inner {
    /// Registers an entry point. Its full name is the domain's name, a dot, and `name`, which may
    /// hold no dot.
    pub(crate) fn register(&mut self, domain: DomainId, name: &str, entry: Registered) -> Result<(), BindError> {
        self.manager.changes()?;
        if !is_name(name) {
            return Err(BindError::Name(name.to_owned()));
        }
        let full = format!("{}.{name}", self.domains[domain].name);
        if entry.by == By::Domain && self.manager.withdrawn.contains(&full) {
            return Err(BindError::Entry(full));
        }
        if let Some(old) = self.manager.entries.get(&full) {
            // The host may say again what holds since an earlier life of the domain.
            return if entry.by == By::Host && *old == entry { Ok(()) } else { Err(BindError::Taken(full)) };
        }
        let own = |e: &&Registered| e.by == By::Domain && e.owner == Some(domain);
        if entry.by == By::Domain && self.manager.entries.values().filter(own).count() >= MAX_REGISTERED {
            return Err(BindError::TooMany { domain: self.domains[domain].name.clone() });
        }
        if let To::Function { function, .. } = &entry.to
            && !self.domains[domain].image.functions_by_name.contains_key(function)
        {
            return Err(BindError::Function { domain: self.domains[domain].name.clone(), function: function.clone() });
        }
        self.manager.withdrawn.remove(&full);
        self.manager.entries.insert(full, entry);
        Ok(())
    }

    /// Takes an entry point back for the host. No life of its domain registers it again.
    pub(crate) fn withdraw(&mut self, entry: &str) -> Result<(), BindError> {
        self.unregister(entry)?;
        self.manager.withdrawn.insert(entry.to_owned());
        Ok(())
    }

    /// Returns the calls in progress.
    pub(crate) fn activity(&self) -> Activity {
        Activity::of(self)
    }

    /// Takes an entry point back. Bindings to it then lead nowhere.
    pub(crate) fn unregister(&mut self, entry: &str) -> Result<(), BindError> {
        self.manager.changes()?;
        self.manager.entries.remove(entry).ok_or_else(|| BindError::Entry(entry.to_owned()))?;
        let connected = |r: &Option<Record>| r.as_ref().is_some_and(|r| r.entry.as_deref() == Some(entry));
        let records = &self.manager.records;
        let all: Vec<BindingId> = records.ids().filter(|n| connected(&records[*n])).collect();
        all.into_iter().try_for_each(|number| self.undo(number, true))
    }

    /// Connects a client by name, through its import `symbol` or a free gateway. Returns the
    /// record's number. Instances of a domain share their bindings.
    pub(crate) fn connect(
        &mut self,
        client: DomainId,
        symbol: Option<&str>,
        entry: &str,
    ) -> Result<BindingId, BindError> {
        self.manager.changes()?;
        let registered = self.manager.entries.get(entry).cloned().ok_or_else(|| BindError::Entry(entry.to_owned()))?;
        let client = self.domains[client].origin;
        let name = self.domains[client].name.clone();
        if !self.manager.rules.allow(&name, entry) {
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
        if active.bindings.contains(&self.gates.control.binding(number)) {
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

    fn find_import(&self, client: DomainId, symbol: &str) -> Result<BindingId, BindError> {
        let run = self.manager.runs[self.domains[client].origin];
        let found =
            |n: &BindingId| self.manager.records[*n].as_ref().is_some_and(|r| r.symbol.as_deref() == Some(symbol));
        run.ids()
            .find(found)
            .ok_or_else(|| BindError::Import { domain: self.domains[client].name.clone(), symbol: symbol.to_owned() })
    }

    /// Finds a gateway of the client that is connected already, or a free one that no call in
    /// progress uses.
    fn spare(&self, client: DomainId, entry: &str, active: &Activity) -> Result<Spare, BindError> {
        let run = self.manager.runs[client];
        let spares = || {
            let all = run.ids().map(|n| (n, &self.manager.records[n]));
            all.filter_map(|(n, r)| r.as_ref().filter(|r| r.symbol.is_none() && !r.lent).map(|r| (n, r)))
        };
        if let Some((n, _)) = spares().find(|(_, r)| r.to != To::Nobody && r.entry.as_deref() == Some(entry)) {
            return Ok(Spare::Connected(n));
        }
        let free = |n: BindingId| !active.bindings.contains(&self.gates.control.binding(n));
        let found = spares().find(|(n, r)| r.to == To::Nobody && free(*n)).map(|(n, _)| Spare::Free(n));
        found.ok_or_else(|| BindError::NoSpare { domain: self.domains[client].name.clone() })
    }

    /// Makes a record lead nowhere. With `keep` an import remembers the entry point's name.
    pub(crate) fn undo(&mut self, number: BindingId, keep: bool) -> Result<(), BindError> {
        let Some(record) = self.manager.records[number].as_mut() else { return Ok(()) };
        let server = std::mem::replace(&mut record.to, To::Nobody).domain();
        if record.symbol.is_none() || !keep {
            record.entry = None;
        }
        let at = self.gates.control.binding(number);
        let active = self.activity();
        if let Some(server) = server.filter(|server| !active.domains.contains(server)) {
            // SAFETY: no call returns to it.
            unsafe { self.release_unbound(server) };
        }
        if !active.bindings.contains(&at) {
            return self.write([number]);
        }
        // A call in progress returns by this record, so only the fields that later calls read
        // change.
        // SAFETY: a mapped record.
        let mut binding = unsafe { *at };
        // Without a shim it leads to a domain. The gates tell both kinds apart by that.
        match binding.shim {
            0 => binding.callee = self.manager.nobody,
            _ => binding.shim = shim::unbound(),
        }
        self.gates.control.write_bindings(&[(number, binding)]).map_err(BindError::Memory)
    }

    /// Disconnects an import of a client.
    pub(crate) fn disconnect(&mut self, client: DomainId, symbol: &str) -> Result<(), BindError> {
        self.manager.changes()?;
        let number = self.find_import(client, symbol)?;
        self.undo(number, false)
    }

    /// Returns the function pointer of a client's gateway that is bound at run time.
    pub(crate) fn pointer(&self, client: DomainId, number: BindingId) -> u64 {
        let domain = &self.domains[client];
        let place = self.manager.runs[domain.origin].place(number).expect("a binding of the client");
        domain.window.at(domain.image.spares[place - domain.spec.imports.len()]).number()
    }

    /// Returns the number of the record that such a pointer means, or a pointer of a function that
    /// was passed to the client.
    pub(crate) fn number(&self, client: DomainId, pointer: u64) -> Option<BindingId> {
        let domain = &self.domains[client];
        let offset = WindowOffset::of_pointer(pointer);
        let spare = domain.image.spares.iter().position(|slot| *slot == offset)?;
        Some(self.manager.runs[domain.origin].at(domain.spec.imports.len() + spare))
    }

    /// Connects the imports that wait for an entry point by name, if the entry point exists. With
    /// `strict` a refusal is an error. Otherwise a refused import stays unbound.
    pub(crate) fn connect_waiting(&mut self, strict: bool) -> Result<(), BindError> {
        let waiting: Vec<(DomainId, String, String)> = self
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
}

/// A gateway that [`Inner::spare`] found.
enum Spare {
    Connected(BindingId),
    Free(BindingId),
}
