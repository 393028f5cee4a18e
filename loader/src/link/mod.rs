//! Links one domain: verified objects and their places become an image.

pub(crate) mod advice;
pub(crate) mod debug;
pub(crate) mod dispatch;
pub(crate) mod error;
pub(crate) mod image;
pub(crate) mod image_form;
pub(crate) mod layout;
pub(crate) mod library;
pub(crate) mod place;
pub(crate) mod references;
pub(crate) mod reloc;
pub(crate) mod select;
pub(crate) mod symbols;

use crate::fault::names::Names;
use crate::gate::enabled_features;
use crate::gate::stubs::{self, Stub};
use crate::link::dispatch::Dispatch;
use crate::link::error::LinkError;
use crate::link::image::{ByName, Content, EStack, Image, ThreadLocals};
use crate::link::layout::{Layout, Part};
use crate::link::place::Places;
use crate::link::reloc::Addresses;
use crate::link::select::Input;
use crate::link::symbols::{Resolver, Symbols, Target};
use crate::spec::{Access, DomainSpec, Share};
use crate::vm::address::WindowOffset;
use crate::vm::memory::{HEAP, Segment};
use crate::vm::region::Placed;
use crate::vm::window::Word;
use crate::vm::window::{Protection, pages};
use foldhash::fast::RandomState;
use sfi_contract::layout::{
    HEADER_BASE, HEADER_FEATURES, HEADER_HEAP_END, HEADER_HEAP_START, HEADER_LOCALS, HEADER_MINUS,
    HEADER_MINUS_DISPATCH, HEADER_REGIONS, HEADER_STACK_HIGH, HEADER_STACK_LOW, HEADER_TCB, PAGE_SIZE, REGION_SLOTS,
    TCB_SIZE, no_region,
};
use sfi_verifier::elf::number::STT_FUNC;
use sfi_verifier::{Usage, Verifier};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The name of a shared region's segment is this and the region's name.
pub(crate) const REGION: &str = "region ";

/// The results of linking that do not depend on the domain's addresses.
pub(crate) struct Plan<'a> {
    /// The verified objects.
    pub inputs: Vec<Input<'a>>,
    /// The resolved symbols.
    pub symbols: Symbols<'a>,
    /// The layout of the parts.
    pub layout: Layout,
    /// The verifier of the objects. It checks the text that will run as well.
    pub verifier: Verifier,
}

/// Selects and verifies the objects, resolves their symbols, and lays out the parts.
pub(crate) fn plan<'a>(spec: &'a DomainSpec, roots: &[String]) -> Result<Plan<'a>, LinkError> {
    let mut verifier = Verifier::new(&select::options(spec));
    let inputs = select::select(spec, &spec.files, roots, &mut verifier)?;
    let symbols = symbols::resolve(spec, &inputs, &|_| None)?;
    references::check_undefined(spec, &inputs, &symbols)?;
    let layout = layout::lay_out(spec, &inputs, &symbols, stubs::size(spec.gateways()))?;
    Ok(Plan { inputs, symbols, layout, verifier })
}

/// Checks a domain's files without loading it: the verifier must accept them, no symbol may be
/// undefined or defined twice, and the parts must fit into an image.
///
/// # Errors
/// The error that loading would give.
pub fn check(spec: &DomainSpec) -> Result<(), LinkError> {
    plan(spec, &spec.roots(&[])).map(drop)
}

/// The places that a planned domain gets.
pub(crate) struct Site<'l> {
    /// The places of the parts.
    pub places: &'l Places,
    /// The places of the domain's shared regions.
    pub regions: &'l [Placed],
    /// The targets of the imports' stubs.
    pub stubs: &'l [Stub],
}

/// Relocates the parts, for a window at 0, and builds the image's tables. Its bytes are in no file
/// yet.
pub(crate) fn link(spec: &DomainSpec, plan: &Plan<'_>, site: &Site<'_>) -> Result<Image, LinkError> {
    let Plan { inputs, symbols, layout, .. } = plan;
    let places = site.places;
    let dispatch = dispatch::collect(spec, inputs, symbols, layout, places)?;
    let stubs = stubs::emit(site.stubs, places.anchors.dispatch);
    let mut parts = fill(inputs, layout, &stubs);
    let indirects = indirects(symbols, layout, places, &dispatch, &mut parts[Part::Text as usize]);
    let addresses = Addresses { layout, places, dispatch: &dispatch, regions: site.regions };
    let words = reloc::apply(spec, inputs, symbols, &addresses, &mut parts)?;
    let at = |part: Part| places.parts[part as usize];
    let text = (at(Part::Text) + layout.text_start, pages(layout.sizes[Part::Text as usize]) - layout.text_start);
    let mut gateways = gateways(at(Part::Text), site.stubs.len());
    let stub = |i: usize| places.code(Target::Choice(i), layout);
    gateways.extend((0..indirects.len()).filter_map(stub));
    let usage = inputs.iter().fold(Usage::default(), |all, input| all.union(input.usage));
    let run = |base: &str| match spec.own_start {
        true => Ok(Vec::new()),
        false => functions_of(spec, inputs, layout, &parts, &words, &dispatch, base),
    };
    let mut initialisers = run(".preinit_array")?;
    initialisers.extend(run(".init_array")?);
    let finalisers = run(".fini_array")?.into_iter().rev().collect();
    let (functions_by_name, variables) = names(symbols, layout, places);
    let ends = |(share, place): (&Share, &Placed)| {
        [(share.symbol.clone(), place.common), (format!("{}_end", share.symbol), place.common + place.length)]
    };
    let regions = spec.shared.iter().zip(site.regions).flat_map(ends).collect();
    let debug = debug::collect(inputs, layout, places);
    let names = Arc::new(Names { text: (text.0.bytes(), text.1), functions: functions(inputs, layout, places), debug });
    Ok(Image {
        segments: segments(spec, layout, places, site.regions, &dispatch),
        mappings: Vec::new(),
        discarded: Vec::new(),
        zeroed: Vec::new(),
        text_file: None,
        data_file: None,
        text,
        anchors: places.anchors,
        table: dispatch.start,
        trap: at(Part::Text) + stubs::TRAP,
        gateways,
        spares: (spec.imports.len()..site.stubs.len())
            .filter_map(|spare| dispatch.slot(at(Part::Text) + stubs::import(spare)))
            .collect(),
        names,
        functions_by_name,
        variables,
        regions,
        initialisers,
        finalisers,
        stack_guard: [places.stack_guard, places.stack.0],
        indirects,
        choices: places.choices.iter().map(|(name, length, count)| (Cow::from(*name), *length, *count)).collect(),
        stack: [places.stack.0, places.stack.0 + places.stack.1],
        usage,
        reads_client_stack: any_names(inputs, sfi_contract::names::CLIENT_STACK),
        saves: Arc::default(),
        own_depths: OnceLock::new(),
        switches_fibers: any_names(inputs, sfi_contract::names::KEEP),
        walks: walks(inputs),
        thread_locals: places.first_thread.map(|second| thread_locals(second, places, layout, &parts, &words)),
        estacks: places.estacks.iter().map(|at| estack(*at, places)).collect(),
        contents: contents(parts, words, site, &dispatch, layout),
        reserved: dispatch.reserved,
        pointers: dispatch.pointers,
        slots: dispatch.slots,
    })
}

/// Returns the parts' bytes before relocation: stubs and sections. Text is int3 outside of them.
/// The other parts have only the bytes that files give them.
fn fill(inputs: &[Input<'_>], layout: &Layout, stubs: &[u8]) -> [Vec<u8>; 4] {
    let mut parts = Part::ALL.map(|part| match part {
        Part::Text => vec![0xcc; pages(layout.sizes[part as usize]) as usize],
        _ => vec![0; layout.stored[part as usize] as usize],
    });
    parts[Part::Text as usize][..stubs.len()].copy_from_slice(stubs);
    for (input, from) in inputs.iter().enumerate() {
        for (section, s) in from.object.sections.iter().enumerate() {
            // A section without bytes may lie beyond the stored bytes of its part.
            if let Some(spot) = layout.sections[input][section].filter(|_| !s.data.is_empty()) {
                let offset = spot.offset as usize;
                parts[spot.part as usize][offset..offset + s.data.len()].copy_from_slice(s.data);
            }
        }
    }
    parts
}

/// Writes the stubs of IFUNCs. Returns the slot and the resolver of each. The domain fills the
/// slots when it runs (see `world/ifunc.rs`).
fn indirects(
    symbols: &Symbols<'_>,
    layout: &Layout,
    places: &Places,
    dispatch: &Dispatch,
    text: &mut [u8],
) -> Vec<(WindowOffset, WindowOffset)> {
    let mut indirects = Vec::new();
    for (index, resolver) in symbols.indirects.iter().enumerate() {
        let Resolver { input, section, offset } = *resolver;
        let at = (layout.indirects + stubs::CHOICE * index as u64) as usize;
        text[at..at + stubs::CHOICE as usize].copy_from_slice(&stubs::choice(dispatch.choice(index).bytes()));
        if let Some(code) = places.code(Target::Section { input, section, offset }, layout) {
            indirects.push((dispatch.choice(index), code));
        }
    }
    indirects
}

/// Says whether some object names a stub that walks over saved words.
fn walks(inputs: &[Input<'_>]) -> bool {
    [sfi_contract::names::CUT, sfi_contract::names::KEEP].into_iter().any(|stub| any_names(inputs, stub))
}

/// Says whether some object names a symbol.
fn any_names(inputs: &[Input<'_>], name: &str) -> bool {
    inputs.iter().flat_map(|i| &i.object.symbols).any(|s| s.name == name)
}

fn gateways(text: WindowOffset, imports: usize) -> Vec<WindowOffset> {
    stubs::FIXED.into_iter().chain((0..imports).map(stubs::import)).map(|o| text + o).collect()
}

/// Reads the code offsets in an array of initialisers or finalisers.
fn functions_of(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    layout: &Layout,
    parts: &[Vec<u8>; 4],
    words: &[Vec<Word>; 4],
    dispatch: &Dispatch,
    array: &str,
) -> Result<Vec<WindowOffset>, LinkError> {
    let Some((first, end)) = layout::array_range(inputs, layout, array) else { return Ok(Vec::new()) };
    let fail = |why: &str| LinkError::Place { domain: spec.name.clone(), place: array.to_owned(), why: why.to_owned() };
    // The bytes after the stored ones are zero, so they are no functions.
    let stored = parts[first.part as usize].get(first.offset as usize..).unwrap_or_default();
    let bytes = &stored[..stored.len().min((end - first.offset) as usize)];
    if !(end - first.offset).is_multiple_of(8) {
        return Err(fail("the array does not hold whole pointers"));
    }
    let mut functions = Vec::new();
    for (index, word) in bytes.as_chunks().0.iter().enumerate() {
        let pointer = u64::from_le_bytes(*word);
        let at = (first.offset + 8 * index as u64) as u32;
        let in_window = words[first.part as usize].binary_search(&Word { at, minus: false }).is_ok();
        // gABI: 0 and -1 are ignored.
        if in_window || (pointer != 0 && pointer != u64::MAX) {
            let code = dispatch.code(WindowOffset::new(pointer)).filter(|_| in_window);
            functions.push(code.ok_or_else(|| fail("an entry is not a function pointer"))?);
        }
    }
    Ok(functions)
}

/// Lists the segments of the window.
fn segments(
    spec: &DomainSpec,
    layout: &Layout,
    places: &Places,
    regions: &[Placed],
    dispatch: &Dispatch,
) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut add = |name: &str, offset: WindowOffset, length: u64, protection: Protection, shared: bool| {
        if length > 0 {
            segments.push(Segment {
                name: name.to_owned(),
                offset: offset.bytes(),
                length: pages(length),
                protection,
                shared,
            });
        }
    };
    add("header page", WindowOffset::new(places.anchors.header), PAGE_SIZE, Protection::Read, false);
    add("dispatch table", dispatch.start, 8 * dispatch.slots.len() as u64, Protection::Read, false);
    let (locals, length) = places.locals();
    add("thread locals", locals, length, Protection::ReadWrite, false);
    if let Some(second) = places.first_thread {
        add("first thread's locals", second, length, Protection::ReadWrite, false);
    }
    let part = |part: Part| (places.parts[part as usize], layout.sizes[part as usize]);
    for (name, which, protection) in [
        ("text", Part::Text, Protection::ReadExecute),
        ("constants", Part::Constants, Protection::Read),
        ("data", Part::Data, Protection::ReadWrite),
    ] {
        let (offset, length) = part(which);
        add(name, offset, length, protection, false);
    }
    for at in &places.estacks {
        add("E-stack", *at, places.stack.1 + length, Protection::ReadWrite, false);
    }
    add(HEAP, places.heap.0, places.heap.1, Protection::ReadWrite, false);
    add("data stack", places.stack.0, places.stack.1, Protection::ReadWrite, false);
    for (share, place) in spec.shared.iter().zip(regions) {
        let protection = match share.access {
            Access::Read => Protection::Read,
            Access::ReadWrite => Protection::ReadWrite,
        };
        add(&format!("{REGION}{}", share.region), place.offset, place.length, protection, true);
    }
    segments.sort_by_key(|s| s.offset);
    segments
}

/// Lists the bytes that are written before sealing.
fn contents(
    parts: [Vec<u8>; 4],
    words: [Vec<Word>; 4],
    site: &Site<'_>,
    dispatch: &Dispatch,
    layout: &Layout,
) -> Vec<Content> {
    let stored = false;
    let table = dispatch.bytes();
    let all = (0..table.len() as u32).step_by(8).map(|at| Word { at, minus: false }).collect();
    let mut contents = vec![
        header(site),
        Content { offset: dispatch.start, bytes: table, words: all, writable: false, stored },
        tcb(site.places),
    ];
    for ((part, mut bytes), words) in Part::ALL.into_iter().zip(parts).zip(words) {
        if part != Part::Text {
            trim(&mut bytes, &words);
        }
        if layout.sizes[part as usize] > 0 && !bytes.is_empty() {
            let writable = matches!(part, Part::Data | Part::Locals);
            contents.push(Content { offset: site.places.parts[part as usize], bytes, words, writable, stored });
        }
    }
    contents
}

/// Drops the zeroed end of a part's bytes, which needs no page before the domain touches it.
fn trim(bytes: &mut Vec<u8>, words: &[Word]) {
    let last = words.last().map_or(0, |w| w.at as usize + 8);
    let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1).max(last);
    bytes.truncate(used);
}

/// Describes the locals of each thread.
fn thread_locals(
    second: WindowOffset,
    places: &Places,
    layout: &Layout,
    parts: &[Vec<u8>; 4],
    words: &[Vec<Word>; 4],
) -> ThreadLocals {
    let locals = Part::Locals as usize;
    let (place, length) = places.locals();
    let initial = Content {
        offset: places.parts[locals],
        bytes: parts[locals].clone(),
        words: words[locals].clone(),
        writable: true,
        stored: false,
    };
    ThreadLocals { place, length, second, size: layout.sizes[locals], initial }
}

/// Divides the memory of a lane.
fn estack(at: WindowOffset, places: &Places) -> EStack {
    let end = at + places.stack.1;
    EStack { stack: [at, end], locals: end }
}

/// Makes the header page.
fn header(site: &Site<'_>) -> Content {
    let mut bytes = vec![0; PAGE_SIZE as usize];
    let mut words = Vec::new();
    let places = site.places;
    for (field, offset) in [
        (HEADER_BASE, 0),
        (HEADER_TCB, places.thread_pointer().bytes()),
        (HEADER_HEAP_START, places.heap.0.bytes()),
        (HEADER_HEAP_END, places.heap.0.bytes() + places.heap.1),
        (HEADER_STACK_LOW, places.stack.0.bytes()),
        (HEADER_STACK_HIGH, places.stack.0.bytes() + places.stack.1),
    ] {
        let at = field.addend as usize;
        bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        words.push(Word { at: at as u32, minus: false });
    }
    let at = HEADER_FEATURES.addend as usize;
    bytes[at..at + 8].copy_from_slice(&enabled_features().to_le_bytes());
    for (field, offset) in [(HEADER_MINUS, 0), (HEADER_MINUS_DISPATCH, places.anchors.dispatch)] {
        let at = field.addend as usize;
        bytes[at..at + 8].copy_from_slice(&offset.wrapping_neg().to_le_bytes());
        words.push(Word { at: at as u32, minus: true });
    }
    let at = HEADER_LOCALS.addend as usize;
    bytes[at..at + 8].copy_from_slice(&(places.locals().1 - TCB_SIZE).to_le_bytes());
    let at = HEADER_REGIONS.addend as usize;
    let regions: Vec<u8> = (0..REGION_SLOTS).flat_map(|slot| no_region(slot).to_le_bytes()).collect();
    bytes[at..at + regions.len()].copy_from_slice(&regions);
    Content { offset: WindowOffset::new(places.anchors.header), bytes, words, writable: false, stored: false }
}

/// Makes the TCB: a pointer to itself (psABI 3.4.6). Each instance has a canary of its own.
fn tcb(places: &Places) -> Content {
    let (offset, words) = (WindowOffset::new(places.anchors.tcb), vec![Word { at: 0, minus: false }]);
    let bytes = places.thread_pointer().bytes().to_le_bytes().to_vec();
    Content { offset, bytes, words, writable: true, stored: false }
}

/// Collects the names of functions by offset, for faults.
fn functions(inputs: &[Input<'_>], layout: &Layout, places: &Places) -> Vec<(u64, u64, String)> {
    let mut all = Vec::new();
    for (input, from) in inputs.iter().enumerate() {
        for symbol in from.object.symbols.iter().filter(|s| !s.name.is_empty() && !s.name.starts_with(".L")) {
            let sfi_verifier::elf::Place::Section(section) = symbol.place else { continue };
            let target = Target::Section { input, section, offset: symbol.value };
            if let Some(offset) = places.code(target, layout) {
                let rank = (symbol.kind != STT_FUNC, !symbol.is_global());
                all.push((offset.bytes(), rank, symbol.size, symbol.name));
            }
        }
    }
    all.sort_unstable();
    all.dedup_by_key(|f| f.0);
    all.into_iter().map(|(offset, _, size, name)| (offset, size, name.to_owned())).collect()
}

/// Collects the offsets of global functions, and those of global variables.
fn names(symbols: &Symbols<'_>, layout: &Layout, places: &Places) -> (ByName<WindowOffset>, ByName<WindowOffset>) {
    let code = symbols.globals.values().filter(|definition| definition.function).count();
    let room = |names: usize| ByName::with_capacity_and_hasher(names, RandomState::default());
    let mut functions = room(code + symbols.wrapped.len());
    let mut variables = room(symbols.globals.len() - code);
    for (name, definition) in &symbols.globals {
        let offset = match definition.target {
            Target::Import(_) => continue,
            Target::Choice(_) => {
                functions.extend(places.code(definition.target, layout).map(|offset| ((*name).to_owned(), offset)));
                continue;
            }
            Target::Common(index) => Some(places.of(layout.commons[index])),
            Target::Section { input, section, offset } => {
                let Some(spot) = layout.sections[input][section] else { continue };
                if spot.part == Part::Text {
                    functions.insert((*name).to_owned(), places.of(spot) + offset);
                    continue;
                }
                Some(places.of(spot) + offset)
            }
            _ => None,
        };
        if let Some(offset) = offset {
            variables.insert((*name).to_owned(), offset);
        }
    }
    for (name, target) in &symbols.wrapped {
        functions.extend(places.code(*target, layout).map(|offset| (wrapped(name), offset)));
    }
    (functions, variables)
}

/// Returns the name under which the host finds a function that an import replaced. An object that
/// defines a function of this name itself has its own function called, and nothing else.
pub(crate) fn wrapped(symbol: &str) -> String {
    format!("(wrapped) {symbol}")
}
