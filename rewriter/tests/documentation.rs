//! `docs/REFUSALS.md` lists every reason of a refusal in the words of the code. `BLESS=1` writes
//! the document.

use sfi_rewriter::Reason;
use std::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "A closed list. The rewriter guesses nothing: it refuses code that it does not recognise, \
    with object, section, offset, function and instruction. `sfi explain SFI-W03` prints an entry. Generated from \
    `rewriter/src/refusal.rs`.";

/// Breaks a paragraph into lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 100 => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn refusals_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/REFUSALS.md");
    let mut expected = format!("# Refusals of `sfi rewrite`\n\n{}\n\n", wrapped(INTRODUCTION));
    expected += "| code | obstacle | advice |\n| --- | --- | --- |\n";
    for reason in Reason::ALL {
        writeln!(expected, "| {} | {} | {} |", reason.id(), reason.title(), reason.help()).expect("write");
    }
    for reason in Reason::ALL {
        let (id, title, why, example) = (reason.id(), reason.title(), wrapped(reason.why()), reason.example());
        writeln!(expected, "\n## {id}: {title}\n\n{why}\n\n```\n{example}\n```").expect("write");
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).expect("bless");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), expected);
}
