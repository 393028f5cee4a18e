//! The dispatch table: one slot per code address whose address is taken (`docs/CONTRACT.md`, *What
//! relocations mean*).

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part};
use crate::link::place::Places;
use crate::link::references::{relocations, takes_address};
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
    /// Window offset of slot 0.
    pub start: WindowOffset,
    index: HashMap<WindowOffset, usize>,
    /// The reserved slots of libraries, and the bytes from slot 0 to the first of them.
    pub reserved: (usize, u64),
}

impl Dispatch {
    /// Returns the slots of a library: of a table at `start` those whose numbers `index` gives.
    pub(crate) fn of_library(start: WindowOffset, index: HashMap<WindowOffset, usize>) -> Self {
        Self { slots: Vec::new(), start, index, reserved: (0, 0) }
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
        let of_library = || self.index.iter().find(|(_, slot)| **slot == number).map(|(code, _)| *code);
        self.slots.get(number).copied().or_else(of_library)
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

/// Gives a slot to every IFUNC, to every code address that a relocation takes, and to the functions
/// of [`DomainSpec::pointers`].
pub(crate) fn collect(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    layout: &Layout,
    places: &Places,
) -> Result<Dispatch, LinkError> {
    let trap = places.parts[Part::Text as usize] + stubs::TRAP;
    let slots = vec![trap; 1 + symbols.indirects.len()];
    let mut dispatch = Dispatch { slots, start: WindowOffset::ZERO, index: HashMap::new(), reserved: (0, 0) };
    for (_, _, r, target) in relocations(inputs, symbols) {
        if !takes_address(r.kind) {
            continue;
        }
        if let Some(code) = places.code(target, layout) {
            dispatch.add(code);
        }
    }
    let mut named: Vec<&str> = symbols.globals.keys().copied().filter(|name| spec.has_pointer(name)).collect();
    named.sort_unstable();
    for name in named {
        let (target, _) = symbols.globals[name];
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
        let (used, most) = (dispatch.slots.len(), DISPATCH_SLOTS);
        let why = format!("{used} address-taken code places and {reserved} reserved ones; a domain has {most} slots");
        return Err(LinkError::Place { domain: spec.name.clone(), place: "dispatch table".into(), why });
    }
    dispatch.start = places.table(length);
    Ok(dispatch)
}
