//! Completions and manual pages exist for every subcommand, in a form that their readers accept.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn sfi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sfi")).args(arguments).output().expect("sfi runs")
}

/// Returns the subcommands that `sfi --help` lists.
fn subcommands() -> Vec<String> {
    let help = String::from_utf8(sfi(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let name = |line: &str| {
        line.strip_prefix("  ").filter(|l| !l.starts_with(' ')).map(|l| l.split(' ').next().unwrap().to_owned())
    };
    let names: Vec<String> = list.lines().filter_map(name).filter(|n| n != "help").collect();
    assert!(names.len() >= 8, "{names:?}");
    names
}

#[test]
fn completions_name_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = sfi(&["completion", shell]);
        assert!(out.status.success());
        let script = String::from_utf8(out.stdout).unwrap();
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        if shell == "bash" {
            let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(bash.wait().unwrap().success());
        }
    }
    assert_eq!(sfi(&["completion", "cmd.exe"]).status.code(), Some(2));
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert!(sfi(&["man", pages.to_str().unwrap()]).status.success());
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("sfi.1").contains(".TH sfi 1"));
    for name in subcommands() {
        let text = page(&format!("sfi-{name}.1"));
        assert!(text.contains("Exit codes"), "{name}");
        assert!(text.contains("Examples"), "{name}");
    }
    assert!(page("sfi-bench-crossing.1").contains("rounds"), "subcommands of subcommands too");
    // A path that cannot be a folder is an error.
    assert_eq!(sfi(&["man", "/dev/null/man1"]).status.code(), Some(2));
}

#[test]
fn bench_instance_says_what_instances_cost() {
    let output = Command::new(env!("CARGO_BIN_EXE_sfi"))
        .args(["bench", "instance", "--json", "--rounds", "1", "--domains", "60"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["fork_exit", "fresh_instance", "fresh_world", "pooled_reset_and_take"] {
        assert!(object["microseconds"][key].as_f64().is_some_and(|us| us > 0.0), "{key}: {object}");
    }
    let live = &object["live"];
    assert_eq!(live["domains"], 60);
    assert!(live["mappings_each"].as_f64().is_some_and(|n| (5.0..=6.3).contains(&n)), "{live}");
    assert!(live["resident_bytes_each"].as_f64().is_some_and(|n| n > 4096.0), "{live}");
}
