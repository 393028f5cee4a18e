//! The JSON documents of the subcommands follow the schemas of docs/schema. The schema of `sfi
//! verify` has its test in `known.rs`.

mod support;

use serde_json::Value;
use support::{Bench, schema, sfi, strict_schema};

const MANIFEST: &str = "[entry]\ndomain = 'a'\nfunction = 'f'\n\
    [domains.a]\nobjects = ['a.sfi.o']\n[domains.a.imports]\ng = { domain = 'b', function = 'g', signature = '(int) -> int' }\n\
    [domains.b]\nobjects = ['b.sfi.o']\nexports = ['g']\n";

/// Makes a directory with objects, rewritten ones and a manifest of two domains.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("a.c", b"int g(int); int *p; int f(void) { int a = g(1); p = &a; return g(*p); }\n");
    bench.write("b.c", b"int g(int n) { return n + 1; }\n");
    for name in ["a", "b"] {
        let (source, object) = (format!("{name}.c"), format!("{name}.o"));
        support::succeed(
            std::process::Command::new("gcc")
                .args(["-O2", "-g", "-fPIE", "-c", "-o", &object, &source])
                .current_dir(bench.directory()),
        );
        bench.run(&["rewrite", &object], 0);
    }
    bench.write("m.toml", MANIFEST.as_bytes());
    bench
}

/// Each subcommand with JSON, the name of its schema, and the options of one or more runs.
const CASES: &[(&str, &[&[&str]])] = &[
    ("rewrite", &[&["rewrite", "--stats", "--json", "-o", "out", "a.o", "b.o"]]),
    ("addr2line", &[&["addr2line", "--json", "a.sfi.o", "f", "f+2"]]),
    ("objdump", &[&["objdump", "--json", "a.sfi.o"], &["objdump", "--json", "a.o"]]),
    (
        "anonymity",
        &[
            &["anonymity", "--json", "--searches", "2", "m.toml"],
            &["anonymity", "--json", "--searches", "2", "--penalty", "1", "alone.toml"],
        ],
    ),
    ("ash-bench", &[&["ash", "bench", "--json", "--local", "--rounds", "1"]]),
    ("bench-crossing", &[&["bench", "crossing", "--json", "--rounds", "1"]]),
    (
        "bench-instance",
        &[
            &["bench", "instance", "--json", "--rounds", "1", "--domains", "4"],
            &["bench", "instance", "--json", "--rounds", "1", "--domains", "0"],
        ],
    ),
    ("model", &[&["model", "--json"], &["model", "--json", "--profile", "m.toml"]]),
];

/// Lists the pointers of all objects in a document.
fn objects(document: &Value, at: &str, found: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            found.push(at.to_owned());
            fields.iter().for_each(|(name, value)| objects(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| objects(item, &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

#[test]
fn documents_follow_their_schemas() {
    let bench = bench();
    bench.write(
        "alone.toml",
        MANIFEST.split("[domains.a.imports]").next().unwrap().replace("a.sfi", "b.sfi").as_bytes(),
    );
    for (name, runs) in CASES {
        let (readers, validator) = (schema(name), strict_schema(name));
        for arguments in *runs {
            let output = sfi(&bench, arguments).output().expect("sfi runs");
            let mut document: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
            let errors: Vec<String> =
                validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert_eq!(errors, Vec::<String>::new(), "{arguments:?}");
            assert_eq!(document["schema"], 1, "{arguments:?}");
            // Each field is described: in no object can one be added that is no number.
            let mut places = Vec::new();
            objects(&document, "", &mut places);
            for place in places {
                let fields = |document: &mut Value, what: Option<Value>| {
                    let fields = document.pointer_mut(&place).and_then(Value::as_object_mut).expect("an object");
                    match what {
                        Some(value) => fields.insert("unheard of".into(), value),
                        None => fields.remove("unheard of"),
                    };
                };
                fields(&mut document, Some("text".into()));
                assert!(!validator.is_valid(&document), "{name}: `{place}` takes any field");
                // Readers take the documents of later versions, except in maps of numbers.
                let map =
                    readers.iter_errors(&document).all(|error| error.instance_path().as_str().ends_with("/unheard of"));
                assert!(map, "{name}: `{place}` takes no field");
                fields(&mut document, None);
            }
            // Fields of the document are needed, but for those of an option.
            for field in document.as_object().expect("an object").keys().filter(|field| *field != "live") {
                let mut less = document.clone();
                less.as_object_mut().expect("an object").remove(field);
                assert!(!validator.is_valid(&less), "{name}: no `{field}` is needed");
            }
        }
    }
}

/// A statement has no `schema` number. Its form is the type of its predicate.
#[test]
fn statements_follow_their_schema() {
    let bench = Bench::new();
    bench.assemble("bad.o", ".text\n.globl f\nf:\n\tmov %rax,(%rdi)\n\tret\n");
    bench.assemble("good.o", ".text\n.globl g\ng:\n\tret\n");
    bench.archive("two.a", &["good.o", "good.o", "bad.o"]);
    bench.write("junk.o", b"junk");
    bench.write("none.toml", b"");
    let all = b"modes = ['write', 'full']\ninstructions.rdtsc = true\nimports.allow = ['f*']\n\
        limits = { text = 10000, data = 10000, object = 10000 }\n";
    bench.write("all.toml", all);
    let (readers, validator) = (schema("attest"), strict_schema("attest"));
    let statement = |arguments: &[&str], code: i32, epoch: Option<&str>| -> Value {
        let mut command = sfi(&bench, &[&["verify", "--attest", "s.json"], arguments].concat());
        command.envs(epoch.map(|seconds| ("SOURCE_DATE_EPOCH", seconds)));
        assert_eq!(command.output().expect("sfi runs").status.code(), Some(code), "{arguments:?}");
        serde_json::from_slice(&std::fs::read(bench.path("s.json")).expect("a statement")).expect("JSON")
    };
    let documents = [
        statement(&["good.o"], 0, None),
        statement(&["--policy", "none.toml", "two.a", "bad.o"], 1, None),
        statement(&["--policy", "all.toml", "good.o"], 0, Some("1700000000")),
        statement(&["junk.o", "good.o", "--mode", "full"], 2, None),
    ];
    for mut document in documents {
        let errors: Vec<String> =
            validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new(), "{document}");
        let mut places = Vec::new();
        objects(&document, "", &mut places);
        assert!(places.len() > 8, "{places:?}");
        for place in places {
            let before = document.pointer(&place).and_then(Value::as_object).expect("an object").clone();
            let put = |document: &mut Value, fields| *document.pointer_mut(&place).expect("it is there") = fields;
            // Nobody adds a field without its description, and readers take later ones.
            let mut more = before.clone();
            more.insert("unheard of".into(), "text".into());
            put(&mut document, more.into());
            assert!(!validator.is_valid(&document), "`{place}` takes any field");
            assert_eq!(readers.is_valid(&document), !place.ends_with("/violations"), "{place}");
            // All fields are needed, but for the time and the codes of violations.
            for name in before.keys().filter(|name| *name != "sourceDateEpoch" && !name.starts_with("SFI-")) {
                let mut less = before.clone();
                less.remove(name);
                put(&mut document, less.into());
                assert!(!validator.is_valid(&document), "`{place}`: no `{name}` is needed");
            }
            put(&mut document, before.into());
        }
    }
}

#[test]
fn each_subcommand_with_json_has_a_schema() {
    let bench = Bench::new();
    let text = |arguments: &[&str]| String::from_utf8(bench.run(arguments, 0).stdout).unwrap();
    let names = |help: &str| -> Vec<String> {
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let words = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned));
        words.filter(|word| !word.is_empty() && word != "help").collect()
    };
    let mut with_json = Vec::new();
    for command in names(&text(&["--help"])) {
        let help = text(&[&command, "--help"]);
        let below = names(&help);
        if help.contains("--json") && below.is_empty() {
            with_json.push(command.clone());
        }
        let json = |inner: &String| text(&[&command, inner, "--help"]).contains("--json");
        with_json.extend(below.iter().filter(|inner| json(inner)).map(|inner| format!("{command}-{inner}")));
    }
    let tested: Vec<&str> = CASES.iter().map(|(name, _)| *name).chain(["verify"]).collect();
    let untested: Vec<&String> = with_json.iter().filter(|name| !tested.contains(&name.as_str())).collect();
    assert_eq!(untested, Vec::<&String>::new());
    assert_eq!(with_json.len(), tested.len(), "{with_json:?}");
}
