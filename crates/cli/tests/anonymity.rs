//! `sfi anonymity` on a manifest. The numbers agree with each other, and a real search agrees with
//! the formula.

mod support;

use serde_json::Value;
use support::Bench;

const OBJECT: &str = ".text\n.globl sfi_main\n.type sfi_main,@function\nsfi_main:\n\txor %eax,%eax\n\tret\n";

fn bench(domains: usize) -> Bench {
    let bench = Bench::new();
    bench.assemble("idle.o", OBJECT);
    let mut manifest = "[entry]\ndomain = \"d0\"\nfunction = \"sfi_main\"\n".to_owned();
    for i in 0..domains {
        let mode = if i == 0 { "full" } else { "write" };
        manifest += &format!("[domains.d{i}]\nobjects = [\"idle.o\"]\nmemory = \"0\"\nmode = \"{mode}\"\n");
    }
    bench.write("domains.toml", manifest.as_bytes());
    bench
}

#[test]
fn a_real_search_agrees_with_the_formula() {
    let bench = bench(40);
    let output = bench.run(&["anonymity", "domains.toml", "--penalty", "0.5", "--searches", "10", "--json"], 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |pointer: &str| {
        report.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {report}"))
    };
    // Eight domains have a longest run of 1 GiB. Each window gives three places, because the first
    // bytes of a window are never mapped.
    assert_eq!(number("/windows"), 32_765.0);
    assert_eq!((number("/simulation/v"), number("/simulation/m")), (3.0 * 32_765.0, 8.0));
    assert!((number("/simulation/expected") - (3.0 * 32_765.0 + 1.0) / 9.0).abs() < 1e-6);
    assert!(number("/simulation/standard_errors").abs() < 3.29);
    assert!(number("/simulation/guesses") > 10.0 * 100.0, "eight finds within a few guesses: nothing was searched");
    // The search in the manifest's world tries one address for each length of the longest run. M is
    // the number of these that are mapped.
    let (run, mapped) = (number("/others/run"), number("/others/mapped"));
    assert_eq!(number("/others/domains"), 39.0);
    assert!((4096.0..1048576.0 * 3.0).contains(&run) && mapped >= run, "{run} {mapped}");
    assert_eq!(number("/manifest/v"), 32_765.0 * ((4_294_967_296.0 / run).floor() - 1.0));
    assert_eq!(number("/manifest/m"), (mapped / run).round());
    let five = |pointer: &str| number(&format!("/spaces/1/{pointer}"));
    assert_eq!((number("/spaces/0/windows"), five("bits"), five("windows")), (32_765.0, 56.0, 16_777_213.0));
    assert!((five("manifest/mean_guesses") / number("/manifest/mean_guesses") - 512.0).abs() < 0.1);
    let delay = number("/d/measured") + 0.5;
    assert!((number("/manifest/seconds") / (number("/manifest/median_guesses") * delay) - 1.0).abs() < 1e-9);
    assert_eq!(report["can_search"].as_array().unwrap().len(), 39);
}

#[test]
fn the_report_for_people() {
    let bench = bench(2);
    let text = String::from_utf8(bench.run(&["anonymity", "domains.toml", "--searches", "2"], 0).stdout).unwrap();
    for line in [
        "windows' places               32765\n",
        "other domains of the manifest 1\n",
        "V  addresses to try ",
        "M  of them mapped ",
        "with 47 bits of address       32765 windows, time to breach ",
        "with 56 bits of address       16777213 windows, time to breach ",
        "domains that can search       d1\n",
        "agrees",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // The manifest asks for the larger space, so its windows lie there on every machine. The
    // simulation stays in the smaller space.
    let manifest = std::fs::read_to_string(bench.path("domains.toml")).unwrap() + "[placement]\nla57 = true\n";
    bench.write("five.toml", manifest.as_bytes());
    let text = String::from_utf8(bench.run(&["anonymity", "five.toml", "--searches", "2"], 0).stdout).unwrap();
    assert!(text.contains("windows' places               16777213\n") && text.contains("agrees"), "{text}");
    bench.write("bad.toml", b"[entry]\ndomain = \"d\"\nfunction = \"f\"\n[domains.d]\nno_such_key = 1\n");
    bench.run(&["anonymity", "bad.toml"], 2);
}

/// The times that Yarvin, Bukowski and Anderson print for segments of 8 KiB in 64 bits.
#[test]
fn the_papers_table() {
    let bench = Bench::new();
    let arguments = ["anonymity", "--address-bits", "64", "--segment", "8K", "--memory", "16M,256M,2G,16G"];
    let text = String::from_utf8(bench.run(&arguments, 0).stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["16", "256", "2", "16"], "{text}");
    assert!(text.contains("64 bits of address, segments of 8 KiB"), "{text}");
    bench.run(&["anonymity", "--address-bits", "16", "--memory", "1G"], 2);
    bench.run(&["anonymity"], 2);
}

/// A domain that has the processor's clock searches without faults.
#[test]
fn domains_with_the_clock_search_without_faults() {
    let bench = bench(40);
    let manifest = std::fs::read_to_string(bench.path("domains.toml")).unwrap();
    for (mode, expected) in [("write", 39), ("full", 0)] {
        let changed = manifest.replace("mode = \"write\"", &format!("mode = \"{mode}\"\nclock = \"exposing\""));
        bench.write("domains.toml", changed.as_bytes());
        let output = bench.run(&["anonymity", "domains.toml", "--searches", "2", "--json"], 0);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["can_search_without_faults"].as_array().unwrap().len(), expected, "{report}");
    }
}
