//! A domain's window, and the heap that its own `malloc` and `free` manage.

use crate::border::{Result, api, give, handle, place, quietly, text};
use crate::enter::{Inside, enter, sfi_world};
use crate::error::{BOUNDS, Failure};
use sfi_loader::{DomainRef, TypedFn};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Size of a window.
const SIZE: u64 = 1 << 32;

/// The domain's functions `malloc` and `free`.
type Malloc = TypedFn<fn(u64) -> u64>;
type Free = TypedFn<fn(u64)>;

/// Looks at a domain, from outside or within a host function.
pub(crate) fn look<R>(inside: &Inside<'_>, domain: &str, body: impl FnOnce(DomainRef<'_>) -> Result<R>) -> Result<R> {
    match inside {
        Inside::World(world) => body(world.domain(domain)?),
        Inside::Host(call) => body(call.domain(domain)?),
    }
}

/// Returns a window's base. The host will use addresses in it, so the domain's pages stay open.
fn window_base(domain: DomainRef<'_>) -> Result<u64> {
    domain.keep_open().map_err(|error| Failure::new(BOUNDS, error.to_string()))?;
    Ok(domain.secret_base())
}

api! {
    /// Returns the place and the size of a domain's window.
    fn sfi_world_window(world: *mut sfi_world, domain: *const c_char, base: *mut u64, size: *mut u64) {
        let domain = text(domain, "domain")?;
        let found = enter(world, |inside| look(&inside, domain, window_base))?;
        give(base, found);
        give(size, SIZE);
        Ok(())
    }

    /// Calls the domain's `malloc`.
    fn sfi_world_malloc(world: *mut sfi_world, domain: *const c_char, size: usize, pointer: *mut u64) {
        let (domain, to) = (text(domain, "domain")?, place(pointer, "pointer")?);
        to.write(0);
        let found = enter(world, |inside| {
            let malloc: Malloc = look(&inside, domain, |domain| Ok(domain.export("malloc")?))?;
            let (found, mine) = match inside {
                Inside::World(world) => {
                    let found = malloc.call(world, (size as u64,))?;
                    window_base(world.domain(domain)?)?;
                    (found, world.domain(domain)?.may_write(found, size))
                }
                Inside::Host(call) => {
                    let found = malloc.call(call, (size as u64,))?;
                    window_base(call.domain(domain)?)?;
                    (found, call.domain(domain)?.may_write(found, size))
                }
            };
            // The function is the domain's, so its result is anything.
            if found == 0 || mine {
                return Ok(found);
            }
            let why = format!("`malloc` of domain `{domain}` did not return {size} bytes of its memory");
            Err(Failure::new(BOUNDS, why))
        })?;
        to.write(found);
        Ok(())
    }

    /// Calls the domain's `free`.
    fn sfi_world_free(world: *mut sfi_world, domain: *const c_char, pointer: u64) {
        let domain = text(domain, "domain")?;
        enter(world, |inside| {
            let free: Free = look(&inside, domain, |domain| Ok(domain.export("free")?))?;
            match inside {
                Inside::World(world) => free.call(world, (pointer,))?,
                Inside::Host(call) => free.call(call, (pointer,))?,
            }
            Ok(())
        })
    }
}

/// Says whether an address lies in a window of this process. Gives the window's base.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_window_of(address: *const c_void, base: *mut u64) -> c_int {
    quietly(0, || {
        let found = sfi_loader::window_of(address as u64)?;
        // SAFETY: the crate's documentation states the host's duties.
        unsafe { give(base, found) };
        Some(1)
    })
}

/// Returns the name of a domain of the manifest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_world_domain(world: *const sfi_world, index: usize) -> *const c_char {
    quietly(ptr::null(), || {
        // SAFETY: the crate's documentation states the host's duties. The names never change.
        let world = unsafe { handle(world, "world") }.ok()?;
        world.names.get(index).map(|name| name.as_ptr())
    })
}
