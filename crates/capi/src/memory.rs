//! A host's access to the memory of domains and to shared regions. Every range is checked before a
//! byte is copied.

use crate::border::{Result, api, give, place, text};
use crate::enter::{alone, enter, sfi_world};
use crate::error::{Failure, INVALID, NOT_FOUND};
use crate::window::look;
use sfi_loader::Access;
use std::ffi::{c_char, c_int, c_void};

/// Borrows a buffer of the host as bytes, for reading.
///
/// # Safety
/// Null, or `size` bytes that can be read and that nobody writes to during `'b`.
pub(crate) unsafe fn source<'b>(from: *const c_void, size: usize) -> Result<&'b [u8]> {
    check(from, size)?;
    // SAFETY: see the function's contract.
    Ok(if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(from.cast(), size) } })
}

/// Borrows a buffer of the host as bytes, for writing.
///
/// # Safety
/// Null, or `size` bytes that can be written and that nobody else uses during `'b`.
pub(crate) unsafe fn target<'b>(to: *mut c_void, size: usize) -> Result<&'b mut [u8]> {
    check(to, size)?;
    if size == 0 {
        return Ok(&mut []);
    }
    // SAFETY: see the function's contract. The bytes are written before they are read, and any bits
    // are bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), size) })
}

fn check(at: *const c_void, size: usize) -> Result {
    match size {
        0 => Ok(()),
        _ if at.is_null() => Err(Failure::new(INVALID, "the buffer is NULL")),
        _ if isize::try_from(size).is_err() => Err(Failure::new(INVALID, "no buffer has so many bytes")),
        _ => Ok(()),
    }
}

api! {
    /// Returns the address of a global variable or a function pointer, in the domain's terms.
    fn sfi_world_symbol(world: *mut sfi_world, domain: *const c_char, name: *const c_char, pointer: *mut u64) {
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        let found = enter(world, |inside| look(&inside, domain, |found| {
            let why = || match found.code_named(name) {
                Ok(_) => format!("function `{name}` of domain `{domain}` has no pointer: name it in `pointers` of the manifest"),
                Err(_) => format!("domain `{domain}` has no global symbol `{name}`"),
            };
            found.symbol(name).ok_or_else(|| Failure::new(NOT_FOUND, why()))
        }))?;
        give(pointer, found.0);
        Ok(())
    }

    /// Copies out of a domain's memory.
    fn sfi_world_read(world: *mut sfi_world, domain: *const c_char, pointer: u64, to: *mut c_void, size: usize) {
        let (domain, to) = (text(domain, "domain")?, target(to, size)?);
        alone(world, |world| Ok(world.memory(domain)?.read_into(pointer, to)?))
    }

    /// Copies into a domain's memory.
    fn sfi_world_write(world: *mut sfi_world, domain: *const c_char, pointer: u64, from: *const c_void, size: usize) {
        let (domain, from) = (text(domain, "domain")?, source(from, size)?);
        alone(world, |world| Ok(world.memory(domain)?.write(pointer, from)?))
    }

    /// Returns the size of a region.
    fn sfi_region_size(world: *mut sfi_world, region: *const c_char, size: *mut usize) {
        let region = text(region, "region")?;
        let found = alone(world, |world| Ok(world.region(region)?.len()))?;
        give(size, found);
        Ok(())
    }

    /// Copies out of a region.
    fn sfi_region_read(world: *mut sfi_world, region: *const c_char, offset: usize, to: *mut c_void, size: usize) {
        let (region, to) = (text(region, "region")?, target(to, size)?);
        alone(world, |world| Ok(world.region(region)?.read(offset, to)?))
    }

    /// Copies into a region.
    fn sfi_region_write(world: *mut sfi_world, region: *const c_char, offset: usize, from: *const c_void, size: usize) {
        let (region, from) = (text(region, "region")?, source(from, size)?);
        alone(world, |world| Ok(world.region(region)?.write(offset, from)?))
    }

    /// Returns the address of a region that a domain sees. All domains have the same address.
    fn sfi_region_in(world: *mut sfi_world, domain: *const c_char, region: *const c_char, pointer: *mut u64) {
        let (domain, region, to) = (text(domain, "domain")?, text(region, "region")?, place(pointer, "pointer")?);
        let unseen = || Failure::new(NOT_FOUND, format!("domain `{domain}` sees no region `{region}`"));
        let found = enter(world, |inside| inside.way().region_in(domain, region).ok_or_else(unseen))?;
        to.write(found.0);
        Ok(())
    }

    /// Makes a region visible to a domain.
    fn sfi_region_show(world: *mut sfi_world, domain: *const c_char, region: *const c_char, writable: c_int) {
        let (domain, region) = (text(domain, "domain")?, text(region, "region")?);
        let access = if writable != 0 { Access::ReadWrite } else { Access::Read };
        enter(world, |inside| Ok(inside.way().make_visible(domain, region, access)?))
    }

    /// Takes a region away from a domain.
    fn sfi_region_hide(world: *mut sfi_world, domain: *const c_char, region: *const c_char) {
        let (domain, region) = (text(domain, "domain")?, text(region, "region")?);
        enter(world, |inside| Ok(inside.way().make_invisible(domain, region)?))
    }
}
