//! Assembles, rewrites and lists each `cases/*.s`. The listing, or the refusals, must equal the
//! `.out` file beside it.
//!
//! `# mode: full` in the source's first lines chooses the mode. `BLESS=1 cargo test -p sfi-rewriter
//! --test cases` rewrites the expectations. Read the difference before you commit it.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use sfi_rewriter::{Mode, Options, rewrite};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn cases() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&directory).expect("cases") {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|e| e != "s") {
            continue;
        }
        count += 1;
        let actual = run(&path);
        let expected_path = path.with_extension("out");
        if bless {
            std::fs::write(&expected_path, actual).expect("bless");
            continue;
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        if expected != actual {
            failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", path.display()));
        }
    }
    assert!(count >= 20, "only {count} cases found");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn run(path: &Path) -> String {
    let source = std::fs::read_to_string(path).expect("source");
    let mode =
        source.lines().find_map(|l| l.strip_prefix("# mode: ")).map_or(Mode::Write, |m| m.parse().expect("mode"));
    let options = Options { mode, ..Options::default() };
    let directory = tempfile::tempdir().expect("temporary directory");
    let object = directory.path().join("case.o");
    let status = Command::new("gcc").arg("-c").arg(path).arg("-o").arg(&object).status();
    assert!(
        status.expect("gcc is needed: install the package `gcc`").success(),
        "{} does not assemble",
        path.display()
    );
    let bytes = std::fs::read(&object).expect("object");
    match rewrite(&bytes, &options) {
        Ok(output) => {
            let again = rewrite(&bytes, &options).expect("second time");
            assert_eq!(output.bytes, again.bytes, "{}: not deterministic", path.display());
            listing(&output.bytes)
        }
        Err(refusals) => refusals.iter().map(|r| format!("{r}\n")).collect(),
    }
}

/// Lists code with labels and relocations, and then the relocations of data.
fn listing(bytes: &[u8]) -> String {
    let file = object::File::parse(bytes).expect("the output parses");
    let mut out = String::new();
    for section in file.sections() {
        let Ok(name) = section.name() else { continue };
        let data = section.data().expect("data");
        let relocs: Vec<(u64, String)> = section
            .relocations()
            .map(|(offset, reloc)| {
                let target = match reloc.target() {
                    RelocationTarget::Symbol(symbol) => {
                        let symbol = file.symbol_by_index(symbol).expect("symbol");
                        match symbol.section_index().filter(|_| symbol.name() == Ok("")) {
                            Some(index) => {
                                file.section_by_index(index).expect("section").name().expect("name").to_owned()
                            }
                            None => symbol.name().expect("name").to_owned(),
                        }
                    }
                    _ => "?".to_owned(),
                };
                let object::RelocationFlags::Elf { r_type } = reloc.flags() else { unreachable!() };
                let kind = format!("{r_type:?}");
                (offset, format!("{kind} {target}{:+}", reloc.addend()))
            })
            .collect();
        if section.kind() != object::SectionKind::Text {
            for (offset, reloc) in &relocs {
                writeln!(out, "{name}+{offset:#x}: {reloc}").expect("write");
            }
            continue;
        }
        if data.is_empty() {
            continue;
        }
        writeln!(out, "{name}:").expect("write");
        let mut decoder = Decoder::with_ip(64, data, 0, DecoderOptions::NONE);
        let mut formatter = GasFormatter::new();
        while decoder.can_decode() {
            let ins = decoder.decode();
            for symbol in file.symbols() {
                let here = symbol.section_index() == Some(section.index()) && symbol.address() == ins.ip();
                if here && symbol.name().is_ok_and(|n| !n.is_empty()) && symbol.kind() != object::SymbolKind::Section {
                    writeln!(out, "{}:", symbol.name().expect("name")).expect("write");
                }
            }
            let mut text = String::new();
            formatter.format(&ins, &mut text);
            write!(out, "  {:4x}  {text}", ins.ip()).expect("write");
            for (_, reloc) in relocs.iter().filter(|(offset, _)| (ins.ip()..ins.next_ip()).contains(offset)) {
                write!(out, "    # {reloc}").expect("write");
            }
            out.push('\n');
        }
    }
    out
}
