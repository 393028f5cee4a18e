//! What a program is made of: its objects, and of archives the members that it needs, which alone
//! are rewritten.

use crate::input::{self, Input, member_name};
use crate::members::{archive, fail, note, notes, rewrite_members};
use anyhow::Context;
use goblin::elf::{Elf, section_header::SHN_UNDEF, sym};
use sfi_rewriter::{Mode, Options};
use sfi_validator::{Failure, Validation};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Objects and members of archives, in link order, as they were read.
#[derive(Default)]
pub struct Bundle {
    parts: Vec<Part>,
}

struct Part {
    name: String,
    /// For messages.
    shown: String,
    bytes: Vec<u8>,
    /// A member of an archive: linked if something needs it.
    member: bool,
}

/// Global names of an object.
#[derive(Default)]
struct Names {
    defined: Vec<String>,
    wanted: Vec<String>,
}

impl Bundle {
    /// Adds an object or an archive; `shown` is its name for people.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn add(&mut self, path: &Path, shown: &Path) -> anyhow::Result<()> {
        match input::read(path)? {
            Input::Object(bytes) => {
                let name = shown.file_name().unwrap_or(shown.as_os_str()).to_string_lossy().into_owned();
                self.parts.push(Part { name, shown: shown.display().to_string(), bytes, member: false });
            }
            Input::Archive(bytes) => {
                for (name, bytes) in input::members(path, &bytes)? {
                    let shown = member_name(shown, &name);
                    self.parts.push(Part { name, shown, bytes: bytes.to_vec(), member: true });
                }
            }
        }
        Ok(())
    }

    /// Rewrites what `roots` and the objects need and packs it into an archive. `None`: an object
    /// was refused, and that was said. A refused member is left out with a note; the loader names
    /// what is missing then.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn pack(self, mode: Mode, validation: Validation, roots: &[&[u8]]) -> anyhow::Result<Option<Vec<u8>>> {
        let needed = self.needed(roots)?;
        let parts: Vec<Part> = self.parts.into_iter().zip(needed).filter(|(_, n)| *n).map(|(part, _)| part).collect();
        let mut packed = Vec::with_capacity(parts.len());
        // What is rewritten already stays as it is.
        let (done, parts): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| rewritten(&part.bytes));
        let inputs: Vec<(String, &[u8])> = parts.iter().map(|p| (p.shown.clone(), &p.bytes[..])).collect();
        let results = rewrite_members(&inputs, &Options { mode }, validation);
        let mut refused = false;
        for (part, result) in parts.iter().zip(results) {
            match result {
                Ok(checked) => {
                    notes(&part.shown, &checked);
                    packed.push((part.name.clone(), checked.output.bytes));
                }
                Err(Failure::Refused(refusals)) if part.member => {
                    let why: Vec<String> = refusals.iter().take(1).map(ToString::to_string).collect();
                    note(&part.shown, &[format!("left out: {}", why.concat())]);
                }
                Err(failure) => {
                    fail(&part.shown, &failure);
                    refused = true;
                }
            }
        }
        packed.extend(done.into_iter().map(|part| (part.name, part.bytes)));
        if refused { Ok(None) } else { archive(&packed).map(Some) }
    }

    /// Which parts are linked: the first definition of every name that is wanted, as linkers
    /// choose.
    fn needed(&self, roots: &[&[u8]]) -> anyhow::Result<Vec<bool>> {
        let names: Vec<Names> = self
            .parts
            .iter()
            .map(|part| names(&part.bytes).with_context(|| format!("cannot read `{}`", part.shown)))
            .collect::<anyhow::Result<_>>()?;
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (index, names) in names.iter().enumerate() {
            for name in &names.defined {
                first.entry(name).or_insert(index);
            }
        }
        let mut wanted: Vec<String> = Vec::new();
        let roots = roots.iter().map(|root| self::names(root)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut needed: Vec<bool> = self.parts.iter().map(|part| !part.member).collect();
        let mut defined: HashSet<&str> = HashSet::new();
        for root in &roots {
            wanted.extend(root.wanted.iter().cloned());
            defined.extend(root.defined.iter().map(String::as_str));
        }
        for (index, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            defined.extend(names[index].defined.iter().map(String::as_str));
            wanted.extend(names[index].wanted.iter().cloned());
        }
        while let Some(name) = wanted.pop() {
            if defined.contains(&*name) {
                continue;
            }
            let Some(&index) = first.get(&*name).filter(|index| !needed[**index]) else { continue };
            needed[index] = true;
            defined.extend(names[index].defined.iter().map(String::as_str));
            wanted.extend(names[index].wanted.iter().cloned());
        }
        Ok(needed)
    }
}

/// Whether an object says of itself that it was rewritten. The loader believes nothing of it.
fn rewritten(bytes: &[u8]) -> bool {
    let Ok(elf) = Elf::parse(bytes) else { return false };
    elf.section_headers.iter().any(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(sfi_contract::names::NOTE_SECTION))
}

fn names(bytes: &[u8]) -> anyhow::Result<Names> {
    let elf = Elf::parse(bytes)?;
    let mut names = Names::default();
    for symbol in elf.syms.iter().filter(|s| s.st_bind() != sym::STB_LOCAL) {
        let Some(name) = elf.strtab.get_at(symbol.st_name).filter(|name| !name.is_empty()) else { continue };
        if symbol.st_shndx != SHN_UNDEF as usize {
            names.defined.push(name.to_owned());
        } else if symbol.st_bind() != sym::STB_WEAK {
            names.wanted.push(name.to_owned());
        }
    }
    Ok(names)
}
