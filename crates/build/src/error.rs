//! Reasons for which a plugin cannot be built.

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
    #[error("{object}: the rewritten code does not do what the original does; please report this: {}", lines(.findings))]
    NotProved {
        /// File, or archive and member.
        object: String,
        /// The places, with listings.
        findings: Vec<Finding>,
    },
    /// The verifier refuses a rewritten object, by a mistake in the rewriter.
    #[error("{object}: the rewritten object is refused; please report this: {}", lines(.violations))]
    Unsafe {
        /// File, or archive and member.
        object: String,
        /// The broken rules.
        violations: Vec<Violation>,
    },
}

fn lines(items: &[impl ToString]) -> String {
    items.iter().map(|item| format!("\n  {}", item.to_string())).collect()
}

fn refusals(objects: &[(String, Vec<Refusal>)]) -> String {
    let one =
        |(object, refusals): &(String, Vec<Refusal>)| format!("{object}: cannot be rewritten: {}", lines(refusals));
    objects.iter().map(one).collect::<Vec<_>>().join("\n")
}
