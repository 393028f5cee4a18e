//! Runs `sfi_main` of rewritten objects and archives in one domain: `domain-run MODE FILE...`.
//!
//! Output of the domain goes to standard output; the exit code is the low byte of the result. 125:
//! the domain could not be built, 124: it faulted; the reason is on standard error.

use anyhow::Context;
use sfi_loader::{DomainSpec, Import, World};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("domain-run: {error:#}");
            ExitCode::from(125)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().context("usage: domain-run MODE FILE...")?.parse()?;
    let mut domain = DomainSpec::new("program").mode(mode).memory(64 << 20).stack(8 << 20);
    domain = domain.object("jumps", sfi_support::jumps_object(mode));
    for path in arguments {
        let bytes = std::fs::read(&path).with_context(|| path.clone())?;
        domain = if bytes.starts_with(b"!<arch>\n") { domain.archive(path, bytes) } else { domain.object(path, bytes) };
    }
    domain = domain.import("host_write", Import::host("host_write"));
    let mut world = World::builder()
        .domain(domain)
        .host_fn("host_write", |call| {
            let (pointer, length) = (call.arg(0), call.arg(1));
            let bytes = call.read(pointer, usize::try_from(length).unwrap_or(usize::MAX))?;
            std::io::stdout().write_all(&bytes).map_err(|e| sfi_loader::HostError::new(e.to_string()))?;
            Ok(0)
        })
        .build()?;
    let main = world.domain("program")?.export::<fn() -> i32>("sfi_main")?;
    let result = main.call(&mut world, ());
    std::io::stdout().flush()?;
    match result {
        Ok(value) => Ok(ExitCode::from(value as u8)),
        Err(error) => {
            eprintln!("domain-run: {error:#}");
            Ok(ExitCode::from(124))
        }
    }
}
