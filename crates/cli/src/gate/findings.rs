//! Violations of the contract as findings, with their places in the source code.

use super::{Code, Finding};
use sfi_verifier::{Options, Report};

/// Returns the findings of the verifier for an object that was read before.
pub fn contract_findings(bytes: &[u8], options: &Options) -> Vec<Finding> {
    findings(&sfi_verifier::verify(bytes, options).expect("the object was read before"))
}

/// Returns the findings of a report.
pub fn findings(report: &Report<'_>) -> Vec<Finding> {
    let finding = |v: &sfi_verifier::Violation| {
        let section = v.section.and_then(|index| report.object.sections.get(index));
        Finding {
            code: Code::Contract(v.rule),
            section: v.section,
            section_name: v.section_name.clone(),
            offset: v.offset,
            file_offset: section
                .filter(|s| v.offset <= s.data.len() as u64 && !s.data.is_empty())
                .map(|s| s.offset + v.offset),
            function: v.function.clone(),
            source: None,
            instruction: v.instruction.clone(),
            detail: v.detail.clone(),
            known: None,
        }
    };
    let mut findings: Vec<Finding> = report.violations.iter().map(finding).collect();
    name_sources(report, &mut findings);
    findings
}

/// Number of findings of an object that get a file and line.
const SOURCES: usize = 1000;

/// Adds files and lines from the object's debug information.
fn name_sources(report: &Report<'_>, findings: &mut [Finding]) {
    let text = |section: &usize| report.object.sections.get(*section).is_some_and(|s| s.is_executable());
    let (numbers, places): (Vec<usize>, Vec<(usize, u64)>) = findings
        .iter()
        .enumerate()
        .filter_map(|(number, f)| Some((number, (f.section.filter(text)?, f.offset))))
        .take(SOURCES)
        .unzip();
    if places.is_empty() {
        return;
    }
    for (number, frames) in numbers.into_iter().zip(sfi_debuginfo::lookup_in(&report.object, &places)) {
        findings[number].source = frames.into_iter().next().filter(|f| f.file.is_some() && f.line.is_some());
    }
}
