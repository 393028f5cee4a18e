//! Which objects are linked: the given ones, and archive members that define what is still undefined.

use crate::link::error::{LinkError, RefusedObject};
use crate::spec::{DomainSpec, File};
use sfi_contract::{Mode, names};
use sfi_verifier::elf::{self, Object, Place, Symbol, Unreadable, archive};
use sfi_verifier::{Options, Usage};
use std::collections::{HashMap, HashSet, VecDeque};

/// `STB_LOCAL`.
const STB_LOCAL: u8 = 0;
/// `STB_WEAK`.
pub const STB_WEAK: u8 = 2;

/// An object that is linked. It was verified.
pub struct Input<'a> {
    /// `file` or `archive(member)`.
    pub name: String,
    /// The file's bytes.
    pub bytes: &'a [u8],
    /// What was verified.
    pub object: Object<'a>,
    /// What its text uses.
    pub usage: Usage,
}

/// A symbol that other objects see.
pub fn is_global(symbol: &Symbol<'_>) -> bool {
    symbol.binding != STB_LOCAL && !symbol.name.is_empty()
}

/// A member of an archive that was not pulled yet.
struct Member<'a> {
    name: String,
    bytes: &'a [u8],
}

/// Reads, selects and verifies. `roots` are names that the host or other domains ask for.
pub fn select<'a>(spec: &'a DomainSpec, roots: &[String]) -> Result<Vec<Input<'a>>, LinkError> {
    let mut chosen: Vec<(String, &'a [u8], Object<'a>)> = Vec::new();
    let mut members: Vec<Option<Member<'a>>> = Vec::new();
    let mut index: HashMap<&'a str, Vec<usize>> = HashMap::new();
    for file in &spec.files {
        if file.archive {
            open_archive(file, &mut members, &mut index)?;
        } else {
            chosen.push((file.name.clone(), &file.bytes, parse(&file.name, &file.bytes)?));
        }
    }
    let mut defined: HashSet<String> = spec.imports.iter().map(|(n, _)| n.clone()).collect();
    defined.extend(spec.shared.iter().map(|s| s.symbol.clone()));
    defined.extend(
        [names::HEADER, names::ERROR, names::SYSCALL, names::DEPTH, names::RETURN, names::CUT].map(str::to_owned),
    );
    let mut wanted: VecDeque<String> = roots.iter().cloned().collect();
    let note = |object: &Object<'a>, defined: &mut HashSet<String>, wanted: &mut VecDeque<String>| {
        for symbol in object.symbols.iter().filter(|s| is_global(s)) {
            match symbol.place {
                Place::Undefined if symbol.binding != STB_WEAK => wanted.push_back(symbol.name.to_owned()),
                Place::Undefined => {}
                _ => {
                    defined.insert(symbol.name.to_owned());
                }
            }
        }
    };
    for (_, _, object) in &chosen {
        note(object, &mut defined, &mut wanted);
    }
    while let Some(name) = wanted.pop_front() {
        if defined.contains(&name) {
            continue;
        }
        let Some(found) = index.get(name.as_str()).and_then(|all| all.iter().copied().find(|m| members[*m].is_some()))
        else {
            continue;
        };
        if let Some(member) = members[found].take() {
            let object = parse(&member.name, member.bytes)?;
            note(&object, &mut defined, &mut wanted);
            chosen.push((member.name, member.bytes, object));
        }
    }
    verify(spec, chosen.into_iter().map(|(name, bytes, _)| (name, bytes)))
}

fn parse<'a>(name: &str, bytes: &'a [u8]) -> Result<Object<'a>, LinkError> {
    elf::parse(bytes).map_err(|e| LinkError::Unreadable { file: name.to_owned(), why: e.to_string() })
}

/// Notes which member defines which symbol. The archive's own index is not used: it may lie.
fn open_archive<'a>(
    file: &'a File,
    members: &mut Vec<Option<Member<'a>>>,
    index: &mut HashMap<&'a str, Vec<usize>>,
) -> Result<(), LinkError> {
    let bytes: &[u8] = &file.bytes;
    let unreadable = |e: Unreadable| LinkError::Unreadable { file: file.name.clone(), why: e.to_string() };
    for (name, bytes) in archive::members_in(bytes).map_err(unreadable)? {
        let name = format!("{}({name})", file.name);
        let object = parse(&name, bytes)?;
        for symbol in object.symbols.iter().filter(|s| is_global(s)) {
            if !matches!(symbol.place, Place::Undefined | Place::Common) {
                index.entry(symbol.name).or_default().push(members.len());
            }
        }
        members.push(Some(Member { name, bytes }));
    }
    Ok(())
}

/// Verifies everything that is linked; all violations of all objects are reported together.
fn verify<'a>(
    spec: &DomainSpec,
    chosen: impl Iterator<Item = (String, &'a [u8])>,
) -> Result<Vec<Input<'a>>, LinkError> {
    let options = options(spec.mode);
    let mut inputs = Vec::new();
    let mut refused = Vec::new();
    for (name, bytes) in chosen {
        let report = sfi_verifier::verify(bytes, &options)
            .map_err(|e| LinkError::Unreadable { file: name.clone(), why: e.to_string() })?;
        if !report.violations.is_empty() {
            let (violations, omitted) = (report.violations, report.omitted);
            refused.push(RefusedObject { name: name.clone(), violations, omitted });
        }
        inputs.push(Input { name, bytes, object: report.object, usage: report.usage });
    }
    if refused.is_empty() {
        Ok(inputs)
    } else {
        Err(LinkError::Refused { domain: spec.name.clone(), objects: refused })
    }
}

/// How the verifier is asked.
pub fn options(mode: Mode) -> Options {
    Options { mode, ..Options::default() }
}
