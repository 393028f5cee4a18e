//! Builds fixtures: assembles a `.s` file with gcc and then damages the object as the file's header
//! says.
//!
//! A fixture begins with comments of the form `# key: value`:
//!
//! ```text
//! # Tries: the attempt of a hostile object, or `Shows:` the form of an accepted one
//! # expect: SFI-S01 SFI-C01     all rules that it breaks, or `unreadable`
//! # mode: full                  the mode to check it for; `write` if absent
//! # budget: yes                 check it as a budgeted text
//! # patch: header .text flags = 7
//! # text: offset 0x400000       check the section .text as a final text at this window offset
//! # text: anchors 0xff000 0x100000 0x300000    header page, dispatch table, TCB page
//! # text: gateways 0x500000
//! # text: slots 0x400000
//! # show: the command that shows it
//! ```
//!
//! Patches make objects that an assembler cannot: `header SECTION FIELD = V`,
//! `relocation SECTION INDEX FIELD = V`, `symbol NAME FIELD = V`, `bytes SECTION OFFSET = B`,
//! `file OFFSET = B`. `V` is a number, `index SECTION` (its number) or `place SECTION` (its offset
//! in the file). `B` is bytes in hexadecimal, or `index SECTION` as four bytes. A relocation is
//! named by the section that it applies to and its position in the table.

// Each test file uses its part of this module.
#![allow(dead_code)]

use anyhow::{Context, Result, bail, ensure};
use sfi_contract::{Anchors, Mode};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fixture file and its header.
#[derive(Debug)]
pub struct Fixture {
    pub name: String,
    pub path: PathBuf,
    pub expect: BTreeSet<String>,
    pub mode: Mode,
    pub budget: bool,
    pub patches: Vec<String>,
    pub text: Option<FinalPlace>,
}

/// The place and numbers with which a fixture's `.text` is checked as a final text.
#[derive(Clone, Debug)]
pub struct FinalPlace {
    pub offset: u64,
    pub anchors: Anchors,
    pub gateways: Vec<u64>,
    pub slots: Vec<u64>,
}

/// Returns all fixtures of a folder below `fixtures/`, by name.
pub fn fixtures(folder: &str) -> Result<Vec<Fixture>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&path).with_context(|| path.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "s") {
            found.push(Fixture::read(&path).with_context(|| path.display().to_string())?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Fixture {
    fn read(path: &Path) -> Result<Fixture> {
        let source = std::fs::read_to_string(path)?;
        let mut fixture = Fixture {
            name: path.file_stem().context("name")?.to_string_lossy().into_owned(),
            path: path.to_owned(),
            expect: BTreeSet::new(),
            mode: Mode::Write,
            budget: false,
            patches: Vec::new(),
            text: None,
        };
        let mut keys = BTreeSet::new();
        for line in source.lines().map_while(|line| line.strip_prefix("# ")) {
            let (key, value) = line.split_once(": ").with_context(|| format!("not `key: value`: {line}"))?;
            keys.insert(key.to_owned());
            match key {
                "Tries" | "Shows" | "show" => {}
                "expect" => fixture.expect = value.split_whitespace().map(str::to_owned).collect(),
                "mode" => fixture.mode = value.parse()?,
                "budget" => fixture.budget = value == "yes",
                "patch" => fixture.patches.push(value.to_owned()),
                "text" => fixture.text.get_or_insert_default().read(value)?,
                _ => bail!("unknown key `{key}`"),
            }
        }
        ensure!(keys.contains("Tries") || keys.contains("Shows"), "the header does not say what the fixture is for");
        ensure!(keys.contains("show"), "the header does not say which command shows it");
        Ok(fixture)
    }

    /// Assembles and patches the fixture. The object stays in the target directory, below
    /// `tmp/<folder>`.
    pub fn build(&self, folder: &str) -> Result<Vec<u8>> {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder).join(format!("{}.o", self.name));
        let mut bytes = assemble(&self.path, &out)?;
        for patch in &self.patches {
            apply(&mut bytes, patch).with_context(|| format!("patch `{patch}`"))?;
        }
        if !self.patches.is_empty() {
            std::fs::write(&out, &bytes)?;
        }
        Ok(bytes)
    }
}

impl Default for FinalPlace {
    fn default() -> Self {
        FinalPlace { offset: 0, anchors: Anchors::EXAMPLE, gateways: Vec::new(), slots: Vec::new() }
    }
}

impl FinalPlace {
    fn read(&mut self, value: &str) -> Result<()> {
        let (key, numbers) = value.split_once(' ').context("text: KEY NUMBER...")?;
        let numbers: Vec<u64> = numbers.split_whitespace().map(number).collect::<Result<_>>()?;
        match key {
            "offset" => self.offset = *numbers.first().context("a number")?,
            "anchors" => {
                let [header, dispatch, tcb] = numbers[..] else { bail!("anchors HEADER DISPATCH TCB") };
                self.anchors = Anchors { header, dispatch, tcb };
            }
            "gateways" => self.gateways = numbers,
            "slots" => self.slots = numbers,
            _ => bail!("unknown text key `{key}`"),
        }
        Ok(())
    }
}

/// Runs `gcc -c` and returns the object.
pub fn assemble(source: &Path, out: &Path) -> Result<Vec<u8>> {
    std::fs::create_dir_all(out.parent().context("no folder")?)?;
    let run = Command::new("gcc").arg("-c").arg(source).arg("-o").arg(out).output();
    let run = run.context("gcc cannot be started; these tests need it")?;
    ensure!(run.status.success(), "gcc -c {}: {}", source.display(), String::from_utf8_lossy(&run.stderr));
    Ok(std::fs::read(out)?)
}

fn number(text: &str) -> Result<u64> {
    let text = text.trim();
    Ok(match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16)?,
        None => text.parse()?,
    })
}

/// Returns offset and size of a field of `Elf64_Shdr`, `Elf64_Sym`, `Elf64_Rela` (gABI).
fn field(table: &str, name: &str) -> Result<(usize, usize)> {
    Ok(match (table, name) {
        ("header", "name") => (0, 4),
        ("header", "type") => (4, 4),
        ("header", "flags") => (8, 8),
        ("header", "addr") => (16, 8),
        ("header", "offset") => (24, 8),
        ("header", "size") => (32, 8),
        ("header", "link") => (40, 4),
        ("header", "info") => (44, 4),
        ("header", "align") => (48, 8),
        ("header", "entsize") => (56, 8),
        ("symbol", "name") => (0, 4),
        ("symbol", "info") => (4, 1),
        ("symbol", "other") => (5, 1),
        ("symbol", "shndx") => (6, 2),
        ("symbol", "value") => (8, 8),
        ("symbol", "size") => (16, 8),
        ("relocation", "offset") => (0, 8),
        ("relocation", "type") => (8, 4),
        ("relocation", "symbol") => (12, 4),
        ("relocation", "addend") => (16, 8),
        _ => bail!("no field `{name}`"),
    })
}

/// An object's tables, by position in the file. They are read before the first byte changes.
pub struct Elf<'a>(pub &'a [u8]);

impl Elf<'_> {
    fn get(&self, at: usize, width: usize) -> u64 {
        let mut word = [0; 8];
        word[..width].copy_from_slice(&self.0[at..at + width]);
        u64::from_le_bytes(word)
    }

    pub fn sections(&self) -> usize {
        self.get(60, 2) as usize
    }

    /// Returns the file offset of a section's header.
    pub fn header(&self, index: usize) -> usize {
        self.get(40, 8) as usize + index * 64
    }

    /// Returns a field of a section header.
    pub fn section_field(&self, index: usize, name: &str) -> u64 {
        let (at, width) = field("header", name).expect("a field's name");
        self.get(self.header(index) + at, width)
    }

    fn name(&self, strings: usize, at: u64) -> &str {
        let start = self.section_field(strings, "offset") as usize + at as usize;
        let length = self.0[start..].iter().position(|b| *b == 0).unwrap_or(0);
        std::str::from_utf8(&self.0[start..start + length]).unwrap_or("")
    }

    /// Returns the index of a section by name.
    pub fn section(&self, name: &str) -> Result<usize> {
        let strings = self.get(62, 2) as usize;
        (0..self.sections())
            .find(|i| self.name(strings, self.section_field(*i, "name")) == name)
            .with_context(|| format!("no section `{name}`"))
    }

    /// Returns the range of a section's bytes in the file.
    pub fn bytes(&self, index: usize) -> std::ops::Range<usize> {
        let start = self.section_field(index, "offset") as usize;
        start..start + self.section_field(index, "size") as usize
    }

    fn symbol(&self, name: &str) -> Result<usize> {
        let table = self.section(".symtab")?;
        let strings = self.section_field(table, "link") as usize;
        self.bytes(table)
            .step_by(24)
            .find(|at| self.name(strings, self.get(*at, 4)) == name)
            .with_context(|| format!("no symbol `{name}`"))
    }

    fn value(&self, text: &str) -> Result<u64> {
        match text.trim().split_once(' ') {
            Some(("index", name)) => Ok(self.section(name)? as u64),
            Some(("place", name)) => Ok(self.section_field(self.section(name)?, "offset")),
            _ => number(text),
        }
    }

    fn hex(&self, text: &str) -> Result<Vec<u8>> {
        if text.trim().starts_with("index") {
            return Ok((self.value(text)? as u32).to_le_bytes().to_vec());
        }
        text.split_whitespace().map(|b| Ok(u8::from_str_radix(b, 16)?)).collect()
    }
}

/// Applies one patch line.
fn apply(bytes: &mut [u8], patch: &str) -> Result<()> {
    let elf = Elf(bytes);
    let (place, value) = patch.split_once(" = ").context("PLACE = VALUE")?;
    let words: Vec<&str> = place.split_whitespace().collect();
    let (at, new) = match words[..] {
        ["header", section, name] => {
            let (offset, width) = field("header", name)?;
            (elf.header(elf.section(section)?) + offset, elf.value(value)?.to_le_bytes()[..width].to_vec())
        }
        ["relocation", section, index, name] => {
            let (offset, width) = field("relocation", name)?;
            let table = elf.bytes(elf.section(&format!(".rela{section}"))?);
            let at = table.start + number(index)? as usize * 24 + offset;
            ensure!(at + width <= table.end, "the table has no such entry");
            (at, elf.value(value)?.to_le_bytes()[..width].to_vec())
        }
        ["symbol", symbol, name] => {
            let (offset, width) = field("symbol", name)?;
            (elf.symbol(symbol)? + offset, elf.value(value)?.to_le_bytes()[..width].to_vec())
        }
        ["bytes", section, offset] => {
            (elf.bytes(elf.section(section)?).start + number(offset)? as usize, elf.hex(value)?)
        }
        ["file", offset] => (number(offset)? as usize, elf.hex(value)?),
        _ => bail!("unknown place"),
    };
    let target = bytes.get_mut(at..at + new.len()).context("outside the file")?;
    ensure!(target != new.as_slice(), "the patch changes nothing");
    target.copy_from_slice(&new);
    Ok(())
}
