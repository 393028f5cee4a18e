//! Compares the positive list with iced's knowledge of every instruction form, and writes the list.
//!
//! The selection in [`selection::selected`] made the list. `SFI_WRITE_POLICY=1 cargo test -p
//! sfi-contract --test policy_table` writes the tables anew. Without the variable the test
//! compares. If a new iced version brings forms that the selection would take, the comparison fails
//! until somebody has reviewed them. Meanwhile the product refuses these forms.

mod effects;
mod instance;
mod refusals;
mod second;
mod selection;

use effects::form_of;
use iced_x86::{Code, Encoder};
use instance::instance;
use selection::selected;
use sfi_contract::policy::{self, Class, Memory, prefix};
use std::collections::BTreeMap;
use std::fmt::Write as _;

fn part(class: Class) -> &'static str {
    match class {
        Class::Branch | Class::IndirectBranch | Class::Return | Class::Save | Class::String | Class::Table => "branch",
        Class::Integer | Class::Hint | Class::Trap | Class::Clock | Class::Identity => "integer",
        Class::X87 | Class::X87Places | Class::Mmx => "float",
        Class::Sse | Class::Mxcsr => "sse",
        Class::Avx => "avx",
        Class::Avx512 => "avx512",
    }
}

/// Returns the text of the tables, by part.
fn tables() -> BTreeMap<&'static str, String> {
    type Key = (Class, Memory, u8, u8, u8, u16);
    let mut groups: BTreeMap<Key, Vec<Code>> = BTreeMap::new();
    for code in Code::values().filter(|c| selected(*c)) {
        let f = form_of(code);
        groups.entry((f.class, f.memory, f.operand, f.prefixes, f.writes, f.clobbers)).or_default().push(code);
    }
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for ((class, memory, operand, prefixes, writes, clobbers), codes) in groups {
        let text = tables.entry(part(class)).or_insert_with(|| {
            "//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.\n\n\
             super::forms! {\n"
                .to_owned()
        });
        let named = |names: &[(u16, &str)], set: u16| -> String {
            assert_eq!(names.iter().fold(set, |rest, (bit, _)| rest & !bit), 0, "{codes:?} {set:x}");
            names.iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        };
        let prefixes = named(
            &[(prefix::P66.into(), "P66"), (prefix::PF3.into(), "PF3"), (prefix::PF2.into(), "PF2")],
            prefixes.into(),
        );
        let writes = named(&[(1, "0"), (2, "1"), (4, "2"), (8, "3")], writes.into());
        let clobbers =
            named(&[(1, "RAX"), (2, "RCX"), (4, "RDX"), (8, "RBX"), (1 << 6, "RSI"), (1 << 7, "RDI")], clobbers);
        writeln!(text, "    {class:?} {memory:?}({operand}) [{prefixes}] writes({writes}) clobbers({clobbers}) {{")
            .unwrap();
        let mut line = String::from("       ");
        for code in codes {
            let name = format!("{code:?}");
            if line.len() + 1 + name.len() > 118 {
                writeln!(text, "{line}").unwrap();
                line = String::from("       ");
            }
            line.push(' ');
            line.push_str(&name);
        }
        writeln!(text, "{line}\n    }}").unwrap();
    }
    for text in tables.values_mut() {
        text.push_str("}\n");
    }
    tables
}

#[test]
fn tables_are_up_to_date() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy");
    let write = std::env::var_os("SFI_WRITE_POLICY").is_some();
    for (name, text) in tables() {
        let path = folder.join(format!("{name}.rs"));
        if write {
            std::fs::write(&path, text).unwrap();
        } else {
            let current = std::fs::read_to_string(&path).unwrap();
            assert!(current == text, "{} differs from the selection; see the head of this test", path.display());
        }
    }
}

/// Every listed form agrees with iced about memory, registers and prefixes.
#[test]
fn listed_forms_have_the_effects_that_iced_knows() {
    if std::env::var_os("SFI_WRITE_POLICY").is_some() {
        return;
    }
    let mut count = 0;
    for (code, form) in policy::allowed() {
        assert_eq!(*form, form_of(code), "{code:?}");
        assert!(selected(code), "{code:?}");
        count += 1;
    }
    assert!(count > 2000, "only {count} forms are listed");
}

/// The encoder produces exactly the legacy prefixes that the list expects, with a register and with
/// a memory operand.
#[test]
fn listed_prefixes_are_those_of_the_encoder() {
    for (code, form) in policy::allowed() {
        for memory in [false, true] {
            let instruction = instance(code, memory);
            if form.memory == Memory::None && memory {
                continue;
            }
            let mut encoder = Encoder::new(64);
            encoder.encode(&instruction, 0).unwrap_or_else(|e| panic!("{code:?}: {e}"));
            let mut seen = 0;
            for byte in encoder.take_buffer() {
                seen |= match byte {
                    0x66 => prefix::P66,
                    0xf3 => prefix::PF3,
                    0xf2 => prefix::PF2,
                    _ => break,
                };
            }
            assert_eq!(seen, form.prefixes, "{code:?}");
        }
    }
}

/// No form has a general register after its third operand, or memory after its fourth. The verifier
/// looks no further.
#[test]
fn general_registers_are_in_the_first_three_operands() {
    for (code, form) in policy::allowed() {
        for i in 3..code.op_code().op_count() {
            let kind = format!("{:?}", code.op_code().op_kind(i));
            assert!(kind.starts_with("imm") || kind.starts_with("xmm") || kind.starts_with("ymm"), "{code:?} {kind}");
        }
        assert!(form.writes < 8 && form.operand < 4, "{code:?}");
    }
}

/// The forms that the contract names as left out are not on the list.
#[test]
fn excluded_forms_are_not_listed() {
    use iced_x86::Mnemonic as M;
    let excluded = [
        M::Std,
        M::Popfq,
        M::Pushfq,
        M::Leave,
        M::Enter,
        M::Syscall,
        M::Sysenter,
        M::Int,
        M::Int1,
        M::Iretq,
        M::In,
        M::Out,
        M::Insb,
        M::Outsb,
        M::Hlt,
        M::Maskmovq,
        M::Maskmovdqu,
        M::Vmaskmovdqu,
        M::Vpscatterdd,
        M::Vscatterqpd,
        M::Movdir64b,
        M::Enqcmd,
        M::Clflush,
        M::Clflushopt,
        M::Clwb,
        M::Xsave,
        M::Xsavec,
        M::Xrstor,
        M::Fxsave,
        M::Fxrstor,
        M::Sgdt,
        M::Sidt,
        M::Sldt,
        M::Str,
        M::Smsw,
        M::Lar,
        M::Lsl,
        M::Rdfsbase,
        M::Rdgsbase,
        M::Wrfsbase,
        M::Wrgsbase,
        M::Swapgs,
        M::Rdpid,
        M::Rdtscp,
        M::Rdpmc,
        M::Rdpkru,
        M::Wrpkru,
        M::Monitor,
        M::Mwait,
        M::Umonitor,
        M::Xbegin,
        M::Xabort,
        M::Xend,
        M::Xtest,
        M::Tileloadd,
        M::Tilestored,
        M::Incsspq,
        M::Rdsspq,
        M::Wrssq,
        M::Setssbsy,
        M::Loadiwkey,
        M::Aesenc128kl,
        M::Bndmk,
        M::Bndstx,
        M::Pfadd,
        M::Vpermil2ps,
        M::Extrq,
        M::Insertq,
        M::Lfs,
        M::Lgs,
        M::Lss,
        M::Verr,
        M::Xgetbv,
        M::Prefetch,
        M::Prefetchw,
        M::Prefetchwt1,
        M::Prefetchnta,
        M::Prefetcht0,
        M::Prefetcht1,
        M::Prefetcht2,
        M::Prefetchit0,
        M::Prefetchit1,
        M::Cldemote,
        M::Ud0,
        M::Ud1,
        M::Senduipi,
        M::Clui,
        M::Stui,
        M::Aadd,
        M::Vp2intersectd,
        M::Ptwrite,
        M::Retf,
    ];
    for (code, _) in policy::allowed() {
        assert!(!excluded.contains(&code.mnemonic()), "{code:?}");
    }
    // The two stores with an implicit or moving address that have safe relatives.
    for code in [Code::Mov_moffs64_RAX, Code::Mov_RAX_moffs64, Code::Jmp_m1664, Code::Call_m1664, Code::Retnq_imm16] {
        assert!(policy::lookup(code).is_none(), "{code:?}");
    }
}
