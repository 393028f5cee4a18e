//! The verdict for people: the first findings of each object, and the number of the others. JSON
//! and SARIF hold all of them.

use super::{Code, Finding, Outcome};
use crate::render::{self, Diagnostic};
use sfi_loader::{Advice, SHOWN, rest};
use std::io::Write;

/// Prints the findings to the standard error output, and one line for each object to the standard
/// output.
pub fn print(outcomes: &[Outcome]) -> std::io::Result<()> {
    let mut err = std::io::BufWriter::new(anstream::stderr().lock());
    let mut out = anstream::stdout().lock();
    for outcome in outcomes {
        let name = outcome.name();
        match &outcome.result {
            Err(why) => render::error(&mut err, &name, why)?,
            Ok(verdict) => {
                if let Some(advice) = verdict.advice.filter(|_| !outcome.is_as_known()) {
                    render::error(&mut err, &name, &advice.to_string())?;
                }
                // An object in another mode breaks one rule at each load. The advice covers these
                // violations, so only the policy's findings are printed.
                let one_line = matches!(verdict.advice, Some(Advice::OtherMode { .. }));
                let is_shown = |f: &&Finding| f.known.is_none() && (!one_line || matches!(f.code, Code::Policy(_)));
                for finding in verdict.findings.iter().filter(is_shown).take(SHOWN) {
                    Diagnostic::finding(&name, finding).print(&mut err)?;
                }
                let places = verdict.findings.iter().filter(is_shown).map(|f| f.function.as_deref());
                if let Some(rest) = rest(places, if one_line { 0 } else { verdict.omitted }) {
                    render::more(&mut err, &name, &rest)?;
                }
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
    err.flush()
}
