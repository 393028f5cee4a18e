//! Debug information on its way through the tools: objects of compilers, findings of the gate, and
//! faults of whole programs.

mod support;

use serde_json::Value;
use std::process::Command;
use support::{Bench, succeed};

/// Line 4 stores through a null pointer, line 8 calls that function, and line 12 calls that one.
const CRASH: &str = "\
#include <stdio.h>
static volatile int *nothing;
__attribute__((noinline)) static int deep(int n) {
    *nothing = n;
    return n + 1;
}
__attribute__((noinline)) int middle(int n) {
    int r = deep(n);
    return r * 2;
}
int main(int argc, char **argv) {
    printf(\"%d\\n\", middle(argc));
    return 0;
}
";

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)))
}

fn compile(bench: &Bench, arguments: &[&str]) {
    succeed(Command::new("gcc").args(arguments).current_dir(bench.directory()));
}

#[test]
fn a_faulting_program_names_file_line_and_callers() {
    let bench = Bench::new();
    bench.write("crash.c", CRASH.as_bytes());
    for level in ["-O0", "-O2"] {
        bench.run(&["cc", "-g", level, "-fno-optimize-sibling-calls", "crash.c", "-o", "crash"], 0);
        let fault = bench.run(&["run", "crash"], 3);
        let text = String::from_utf8(fault.stderr).unwrap();
        let place = |line: u32| format!("{}/crash.c:{line}", bench.directory().display());
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("fault: domain `program`: null pointer access in `deep`+0x"), "{text}");
        assert!(first.ends_with(&format!(" at {}", place(4))), "{text}");
        let frames: Vec<&str> = text.lines().skip(1).collect();
        for (frame, (function, line)) in frames.iter().zip([("deep", 4), ("middle", 8), ("main", 12)]) {
            assert!(frame.contains(&format!(" program: {function}+0x")) && frame.ends_with(&place(line)), "{text}");
        }
        // The frames after main belong to the libc, which has no debug information, and to the
        // support code.
        assert!(frames.len() > 4 && frames.last().is_some_and(|f| f.ends_with("host")), "{text}");
        let lines = bench.run(&["addr2line", "--json", "crash", "middle"], 0);
        // In optimised code the first line of the body may begin where the function does.
        let line = &json(&lines.stdout)["places"][0]["frames"][0]["line"];
        assert!(line == 7 || (line == 8 && level == "-O2"), "{line}");
    }
}

#[test]
fn findings_have_lines_where_the_object_does() {
    let bench = Bench::new();
    bench.write("bad.c", b"int *p;\nvoid set(int v)\n{\n\tp[v] = v;\n}\n");
    compile(&bench, &["-c", "-g", "-O2", "bad.c", "-o", "with.o"]);
    compile(&bench, &["-c", "-O2", "bad.c", "-o", "without.o"]);
    let with = json(&bench.run(&["verify", "--json", "with.o"], 1).stdout);
    let violation = &with["objects"][0]["violations"][0];
    assert!(violation["file"].as_str().unwrap().ends_with("/bad.c"), "{violation}");
    assert_eq!(violation["line"], 4);
    let without = json(&bench.run(&["verify", "--json", "without.o"], 1).stdout);
    assert_eq!(without["objects"][0]["violations"][0]["file"], Value::Null);
    let text = String::from_utf8(bench.run(&["verify", "with.o"], 1).stderr).unwrap();
    assert!(text.contains("/bad.c:4\n"), "{text}");

    // In SARIF the line is the location, and the byte in the object is a related location.
    let mut schema = json(&std::fs::read(support::root().join("fixtures/gate/sarif-schema-2.1.0.json")).unwrap());
    for definition in ["run", "toolComponent"] {
        schema["definitions"][definition]["properties"]["language"].as_object_mut().unwrap().remove("pattern");
    }
    let validator = jsonschema::validator_for(&schema).unwrap();
    let sarif = json(&bench.run(&["verify", "--format", "sarif", "with.o", "without.o"], 1).stdout);
    let errors: Vec<String> = validator.iter_errors(&sarif).map(|e| e.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let physical = |location: &Value| location["physicalLocation"].clone();
    let of =
        |name: &str| results.iter().find(|r| r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == name);
    let with = of("with.o").unwrap();
    let place = physical(&with["locations"][0]);
    assert_eq!(place["artifactLocation"], json(br#"{ "uri": "bad.c", "uriBaseId": "ROOT" }"#));
    // The document names a folder only if the user does.
    let root = bench.directory().canonicalize().unwrap();
    assert!(!sarif.to_string().contains(root.to_str().unwrap()), "{sarif}");
    let named = json(&bench.run(&["verify", "--format", "sarif", "--root", ".", "with.o"], 1).stdout);
    let base = &named["runs"][0]["originalUriBaseIds"]["ROOT"]["uri"];
    assert_eq!(base.as_str().unwrap(), format!("file://{}/", root.display()));
    // Paths outside the root stay absolute. The report is printed, and SARIF goes to a file.
    let said = bench.run(&["verify", "--root", "elsewhere", "--sarif", "x.sarif", "with.o"], 1).stderr;
    assert!(String::from_utf8_lossy(&said).contains("error[SFI-"));
    let other = json(&std::fs::read(bench.path("x.sarif")).unwrap());
    let uri = &other["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(uri["uri"].as_str().unwrap(), format!("file://{}/bad.c", root.display()));
    assert_eq!(uri["uriBaseId"], Value::Null);
    assert_eq!(place["region"]["startLine"], 4);
    assert!(physical(&with["relatedLocations"][0])["region"]["byteOffset"].is_u64());
    let without = of("without.o").unwrap();
    assert_eq!(physical(&without["locations"][0])["artifactLocation"]["uri"], "without.o");
    assert_eq!(without["relatedLocations"], Value::Null);
}

#[test]
fn a_listing_tells_original_from_inserted() {
    let bench = Bench::new();
    bench.write(
        "f.c",
        b"int g(int *);\nint f(int n, int *p)\n{\n\tint a = g(&n), b = g(&a);\n\tp[a] = b;\n\treturn a + b;\n}\n",
    );
    compile(&bench, &["-c", "-g", "-O2", "f.c", "-o", "f.o"]);
    bench.run(&["rewrite", "f.o"], 0);
    let listing = json(&bench.run(&["objdump", "--json", "--function", "f", "f.sfi.o"], 0).stdout);
    let listing = &listing["sections"];
    assert_eq!(listing[0]["mapped"], true);
    let lines = listing[0]["lines"].as_array().unwrap();
    // Original offsets are those of the original object, in order.
    let original: Vec<u64> = lines.iter().filter_map(|l| l["original"].as_u64()).collect();
    assert!(original.windows(2).all(|pair| pair[0] < pair[1]), "{original:?}");
    let native =
        succeed(Command::new("objdump").args(["-d", "--no-show-raw-insn", "f.o"]).current_dir(bench.directory()));
    let native: Vec<&str> = native.lines().filter(|l| l.starts_with("  ") && l.contains(":\t")).collect();
    let starts: Vec<u64> =
        native.iter().map(|l| u64::from_str_radix(l.split(':').next().unwrap().trim(), 16).unwrap()).collect();
    assert!(original.iter().all(|at| starts.contains(at)));
    // A few instructions have no counterpart: the data stack absorbed their adjustments.
    assert!(original.len() + 4 >= starts.len(), "{original:?} {starts:?}");
    let inserted: Vec<&str> =
        lines.iter().filter(|l| l["inserted"] == true).map(|l| l["text"].as_str().unwrap()).collect();
    assert!(!inserted.is_empty() && inserted.iter().all(|t| t.contains("%r15")), "{inserted:?}");
    let store = lines.iter().find(|l| l["source"].as_str().is_some_and(|s| s.ends_with("f.c:5"))).unwrap();
    assert!(lines.iter().any(|l| l["notes"][0] == "store"), "{store}");
}

/// binutils read the debug information of a rewritten object without a complaint, and find the same
/// lines in it.
#[test]
fn readelf_and_objdump_read_surviving_debug_information() {
    let bench = Bench::new();
    let code = "static int twice(int n)\n{\n\treturn n * 2;\n}\nint g(int);\nint *p;\nint f(int n)\n{\n\tint a = g(twice(n));\n\tfor (int i = 0; i < n; i++)\n\t\tp[i] = a;\n\treturn a;\n}\n";
    bench.write("f.c", code.as_bytes());
    let tool = |name: &str, arguments: &[&str]| {
        let output = Command::new(name).args(arguments).current_dir(bench.directory()).output().expect("binutils");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && errors.is_empty(), "{name} {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Returns the rows of the line table: line and address.
    let rows = |object: &str| -> Vec<(u32, u64)> {
        let table = tool("readelf", &["--debug-dump=decodedline", object]);
        let words = table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
        let rows = words.filter(|w| w.len() > 2 && w[0] == "f.c");
        rows.filter_map(|w| Some((w[1].parse().ok()?, u64::from_str_radix(w[2].trim_start_matches("0x"), 16).ok()?)))
            .collect()
    };
    let lines = |rows: &[(u32, u64)]| rows.iter().map(|row| row.0).collect::<std::collections::BTreeSet<_>>();
    for flags in [["-g", "-O0"], ["-g", "-O2"], ["-gdwarf-4", "-O1"]] {
        compile(&bench, &[&flags[..], &["-c", "f.c", "-o", "f.o"]].concat());
        bench.run(&["rewrite", "f.o"], 0);
        let (before, after) = (rows("f.o"), rows("f.sfi.o"));
        assert_eq!(lines(&after), lines(&before), "{flags:?}");
        assert!(before.len() > 5 && after.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{flags:?}: {after:?}");
        let entries = tool("readelf", &["--debug-dump=info", "f.sfi.o"]);
        assert!(entries.contains("DW_TAG_subprogram") && entries.contains("GNU C"), "{entries}");
        let listing = tool("objdump", &["-dl", "f.sfi.o"]);
        let store = listing.lines().skip_while(|l| !l.contains("/f.c:11")).find(|l| l.contains("%gs:"));
        assert!(store.is_some_and(|l| l.contains("mov")), "{listing}");
    }
    // An object without debug information gets none.
    compile(&bench, &["-O2", "-c", "f.c", "-o", "f.o"]);
    bench.run(&["rewrite", "f.o"], 0);
    assert_eq!(rows("f.sfi.o"), []);
}
