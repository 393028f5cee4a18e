//! Prepared calls: found once, called without allocation, with arguments that the host writes in
//! place. And the end of a call by a signal handler of the host.

use crate::border::{Result, api, give, place, text};
use crate::enter::{Inside, alone, enter, sfi_world};
use crate::error::{BOUNDS, Failure, INVALID};
use crate::function::sfi_value;
use sfi_loader::{CallError, Enter, MAX_ARGUMENTS, Prepared, Signature};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `sfi_prepared`.
#[derive(Debug)]
pub struct sfi_prepared(Prepared);

/// Borrows a prepared function for a call.
///
/// # Safety
/// Null, or a prepared function that nobody else uses now.
unsafe fn change<'p>(prepared: *mut sfi_prepared) -> Result<&'p mut Prepared> {
    // SAFETY: see the function's contract.
    let prepared = unsafe { prepared.as_mut() };
    prepared.map(|prepared| &mut prepared.0).ok_or_else(|| Failure::new(INVALID, "prepared is NULL"))
}

/// Calls a prepared function.
///
/// # Safety
/// `arguments` holds as many values as the signature has.
#[inline]
unsafe fn call(prepared: &mut Prepared, way: &mut (impl Enter + ?Sized), arguments: *const sfi_value) -> Result<u64> {
    let count = prepared.signature().arguments.len();
    if count > MAX_ARGUMENTS {
        return Ok(prepared.call(way, &[0; MAX_ARGUMENTS + 1])?);
    }
    let mut words = [0; MAX_ARGUMENTS];
    for (i, word) in words[..count].iter_mut().enumerate() {
        // SAFETY: see the function's contract.
        *word = unsafe { (*arguments.add(i)).bits() };
    }
    Ok(prepared.call(way, &words[..count])?)
}

api! {
    /// Prepares calls of a function.
    fn sfi_prepare(world: *mut sfi_world, domain: *const c_char, name: *const c_char, signature: *const c_char, prepared: *mut *mut sfi_prepared) {
        let to = place(prepared, "prepared")?;
        to.write(ptr::null_mut());
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        let signature: Signature = text(signature, "signature")?.parse()?;
        let found = alone(world, |world| Ok(world.domain(domain)?.prepare(name, signature)?))?;
        to.write(Box::into_raw(Box::new(sfi_prepared(found))));
        Ok(())
    }

    /// Makes room for the arguments of the next call.
    fn sfi_prepared_room(world: *mut sfi_world, prepared: *mut sfi_prepared, size: usize, room: *mut *mut c_void) {
        let to = place(room, "room")?;
        to.write(ptr::null_mut());
        let prepared = change(prepared)?;
        let found = enter(world, |inside| match inside {
            Inside::World(world) => Ok(prepared.room(world, size)?),
            Inside::Host(call) => Ok(prepared.room(call, size)?),
        })?;
        to.write(found.cast());
        Ok(())
    }

    /// Calls a prepared function.
    fn sfi_prepared_call(world: *mut sfi_world, prepared: *mut sfi_prepared, arguments: *const sfi_value, result: *mut sfi_value) {
        let prepared = change(prepared)?;
        if arguments.is_null() && !prepared.signature().arguments.is_empty() {
            return Err(Failure::new(INVALID, "arguments is NULL"));
        }
        let bits = enter(world, |inside| match inside {
            Inside::World(world) => call(prepared, world, arguments),
            Inside::Host(host) => call(prepared, host, arguments),
        })?;
        give(result, sfi_value { u: bits });
        Ok(())
    }

    /// Returns the host's address of memory of the function's domain.
    fn sfi_prepared_view(world: *mut sfi_world, prepared: *mut sfi_prepared, pointer: u64, size: usize, memory: *mut *const c_void) {
        let to = place(memory, "memory")?;
        to.write(ptr::null());
        let prepared = change(prepared)?;
        let found = enter(world, |inside| {
            let found = match inside {
                Inside::World(world) => prepared.view(world, pointer, size),
                Inside::Host(call) => prepared.view(call, pointer, size),
            };
            found.map_err(|error| match error {
                CallError::Arguments { domain } => {
                    Failure::new(BOUNDS, format!("{size} bytes are not in one part of the memory of domain `{domain}`"))
                }
                error => error.into(),
            })
        })?;
        to.write(found.cast());
        Ok(())
    }
}

/// Frees a prepared function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_prepared_free(prepared: *mut sfi_prepared) {
    if !prepared.is_null() {
        // SAFETY: from `sfi_prepare`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(prepared) });
    }
}

/// Ends the call in progress of this thread. For signal handlers: it neither allocates nor locks
/// nor panics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_interrupt(context: *mut c_void) -> c_int {
    // SAFETY: the crate's documentation states the host's duties.
    c_int::from(unsafe { sfi_loader::interrupt(context) })
}
