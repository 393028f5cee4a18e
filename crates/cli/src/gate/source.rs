//! Where objects come from: files, and archives of which only the headers are read ahead. The one reader of archives of all commands.
//!
//! An archive (`ar(5)`, in its GNU and BSD forms) is walked header by header; members are read one at a time by whoever
//! checks them, so memory is bounded by the largest member and not by the archive. Every size is held against the file.

use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8; 8] = b"!<arch>\n";
const THIN: &[u8; 8] = b"!<thin>\n";
/// Bytes of a member's header.
const HEADER: u64 = 60;

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
        let file = File::open(path).with_context(|| format!("cannot read `{name}`"))?;
        let metadata = file.metadata().with_context(|| format!("cannot read `{name}`"))?;
        ensure!(metadata.is_file(), "`{name}` is not a file");
        let size = metadata.len();
        let mut magic = [0; 8];
        if size >= 8 {
            file.read_exact_at(&mut magic, 0).with_context(|| format!("cannot read `{name}`"))?;
        }
        if &magic == THIN {
            bail!("`{name}` is a thin archive: its members are other files; give those, or repack it with `ar`");
        }
        let is_archive = &magic == MAGIC;
        let objects = if is_archive {
            members(size, |offset, length| read(&file, offset, length))
                .with_context(|| format!("cannot read the archive `{name}`"))?
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
        let mut hash = super::attest::Hash::default();
        let mut at = 0;
        while at < self.size {
            let piece = read(&self.file, at, (self.size - at).min(1 << 20))?;
            at += piece.len() as u64;
            hash.update(&piece);
        }
        Ok(hash.finish())
    }
}

fn read(file: &File, offset: u64, size: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The members of an archive of a size, which is read piece by piece: offset and length, both inside.
pub fn members(size: u64, read: impl Fn(u64, u64) -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<Place>> {
    let mut members = Vec::new();
    let mut long_names: Vec<u8> = Vec::new();
    let mut at = MAGIC.len() as u64;
    while at < size {
        ensure!(size - at >= HEADER, "the header at {at:#x} is cut off");
        let header = read(at, HEADER)?;
        ensure!(&header[58..60] == b"`\n", "no header at {at:#x}");
        let length = number(&header[48..58]).with_context(|| format!("the header at {at:#x} has no size"))?;
        let start = at + HEADER;
        ensure!(length <= size - start, "the member at {at:#x} lies outside the file");
        at = start + length + length % 2;
        let field = header[..16].trim_ascii_end();
        let (name, skip) = match field {
            b"/" | b"/SYM64/" => continue,
            b"//" => {
                long_names = read(start, length)?;
                continue;
            }
            [b'/', digits @ ..] => (long_name(&long_names, digits)?, 0),
            [b'#', b'1', b'/', digits @ ..] => {
                let skip =
                    number(digits).filter(|n| *n <= length.min(4096)).context("a name is longer than its member")?;
                let name = read(start, skip)?;
                (text(name.split(|b| *b == 0).next().unwrap_or_default()), skip)
            }
            [name @ .., b'/'] | name => (text(name), 0),
        };
        if name.starts_with("__.SYMDEF") {
            continue;
        }
        members.push(Place { member: Some(name), offset: start + skip, size: length - skip });
    }
    Ok(members)
}

/// A name in the GNU table of long names: it ends with `/` and a newline.
fn long_name(table: &[u8], digits: &[u8]) -> anyhow::Result<String> {
    let start = number(digits).and_then(|n| usize::try_from(n).ok()).context("a member's name is malformed")?;
    let rest = table.get(start..).context("a member's name lies outside the table of names")?;
    let end = rest.iter().position(|b| matches!(b, b'\n' | 0)).unwrap_or(rest.len()).min(4096);
    Ok(text(rest[..end].strip_suffix(b"/").unwrap_or(&rest[..end])))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A decimal number, padded with blanks on the right.
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim_end_matches(' ').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn entry(name: &str, size: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).into_bytes();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        bytes
    }

    fn open(entries: &[Vec<u8>]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(MAGIC)?;
        entries.iter().try_for_each(|e| file.write_all(e))?;
        let source = Source::open(file.path())?;
        assert!(source.is_archive);
        source.objects.iter().map(|p| Ok((p.member.clone().unwrap(), source.read(p)?))).collect()
    }

    #[test]
    fn members_of_both_dialects_are_found() {
        let members = open(&[
            entry("/", "4", b"\0\0\0\0"),
            entry("//", "22", b"a_name_beyond_it_all/\n"),
            entry("/0", "3", b"one"),
            entry("two.o/", "3", b"two"),
            entry("#1/8", "13", b"bsd.o\0\0\0three"),
            entry("__.SYMDEF", "2", b"xx"),
        ]);
        let members = members.unwrap();
        let expected: [(&str, &[u8]); 3] = [("a_name_beyond_it_all", b"one"), ("two.o", b"two"), ("bsd.o", b"three")];
        let found: Vec<(&str, &[u8])> = members.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn hostile_headers_are_errors() {
        for hostile in [
            entry("a.o/", "9999999999", b"short"),
            entry("a.o/", "-1", b""),
            entry("a.o/", "", b""),
            entry("/77", "1", b"x"),
            entry("/x", "1", b"x"),
            entry("#1/9", "3", b"abc"),
            entry("//", "9999999999", b""),
            entry("a.o/", "1", b"x")[..40].to_vec(),
            vec![b'x'; 60],
        ] {
            assert!(open(std::slice::from_ref(&hostile)).is_err(), "{}", text(&hostile));
        }
    }
}
