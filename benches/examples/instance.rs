//! `cargo run --release -p sfi-benches --example instance [domains]` prints the cost of instances,
//! as `sfi bench instance` does.

fn main() -> anyhow::Result<()> {
    for measured in sfi_benches::instance::measure(21)? {
        println!("{:<32} {:>10.2} us", measured.name, measured.nanoseconds / 1e3);
    }
    let domains = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    println!("{:#.2?}", sfi_benches::instance::many(domains, 11)?);
    Ok(())
}
