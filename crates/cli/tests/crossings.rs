//! `sfi run --explain-bindings`, `--explain-layout` and `sfi bench crossing`.

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

/// Assembles the two domains, whose entry returns 5.
fn bench() -> Bench {
    let bench = Bench::new();
    let function = |name: &str, body: &str| {
        format!(
            ".text\n.globl {name}\n.type {name},@function\n{name}:\n{body}\n.section .note.GNU-stack,\"\",@progbits\n"
        )
    };
    bench.assemble("app.o", &function("main", "call near\ncall far\ncall host_clock\nmov $5,%eax\nmov %eax,%ebx\nret"));
    bench.assemble("codec.o", &function("work", "mov %edi,%ebx\npxor %xmm0,%xmm0\nret"));
    bench.write("domains.toml", MANIFEST.as_bytes());
    bench
}

#[test]
fn bindings_are_explained() {
    let bench = bench();
    let output = bench.run(&["run", "--explain-bindings", "domains.toml"], 5);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let expected = "\
binding app `far` -> codec `work`, mutual-distrust, (int, int, int, int, int, int, int) -> int
  preserved registers saved, cleared, restored; GS base left alone; cleared in: zmm0-15; cleared out: integer registers; 1 stack words copied
binding app `host_clock` -> (host) `host_clock`, () -> int
  preserved registers left to the host; cleared out: integer registers
binding app `near` -> codec `work`, trusted-server, (int) -> int
  preserved registers saved for failures; GS base left alone; cleared in: zmm0-15; cleared out: integer registers
";
    assert_eq!(text, expected);
    // The manifest's error names an unknown level.
    bench.write("domains.toml", MANIFEST.replace("trusted-server", "trusted").as_bytes());
    let output = bench.run(&["run", "domains.toml"], 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown trust level `trusted`"));
}

/// A part of a domain's window: domain, access, offset, KiB, name.
type Part = (String, String, u64, u64, String);

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.strip_prefix("0x").expect("a hexadecimal number"), 16).expect("a number")
}

/// Reads the parts that `--explain-layout --show-addresses` lists.
fn listed(text: &str) -> Vec<Part> {
    let (mut domain, mut base, mut parts) = (String::new(), 0, Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["domain", name, ..] => domain = name.trim_end_matches(':').to_owned(),
            ["window", "at", address] => base = number(address),
            [access, kib, "KiB", address, ref name @ ..] => {
                let kib = kib.parse().expect("a number");
                parts.push((domain.clone(), access.to_owned(), number(address) - base, kib, name.join(" ")));
            }
            _ => panic!("{line}"),
        }
    }
    parts
}

/// Reads the parts that a picture names.
fn drawn(svg: &str) -> Vec<Part> {
    let (mut domain, mut parts) = (String::new(), Vec::new());
    // The last element ends the picture.
    let elements = svg.split("</text>").filter(|element| !element.contains("</svg>"));
    for (_, text) in elements.filter_map(|element| element.rsplit_once('>')) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["domain", name, "a", "window", ..] => domain = name.trim_end_matches(':').to_owned(),
            [access, offset, kib, "KiB", ref name @ ..] => {
                let kib = kib.parse().expect("a number");
                parts.push((domain.clone(), access.to_owned(), number(offset), kib, name.join(" ")));
            }
            // The scale.
            [gibibytes] => assert!(gibibytes.parse::<u8>().is_ok_and(|number| number <= 4), "{text}"),
            _ => panic!("{text}"),
        }
    }
    parts
}

/// A picture of the windows has the parts that the text lists, at their places.
#[test]
fn layouts_are_drawn() {
    let bench = bench();
    let explain = ["run", "--explain-layout", "--show-addresses", "--svg", "map.svg", "domains.toml"];
    let text = String::from_utf8(bench.run(&explain, 5).stderr).expect("UTF-8");
    let svg = std::fs::read_to_string(bench.path("map.svg")).expect("a picture");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    let [mut listed, mut drawn] = [listed(&text), drawn(&svg)];
    listed.sort();
    drawn.sort();
    assert!(listed.len() > 10, "{text}");
    assert_eq!(drawn, listed);
    // Each part is a bar in its window and a box in the list. Two windows and the ground come
    // besides.
    assert_eq!(svg.matches("<rect ").count(), 2 * listed.len() + 3, "{svg}");

    // Offsets are secrets, so only the option writes them, and it needs the other one.
    let text = String::from_utf8(bench.run(&["run", "--explain-layout", "domains.toml"], 5).stderr).expect("UTF-8");
    assert!(text.contains("domain codec: ") && !text.contains("0x"), "{text}");
    bench.run(&["run", "--svg", "other.svg", "domains.toml"], 2);
    assert!(!bench.path("other.svg").exists());
    let output = bench.run(&["run", "--explain-layout", "--svg", "no/map.svg", "domains.toml"], 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no/map.svg"), "{output:?}");
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
