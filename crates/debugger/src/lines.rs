//! The line tables of joined debug information.

use crate::dwarf::Sections;
use gimli::{Dwarf, EndianSlice, LittleEndian};

/// A place in code and its source.
pub(crate) struct Line {
    pub(crate) address: u64,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// Most lines that are read: debug information may be hostile.
const LIMIT: usize = 10_000_000;

/// Returns the lines of joined debug information, by address. Units that cannot be read are left
/// out.
pub(crate) fn lines(sections: &Sections) -> Vec<Line> {
    let mut all = Vec::new();
    let load = |id: gimli::SectionId| {
        let bytes = sections.get(id.name()).map_or(&[][..], Vec::as_slice);
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    if let Ok(dwarf) = Dwarf::load(load) {
        let mut units = dwarf.units();
        while let Ok(Some(unit)) = units.next() {
            // The lines that were read before an error are good.
            let _ = dwarf.unit(unit).and_then(|unit| read(&dwarf, &unit, &mut all));
        }
    }
    all.sort_by_key(|line| line.address);
    all
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

fn read(dwarf: &Dwarf<Slice<'_>>, unit: &gimli::Unit<Slice<'_>>, all: &mut Vec<Line>) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let directory = unit.comp_dir.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut rows = program.rows();
    while let Some((header, row)) = rows.next_row()? {
        if row.end_sequence() || all.len() == LIMIT {
            continue;
        }
        let (Some(file), Some(line)) = (row.file(header), row.line()) else { continue };
        let name = dwarf.attr_string(unit, file.path_name())?;
        let name = name.to_string_lossy();
        let file = if name.starts_with('/') { name.into_owned() } else { format!("{directory}/{name}") };
        all.push(Line { address: row.address(), file, line: u32::try_from(line.get()).unwrap_or(u32::MAX) });
    }
    Ok(())
}
