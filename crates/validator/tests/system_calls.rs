//! System calls take the registers of their arguments, and not what a callee left in the others.

mod support;

use sfi_rewriter::{Options, rewrite};
use sfi_validator::validate;
use support::{object, words};

/// The new code of the callee has something else in rsi.
const CASE: &str = include_str!("../../../rewriter/tests/cases/system_call_after_call.s");

#[test]
fn an_overwritten_argument_of_a_system_call_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("calls.s");
    for (from, to, lost) in [
        ("mov     $3,%eax", "mov     $3,%eax", None),
        // write
        ("mov     $3,%eax", "mov     $1,%eax", Some("rsi")),
        // One that takes all six.
        ("mov     $3,%eax", "mov     $9,%eax", Some("rsi")),
        ("mov     $3,%eax", "mov     %ebx,%eax", Some("rsi")),
        ("mov     $3,%eax", "mov     $3,%eax\nmov %ebx,%eax", Some("rsi")),
        // Another way comes to the call.
        ("mov     $3,%eax", "mov     $3,%eax\ntest %ebx,%ebx\njne 1f\nmov $1,%eax\n1:", Some("rsi")),
        // read
        ("mov     $3,%eax", "xor     %eax,%eax", Some("rsi")),
        // FUTEX_WAIT takes a time in r10, which the callee does not write, and nothing of rcx.
        ("mov     $129,%esi", "mov     $128,%esi", None),
        ("mov     $129,%esi", "", Some("rsi")),
    ] {
        assert!(CASE.contains(from), "{from}");
        std::fs::write(&source, CASE.replace(from, to)).expect("source");
        let original = object(&source, &[]).expect("assembles");
        let output = rewrite(&original, &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        let words = words(&proof);
        assert_eq!(proof.holds(), lost.is_none(), "{to}:\n{words}");
        let says = |register: &str| words.contains(&format!("the system call takes {register}"));
        assert!(lost.is_none_or(says), "{to}:\n{words}");
    }
}
