//! Lanes: one world that several threads of the host enter at once. A lane is a world for the host
//! that one thread at a time uses.

use crate::border::{Result, api, give, handle, place, text, values};
use crate::config::{config_or_none, sfi_config};
use crate::control::{bare, described};
use crate::enter::sfi_world;
use crate::error::{Failure, INVALID};
use crate::fleet::{Described, free, starting};
use crate::holder::{Holder, InLane};
use crate::world::{manifest_of, manifest_of_text};
use sfi_loader::manifest::Manifest;
use sfi_loader::{BindError, DomainSpec, Lane, Lanes, World};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `sfi_lanes`.
#[derive(Debug)]
pub struct sfi_lanes {
    lanes: Arc<Lanes>,
    described: Arc<Described>,
}

fn open(manifest: Manifest, directory: &Path, config: Option<&sfi_config>, count: usize) -> Result<*mut sfi_lanes> {
    if let Some((name, _)) = manifest.domains.iter().find(|(_, domain)| domain.syscalls.is_some()) {
        let why = format!("domain `{name}` has `syscalls`, whose arbiter no two lanes may use at once");
        return Err(Failure::new(INVALID, why));
    }
    let mut builder = manifest.build(World::builder(), directory)?;
    if let Some(config) = config {
        builder = config.apply_to_lanes(builder)?;
    }
    let lanes = Arc::new(starting(|| Ok(builder.lanes(count)?))?);
    let order = config.and_then(sfi_config::order);
    let described = Arc::new(Described { manifest: Arc::new(manifest), directory: directory.to_owned(), order });
    Ok(Box::into_raw(Box::new(sfi_lanes { lanes, described })))
}

/// Loads a domain again in all lanes. `files` adds its objects to what stays.
fn reload(
    this: &sfi_lanes,
    domain: &str,
    wait_ns: u64,
    files: impl FnOnce(DomainSpec) -> Result<DomainSpec>,
) -> Result<()> {
    let within = if wait_ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(wait_ns) };
    let until = Instant::now().checked_add(within);
    let busy = || Failure::from(BindError::Active { domain: domain.to_owned() });
    let lane = this.lanes.enter_within(within).map_err(|_| busy())?;
    let spec = bare(&this.described.manifest, &lane, domain)?;
    drop(lane);
    let spec = files(spec)?;
    let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
    // Initialisers call host functions.
    starting(|| Ok(this.lanes.reload(spec, left)?))
}

api! {
    /// Loads the domains of a manifest for several threads at once.
    fn sfi_lanes_open(manifest: *const c_char, config: *const sfi_config, count: usize, opened: *mut *mut sfi_lanes) {
        let to = place(opened, "lanes")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of(manifest)?;
        to.write(open(manifest, directory, config_or_none(config)?, count)?);
        Ok(())
    }

    /// Loads the domains of a manifest's text for several threads at once.
    fn sfi_lanes_open_text(manifest: *const c_char, directory: *const c_char, config: *const sfi_config, count: usize, opened: *mut *mut sfi_lanes) {
        let to = place(opened, "lanes")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of_text(manifest, directory)?;
        to.write(open(manifest, directory, config_or_none(config)?, count)?);
        Ok(())
    }

    /// Takes a lane.
    fn sfi_lanes_enter(lanes: *const sfi_lanes, wait_ns: u64, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let this = handle(lanes, "lanes")?;
        let lane = match wait_ns {
            0 => this.lanes.try_enter(),
            u64::MAX => this.lanes.enter(),
            ns => this.lanes.enter_within(Duration::from_nanos(ns)),
        }?;
        // SAFETY: only the lifetime changes. The lane is of these lanes.
        let lane = InLane::new(std::mem::transmute::<Lane<'_>, Lane<'static>>(lane), Arc::clone(&this.lanes));
        to.write(this.described.world(|| Ok(Holder::Lane(lane)))?);
        Ok(())
    }

    /// Loads a domain again for all lanes, from the manifest's files.
    fn sfi_lanes_reload(lanes: *const sfi_lanes, domain: *const c_char, wait_ns: u64) {
        let (this, domain) = (handle(lanes, "lanes")?, text(domain, "domain")?);
        let Described { manifest, directory, .. } = &*this.described;
        reload(this, domain, wait_ns, |spec| described(manifest, directory, domain, spec))
    }

    /// Loads a domain again for all lanes, from an object.
    fn sfi_lanes_reload_object(lanes: *const sfi_lanes, domain: *const c_char, object: *const c_void, size: usize, wait_ns: u64) {
        let (this, domain) = (handle(lanes, "lanes")?, text(domain, "domain")?);
        let object = values(object.cast::<u8>(), size, "object")?.to_vec();
        reload(this, domain, wait_ns, |spec| Ok(spec.object("object", object)))
    }

    /// Counts the lanes.
    fn sfi_lanes_count(lanes: *const sfi_lanes, count: *mut usize) {
        give(count, handle(lanes, "lanes")?.lanes.count());
        Ok(())
    }

    /// Counts the lanes that no thread has.
    fn sfi_lanes_idle(lanes: *const sfi_lanes, idle: *mut usize) {
        give(idle, handle(lanes, "lanes")?.lanes.idle());
        Ok(())
    }
}

/// Frees lanes. The world stays until the last lane is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_lanes_free(handle: *mut sfi_lanes) {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { free(handle) }
}
