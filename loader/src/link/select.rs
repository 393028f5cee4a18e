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
    let mut linked = Linked { verifier, options: options(spec), inputs: Vec::new(), refused: Vec::new() };
    // Members that were pulled are `None`.
    let mut members: Vec<Option<Named<'a>>> = Vec::new();
    let mut index = Index::new();
    for file in files {
        match file.kind {
            FileKind::Archive => index_archive(file, &mut members, &mut index, &mut claims)?,
            FileKind::WholeArchive => {
                for (name, bytes) in open_archive(file)? {
                    claims.note(&name, linked.add(name.clone(), bytes)?);
                }
            }
            FileKind::Object => claims.note(&file.name, linked.add(file.name.clone(), &file.bytes)?),
        }
    }
    claims.check(spec)?;
    if members.is_empty() {
        // Nothing is left to choose.
        return linked.finish(spec);
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
    for input in &linked.inputs {
        commons.extend(note(&input.object, &mut defined, &mut wanted));
    }
    while let Some(name) = wanted.pop_front() {
        if defined.contains(&name) {
            continue;
        }
        let common = commons.contains(&name);
        let mut all = index.get(name.as_str()).into_iter().flatten();
        let found = all.find(|(m, how)| members[*m].is_some() && !(common && *how == Strength::Common));
        let Some(&(found, _)) = found else { continue };
        if let Some((name, bytes, _)) = members[found].take() {
            commons.extend(note(linked.add(name, bytes)?, &mut defined, &mut wanted));
        }
    }
    linked.finish(spec)
}

fn parse<'a>(name: &str, bytes: &'a [u8]) -> Result<Object<'a>, LinkError> {
    elf::parse(bytes).map_err(|source| LinkError::Unreadable { file: name.to_owned(), source })
}

/// An object with its name and its bytes.
type Named<'a> = (String, &'a [u8], Object<'a>);

/// Lists the members of an archive with their bytes.
fn open_archive(file: &File) -> Result<impl Iterator<Item = (String, &[u8])>, LinkError> {
    let unreadable = |source| LinkError::Unreadable { file: file.name.clone(), source };
    let members = archive::members_in(&file.bytes).map_err(unreadable)?.into_iter();
    Ok(members.map(|(name, bytes)| (archive::member_name(&file.name, &name), bytes)))
}

/// Notes the members that define each symbol. The archive's own index is not used, because it may
/// lie.
fn index_archive<'a>(
    file: &'a File,
    members: &mut Vec<Option<Named<'a>>>,
    index: &mut Index<'a>,
    claims: &mut Claims,
) -> Result<(), LinkError> {
    for (name, bytes) in open_archive(file)? {
        let object = parse(&name, bytes)?;
        claims.note(&name, &object);
        let live = resolve::live_sections([&object]).concat();
        for symbol in &object.symbols {
            if let Some(strength) = resolve::strength(symbol, &live) {
                index.entry(symbol.name).or_default().push((members.len(), strength));
            }
        }
        members.push(Some((name, bytes, object)));
    }
    Ok(())
}

/// The objects that are linked, in order. Each is verified when it is added, and read only by the
/// verifier.
struct Linked<'v, 'a> {
    verifier: &'v mut Verifier,
    options: Options,
    inputs: Vec<Input<'a>>,
    refused: Vec<RefusedObject>,
}

impl<'a> Linked<'_, 'a> {
    /// Verifies an object, and returns it as the verifier read it. Violations are reported at the
    /// end, those of all objects together.
    fn add(&mut self, name: String, bytes: &'a [u8]) -> Result<&Object<'a>, LinkError> {
        let report = self.verifier.verify(bytes);
        let report = report.map_err(|source| LinkError::Unreadable { file: name.clone(), source })?;
        if !report.violations.is_empty() {
            let advice = advice(bytes, &report.object, &self.options);
            let (violations, omitted) = (report.violations, report.omitted);
            self.refused.push(RefusedObject { name: name.clone(), violations, omitted, advice });
        }
        let input = Input { name, bytes, object: report.object, usage: usage_here(report.usage) };
        self.inputs.push(input);
        Ok(&self.inputs[self.inputs.len() - 1].object)
    }

    /// Returns the objects, if the verifier accepts all of them.
    fn finish(self, spec: &DomainSpec) -> Result<Vec<Input<'a>>, LinkError> {
        if self.refused.is_empty() {
            Ok(self.inputs)
        } else {
            Err(LinkError::Refused { domain: spec.name.clone(), objects: self.refused })
        }
    }
}

/// Returns the verifier's options for the domain.
pub(crate) fn options(spec: &DomainSpec) -> Options {
    Options { mode: spec.mode, clock: spec.clock, budget: spec.instructions.is_some(), ..Options::default() }
}
