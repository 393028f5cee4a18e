//! A host's control over domains and bindings while their world exists.

use crate::border::{Result, api, give, place, text, values};
use crate::enter::{alone, enter, sfi_world};
use crate::error::{Failure, LOAD, NOT_FOUND, sfi_error};
use sfi_loader::manifest::{Manifest, file};
use sfi_loader::{DomainSpec, Manage, World};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// `sfi_record`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct sfi_record {
    faults: u64,
    outside: u64,
    delayed_ns: u64,
    suspicious: c_int,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a domain's specification with the support code that its manifest gave it, and no other
/// objects to link.
pub(crate) fn bare(manifest: &Manifest, world: &World, domain: &str) -> Result<DomainSpec> {
    let mut spec = world.domain(domain)?.spec().without_files();
    let support = manifest.domains.get(domain).and_then(|domain| domain.support.as_ref());
    for object in support.iter().flat_map(|support| &support.objects) {
        spec = spec.object("support", *object);
    }
    Ok(spec)
}

/// Adds the files that a manifest names for a domain, which are read again.
pub(crate) fn described(
    manifest: &Manifest,
    directory: &Path,
    domain: &str,
    mut spec: DomainSpec,
) -> Result<DomainSpec> {
    let Some(described) = manifest.domains.get(domain) else {
        return Err(Failure::new(NOT_FOUND, format!("the manifest has no domain `{domain}`")));
    };
    let read = |path: &Path| {
        let path = directory.join(path);
        file::read(&path).map_err(|e| Failure::new(LOAD, format!("{}: {e}", path.display())))
    };
    for path in &described.objects {
        spec = spec.object(path.display().to_string(), read(path)?);
    }
    for path in &described.archives {
        spec = spec.archive(path.display().to_string(), read(path)?);
    }
    Ok(spec)
}

/// Returns the library's version.
#[unsafe(no_mangle)]
pub extern "C" fn sfi_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

api! {
    /// Restarts a domain in the state in which it was built.
    fn sfi_world_restart(world: *mut sfi_world, domain: *const c_char) {
        let domain = text(domain, "domain")?;
        alone(world, |world| {
            world.domain(domain)?;
            Ok(world.restart(domain)?)
        })
    }

    /// Loads a domain again from the manifest's files.
    fn sfi_world_reload(world: *mut sfi_world, domain: *const c_char) {
        let domain = text(domain, "domain")?;
        alone(world, |found| {
            // The description never changes.
            let this = &*world;
            let spec = bare(&this.manifest, found, domain)?;
            Ok(found.reload(described(&this.manifest, &this.directory, domain, spec)?)?)
        })
    }

    /// Loads a domain again from an object.
    fn sfi_world_reload_object(world: *mut sfi_world, domain: *const c_char, object: *const c_void, size: usize) {
        let domain = text(domain, "domain")?;
        let object = values(object.cast::<u8>(), size, "object")?.to_vec();
        alone(world, |found| Ok(found.reload(bare(&(*world).manifest, found, domain)?.object("object", object))?))
    }

    /// Connects an import of a client to an entry point.
    fn sfi_world_connect(world: *mut sfi_world, client: *const c_char, symbol: *const c_char, entry: *const c_char) {
        let (client, symbol, entry) = (text(client, "client")?, text(symbol, "symbol")?, text(entry, "entry")?);
        enter(world, |inside| Ok(inside.way().connect(client, symbol, entry)?))
    }

    /// Disconnects an import of a client.
    fn sfi_world_disconnect(world: *mut sfi_world, client: *const c_char, symbol: *const c_char) {
        let (client, symbol) = (text(client, "client")?, text(symbol, "symbol")?);
        enter(world, |inside| Ok(inside.way().disconnect(client, symbol)?))
    }

    /// Adds a rule about connections.
    fn sfi_world_permit(world: *mut sfi_world, client: *const c_char, entry: *const c_char) {
        let (client, entry) = (text(client, "client")?, text(entry, "entry")?);
        enter(world, |inside| {
            inside.way().permit(client, entry);
            Ok(())
        })
    }

    /// Gives a domain its whole budget again.
    fn sfi_world_refill(world: *mut sfi_world, domain: *const c_char) {
        let domain = text(domain, "domain")?;
        alone(world, |world| Ok(world.refill(domain)?))
    }

    /// Reads the used part of a domain's budget.
    fn sfi_world_used(world: *mut sfi_world, domain: *const c_char, wall_ns: *mut u64, cpu_ns: *mut u64) {
        let domain = text(domain, "domain")?;
        let used = alone(world, |world| Ok(world.used(domain)?))?;
        give(wall_ns, nanoseconds(used.wall));
        give(cpu_ns, nanoseconds(used.cpu));
        Ok(())
    }

    /// Says whether a domain is dead, and gives its last fault.
    fn sfi_world_state(world: *mut sfi_world, domain: *const c_char, dead: *mut c_int, fault: *mut *mut sfi_error) {
        give(fault, ptr::null_mut());
        let domain = text(domain, "domain")?;
        let (is_dead, last) = alone(world, |world| {
            let domain = world.domain(domain)?;
            Ok((domain.is_dead(), domain.last_fault()))
        })?;
        give(dead, c_int::from(is_dead));
        if let Some(last) = last.filter(|_| !fault.is_null()) {
            fault.write(Failure::from(last).boxed());
        }
        Ok(())
    }

    /// Reads the record of a domain's owner.
    fn sfi_world_record(world: *mut sfi_world, domain: *const c_char, record: *mut sfi_record) {
        let (domain, to) = (text(domain, "domain")?, place(record, "record")?);
        let record = alone(world, |world| {
            let nobody = || Failure::new(NOT_FOUND, format!("domain `{domain}` has no owner"));
            Ok(world.domain(domain)?.owner().ok_or_else(nobody)?.record())
        })?;
        to.write(sfi_record {
            faults: record.faults,
            outside: record.outside,
            delayed_ns: nanoseconds(record.delayed),
            suspicious: c_int::from(record.suspicious),
        });
        Ok(())
    }
}
