//! A domain of a world, and what faults in it mean.

use crate::fault::names::Names;
use crate::fault::{self, Fault};
use crate::gate::fault::{RawFault, Trace};
use crate::gate::records::DomainState;
use crate::gate::stubs;
use crate::link::image::Image;
use crate::load::raised::Raised;
use crate::spec::{Access, DomainSpec};
use crate::vm::memory::{self, Memory};
use crate::vm::window::Window;
use crate::world::bindings::policy::Side;
use sfi_contract::Mode;
use sfi_contract::layout::WINDOW_SIZE;
use std::sync::Arc;

/// One loaded domain.
pub struct Domain {
    pub name: String,
    pub mode: Mode,
    pub window: Window,
    pub state: *mut DomainState,
    pub image: Arc<Image>,
    pub initial_sp: u64,
    /// Number of an instance; 0 for the domains that were described, and where there is none.
    pub life: u64,
    /// Number of its present life among those of the world's domains; 0 until something that was restarted, reset, loaded again or made
    /// at run time has this place.
    pub birth: u64,
    /// The domain whose instance it is: itself for the domains that were described. They share their bindings.
    pub origin: usize,
    /// What it was made from.
    pub spec: Arc<DomainSpec>,
    /// Functions that other domains import, beside those that the specification exports.
    pub roots: Vec<String>,
    /// How often it was restarted because its specification says so.
    pub restarts: u32,
    /// Why, the last time.
    pub crash: Option<Fault>,
    /// Its owner knows of the fault in its state.
    pub settled: bool,
    /// What is mapped, if regions became visible or invisible since it was loaded.
    pub own_segments: Option<Vec<memory::Segment>>,
    /// Which, by index of the region.
    pub shown: Vec<(usize, Option<Access>)>,
    /// All regions of the world, visible or not.
    pub region_places: Arc<[RegionPlace]>,
    /// It may hand floats on without naming a vector register: some binding from it or to it has floats in its signature or no signature, or
    /// it connects or registers entry points while calls are in progress. See [`crate::world::Inner::pass_floats`].
    pub passes_floats: bool,
}

/// Name, window offset and length of a shared region.
pub type RegionPlace = (String, u64, u64);

impl Domain {
    /// A domain that was described, in its window.
    pub fn new(index: usize, raised: Raised, spec: Arc<DomainSpec>) -> Self {
        Self::with(Box::into_raw(Box::new(raised.state(index, 0))), index, raised, spec)
    }

    /// The same with a state that is there already.
    pub fn with(state: *mut DomainState, index: usize, raised: Raised, spec: Arc<DomainSpec>) -> Self {
        Self {
            name: spec.name.clone(),
            mode: spec.mode,
            state,
            window: raised.window,
            image: raised.image,
            initial_sp: raised.initial_sp,
            life: 0,
            birth: 0,
            origin: index,
            passes_floats: true,
            spec,
            roots: Vec::new(),
            restarts: 0,
            crash: None,
            settled: false,
            own_segments: None,
            shown: Vec::new(),
            region_places: Arc::new([]),
        }
    }

    pub fn memory(&self) -> Memory<'_> {
        Memory { window: &self.window, segments: self.segments() }
    }

    /// What is mapped.
    pub fn segments(&self) -> &[memory::Segment] {
        self.own_segments.as_deref().unwrap_or(&self.image.segments)
    }

    /// What crossings depend on.
    pub fn side(&self) -> Side {
        let image = &self.image;
        Side {
            usage: image.usage,
            mode: self.mode,
            reads_client_stack: image.reads_client_stack,
            passes_floats: self.passes_floats,
        }
    }
}

impl Domain {
    /// Puts a fault of one of the domains into words.
    ///
    /// # Safety
    /// No call is in progress that could write the domain's record.
    pub unsafe fn describe(domains: &[Domain], index: usize) -> Fault {
        let this = &domains[index];
        // SAFETY: the state lives as long as the domain; see the function's contract.
        let (raw, trace) = unsafe { ((*this.state).fault, (*this.state).trace) };
        this.describe_here(&raw, &trace, index, &|index| {
            domains.get(index).map(|domain| (domain.name.clone(), Arc::clone(&domain.image.names)))
        })
    }

    fn describe_here(
        &self,
        raw: &RawFault,
        trace: &Trace,
        index: usize,
        names: &dyn Fn(usize) -> Option<(String, Arc<Names>)>,
    ) -> Fault {
        fault::describe(
            raw,
            trace,
            &fault::Scene {
                index,
                names,
                name: &self.name,
                base: self.window.base(),
                stack_guard: self.image.stack_guard,
                mapped: &|offset| self.segments().iter().any(|s| (s.offset..s.end()).contains(&offset)),
                region: &|offset| {
                    let found = self.region_places.iter().find(|(_, at, length)| (*at..at + length).contains(&offset));
                    found.map(|(name, _, _)| name.clone())
                },
                stores: &|offset| self.stores(offset),
                trap: self.image.trap,
                cut_traps: [stubs::RETURN_TRAP, stubs::CUT_TRAP].map(|offset| self.image.trap - stubs::TRAP + offset),
                function: &|offset| self.image.function(offset),
                matching: self.mode == Mode::Match,
            },
        )
    }

    /// Whether the instruction at a window offset stores.
    fn stores(&self, offset: u64) -> bool {
        let mut bytes = [0; 15];
        if self.memory().read_into(offset, &mut bytes).is_err() || offset >= WINDOW_SIZE {
            return false;
        }
        let mut decoder = iced_x86::Decoder::new(64, &bytes, iced_x86::DecoderOptions::NONE);
        let instruction = decoder.decode();
        let mut factory = iced_x86::InstructionInfoFactory::new();
        factory.info(&instruction).used_memory().iter().any(|m| {
            use iced_x86::OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(m.access(), Write | CondWrite | ReadWrite | ReadCondWrite)
        })
    }
}
