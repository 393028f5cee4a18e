//! `docs/REFUSALS.md` lists every reason of a refusal as the code words it. `BLESS=1` writes it.

use sfi_rewriter::Reason;
use std::fmt::Write;
use std::path::Path;

#[test]
fn refusals_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/REFUSALS.md");
    let mut expected = String::from(
        "# What `sfi rewrite` refuses\n\nA closed list: nothing is guessed, what is not recognised is refused with object, section, offset, function and \
         instruction.\n`sfi explain SFI-W03` says the same. Generated from `rewriter/src/refusal.rs`.\n\n| code | what is in the way | what to do |\n| --- | --- | --- |\n",
    );
    for reason in Reason::ALL {
        writeln!(expected, "| {} | {} | {} |", reason.id(), reason.title(), reason.help()).expect("write");
    }
    for reason in Reason::ALL {
        let (id, title, why, example) = (reason.id(), reason.title(), reason.why(), reason.example());
        writeln!(expected, "\n## {id}: {title}\n\n{why}\n\n```\n{example}\n```").expect("write");
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).expect("bless");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), expected);
}
