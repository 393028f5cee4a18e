//! `sfi bench instance`

use super::number::round;
use crate::document;
use sfi_benches::instance;
use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Number of rounds. Each measures everything once
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Number of domains that live at one time in the second part. 0 leaves the part out
    #[arg(long, default_value_t = 10_000)]
    domains: u32,
}

/// Runs the measurements.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let results = instance::measure(args.rounds)?;
    let many = match args.domains {
        0 => None,
        domains => Some(instance::many(domains, args.rounds.min(11))?),
    };
    if args.json {
        let each: serde_json::Map<String, serde_json::Value> =
            results.iter().map(|r| (r.name.to_owned(), round(r.nanoseconds / 1e3).into())).collect();
        let mut fields = serde_json::json!({ "microseconds": each });
        if let Some(many) = many {
            fields["live"] = serde_json::json!({
                "domains": many.domains,
                "create_us": round(many.create),
                "call_in_random_order_ns": round(many.call),
                "native_call_in_random_order_ns": round(many.native.one_by_one),
                "native_overlapped_call_in_random_order_ns": round(many.native.overlapped),
                "discard_us": round(many.discard),
                "mappings_each": round(many.mappings),
                "resident_bytes_each": many.resident.round(),
                "page_table_bytes_each": many.page_tables.round(),
            });
        }
        document::print(fields)?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("{:<32} {:>10}", "", "µs");
    for r in &results {
        println!("{:<32} {:>10.2}", r.name.replace('_', " "), r.nanoseconds / 1e3);
    }
    if let Some(many) = many {
        println!(
            "\n{} live domains: {:.1} µs to make one, {:.1} µs to give it up",
            many.domains, many.create, many.discard
        );
        println!("a call in random order over all of them: {:.0} ns", many.call);
        println!(
            "the same of native functions at as many places: {:.0} ns one by one, {:.0} ns overlapped",
            many.native.one_by_one, many.native.overlapped
        );
        println!(
            "an idle one: {:.2} mappings, {:.1} KiB resident, {:.1} KiB of page tables",
            many.mappings,
            many.resident / 1024.0,
            many.page_tables / 1024.0
        );
    }
    Ok(ExitCode::SUCCESS)
}
