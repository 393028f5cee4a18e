//! The verifier's findings.

use crate::elf::Object;
use iced_x86::{Decoder, DecoderOptions};
use sfi_contract::{Rule, Usage, syntax};
use std::fmt;

/// Most violations that are kept for one object. [`Report::omitted`] counts the others: an object
/// with a hundred million one-byte violations must not cost the host its memory.
pub const MAX_VIOLATIONS: usize = 10_000;

/// A broken rule and its detail.
pub(crate) type Fault = (Rule, &'static str);

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Index of the section, `None` if the violation is about the object, or in the final text.
    pub section: Option<usize>,
    /// Name of that section.
    pub section_name: Option<String>,
    /// Offset in the section, in bytes. In the final text it is the offset in the window, for a
    /// table the offset of the entry.
    pub offset: u64,
    /// The symbol at or before the place, and the distance from it: `inflate+0x12`.
    pub function: Option<String>,
    /// The instruction in AT&T syntax.
    pub instruction: Option<String>,
    /// The defect at this place, beyond [`Rule::title`].
    pub detail: String,
}

/// One line: rule, place, instruction, and why.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule.id())?;
        if let Some(section) = &self.section_name {
            write!(f, " {section}")?;
        }
        write!(f, "+{:#x}", self.offset)?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        if let Some(instruction) = &self.instruction {
            write!(f, ": `{instruction}`")?;
        }
        write!(f, ": {}", if self.detail.is_empty() { self.rule.title() } else { &self.detail })
    }
}

/// The verifier's answer about one object. The object is safe if there are no violations.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The object as it was read. The loader must load this model.
    pub object: Object<'a>,
    /// All violations, by section and offset; at most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// Number of violations beyond those kept.
    pub omitted: u64,
    /// The machine's resources that the text uses.
    pub usage: Usage,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Instructions decoded.
    pub instructions: u64,
}

impl Report<'_> {
    /// Says whether no rule is broken.
    pub fn is_safe(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Collects violations.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub list: Vec<Violation>,
    pub omitted: u64,
    /// The section that the offsets of [`Findings::add`] belong to.
    pub section: Option<usize>,
}

impl Findings {
    /// Adds a violation at an offset of the current section.
    #[cold]
    pub(crate) fn add(&mut self, rule: Rule, offset: u64, detail: impl Into<String>) {
        self.push(rule, offset, None, detail.into());
    }

    /// Adds a violation by the instruction at an offset of a text. The text's first byte has the
    /// address `base`.
    #[cold]
    pub(crate) fn add_instruction(&mut self, rule: Rule, text: &[u8], base: u64, at: u64, detail: &str) {
        let rest = usize::try_from(at).ok().and_then(|at| text.get(at..));
        self.push(rule, base.wrapping_add(at), rest, detail.into());
    }

    fn push(&mut self, rule: Rule, offset: u64, instruction: Option<&[u8]>, detail: String) {
        if self.list.len() >= MAX_VIOLATIONS {
            self.omitted += 1;
            return;
        }
        let decode = |bytes| Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE).decode();
        let instruction = instruction.map(|bytes| syntax::text(&decode(bytes)));
        let section = self.section;
        self.list.push(Violation { rule, section, section_name: None, offset, function: None, instruction, detail });
    }
}
