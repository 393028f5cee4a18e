//! Interfaces that a manifest names: declarations in place, or in a file of their own.

use crate::manifest::{ManifestError, file, text};
use crate::spec::interface::Declaration;
use std::path::{Path, PathBuf};

/// The place of an interface's declarations.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged)]
pub enum Source {
    /// The manifest itself.
    Functions(Vec<Declaration>),
    /// This file, an [`InterfaceFile`].
    File(PathBuf),
}

impl Source {
    /// Returns the declarations. Paths are relative to `directory`.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(&self, directory: &Path) -> Result<Vec<Declaration>, ManifestError> {
        match self {
            Source::Functions(functions) => Ok(functions.clone()),
            Source::File(path) => Ok(InterfaceFile::load(&directory.join(path))?.functions),
        }
    }
}

/// A file with an interface: `functions = ["...", "..."]`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceFile {
    /// The declarations.
    pub functions: Vec<Declaration>,
}

impl InterfaceFile {
    /// Reads an interface file.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn load(path: &Path) -> Result<Self, ManifestError> {
        let text = file::read_text(path).map_err(|error| ManifestError::File { path: path.to_owned(), error })?;
        text::read(&text).map_err(|error| ManifestError::Text { path: path.to_owned(), error: Box::new(error) })
    }
}
