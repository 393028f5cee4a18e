//! Every instruction head that the verifier accepts, read by four decoders: iced-x86 and
//! yaxpeax-x86 (the verifier's two), Zydis, and LLVM's.
//!
//! Apart from displacements and immediates the accepted language is finite. [`walk`] enumerates it:
//! all canonical prefixes with REX, VEX or EVEX, all opcodes, ModRM and SIB bytes. [`accept`] asks
//! the verifier. All four decoders read each accepted head and must agree on length, control flow,
//! memory operands, written registers and effects on the machine's state. [`known`] has the
//! differences that are other decoders' mistakes. A reading must also be harmless by itself, see
//! [`harmless`].
//!
//! `SFI_HEADS=all` (as in `cargo xtask soak`) takes all heads, `SFI_HEADS=3/100` the third
//! hundredth of the units, and `SFI_HEADS=3..100/100` that one and all that follow, one after the
//! other. A run prints a line after each part, so one that was stopped goes on at the next part.
//! Otherwise a slice is drawn from `SFI_HEADS_SEED`, with units of every kind.

mod accept;
mod iced;
mod known;
mod llvm;
mod reading;
mod strange;
mod tally;
mod walk;
mod yaxpeax;
mod zydis;

use accept::{BATCH, Judge};
use iced_x86::{Code, Instruction, InstructionInfoFactory, Register};
use known::{Case, Other};
use libtest_mimic::{Arguments, Trial};
use rayon::prelude::*;
use reading::{Difference, Flow, Part, Reading, Segment, control};
use sfi_contract::Mode;
use sfi_contract::policy::{self, Class};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use tally::Tally;
use walk::{Found, Head, Thin, Unit, mix, units};

fn main() -> ExitCode {
    let test = Trial::test("every_accepted_head_is_read_alike", || {
        every_accepted_head_is_read_alike();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

/// Units of each kind and stratum in a slice.
const SLICE: usize = 4;

/// The units of a run.
struct Selection {
    /// The parts, one after the other, with their numbers.
    parts: Vec<(usize, Vec<Unit>)>,
    /// The number of all parts. 0 if the run is a slice.
    of: usize,
    thin: Thin,
}

impl Selection {
    /// Says whether all units run.
    fn is_all(&self) -> bool {
        self.parts.len() == self.of
    }
}

/// Reads `3/100`, `3..100/100`, or `all`: first and last part, and their number.
fn parts(text: &str) -> Option<(usize, usize, usize)> {
    if text == "all" {
        return Some((1, 1, 1));
    }
    let (range, of) = text.split_once('/')?;
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let (first, last, of) = (first.parse().ok()?, last.parse().ok()?, of.parse().ok()?);
    (1 <= first && first <= last && last <= of).then_some((first, last, of))
}

fn selection() -> Selection {
    let text = std::env::var("SFI_HEADS").unwrap_or_default();
    let seed = std::env::var("SFI_HEADS_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut units = units();
    // The order is random, so that every part has units of every kind.
    units.par_sort_by_cached_key(|unit| {
        unit.stem().iter().fold(seed, |all, byte| mix(u128::from(all) << 8 | u128::from(*byte)))
    });
    if text.is_empty() {
        let mut seen: BTreeMap<_, usize> = BTreeMap::new();
        units.retain(|unit| {
            let seen = seen.entry((unit.kind, unit.stratum)).or_default();
            *seen += 1;
            *seen <= SLICE
        });
        return Selection { parts: vec![(1, units)], of: 0, thin: Thin { modrm: 4, sib: 64, seed } };
    }
    let (first, last, of) = parts(&text).unwrap_or_else(|| panic!("SFI_HEADS={text}"));
    let part = |n: usize| (n, units.iter().skip(n - 1).step_by(of).copied().collect());
    Selection { parts: (first..=last).map(part).collect(), of, thin: Thin { modrm: 1, sib: 1, seed } }
}

/// The state of one thread.
struct Worker {
    judge: Judge,
    factory: InstructionInfoFactory,
    zydis: ::zydis::Decoder,
    llvm: llvm::Decoder,
    found: Found,
    rest: Found,
    accepted: Vec<bool>,
    flags: Vec<bool>,
    tally: Tally,
}

impl Worker {
    fn new(llvm: &llvm::Llvm) -> Worker {
        Worker {
            judge: Judge::default(),
            factory: InstructionInfoFactory::new(),
            zydis: ::zydis::Decoder::new64(),
            llvm: llvm.decoder(),
            found: Found::default(),
            rest: Found::default(),
            accepted: Vec::new(),
            flags: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn unit(&mut self, unit: &Unit, thin: &Thin) {
        for opcode in 0..=255u8 {
            let (mut found, mut rest) = (std::mem::take(&mut self.found), std::mem::take(&mut self.rest));
            found.begin(unit, opcode, thin);
            self.heads(unit, &found);
            let accepted = std::mem::take(&mut self.accepted);
            let (open, cut) = found.expand(unit, opcode, &accepted, thin, &mut rest);
            self.accepted = accepted;
            self.heads(unit, &rest);
            self.tally.kind(unit.kind).cut += cut;
            let wrong = (open..rest.heads.len()).find(|i| self.accepted[*i]);
            assert!(wrong.is_none(), "cut and accepted: {:02x?}", wrong.map(|i| rest.heads[i].bytes()));
            (self.found, self.rest) = (found, rest);
        }
    }

    /// Leaves in `accepted` the heads that the verifier accepts in mode write, and compares their
    /// readings.
    fn heads(&mut self, unit: &Unit, found: &Found) {
        let counts = self.tally.kind(unit.kind);
        counts.tried += found.tried;
        counts.decoded += found.heads.len() as u64;
        self.accepted.clear();
        for batch in found.heads.chunks(BATCH) {
            let listed: Vec<Head> =
                batch.iter().filter(|head| policy::lookup(head.instruction.code()).is_some()).copied().collect();
            self.judge.accepts(&listed, Mode::Write, &mut self.flags);
            let mut flags = self.flags.iter();
            let before = self.accepted.len();
            self.accepted.extend(batch.iter().map(|head| {
                policy::lookup(head.instruction.code()).is_some() && flags.next().copied().unwrap_or_default()
            }));
            let accepted: Vec<Head> =
                batch.iter().zip(&self.accepted[before..]).filter(|(_, yes)| **yes).map(|(head, _)| *head).collect();
            if accepted.is_empty() {
                continue;
            }
            let first = accepted[0].bytes().iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
            if mix(first).is_multiple_of(16) {
                self.sample(batch, before, &accepted[0]);
            }
            self.judge.accepts(&accepted, Mode::Full, &mut self.flags);
            let full = std::mem::take(&mut self.flags);
            for (head, full) in accepted.iter().zip(&full) {
                self.compare(unit, head, *full);
            }
            self.flags = full;
        }
    }

    /// Checks a sample of heads. Modes write and match refuse the same heads, apart from the checks
    /// of mode match. The heads include forms that are not listed, which no other check covers. An
    /// accepted head with one more prefix is refused, unless its order of prefixes is canonical
    /// again.
    fn sample(&mut self, batch: &[Head], before: usize, head: &Head) {
        self.judge.accepts(batch, Mode::Match, &mut self.flags);
        assert_eq!(self.flags, self.accepted[before..], "modes match and write differ");
        for bytes in strange::neighbours(head.bytes()) {
            if let Some(head) = Head::whole(&bytes) {
                self.judge.accepts(&[head], Mode::Write, &mut self.flags);
                assert!(!self.flags[0], "not canonical and accepted: {bytes:02x?}");
                self.tally.strange += 1;
            }
        }
    }

    fn compare(&mut self, unit: &Unit, head: &Head, full: bool) {
        let i = &head.instruction;
        let place = || format!("`{i}` {:02x?}", head.bytes());
        let one = iced::read(&mut self.factory, i).unwrap_or_else(|why| panic!("iced: {why:?} {}", place()));
        if let Err(why) = harmless(&one, i, full) {
            panic!("ESCAPE by iced's reading, {why}: {}", place());
        }
        let counts = self.tally.kind(unit.kind);
        counts.accepted += 1;
        counts.full += u64::from(full);
        self.tally.codes.insert(i.code() as u16);
        let mut readings = 1;
        for decoder in Other::ALL {
            let other = match decoder {
                Other::Yaxpeax => yaxpeax::read(head.bytes()),
                Other::Zydis => zydis::read(&self.zydis, head.bytes()),
                Other::Llvm => self.llvm.read(head.bytes()),
            };
            let unread = other.err();
            let other = other.unwrap_or_default();
            let case = Case { instruction: i, bytes: head.bytes(), one: &one, other: &other };
            let tally = &mut self.tally;
            match unread {
                Some(reading::Unread::Unknown) => {
                    tally.differs(decoder, Difference::Unknown, &case);
                    continue;
                }
                Some(reading::Unread::ThirdOperand) => tally.differs(decoder, Difference::Operands, &case),
                None => {
                    reading::differences(&one, &other, |difference| tally.differs(decoder, difference, &case));
                    if other.control & other.spoken & !permitted(i) != 0 {
                        tally.differs(decoder, Difference::Control, &case);
                    }
                }
            }
            readings += 1;
            tally.read[decoder as usize] += 1;
        }
        self.tally.readings[readings - 1] += 1;
        if readings < 3 {
            self.tally.lonely(head);
        }
    }
}

/// Returns the effects on the machine's state that the form may have.
fn permitted(i: &Instruction) -> u16 {
    match policy::lookup(i.code()).map(|form| form.class) {
        Some(Class::Mxcsr) => control::MXCSR,
        Some(Class::Return | Class::Save | Class::Branch | Class::IndirectBranch) => control::STACK,
        _ => 0,
    }
}

/// Checks the contract on a reading, without the verifier. Stores, and in mode full loads, are
/// confined by GS and 32 bits, are relative to rip, or use a pointer that the instructions before
/// have rebased. No other state of the machine changes.
fn harmless(reading: &Reading, i: &Instruction, full: bool) -> Result<(), String> {
    if reading.control & !permitted(i) != 0 {
        return Err(format!("changes {:#x}", reading.control));
    }
    if matches!(reading.flow, Flow::Other) {
        return Err("goes elsewhere".into());
    }
    let header = i.code() == Code::Add_r64_rm64
        && i.memory_base() == Register::None
        && i.memory_index() == Register::None
        && i.memory_displacement64() == 0xf_f000;
    for operand in reading.memory.iter().flatten() {
        let gs = operand.segment == Segment::Gs;
        let pointer = matches!(operand.base, Some(Part::Wide(6 | 7))) && operand.index.is_none();
        let made = i.is_string_instruction() && pointer && operand.narrow == Some(false);
        let confined = gs && operand.narrow == Some(true) || made;
        let relative =
            operand.base == Some(Part::Ip) && operand.segment == Segment::Flat && operand.narrow == Some(false);
        if operand.writes && !(confined || relative) {
            return Err("stores outside".into());
        }
        if full && operand.reads && !(confined || relative || gs && header) {
            return Err("loads from outside in mode full".into());
        }
    }
    Ok(())
}

fn every_accepted_head_is_read_alike() {
    let llvm = llvm::Llvm::new();
    let selection = selection();
    let (of, thin) = (selection.of, &selection.thin);
    let mut all = Tally::default();
    for (number, units) in &selection.parts {
        let start = Instant::now();
        let tally = units
            .par_chunks(16)
            .map_init(
                || Worker::new(&llvm),
                |worker, units| {
                    units.iter().for_each(|unit| worker.unit(unit, thin));
                    std::mem::take(&mut worker.tally)
                },
            )
            .reduce(Tally::default, Tally::join);
        println!("part {number} of {of}: {} units, {tally}, {:.1} s", units.len(), start.elapsed().as_secs_f64());
        all = all.join(tally);
    }
    all.print();
    all.check(selection.is_all(), of == 0 || selection.is_all());
}
