//! The debug sections of an object: found, decompressed and relocated.

use gimli::{EndianSlice, LittleEndian, SectionId};
use std::borrow::Cow;
use std::io::Read;

/// The reader of the sections' bytes.
pub type Reader<'s> = EndianSlice<'s, LittleEndian>;

/// A section as it is in the file.
pub struct Raw<'a> {
    /// Name, with its dot.
    pub name: &'a [u8],
    /// Bytes.
    pub data: &'a [u8],
    /// `SHF_COMPRESSED`.
    pub compressed: bool,
    /// Member of a section group. The linker may drop it, and compilers put types and macros there.
    /// It is not read.
    pub grouped: bool,
    /// Its relocations.
    pub relocations: Vec<Reloc>,
}

/// A relocation with addend.
#[derive(Clone, Copy, Debug)]
pub struct Reloc {
    /// Offset in the section.
    pub offset: u64,
    /// `R_X86_64_*`.
    pub kind: u32,
    /// Index of the symbol.
    pub symbol: usize,
    /// Addend.
    pub addend: i64,
}

/// The meaning of a symbol in debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A place in code.
    Code {
        /// Index of the section.
        section: usize,
        /// Offset in it.
        offset: u64,
    },
    /// Anything else: its value.
    Other(u64),
}

/// The error for debug information that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// The sections that are read. The others are ignored.
const NEEDED: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Bound on the bytes of all compressed sections of one object after decompression, as a multiple
/// of their compressed size. Real debug information shrinks to a fifth, and zeros shrink to a
/// thousandth.
const EXPANSION: u64 = 16;
/// Bytes that small sections may have beyond this bound.
const SMALL: u64 = 64 << 10;

/// An object's debug information, with addresses as [`crate::address`] makes them.
#[derive(Debug, Default)]
pub struct Sections<'a> {
    all: Vec<(SectionId, Cow<'a, [u8]>)>,
}

impl<'a> Sections<'a> {
    /// Finds the sections among `raw`. If two have one name, the first counts.
    ///
    /// # Errors
    /// [`Malformed`] if a section cannot be decompressed.
    pub fn gather(
        raw: impl IntoIterator<Item = Raw<'a>>,
        symbol: impl Fn(usize) -> Option<Meaning>,
    ) -> Result<Self, Malformed> {
        let mut sections = Sections::default();
        let mut left = SMALL;
        for raw in raw {
            let Some(id) = NEEDED.into_iter().find(|id| id.name().as_bytes() == raw.name) else { continue };
            if raw.grouped || sections.all.iter().any(|(other, _)| *other == id) {
                continue;
            }
            let mut data = if raw.compressed {
                left += EXPANSION * raw.data.len() as u64;
                Cow::Owned(inflate(raw.data, &mut left)?)
            } else {
                Cow::Borrowed(raw.data)
            };
            if !raw.relocations.is_empty() {
                relocate(data.to_mut(), &raw.relocations, &symbol);
            }
            sections.all.push((id, data));
        }
        Ok(sections)
    }

    /// Says whether the sections name no lines and no functions.
    pub fn is_empty(&self) -> bool {
        self.get(SectionId::DebugInfo).is_empty()
    }

    pub(crate) fn get(&self, id: SectionId) -> &[u8] {
        self.all.iter().find(|(other, _)| *other == id).map_or(&[], |(_, data)| data)
    }

    /// Returns the sections as gimli reads them.
    pub fn dwarf(&self) -> gimli::Dwarf<Reader<'_>> {
        let load = |id| Ok::<_, std::convert::Infallible>(EndianSlice::new(self.get(id), LittleEndian));
        let Ok(dwarf) = gimli::Dwarf::load(load);
        dwarf
    }
}

/// Decompresses a section: `Elf64_Chdr` and a stream (gABI, chapter Sections, Compressed Sections).
fn inflate(data: &[u8], left: &mut u64) -> Result<Vec<u8>, Malformed> {
    const ZLIB: u32 = 1;
    const ZSTD: u32 = 2;
    let (Some(kind), Some(size), Some(stream)) = (data.get(..4), data.get(8..16), data.get(24..)) else {
        return Err(Malformed("a compressed debug section has no header"));
    };
    let kind = kind.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
    let size = size.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    *left = left.checked_sub(size).ok_or(Malformed("compressed debug sections are too large"))?;
    let mut bytes = Vec::new();
    let read = match kind {
        ZLIB => flate2::read::ZlibDecoder::new(stream).take(size).read_to_end(&mut bytes).is_ok(),
        ZSTD => match ruzstd::decoding::StreamingDecoder::new(stream) {
            Ok(decoder) => decoder.take(size).read_to_end(&mut bytes).is_ok(),
            Err(_) => false,
        },
        _ => return Err(Malformed("a debug section is compressed in an unknown way")),
    };
    if !read || bytes.len() as u64 != size {
        return Err(Malformed("a debug section does not decompress"));
    }
    Ok(bytes)
}

/// Applies the relocations that occur in debug information. Others change nothing.
fn relocate(data: &mut [u8], relocations: &[Reloc], symbol: &impl Fn(usize) -> Option<Meaning>) {
    /// `R_X86_64_64`, `R_X86_64_32`, `R_X86_64_32S`, `R_X86_64_DTPOFF64`, `R_X86_64_DTPOFF32`.
    const WIDTHS: [(u32, usize); 5] = [(1, 8), (10, 4), (11, 4), (17, 8), (21, 4)];
    for reloc in relocations {
        let Some(width) = WIDTHS.iter().find(|(kind, _)| *kind == reloc.kind).map(|(_, width)| *width) else {
            continue;
        };
        let value = match symbol(reloc.symbol) {
            Some(Meaning::Code { section, offset }) => {
                crate::address(section, offset.wrapping_add_signed(reloc.addend))
            }
            Some(Meaning::Other(value)) => value.wrapping_add_signed(reloc.addend),
            None => continue,
        };
        let Ok(start) = usize::try_from(reloc.offset) else { continue };
        if let Some(field) = data.get_mut(start..).and_then(|rest| rest.get_mut(..width)) {
            field.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}
