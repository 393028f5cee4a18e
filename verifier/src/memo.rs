//! Second opinions that were heard before.
//!
//! How a decoder reads an instruction follows from the instruction's bytes alone: operands, what is written, and how far a
//! branch's target is from its end. So where both decoders agreed on some bytes, they agree whenever the same bytes come again, and
//! the second one need not be asked. Two thirds of compiled code are such repetitions.

/// Longest instruction that is remembered; its length has the eighth byte. Most are shorter.
const LONGEST: usize = 7;

/// Most entries.
const LIMIT: usize = 1 << 13;

/// Instructions that both decoders read alike, one for each hash.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// [`key`]s, 0 where there is none. As many as a power of two.
    entries: Vec<u64>,
}

/// All bytes and the length. Never 0.
#[inline]
fn key(instruction: &[u8]) -> Option<u64> {
    if instruction.is_empty() || instruction.len() > LONGEST {
        return None;
    }
    let bytes = instruction.iter().rev().fold(0, |key, byte| key << 8 | u64::from(*byte));
    Some(bytes | (instruction.len() as u64) << 56)
}

impl Memo {
    /// Makes room for a text of this many bytes. Forgets if it grows.
    pub fn reserve(&mut self, text: usize) {
        let wanted = (text / 8).clamp(64, LIMIT).next_power_of_two();
        if wanted > self.entries.len() {
            self.entries = vec![0; wanted];
        }
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.entries.len().wrapping_sub(1)
    }

    /// Both decoders agreed on these bytes.
    #[inline]
    pub fn knows(&self, instruction: &[u8]) -> bool {
        key(instruction).is_some_and(|key| self.entries.get(self.slot(key)) == Some(&key))
    }

    /// Both decoders agree on these bytes.
    #[inline]
    pub fn learn(&mut self, instruction: &[u8]) {
        let Some(key) = key(instruction) else { return };
        let slot = self.slot(key);
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_known() {
        let mut memo = Memo::default();
        memo.reserve(1 << 12);
        // mov %rax,%gs:8(%edi)
        let mut bytes = [0x65, 0x67, 0x48, 0x89, 0x47, 0x08];
        assert!(!memo.knows(&bytes));
        memo.learn(&bytes);
        assert!(memo.knows(&bytes));
        for byte in 0..6 {
            for bit in 0..8 {
                bytes[byte] ^= 1 << bit;
                assert!(!memo.knows(&bytes), "{bytes:x?}");
                bytes[byte] ^= 1 << bit;
            }
        }
        assert!(!memo.knows(&bytes[..5]));
        assert!(!memo.knows(&[bytes.as_slice(), &[0]].concat()));
    }

    #[test]
    fn what_does_not_fit_is_not_known() {
        let mut memo = Memo::default();
        memo.learn(&[0; 3]);
        assert!(!memo.knows(&[0; 3]), "no room was reserved");
        memo.reserve(0);
        assert!(!memo.knows(&[0; 3]));
        for length in [0, 8, 15] {
            memo.learn(&[0x90; 15][..length]);
            assert!(!memo.knows(&[0x90; 15][..length]), "{length}");
        }
    }
}
