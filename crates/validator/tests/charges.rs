//! Charges of a budget, over which the walk steps.

mod support;

use sfi_rewriter::{Options, rewrite};
use sfi_validator::validate;
use support::{object, root, words};

/// A charge stands before the code of a loop whose first instruction has none. The walk pays it,
/// and looks at the code behind it.
#[test]
fn a_change_behind_the_charge_of_a_loop_is_noticed() {
    let original = object(&root().join("rewriter/tests/cases/prefetch_in_loops.s"), &[]).expect("assembles");
    let output = rewrite(&original, &Options { budget: true, ..Options::default() }).expect("rewritten");
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    // mov (%rsi),%rax becomes mov (%rdi),%rax.
    let load = output.bytes.windows(3).position(|code| code == [0x48, 0x8b, 0x06]).expect("the load");
    let mut bytes = output.bytes.clone();
    bytes[load + 2] = 0x07;
    assert!(!validate(&original, &bytes, &output.traces).holds());
}
