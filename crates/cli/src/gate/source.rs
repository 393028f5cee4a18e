//! Inputs: files, and archives of which only the headers are read ahead ([`archive`]).
//!
//! Each worker reads one member at a time, so the largest member bounds the memory and not the
//! archive. The file stays open, so later reads see the same file. For a statement an archive is
//! read once and kept, so the statement's digest is that of the bytes that the members were found
//! in.

use anyhow::Context;
use sfi_loader::manifest::file;
use sfi_verifier::elf::archive;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open input and the objects in it.
pub struct Source {
    /// The path as the user wrote it.
    pub path: String,
    /// Says whether the file is an archive.
    pub is_archive: bool,
    /// The objects, in the file's order.
    pub objects: Vec<ObjectPlace>,
    bytes: Bytes,
}

/// The bytes of an input.
enum Bytes {
    /// Read from the file when a worker needs them.
    File(File),
    /// Read before, as a whole.
    Kept(Vec<u8>),
}

/// The place of an object in its file.
pub struct ObjectPlace {
    /// Name of the member, `None` if the object is the file.
    pub member: Option<String>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Source {
    /// Opens a file and finds the objects in it. With `keep` an archive is read once, as a whole.
    pub fn open(path: &Path, keep: bool) -> anyhow::Result<Source> {
        let name = path.display().to_string();
        let (file, size) = file::open(path).context("cannot be read")?;
        let mut bytes = Bytes::File(file);
        let start = bytes.read(0, size.min(8)).context("cannot be read")?;
        let is_archive = archive::is_archive(&start);
        if is_archive && keep {
            bytes = Bytes::Kept(bytes.read(0, size).context("cannot be read")?);
        }
        let objects = if is_archive {
            let members = archive::members(size, |offset, length| bytes.read(offset, length))
                .context("the archive cannot be read")?;
            members.into_iter().map(|m| ObjectPlace { member: Some(m.name), offset: m.offset, size: m.size }).collect()
        } else {
            vec![ObjectPlace { member: None, offset: 0, size }]
        };
        Ok(Source { path: name, is_archive, objects, bytes })
    }

    /// Reads the bytes of one object.
    pub fn read(&self, place: &ObjectPlace) -> anyhow::Result<Vec<u8>> {
        self.bytes.read(place.offset, place.size).context("cannot be read")
    }

    /// Returns the bytes of an input that was read as a whole.
    pub fn kept(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::File(_) => None,
            Bytes::Kept(bytes) => Some(bytes),
        }
    }
}

impl Bytes {
    fn read(&self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        if size > file::MOST_BYTES {
            return Err(file::too_large(file::MOST_BYTES));
        }
        let length = usize::try_from(size).map_err(io::Error::other)?;
        match self {
            Bytes::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Bytes::Kept(all) => {
                let start = usize::try_from(offset).ok();
                let part = start.and_then(|start| all.get(start..start.checked_add(length)?));
                part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive for a statement is read once. Later changes of the file change neither members
    /// nor digest.
    #[test]
    fn a_kept_archive_stays_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.a");
        let archive = |byte: char| {
            let body = byte.to_string().repeat(100);
            format!("!<arch>\n{:<48}{:<10}`\n{body}", "m.o/", body.len())
        };
        std::fs::write(&path, archive('a')).unwrap();
        let source = Source::open(&path, true).unwrap();
        assert_eq!((source.is_archive, source.objects.len()), (true, 1));
        std::fs::write(&path, archive('b')).unwrap();
        assert_eq!(source.read(&source.objects[0]).unwrap(), [b'a'; 100]);
        assert_eq!(source.kept(), Some(archive('a').as_bytes()));
        assert!(Source::open(&path, false).unwrap().kept().is_none());
    }
}
