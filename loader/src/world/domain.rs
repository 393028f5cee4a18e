//! A domain of a world, and the description of its faults.

use crate::fault::describe::{self, Scene};
use crate::fault::last;
use crate::fault::names::Names;
use crate::fault::report::Fault;
use crate::fault::stray::{self, AROUND, Nearest, Refused, Whose};
use crate::fault::trace::FaultThread;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::{ById, DomainId, RegionId};
use crate::gate::kept::KeptParts;
use crate::gate::records::DomainState;
use crate::gate::stubs;
use crate::link::image::Image;
use crate::load::observe::Observed;
use crate::load::raised::Raised;
use crate::spec::{Access, DomainSpec};
use crate::vm::address::WindowOffset;
use crate::vm::memory::{self, Memory};
use crate::vm::region::Placed;
use crate::vm::window::Window;
use crate::world::bindings::policy::Side;
use crate::world::links::record::{Link, Links};
use sfi_contract::Mode;
use sfi_contract::layout::{DISPATCH_SIZE, WINDOW_SIZE};
use sfi_verifier::{Usage, Vectors};
use std::cell::Cell;
use std::sync::Arc;

/// One loaded domain.
pub(crate) struct Domain {
    pub name: String,
    pub mode: Mode,
    /// A debugger's record of the text, dropped before the window.
    pub observed: Observed,
    /// Libraries that were linked into it in this life, dropped before the window.
    pub links: Option<Box<Links>>,
    pub window: Window,
    pub state: *mut DomainState,
    pub image: Arc<Image>,
    /// The verifier's facts about the state that its text uses, with that of its libraries.
    pub usage: Usage,
    pub initial_sp: u64,
    /// The return addresses and saved registers of its fibers.
    pub kept: KeptParts,
    /// Number of an instance. 0 for the domains that were described, and for a discarded instance.
    pub life: u64,
    /// Number of its present life among those of the world's domains. 0 until the domain is
    /// restarted, reset or loaded again, or an instance takes its place.
    pub birth: u64,
    /// The domain whose instance it is, or itself for the domains that were described. They share
    /// their bindings.
    pub origin: DomainId,
    /// Its specification.
    pub spec: Arc<DomainSpec>,
    /// Functions that other domains import, besides those that the specification exports.
    pub roots: Vec<String>,
    /// The number of automatic restarts.
    pub restarts: u32,
    /// The fault before the last automatic restart.
    pub crash: Option<Fault>,
    /// True if the host was given an address in its memory.
    pub viewed: Cell<bool>,
    /// True if its owner knows of the fault in its state.
    pub settled: bool,
    /// The mapped segments, if regions became visible or invisible since it was loaded.
    pub own_segments: Option<Vec<memory::Segment>>,
    /// These regions.
    pub shown: Vec<(RegionId, Option<Access>)>,
    /// All regions of the world, visible or not.
    pub region_places: Arc<ById<RegionId, RegionPlace>>,
    /// True from the moment in which a reload replaces it until all bindings lead to it. If the
    /// reload fails in between it stays dead, because a binding may lead to the old window.
    pub torn: bool,
    /// The thread that enters it, if that is a further one of the domain or a lane.
    pub thread: Option<FaultThread>,
    /// True if it may hand floats on without naming a vector register. That is so if a binding from
    /// it or to it has floats in its signature or no signature, or if it connects or registers
    /// entry points while calls are in progress. See [`crate::world::inner::Inner::pass_floats`].
    pub passes_floats: bool,
}

/// A shared region's name and its place.
pub(crate) type RegionPlace = (String, Placed);

impl Domain {
    /// Makes a domain that was described, in its window.
    pub(crate) fn new(index: DomainId, raised: Raised, spec: Arc<DomainSpec>) -> Self {
        Self::with(Box::into_raw(Box::new(raised.state(index, 0))), index, raised, spec)
    }

    /// Makes a domain with an existing state.
    pub(crate) fn with(state: *mut DomainState, index: DomainId, raised: Raised, spec: Arc<DomainSpec>) -> Self {
        Self {
            name: spec.name.clone(),
            mode: spec.mode,
            state,
            observed: raised.observed,
            links: None,
            window: raised.window,
            usage: first_usage(raised.image.usage, &spec),
            image: raised.image,
            initial_sp: raised.initial_sp,
            kept: raised.kept,
            life: 0,
            birth: 0,
            origin: index,
            passes_floats: true,
            spec,
            roots: Vec::new(),
            restarts: 0,
            crash: None,
            viewed: Cell::new(false),
            settled: false,
            torn: false,
            thread: None,
            own_segments: None,
            shown: Vec::new(),
            region_places: Arc::default(),
        }
    }

    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory { window: &self.window, segments: self.segments() }
    }

    /// Returns the mapped segments.
    pub(crate) fn segments(&self) -> &[memory::Segment] {
        self.own_segments.as_deref().unwrap_or(&self.image.segments)
    }

    /// Adds segments of a library.
    pub(crate) fn add_segments(&mut self, new: Vec<memory::Segment>) {
        let segments = self.own_segments.get_or_insert_with(|| self.image.segments.clone());
        for segment in new {
            let at = segments.partition_point(|s| s.offset < segment.offset);
            segments.insert(at, segment);
        }
    }

    /// Drops segments of a library, by their places.
    pub(crate) fn drop_segments(&mut self, parts: &[(WindowOffset, u64)]) {
        if let Some(segments) = &mut self.own_segments {
            segments.retain(|segment| !parts.iter().any(|(at, _)| *at == segment.start()));
        }
    }

    /// Finds the library with text at a place.
    pub(crate) fn link_at(&self, place: WindowOffset) -> Option<&Link> {
        let links = self.links.as_ref()?;
        links.all.iter().find(|link| link.text.contains(&place))
    }

    /// Returns the names of a place of text, of the image or of a library.
    pub(crate) fn names_at(&self, place: WindowOffset) -> &Arc<Names> {
        self.link_at(place).map_or(&self.image.names, |link| &link.names)
    }

    /// Returns the code that the dispatch slot at a place holds: code of the domain, or a gateway.
    pub(crate) fn code_in(&self, slot: WindowOffset) -> Option<WindowOffset> {
        let number = self.image.slot_at(slot);
        let code = number.and_then(|number| self.image.slots.get(number)).copied();
        let code = code.or_else(|| self.links.as_ref()?.slots.code(slot));
        code.filter(|_| number != Some(0))
    }

    /// Returns the facts that crossings depend on.
    pub(crate) fn side(&self) -> Side {
        let image = &self.image;
        Side {
            usage: self.usage,
            mode: self.mode,
            reads_client_stack: image.reads_client_stack,
            passes_floats: self.passes_floats,
            budgeted: self.spec.instructions.is_some(),
        }
    }
}

/// Returns the facts about the state that a domain's text uses at its start. A domain that may open
/// libraries counts as one that uses all state but that of AVX-512, so that it can open them in
/// calls. One with room for libraries counts as one that uses GS, so that it can get them in calls.
pub(crate) fn first_usage(image: Usage, spec: &DomainSpec) -> Usage {
    let image = Usage { gs: image.gs || spec.link_room.is_some(), ..image };
    if spec.libraries.is_empty() {
        return image;
    }
    let gprs = Usage { gprs_written: u16::MAX, preserved_named: Usage::PRESERVED, ..Usage::default() };
    image.union(Usage { vectors: Vectors::Ymm, x87: true, x87_places: true, mxcsr: true, gs: true, ..gprs })
}

impl Domain {
    /// Describes the fault of one of the domains.
    ///
    /// # Safety
    /// No call is in progress that could write the domain's record.
    pub(crate) unsafe fn describe(domains: &ById<DomainId, Domain>, index: DomainId) -> Fault {
        let this = &domains[index];
        // SAFETY: the state lives as long as the domain; see the function's contract.
        let (raw, trace) = unsafe { ((*this.state).fault, (*this.state).trace) };
        this.describe_in((&this.window, this.thread), &raw, &trace, index, domains)
    }

    /// Describes a fault of this domain that a thread met in its window: its own, or another lane
    /// in that lane's. It becomes the last fault.
    pub(crate) fn describe_in(
        &self,
        (window, thread): (&Window, Option<FaultThread>),
        raw: &RawFault,
        trace: &Trace,
        index: DomainId,
        domains: &ById<DomainId, Domain>,
    ) -> Fault {
        // A further thread stores through its own window. People know the place in the first one.
        let own = window.place(raw.address).filter(|_| window.is_view());
        let address = own.map_or(raw.address, |place| self.window.address(place).number());
        let fault = describe::describe(
            &RawFault { address, ..*raw },
            trace,
            &Scene {
                index,
                thread,
                names: &|index, place| {
                    domains.get(index).map(|domain| (domain.name.clone(), Arc::clone(domain.names_at(place))))
                },
                name: &self.name,
                base: self.window.text_base(),
                stack_guard: self.image.stack_guard,
                mapped: &|at| self.segments().iter().any(|s| (s.offset..s.end()).contains(&at.bytes())),
                region: &|address| self.region_at(address).cloned(),
                refused: &|at| self.refused(at.bytes()),
                owner: &|address| self.owner_of(domains, address),
                trap: self.image.trap,
                dispatch: WindowOffset::new(self.image.anchors.dispatch),
                cut_traps: [stubs::RETURN_TRAP, stubs::CUT_TRAP].map(|offset| self.image.trap - stubs::TRAP + offset),
                fiber_traps: [stubs::KEEP_TRAP, stubs::BRING_TRAP].map(|offset| self.image.trap - stubs::TRAP + offset),
                function: &|at| self.names_at(at).function(at.bytes()),
            },
        );
        last::note(&fault);
        fault
    }

    /// Finds the region at an address: in the domain's window, visible or not, or among the common
    /// addresses that the domain was given.
    fn region_at(&self, address: u64) -> Option<&String> {
        let own = |place: &Placed| {
            let distance = self.window.place(address).and_then(|at| at.checked_sub(place.offset));
            distance.is_some_and(|distance| distance < place.length)
        };
        let mut all = self.region_places.enumerate();
        let found = all.find(|(id, (name, place))| own(place) || place.holds(address) && self.was_given(*id, name));
        found.map(|(_, (name, _))| name)
    }

    /// Says whether the domain sees or saw a region, so that the region's common addresses are no
    /// secret from it.
    fn was_given(&self, id: RegionId, name: &str) -> bool {
        self.spec.root || self.spec.shared.iter().any(|s| s.region == name) || self.shown.iter().any(|s| s.0 == id)
    }

    /// Says whether the domain sees a region, judging by its window.
    pub(crate) fn sees(&self, region: &Placed) -> bool {
        let segments = self.segments();
        segments.binary_search_by_key(&region.offset, memory::Segment::start).is_ok_and(|at| segments[at].shared)
    }

    /// Says whether the domain's loads use a region's common addresses. Those of mode full do not,
    /// because they are confined.
    pub(crate) fn reads(&self, region: &Placed) -> bool {
        self.mode != Mode::Full && self.sees(region)
    }

    /// Returns a pointer of another domain in this one's terms, as the gates pass it.
    pub(crate) fn rebase(&self, pointer: u64) -> u64 {
        // SAFETY: the state lives as long as the world.
        let stays = pointer == 0 || unsafe { &(*self.state).regions }.hold(pointer);
        let offset = WindowOffset::of_pointer(pointer);
        match stays {
            true => pointer,
            false if (offset.bytes() ^ self.image.anchors.dispatch) < DISPATCH_SIZE => offset.bytes(),
            false => self.window.address(offset).number(),
        }
    }

    /// Finds the instruction whose check's trap ends at a window offset, in mode match.
    fn refused(&self, offset: u64) -> Option<Refused> {
        let place = WindowOffset::new(offset);
        let (start, length) = self.names_at(place).text;
        let text = start..start + length;
        if self.mode != Mode::Match || !text.contains(&offset) {
            return None;
        }
        let from = offset.saturating_sub(AROUND).max(text.start);
        let mut bytes = vec![0; (text.end.min(offset + AROUND) - from) as usize];
        self.window.read(WindowOffset::new(from), &mut bytes);
        stray::refused(&bytes, (offset - from) as usize)
    }

    /// Finds the owner of an address that this domain used, and the part of a window next to it.
    fn owner_of(&self, domains: &ById<DomainId, Domain>, address: u64) -> (Whose, Option<Nearest>) {
        let base = address & !(WINDOW_SIZE - 1);
        let holds = |domain: &&Domain| base != 0 && domain.window.text_base().number() == base;
        let own = || stray::nearest(self.segments(), address);
        match domains.iter().find(holds) {
            _ if address < stray::NULL => (Whose::Null, None),
            Some(domain) if std::ptr::eq(domain, self) => (Whose::Own, own()),
            Some(domain) => (Whose::Domain(domain.name.clone()), stray::nearest(domain.segments(), address)),
            None => match self.region_at(address) {
                Some(region) => (Whose::Region(region.clone()), None),
                None => (Whose::Nobody, own()),
            },
        }
    }
}
