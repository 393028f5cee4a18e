//! Prints the measurements of handlers: `cargo run --release -p sfi-benches --example ash`. The
//! first argument is the number of rounds, the others are numbers of runnable processes.

use sfi_benches::ash::{Options, measure};

fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u32>());
    let rounds = numbers.next().transpose()?.unwrap_or(7);
    let processes = numbers.map(|number| number.map(|number| number as usize)).collect::<Result<Vec<usize>, _>>()?;
    let report = measure(&Options { rounds, network: true, processes })?;
    for table in &report.tables {
        println!("{} ({})", table.title, table.unit);
        for (at, column) in table.columns.iter().enumerate() {
            let values: Vec<String> = table.rows.iter().map(|row| format!("{:9.2}", row.values[at])).collect();
            println!("  {column:20} {}", values.join(" "));
        }
    }
    report.notes.iter().chain(&report.skipped).for_each(|note| println!("{note}"));
    Ok(())
}
