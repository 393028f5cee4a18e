//! Selects the objects that are linked: the given ones, and archive members that define symbols
//! that are still undefined.

use crate::gate::usage_here;
use crate::link::advice::advice;
use crate::link::error::{LinkError, Mention, RefusedObject};
use crate::spec::DomainSpec;
use crate::spec::file::{File, FileKind};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use sfi_contract::names;
use sfi_verifier::elf::resolve::{self, Strength};
use sfi_verifier::elf::{self, Object, archive};
use sfi_verifier::{Options, Usage, Verifier};
use std::collections::{BTreeSet, VecDeque};

/// A verified object that is linked.
pub(crate) struct Input<'a> {
    /// `file` or `archive(member)`.
    pub name: String,
    /// The file's bytes.
    pub bytes: &'a [u8],
    /// The object as the verifier read it.
    pub object: Object<'a>,
    /// The verifier's facts about the state that its text uses.
    pub usage: Usage,
}

/// Names that are granted to the domain, and the files that claim one. An object claims the names
/// that it defines, and so does any member of an archive, linked or not. Otherwise a definition
/// that loses, or that is never linked, would hide from the gate that the name is an import.
struct Claims {
    granted: HashSet<String>,
    found: BTreeSet<Mention>,
}

impl Claims {
    fn new(spec: &DomainSpec) -> Claims {
        let imports = spec.imports.iter().filter(|(_, import)| !import.overrides).map(|(symbol, _)| symbol.clone());
        let shared = spec.shared.iter().flat_map(|s| [s.symbol.clone(), format!("{}_end", s.symbol)]);
        Claims { granted: imports.chain(shared).collect(), found: BTreeSet::new() }
    }

    fn note(&mut self, file: &str, object: &Object<'_>) {
        let claimed = object.symbols.iter().filter(|s| s.is_claimed() && self.granted.contains(s.name));
        self.found.extend(claimed.map(|s| Mention::new(s.name, [file.to_owned()])));
    }

    fn check(self, spec: &DomainSpec) -> Result<(), LinkError> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(LinkError::Granted { domain: spec.name.clone(), symbols: self.found.into_iter().collect() })
    }
}

/// The members that define a name, in order, with the strength of the definition.
type Index<'a> = HashMap<&'a str, Vec<(usize, Strength)>>;

/// Reads, selects and verifies the objects. `roots` are names that the host or other domains ask
/// for.
pub(crate) fn select<'a>(
    spec: &DomainSpec,
    files: &'a [File],
    roots: &[String],
    verifier: &mut Verifier,
) -> Result<Vec<Input<'a>>, LinkError> {
    let mut claims = Claims::new(spec);
    let mut chosen: Vec<Named<'a>> = Vec::new();
    // Members that were pulled are `None`.
    let mut members: Vec<Option<Named<'a>>> = Vec::new();
    let mut index = Index::new();
    for file in files {
        match file.kind {
            FileKind::Archive => index_archive(file, &mut members, &mut index, &mut claims)?,
            FileKind::WholeArchive => {
                for (name, bytes, object) in open_archive(file)? {
                    claims.note(&name, &object);
                    chosen.push((name, bytes, object));
                }
            }
            FileKind::Object => {
                let object = parse(&file.name, &file.bytes)?;
                claims.note(&file.name, &object);
                chosen.push((file.name.clone(), &file.bytes, object));
            }
        }
    }
    claims.check(spec)?;
    if members.is_empty() {
        // Nothing is left to choose.
        return verify(spec, verifier, chosen.into_iter().map(|(name, bytes, _)| (name, bytes)));
    }
    // The members that define a wrapped function are linked, for the host.
    let granted = spec.imports.iter().filter(|(_, import)| !import.wraps);
    let mut defined: HashSet<String> = granted.map(|(n, _)| n.clone()).collect();
    defined.extend(spec.shared.iter().map(|s| s.symbol.clone()));
    defined.extend(
        [
            names::HEADER,
            names::DISPATCH,
            names::TCB,
            names::ERROR,
            names::SYSCALL,
            names::DEPTH,
            names::RETURN,
            names::CUT,
            names::KEEP,
            names::BRING,
        ]
        .map(str::to_owned),
    );
    let mut wanted: VecDeque<String> = roots.iter().cloned().collect();
    // A common block is a definition. But a member that defines its name with contents is still
    // linked.
    let mut commons: HashSet<String> = HashSet::new();
    let note = |object: &Object<'a>, defined: &mut HashSet<String>, wanted: &mut VecDeque<String>| {
        let live = resolve::live_sections([object]).concat();
        let mut blocks = Vec::new();
        for symbol in &object.symbols {
            if symbol.is_wanted() && !symbol.is_weak() {
                wanted.push_back(symbol.name.to_owned());
                continue;
            }
            match resolve::strength(symbol, &live) {
                Some(Strength::Common) => {
                    wanted.push_back(symbol.name.to_owned());
                    blocks.push(symbol.name.to_owned());
                }
                Some(Strength::Weak | Strength::Strong) => drop(defined.insert(symbol.name.to_owned())),
                None => {}
            }
        }
        blocks
    };
    for (_, _, object) in &chosen {
        commons.extend(note(object, &mut defined, &mut wanted));
    }
    while let Some(name) = wanted.pop_front() {
        if defined.contains(&name) {
            continue;
        }
        let common = commons.contains(&name);
        let mut all = index.get(name.as_str()).into_iter().flatten();
        let found = all.find(|(m, how)| members[*m].is_some() && !(common && *how == Strength::Common));
        let Some(&(found, _)) = found else { continue };
        if let Some(member) = members[found].take() {
            commons.extend(note(&member.2, &mut defined, &mut wanted));
            chosen.push(member);
        }
    }
    verify(spec, verifier, chosen.into_iter().map(|(name, bytes, _)| (name, bytes)))
}

fn parse<'a>(name: &str, bytes: &'a [u8]) -> Result<Object<'a>, LinkError> {
    elf::parse(bytes).map_err(|source| LinkError::Unreadable { file: name.to_owned(), source })
}

/// An object with its name and its bytes.
type Named<'a> = (String, &'a [u8], Object<'a>);

/// Reads the members of an archive.
fn open_archive(file: &File) -> Result<Vec<Named<'_>>, LinkError> {
    let unreadable = |source| LinkError::Unreadable { file: file.name.clone(), source };
    let members = archive::members_in(&file.bytes).map_err(unreadable)?.into_iter();
    let members = members.map(|(name, bytes)| (archive::member_name(&file.name, &name), bytes));
    members.map(|(name, bytes)| parse(&name, bytes).map(|object| (name, bytes, object))).collect()
}

/// Notes the members that define each symbol. The archive's own index is not used, because it may
/// lie.
fn index_archive<'a>(
    file: &'a File,
    members: &mut Vec<Option<Named<'a>>>,
    index: &mut Index<'a>,
    claims: &mut Claims,
) -> Result<(), LinkError> {
    for member in open_archive(file)? {
        let (name, _, object) = &member;
        claims.note(name, object);
        let live = resolve::live_sections([object]).concat();
        for symbol in &object.symbols {
            if let Some(strength) = resolve::strength(symbol, &live) {
                index.entry(symbol.name).or_default().push((members.len(), strength));
            }
        }
        members.push(Some(member));
    }
    Ok(())
}

/// Verifies every object that is linked. Reports the violations of all objects together.
fn verify<'a>(
    spec: &DomainSpec,
    verifier: &mut Verifier,
    chosen: impl Iterator<Item = (String, &'a [u8])>,
) -> Result<Vec<Input<'a>>, LinkError> {
    let options = options(spec);
    let mut inputs = Vec::new();
    let mut refused = Vec::new();
    for (name, bytes) in chosen {
        let report = verifier.verify(bytes).map_err(|source| LinkError::Unreadable { file: name.clone(), source })?;
        if !report.violations.is_empty() {
            let advice = advice(bytes, &report.object, &options);
            let (violations, omitted) = (report.violations, report.omitted);
            refused.push(RefusedObject { name: name.clone(), violations, omitted, advice });
        }
        inputs.push(Input { name, bytes, object: report.object, usage: usage_here(report.usage) });
    }
    if refused.is_empty() {
        Ok(inputs)
    } else {
        Err(LinkError::Refused { domain: spec.name.clone(), objects: refused })
    }
}

/// Returns the verifier's options for the domain.
pub(crate) fn options(spec: &DomainSpec) -> Options {
    Options { mode: spec.mode, clock: spec.clock, budget: spec.instructions.is_some(), ..Options::default() }
}
