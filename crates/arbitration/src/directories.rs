//! Directories: their entries, and the domain's working directory.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::tree::{Tree, absolute};
use crate::walk::{Intent, Last};
use rustix::fs::{FileType, RawDir};
use sfi_loader::HostCall;
use std::mem::MaybeUninit;

/// Largest number of bytes of entries in one answer.
const CHUNK: usize = 32 << 10;

/// `getdents64`: returns one answer of the kernel, written anew record by record (`struct
/// linux_dirent64`).
pub(crate) fn entries(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    (out, length): (u64, u64),
) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    if open.directory.is_none() {
        return Err(Errno::NOTDIR);
    }
    let length = usize::try_from(length as u32).unwrap_or(CHUNK).min(CHUNK);
    // Checked before the directory's position moves.
    cx.memory().writable(out, length)?;
    let mut buffer = vec![MaybeUninit::<u8>::uninit(); length];
    let mut directory = RawDir::new(&open.fd, &mut buffer);
    let mut bytes = Vec::new();
    while let Some(entry) = directory.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes_with_nul();
        let size = (19 + name.len()).next_multiple_of(8);
        let end = bytes.len() + size;
        bytes.extend(entry.ino().to_le_bytes());
        bytes.extend(entry.next_entry_cookie().to_le_bytes());
        bytes.extend((size as u16).to_le_bytes());
        bytes.push(kind(entry.file_type()));
        bytes.extend(name);
        bytes.resize(end, 0);
        if directory.is_buffer_empty() {
            break;
        }
    }
    cx.write(out, &bytes)?;
    Ok(bytes.len() as u64)
}

/// Returns the `d_type` of a kind of file.
fn kind(kind: rustix::fs::FileType) -> u8 {
    match kind {
        FileType::RegularFile => libc::DT_REG,
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        FileType::Fifo => libc::DT_FIFO,
        FileType::Socket => libc::DT_SOCK,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::BlockDevice => libc::DT_BLK,
        _ => libc::DT_UNKNOWN,
    }
}

pub(crate) fn working(cx: &mut HostCall<'_>, tree: &Tree, pointer: u64, length: u64) -> Result<u64, Errno> {
    let name = if tree.working.is_empty() { "/" } else { &tree.working };
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    if length < bytes.len() as u64 {
        return Err(Errno::RANGE);
    }
    cx.write(pointer, &bytes)?;
    Ok(bytes.len() as u64)
}

/// `chdir`: stores the name of the new working directory. It must be a directory now, and every
/// later use looks the name up again.
pub(crate) fn change(cx: &HostCall<'_>, tree: &mut Tree, path: u64) -> Result<u64, Errno> {
    // The domain can always go back to the root, even if no directory is granted there.
    let text = crate::paths::copy_in(cx, path)?;
    if !text.is_empty() && absolute(&tree.working, &text).is_empty() {
        tree.working.clear();
        return Ok(0);
    }
    tree.working = tree.look_up(&tree.working, &text, Last::Follow, Intent::Read)?.directory()?;
    Ok(0)
}

pub(crate) fn change_to(tree: &mut Tree, files: &Descriptors, fd: u64) -> Result<u64, Errno> {
    tree.working = files.entry(fd)?.directory.clone().ok_or(Errno::NOTDIR)?;
    Ok(0)
}
