//! Links a library into a live domain: verified objects become parts for a window at 0, as a
//! domain's own objects do. The parts refer to places that the domain has already, and no place of
//! the domain refers to them.

use crate::fault::names::Names;
use crate::gate::stubs;
use crate::link::dispatch::{self, Dispatch};
use crate::link::error::LinkError;
use crate::link::image::{ByName, Content, Image};
use crate::link::layout::{self, Layout, Part};
use crate::link::place::{Map, Places};
use crate::link::references::{self, relocations, takes_address};
use crate::link::reloc::{self, Addresses};
use crate::link::select::{self, Input};
use crate::link::symbols::{self, Outside, Symbols, Target};
use crate::link::{any_names, debug, fill, functions, functions_of, names, trim, walks};
use crate::spec::DomainSpec;
use crate::spec::library::Library;
use crate::vm::address::WindowOffset;
use crate::vm::region::Placed;
use crate::vm::window::{Protection, Word, pages};
use foldhash::{HashMap, HashMapExt};
use rand_chacha::ChaCha20Rng;
use sfi_contract::names as reserved;
use sfi_verifier::{Usage, Verifier};
use std::sync::Arc;

/// The results of linking that do not depend on places.
pub(crate) struct Plan<'a> {
    inputs: Vec<Input<'a>>,
    symbols: Symbols<'a>,
    layout: Layout,
}

/// The domain that a library is linked into.
pub(crate) struct Home<'h> {
    /// The domain's specification.
    pub spec: &'h DomainSpec,
    /// Its image.
    pub image: &'h Image,
    /// The places of its shared regions.
    pub regions: &'h [Placed],
}

/// A linked library, for a window at 0.
pub(crate) struct LibraryImage {
    /// First place of text, and bytes of it that are not padding.
    pub text: (WindowOffset, u64),
    /// The parts that are mapped.
    pub parts: Vec<PartImage>,
    /// Places outside of the library that its branches may reach.
    pub gateways: Vec<WindowOffset>,
    /// Names of its places.
    pub names: Arc<Names>,
    /// Offsets of global functions, by name.
    pub functions: ByName<WindowOffset>,
    /// Offsets of global variables, by name.
    pub variables: ByName<WindowOffset>,
    /// Code offsets of initialisers, in order.
    pub initialisers: Vec<WindowOffset>,
    /// Code offsets of finalisers, in order.
    pub finalisers: Vec<WindowOffset>,
    /// The verifier's facts about the state that the text uses.
    pub usage: Usage,
    /// An object names a function that registers others for the domain's end.
    pub at_exit: bool,
    /// An object names [`reserved::CUT`] or [`reserved::KEEP`].
    pub walks: bool,
}

/// Functions of a libc that register others for the domain's end.
const AT_EXIT: [&str; 3] = ["atexit", "__cxa_atexit", "__cxa_thread_atexit_impl"];

/// Slots that a library asks for.
pub(crate) enum Ask<'c> {
    /// The slot of a code place, which all pointers to it mean.
    One(WindowOffset),
    /// Slots in a row that hold these code places. Only displacements of the library name them.
    Run(&'c [WindowOffset]),
}

/// One part of a library.
pub(crate) struct PartImage {
    /// The kind.
    pub part: Part,
    /// Length in whole pages.
    pub length: u64,
    /// Its initial bytes. The rest is zero.
    pub content: Content,
}

impl PartImage {
    /// Returns a name of its contents.
    pub(crate) fn name(&self) -> &'static str {
        match self.part {
            Part::Text => "text",
            Part::Constants => "constants",
            Part::Data | Part::Locals => "data",
        }
    }

    /// Returns the protection once it is sealed.
    pub(crate) fn protection(&self) -> Protection {
        match self.part {
            Part::Text => Protection::ReadExecute,
            Part::Constants => Protection::Read,
            Part::Data | Part::Locals => Protection::ReadWrite,
        }
    }
}

/// Verifies the objects of a library, resolves their symbols, and lays out the parts. Nothing is
/// placed or mapped. `outside` finds the symbols of the domain, and those of libraries that are
/// linked already.
pub(crate) fn plan<'a>(
    home: &Home<'_>,
    library: &'a Library,
    outside: Outside<'_>,
    verifier: &mut Verifier,
) -> Result<Plan<'a>, LinkError> {
    let spec = home.spec;
    let inputs = select::select(spec, &library.files, &[], verifier)?;
    let symbols = symbols::resolve(spec, &inputs, outside)?;
    references::check_undefined(spec, &inputs, &symbols)?;
    let fail = |place: &str, why: &str| {
        let place = format!("library `{}`: {place}", library.name);
        Err(LinkError::Place { domain: spec.name.clone(), place, why: why.into() })
    };
    if !symbols.indirects.is_empty() {
        return fail("IFUNC", "a library has none, because resolvers run before the domain is called");
    }
    let layout = layout::lay_out(spec, &inputs, &symbols, 0)?;
    if layout.sizes[Part::Locals as usize] > 0 {
        return fail("thread locals", "a library has none, because the domain's have their place already");
    }
    let named = |name: &str| any_names(&inputs, name);
    if named(reserved::CLIENT_STACK) && !home.image.reads_client_stack {
        return fail(reserved::CLIENT_STACK, "the domain's own objects do not name it");
    }
    if named(reserved::KEEP) && !home.image.switches_fibers {
        return fail(reserved::KEEP, "the domain's own objects do not name it");
    }
    Ok(Plan { inputs, symbols, layout })
}

impl Plan<'_> {
    /// Returns the bytes of all parts, in whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.layout.sizes.iter().copied().map(pages).sum()
    }

    /// Returns the parts that it has.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + use<'_> {
        Part::ALL.into_iter().filter(|part| self.layout.sizes[*part as usize] > 0)
    }

    /// Returns the places of the domain and of other libraries that it refers to.
    pub(crate) fn outside(&self) -> impl Iterator<Item = WindowOffset> + use<'_> {
        let place = |target: &Target| match target {
            Target::Outside { offset, .. } => Some(*offset),
            _ => None,
        };
        self.symbols.targets.iter().flatten().filter_map(place)
    }

    /// Returns the range of its text, without padding.
    pub(crate) fn text(&self, places: &Places) -> std::ops::Range<WindowOffset> {
        let start = places.parts[Part::Text as usize];
        start..start + self.layout.sizes[Part::Text as usize]
    }

    /// Gives back the places that [`Plan::place`] took.
    pub(crate) fn release(&self, places: &Places, map: &mut Map) {
        self.parts().for_each(|part| map.release(places.parts[part as usize]));
    }

    /// Draws a place for each part. Gives back what it took if there is no room.
    pub(crate) fn place(&self, home: &Home<'_>, map: &mut Map, rng: &mut ChaCha20Rng) -> Result<Places, LinkError> {
        let mut parts = [WindowOffset::ZERO; 4];
        for part in self.parts() {
            let (length, align) = (pages(self.layout.sizes[part as usize]), self.layout.aligns[part as usize]);
            let Some(at) = map.take(rng, length, align) else {
                parts.into_iter().filter(|at| *at != WindowOffset::ZERO).for_each(|at| map.release(at));
                return Err(LinkError::NoRoom { domain: home.spec.name.clone(), part: format!("library's {part:?}") });
            };
            parts[part as usize] = at;
        }
        Ok(Places::of_library(parts, home.image.trap - stubs::TRAP, home.image.anchors))
    }

    /// Relocates the parts. `slot` gives the number of the first dispatch slot, which it may take
    /// for the library.
    pub(crate) fn link(
        &self,
        home: &Home<'_>,
        places: &Places,
        slot: &mut dyn FnMut(Ask<'_>) -> Option<usize>,
    ) -> Result<LibraryImage, LinkError> {
        let Plan { inputs, symbols, layout } = self;
        let spec = home.spec;
        let dispatch = self.slots(home, places, slot)?;
        let mut parts = fill(inputs, layout, &[]);
        let addresses = Addresses { layout, places, dispatch: &dispatch, regions: home.regions };
        let words = reloc::apply(spec, inputs, symbols, &addresses, &mut parts)?;
        let run = |base: &str| functions_of(spec, inputs, layout, &parts, &words, &dispatch, base);
        let mut initialisers = run(".preinit_array")?;
        initialisers.extend(run(".init_array")?);
        let finalisers = run(".fini_array")?.into_iter().rev().collect();
        let text = (places.parts[Part::Text as usize], layout.sizes[Part::Text as usize]);
        let (functions_by_name, variables) = names(symbols, layout, places);
        let names = Names {
            text: (text.0.bytes(), text.1),
            functions: functions(inputs, layout, places),
            debug: debug::collect(inputs, layout, places),
        };
        Ok(LibraryImage {
            text,
            gateways: self.gateways(places),
            names: Arc::new(names),
            functions: functions_by_name,
            variables,
            initialisers,
            finalisers,
            usage: inputs.iter().fold(Usage::default(), |all, input| all.union(input.usage)),
            parts: self.images(places, parts, words),
            at_exit: AT_EXIT.into_iter().any(|name| any_names(inputs, name)),
            walks: walks(inputs),
        })
    }

    /// Finds the slots of all code places whose address a relocation takes, and the first slot of
    /// each array.
    fn slots(
        &self,
        home: &Home<'_>,
        places: &Places,
        slot: &mut dyn FnMut(Ask<'_>) -> Option<usize>,
    ) -> Result<Dispatch, LinkError> {
        let full = || {
            let why = "the slots that are reserved for libraries are used; see `LinkRoom::slots`".into();
            LinkError::Place { domain: home.spec.name.clone(), place: "dispatch table".into(), why }
        };
        let mut index = HashMap::new();
        for (_, _, r, target) in relocations(&self.inputs, &self.symbols) {
            if !takes_address(r.kind) {
                continue;
            }
            let Some(code) = places.code(target, &self.layout) else { continue };
            if let std::collections::hash_map::Entry::Vacant(entry) = index.entry(code) {
                entry.insert(slot(Ask::One(code)).ok_or_else(full)?);
            }
        }
        let mut arrays = HashMap::new();
        for (input, section, codes) in dispatch::arrays(home.spec, &self.inputs, &self.symbols, &self.layout, places)? {
            arrays.insert((input, section), slot(Ask::Run(&codes)).ok_or_else(full)?);
        }
        Ok(Dispatch::of_library(home.image.table, index, arrays))
    }

    /// Lists the places outside of the library that a symbol of an object means: gateways, and
    /// functions by their names. All of them were verified as targets of indirect branches.
    fn gateways(&self, places: &Places) -> Vec<WindowOffset> {
        let outside = |target: &&Target| {
            matches!(target, Target::Outside { code: true, .. } | Target::Import(_) | Target::Stub(_) | Target::Nothing)
        };
        let targets = self.symbols.targets.iter().flatten().filter(outside);
        let place = |target: &Target| match target {
            Target::Nothing => Some(places.stubs + stubs::TRAP),
            _ => places.code(*target, &self.layout),
        };
        targets.filter_map(place).collect()
    }

    /// Returns the parts with their bytes.
    fn images(&self, places: &Places, parts: [Vec<u8>; 4], words: [Vec<Word>; 4]) -> Vec<PartImage> {
        let mut all = Vec::new();
        for ((part, mut bytes), words) in Part::ALL.into_iter().zip(parts).zip(words) {
            if self.layout.sizes[part as usize] == 0 {
                continue;
            }
            if part != Part::Text {
                trim(&mut bytes, &words);
            }
            let (offset, writable) = (places.parts[part as usize], part == Part::Data);
            let content = Content { offset, bytes, words, writable, stored: false };
            all.push(PartImage { part, length: pages(self.layout.sizes[part as usize]), content });
        }
        all
    }
}
