//! The files of a domain or of a library.

use std::borrow::Cow;
use std::sync::Arc;

/// An object or an archive.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub name: String,
    /// Shared, because the world keeps its specifications.
    pub bytes: Arc<Cow<'static, [u8]>>,
    pub kind: FileKind,
}

/// The kind of a file, which decides the parts of it that are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Object,
    /// An archive, the members that are needed.
    Archive,
    /// An archive, all members.
    WholeArchive,
}
