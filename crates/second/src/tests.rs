//! Both names of each pair in the table mean the same instruction.

use super::names::NAMES;

/// The pairs with different spellings: (first, second).
const ALIASES: &[(&str, &str)] = &[
    ("cmovae", "cmovnb"),
    ("cmovbe", "cmovna"),
    ("cmove", "cmovz"),
    ("cmovne", "cmovnz"),
    ("jae", "jnb"),
    ("jbe", "jna"),
    ("je", "jz"),
    ("jne", "jnz"),
    ("sete", "setz"),
    ("setne", "setnz"),
    ("loope", "loopz"),
    ("loopne", "loopnz"),
    ("cmpsb", "cmps"),
    ("cmpsq", "cmps"),
    ("cmpsw", "cmps"),
    ("lodsb", "lods"),
    ("lodsd", "lods"),
    ("lodsq", "lods"),
    ("lodsw", "lods"),
    ("movsb", "movs"),
    ("movsq", "movs"),
    ("movsw", "movs"),
    ("scasb", "scas"),
    ("scasd", "scas"),
    ("scasq", "scas"),
    ("scasw", "scas"),
    ("stosb", "stos"),
    ("stosd", "stos"),
    ("stosq", "stos"),
    ("stosw", "stos"),
    ("int3", "int"),
    ("ret", "return"),
    ("xlatb", "xlat"),
    // Forms with REX.W of the same instruction.
    ("pcmpestri64", "pcmpestri"),
    ("pcmpestrm64", "pcmpestrm"),
    ("vpcmpestri64", "vpcmpestri"),
    ("vpcmpestrm64", "vpcmpestrm"),
    // Hints: 0F 0D and F3 90 are nops to the second decoder.
    ("prefetch", "nop"),
    ("pause", "nop"),
    ("prefetcht0", "prefetch0"),
    ("prefetcht1", "prefetch1"),
    ("prefetcht2", "prefetch2"),
];

#[test]
fn names_mean_the_same() {
    for (first, second) in NAMES {
        let names = (format!("{first:?}").to_lowercase(), format!("{second:?}").to_lowercase());
        let alias = ALIASES.contains(&(names.0.as_str(), names.1.as_str()));
        assert!(names.0 == names.1 || alias, "{names:?}");
    }
    assert!(NAMES.len() > 1000);
}
