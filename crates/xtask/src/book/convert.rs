//! The tables of the documents hold the figures of docs/measured. With `BLESS=1` the test writes
//! the figures that are only in tables: those of runs before the programs wrote them.

use crate::measured::{Archive, Coverage, Program, Programs, SCHEMA, Sums, read, write};
use crate::setup;
use std::collections::BTreeMap;

/// A table: the names of its columns, and its rows.
struct Table<'a> {
    head: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

/// Returns the cells of a table's line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

impl<'a> Table<'a> {
    /// Finds the tables whose first column has this name.
    fn all(document: &'a str, first: &str) -> Vec<Self> {
        let (mut lines, mut all) = (document.lines(), Vec::new());
        while let Some(head) = lines.by_ref().filter_map(cells).find(|cells| cells[0] == first) {
            let rows = lines.by_ref().map_while(cells).skip(1).collect();
            all.push(Self { head, rows });
        }
        all
    }

    /// Finds the first one.
    fn find(document: &'a str, first: &str) -> Self {
        Self::all(document, first).into_iter().next().unwrap_or_else(|| panic!("no table of `{first}`"))
    }

    /// Returns the cell of a row in a column, if there is such a column.
    fn cell(&self, row: &[&'a str], column: &str) -> Option<&'a str> {
        row.get(self.head.iter().position(|name| *name == column)?).copied()
    }

    /// Returns a number, if there is one.
    fn number<T: std::str::FromStr>(&self, row: &[&'a str], column: &str) -> Option<T> {
        self.cell(row, column)?.parse().ok()
    }
}

/// Returns the name of a way of building that the table writes short.
fn way(column: &str) -> String {
    column.replace("r15", "-ffixed-r15")
}

/// Reads the tables of RESULTS.md with the most programs. Their rows of means are no programs.
fn programs(results: &str) -> Programs {
    let most = |first: &str, column: &str| {
        let tables = Table::all(results, first).into_iter().filter(|table| table.head.contains(&column));
        tables.max_by_key(|table| table.rows.len()).unwrap_or_else(|| panic!("no table of `{first}`"))
    };
    let (times, texts) = (most("program", "native ms"), most("text of", "write"));
    let program = |row: &Vec<&str>| {
        let native_ms = times.number(row, "native ms")?;
        let text = texts.rows.iter().find(|text| text[0] == row[0]).expect("its text");
        let time = times.head.iter().zip(row).skip(2);
        let text = texts.head.iter().zip(text).skip(1);
        Some(Program {
            name: row[0].to_owned(),
            native_ms,
            time: time.map(|(column, cell)| (way(column), (*cell != "not built").then(|| ratio(cell)))).collect(),
            text: text.map(|(column, cell)| (way(column), ratio(cell))).collect(),
        })
    };
    Programs { schema: SCHEMA, programs: times.rows.iter().filter_map(program).collect() }
}

fn ratio(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell} is no ratio"))
}

/// Reads `34822 of 34942 (99.66%)`.
fn parts(text: &str) -> (usize, usize) {
    let (part, rest) = text.split_once(" of ").unwrap_or_else(|| panic!("{text}"));
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{text}"));
    (number(part), number(rest.split(' ').next().unwrap_or(rest)))
}

/// Reads `3 W03, 14 W05`.
fn refused(text: &str) -> BTreeMap<String, usize> {
    let parts = text.split(", ").filter(|part| !part.is_empty());
    let one = |part: &str| {
        let (count, code) = part.split_once(' ').unwrap_or_else(|| panic!("{text}"));
        (format!("SFI-{code}"), count.parse().expect("a number"))
    };
    parts.map(one).collect()
}

/// Reads the tables of COVERAGE.md.
fn coverage(report: &str) -> Coverage {
    let (bars, codes) = (Table::find(report, "bar"), Table::find(report, "code"));
    let bar = |name: &str| {
        let row = bars.rows.iter().find(|row| row[0].starts_with(name));
        row.map(|row| parts(row[1]))
    };
    let line =
        |start: &str| report.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("{start}"));
    let (rewritten, objects) = bar("all objects").expect("a bar");
    // `34942 objects in 108.8 s on 2 threads; text 1.146.`
    let sum = line(&format!("{objects} objects in "));
    let (seconds, text) = (sum.split(' ').next().unwrap_or_default(), sum.rsplit(' ').next().unwrap_or_default());
    let archives = Table::find(report, "package");
    let archive = |row: &Vec<&str>| Archive {
        package: row[0].to_owned(),
        archive: row[1].to_owned(),
        objects: archives.number(row, "objects").expect("a number"),
        rewritten: archives.number(row, "rewritten").expect("a number"),
        verified: archives.number(row, "verified").expect("a number"),
        proved: archives.number(row, "proved"),
        refused: refused(archives.cell(row, "refused").expect("a column")),
        seconds: archives.number(row, "s").expect("seconds"),
        text: archives.number(row, "text"),
    };
    let first = Sums {
        mode: line("Mode ").trim_end_matches('.').to_owned(),
        objects,
        rewritten,
        verified: bar("every rewritten object verifies").expect("a bar").0,
        proved: bar("no rewritten object is wrong; proved").map(|(proved, _)| proved),
        refused: codes
            .rows
            .iter()
            .map(|row| (row[0].to_owned(), codes.number(row, "objects").expect("a number")))
            .collect(),
        seconds: seconds.parse().expect("seconds"),
        text: text.trim_end_matches('.').parse().ok(),
        archives: archives.rows.iter().map(archive).collect(),
    };
    let modes = Table::find(report, "mode");
    let others = modes.rows.iter().map(|row| {
        let (rewritten, objects) = parts(modes.cell(row, "all").expect("a column"));
        Sums {
            mode: row[0].to_owned(),
            objects,
            rewritten,
            verified: modes
                .number(row, "verified")
                .or_else(|| Some(parts(modes.cell(row, "verified")?).0))
                .expect("a number"),
            proved: modes.cell(row, "proved").map(|cell| parts(cell).0),
            refused: refused(modes.cell(row, "refused").expect("a column")),
            seconds: modes.number(row, "s").expect("seconds"),
            text: modes.number(row, "text"),
            archives: Vec::new(),
        }
    });
    Coverage { schema: SCHEMA, modes: std::iter::once(first).chain(others).collect() }
}

/// Compares a file of figures with the table of a document, or writes it.
fn agree<T>(name: &str, document: &str, convert: impl Fn(&str) -> T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let root = setup::root().expect("the repository");
    let text = std::fs::read_to_string(root.join(document)).expect(document);
    let (path, table) = (root.join(name), convert(&text));
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, write(&table).expect("JSON")).expect("written");
    }
    let figures: T = read(&std::fs::read_to_string(&path).expect(name)).expect(name);
    assert_eq!(figures, table, "{name} and {document} differ");
}

#[test]
fn tables_hold_the_figures() {
    agree(super::PROGRAMS, "docs/RESULTS.md", programs);
    agree(super::COVERAGE, "docs/COVERAGE.md", coverage);
}

#[test]
fn tables_are_read() {
    let results = "| program | native ms | write |\n| --- | --- | --- |\n| zlib | 1.0 | 1.0 |\n\n\
        | program | native ms | write | full | full, r15 | clang |\n| --- | --- | --- | --- | --- | --- |\n\
        | zlib | 46.2 | 1.025 | 1.159 | 1.157 | not built |\n| geometric mean | | 1.0 | 1.1 | 1.1 | |\n\n\
        | text of | write | full | write, r15 | full, r15 |\n| --- | --- | --- | --- | --- |\n| zlib | 1.1 | 1.2 | 1.3 | 1.4 |\n";
    let Programs { programs, .. } = programs(results);
    assert_eq!(programs.len(), 1);
    assert_eq!((programs[0].native_ms, programs[0].time["full, -ffixed-r15"]), (46.2, Some(1.157)));
    assert_eq!((programs[0].text["write, -ffixed-r15"], programs[0].time["clang"]), (1.3, None));

    let report = "Mode write.\n\n| bar | measured | |\n| --- | --- | --- |\n| all objects: 99% | 5 of 7 (71.43%) | met |\n\
        | every rewritten object verifies | 4 of 5 | met |\n\n7 objects in 1.5 s on 2 threads; text 1.146.\n\n\
        | code | objects | reason |\n| --- | --- | --- |\n| SFI-W03 | 2 | a |\n\n\
        | mode | all | verified | refused | s | text |\n| --- | --- | --- | --- | --- | --- |\n\
        | full | 4 of 7 (57.14%) | 4 | 2 W03, 1 W05 | 1.6 | 1.2 |\n\n\
        | package | archive | objects | rewritten | % | refused | verified | s | text |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n| p | l.a | 7 | 5 | 71.4 | 2 W03 | 4 | 1.50 | - |\n";
    let Coverage { modes, .. } = coverage(report);
    let codes = |all: &[(&str, usize)]| -> BTreeMap<String, usize> {
        all.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
    };
    assert_eq!((modes[0].objects, modes[0].rewritten, modes[0].verified, modes[0].proved), (7, 5, 4, None));
    assert_eq!((modes[0].seconds, modes[0].text), (1.5, Some(1.146)));
    assert_eq!(modes[0].refused, codes(&[("SFI-W03", 2)]));
    assert_eq!((modes[0].archives[0].text, &modes[0].archives[0].refused), (None, &codes(&[("SFI-W03", 2)])));
    assert_eq!((modes[1].verified, &modes[1].refused), (4, &codes(&[("SFI-W03", 2), ("SFI-W05", 1)])));

    // Another form is not read.
    let text = write(&coverage(report)).expect("JSON");
    assert_eq!(read::<Coverage>(&text).expect("figures"), coverage(report));
    assert!(read::<Coverage>(&text.replace("\"mode\"", "\"other\"")).is_err());
    assert!(read::<Coverage>(&text.replace("\"schema\":1", "\"schema\":2")).is_err());
}
