//! Archives of rewritten objects.

use crate::Error;
use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, write_archive_to_stream};
use std::io::Cursor;

/// Returns an archive with a symbol index. It is deterministic: no times, no owners.
///
/// # Errors
/// [`Error::Archive`] if a member is no object.
pub fn archive(members: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Error> {
    let members: Vec<NewArchiveMember<'_>> = members
        .iter()
        .map(|(name, bytes)| NewArchiveMember::new(bytes, &DEFAULT_OBJECT_READER, name.clone()))
        .collect();
    let mut out = Cursor::new(Vec::new());
    write_archive_to_stream(&mut out, &members, ArchiveKind::Gnu, false, None).map_err(Error::Archive)?;
    Ok(out.into_inner())
}
