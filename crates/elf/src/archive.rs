//! The only reader of archives (`ar(5)` in its GNU and BSD forms). The rewriter, the gate and the
//! loader use it.
//!
//! It walks the archive header by header and never reads a member's bytes, so a caller may hold one
//! member at a time. It does not use the archive's own symbol table, which may lie.
//!
//! A table counts as a table only in the place where archivers put it. A symbol table is the first
//! member. The table of long names is the first member or follows a symbol table. Everything else
//! is a member, whatever its name, and the caller judges it as an object. So all users of an
//! archive agree on its objects.

use crate::{Unreadable, unreadable};
use sfi_contract::text::clean;
use std::fmt::Display;
use std::io;

const MAGIC: &[u8; 8] = b"!<arch>\n";
const THIN: &[u8; 8] = b"!<thin>\n";
/// Bytes of a member's header.
const HEADER: u64 = 60;
/// Names of BSD symbol tables.
const SYMBOL_TABLES: [&[u8]; 4] = [b"__.SYMDEF", b"__.SYMDEF SORTED", b"__.SYMDEF_64", b"__.SYMDEF_64 SORTED"];
/// Longest name that is read. Names are for messages only. Bytes.
const LONGEST_NAME: u64 = 4096;

/// A member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name for messages: printable and not too long. Several members may have one name.
    pub name: String,
    /// First byte in the archive.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Returns the name of a member for messages, as linkers write it: `libz.a(deflate.o)`.
pub fn member_name(archive: impl Display, member: &str) -> String {
    format!("{archive}({member})")
}

/// Says whether a file that starts like this is an archive. Thin archives are archives too.
pub fn is_archive(start: &[u8]) -> bool {
    start.starts_with(MAGIC) || start.starts_with(THIN)
}

/// Finds the members of an archive of `size` bytes. `read` takes an offset and a length, both
/// inside the archive, and returns the bytes.
///
/// # Errors
/// [`Unreadable`] if the archive is thin or malformed, if `read` fails, or if an object stands in
/// the place of a table.
pub fn members(size: u64, mut read: impl FnMut(u64, u64) -> io::Result<Vec<u8>>) -> Result<Vec<Member>, Unreadable> {
    let mut read = |at: u64, length: u64| read(at, length).map_err(|error| Unreadable(error.to_string()));
    let magic = read(0, size.min(MAGIC.len() as u64))?;
    if magic == THIN {
        return unreadable("a thin archive: its members are other files; give those, or repack it with `ar`");
    }
    if magic != MAGIC {
        return unreadable("not an archive");
    }
    let mut members = Vec::new();
    let mut long_names: Option<Vec<u8>> = None;
    let mut at = MAGIC.len() as u64;
    let mut first = true;
    while at < size {
        if size - at < HEADER {
            return unreadable(format!("the header at {at:#x} is cut off"));
        }
        let header = read(at, HEADER)?;
        if header.get(58..) != Some(b"`\n") {
            return unreadable(format!("no header at {at:#x}"));
        }
        let Some(length) = number(&header[48..58]) else {
            return unreadable(format!("the header at {at:#x} has no size"));
        };
        let start = at + HEADER;
        if length > size - start {
            return unreadable(format!("the member at {at:#x} lies outside the file"));
        }
        at = start + length + length % 2;
        let field = header[..16].trim_ascii_end();
        let is_first = std::mem::replace(&mut first, false);
        let (name, skip) = match field {
            b"/" | b"/SYM64/" if is_first => {
                refuse_object(&read(start, length.min(4))?, start)?;
                continue;
            }
            // Only a symbol table may precede it, so there is no member yet.
            b"//" if members.is_empty() && long_names.is_none() => {
                let table = read(start, length)?;
                refuse_object(&table, start)?;
                long_names = Some(table);
                continue;
            }
            [b'/', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                (long_name(long_names.as_deref().unwrap_or_default(), digits)?, 0)
            }
            [b'#', b'1', b'/', digits @ ..] => {
                let Some(skip) = number(digits).filter(|n| *n <= length.min(LONGEST_NAME)) else {
                    return unreadable(format!("the member at {start:#x} has no name"));
                };
                let name = read(start, skip)?;
                (name.split(|b| *b == 0).next().unwrap_or_default().to_vec(), skip)
            }
            [name @ .., b'/'] if !name.is_empty() && name != b"/" => (name.to_vec(), 0),
            name => (name.to_vec(), 0),
        };
        if is_first && SYMBOL_TABLES.contains(&&name[..]) {
            refuse_object(&read(start + skip, (length - skip).min(4))?, start + skip)?;
            continue;
        }
        members.push(Member { name: clean(&name), offset: start + skip, size: length - skip });
    }
    Ok(members)
}

/// Returns the members of an archive in memory: name and bytes.
///
/// # Errors
/// As [`members`].
pub fn members_in(archive: &[u8]) -> Result<Vec<(String, &[u8])>, Unreadable> {
    let piece = |offset: u64, length: u64| {
        let (start, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        archive.get(start..)?.get(..length)
    };
    let outside = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let all = members(archive.len() as u64, |at, length| piece(at, length).map(<[u8]>::to_vec).ok_or_else(outside))?;
    Ok(all.into_iter().filter_map(|m| Some((m.name, piece(m.offset, m.size)?))).collect())
}

/// Refuses a table that starts like an object: no object may be skipped.
fn refuse_object(start: &[u8], at: u64) -> Result<(), Unreadable> {
    if start.starts_with(b"\x7fELF") {
        return unreadable(format!("an object at {at:#x} stands where a table belongs"));
    }
    Ok(())
}

/// Returns a name of the GNU table of long names. It ends with `/` and a newline.
fn long_name(table: &[u8], digits: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let start = number(digits).and_then(|n| usize::try_from(n).ok());
    let Some(rest) = start.and_then(|start| table.get(start..)).filter(|rest| !rest.is_empty()) else {
        return unreadable("a member's name lies outside the table of names");
    };
    let rest = &rest[..rest.len().min(LONGEST_NAME as usize)];
    let end = rest.iter().position(|b| matches!(b, b'\n' | 0)).unwrap_or(rest.len());
    Ok(rest[..end].strip_suffix(b"/").unwrap_or(&rest[..end]).to_vec())
}

/// Reads a decimal number that is padded with blanks on the right.
fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
