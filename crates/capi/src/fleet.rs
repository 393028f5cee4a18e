//! Templates, pools and servers: worlds by the dozen, for hosts with threads.

use crate::border::{Result, api, give, handle, place};
use crate::config::{config_or_none, sfi_config};
use crate::enter::{Shared, sfi_world};
use crate::error::{BUSY, Failure};
use crate::holder::{Holder, Leased};
use crate::world::handed_out;
use crate::world::{manifest_of, manifest_of_text};
use sfi_loader::manifest::Manifest;
use sfi_loader::{Exhausted, Lease, Pool, PoolError, Server, Template, World};
use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// The description of a template's worlds.
#[derive(Debug)]
pub(crate) struct Described {
    pub manifest: Arc<Manifest>,
    pub directory: PathBuf,
    pub order: Option<crate::sharing::Order>,
}

impl Described {
    /// Makes a world whose host functions find its record by their thread.
    pub(crate) fn world(&self, make: impl FnOnce() -> Result<Holder>) -> Result<*mut sfi_world> {
        let shared = Arc::new(Shared::announced(self.order.map(crate::sharing::Turns::new)));
        let made = {
            // Initialisers call host functions, so this thread uses the world already.
            let _announced = shared.announce();
            shared.take(crate::enter::this_thread()).expect("nobody else knows the record");
            let _leave = crate::enter::Leave(&shared);
            make()?
        };
        Ok(handed_out(shared, made, Arc::clone(&self.manifest), self.directory.clone()))
    }
}

/// `sfi_template`.
#[derive(Debug)]
pub struct sfi_template {
    template: Template,
    described: Arc<Described>,
}

/// `sfi_pool`.
#[derive(Debug)]
pub struct sfi_pool {
    pool: Pool,
    described: Arc<Described>,
}

/// `sfi_server`.
#[derive(Debug)]
pub struct sfi_server {
    server: Arc<Server>,
    described: Arc<Described>,
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Exhausted { .. } => Failure::new(BUSY, error.to_string()),
            PoolError::Build(error) => error.into(),
        }
    }
}

impl From<Exhausted> for Failure {
    fn from(error: Exhausted) -> Self {
        Failure::new(BUSY, error.to_string())
    }
}

/// Makes worlds of several threads while their initialisers may call host functions.
pub(crate) fn starting<R>(make: impl FnOnce() -> Result<R>) -> Result<R> {
    let shared = Shared::announced(None);
    let _announced = shared.announce();
    shared.take(crate::enter::this_thread()).expect("nobody else knows the record");
    let _leave = crate::enter::Leave(&shared);
    make()
}

fn template(manifest: Manifest, directory: &Path, config: Option<&sfi_config>) -> Result<*mut sfi_template> {
    let mut spec = Template::builder(manifest.only(directory)?).la57(manifest.placement.la57);
    if let Some(limit) = manifest.limits.call {
        spec = spec.time_limit(limit.0);
    }
    if let Some(config) = config {
        spec = config.apply_to_template(spec)?;
    }
    let template = starting(|| Ok(spec.build()?))?;
    let (manifest, directory, order) = (Arc::new(manifest), directory.to_owned(), config.and_then(sfi_config::order));
    let described = Arc::new(Described { manifest, directory, order });
    Ok(Box::into_raw(Box::new(sfi_template { template, described })))
}

api! {
    /// Verifies, links and seals the domain of a manifest.
    fn sfi_template_open(manifest: *const c_char, config: *const sfi_config, opened: *mut *mut sfi_template) {
        let to = place(opened, "template")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of(manifest)?;
        to.write(template(manifest, directory, config_or_none(config)?)?);
        Ok(())
    }

    /// Verifies, links and seals the domain of a manifest's text.
    fn sfi_template_open_text(manifest: *const c_char, directory: *const c_char, config: *const sfi_config, opened: *mut *mut sfi_template) {
        let to = place(opened, "template")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of_text(manifest, directory)?;
        to.write(template(manifest, directory, config_or_none(config)?)?);
        Ok(())
    }

    /// Makes a world of a template.
    fn sfi_template_instance(from: *const sfi_template, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let this = handle(from, "template")?;
        to.write(this.described.world(|| Ok(Holder::Own(this.template.instance()?)))?);
        Ok(())
    }

    /// Makes a pool.
    fn sfi_pool_new(from: *const sfi_template, capacity: usize, pool: *mut *mut sfi_pool) {
        let to = place(pool, "pool")?;
        to.write(ptr::null_mut());
        let this = handle(from, "template")?;
        let pool = starting(|| Ok(Pool::new(&this.template, capacity)?))?;
        to.write(Box::into_raw(Box::new(sfi_pool { pool, described: Arc::clone(&this.described) })));
        Ok(())
    }

    /// Takes a world from a pool.
    fn sfi_pool_take(pool: *const sfi_pool, wait: c_int, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let this = handle(pool, "pool")?;
        let take = || if wait != 0 { this.pool.wait() } else { this.pool.take() };
        to.write(this.described.world(|| Ok(Holder::Pooled(take()?)))?);
        Ok(())
    }

    /// Makes a server.
    fn sfi_server_new(from: *const sfi_template, instances: usize, most_waiting: usize, server: *mut *mut sfi_server) {
        let to = place(server, "server")?;
        to.write(ptr::null_mut());
        let this = handle(from, "template")?;
        let worlds = starting(|| (0..instances).map(|_| Ok(this.template.instance()?)).collect::<Result<Vec<World>>>())?;
        let server = Arc::new(Server::new(worlds).most_waiting(most_waiting));
        to.write(Box::into_raw(Box::new(sfi_server { server, described: Arc::clone(&this.described) })));
        Ok(())
    }

    /// Enters a server.
    fn sfi_server_enter(server: *const sfi_server, wait_ns: u64, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let this = handle(server, "server")?;
        let lease = match wait_ns {
            0 => this.server.try_enter(),
            u64::MAX => this.server.enter(),
            ns => this.server.enter_within(Duration::from_nanos(ns)),
        }?;
        // SAFETY: only the lifetime changes. The lease is of this server.
        let leased = Leased::new(std::mem::transmute::<Lease<'_>, Lease<'static>>(lease), Arc::clone(&this.server));
        to.write(this.described.world(|| Ok(Holder::Leased(leased)))?);
        Ok(())
    }

    /// Counts the idle instances and the waiting threads of a server.
    fn sfi_server_state(server: *const sfi_server, idle: *mut usize, waiting: *mut usize) {
        let this = handle(server, "server")?;
        give(idle, this.server.idle());
        give(waiting, this.server.waiting());
        Ok(())
    }
}

/// Frees a handle.
///
/// # Safety
/// Null, or a handle from a box that is not used again.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: see the function's contract.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Frees a template.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_template_free(handle: *mut sfi_template) {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe { free(handle) }
}

/// Frees a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_pool_free(handle: *mut sfi_pool) {
    // SAFETY: as above.
    unsafe { free(handle) }
}

/// Frees a server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_server_free(handle: *mut sfi_server) {
    // SAFETY: as above.
    unsafe { free(handle) }
}
