//! Function, file and line of places in an object, from its DWARF.
//!
//! The object's author may be the attacker, and the reader the host. So nothing here panics, a
//! fixed budget ([`Fuel`]) pays for the work, and the names are short and free of control
//! characters. Wrong debug information gives wrong answers and nothing worse.
//!
//! An object that was not linked has no addresses. Here an address of its code is one number
//! ([`address`]) made of a section's index and an offset in it. Relocations put this number where
//! the linker would put the final address.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

#[cfg(feature = "elf")]
mod elf;
mod fuel;
mod lookup;
pub mod map;
mod ranges;
mod sections;
mod units;

#[cfg(feature = "elf")]
pub use elf::{lookup_in, sections_of};
pub use fuel::{Exhausted, Fuel};
pub use lookup::{Frame, lookup};
pub use ranges::ranges;
pub use sections::{Malformed, Meaning, Raw, Reader, Reloc, Sections};
pub use units::Cache;

/// Returns the address of an offset in a section of code.
pub const fn address(section: usize, offset: u64) -> u64 {
    ((section as u64 + 1) << 32) | (offset & 0xffff_ffff)
}

/// Returns section and offset of an address, `None` for other numbers.
pub const fn split(address: u64) -> Option<(usize, u64)> {
    match address >> 32 {
        0 => None,
        section => Some((section as usize - 1, address & 0xffff_ffff)),
    }
}
