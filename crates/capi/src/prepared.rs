//! Prepared calls: found once, called without allocation, with arguments that the host writes in
//! place. And the end of a call by a signal handler of the host.

use crate::border::{Result, api, border, give, handle, place, text};
use crate::enter::{Inside, alone, enter, enter_straight, sfi_world};
use crate::error::{BOUNDS, Failure, IN_USE, INVALID, OK, Status, sfi_error};
use crate::function::sfi_value;
use sfi_loader::{CallError, Ended, Prepared, Signature, World};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int, c_void};
use std::{ptr, slice};

/// `sfi_prepared`.
#[derive(Debug)]
pub struct sfi_prepared {
    /// The world that it was prepared for. Only compared.
    world: *const sfi_world,
    /// Says whether a use is in progress. A host function within a call may try another one.
    used: Cell<bool>,
    function: UnsafeCell<Prepared>,
}

/// Marks a prepared function as unused when it is dropped.
struct Unused<'p>(&'p Cell<bool>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl sfi_prepared {
    /// Uses the function in a world that this thread has entered.
    #[inline(always)]
    fn using<R>(&self, world: *const sfi_world, body: impl FnOnce(&mut Prepared) -> Result<R>) -> Result<R> {
        // Threads in other worlds may try to use it at the same time.
        if self.world != world {
            return Err(CallError::WrongWorld.into());
        }
        if self.used.replace(true) {
            return Err(Failure::new(IN_USE, "the prepared function is in a call; prepare another for calls within"));
        }
        let _unused = Unused(&self.used);
        // SAFETY: this thread is the only one in the function's world, and the flag keeps its own
        // nested calls out until `_unused` is dropped.
        body(unsafe { &mut *self.function.get() })
    }

    /// Calls the function from outside, if that takes no more than the crossing.
    ///
    /// # Safety
    /// As for [`sfi_prepared_call`], in this function's world.
    #[inline(always)]
    unsafe fn call_straight(
        &self,
        arguments: *const sfi_value,
        result: *mut sfi_value,
        error: *mut *mut sfi_error,
    ) -> Option<Status> {
        // SAFETY: see the function's contract. This thread has just become the only one in the
        // function's world, so no use is in progress. The flag keeps nested calls out.
        unsafe {
            enter_straight(self.world, |world| {
                let function = &mut *self.function.get();
                let words = words(function, arguments)?;
                self.used.set(true);
                let status = match function.call_straight(world, words) {
                    Some(Ok(bits)) => {
                        give(result, sfi_value { u: bits });
                        give(error, ptr::null_mut());
                        Some(OK)
                    }
                    Some(Err(ended)) => Some(described(function, world, ended, error)),
                    None => None,
                };
                self.used.set(false);
                status
            })
        }
    }
}

/// Describes the end of a call that went straight on.
#[cold]
#[inline(never)]
unsafe fn described(function: &mut Prepared, world: &mut World, ended: Ended, error: *mut *mut sfi_error) -> Status {
    // SAFETY: as for `sfi_prepared_call`.
    unsafe { border(error, || Err(function.error(world, ended).into())) }
}

/// Returns the arguments of a call.
///
/// # Safety
/// As many values as the signature has, or null.
#[inline(always)]
unsafe fn words<'a>(prepared: &Prepared, arguments: *const sfi_value) -> Option<&'a [u64]> {
    match (arguments.is_null(), prepared.signature().arguments.len()) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: see the function's contract. A value is a union of fields of 64 bits.
        (false, count) => Some(unsafe { slice::from_raw_parts(arguments.cast(), count) }),
    }
}

/// Calls a prepared function.
///
/// Most calls go straight on, without a guard and without a border, so that what they need stays in
/// registers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_prepared_call(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    arguments: *const sfi_value,
    result: *mut sfi_value,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: the crate's documentation states the host's duties. A function of this world means
    // that the world is not null.
    unsafe {
        let status = match prepared.as_ref() {
            Some(prepared) if prepared.world == world => prepared.call_straight(arguments, result, error),
            _ => None,
        };
        match status {
            Some(status) => status,
            None => call(world, prepared, arguments, result, error),
        }
    }
}

api! {
    /// Prepares calls of a function.
    fn sfi_prepare(world: *mut sfi_world, domain: *const c_char, name: *const c_char, signature: *const c_char, prepared: *mut *mut sfi_prepared) {
        let to = place(prepared, "prepared")?;
        to.write(ptr::null_mut());
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        let signature: Signature = text(signature, "signature")?.parse()?;
        let found = alone(world, |world| Ok(world.domain(domain)?.prepare(name, signature)?))?;
        let made = sfi_prepared { world, used: Cell::new(false), function: UnsafeCell::new(found) };
        to.write(Box::into_raw(Box::new(made)));
        Ok(())
    }
}

/// Writes the address that a prepared function finds, if this thread enters its world straight.
/// `None`: nothing happened.
///
/// # Safety
/// As for `sfi_prepared_call`. `to` is null or has room for a pointer.
#[inline(always)]
unsafe fn find_straight(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    to: *mut *mut c_void,
    error: *mut *mut sfi_error,
    find: impl FnOnce(&mut Prepared, &mut World) -> Option<*mut u8>,
) -> Option<Status> {
    // SAFETY: see the function's contract. A function of this world means that the world is not
    // null. The thread that enters it straight is the only one in it, and no use is in progress, as
    // in `call_straight`.
    unsafe {
        let prepared = prepared.as_ref().filter(|prepared| prepared.world == world && !to.is_null())?;
        let found = enter_straight(prepared.world, |world| find(&mut *prepared.function.get(), world))?;
        to.write(found.cast());
        give(error, ptr::null_mut());
        Some(OK)
    }
}

/// Makes room for the arguments of the next call. Most rooms are made without a guard and without a
/// border.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_prepared_room(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    size: usize,
    room: *mut *mut c_void,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe {
        match find_straight(world, prepared, room, error, |function, world| function.room_straight(world, size)) {
            Some(status) => status,
            None => make_room(world, prepared, size, room, error),
        }
    }
}

/// Makes room in all circumstances.
#[cold]
#[inline(never)]
unsafe fn make_room(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    size: usize,
    room: *mut *mut c_void,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: as for `sfi_prepared_room`.
    unsafe {
        border(error, || {
            let to = place(room, "room")?;
            to.write(ptr::null_mut());
            let prepared = handle(prepared, "prepared")?;
            let found = enter(world, |inside| {
                prepared.using(world, |function| match inside {
                    Inside::World(world) => Ok(function.room(world, size)?),
                    Inside::Host(call) => Ok(function.room(call, size)?),
                })
            })?;
            to.write(found.cast());
            Ok(())
        })
    }
}

/// Returns the host's address of memory of the function's domain. Most views are made without a
/// guard and without a border.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_prepared_view(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    pointer: u64,
    size: usize,
    memory: *mut *const c_void,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: as in `sfi_prepared_room`.
    unsafe {
        let find =
            |function: &mut Prepared, world: &mut World| Some(function.view(world, pointer, size).ok()?.cast_mut());
        match find_straight(world, prepared, memory.cast(), error, find) {
            Some(status) => status,
            None => view(world, prepared, pointer, size, memory, error),
        }
    }
}

/// Returns the host's address of memory in all circumstances, or says why there is none.
#[cold]
#[inline(never)]
unsafe fn view(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    pointer: u64,
    size: usize,
    memory: *mut *const c_void,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: as for `sfi_prepared_view`.
    unsafe {
        border(error, || {
            let to = place(memory, "memory")?;
            to.write(ptr::null());
            let prepared = handle(prepared, "prepared")?;
            let found = enter(world, |inside| {
                prepared.using(world, |function| {
                    let found = match inside {
                        Inside::World(world) => function.view(world, pointer, size),
                        Inside::Host(call) => function.view(call, pointer, size),
                    };
                    found.map_err(|error| match error {
                        CallError::Arguments { domain } => Failure::new(
                            BOUNDS,
                            format!("{size} bytes are not in one part of the memory of domain `{domain}`"),
                        ),
                        error => error.into(),
                    })
                })
            })?;
            to.write(found.cast());
            Ok(())
        })
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

/// Calls a prepared function in all circumstances.
#[cold]
#[inline(never)]
unsafe fn call(
    world: *mut sfi_world,
    prepared: *mut sfi_prepared,
    arguments: *const sfi_value,
    result: *mut sfi_value,
    error: *mut *mut sfi_error,
) -> Status {
    // SAFETY: as for `sfi_prepared_call`.
    unsafe {
        border(error, || {
            let prepared = handle(prepared, "prepared")?;
            let bits = enter(world, |inside| {
                prepared.using(world, |function| {
                    let words = words(function, arguments).ok_or_else(|| Failure::new(INVALID, "arguments is NULL"))?;
                    Ok(match inside {
                        Inside::World(world) => function.call(world, words)?,
                        Inside::Host(host) => function.call(host, words)?,
                    })
                })
            })?;
            give(result, sfi_value { u: bits });
            Ok(())
        })
    }
}
