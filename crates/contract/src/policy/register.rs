//! The general registers as sets of bits.

use iced_x86::Register;

/// The bit of each register.
static GENERAL: [u16; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 16 {
        let bit = 1 << n;
        table[Register::AX as usize + n] = bit;
        table[Register::EAX as usize + n] = bit;
        table[Register::RAX as usize + n] = bit;
        if n < 4 {
            table[Register::AL as usize + n] = bit;
            table[Register::AH as usize + n] = bit;
        } else {
            table[Register::SPL as usize + n - 4] = bit;
        }
        n += 1;
    }
    table
};

/// Returns the bit of the general register that a register is part of, 0 for all other registers.
/// Bit n stands for the register with number n (rax 0, rcx 1, ... r15 15).
#[inline]
pub fn general(register: Register) -> u16 {
    GENERAL.get(register as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table agrees with iced for every register.
    #[test]
    fn general_registers_have_their_numbers() {
        for register in Register::values() {
            let expected = if register.is_gpr() { 1 << register.full_register().number() } else { 0 };
            assert_eq!(general(register), expected, "{register:?}");
        }
    }
}
