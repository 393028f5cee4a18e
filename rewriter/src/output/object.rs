//! The object to be written.

use std::borrow::Cow;

/// A relocatable object to be written. Indices are those of these tables, counted from 1; 0 means
/// none.
pub(crate) struct NewObject<'a> {
    pub flags: u32,
    pub sections: Vec<NewSection<'a>>,
    /// Local symbols first.
    pub symbols: Vec<NewSymbol<'a>>,
}

pub(crate) struct NewSection<'a> {
    pub name: Cow<'a, [u8]>,
    pub kind: u32,
    pub flags: u64,
    pub align: u64,
    pub entsize: u64,
    /// Section that `sh_link` names (SHF_LINK_ORDER).
    pub link: usize,
    pub size: u64,
    pub contents: Contents<'a>,
    pub relocs: Vec<NewReloc>,
}

pub(crate) enum Contents<'a> {
    Data(Cow<'a, [u8]>),
    NoBits,
    /// A section group: flag word, signature symbol, members. The writer adds the relocation
    /// sections of members.
    Group {
        flags: u32,
        signature: usize,
        members: Vec<usize>,
    },
}

pub(crate) struct NewSymbol<'a> {
    pub name: Cow<'a, [u8]>,
    pub value: u64,
    pub size: u64,
    pub bind: u8,
    pub kind: u8,
    pub other: u8,
    pub place: NewPlace,
}

pub(crate) enum NewPlace {
    Undefined,
    Absolute,
    Common,
    Section(usize),
}

pub(crate) struct NewReloc {
    pub offset: u64,
    pub kind: u32,
    pub symbol: usize,
    pub addend: i64,
}
