//! Loads one planned domain: places it, links it, seals it and verifies what will run. The same at the start and later.

pub(crate) mod raised;
pub(crate) mod verify;

use crate::gate::stubs::Stub;
use crate::link::place::{Map, place};
use crate::link::{self, Plan, Site};
use crate::spec::DomainSpec;
use crate::vm::space::Draw;
use crate::world::Region;
use crate::world::error::BuildError;
use crate::world::instances::{self, Raised};

/// The world around a domain.
pub struct Surroundings<'w> {
    /// The shared regions and their window offsets.
    pub regions: &'w [Region],
    /// Which offsets they take.
    pub map: &'w Map,
}

/// Draws places, links for them, seals and verifies again.
pub fn load(
    draw: &mut Draw<'_>,
    spec: &DomainSpec,
    plan: &Plan<'_>,
    around: &Surroundings<'_>,
    stubs: &[Stub],
) -> Result<Raised, BuildError> {
    let places = place(draw.rng, spec, &plan.layout, around.map)?;
    let find = |name: &str| around.regions.iter().position(|r| r.name == name).unwrap_or_default();
    let shared: Vec<(u64, u64)> =
        spec.shared.iter().map(|s| &around.regions[find(&s.region)]).map(|r| (r.offset, r.length)).collect();
    let image = link::link(spec, plan, &Site { places: &places, regions: &shared, stubs })?;
    instances::first(draw, &spec.name, image, spec.mode, around.regions)
}
