//! The new text: instructions with labels, their registers, and their offsets.

pub(crate) mod charge;
pub(crate) mod copies;
pub(crate) mod emit;
pub(crate) mod growth;
pub(crate) mod layout;
pub(crate) mod marks;
pub(crate) mod originals;
