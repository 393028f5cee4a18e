//! Manifests of one domain, which templates are made of.

use crate::manifest::error::wrong;
use crate::manifest::{Manifest, ManifestError};
use crate::spec::DomainSpec;
use std::path::Path;

impl Manifest {
    /// Returns the description of the manifest's only domain, for [`crate::Template`].
    ///
    /// # Errors
    /// [`ManifestError`]: a file cannot be read, or the manifest has what templates cannot have.
    pub fn only(&self, directory: &Path) -> Result<DomainSpec, ManifestError> {
        let mut domains = self.domains.iter();
        let (Some((name, domain)), None) = (domains.next(), domains.next()) else {
            return Err(wrong(directory, "a template has one domain".into()));
        };
        let other = [
            (!self.regions.is_empty() || !domain.shared.is_empty(), "regions"),
            (
                !self.permit.is_empty() || !domain.registers.is_empty() || !domain.capabilities.is_empty(),
                "entry points",
            ),
            (domain.owner.is_some(), "an owner"),
            (domain.syscalls.is_some(), "system calls"),
            (self.limits.cpu.is_some(), "a limit of processor time"),
        ];
        if let Some((_, what)) = other.into_iter().find(|(has, _)| *has) {
            return Err(wrong(directory, format!("domain `{name}`: a template's domain cannot have {what}")));
        }
        domain.spec(name, directory, &|interface, function| self.declaration(interface, function, directory))
    }
}
