//! The known differences between decoders, each with its reason. When all heads are read, a
//! difference that is not here fails, and so does an entry without a case.
//!
//! If iced and another decoder differ, the remaining decoders agree with iced. The differences
//! about addresses and lengths of stores are tried on the processor in `tests/hardware.rs`.

use crate::reading::Difference::{self, *};
use crate::reading::{Operand, Part, Reading, control};
use iced_x86::{CpuidFeature, EncodingKind, Instruction, Mnemonic as M, OpKind, Register};

/// A decoder that is compared with iced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Other {
    Yaxpeax,
    Zydis,
    Llvm,
}

impl Other {
    pub const ALL: [Other; 3] = [Other::Yaxpeax, Other::Zydis, Other::Llvm];
}

/// One disagreement.
pub struct Case<'a> {
    pub instruction: &'a Instruction,
    pub bytes: &'a [u8],
    /// iced's reading.
    pub one: &'a Reading,
    pub other: &'a Reading,
}

impl Case<'_> {
    fn is(&self, mnemonics: &[M]) -> bool {
        mnemonics.contains(&self.instruction.mnemonic())
    }

    fn needs(&self, features: &[CpuidFeature]) -> bool {
        self.instruction.cpuid_features().iter().any(|feature| features.contains(feature))
    }

    /// Returns both readings' operands of one place.
    fn operands(&self) -> Option<(Operand, Operand)> {
        self.one.memory[0].zip(self.other.memory[0])
    }

    /// Returns the legacy prefixes, and the REX byte after them.
    fn prefixes(&self) -> (&[u8], u8) {
        let legacy = |byte: &&u8| matches!(**byte, 0x65..=0x67 | 0xf0 | 0xf2 | 0xf3);
        let count = self.bytes.iter().take_while(legacy).count();
        let rex = self.bytes[count];
        (&self.bytes[..count], if rex & 0xf0 == 0x40 { rex } else { 0 })
    }
}

/// One reason for differences.
pub struct Known {
    pub decoder: Other,
    pub differences: &'static [Difference],
    pub concerns: fn(&Case<'_>) -> bool,
    pub reason: &'static str,
}

const fn known(
    decoder: Other,
    differences: &'static [Difference],
    reason: &'static str,
    concerns: fn(&Case<'_>) -> bool,
) -> Known {
    Known { decoder, differences, concerns, reason }
}

/// All known differences.
pub const KNOWN: &[Known] = &[
    known(Other::Yaxpeax, &[Unknown], "mask registers: crates/second/src/gaps.rs reads them", |case| {
        let vex = case.instruction.code().encoding() == EncodingKind::VEX;
        vex && case.needs(&[CpuidFeature::AVX512F, CpuidFeature::AVX512BW, CpuidFeature::AVX512DQ])
    }),
    known(Other::Yaxpeax, &[Unknown], "younger extensions: gaps.rs reads them", |case| {
        use CpuidFeature as C;
        case.needs(&[C::FMA4, C::GFNI, C::VPCLMULQDQ, C::AVX_VNNI])
    }),
    known(
        Other::Yaxpeax,
        &[Unknown],
        "EVEX shifts by an immediate, vcvtusi2sd, vcvtusi2ss: gaps.rs reads them",
        |case| {
            use M::*;
            let shift = case.is(&[Vpsrlw, Vpsraw, Vpsllw, Vpslld, Vpsrlq, Vpsrldq, Vpsllq, Vpslldq]);
            let evex = case.instruction.code().encoding() == EncodingKind::EVEX;
            evex && (shift && case.instruction.op_kind(2) == OpKind::Immediate8 || case.is(&[Vcvtusi2sd, Vcvtusi2ss]))
        },
    ),
    known(Other::Yaxpeax, &[Unknown], "vpextrb and vpextrw with W: gaps.rs reads them", |case| {
        case.is(&[M::Vpextrb, M::Vpextrw])
    }),
    known(Other::Yaxpeax, &[Unknown], "EVEX gathers: gaps.rs reads them", |case| {
        case.instruction.is_vsib() && case.instruction.code().encoding() == EncodingKind::EVEX
    }),
    known(
        Other::Yaxpeax,
        &[Address, Reads, Vectors],
        "VEX gathers: no access, and index 4 is none: gaps.rs reads them",
        |case| case.instruction.is_vsib(),
    ),
    known(Other::Yaxpeax, &[Reads], "a plain store also reads", |case| {
        case.operands().is_some_and(|(one, other)| one.writes && other.writes && other.reads && !one.reads)
    }),
    known(Other::Yaxpeax, &[Reads, Writes], "cmps, scas and frstor write: second/src/yaxpeax.rs has them", |case| {
        use M::*;
        case.is(&[Cmpsb, Cmpsw, Cmpsd, Cmpsq, Scasb, Scasw, Scasd, Scasq, Frstor])
    }),
    known(Other::Yaxpeax, &[Operands], "xlat has no operand", |case| case.is(&[M::Xlatb])),
    known(Other::Yaxpeax, &[Reads], "lea and nop read", |case| case.is(&[M::Lea, M::Nop])),
    known(Other::Yaxpeax, &[Vectors], "EVEX.X is no bit of a destination in ModRM", |case| {
        let evex = case.instruction.code().encoding() == EncodingKind::EVEX;
        evex && case.one.vectors == case.other.vectors << 16
    }),
    known(Other::Zydis, &[Address], "67, base 5 without displacement and REX.B: r13d, and not none", |case| {
        case.operands().is_some_and(|(one, other)| {
            one.base.is_none() && other.base == Some(Part::Narrow(13)) && other.displacement == 0
        })
    }),
    known(Other::Zydis, &[Address], "xlat has no index", |case| case.is(&[M::Xlatb])),
    known(Other::Zydis, &[Vectors], "vzeroall and vzeroupper write nothing", |case| {
        case.is(&[M::Vzeroall, M::Vzeroupper])
    }),
    known(Other::Zydis, &[Reads], "nop reads", |case| case.is(&[M::Nop])),
    known(Other::Zydis, &[General], "cmps and scas do not move their pointers", |case| {
        use M::*;
        let string = case.is(&[Cmpsb, Cmpsw, Cmpsd, Cmpsq, Scasb, Scasw, Scasd, Scasq]);
        string && case.one.general & !case.other.general & !0xc0 == 0
    }),
    known(Other::Zydis, &[Control], "int3 changes the flags that its handler gets", |case| {
        case.is(&[M::Int3]) && case.other.control == control::FLAGS
    }),
    known(
        Other::Llvm,
        &[Unknown, Vectors, Reads, Writes, General, Address, Operands, Narrow],
        "66 that another prefix separates from REX.W selects nothing",
        |case| {
            let (legacy, rex) = case.prefixes();
            rex & 8 != 0 && legacy.contains(&0x66) && legacy.last() != Some(&0x66)
        },
    ),
    known(Other::Llvm, &[Unknown, Reads, Writes, General], "66 after f2 or f3 hides them", |case| {
        let (legacy, _) = case.prefixes();
        let place = |wanted: &[u8]| legacy.iter().position(|byte| wanted.contains(byte));
        place(&[0xf2, 0xf3]).zip(place(&[0x66])).is_some_and(|(first, second)| first < second)
    }),
    known(
        Other::Llvm,
        &[Unknown, Vectors, Reads, Writes, General, Masks],
        "67 before VEX of two bytes with 66 in it: VEX is forgotten",
        |case| {
            let (legacy, _) = case.prefixes();
            let vex = &case.bytes[legacy.len()..];
            legacy.contains(&0x67) && vex[0] == 0xc5 && vex[1] & 7 == 1
        },
    ),
    known(Other::Llvm, &[Unknown], "EVEX.W of shifts and vpalignr, which ignore it", |case| {
        case.is(&[M::Vpsrlw, M::Vpsraw, M::Vpsllw, M::Vpalignr])
            && case.instruction.code().encoding() == EncodingKind::EVEX
    }),
    known(Other::Llvm, &[Unknown], "a rounding mode of what is exact", |case| {
        case.is(&[M::Vcvtdq2pd, M::Vcvtudq2pd, M::Vcvtusi2sd, M::Vcvtsi2sd])
    }),
    known(Other::Llvm, &[Reads], "rcl and rcr of memory read nothing", |case| case.is(&[M::Rcl, M::Rcr])),
    known(Other::Llvm, &[Address], "the displacement of a broadcast is not scaled", |case| {
        case.instruction.is_broadcast() && case.is(&[M::Vgf2p8affineqb, M::Vgf2p8affineinvqb])
    }),
    known(Other::Llvm, &[Address], "the displacement of a store of half a vector counts in whole ones", |case| {
        case.is(&[M::Vmovq]) && case.instruction.code().encoding() == EncodingKind::EVEX
    }),
    known(Other::Llvm, &[Reads], "expand loads read nothing", |case| {
        use M::*;
        case.is(&[Vpexpandb, Vpexpandw, Vpexpandd, Vpexpandq, Vexpandps, Vexpandpd])
    }),
    known(Other::Llvm, &[Writes], "vextract to memory writes nothing", |case| {
        use M::*;
        case.is(&[Vextractf64x2, Vextracti64x2, Vextractf32x8, Vextracti32x8, Vextractf32x4, Vextracti32x4])
            || case.is(&[Vextractf64x4, Vextracti64x4])
    }),
    known(Other::Llvm, &[Unknown], "EVEX.B where the register is a mask register", |case| {
        case.is(&[M::Vpbroadcastmw2d, M::Vpbroadcastmb2q, M::Vpmovm2b, M::Vpmovm2w, M::Vpmovm2d, M::Vpmovm2q])
    }),
    known(Other::Llvm, &[Reads], "movntq reads", |case| case.is(&[M::Movntq])),
    known(Other::Llvm, &[Reads], "masked stores read", |case| {
        let store = case.operands().is_some_and(|(one, other)| one.writes && other.writes && other.reads);
        store && case.is(&[M::Vmaskmovps, M::Vmaskmovpd, M::Vpmaskmovd, M::Vpmaskmovq])
    }),
    known(Other::Llvm, &[Writes], "ldmxcsr writes its operand", |case| case.is(&[M::Ldmxcsr, M::Vldmxcsr])),
    known(Other::Llvm, &[General], "cwd, cdq and cqo write rax also", |case| case.is(&[M::Cwd, M::Cdq, M::Cqo])),
    known(Other::Llvm, &[Control], "calls and returns do not move rsp", |case| {
        case.one.control == control::STACK && case.other.control == 0
    }),
    known(Other::Llvm, &[Operands], "xlat has no operand", |case| {
        case.is(&[M::Xlatb]) && case.instruction.memory_base() == Register::RBX
    }),
];

/// Returns the entry for a difference.
pub fn lookup(decoder: Other, difference: Difference, case: &Case<'_>) -> Option<usize> {
    KNOWN
        .iter()
        .position(|known| known.decoder == decoder && known.differences.contains(&difference) && (known.concerns)(case))
}
