//! Turns compiled objects and archives into rewritten and verified objects.

use crate::Error;

use rayon::prelude::*;
use sfi_contract::report::and_others;
use sfi_rewriter::Options;
use sfi_validator::{Failure, Validation};
use sfi_verifier::elf::archive;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rewritten objects.
pub(crate) struct Rewritten {
    /// Name and bytes, in the order of the inputs.
    pub members: Vec<(String, Vec<u8>)>,
    /// Notes for the user.
    pub warnings: Vec<String>,
}

/// One object before it is rewritten.
struct Source {
    /// The name in messages: `file` or `archive(member)`.
    shown: String,
    /// The name in the new archive.
    name: String,
    bytes: Vec<u8>,
}

/// Rewrites, validates and verifies all objects, in parallel.
pub(crate) fn rewrite(inputs: &[PathBuf], options: &Options, skip_refused: bool) -> Result<Rewritten, Error> {
    let mut sources = Vec::new();
    for path in inputs {
        read(path, &mut sources)?;
    }
    if sources.is_empty() {
        return Err(Error::NoObjects);
    }
    let results: Vec<_> = sources
        .par_iter()
        .map(|source| sfi_validator::rewrite(&source.bytes, options, Validation::Differences))
        .collect();
    let mut done = Rewritten { members: Vec::new(), warnings: Vec::new() };
    let mut refused = Vec::new();
    let mut noted = BTreeMap::new();
    for (source, result) in sources.into_iter().zip(results) {
        match result {
            Ok(checked) => {
                for note in checked.output.notes.iter().cloned().chain(checked.note()) {
                    noted.entry(note).or_insert_with(Vec::new).push(source.shown.clone());
                }
                verify(&source.shown, &checked.output.bytes, options)?;
                done.members.push((source.name, checked.output.bytes));
            }
            Err(Failure::NotProved(findings)) => return Err(Error::NotProved { object: source.shown, findings }),
            Err(Failure::Refused(refusals)) => refused.push((source.shown, refusals)),
        }
    }
    if !refused.is_empty() && !skip_refused {
        return Err(Error::Refused(refused));
    }
    done.warnings.extend(noted.into_iter().map(|(note, objects)| warning(&note, &objects)));
    done.warnings.extend(refused.into_iter().map(|(object, refusals)| match refusals.first() {
        Some(first) => format!("{object} is left out: {first}"),
        None => format!("{object} is left out"),
    }));
    Ok(done)
}

/// Says what holds of some objects. An archive has hundreds of members: only the first is named.
fn warning(note: &str, objects: &[String]) -> String {
    match objects {
        [] => note.to_owned(),
        [first, others @ ..] => format!("{}: {note}", and_others(first, others.len())),
    }
}

fn read(path: &Path, sources: &mut Vec<Source>) -> Result<(), Error> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    if !archive::is_archive(&bytes) {
        let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        sources.push(Source { shown, name, bytes });
        return Ok(());
    }
    let members = archive::members_in(&bytes).map_err(|source| Error::Unreadable { object: shown.clone(), source })?;
    sources.extend(members.into_iter().map(|(name, bytes)| {
        let shown = archive::member_name(&shown, &name);
        Source { shown, name, bytes: bytes.to_vec() }
    }));
    Ok(())
}

/// Verifies an object. The loader does so again, but a build should fail first.
fn verify(object: &str, bytes: &[u8], options: &Options) -> Result<(), Error> {
    let Options { mode, budget, .. } = *options;
    let options = sfi_verifier::Options { mode, budget, ..sfi_verifier::Options::default() };
    let report = sfi_verifier::verify(bytes, &options)
        .map_err(|source| Error::Unreadable { object: object.to_owned(), source })?;
    match report.violations.is_empty() {
        true => Ok(()),
        false => Err(Error::Unsafe { object: object.to_owned(), violations: report.violations }),
    }
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn a_note_of_many_objects_is_one_warning() {
        let objects = ["a.o", "b.o", "c.o"].map(str::to_owned);
        assert_eq!(warning("dropped", &objects[..1]), "a.o: dropped");
        assert_eq!(warning("dropped", &objects), "a.o and 2 other objects: dropped");
    }
}
