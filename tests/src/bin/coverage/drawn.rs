//! The part of the report about packages that nobody chose.

use crate::Sum;
use crate::report::{Report, short};
use std::collections::BTreeMap;

/// The heading of this part.
const HEADING: &str = "\n## Drawn by a seed\n";

const HEADER: &str = "\
| seed | packages | mode | objects | rewritten | without OCaml | verified | proved | refused |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const PROSE: &str = "
Packages that nobody chose, out of all -dev packages with static archives but those above and GHC's.
`cargo xtask coverage --draw SEED --write` draws 150 others and adds their rows. Members that are no
objects for x86-64 do not count. *Verified* and *proved* are parts of the rewritten ones. A row of a
seed is replaced when the seed is drawn again.

";

/// Returns the part out of a report.
pub fn part(report: &str) -> &str {
    report.find(HEADING).map_or("", |at| &report[at..])
}

/// Adds or replaces the rows of a seed.
pub fn add(report: &str, seed: u64, runs: &[Report]) -> String {
    let old = part(report);
    let before = report.strip_suffix(old).unwrap_or(report);
    let key = |row: &str| -> Option<(u64, String)> {
        let mut cells = row.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.parse().ok()?, cells.nth(1)?.to_owned()))
    };
    let mut rows: BTreeMap<(u64, String), String> =
        old.lines().filter_map(|row| Some((key(row)?, row.to_owned()))).collect();
    for run in runs {
        rows.insert((seed, run.mode.name().to_owned()), row(seed, run));
    }
    // Text after the table is written by hand.
    let after = old.rsplit_once("\n| ").and_then(|(_, last)| last.split_once('\n')).map_or("", |(_, after)| after);
    let rows: String = rows.values().rev().map(|row| format!("{row}\n")).collect();
    format!("{before}{HEADING}{PROSE}{HEADER}{rows}{after}")
}

fn row(seed: u64, run: &Report) -> String {
    let share = |sum: &Sum| format!("{} of {} ({:.2}%)", sum.rewritten, sum.objects, sum.share());
    let reasons: Vec<String> = run.reasons.iter().map(|(reason, n)| format!("{n} {}", short(*reason))).collect();
    format!(
        "| {seed} | {} | {} | {} | {} | {} | {} | {} | {} |",
        run.packages.len(),
        run.mode.name(),
        run.all.objects,
        share(&run.all),
        share(&run.without_ocaml),
        run.all.verified,
        run.all.proved,
        reasons.join(", ")
    )
}
