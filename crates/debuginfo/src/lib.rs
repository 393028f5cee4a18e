//! Where code comes from: function, file and line of places in an object, out of its DWARF.
//!
//! The object's author may be the attacker, and the reader the host: nothing here panics, work is
//! paid from a fixed budget ([`Fuel`]), and what comes out is short and free of control characters.
//! Wrong debug information gives wrong answers and nothing worse.
//!
//! An object that was not linked has no addresses. Here, an address of its code is a section's
//! index and an offset in it, packed into one number ([`address`]), which relocations put where the
//! linker would put the final one.

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

/// The address of an offset in a section of code.
pub const fn address(section: usize, offset: u64) -> u64 {
    ((section as u64 + 1) << 32) | (offset & 0xffff_ffff)
}

/// Section and offset of an address; `None` for numbers that are none.
pub const fn split(address: u64) -> Option<(usize, u64)> {
    match address >> 32 {
        0 => None,
        section => Some((section as usize - 1, address & 0xffff_ffff)),
    }
}
