//! The verdict for people: the first findings, and the number of the others. JSON and SARIF hold
//! all of them.

use super::{Code, Finding, Outcome};
use crate::render::{self, Diagnostic};
use sfi_contract::report::{Report, and_others};
use sfi_loader::Advice;
use std::io::Write;

/// Returns the advice about an object as a whole, if it is news.
fn advice(outcome: &Outcome) -> Option<Advice> {
    outcome.result.as_ref().ok().and_then(|verdict| verdict.advice).filter(|_| !outcome.is_as_known())
}

/// Prints the findings to the standard error output, and one line for each object to the standard
/// output.
pub fn print(outcomes: &[Outcome]) -> std::io::Result<()> {
    let mut err = std::io::BufWriter::new(anstream::stderr().lock());
    let mut out = anstream::stdout().lock();
    let mut report = Report::default();
    let mut advised = Vec::new();
    for outcome in outcomes {
        let name = outcome.name();
        match &outcome.result {
            Err(why) => render::error(&mut err, &name, why)?,
            Ok(verdict) => {
                // Objects of one archive need the same advice: it is given once.
                if let Some(said) = advice(outcome).filter(|advice| !advised.contains(advice)) {
                    advised.push(said);
                    let others = outcomes.iter().filter(|other| advice(other) == Some(said)).count() - 1;
                    render::error(&mut err, &and_others(&name, others), &said.to_string())?;
                }
                // An object in another mode breaks one rule at each load. The advice covers these
                // violations, so only the policy's findings are printed.
                let one_line = matches!(verdict.advice, Some(Advice::OtherMode { .. }));
                let is_shown = |f: &&Finding| f.known.is_none() && (!one_line || matches!(f.code, Code::Policy(_)));
                for finding in verdict.findings.iter().filter(is_shown) {
                    if report.shows(finding.function.as_deref()) {
                        Diagnostic::finding(&name, finding).print(&mut err)?;
                    }
                }
                report.omit(if one_line { 0 } else { verdict.omitted });
                err.flush()?;
                let count = verdict.findings.len() as u64 + verdict.omitted;
                if count == 0 {
                    let what = format!("{} instructions, {} bytes of text", verdict.instructions, verdict.text_bytes);
                    render::good(&mut out, &name, &what)?;
                } else {
                    let plural = if count == 1 { "" } else { "s" };
                    let known = match verdict.findings.iter().filter(|f| f.known.is_some()).count() as u64 {
                        0 => String::new(),
                        all if all == count => ", known: it does not run".to_owned(),
                        some => format!(", {some} of them known"),
                    };
                    render::bad(&mut out, &name, &format!("{count} violation{plural}{known}"))?;
                }
            }
        }
    }
    if let Some(rest) = report.rest() {
        render::more(&mut err, &rest)?;
    }
    err.flush()
}
