//! The dispatch table: one slot per code address whose address is taken (`docs/CONTRACT.md`, *What
//! relocations mean*).

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part};
use crate::link::place::Places;
use crate::link::references::{relocations, takes_address};
use crate::link::select::Input;
use crate::link::symbols::Symbols;
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use sfi_contract::layout::{DISPATCH_SLOTS, PAGE_SIZE};
use std::collections::HashMap;

/// The slots, and the code that they hold.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// Code offset by slot. Slot 0 is the trap, so that a null pointer leads to it.
    pub slots: Vec<WindowOffset>,
    /// Window offset of slot 0.
    pub start: WindowOffset,
    index: HashMap<WindowOffset, usize>,
}

impl Dispatch {
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
        self.slots.get((index / 8) as usize).copied()
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

/// Gives a slot to every IFUNC, and to every code address that a relocation takes.
pub(crate) fn collect(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    layout: &Layout,
    places: &Places,
) -> Result<Dispatch, LinkError> {
    let trap = places.parts[Part::Text as usize] + stubs::TRAP;
    let mut dispatch =
        Dispatch { slots: vec![trap; 1 + symbols.indirects.len()], start: WindowOffset::ZERO, index: HashMap::new() };
    for (_, _, r, target) in relocations(inputs, symbols) {
        if !takes_address(r.kind) {
            continue;
        }
        let Some(code) = places.code(target, layout) else { continue };
        let next = dispatch.slots.len();
        if *dispatch.index.entry(code).or_insert(next) == next {
            dispatch.slots.push(code);
        }
    }
    // Gateways that are connected at run time are called through pointers.
    for spare in spec.imports.len()..spec.gateways() {
        let code = places.parts[Part::Text as usize] + stubs::import(spare);
        dispatch.index.insert(code, dispatch.slots.len());
        dispatch.slots.push(code);
    }
    if dispatch.slots.len() > DISPATCH_SLOTS {
        let why = format!("{} address-taken code places; a domain has {DISPATCH_SLOTS} slots", dispatch.slots.len());
        return Err(LinkError::Place { domain: spec.name.clone(), place: "dispatch table".into(), why });
    }
    dispatch.start = places.table(8 * dispatch.slots.len() as u64);
    Ok(dispatch)
}
