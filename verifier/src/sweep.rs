//! The linear sweep. It goes over a text from its start, instruction by instruction, and applies
//! the rules about places. It leaves the map that the rules about targets (branches, symbols,
//! slots) need.
//!
//! The facts of an instruction ([`crate::facts`]) do not depend on its place. The verdict may: it
//! depends on the relocations over the instruction ([`crate::relocation`]) and on the instructions
//! right before it ([`crate::region`]).

use crate::bitmap::Bitmap;
use crate::elf::{Object, Relocation};
use crate::facts::{Facts, Uses};
use crate::instruction::Rules;
use crate::landmarks::Landmarks;
use crate::memo::Memo;
use crate::options::Options;
use crate::region::{Step, Tracker};
use crate::relocation;
use crate::report::Findings;
use crate::turn::Turn;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::policy::general;
use sfi_contract::saves::Saves;
use sfi_contract::{Anchored, Anchors, Rule};

/// A text with its address and its origin.
pub(crate) struct Text<'a> {
    pub bytes: &'a [u8],
    /// Address of the first byte: 0 for a section, the window offset for the final text.
    pub base: u64,
    /// The origin of the numbers in it.
    pub stage: Stage<'a>,
}

/// The meaning of the numbers in a text.
pub(crate) enum Stage<'a> {
    /// The text is a section, and some of its fields are relocated later.
    Object(Origin<'a>),
    /// The text is as it will run, in a domain with these offsets.
    Final(Anchors),
}

impl<'a> Text<'a> {
    /// Returns the section that holds the text, if it is one of an object.
    fn origin(&self) -> Option<&Origin<'a>> {
        match &self.stage {
            Stage::Object(origin) => Some(origin),
            Stage::Final(_) => None,
        }
    }

    /// Returns the relocations of the section that holds the text, by their offsets.
    fn relocations(&self) -> &'a [Relocation] {
        self.origin().map_or(&[], |origin| &origin.object.sections[origin.section].relocations)
    }

    /// Says whether the four bytes at an offset are the offset of a place in the window, or a
    /// relocation will make them that.
    pub(crate) fn names(&self, at: usize, place: Anchored) -> bool {
        match &self.stage {
            Stage::Final(anchors) => {
                let field = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
                // Below 2 GiB it does not matter whether the processor extends the number with
                // zeros or with its sign.
                field.is_some_and(|field| i64::from(i32::from_le_bytes(*field)) as u64 == anchors.offset(place))
            }
            Stage::Object(origin) => {
                let relocations = self.relocations();
                let found = relocations.binary_search_by_key(&(at as u64), |relocation| relocation.offset);
                found.is_ok_and(|index| relocation::place(&relocations[index], origin.object) == Some(place))
            }
        }
    }
}

/// The section that holds a text.
pub(crate) struct Origin<'a> {
    pub object: &'a Object<'a>,
    /// Index of the section.
    pub section: usize,
    /// The places where decoding resumes after bytes that do not decode.
    pub landmarks: &'a Landmarks<'a>,
}

/// A direct branch whose target is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    /// Offset from the text's first byte.
    pub at: u64,
    /// Address of the target, in the address space of [`Text::base`].
    pub target: u64,
}

/// The map of a text. Offsets count from its first byte.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// Index of the section, 0 for the final text.
    pub section: usize,
    /// The legal targets: instruction boundaries that are not inside an unsafe region.
    pub targets: Bitmap,
    /// First and last byte of each unsafe region, ascending.
    pub regions: Vec<(u64, u64)>,
    /// Direct branches without a relocation.
    pub branches: Vec<Branch>,
    /// The offset behind each instruction that moves the control stack or control, calls aside.
    pub turns: Vec<(u64, Turn)>,
    /// The ranges where registers are saved on the control stack.
    pub saves: Saves,
    pub instructions: u64,
    pub uses: Uses,
}

impl Map {
    /// Empties the map for another text and keeps its memory.
    fn reset(&mut self, section: usize, length: usize) {
        (self.section, self.instructions, self.uses) = (section, 0, Uses::default());
        self.targets.reset(length);
        self.regions.clear();
        self.branches.clear();
        self.turns.clear();
        self.saves.0.clear();
    }

    /// Adds an instruction. The target of a direct branch without a relocation is checked later,
    /// when all boundaries are known.
    #[inline]
    fn add(&mut self, rest: &[u8], base: u64, at: usize, facts: &Facts, relocated: bool) {
        self.instructions += 1;
        self.targets.insert(at);
        self.uses.add(facts);
        if let Some(turn) = Turn::of(facts, rest, relocated) {
            self.turns.push(((at + facts.shape.length()) as u64, turn));
        }
        if facts.is_branch() && !relocated {
            let distance = facts.immediate().number(rest);
            let end = base.wrapping_add((at + facts.shape.length()) as u64);
            self.branches.push(Branch { at: at as u64, target: end.wrapping_add(distance) });
        }
    }

    /// Says whether the offset lies in an unsafe region, after its first instruction.
    pub(crate) fn inside_region(&self, offset: u64) -> bool {
        let i = self.regions.partition_point(|(start, _)| *start < offset);
        i > 0 && offset <= self.regions[i - 1].1
    }
}

/// Sweeps a text and fills its map.
pub(crate) fn sweep(text: &Text<'_>, options: &Options, memo: &mut Memo, map: &mut Map, findings: &mut Findings) {
    map.reset(text.origin().map_or(0, |origin| origin.section), text.bytes.len());
    let mut sweep = Sweep {
        text,
        rules: Rules::new(options),
        decoder: Decoder::with_ip(64, text.bytes, text.base, DecoderOptions::NONE),
        findings,
        map,
        tracker: Tracker::default(),
        relocations: text.relocations(),
        next_relocation_at: 0,
        relocated_at: None,
    };
    sweep.run(memo);
}

/// A sweep under way.
struct Sweep<'a, 'f> {
    text: &'a Text<'a>,
    rules: Rules,
    decoder: Decoder<'a>,
    findings: &'f mut Findings,
    map: &'f mut Map,
    tracker: Tracker,
    /// The relocations at or after the sweep's place.
    relocations: &'a [Relocation],
    /// Offset of the first of `relocations`, `u64::MAX` if there is none.
    next_relocation_at: u64,
    /// Offset of the last relocation that was passed and that an unsafe region cannot have.
    relocated_at: Option<u64>,
}

impl<'a> Sweep<'a, '_> {
    fn run(&mut self, memo: &mut Memo) {
        let text = self.text.bytes;
        self.look_at(self.relocations);
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let known = memo.recall(rest);
            // The fast path of nearly all instructions. It takes the length from the guess, so that
            // the next guess does not wait for the memo.
            if let Some(facts) = known
                && (facts.step == Step::Other || facts.step == Step::Narrow && !self.tracker.has_base())
                && self.next_relocation_at >= (at + facts.shape.length()) as u64
            {
                self.map.add(rest, self.text.base, at, facts, false);
                self.tracker.reset();
                at += facts.shape.length();
                continue;
            }
            let new;
            let facts = if let Some(facts) = known {
                facts
            } else if let Some(facts) = memo.recall_older(rest).or_else(|| self.decode(at, memo)) {
                new = facts;
                &new
            } else if let Some(resume) = self.undecodable(at as u64) {
                at = resume;
                continue;
            } else {
                break;
            };
            let end = at + facts.shape.length();
            let relocated = self.next_relocation_at < end as u64;
            self.map.add(rest, self.text.base, at, facts, relocated);
            self.check(at as u64, facts);
            at = end;
        }
    }

    /// Decodes the instruction at an offset and reports the rules that it breaks wherever it
    /// stands. The memo learns it if it breaks none. Returns `None` if the bytes do not decode.
    #[inline(never)]
    fn decode(&mut self, at: usize, memo: &mut Memo) -> Option<Facts> {
        self.decoder.set_position(at).ok()?;
        self.decoder.set_ip(self.text.base.wrapping_add(at as u64));
        let mut instruction = Instruction::default();
        self.decoder.decode_out(&mut instruction);
        let raw = self.text.bytes.get(at..self.decoder.position()).filter(|raw| !raw.is_empty())?;
        if instruction.is_invalid() {
            return None;
        }
        let (facts, faults, lasting) = self.rules.read(raw, &instruction, &self.decoder);
        if faults.is_empty() && lasting {
            memo.learn(self.rest(at as u64), &facts);
        }
        for (rule, why) in faults {
            self.refuse(rule, at as u64, why);
        }
        Some(facts)
    }

    /// Checks all rules that depend on the instruction's place.
    #[inline]
    fn check(&mut self, at: u64, facts: &Facts) {
        let end = at + facts.shape.length() as u64;
        let mut displacement_relocated = false;
        while self.next_relocation_at < end {
            displacement_relocated |= self.check_relocation(at, facts);
        }
        if facts.step == Step::Other {
            return self.tracker.reset();
        }
        let named = self.names_its_place(at, facts);
        let step = facts.step_of(self.rest(at), named);
        if facts.step == Step::RebaseOnly && step != Step::Rebase {
            self.refuse(Rule::LoadUnconfined, at, "a constant address, and not the header page's first word");
        } else if matches!(facts.step, Step::RelativeLoad | Step::RelativeStore) {
            self.check_relative(at, facts, displacement_relocated);
        }
        let registers = match step {
            Step::Based => self.address(at),
            _ => [facts.named(), facts.written()],
        };
        match self.tracker.step(at, step, registers) {
            Ok(None) => {}
            Ok(Some(start)) => self.region(start, at, end),
            Err(missing) => self.refuse(missing.rule(), at, missing.text()),
        }
    }

    /// Says whether the instruction's displacement, of 32 bits, is the number that makes it a part
    /// of an unsafe region.
    fn names_its_place(&self, at: u64, facts: &Facts) -> bool {
        let field = facts.displacement();
        facts.place().is_some_and(|place| field.size == 4 && self.text.names(at as usize + field.offset, place))
    }

    /// Returns base and index of the operand of the instruction at an offset.
    fn address(&mut self, at: u64) -> [u16; 2] {
        let mut instruction = Instruction::default();
        if self.decoder.set_position(at as usize).is_ok() {
            self.decoder.decode_out(&mut instruction);
        }
        [instruction.memory_base(), instruction.memory_index()].map(general)
    }

    /// Returns the text from an offset on.
    fn rest(&self, at: u64) -> &[u8] {
        self.text.bytes.get(at as usize..).unwrap_or_default()
    }

    /// Checks the place that an instruction accesses relative to rip. In an object the loader will
    /// choose it (rules `SFI-L01`, `SFI-S01`), and in the final text the whole operand lies in the
    /// window (rules `SFI-T03`, `SFI-T04`).
    #[inline(never)]
    fn check_relative(&mut self, at: u64, facts: &Facts, relocated: bool) {
        let (open, outside, accesses) = match facts.step {
            Step::RelativeStore => (Rule::StoreSegment, Rule::FinalStore, "writes"),
            _ => (Rule::LoadUnconfined, Rule::FinalLoad, "reads"),
        };
        if self.text.origin().is_some() {
            if !relocated {
                self.refuse(open, at, "rip-relative without a relocation");
            }
            return;
        }
        let end = self.text.base.wrapping_add(at + facts.shape.length() as u64);
        let target = end.wrapping_add(facts.displacement().number(self.rest(at)));
        // No operand on the list is wider than 128 bytes.
        if facts.displacement().size != 4 || target > WINDOW_SIZE - 128 {
            self.refuse(outside, at, &format!("it {accesses} at window offset {:#x}", target as i64));
        }
    }

    /// Marks an unsafe region. Rule `SFI-R03`: nothing in it is relocated but the fields that name
    /// its places.
    #[inline(never)]
    fn region(&mut self, start: u64, at: u64, end: u64) {
        self.map.targets.remove(start as usize + 1, at as usize);
        self.map.regions.push((start, end - 1));
        if let Some(offset) = self.relocated_at.filter(|offset| *offset >= start) {
            let detail = format!("the relocation at {offset:#x} lies in the unsafe region from {start:#x} on");
            self.refuse(Rule::RelocationGuard, at, &detail);
        }
    }

    /// Reports rule `SFI-D01`. Returns the place to go on from, so that the rest of the text is
    /// reported too.
    #[cold]
    fn undecodable(&mut self, at: u64) -> Option<usize> {
        self.tracker = Tracker::default();
        // The object is refused already. A symbol or branch that points here need not be reported
        // as well.
        self.map.targets.insert(at as usize);
        let resume = self.text.origin().and_then(|origin| origin.landmarks.behind(origin.section, at));
        let resume = resume.filter(|mark| *mark < self.text.bytes.len() as u64);
        let bytes: Vec<String> = self.text.bytes.iter().skip(at as usize).take(8).map(|b| format!("{b:02x}")).collect();
        let rest = if resume.is_some() { "the next symbol" } else { "the section's end" };
        let detail = format!("bytes {}; nothing up to {rest} was checked", bytes.join(" "));
        self.findings.add(Rule::Undecodable, self.text.base.wrapping_add(at), detail);
        let resume = resume?;
        self.look_at(&self.relocations[self.relocations.partition_point(|r| r.offset < resume)..]);
        usize::try_from(resume).ok()
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, rule: Rule, at: u64, detail: &str) {
        self.findings.add_instruction(rule, self.text.bytes, self.text.base, at, detail);
    }

    /// Makes these the relocations ahead of the sweep.
    fn look_at(&mut self, relocations: &'a [Relocation]) {
        self.relocations = relocations;
        self.next_relocation_at = relocations.first().map_or(u64::MAX, |relocation| relocation.offset);
    }

    /// Checks rules `SFI-R01`, `SFI-R02` and `SFI-B03` for the next relocation, which begins in
    /// this instruction. Says whether it covers the instruction's displacement.
    #[inline(never)]
    fn check_relocation(&mut self, at: u64, facts: &Facts) -> bool {
        let (Some(origin), [relocation, rest @ ..]) = (self.text.origin(), self.relocations) else { return false };
        let named = at + facts.displacement().offset as u64 == relocation.offset && self.names_its_place(at, facts);
        if !named || relocation::place(relocation, origin.object) != facts.place() {
            self.relocated_at = Some(relocation.offset);
        }
        self.look_at(rest);
        let field = relocation::check(relocation, at, facts, origin.object);
        if let Err((rule, detail)) = &field {
            self.refuse(*rule, at, detail);
        }
        field.is_ok_and(|field| field == facts.displacement())
    }
}
