//! Baselines and earlier runs: only new findings fail. And the form of the JSON verdict.

mod support;

use serde_json::Value;
use support::{Bench, root, schema, strict_schema};

const OLD: &str = ".text\n.globl f\n.type f,@function\nf:\n\tmov %rax,(%rdi)\n\tret\n";
/// The finding of [`OLD`] one byte later, and another one.
const NEW: &str = ".text\n.globl f\n.type f,@function\nf:\n\tnop\n\tmov %rax,(%rdi)\n\tmov %rbx,(%rdi)\n\tret\n";
const SAFE: &str = ".text\n.globl g\n.type g,@function\ng:\n\tmov %rax,%gs:(%edi)\n\tret\n";

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)))
}

/// Returns what a run prints and says.
fn verify(bench: &Bench, arguments: &[&str], code: i32) -> (String, String) {
    let output = bench.run(&[&["verify"], arguments].concat(), code);
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into()
}

#[test]
fn findings_of_an_earlier_run_do_not_fail() {
    let bench = Bench::new();
    bench.assemble("x.o", OLD);
    verify(&bench, &["--sarif", "old.sarif", "x.o"], 1);
    let (out, err) = verify(&bench, &["--since", "old.sarif", "x.o"], 0);
    assert_eq!((out.as_str(), err.as_str()), ("refused: x.o: 1 violation, known: it does not run\n", ""));
    bench.assemble("x.o", NEW);
    let (out, err) = verify(&bench, &["--since", "old.sarif", "x.o"], 1);
    assert_eq!(out, "refused: x.o: 2 violations, 1 of them known\n");
    assert!(err.contains("mov %rbx, (%rdi)") && !err.contains("%rax"), "{err}");
    // One that stood there once covers one.
    bench.assemble("x.o", &OLD.replace("\tret", "\tmov %rax,(%rdi)\n\tret"));
    verify(&bench, &["--since", "old.sarif", "x.o"], 1);
    // A file that is no such report covers nothing and is an error.
    bench.write("none.sarif", br#"{ "version": "2.1.0", "runs": [{ "results": [{}] }] }"#);
    for (file, why) in [("none.sarif", "has no sfiFunction/v1"), ("x.o", "cannot read"), ("gone.sarif", "cannot read")]
    {
        let (_, err) = verify(&bench, &["--since", file, "x.o"], 2);
        assert!(err.contains(why), "{err}");
    }
}

#[test]
fn a_baseline_holds_until_its_day_and_says_so() {
    let bench = Bench::new();
    bench.assemble("x.o", OLD);
    let entry = |object: &str, day: &str| {
        format!(
            "[[known]]\nrule = 'SFI-S01'\nobject = '{object}'\nfunction = 'f'\nreason = 'ticket 7'\nexpires = {day}\n"
        )
    };
    bench.write("known.toml", (entry("x.o", "2999-01-01") + &entry("gone.o", "2999-01-01")).as_bytes());
    let (out, err) = verify(&bench, &["--baseline", "known.toml", "--attest", "a.json", "x.o"], 0);
    assert!(out.starts_with("refused: x.o: 1 violation, known: it does not run\n"), "{out}");
    assert_eq!(err, "note: baseline: SFI-S01 in gone.o: covers no finding; remove it\n");
    // The statement is about the object, and not about the build.
    let statement = std::fs::read_to_string(bench.path("a.json")).unwrap();
    assert!(statement.contains("FAILED") && !statement.contains("PASSED"), "{statement}");
    let document = json(verify(&bench, &["--baseline", "known.toml", "--json", "x.o"], 0).0.as_bytes());
    assert_eq!(document["objects"][0]["safe"], false);
    assert_eq!(document["objects"][0]["violations"][0]["known"], "ticket 7");
    let sarif = json(verify(&bench, &["--baseline", "known.toml", "--format", "sarif", "x.o"], 0).0.as_bytes());
    let suppressed = serde_json::json!([{ "kind": "external", "justification": "ticket 7" }]);
    assert_eq!(sarif["runs"][0]["results"][0]["suppressions"], suppressed);

    bench.write("known.toml", entry("x.o", "2020-02-29").as_bytes());
    let (_, err) = verify(&bench, &["--baseline", "known.toml", "x.o"], 1);
    assert!(err.contains("expired on 2020-02-29") && err.contains("error[SFI-S01]"), "{err}");
    bench.write("known.toml", entry("x.o", "2021-02-29").as_bytes());
    verify(&bench, &["--baseline", "known.toml", "x.o"], 2);
}

#[test]
fn the_loader_knows_no_baseline() {
    let bench = Bench::new();
    bench.assemble("x.o", OLD);
    bench.write("domains.toml", b"[entry]\ndomain = 'd'\nfunction = 'f'\n[domains.d]\nobjects = ['x.o']\n");
    let run = bench.run(&["run", "domains.toml"], 2);
    assert!(String::from_utf8_lossy(&run.stderr).contains("SFI-S01"));
}

#[test]
fn the_json_verdict_follows_its_schema() {
    let bench = Bench::new();
    bench.assemble("bad.o", NEW);
    bench.assemble("safe.o", SAFE);
    bench.write("junk.o", b"junk");
    bench.archive("both.a", &["bad.o", "safe.o"]);
    let (readers, validator) = (schema("verify"), strict_schema("verify"));
    let read = |arguments: &[&str], code| json(verify(&bench, &[&["--json"], arguments].concat(), code).0.as_bytes());
    let documents = [
        read(&["safe.o"], 0),
        read(&["bad.o", "both.a", "--stats"], 1),
        read(&["junk.o", "safe.o", "--mode", "full"], 2),
        read(&[&root().join("fixtures").join("gate").display().to_string()], 2),
    ];
    for document in documents {
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{document}");
    }
    // It is strict enough to notice a field that is gone, and one that nobody described.
    let mut document = read(&["bad.o"], 1);
    document["objects"][0]["violations"][0].as_object_mut().unwrap().remove("rule");
    assert!(!validator.is_valid(&document));
    let mut document = read(&["bad.o"], 1);
    document["objects"][0]["more"] = Value::Null;
    assert!(!validator.is_valid(&document) && readers.is_valid(&document));
}
