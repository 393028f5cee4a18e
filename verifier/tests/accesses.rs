//! The verifier's rules about memory: stores, string instructions, and loads.

mod support;

use sfi_contract::Mode::{Full, Match, Write};
use sfi_contract::Rule;
use sfi_contract::matching::{HEAD, STORE, STORE_KEEPING_FLAGS};
use support::*;

#[test]
fn s01_s02_stores() {
    for code in [
        "48 89 07", // mov %rax,(%rdi)
        "88 07",
        "66 89 07",
        "c6 07 00", // mov $0,(%rdi)
        "48 01 07", // add
        "48 87 07", // xchg
        "86 07",
        "48 0f b1 0f",       // cmpxchg
        "f0 48 0f c1 0f",    // lock xadd
        "48 0f c7 0f",       // cmpxchg16b
        "0f 94 07",          // sete
        "ff 07",             // inc
        "f7 17",             // not
        "d1 27",             // shl
        "48 0f a4 07 03",    // shld
        "0f ba 2f 03",       // bts $3,(%rdi)
        "0f c3 07",          // movnti
        "0f 38 f1 07",       // movbe
        "0f 11 07",          // movups
        "66 0f 7f 07",       // movdqa
        "66 0f d6 07",       // movq
        "66 0f 3a 14 07 00", // pextrb
        "66 0f 3a 17 07 00", // extractps
        "0f e7 07",          // movntq
        "0f 7e 07",          // movd %mm0
        "c5 fc 11 07",       // vmovups
        "c4 e2 7d 2e 07",    // vmaskmovps
        "c4 e3 7d 1d 07 00", // vcvtps2ph
        "62 f1 7c 48 11 07", // vmovups zmm
        "62 f1 7c 49 11 07", // masked
        "62 f2 7d 48 8a 07", // vcompressps
        "62 f2 7e 48 31 07", // vpmovdb
        "c5 f8 91 07",       // kmovw
        "d9 1f",             // fstps
        "db 3f",             // fstpt
        "dd 37",             // fnsave
        "d9 37",             // fnstenv
        "d9 3f",             // fnstcw
        "dd 3f",             // fnstsw
        "df 37",             // fbstp
        "0f ae 1f",          // stmxcsr
        "c5 f8 ae 1f",       // vstmxcsr
    ] {
        let with = |prefixes: &str| format!("{prefixes} {code}");
        for mode in [Write, Full] {
            assert_eq!(text(code, mode), [Rule::StoreSegment], "{code}");
            assert_eq!(text(&with("67"), mode), [Rule::StoreSegment], "67 {code}");
            assert_eq!(text(&with("65"), mode), [Rule::StoreAddressSize], "65 {code}");
            accept(&with("65 67"), mode);
            accept(&with("67 65"), mode);
            assert_eq!(text(&with("64 67"), mode), [Rule::FsNamed], "fs {code}");
        }
        refuse(&with("65 67"), Match, Rule::Unmatched);
        for tail in [&STORE, &STORE_KEEPING_FLAGS] {
            // lea (%rdi),%rcx
            let check = [&filled(&HEAD), &[0x48, 0x8d, 0x0f][..], &filled(tail)].concat();
            let check: String = check.iter().map(|byte| format!("{byte:02x} ")).collect();
            accept(&format!("{check} {}", with("65 67")), Match);
            assert_eq!(text(&format!("{check} {}", with("65")), Match), [Rule::StoreAddressSize], "65 {code}");
        }
    }
    // rip-relative without a relocation, and absolute
    refuse("48 89 05 00 00 00 00", Write, Rule::StoreSegment);
    refuse("65 48 89 05 00 00 00 00", Write, Rule::StoreAddressSize);
    accept("65 67 48 89 05 00 00 00 00", Write);
    refuse("65 48 89 04 25 00 00 30 00", Write, Rule::StoreAddressSize);
    accept("65 67 48 89 04 25 00 00 30 00", Write);
}

#[test]
fn s01_stores_relative_to_rip() {
    // (instruction, offset of its displacement, distance from there to its end)
    let stores = [
        ("48 89 05 00 00 00 00", 3, 4),          // mov %rax,d(%rip)
        ("88 25 00 00 00 00", 2, 4),             // mov %ah,d(%rip)
        ("c7 05 00 00 00 00 01 00 00 00", 2, 8), // movl $1,d(%rip)
        ("66 c7 05 00 00 00 00 01 00", 3, 6),    // movw $1,d(%rip)
        ("83 05 00 00 00 00 05", 2, 5),          // addl $5,d(%rip)
        ("48 c1 25 00 00 00 00 02", 3, 5),       // shlq $2,d(%rip)
        ("f0 ff 05 00 00 00 00", 3, 4),          // lock incl d(%rip)
        ("f0 48 0f c7 0d 00 00 00 00", 5, 4),    // lock cmpxchg16b d(%rip)
        ("87 05 00 00 00 00", 2, 4),             // xchg %eax,d(%rip)
        ("0f 94 05 00 00 00 00", 3, 4),          // sete d(%rip)
        ("0f 11 05 00 00 00 00", 3, 4),          // movups %xmm0,d(%rip)
        ("62 f1 7c 48 11 05 00 00 00 00", 6, 4), // vmovups %zmm0,d(%rip)
        ("62 f1 7c 49 11 05 00 00 00 00", 6, 4), // masked
        ("c4 e3 7d 39 05 00 00 00 00 01", 5, 5), // vextracti128 $1,%ymm0,d(%rip)
        ("dd 35 00 00 00 00", 2, 4),             // fnsave d(%rip)
        ("db 3d 00 00 00 00", 2, 4),             // fstpt d(%rip)
        ("0f ae 1d 00 00 00 00", 3, 4),          // stmxcsr d(%rip)
    ];
    let at = |code: &str, offset: u64, behind: i64, mode| {
        let elf = Elf::text(&hex(code)).symbol(symbol("data", 0, 0)).relocations(1, &[(offset, R_PC32, 2, -behind)]);
        rules(&elf, mode)
    };
    for (code, offset, behind) in stores {
        for mode in [Write, Match, Full] {
            refuse(code, mode, Rule::StoreSegment);
            assert_eq!(at(code, offset, behind, mode), [], "{code}");
            // Either prefix alone makes another address of it.
            assert_eq!(at(&format!("67 {code}"), offset + 1, behind, mode), [Rule::StoreSegment], "67 {code}");
            assert_eq!(at(&format!("65 {code}"), offset + 1, behind, mode), [Rule::StoreAddressSize], "65 {code}");
        }
    }
    // The relocation is on the immediate, or on the next instruction.
    assert_eq!(at("c7 05 00 00 00 00 01 00 00 00", 6, 4, Write), [Rule::StoreSegment]);
    assert_eq!(at("89 05 00 00 00 00 8b 05 00 00 00 00", 8, 4, Write), [Rule::StoreSegment]);
    // A relocated displacement helps no other address: d(%rdi), d(,%rdi), d.
    for (code, offset) in [("89 87 00 00 00 00", 2), ("89 04 3d 00 00 00 00", 3), ("89 04 25 00 00 00 00", 3)] {
        assert_eq!(at(code, offset, 4, Write), [Rule::StoreSegment], "{code}");
    }
    // bts %eax,d(%rip) reaches beyond its operand.
    assert_eq!(at("0f ab 05 00 00 00 00", 3, 4, Write), [Rule::StoreMoving]);
    // It is no part of a region: a mask and its branch with such a store between them.
    let broken = "25 f8 ff 0f 00 89 05 00 00 00 00 65 67 ff 90 00 00 10 00";
    assert!(at(broken, 7, 4, Write).contains(&Rule::IndirectBranch));
}

#[test]
fn s03_moving_operands() {
    for code in [
        "65 67 0f ab 0f",             // bts %ecx,%gs:(%edi)
        "65 67 0f a3 0f",             // bt
        "48 0f b3 0f",                // btr
        "65 67 0f f7 c1",             // maskmovq
        "66 0f f7 c1",                // maskmovdqu
        "c5 f9 f7 c1",                // vmaskmovdqu
        "62 f2 7d 49 a0 04 37",       // vpscatterdd
        "65 67 62 f2 fd 49 a3 04 37", // vscatterqpd
        "66 0f 38 f8 07",             // movdir64b
        "f2 0f 38 f8 07",             // enqcmd
        "c4 e2 7a 4b 04 37",          // tilestored
    ] {
        refuse(code, Write, Rule::StoreMoving);
    }
    accept("0f ab c8", Write); // on a register
}

#[test]
fn s03_moffs_are_not_listed() {
    refuse("48 a3 00 00 00 00 00 00 00 00", Write, Rule::NotAllowed);
    refuse("65 67 a3 00 00 00 00", Write, Rule::NotAllowed);
}

#[test]
fn s04_string_stores() {
    for code in ["aa", "66 ab", "ab", "48 ab", "f3 aa", "f3 48 ab", "a4", "48 a5", "f3 a4", "f3 66 a5"] {
        refuse(code, Write, Rule::StringMask);
        accept(&format!("{RDI} {code}"), Write);
        // something between, the wrong register, the wrong order, one part only
        refuse(&format!("{RDI} 90 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff 90 65 48 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("{RSI} {code}"), Write, Rule::StringMask);
        refuse(&format!("65 48 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff {code}"), Write, Rule::StringMask);
        // the second of two string instructions
        refuse(&format!("{RDI} {code} {code}"), Write, Rule::StringMask);
        // another header word, no gs, a register beside, 32 bits
        refuse(&format!("89 ff 65 48 03 3c 25 08 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff 48 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff 65 48 03 3c 05 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff 65 48 03 bf 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 ff 65 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        // not truncated: mov %rdi,%rdi; mov %esi,%edi
        refuse(&format!("48 89 ff 65 48 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
        refuse(&format!("89 f7 65 48 03 3c 25 00 f0 0f 00 {code}"), Write, Rule::StringMask);
    }
    // either encoding of mov, and 67 on the add
    accept("8b ff 65 48 03 3c 25 00 f0 0f 00 aa", Write);
    accept("89 ff 65 67 48 03 3c 25 00 f0 0f 00 aa", Write);
}

#[test]
fn s04_string_loads() {
    for code in ["ac", "f3 48 ad"] {
        accept(code, Write);
        refuse(code, Full, Rule::StringMask);
        accept(&format!("{RSI} {code}"), Full);
        refuse(&format!("{RDI} {code}"), Full, Rule::StringMask);
    }
    for code in ["ae", "f2 ae", "f3 ae"] {
        accept(code, Write);
        refuse(code, Full, Rule::StringMask);
        accept(&format!("{RDI} {code}"), Full);
    }
    for code in ["a4", "f3 a4", "a6", "f3 a6", "f2 a6"] {
        refuse(&format!("{RDI} {code}"), Full, Rule::StringMask);
        refuse(&format!("{RSI} {code}"), Full, Rule::StringMask);
        refuse(&format!("{RDI} {RSI} {code}"), Full, Rule::StringMask);
        accept(&format!("{RSI} {RDI} {code}"), Full);
        accept(&format!("{RSI} {RDI} {code}"), Write);
    }
}

#[test]
fn l01_loads() {
    for code in [
        "48 8b 07", // mov (%rdi),%rax
        "0f b6 07",
        "3b 07",       // cmp
        "85 07",       // test
        "0f af 07",    // imul
        "f7 37",       // div
        "48 0f 44 07", // cmove
        "0f 10 07",    // movups
        "c5 fc 28 07",
        "62 f1 7c 48 28 07",
        "62 f1 7c 58 58 07",       // vaddps broadcast
        "d9 07",                   // flds
        "dd 27",                   // frstor
        "0f ae 17",                // ldmxcsr
        "0f ba 27 03",             // bt $3,(%rdi)
        "48 8b 05 00 00 00 00",    // rip-relative without a relocation
        "48 8b 04 25 00 00 00 00", // absolute
    ] {
        accept(code, Write);
        refuse(code, Full, Rule::LoadUnconfined);
        accept(&format!("65 67 {code}"), Full);
        refuse(&format!("65 {code}"), Full, Rule::LoadUnconfined);
        refuse(&format!("67 {code}"), Full, Rule::LoadUnconfined);
    }
    accept("d7", Write); // xlat
    refuse("d7", Full, Rule::LoadUnconfined);
    // rip-relative with a relocation, plain only
    let at = |code: &str, offset: u64| {
        let elf = Elf::text(&hex(code)).symbol(symbol("data", 0, 0)).relocations(1, &[(offset, R_PC32, 2, -4)]);
        rules(&elf, Full)
    };
    assert_eq!(at("48 8b 05 00 00 00 00", 3), []);
    assert_eq!(at("65 48 8b 05 00 00 00 00", 4), [Rule::LoadUnconfined]);
    assert_eq!(at("67 48 8b 05 00 00 00 00", 4), [Rule::LoadUnconfined]);
    // the relocation is on the immediate: cmpl $0,0(%rip)
    assert_eq!(at("81 3d 00 00 00 00 00 00 00 00", 6), [Rule::LoadUnconfined]);
    assert_eq!(at("81 3d 00 00 00 00 00 00 00 00", 2), []);
    // the header word, unless it is relocated
    accept("65 48 03 3c 25 00 f0 0f 00", Full);
    assert_eq!(at("65 48 03 3c 25 00 f0 0f 00", 5), [Rule::LoadUnconfined]);
}

/// A load that a mask leaves out never faults. Such loads are confined in every mode, and refused
/// with only one of the two prefixes.
#[test]
fn l02_loads_that_a_mask_may_leave_out() {
    for code in [
        "c4 e2 75 2c 07",       // vmaskmovps (%rdi),%ymm1,%ymm0
        "c4 e2 71 2d 07",       // vmaskmovpd, xmm
        "c4 e2 75 8c 07",       // vpmaskmovd
        "c4 e2 f1 8c 07",       // vpmaskmovq, xmm
        "c4 e2 6d 90 04 37",    // vpgatherdd, AVX2
        "c4 e2 ed 93 04 37",    // vgatherqpd
        "62 f2 7d 49 90 04 37", // vpgatherdd %zmm
        "62 f2 fd 49 93 04 37", // vgatherqpd %zmm
        "62 f1 7c 49 28 07",    // vmovaps (%rdi),%zmm0{%k1}
        "62 f1 7c cf 28 07",    // vmovaps (%rdi),%zmm0{%k7}{z}
        "62 f1 7e 09 10 07",    // vmovss (%rdi),%xmm0{%k1}
        "62 f1 7c 59 58 07",    // vaddps (%rdi){1to16},%zmm0,%zmm0{%k1}
        "62 f1 75 49 76 07",    // vpcmpeqd (%rdi),%zmm1,%k0{%k1}
        "62 f3 75 49 3e 07 04", // vpcmpub $4,(%rdi),%zmm1,%k0{%k1}
        "62 f2 7d 49 88 07",    // vexpandps (%rdi),%zmm0{%k1}
        "62 f2 7d c9 89 07",    // vpexpandd (%rdi),%zmm0{%k1}{z}
        "62 f2 7d 49 58 07",    // vpbroadcastd (%rdi),%zmm0{%k1}
        "62 f1 7d 49 72 37 03", // vpslld $3,(%rdi),%zmm0{%k1}
    ] {
        for mode in [Write, Full, Match] {
            refuse(code, mode, Rule::SilentAccess);
            refuse(&format!("65 {code}"), mode, Rule::SilentAccess);
            refuse(&format!("67 {code}"), mode, Rule::SilentAccess);
            accept(&format!("65 67 {code}"), mode);
            accept(&format!("67 65 {code}"), mode);
        }
    }
    // rip-relative: no relocation makes up for it
    refuse("62 f1 7c 49 28 05 00 00 00 00", Write, Rule::SilentAccess);
    assert!(text("62 f1 7c 49 28 05 00 00 00 00", Full).contains(&Rule::SilentAccess));
    accept("65 67 62 f1 7c 49 28 05 00 00 00 00", Full);
    // Registers, no mask, and a mask that only stores or reads no memory: other rules, or none.
    accept("62 f1 7c 49 28 c1", Write); // vmovaps %zmm1,%zmm0{%k1}
    accept("62 f1 7c 48 28 07", Write); // without a mask
    accept("c5 f8 90 07", Write); // kmovw (%rdi),%k0
    refuse("62 f1 7c 49 29 07", Write, Rule::StoreSegment); // vmovaps %zmm0,(%rdi){%k1}
    refuse("48 0f 44 07", Full, Rule::LoadUnconfined); // cmove loads whatever the flags say
}

#[test]
fn l02_hints_about_addresses() {
    for code in [
        "0f 18 00",             // prefetchnta (%rax)
        "0f 18 08",             // prefetcht0
        "0f 18 10",             // prefetcht1
        "0f 18 18",             // prefetcht2
        "0f 0d 00",             // prefetch
        "0f 0d 08",             // prefetchw
        "0f 0d 10",             // prefetchwt1
        "0f 18 3d 00 00 00 00", // prefetchit0 0(%rip)
        "0f 18 35 00 00 00 00", // prefetchit1 0(%rip)
        "0f 1c 00",             // cldemote
    ] {
        for mode in [Write, Full] {
            for code in [code.to_owned(), format!("67 {code}"), format!("65 67 {code}")] {
                refuse(&code, mode, Rule::SilentAccess);
            }
        }
    }
    // Flushes fault if nothing is mapped. A domain may not use them nevertheless.
    for code in ["0f ae 38", "66 0f ae 38", "66 0f ae 30"] {
        refuse(code, Write, Rule::System);
    }
    accept("0f 1f 00 | 48 8d 07", Write); // nopl (%rax) and lea access nothing
}
