//! Password capabilities (Bryce & Muller section 2.2): 512 random bits that a caller shows and the
//! callee's header compares.

use crate::vm::error::MapError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use subtle::ConstantTimeEq;

/// Bytes of a capability.
pub const CAPABILITY_SIZE: usize = 64;

/// A sparse password capability. Any holder of the bits may call. Clones are one capability.
#[derive(Clone)]
pub struct Capability {
    bits: [u8; CAPABILITY_SIZE],
    refused: Arc<AtomicU64>,
}

/// The bits stay out of logs.
impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Capability(..)")
    }
}

impl Capability {
    /// Makes a new one from the system's randomness.
    ///
    /// # Errors
    /// [`MapError::Memory`] if the system has none.
    pub fn generate() -> Result<Self, MapError> {
        let mut bits = [0; CAPABILITY_SIZE];
        let mut filled = 0;
        while filled < bits.len() {
            filled += rustix::rand::getrandom(&mut bits[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(MapError::of("a capability"))?;
        }
        Ok(Self::from_bytes(bits))
    }

    /// Makes one from stored bits.
    pub fn from_bytes(bits: [u8; CAPABILITY_SIZE]) -> Self {
        Self { bits, refused: Arc::default() }
    }

    /// Returns the bits, to hand them to a domain that may call. Any reader of the bits may call.
    pub fn secret_bytes(&self) -> &[u8; CAPABILITY_SIZE] {
        &self.bits
    }

    /// Says whether these are the bits. Takes equal time wherever they differ.
    pub fn matches(&self, shown: &[u8; CAPABILITY_SIZE]) -> bool {
        let same: bool = self.bits.ct_eq(shown).into();
        self.refused.fetch_add(u64::from(!same), Ordering::Relaxed);
        same
    }

    /// Returns the number of times that wrong bits were shown.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let capability = Capability::generate().unwrap();
        assert!(capability.matches(&capability.secret_bytes().clone()));
        for bit in 0..8 * CAPABILITY_SIZE {
            let mut shown = *capability.secret_bytes();
            shown[bit / 8] ^= 1 << (bit % 8);
            assert!(!capability.matches(&shown), "bit {bit}");
        }
        assert_eq!(capability.refused(), 8 * CAPABILITY_SIZE as u64);
        let other = Capability::generate().unwrap();
        assert!(!other.matches(capability.secret_bytes()));
    }
}
