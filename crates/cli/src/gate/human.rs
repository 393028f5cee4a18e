//! The verdict for people.

use super::Outcome;
use crate::render::{self, Diagnostic};
use std::io::Write;

/// Findings go to the standard error output, one line for each object to the standard output.
pub fn print(outcomes: &[Outcome]) -> std::io::Result<()> {
    let mut err = std::io::BufWriter::new(anstream::stderr().lock());
    let mut out = anstream::stdout().lock();
    for outcome in outcomes {
        let name = outcome.name();
        match &outcome.result {
            Err(why) => render::error(&mut err, &name, why)?,
            Ok(verdict) => {
                for finding in &verdict.findings {
                    Diagnostic::finding(&name, finding).print(&mut err)?;
                }
                err.flush()?;
                let count = verdict.findings.len() as u64 + verdict.omitted;
                if count == 0 {
                    let what = format!("{} instructions, {} bytes of text", verdict.instructions, verdict.text_bytes);
                    render::good(&mut out, &name, &what)?;
                } else {
                    let omitted = match verdict.omitted {
                        0 => String::new(),
                        omitted => format!(", {omitted} of them not listed"),
                    };
                    let plural = if count == 1 { "" } else { "s" };
                    render::bad(&mut out, &name, &format!("{count} violation{plural}{omitted}"))?;
                }
            }
        }
    }
    err.flush()
}
