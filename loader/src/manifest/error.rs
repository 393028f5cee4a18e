//! Errors of manifests.

use std::path::{Path, PathBuf};

/// A manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The text is not a manifest; the message names line and column.
    #[error("`{}` is not a manifest", path.display())]
    Text {
        /// The manifest.
        path: PathBuf,
        /// The error and its place.
        #[source]
        error: Box<toml::de::Error>,
    },
    /// The manifest contradicts itself.
    #[error("{}: {why}", path.display())]
    Meaning {
        /// The manifest.
        path: PathBuf,
        /// The contradiction.
        why: String,
    },
}

/// Returns the error for a manifest in a directory that contradicts itself.
pub(super) fn wrong(directory: &Path, why: String) -> ManifestError {
    ManifestError::Meaning { path: directory.to_owned(), why }
}
