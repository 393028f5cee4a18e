//! The verifier: the root of trust.
//!
//! It accepts an object, or the final text of a domain, only if every rule of the contract
//! (`docs/CONTRACT.md`) holds. It trusts neither the rewriter nor anybody else: it takes every fact
//! from the bytes and does not read the rewriter's note.
//!
//! The check of one object takes four steps:
//! 1. [`elf::parse`] gives a model of the object. The loader loads this same model.
//! 2. `structure` checks the container.
//! 3. `sweep` goes over every executable section from its start. For each instruction it gets the
//!    facts and checks the rules that depend on the place. It leaves a bitmap of legal targets. The
//!    facts come from `memo`, or from `facts`: two decoders have read the instruction, and the
//!    rules that its bytes decide have been checked.
//! 4. `place` checks branches and symbols against the bitmap.
//!
//! The rules are the decode-and-check half of Wahbe et al., *Efficient Software-Based Fault
//! Isolation* (1993), section 3 (fault domains, unsafe regions), with the addresses confined by the
//! hardware's 32-bit address size instead of by dedicated registers.
//!
//! ```
//! use sfi_verifier::{Options, verify};
//!
//! let error = verify(b"not an object", &Options::default()).unwrap_err();
//! assert_eq!(error.to_string(), "not an ELF file");
//! ```

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod bitmap;
mod budget;
mod facts;
mod final_text;
mod instruction;
mod landmarks;
mod length;
mod matching;
mod memo;
mod options;
mod place;
mod prefix;
mod region;
mod relocation;
mod report;
mod saves;
mod slots;
mod structure;
mod sweep;
mod turn;

pub use elf::Unreadable;
pub use final_text::{Checked, FinalText, verify_text};
pub use options::Options;
pub use report::{MAX_VIOLATIONS, Report, Violation};
pub use sfi_contract::{Usage, Vectors};
pub use sfi_elf as elf;

use facts::Uses;
use landmarks::Landmarks;
use memo::Memo;
use report::Findings;
use sfi_contract::Mode;
use sweep::{Map, Origin, Stage, Text, sweep};

/// Checks one object. Every violation is listed, not only the first.
///
/// # Errors
/// [`Unreadable`] if the bytes are not an ELF64 x86-64 relocatable object. An object that can be
/// read and breaks rules is a [`Report`] with violations.
pub fn verify<'a>(bytes: &'a [u8], options: &Options) -> Result<Report<'a>, Unreadable> {
    Verifier::new(options).verify(bytes)
}

/// Checks many objects and final texts. It remembers harmless instructions, for the options that it
/// was made with. Its verdicts do not depend on what it checked before.
#[derive(Debug)]
pub struct Verifier {
    options: Options,
    memo: Memo,
    /// Room for the maps of the next object or text, kept to be used again.
    maps: Vec<Map>,
}

impl Verifier {
    /// Returns a verifier that has seen nothing.
    pub fn new(options: &Options) -> Verifier {
        Verifier { options: *options, memo: Memo::default(), maps: Vec::new() }
    }

    /// Checks one object, like [`verify`].
    ///
    /// # Errors
    /// As [`verify`].
    pub fn verify<'a>(&mut self, bytes: &'a [u8]) -> Result<Report<'a>, Unreadable> {
        let object = elf::parse(bytes)?;
        let mut findings = Findings::default();
        structure::check(&object, bytes.len() as u64, &mut findings);
        slots::check(&object, &mut findings);
        let landmarks = Landmarks::new(&object);
        let (mut uses, mut texts, mut text_bytes, mut instructions) = (Uses::default(), 0, 0u64, 0);
        for (index, section) in object.sections.iter().enumerate() {
            // Overlapping sections are refused already. They must not cost more than one pass over
            // the file either.
            let within = text_bytes + section.data.len() as u64 <= bytes.len() as u64;
            if !section.is_executable() || !within {
                continue;
            }
            findings.section = Some(index);
            self.memo.reserve(section.data.len());
            let origin = Origin { object: &object, section: index, landmarks: &landmarks };
            let text = Text { bytes: section.data, base: 0, stage: Stage::Object(origin) };
            self.maps.resize_with(self.maps.len().max(texts + 1), Map::default);
            let map = &mut self.maps[texts];
            sweep(&text, &self.options, &mut self.memo, map, &mut findings);
            // First, because the checks of mode match are left out of the branches later.
            saves::check(&text, map, &[], &mut findings);
            if self.options.budget {
                budget::check(&text, map, &[], &mut findings);
            }
            if self.options.mode == Mode::Match {
                matching::check(&text, map, &mut findings);
            }
            place::check_branches(section.data, map, &mut findings);
            uses.join(map.uses);
            text_bytes += section.data.len() as u64;
            instructions += map.instructions;
            texts += 1;
        }
        place::check_symbols(&object, &self.maps[..texts], &mut findings);
        // The memory that is kept must not grow with the number of objects.
        self.maps.truncate(4);
        let Findings { list: mut violations, omitted, .. } = findings;
        landmarks.name_places(&mut violations);
        Ok(Report { object, violations, omitted, usage: uses.usage(), text_bytes, instructions })
    }
}
