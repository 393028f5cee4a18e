//! The interface `nullary`, written by `sfi bind`: calls of a host into a domain that implements it.

use sfi_loader::interface::BadDeclaration;
use sfi_loader::{Bound, CallError, Enter, LookupError, World};

/// The functions of a domain.
#[derive(Clone, Debug)]
pub struct Nullary {
    r#first: Bound,
    r#second: Bound,
}

impl Nullary {
    /// Looks the functions up in a domain.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn connect(world: &World, domain: &str) -> Result<Self, LookupError> {
        let declared = |text: &str| -> Result<_, BadDeclaration> { text.parse() };
        let bind = |text| world.domain(domain)?.bind(&declared(text).expect("written by sfi bind"));
        Ok(Self {
            r#first: bind("u64 first()")?,
            r#second: bind("void second()")?,
        })
    }

    /// `u64 first()`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#first(&self, sfi_world: &mut impl Enter) -> Result<u64, CallError> {
        self.r#first.call(sfi_world, &mut [])
    }

    /// `void second()`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#second(&self, sfi_world: &mut impl Enter) -> Result<(), CallError> {
        self.r#second.call(sfi_world, &mut []).map(drop)
    }
}
