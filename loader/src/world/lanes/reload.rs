//! Loading a domain of a world with lanes again. The caller has all lanes, so no thread is in the
//! world. The first lane loads the domain, and the others get its memory, as when the world was
//! built. All of that is done before a lane changes.

use crate::gate::ids::DomainId;
use crate::spec::DomainSpec;
use crate::world::bindings::reload::Made;
use crate::world::builder::Builder;
use crate::world::error::{BindError, BuildError, SpecError};
use crate::world::held::World;
use crate::world::inner::Inner;
use crate::world::lanes::take::here;
use crate::world::lanes::{Lane, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Loads a domain again in all lanes of a world, which are in the order of their numbers.
pub(crate) fn reload(lanes: &mut [&mut World], mut spec: DomainSpec) -> Result<(), BuildError> {
    let Some((first, others)) = lanes.split_first_mut() else { return Ok(()) };
    let Some(lane) = first.get().lane.clone() else { return Ok(()) };
    let index = first.get().find(&spec.name).map_err(BindError::from)?;
    let mut held = first.held();
    spec.clock &= held.time.clock;
    held.reserve_callbacks(&mut spec);
    check(&held, index, &spec)?;
    let spec = Arc::new(spec);
    let further = Arc::new(DomainSpec::clone(&spec).without_files());
    let made = held.make_loaded(index, &spec, true)?;
    let mut shared = Shared::of(&made.raised);
    let number = made.first;
    let mut all = Vec::new();
    for world in others.iter_mut() {
        let made = world.held().make(index, &further, true, |this, first| {
            let lane = this.lane.clone().filter(|_| first == number).ok_or(BindError::Lanes)?;
            Ok(lane.raise_in(&mut shared, &mut this.supply.places.draw(), &further, this.regions.as_slice())?)
        })?;
        all.push(made);
    }
    // SAFETY: the control stack's header lives as long as the world.
    let mark = here(unsafe { &*first.get().gates.control.context() });
    if !lane.group.clear_out(lane.number, index, mark) {
        return Err(BindError::Active { domain: spec.name.clone() }.into());
    }
    let home = lane.home(index);
    *home.memory() = Some(shared);
    let put = put(first, index, made, &spec).and_then(|()| {
        let mut both = others.iter_mut().zip(all);
        both.try_for_each(|(world, made)| put(world, index, made, &further))
    });
    home.broken.store(put.is_err(), Ordering::SeqCst);
    let begun = put.and_then(|()| begin(first, &lane, index));
    let room = lane.room(index);
    if begun.is_err() {
        room.end();
    }
    if lane.group.renewed(lane.number, index) {
        room.go_out(&room.doors[lane.number]);
    }
    begun
}

/// Puts the new domain in its place in one lane.
fn put(world: &mut World, index: DomainId, made: Made, spec: &Arc<DomainSpec>) -> Result<(), BuildError> {
    world.record().manager.fixed = false;
    let put = world.held().put(index, made, Arc::clone(spec));
    let inner = world.record();
    inner.manager.fixed = true;
    // The lane takes part in the next life when it enters.
    inner.domains[index].birth = 0;
    put
}

/// Begins the new domain's first life, in the first lane.
fn begin(first: &mut World, lane: &Lane, index: DomainId) -> Result<(), BuildError> {
    lane.home(index).birth.fetch_add(1, Ordering::SeqCst);
    let mut held = first.held();
    held.freshen(index);
    lane.room(index).begin();
    held.initialise(index)
}

/// Checks what a world with lanes may have, with the new domain in the place of the old one.
fn check(inner: &Inner, index: DomainId, spec: &DomainSpec) -> Result<(), BuildError> {
    let old = &inner.domains[index].spec;
    if (old.threads, old.busy, old.restart) != (spec.threads, spec.busy, spec.restart) {
        let why = format!("domain `{}` is loaded again with other `threads`, `busy` or `restart`", spec.name);
        return Err(SpecError::Lanes { why }.into());
    }
    let other = |(id, domain): (DomainId, &crate::world::domain::Domain)| match id == index {
        true => spec.clone(),
        false => DomainSpec::clone(&domain.spec).without_files(),
    };
    let domains = inner.domains.enumerate().map(other).collect();
    let regions = inner.regions.iter().map(|region| (region.name.clone(), 1)).collect();
    Builder { domains, regions, ..Builder::default() }.check_lanes(spec.lanes)
}
