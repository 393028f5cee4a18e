//! Owners in a manifest: `sfi run` prints the faults of their domains, and `sfi anonymity` takes
//! their penalty as the price of a wrong guess.

mod support;

use serde_json::Value;
use support::Bench;

/// `sfi_main` calls `probe` with a far address until it has faulted ten times. `probe`'s domain
/// often waits for its owner's penalty (status 8), and then `sfi_main` calls again. `null` loads
/// from NULL.
const APP: &str = ".text\n.globl sfi_main, null, idle\n.type sfi_main,@function\n.type null,@function\n.type idle,@function\n\
    sfi_main:\n\tmov $10,%ebx\n1:\tmov $0x7000,%edi\n\tshl $32,%rdi\n\tcall probe@PLT\n\tmov __sfi_error(%rip),%eax\n\tcmp $8,%eax\n\tje 1b\n\tdec %ebx\n\tjnz 1b\n\txor %eax,%eax\n\tret\n\
    null:\n\tmov 8,%rax\n\tret\n\
    idle:\n\tmov $5,%eax\n\tret\n";
const TOOL: &str = ".text\n.globl probe\n.type probe,@function\nprobe:\n\tmov (%rdi),%rax\n\tret\n";

fn bench(function: &str, penalty: &str) -> Bench {
    let bench = Bench::new();
    bench.assemble("app.o", APP);
    bench.assemble("tool.o", TOOL);
    let manifest = format!(
        "[entry]\ndomain = \"app\"\nfunction = \"{function}\"\n[domains.app]\nobjects = [\"app.o\"]\nowner = \"alice\"\n\
         imports.probe = {{ domain = \"tool\", function = \"probe\", signature = \"(int) -> int\" }}\n\
         [domains.tool]\nobjects = [\"tool.o\"]\nexports = [\"probe\"]\nowner = \"bob\"\nrestart = \"always\"\n\
         [owners.alice]\n[owners.bob]\npenalty = {penalty}\n"
    );
    bench.write("m.toml", manifest.as_bytes());
    bench
}

fn told(function: &str, code: i32) -> Vec<String> {
    let output = bench(function, "\"1 ms\"").run(&["run", "m.toml"], code);
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().filter(|line| line.starts_with("owner")).map(str::to_owned).collect()
}

#[test]
fn a_run_tells_the_records_of_owners() {
    let clean = ["alice", "bob"].map(|name| format!("owner `{name}`: 0 faults, 0 outside their domain's window"));
    assert_eq!(told("idle", 5), clean);
    let null = told("null", 3);
    assert_eq!(null[0], "owner `alice`: 1 fault, 0 outside their domain's window");
    assert_eq!(null[1], clean[1]);
    let search = told("sfi_main", 0);
    assert_eq!(search[0], clean[0]);
    assert_eq!(
        search[1],
        "owner `bob`: 10 faults, 10 outside their domain's window, 10 ms of penalties; a suspicious pattern: the last faults look like \
         a search for other domains' memory"
    );
}

#[test]
fn the_manifests_penalty_is_the_default() {
    let penalty = |bench: &Bench, more: &[&str]| {
        let arguments = [&["anonymity", "m.toml", "--searches", "2", "--json"], more].concat();
        let output = support::sfi(bench, &arguments).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report.pointer("/d/penalty").and_then(Value::as_f64).unwrap()
    };
    let bench = bench("idle", "\"1500 ms\"");
    assert_eq!(penalty(&bench, &[]), 0.0, "alice's domain searches for nothing");
    let text = std::fs::read_to_string(bench.path("m.toml")).unwrap();
    bench.write("m.toml", text.replace("[owners.alice]", "[owners.alice]\npenalty = 2").as_bytes());
    assert_eq!(penalty(&bench, &[]), 1.5);
    assert_eq!(penalty(&bench, &["--penalty", "0.25"]), 0.25);
}
