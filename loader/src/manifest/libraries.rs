//! Libraries that a domain of a manifest may open.

use crate::manifest::values::Size;
use crate::spec::DomainSpec;
use crate::spec::library::{Library, LinkRoom};
use sfi_verifier::elf::archive::is_archive;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The room for libraries, see [`LinkRoom`].
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Room {
    /// Most libraries at a time.
    pub libraries: usize,
    /// Function pointers.
    pub slots: usize,
    /// Most bytes of all of them.
    pub bytes: Size,
}

impl Default for Room {
    fn default() -> Self {
        let LinkRoom { libraries, slots, bytes } = LinkRoom::default();
        Self { libraries, slots, bytes: Size(bytes) }
    }
}

/// Adds the libraries and the room for them. `read` reads a file of the manifest.
pub(super) fn add<E>(
    mut spec: DomainSpec,
    libraries: &BTreeMap<String, Vec<PathBuf>>,
    room: Option<Room>,
    read: impl Fn(&PathBuf) -> Result<Vec<u8>, E>,
) -> Result<DomainSpec, E> {
    for (name, objects) in libraries {
        let mut library = Library::new(name);
        for path in objects {
            let (file, bytes) = (path.display().to_string(), read(path)?);
            library = if is_archive(&bytes) { library.whole_archive(file, bytes) } else { library.object(file, bytes) };
        }
        spec = spec.library(library);
    }
    Ok(match room {
        Some(Room { libraries, slots, bytes }) => spec.link_room(LinkRoom { libraries, slots, bytes: bytes.0 }),
        None => spec,
    })
}
