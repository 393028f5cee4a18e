//! The objects of a program, and the members of archives that it needs. Other members are not
//! rewritten.

use crate::driver::linker::Wishes;
use crate::input::{self, Input, member_name};
use crate::members::{Failures, notes, rewrite_members};
use crate::renamed::renamed;
use anyhow::Context;
use goblin::elf::Elf;
use sfi_build::archive;
use sfi_rewriter::Options;
use sfi_validator::Validation;
use sfi_verifier::elf::number::{SHN_COMMON, SHN_UNDEF, STB_LOCAL, STB_WEAK};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Objects and members of archives in link order, as they were read.
#[derive(Default)]
pub struct Bundle {
    parts: Vec<Part>,
    /// Each member that is linked and the reason for it, in the order in which they were selected.
    reasons: Vec<(String, String)>,
}

struct Part {
    name: String,
    /// The name in messages.
    shown: String,
    bytes: Vec<u8>,
    /// Part of an archive, and linked only if something needs it.
    member: bool,
}

/// Global names of an object.
#[derive(Default)]
struct Names {
    /// Names of definitions with contents.
    defined: Vec<String>,
    /// Names of common blocks.
    blocks: Vec<String>,
    wanted: Vec<String>,
}

impl Bundle {
    /// Adds an object or an archive. `whole` takes all members of an archive, otherwise only the
    /// needed ones stay. `shown` is the name in messages.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn add(&mut self, path: &Path, shown: &Path, whole: bool) -> anyhow::Result<()> {
        match input::read(path)? {
            Input::Object(bytes) => {
                let name = shown.file_name().unwrap_or(shown.as_os_str()).to_string_lossy().into_owned();
                self.parts.push(Part { name, shown: shown.display().to_string(), bytes, member: false });
            }
            Input::Archive(bytes) => {
                for (name, bytes) in input::members(path, &bytes)? {
                    let shown = member_name(shown, &name);
                    self.parts.push(Part { name, shown, bytes: bytes.to_vec(), member: !whole });
                }
            }
        }
        Ok(())
    }

    /// Adds one member of an archive, if it is there. It is linked only if something needs it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn add_member(&mut self, path: &Path, member: &str) -> anyhow::Result<()> {
        let first = self.parts.len();
        self.add(path, path, false)?;
        let added = self.parts.split_off(first);
        self.parts.extend(added.into_iter().filter(|part| part.name == member));
        Ok(())
    }

    /// Rewrites the objects and packs them into an archive. Returns `None` after it reported that
    /// an object was refused.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn pack(self, options: &Options, validation: Validation) -> anyhow::Result<Option<Vec<u8>>> {
        let mut packed = Vec::with_capacity(self.parts.len());
        // Objects that were rewritten before stay as they are.
        let (done, parts): (Vec<Part>, Vec<Part>) = self.parts.into_iter().partition(|part| rewritten(&part.bytes));
        let inputs: Vec<(String, &[u8])> = parts.iter().map(|p| (p.shown.clone(), &p.bytes[..])).collect();
        let results = rewrite_members(&inputs, options, validation);
        let mut refused = false;
        let mut failures = Failures::default();
        for (part, result) in parts.iter().zip(results) {
            match result {
                Ok(checked) => {
                    notes(&part.shown, &checked);
                    packed.push((part.name.clone(), checked.output.bytes));
                }
                Err(failure) => {
                    failures.add(&part.shown, &failure);
                    refused = true;
                }
            }
        }
        failures.finish();
        packed.extend(done.into_iter().map(|part| (part.name, part.bytes)));
        if refused { Ok(None) } else { Ok(Some(archive(&packed)?)) }
    }

    /// Says whether some part needs a name with this beginning.
    ///
    /// # Errors
    /// An object cannot be read.
    pub fn wants(&self, beginning: &str) -> anyhow::Result<bool> {
        for part in &self.parts {
            let names = names(&part.bytes).with_context(|| format!("cannot read `{}`", part.shown))?;
            if names.wanted.iter().any(|name| name.starts_with(beginning)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Packs the objects unchanged, as a library for later links.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn library(self) -> anyhow::Result<Vec<u8>> {
        Ok(archive(&self.parts.into_iter().map(|part| (part.name, part.bytes)).collect::<Vec<_>>())?)
    }

    /// Renames undefined names, as [`Wishes::meaning`] says.
    ///
    /// # Errors
    /// An object cannot be read.
    pub fn rename(&mut self, wishes: &Wishes) -> anyhow::Result<()> {
        for part in self.parts.iter_mut().filter(|_| wishes.rename()) {
            part.bytes = renamed(&part.bytes, |name| wishes.meaning(name))
                .with_context(|| format!("cannot read `{}`", part.shown))?;
        }
        Ok(())
    }

    /// Keeps the objects, and the members that the objects, `roots` and `asked` need.
    ///
    /// For every needed name it takes the first definition, as linkers do. A common block counts as
    /// a definition, but a definition with contents that comes later is still taken.
    ///
    /// # Errors
    /// An object cannot be read.
    pub fn select(&mut self, roots: &[&[u8]], asked: &[String]) -> anyhow::Result<()> {
        let names: Vec<Names> = self
            .parts
            .iter()
            .map(|part| names(&part.bytes).with_context(|| format!("cannot read `{}`", part.shown)))
            .collect::<anyhow::Result<_>>()?;
        // The first part that defines a name with contents, and the first with a common block.
        let (mut contents, mut blocks): (HashMap<&str, usize>, HashMap<&str, usize>) = Default::default();
        for (index, names) in names.iter().enumerate() {
            for (list, first) in [(&names.defined, &mut contents), (&names.blocks, &mut blocks)] {
                for name in list {
                    first.entry(name).or_insert(index);
                }
            }
        }
        let roots = roots.iter().map(|root| self::names(root)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut needed: Vec<bool> = self.parts.iter().map(|part| !part.member).collect();
        let mut linked: Linked<'_> = Linked::default();
        asked.iter().for_each(|name| linked.wanted.push((name, "the command line")));
        roots.iter().for_each(|root| linked.add(root, "the program's start"));
        for (names, part) in names.iter().zip(&self.parts).filter(|(_, part)| !part.member) {
            linked.add(names, &part.shown);
        }
        let mut reasons = Vec::new();
        while let Some((name, by)) = linked.wanted.pop() {
            if linked.defined.contains(name) {
                continue;
            }
            let block = linked.blocks.contains(name);
            let first = [contents.get(name), blocks.get(name).filter(|_| !block)].into_iter().flatten().min();
            // The check of the whole link reports names that no part defines.
            if let Some(&index) = first.filter(|index| !needed[**index]) {
                needed[index] = true;
                reasons.push((self.parts[index].shown.clone(), format!("{by} ({name})")));
                linked.add(&names[index], &self.parts[index].shown);
            }
        }
        self.reasons = reasons;
        let mut needed = needed.into_iter();
        self.parts.retain(|_| needed.next().expect("one word for each part"));
        Ok(())
    }

    /// Returns the list of linked parts, with the reason for each member, in the form of a linker's
    /// map.
    pub fn map(&self) -> String {
        let mut text = "Archive member included to satisfy reference by file (symbol)\n\n".to_owned();
        self.reasons.iter().for_each(|(member, by)| text += &format!("{member}\n    {by}\n"));
        text += "\nLinked, in this order\n\n";
        self.parts.iter().for_each(|part| text += &format!("LOAD {}\n", part.shown));
        text
    }
}

/// The names of the parts that are linked so far.
#[derive(Default)]
struct Linked<'a> {
    defined: HashSet<&'a str>,
    blocks: HashSet<&'a str>,
    /// Each needed name and the part that needs it.
    wanted: Vec<(&'a str, &'a str)>,
}

impl<'a> Linked<'a> {
    fn add(&mut self, names: &'a Names, by: &'a str) {
        self.defined.extend(names.defined.iter().map(String::as_str));
        self.blocks.extend(names.blocks.iter().map(String::as_str));
        self.wanted.extend(names.wanted.iter().chain(&names.blocks).map(|name| (name.as_str(), by)));
    }
}

/// Says whether an object is marked as rewritten. The mark is only a hint: the loader does not
/// trust it.
fn rewritten(bytes: &[u8]) -> bool {
    let Ok(elf) = Elf::parse(bytes) else { return false };
    elf.section_headers.iter().any(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(sfi_contract::names::NOTE_SECTION))
}

fn names(bytes: &[u8]) -> anyhow::Result<Names> {
    let elf = Elf::parse(bytes)?;
    let mut names = Names::default();
    for symbol in elf.syms.iter().filter(|s| s.st_bind() != STB_LOCAL) {
        let Some(name) = elf.strtab.get_at(symbol.st_name).filter(|name| !name.is_empty()) else { continue };
        let list = match symbol.st_shndx as u32 {
            SHN_UNDEF if symbol.st_bind() == STB_WEAK => continue,
            SHN_UNDEF => &mut names.wanted,
            SHN_COMMON => &mut names.blocks,
            _ => &mut names.defined,
        };
        list.push(name.to_owned());
    }
    Ok(names)
}
