//! The memory that one verifier keeps from object to object. The test is alone in its process,
//! whose memory it measures.

mod support;

use sfi_verifier::{Options, Verifier};
use support::*;

/// Pages of this process that are in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Each object has one text more than the one before, and the last text is large. Room kept for
/// each text in turn would add up.
#[test]
fn what_is_kept_does_not_grow_with_the_objects() {
    let mut verifier = Verifier::new(&Options::default());
    let mut elf = Elf::text(&hex("c3"));
    let (mut first, mut bytes) = (0, 0);
    for count in 0..40 {
        elf.sections.last_mut().unwrap().data = hex("c3");
        elf.add(section(".text", PROGBITS, A | X, [hex("eb 00").repeat(1 << 18), hex("c3")].concat()));
        let object = elf.build();
        assert!(verifier.verify(&object).unwrap().is_safe());
        if count == 5 {
            (first, bytes) = (resident(), object.len());
        }
    }
    let grown = resident().saturating_sub(first) * 4096;
    assert!(grown < 64 * bytes, "{grown} bytes more for objects of {bytes} bytes");
}
