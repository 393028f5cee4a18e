//! `sfi c++`

use crate::driver::compiler::Driver;
use crate::driver::drive;
use std::ffi::OsString;
use std::process::ExitCode;

/// Compile and link a C++ program that runs in a domain, on a rewritten libstdc++ and musl.
///
/// As `sfi cc`, with exceptions. The unwinder is code of the domain. libstdc++.a is the compiler's
/// own, rewritten without changes.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  SFI_CXX       the compiler (default g++)
  SFI_LIBC_DIR  where musl's libc.a is (default /usr/lib/x86_64-linux-musl)
  SFI_MODE      write, full or match (default write)
  SFI_VALIDATE  differences, strict or no: what must be proved of the rewritten code
                (default differences)

Examples:
  sfi c++ -O2 a.cc b.cc -o prog && ./prog argument

Exit codes:
  the compiler's; 1 if an object was refused, 2 for other errors")]
pub struct Args {
    /// Arguments of the compiler.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let compiler = std::env::var_os("SFI_CXX").unwrap_or_else(|| "g++".into());
    drive(&Driver { compiler, cxx: true }, &args.arguments)
}
