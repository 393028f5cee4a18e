//! Loading one planned domain: places it, links it, seals it and verifies its text where it runs.
//! Domains are loaded in this way at the start and later.

pub(crate) mod image_files;
pub(crate) mod image_store;
pub(crate) mod keep;
pub(crate) mod library;
pub(crate) mod observe;
pub(crate) mod raised;
pub(crate) mod verify;
pub(crate) mod view;

use crate::gate::stubs::Stub;
use crate::link::error::LinkError;
use crate::link::place::{Map, place};
use crate::link::{self, Plan, Site};
use crate::load::keep::Keep;
use crate::load::raised::Raised;
use crate::spec::DomainSpec;
use crate::vm::region::{Placed, Region};
use crate::vm::space::Draw;
use foldhash::HashMap;

/// The world around a domain.
pub(crate) struct Surroundings<'w> {
    /// The shared regions and their window offsets.
    pub regions: &'w [Region],
    /// The offsets that they take.
    pub map: &'w Map,
    /// The place where the image is kept for other processes.
    pub entry: Option<&'w dyn Keep>,
}

/// Draws places, links for them, seals, and verifies again.
pub(crate) fn load(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    plan: &mut Plan<'_>,
    around: &Surroundings<'_>,
    stubs: &[Stub],
) -> Result<Raised, LinkError> {
    let places = place(draw.rng, spec, &plan.layout, around.map)?;
    let regions: HashMap<&str, Placed> = around.regions.iter().map(|r| (r.name.as_str(), r.place)).collect();
    let find = |region: &String| {
        let unknown = || LinkError::UnknownRegion { domain: spec.name.clone(), region: region.clone() };
        regions.get(region.as_str()).copied().ok_or_else(unknown)
    };
    let shared: Vec<Placed> = spec.shared.iter().map(|s| find(&s.region)).collect::<Result<_, _>>()?;
    let image = link::link(spec, plan, &Site { places: &places, regions: &shared, stubs })?;
    raised::first(draw, spec, image, around.regions, around.entry, &mut plan.verifier)
}
