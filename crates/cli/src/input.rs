//! Reading inputs: an object, or an archive and its members.

use anyhow::{Context, bail};
use goblin::archive::Archive;
use std::path::Path;

/// What a path held.
pub enum Input {
    /// A relocatable object.
    Object(Vec<u8>),
    /// An `ar` archive; members are read from these bytes.
    Archive(Vec<u8>),
}

/// Reads a file and says which kind it is by its magic number.
pub fn read(path: &Path) -> anyhow::Result<Input> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    if bytes.starts_with(b"!<arch>\n") {
        Ok(Input::Archive(bytes))
    } else if bytes.starts_with(b"!<thin>\n") {
        bail!("`{}` is a thin archive: its members are other files; give those, or repack it with `ar`", path.display())
    } else {
        Ok(Input::Object(bytes))
    }
}

/// The members of an archive in order: name and bytes. Names may repeat.
pub fn members<'a>(path: &Path, bytes: &'a [u8]) -> anyhow::Result<Vec<(String, &'a [u8])>> {
    let archive = Archive::parse(bytes).with_context(|| format!("cannot read the archive `{}`", path.display()))?;
    let mut members = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let member = archive.get_at(index).context("archive member vanished")?;
        let start = usize::try_from(member.offset)?;
        let data = bytes.get(start..start.saturating_add(member.size())).with_context(|| {
            format!("member `{}` of `{}` lies outside the file", member.extended_name(), path.display())
        })?;
        members.push((member.extended_name().to_owned(), data));
    }
    Ok(members)
}

/// `libz.a(deflate.o)`, as linkers write it.
pub fn member_name(path: &Path, member: &str) -> String {
    format!("{}({member})", path.display())
}
