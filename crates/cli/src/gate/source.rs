//! Where objects come from: files, and archives of which only the headers are read ahead
//! ([`archive`]).
//!
//! Members are read one at a time by the worker that checks them, so memory is bounded by the
//! largest member and not by the archive. The file stays open, so a later read is of the same file.

use anyhow::{Context, ensure};
use sfi_verifier::elf::archive;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open input and the objects in it.
pub struct Source {
    /// The path as it was given.
    pub path: String,
    /// Bytes of the file.
    pub size: u64,
    /// The file is an archive.
    pub is_archive: bool,
    /// The objects, in the file's order.
    pub objects: Vec<Place>,
    file: File,
}

/// Where an object lies in its file.
pub struct Place {
    /// Name of the member, `None` if the object is the file.
    pub member: Option<String>,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl Source {
    /// Opens a file and finds the objects in it.
    pub fn open(path: &Path) -> anyhow::Result<Source> {
        let name = path.display().to_string();
        // Looked at before as well: a FIFO waits for its writer when it is opened.
        let metadata = std::fs::metadata(path).with_context(|| format!("cannot read `{name}`"))?;
        ensure!(metadata.is_file(), "`{name}` is not a file");
        let file = File::open(path).with_context(|| format!("cannot read `{name}`"))?;
        let metadata = file.metadata().with_context(|| format!("cannot read `{name}`"))?;
        ensure!(metadata.is_file(), "`{name}` is not a file");
        let size = metadata.len();
        let start = read(&file, 0, size.min(8)).with_context(|| format!("cannot read `{name}`"))?;
        let is_archive = archive::is_archive(&start);
        let objects = if is_archive {
            let members = archive::members(size, |offset, length| read(&file, offset, length))
                .with_context(|| format!("cannot read the archive `{name}`"))?;
            members.into_iter().map(|m| Place { member: Some(m.name), offset: m.offset, size: m.size }).collect()
        } else {
            vec![Place { member: None, offset: 0, size }]
        };
        Ok(Source { path: name, size, is_archive, objects, file })
    }

    /// The bytes of one object.
    pub fn read(&self, place: &Place) -> anyhow::Result<Vec<u8>> {
        read(&self.file, place.offset, place.size).with_context(|| format!("cannot read `{}`", self.path))
    }

    /// SHA-256 of the whole file.
    pub fn sha256(&self) -> anyhow::Result<String> {
        let mut hash = super::digest::Hash::default();
        let mut at = 0;
        while at < self.size {
            let piece = read(&self.file, at, (self.size - at).min(1 << 20))?;
            at += piece.len() as u64;
            hash.update(&piece);
        }
        Ok(hash.finish())
    }
}

fn read(file: &File, offset: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
