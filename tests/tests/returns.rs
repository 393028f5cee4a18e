//! Functions whose names say that they never return, and that return, in an object of their own. A
//! domain ends at the trap after the call, in every mode and whatever the order of its objects.

use sfi_contract::Mode;
use sfi_loader::{CallError, DomainSpec, FaultKind, TypedFn, World};
use sfi_tests::{run::must, sandbox};
use std::process::Command;

/// `returns` loads another stack pointer if `exit` returns, as no compiler means it. `runs_on`
/// would run into `next`, and return to a word of its own frame. `goes_on` is right in any case.
const CALLER: &str = "
        .globl  returns, runs_on, next, goes_on
        .type   returns,@function
returns:
        push    %rbp
        mov     %rsp,%rbp
        sub     $48,%rsp
        mov     %rsp,-32(%rbp)
        test    %edi,%edi
        je      1f
        lea     words+8(%rip),%rax
        mov     %rax,-32(%rbp)
        call    exit
1:      mov     -32(%rbp),%rsp
        add     $48,%rsp
        pop     %rbp
        mov     $5,%eax
        ret
        .size   returns,.-returns
        .type   runs_on,@function
runs_on:
        push    %rbx
        call    harmless
        .size   runs_on,.-runs_on
        .type   next,@function
next:   mov     $6,%eax
        ret
        .size   next,.-next
        .type   goes_on,@function
goes_on:
        push    %rbx
        mov     %rdi,%rbx
        call    exit
        lea     (%rax,%rbx),%rax
        pop     %rbx
        ret
        .size   goes_on,.-goes_on
        .bss
words:  .skip   128
        .section .note.GNU-stack,\"\",@progbits
";

/// The functions, which a member of an archive has.
const CALLEE: &str = "
        .globl  exit, harmless
        .type   exit,@function
exit:   mov     $3,%eax
        ret
        .size   exit,.-exit
        .type   harmless,@function
harmless:
        mov     $4,%eax
        ret
        .size   harmless,.-harmless
        .section .note.GNU-stack,\"\",@progbits
";

/// Assembles and rewrites.
fn object(source: &str, mode: Mode) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, object) = (directory.path().join("f.s"), directory.path().join("f.o"));
    std::fs::write(&file, source).expect("the source");
    must(Command::new("gcc").arg("-c").arg(&file).arg("-o").arg(&object), directory.path()).expect("it assembles");
    sandbox::rewrite(&std::fs::read(&object).expect("the object"), mode).expect("it is rewritten")
}

/// Returns an archive with one member.
fn archive(member: &[u8]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("f.o"), member).expect("the member");
    let mut ar = Command::new("ar");
    must(ar.args(["rcs", "f.a", "f.o"]).current_dir(directory.path()), directory.path()).expect("an archive");
    std::fs::read(directory.path().join("f.a")).expect("the archive")
}

fn call(world: &mut World, name: &str, argument: i32) -> Result<i32, CallError> {
    let f: TypedFn<fn(i32) -> i32> = world.domain("a").expect("a").export(name).expect(name);
    f.call(world, (argument,))
}

#[test]
fn a_function_that_returns_meets_a_trap() {
    for mode in [Mode::Write, Mode::Full, Mode::Match] {
        let (caller, callee) = (object(CALLER, mode), object(CALLEE, mode));
        for together in [false, true] {
            let world = || {
                let domain = DomainSpec::new("a").mode(mode).object("caller.o", caller.clone());
                let domain = match together {
                    true => domain.object("callee.o", callee.clone()),
                    false => domain.archive("callee.a", archive(&callee)),
                };
                World::builder().domain(domain).build().expect("a world")
            };
            let mut good = world();
            assert_eq!(call(&mut good, "returns", 0), Ok(5), "{mode}");
            assert_eq!(call(&mut good, "next", 0), Ok(6), "{mode}");
            assert_eq!(call(&mut good, "goes_on", 7), Ok(10), "{mode}");
            for (name, argument) in [("returns", 1), ("runs_on", 0)] {
                match call(&mut world(), name, argument) {
                    Err(CallError::Fault(fault)) => {
                        assert_eq!(fault.kind, FaultKind::IllegalInstruction, "{mode} {name}: {fault}");
                    }
                    other => panic!("{mode} {name}: {other:?}"),
                }
            }
        }
    }
}
