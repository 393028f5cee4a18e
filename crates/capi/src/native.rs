//! Calls by function pointer, and functions with structures by value.

use crate::border::{Result, api, handle, place, text, values};
use crate::enter::{Inside, enter, sfi_world};
use crate::error::{ARGUMENTS, Failure};
use sfi_loader::{Code, Registers};
use std::ffi::c_char;
use std::ptr;

/// `sfi_code`.
#[derive(Debug)]
pub struct sfi_code(Code);

/// `sfi_registers`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct sfi_registers {
    pub(crate) ints: [u64; 6],
    pub(crate) floats: [u64; 8],
    pub(crate) use_floats: u64,
    stack: *const u64,
    pub(crate) stack_words: usize,
    int_results: [u64; 2],
    float_results: [u64; 2],
}

impl sfi_registers {
    /// Returns the record of arguments that a domain passed.
    pub(crate) fn of_call(ints: [u64; 6], floats: [u64; 8]) -> Self {
        let (stack, results) = (ptr::null(), [0; 2]);
        Self { ints, floats, use_floats: 1, stack, stack_words: 0, int_results: results, float_results: results }
    }
}

/// Most words on the stack. The data stack may have room for fewer.
const MOST_WORDS: usize = 1 << 20;

/// Finds the function of a function pointer.
pub(crate) fn find(inside: Inside<'_>, domain: &str, pointer: u64) -> Result<Code> {
    Ok(match inside {
        Inside::World(world) => world.domain(domain)?.code_at(pointer)?,
        Inside::Host(call) => call.domain(domain)?.code_at(pointer)?,
    })
}

api! {
    /// Finds the function of a function pointer.
    fn sfi_code_find(world: *mut sfi_world, domain: *const c_char, pointer: u64, code: *mut *mut sfi_code) {
        let to = place(code, "code")?;
        to.write(ptr::null_mut());
        let domain = text(domain, "domain")?;
        let found = enter(world, |inside| find(inside, domain, pointer))?;
        to.write(Box::into_raw(Box::new(sfi_code(found))));
        Ok(())
    }

    /// Calls a function with arguments in registers.
    fn sfi_code_call(world: *mut sfi_world, code: *const sfi_code, registers: *mut sfi_registers) {
        let (code, to) = (&handle(code, "code")?.0, place(registers, "registers")?);
        let given = *to;
        if given.stack_words > MOST_WORDS {
            return Err(Failure::new(ARGUMENTS, "no data stack has room for so many words"));
        }
        let stack = values(given.stack, given.stack_words, "stack")?;
        let floats = (given.use_floats != 0).then_some(given.floats);
        let registers = Registers { ints: given.ints, floats, stack };
        let returned = enter(world, |inside| match inside {
            Inside::World(world) => Ok(code.call(world, &registers)?),
            Inside::Host(call) => Ok(code.call(call, &registers)?),
        })?;
        (*to).int_results = returned.ints;
        (*to).float_results = returned.floats;
        Ok(())
    }
}

/// Frees the handle of a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_code_free(code: *mut sfi_code) {
    if !code.is_null() {
        // SAFETY: from `sfi_code_find`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(code) });
    }
}
