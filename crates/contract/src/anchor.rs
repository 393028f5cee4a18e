//! The places that the code of a domain names by their offset in the window: the header page, the
//! dispatch table, the TCB page.
//!
//! The loader draws their offsets for each domain. In an object each such number has a relocation,
//! `R_X86_64_32` or `R_X86_64_32S` against the anchor's symbol, which the object does not define:
//!
//! ```text
//! and $0xffff8,%eax ; call *%gs:__sfi_dispatch(%eax)
//! add %gs:__sfi_header,%rdi
//! mov %rcx,%gs:__sfi_tcb+0xf30
//! ```

use crate::names;

/// A place whose offset the loader draws for each domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anchor {
    /// The header page.
    Header,
    /// The block of the dispatch table.
    Dispatch,
    /// The thread pointer, where the TCB page begins.
    Tcb,
}

impl Anchor {
    /// All anchors.
    pub const ALL: [Anchor; 3] = [Anchor::Header, Anchor::Dispatch, Anchor::Tcb];

    /// Returns the symbol that stands for the anchor in relocations.
    pub const fn symbol(self) -> &'static str {
        match self {
            Anchor::Header => names::HEADER,
            Anchor::Dispatch => names::DISPATCH,
            Anchor::Tcb => names::TCB,
        }
    }

    /// Returns the anchor that a symbol stands for.
    pub fn named(symbol: &str) -> Option<Anchor> {
        Anchor::ALL.into_iter().find(|anchor| anchor.symbol() == symbol)
    }

    /// Returns the place at a distance from the anchor.
    pub const fn at(self, addend: i32) -> Anchored {
        Anchored { anchor: self, addend }
    }
}

/// A place at a known distance from an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anchored {
    /// The anchor that the distance counts from.
    pub anchor: Anchor,
    /// The distance in bytes.
    pub addend: i32,
}

/// The first symbolic number. It is far from every address of x86-64, because it is not canonical.
const SYMBOLIC: u64 = 1 << 62;
/// Distance between the symbolic numbers of two anchors. Addends are less than half of it.
const APART: u64 = 1 << 40;

impl Anchored {
    /// Returns the place that lies this many bytes further.
    pub const fn plus(self, bytes: i32) -> Anchored {
        Anchored { anchor: self.anchor, addend: self.addend.wrapping_add(bytes) }
    }

    /// Returns a number of 64 bits that stands for the place in operands of instructions that are
    /// not encoded. It keeps the anchor's distance to other places, so numbers may be added to it.
    pub const fn symbolic(self) -> u64 {
        (SYMBOLIC + APART * self.anchor as u64).wrapping_add_signed(self.addend as i64)
    }

    /// Returns the place that a symbolic number stands for.
    pub fn from_symbolic(number: u64) -> Option<Anchored> {
        Anchor::ALL.into_iter().find_map(|anchor| {
            let distance = number.wrapping_sub(anchor.at(0).symbolic()) as i64;
            Some(anchor.at(i32::try_from(distance).ok()?))
        })
    }
}

/// The offsets of the anchors in one domain's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    /// Offset of [`Anchor::Header`].
    pub header: u64,
    /// Offset of [`Anchor::Dispatch`], a multiple of [`crate::layout::DISPATCH_SIZE`].
    pub dispatch: u64,
    /// Offset of [`Anchor::Tcb`].
    pub tcb: u64,
}

impl Anchors {
    /// Offsets for examples and tests.
    pub const EXAMPLE: Anchors = Anchors { header: 0xf_f000, dispatch: 0x10_0000, tcb: 0x30_0000 };

    /// Returns the window offset of a place.
    pub const fn offset(&self, place: Anchored) -> u64 {
        let anchor = match place.anchor {
            Anchor::Header => self.header,
            Anchor::Dispatch => self.dispatch,
            Anchor::Tcb => self.tcb,
        };
        anchor.wrapping_add_signed(place.addend as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_numbers_stand_for_one_place_each() {
        for anchor in Anchor::ALL {
            assert_eq!(Anchor::named(anchor.symbol()), Some(anchor));
            for addend in [0, 1, -1, i32::MIN, i32::MAX] {
                let place = anchor.at(addend);
                assert_eq!(Anchored::from_symbolic(place.symbolic()), Some(place));
            }
            assert_eq!(Anchored::from_symbolic(anchor.at(i32::MAX).symbolic() + 1), None);
        }
        for number in [0, 0xff000, 1 << 40, (1 << 47) - 1, u64::MAX, 1 << 63] {
            assert_eq!(Anchored::from_symbolic(number), None);
        }
    }
}
