//! The rules about single instructions: both outcomes of each.

mod support;

use sfi_contract::Mode::{Full, Match, Write};
use sfi_contract::Rule;
use support::*;

#[test]
fn ordinary_code_is_accepted() {
    for code in [
        "",
        "c3",                                           // ret
        "f3 c3",                                        // repz ret
        "f3 0f 1e fa",                                  // endbr64
        "90 | 66 90 | 0f 1f 40 00 | 66 0f 1f 44 00 00", // nops
        "48 8d 04 3e",                                  // lea (%rsi,%rdi),%rax
        "67 8d 07",                                     // lea (%edi),%eax
        "67 48 8d 04 37",                               // lea (%edi,%esi),%rax
        "0f a2",                                        // cpuid
        "cc | 0f 0b",                                   // int3, ud2
        "0f a3 c8",                                     // bt %ecx,%eax
        "f3 0f b8 c7 | 66 f3 0f b8 c7",                 // popcnt
        "66 0f 38 f6 c7 | f3 0f 38 f6 c7",              // adcx, adox
        "c4 e3 79 69 c2 30",                            // vfmaddpd: FMA4, #UD where absent
        "c5 f8 77",                                     // vzeroupper
        "9b | d9 ee",                                   // fwait, fldz
        "0f ae e8 | 0f ae f0 | 0f ae f8 | f3 90",       // fences, pause
        "40 88 c7",                                     // mov %al,%dil
        "e3 fe",                                        // jrcxz self
    ] {
        for mode in [Write, Full, Match] {
            accept(code, mode);
        }
    }
}

#[test]
fn d01_undecodable_bytes() {
    for code in [
        "06",                // push %es, not in 64-bit mode
        "ff ff",             // no such group member
        "c5",                // cut short
        "90 48 b8 00 00",    // cut short
        "d5 00 00",          // REX2, unknown here
        "62 f1 78 48 28 c0", // EVEX with its fixed bit clear
        "62 fc 7c 48 28 c0", // EVEX with the APX bit set
    ] {
        refuse(code, Write, Rule::Undecodable);
    }
    // The text after the next symbol is checked too.
    let elf = Elf::text(&hex("06 06 48 89 07")).symbol(symbol("g", 1, 2));
    assert_eq!(rules(&elf, Write), [Rule::Undecodable, Rule::StoreSegment]);
}

#[test]
fn d02_instructions_nobody_reviewed() {
    for code in [
        "0f b9 c0",                  // ud1
        "66 0f c8",                  // bswap %ax
        "66 63 c7",                  // movsxd %di,%ax
        "d1 f0",                     // sal, the alias
        "f6 c8 01",                  // test, the alias
        "f3 0f c7 f8",               // rdpid
        "0f 18 20",                  // reserved prefetch
        "c4 e2 48 f2 c0 | 0f ff c0", // andn is fine, ud0 is not
    ] {
        let rules = text(code, Write);
        assert!(rules == [Rule::NotAllowed] || rules == [Rule::System], "{code} {rules:?}");
    }
    refuse("0f b9 c0", Write, Rule::NotAllowed);
}

/// The clock is off and the identity is on, unless the host says otherwise.
#[test]
fn d02_clock_and_identity_are_policies() {
    let rules = |code: &str, clock, identity| {
        let bytes = Elf::text(&hex(code)).build();
        rules_of(
            &sfi_verifier::verify(&bytes, &sfi_verifier::Options { clock, identity, ..Default::default() }).unwrap(),
        )
    };
    for (code, clock) in [("0f 31", true), ("0f a2", false)] {
        for others in [false, true] {
            assert_eq!(rules(code, !clock && others, clock && others), [Rule::NotAllowed], "{code}");
            assert_eq!(rules(code, clock || others, !clock || others), [], "{code}");
        }
    }
    refuse("0f 31", Write, Rule::NotAllowed);
    accept("0f a2", Write);
    // The other clocks are never granted.
    for code in ["0f 01 f9", "0f 33", "f3 0f c7 f8", "66 0f ae f0", "f2 0f ae f0", "f3 0f ae f0"] {
        let all = rules(code, true, true);
        assert!(all == [Rule::System] || all == [Rule::NotAllowed], "{code} {all:?}");
    }
}

#[test]
fn d03_prefixes() {
    for code in [
        "66 c3",             // ret with 66
        "f2 c3",             // bnd ret
        "f3 48 c3",          // REX on ret
        "66 e8 00 00 00 00", // call with 66
        "f2 e9 00 00 00 00", // bnd jmp
        "2e 74 00",          // branch hint
        "67 e3 fd",          // jecxz
        "48 e9 00 00 00 00", // REX on jmp
        "66 66 90",          // twice
        "66 48 89 c7",       // 66 has no effect under REX.W
        "66 88 c7",          // nor on bytes
        "f3 89 c7",          // rep on mov
        "f2 89 c7",
        "f3 66 0f 1f 00",                // rep nop
        "48 66 89 c7",                   // REX before a legacy prefix
        "48 48 89 c7",                   // two REX
        "f0 89 c7",                      // lock on mov
        "65 89 c7",                      // gs without memory
        "67 89 c7",                      // address size without memory
        "65 48 8d 07",                   // gs on lea
        "65 0f 1f 00",                   // gs on nop
        "3e ff e0",                      // notrack (and an indirect branch)
        "66 c5 f8 77",                   // 66 before VEX
        "48 c5 f8 77",                   // REX before VEX
        "f3 f2 0f 10 c1",                // two of group 1
        "66 2e 0f 1f 84 00 00 00 00 00", // the assembler's long nop
        "66 9b",                         // 66 on fwait
        "f2 a4",                         // repne movs
    ] {
        let rules = text(code, Write);
        assert!(
            rules.contains(&Rule::Prefix) || rules == [Rule::Undecodable] || rules == [Rule::NotAllowed],
            "{code}: {rules:?}"
        );
    }
    for code in ["66 c3", "2e 74 00", "66 48 89 c7", "65 89 c7", "67 89 c7", "65 48 8d 07", "48 e9 fa ff ff ff"] {
        refuse(code, Write, Rule::Prefix);
    }
    // lock on an instruction that may have it
    accept("65 67 f0 48 01 07", Write);
    // lock on a register: the decoder itself refuses it
    refuse("f0 48 01 c7", Write, Rule::Undecodable);
    // 67 with string instructions
    assert!(text("67 ab", Write).contains(&Rule::Prefix));
}

#[test]
fn d04_system_instructions() {
    for code in [
        "0f 05",             // syscall
        "0f 34",             // sysenter
        "cd 80",             // int $0x80
        "f1",                // int1
        "f4",                // hlt
        "fa",                // cli
        "fd",                // std
        "e4 00",             // in
        "ee",                // out
        "6c",                // ins
        "0f 01 f9",          // rdtscp
        "0f 01 d0",          // xgetbv
        "0f 33",             // rdpmc
        "0f 01 ee",          // rdpkru
        "0f 01 ef",          // wrpkru
        "0f 01 c8",          // monitor
        "c7 f8 00 00 00 00", // xbegin
        "0f 01 d5",          // xend
        "0f 01 d6",          // xtest
        "0f ae 27",          // xsave
        "0f ae 2f",          // xrstor
        "0f ae 07",          // fxsave
        "0f c7 27",          // xsavec
        "0f ae 3f",          // clflush
        "0f 01 07",          // sgdt
        "0f 01 0f",          // sidt
        "0f 00 c0",          // sldt
        "0f 00 c8",          // str
        "0f 01 e0",          // smsw
        "0f 02 c0",          // lar
        "0f 03 c0",          // lsl
        "f3 48 0f ae e8",    // incssp
        "ff 28",             // ljmp
        "48 ff 18",          // lcall
        "cb",                // lret
        "48 cf",             // iretq
        "0f 20 c0",          // mov %cr0,%rax
        "f3 0f c7 f0",       // senduipi
        "66 0f ae f0",       // tpause
    ] {
        refuse(code, Write, Rule::System);
    }
}

/// Every store form without its two prefixes, with one, and with both.
#[test]
fn c01_stack_pointer() {
    for code in [
        "48 89 e0", // mov %rsp,%rax
        "48 89 c4", // mov %rax,%rsp
        "89 e0",
        "66 89 e0",
        "40 88 e0",            // mov %spl,%al
        "48 83 ec 08",         // sub $8,%rsp
        "48 8d 64 24 08",      // lea 8(%rsp),%rsp
        "48 8b 04 24",         // mov (%rsp),%rax
        "67 8b 04 24",         // mov (%esp),%eax
        "48 8b 04 04",         // mov (%rsp,%rax),%rax
        "48 0f c8 | 48 0f cc", // bswap %rsp
        "48 94",               // xchg %rax,%rsp
        "49 0f 44 e0",         // cmove %r8,%rsp
        "c4 e2 fb f6 e0",      // mulx %rax,%rax,%rsp
        "c4 e2 db f6 c0",      // mulx %rax,%rsp,%rax
        "f3 48 0f b8 e0",      // popcnt %rax,%rsp
        "0f c7 f4",            // rdrand %esp
        "66 48 0f 7e c4",      // movq %xmm0,%rsp
        "48 c7 c4 00 00 00 00",
        "48 bc 00 00 00 00 00 00 00 00",
        "0f a3 e0",          // bt %esp,%eax
        "62 f2 7d 48 7c c4", // vpbroadcastd %esp,%zmm0
        "8d 44 24 08",       // lea 8(%rsp),%eax
        "c5 fb 93 e0",       // kmovd %k0,%esp
    ] {
        refuse(code, Write, Rule::StackPointer);
    }
    refuse("65 67 48 89 04 24", Write, Rule::StackPointer); // mov %rax,%gs:(%esp)
    assert_eq!(text("48 89 04 24", Write), [Rule::StoreSegment, Rule::StackPointer]);
    accept("4c 89 e0 | 44 88 e0 | 88 e0", Write); // r12, r12b, ah
}

#[test]
fn c02_implicit_stack() {
    for code in [
        "68 00 00 00 00",
        "6a 00",
        "ff 37",
        "8f 07",
        "9c",
        "9d",
        "c9",
        "c8 00 00 00",
        "c2 08 00",
        "48 c2 08 00",
        "66 50",
    ] {
        let rules = text(code, Write);
        assert!(rules.contains(&Rule::StackImplicit), "{code}: {rules:?}");
    }
}

const MASK: &str = "81 e0 f8 ff 0f 00";

#[test]
fn i01_indirect_branches() {
    for mode in [Write, Full] {
        accept(&format!("{MASK} 65 67 ff 90 00 00 10 00"), mode); // call
        accept(&format!("{MASK} 65 67 ff a0 00 00 10 00"), mode); // jmp
        accept("25 f8 ff 0f 00 65 67 ff 90 00 00 10 00", mode); // the short and
        accept("41 81 e3 f8 ff 0f 00 65 67 41 ff 93 00 00 10 00", mode); // r11d
        accept("41 81 e4 f8 ff 0f 00 65 67 41 ff 94 24 00 00 10 00", mode); // r12d
        accept("41 81 e5 f8 ff 0f 00 65 67 41 ff a5 00 00 10 00", mode); // r13d
    }
    for code in [
        "ff e0", // jmp *%rax
        "ff d0", // call *%rax
        "41 ff e3",
        "ff 20",                                        // jmp *(%rax)
        "65 67 ff a0 00 00 10 00",                      // without the mask
        "81 e0 f8 ff 0f 00 90 65 67 ff a0 00 00 10 00", // not adjacent
        "81 e1 f8 ff 0f 00 65 67 ff a0 00 00 10 00",    // another register
        "81 e0 f9 ff 0f 00 65 67 ff a0 00 00 10 00",    // another mask
        "81 e0 f8 ff 1f 00 65 67 ff a0 00 00 10 00",
        "48 81 e0 f8 ff 0f 00 65 67 ff a0 00 00 10 00", // 64 bits
        "81 c8 f8 ff 0f 00 65 67 ff a0 00 00 10 00",    // or
        "81 e0 f8 ff 0f 00 65 67 ff a0 08 00 10 00",    // another table
        "81 e0 f8 ff 0f 00 65 67 ff a4 00 00 00 10 00", // with an index
        "81 e0 f8 ff 0f 00 65 67 ff a4 20 00 00 10 00 | 65 67 ff e0", // a second branch
        "81 e0 f8 ff 0f 00 ff e0",                      // masked, but straight
        "81 e0 f8 ff 0f 00 65 ff a0 00 00 10 00",       // 64-bit address
        "81 e0 f8 ff 0f 00 67 ff a0 00 00 10 00",       // no gs
        "81 e0 f8 ff 0f 00 65 67 48 ff a0 00 00 10 00", // REX.W
        "81 e0 f8 ff 0f 00 65 67 ff 60 00",             // no displacement
    ] {
        let rules = text(code, Write);
        assert!(rules.contains(&Rule::IndirectBranch), "{code}: {rules:?}");
    }
    // a 16-bit target
    assert!(!text("81 e0 f8 ff 0f 00 65 67 66 ff a0 00 00 10 00", Write).is_empty());
}

#[test]
fn f01_fs() {
    for code in ["64 48 8b 04 25 28 00 00 00", "64 89 07", "64 90", "65 64 8b 07", "64 e9 00 00 00 00"] {
        refuse(code, Write, Rule::FsNamed);
    }
}

#[test]
fn f02_segments() {
    for code in [
        "8e d8", // mov %eax,%ds
        "8c d8",
        "65 67 8c 1f", // to memory
        "8e 2f",
        "0f a0",          // push %fs
        "0f a9",          // pop %gs
        "f3 48 0f ae d8", // wrgsbase
        "f3 48 0f ae d0", // wrfsbase
        "f3 48 0f ae c0", // rdfsbase
        "f3 48 0f ae c8", // rdgsbase
        "0f 01 f8",       // swapgs
        "0f b2 07",       // lss
        "48 0f b4 07",    // lfs
    ] {
        refuse(code, Write, Rule::SegmentState);
    }
}

#[test]
fn usage_comes_from_the_instructions() {
    use sfi_verifier::Vectors;
    let usage = |code: &str| {
        let bytes = Elf::text(&hex(code)).build();
        let report = sfi_verifier::verify(&bytes, &sfi_verifier::Options { clock: true, ..options(Write) }).unwrap();
        assert!(report.is_safe(), "{code}: {:?}", report.violations);
        report.usage
    };
    let bits = |code: &str| usage(code).gprs_written;
    assert_eq!(bits("c3"), 0);
    assert_eq!(bits("48 89 c3"), 1 << 3); // mov %rax,%rbx
    assert_eq!(bits("48 39 c3"), 0); // cmp
    assert_eq!(bits("88 c7"), 1 << 3); // mov %al,%bh
    assert_eq!(bits("49 87 c7"), 1 << 15 | 1); // xchg %rax,%r15
    assert_eq!(bits("48 f7 e3"), 1 | 1 << 2); // mul
    assert_eq!(bits("48 99"), 1 << 2); // cqo
    assert_eq!(bits("0f a2"), 0b1111); // cpuid
    assert_eq!(bits(&format!("{RDI} f3 48 ab")), 1 << 1 | 1 << 7);
    assert_eq!(bits("65 67 48 0f b1 0b"), 1); // cmpxchg to memory
    assert_eq!(bits("65 67 48 89 18"), 0); // a store
    assert_eq!(bits("c4 e2 9b f6 db"), 1 << 3 | 1 << 12); // mulx %rbx,%r12,%rbx
    assert_eq!(bits("e2 fe"), 1 << 1); // loop
    let named = |code: &str| usage(code).preserved_named;
    assert_eq!(named("c3"), 0);
    assert_eq!(named("48 89 c3"), 1 << 3); // mov %rax,%rbx
    assert_eq!(named("48 39 c3"), 1 << 3); // cmp %rax,%rbx
    assert_eq!(named("00 f8"), 1 << 3); // add %bh,%al
    assert_eq!(named("48 8b 45 00"), 1 << 5); // mov (%rbp),%rax
    assert_eq!(named("4a 8b 04 20"), 1 << 12); // mov (%rax,%r12),%rax
    assert_eq!(named("65 67 48 0f c7 08"), 1 << 3); // cmpxchg16b
    assert_eq!(named("65 67 0f c7 08"), 1 << 3); // cmpxchg8b
    assert_eq!(named("d7"), 1 << 3); // xlat
    assert_eq!(named("0f a2"), 1 << 3); // cpuid
    assert_eq!(named("c4 c2 fb f6 c5"), 1 << 13); // mulx %r13,%rax,%rax
    assert_eq!(named("48 89 c8"), 0);
    let of = |code: &str| usage(code).vectors;
    assert_eq!(of("89 c0"), Vectors::None);
    assert_eq!(of("0f 28 c1"), Vectors::Xmm);
    assert_eq!(of("c5 f8 28 c1"), Vectors::Ymm);
    assert_eq!(of("62 f1 7c 48 28 c1"), Vectors::Zmm);
    assert_eq!(of("c5 f8 90 c1"), Vectors::Zmm); // kmovw %k1,%k0
    assert_eq!(of("c4 e2 78 f2 c0"), Vectors::None); // andn is no vector instruction
    assert!(usage("d9 ee").x87 && usage("65 67 d9 37").x87 && usage("0f 77").x87 && usage("0f 6e c0").x87);
    // fnstenv and fnsave; fldenv, fnstcw and fnstsw do not show where the last instruction was.
    assert!(usage("65 67 d9 37").x87_places && usage("65 67 dd 37").x87_places);
    assert!(["d9 27", "65 67 d9 3f", "df e0", "d9 ee"].iter().all(|code| !usage(code).x87_places));
    assert!(usage("0f ae 10").mxcsr && usage("c5 f8 ae 10").mxcsr && usage("65 67 0f ae 18").mxcsr);
    assert!(usage("65 67 c5 f8 ae 18").mxcsr && !usage("0f 58 c1").mxcsr);
    assert!(usage("0f 31").clock && usage("0f a2").identity && !usage("90").clock);
    // The prefix in any place, also on what only reads or has it beside a mask.
    for code in ["65 67 8b 07", "67 65 8b 07", "66 65 67 89 07", "65 67 48 8b 07", "65 67 c5 f8 28 07", "65 8b 07"] {
        assert!(usage(code).gs && usage(code).gprs_written & 1 << 4 == 0, "{code}");
        assert!(usage(&format!("90 {code} 90 c3")).gs && usage(&format!("{code} {code}")).gs, "{code}");
    }
    assert!(usage(&format!("{RDI} f3 48 ab")).gs && usage("65 67 d9 37").gs);
    // Its byte elsewhere: ModRM, displacement, immediate.
    assert!(["8b 45 65", "3c 65", "b8 65 65 67 65", "c3", "eb fe"].iter().all(|code| !usage(code).gs));
}

/// Encodings that decoders of different makers or ages read differently.
#[test]
fn ambiguous_encodings_are_refused() {
    for code in [
        "f3 41 90",       // pause or xchg %r8,%rax
        "66 f3 0f 10 c1", // movss with a useless 66
        "66 f2 0f 10 c1",
        "0f 1f c8",       // 0f 1f /1, a reserved nop
        "0f 1a 07",       // MPX or nop
        "0f 1e c0",       // CET or nop
        "f3 0f 1e fb",    // endbr32
        "f3 48 0f 1e c8", // rdssp or nop
        "0f 0d 10",       // prefetchwt1 or nop
        "0f 18 38",       // prefetchit0 or nop
        "0f ae e9",       // alias of lfence
        "0f b8 c0",       // popcnt without F3
        "66 e9 00 00",    // 16-bit jump on AMD
        "66 0f 84 00 00",
        "66 e8 00 00",
        "db e8 | dc d0",     // fucomi is fine, the alias of fcom is not
        "0f 0f 07 9e",       // 3DNow!
        "8f e8 78 c0 c1 00", // XOP
        "d5 48 89 07",       // REX2
        "c6 f8 00",          // xabort
        "0f c7 37",          // vmptrld
        "0f 01 cb",          // stac
        "d6",                // salc
        "0f 04",
        "f2 0f 38 f8 07", // enqcmd
    ] {
        assert!(!text(code, Write).is_empty(), "{code}");
    }
}
