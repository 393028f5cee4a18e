//! The border: how every function treats its pointers, its errors and its panics.

use crate::error::{Failure, INVALID, OK, Status, sfi_error};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The result of a function's body.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Runs the body of a function. Neither panics nor errors pass this border.
///
/// # Safety
/// `error` is null or can be written.
#[inline(always)]
pub(crate) unsafe fn border(error: *mut *mut sfi_error, body: impl FnOnce() -> Result) -> Status {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::panic(payload)));
    let (status, described) = match result {
        Ok(()) => (OK, ptr::null_mut()),
        Err(failure) => (failure.status(), if error.is_null() { ptr::null_mut() } else { failure.boxed() }),
    };
    if !error.is_null() {
        // SAFETY: see the function's contract.
        unsafe { error.write(described) };
    }
    status
}

/// Runs the body of a function that has no status. Gives `otherwise` if it fails or panics.
pub(crate) fn quietly<T>(otherwise: T, body: impl FnOnce() -> Option<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Some(value)) => value,
        Ok(None) => otherwise,
        Err(payload) => {
            // The payload's destructor does not run here, because it may panic too.
            std::mem::forget(payload);
            otherwise
        }
    }
}

/// Reads a text of the host.
///
/// # Safety
/// Null, or a C string that stays for `'t`.
pub(crate) unsafe fn text<'t>(text: *const c_char, what: &str) -> Result<&'t str> {
    if text.is_null() {
        return Err(Failure::new(INVALID, format!("{what} is NULL")));
    }
    // SAFETY: see the function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::new(INVALID, format!("{what} is not UTF-8")))
}

/// Borrows a handle of the host.
///
/// # Safety
/// Null, or a value that stays for `'h` and that nobody changes during that time.
#[inline(always)]
pub(crate) unsafe fn handle<'h, T>(handle: *const T, what: &str) -> Result<&'h T> {
    // SAFETY: see the function's contract.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::new(INVALID, format!("{what} is NULL")))
}

/// Checks that the host gave a place for a result.
#[inline(always)]
pub(crate) fn place<T>(place: *mut T, what: &str) -> Result<*mut T> {
    if place.is_null() { Err(Failure::new(INVALID, format!("{what} is NULL"))) } else { Ok(place) }
}

/// Writes a result that the host may not want.
///
/// # Safety
/// Null, or can be written.
#[inline(always)]
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: see the function's contract.
        unsafe { place.write(value) };
    }
}

/// Borrows `count` values at an address.
///
/// # Safety
/// Null, or `count` values that nobody changes during `'v`.
pub(crate) unsafe fn values<'v, T>(at: *const T, count: usize, what: &str) -> Result<&'v [T]> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        _ if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(Failure::new(INVALID, format!("{what}: no memory has so many")))
        }
        (true, _) => Err(Failure::new(INVALID, format!("{what} is NULL"))),
        // SAFETY: see the function's contract.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(at, count) }),
    }
}

/// Defines functions of the interface: the parameters, then `error`, and a body that may fail.
macro_rules! api {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* error: *mut *mut $crate::sfi_error) -> $crate::Status {
            // SAFETY: the crate's documentation states the host's duties.
            unsafe { $crate::border::border(error, || $body) }
        }
    )*};
}
pub(crate) use api;
