//! The second verification.

use crate::gate::usage_here;
use crate::link::image::Image;
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::window::Window;
use sfi_verifier::{FinalText, Usage, Verifier, Violation};

/// Verifies the bytes of a sealed window again, as they will run. Offsets count from the window's
/// base, and the rules know nothing else but the image's anchors. So the result holds for every
/// window that maps the same sealed file. Text that is copied is verified in every window.
/// Returns the state that the text can use on this processor. `verifier` has the options of the
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
) -> Result<Usage, Vec<Violation>> {
    let start = image.text_start().unwrap_or(image.text.0);
    let stubs = image.text.0 - start;
    room.resize((stubs + image.text.1) as usize, 0);
    window.read(start, room);
    let mut slots = offsets(&image.slots);
    let budgeted = spec.instructions.is_some();
    if spec.link_room.is_some() || budgeted {
        // Libraries branch to functions by their names. The host calls them.
        slots.extend(image.functions_by_name.values().map(|place| place.bytes()));
    }
    if budgeted {
        // All ways into the text are held to the rules of dispatch slots.
        let resolvers = image.indirects.iter().map(|(_, resolver)| resolver);
        let called = image.initialisers.iter().chain(&image.finalisers).chain(resolvers);
        slots.extend(called.map(|place| place.bytes()));
    }
    let text = FinalText {
        bytes: &room[stubs as usize..],
        offset: image.text.0.bytes(),
        gateways: &offsets(&image.gateways),
        slots: &slots,
        anchors: image.anchors,
    };
    verifier.verify_text(&text).map(usage_here)
}

fn offsets(places: &[WindowOffset]) -> Vec<u64> {
    places.iter().copied().map(WindowOffset::bytes).collect()
}
