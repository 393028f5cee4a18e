//! The second verification.

use crate::gate::usage_here;
use crate::link::image::Image;
use crate::link::select::options;
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::window::Window;
use sfi_verifier::{FinalText, Usage, Violation, verify_text};

/// Verifies the bytes of a sealed window again, as they will run. Offsets count from the window's
/// base, and the rules know nothing else but the image's anchors. So the result holds for every
/// window that maps the same sealed file. Text that is copied is verified in every window.
/// Returns the state that the text can use on this processor.
///
/// # Errors
/// The violations.
pub(crate) fn verify(window: &Window, image: &Image, spec: &DomainSpec) -> Result<Usage, Vec<Violation>> {
    let mut bytes = vec![0; image.text.1 as usize];
    window.read(image.text.0, &mut bytes);
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
        bytes: &bytes,
        offset: image.text.0.bytes(),
        gateways: &offsets(&image.gateways),
        slots: &slots,
        anchors: image.anchors,
    };
    verify_text(&text, &options(spec)).map(usage_here)
}

fn offsets(places: &[WindowOffset]) -> Vec<u64> {
    places.iter().copied().map(WindowOffset::bytes).collect()
}
