//! Opens the files that a manifest names: regular files only, and without waiting.
//!
//! A FIFO waits for its writer when it is opened, a device has no end. Neither is a manifest, an
//! object or an interface.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most bytes of an object or an archive that are read.
pub const MOST_BYTES: u64 = 1 << 30;
/// The most bytes of a manifest, a policy or another text that are read. Its form in memory takes
/// several times as much.
pub const MOST_TEXT: u64 = 64 << 20;

/// Opens a regular file, and gives its size.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn open(path: &Path) -> Result<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    Ok((file, metadata.len()))
}

/// Reads a regular file.
///
/// # Errors
/// As for [`open`], and for more than [`MOST_BYTES`].
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_within(path, MOST_BYTES)
}

fn read_within(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, size) = open(path)?;
    // It may grow while it is read.
    let mut bytes = Vec::with_capacity(size.min(most) as usize + 1);
    if size <= most && file.take(most + 1).read_to_end(&mut bytes)? as u64 <= most {
        return Ok(bytes);
    }
    Err(too_large(most))
}

/// Returns the error for more bytes than may be read.
pub fn too_large(most: u64) -> Error {
    Error::new(ErrorKind::FileTooLarge, format!("it is larger than {} MiB", most >> 20))
}

/// Reads a regular file of text.
///
/// # Errors
/// As for [`open`], for more than [`MOST_TEXT`], and for text that is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_within(path, MOST_TEXT)?).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}
