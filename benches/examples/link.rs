//! `cargo run --release -p sfi-benches --example link [rounds]` prints the cost of linking one
//! small function into a live domain.

fn main() -> anyhow::Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(41), |n| n.parse())?;
    for measured in sfi_benches::link::measure(rounds)? {
        println!("{:<32} {:>10.2} us", measured.name, measured.nanoseconds / 1e3);
    }
    Ok(())
}
