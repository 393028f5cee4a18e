//! The objects with debug information, which are kept so that a fault can name its line. They are
//! read only on request.

use crate::fault::names::DebugObject;
use crate::link::layout::{Layout, Part};
use crate::link::place::Places;
use crate::link::select::Input;

/// Keeps the objects that have line tables.
pub(crate) fn collect(inputs: &[Input<'_>], layout: &Layout, places: &Places) -> Vec<DebugObject> {
    let mut all = Vec::new();
    for (input, from) in inputs.iter().enumerate() {
        if !from.object.sections.iter().any(|s| s.name == ".debug_line" && !s.data.is_empty()) {
            continue;
        }
        let spots = from.object.sections.iter().enumerate().filter_map(|(section, s)| {
            let spot = layout.sections[input][section].filter(|spot| spot.part == Part::Text)?;
            Some((places.of(spot).bytes(), s.size, section))
        });
        all.push(DebugObject { bytes: from.bytes.to_vec(), sections: spots.collect() });
    }
    all
}
