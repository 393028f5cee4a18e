//! The section `.sfi.map`: for each original instruction the instructions of the rewritten object
//! that serve it. It is for people (`sfi objdump`), and no decision depends on it.
//!
//! It has one record for each section of text. A record holds a version byte, the section's address
//! (8 bytes, relocated), the number of entries, and the entries. Numbers are LEB128, and the
//! offsets of an entry are differences from the previous entry. An entry ends where the next
//! begins.

use gimli::write::{EndianVec, Writer};
use gimli::{EndianSlice, LittleEndian, Reader as _};

/// The section's name.
pub const SECTION: &str = ".sfi.map";
/// The only version.
const VERSION: u8 = 1;

/// New code that serves one original instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Offset of its first instruction.
    pub new: u64,
    /// The original instruction's offset.
    pub old: u64,
    /// Distance from `new` to the instruction that does the original one's work. The other
    /// instructions were inserted. `None` if all were.
    pub main: Option<u64>,
}

/// The place where a rewrite keeps r15 of the original program. The data stack needs the register
/// itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// In its home, a fixed place of the TCB page.
    #[default]
    Home,
    /// In the register of this number, which the original code nearby does not name.
    Renamed(u8),
    /// In the register of this number. That register's own value lives in r15's home.
    Exchanged(u8),
}

/// The rewriter's account of one original instruction, for the validator. The validator does not
/// trust it: a wrong trace makes a proof fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Offset in the new section where its code begins.
    pub new: u32,
    /// Offset in the original section.
    pub old: u32,
    /// The code is the landing pad of the instruction's label. It stands apart from the
    /// instruction's code.
    pub pad: bool,
    /// The place of the original r15 here.
    pub r15: Keeping,
    /// If the home is not in the TCB page: its distance in bytes below the stack pointer at the
    /// function's entry.
    pub slot: Option<i64>,
}

/// The steps of one section of code, by the original section's index.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Index of the original section.
    pub section: usize,
    /// The steps in the order of the new code.
    pub steps: Vec<Step>,
}

/// Appends a record. Returns the offset of the field for the section's address.
pub fn encode(out: &mut Vec<u8>, entries: &[MapEntry]) -> usize {
    let mut bytes = EndianVec::new(LittleEndian);
    // Writing to memory does not fail.
    let mut write = || -> gimli::write::Result<()> {
        bytes.write_u8(VERSION)?;
        bytes.write_u64(0)?;
        bytes.write_uleb128(entries.len() as u64)?;
        let (mut new, mut old) = (0, 0);
        for entry in entries {
            bytes.write_uleb128(entry.new.saturating_sub(new))?;
            bytes.write_sleb128((entry.old as i64).wrapping_sub(old as i64))?;
            bytes.write_uleb128(entry.main.map_or(0, |main| main + 1))?;
            (new, old) = (entry.new, entry.old);
        }
        Ok(())
    };
    let _ = write();
    let field = out.len() + 1;
    out.extend_from_slice(bytes.slice());
    field
}

/// Reads all records. Returns for each the offset of the field for the section's address, and the
/// entries. A malformed record ends the list.
pub fn decode(bytes: &[u8]) -> Vec<(u64, Vec<MapEntry>)> {
    let whole = EndianSlice::new(bytes, LittleEndian);
    let mut rest = whole;
    let mut records = Vec::new();
    let mut record = || -> gimli::Result<Option<(u64, Vec<MapEntry>)>> {
        if rest.is_empty() || rest.read_u8()? != VERSION {
            return Ok(None);
        }
        let field = rest.offset_from(whole);
        rest.read_u64()?;
        let count = rest.read_uleb128()?;
        let mut entries = Vec::new();
        let (mut new, mut old) = (0u64, 0u64);
        for _ in 0..count {
            new = new.wrapping_add(rest.read_uleb128()?);
            old = old.wrapping_add_signed(rest.read_sleb128()?);
            let main = rest.read_uleb128()?.checked_sub(1);
            entries.push(MapEntry { new, old, main });
        }
        Ok(Some((field as u64, entries)))
    };
    while let Ok(Some(one)) = record() {
        records.push(one);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let one = [MapEntry { new: 0, old: 0, main: Some(3) }, MapEntry { new: 12, old: 5, main: None }];
        let two = [MapEntry { new: 4, old: 900, main: Some(0) }, MapEntry { new: 5, old: 7, main: Some(0) }];
        let mut bytes = Vec::new();
        let fields = [encode(&mut bytes, &one), encode(&mut bytes, &two)];
        let read = decode(&bytes);
        assert_eq!(read, [(fields[0] as u64, one.to_vec()), (fields[1] as u64, two.to_vec())]);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).len() < 2);
        }
        assert_eq!(decode(&[VERSION, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), []);
    }
}
