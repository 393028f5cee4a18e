//! The dispatch slots that are reserved for libraries.

use crate::link::dispatch::SLOTS_OF_PAGE;
use crate::link::image::Image;
use crate::vm::address::WindowOffset;
use crate::vm::window::{Protection, Window};
use rustix::io::Errno;
use std::collections::HashMap;

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
    /// The slots of libraries that are not linked now: distance in their text, and slot.
    retired: HashMap<u64, Vec<(u64, usize)>>,
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
    /// Code place and slot.
    pub all: Vec<(WindowOffset, usize)>,
    /// The arrays: first slot, and the code places.
    arrays: Vec<(usize, Vec<WindowOffset>)>,
    /// Number of slots that were never used before.
    fresh: usize,
    /// Number of slots that the host gave free.
    freed: usize,
}

impl Taken {
    /// Returns the code places that the slots will hold.
    pub(crate) fn codes(&self) -> impl Iterator<Item = WindowOffset> {
        let arrays = self.arrays.iter().flat_map(|(_, codes)| codes.iter().copied());
        self.all.iter().map(|(code, _)| *code).chain(arrays)
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
        library: (u64, std::ops::Range<WindowOffset>),
        taken: &mut Taken,
    ) -> Option<usize> {
        if let Some(slot) = self.known.get(&code) {
            return Some(*slot);
        }
        if let Some((_, slot)) = taken.all.iter().find(|(place, _)| *place == code) {
            return Some(*slot);
        }
        let own = library.1.contains(&code).then(|| code - library.1.start);
        let former = own.and_then(|distance| {
            self.retired.get(&library.0)?.iter().find(|(at, _)| *at == distance).map(|(_, slot)| *slot)
        });
        let slot = former.or_else(|| self.next(taken))?;
        taken.all.push((code, slot));
        Some(slot)
    }

    /// Returns the first of slots in a row for an array of a library: those that an array of the
    /// library had in an earlier link, or fresh ones.
    pub(crate) fn find_run(&self, codes: &[WindowOffset], library: u64, taken: &mut Taken) -> Option<usize> {
        let is_free = |first: usize| {
            self.codes.get(first - self.first) == Some(&self.trap) && taken.arrays.iter().all(|(f, _)| *f != first)
        };
        let mut former = self.arrays.get(&library).into_iter().flatten();
        let former = former.find(|(first, length)| *length == codes.len() && *length > 0 && is_free(*first));
        let fresh = self.codes.len() + taken.fresh;
        let first = match former {
            Some((first, _)) => *first,
            None if codes.len() <= self.count - fresh.min(self.count) => {
                taken.fresh += codes.len();
                self.first + fresh
            }
            None => return None,
        };
        taken.arrays.push((first, codes.to_vec()));
        Some(first)
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
        let in_row =
            |(first, codes): &(usize, Vec<WindowOffset>)| -> Vec<_> { codes.iter().copied().zip(*first..).collect() };
        let words: Vec<(WindowOffset, usize)> = taken.arrays.iter().flat_map(in_row).collect();
        let all = [taken.all.as_slice(), &words].concat();
        if all.is_empty() {
            return Ok(());
        }
        self.write(window, &all)?;
        self.codes.resize(self.codes.len() + taken.fresh, self.trap);
        self.free.truncate(self.free.len() - taken.freed.min(self.free.len()));
        for (code, slot) in all {
            self.codes[slot - self.first] = code;
        }
        for (first, codes) in taken.arrays {
            let arrays = self.arrays.entry(library).or_default();
            if !arrays.contains(&(first, codes.len())) {
                arrays.push((first, codes.len()));
            }
        }
        for (code, slot) in taken.all {
            self.known.insert(code, slot);
            if let Some(retired) = self.retired.get_mut(&library) {
                retired.retain(|(_, other)| *other != slot);
            }
        }
        self.retired.retain(|_, slots| !slots.is_empty());
        Ok(())
    }

    /// Lets the slots of a library's text lead to the trap.
    pub(crate) fn retire(
        &mut self,
        window: &Window,
        library: u64,
        text: std::ops::Range<WindowOffset>,
    ) -> Result<(), Errno> {
        let used = self.codes.iter().enumerate().filter(|(_, code)| text.contains(code));
        let gone: Vec<(WindowOffset, usize)> = used.map(|(slot, code)| (*code, self.first + slot)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let traps: Vec<(WindowOffset, usize)> = gone.iter().map(|(_, slot)| (self.trap, *slot)).collect();
        self.write(window, &traps)?;
        let arrays = self.arrays.get(&library).cloned().unwrap_or_default();
        for (code, slot) in gone {
            self.known.remove(&code);
            self.codes[slot - self.first] = self.trap;
            if arrays.iter().any(|(first, length)| (*first..first + length).contains(&slot)) {
                continue;
            }
            self.retired.entry(library).or_default().push((code - text.start, slot));
        }
        Ok(())
    }

    /// Gives the slots of libraries that are not linked to later functions.
    pub(crate) fn recycle(&mut self) -> usize {
        let mut all: Vec<usize> = self.retired.drain().flat_map(|(_, slots)| slots).map(|(_, slot)| slot).collect();
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
