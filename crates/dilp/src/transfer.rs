//! A composition as a function.

use crate::role::Role;

/// A composition as a function. Its form in C is
/// `uint64_t NAME(void *destination, const void *source, uint64_t length, uint64_t *registers)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub(crate) name: String,
    pub(crate) code: Vec<u8>,
    pub(crate) roles: Vec<(u32, Role)>,
    pub(crate) names: Vec<String>,
    pub(crate) registers: usize,
    pub(crate) unit: usize,
    pub(crate) is_vector: bool,
}

impl Transfer {
    /// Returns the function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the function's code. It has no relocations.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Returns the number of persistent registers: the length of the function's last argument, in
    /// words of 64 bits.
    pub fn registers(&self) -> usize {
        self.registers
    }

    /// Returns the number of source bytes that leaves no pipe with a part of a word.
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Says whether the main loop works on words of 256 bits.
    pub fn is_vector(&self) -> bool {
        self.is_vector
    }
}
