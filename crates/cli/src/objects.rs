//! The objects in a file for tools that show them: an object, an archive, or a program of `sfi cc`.

use crate::{input, linked};
use anyhow::Context;
use sfi_loader::manifest::file;
use sfi_verifier::elf::number::STT_FUNC;
use sfi_verifier::elf::{self, Object, Place, archive};
use std::path::Path;

/// A file with objects.
pub struct Objects {
    bytes: Vec<u8>,
    path: std::path::PathBuf,
}

impl Objects {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Objects> {
        let mut bytes = file::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        bytes.drain(..linked::script(&bytes));
        Ok(Objects { bytes, path: path.to_owned() })
    }

    /// Returns each object with its name: the path, or `archive(member)`. Leaves out members that
    /// are no objects.
    pub fn all(&self) -> anyhow::Result<Vec<(String, Object<'_>)>> {
        if !archive::is_archive(&self.bytes) {
            let object = elf::parse(&self.bytes).with_context(|| format!("cannot read `{}`", self.path.display()))?;
            return Ok(vec![(self.path.display().to_string(), object)]);
        }
        let members = input::members(&self.path, &self.bytes)?;
        Ok(members
            .into_iter()
            .filter_map(|(name, bytes)| Some((input::member_name(&self.path, &name), elf::parse(bytes).ok()?)))
            .collect())
    }
}

/// Returns the offset and name of the functions of a section, sorted by offset. A place with
/// several names keeps one, a function's if there is one.
pub fn functions<'a>(object: &Object<'a>, section: usize) -> Vec<(u64, &'a str)> {
    let mut all: Vec<(u64, bool, &str)> = object
        .symbols
        .iter()
        .filter(|s| s.place == Place::Section(section) && !s.name.is_empty() && !s.name.starts_with(".L"))
        .map(|s| (s.value, s.kind != STT_FUNC, s.name))
        .collect();
    all.sort_unstable();
    all.dedup_by_key(|(offset, _, _)| *offset);
    all.into_iter().map(|(offset, _, name)| (offset, name)).collect()
}
