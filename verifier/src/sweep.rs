//! The linear sweep: goes over a text from its start, instruction by instruction, applies the rules about places, and leaves the map that
//! the rules about targets (branches, symbols, slots) need.
//!
//! What an instruction is ([`crate::facts`]) does not depend on its place; what is allowed of it may: relocations over it ([`crate::relocation`]),
//! what stands right before it ([`crate::region`]).

use crate::Options;
use crate::bitmap::Bitmap;
use crate::elf::{Object, Relocation};
use crate::facts::{Facts, Load, Uses};
use crate::instruction::Rules;
use crate::memo::Memo;
use crate::region::{Step, Tracker};
use crate::relocation;
use crate::report::Findings;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use sfi_contract::Rule;
use sfi_contract::layout::WINDOW_SIZE;

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
    pub sorted: &'a [Relocation],
}

/// A direct branch whose target is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    /// Offset from the text's first byte.
    pub at: u64,
    /// Address, as in [`Text::base`].
    pub target: u64,
}

/// The map of a text. Offsets count from its first byte.
#[derive(Default)]
pub(crate) struct Map {
    /// The legal targets: instruction boundaries that are not inside an unsafe region.
    pub targets: Bitmap,
    /// First and last byte of each unsafe region, ascending.
    pub regions: Vec<(u64, u64)>,
    /// Direct branches without a relocation.
    pub branches: Vec<Branch>,
    pub instructions: u64,
    pub uses: Uses,
}

impl Map {
    fn new(length: usize) -> Map {
        // As many branches as compilers make.
        Map { targets: Bitmap::new(length), branches: Vec::with_capacity(length / 16), ..Map::default() }
    }

    /// Notes an instruction. The target of a direct branch without a relocation is checked when all boundaries are known.
    #[inline]
    fn add(&mut self, text: &[u8], base: u64, at: usize, facts: &Facts, relocated: bool) {
        self.instructions += 1;
        self.targets.insert(at);
        self.uses.add(facts.uses);
        if facts.branch && !relocated {
            let distance = facts.immediate.number(text.get(at..).unwrap_or_default());
            let end = base.wrapping_add((at + facts.shape.length()) as u64);
            self.branches.push(Branch { at: at as u64, target: end.wrapping_add(distance) });
        }
    }

    /// The offset lies behind the first instruction of an unsafe region.
    pub fn inside_region(&self, offset: u64) -> bool {
        let i = self.regions.partition_point(|(start, _)| *start < offset);
        i > 0 && offset <= self.regions[i - 1].1
    }
}

/// Sweeps a text.
pub(crate) fn sweep(text: &Text<'_>, options: &Options, memo: &mut Memo, findings: &mut Findings) -> Map {
    let mut sweep = Sweep {
        text,
        rules: Rules::new(options),
        decoder: Decoder::with_ip(64, text.bytes, text.base, DecoderOptions::NONE),
        memo,
        findings,
        map: Map::new(text.bytes.len()),
        tracker: Tracker::default(),
        next_relocation: 0,
        next_relocation_at: 0,
        relocated_at: None,
    };
    sweep.run();
    sweep.map
}

/// The next 8 bytes. Where a longest instruction may not fit there is nothing to look up.
#[inline]
fn window(text: &[u8], at: usize) -> Option<u64> {
    let bytes: &[u8; 16] = text.get(at..)?.first_chunk()?;
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The first 8 bytes; 0 behind the end.
pub(crate) fn first_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |window, byte| window << 8 | u64::from(*byte))
}

/// A sweep under way.
struct Sweep<'a, 'f> {
    text: &'a Text<'a>,
    rules: Rules,
    decoder: Decoder<'a>,
    memo: &'f mut Memo,
    findings: &'f mut Findings,
    map: Map,
    tracker: Tracker,
    next_relocation: usize,
    /// Offset of that relocation, `u64::MAX` if there is none.
    next_relocation_at: u64,
    /// Offset of the last relocation that was passed.
    relocated_at: Option<u64>,
}

impl Sweep<'_, '_> {
    fn run(&mut self) {
        let text = self.text.bytes;
        self.load_relocation();
        let mut at = 0;
        while at < text.len() {
            let known = window(text, at).and_then(|window| self.memo.recall(window));
            if let Some(facts) = known
                && facts.plain
                && self.next_relocation_at >= (at + facts.shape.length()) as u64
            {
                self.map.add(text, self.text.base, at, facts, false);
                self.tracker.reset();
                at += facts.shape.length();
                continue;
            }
            let Some(facts) = known.copied().or_else(|| self.recall_at_end(at)).or_else(|| self.decode(at)) else {
                match self.undecodable(at as u64) {
                    Some(resume) => at = resume,
                    None => break,
                }
                continue;
            };
            let relocated = self.next_relocation_at < (at + facts.shape.length()) as u64;
            self.map.add(text, self.text.base, at, &facts, relocated);
            self.check(at as u64, &facts, relocated);
            at += facts.shape.length();
        }
        self.relocations_behind(text.len() as u64);
    }

    /// The facts of an instruction that is so near to the text's end that not every instruction would fit.
    #[cold]
    fn recall_at_end(&self, at: usize) -> Option<Facts> {
        let rest = self.text.bytes.get(at..).filter(|rest| rest.len() < 16)?;
        self.memo.recall(first_bytes(rest)).filter(|facts| facts.shape.length() <= rest.len()).copied()
    }

    /// Finds out what the instruction at an offset is, reports what is wrong with it by itself, and remembers it if nothing is.
    /// `None` if the bytes do not decode.
    #[inline(never)]
    fn decode(&mut self, at: usize) -> Option<Facts> {
        self.decoder.set_position(at).ok()?;
        self.decoder.set_ip(self.text.base.wrapping_add(at as u64));
        let mut instruction = Instruction::default();
        self.decoder.decode_out(&mut instruction);
        let raw = self.text.bytes.get(at..self.decoder.position()).filter(|raw| !raw.is_empty())?;
        if instruction.is_invalid() {
            return None;
        }
        let (facts, faults) = Facts::new(raw, &instruction, &self.decoder, &self.rules);
        if faults.is_empty() {
            self.memo.learn(first_bytes(raw), &facts);
        }
        for (rule, why) in faults {
            self.refuse(rule, at as u64, why);
        }
        Some(facts)
    }

    /// All rules about an instruction in its place.
    #[inline]
    fn check(&mut self, at: u64, facts: &Facts, relocated: bool) {
        let end = at + facts.shape.length() as u64;
        let displacement_relocated = relocated && self.check_relocations(at, facts);
        let step = facts.step_of(self.rest(at));
        match facts.load {
            Load::Free => {}
            Load::Relative => self.check_relative_load(at, facts, displacement_relocated),
            Load::Header if displacement_relocated || !matches!(step, Step::Rebase(_)) => {
                self.refuse(Rule::LoadUnconfined, at, "a constant address, and not the header page's first word");
            }
            Load::Header => {}
        }
        match self.tracker.step(at, step) {
            Ok(None) => {}
            Ok(Some(start)) => self.region(start, at, end),
            Err(missing) => self.refuse(missing.rule(), at, missing.text()),
        }
    }

    /// The text from an offset on.
    fn rest(&self, at: u64) -> &[u8] {
        self.text.bytes.get(at as usize..).unwrap_or_default()
    }

    /// Rules `SFI-L01` and, in the final text, `SFI-T03`: where a rip-relative load of mode full reads.
    #[inline(never)]
    fn check_relative_load(&mut self, at: u64, facts: &Facts, relocated: bool) {
        if self.text.relocations.is_some() {
            if !relocated {
                self.refuse(Rule::LoadUnconfined, at, "rip-relative without a relocation");
            }
            return;
        }
        let end = self.text.base.wrapping_add(at + facts.shape.length() as u64);
        let target = end.wrapping_add(facts.displacement.number(self.rest(at)));
        // No operand on the list is wider than 128 bytes.
        if facts.displacement.size() != 4 || target > WINDOW_SIZE - 128 {
            self.refuse(Rule::FinalLoad, at, &format!("it reads at window offset {:#x}", target as i64));
        }
    }

    /// Marks an unsafe region. Rule `SFI-R03`: nothing in it is relocated.
    #[inline(never)]
    fn region(&mut self, start: u64, at: u64, end: u64) {
        self.map.targets.remove(start as usize + 1, at as usize);
        self.map.regions.push((start, end - 1));
        if let Some(offset) = self.relocated_at.filter(|offset| *offset >= start) {
            let detail = format!("the relocation at {offset:#x} lies in the unsafe region from {start:#x} on");
            self.refuse(Rule::RelocationGuard, at, &detail);
        }
    }

    /// Rule `SFI-D01`. Where to go on, so that the rest of the text is reported too.
    #[cold]
    fn undecodable(&mut self, at: u64) -> Option<usize> {
        self.tracker = Tracker::default();
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
    fn refuse(&mut self, rule: Rule, at: u64, detail: &str) {
        self.findings.add_instruction(rule, self.text.bytes, self.text.base, at, detail);
    }

    fn load_relocation(&mut self) {
        let sorted = self.text.relocations.as_ref().map(|r| r.sorted).unwrap_or_default();
        self.next_relocation_at = sorted.get(self.next_relocation).map_or(u64::MAX, |r| r.offset);
    }

    /// Rules `SFI-R01`, `SFI-R02`, `SFI-B03` for the relocations that begin in this instruction. Gives whether one covers
    /// its displacement.
    #[inline(never)]
    fn check_relocations(&mut self, at: u64, facts: &Facts) -> bool {
        let mut displacement = false;
        while self.next_relocation_at < at + facts.shape.length() as u64 {
            let Some(relocations) = &self.text.relocations else { break };
            let (object, relocation) = (relocations.object, &relocations.sorted[self.next_relocation]);
            self.relocated_at = Some(relocation.offset);
            self.next_relocation += 1;
            self.load_relocation();
            match relocation::check(relocation, at, facts, object) {
                Ok(field) => displacement |= field == facts.displacement,
                Err((rule, detail)) => self.refuse(rule, at, &detail),
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
