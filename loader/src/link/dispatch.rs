//! The dispatch table: one slot per code address whose address is taken, and the arrays of slots of
//! objects (`docs/CONTRACT.md`, *What relocations mean*).

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part};
use crate::link::place::Places;
use crate::link::references::{relocations, slot_arrays, takes_address};
use crate::link::select::Input;
use crate::link::symbols::{Symbols, Target};
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::window::pages;
use foldhash::{HashMap, HashMapExt};
use sfi_contract::layout::{DISPATCH_SIZE, DISPATCH_SLOTS, PAGE_SIZE};

/// Slots of a page of the table.
pub(crate) const SLOTS_OF_PAGE: usize = PAGE_SIZE as usize / 8;

/// The slots, and the code that they hold.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// Code offset by slot. Slot 0 is the trap, so that a null pointer leads to it.
    pub slots: Vec<WindowOffset>,
    /// The number of slots before those of arrays.
    pub pointers: usize,
    /// Window offset of slot 0.
    pub start: WindowOffset,
    index: HashMap<WindowOffset, usize>,
    /// The code of each slot of a library.
    of_library: HashMap<usize, WindowOffset>,
    /// The first slot of each array, by object and section.
    arrays: HashMap<(usize, usize), usize>,
    /// The reserved slots of libraries, and the bytes from slot 0 to the first of them.
    pub reserved: (usize, u64),
}

impl Dispatch {
    /// Returns the slots of a library: of a table at `start` those whose numbers `index` gives, and
    /// its `arrays` with their first slots.
    pub(crate) fn of_library(
        start: WindowOffset,
        index: HashMap<WindowOffset, usize>,
        arrays: HashMap<(usize, usize), usize>,
    ) -> Self {
        let of_library = index.iter().map(|(code, slot)| (*slot, *code)).collect();
        Self { slots: Vec::new(), pointers: 0, start, index, of_library, arrays, reserved: (0, 0) }
    }

    /// Returns the window offset of the first slot of an array.
    pub(crate) fn array(&self, input: usize, section: usize) -> Option<WindowOffset> {
        self.arrays.get(&(input, section)).map(|first| self.start + 8 * *first as u64)
    }

    /// Gives a code offset a slot if it has none.
    fn add(&mut self, code: WindowOffset) {
        let next = self.slots.len();
        if *self.index.entry(code).or_insert(next) == next {
            self.slots.push(code);
        }
    }

    /// Returns the window offset of the slot of a code offset.
    pub(crate) fn slot(&self, code: WindowOffset) -> Option<WindowOffset> {
        self.index.get(&code).map(|i| self.start + 8 * *i as u64)
    }

    /// Returns the code offset of the slot at a window offset.
    pub(crate) fn code(&self, slot: WindowOffset) -> Option<WindowOffset> {
        let index = slot.checked_sub(self.start)?;
        if !index.is_multiple_of(8) {
            return None;
        }
        let number = (index / 8) as usize;
        self.slots.get(number).or_else(|| self.of_library.get(&number)).copied()
    }

    /// Returns the window offset of the slot that an IFUNC's stub jumps through.
    pub(crate) fn choice(&self, index: usize) -> WindowOffset {
        self.start + 8 * (1 + index as u64)
    }

    /// Returns the table's bytes for a window at 0: whole pages, whose unused slots hold the trap.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let slots = self.slots.len().next_multiple_of(PAGE_SIZE as usize / 8);
        let all = self.slots.iter().copied().chain(std::iter::repeat(self.slots[0])).take(slots);
        all.flat_map(|code| code.bytes().to_le_bytes()).collect()
    }
}

/// An array of slots: object, section, and the code of each of its slots.
pub(crate) type Array = (usize, usize, Vec<WindowOffset>);

/// Reads the arrays of slots. Their words mean code itself, and no slots of it.
pub(crate) fn arrays(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    layout: &Layout,
    places: &Places,
) -> Result<Vec<Array>, LinkError> {
    let code = |(target, addend): (Target, i64)| Some(places.code(target, layout)?.wrapping_add(addend as u64));
    let mut arrays = Vec::new();
    for (input, section, words) in slot_arrays(inputs, symbols) {
        let codes: Option<Vec<WindowOffset>> = words.map(code).collect();
        let missing = || LinkError::Place {
            domain: spec.name.clone(),
            place: format!("{}: {}", inputs[input].name, inputs[input].object.sections[section].name),
            why: "a word of the array leads to text that is not part of the domain".into(),
        };
        arrays.push((input, section, codes.ok_or_else(missing)?));
    }
    Ok(arrays)
}

/// Most objects that the error about a full table names.
const NAMED: usize = 3;

/// Describes a table that is full, with the objects that have the longest arrays of slots.
fn full(spec: &DomainSpec, inputs: &[Input<'_>], arrays: &[Array], (used, reserved): (usize, usize)) -> LinkError {
    let mut lengths = vec![0; inputs.len()];
    arrays.iter().for_each(|(input, _, codes)| lengths[*input] += codes.len());
    let all: usize = lengths.iter().sum();
    let mut takers: Vec<(usize, &str)> =
        lengths.iter().zip(inputs).filter(|(l, _)| **l > 0).map(|(length, i)| (*length, i.name.as_str())).collect();
    takers.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let names: Vec<String> = takers.iter().take(NAMED).map(|(length, name)| format!("{length} of {name}")).collect();
    let switches = match names.is_empty() {
        true => String::new(),
        false => format!(", {all} slots of switches ({})", names.join(", ")),
    };
    let places = used - all;
    let why = format!(
        "{places} address-taken code places{switches} and {reserved} reserved ones; a domain has {DISPATCH_SLOTS} slots"
    );
    LinkError::Place { domain: spec.name.clone(), place: "dispatch table".into(), why }
}

/// Gives a slot to every IFUNC, to every code address that a relocation takes, and to the functions
/// of [`DomainSpec::pointers`]. Each array of slots gets a run of them.
pub(crate) fn collect(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    layout: &Layout,
    places: &Places,
) -> Result<Dispatch, LinkError> {
    let trap = places.parts[Part::Text as usize] + stubs::TRAP;
    let slots = vec![trap; 1 + symbols.indirects.len()];
    let mut dispatch = Dispatch {
        slots,
        pointers: 0,
        start: WindowOffset::ZERO,
        index: HashMap::new(),
        of_library: HashMap::new(),
        arrays: HashMap::new(),
        reserved: (0, 0),
    };
    let taken = relocations(inputs, symbols).filter(|(_, _, r, _)| takes_address(r.kind));
    taken.filter_map(|(_, _, _, target)| places.code(target, layout)).for_each(|code| dispatch.add(code));
    let mut named: Vec<&str> = symbols.globals.keys().copied().filter(|name| spec.has_pointer(name)).collect();
    named.sort_unstable();
    for name in named {
        let target = symbols.globals[name].target;
        let code = if matches!(target, Target::Import(_)) { None } else { places.code(target, layout) };
        if let Some(code) = code {
            dispatch.add(code);
        }
    }
    // Gateways that are connected at run time are called through pointers.
    for spare in spec.imports.len()..spec.gateways() {
        let code = places.parts[Part::Text as usize] + stubs::import(spare);
        dispatch.index.insert(code, dispatch.slots.len());
        dispatch.slots.push(code);
    }
    // The arrays come last, so that the first slot of a code place is the one that pointers mean.
    dispatch.pointers = dispatch.slots.len();
    let arrays = arrays(spec, inputs, symbols, layout, places)?;
    for (input, section, codes) in &arrays {
        dispatch.arrays.insert((*input, *section), dispatch.slots.len());
        dispatch.slots.extend(codes);
    }
    let (used, reserved) = (8 * dispatch.slots.len() as u64, spec.link_room.map_or(0, |room| room.slots));
    let length = match reserved {
        0 => used,
        _ => {
            // An unmapped page lies between, so that either part is one mapping of its own.
            dispatch.reserved = (reserved.next_multiple_of(SLOTS_OF_PAGE), pages(used) + PAGE_SIZE);
            dispatch.reserved.1.saturating_add((dispatch.reserved.0 as u64).saturating_mul(8))
        }
    };
    if length > DISPATCH_SIZE {
        return Err(full(spec, inputs, &arrays, (dispatch.slots.len(), reserved)));
    }
    dispatch.start = places.table(length);
    Ok(dispatch)
}
