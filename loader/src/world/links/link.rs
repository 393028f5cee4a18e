//! The journey of a library into a live domain.

use crate::gate::depths::SavingText;
use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::link::library::{self, Ask, Home, LibraryImage, Plan};
use crate::link::select::options;
use crate::link::symbols::Target;
use crate::load::library::raise;
use crate::load::observe::{self, Observed};
use crate::spec::library::{Library, LinkRoom};
use crate::vm::address::WindowOffset;
use crate::vm::region::Placed;
use crate::world::bindings::policy::Side;
use crate::world::domain::Domain;
use crate::world::held::{Held, World};
use crate::world::inner::Inner;
use crate::world::instances::Instance;
use crate::world::links::error::LibraryError;
use crate::world::links::handle::Linked;
use crate::world::links::record::{Account, Link, Links, memory, segments};
use crate::world::links::slots::Taken;
use sfi_contract::saves::Saves;
use sfi_verifier::{Options, Usage, Verifier};
use std::slice::from_ref;
use std::sync::Arc;

/// A library that is mapped and verified, before its slots and names lead to it.
struct Mapped {
    image: LibraryImage,
    taken: Taken,
    needs: Vec<u64>,
    account: Account,
    usage: Usage,
    saves: Arc<Saves>,
}

/// Returns the verifier of a world's libraries. It forgets what it remembers if the options are
/// others than before.
fn kept(verifier: &mut Option<(Options, Verifier)>, options: Options) -> &mut Verifier {
    let kept = verifier.take().filter(|(of, _)| *of == options);
    &mut verifier.insert(kept.unwrap_or_else(|| (options, Verifier::new(&options)))).1
}

impl World {
    /// Links a library into an instance, as [`crate::Manage::link`] links one into a domain.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn link_instance(&mut self, instance: Instance, library: &Library) -> Result<Linked, LibraryError> {
        let index = self.get().living(instance)?;
        self.held().link(index, library)
    }
}

impl Held<'_> {
    /// Links a library into a domain and runs its initialisers.
    pub(crate) fn link(&mut self, index: DomainId, library: &Library) -> Result<Linked, LibraryError> {
        let this: &mut Inner = self;
        let (number, initialisers) = this.insert(index, library)?;
        let linked = Linked { world: this.id, domain: index, number };
        let run = self.run_all(index, &initialisers);
        if let Some(link) = self.link_mut(linked) {
            link.running = false;
        }
        run.map(|()| linked)
            .map_err(|error| LibraryError::Initialiser { library: library.name.clone(), error: Box::new(error) })
    }
}

impl Inner {
    /// Links a library into a domain. Returns the number of the link, and its initialisers. If it
    /// fails, the domain is as it was.
    fn insert(&mut self, index: DomainId, library: &Library) -> Result<(u64, Vec<WindowOffset>), LibraryError> {
        let room = self.check_home(index)?;
        let mut links = match self.domains[index].links.take() {
            Some(links) => links,
            None => Box::new(self.new_links(index)?),
        };
        let mapped = self.map_library(&mut links, index, (library, room));
        let inserted = mapped.and_then(|mapped| self.commit(&mut links, index, library, mapped));
        self.domains[index].links = Some(links);
        self.note_depths(index);
        inserted
    }

    /// Checks that the domain can take libraries now.
    fn check_home(&self, index: DomainId) -> Result<LinkRoom, LibraryError> {
        let domain = &self.domains[index];
        let name = || domain.name.clone();
        if domain.spec.has_threads() || domain.window.is_view() {
            return Err(LibraryError::Threads { domain: name() });
        }
        // SAFETY: the state lives as long as the world.
        if unsafe { (*domain.state).dead } != Status::Ok {
            return Err(LibraryError::Dead { domain: name() });
        }
        domain.spec.link_room.ok_or_else(|| LibraryError::NoRoom { domain: name() })
    }

    /// Returns the room of a domain without libraries.
    pub(super) fn new_links(&self, index: DomainId) -> Result<Links, LibraryError> {
        let domain = &self.domains[index];
        let made = Links::new(&domain.image, domain.segments(), &self.supply.map);
        Ok(made.map_err(|error| memory(&domain.name, error))?)
    }

    /// Verifies, places, links, maps and verifies again. Nothing leads to the library yet.
    fn map_library(
        &mut self,
        links: &mut Links,
        index: DomainId,
        (library, room): (&Library, LinkRoom),
    ) -> Result<Mapped, LibraryError> {
        let domain = &self.domains[index];
        let bound = |what, most| {
            let (domain, library) = (domain.name.clone(), library.name.clone());
            LibraryError::Bound { domain, library, what, most }
        };
        if links.all.len() >= room.libraries {
            return Err(bound("libraries", room.libraries as u64));
        }
        let regions = self.regions_of(index);
        let home = Home { spec: &domain.spec, image: &domain.image, regions: &regions };
        let verifier = kept(&mut self.verifier, options(&domain.spec));
        let plan = library::plan(&home, library, &|name| symbol(domain, links, name), verifier)?;
        if links.bytes().saturating_add(plan.bytes()) > room.bytes {
            return Err(bound("bytes", room.bytes));
        }
        let account = Account::take(plan.parts().count()).map_err(|error| memory(&domain.name, error))?;
        let needs = needs(links, &plan);
        let places = plan.place(&home, &mut links.map, &mut self.supply.places.rng)?;
        let mut taken = Taken::default();
        let text = plan.text(&places);
        let slots = &links.slots;
        let linked = plan.link(&home, &places, &mut |ask| match ask {
            Ask::One(code) => slots.find(code, (library.id, text.clone()), &mut taken),
            Ask::Run(codes) => slots.find_run(codes, library.id, &mut taken),
        });
        let raised = linked.and_then(|image| {
            let own: Vec<WindowOffset> = taken.codes().filter(|c| text.contains(c)).collect();
            let checked = raise(&domain.window, (home.spec, home.image), &image, &own, verifier)?;
            Ok((image, checked))
        });
        let (image, checked) = raised.inspect_err(|_| plan.release(&places, &mut links.map))?;
        let (usage, saves) = (image.usage.union(checked.usage), Arc::new(checked.saves));
        Ok(Mapped { image, taken, needs, account, usage, saves })
    }

    /// Lets slots and names lead to a library.
    fn commit(
        &mut self,
        links: &mut Links,
        index: DomainId,
        library: &Library,
        mapped: Mapped,
    ) -> Result<(u64, Vec<WindowOffset>), LibraryError> {
        let Mapped { image, taken, needs, account, usage, saves } = mapped;
        let parts: Vec<(WindowOffset, u64)> = image.parts.iter().map(|p| (p.content.offset, p.length)).collect();
        let saves = SavingText::new(image.text, &saves);
        let ready = self.admit_usage(index, usage, &library.name);
        let domain = &mut self.domains[index];
        let ready = ready.and_then(|()| {
            let prepared = links.prepare(&domain.image, (&saves, image.walks));
            prepared.map_err(|error| memory(&domain.name, error))?;
            links.slots.commit(&domain.window, library.id, taken).map_err(|error| memory(&domain.name, error).into())
        });
        if let Err(error) = ready {
            unmap(domain, links, &parts);
            return Err(error);
        }
        domain.add_segments(segments(library, &image));
        let text = image.text.0..image.text.0 + image.text.1;
        let observed = match observe::observed() && image.text.1 > 0 {
            true => observe::tell_of(&domain.name, &domain.window, image.text, (from_ref(&saves), &image.names)),
            false => Observed::default(),
        };
        let number = self.supply.lives.new_link();
        links.all.push(Link {
            number,
            library: library.id,
            name: library.name.clone(),
            private: library.private,
            running: true,
            handles: 0,
            stays: true,
            at_exit: image.at_exit,
            observed,
            word: self.supply.lives.words.take(),
            saves,
            text,
            walks: image.walks,
            parts,
            names: image.names,
            functions: image.functions,
            variables: image.variables,
            finalisers: image.finalisers,
            needs,
            account,
        });
        Ok((number, image.initialisers))
    }

    /// Prepares the world for a domain that uses more state of the processor than before.
    fn admit_usage(&mut self, index: DomainId, usage: Usage, library: &str) -> Result<(), LibraryError> {
        let domain = &mut self.domains[index];
        let (was, all) = (domain.side(), domain.usage.union(usage));
        let is = Side { usage: all, ..was };
        if is.facts() == was.facts() {
            domain.usage = all;
            return Ok(());
        }
        // SAFETY: the header of the world's control stack, which lives as long as the world.
        if unsafe { (*self.gates.control.context()).depth } > 0 {
            return Err(LibraryError::Busy { domain: domain.name.clone(), library: library.to_owned() });
        }
        domain.usage = all;
        let x87 = all.x87 && !self.gates.any_x87;
        self.gates.note_x87(all);
        // Functions that the host looked up do not clear and restore the new state.
        for other in self.domains.ids().filter(|other| x87 || *other == index) {
            self.renew(other);
        }
        Ok(self.write_all()?)
    }

    /// Makes the host look up the functions of a domain again.
    pub(crate) fn renew(&mut self, index: DomainId) {
        let domain = &self.domains[index];
        // SAFETY: the state lives as long as the world, which is borrowed mutably.
        unsafe { (*domain.state).generation += 1 };
        for link in domain.links.iter().flat_map(|links| &links.all) {
            self.supply.lives.words.change(link.word);
        }
    }

    /// Returns the places of the regions that a domain's specification shares.
    fn regions_of(&self, index: DomainId) -> Vec<Placed> {
        let all = &self.domains[index].region_places;
        let find = |region: &str| all.iter().find(|(name, _)| name == region).map(|(_, place)| *place);
        let shared = &self.domains[index].spec.shared;
        shared.iter().map(|share| find(&share.region).unwrap_or_default()).collect()
    }
}

/// Finds a global symbol of a domain or of its libraries.
fn symbol(domain: &Domain, links: &Links, name: &str) -> Option<Target> {
    let image = &domain.image;
    let function = image.functions_by_name.get(name).map(|offset| (*offset, true));
    let found = function.or_else(|| image.variables.get(name).map(|offset| (*offset, false)));
    found.map(|(offset, code)| Target::Outside { offset, code }).or_else(|| links.symbol(name))
}

/// Returns the numbers of the links whose places a library refers to.
fn needs(links: &Links, plan: &Plan<'_>) -> Vec<u64> {
    let used = |link: &&Link| plan.outside().any(|place| link.holds(place));
    links.all.iter().filter(used).map(|link| link.number).collect()
}

/// Unmaps the parts of a library. Nothing leads to them.
pub(crate) fn unmap(domain: &Domain, links: &mut Links, parts: &[(WindowOffset, u64)]) {
    for (at, length) in parts {
        // A part that cannot be unmapped stays as it is, and its place is not used again.
        if domain.window.unmap(*at, *length).is_ok() {
            links.map.release(*at);
        }
    }
}
