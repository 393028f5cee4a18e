//! The rewriter's counts.

use serde_json::{Value, json};
use sfi_rewriter::Stats;
use std::io::{self, Write};

/// Counts of one input file, and of the objects in it if it is an archive.
pub struct Counted {
    /// Path of the file.
    pub path: String,
    /// Its objects, with their names.
    pub objects: Vec<(String, Stats)>,
}

impl Counted {
    fn sum(&self) -> Stats {
        sum(self.objects.iter().map(|(_, stats)| *stats))
    }
}

fn sum(all: impl Iterator<Item = Stats>) -> Stats {
    all.fold(Stats::default(), |mut sum, stats| {
        sum += stats;
        sum
    })
}

fn growth(stats: &Stats) -> f64 {
    stats.text_out as f64 / stats.text_in.max(1) as f64
}

/// Prints a line for each object of an archive, a table for each file, and one for all files.
pub fn print(out: &mut impl Write, files: &[Counted]) -> io::Result<()> {
    for file in files {
        if let [(name, stats)] = file.objects.as_slice() {
            table(out, name, stats)?;
            continue;
        }
        for (name, s) in &file.objects {
            let moved = s.renamed + s.leaves + s.exchanged + s.homed;
            let (units, growth) = (s.units, growth(s));
            writeln!(
                out,
                "{name}: {units} functions, {moved} with r15, text {} -> {} ({growth:.3})",
                s.text_in, s.text_out
            )?;
        }
        table(out, &file.path, &file.sum())?;
    }
    if files.len() > 1 {
        table(out, "all", &sum(files.iter().map(Counted::sum)))?;
    }
    Ok(())
}

fn table(out: &mut impl Write, name: &str, s: &Stats) -> io::Result<()> {
    let rows = [
        ("instructions read", s.instructions),
        ("stores made safe", s.stores),
        ("indirect branches", s.indirect),
        ("string instructions", s.strings),
        ("functions", s.units),
        ("  that do not use r15", s.untouched),
        ("  r15 became a free register", s.renamed),
        ("  r15 became a scratch register", s.leaves),
        ("  r15 in a slot of the frame", s.slots),
        ("  r15 changed places, in memory", s.exchanged),
        ("  r15 in memory", s.homed),
        ("scratch registers spilled", s.spills),
        ("flags saved", s.flag_saves),
        ("landing pads", s.pads),
    ];
    writeln!(out, "{name}:")?;
    for (what, count) in rows {
        writeln!(out, "  {what:<32}{count}")?;
    }
    writeln!(out, "  {:<32}{} -> {} ({:.3})", "text bytes", s.text_in, s.text_out, growth(s))?;
    for (part, before, after) in s.growth.parts() {
        let share = (after as f64 - before as f64) / s.text_in.max(1) as f64;
        writeln!(out, "    {part:<30}{before} -> {after} ({share:+.3})")?;
    }
    Ok(())
}

/// Returns all counts as one JSON document.
pub fn document(files: &[Counted]) -> Value {
    let objects = files.iter().flat_map(|file| &file.objects);
    let object = |(name, stats): &(String, Stats)| {
        let mut value = counts(stats);
        value["name"] = json!(name);
        value
    };
    json!({ "objects": objects.map(object).collect::<Vec<_>>(), "total": counts(&sum(files.iter().map(Counted::sum))) })
}

fn counts(s: &Stats) -> Value {
    json!({
        "instructions": s.instructions,
        "stores": s.stores,
        "indirect_branches": s.indirect,
        "string_instructions": s.strings,
        "functions": s.units,
        "r15": {
            "untouched": s.untouched,
            "renamed": s.renamed,
            "scratch": s.leaves,
            "slots": s.slots,
            "exchanged": s.exchanged,
            "homed": s.homed,
        },
        "spills": s.spills,
        "flag_saves": s.flag_saves,
        "landing_pads": s.pads,
        "text_in": s.text_in,
        "text_out": s.text_out,
        "growth": growth(s),
        "added": s.growth.parts().map(|(part, before, after)| (part.replace(' ', "_"), json!(after as i64 - before as i64))).collect::<serde_json::Map<_, _>>(),
    })
}
