//! `sfi cc`

use crate::driver::compiler::Driver;
use crate::driver::drive;
use std::ffi::OsString;
use std::process::ExitCode;

/// Compile and link a C program that runs in a domain, on a rewritten musl.
///
/// Takes the arguments of a C compiler. With -c, -S, -E or no inputs the compiler runs unchanged,
/// and gets -ffixed-r15 if it knows that, because r15 is the data stack. A link writes one file
/// with the rewritten program and the rewritten archives. The file runs itself (`sfi run FILE`), so
/// `./configure CC="sfi cc"` works. The link fails where a linker's would, and also where the
/// verifier or the loader would refuse the program. It searches archives as a whole, wherever they
/// stand.
///
/// There is no dynamic linking. -shared makes an archive of the objects, and programs that name it
/// are linked with it. Of the linker's options `--whole-archive`, `-u`, `--wrap`, `--defsym
/// NAME=NAME` and `-Map` work. Options about dynamic linking, warnings and omitted parts have no
/// effect, and all others are errors.
///
/// --plugin makes an archive for a domain of a manifest: the objects, and what they need of libc
/// and libstdc++, without `main`. The manifest names it in `objects`, and has a `syscalls` table.
///
/// --plugin --budget makes one with a budget of instructions, which the manifest sets
/// (`instructions`). It has no libc. With -c, --budget lets the compiler leave r14 alone.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  SFI_CC            the compiler, with arguments if any (default musl-gcc, Debian package musl-tools)
  SFI_LIBC_DIR      where libc.a is, stock or rewritten (default /usr/lib/x86_64-linux-musl)
  SFI_LIBC_INCLUDE  where its headers are, for compilers that are not musl's own (default: Debian's place)
  SFI_MODE          write, full or match (default write)
  SFI_VALIDATE      differences, strict or no: what must be proved of the rewritten code
                    (default differences)
  SFI_SAVES         yes or no: functions save registers on the control stack. Programs whose garbage
                    collector searches the stack for pointers need `no`, which is the default for
                    those that use Boehm's (default yes)
  SFI_RUN_FLAGS     when the program is run by its name: flags of `sfi run`
                    (default --build-tree: the build tree around the working directory, if any)

Examples:
  sfi cc -O2 a.c b.c -lm -o prog && ./prog argument
  ./configure CC='sfi cc' && make && make check
  sfi run --dir data::/data prog -- argument
  sfi cc --plugin -O2 plugin.c -o plugin.sfi.a
  sfi cc --plugin --budget -O2 handler.c -o handler.sfi.a

Exit codes:
  the compiler's; 1 if an object was refused, 2 for other errors")]
pub struct Args {
    /// Arguments of the compiler.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let compiler = std::env::var_os("SFI_CC").unwrap_or_else(|| "musl-gcc".into());
    drive(&Driver { compiler, cxx: false }, &args.arguments)
}
