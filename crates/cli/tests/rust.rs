//! A plugin in Rust without std, with `alloc`. It is a static library on the allocator of a stock
//! libc, in a domain of its own.

mod support;

use std::process::Command;
use support::{Bench, succeed};

const PLUGIN: &str = r#"
#![no_std]
extern crate alloc;

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, vec::Vec};
use core::alloc::{GlobalAlloc, Layout};

unsafe extern "C" {
    fn aligned_alloc(align: usize, size: usize) -> *mut u8;
    fn free(pointer: *mut u8);
    fn abort() -> !;
}

struct Libc;

unsafe impl GlobalAlloc for Libc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { aligned_alloc(layout.align().max(16), layout.size().next_multiple_of(layout.align().max(16))) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        unsafe { free(pointer) }
    }
}

#[global_allocator]
static ALLOCATOR: Libc = Libc;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { abort() }
}

/// Named by the landing pads of the library's code, which nothing enters where panics abort.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    unsafe { abort() }
}

trait Shape {
    fn area(&self) -> u64;
}
struct Square(u64);
struct Oblong(u64, u64);
impl Shape for Square {
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}
impl Shape for Oblong {
    fn area(&self) -> u64 {
        self.0 * self.1
    }
}

/// Dynamic calls, collections, formatting; 0 is an index out of bounds.
#[unsafe(no_mangle)]
pub extern "C" fn work(n: i32) -> i32 {
    let shapes: Vec<Box<dyn Shape>> = (0..n as u64)
        .map(|i| if i % 3 == 0 { Box::new(Square(i)) as Box<dyn Shape> } else { Box::new(Oblong(i, i + 1)) })
        .collect();
    let mut counts: BTreeMap<u64, String> = BTreeMap::new();
    for shape in &shapes {
        let text = counts.entry(shape.area() % 11).or_default();
        text.push_str(&format!("{:x},", shape.area()));
    }
    let mut words: Vec<&String> = counts.values().collect();
    words.sort_unstable_by_key(|w| core::cmp::Reverse(w.len()));
    let sum = words.iter().flat_map(|w| w.bytes()).fold(7u32, |h, b| h.wrapping_mul(31) ^ u32::from(b));
    (sum & 0xffff) as i32 + words[0].len() as i32
}
"#;

const MAIN: &str = "#include <stdio.h>\nint work(int);\n\
    int main(void) {\n    printf(\"%d %d\\n\", work(5), work(1000));\n    fflush(stdout);\n    printf(\"%d\\n\", work(0));\n    printf(\"%d\\n\", work(5));\n    return 3;\n}\n";

const MANIFEST: &str = r#"
[entry]
domain = "program"
function = "main"
[domains.program]
mode = "MODE"
objects = ["main.sfi.o"]
archives = ["libc.a"]
[domains.program.imports]
work = { domain = "plugin", function = "work", signature = "(int) -> int" }
[domains.program.syscalls]
allow = ["io", "memory", "process"]
descriptors = ["stdin", "stdout", "stderr"]
[domains.plugin]
mode = "MODE"
archives = ["libplugin.a", "libc.a"]
exports = ["work"]
[domains.plugin.syscalls]
allow = ["memory"]
"#;

#[test]
fn a_plugin_without_std_allocates_and_its_panic_stays_its_own() {
    let bench = Bench::new();
    for (name, text) in [("plugin.rs", PLUGIN), ("main.c", MAIN)] {
        bench.write(name, text.as_bytes());
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        succeed(command.args(arguments).current_dir(bench.directory()))
    };
    let flags = ["--edition=2024", "--crate-type=staticlib", "-Cpanic=abort", "-Copt-level=2"];
    run("rustc", &[&flags[..], &["plugin.rs", "-o", "stock.a"]].concat());
    run("musl-gcc", &["-O2", "-fPIE", "-c", "main.c", "-o", "main.o"]);
    // The native run gives the output up to the panic.
    run("gcc", &["-O2", "main.c", "stock.a", "-o", "native"]);
    let native = Command::new(bench.path("native")).output().expect("runs");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(native.status.code().is_none() && expected.lines().count() == 1, "{expected}");
    for mode in ["write", "full"] {
        // A few members of the libc are refused, but a plugin does not need them.
        let stock = "/usr/lib/x86_64-linux-musl/libc.a";
        bench.run(&["rewrite", "--skip-refused", "--mode", mode, stock, "-o", "libc.a"], 0);
        for (from, to) in [("stock.a", "libplugin.a"), ("main.o", "main.sfi.o")] {
            bench.run(&["rewrite", "--mode", mode, from, "-o", to], 0);
            bench.run(&["verify", "--mode", mode, to], 0);
        }
        bench.write("domains.toml", MANIFEST.replace("MODE", mode).as_bytes());
        let output = bench.run(&["run", "domains.toml"], 3);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The third call panics. Its caller gets an error, and the domain stays dead.
        assert_eq!(text, format!("{expected}-1\n-1\n"), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

const LIBRARY: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn sum(bytes: *const u8, count: usize) -> u64 {
    let bytes = unsafe { std::slice::from_raw_parts(bytes, count) };
    let sum = || match bytes {
        [] => panic!("nothing to add"),
        bytes => bytes.iter().map(|byte| u64::from(*byte)).collect::<Vec<_>>().iter().sum(),
    };
    std::panic::catch_unwind(sum).unwrap_or(99)
}
"#;
const CALLS: &str = "#include <stdio.h>\nunsigned long sum(const char *, unsigned long);\n\
    int main(void) { printf(\"%lu %lu\\n\", sum(\"abcd\", 4), sum(\"\", 0)); return 0; }\n";

/// A static library with std in a C program: a caught panic unwinds.
#[test]
fn a_static_library_with_std_links() {
    let bench = Bench::new();
    bench.write("sum.rs", LIBRARY.as_bytes());
    bench.write("calls.c", CALLS.as_bytes());
    let mut rustc = Command::new("rustc");
    rustc.args(["-O", "--edition", "2024", "--crate-type", "staticlib", "sum.rs", "-o", "libsum.a"]);
    succeed(rustc.current_dir(bench.directory()));
    succeed(support::sfi(&bench, &["cc"]).args(["-O2", "calls.c", "-L.", "-lsum", "-o", "prog"]));
    let output = bench.run(&["run", "prog"], 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "394 99\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing to add"));
}
