//! Writing the bindings that gates read, from the manager's records.

use crate::fault::watched::Watched;
use crate::gate::ids::{BindingId, DomainId};
use crate::gate::records::Binding;
use crate::spec::{Callee, Import, Restart};
use crate::world::bindings::policy::BindingReport;
use crate::world::bindings::record::{Common, Record, To};
use crate::world::calls::builtin;
use crate::world::calls::functions;
use crate::world::domain::Domain;
use crate::world::error::BindError;
use crate::world::inner::Inner;

impl Inner {
    /// Returns the data that all bindings share.
    pub(crate) fn common(&self) -> Common<'_> {
        Common {
            table: self.gates.table,
            domains: &self.domains,
            hosts: &self.hosts,
            nobody: self.manager.nobody,
            lends: functions::lends(),
            metered: self.time.watched.as_ref().is_some_and(Watched::is_metered),
            lane: self.lane.as_ref(),
        }
    }

    /// Computes [`Domain::passes_floats`].
    pub(crate) fn passes_floats(&self, index: DomainId) -> bool {
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

    /// Prepares these domains for floats that cross to or from them. Domains that name no register
    /// for floats are treated from now on as if they did. Refused while calls are in progress,
    /// because their frames were made for domains in which such registers belong to others.
    pub(crate) fn pass_floats(&mut self, sides: &[Option<DomainId>]) -> Result<(), BindError> {
        let named = |index: DomainId| sides.contains(&Some(index));
        let new = |d: &Domain| named(d.origin) && !d.side().has_vectors();
        let Some(first) = self.domains.iter().find(|d| new(d)) else { return Ok(()) };
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        if unsafe { (*self.gates.control.context()).depth } > 0 {
            return Err(BindError::Busy { domain: first.name.clone() });
        }
        for index in self.domains.ids() {
            if !named(self.domains[index].origin) {
                continue;
            }
            let known = self.domains[index].side().has_vectors();
            self.domains[index].passes_floats = true;
            if !known {
                // Entries that the host looked up before do not clear state that this domain may
                // now hand on.
                self.renew(index);
            }
        }
        let records = self.manager.records.enumerate();
        let touched = |r: &Record| named(r.client) || r.to.domain().is_some_and(named);
        let numbers: Vec<BindingId> =
            records.filter(|(_, r)| r.as_ref().is_some_and(touched)).map(|(number, _)| number).collect();
        self.write(numbers)
    }

    /// Describes all bindings for people.
    pub(crate) fn reports(&self) -> Vec<BindingReport> {
        let common = self.common();
        let records = self.manager.records.iter().flatten();
        records.filter(|r| !r.lent || r.to != To::Nobody).map(|record| common.report(record)).collect()
    }

    /// Writes the bindings of some records.
    pub(crate) fn write(&mut self, numbers: impl IntoIterator<Item = BindingId>) -> Result<(), BindError> {
        let (common, records) = (self.common(), &self.manager.records);
        let bindings: Vec<(BindingId, Binding)> =
            numbers.into_iter().filter_map(|n| records[n].as_ref().map(|r| (n, common.binding(r)))).collect();
        self.gates.control.write_bindings(&bindings).map_err(BindError::Memory)
    }

    /// Makes room for all records and writes them.
    pub(crate) fn write_all(&mut self) -> Result<(), BindError> {
        let count = self.manager.records.len();
        let revives = self.lane.is_some() || self.domains.iter().any(|d| d.spec.restart != Restart::Never);
        if count == 1 && !revives {
            return Ok(());
        }
        self.gates.control.reserve_bindings(count).map_err(BindError::Memory)?;
        self.write(self.manager.records.ids().skip(1))?;
        if revives { self.write_reviver() } else { Ok(()) }
    }

    /// Writes the binding of the host function that restarts domains, if a domain may be restarted.
    pub(crate) fn write_reviver(&mut self) -> Result<(), BindError> {
        let Some(host) = self.hosts.position(|h| h.name == builtin::REVIVE) else { return Ok(()) };
        let reviver = self.common().reviver(host);
        self.gates.control.write_bindings(&[(BindingId::REVIVER, reviver)]).map_err(BindError::Memory)?;
        let restarts = self.domains.iter().any(|d| d.spec.restart != Restart::Never);
        let (at, nowhere) = (self.gates.control.binding(BindingId::REVIVER), std::ptr::null());
        let (revive, take) = match self.lane.is_some() {
            true => (nowhere, at),
            false => (if restarts { at } else { nowhere }, nowhere),
        };
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        unsafe { ((*self.gates.control.context()).revive, (*self.gates.control.context()).take) = (revive, take) };
        Ok(())
    }
}
