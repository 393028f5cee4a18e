//! A host that embeds its plugins, which its build script compiled and rewrote.

use sfi_loader::{DomainSpec, Pointer, TypedFn, World};
use std::error::Error;

const AREA: &[u8] = include_bytes!(env!("SFI_PLUGIN_AREA"));
const SHAPE: &[u8] = include_bytes!(env!("SFI_PLUGIN_SHAPE"));
const DISTINCT: &[u8] = include_bytes!(env!("SFI_PLUGIN_DISTINCT"));

fn main() -> Result<(), Box<dyn Error>> {
    let area = DomainSpec::new("area").whole_archive("area.a", AREA).whole_archive("shape.a", SHAPE);
    let distinct = DomainSpec::new("distinct").memory(1 << 20).archive("distinct.a", DISTINCT).exports(["distinct"]);
    let mut world = World::builder().domain(area).domain(distinct).build()?;

    let function: TypedFn<fn(i32, i32) -> i32> = world.domain("area")?.export("sfi_main")?;
    println!("area: {}", function.call(&mut world, (6, 7))?);

    let plugin = world.domain("distinct")?;
    let function: TypedFn<fn(Pointer, u64) -> u64> = plugin.export("distinct")?;
    let heap = plugin.segments().iter().find(|s| s.name == "heap").ok_or("no heap")?;
    let text = Pointer(plugin.secret_base() + heap.offset);
    world.memory("distinct")?.write(text.0, b"abracadabra")?;
    println!("distinct: {}", function.call(&mut world, (text, 11))?);
    Ok(())
}
