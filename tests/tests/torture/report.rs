//! Counts of a run, and the table.

use crate::compare::{Compared, MODES, Variant, Verdict};
use crate::known;
use crate::programs::{Program, Suite};
use anyhow::ensure;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// The largest share of refusals among the comparisons, in percent.
const REFUSED: usize = 5;

/// Counts of one suite, variant and mode.
#[derive(Default)]
struct Count {
    same: usize,
    /// The part of these with places that the validator could not decide.
    unproved: usize,
    refused: usize,
    known: usize,
    different: usize,
}

/// Counts of a run.
#[derive(Default)]
pub struct Tally {
    counts: BTreeMap<(Suite, Variant, usize), Count>,
    /// Programs without a native side, by suite and variant.
    not_natively: BTreeMap<(Suite, Variant, &'static str), usize>,
    /// Programs by the words of their refusals.
    refusals: BTreeMap<String, BTreeSet<String>>,
    /// Known differences that were seen.
    known: BTreeMap<(Suite, String), &'static str>,
}

impl Tally {
    pub fn add(&mut self, program: &Program, variant: Variant, compared: &Compared, known: Option<&'static str>) {
        let suite = program.suite;
        let verdicts = match compared {
            Compared::NotNatively(why) => {
                *self.not_natively.entry((suite, variant, why)).or_default() += 1;
                return;
            }
            Compared::Domains(verdicts) => verdicts,
        };
        for (mode, verdict) in verdicts.iter().enumerate() {
            let count = self.counts.entry((suite, variant, mode)).or_default();
            match verdict {
                Verdict::Same { unproved } => {
                    count.same += 1;
                    count.unproved += usize::from(*unproved > 0);
                }
                Verdict::Refused(why) => {
                    count.refused += 1;
                    self.refusals.entry(why.clone()).or_default().insert(program.name.clone());
                }
                Verdict::Different(_) => match known {
                    None => count.different += 1,
                    Some(why) => {
                        count.known += 1;
                        self.known.insert((suite, program.name.clone()), why);
                    }
                },
            }
        }
    }

    /// Checks that programs were compared and few were refused. In a whole run every known
    /// difference must occur.
    pub fn check(&self, whole: bool) -> anyhow::Result<()> {
        let sum = |of: fn(&Count) -> usize| self.counts.values().map(of).sum::<usize>();
        let (same, refused) = (sum(|c| c.same), sum(|c| c.refused));
        let absent: usize = self.not_natively.values().sum();
        ensure!(same > absent, "only {same} comparisons, and {absent} programs without a native side");
        ensure!(100 * refused <= REFUSED * (same + refused), "{refused} refusals, {same} comparisons");
        for (suite, name) in known::names().filter(|_| whole) {
            let seen = self.known.contains_key(&(suite, name.to_owned()));
            ensure!(seen, "{name} does not differ any more: it is no known difference");
        }
        Ok(())
    }

    /// Writes the document of a run.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# gcc's torture tests\n\n\
             The programs are those of `gcc.c-torture/execute`, and the tests of `g++.dg` that run, from the\n\
             distribution's gcc-12. Each runs natively and in a domain, and must have the same status and output.\n\
             Each rewrite is proved and verified. `cargo test` compares 200 programs. `cargo xtask soak` compares\n\
             all of them in all variants and writes this document.\n\n\
             - *same*: comparisons that agree.\n\
             - *unproved*: those of them with places that the validator could not decide.\n\
             - *known*: programs that differ by the sandbox's design. They are listed below.\n\
             - *different*: defects.\n\n\
             | suite | variant | mode | same | unproved | refused | known | different |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for ((suite, variant, mode), count) in &self.counts {
            let _ = writeln!(
                out,
                "| {} | {variant} | {} | {} | {} | {} | {} | {} |",
                suite.name(),
                MODES[*mode],
                count.same,
                count.unproved,
                count.refused,
                count.known,
                count.different
            );
        }
        out += "\n## Programs without a native side\n\n\
                They do not compile, link or succeed natively, or they print something else each time. Causes are\n\
                directives that ask for another machine, library or option, and failures on musl.\n\n\
                | suite | variant | why | programs |\n\
                | --- | --- | --- | --- |\n";
        for ((suite, variant, why), count) in &self.not_natively {
            let _ = writeln!(out, "| {} | {variant} | {why} | {count} |", suite.name());
        }
        out += "\n## Refusals\n\n| refusal | programs |\n| --- | --- |\n";
        for (why, programs) in &self.refusals {
            let names: Vec<&str> = programs.iter().map(String::as_str).collect();
            let _ = writeln!(out, "| {why} | {} |", names.join(", "));
        }
        out += "\n## Known differences\n\n";
        if self.known.is_empty() {
            out += "None.\n";
        } else {
            out += "| program | why |\n| --- | --- |\n";
        }
        for ((suite, name), why) in &self.known {
            let _ = writeln!(out, "| {}/{name} | {why} |", suite.name());
        }
        out
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((suite, variant, mode), count) in &self.counts {
            let Count { same, unproved, refused, known, different } = count;
            writeln!(
                f,
                "{} {variant} {}: {same} same ({unproved} unproved), {refused} refused, {known} known, \
                 {different} different",
                suite.name(),
                MODES[*mode]
            )?;
        }
        let absent: usize = self.not_natively.values().sum();
        write!(f, "{absent} programs without a native side")
    }
}
