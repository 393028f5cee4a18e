//! The instructions directly before an indirect branch or a string instruction, found by their
//! bytes alone.

use super::Follow;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

impl Follow<'_> {
    /// Returns the start of the mask directly before an indirect branch through the dispatch table.
    pub(super) fn mask_before(&self, at: u64, branch: &[u8]) -> Option<u64> {
        const MASK: [u8; 4] = [0xf8, 0xff, 0x0f, 0x00];
        // 65 67 [40|41] ff /2|/4, mod 2, disp32 = the dispatch table's
        let rest = branch.strip_prefix(&[0x65, 0x67]).or_else(|| branch.strip_prefix(&[0x67, 0x65]))?;
        let (high, rest) = match rest {
            [0x40, rest @ ..] => (0, rest),
            [0x41, rest @ ..] => (8, rest),
            _ => (0, rest),
        };
        let [0xff, modrm, rest @ ..] = rest else { return None };
        let register = high + (modrm & 7);
        let displacement = match modrm & 7 {
            // SIB without an index, so its scale has no effect.
            4 => rest.split_first().filter(|(sib, _)| **sib & 0x3f == 0x24)?.1,
            _ => rest,
        };
        if modrm >> 6 != 2 || !matches!(modrm >> 3 & 7, 2 | 4) || displacement.len() != 4 || register == 4 {
            return None;
        }
        if !self.names_place(at + branch.len() as u64 - 4, "__sfi_dispatch") {
            return None;
        }
        let before = &self.text.bytes[..at as usize];
        let long = [&[0x81, 0xe0 | register & 7][..], &MASK].concat();
        if before.ends_with(&long) {
            // REX.B selects the upper registers. R and X have no effect here.
            let rex = before.len().checked_sub(7).map(|i| before[i]).filter(|byte| (0x40..0x48).contains(byte));
            return match rex {
                Some(rex) if rex & 1 == high >> 3 && self.reached.contains_key(&(at - 7)) => Some(at - 7),
                _ if register < 8 => Some(at - 6),
                _ => None,
            };
        }
        let short = [&[0x25][..], &MASK].concat();
        if register != 0 || !before.ends_with(&short) {
            return None;
        }
        let rex = before.len().checked_sub(6).is_some_and(|i| (0x40..0x48).contains(&before[i]));
        Some(if rex && self.reached.contains_key(&(at - 6)) { at - 6 } else { at - 5 })
    }

    pub(super) fn check_string(&mut self, at: u64, instruction: &Instruction) -> Result<(), String> {
        use Mnemonic::*;
        let (rsi, rdi) = match instruction.mnemonic() {
            Stosb | Stosw | Stosd | Stosq => (false, true),
            Movsb | Movsw | Movsd | Movsq => (self.full, true),
            Lodsb | Lodsw | Lodsd | Lodsq => (self.full, false),
            Scasb | Scasw | Scasd | Scasq => (false, self.full),
            Cmpsb | Cmpsw | Cmpsd | Cmpsq => (self.full, self.full),
            _ => return Err("a string instruction of another kind".into()),
        };
        let kinds = [instruction.op0_kind(), instruction.op1_kind()];
        if kinds.iter().any(|k| matches!(k, OpKind::MemoryESEDI | OpKind::MemorySegESI | OpKind::MemoryESDI)) {
            return Err("a string instruction with a short pointer".into());
        }
        if instruction.segment_prefix() != Register::None {
            return Err("a string instruction with a segment".into());
        }
        let mut end = at;
        for (needed, register) in [(rdi, 7u8), (rsi, 6)] {
            if needed {
                end = self.pointer_before(end, register).ok_or("a string instruction without its mask")?;
            }
        }
        if rdi || rsi {
            self.regions.push((end, at));
        }
        Ok(())
    }

    /// `mov %edi,%edi; add %gs:__sfi_header,%rdi` (or esi) right before `end`; where it begins.
    fn pointer_before(&self, end: u64, register: u8) -> Option<u64> {
        let before = &self.text.bytes[..end as usize];
        if !self.names_place(end.checked_sub(4)?, "__sfi_header") {
            return None;
        }
        let add = (9..=11)
            .find(|length| before.len() >= *length && rebase(&before[before.len() - length..]) == Some(register))?;
        let before = &before[..before.len() - add];
        let same = 0xc0 | register << 3 | register;
        if !before.ends_with(&[0x89, same]) && !before.ends_with(&[0x8b, same]) {
            return None;
        }
        let rex = before.len() >= 3 && before[before.len() - 3] == 0x40;
        let start = before.len() as u64 - 2;
        Some(if rex && self.reached.contains_key(&(start - 1)) { start - 1 } else { start })
    }
}

/// The register of `add %gs:__sfi_header,%r`, by bytes alone: one of the forms with 65, perhaps 67,
/// REX.W, 03.
fn rebase(bytes: &[u8]) -> Option<u8> {
    let rest = match bytes {
        [0x65, 0x67, rest @ ..] | [0x67, 0x65, rest @ ..] | [0x65, rest @ ..] => rest,
        _ => return None,
    };
    // No base, no index. REX.X would make it r12, and REX.R another destination.
    let [0x48 | 0x49, 0x03, modrm, sib, _, _, _, _] = rest else { return None };
    (modrm & 0xc7 == 4 && sib & 0x3f == 0x25).then_some(modrm >> 3 & 7)
}
