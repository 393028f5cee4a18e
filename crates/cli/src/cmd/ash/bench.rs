//! `sfi ash bench`

use crate::cmd::bench::number::round;
use crate::document;
use anyhow::Context;
use serde_json::{Map, Value, json};
use sfi_benches::ash::{Options, Report, Table, measure};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure handlers on this machine: native, in domains, in eBPF and in other processes.
///
/// Handlers run on a ring in this process, and on AF_XDP over veth between two network namespaces
/// that the command makes for itself. Copies, passes and integrated loops run in a domain. All ways
/// are measured in turn, and the tables show medians.
/// It needs gcc. The network needs root and `ip` of iproute2. Parts that cannot be measured are
/// named with the reason.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi ash bench
  sfi ash bench --local
  sfi ash bench --rounds 15 --processes 0,1,4,16,64 --svg figure.svg
  sfi ash bench --json | jq .tables

Exit codes:
  0  measured
  2  a measurement could not be made
  4  all but the network was measured")]
pub struct Args {
    /// Measure in this process only, without the network.
    #[arg(long)]
    local: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Draw round trips against runnable processes.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Number of rounds. Each measures everything once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Numbers of runnable processes of the figure.
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u16).range(..=1000))]
    processes: Vec<u16>,
}

/// The exit code of a run that skipped the network.
const SKIPPED: u8 = 4;

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let processes = args.processes.iter().map(|count| usize::from(*count)).collect();
    let report = measure(&Options { rounds: args.rounds, network: !args.local, processes })?;
    match args.json {
        true => document::print(value(&report))?,
        false => print!("{}", text(&report)),
    }
    if let Some(path) = &args.svg {
        let figure = report.tables.iter().find(|table| table.name == "figure");
        let figure = figure.context("there is no figure: give --processes, and see what was skipped")?;
        std::fs::write(path, svg(figure)).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let skipped = !args.local && !report.skipped.is_empty();
    Ok(if skipped { ExitCode::from(SKIPPED) } else { ExitCode::SUCCESS })
}

/// Returns a report as JSON.
fn value(report: &Report) -> Value {
    let row = |table: &Table, values: &[f64]| -> Map<String, Value> {
        let cells = table.columns.iter().zip(values);
        cells.map(|(column, value)| (column.clone(), json!(round(*value)))).collect()
    };
    let tables: Map<String, Value> = report
        .tables
        .iter()
        .map(|table| {
            let rows: Map<String, Value> =
                table.rows.iter().map(|r| (r.name.clone(), Value::Object(row(table, &r.values)))).collect();
            (table.name.to_owned(), json!({ "title": table.title, "unit": table.unit, "rows": rows }))
        })
        .collect();
    json!({ "tables": tables, "notes": report.notes, "skipped": report.skipped })
}

/// Returns a report for people: each table with its ratios to the first column.
fn text(report: &Report) -> String {
    let mut out = String::new();
    for table in &report.tables {
        let _ = writeln!(out, "{} ({}, and as a multiple of the first row)", table.title, table.unit);
        let width = table.columns.iter().map(String::len).max().unwrap_or(0);
        let names: Vec<String> = table.rows.iter().map(|row| format!("{:>24}", row.name)).collect();
        let _ = writeln!(out, "{:width$}{}", "", names.concat());
        for (at, column) in table.columns.iter().enumerate() {
            let _ = write!(out, "{column:width$}");
            for row in &table.rows {
                let _ = write!(out, "{:>16.2} {:>7}", row.values[at], format!("{:.2}", row.values[at] / row.values[0]));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    report.notes.iter().for_each(|note| _ = writeln!(out, "note: {note}"));
    report.skipped.iter().for_each(|part| _ = writeln!(out, "skipped: {part}"));
    out
}

/// Draws a table whose rows are numbers of processes: one line for each column, times on a
/// logarithmic scale.
fn svg(table: &Table) -> String {
    const COLOURS: [&str; 8] = ["#000", "#06c", "#0a8", "#c30", "#a0a", "#960", "#666", "#e80"];
    let (wide, high, left) = (640.0, 360.0, 60.0);
    let all = || table.rows.iter().flat_map(|row| &row.values).copied().filter(|value| *value > 0.0);
    let (low, top) = (all().fold(f64::INFINITY, f64::min).log10().floor(), all().fold(1.0, f64::max).log10().ceil());
    let steps = (table.rows.len().max(2) - 1) as f64;
    let x = |at: usize| left + at as f64 / steps * (wide - left - 160.0);
    let y = |value: f64| high - 40.0 - (value.log10() - low) / (top - low).max(1.0) * (high - 60.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<title>{}</title>\n",
        table.title
    );
    for exponent in low as i32..=top as i32 {
        let (value, at) = (10_f64.powi(exponent), y(10_f64.powi(exponent)));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>",
            wide - 160.0
        );
        let _ = writeln!(out, "<text x=\"4\" y=\"{:.1}\">{value} {}</text>", at + 4.0, table.unit);
    }
    for (at, row) in table.rows.iter().enumerate() {
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x(at), high - 20.0, row.name);
    }
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\">runnable processes</text>", high - 4.0);
    for (column, name) in table.columns.iter().enumerate() {
        let colour = COLOURS[column % COLOURS.len()];
        let points =
            table.rows.iter().enumerate().map(|(at, row)| format!("{:.1},{:.1}", x(at), y(row.values[column])));
        let points: Vec<String> = points.collect();
        let _ = writeln!(out, "<polyline fill=\"none\" stroke=\"{colour}\" points=\"{}\"/>", points.join(" "));
        let place = 24.0 + 16.0 * column as f64;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{place}\" fill=\"{colour}\">{name}</text>", wide - 150.0);
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfi_benches::ash::Row;

    fn report() -> Report {
        let row = |name: &str, values: [f64; 2]| Row { name: name.into(), values: values.to_vec() };
        let table = Table {
            name: "figure",
            title: "Title".into(),
            unit: "us",
            columns: vec!["native".into(), "sandboxed".into()],
            rows: vec![row("0", [2.0, 3.0]), row("64", [2.0, 200.0])],
        };
        Report { tables: vec![table], notes: vec!["a note".into()], skipped: vec!["a part".into()] }
    }

    #[test]
    fn a_report_in_all_forms() {
        let report = report();
        let json = value(&report);
        assert_eq!(json["tables"]["figure"]["rows"]["64"]["sandboxed"], json!(200.0));
        assert_eq!(json["skipped"], json!(["a part"]));
        let text = text(&report);
        assert!(text.contains("1.50") && text.contains("100.00") && text.ends_with("skipped: a part\n"), "{text}");
        let svg = svg(&report.tables[0]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
