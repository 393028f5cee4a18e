//! Prints the medians. `sfi bench crossing` does this with options.

fn main() -> anyhow::Result<()> {
    for r in sfi_benches::crossing::measure(21)? {
        println!("{:<30} {:>10.2} ns", r.name, r.nanoseconds);
    }
    Ok(())
}
