//! The linear sweep: decodes a text from its start, has the rules about single instructions applied ([`crate::instruction`]),
//! and leaves the map that the rules about places (branches, symbols, slots) need.

use crate::Options;
use crate::bitmap::Bitmap;
use crate::elf::{Object, Relocation};
use crate::instruction::required;
use crate::memo::Memo;
use crate::region::Tracker;
use crate::relocation::{self, Field};
use crate::report::{Findings, Usage};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use sfi_contract::policy::{self, Class};
use sfi_contract::{Mode, Rule};

/// A text and what is known about it.
pub(crate) struct Text<'a> {
    pub bytes: &'a [u8],
    /// Address of the first byte: 0 for a section, the window offset for the final text.
    pub base: u64,
    /// What may still change; `None` for the final text.
    pub relocations: Option<Relocations<'a>>,
    /// Sorted offsets where decoding goes on behind bytes that do not decode.
    pub landmarks: &'a [u64],
}

/// The relocations of one section, sorted by offset, and the object they refer to.
pub(crate) struct Relocations<'a> {
    pub object: &'a Object<'a>,
    pub sorted: Vec<&'a Relocation>,
}

/// A direct branch whose target is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub at: u64,
    pub target: u64,
}

/// The map of a text. Offsets count from its first byte.
#[derive(Default)]
pub(crate) struct Map {
    /// The legal targets: instruction boundaries that are not inside an unsafe region.
    pub targets: Bitmap,
    /// First and last byte of each unsafe region, ascending.
    pub regions: Vec<(u64, u64)>,
    /// Direct branches without a relocation; addresses as in [`Text::base`].
    pub branches: Vec<Branch>,
    pub instructions: u64,
    pub classes: u32,
    pub gprs: u16,
    pub named: u16,
}

impl Map {
    pub fn usage(&self) -> Usage {
        Usage::new(self.classes, self.gprs, self.named)
    }

    /// The offset lies behind the first instruction of an unsafe region.
    pub fn inside_region(&self, offset: u64) -> bool {
        let i = self.regions.partition_point(|(start, _)| *start < offset);
        i > 0 && offset <= self.regions[i - 1].1
    }
}

/// Sweeps a text.
pub(crate) fn sweep(text: &Text<'_>, options: &Options, memo: &mut Memo, findings: &mut Findings) -> Map {
    let map = Map { targets: Bitmap::new(text.bytes.len()), ..Map::default() };
    let mut sweep = Sweep {
        text,
        options,
        full: options.mode == Mode::Full,
        required: required(options.mode),
        decoder: Decoder::with_ip(64, text.bytes, text.base, DecoderOptions::NONE),
        memo,
        findings,
        map,
        tracker: Tracker::default(),
        next_relocation: 0,
        next_relocation_at: 0,
        relocated_at: None,
    };
    sweep.run();
    sweep.map
}

/// A sweep under way.
pub(crate) struct Sweep<'a, 'f> {
    pub text: &'a Text<'a>,
    pub options: &'a Options,
    pub full: bool,
    /// By [`policy::Memory`]: the prefixes that an operand must have to be confined.
    pub required: [u8; 7],
    decoder: Decoder<'a>,
    pub memo: &'f mut Memo,
    pub findings: &'f mut Findings,
    pub map: Map,
    pub tracker: Tracker,
    next_relocation: usize,
    /// Offset of that relocation, `u64::MAX` if there is none.
    pub next_relocation_at: u64,
    /// Offset of the last relocation that was passed.
    pub relocated_at: Option<u64>,
}

impl Sweep<'_, '_> {
    fn run(&mut self) {
        self.load_relocation();
        let mut instruction = Instruction::default();
        while self.decoder.can_decode() {
            let at = self.decoder.position();
            self.decoder.decode_out(&mut instruction);
            let next = self.decoder.position();
            if instruction.is_invalid() || next <= at {
                self.tracker = Tracker::default();
                let Some(resume) = self.undecodable(at as u64) else { break };
                if self.decoder.set_position(resume).is_err() {
                    break;
                }
                self.decoder.set_ip(self.text.base.wrapping_add(resume as u64));
                continue;
            }
            self.map.instructions += 1;
            self.map.targets.insert(at);
            self.check(at as u64, &instruction, self.text.bytes.get(at..next).unwrap_or_default());
        }
        self.relocations_behind(self.text.bytes.len() as u64);
    }

    /// Rule `SFI-D01`. Where to go on, so that the rest of the text is reported too.
    #[cold]
    fn undecodable(&mut self, at: u64) -> Option<usize> {
        // The object is refused already; a symbol or branch that points here need not be reported as well.
        self.map.targets.insert(at as usize);
        let i = self.text.landmarks.partition_point(|mark| *mark <= at);
        let resume = self.text.landmarks.get(i).copied().filter(|mark| *mark < self.text.bytes.len() as u64);
        let bytes: Vec<String> = self.text.bytes.iter().skip(at as usize).take(8).map(|b| format!("{b:02x}")).collect();
        let rest = if resume.is_some() { "the next symbol" } else { "the section's end" };
        self.findings.add(
            Rule::Undecodable,
            self.text.base.wrapping_add(at),
            format!("bytes {}; nothing up to {rest} was checked", bytes.join(" ")),
        );
        let resume = resume?;
        while self.next_relocation_at < resume {
            self.next_relocation += 1;
            self.load_relocation();
        }
        usize::try_from(resume).ok()
    }

    #[cold]
    #[inline(never)]
    pub fn refuse(&mut self, rule: Rule, at: u64, instruction: &Instruction, detail: &str) {
        self.findings.add_instruction(rule, self.text.base.wrapping_add(at), instruction, detail);
    }

    fn load_relocation(&mut self) {
        let sorted = self.text.relocations.as_ref().map(|r| r.sorted.as_slice()).unwrap_or_default();
        self.next_relocation_at = sorted.get(self.next_relocation).map_or(u64::MAX, |r| r.offset);
    }

    /// Rules `SFI-R01`, `SFI-R02`, `SFI-B03` for the relocations that begin in this instruction. Gives whether one covers
    /// its displacement.
    #[inline(never)]
    pub fn check_relocations(&mut self, at: u64, instruction: &Instruction, length: usize) -> bool {
        let mut displacement = false;
        while self.next_relocation_at < at + length as u64 {
            let Some(relocations) = &self.text.relocations else { break };
            let (object, relocation) = (relocations.object, relocations.sorted[self.next_relocation]);
            self.relocated_at = Some(relocation.offset);
            self.next_relocation += 1;
            self.load_relocation();
            let checked = relocation::check_type(relocation).and_then(|width| {
                let field =
                    relocation::check_field(relocation, width, at, &self.decoder.get_constant_offsets(instruction))?;
                let branch = policy::lookup(instruction.code()).is_some_and(|form| form.class == Class::Branch);
                if branch {
                    relocation::check_branch(relocation, object)?;
                } else {
                    relocation::check_not_branch(relocation)?;
                }
                Ok(field)
            });
            match checked {
                Ok(field) => displacement |= field == Field::Displacement,
                Err((rule, detail)) => self.refuse(rule, at, instruction, &detail),
            }
        }
        displacement
    }

    /// Rule `SFI-R01`: relocations that no instruction was found for.
    fn relocations_behind(&mut self, end: u64) {
        let Some(relocations) = &self.text.relocations else { return };
        for relocation in relocations.sorted.iter().skip(self.next_relocation) {
            let detail = format!("the relocation lies behind the section's end at {end:#x}");
            if relocation.offset >= end {
                self.findings.add(Rule::RelocationField, relocation.offset, detail);
            }
        }
    }
}
