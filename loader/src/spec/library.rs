//! Code that is linked into a domain while the domain lives.

use crate::spec::file::{File, FileKind};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the loader's function that opens a library.
pub(crate) const OPEN: &str = "__sfi_library_open";
/// Name of the loader's function that finds a symbol of a library.
pub(crate) const SYMBOL: &str = "__sfi_library_symbol";
/// Name of the loader's function that closes a library.
pub(crate) const CLOSE: &str = "__sfi_library_close";

/// Rewritten objects that are linked together, see [`crate::Manage::link`].
///
/// ```no_run
/// # fn f(world: &mut sfi_loader::World) -> Result<(), Box<dyn std::error::Error>> {
/// use sfi_loader::{Library, Manage, TypedFn};
///
/// let library = Library::new("codec").object("codec.sfi.o", std::fs::read("codec.sfi.o")?);
/// let codec = world.link("app", &library)?;
/// let decode: TypedFn<fn(u64) -> u64> = codec.export(world, "decode")?;
/// println!("{}", decode.call(world, (1,))?);
/// world.unlink(codec)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Library {
    pub(crate) name: String,
    pub(crate) files: Vec<File>,
    pub(crate) private: bool,
    /// A number that stands for these files: no other library of this process has it, except for
    /// clones.
    pub(crate) id: u64,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        let mut text = f.debug_struct("Library");
        text.field("name", &self.name).field("files", &files).field("private", &self.private).finish()
    }
}

impl Library {
    /// Describes a library without objects. The name is for messages, and for domains that ask for
    /// the library by its name ([`crate::DomainSpec::library`]).
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), files: Vec::new(), private: false, id: new_id() }
    }

    /// Adds a relocatable object; `name` is for messages.
    #[must_use]
    pub fn object(self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.file(name.into(), bytes.into(), FileKind::Object)
    }

    /// Adds an `ar` archive whose members are all linked, as if each were an object.
    #[must_use]
    pub fn whole_archive(self, name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        self.file(name.into(), bytes.into(), FileKind::WholeArchive)
    }

    fn file(mut self, name: String, bytes: Cow<'static, [u8]>, kind: FileKind) -> Self {
        self.files.push(File { name, bytes: Arc::new(bytes), kind });
        self.id = new_id();
        self
    }

    /// Keeps its symbols from libraries that are linked later. Hosts and the domain's own `dlsym`
    /// still find them.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The room of a domain for code that is linked into it while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkRoom {
    /// Most libraries at a time.
    pub libraries: usize,
    /// Function pointers: dispatch slots that are reserved for functions whose address is taken by
    /// libraries, or asked for. Rounded up to whole pages of 512.
    pub slots: usize,
    /// Most bytes of text, constants and data, in whole pages.
    pub bytes: u64,
}

impl Default for LinkRoom {
    /// Reserves 64 libraries, 4,096 function pointers and 16 MiB.
    fn default() -> Self {
        Self { libraries: 64, slots: 4096, bytes: 16 << 20 }
    }
}
