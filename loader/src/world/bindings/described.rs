//! The bindings of a specification: stubs, records, entry points.

use crate::gate::ids::{BindingId, ById, DomainId, HostId, Id};
use crate::gate::stubs::{Stub, Way};
use crate::spec::signature::Signature;
use crate::spec::{Callee, DomainSpec, Entry, Import, Trust};
use crate::world::bindings::manager::{By, Registered};
use crate::world::bindings::record::{Record, To};
use crate::world::calls::buffers_in;
use crate::world::calls::header;
use crate::world::calls::host::Host;
use crate::world::error::{BuildError, SpecError};

/// Returns the stubs of a domain whose first record has this number.
pub(crate) fn stubs(spec: &DomainSpec, first: BindingId) -> Vec<Stub> {
    let way = |import: &Import| match import.callee {
        Callee::Host { .. } => Way::Host,
        Callee::Domain { .. } if import.interface.is_some() => Way::Host,
        Callee::Domain { .. } => Way::Domain,
        Callee::Entry { .. } => Way::Binding,
    };
    let imports = spec.imports.iter().map(|(_, import)| way(import));
    let others = std::iter::repeat_n(Way::Binding, spec.gateways() - spec.imports.len());
    imports.chain(others).enumerate().map(|(i, way)| Stub { binding: first.after(i), way }).collect()
}

/// Returns the records of a domain's stubs. `domains` and `hosts` find the world's domains and host
/// functions by name.
pub(crate) fn records(
    client: DomainId,
    spec: &DomainSpec,
    domains: &dyn Fn(&str) -> Option<DomainId>,
    hosts: &dyn Fn(&str) -> Option<HostId>,
) -> Result<Vec<Record>, BuildError> {
    let mut all = Vec::new();
    for ((symbol, import), stub) in spec.imports.iter().zip(stubs(spec, BindingId::FIRST)) {
        let signature = import.parsed().map_err(|error| BuildError::Signature {
            domain: spec.name.clone(),
            symbol: symbol.clone(),
            error,
        })?;
        let client_name = || (spec.name.clone(), symbol.clone());
        let host = |function: &str| {
            hosts(function).map(To::Host).ok_or_else(|| {
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
    all.extend(std::iter::repeat_n(lent, spec.lent_gateways()));
    Ok(all)
}

/// Returns the entry points of a specification, by name.
pub(crate) fn all_registered(
    index: DomainId,
    spec: &DomainSpec,
    hosts: &ById<HostId, Host>,
) -> Result<Vec<(String, Registered)>, BuildError> {
    spec.registers.iter().map(|(name, entry)| registered(index, &spec.name, (name, entry), hosts)).collect()
}

/// Returns an entry point of a domain. One with a header leads to the header.
pub(crate) fn registered(
    index: DomainId,
    domain: &str,
    (name, entry): (&str, &Entry),
    hosts: &ById<HostId, Host>,
) -> Result<(String, Registered), BuildError> {
    let signature = entry.parsed(domain, name)?;
    let to = match (&entry.header, entry.functions.as_slice()) {
        (None, [function]) => To::Function { domain: index, function: function.clone() },
        // Several functions have a header.
        _ => {
            let header = header::host_name(domain, name);
            let wrong = || SpecError::Header { domain: domain.to_owned(), entry: name.to_owned() };
            To::Host(hosts.position(|h| h.name == header).ok_or_else(wrong)?)
        }
    };
    Ok((name.to_owned(), Registered { to, owner: Some(index), signature, by: By::Specification }))
}
