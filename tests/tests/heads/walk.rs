//! All heads: prefixes, REX, VEX or EVEX, opcode, ModRM and SIB.
//!
//! A [`Unit`] is everything before the opcode. It goes over the opcodes, and for each over ModRM
//! and SIB. Only heads that the verifier certainly refuses are left out. A sample of them is tried:
//!
//! - Orders of prefixes that are not canonical (rule `SFI-D03`; `verifier/src/prefix.rs`). The
//!   sample is made of accepted heads with one more prefix.
//! - SIB bytes after an opcode and a ModRM byte that is refused with each of three SIB bytes that
//!   name neither rsp nor any odd register. Only the rule about rsp looks at SIB, and it refuses.
//! - VEX with a map that the verifier's decoder does not have.
//!
//! EVEX has its register fields at their extremes, in the prefix, in ModRM and in SIB.

use iced_x86::{Decoder, DecoderOptions, Instruction};

/// One head, with a displacement and an immediate that are computed from it.
#[derive(Clone, Copy)]
pub struct Head {
    pub instruction: Instruction,
    bytes: [u8; 15],
}

impl Head {
    /// Returns the head of a whole instruction, if these bytes are one.
    pub fn whole(of: &[u8]) -> Option<Head> {
        let mut bytes = [0; 15];
        bytes.get_mut(..of.len())?.copy_from_slice(of);
        let instruction = Decoder::with_ip(64, of, 0, DecoderOptions::NONE).decode();
        (!instruction.is_invalid() && instruction.len() == of.len()).then_some(Head { instruction, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.instruction.len()]
    }
}

/// The three kinds of encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Legacy,
    Vex,
    Evex,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Legacy, Kind::Vex, Kind::Evex];
}

/// Everything before the opcode.
#[derive(Clone, Copy)]
pub struct Unit {
    pub kind: Kind,
    stem: [u8; 9],
    length: u8,
    /// Units that select the same instructions: opcode map, mandatory prefix, W, vector length.
    pub stratum: u32,
    /// Set if the verifier's decoder has no such map, so that a sample is enough.
    thin: bool,
}

impl Unit {
    fn new(kind: Kind, parts: &[&[u8]], stratum: u32) -> Unit {
        let (mut stem, mut length) = ([0; 9], 0);
        for byte in parts.iter().copied().flatten() {
            stem[length] = *byte;
            length += 1;
        }
        Unit { kind, stem, length: length as u8, stratum, thin: false }
    }

    pub fn stem(&self) -> &[u8] {
        &self.stem[..usize::from(self.length)]
    }

    /// Says whether the opcode byte is a prefix or the beginning of another unit.
    fn leads_on(&self, opcode: u8) -> bool {
        let prefix = matches!(
            opcode,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67 | 0xc4 | 0xc5 | 0xf0 | 0xf2 | 0xf3
        );
        let escape = |stem: &[u8]| !stem.contains(&0x0f);
        match self.kind {
            Kind::Legacy if escape(self.stem()) => prefix || opcode == 0x0f,
            Kind::Legacy => self.stem().ends_with(&[0x0f]) && matches!(opcode, 0x38 | 0x3a),
            _ => false,
        }
    }

    /// Returns the head of these bytes, if the verifier's decoder reads one.
    fn head(&self, opcode: u8, modrm: u8, sib: Option<u8>) -> Option<Head> {
        let mut bytes = [0u8; 24];
        let mut end = usize::from(self.length);
        bytes[..end].copy_from_slice(self.stem());
        for byte in [Some(opcode), Some(modrm), sib].into_iter().flatten() {
            bytes[end] = byte;
            end += 1;
        }
        let head: u128 = u128::from_le_bytes(bytes[..16].try_into().expect("16 bytes"));
        let tail = match (self.kind, opcode, modrm) {
            // The values that the regions demand: a dispatch table, a header.
            (Kind::Legacy, 0xff, _) if matches!(modrm >> 3 & 7, 2 | 4) => 0x10_0000,
            (Kind::Legacy, 0x03, _) if sib.is_some_and(|sib| sib & 7 == 5) && modrm < 0x40 => 0xf_f000,
            // A place in the window, relative to rip.
            (_, _, _) if modrm & 0xc7 == 5 => mix(head) & 0xffff,
            _ => mix(head),
        };
        bytes[end..end + 8].copy_from_slice(&tail.to_le_bytes());
        let mut bytes: [u8; 15] = bytes[..15].try_into().expect("15 bytes");
        let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
        let mut instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        if instruction.near_branch64() != 0 {
            // A branch to itself, which is a legal target everywhere.
            let constants = decoder.get_constant_offsets(&instruction);
            let (at, size) = (constants.immediate_offset(), constants.immediate_size());
            let distance = (instruction.len() as i64).wrapping_neg().to_le_bytes();
            bytes[at..at + size].copy_from_slice(&distance[..size]);
            instruction = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
        }
        Some(Head { instruction, bytes })
    }

    /// Says whether the opcode has no ModRM byte, judging by the length of the head.
    fn is_bare(&self, head: &Head) -> bool {
        let mut decoder = Decoder::with_ip(64, &head.bytes, 0, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let constants = decoder.get_constant_offsets(&instruction);
        let offsets = [
            (constants.displacement_offset(), constants.displacement_size()),
            (constants.immediate_offset(), constants.immediate_size()),
        ];
        let first = offsets.iter().filter(|(_, size)| *size != 0).map(|(offset, _)| *offset).min();
        first.unwrap_or(instruction.len()) == usize::from(self.length) + 1
    }
}

/// Hashes a value to a number that looks random.
pub fn mix(of: u128) -> u64 {
    let mut z = (of as u64) ^ (of >> 64) as u64 ^ 0x9e37_79b9_7f4a_7c15;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The random part of a walk.
#[derive(Clone, Copy)]
pub struct Thin {
    /// One of this many ModRM bytes is tried.
    pub modrm: u64,
    pub sib: u64,
    pub seed: u64,
}

impl Thin {
    fn keeps(&self, unit: &Unit, place: [u8; 3], one_in: u64) -> bool {
        let stem = unit.stem().iter().fold(self.seed, |all, byte| mix(u128::from(all) << 8 | u128::from(*byte)));
        let place = u32::from_le_bytes([place[0], place[1], place[2], 1]);
        one_in == 1 || mix(u128::from(stem) << 32 | u128::from(place)).is_multiple_of(one_in)
    }
}

/// SIB bytes that name ordinary registers, or no base.
const PROBES: [u8; 3] = [0x08, 0x25, 0x11];

fn has_sib(modrm: u8) -> bool {
    modrm < 0xc0 && modrm & 7 == 4
}

/// The heads of one opcode of a unit, before the verifier judges them.
#[derive(Default)]
pub struct Found {
    pub heads: Vec<Head>,
    /// The ModRM byte of each head.
    modrm: Vec<u8>,
    /// Heads tried, whether the decoder reads them or not.
    pub tried: u64,
}

impl Found {
    fn clear(&mut self) {
        self.heads.clear();
        self.modrm.clear();
        self.tried = 0;
    }

    fn push(&mut self, unit: &Unit, opcode: u8, modrm: u8, sib: Option<u8>) {
        self.tried += 1;
        if let Some(head) = unit.head(opcode, modrm, sib) {
            self.heads.push(head);
            self.modrm.push(modrm);
        }
    }

    /// Fills in the first heads of one opcode: every ModRM byte, with the probes for SIB, or all
    /// extreme SIB bytes for EVEX.
    pub fn begin(&mut self, unit: &Unit, opcode: u8, thin: &Thin) {
        self.clear();
        if unit.leads_on(opcode) {
            return;
        }
        let all = 0..=255u8;
        for modrm in all {
            let wanted = match unit.kind {
                _ if unit.thin => matches!(modrm, 0x05 | 0xc0),
                Kind::Evex => is_extreme_modrm(opcode, modrm),
                _ => true,
            };
            // ModRM 0 shows whether there is ModRM at all.
            if !wanted || modrm != 0 && !thin.keeps(unit, [opcode, modrm, 0], thin.modrm) {
                continue;
            }
            match (has_sib(modrm), unit.kind) {
                (false, _) => self.push(unit, opcode, modrm, None),
                (true, Kind::Evex) => {
                    for sib in EXTREME_SIBS {
                        if thin.keeps(unit, [opcode, modrm, sib], thin.sib.min(4)) {
                            self.push(unit, opcode, modrm, Some(sib));
                        }
                    }
                }
                (true, _) => PROBES.iter().for_each(|sib| self.push(unit, opcode, modrm, Some(*sib))),
            }
            if self.heads.len() == 1 && unit.is_bare(&self.heads[0]) {
                return;
            }
        }
    }

    /// Fills `rest` with the heads that follow from the verdict on the probes. A ModRM byte with an
    /// accepted probe is tried with the other SIB bytes, each other ModRM byte with one of them.
    /// Returns the start of the latter, and the number of heads that were cut.
    pub fn expand(
        &mut self,
        unit: &Unit,
        opcode: u8,
        accepted: &[bool],
        thin: &Thin,
        rest: &mut Found,
    ) -> (usize, u64) {
        rest.clear();
        if unit.kind == Kind::Evex || unit.thin {
            return (0, 0);
        }
        let (mut open, mut shut) = ([false; 256], [false; 256]);
        for (modrm, accepted) in self.modrm.iter().zip(accepted).filter(|(modrm, _)| has_sib(**modrm)) {
            let set = if *accepted { &mut open } else { &mut shut };
            set[usize::from(*modrm)] = true;
        }
        let others = || (0..=255u8).filter(|sib| !PROBES.contains(sib));
        for modrm in (0..=255u8).filter(|modrm| open[usize::from(*modrm)]) {
            for sib in others().filter(|sib| thin.keeps(unit, [opcode, modrm, *sib], thin.sib)) {
                rest.push(unit, opcode, modrm, Some(sib));
            }
        }
        let (first, mut cut) = (rest.heads.len(), 0);
        for modrm in (0..=255u8).filter(|modrm| shut[usize::from(*modrm)] && !open[usize::from(*modrm)]) {
            let stem = unit.stem().iter().fold(u128::from(modrm), |all, byte| all << 8 | u128::from(*byte));
            rest.push(unit, opcode, modrm, Some(mix(stem << 8 | u128::from(opcode)) as u8));
            cut += 252;
        }
        (first, cut)
    }
}

/// Says whether the ModRM byte is extreme: registers 0 and 7 (with the extensions 0 and 31), all
/// extensions of the opcode, and the addresses of SIB, rbp and the highest register.
fn is_extreme_modrm(opcode: u8, modrm: u8) -> bool {
    let group = matches!(opcode, 0x71..=0x73 | 0xc6 | 0xc7);
    matches!(modrm & 7, 0 | 4 | 5 | 7) && (group || matches!(modrm >> 3 & 7, 0 | 7))
}

/// Scale 1 and 8, index 0, 4 (none) and 7, base 0, 4 (rsp), 5 (rbp or none) and 7.
const EXTREME_SIBS: [u8; 24] = {
    let (mut sibs, mut n) = ([0; 24], 0);
    while n < 24 {
        let (scale, index, base) = ([0, 3][n / 12], [0, 4, 7][n / 4 % 3], [0, 4, 5, 7][n % 4]);
        sibs[n] = scale << 6 | index << 3 | base;
        n += 1;
    }
    sibs
};

/// Returns all orders of all subsets of one prefix of each group.
fn prefixes() -> Vec<Vec<u8>> {
    let mut sequences: Vec<Vec<u8>> = vec![vec![]];
    let mut next = 0;
    while next < sequences.len() {
        let sequence = sequences[next].clone();
        next += 1;
        for byte in [0x65, 0x67, 0x66, 0xf0, 0xf2, 0xf3] {
            let group = |byte: u8| if byte & 0xfc == 0xf0 { 0xf0 } else { byte };
            if sequence.iter().all(|other| group(*other) != group(byte)) {
                sequences.push([&sequence[..], &[byte]].concat());
            }
        }
    }
    sequences
}

/// Returns all units.
pub fn units() -> Vec<Unit> {
    let mut units = Vec::new();
    let sequences = prefixes();
    assert_eq!(sequences.len(), 163);
    for sequence in &sequences {
        let has = |byte: u8| u32::from(sequence.contains(&byte));
        let mandatory = has(0x66) | has(0xf0) << 1 | has(0xf2) << 2 | has(0xf3) << 3;
        for rex in std::iter::once(None).chain((0x40..=0x4f).map(Some)) {
            for (map, escape) in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]].into_iter().enumerate() {
                let wide = u32::from(rex.is_some_and(|rex: u8| rex & 8 != 0));
                let stratum = mandatory << 8 | wide << 4 | map as u32;
                units.push(Unit::new(Kind::Legacy, &[sequence, rex.as_slice(), escape], stratum));
            }
        }
    }
    let segments = sequences.iter().filter(|s| s.iter().all(|byte| matches!(byte, 0x65 | 0x67)));
    for sequence in segments {
        for second in 0..=255u8 {
            let stratum = 1 << 16 | u32::from(second & 7);
            units.push(Unit::new(Kind::Vex, &[sequence, &[0xc5, second]], stratum));
            for third in 0..=255u8 {
                let (map, stratum) = (second & 0x1f, u32::from(third & 0x87) << 5 | u32::from(second & 0x1f));
                let mut unit = Unit::new(Kind::Vex, &[sequence, &[0xc4, second, third]], 2 << 16 | stratum);
                unit.thin = !matches!(map, 1..=3);
                // The sample of these has few registers.
                if !unit.thin || second & 0xe0 == 0xe0 && third & 0x78 == 0x78 {
                    units.push(unit);
                }
            }
        }
        evex(sequence, &mut units);
    }
    units
}

/// Adds EVEX units whose register fields are 0 or all ones. No form on the list has another map.
fn evex(sequence: &[u8], units: &mut Vec<Unit>) {
    let bits =
        |fields: &[u8], n: usize| fields.iter().enumerate().fold(0, |all, (i, f)| all | (f * (n >> i & 1) as u8));
    for map in 1..=7u8 {
        // R and R' together; X; B.
        for extensions in 0..8 {
            let p0 = bits(&[0x90, 0x40, 0x20], extensions) | map;
            for n in 0..16 {
                let p1 = bits(&[0x80, 0x78, 0x01, 0x02], n) | 4;
                for m in 0..32 {
                    for mask in [0, 1, 7] {
                        // z, the vector's length, broadcast, V'.
                        let p2 = bits(&[0x80, 0x20, 0x40, 0x10, 0x08], m) | mask;
                        let stratum = u32::from(p2 & 0x60) << 8 | u32::from(p1 & 0x83) << 5 | u32::from(map);
                        let mut unit = Unit::new(Kind::Evex, &[sequence, &[0x62, p0, p1, p2]], 4 << 16 | stratum);
                        unit.thin = map > 3;
                        units.push(unit);
                    }
                }
            }
        }
    }
}
