//! The second verification.

use crate::gate::usage_here;
use crate::link::image::Image;
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::window::Window;
use sfi_verifier::{Checked, FinalText, Verifier, Violation};

/// Verifies the bytes of a sealed window again, as they will run. Offsets count from the window's
/// base, and the rules know nothing else but the image's anchors. So the result holds for every
/// window that maps the same sealed file. Text that is copied is verified in every window.
/// Returns the state that the text can use on this processor, and the places where it saves
/// registers on the control stack. `verifier` has the options of the
/// domain. `room` gets the bytes of the text's segment, which begins with the stubs.
///
/// # Errors
/// The violations.
pub(crate) fn verify(
    window: &Window,
    image: &Image,
    spec: &DomainSpec,
    verifier: &mut Verifier,
    room: &mut Vec<u8>,
) -> Result<Checked, Vec<Violation>> {
    let start = image.text_start().unwrap_or(image.text.0);
    let stubs = image.text.0 - start;
    room.resize((stubs + image.text.1) as usize, 0);
    window.read(start, room);
    let mut slots = offsets(&image.slots);
    // All ways into the text are held to the rules of dispatch slots: no register is saved there.
    // The host calls functions by their names, and libraries branch to them. A symbol may mean the
    // text's end, which is a target for neither budgets nor libraries.
    let all = spec.link_room.is_some() || spec.instructions.is_some();
    let named = image.functions_by_name.values().filter(|place| all || image.has_text(**place));
    let resolvers = image.indirects.iter().map(|(_, resolver)| resolver);
    let called = named.chain(&image.initialisers).chain(&image.finalisers).chain(resolvers);
    slots.extend(called.map(|place| place.bytes()));
    let text = FinalText {
        bytes: &room[stubs as usize..],
        offset: image.text.0.bytes(),
        gateways: &offsets(&image.gateways),
        slots: &slots,
        anchors: image.anchors,
    };
    verifier.verify_text(&text).map(|checked| Checked { usage: usage_here(checked.usage), ..checked })
}

fn offsets(places: &[WindowOffset]) -> Vec<u64> {
    places.iter().copied().map(WindowOffset::bytes).collect()
}
