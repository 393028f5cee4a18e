//! Names in specifications: those that must be unique, and those that must exist.

use crate::spec::{Callee, DomainSpec, MAX_CONTROL_STACK, MAX_FIBERS, MAX_SPARE, MIN_CONTROL_STACK};
use crate::world::bindings::manager::is_name;
use crate::world::builder::Builder;
use crate::world::calls::host::Host;
use crate::world::error::{BindError, BuildError, SpecError};
use crate::world::threads;
use sfi_contract::Mode;
use std::collections::HashSet;

impl Builder {
    /// Checks all names, and the sizes of regions.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        let mut names = HashSet::new();
        let domains = |name: &str| self.domains.iter().find(|d| d.name == name);
        let regions: HashSet<&str> = self.regions.iter().map(|(name, _)| name.as_str()).collect();
        let hosts: HashSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let entries = self.supervisors.iter().map(|(name, _)| name.as_str());
        let supervisors: HashSet<&str> = entries.filter_map(|name| Some(name.split_once('.')?.0)).collect();
        if let Some((name, _)) = self.supervisors.iter().find(|(name, _)| !name.split_once('.').is_some_and(is_entry)) {
            return Err(BindError::Name(name.clone()).into());
        }
        for domain in &self.domains {
            if !is_name(&domain.name) {
                return Err(BindError::Name(domain.name.clone()).into());
            }
            if !names.insert(domain.name.as_str()) || supervisors.contains(domain.name.as_str()) {
                return Err(SpecError::TwoDomains(domain.name.clone()).into());
            }
            check_domain(domain, &regions, &hosts, &domains)?;
        }
        self.check_threads()?;
        let mut names = HashSet::new();
        for (region, bytes) in &self.regions {
            if !names.insert(region) {
                return Err(SpecError::TwoRegions(region.clone()).into());
            }
            if !(1..=1 << 31).contains(bytes) {
                return Err(SpecError::RegionSize { region: region.clone(), bytes: *bytes }.into());
            }
        }
        let mut names = HashSet::new();
        for Host { name: host, .. } in &self.hosts {
            if !names.insert(host) {
                return Err(SpecError::TwoHostFunctions(host.clone()).into());
            }
        }
        Ok(())
    }
}

/// Says whether a supervisor's name and that of its entry point are valid names.
fn is_entry((supervisor, entry): (&str, &str)) -> bool {
    is_name(supervisor) && is_name(entry)
}

/// Checks that the names in a specification are unique or exist.
pub(crate) fn check_domain<'d>(
    domain: &DomainSpec,
    regions: &HashSet<&str>,
    hosts: &HashSet<&str>,
    domains: &dyn Fn(&str) -> Option<&'d DomainSpec>,
) -> Result<(), BuildError> {
    let name = &domain.name;
    let spec = |error: SpecError| Err(error.into());
    let client = || name.clone();
    if domain.clock && !domain.exposing && domain.mode != Mode::Full {
        return spec(SpecError::Clock { domain: client(), mode: domain.mode });
    }
    threads::check(domain)?;
    let open = domain.mode == Mode::Match || domain.link_room.is_some();
    let bounded = |most: u64| (1..=sfi_contract::budget::MOST).contains(&most) && !open;
    if domain.instructions.is_some_and(|most| !bounded(most)) {
        return spec(SpecError::Instructions(client()));
    }
    let mut symbols = HashSet::new();
    let shared = domain.shared.iter().map(|s| &s.symbol);
    for symbol in domain.imports.iter().map(|(s, _)| s).chain(shared) {
        if !symbols.insert(symbol) {
            return spec(SpecError::GrantedTwice { domain: client(), symbol: symbol.clone() });
        }
    }
    for share in &domain.shared {
        if !regions.contains(share.region.as_str()) {
            return spec(SpecError::UnknownRegion { domain: client(), region: share.region.clone() });
        }
    }
    for (symbol, import) in &domain.imports {
        let (client, symbol) = (client(), symbol.clone());
        match &import.callee {
            // Names in parentheses are the loader's own, and nobody can grant them.
            Callee::Host { function } if function.starts_with('(') || !hosts.contains(function.as_str()) => {
                return spec(SpecError::UnknownHostFunction { domain: client, symbol, function: function.clone() });
            }
            Callee::Domain { domain: callee, function } => {
                let Some(callee) = domains(callee) else {
                    return spec(SpecError::UnknownServer { domain: client, symbol, server: callee.clone() });
                };
                if callee.exports.as_ref().is_some_and(|all| !all.contains(function)) {
                    let (server, function) = (callee.name.clone(), function.clone());
                    return spec(SpecError::NotExported { domain: client, symbol, server, function });
                }
            }
            Callee::Host { .. } | Callee::Entry { .. } => {}
        }
    }
    if let Some((name, _)) = domain.registers.iter().find(|(name, _)| !is_name(name)) {
        return Err(BindError::Name(name.clone()).into());
    }
    let mut names = HashSet::new();
    if let Some((name, _)) = domain.registers.iter().find(|(name, _)| !names.insert(name)) {
        return spec(SpecError::RegisteredTwice { domain: client(), entry: name.clone() });
    }
    if domain.spare > MAX_SPARE || domain.callbacks.is_some_and(|count| count > MAX_SPARE) {
        return spec(SpecError::TooManySpare { domain: client(), most: MAX_SPARE });
    }
    if !(MIN_CONTROL_STACK..=MAX_CONTROL_STACK).contains(&domain.control_stack) {
        let (least, most) = (MIN_CONTROL_STACK, MAX_CONTROL_STACK);
        return spec(SpecError::ControlStack { domain: client(), bytes: domain.control_stack, least, most });
    }
    if domain.fibers > MAX_FIBERS {
        return spec(SpecError::TooManyFibers { domain: client(), most: MAX_FIBERS });
    }
    Ok(())
}
