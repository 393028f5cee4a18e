//! Counts, and the differences that are not known.

use crate::known::{Case, KNOWN, Other, lookup};
use crate::reading::Difference;
use crate::walk::{Head, Kind};
use iced_x86::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Counts of one kind of encoding.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub tried: u64,
    pub decoded: u64,
    pub cut: u64,
    pub accepted: u64,
    pub full: u64,
}

/// Counts of a whole run, or of a part.
#[derive(Default)]
pub struct Tally {
    kinds: [Counts; 3],
    /// Forms met.
    pub codes: BTreeSet<u16>,
    /// Heads read, by decoder.
    pub read: [u64; 3],
    /// Heads that one, two, three or four decoders read.
    pub readings: [u64; 4],
    /// Heads with a prefix too many, refused.
    pub strange: u64,
    known: Vec<u64>,
    new: BTreeMap<(Other, Difference, u16), (u64, String)>,
    lonely: BTreeMap<u16, (u64, Vec<u8>)>,
}

/// Shows the bytes and both readings.
fn example(case: &Case<'_>) -> String {
    format!("{:02x?}\n  {:?}\n  {:?}", case.bytes, case.one, case.other)
}

/// Returns the form of a number.
fn code(number: u16) -> String {
    format!("{:?}", Code::try_from(usize::from(number)).expect("a form"))
}

impl Tally {
    pub fn kind(&mut self, kind: Kind) -> &mut Counts {
        &mut self.kinds[kind as usize]
    }

    /// Notes that a decoder disagrees with iced.
    pub fn differs(&mut self, decoder: Other, difference: Difference, case: &Case<'_>) {
        match lookup(decoder, difference, case) {
            Some(known) => {
                self.known.resize(KNOWN.len(), 0);
                self.known[known] += 1;
            }
            None => {
                let key = (decoder, difference, case.instruction.code() as u16);
                self.new.entry(key).or_insert_with(|| (0, example(case))).0 += 1;
            }
        }
    }

    /// Notes that fewer than three decoders read the head.
    pub fn lonely(&mut self, head: &Head) {
        let entry = self.lonely.entry(head.instruction.code() as u16).or_insert_with(|| (0, head.bytes().to_vec()));
        entry.0 += 1;
    }

    /// Adds two tallies.
    pub fn join(mut self, other: Tally) -> Tally {
        for (one, other) in self.kinds.iter_mut().zip(&other.kinds) {
            one.tried += other.tried;
            one.decoded += other.decoded;
            one.cut += other.cut;
            one.accepted += other.accepted;
            one.full += other.full;
        }
        self.codes.extend(&other.codes);
        self.strange += other.strange;
        let add = |one: &mut [u64], other: &[u64]| one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
        add(&mut self.read, &other.read);
        add(&mut self.readings, &other.readings);
        self.known.resize(KNOWN.len(), 0);
        add(&mut self.known, &other.known);
        for (key, (count, bytes)) in other.new {
            self.new.entry(key).or_insert((0, bytes)).0 += count;
        }
        for (key, (count, bytes)) in other.lonely {
            self.lonely.entry(key).or_insert((0, bytes)).0 += count;
        }
        self
    }

    /// Returns the number of accepted heads.
    fn accepted(&self) -> u64 {
        self.kinds.iter().map(|counts| counts.accepted).sum()
    }

    pub fn print(&self) {
        for kind in Kind::ALL {
            let Counts { tried, decoded, cut, accepted, full } = self.kinds[kind as usize];
            println!(
                "{kind:?}: {tried} heads tried and {cut} cut, {decoded} decode, {accepted} accepted, {full} in mode full"
            );
        }
        println!("{} forms met; {} heads with a prefix too many refused", self.codes.len(), self.strange);
        for decoder in Other::ALL {
            println!("{decoder:?} read {}", self.read[decoder as usize]);
        }
        println!("heads read by two, three, four decoders: {:?}", &self.readings[1..]);
        for (known, count) in KNOWN.iter().zip(&self.known) {
            println!("known, {:?}, {count}: {}", known.decoder, known.reason);
        }
        for (form, (count, bytes)) in &self.lonely {
            println!("two decoders only: {} {count} {bytes:02x?}", code(*form));
        }
        for ((decoder, difference, form), (count, bytes)) in &self.new {
            println!("{decoder:?} {difference} {} {count} {bytes}", code(*form));
        }
    }

    /// Fails if there is an unknown difference, or if little was compared. `all`: every head was
    /// read. `wide`: units of every kind were.
    pub fn check(&self, all: bool, wide: bool) {
        assert!(self.new.is_empty(), "{} kinds of new differences", self.new.len());
        assert!(self.lonely.is_empty(), "{} forms that fewer than three decoders read", self.lonely.len());
        let accepted = self.accepted();
        assert!(accepted > if wide { 100_000 } else { 0 }, "{accepted} heads accepted: the walk is wrong");
        for (known, count) in KNOWN.iter().zip(&self.known) {
            assert!(!all || *count > 0, "no such difference any more: {}", known.reason);
        }
    }
}

/// The line of a part: accepted heads, and anything that is wrong with all details.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alike = if self.new.is_empty() { ", all read alike" } else { "" };
        write!(f, "{} heads accepted{alike}", self.accepted())?;
        for ((decoder, difference, form), (count, bytes)) in &self.new {
            write!(f, "\n  NOT ALIKE: {decoder:?} {difference} {} {count} {bytes}", code(*form))?;
        }
        for (form, (count, bytes)) in &self.lonely {
            write!(f, "\n  TWO DECODERS ONLY: {} {count} {bytes:02x?}", code(*form))?;
        }
        Ok(())
    }
}
