//! The cost of linking one small function into a live domain, from an object in memory, and that of
//! loading the domain again to compare with.

use crate::{Measured, objects};
use anyhow::ensure;
use sfi_loader::{DomainSpec, Library, LinkRoom, Manage, TypedFn, World};
use std::time::Instant;

/// Functions that are linked in one round.
const LINKS: u32 = 50;

fn spec() -> anyhow::Result<DomainSpec> {
    let room = LinkRoom { libraries: LINKS as usize, ..LinkRoom::default() };
    let spec = DomainSpec::new("app").object("counter", objects::counter()?);
    Ok(spec.memory(16 << 20).link_room(room))
}

/// Measures everything once in each round, interleaved, and returns the medians of single
/// operations. Each function is another object. Its first call is checked.
///
/// # Errors
/// If a world cannot be built, or a function does not do what it should.
pub fn measure(rounds: u32) -> anyhow::Result<Vec<Measured>> {
    let mut world = World::builder().domain(spec()?).build()?;
    let names = ["link", "link_with_pointer", "export", "first_call", "unlink", "reload"];
    let mut samples = names.map(|_| Vec::new());
    let mut number = 0;
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let mut links = Vec::new();
        for index in 0..LINKS {
            number += 1;
            let bytes = objects::sum("sum", number)?;
            let library = Library::new("sum").object("sum.o", bytes).private();
            let with_pointer = index % 2 == 1;
            let start = Instant::now();
            let linked = world.link("app", &library)?;
            let pointer = if with_pointer { Some(linked.symbol(&mut world, "sum")?) } else { None };
            let link = start.elapsed();
            let start = Instant::now();
            let sum: TypedFn<fn(u64, u64) -> u64> = linked.export(&mut world, "sum")?;
            let export = start.elapsed();
            let start = Instant::now();
            let result = sum.call(&mut world, (0, 0))?;
            let call = start.elapsed();
            ensure!(result == u64::from(number), "the function gave {result}, not {number}");
            if round > 0 {
                samples[usize::from(pointer.is_some())].push(link.as_nanos() as f64);
                samples[2].push(export.as_nanos() as f64);
                samples[3].push(call.as_nanos() as f64);
            }
            links.push(linked);
        }
        for linked in links {
            let start = Instant::now();
            world.unlink(linked)?;
            if round > 0 {
                samples[4].push(start.elapsed().as_nanos() as f64);
            }
        }
        world.recycle_slots("app")?;
        let start = Instant::now();
        world.reload(spec()?)?;
        if round > 0 {
            samples[5].push(start.elapsed().as_nanos() as f64);
        }
    }
    let medians = names.into_iter().zip(&mut samples);
    Ok(medians.map(|(name, samples)| Measured { name, nanoseconds: crate::median(samples) }).collect())
}
