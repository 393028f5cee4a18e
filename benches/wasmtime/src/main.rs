//! Runs a benchmark's module in Wasmtime: the module's path, the number of rounds, the calls of
//! `work` in each. Prints the nanoseconds of each round and the sum, as `programs/main.c` does.

#![forbid(unsafe_code)]

use std::time::Instant;
use wasmtime::error::Context;
use wasmtime::{Config, Engine, Instance, Linker, Module, OptLevel, Result, Store};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, rounds, times] = &arguments[..] else { wasmtime::bail!("arguments: MODULE ROUNDS TIMES") };
    let (rounds, times): (u32, u32) = (rounds.parse()?, times.parse()?);
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed);
    let engine = Engine::new(&config)?;
    let module = Module::from_file(&engine, module)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    // The benchmarks call nothing of their host.
    linker.define_unknown_imports_as_traps(&module)?;
    let instance: Instance = linker.instantiate(&mut store, &module)?;
    instance.get_typed_func::<(), ()>(&mut store, "_initialize")?.call(&mut store, ())?;
    let work = instance.get_typed_func::<(), i32>(&mut store, "work").context("no function `work`")?;
    for _ in 0..times.div_ceil(2) {
        work.call(&mut store, ())?;
    }
    let mut sum = 0u32;
    for _ in 0..rounds {
        let begin = Instant::now();
        for _ in 0..times {
            sum = sum.wrapping_mul(31).wrapping_add(work.call(&mut store, ())? as u32);
        }
        println!("ns {}", begin.elapsed().as_nanos());
    }
    println!("sum {sum}");
    Ok(())
}
