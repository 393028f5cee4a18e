//! Opens the files that a manifest names: regular files only, and without waiting.
//!
//! A FIFO waits for its writer when it is opened, a device has no end. Neither is a manifest, an
//! object or an interface.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
/// As for [`open`].
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let (mut file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of text.
///
/// # Errors
/// As for [`open`], and for text that is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}
