//! Reading inputs: an object, or an archive and its members.

use crate::gate::source;
use anyhow::{Context, bail};
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
    let piece = |offset: u64, length: u64| -> anyhow::Result<&'a [u8]> {
        let (offset, length) = (usize::try_from(offset)?, usize::try_from(length)?);
        bytes.get(offset..).and_then(|rest| rest.get(..length)).context("a member lies outside the file")
    };
    let places = source::members(bytes.len() as u64, |offset, length| Ok(piece(offset, length)?.to_vec()))
        .with_context(|| format!("cannot read the archive `{}`", path.display()))?;
    places.into_iter().map(|place| Ok((place.member.unwrap_or_default(), piece(place.offset, place.size)?))).collect()
}

/// `libz.a(deflate.o)`, as linkers write it.
pub fn member_name(path: &Path, member: &str) -> String {
    format!("{}({member})", path.display())
}
