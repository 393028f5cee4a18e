//! Line tables: moves the rows of each sequence to the new places of their instructions.

use super::places::{Places, Stretch};
use super::values::{Dropped, address, dropped, string};
use crate::object::read::SectionIndex;
use foldhash::{HashMap, HashMapExt};
use gimli::write::{DirectoryId, FileId, FileInfo, LineProgram, LineString, LineStringTable};
use gimli::{Dwarf, Encoding, LineEncoding, Unit};
use sfi_debuginfo::{Fuel, Reader};

/// A row of the original table.
#[derive(Clone, Copy)]
struct Row {
    address: u64,
    file: u64,
    line: u64,
    column: u64,
    discriminator: u64,
    statement: bool,
    prologue_end: bool,
    epilogue_begin: bool,
}

/// The new line table of a unit, under construction.
pub(super) struct Lines<'x, 's> {
    dwarf: &'x Dwarf<Reader<'s>>,
    unit: &'x Unit<Reader<'s>>,
    strings: &'x mut LineStringTable,
    pub program: LineProgram,
    files: HashMap<u64, Option<FileId>>,
    /// The code that has lines.
    pub covered: Vec<Stretch>,
}

impl<'x, 's> Lines<'x, 's> {
    /// Returns an empty table for a unit.
    pub(super) fn new(
        dwarf: &'x Dwarf<Reader<'s>>,
        unit: &'x Unit<Reader<'s>>,
        encoding: Encoding,
        strings: &'x mut LineStringTable,
    ) -> Self {
        let name = |name: Option<Reader<'s>>| name.map(|n| n.slice().to_vec()).filter(|n| !n.is_empty());
        let name = |reader, other: &str| name(reader).unwrap_or_else(|| other.as_bytes().to_vec());
        let directory = LineString::new(name(unit.comp_dir, "."), encoding, strings);
        let file = LineString::new(name(unit.name, "?"), encoding, strings);
        let mut program = LineProgram::new(encoding, LineEncoding::default(), directory, None, file, None);
        program.file_has_md5 = unit.line_program.as_ref().is_some_and(|p| p.header().file_has_md5());
        Lines { dwarf, unit, strings, program, files: HashMap::new(), covered: Vec::new() }
    }

    /// Returns the new number of a file.
    pub(super) fn file(&mut self, index: u64, fuel: &mut Fuel) -> Option<FileId> {
        if let Some(known) = self.files.get(&index) {
            return *known;
        }
        let file = self.new_file(index, fuel);
        self.files.insert(index, file);
        file
    }

    fn new_file(&mut self, index: u64, fuel: &mut Fuel) -> Option<FileId> {
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let path = string(self.dwarf, self.unit, file.path_name(), fuel)?;
        let directory = file.directory(header).and_then(|value| string(self.dwarf, self.unit, value, fuel));
        let own = self.unit.comp_dir.map(|own| own.slice());
        let directory: DirectoryId = match directory {
            Some(directory) if file.directory_index() != 0 && Some(directory.as_slice()) != own => {
                let directory = LineString::new(directory, self.program.encoding(), self.strings);
                self.program.add_directory(directory)
            }
            _ => self.program.default_directory(),
        };
        let info = FileInfo { md5: *file.md5(), ..FileInfo::default() };
        let path = LineString::new(path, self.program.encoding(), self.strings);
        Some(self.program.add_file(path, directory, Some(info)))
    }

    /// Moves all sequences.
    pub(super) fn convert(&mut self, places: &Places<'_, '_, '_>, fuel: &mut Fuel) -> Result<(), Dropped> {
        let Some(program) = self.unit.line_program.clone() else { return Ok(()) };
        let mut rows = program.rows();
        let mut sequence = Vec::new();
        while let Some((_, row)) = rows.next_row().map_err(dropped)? {
            fuel.spend(1).map_err(|_| dropped("the line tables are too large"))?;
            if row.end_sequence() {
                self.sequence(places, &sequence, row.address(), fuel)?;
                sequence.clear();
                continue;
            }
            sequence.push(Row {
                address: row.address(),
                file: row.file_index(),
                line: row.line().map_or(0, std::num::NonZeroU64::get),
                column: match row.column() {
                    gimli::ColumnType::LeftEdge => 0,
                    gimli::ColumnType::Column(column) => column.get(),
                },
                discriminator: row.discriminator(),
                statement: row.is_stmt(),
                prologue_end: row.prologue_end(),
                epilogue_begin: row.epilogue_begin(),
            });
        }
        Ok(())
    }

    fn sequence(
        &mut self,
        places: &Places<'_, '_, '_>,
        rows: &[Row],
        end: u64,
        fuel: &mut Fuel,
    ) -> Result<(), Dropped> {
        let Some(first) = rows.first() else { return Ok(()) };
        let Some(stretch) = places.stretch(gimli::Range { begin: first.address, end }) else { return Ok(()) };
        let moved: Vec<(u64, &Row)> = rows
            .iter()
            .filter_map(|row| {
                let (section, offset) = places.start(row.address)?;
                (section == stretch.section && offset <= stretch.end).then_some((offset, row))
            })
            .collect();
        self.program.begin_sequence(Some(address(stretch.section, stretch.begin)));
        let mut last = stretch.begin;
        for (index, (offset, row)) in moved.iter().enumerate() {
            // Skips rows whose instructions are gone, as nops are, and rows out of order.
            let gone = moved.get(index + 1).is_some_and(|(next, other)| next == offset && other.address != row.address);
            if gone || *offset < last || (*offset == stretch.end && *offset != stretch.begin) {
                continue;
            }
            last = *offset;
            self.row(offset - stretch.begin, row, fuel);
        }
        self.program.end_sequence(stretch.end - stretch.begin);
        self.covered.push(stretch);
        self.pads(places, stretch.section, rows, end, fuel)
    }

    fn row(&mut self, offset: u64, row: &Row, fuel: &mut Fuel) {
        let Some(file) = self.file(row.file, fuel) else { return };
        let new = self.program.row();
        new.address_offset = offset;
        new.file = file;
        new.line = row.line;
        new.column = row.column;
        new.discriminator = row.discriminator;
        new.is_statement = row.statement;
        new.prologue_end = row.prologue_end;
        new.epilogue_begin = row.epilogue_begin;
        self.program.generate_row();
    }

    /// Gives landing pads the line of the label that they lead to.
    fn pads(
        &mut self,
        places: &Places<'_, '_, '_>,
        section: SectionIndex,
        rows: &[Row],
        end: u64,
        fuel: &mut Fuel,
    ) -> Result<(), Dropped> {
        for pad in places.pads(section).filter(|pad| pad.serves < end) {
            fuel.spend(1).map_err(|_| dropped("the line tables are too large"))?;
            let behind = rows.partition_point(|row| row.address <= pad.serves);
            let Some(row) = behind.checked_sub(1).map(|index| rows[index]) else { continue };
            self.program.begin_sequence(Some(address(section, pad.place.begin)));
            self.row(0, &row, fuel);
            self.program.end_sequence(pad.place.end - pad.place.begin);
            self.covered.push(pad.place);
        }
        Ok(())
    }
}
