//! `sfi run --explain-bindings` and `sfi bench crossing`.

mod support;
use support::Bench;

const MANIFEST: &str = r#"
[entry]
domain = "app"
function = "main"

[domains.app]
objects = ["app.o"]

[domains.app.imports]
host_clock = { host = "host_clock", signature = "() -> int" }
near = { domain = "codec", function = "work", signature = "(int) -> int", trust = "trusted-server" }
far = { domain = "codec", function = "work", signature = "(int, int, int, int, int, int, int) -> int" }

[domains.codec]
objects = ["codec.o"]
exports = ["work"]
"#;

#[test]
fn bindings_are_explained() {
    let bench = Bench::new();
    let function = |name: &str, body: &str| {
        format!(
            ".text\n.globl {name}\n.type {name},@function\n{name}:\n{body}\n.section .note.GNU-stack,\"\",@progbits\n"
        )
    };
    bench.assemble("app.o", &function("main", "call near\ncall far\ncall host_clock\nmov $5,%eax\nmov %eax,%ebx\nret"));
    bench.assemble("codec.o", &function("work", "mov %edi,%ebx\npxor %xmm0,%xmm0\nret"));
    bench.write("domains.toml", MANIFEST.as_bytes());
    let output = bench.run(&["run", "--explain-bindings", "domains.toml"], 5);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let expected = "\
binding app `far` -> codec `work`, mutual-distrust, (int, int, int, int, int, int, int) -> int
  preserved registers saved, cleared, restored; cleared in: zmm0-15; cleared out: integer registers; 1 stack words copied
binding app `host_clock` -> (host) `host_clock`, () -> int
  preserved registers left to the host; cleared out: integer registers
binding app `near` -> codec `work`, trusted-server, (int) -> int
  preserved registers saved for failures; cleared in: zmm0-15; cleared out: integer registers
";
    assert_eq!(text, expected);
    // The manifest's error names an unknown level.
    bench.write("domains.toml", MANIFEST.replace("trusted-server", "trusted").as_bytes());
    let output = bench.run(&["run", "domains.toml"], 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown trust level `trusted`"));
}

#[test]
fn all_levels_are_measured_in_one_run() {
    let bench = Bench::new();
    let output = bench.run(&["bench", "crossing", "--rounds", "1", "--json"], 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let json = &json["nanoseconds"];
    for name in ["mutual_distrust", "trusted_server", "trusted_both"] {
        for suffix in ["", "_integer", "_integer_float"] {
            assert!(json[format!("{name}{suffix}")].as_f64().is_some_and(|ns| ns > 0.0), "{name}{suffix}: {json}");
        }
    }
    for name in ["call", "indirect_call", "pipe", "unix_socket", "futex", "getppid", "host_to_domain", "domain_to_host"]
    {
        assert!(json[name].as_f64().is_some_and(|ns| ns > 0.0), "{name}: {json}");
    }
}
