//! The unwinder sees only the frames of its own crossing: no exception passes a crossing, in either
//! direction.

use sfi_contract::Mode;
use sfi_loader::{DomainSpec, HostError, Import, TypedFn, World};
use sfi_tests::{run::must, sandbox};
use std::process::Command;

const RAISER: &str = r#"
#include <unwind.h>
static _Unwind_Reason_Code count(struct _Unwind_Context *c, void *n) { ++*(int *)n; return 0; }
static _Unwind_Reason_Code stop(int v, _Unwind_Action a, _Unwind_Exception_Class k, struct _Unwind_Exception *e,
                                struct _Unwind_Context *c, void *n) {
    ++*(int *)n;
    return a & _UA_END_OF_STACK ? 1 : 0;
}
#define KEEP(x) ({ int r_ = (x); __asm__ volatile("" : "+r"(r_)); r_; })
__attribute__((noinline)) int here(void) { int n = 0; _Unwind_Backtrace(count, &n); return KEEP(n); }
__attribute__((noinline)) int forced(void) {
    static struct _Unwind_Exception e;
    int n = 0;
    _Unwind_ForcedUnwind(&e, stop, &n);
    return KEEP(n);
}
int middle(int, int (*)(int));
int again(int);
/* 5: the end of the stack; then how many frames there are. */
int again(int x) {
    static struct _Unwind_Exception e;
    int code = _Unwind_RaiseException(&e);
    return KEEP(code * 10000 + here() * 100 + forced());
}
int go(int depth) { return KEEP(depth ? go(depth - 1) : middle(1, again)); }
int frames(int depth) { return KEEP(depth ? frames(depth - 1) : here()); }
void abort(void) { __builtin_trap(); }
"#;

const PASSER: &str = "int again(int); int middle(int x, void *unused) { return again(x) + 1000000; }";

fn object(name: &str, source: &str, level: &str, mode: Mode) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, object) = (directory.path().join(format!("{name}.c")), directory.path().join(format!("{name}.o")));
    std::fs::write(&file, source).expect("the source");
    let mut gcc = Command::new("gcc");
    gcc.args([
        level,
        "-fPIE",
        "-w",
        "-fexceptions",
        "-funwind-tables",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fno-inline",
        "-fno-optimize-sibling-calls",
        "-c",
    ]);
    must(gcc.arg(&file).arg("-o").arg(&object), directory.path()).expect("it compiles");
    sandbox::rewrite(&std::fs::read(&object).expect("the object"), mode).expect("it is rewritten")
}

#[test]
fn exceptions_end_at_the_crossing() {
    for (level, mode) in [("-O0", Mode::Write), ("-O2", Mode::Write), ("-O1", Mode::Full)] {
        let (_, unwinder) =
            sfi_support::CXX_SOURCES.into_iter().find(|(name, _)| *name == "unwind").expect("it is there");
        let first = DomainSpec::new("a")
            .mode(mode)
            .object("raiser.o", object("raiser", RAISER, level, mode))
            .object("unwind.o", object("unwind", unwinder, level, mode))
            .object("jumps.o", sfi_support::jumps_object(mode));
        let through_domain =
            first.clone().import("middle", Import::domain("b", "middle").signature("(int, int) -> int"));
        let second = DomainSpec::new("b")
            .mode(mode)
            .object("passer.o", object("passer", PASSER, level, mode))
            .import("again", Import::domain("a", "again").signature("(int) -> int"));
        let mut world = World::builder().domain(through_domain).domain(second).build().expect("a world");
        let go: TypedFn<fn(i32) -> i32> = world.domain("a").expect("a").export("go").expect("go");
        // The frames of here and again, or, when forced, again and the end.
        assert_eq!(go.call(&mut world, (7,)), Ok(1_050_203), "{level} {mode}");
        let frames: TypedFn<fn(i32) -> i32> = world.domain("a").expect("a").export("frames").expect("frames");
        for depth in [0, 1, 30] {
            assert_eq!(frames.call(&mut world, (depth,)), Ok(depth + 2), "{level} {mode}");
        }
        // Now with a host function between the two entries.
        let mut world = World::builder()
            .domain(first.import("middle", Import::host("middle").signature("(int, int) -> int")))
            .host_fn("middle", |cx| {
                let pointer = cx.arg(1);
                let again: TypedFn<fn(i32) -> i32> = cx.function(pointer).map_err(|e| HostError::new(e.to_string()))?;
                Ok(again.call(cx, (1,)).map_err(|e| HostError::new(e.to_string()))? as u64)
            })
            .build()
            .expect("a world");
        let go: TypedFn<fn(i32) -> i32> = world.domain("a").expect("a").export("go").expect("go");
        assert_eq!(go.call(&mut world, (7,)), Ok(50_203), "{level} {mode}");
    }
}
