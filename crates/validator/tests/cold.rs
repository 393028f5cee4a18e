//! Labels in the unlikely parts of functions.

mod support;

use sfi_rewriter::{Options, rewrite};
use sfi_validator::validate;
use support::{object, words};

/// A table of labels leads to `run_cold`. It is a function by its name, and a label of `run` if the
/// name is that of an unlikely part.
const SOURCE: &str = ".globl run\n.type run,@function\n\
    run: push %rbx\nmov %rdi,%rbx\nlea table(%rip),%rdi\nmovzbl (%rbx),%eax\njmp *(%rdi,%rax,8)\n\
    1: mov %rbx,%rax\npop %rbx\nret\n.size run,.-run\n\
    .section .text.unlikely,\"ax\",@progbits\n.type run_cold,@function\n\
    run_cold: mov 16(%rsp),%rax\nmov %rax,(%rbx)\nud2\n.size run_cold,.-run_cold\n\
    .section .data.rel.ro.local,\"aw\"\n.balign 8\ntable: .quad 1b,run_cold\n";

/// Assembles a source.
fn assembled(text: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("cold.s");
    std::fs::write(&source, text).expect("source");
    object(&source, &[]).expect("assembles")
}

/// The code of a function finds nothing of its caller's frame. That of a label has the frame of its
/// function.
#[test]
fn a_label_in_an_unlikely_part_has_the_stack_of_its_function() {
    let label = assembled(&SOURCE.replace("run_cold", "run.cold"));
    let output = rewrite(&label, &Options::default()).expect("rewritten");
    let proof = validate(&label, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let original = assembled(SOURCE);
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let words = words(&validate(&label, &renamed(&output.bytes), &output.traces));
    assert!(words.contains("wrong: the original program reads rax"), "{words}");
}

/// The jump of `run` takes its labels from another table, so none is known to lead to the part.
#[test]
fn a_label_in_an_unlikely_part_to_which_nothing_leads_is_not_proved() {
    let text = SOURCE.replace("run_cold", "run.cold").replace(
        "table: .quad 1b,run.cold",
        "table: .quad 1b,1b\nmark: .long 0,0\nother: .quad run.cold\n.globl other,mark",
    );
    let label = assembled(&text);
    let output = rewrite(&label, &Options::default()).expect("rewritten");
    let words = words(&validate(&label, &output.bytes, &output.traces));
    assert!(words.contains("unproved: no jump is known to lead to the label of an unlikely part"), "{words}");
}

/// Gives the function its name as an unlikely part.
fn renamed(bytes: &[u8]) -> Vec<u8> {
    let at = bytes.windows(10).position(|name| name == b"\0run_cold\0").expect("the name");
    let mut bytes = bytes.to_vec();
    bytes[at + 4] = b'.';
    bytes
}
