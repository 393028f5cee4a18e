//! The last part of building a world: bindings, entry points, connections by name.

use crate::gate::ids::DomainId;
use crate::world::bindings::described::all_registered;
use crate::world::bindings::manager::{By, Registered};
use crate::world::bindings::record::To;
use crate::world::error::{BindError, BuildError, SpecError};
use crate::world::inner::Inner;
use std::sync::Arc;

impl Inner {
    /// Sets up bindings, entry points and connections by name, as the last part of building.
    pub(crate) fn set_up(&mut self) -> Result<(), BuildError> {
        for record in self.manager.records.iter().flatten() {
            if let (Some(symbol), To::Function { domain, function }) = (&record.symbol, &record.to)
                && !self.domains[*domain].image.functions_by_name.contains_key(function)
            {
                let [domain, server] = [record.client, *domain].map(|index| self.domains[index].name.clone());
                let (symbol, function) = (symbol.clone(), function.clone());
                return Err(SpecError::NoFunction { domain, symbol, server, function }.into());
            }
        }
        for index in self.domains.ids() {
            self.domains[index].passes_floats = self.passes_floats(index);
        }
        self.write_all()?;
        for index in self.domains.ids() {
            self.show_all(index)?;
            // In further lanes the domain has its capabilities, and may have changed them.
            if self.lane.as_ref().is_none_or(|lane| lane.number == 0) {
                self.hand_out(index)?;
            }
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
            let host = self.hosts.position(|h| h.name == name);
            let to = To::Host(host.ok_or_else(|| BindError::Entry(name.clone()))?);
            let entry = Registered { to, owner: None, signature, by: By::Specification };
            if self.manager.entries.insert(name.clone(), entry).is_some() {
                return Err(BindError::Taken(name).into());
            }
        }
        Ok(self.connect_waiting(true)?)
    }

    /// Writes the capabilities that a domain holds into its variables.
    pub(crate) fn hand_out(&mut self, index: DomainId) -> Result<(), BuildError> {
        let domain = &self.domains[index];
        for (symbol, capability) in &domain.spec.holds {
            let wrong = || SpecError::CapabilityVariable { domain: domain.name.clone(), symbol: symbol.clone() };
            let at = domain.image.variables.get(symbol).ok_or_else(wrong)?;
            let written = domain.memory().write(at.bytes(), capability.secret_bytes());
            written.map_err(|_| wrong())?;
        }
        Ok(())
    }
}
