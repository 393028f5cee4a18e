//! The dispatch slots that are reserved for libraries.

use crate::link::dispatch::SLOTS_OF_PAGE;
use crate::link::image::Image;
use crate::vm::address::WindowOffset;
use crate::vm::window::{Protection, Window};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The reserved slots of a domain, in use or not.
pub(crate) struct Slots {
    /// Window offset of the domain's slot 0.
    table: WindowOffset,
    /// Number of the first reserved slot, counted from the domain's slot 0.
    first: usize,
    /// Number of reserved slots.
    count: usize,
    trap: WindowOffset,
    /// The code of each slot that was used in this life, the trap if it is retired.
    codes: Vec<WindowOffset>,
    /// The slot of each code place of the domain that has one.
    known: HashMap<WindowOffset, usize>,
    /// The slots of libraries that are not linked now, by library and distance in its text.
    retired: HashMap<(u64, u64), Vec<usize>>,
    /// The arrays of slots that each library ever had in this life: first slot and length. They
    /// hold the trap while the library is not linked.
    arrays: HashMap<u64, Vec<(usize, usize)>>,
    /// Slots that the host gave free.
    free: Vec<usize>,
    /// Slots whose pages are mapped.
    mapped: bool,
}

/// The slots that one library takes.
#[derive(Default)]
pub(crate) struct Taken {
    /// The slot of each code place.
    all: HashMap<WindowOffset, usize>,
    /// The arrays.
    arrays: Vec<Array>,
    /// By their length: the first slots of the library's former arrays that are free, the first one
    /// last.
    former: Option<HashMap<usize, Vec<usize>>>,
    /// Number of slots that were never used before.
    fresh: usize,
    /// Number of slots that the host gave free.
    freed: usize,
}

/// An array of slots that a library takes.
struct Array {
    first: usize,
    codes: Vec<WindowOffset>,
    /// The library had no such array in an earlier link.
    is_new: bool,
}

impl Taken {
    /// Returns the code places that the slots will hold.
    pub(crate) fn codes(&self) -> impl Iterator<Item = WindowOffset> {
        let arrays = self.arrays.iter().flat_map(|array| array.codes.iter().copied());
        self.all.keys().copied().chain(arrays)
    }
}

impl Slots {
    /// Returns the reserved slots of a domain in whose image these code places have slots.
    pub(crate) fn new(image: &Image) -> Self {
        let used = image.slots.iter().enumerate().skip(1).filter(|(_, code)| **code != image.trap);
        // The first slot of a code place is the one that pointers mean. Others are in arrays.
        let mut known = HashMap::new();
        used.for_each(|(slot, code)| _ = known.entry(*code).or_insert(slot));
        let (count, distance) = image.reserved;
        Self {
            table: image.table,
            first: (distance / 8) as usize,
            count,
            trap: image.trap,
            codes: Vec::new(),
            known,
            retired: HashMap::new(),
            arrays: HashMap::new(),
            free: Vec::new(),
            mapped: false,
        }
    }

    /// Returns the slot of a code place, if it has one or if `taken` may take one. `library` is the
    /// number of the library and the place of its text.
    pub(crate) fn find(
        &self,
        code: WindowOffset,
        library: (u64, Range<WindowOffset>),
        taken: &mut Taken,
    ) -> Option<usize> {
        if let Some(slot) = self.known.get(&code).or_else(|| taken.all.get(&code)) {
            return Some(*slot);
        }
        let own = library.1.contains(&code).then(|| code - library.1.start);
        let former = own.and_then(|distance| self.retired.get(&(library.0, distance))?.first().copied());
        let slot = former.or_else(|| self.next(taken))?;
        taken.all.insert(code, slot);
        Some(slot)
    }

    /// Returns the first of slots in a row for an array of a library: those that an array of the
    /// library had in an earlier link, or fresh ones.
    pub(crate) fn find_run(&self, codes: &[WindowOffset], library: u64, taken: &mut Taken) -> Option<usize> {
        let former = taken.former.get_or_insert_with(|| self.former(library));
        let former = former.get_mut(&codes.len()).and_then(Vec::pop);
        let fresh = self.codes.len() + taken.fresh;
        let first = match former {
            Some(first) => first,
            None if codes.len() <= self.count - fresh.min(self.count) => {
                taken.fresh += codes.len();
                self.first + fresh
            }
            None => return None,
        };
        taken.arrays.push(Array { first, codes: codes.to_vec(), is_new: former.is_none() });
        Some(first)
    }

    /// Returns the first slots of a library's arrays that are free, by their length.
    fn former(&self, library: u64) -> HashMap<usize, Vec<usize>> {
        let mut former: HashMap<usize, Vec<usize>> = HashMap::new();
        let is_free = |first: usize| self.codes.get(first - self.first) == Some(&self.trap);
        for (first, length) in self.arrays.get(&library).into_iter().flatten().rev() {
            if *length > 0 && is_free(*first) {
                former.entry(*length).or_default().push(*first);
            }
        }
        former
    }

    /// Takes a slot that no function has.
    fn next(&self, taken: &mut Taken) -> Option<usize> {
        if self.codes.len() + taken.fresh < self.count {
            taken.fresh += 1;
            return Some(self.first + self.codes.len() + taken.fresh - 1);
        }
        taken.freed += 1;
        self.free.len().checked_sub(taken.freed).map(|at| self.free[at])
    }

    /// Lets slots lead to their code.
    pub(crate) fn commit(&mut self, window: &Window, library: u64, taken: Taken) -> Result<(), Errno> {
        let in_row = |array: &Array| -> Vec<_> { array.codes.iter().copied().zip(array.first..).collect() };
        let words = taken.arrays.iter().flat_map(in_row);
        let all: Vec<(WindowOffset, usize)> =
            taken.all.iter().map(|(code, slot)| (*code, *slot)).chain(words).collect();
        if all.is_empty() {
            return Ok(());
        }
        self.write(window, &all)?;
        self.codes.resize(self.codes.len() + taken.fresh, self.trap);
        self.free.truncate(self.free.len() - taken.freed.min(self.free.len()));
        for (code, slot) in all {
            self.codes[slot - self.first] = code;
        }
        let new = taken.arrays.iter().filter(|array| array.is_new).map(|array| (array.first, array.codes.len()));
        self.arrays.entry(library).or_default().extend(new);
        let gone: HashSet<usize> = taken.all.values().copied().collect();
        self.known.extend(taken.all);
        self.retired.retain(|(of, _), slots| {
            slots.retain(|slot| *of != library || !gone.contains(slot));
            !slots.is_empty()
        });
        Ok(())
    }

    /// Lets the slots of a library's text lead to the trap.
    pub(crate) fn retire(&mut self, window: &Window, library: u64, text: Range<WindowOffset>) -> Result<(), Errno> {
        let used = self.codes.iter().enumerate().filter(|(_, code)| text.contains(code));
        let gone: Vec<(WindowOffset, usize)> = used.map(|(slot, code)| (*code, self.first + slot)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let traps: Vec<(WindowOffset, usize)> = gone.iter().map(|(_, slot)| (self.trap, *slot)).collect();
        self.write(window, &traps)?;
        let arrays = self.arrays.get(&library).into_iter().flatten();
        let in_arrays: HashSet<usize> = arrays.flat_map(|(first, length)| *first..first + length).collect();
        for (code, slot) in gone {
            self.known.remove(&code);
            self.codes[slot - self.first] = self.trap;
            if !in_arrays.contains(&slot) {
                self.retired.entry((library, code - text.start)).or_default().push(slot);
            }
        }
        Ok(())
    }

    /// Gives the slots of libraries that are not linked to later functions.
    pub(crate) fn recycle(&mut self) -> usize {
        let mut all: Vec<usize> = self.retired.drain().flat_map(|(_, slots)| slots).collect();
        for arrays in self.arrays.values_mut() {
            let codes = &self.codes;
            let unused = |(first, length): &(usize, usize)| {
                codes[first - self.first..][..*length].iter().all(|code| *code == self.trap)
            };
            all.extend(arrays.iter().filter(|array| unused(array)).flat_map(|(first, length)| *first..first + length));
            arrays.retain(|array| !unused(array));
        }
        self.free.extend(&all);
        all.len()
    }

    /// Returns the code of the slot at a window offset, if a library took the slot.
    pub(crate) fn code(&self, offset: WindowOffset) -> Option<WindowOffset> {
        let distance = offset.checked_sub(self.table).filter(|distance| distance.is_multiple_of(8))?;
        let slot = ((distance / 8) as usize).checked_sub(self.first)?;
        self.codes.get(slot).copied().filter(|code| *code != self.trap)
    }

    /// Returns the window offset of a slot.
    pub(crate) fn place(&self, slot: usize) -> WindowOffset {
        self.table + 8 * slot as u64
    }

    /// Returns the pages of the reserved slots: their place and their length in bytes.
    pub(crate) fn pages(&self) -> (WindowOffset, u64) {
        (self.place(self.first), 8 * self.count as u64)
    }

    /// Says whether the pages are mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Writes slots. The domain does not run, and the pages are never executable.
    fn write(&mut self, window: &Window, slots: &[(WindowOffset, usize)]) -> Result<(), Errno> {
        let (at, length) = self.pages();
        match self.mapped {
            true => window.protect(at, length, Protection::ReadWrite)?,
            false => {
                window.map(at, length, Protection::ReadWrite)?;
                let trap = window.at(self.trap).number().to_le_bytes().repeat(SLOTS_OF_PAGE);
                for page in (0..length).step_by(trap.len()) {
                    window.write(at + page, &trap);
                }
                self.mapped = true;
            }
        }
        for (code, slot) in slots {
            window.write(self.place(*slot), &window.at(*code).number().to_le_bytes());
        }
        window.protect(at, length, Protection::Read)
    }
}
