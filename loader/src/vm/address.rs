//! Offsets in a window, and addresses of this process. They are types of their own, so that an
//! offset that a domain chose is never taken for an address, and no base is added twice.

use sfi_contract::layout::{PAGE_SIZE, WINDOW_SIZE};
use std::fmt;
use std::ops::{Add, Sub};

/// A distance from a window's base in bytes: the form in which the loader keeps a domain's places.
/// Only [`crate::vm::window::Window::at`] makes an address of it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct WindowOffset(u64);

impl WindowOffset {
    /// The window's base itself.
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the place `bytes` after a window's base.
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the place that a pointer means in the window of the domain that uses it. The lower
    /// 32 bits count, as for the domain's own stores.
    pub(crate) const fn of_pointer(pointer: u64) -> Self {
        Self(pointer % WINDOW_SIZE)
    }

    /// Returns the distance in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the start of the page.
    pub(crate) const fn page(self) -> Self {
        Self(self.0 & !(PAGE_SIZE - 1))
    }

    /// Returns the distance from another place, unless that place comes after this one.
    pub(crate) fn checked_sub(self, other: Self) -> Option<u64> {
        self.0.checked_sub(other.0)
    }

    /// Returns the highest place for `bytes` bytes below this one whose offset is a multiple of
    /// `align`, a power of two.
    pub(crate) fn aligned_below(self, bytes: u64, align: u64) -> Option<Self> {
        self.0.checked_sub(bytes).map(|at| Self(at & !(align - 1)))
    }

    /// Returns the place `bytes` further on, if there is such a number.
    pub(crate) fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// Returns the place `bytes` further on, modulo 2^64.
    pub(crate) fn wrapping_add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl Add<u64> for WindowOffset {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl Sub<u64> for WindowOffset {
    type Output = Self;

    fn sub(self, bytes: u64) -> Self {
        Self(self.0 - bytes)
    }
}

impl Sub for WindowOffset {
    type Output = u64;

    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl fmt::LowerHex for WindowOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// An address of this process. Those in windows and on control stacks are secrets.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostAddress(u64);

impl HostAddress {
    /// The address of nothing.
    pub(crate) const NULL: Self = Self(0);

    /// Returns the address with this number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the address as a number, for registers and for words that domains hold.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// Returns the address as a pointer.
    pub(crate) const fn pointer<T>(self) -> *mut T {
        self.0 as *mut T
    }

    /// Says whether this is the address of nothing.
    pub(crate) const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl Add<u64> for HostAddress {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl Sub<u64> for HostAddress {
    type Output = Self;

    fn sub(self, bytes: u64) -> Self {
        Self(self.0 - bytes)
    }
}

impl Sub for HostAddress {
    type Output = u64;

    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_mean_their_lower_half() {
        assert_eq!(WindowOffset::of_pointer(0x7f12_0000_1234_5678), WindowOffset::new(0x1234_5678));
        assert_eq!(WindowOffset::new(0x1234_5678).page(), WindowOffset::new(0x1234_5000));
        assert_eq!(WindowOffset::new(8).checked_sub(WindowOffset::new(16)), None);
    }
}
