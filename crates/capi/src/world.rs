//! Opening and closing worlds.

use crate::border::{Result, api, border, place, text};
use crate::config::{config_or_none, sfi_config};
use crate::enter::{Leave, Shared, alone, sfi_world, this_thread};
use crate::error::{Failure, IN_USE, Status, c_text, sfi_error};
use crate::holder::Holder;
use sfi_arbitration::{Arbiter, manifest as table};
use sfi_loader::World;
use sfi_loader::manifest::{Manifest, Support, arbiter_of};
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

fn open(mut manifest: Manifest, directory: &Path, config: Option<&sfi_config>) -> Result<*mut sfi_world> {
    for domain in manifest.domains.values_mut().filter(|domain| domain.syscalls.is_some()) {
        let objects = vec![sfi_support::library(domain.mode), sfi_support::jumps_object(domain.mode)];
        let archives = vec![sfi_support::contexts_archive(domain.mode)];
        domain.support = Some(Support { objects, archives, own_start: false });
    }
    let mut builder = manifest.build(World::builder(), directory)?;
    for (name, domain) in &manifest.domains {
        let Some(syscalls) = &domain.syscalls else { continue };
        let policy = table::policy(syscalls, directory, manifest.limits.call.map(|limit| limit.0))?;
        let mut arbiter = Arbiter::new(policy, table::descriptors(syscalls, directory)?);
        builder = builder.host_fn(arbiter_of(name), move |cx| arbiter.host_call(cx));
    }
    let one_thread = config.is_some_and(sfi_config::is_of_one_thread);
    let turns = config.and_then(sfi_config::turns);
    let shared = Arc::new(if one_thread { Shared::of_this_thread() } else { Shared::of_turns(turns) });
    if let Some(config) = config {
        builder = config.apply(builder, &shared);
    }
    // Initialisers call host functions, so this thread uses the world already.
    shared.take(this_thread()).expect("nobody else knows the record");
    let built = {
        let _leave = Leave(&shared);
        builder.build()?
    };
    Ok(handed_out(shared, Holder::Own(built), Arc::new(manifest), directory.to_owned()))
}

/// Makes the host's handle of a world.
pub(crate) fn handed_out(
    shared: Arc<Shared>,
    world: Holder,
    manifest: Arc<Manifest>,
    directory: PathBuf,
) -> *mut sfi_world {
    let names = manifest.domains.keys().map(c_text).collect();
    let (world, instances) = (UnsafeCell::new(Some(world)), UnsafeCell::default());
    Box::into_raw(Box::new(sfi_world { shared, world, manifest, directory, names, instances }))
}

/// Reads a manifest. Returns it and its directory.
///
/// # Safety
/// Null, or a C string that stays for `'p`.
pub(crate) unsafe fn manifest_of<'p>(path: *const c_char) -> Result<(Manifest, &'p Path)> {
    // SAFETY: see the function's contract.
    let path = Path::new(unsafe { text(path, "manifest") }?);
    Ok((Manifest::load(path)?, path.parent().unwrap_or(Path::new(""))))
}

/// Reads the text of a manifest, whose paths are relative to a directory. Returns both.
///
/// # Safety
/// Null, or C strings that stay for `'p`.
pub(crate) unsafe fn manifest_of_text<'p>(
    manifest: *const c_char,
    directory: *const c_char,
) -> Result<(Manifest, &'p Path)> {
    // SAFETY: see the function's contract.
    let (directory, manifest) = unsafe { (text(directory, "directory")?, text(manifest, "text")?) };
    Ok((Manifest::parse(manifest, Path::new("(text)"))?, Path::new(directory)))
}

api! {
    /// Loads the domains of a manifest.
    fn sfi_world_open(manifest: *const c_char, config: *const sfi_config, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of(manifest)?;
        to.write(open(manifest, directory, config_or_none(config)?)?);
        Ok(())
    }

    /// Loads the domains of a manifest's text.
    fn sfi_world_open_text(manifest: *const c_char, directory: *const c_char, config: *const sfi_config, world: *mut *mut sfi_world) {
        let to = place(world, "world")?;
        to.write(ptr::null_mut());
        let (manifest, directory) = manifest_of_text(manifest, directory)?;
        to.write(open(manifest, directory, config_or_none(config)?)?);
        Ok(())
    }
}

/// Runs the finalisers and frees the world.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_world_close(world: *mut sfi_world, error: *mut *mut sfi_error) -> Status {
    // SAFETY: the crate's documentation states the host's duties. The record is freed only here,
    // when no thread is in the world.
    unsafe {
        border(error, || {
            if world.is_null() {
                return Ok(());
            }
            let ended = {
                // The world is taken out of its place. Until the record is freed only the host
                // functions that finalisers call get in.
                alone(world, |_| Ok(()))?;
                let this = &*world;
                let me = this_thread();
                this.shared.take(me).map_err(|_| Failure::new(IN_USE, "another thread uses the world"))?;
                let _announced = this.shared.announce();
                let _leave = Leave(&this.shared);
                let found = (*this.world.get()).take();
                catch_unwind(AssertUnwindSafe(|| found.map_or(Ok(()), Holder::end)))
            };
            drop(Box::from_raw(world));
            ended.unwrap_or_else(|payload| resume_unwind(payload)).map_err(Failure::from)
        })
    }
}
