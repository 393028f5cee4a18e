//! A host function's view: its caller, its arguments, its caller's memory.

use crate::border::{Result, api, give, handle, quietly, text};
use crate::enter::Shared;
use crate::error::Status;
use crate::error::{BOUNDS, Failure, IN_USE, INVALID, OK, c_text};
use crate::function::{sfi_value, words};
use crate::memory::{source, target};
use crate::native::sfi_registers;
use sfi_loader::{HostCall, HostError, Signature};
use std::cell::OnceCell;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

/// `sfi_host_call`.
pub struct sfi_host_call {
    call: *mut HostCall<'static>,
    shared: *const Shared,
    caller: OnceCell<CString>,
}

/// Runs a function of the host, which stores its result in two values. Returns their bits.
pub(crate) fn run(
    shared: &Shared,
    cx: &mut HostCall<'_>,
    body: impl FnOnce(*mut sfi_host_call, *mut sfi_value) -> Status,
) -> std::result::Result<[u64; 2], HostError> {
    let call = ptr::from_mut(cx).cast::<HostCall<'static>>();
    let mut results = [sfi_value { u: 0 }; 2];
    let mut handle = sfi_host_call { call, shared, caller: OnceCell::new() };
    let runs = shared.runs(call);
    let status = body(&mut handle, results.as_mut_ptr());
    drop(runs);
    match status {
        OK => Ok(results.map(sfi_value::bits)),
        status => Err(HostError::new(format!("the host function returned {status}"))),
    }
}

/// Borrows the loader's call that belongs to the host's handle.
///
/// # Safety
/// Null, or the handle of a host function that runs.
unsafe fn running<'c>(call: *mut sfi_host_call) -> Result<&'c mut HostCall<'static>> {
    // SAFETY: see the function's contract. The call is that of the innermost host function, on its
    // own thread, so nobody else uses it now.
    unsafe {
        let handle = handle(call, "call")?;
        if (*handle.shared).is_innermost(handle.call) {
            Ok(&mut *handle.call)
        } else {
            Err(Failure::new(IN_USE, "the call cannot be used here"))
        }
    }
}

/// Returns the caller's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_host_caller(call: *mut sfi_host_call) -> *const c_char {
    quietly(ptr::null(), || {
        // SAFETY: the crate's documentation states the host's duties.
        let (this, cx) = unsafe { (handle(call, "call").ok()?, running(call).ok()?) };
        Some(this.caller.get_or_init(|| c_text(cx.caller())).as_ptr())
    })
}

/// Returns an integer argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_host_argument(call: *mut sfi_host_call, index: usize) -> u64 {
    // SAFETY: the crate's documentation states the host's duties.
    quietly(0, || unsafe { Some(running(call).ok()?.arg(index.min(LAST))) })
}

/// Returns a `double` argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_host_f64(call: *mut sfi_host_call, index: usize) -> f64 {
    // SAFETY: the crate's documentation states the host's duties.
    quietly(0.0, || unsafe { Some(running(call).ok()?.arg_f64(index)) })
}

/// Returns a `float` argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_host_f32(call: *mut sfi_host_call, index: usize) -> f32 {
    // SAFETY: the crate's documentation states the host's duties.
    quietly(0.0, || unsafe { Some(running(call).ok()?.arg_f32(index)) })
}

/// An index beyond all arguments. Its place is computed without overflow.
const LAST: usize = 1 << 16;

api! {
    /// Copies the arguments as they are in registers and on the caller's data stack.
    fn sfi_host_registers(call: *mut sfi_host_call, registers: *mut sfi_registers, stack: *mut u64, words: usize) {
        let to = crate::border::place(registers, "registers")?;
        if words > 0 {
            crate::border::place(stack, "stack")?;
        }
        let cx = running(call)?;
        to.write(sfi_registers::of_call(
            std::array::from_fn(|i| cx.arg(i)),
            std::array::from_fn(|i| cx.arg_f64(i).to_bits()),
        ));
        for word in 0..words {
            stack.add(word).write(cx.arg(word.min(LAST) + 6));
        }
        Ok(())
    }

    /// Copies out of the caller's memory.
    fn sfi_host_read(call: *mut sfi_host_call, pointer: u64, to: *mut c_void, size: usize) {
        let to = target(to, size)?;
        Ok(running(call)?.memory().read_into(pointer, to)?)
    }

    /// Copies into the caller's memory.
    fn sfi_host_write(call: *mut sfi_host_call, pointer: u64, from: *const c_void, size: usize) {
        let from = source(from, size)?;
        Ok(running(call)?.write(pointer, from)?)
    }

    /// Copies a C string out of the caller's memory.
    fn sfi_host_read_string(call: *mut sfi_host_call, pointer: u64, to: *mut c_char, size: usize) {
        if to.is_null() || size == 0 {
            return Err(Failure::new(INVALID, "the buffer is NULL or has no room"));
        }
        let string = running(call)?.memory().read_c_string(pointer, size)?;
        if string.len() >= size {
            return Err(Failure::new(BOUNDS, format!("the string is longer than {} bytes", size - 1)));
        }
        to.cast::<u8>().copy_from_nonoverlapping(string.as_ptr(), string.len());
        to.add(string.len()).write(0);
        Ok(())
    }

    /// Calls a function of the caller.
    fn sfi_host_callback(call: *mut sfi_host_call, pointer: u64, signature: *const c_char, arguments: *const sfi_value, count: usize, result: *mut sfi_value) {
        let cx = running(call)?;
        let signature: Signature = text(signature, "signature")?.parse()?;
        let words = words(arguments, count, signature.arguments.len())?;
        let shared = &*handle(call, "call")?.shared;
        let function = cx.function_dynamic(pointer, signature)?;
        // Domains run now: this host function's way into the world is closed.
        let _closed = shared.closed();
        give(result, sfi_value { u: function.call(cx, &words)? });
        Ok(())
    }
}
