//! Sections of the new debug information.

use crate::object::read::SectionIndex;

/// A section of the new debug information.
pub(crate) struct DebugSection {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub relocs: Vec<DebugReloc>,
}

/// A relocation against the start of a section.
pub(crate) struct DebugReloc {
    pub offset: u64,
    /// 4 or 8 bytes.
    pub size: u8,
    pub target: DebugTarget,
    pub addend: i64,
}

/// The section that a relocation of debug information means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugTarget {
    /// A section of the original object that holds code.
    Code(SectionIndex),
    /// One of the new debug sections.
    Debug(&'static str),
}
