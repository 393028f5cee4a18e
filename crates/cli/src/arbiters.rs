//! Arbitration for the domains of a manifest that have a `syscalls` table.

use crate::grants::logging;
use crate::program::environment;
use anyhow::ensure;
use sfi_arbitration::{Arbiter, Counts, Crew, Program, manifest as table};
use sfi_loader::Builder;
use sfi_loader::manifest::{EntryCall, Log, Manifest, Support, arbiter_of};
use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::Path;
use std::time::Duration;

/// Says whether the entry point is a whole program: `main` of a domain with system calls.
pub fn is_program(manifest: &Manifest) -> bool {
    let domain = |entry: &EntryCall| manifest.domains.get(&entry.domain).is_some_and(|d| d.syscalls.is_some());
    manifest.entry.as_ref().is_some_and(|entry| entry.function == "main" && domain(entry))
}

/// Says whether a domain may start programs.
pub fn starts_programs(manifest: &Manifest) -> bool {
    let mut tables = manifest.domains.values().filter_map(|domain| domain.syscalls.as_ref());
    tables.any(|table| !table.programs.is_empty())
}

/// Gives the domains with system calls the code that connects their libc to the arbiter.
pub fn prepare(manifest: &mut Manifest) {
    let program = manifest.entry.as_ref().filter(|_| is_program(manifest)).map(|entry| entry.domain.clone());
    for (name, domain) in manifest.domains.iter_mut().filter(|(_, domain)| domain.syscalls.is_some()) {
        let own_start = program.as_ref() == Some(name);
        let object = if own_start { sfi_support::object(domain.mode) } else { sfi_support::library(domain.mode) };
        let objects = vec![object, sfi_support::jumps_object(domain.mode)];
        let archives = vec![sfi_support::contexts_archive(domain.mode)];
        domain.support = Some(Support { objects, archives, own_start });
    }
}

/// A builder with arbitration.
pub struct Added {
    pub builder: Builder,
    /// The counts of each domain's calls.
    pub counts: Vec<(String, Counts)>,
    /// The threads of the domain that may have several. No other domain is beside it.
    pub crew: Option<Crew>,
}

/// Adds the host functions that answer system calls. No call sleeps or waits for longer than
/// `limit`.
pub fn add(
    mut builder: Builder,
    manifest: &Manifest,
    directory: &Path,
    log: Option<Log>,
    limit: Option<Duration>,
) -> anyhow::Result<Added> {
    let (mut counts, mut crew) = (Vec::new(), None);
    for (name, domain) in &manifest.domains {
        let Some(syscalls) = &domain.syscalls else { continue };
        let policy = table::policy(syscalls, directory, limit)?;
        let arbiter = Arbiter::new(policy, table::descriptors(syscalls, directory)?);
        // The exit of the entry point's domain ends the run. Any other domain ends only itself.
        let entered = manifest.entry.as_ref().is_some_and(|entry| entry.domain == *name);
        let arbiter = if entered { arbiter.program() } else { arbiter };
        let (log, records) = (log.unwrap_or(syscalls.log), syscalls.quota.records);
        let arbiter = logging(arbiter, log, &format!("{name}: "), records);
        counts.push((name.clone(), arbiter.counts()));
        if domain.threads == 1 {
            builder = arbiter.offer(builder, arbiter_of(name), manifest.domains.len() == 1);
            continue;
        }
        // Threads outlive a call, and only the end of a program ends them.
        ensure!(is_program(manifest) && entered, "domain `{name}`: only a program (entry point `main`) has threads");
        let threads = Crew::new(arbiter);
        builder = builder.host_fn(arbiter_of(name), threads.first());
        crew = Some(threads);
    }
    Ok(Added { builder, counts, crew })
}

/// Returns the arguments and the environment of a domain that is a program.
pub fn program(manifest: &Manifest, domain: &str, name: &Path, arguments: &[OsString]) -> Program {
    let table = manifest.domains.get(domain).and_then(|d| d.syscalls.as_ref());
    let own = table.map(|t| t.arguments.as_slice()).unwrap_or_default();
    Program {
        arguments: iter::once(name.into())
            .chain(own.iter().map(OsString::from))
            .chain(arguments.iter().cloned())
            .collect(),
        environment: table.map(|t| environment(t.environment.iter().map(OsStr::new), false)).unwrap_or_default(),
    }
}
