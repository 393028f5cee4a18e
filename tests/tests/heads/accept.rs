//! The verifier's judgement of many heads at once. Each head stands in a text after the
//! instructions that its rules demand.

use crate::walk::Head;
use iced_x86::{Instruction, OpKind, Register};
use sfi_contract::{Anchors, Mode, Rule};
use sfi_verifier::{FinalText, MAX_VIOLATIONS, Options, verify_text};

/// Window offset of the text.
pub const TEXT: u64 = 0x40_0000;
/// Most bytes of a head and the instructions before it.
const ROOM: usize = 48;
/// Heads in one text.
pub const BATCH: usize = 192;
const _: () = assert!(BATCH < MAX_VIOLATIONS / 16);

const SI: [u8; 11] = [0x89, 0xf6, 0x65, 0x48, 0x03, 0x34, 0x25, 0x00, 0xf0, 0x0f, 0x00];
const DI: [u8; 11] = [0x89, 0xff, 0x65, 0x48, 0x03, 0x3c, 0x25, 0x00, 0xf0, 0x0f, 0x00];

/// Puts before the head the instructions that its kind needs: rebased pointers, or the mask of an
/// indirect branch.
fn context(text: &mut Vec<u8>, i: &Instruction) {
    let kinds = [i.op0_kind(), i.op1_kind()];
    if i.is_string_instruction() {
        let has = |kind| kinds.contains(&kind);
        if has(OpKind::MemorySegRSI) {
            text.extend(SI);
        }
        if has(OpKind::MemoryESRDI) {
            text.extend(DI);
        }
    } else if i.is_jmp_near_indirect() || i.is_call_near_indirect() {
        let base = i.memory_base();
        if base.is_gpr32() && base != Register::ESP {
            let number = base.number() as u8;
            text.extend((number > 7).then_some(0x41));
            text.extend([0x81, 0xe0 | number & 7, 0xf8, 0xff, 0x0f, 0x00]);
        }
    }
}

/// A text whose memory is used again.
#[derive(Default)]
pub struct Judge {
    text: Vec<u8>,
    /// First byte of each head's part of the text.
    starts: Vec<u64>,
}

impl Judge {
    /// Says of each head whether the verifier accepts it in this mode. In mode match a missing
    /// check (rule `SFI-M01`) does not count.
    pub fn accepts(&mut self, heads: &[Head], mode: Mode, accepted: &mut Vec<bool>) {
        self.text.clear();
        self.starts.clear();
        for head in heads {
            self.starts.push(TEXT + self.text.len() as u64);
            context(&mut self.text, &head.instruction);
            self.text.extend(head.bytes());
        }
        assert!(heads.len() <= BATCH && self.text.len() <= BATCH * ROOM);
        self.text.push(0xcc);
        accepted.clear();
        accepted.resize(heads.len(), true);
        let text = FinalText { bytes: &self.text, offset: TEXT, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
        // The clock may be granted, so its instruction is part of the language.
        let options = Options { mode, clock: true, ..Options::default() };
        for found in verify_text(&text, &options).err().unwrap_or_default() {
            if found.rule == Rule::Unmatched {
                continue;
            }
            let place = self.starts.partition_point(|start| *start <= found.offset);
            accepted[place - 1] = false;
        }
    }
}
