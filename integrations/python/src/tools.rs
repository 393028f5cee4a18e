//! Rewriting and verifying objects and archives.

use crate::convert;
use crate::failure::{self, Failure};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::prelude::*;
use sfi_contract::Mode;
use sfi_rewriter::{Options as Rewriting, Reason};
use sfi_validator::{Checked, Failure as Refused, Validation};
use sfi_verifier::elf::archive;
use sfi_verifier::{Options, Verifier};

/// A broken rule at one place.
#[pyclass(frozen, get_all, module = "sfi")]
#[derive(Clone, Debug)]
pub struct Violation {
    rule: &'static str,
    title: &'static str,
    section: Option<String>,
    offset: u64,
    function: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    instruction: Option<String>,
    detail: String,
}

/// The verdict about one object.
#[pyclass(frozen, get_all, module = "sfi")]
#[derive(Clone, Debug)]
pub struct Verdict {
    name: String,
    safe: bool,
    /// The reason why it is no object, or `None`.
    error: Option<String>,
    violations: Vec<Violation>,
    /// Number of violations beyond those kept.
    omitted: u64,
    text_bytes: u64,
    instructions: u64,
}

/// A place that cannot be rewritten, or the reason why an object cannot.
#[pyclass(frozen, get_all, module = "sfi")]
#[derive(Clone, Debug)]
pub struct Refusal {
    object: String,
    reason: &'static str,
    title: &'static str,
    section: String,
    offset: u64,
    function: Option<String>,
    instruction: Option<String>,
    detail: String,
}

/// A rewritten object or archive.
#[pyclass(frozen, get_all, module = "sfi")]
#[derive(Debug)]
pub struct Rewritten {
    data: Py<PyBytes>,
    /// Parts that were left out or are not proved.
    notes: Vec<String>,
    /// Members that were left out.
    refused: Vec<Refusal>,
    /// Bytes of text before.
    text_in: u64,
    /// Bytes of text now.
    text_out: u64,
}

fn mode(text: &str) -> PyResult<Mode> {
    text.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

/// Returns the objects of a file with their names: the object itself, or an archive's members.
fn objects<'a>(data: &'a [u8], name: &str) -> Result<Vec<(String, &'a [u8])>, Failure> {
    if !archive::is_archive(data) {
        return Ok(vec![(name.to_owned(), data)]);
    }
    archive::members_in(data).map_err(|error| Failure::new(failure::UNREADABLE, sfi_contract::text::chain(&error)))
}

/// Number of violations of an object that get a file and line.
const SOURCES: usize = 1000;

fn verdict(verifier: &mut Verifier, name: String, bytes: &[u8]) -> Verdict {
    let report = match verifier.verify(bytes) {
        Ok(report) => report,
        Err(error) => {
            let error = Some(error.to_string());
            let violations = Vec::new();
            return Verdict { name, safe: false, error, violations, omitted: 0, text_bytes: 0, instructions: 0 };
        }
    };
    let text = |section: usize| report.object.sections.get(section).is_some_and(|s| s.is_executable());
    let places: Vec<(usize, u64)> = report
        .violations
        .iter()
        .take(SOURCES)
        .filter_map(|v| Some((v.section.filter(|section| text(*section))?, v.offset)))
        .collect();
    let mut sources = if places.is_empty() { Vec::new() } else { sfi_debuginfo::lookup_in(&report.object, &places) }
        .into_iter()
        .map(|frames| frames.into_iter().next());
    let mut violations = Vec::new();
    for (number, v) in report.violations.iter().enumerate() {
        let named = number < SOURCES && v.section.is_some_and(text);
        let source = if named { sources.next().flatten() } else { None };
        violations.push(Violation {
            rule: v.rule.id(),
            title: v.rule.title(),
            section: v.section_name.clone(),
            offset: v.offset,
            function: v.function.clone(),
            file: source.as_ref().and_then(|frame| frame.file.clone()),
            line: source.as_ref().and_then(|frame| frame.line),
            instruction: v.instruction.clone(),
            detail: v.detail.clone(),
        });
    }
    Verdict {
        name,
        safe: report.is_safe(),
        error: None,
        violations,
        omitted: report.omitted,
        text_bytes: report.text_bytes,
        instructions: report.instructions,
    }
}

/// Verifies an object, or the members of an archive. Returns a verdict about each.
#[pyfunction]
#[pyo3(signature = (data, *, mode = "write", name = "object"))]
pub fn verify(py: Python<'_>, data: &Bound<'_, PyAny>, mode: &str, name: &str) -> PyResult<Vec<Verdict>> {
    let (data, mode) = (convert::contents(data)?, self::mode(mode)?);
    let verdicts = py.detach(|| {
        let mut verifier = Verifier::new(&Options { mode, ..Options::default() });
        let objects = objects(&data, name)?;
        Ok(objects.into_iter().map(|(name, bytes)| verdict(&mut verifier, name, bytes)).collect())
    });
    failure::raised(py, verdicts)
}

/// Lists the members of an archive with their names, in order. Names may repeat.
#[pyfunction]
pub fn members<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
    let data = convert::contents(data)?;
    if !archive::is_archive(&data) {
        return Err(Failure::new(failure::UNREADABLE, "not an archive").raise(py));
    }
    let members = failure::raised(py, objects(&data, ""))?;
    Ok(members.into_iter().map(|(name, bytes)| (name, PyBytes::new(py, bytes))).collect())
}

fn refusals(object: &str, failure: Refused) -> Vec<Refusal> {
    match failure {
        Refused::Refused(refusals) => refusals
            .into_iter()
            .map(|refusal| Refusal {
                object: object.to_owned(),
                reason: refusal.reason.id(),
                title: refusal.reason.title(),
                section: refusal.section,
                offset: refusal.offset,
                function: refusal.function,
                instruction: refusal.instruction,
                detail: refusal.detail,
            })
            .collect(),
        Refused::NotProved(findings) => findings
            .iter()
            .map(|finding| Refusal {
                object: object.to_owned(),
                reason: NOT_PROVED,
                title: "the rewritten code is not proved to do what the original does",
                section: String::new(),
                offset: 0,
                function: None,
                instruction: None,
                detail: finding.to_string(),
            })
            .collect(),
    }
}

/// The code of a difference between an object and its rewritten form: a defect of the rewriter.
const NOT_PROVED: &str = "SFI-V01";

/// The rewritten objects of a file.
struct Outcome {
    kept: Vec<(String, Vec<u8>)>,
    notes: Vec<String>,
    refused: Vec<Refusal>,
    text: [u64; 2],
}

fn rewrite_all(objects: &[(String, &[u8])], mode: Mode, validation: Validation) -> Outcome {
    let one = |(_, bytes): &(String, &[u8])| {
        sfi_validator::rewrite(bytes, &Rewriting { mode, ..Rewriting::default() }, validation)
    };
    // One object needs no other thread.
    let results: Vec<Result<Checked, Refused>> =
        if objects.len() == 1 { objects.iter().map(one).collect() } else { objects.par_iter().map(one).collect() };
    let mut outcome = Outcome { kept: Vec::new(), notes: Vec::new(), refused: Vec::new(), text: [0; 2] };
    for ((name, _), result) in objects.iter().zip(results) {
        match result {
            Ok(checked) => {
                let notes = checked.output.notes.iter().cloned().chain(checked.note());
                outcome.notes.extend(notes.map(|note| format!("{name}: {note}")));
                outcome.text[0] += checked.output.stats.text_in;
                outcome.text[1] += checked.output.stats.text_out;
                outcome.kept.push((name.clone(), checked.output.bytes));
            }
            Err(failure) => outcome.refused.extend(refusals(name, failure)),
        }
    }
    outcome
}

/// Rewrites an object, or the members of an archive. `skip_refused` leaves refused members out of
/// an archive.
#[pyfunction]
#[pyo3(signature = (data, *, mode = "write", validate = "differences", skip_refused = false, name = "object"))]
pub fn rewrite(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    mode: &str,
    validate: &str,
    skip_refused: bool,
    name: &str,
) -> PyResult<Rewritten> {
    let (data, mode) = (convert::contents(data)?, self::mode(mode)?);
    let validation: Validation = validate.parse().map_err(PyValueError::new_err)?;
    let done = py.detach(|| -> Result<(Outcome, Vec<u8>), Failure> {
        let mut outcome = rewrite_all(&objects(&data, name)?, mode, validation);
        let is_archive = archive::is_archive(&data);
        let wrong = outcome.refused.iter().any(|refusal| refusal.reason == NOT_PROVED);
        if !outcome.refused.is_empty() && (!is_archive || !skip_refused || wrong) {
            return Ok((outcome, Vec::new()));
        }
        let bytes = match is_archive {
            true => sfi_build::archive(&outcome.kept)
                .map_err(|error| Failure::new(failure::REWRITE, sfi_contract::text::chain(&error)))?,
            false => outcome.kept.pop().map(|(_, bytes)| bytes).unwrap_or_default(),
        };
        Ok((outcome, bytes))
    });
    let (outcome, bytes) = failure::raised(py, done)?;
    if bytes.is_empty() {
        return Err(refused(py, &outcome.refused)?);
    }
    let [text_in, text_out] = outcome.text;
    let data = PyBytes::new(py, &bytes).unbind();
    Ok(Rewritten { data, notes: outcome.notes, refused: outcome.refused, text_in, text_out })
}

/// Makes the exception for objects that cannot be rewritten.
fn refused(py: Python<'_>, refusals: &[Refusal]) -> PyResult<PyErr> {
    let (first, more) = match refusals {
        [first, more @ ..] => (format!("{}: {}: {}", first.object, first.reason, first.title), more.len()),
        [] => ("the file has no objects".to_owned(), 0),
    };
    let message = if more > 0 { format!("{first}, and {more} more") } else { first };
    let error = Failure::new(failure::REWRITE, message).raise(py);
    error.value(py).setattr("refusals", refusals.to_vec())?;
    Ok(error)
}

/// Returns the reasons for which code is refused: their titles by code.
#[pyfunction]
pub fn reasons(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for reason in Reason::ALL {
        all.set_item(reason.id(), reason.title())?;
    }
    Ok(all)
}
