//! Sandboxed native code for hosts in Python: the extension module `sfi._sfi`.
//!
//! Worlds belong to one thread at a time, and calls into domains release the interpreter's lock.
//! No address of a domain's memory leaves this module: every access copies.

mod convert;
mod failure;
mod function;
mod host;
mod inside;
mod memory;
mod scope;
mod tools;
mod world;

/// The extension module.
#[pyo3::pymodule]
mod _sfi {
    #[pymodule_export]
    use crate::function::Function;
    #[pymodule_export]
    use crate::host::{Call, HostFunction};
    #[pymodule_export]
    use crate::memory::{Memory, Region, View};
    #[pymodule_export]
    use crate::tools::{Refusal, Rewritten, Verdict, Violation, members, reasons, rewrite, verify};
    #[pymodule_export]
    use crate::world::World;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
