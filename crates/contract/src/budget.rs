//! Budgets of instructions: r14 holds the number of instructions that a budgeted domain may still
//! run, and charges lower it.
//!
//! ```text
//! sub $AMOUNT,%r14 ; jb TRAP        before AMOUNT instructions at most
//! sub %rcx,%r14 ; jb TRAP           before a string instruction with rep
//! ```
//!
//! TRAP is an `int3`. r14 is below 2^63 while the domain runs. A charge that it cannot pay sets the
//! carry flag, and the trap finds it set.

use iced_x86::Register;

/// The register that holds what is left of the budget.
pub const REGISTER: Register = Register::R14;

/// The largest budget of a domain: more instructions than a processor runs in a century.
pub const MOST: u64 = i64::MAX as u64;

/// The number of instructions that a charge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A constant, at least 1.
    Constant(u32),
    /// rcx: the count of the string instruction that follows.
    Count,
}

/// A charge that stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The number of instructions that it takes.
    pub amount: Amount,
    /// Bytes of its first instruction.
    pub first: usize,
    /// Bytes of the charge.
    pub length: usize,
    /// Distance of its trap from its own first byte.
    pub trap: i64,
}

/// Returns the charge that the bytes begin with. It has one encoding for each amount and distance
/// of its size.
pub fn charge(bytes: &[u8]) -> Option<Charge> {
    let number = |at: usize| Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let byte = |at: usize| Some(i32::from(*bytes.get(at)? as i8));
    let (constant, first) = match bytes.get(..3)? {
        // sub $imm8,%r14
        [0x49, 0x83, 0xee] => (Some(byte(3)?), 4),
        // sub $imm32,%r14
        [0x49, 0x81, 0xee] => (Some(number(3)?), 7),
        // sub %rcx,%r14
        [0x49, 0x29, 0xce] => (None, 3),
        _ => return None,
    };
    let (distance, length) = match bytes.get(first..)? {
        // jb rel8
        [0x72, ..] => (byte(first + 1)?, first + 2),
        // jb rel32
        [0x0f, 0x82, ..] => (number(first + 2)?, first + 6),
        _ => return None,
    };
    let amount = match constant {
        Some(constant) => Amount::Constant(u32::try_from(constant).ok().filter(|amount| *amount > 0)?),
        None => Amount::Count,
    };
    Some(Charge { amount, first, length, trap: length as i64 + i64::from(distance) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<(Amount, usize, usize, i64)> {
        charge(bytes).map(|charge| (charge.amount, charge.first, charge.length, charge.trap))
    }

    #[test]
    fn charges() {
        assert_eq!(of(&[0x49, 0x83, 0xee, 0x7f, 0x72, 0x10]), Some((Amount::Constant(127), 4, 6, 22)));
        assert_eq!(of(&[0x49, 0x83, 0xee, 0x01, 0x72, 0xfa]), Some((Amount::Constant(1), 4, 6, 0)));
        let long = [0x49, 0x81, 0xee, 0, 1, 0, 0, 0x0f, 0x82, 0, 1, 0, 0];
        assert_eq!(of(&long), Some((Amount::Constant(256), 7, 13, 269)));
        assert_eq!(of(&[0x49, 0x29, 0xce, 0x72, 0, 0x90]), Some((Amount::Count, 3, 5, 5)));
        for end in 0..long.len() {
            assert_eq!(charge(&long[..end]), None, "{end}");
        }
    }

    #[test]
    fn other_instructions_are_no_charges() {
        for bytes in [
            &[0x49, 0x83, 0xee, 0x00, 0x72, 0x10][..],         // of nothing
            &[0x49, 0x83, 0xee, 0x80, 0x72, 0x10],             // a negative number
            &[0x49, 0x81, 0xee, 0, 0, 0, 0x80, 0x72, 0],       // another one
            &[0x49, 0x83, 0xed, 0x01, 0x72, 0x10],             // of r13
            &[0x41, 0x83, 0xee, 0x01, 0x72, 0x10],             // of r14d
            &[0x49, 0x83, 0xc6, 0x01, 0x72, 0x10],             // add
            &[0x49, 0x83, 0xde, 0x01, 0x72, 0x10],             // sbb
            &[0x49, 0x83, 0xfe, 0x01, 0x72, 0x10],             // cmp
            &[0x49, 0x83, 0xee, 0x01, 0x73, 0x10],             // jae
            &[0x49, 0x83, 0xee, 0x01, 0x78, 0x10],             // js
            &[0x49, 0x83, 0xee, 0x01, 0x0f, 0x83, 0, 0, 0, 0], // jae
            &[0x41, 0x29, 0xce, 0x72, 0x10],                   // the lower half of rcx
            &[0x49, 0x29, 0xc6, 0x72, 0x10],                   // rax
            &[0x49, 0x83, 0xee, 0x01, 0x90, 0x72, 0x10],       // something between
        ] {
            assert_eq!(charge(bytes), None, "{bytes:x?}");
        }
    }
}
