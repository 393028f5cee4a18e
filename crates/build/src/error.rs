//! Reasons for which a plugin cannot be built.

use sfi_contract::report::{Report, lines};
use sfi_rewriter::Refusal;
use sfi_validator::Finding;
use sfi_verifier::{Unreadable, Violation};
use std::path::PathBuf;

/// A reason for which a plugin cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no folder to write to.
    #[error("OUT_DIR is not set: call this in a build script, or say `out_dir`")]
    NoOutput,
    /// The plugin has no source, archive or crate.
    #[error("the plugin has no objects: add a `file`, an `archive` or a `rust` crate")]
    NoObjects,
    /// The compiler failed.
    #[error("cannot compile the plugin")]
    Compiler(#[source] cc::Error),
    /// Cargo failed to build a crate.
    #[error("cannot build the plugin's crate: {what}")]
    Cargo {
        /// Cargo's message.
        what: String,
    },
    /// A file could not be read or written.
    #[error("cannot read or write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The archive could not be written.
    #[error("cannot write the archive")]
    Archive(#[source] std::io::Error),
    /// A file is neither an object nor an archive of objects.
    #[error("cannot read {object}")]
    Unreadable {
        /// File, or archive and member.
        object: String,
        /// The reason.
        source: Unreadable,
    },
    /// The rewriter refuses objects.
    #[error("{}", refusals(.0))]
    Refused(Vec<(String, Vec<Refusal>)>),
    /// The rewritten code is not proved to do what the original does, by a mistake in the rewriter.
    #[error("{object}: the rewritten code does not do what the original does; please report this: \n{}", lines(.findings, |_| None, ToString::to_string))]
    NotProved {
        /// File, or archive and member.
        object: String,
        /// The places, with listings.
        findings: Vec<Finding>,
    },
    /// The verifier refuses a rewritten object, by a mistake in the rewriter.
    #[error("{object}: the rewritten object is refused; please report this: \n{}", lines(.violations, |v| v.function.as_deref(), ToString::to_string))]
    Unsafe {
        /// File, or archive and member.
        object: String,
        /// The broken rules.
        violations: Vec<Violation>,
    },
}

fn refusals(objects: &[(String, Vec<Refusal>)]) -> String {
    let mut report = Report::default();
    let mut all = Vec::new();
    for (object, refusals) in objects {
        let shown = refusals.iter().filter(|refusal| report.shows(refusal.function.as_deref()));
        let shown: String = shown.map(|refusal| format!("\n  {refusal}")).collect();
        if !shown.is_empty() {
            all.push(format!("{object}: cannot be rewritten: {shown}"));
        }
    }
    all.extend(report.rest());
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_has_the_first_refusals_and_the_number_of_the_others() {
        let refusal = |function: String| Refusal {
            reason: sfi_rewriter::Reason::NoSafeForm,
            section: ".text".to_owned(),
            offset: 0,
            function: Some(function),
            instruction: None,
            detail: String::new(),
        };
        let text = |objects: usize| {
            let each = |n| (format!("o{n}.o"), vec![refusal(format!("f{n}")), refusal(format!("g{n}"))]);
            Error::Refused((0..objects).map(each).collect()).to_string()
        };
        assert_eq!(text(10).lines().count(), 30);
        assert!(text(10).starts_with("o0.o: cannot be rewritten: \n  SFI-W03"), "{}", text(10));
        assert_eq!(text(12).lines().count(), 31);
        assert!(text(12).ends_with("\nand 4 more, in `f10` (1), `g10` (1), `f11` (1), `g11` (1)"), "{}", text(12));
    }
}
