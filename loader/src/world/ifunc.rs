//! IFUNCs: when the domain starts, a resolver, which is a function of the domain, chooses the
//! function that a name means.
//!
//! Calls and pointers go to a stub that jumps through a dispatch slot of its own. The resolvers run
//! in the domain as initialisers do, after sealing. If a resolver's result is a used slot, its
//! contents are copied to the stub's slot. No other value ever gets there. While the table's page
//! is writable no code of the domain runs.

use crate::gate::ids::DomainId;
use crate::link::image::Image;
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::vm::window::Protection;
use crate::world::error::{BuildError, CallError};
use crate::world::held::Held;
use rustix::io::Errno;
use sfi_contract::layout::PAGE_SIZE;

/// Runs the resolvers of a domain and fills the slots of its IFUNCs.
pub(crate) fn choose(held: &mut Held<'_>, index: DomainId) -> Result<(), BuildError> {
    for (slot, resolver) in held.domains[index].image.indirects.clone() {
        let result = held.call_code(index, resolver);
        let domain = &held.domains[index];
        let fail = |error| BuildError::Initialiser { domain: domain.name.clone(), error: Box::new(error) };
        let slot_address = result.map_err(fail)?;
        let code = domain.window.place(slot_address).and_then(|chosen| self::chosen(&domain.image, chosen));
        let code = code.ok_or_else(|| fail(CallError::NotAFunction { domain: domain.name.clone() }))?;
        let write = || -> Result<(), Errno> {
            let (page, code) = (slot.page(), domain.window.at(code).number());
            domain.window.protect(page, PAGE_SIZE, Protection::ReadWrite)?;
            domain.window.write(slot, &code.to_le_bytes());
            domain.window.protect(page, PAGE_SIZE, Protection::Read)
        };
        write().map_err(|error| MapError::new(&format!("domain `{}`", domain.name), error))?;
    }
    Ok(())
}

/// Returns the code that a resolver's result means: that of a slot which holds a function, and not
/// an IFUNC in turn.
fn chosen(image: &Image, slot: WindowOffset) -> Option<WindowOffset> {
    let text = image.text.0..image.text.0 + image.text.1;
    let code = image.slots.get(image.slot_at(slot)?)?;
    text.contains(code).then_some(*code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slots_of_verified_code_are_chosen() {
        // The trap, an IFUNC's slot, a function, a gateway.
        let slots = [0x40_0000, 0x40_0000, 0x40_1230, 0x40_0040].map(WindowOffset::new).to_vec();
        let (text, table) = ((WindowOffset::new(0x40_1000), 0x1000), WindowOffset::new(0x70_3000));
        let image = Image { slots, text, table, ..Image::default() };
        let ask = |slot: u64| chosen(&image, image.table.wrapping_add(slot));
        assert_eq!(ask(16), Some(WindowOffset::new(0x40_1230)));
        for slot in [0, 8, 17, 15, 24, 32, 0x10_0010, u64::MAX - 7, 0u64.wrapping_sub(image.table.bytes())] {
            assert_eq!(ask(slot), None, "{slot:#x}");
        }
        assert_eq!(chosen(&image, WindowOffset::new(0x40_1230)), None);
    }
}
