//! Shared regions appear in domains and disappear at run time (Bryce & Muller: dp_make_visible), at the same window offset everywhere.

use crate::link::REGION;
use crate::spec::Access;
use crate::vm::memory::Segment;
use crate::vm::window::Protection;
use crate::world::calls::host::HostCall;
use crate::world::error::BindError;
use crate::world::{Inner, World};
use rustix::fd::AsFd;

impl Inner {
    fn region_index(&self, name: &str) -> Result<usize, BindError> {
        let found = self.regions.iter().position(|r| r.name == name);
        found.ok_or_else(|| crate::LookupError::Region(name.to_owned()).into())
    }

    /// Maps a region into a domain's window, or takes it out.
    pub fn show(&mut self, domain: usize, region: usize, access: Option<Access>) -> Result<(), BindError> {
        let (domain, region) = (&mut self.domains[domain], &self.regions[region]);
        let (offset, length) = (region.offset, region.length);
        let protection = access.map(|access| match access {
            Access::Read => Protection::Read,
            Access::ReadWrite => Protection::ReadWrite,
        });
        let mut segments: Vec<Segment> = domain.segments().to_vec();
        segments.retain(|s| !(s.shared && s.offset == offset));
        match protection {
            Some(protection) => {
                domain
                    .window
                    .map_file(offset, length, protection, region.file.as_fd(), 0, true)
                    .map_err(BindError::Memory)?;
                let name = format!("{REGION}{}", region.name);
                segments.push(Segment { name, offset, length, protection, shared: true });
                segments.sort_by_key(|s| s.offset);
            }
            None => domain.window.unmap(offset, length).map_err(BindError::Memory)?,
        }
        domain.own_segments = Some(segments);
        Ok(())
    }

    /// The same, and keeps it so when the domain is loaded again.
    pub fn make_visible(&mut self, domain: &str, region: &str, access: Option<Access>) -> Result<(), BindError> {
        let (index, region) = (self.find(domain)?, self.region_index(region)?);
        self.show(index, region, access)?;
        let shown = &mut self.domains[index].shown;
        shown.retain(|(r, _)| *r != region);
        shown.push((region, access));
        Ok(())
    }

    /// What a domain sees besides, or unlike, what its specification says: a root domain sees everything.
    pub fn show_all(&mut self, domain: usize) -> Result<(), BindError> {
        let spec = self.domains[domain].spec.clone();
        if spec.root {
            for region in 0..self.regions.len() {
                if !spec.shared.iter().any(|s| s.region == self.regions[region].name) {
                    self.show(domain, region, Some(Access::ReadWrite))?;
                }
            }
        }
        for (region, access) in self.domains[domain].shown.clone() {
            self.show(domain, region, access)?;
        }
        Ok(())
    }

    /// Where a domain sees a region: its address and length.
    pub fn region_at(&self, domain: usize, region: &str) -> Option<(u64, u64)> {
        let domain = &self.domains[domain];
        let segment = domain.segments().iter().find(|s| s.shared && s.name.strip_prefix(REGION) == Some(region))?;
        Some((domain.window.base() + segment.offset, segment.length))
    }
}

macro_rules! operations {
    () => {
        /// Makes a shared region visible to a domain, at the same window offset as everywhere, or changes what the domain may do with
        /// it.
        ///
        /// # Errors
        /// [`BindError::Unknown`], [`BindError::Memory`].
        pub fn make_visible(&mut self, domain: &str, region: &str, access: Access) -> Result<(), BindError> {
            self.record().make_visible(domain, region, Some(access))
        }

        /// Takes a region out of a domain's window. Pointers into it that the domain kept fault, and the fault names the region.
        ///
        /// # Errors
        /// As for `make_visible`.
        pub fn make_invisible(&mut self, domain: &str, region: &str) -> Result<(), BindError> {
            self.record().make_visible(domain, region, None)
        }

        /// Where a domain sees a region, in the domain's terms.
        pub fn region_in(&mut self, domain: &str, region: &str) -> Option<crate::Pointer> {
            let inner = self.record();
            let index = inner.find(domain).ok()?;
            inner.region_at(index, region).map(|(at, _)| crate::Pointer(at))
        }
    };
}

impl World {
    operations!();
}

/// The same from within a host function.
impl HostCall<'_> {
    operations!();
}
