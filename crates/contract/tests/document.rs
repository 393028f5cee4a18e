//! `docs/CONTRACT.md` and the code name the same rules.

use sfi_contract::Rule;
use std::collections::BTreeSet;

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONTRACT.md");
    std::fs::read_to_string(path).expect("docs/CONTRACT.md")
}

/// Returns the words of the shape `X00`, with or without `SFI-`. A reader takes such a word for a
/// rule.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_id = |w: &&str| {
        let bytes = w.as_bytes();
        bytes.len() == 3 && bytes[0].is_ascii_uppercase() && bytes[1..].iter().all(u8::is_ascii_digit)
    };
    words.filter(is_id).map(|w| format!("SFI-{w}")).collect()
}

#[test]
fn every_rule_is_in_the_table_with_its_title() {
    let document = document();
    let rows: Vec<&str> = document.lines().filter(|l| l.starts_with("| SFI-")).collect();
    let expected: Vec<String> = Rule::ALL.iter().map(|r| format!("| {} | {} |", r.id(), r.title())).collect();
    assert_eq!(rows, expected);
}

#[test]
fn no_rule_is_named_that_does_not_exist() {
    for id in named(&document()) {
        assert!(id.parse::<Rule>().is_ok(), "docs/CONTRACT.md names {id}");
    }
    let found: Vec<String> = named("E01..E03, SFI-Z99, F3 C3, 32S, R_X86_64").into_iter().collect();
    assert_eq!(found, ["SFI-E01", "SFI-E03", "SFI-Z99"]);
}

/// `docs/MUTANTS.md` holds the results of `cargo xtask mutants`, which left out each rule in turn.
#[test]
fn every_rule_is_held_by_a_test() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MUTANTS.md");
    let document = std::fs::read_to_string(path).expect("docs/MUTANTS.md, from `cargo xtask mutants`");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| SFI-"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let ids: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let expected: Vec<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    assert_eq!(ids, expected, "run `cargo xtask mutants`");
    for row in rows {
        assert!(row[2].parse::<u32>().is_ok_and(|tests| tests > 0) && row[3].starts_with('`'), "{row:?}");
    }
}
