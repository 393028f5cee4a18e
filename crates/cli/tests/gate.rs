//! The gate as users run it: formats, policies, statements.

mod support;

use serde_json::Value;
use support::{Bench, sfi};

const UNSAFE: &str = ".text\n.globl f\n.type f,@function\nf:\n\tmov %rax,(%rdi)\n\tret\n";
const SAFE: &str = ".text\n.globl g\n.type g,@function\ng:\n\tmov %rax,%gs:(%edi)\n\tret\n";
const CURIOUS: &str =
    ".text\n.globl h\nh:\n\tcpuid\n\trdtsc\n\tcall system@PLT\n\tcall g@PLT\n\tret\n.bss\n.zero 5000\n";

/// The grant of the clock in a policy.
const CLOCK: &str = "instructions = { rdtsc = true }\n";

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)))
}

/// Returns the codes in a document of `--format json`, in order.
fn codes(document: &Value) -> Vec<String> {
    let objects = document["objects"].as_array().unwrap();
    let all = objects.iter().flat_map(|o| o["violations"].as_array().unwrap());
    all.map(|v| v["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sarif_follows_the_standards_schema() {
    let bench = Bench::new();
    bench.assemble("bad.o", UNSAFE);
    bench.assemble("a good:one.o", SAFE);
    bench.archive("both.a", &["bad.o", "a good:one.o"]);
    bench.write("junk.o", b"junk");
    let mut schema = json(&std::fs::read(support::root().join("fixtures/gate/sarif-schema-2.1.0.json")).unwrap());
    // The published pattern of a language tag has one bracket too many for strict regular
    // expressions. The gate writes no language.
    for definition in ["run", "toolComponent"] {
        let language = schema["definitions"][definition]["properties"]["language"].as_object_mut().unwrap();
        assert!(language.remove("pattern").is_some());
    }
    let validator = jsonschema::validator_for(&schema).unwrap();
    let run = |inputs: &[&str], code| {
        let out = bench.run(&[&["verify", "--format", "sarif"], inputs].concat(), code);
        let document = json(&out.stdout);
        let errors: Vec<String> =
            validator.iter_errors(&document).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new());
        document
    };
    // The validator also refuses documents.
    assert!(!validator.is_valid(&serde_json::json!({ "version": "2.1.0", "runs": [{}] })));

    let document = run(&["bad.o", "a good:one.o", "both.a"], 1);
    assert_eq!(document["version"], "2.1.0");
    assert!(document["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let driver = &document["runs"][0]["tool"]["driver"];
    assert_eq!(driver["name"], "sfi");
    let rules = driver["rules"].as_array().unwrap();
    let explained = String::from_utf8(bench.run(&["explain"], 0).stdout).unwrap();
    // The reasons of `sfi rewrite` are no rules.
    assert_eq!(rules.len(), explained.lines().filter(|line| !line.starts_with("SFI-W")).count());
    assert!(explained.lines().any(|line| line.starts_with("SFI-W03")), "{explained}");
    for rule in rules {
        for key in ["shortDescription", "fullDescription", "help"] {
            assert!(!rule[key]["text"].as_str().unwrap().is_empty(), "{key} of {rule}");
        }
        assert!(rule["help"]["markdown"].as_str().unwrap().contains("\n\n**What to do:** "), "{rule}");
        assert_eq!(rule.get("helpUri"), None);
    }
    let results = document["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    let file = std::fs::read(bench.path("both.a")).unwrap();
    for (result, uri) in results.iter().zip(["bad.o", "both.a"]) {
        assert_eq!(result["ruleId"], "SFI-S01");
        assert_eq!(result["level"], "error");
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], "SFI-S01");
        assert!(result["message"]["text"].as_str().unwrap().contains("(%rdi)"));
        let location = &result["locations"][0];
        assert_eq!(location["physicalLocation"]["artifactLocation"]["uri"], uri);
        assert!(location["logicalLocations"].as_array().unwrap().iter().any(|l| l["name"] == "f"));
        // The byte in the file is the store itself: 48 89 07.
        let offset = location["physicalLocation"]["region"]["byteOffset"].as_u64().unwrap() as usize;
        let bytes = if uri == "both.a" { file.clone() } else { std::fs::read(bench.path(uri)).unwrap() };
        assert_eq!(bytes[offset..offset + 3], [0x48, 0x89, 0x07]);
    }
    assert_eq!(document["runs"][0]["invocations"][0]["executionSuccessful"], true);

    let document = run(&["--site", "https://docs.example/sfi/", "bad.o"], 1);
    for rule in document["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap() {
        let id = rule["id"].as_str().unwrap();
        let place = (!id.starts_with("SFI-P")).then(|| format!("https://docs.example/sfi/rules.html#{id}"));
        assert_eq!(rule.get("helpUri").map(|uri| uri.as_str().unwrap()), place.as_deref());
    }

    let document = run(&["junk.o", "a good:one.o", "missing.o"], 2);
    let invocation = &document["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(invocation["toolExecutionNotifications"].as_array().unwrap().len(), 2);
    assert_eq!(document["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn json_is_an_alias_of_a_format() {
    let bench = Bench::new();
    bench.assemble("bad.o", UNSAFE);
    let long = bench.run(&["verify", "--format", "json", "bad.o"], 1).stdout;
    assert_eq!(long, bench.run(&["verify", "--json", "bad.o"], 1).stdout);
    assert_eq!(codes(&json(&long)), ["SFI-S01"]);
    bench.run(&["verify", "--format", "xml", "bad.o"], 2);
}

#[test]
fn a_policy_refuses_what_is_safe_and_not_wanted() {
    let bench = Bench::new();
    bench.assemble("h.o", CURIOUS);
    bench.assemble("g.o", SAFE);
    let verdict = |policy: &str, arguments: &[&str], code| {
        bench.write("p.toml", policy.as_bytes());
        let head: &[&str] = &["verify", "--json", "--policy", "p.toml"];
        codes(&json(&bench.run(&[head, arguments].concat(), code).stdout))
    };
    let clock = |rest: &str| format!("{CLOCK}{rest}");
    let none: [&str; 0] = [];
    assert_eq!(verdict("", &["g.o"], 0), none);
    assert_eq!(verdict("", &["h.o"], 1), ["SFI-P02"]);
    assert_eq!(verdict("", &["--clock", "h.o"], 1), ["SFI-P02"], "the policy decides");
    assert_eq!(verdict(CLOCK, &["h.o"], 0), none);
    assert_eq!(codes(&json(&bench.run(&["verify", "--json", "h.o"], 1).stdout)), ["SFI-D02"]);
    assert_eq!(codes(&json(&bench.run(&["verify", "--json", "--clock", "h.o"], 0).stdout)), none);
    assert_eq!(verdict("modes = ['full']", &["--mode", "write", "g.o"], 1), ["SFI-P01"]);
    assert_eq!(verdict("modes = ['full']", &["g.o"], 0), none);
    assert_eq!(verdict("instructions = { rdtsc = false }", &["h.o"], 1), ["SFI-P02"]);
    assert_eq!(verdict("instructions = { rdtsc = true, cpuid = false }", &["h.o"], 1), ["SFI-P03"]);
    assert_eq!(verdict(&clock("imports = { allow = [] }"), &["h.o"], 1), ["SFI-P04", "SFI-P04"]);
    assert_eq!(verdict(&clock("imports = { allow = ['sys*', 'g'] }"), &["h.o"], 0), none);
    assert_eq!(verdict(&clock("imports = { allow = ['system'] }"), &["h.o", "g.o"], 0), none);
    assert_eq!(verdict(&clock("limits = { text = 5 }"), &["h.o"], 1), ["SFI-P05"]);
    assert_eq!(verdict(&clock("limits = { data = 4999 }"), &["h.o"], 1), ["SFI-P06"]);
    assert_eq!(verdict(&clock("limits = { data = 5000 }"), &["h.o"], 0), none);
    assert_eq!(verdict("limits = { object = 64 }", &["g.o"], 1), ["SFI-P07"]);

    // Place and instruction are those of the offending instruction. All formats and `explain` know
    // the codes.
    bench.write("p.toml", b"instructions = { rdtsc = false }");
    let human = bench.run(&["verify", "--policy", "p.toml", "h.o"], 1);
    let text = String::from_utf8(human.stderr).unwrap();
    assert!(text.contains("error[SFI-P02]") && text.contains("| rdtsc\n") && text.contains("| ^^^^^"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
    let sarif = json(&bench.run(&["verify", "--format", "sarif", "--policy", "p.toml", "h.o"], 1).stdout);
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "SFI-P02");
    let explained = bench.run(&["explain", "SFI-P02", "p07"], 0).stdout;
    assert!(String::from_utf8(explained).unwrap().contains("SFI-P07"));

    bench.write("p.toml", b"[limits]\nsize = 1\n");
    let refused = bench.run(&["verify", "--policy", "p.toml", "g.o"], 2);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("size"));
}

#[test]
fn a_statement_names_what_was_verified() {
    let bench = Bench::new();
    bench.assemble("bad.o", UNSAFE);
    bench.assemble("good.o", SAFE);
    bench.archive("two.a", &["good.o", "good.o"]);
    bench.write("p.toml", b"modes = ['write']");
    let statement = |arguments: &[&str], code| {
        bench.run(&[&["verify", "--attest", "s.json"], arguments].concat(), code);
        json(&std::fs::read(bench.path("s.json")).unwrap())
    };
    let first = statement(&["--policy", "p.toml", "good.o", "two.a"], 0);
    assert_eq!(first, statement(&["--policy", "p.toml", "good.o", "two.a"], 0));
    assert_eq!(first["_type"], "https://in-toto.io/Statement/v1");
    assert!(first["predicateType"].as_str().unwrap().starts_with("urn:"));
    let subjects = first["subject"].as_array().unwrap();
    for (subject, file) in subjects.iter().filter_map(|s| Some((s, s["name"].as_str()?))) {
        let member = file.contains('(');
        let path = bench.path(if member { "good.o" } else { file });
        assert_eq!(subject["digest"]["sha256"], support::sha256sum(&path), "{file}");
    }
    let names: std::collections::BTreeSet<&str> = subjects.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let predicate = &first["predicate"];
    assert_eq!(predicate["result"], "PASSED");
    assert_eq!(predicate["mode"], "write");
    assert_eq!(predicate["policy"]["digest"]["sha256"], support::sha256sum(&bench.path("p.toml")));
    assert_eq!(predicate["ruleSet"]["version"], sfi_contract::CONTRACT_VERSION);
    assert!(predicate.get("sourceDateEpoch").is_none());

    assert_eq!(predicate["policy"]["accepted"]["modes"], serde_json::json!(["write"]));

    let failed = statement(&["bad.o", "good.o"], 1);
    assert_eq!(failed["predicate"]["result"], "FAILED");
    assert_eq!(failed["predicate"]["objects"][0]["violations"]["SFI-S01"], 1);
    assert_eq!(failed["predicate"]["objects"][1]["result"], "PASSED");
    assert_eq!(statement(&["good.o", "missing.o"], 2)["predicate"]["result"], "FAILED");

    let mut command = sfi(&bench, &["verify", "--attest", "s.json", "good.o"]);
    assert!(command.env("SOURCE_DATE_EPOCH", "1700000000").status().unwrap().success());
    let dated = json(&std::fs::read(bench.path("s.json")).unwrap());
    assert_eq!(dated["predicate"]["sourceDateEpoch"], 1_700_000_000);
    let mut command = sfi(&bench, &["verify", "--attest", "s.json", "good.o"]);
    assert_eq!(command.env("SOURCE_DATE_EPOCH", "soon").status().unwrap().code(), Some(2));
}

/// The statement repeats each key of the policy that decides the verdict.
#[test]
fn a_statement_says_what_the_policy_accepts() {
    let bench = Bench::new();
    bench.assemble("h.o", CURIOUS);
    let sizes = json(&bench.run(&["verify", "--json", "--clock", "h.o"], 0).stdout);
    let text = sizes["objects"][0]["text_bytes"].as_u64().unwrap();
    let object = std::fs::metadata(bench.path("h.o")).unwrap().len();
    let (less_text, less_object) = (text - 1, object - 1);
    let bound = |key: &str, value: u64| (format!("/policy/accepted/limits/{key}"), serde_json::json!(value));
    let says = |pointer: &str, value: Value| (pointer.to_owned(), value);
    let allowed = |key: &str, value: bool| says(&format!("/allowed/{key}"), value.into());
    for (policy, code, (pointer, value)) in [
        ("", Some("SFI-P02"), allowed("rdtsc", false)),
        ("", Some("SFI-P02"), allowed("cpuid", true)),
        (CLOCK, None, allowed("rdtsc", true)),
        ("instructions = { rdtsc = false }", Some("SFI-P02"), allowed("rdtsc", false)),
        ("instructions = { rdtsc = true, cpuid = false }", Some("SFI-P03"), allowed("cpuid", false)),
        ("modes = ['full']", Some("SFI-P01"), says("/policy/accepted/modes", serde_json::json!(["full"]))),
        ("modes = ['write']", None, says("/policy/accepted/modes", serde_json::json!(["write"]))),
        ("imports = { allow = [] }", Some("SFI-P04"), says("/policy/accepted/imports/allow", serde_json::json!([]))),
        ("imports = { allow = ['*'] }", None, says("/policy/accepted/imports/allow", serde_json::json!(["*"]))),
        (&format!("limits = {{ text = {text} }}"), None, bound("text", text)),
        (&format!("limits = {{ text = {less_text} }}"), Some("SFI-P05"), bound("text", less_text)),
        ("limits = { data = 5000 }", None, bound("data", 5000)),
        ("limits = { data = 4999 }", Some("SFI-P06"), bound("data", 4999)),
        (&format!("limits = {{ object = {object} }}"), None, bound("object", object)),
        (&format!("limits = {{ object = {less_object} }}"), Some("SFI-P07"), bound("object", less_object)),
    ] {
        // The object reads the clock, so policies about other things grant it.
        let other = !policy.is_empty() && !policy.starts_with("instructions");
        bench.write("p.toml", format!("{}{policy}", if other { CLOCK } else { "" }).as_bytes());
        let exit = i32::from(code.is_some());
        let verdict = json(
            &bench
                .run(&["verify", "--mode", "write", "--json", "--policy", "p.toml", "--attest", "s.json", "h.o"], exit)
                .stdout,
        );
        assert_eq!(codes(&verdict).first().map(String::as_str), code, "{policy}");
        let predicate = json(&std::fs::read(bench.path("s.json")).unwrap())["predicate"].take();
        assert_eq!(predicate.pointer(&pointer), Some(&value), "{policy}: {predicate}");
        assert_eq!(predicate["result"], if code.is_some() { "FAILED" } else { "PASSED" }, "{policy}");
    }
    // The command line forbids the same instructions.
    for (flags, key) in [(&[][..], "rdtsc"), (&["--clock", "--no-identity"], "cpuid")] {
        bench.run(&[&["verify", "--attest", "s.json", "h.o"], flags].concat(), 1);
        assert_eq!(json(&std::fs::read(bench.path("s.json")).unwrap())["predicate"]["allowed"][key], false);
    }
}

/// The gate refuses FIFOs and devices at once. It neither waits for a writer nor reads a device.
#[test]
fn special_files_are_no_objects() {
    let bench = Bench::new();
    bench.assemble("ok.o", SAFE);
    support::succeed(std::process::Command::new("mkfifo").arg(bench.path("fifo.o")));
    std::os::unix::fs::symlink("/dev/zero", bench.path("zero.o")).unwrap();
    std::fs::create_dir(bench.path("folder.o")).unwrap();
    for special in ["fifo.o", "zero.o", "folder.o"] {
        for command in [&["verify", "ok.o", special][..], &["rewrite", special, "-o", "new.o"], &["objdump", special]] {
            let out = bench.run(command, 2);
            assert!(String::from_utf8_lossy(&out.stderr).contains("is not a file"), "{command:?}");
        }
    }
}

/// Sparse files cost nothing on a disk, and are not read into memory.
#[test]
fn huge_files_are_not_read() {
    let bench = Bench::new();
    bench.assemble("ok.o", SAFE);
    let sparse = |name: &str, length: u64| {
        std::fs::File::create(bench.path(name)).unwrap().set_len(length).unwrap();
        name.to_owned()
    };
    let (object, text) = (sparse("huge.o", 20 << 30), sparse("huge.toml", (64 << 20) + 1));
    let commands = [
        (["verify", &object].to_vec(), "1024 MiB"),
        (["rewrite", &object, "-o", "new.o"].to_vec(), "1024 MiB"),
        (["run", &object].to_vec(), "1024 MiB"),
        (["run", &text].to_vec(), "64 MiB"),
        (["verify", "ok.o", "--policy", &text].to_vec(), "64 MiB"),
        (["verify", "ok.o", "--baseline", &text].to_vec(), "64 MiB"),
        (["verify", "ok.o", "--since", &text].to_vec(), "64 MiB"),
    ];
    for (command, limit) in commands {
        let out = bench.run(&command, 2);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(&format!("is larger than {limit}")), "{command:?}: {said}");
    }
}

/// Manifests, and the files that they name, are refused in the same way.
#[test]
fn special_files_are_no_manifests() {
    let bench = Bench::new();
    bench.assemble("ok.o", SAFE);
    support::succeed(std::process::Command::new("mkfifo").arg(bench.path("fifo")));
    std::os::unix::fs::symlink("/dev/zero", bench.path("zero")).unwrap();
    std::fs::create_dir(bench.path("folder")).unwrap();
    let grant = "imports.f = { domain = 'a', function = 'g', interface = 'i' }";
    for special in ["fifo", "zero", "folder"] {
        let domain = |objects: &str, more: &str| {
            format!("[entry]\ndomain = 'a'\nfunction = 'g'\n[domains.a]\nobjects = ['{objects}']\n{more}\n")
        };
        let manifests = [
            domain(special, ""),
            domain("ok.o", &format!("archives = ['{special}']")),
            domain("ok.o", &format!("[files]\nx = '{special}'")),
            domain("ok.o", &format!("exports = ['g']\n{grant}\n[interfaces]\ni = '{special}'")),
        ];
        for text in manifests {
            bench.write("m.toml", text.as_bytes());
            let out = bench.run(&["run", "m.toml"], 2);
            assert!(String::from_utf8_lossy(&out.stderr).contains("is not a file"), "{text}: {out:?}");
        }
        let out = bench.run(&["verify", "--policy", special, "ok.o"], 2);
        assert!(String::from_utf8_lossy(&out.stderr).contains("is not a file"), "{special}");
        let out = bench.run(&["run", special], 2);
        assert!(String::from_utf8_lossy(&out.stderr).contains("is not a file"), "{special}");
    }
}

/// Names in errors reach a terminal without control characters, whatever their origin.
#[test]
fn errors_hold_no_control_characters() {
    let bench = Bench::new();
    for (name, told) in [("\u{1b}[31m", "a\u{fffd}[31m"), ("\u{202e}", "a\u{fffd}"), ("\u{200b}x", "a\u{fffd}x")] {
        let missing = format!("a{name}");
        for arguments in [["verify", &missing], ["run", &missing], ["rewrite", &missing]] {
            let arguments =
                if arguments[0] == "rewrite" { vec!["rewrite", "-o", "o.o", &missing] } else { arguments.to_vec() };
            let out = bench.run(&arguments, 2);
            let text = String::from_utf8(out.stderr).unwrap();
            assert!(text.contains(told) && !text.contains(name), "{arguments:?}: {text:?}");
        }
    }
    bench.write("m.toml", b"[domains.a]\nobjects = 3\n");
    let text = String::from_utf8(bench.run(&["run", "m.toml"], 2).stderr).unwrap();
    assert!(text.lines().count() > 2, "{text}");
    // No number of mebibytes wraps around.
    bench.assemble("ok.o", SAFE);
    let out = bench.run(&["run", "--memory", "17592186044417", "ok.o"], 2);
    assert!(String::from_utf8_lossy(&out.stderr).contains("is not in"), "{out:?}");
}

/// A bound over all objects of a run limits the findings, so hostile members take bounded memory.
/// Each refused object keeps one finding, and all findings are counted.
#[test]
fn findings_are_bounded_in_all() {
    const COPIES: usize = 25;
    const STORES: u64 = 10_050;
    let bench = Bench::new();
    bench.assemble("many.o", &format!(".text\n.rept {STORES}\n\tmov %rax,(%rdi)\n.endr\n\tret\n"));
    bench.archive("many.a", &["many.o"; COPIES]);
    bench.run(&["verify", "--attest", "s.json", "many.a"], 1);
    let statement = json(&std::fs::read(bench.path("s.json")).unwrap());
    let objects = statement["predicate"]["objects"].as_array().unwrap();
    let numbers =
        |object: &Value| (object["violations"]["SFI-S01"].as_u64().unwrap(), object["omitted"].as_u64().unwrap());
    let all: Vec<(u64, u64)> = objects.iter().map(numbers).collect();
    assert_eq!(all.len(), COPIES);
    assert!(all.iter().all(|(kept, omitted)| *kept > 0 && kept + omitted == STORES), "{all:?}");
    // Findings of a policy have the bound too, although the verifier does not count them.
    let calls: String = (0..STORES).map(|number| format!("\tcall missing{number}@PLT\n")).collect();
    bench.assemble("calls.o", &format!(".text\n{calls}\tret\n"));
    bench.write("p.toml", b"imports = { allow = [] }");
    let verdict = json(&bench.run(&["verify", "--json", "--policy", "p.toml", "calls.o"], 1).stdout);
    assert_eq!((codes(&verdict).len(), &verdict["objects"][0]["omitted"]), (10_000, &serde_json::json!(50)));
    assert!(all.iter().map(|(kept, _)| kept).sum::<u64>() < 51_000, "{all:?}");
}

/// Line numbers too large for any file are left out, because readers of SARIF and JSON expect small
/// numbers.
#[test]
fn lines_of_hostile_debug_information_are_small() {
    let bench = Bench::new();
    let lines = |line: u64, column: u64| {
        let place = format!(".file 1 \"x.c\"\n\t.loc 1 {line} {column}\n");
        bench.assemble("bad.o", &UNSAFE.replace("f:\n", &format!("f:\n\t{place}")));
        let found = json(&bench.run(&["verify", "--json", "bad.o"], 1).stdout);
        let finding = &found["objects"][0]["violations"][0];
        (finding["line"].as_u64(), finding["column"].as_u64())
    };
    assert_eq!(lines(7, 3), (Some(7), Some(3)));
    assert_eq!(lines(0x7fff_ffff, 3), (Some(0x7fff_ffff), Some(3)));
    assert_eq!(lines(0xffff_fff0, 3), (None, None));
}
