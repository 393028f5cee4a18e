//! New code that was made before, by the forms of original instructions.

use crate::object::forms::FormIndex;

/// Most bytes of an instruction.
const LONGEST: usize = 15;

/// The new code of an object's forms.
pub(crate) struct Copies(Vec<Option<Copy>>);

/// The new code of a form: one instruction without a relocation.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    bytes: [u8; LONGEST],
    len: u8,
    /// It counts as a store that was made safe.
    pub store: bool,
    /// The distance of the data stack's pointer from the original one that the code depends on.
    delta: Option<i64>,
}

impl Copy {
    /// Returns the code of these bytes, if it is one instruction.
    pub(crate) fn new(code: &[u8], store: bool, delta: Option<i64>) -> Option<Copy> {
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..code.len())?.copy_from_slice(code);
        Some(Copy { bytes, len: code.len() as u8, store, delta })
    }

    /// Returns the instruction's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Copies {
    /// Knows no code yet, for an object with a number of forms.
    pub(crate) fn new(forms: usize) -> Copies {
        Copies(vec![None; forms])
    }

    /// Returns the code of a form where the data stack's pointer has this distance.
    pub(crate) fn get(&self, form: FormIndex, delta: i64) -> Option<&Copy> {
        self.0[usize::from(form)].as_ref().filter(|copy| copy.delta.is_none_or(|known| known == delta))
    }

    /// Keeps the code of a form.
    pub(crate) fn keep(&mut self, form: FormIndex, copy: Option<Copy>) {
        self.0[usize::from(form)] = copy;
    }
}
