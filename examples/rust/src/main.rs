//! Embeds a plugin: loads an object, offers it a host function, calls a function of it, and
//! survives its faults.

use sfi_loader::{CallError, DomainSpec, Import, Pointer, TypedFn, World};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sfi-example OBJECT")?;

    // Describe the world: one domain, which may call `say` and nothing else. The signature lists
    // the registers that cross. All others are cleared. The build verifies the object, places it at
    // a random address and seals it.
    let mut world = World::builder()
        .domain(
            DomainSpec::new("plugin")
                .memory(1 << 20)
                .object(path.clone(), std::fs::read(path)?)
                .import("say", Import::host("say").signature("(int, int) -> void")),
        )
        .host_fn("say", |cx| {
            // The domain chooses the arguments, so `read` checks the range and copies.
            let text = cx.read(cx.arg(0), cx.arg(1) as usize)?;
            println!("the plugin says: {}", String::from_utf8_lossy(&text));
            Ok(0)
        })
        .build()?;

    // The host chooses the types of functions. A wrong type gives wrong values, never an escape.
    let plugin = world.domain("plugin")?;
    let shout: TypedFn<fn(Pointer) -> u64> = plugin.export("shout")?;
    let crash: TypedFn<fn(Pointer) -> i32> = plugin.export("crash")?;

    // The host writes a string into memory of the domain: here, to the start of its heap.
    let heap = plugin.segments().iter().find(|s| s.name == "heap").ok_or("no heap")?;
    let text = Pointer(plugin.secret_base() + heap.offset);
    world.memory("plugin")?.write(text.0, b"hello from the host\0")?;
    println!("shout returned {}", shout.call(&mut world, (text,))?);

    // A fault ends the call, not the process. The domain is dead until it is restarted.
    match crash.call(&mut world, (Pointer(0),)) {
        Err(CallError::Fault(fault)) => println!("crash failed: {fault}"),
        other => return Err(format!("expected a fault, got {other:?}").into()),
    }
    println!("again: {}", shout.call(&mut world, (text,)).unwrap_err());
    world.restart("plugin")?;
    world.memory("plugin")?.write(text.0, b"back again\0")?;
    println!("after the restart shout returned {}", shout.call(&mut world, (text,))?);

    // The end of the world unmaps everything.
    drop(world);
    Ok(())
}
