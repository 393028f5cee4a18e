//! Language-specific data: reads the call-site table of one function and writes it for the new
//! code. Actions and types stay as they are, but for types of code for a fixed place: they are
//! addresses of 32 bits, and windows lie above 4 GiB. They become distances.
//!
//! Source: "C++ ABI for Itanium: Exception Handling", section 7; Linux Standard Base Core 5.0,
//! section 10.5.1 (encodings).

/// `DW_EH_PE_omit`
const OMIT: u8 = 0xff;
/// `DW_EH_PE_absptr`
const ABSOLUTE: u8 = 0;
/// `DW_EH_PE_udata4`, `DW_EH_PE_sdata4`
const WORDS: [u8; 2] = [0x03, 0x0b];
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`
const DISTANCE: u8 = 0x1b;

/// A call with a landing pad or actions, or one that is known to have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Offsets in the section that holds the code.
    pub start: u64,
    pub end: u64,
    /// The landing pad.
    pub pad: Option<u64>,
    /// Action as the table holds it, 0 for none.
    pub action: u64,
}

/// A function's table.
#[derive(Clone, Debug)]
pub(crate) struct Lsda {
    pub sites: Vec<Site>,
    /// Encoding of the type entries.
    types: u8,
    /// Offset of the actions in the exception table's section.
    pub actions: u64,
    /// Offset of the end of the types, from which their indices count.
    base: u64,
}

impl Lsda {
    /// Says whether the types are addresses of 32 bits.
    pub(crate) fn has_narrow_types(&self) -> bool {
        WORDS.contains(&self.types)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.at += 1;
        self.bytes.get(self.at - 1).copied()
    }

    fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// Reads an offset in one of the encodings without a base: uleb128, udata2, udata4, udata8.
    fn offset(&mut self, encoding: u8) -> Option<u64> {
        let size = match encoding {
            0x01 => return self.uleb(),
            0x02 => 2,
            0x03 => 4,
            0x00 | 0x04 => 8,
            _ => return None,
        };
        let mut word = [0; 8];
        word[..size].copy_from_slice(self.bytes.get(self.at..)?.get(..size)?);
        self.at += size;
        Some(u64::from_le_bytes(word))
    }
}

/// Reads the table at an offset of its section. `function`: the offset where the function (or its
/// part) begins. Returns `None` if the table is not understood.
pub(crate) fn read(section: &[u8], at: u64, function: u64) -> Option<Lsda> {
    let mut cursor = Cursor { bytes: section, at: usize::try_from(at).ok()? };
    // Landing pads count from the function's start unless the table says otherwise. That needs a
    // relocation, which no compiler emits.
    if cursor.byte()? != OMIT {
        return None;
    }
    let types = cursor.byte()?;
    let base = match types {
        OMIT => None,
        _ => Some(cursor.uleb()?.checked_add(cursor.at as u64)?),
    };
    let encoding = cursor.byte()?;
    let length = cursor.uleb()?;
    let end = usize::try_from(length).ok().and_then(|length| cursor.at.checked_add(length))?;
    let mut sites = Vec::new();
    while cursor.at < end {
        let start = function.checked_add(cursor.offset(encoding)?)?;
        let end = start.checked_add(cursor.offset(encoding)?)?;
        let pad = match cursor.offset(encoding)? {
            0 => None,
            pad => Some(function.checked_add(pad)?),
        };
        sites.push(Site { start, end, pad, action: cursor.uleb()? });
    }
    let base = base.unwrap_or(end as u64);
    (cursor.at == end && base >= end as u64 && base <= section.len() as u64).then_some(Lsda {
        sites,
        types,
        actions: end as u64,
        base,
    })
}

/// A call site of the new code.
pub(crate) struct NewSite<P> {
    /// Offset from the start of the region that the unwinder reports.
    pub start: u64,
    pub length: u64,
    pub pad: Option<P>,
    pub action: u64,
}

/// Writes a table for the new code, without its actions and types. These follow it, from `actions`
/// of the section on. Also returns the offsets of the landing pads in the bytes, with their
/// targets. The addresses of dispatch slots belong there, as landing pads count from 0.
pub(crate) fn write<P>(lsda: &Lsda, sites: Vec<NewSite<P>>) -> (Vec<u8>, Vec<(u64, P)>) {
    let mut records = Vec::new();
    let mut pads = Vec::new();
    for site in sites {
        records.extend_from_slice(&site.start.to_le_bytes());
        records.extend_from_slice(&site.length.to_le_bytes());
        if let Some(pad) = site.pad {
            pads.push((records.len() as u64, pad));
        }
        records.extend_from_slice(&[0; 8]);
        uleb(&mut records, site.action);
    }
    let mut lengths = Vec::new();
    lengths.push(ABSOLUTE);
    uleb(&mut lengths, records.len() as u64);
    // LPStart, absolute and 0.
    let types = if lsda.has_narrow_types() { DISTANCE } else { lsda.types };
    let mut bytes = vec![ABSOLUTE, 0, 0, 0, 0, 0, 0, 0, 0, types];
    if lsda.types != OMIT {
        // The field has a fixed length, because its value depends on the bytes after it.
        let behind = lengths.len() as u64 + records.len() as u64 + (lsda.base - lsda.actions);
        bytes.extend((0..5).map(|i| (behind >> (7 * i)) as u8 & 0x7f | if i < 4 { 0x80 } else { 0 }));
    }
    bytes.extend_from_slice(&lengths);
    let first = bytes.len() as u64;
    bytes.extend_from_slice(&records);
    (bytes, pads.into_iter().map(|(at, pad)| (first + at, pad)).collect())
}

fn uleb(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        bytes.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table that g++ emits for a `try` with a `catch (int)`.
    const TABLE: [u8; 20] = [0xff, 0x9b, 17, 0x01, 8, 0x05, 0x0a, 0x40, 0x01, 0x20, 0x05, 0, 0, 0x01, 0, 0, 9, 9, 9, 9];

    #[test]
    fn a_table_is_read() {
        let lsda = read(&TABLE, 0, 0x100).expect("it is well-formed");
        let sites = [
            Site { start: 0x105, end: 0x10f, pad: Some(0x140), action: 1 },
            Site { start: 0x120, end: 0x125, pad: None, action: 0 },
        ];
        assert_eq!((lsda.sites.as_slice(), lsda.actions, lsda.base), (&sites[..], 13, 20));
    }

    #[test]
    fn malformed_tables_are_not() {
        for length in 0..13 {
            assert!(read(&TABLE[..length], 0, 0).is_none(), "{length}");
        }
        for (at, byte) in [(0, 0), (0, 0x9b), (2, 200), (2, 1), (3, 0x1b), (3, 0x50), (4, 7), (4, 9), (4, 0x80)] {
            let mut table = TABLE;
            table[at] = byte;
            assert!(read(&table, 0, 0).is_none(), "byte {at} = {byte:#x}");
        }
        assert!(read(&TABLE, 1 << 40, 0).is_none());
    }

    #[test]
    fn a_written_table_leads_to_its_types() {
        let lsda = read(&TABLE, 0, 0).expect("it is well-formed");
        let sites = vec![NewSite { start: 3, length: 2, pad: Some('p'), action: 1 }];
        let (bytes, pads) = write(&lsda, sites);
        assert_eq!(pads, [(17 + 16, 'p')]);
        assert_eq!((bytes[0], bytes[9], bytes[15], bytes[16]), (ABSOLUTE, 0x9b, ABSOLUTE, 25));
        let mut cursor = Cursor { bytes: &bytes, at: 10 };
        // The types end 7 bytes after the actions' beginning, as before.
        assert_eq!(cursor.uleb().map(|offset| offset + 15), Some(bytes.len() as u64 + 7));
    }
}
