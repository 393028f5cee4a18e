//! Reading inputs: an object, or an archive and its members.

use anyhow::Context;
use sfi_loader::manifest::file;
use sfi_verifier::elf::archive;
use std::path::Path;

/// The content of a file.
pub enum Input {
    /// A relocatable object.
    Object(Vec<u8>),
    /// An `ar` archive with its members.
    Archive(Vec<u8>),
}

/// Reads a file and finds its kind by its magic number.
pub fn read(path: &Path) -> anyhow::Result<Input> {
    let bytes = file::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(if archive::is_archive(&bytes) { Input::Archive(bytes) } else { Input::Object(bytes) })
}

/// Returns the name and the bytes of each member of an archive, in order. Names may repeat.
pub fn members<'a>(path: &Path, bytes: &'a [u8]) -> anyhow::Result<Vec<(String, &'a [u8])>> {
    archive::members_in(bytes).with_context(|| format!("cannot read the archive `{}`", path.display()))
}

/// Returns `libz.a(deflate.o)`, as linkers write it.
pub fn member_name(path: &Path, member: &str) -> String {
    archive::member_name(path.display(), member)
}
