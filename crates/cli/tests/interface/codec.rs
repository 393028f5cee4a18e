//! The interface `codec`, written by `sfi bind`: calls of a host into a domain that implements it.

use sfi_loader::interface::BadDeclaration;
use sfi_loader::{Bound, CallError, Enter, LookupError, Passed, World, bytes, bytes_mut};

/// The functions of a domain.
#[derive(Clone, Debug)]
pub struct Codec {
    r#pack: Bound,
    r#mean: Bound,
    r#count_up: Bound,
    r#nothing: Bound,
}

impl Codec {
    /// Looks the functions up in a domain.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn connect(world: &World, domain: &str) -> Result<Self, LookupError> {
        let declared = |text: &str| -> Result<_, BadDeclaration> { text.parse() };
        let bind = |text| world.domain(domain)?.bind(&declared(text).expect("written by sfi bind"));
        Ok(Self {
            r#pack: bind("i32 pack(out u8 packed[*size], inout u64 size[1], in u8 plain[count], u64 count)")?,
            r#mean: bind("f64 mean(in f32 values[count], u32 count)")?,
            r#count_up: bind("void count_up(inout i16 numbers[8], i16 step)")?,
            r#nothing: bind("u64 nothing()")?,
        })
    }

    /// `i32 pack(out u8 packed[*size], inout u64 size[1], in u8 plain[count], u64 count)`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#pack(&self, sfi_world: &mut impl Enter, r#packed: &mut [u8], r#size: &mut [u64], r#plain: &[u8], r#count: u64) -> Result<i32, CallError> {
        self.r#pack.call(sfi_world, &mut [Passed::Out(bytes_mut(r#packed)), Passed::InOut(bytes_mut(r#size)), Passed::In(bytes(r#plain)), Passed::Word(r#count)]).map(|word| word as i32)
    }

    /// `f64 mean(in f32 values[count], u32 count)`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#mean(&self, sfi_world: &mut impl Enter, r#values: &[f32], r#count: u32) -> Result<f64, CallError> {
        self.r#mean.call(sfi_world, &mut [Passed::In(bytes(r#values)), Passed::Word(u64::from(r#count))]).map(f64::from_bits)
    }

    /// `void count_up(inout i16 numbers[8], i16 step)`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#count_up(&self, sfi_world: &mut impl Enter, r#numbers: &mut [i16], r#step: i16) -> Result<(), CallError> {
        self.r#count_up.call(sfi_world, &mut [Passed::InOut(bytes_mut(r#numbers)), Passed::Word(r#step as u64)]).map(drop)
    }

    /// `u64 nothing()`
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.
    pub fn r#nothing(&self, sfi_world: &mut impl Enter) -> Result<u64, CallError> {
        self.r#nothing.call(sfi_world, &mut [])
    }
}
