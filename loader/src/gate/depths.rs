//! The registers that functions save on the control stack (rule `SFI-C03`), for all who read it:
//! the stubs that cut and keep it, and the walks at faults.
//!
//! Verified text has one *depth* at each place: the number of words that the running function has
//! saved above its return address. So the words of a domain between rsp and its crossing's frame
//! can be told apart, from rsp upwards. The depth of the place where the domain stopped is the
//! number of words before the first return address. Above each return address lie the words that
//! the caller had saved at that call, whose number is the depth of the call. The last word is the
//! return address into the gate.
//!
//! The stubs look depths up in a map, by return addresses: one byte for [`STEP`] bytes of text. A
//! range of one depth begins and ends between instructions, and no call ends it. A call has
//! [`CALL`] bytes or more. So a return address of the range lies at least that far behind the
//! range's start, and at its end or before. Those of the next range begin [`CALL`] bytes behind
//! that end, and never share a byte of the map with it. Instances share the map of their image. A
//! domain with libraries that save registers has a map of its own, of all its texts.
//!
//! Functions that a signal handler enters return to a trap. There is
//! one for each depth of the interrupted place, a step of the map apart, so the walk goes on
//! rightly above it.

use crate::vm::address::WindowOffset;
use crate::vm::lazy::Lazy;
use rustix::io::Errno;
use sfi_contract::layout::{IMAGE_HIGH, WINDOW_SIZE};
use sfi_contract::saves::{Deep, MOST, Saves};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// Bytes of text for each byte of a map.
pub(crate) const STEP: u64 = 4;
/// Bytes of the traps, with which the stubs begin.
pub(crate) const TRAPS: u64 = (MOST as u64 + 1) * STEP;
/// Bytes of the shortest call.
const CALL: u64 = 5;

const _: () = assert!(CALL > STEP);

/// A text, and the places where its functions have saved words.
#[derive(Clone, Debug)]
pub(crate) struct SavingText {
    /// Window offset of its first byte.
    start: u64,
    /// Window offset of the byte behind it.
    end: u64,
    saves: Arc<Saves>,
}

impl SavingText {
    /// Describes a text by its first place and its length in bytes.
    pub(crate) fn new(text: (WindowOffset, u64), saves: &Arc<Saves>) -> Self {
        let start = text.0.bytes();
        Self { start, end: start + text.1, saves: Arc::clone(saves) }
    }

    /// Describes the traps, the first of which lies at `low`, for debuggers. They look for the
    /// place of a call one byte before its return address.
    pub(crate) fn traps(low: WindowOffset) -> Self {
        let start = low.bytes() - 1;
        let deep = |depth: u8| {
            let start = u32::from(depth) * STEP as u32;
            Deep { start, end: start + STEP as u32, depth }
        };
        Self { start, end: start + TRAPS, saves: Arc::new(Saves((1..=MOST).map(deep).collect())) }
    }

    /// Says whether it saves anything.
    pub(crate) fn saves_some(&self) -> bool {
        !self.saves.is_empty()
    }

    /// Returns the places where words are saved, as window offsets, and their number.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Range<u64>, u8)> + use<'_> {
        let at = |offset: u32| self.start + u64::from(offset);
        self.saves.0.iter().map(move |deep| (at(deep.start)..at(deep.end), deep.depth))
    }

    /// Returns the number of words that are saved at a window offset, if it is a place of the text.
    fn at(&self, place: u64) -> Option<u8> {
        (self.start..self.end).contains(&place).then(|| self.saves.depth(place - self.start))
    }
}

/// The depths of an image's text. Instances share them.
#[derive(Debug, Default)]
pub(crate) struct ImageDepths {
    /// The text, if it saves anything.
    texts: Vec<SavingText>,
    /// The map for the stubs.
    map: Vec<u8>,
}

impl ImageDepths {
    /// Describes a text. `low` is the place of the first trap, which lies before the text. `mapped`
    /// says whether the domain may use the stubs that need the map.
    pub(crate) fn new(low: WindowOffset, text: (WindowOffset, u64), saves: &Arc<Saves>, mapped: bool) -> Self {
        if saves.is_empty() {
            return Self::default();
        }
        let texts = vec![SavingText::new(text, saves)];
        Self { texts, map: if mapped { map(text.0 - low, text.1, saves) } else { Vec::new() } }
    }

    /// Returns the gates' view. The domain's first trap lies at `low`.
    pub(crate) fn view(&self, low: WindowOffset) -> Depths {
        Depths {
            low: low.bytes() as u32,
            trap: low.bytes() as u32,
            length: (self.map.len() as u64 * STEP) as u32,
            map: self.map.as_ptr(),
            closed: (!self.texts.is_empty() && self.map.is_empty()).into(),
            texts: self.texts.as_ptr(),
            count: self.texts.len(),
        }
    }

    /// Returns the text, if it saves anything.
    pub(crate) fn texts(&self) -> &[SavingText] {
        &self.texts
    }
}

/// Makes the map of a text whose first byte lies `before` bytes behind the first trap.
fn map(before: u64, length: u64, saves: &Saves) -> Vec<u8> {
    assert!(before >= TRAPS, "the stubs lie before the text");
    // A call may be the last instruction.
    let mut map = vec![0; ((before + length) / STEP + 1) as usize];
    mark_traps(&mut map, 0);
    mark(&mut map, before, saves);
    map
}

/// Notes the depths of the traps, the first of which lies `before` bytes behind the map's start.
fn mark_traps(map: &mut [u8], before: u64) {
    (0..=MOST).for_each(|depth| map[(before / STEP) as usize + usize::from(depth)] = depth);
}

/// Notes the depths of a text that lies `before` bytes behind the map's start.
fn mark(map: &mut [u8], before: u64, saves: &Saves) {
    for deep in &saves.0 {
        let (first, last) = (before + u64::from(deep.start) + CALL, before + u64::from(deep.end));
        if first <= last {
            map[(first / STEP) as usize..=(last / STEP) as usize].fill(deep.depth);
        }
    }
}

/// A map of all texts of a window, for a domain with libraries.
#[derive(Debug)]
pub(crate) struct WideMap(Lazy);

impl WideMap {
    /// Maps memory for it. Pages are used once they are written.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(Lazy::map((IMAGE_HIGH / STEP) as usize)?))
    }

    /// Writes the depths of the traps, the first of which lies at `trap`, and of texts. No stub
    /// runs.
    ///
    /// # Errors
    /// A text lies outside the map, or the map cannot be emptied.
    pub(crate) fn write(&mut self, trap: WindowOffset, texts: &[SavingText]) -> Result<(), Errno> {
        if texts.iter().any(|text| text.end >= IMAGE_HIGH) {
            return Err(Errno::RANGE);
        }
        self.0.clear()?;
        // SAFETY: this value's own memory. Only stubs read it otherwise, and none runs.
        let map = unsafe { std::slice::from_raw_parts_mut(self.0.at().pointer(), (IMAGE_HIGH / STEP) as usize) };
        mark_traps(map, trap.bytes());
        texts.iter().for_each(|text| mark(map, text.start, &text.saves));
        Ok(())
    }
}

/// The depths of a domain's texts, for gates and signal handlers. The owner of the state keeps what
/// it points to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depths {
    /// Window offset of the first byte of text that the map describes.
    pub low: u32,
    /// Bytes of text that the map describes. Return addresses outside have depth 0.
    pub length: u32,
    /// The map.
    pub map: *const u8,
    /// Not 0 if some text saves words of which the map does not know. The stubs that need it trap.
    pub closed: u32,
    /// Window offset of the first trap.
    trap: u32,
    texts: *const SavingText,
    count: usize,
}

impl Depths {
    /// The depths of a domain without text.
    pub(crate) const NONE: Self =
        Self { low: 0, length: 0, map: ptr::null(), closed: 0, trap: 0, texts: ptr::null(), count: 0 };

    /// Returns the same with all texts of a domain that has libraries, and with their map.
    pub(crate) fn wide(self, texts: &[SavingText], map: &WideMap) -> Self {
        let (low, length) = (0, IMAGE_HIGH as u32);
        Self { low, length, map: map.0.at().pointer(), closed: 0, ..self.closed(texts) }
    }

    /// Returns the same with all texts of a domain that has libraries, of which the map does not
    /// know.
    pub(crate) fn closed(self, texts: &[SavingText]) -> Self {
        Self { closed: 1, texts: texts.as_ptr(), count: texts.len(), ..self }
    }

    /// Returns the distance of an address from the first trap, which begins the stubs.
    pub(crate) fn in_stubs(&self, address: u64) -> u64 {
        (address % WINDOW_SIZE).wrapping_sub(self.trap.into())
    }

    /// Returns the number of words that are saved at the instruction at an address, above which the
    /// return address of its function lies. Async-signal-safe.
    ///
    /// # Safety
    /// The texts live.
    pub(crate) unsafe fn at(&self, address: u64) -> u64 {
        let (place, trap) = (address % WINDOW_SIZE, self.in_stubs(address));
        if trap < TRAPS {
            return trap / STEP;
        }
        let texts = match self.count {
            0 => &[],
            // SAFETY: see the function's contract.
            count => unsafe { std::slice::from_raw_parts(self.texts, count) },
        };
        texts.iter().find_map(|text| text.at(place)).unwrap_or(0).into()
    }

    /// Returns the number of saved words above a return address. Async-signal-safe.
    ///
    /// # Safety
    /// The texts live.
    pub(crate) unsafe fn above(&self, address: u64) -> u64 {
        // The byte before the address belongs to the call.
        let behind_call = u64::from(self.in_stubs(address) >= TRAPS);
        // SAFETY: see the function's contract.
        unsafe { self.at(address.wrapping_sub(behind_call)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfi_contract::saves::Deep;

    /// Calls of every length, in ranges of every length, at every distance from the map's start.
    #[test]
    fn the_map_knows_each_return_address_as_the_ranges_do() {
        for before in TRAPS..TRAPS + 9 {
            for shift in 0..9 {
                let lengths = [5 + shift, 1, 6, 5, 1, 1, 2, 13, 5, 7];
                let mut deep = Vec::new();
                let mut start = 0;
                for (i, length) in lengths.into_iter().enumerate() {
                    let depth = [0, 1, 2, 15, 1, 0, 3, 3, 0, 1][i];
                    if depth != 0 {
                        deep.push(Deep { start, end: start + length, depth });
                    }
                    start += length;
                }
                let (length, saves) = (u64::from(start), Arc::new(Saves(deep)));
                let low = WindowOffset::new(0x41_0000);
                let image = ImageDepths::new(low, (low + before, length), &saves, true);
                let view = image.view(low);
                let mut start = 0;
                for end in lengths.iter().scan(0, |sum, length| {
                    *sum += u64::from(*length);
                    Some(*sum)
                }) {
                    for back in start + CALL..=end {
                        let behind = before + back;
                        assert!(behind < view.length.into());
                        let mapped: u64 = image.map[(behind / STEP) as usize].into();
                        // SAFETY: the image lives.
                        let known = unsafe { view.above(7 * WINDOW_SIZE + low.bytes() + behind) };
                        assert_eq!((mapped, known), (known, saves.depth(back - 1).into()), "{before} {shift} {back}");
                    }
                    start = end;
                }
                for depth in 0..=u64::from(MOST) {
                    let trap = low.bytes() + depth * STEP;
                    // SAFETY: the image lives.
                    let known = unsafe { [view.at(trap), view.above(trap), image.map[depth as usize].into()] };
                    assert_eq!(known, [depth; 3]);
                }
            }
        }
    }

    #[test]
    fn a_wide_map_knows_all_texts_and_the_traps() {
        let saves = Arc::new(Saves(vec![Deep { start: 1, end: 4096, depth: 1 }]));
        let other = Arc::new(Saves(vec![Deep { start: 7, end: 20, depth: 9 }]));
        let low = WindowOffset::new(0x41_0000);
        let own = (low + TRAPS, 4096 - TRAPS);
        // One begins where the other ends.
        let (next, last) = ((low + 4096, 4096), (WindowOffset::new(IMAGE_HIGH - 4096), 4000));
        let image = ImageDepths::new(low, own, &Arc::new(Saves(vec![Deep { start: 2, end: 4032, depth: 3 }])), true);
        let mut texts = vec![SavingText::new(next, &saves), SavingText::new(last, &other)];
        texts.extend_from_slice(image.texts());
        let mut map = WideMap::new().unwrap();
        let check = |map: &WideMap, texts: &[SavingText], places: &[(u64, u64)]| {
            let view = image.view(low).wide(texts, map);
            assert_eq!((view.low, view.closed), (0, 0));
            for (place, depth) in places {
                assert!(*place < view.length.into());
                // SAFETY: the map has this byte, and the texts live.
                let found = unsafe { [u64::from(*view.map.add((place / STEP) as usize)), view.above(*place)] };
                assert_eq!(found, [*depth; 2], "{place:#x}");
            }
        };
        map.write(low, &texts).unwrap();
        let (next, last) = (low.bytes() + 4096, IMAGE_HIGH - 4096);
        let ends =
            [(low.bytes() + TRAPS + 7, 3), (next, 3), (next + 6, 1), (next + 4096, 1), (last + 12, 9), (last + 20, 9)];
        check(&map, &texts, &ends);
        check(&map, &texts, &[(low.bytes(), 0), (low.bytes() + 4, 1), (low.bytes() + 60, 15), (last + 25, 0)]);
        // One of them goes.
        texts.remove(0);
        map.write(low, &texts).unwrap();
        check(&map, &texts, &[(next, 3), (next + 6, 0), (next + 4096, 0), (last + 20, 9)]);
        let outside = SavingText::new((WindowOffset::new(IMAGE_HIGH - 4096), 4096), &other);
        assert!(map.write(low, &[outside]).is_err());
    }

    #[test]
    fn texts_without_saves_have_no_map_and_those_without_a_map_are_closed() {
        let (low, text) = (WindowOffset::new(0x1000), (WindowOffset::new(0x2000), 64));
        let nothing = ImageDepths::new(low, text, &Arc::default(), true).view(low);
        assert_eq!((nothing.length, nothing.closed, nothing.count), (0, 0, 0));
        let saves = Arc::new(Saves(vec![Deep { start: 1, end: 9, depth: 1 }]));
        let closed = ImageDepths::new(low, text, &saves, false);
        let view = closed.view(low);
        assert_eq!((view.length, view.closed, view.count), (0, 1, 1));
        // SAFETY: the image lives.
        assert_eq!(unsafe { [view.at(0x2000), view.at(0x2001), view.above(0x2009), view.above(0x200a)] }, [0, 1, 1, 0]);
    }
}
