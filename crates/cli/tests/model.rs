//! `sfi model`: its figures, its points and its judgement follow from the formula, and the numbers
//! in docs/RESULTS.md are its own.

mod support;

use serde_json::Value;
use support::Bench;

fn document(bench: &Bench, arguments: &[&str]) -> Value {
    serde_json::from_slice(&bench.run(arguments, 0).stdout).unwrap()
}

fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {document}"))
}

/// Compares each break-even point with the formula: savings = (1 - r) t_c - h t_d is zero there.
fn check_points(document: &Value) {
    let (domains, overhead) = (number(document, "/nanoseconds"), number(document, "/overhead"));
    for other in document["against"].as_array().unwrap() {
        let r = number(other, "/r");
        assert!((r - domains / number(other, "/nanoseconds")).abs() < 0.01 * r + 1e-5, "{other}");
        for (share, name) in [(1.0, "all_distrusted"), (0.5, "half_distrusted")] {
            let t_c = number(other, &format!("/break_even/{name}"));
            assert!(t_c > 0.0 && ((1.0 - r) * t_c - overhead * share * (1.0 - t_c)).abs() < 1e-5, "{name}: {other}");
        }
    }
}

#[test]
fn points_follow_from_the_formula() {
    let bench = Bench::new();
    check_points(&document(&bench, &["model", "--json"]));
    let paper =
        document(&bench, &["model", "--json", "--overhead", "0.043", "--crossing", "1110", "--against", "pipe=204720"]);
    check_points(&paper);
    assert!((number(&paper, "/against/0/break_even/all_distrusted") - 0.0415).abs() < 0.0002);
}

#[test]
fn measured_costs_are_costs_of_this_machine() {
    let bench = Bench::new();
    let measured = document(&bench, &["model", "--measure", "--json"]);
    assert_eq!(measured["measured"], true);
    let domains = number(&measured, "/nanoseconds");
    // A crossing of processes wakes somebody, and one of domains does not.
    for other in measured["against"].as_array().unwrap().iter().filter(|other| other["name"] != "trap") {
        assert!(number(other, "/nanoseconds") > 2.0 * domains, "{measured}");
    }
    check_points(&measured);
}

/// Returns the values of an attribute, in order.
fn attributes<'t>(text: &'t str, element: &str, name: &str) -> Vec<&'t str> {
    let (element, name) = (format!("<{element} "), format!(" {name}=\""));
    let of = |line: &'t str| line.split_once(&name).and_then(|(_, rest)| rest.split('"').next());
    text.lines().filter(|line| line.starts_with(&element)).filter_map(of).collect()
}

#[test]
fn the_picture_has_the_figures_and_their_points() {
    let bench = Bench::new();
    let numbers = document(&bench, &["model", "--json"]);
    bench.run(&["model", "--svg", "model.svg"], 0);
    let picture = std::fs::read_to_string(bench.path("model.svg")).unwrap();
    let text = String::from_utf8(bench.run(&["model"], 0).stdout).unwrap();
    for figure in ["Figure 5. Domains", "Figure 6. Domains", "Figure 7. Share"] {
        assert!(picture.contains(figure) && text.contains(figure), "{figure}");
    }
    let others = numbers["against"].as_array().unwrap();
    // Each of figures 5 and 6 has a region and a point for each mechanism. Figure 7 has a curve for
    // each of them, and one for domains.
    let (xs, ys) = (attributes(&picture, "circle", "cx"), attributes(&picture, "circle", "cy"));
    assert_eq!(attributes(&picture, "polygon", "points").len(), 2);
    assert_eq!(attributes(&picture, "polyline", "points").len(), 2 + others.len() + 1);
    assert_eq!(xs.len(), 2 * others.len());
    let position = |text: &str| text.parse::<f64>().unwrap();
    for (i, other) in others.iter().enumerate() {
        for (x, name) in [(xs[i], "all_distrusted"), (xs[others.len() + i], "half_distrusted")] {
            // Three decades in 640 pixels, from 0.1% on.
            let share = 10f64.powf((position(x) - 70.0) / 640.0 * 3.0 - 3.0);
            let exact = number(other, &format!("/break_even/{name}"));
            assert!((share / exact - 1.0).abs() < 0.002, "{name}: {share} {exact}");
        }
        // One r is higher than another by as many pixels as the figure's height says.
        let rise = (position(ys[0]) - position(ys[i])) / 300.0;
        assert!((rise - (number(other, "/r") - number(&others[0], "/r"))).abs() < 0.001, "{other}");
    }
}

#[test]
fn a_run_is_judged_by_its_crossings() {
    let bench = Bench::new();
    let count = 10_000;
    bench.write("a.c", b"int g(int); int f(void) { int n = 0; while (n < 10000) n = g(n); return 0; }\n");
    bench.write("b.c", b"int g(int n) { return n + 1; }\n");
    for name in ["a", "b"] {
        let (source, object) = (format!("{name}.c"), format!("{name}.o"));
        support::succeed(
            std::process::Command::new("gcc")
                .args(["-O2", "-fPIE", "-c", "-o", &object, &source])
                .current_dir(bench.directory()),
        );
        bench.run(&["rewrite", &object], 0);
    }
    let manifest = "[entry]\ndomain = \"a\"\nfunction = \"f\"\n[domains.a]\nobjects = [\"a.sfi.o\"]\n\
                    [domains.a.imports]\ng = { domain = \"b\", function = \"g\", signature = \"(int) -> int\" }\n\
                    [domains.b]\nobjects = [\"b.sfi.o\"]\nexports = [\"g\"]\n";
    bench.write("m.toml", manifest.as_bytes());
    let run = document(&bench, &["model", "--json", "--profile", "m.toml", "--against", "pipe,none=1,slow=1000000"]);
    // Those of the program, and the entry of the host.
    assert_eq!(number(&run, "/crossings"), f64::from(count + 1));
    assert!(number(&run, "/total_ms") >= number(&run, "/inside_ms"));
    let pays = |i: usize| run["against"][i]["pays"].as_bool().unwrap();
    assert!(!pays(1) && pays(2), "{run}");
    for i in 0..3 {
        let cost = number(&run, &format!("/against/{i}/nanoseconds"));
        assert_eq!(pays(i), cost > number(&run, "/break_even_ns"), "{run}");
    }
}

#[test]
fn the_documented_points_are_those_of_the_formula() {
    let bench = Bench::new();
    let results = std::fs::read_to_string(support::root().join("docs/RESULTS.md")).unwrap();
    let percent = |share: f64| format!("{:.2}%", 100.0 * share);
    let row = |name: &str, run: &Value, i: usize| {
        let of = |part: &str| number(run, &format!("/against/{i}/{part}"));
        let (all, half) = (of("break_even/all_distrusted"), of("break_even/half_distrusted"));
        format!("| {name} | {:.4} | {} | {} |", of("r"), percent(all), percent(half))
    };
    let write = document(&bench, &["model", "--json"]);
    let full = document(&bench, &["model", "--json", "--overhead", "0.094"]);
    let paper =
        document(&bench, &["model", "--json", "--overhead", "0.043", "--crossing", "1110", "--against", "pipe=204720"]);
    for row in [
        row("write, a pipe", &write, 0),
        row("write, a futex", &write, 1),
        row("write, a trap", &write, 2),
        row("full, a pipe", &full, 0),
        row("the paper, a pipe", &paper, 0),
    ] {
        assert!(results.contains(&row), "docs/RESULTS.md has no row {row}");
    }
}
