//! Calls that are not to return, and places that are not to be reached: the new code has a trap
//! there exactly where it may.

mod support;

use sfi_rewriter::{Options, rewrite};
use sfi_validator::validate;
use support::{assembled, object, words};

/// A trap after a call, and a nop of two bytes.
const TRAP: [u8; 2] = [0x0f, 0x0b];
const NOP: [u8; 2] = [0x66, 0x90];

/// Each function ends with a call that is not to return. Another function follows, or a label that
/// other code reaches with another stack.
const SOURCES: [(&str, &str); 3] = [
    (
        "f: push %rbx\ncall unknown\n.size f,.-f\n.globl g\n.type g,@function\ng: ret\n.size g,.-g\n",
        "control comes from a call into a function with something on the stack",
    ),
    (
        "f: push %rax\ncall *(%rdi)\n.size f,.-f\n.globl g\n.type g,@function\ng: ret\n.size g,.-g\n",
        "control comes from a call into a function with something on the stack",
    ),
    (
        "f: push %rbp\nmov %rsp,%rbp\nsub $48,%rsp\nmov %rsp,-32(%rbp)\ntest %rdi,%rdi\nje 1f\n\
         mov %rsi,-32(%rbp)\ncall exit\n1: mov -32(%rbp),%rsp\nadd $48,%rsp\npop %rbp\nret\n.size f,.-f\n",
        "is not known to be the one at its entry",
    ),
];

/// Replaces the only place of some bytes.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert_eq!(places.len(), 1, "{from:x?}");
    let mut bytes = bytes.to_vec();
    bytes[places[0]..places[0] + from.len()].copy_from_slice(to);
    bytes
}

#[test]
fn a_missing_trap_after_a_call_is_noticed() {
    for (text, said) in SOURCES {
        let original = assembled(text);
        let output = rewrite(&original, &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{text}:\n{}", words(&proof));
        let proof = validate(&original, &replaced(&output.bytes, &TRAP, &NOP), &output.traces);
        assert!(!proof.holds() && words(&proof).contains(said), "{text}:\n{}", words(&proof));
    }
}

/// The name decides in both objects. A function of another name may return to a label with the
/// stack that other code brings there.
#[test]
fn a_trap_after_a_call_that_may_return_is_noticed() {
    let text = "f: push %rbx\ntest %edi,%edi\nje 1f\ncall exit\n1: pop %rbx\nret\n.size f,.-f\n";
    let original = assembled(text);
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    assert!(validate(&original, &output.bytes, &output.traces).holds());
    let renamed = |bytes: &[u8]| replaced(bytes, b"\0exit\0", b"\0exot\0");
    let words = words(&validate(&renamed(&original), &renamed(&output.bytes), &output.traces));
    assert!(words.contains("wrong: the new code stops after a call that may return"), "{words}");
}

/// An object's own function is believed by its code only, whatever its name and its binding.
#[test]
fn an_own_function_of_such_a_name_may_return() {
    for binding in [".globl exit", ".weak exit", ".local exit"] {
        let text = format!(
            "f: push %rbx\ntest %edi,%edi\nje 1f\ncall exit\n1: pop %rbx\nret\n.size f,.-f\n\
             {binding}\n.type exit,@function\nexit: ret\n.size exit,.-exit\n"
        );
        let original = assembled(&text);
        let output = rewrite(&original, &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{binding}:\n{}", words(&proof));
        assert!(!output.bytes.windows(2).any(|bytes| bytes == TRAP), "{binding}: a trap follows the call");
    }
}

/// A branch behind a section, with something on the stack. An empty function may be there.
const BEHIND: &str = "f: push %rbx\ncall unknown\ntest %eax,%eax\nje f.cold\npop %rbx\nret\n.size f,.-f\n\
                      .section .text.unlikely,\"ax\",@progbits\nNAME f.cold:\n";

/// The new code has a trap there, whatever is on the stack.
#[test]
fn a_missing_trap_behind_a_section_is_noticed() {
    for name in ["", ".type f.cold,@function\n"] {
        let original = assembled(&BEHIND.replace("NAME", name));
        let output = rewrite(&original, &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{name}:\n{}", words(&proof));
        let words = words(&validate(&original, &replaced(&output.bytes, &TRAP, &NOP), &output.traces));
        assert!(words.contains("wrong: the new code goes on where the original section ends"), "{name}:\n{words}");
    }
}

/// Makes a global symbol of an object a weak one.
fn weakened(bytes: &[u8], name: &str) -> Vec<u8> {
    use object::{Object, ObjectSection, ObjectSymbol};
    let file = object::File::parse(bytes).expect("object");
    let symbol = file.symbol_by_name(name).expect("symbol").index().0;
    let (table, _) = file.section_by_name(".symtab").and_then(|table| table.file_range()).expect("symbols");
    let mut bytes = bytes.to_vec();
    // An entry has 24 bytes, and its fifth has the binding above the kind.
    let info = &mut bytes[table as usize + 24 * symbol + 4];
    assert_eq!(*info >> 4, 1, "{name} is global");
    *info = 2 << 4 | (*info & 15);
    bytes
}

/// The linker may take another definition of a weak function than the empty one, but not of a
/// strong one.
#[test]
fn a_jump_to_a_weak_function_behind_a_section_needs_its_stack() {
    let original = assembled(&BEHIND.replace("NAME", ".globl f.cold\n.type f.cold,@function\n"));
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let [original, new] = [&original, &output.bytes].map(|bytes| weakened(bytes, "f.cold"));
    let words = words(&validate(&original, &new, &output.traces));
    assert!(words.contains("wrong: the data stack pointer is 0 bytes from the stack pointer at a jump"), "{words}");
}

/// Landing pads follow the code, so a call that returns at its end comes to a trap, whether the
/// trace has the trap or not.
#[test]
fn a_missing_trap_before_landing_pads_is_noticed() {
    let source = support::root().join("rewriter/tests/cases/end_before_pads.s");
    let original = object(&source, &[]).expect("assembles");
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    let without = replaced(&output.bytes, &TRAP, &NOP);
    let mut traces = output.traces.clone();
    let trap = traces[0].steps.iter().rposition(|step| !step.pad).expect("steps");
    traces[0].steps.remove(trap);
    let proof = validate(&original, &output.bytes, &traces);
    assert!(proof.holds(), "{}", words(&proof));
    for (traces, said) in [
        (&output.traces, "wrong: the program does not stop here"),
        (&traces, "wrong: the new code goes on where the original section ends"),
    ] {
        let words = words(&validate(&original, &without, traces));
        assert!(words.contains(said), "{words}");
    }
}

/// The end of a transaction faults, because none begins.
#[test]
fn an_end_of_a_transaction_that_does_not_stop_is_noticed() {
    let original = assembled("f: xend\nmov %rdi,%rax\nret\n");
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let words = words(&validate(&original, &replaced(&output.bytes, &TRAP, &NOP), &output.traces));
    assert!(words.contains("wrong: the program does not stop here"), "{words}");
}

/// A function of another object may return to the code after its call, also if the trace does not
/// have that code.
#[test]
fn a_trap_in_place_of_code_that_the_trace_leaves_out_is_noticed() {
    let [original, ends] =
        ["pop %rbx\nret", "ud2"].map(|rest| assembled(&format!("f: push %rbx\ncall unknown\n{rest}\n")));
    let mut output = rewrite(&ends, &Options::default()).expect("rewritten");
    assert!(validate(&ends, &output.bytes, &output.traces).holds());
    output.traces[0].steps.pop();
    let words = words(&validate(&original, &output.bytes, &output.traces));
    assert!(words.contains("wrong: the trace leaves out the code behind an instruction"), "{words}");
}

/// A trace that leaves out instructions proves nothing, whichever they are.
#[test]
fn a_trace_that_leaves_out_code_is_noticed() {
    let original = assembled(
        "f: push %rbx\nmov %rdi,%rbx\ncall unknown\nadd %rbx,%rax\ntest %rax,%rax\nje 1f\ncmp $7,%rax\n\
         mov %rax,(%rbx)\n1: pop %rbx\nret\n",
    );
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    assert!(validate(&original, &output.bytes, &output.traces).holds());
    let count = output.traces[0].steps.len();
    assert_eq!(count, 10);
    for (first, end) in (0..count).flat_map(|first| (first + 1..=count).map(move |end| (first, end))) {
        let mut traces = output.traces.clone();
        traces[0].steps.drain(first..end);
        assert!(!validate(&original, &output.bytes, &traces).holds(), "without {first} to {end}");
    }
}
