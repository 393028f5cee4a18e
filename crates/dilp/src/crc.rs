//! The polynomials of CRCs, and the constants of their arithmetic without carries.
//!
//! All numbers are in reflected form: the lowest bit belongs to the highest power.

/// The polynomial of IEEE 802.3.
pub(crate) const IEEE: u32 = 0xedb8_8320;
/// The polynomial of Castagnoli.
pub(crate) const CASTAGNOLI: u32 = 0x82f6_3b78;

/// Returns the low 64 bits of a product without carries.
const fn product(a: u64, b: u64) -> u64 {
    let (mut sum, mut bit) = (0, 0);
    while bit < 64 {
        if b >> bit & 1 == 1 {
            sum ^= a << bit;
        }
        bit += 1;
    }
    sum
}

/// Returns the polynomial with its highest term: 33 bits.
pub(crate) const fn divisor(polynomial: u32) -> u64 {
    (polynomial as u64) << 1 | 1
}

/// Returns the inverse of the divisor modulo 2^64. So a word's quotient is one product, and the
/// upper half of the quotient times the divisor is the remainder: two products replace the division
/// of 64 bits.
pub(crate) const fn inverse(polynomial: u32) -> u64 {
    let divisor = divisor(polynomial);
    let (mut inverse, mut round) = (1, 0);
    // Newton's iteration. Each round doubles the number of right bits. Over bits, 2 - d x is d x.
    while round < 6 {
        inverse = product(product(inverse, inverse), divisor);
        round += 1;
    }
    inverse
}

/// Returns `x^power` modulo the polynomial, in the 32 bits of a CRC register.
pub(crate) const fn power(polynomial: u32, power: u32) -> u32 {
    let (mut value, mut count) = (0x8000_0000_u32, 0);
    while count < power {
        value = (value >> 1) ^ ((value & 1) * polynomial);
        count += 1;
    }
    value
}

/// Returns `x^-power` modulo the polynomial.
pub(crate) const fn negative_power(polynomial: u32, power: u32) -> u32 {
    let (mut value, mut count) = (0x8000_0000_u32, 0);
    while count < power {
        let top = value >> 31;
        value = (value ^ (top * polynomial)) << 1 | top;
        count += 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_fit_each_other() {
        for polynomial in [IEEE, CASTAGNOLI] {
            assert_eq!(product(inverse(polynomial), divisor(polynomial)), 1);
            assert_eq!(power(polynomial, 32), polynomial);
            let mut value = power(polynomial, 77);
            for _ in 0..77 {
                let top = value >> 31;
                value = (value ^ (top * polynomial)) << 1 | top;
            }
            assert_eq!(value, power(polynomial, 0));
            // x^-1 times x is 1.
            let back = negative_power(polynomial, 1);
            assert_eq!((back >> 1) ^ ((back & 1) * polynomial), power(polynomial, 0));
        }
    }
}
