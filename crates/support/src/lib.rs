//! Support code that runs inside a domain, beside a stock libc. The build script makes the objects,
//! and the verifier checks them like all others.
//!
//! - `__sfi_syscall`: the replacement of `syscall`. Saves the registers that a system call
//!   preserves, stores number and arguments in memory, and calls the arbitration gateway
//!   `__sfi_arbitrate` with a pointer to them.
//! - `__sfi_handlers` and `__sfi_fault`: call the handlers of signals and faults.
//! - `setjmp`, `longjmp` and their variants ([`jumps_object`]): stock ones read their return
//!   address, which a domain cannot.
//! - `__sfi_start(argc, argv)`: calls the libc's `__libc_start_main`. Only programs have it.
//! - The first initialiser and the last finalisers of a domain that is no program: the libc's
//!   `__init_libc`, what was registered with `atexit` (destructors of C++ among it), and
//!   `fflush(NULL)`.
//! - `memmove`: replaces musl's, which sets the direction flag.
//! - `__clone`, `__unmapself`: replace musl's. They ask the arbiter for a thread, and for its end
//!   together with its stack's.
//! - `posix_spawn`, `posix_spawnp`: replace musl's, which share memory with a new process. They ask
//!   the arbiter to start a granted program. `system` and `popen` use them.
//! - `vfork`, `dlsym`: replace musl's, which read their return address. `vfork` of a program is
//!   `fork`, and `dlsym` reports that there are no symbols. Code that names `dlsym` gets another
//!   one ([`LIBRARY_SOURCE`]).
//! - `__init_tls`, `_init`, `_fini`: replace musl's, because the loader lays out thread locals at a
//!   place that never moves.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

use sfi_contract::Mode;

/// C sources of the objects that programs with exceptions need: the unwinder in place of libgcc_eh,
/// and the functions that libstdc++ expects of a libc and musl does not have, or has in another
/// form. Each has its name. They are compiled with unwind tables and rewritten when such a program
/// is linked.
pub const CXX_SOURCES: [(&str, &str); 3] =
    [("unwind", include_str!("unwind.c")), ("cxx", include_str!("cxx.c")), ("threads", include_str!("threads.c"))];

/// C source of the functions that gcc's library for OpenMP expects of a libc and musl does not
/// have, with its name. It is compiled as [`CXX_SOURCES`] are.
pub const OPENMP_SOURCE: (&str, &str) = ("openmp", include_str!("openmp.c"));

/// C source of the object with [`LIBRARY_FUNCTIONS`], in place of musl's. It is compiled and
/// rewritten when code that names one of them is linked.
pub const LIBRARY_SOURCE: (&str, &str) = ("dl", include_str!("dl.c"));

/// The functions that open libraries and find their symbols.
pub const LIBRARY_FUNCTIONS: [&str; 4] = ["dlopen", "dlsym", "dlclose", "dlerror"];

/// The entry point of a program.
pub const START: &str = "__sfi_start";

/// Returns one of the build script's files for a mode.
macro_rules! made {
    ($mode:expr, $name:literal) => {
        match $mode {
            Mode::Write => include_bytes!(concat!(env!("OUT_DIR"), "/write-", $name)),
            Mode::Full => include_bytes!(concat!(env!("OUT_DIR"), "/full-", $name)),
            Mode::Match => include_bytes!(concat!(env!("OUT_DIR"), "/match-", $name)),
        }
    };
}

/// Returns the object for a program. All these objects are equal in modes write and full.
pub fn object(mode: Mode) -> &'static [u8] {
    made!(mode, "program.o")
}

/// Returns the object for a domain that is no program. It sets the libc up when the domain is
/// initialised.
pub fn library(mode: Mode) -> &'static [u8] {
    made!(mode, "library.o")
}

/// Returns the object with `setjmp`, `longjmp` and their variants, for domains with any libc.
pub fn jumps_object(mode: Mode) -> &'static [u8] {
    made!(mode, "jumps.o")
}

/// Returns the object that holds `swapcontext` and its like. A domain that contains it has fibers.
pub fn contexts_object(mode: Mode) -> &'static [u8] {
    made!(mode, "contexts.o")
}

/// Returns an archive with [`contexts_object`], for linkers that take only needed members.
pub fn contexts_archive(mode: Mode) -> &'static [u8] {
    made!(mode, "contexts.a")
}

/// Returns a searcher's object: `load(address)` loads a byte and returns it. Searches and
/// measurements of loads use it.
pub fn load_object() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/load.o"))
}

#[cfg(test)]
mod tests {
    use sfi_contract::Mode;

    #[test]
    fn is_accepted_in_every_mode() {
        for mode in Mode::ALL {
            let support = [super::object(mode), super::library(mode)];
            let jumps = [super::jumps_object(mode), super::contexts_object(mode)];
            let objects = [support, jumps].concat();
            for (bytes, least) in objects.into_iter().zip([60, 60, 30, 60]) {
                let options = sfi_verifier::Options { mode, ..Default::default() };
                let report = sfi_verifier::verify(bytes, &options).expect("readable");
                assert_eq!(report.violations, []);
                assert!(report.instructions > least);
            }
        }
    }
}
