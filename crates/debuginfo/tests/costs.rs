//! The price of each part of debug information, and the texts and numbers that come out. Each test
//! builds one function by hand, with as much of one part as it likes.

use sfi_debuginfo::{Frame, Fuel, Meaning, Raw, Sections, address, lookup};

/// A unit with one function.
#[derive(Clone, Copy)]
struct Described<'d> {
    /// Units before it, without anything.
    units: usize,
    /// Entries of the table of abbreviations that nothing uses.
    abbreviations: usize,
    /// Bytes of directories in the header of the line program.
    header: usize,
    /// Rows before the function's own.
    rows: usize,
    /// Ranges of the function before its own.
    ranges: usize,
    /// Calls that were inlined into each other there.
    inlined: usize,
    line: i64,
    column: u64,
    file: &'d str,
    name: &'d str,
    linkage_name: &'d str,
}

const PLAIN: Described<'static> = Described {
    units: 0,
    abbreviations: 0,
    header: 0,
    rows: 0,
    ranges: 0,
    inlined: 0,
    line: 7,
    column: 3,
    file: "x.c",
    name: "f",
    linkage_name: "",
};

/// The price of a unit without its tables, and of a name.
const UNIT: u64 = 2000;

fn unsigned(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn signed(mut value: i64, to: &mut Vec<u8>) {
    while !(-64..64).contains(&value) {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8 & 0x7f);
}

/// Puts the length before the bytes.
fn sized(body: Vec<u8>) -> Vec<u8> {
    [(body.len() as u32).to_le_bytes().to_vec(), body].concat()
}

impl Described<'_> {
    fn abbreviations(&self) -> Vec<u8> {
        // 1: the unit, with children: low_pc, high_pc, stmt_list. 2: the function, with children:
        // name, linkage_name if there is one, ranges. 3: a unit with nothing. 4: an inlined call,
        // with children.
        let mut table = vec![1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0];
        let linkage_name: &[u8] = if self.linkage_name.is_empty() { &[] } else { &[0x6e, 0x08] };
        table.extend([&[2, 0x2e, 1, 0x03, 0x08], linkage_name, &[0x55, 0x17, 0, 0]].concat());
        table.extend([3, 0x11, 0, 0, 0]);
        table.extend([4, 0x1d, 1, 0x11, 0x01, 0x12, 0x07, 0, 0]);
        for number in 0..self.abbreviations {
            unsigned(5 + number as u64, &mut table);
            table.extend([0x34, 0, 0x03, 0x08, 0, 0]);
        }
        table.push(0);
        table
    }

    fn info(&self) -> Vec<u8> {
        let header = [4, 0, 0, 0, 0, 0, 8];
        let empty = sized([&header[..], &[3]].concat());
        let span = [address(1, 0x10).to_le_bytes(), 4_u64.to_le_bytes()].concat();
        let mut body = [&header[..], &[1], &span, &[0; 4], &[2]].concat();
        body.extend(self.name.bytes().chain([0]));
        if !self.linkage_name.is_empty() {
            body.extend(self.linkage_name.bytes().chain([0]));
        }
        body.extend([0; 4]);
        for _ in 0..self.inlined {
            body.push(4);
            body.extend(&span);
        }
        body.extend(vec![0; self.inlined + 2]);
        [empty.repeat(self.units), sized(body)].concat()
    }

    fn ranges(&self) -> Vec<u8> {
        // Relative to the unit's first byte.
        let range = |at: u64| [at.to_le_bytes(), (at + 4).to_le_bytes()].concat();
        [range(0x1000).repeat(self.ranges), range(0), vec![0; 16]].concat()
    }

    fn lines(&self) -> Vec<u8> {
        // Instructions of one byte, lines from -5 in 14 steps, twelve standard opcodes.
        let mut header = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        if self.header > 0 {
            header.extend(vec![b'd'; self.header]);
            header.push(0);
        }
        header.push(0);
        header.extend(self.file.bytes().chain([0, 0, 0, 0, 0]));
        let mut program = [&[0, 9, 2][..], &address(1, 0x10).to_le_bytes()].concat();
        program.extend(vec![1; self.rows]);
        program.push(3);
        signed(self.line - 1, &mut program);
        program.push(5);
        unsigned(self.column, &mut program);
        program.extend([1, 2, 4, 0, 1, 1]);
        sized([&[4, 0][..], &sized(header), &program].concat())
    }

    /// Returns the frames of the function's first byte.
    fn frames(&self, fuel: u64, more: Option<(&str, &[u8])>) -> Vec<Frame> {
        let parts = [
            (".debug_abbrev", self.abbreviations()),
            (".debug_info", self.info()),
            (".debug_line", self.lines()),
            (".debug_ranges", self.ranges()),
        ];
        let parts = parts.iter().map(|(name, data)| (*name, &data[..])).chain(more);
        let raw = parts.map(|(name, data)| Raw {
            name: name.as_bytes(),
            data,
            compressed: false,
            grouped: false,
            relocations: Vec::new(),
        });
        let sections = Sections::gather(raw, |_| Some(Meaning::Other(0))).expect("nothing is compressed");
        lookup(&sections, &[address(1, 0x10)], &mut Fuel::new(fuel)).remove(0)
    }

    fn innermost(&self) -> Frame {
        self.frames(1 << 40, None).first().cloned().unwrap_or_default()
    }

    /// Returns the least fuel that finds the function.
    fn price(&self) -> u64 {
        let (mut low, mut high) = (0, 1 << 24);
        while low < high {
            let middle = (low + high) / 2;
            let found = self.frames(middle, None).first().is_some_and(|frame| frame.function.is_some());
            (low, high) = if found { (low, middle) } else { (middle + 1, high) };
        }
        assert!(low < 1 << 24, "never found");
        low
    }
}

#[test]
fn every_part_has_its_price() {
    let plain = PLAIN.price();
    assert!(plain >= 2 * UNIT, "a unit and a name: {plain}");
    let more = |described: Described<'_>| described.price() - plain;
    assert!(more(Described { units: 10, ..PLAIN }) >= 10 * UNIT);
    let table = more(Described { abbreviations: 1000, ..PLAIN });
    assert!(table >= 2000, "codes and attributes: {table}");
    // Units that share a table pay for it once.
    let shared = more(Described { abbreviations: 1000, units: 10, ..PLAIN });
    assert!((table + 10 * UNIT..table + 11 * UNIT).contains(&shared), "{shared}");
    assert!(more(Described { header: 8000, ..PLAIN }) >= 1000);
    assert!(more(Described { rows: 1000, ..PLAIN }) >= 1000);
    assert!(more(Described { ranges: 1000, ..PLAIN }) >= 1000);
}

#[test]
fn numbers_have_31_bits() {
    let (most, over) = (i64::from(i32::MAX), i64::from(i32::MAX) + 1);
    for (line, told) in [(7, Some(7)), (most, Some(most as u64)), (over, None), (1 << 40, None), (i64::MAX, None)] {
        let frame = Described { line, ..PLAIN }.innermost();
        assert_eq!((frame.line, frame.column), (told, Some(3)), "{line}");
    }
    for (column, told) in
        [(3, Some(3)), (most as u64, Some(most as u64)), (over as u64, None), (1 << 40, None), (u64::MAX, None)]
    {
        let frame = Described { column, ..PLAIN }.innermost();
        assert_eq!((frame.line, frame.column), (Some(7), told), "{column}");
    }
}

#[test]
fn texts_hold_no_control_characters() {
    let hostile = "a\u{1b}[31mb\u{202e}c";
    let told = Some("a\u{fffd}[31mb\u{fffd}c".to_owned());
    assert_eq!(Described { file: hostile, ..PLAIN }.innermost().file, told);
    assert_eq!(Described { linkage_name: hostile, ..PLAIN }.innermost().function, told);
    assert_eq!(Described { name: hostile, linkage_name: "", ..PLAIN }.innermost().function, told);
}

#[test]
fn chains_and_strings_are_bounded() {
    let frames = |inlined| Described { inlined, ..PLAIN }.frames(1 << 40, None).len();
    assert_eq!((frames(0), frames(3), frames(500)), (1, 4, 32));
    let strings = |length: usize| PLAIN.frames(1 << 40, Some((".debug_str", &vec![b's'; length]))).len();
    assert_eq!((strings(1 << 16), strings((1 << 16) + 1)), (1, 0));
}
