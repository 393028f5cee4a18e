//! `sfi objdump`

use crate::document;
use crate::listing::{Line, Listing, Note};
use crate::objects::Objects;
use crate::render::visible;
use anstyle::{AnsiColor, Style};
use anyhow::ensure;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const BOLD: Style = Style::new().bold();
const SOURCE: Style = AnsiColor::BrightBlue.on_default();
const NEW: Style = AnsiColor::Green.on_default();
const REGION: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();

/// List the code of a rewritten object, with the purpose of each instruction.
///
/// The columns are the offset, the offset of the original instruction that this one stands for, `+`
/// for instructions that the rewriter inserted, the instruction, and its purpose: `region` (an
/// unsafe region: nothing may jump between its instructions), `store` (confined by GS and a 32-bit
/// address), `stack` (moves the data stack), `tcb` (registers kept in memory, thread locals),
/// `control` (calls and returns). `slot` marks labels whose address is taken: the loader gives them
/// a dispatch slot. Inserted instructions are known only in objects that had debug information.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi objdump plugin.sfi.o
  sfi objdump --function inflate libz.sfi.a
  sfi objdump --json plugin.sfi.o | jq '[.sections[].lines[] | select(.inserted)] | length'

Exit codes:
  0  listed
  1  there is no such function
  2  the file could not be read")]
pub struct Args {
    /// An object, an archive, or a program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// List only this function.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = Objects::read(&args.file)?;
    let objects = file.all()?;
    ensure!(!objects.is_empty(), "`{}` holds no object", args.file.display());
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let mut sections = Vec::new();
    let mut any = false;
    for (name, object) in &objects {
        for listing in Listing::of(object, args.function.as_deref()) {
            any = true;
            if args.json {
                sections.push(section(name, &listing));
            } else {
                print(&mut out, name, &listing)?;
            }
        }
    }
    if args.json {
        document::print(json!({ "sections": sections }))?;
    }
    out.flush()?;
    match &args.function {
        Some(function) if !any => {
            eprintln!("error: there is no function `{function}` in `{}`", args.file.display());
            Ok(ExitCode::FAILURE)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn print(out: &mut impl Write, name: &str, listing: &Listing<'_>) -> std::io::Result<()> {
    writeln!(out, "{BOLD}{}: {}{BOLD:#}", visible(name), visible(listing.section))?;
    let mut source = None;
    for line in &listing.lines {
        for label in &line.labels {
            let slot = if line.slot { "    # slot" } else { "" };
            writeln!(out, "{BOLD}{}:{BOLD:#}{DIM}{slot}{DIM:#}", visible(label))?;
        }
        if line.labels.is_empty() && line.slot {
            writeln!(out, "{DIM}# slot{DIM:#}")?;
        }
        if line.source.is_some() && line.source != source {
            source.clone_from(&line.source);
            writeln!(out, "{SOURCE}{}{SOURCE:#}", source.as_deref().unwrap_or_default())?;
        }
        print_line(out, line)?;
    }
    writeln!(out)
}

fn print_line(out: &mut impl Write, line: &Line<'_>) -> std::io::Result<()> {
    let old = line.original.map_or(String::new(), |old| format!("{old:x}"));
    let mark = if line.inserted { '+' } else { ' ' };
    let style = match () {
        () if line.notes.contains(&Note::Region) => REGION,
        () if line.inserted => NEW,
        () => Style::new(),
    };
    let text = match &line.relocation {
        Some(relocation) => format!("{}  <{}>", line.text, visible(relocation)),
        None => line.text.clone(),
    };
    let notes: Vec<&str> = line.notes.iter().map(|note| note.name()).collect();
    let (offset, notes) = (line.offset, notes.join(", "));
    if notes.is_empty() {
        return writeln!(out, "{offset:6x} {DIM}{old:>6}{DIM:#} {mark} {style}{text}{style:#}");
    }
    writeln!(out, "{offset:6x} {DIM}{old:>6}{DIM:#} {mark} {style}{text:<44}{style:#} {DIM}# {notes}{DIM:#}")
}

fn section(name: &str, listing: &Listing<'_>) -> serde_json::Value {
    let line = |line: &Line<'_>| {
        json!({
            "offset": line.offset,
            "original": line.original,
            "inserted": line.inserted,
            "labels": line.labels,
            "slot": line.slot,
            "source": line.source,
            "text": line.text,
            "relocation": line.relocation,
            "notes": line.notes.iter().map(|note| note.name()).collect::<Vec<_>>(),
        })
    };
    json!({
        "object": name,
        "section": listing.section,
        "mapped": listing.mapped,
        "lines": listing.lines.iter().map(line).collect::<Vec<_>>(),
    })
}
