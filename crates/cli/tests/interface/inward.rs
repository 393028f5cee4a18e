//! The interface `inward`, written by `sfi bind`: calls of a host into a domain that implements it.

use sfi_loader::interface::BadDeclaration;
use sfi_loader::{Bound, CallError, Enter, LookupError, Passed, World, bytes};

/// The functions of a domain.
#[derive(Clone, Debug)]
pub struct Inward {
    r#sum: Bound,
    r#negate: Bound,
}

impl Inward {
    /// Looks the functions up in a domain.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn connect(world: &World, domain: &str) -> Result<Self, LookupError> {
        let declared = |text: &str| -> Result<_, BadDeclaration> { text.parse() };
        let bind = |text| world.domain(domain)?.bind(&declared(text).expect("written by sfi bind"));
        Ok(Self {
            r#sum: bind("u32 sum(in u32 values[count], u8 count)")?,
            r#negate: bind("i8 negate(i8 x)")?,
        })
    }

    /// `u32 sum(in u32 values[count], u8 count)`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#sum(&self, sfi_world: &mut impl Enter, r#values: &[u32], r#count: u8) -> Result<u32, CallError> {
        self.r#sum.call(sfi_world, &mut [Passed::In(bytes(r#values)), Passed::Word(u64::from(r#count))]).map(|word| word as u32)
    }

    /// `i8 negate(i8 x)`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#negate(&self, sfi_world: &mut impl Enter, r#x: i8) -> Result<i8, CallError> {
        self.r#negate.call(sfi_world, &mut [Passed::Word(r#x as u64)]).map(|word| word as i8)
    }
}
