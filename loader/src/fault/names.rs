//! Names of places in an image, so that a fault can name its line. Objects are read only when a
//! fault is described.

use serde::{Deserialize, Serialize};
use sfi_debuginfo::Frame;
use sfi_verifier::elf;

/// An object with debug information, and the places of its text.
#[derive(Serialize, Deserialize)]
pub(crate) struct DebugObject {
    /// The file, as it was verified.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// Window offset, size and index of each of its sections of text.
    pub sections: Vec<(u64, u64, usize)>,
}

/// Names of the places of an image. Faults keep it, so it holds no memory of the domain.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Names {
    /// Offset of the first byte of text after the stubs, and the text's length in bytes.
    pub text: (u64, u64),
    /// Functions by offset: offset, size (0 if unknown), name.
    pub functions: Vec<(u64, u64, String)>,
    /// Objects with debug information.
    pub debug: Vec<DebugObject>,
}

impl Names {
    /// Finds the function around an offset: its name and the distance to its start.
    pub(crate) fn function(&self, offset: u64) -> Option<(String, u64)> {
        if !(self.text.0..self.text.0 + self.text.1).contains(&offset) {
            return None;
        }
        let index = self.functions.partition_point(|(start, _, _)| *start <= offset).checked_sub(1)?;
        let (start, _, name) = &self.functions[index];
        Some((name.clone(), offset - start))
    }

    /// Returns the sources of window offsets of text: for each its frames, innermost first, or none
    /// if nothing is known.
    pub(crate) fn sources(&self, offsets: &[u64]) -> Vec<Vec<Frame>> {
        let mut all = vec![Vec::new(); offsets.len()];
        for object in &self.debug {
            let find = |offset: u64| {
                let (start, _, section) =
                    object.sections.iter().find(|(start, size, _)| (*start..start + size).contains(&offset))?;
                Some((*section, offset - start))
            };
            let (numbers, places): (Vec<usize>, Vec<(usize, u64)>) =
                offsets.iter().enumerate().filter_map(|(number, offset)| Some((number, find(*offset)?))).unzip();
            if places.is_empty() {
                continue;
            }
            let Ok(parsed) = elf::parse(&object.bytes) else { continue };
            for (number, frames) in numbers.into_iter().zip(sfi_debuginfo::lookup_in(&parsed, &places)) {
                all[number] = frames;
            }
        }
        all
    }
}
