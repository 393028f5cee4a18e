//! What the verifier found.

use crate::elf::Object;
use crate::facts::Uses;
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use sfi_contract::Rule;
use sfi_contract::policy::Class;

/// Most violations that are kept for one object. More are counted in [`Report::omitted`]: an object of a hundred
/// million one-byte violations must not cost the host its memory.
pub const MAX_VIOLATIONS: usize = 10_000;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Index of the section, `None` if the violation is about the object, or in the final text.
    pub section: Option<usize>,
    /// Name of that section.
    pub section_name: Option<String>,
    /// Offset in the section, in the window for the final text; for a table the offset of the entry. Bytes.
    pub offset: u64,
    /// The symbol at or before the place, and the distance from it: `inflate+0x12`.
    pub function: Option<String>,
    /// The instruction in AT&T syntax.
    pub instruction: Option<String>,
    /// What is wrong here, beyond [`Rule::title`].
    pub detail: String,
}

/// What an object's text uses. Computed from the decoded instructions, never from the object's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bit n: the general register with number n (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, ... r15 15) is written, in whole or in
    /// part. A callee outside the text is not counted.
    pub gprs_written: u16,
    /// Bit n: the preserved register n (see [`Usage::PRESERVED`]) is read or written, in whole or in part, by an operand or implicitly.
    pub preserved_named: u16,
    /// Widest vector registers named.
    pub vectors: Vectors,
    /// x87 or MMX state is touched (`fnstenv`, `fldenv` and the control word included). A return to the host resets it
    /// (`fninit`) at every trust level: an exception left unmasked and pending would trap in the host's next x87 instruction.
    pub x87: bool,
    /// MXCSR is loaded or stored: the text can change it or see it. (Its status flags are set by any SSE arithmetic.)
    pub mxcsr: bool,
    /// `rdtsc` occurs.
    pub clock: bool,
    /// `cpuid` or `xgetbv` occurs.
    pub identity: bool,
}

/// Widest vector registers that an instruction names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// None.
    #[default]
    None,
    /// xmm0 to xmm15, legacy encoding.
    Xmm,
    /// xmm and ymm 0 to 15, VEX encoding (which clears the upper parts).
    Ymm,
    /// EVEX encoding or mask registers: anything of zmm0 to zmm31 and k0 to k7.
    Zmm,
}

impl Usage {
    /// The registers that functions preserve (psABI 3.2.1), rsp aside: rbx, rbp, r12 to r15.
    pub const PRESERVED: u16 = 1 << 3 | 1 << 5 | 0xf << 12;

    pub(crate) fn new(uses: Uses) -> Usage {
        let has = |class: Class| uses.has(class);
        let vectors = if has(Class::Avx512) {
            Vectors::Zmm
        } else if has(Class::Avx) {
            Vectors::Ymm
        } else if has(Class::Sse) || has(Class::Mmx) {
            Vectors::Xmm // an MMX form may convert to or from xmm
        } else {
            Vectors::None
        };
        Usage {
            gprs_written: uses.written(),
            preserved_named: (uses.named() | uses.written()) & Self::PRESERVED,
            vectors,
            x87: has(Class::X87) || has(Class::Mmx),
            mxcsr: has(Class::Mxcsr),
            clock: has(Class::Clock),
            identity: has(Class::Identity),
        }
    }

    /// Both together.
    pub fn union(self, other: Usage) -> Usage {
        Usage {
            gprs_written: self.gprs_written | other.gprs_written,
            preserved_named: self.preserved_named | other.preserved_named,
            vectors: self.vectors.max(other.vectors),
            x87: self.x87 | other.x87,
            mxcsr: self.mxcsr | other.mxcsr,
            clock: self.clock | other.clock,
            identity: self.identity | other.identity,
        }
    }
}

/// The verifier's answer about one object. The object is safe if there are no violations.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The object as it was read: what the loader must load.
    pub object: Object<'a>,
    /// All violations, by section and offset; at most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// Number of violations beyond those kept.
    pub omitted: u64,
    /// What the text uses.
    pub usage: Usage,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Instructions decoded.
    pub instructions: u64,
}

impl Report<'_> {
    /// No rule is broken.
    pub fn is_safe(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Collects violations.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub list: Vec<Violation>,
    pub omitted: u64,
    /// The section that [`Findings::add`] speaks of.
    pub section: Option<usize>,
}

impl Findings {
    /// A violation at an offset of the current section.
    #[cold]
    pub fn add(&mut self, rule: Rule, offset: u64, detail: impl Into<String>) {
        self.push(rule, offset, None, detail.into());
    }

    /// A violation by the instruction at an offset of a text whose first byte has the address `base`.
    #[cold]
    pub fn add_instruction(&mut self, rule: Rule, text: &[u8], base: u64, at: u64, detail: &str) {
        let rest = usize::try_from(at).ok().and_then(|at| text.get(at..));
        self.push(rule, base.wrapping_add(at), rest, detail.into());
    }

    fn push(&mut self, rule: Rule, offset: u64, instruction: Option<&[u8]>, detail: String) {
        if self.list.len() >= MAX_VIOLATIONS {
            self.omitted += 1;
            return;
        }
        let instruction = instruction.map(|bytes| text(bytes, offset));
        let section = self.section;
        self.list.push(Violation { rule, section, section_name: None, offset, function: None, instruction, detail });
    }
}

/// The instruction that the bytes begin with, in AT&T syntax as gcc and objdump write it.
fn text(bytes: &[u8], address: u64) -> String {
    let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_gas_space_after_memory_operand_comma(false);
    options.set_space_after_operand_separator(true);
    options.set_uppercase_hex(false);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(true);
    options.set_branch_leading_zeros(false);
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    text
}
