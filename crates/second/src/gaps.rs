//! A reader for the encodings of the positive list that yaxpeax-x86 2.2 does not know, or misreads.
//! It does not know mask registers, some shifts by an immediate, AVX-512 gathers, and a few younger
//! extensions. It misreads an index of AVX2 gathers. Code for x86-64-v4 uses all of these.
//!
//! This reader follows the manual (SDM volume 2, sections 2.3 VEX, 2.7 EVEX) and no decoder's
//! tables. All of these encodings have a ModRM byte. None branches or touches the stack.

use crate::first::general;
use crate::reading::{Address, Reading, Register};

/// The ModRM operand is written.
const STORES: u8 = 1;
/// The ModRM operand is a general register if it is a register.
const GENERAL: u8 = 2;
/// The register field of ModRM is a general register that is written.
const TO_GENERAL: u8 = 4;
/// An immediate byte follows.
const IMMEDIATE: u8 = 8;
/// The index is a vector.
const GATHER: u8 = 16;
/// The ModRM operand is a mask register if it is a register. There are eight.
const MASK: u8 = 32;

/// The list: EVEX, opcode map, first and last opcode, properties.
#[rustfmt::skip]
const KNOWN: &[(bool, u8, u8, u8, u8)] = &[
    (false, 1, 0x41, 0x42, MASK),                            // kand, kandn
    (false, 1, 0x44, 0x47, MASK),                            // knot, kor, kxnor, kxor
    (false, 1, 0x4a, 0x4b, MASK),                            // kadd, kunpck
    (false, 1, 0x90, 0x90, MASK),                            // kmov k/m,k
    (false, 1, 0x91, 0x91, STORES),                       // kmov k,m
    (false, 1, 0x92, 0x92, GENERAL),                      // kmov r,k
    (false, 1, 0x93, 0x93, TO_GENERAL | MASK),                   // kmov k,r
    (false, 1, 0x98, 0x99, MASK),                            // kortest, ktest
    (false, 2, 0x50, 0x53, 0),                            // vpdpbusd[s], vpdpwssd[s]
    (false, 2, 0x90, 0x93, GATHER),                       // vpgather, vgather
    (false, 2, 0xcf, 0xcf, 0),                            // vgf2p8mulb
    (false, 3, 0x14, 0x15, STORES | GENERAL | IMMEDIATE), // vpextrb, vpextrw with W = 1
    (false, 3, 0x30, 0x33, IMMEDIATE | MASK),                    // kshiftr, kshiftl
    (false, 3, 0x44, 0x44, IMMEDIATE),                    // vpclmulqdq ymm
    (false, 3, 0xce, 0xcf, IMMEDIATE),                    // vgf2p8affineqb, vgf2p8affineinvqb
    (false, 3, 0x5c, 0x5f, IMMEDIATE),                    // FMA4 (AMD APM 6): vfmaddsub, vfmsubadd
    (false, 3, 0x68, 0x6f, IMMEDIATE),                    // vfmadd, vfmsub
    (false, 3, 0x78, 0x7f, IMMEDIATE),                    // vfnmadd, vfnmsub
    (true, 1, 0x71, 0x73, IMMEDIATE),                     // vps[rl]l[wdq], vpsra[wd], vps[rl]ldq
    (true, 1, 0x7b, 0x7b, GENERAL),                       // vcvtusi2sd
    (true, 2, 0x90, 0x93, GATHER),                        // vpgather, vgather
];

/// Reads the bytes. `None` unless they are one instruction of the list and nothing more.
pub(super) fn read(bytes: &[u8]) -> Option<Reading> {
    let mut reader = Reader { bytes, gs: false, narrow: false };
    let form = reader.form()?;
    let (_, _, _, _, what) = KNOWN.iter().find(|(evex, map, first, last, _)| {
        *evex == form.evex && *map == form.map && (*first..=*last).contains(&form.opcode)
    })?;
    let has = |bit: u8| what & bit != 0;
    let modrm = reader.byte()?;
    let mut reading = Reading::default();
    if has(TO_GENERAL) {
        reading.written = 1 << (modrm >> 3 & 7 | form.r << 3);
        reading.named = reading.written;
    }
    if modrm >> 6 == 3 {
        // This bit belongs to no register of the instruction. No assembler sets it.
        if has(MASK) && form.b != 0 || has(GENERAL) && form.evex && form.x != 0 {
            return None;
        }
        let register = if has(GENERAL) { 1 << (modrm & 7 | form.b << 3) } else { 0 };
        reading.named |= register;
        reading.written |= if has(STORES) { register } else { 0 };
    } else {
        let address = reader.address(&form, modrm, has(GATHER))?;
        reading.named |= [address.base, address.index].into_iter().flatten().map(general).fold(0, |all, bit| all | bit);
        reading.memory[0] = Some(address);
        reading.stores = u8::from(has(STORES));
    }
    if has(IMMEDIATE) {
        reader.byte()?;
    }
    reader.bytes.is_empty().then_some(reading)
}

/// The fields of a VEX or EVEX prefix, and the opcode. The register extensions are stored upright,
/// not inverted as in the prefix.
struct Form {
    evex: bool,
    map: u8,
    opcode: u8,
    r: u8,
    x: u8,
    b: u8,
    /// The fifth bit of a vector index.
    v: u8,
    w: bool,
    /// Vector length, bytes.
    length: u8,
    broadcast: bool,
}

struct Reader<'a> {
    bytes: &'a [u8],
    gs: bool,
    narrow: bool,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// Reads prefixes and opcode.
    fn form(&mut self) -> Option<Form> {
        loop {
            match self.byte()? {
                0x65 if !self.gs => self.gs = true,
                0x67 if !self.narrow => self.narrow = true,
                0xc5 => {
                    let p = self.byte()?;
                    return Some(Form::vex(0x61 | p & 0x80, p & 0x7f, self.byte()?));
                }
                0xc4 => {
                    let (p0, p1) = (self.byte()?, self.byte()?);
                    return Some(Form::vex(p0, p1, self.byte()?));
                }
                0x62 => {
                    let (p0, p1, p2) = (self.byte()?, self.byte()?, self.byte()?);
                    let form = Form::vex(p0 & 0xe7, p1 & 0x80, self.byte()?);
                    let (v, length) = (!p2 >> 3 & 1, 16 << (p2 >> 5 & 3));
                    return Some(Form { evex: true, v, length, broadcast: p2 & 0x10 != 0, ..form });
                }
                _ => return None,
            }
        }
    }

    /// Reads an address: Intel SDM volume 2, tables 2-2 and 2-3, with 64-bit mode's rip and the
    /// scaled displacement of EVEX (section 2.7.5).
    fn address(&mut self, form: &Form, modrm: u8, gather: bool) -> Option<Address> {
        let (mode, low) = (modrm >> 6, modrm & 7);
        let register = |n: u8| if self.narrow { Register::Narrow(n) } else { Register::Wide(n) };
        let (mut base, mut index, mut scale) = (Some(register(low | form.b << 3)), None, 1);
        let mut wide_displacement = mode == 2;
        if low == 4 {
            let sib = self.bytes.first().copied()?;
            let number = sib >> 3 & 7 | form.x << 3;
            index = match gather {
                true => Some(Register::Vector(form.index_bytes(), number | form.v << 4)),
                false if number == 4 => None,
                false => Some(register(number)),
            };
            scale = if index.is_some() { 1 << (sib >> 6) } else { 1 };
            base = Some(register(sib & 7 | form.b << 3));
            if sib & 7 == 5 && mode == 0 {
                (base, wide_displacement) = (None, true);
            }
            self.byte()?;
        } else if low == 5 && mode == 0 {
            (base, wide_displacement) = (Some(Register::Ip), true);
        }
        let displacement = if wide_displacement {
            i32::from_le_bytes([self.byte()?, self.byte()?, self.byte()?, self.byte()?])
        } else if mode == 1 {
            i32::from(self.byte()? as i8) * form.displacement_unit(gather)
        } else {
            0
        };
        Some(Address { base, index, scale, displacement, gs: self.gs, narrow: self.narrow })
    }
}

impl Form {
    /// Makes a form of the second and third byte of a three-byte VEX prefix.
    fn vex(p0: u8, p1: u8, opcode: u8) -> Form {
        let (r, x, b) = (!p0 >> 7 & 1, !p0 >> 6 & 1, !p0 >> 5 & 1);
        let length = 16 << (p1 >> 2 & 1);
        Form { evex: false, map: p0 & 0x1f, opcode, r, x, b, v: 0, w: p1 & 0x80 != 0, length, broadcast: false }
    }

    fn element(&self) -> u8 {
        if self.w { 8 } else { 4 }
    }

    /// Returns the unit of a one-byte displacement: one element, or the whole vector.
    fn displacement_unit(&self, gather: bool) -> i32 {
        match self.evex {
            false => 1,
            true if gather || self.broadcast || self.opcode == 0x7b => self.element().into(),
            true => self.length.into(),
        }
    }

    /// Returns the size of a gather's index register. It has as many indices as its data fit into
    /// the vector. A half vector still lies in an xmm register.
    fn index_bytes(&self) -> u8 {
        let index = if self.opcode & 1 == 0 { 4 } else { 8 };
        (self.length / self.element().max(index) * index).max(16)
    }
}
