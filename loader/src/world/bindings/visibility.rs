//! Shared regions become visible and invisible to domains at run time (Bryce & Muller:
//! dp_make_visible), at one window offset everywhere.

use crate::gate::ids::{DomainId, RegionId};
use crate::link::REGION;
use crate::spec::Access;
use crate::vm::address::WindowOffset;
use crate::vm::memory::Segment;
use crate::vm::region::{Placed, Uppers};
use crate::vm::window::Protection;
use crate::world::error::BindError;
use crate::world::inner::Inner;
use rustix::fd::AsFd;
use sfi_contract::Mode;
use sfi_contract::layout::{HEADER_REGIONS, PAGE_SIZE, REGION_SLOTS, WINDOW_SIZE, no_region, region_slot};
use std::collections::HashSet;

impl Inner {
    fn region_index(&self, name: &str) -> Result<RegionId, BindError> {
        let found = self.regions.position(|r| r.name == name);
        found.ok_or_else(|| crate::LookupError::Region(name.to_owned()).into())
    }

    /// Maps a region into a domain's window, or unmaps it.
    pub(crate) fn show(&mut self, domain: DomainId, region: RegionId, access: Option<Access>) -> Result<(), BindError> {
        let (domain, region) = (&mut self.domains[domain], &self.regions[region]);
        let Placed { offset, length, .. } = region.place;
        let protection = access.map(|access| match access {
            Access::Read => Protection::Read,
            Access::ReadWrite => Protection::ReadWrite,
        });
        match protection {
            Some(protection) => domain.window.map_file(offset, length, protection, region.file.as_fd(), 0, true),
            None => domain.window.unmap(offset, length),
        }
        .map_err(BindError::Memory)?;
        let segments = domain.own_segments.get_or_insert_with(|| domain.image.segments.clone());
        let at = segments.partition_point(|s| s.start() < offset);
        let old = at..at + usize::from(segments.get(at).is_some_and(|s| s.shared && s.start() == offset));
        let name = || format!("{REGION}{}", region.name);
        segments.splice(
            old,
            protection.map(|protection| Segment {
                name: name(),
                offset: offset.bytes(),
                length,
                protection,
                shared: true,
            }),
        );
        Ok(())
    }

    /// Maps the common addresses of a region if a domain reads there: one that sees the region and
    /// whose loads are not confined.
    pub(crate) fn map_common(&mut self, region: RegionId) -> Result<(), BindError> {
        let (domains, region) = (&self.domains, &mut self.regions[region]);
        let shown = domains.iter().any(|domain| domain.reads(&region.place));
        region.common.show(&region.file, shown).map_err(BindError::Memory)
    }

    /// Returns the regions whose common addresses a domain reads.
    pub(crate) fn read_by(&self, domain: DomainId) -> impl Iterator<Item = RegionId> + use<'_> {
        let domain = &self.domains[domain];
        self.regions.ids().filter(|region| domain.reads(&self.regions[*region].place))
    }

    /// Tells the gates, and in mode match the header page, the common addresses of the regions that
    /// a domain sees.
    fn tell_regions(&mut self, index: DomainId) -> Result<(), BindError> {
        let domain = &self.domains[index];
        let seen =
            || self.regions.iter().map(|r| &r.place).filter(|place| domain.sees(place)).map(|place| place.common);
        // SAFETY: the state lives as long as the world, and no gate runs.
        let told = unsafe { &mut (*domain.state).regions };
        let uppers = Uppers::of(seen());
        if *told == uppers {
            return Ok(());
        }
        *told = uppers;
        if domain.mode != Mode::Match {
            return Ok(());
        }
        let mut words: [u64; REGION_SLOTS] = std::array::from_fn(no_region);
        for address in seen() {
            let address = address.number();
            words[region_slot(address)] = (address & !(WINDOW_SIZE - 1)).wrapping_neg();
        }
        let (window, bytes) = (&domain.window, words.map(u64::to_le_bytes));
        let anchors = domain.image.anchors;
        let header = WindowOffset::new(anchors.header);
        window.protect(header, PAGE_SIZE, Protection::ReadWrite).map_err(BindError::Memory)?;
        window.write(WindowOffset::new(anchors.offset(HEADER_REGIONS)), bytes.as_flattened());
        window.protect(header, PAGE_SIZE, Protection::Read).map_err(BindError::Memory)
    }

    /// Makes the common addresses of its regions readable to a new domain.
    pub(crate) fn settle_regions(&mut self, index: DomainId) -> Result<(), BindError> {
        for number in self.read_by(index).collect::<Vec<_>>() {
            let region = &mut self.regions[number];
            region.common.show(&region.file, true).map_err(BindError::Memory)?;
        }
        self.tell_regions(index)
    }

    /// Changes the visibility of a region, also for later loads of the domain.
    pub(crate) fn make_visible(&mut self, domain: &str, region: &str, access: Option<Access>) -> Result<(), BindError> {
        self.manager.changes()?;
        let (index, region) = (self.find(domain)?, self.region_index(region)?);
        self.show(index, region, access)?;
        self.map_common(region)?;
        self.tell_regions(index)?;
        let shown = &mut self.domains[index].shown;
        shown.retain(|(r, _)| *r != region);
        shown.push((region, access));
        Ok(())
    }

    /// Applies the visibility that differs from the specification's. A root domain sees everything.
    pub(crate) fn show_all(&mut self, domain: DomainId) -> Result<(), BindError> {
        let spec = self.domains[domain].spec.clone();
        if spec.root {
            let named: HashSet<&str> = spec.shared.iter().map(|s| s.region.as_str()).collect();
            for region in self.regions.ids() {
                if !named.contains(self.regions[region].name.as_str()) {
                    self.show(domain, region, Some(Access::ReadWrite))?;
                }
            }
        }
        for (region, access) in self.domains[domain].shown.clone() {
            self.show(domain, region, access)?;
        }
        // The domain may have replaced one that saw other regions.
        self.regions.ids().try_for_each(|region| self.map_common(region))?;
        self.tell_regions(domain)
    }

    /// Returns the common address of a region that a domain sees, and its length.
    pub(crate) fn region_at(&self, domain: DomainId, region: &str) -> Option<(u64, u64)> {
        let region = self.regions.iter().find(|r| r.name == region)?;
        self.domains[domain].sees(&region.place).then_some((region.place.common.number(), region.place.length))
    }
}
