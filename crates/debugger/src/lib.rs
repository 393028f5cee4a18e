//! The code of domains, for debuggers and profilers.
//!
//! - gdb learns it by its interface for JIT compilers ([`Options::gdb`]): for each domain an ELF
//!   file in memory with functions, line tables and unwind rules. Breakpoints by file and line
//!   work, and a backtrace goes through domains, crossings and host functions. The files lie in
//!   this process, so a core dump has them too.
//! - perf learns it by a map of symbols and by a jitdump file ([`Options::perf`]).
//!
//! All this gives the places of windows away. They are secrets that keep domains apart in the modes
//! write and match. And a debugger reads debug information whose author may be the attacker. So it
//! is for development.

#![warn(unreachable_pub)]

mod dwarf;
mod frames;
mod gdb;
mod image;
mod lines;
mod perf;

use perf::Perf;
use sfi_loader::{RaisedText, TextObserver};
use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

/// The tools that see the code.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// To gdb.
    pub gdb: bool,
    /// To perf.
    pub perf: bool,
}

/// Shows the text of all domains that this process loads from now on. Returns the paths of the
/// files that it makes for perf.
///
/// # Errors
/// perf's files cannot be written, or something else observes the text already.
pub fn show(options: &Options) -> io::Result<Vec<PathBuf>> {
    let perf = if options.perf { Some(Perf::create()?) } else { None };
    let files = perf.iter().flat_map(Perf::paths).collect();
    let host = options.gdb.then(|| gdb::Registered::new(image::gates(&sfi_loader::gates())));
    let shown = Shown { gdb: options.gdb, perf: perf.map(Mutex::new), _host: host };
    match sfi_loader::observe_text(shown) {
        true => Ok(files),
        false => Err(io::Error::new(io::ErrorKind::AlreadyExists, "something observes the text already")),
    }
}

struct Shown {
    gdb: bool,
    perf: Option<Mutex<Perf>>,
    /// The gates, whose unwind rules hold for all domains.
    _host: Option<gdb::Registered>,
}

impl TextObserver for Shown {
    fn raised(&self, text: &RaisedText<'_>) -> Box<dyn Any + Send + Sync> {
        let (functions, sections) = (functions(text), dwarf::join(text.objects()));
        if let Some(perf) = &self.perf {
            // A profile without some names is better than no run.
            let _ = perf.lock().unwrap_or_else(|broken| broken.into_inner()).tell(text, &functions, &sections);
        }
        Box::new(self.gdb.then(|| gdb::Registered::new(image::domain(text, &functions, sections))))
    }
}

/// A function of a domain where it runs.
struct Function {
    address: u64,
    /// Bytes, up to the next function if nobody says.
    size: u64,
    /// With the domain, because several may have functions of one name.
    name: String,
}

/// Returns the functions of a text, the loader's stubs among them.
fn functions(text: &RaisedText<'_>) -> Vec<Function> {
    let addresses = text.addresses();
    let all: Vec<(u64, u64, &str)> = text.functions().filter(|(at, ..)| addresses.contains(at)).collect();
    let first = all.first().map_or(addresses.end, |(at, ..)| *at);
    let stubs = Function { address: addresses.start, size: first - addresses.start, name: "sfi_stubs".to_owned() };
    let ends = all.iter().skip(1).map(|(at, ..)| *at).chain([addresses.end]);
    let sized = all.iter().zip(ends).map(|((address, size, name), end)| Function {
        address: *address,
        size: if *size == 0 { end - address } else { *size },
        name: (*name).to_owned(),
    });
    [stubs].into_iter().chain(sized).collect()
}
