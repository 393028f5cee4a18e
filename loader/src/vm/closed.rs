//! The pages of a window that its domain protected from itself.

use sfi_contract::layout::PAGE_SIZE;
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest number of closed ranges in a window. Each costs the process two mappings at most.
const MOST: usize = 1024;

/// A domain's access to pages of its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAccess {
    /// None: each access is a fault.
    None,
    /// It may read.
    Read,
    /// It may read and write, as at the start.
    ReadWrite,
}

impl PageAccess {
    /// Says whether it allows a read, or a write.
    fn allows(self, write: bool) -> bool {
        match self {
            PageAccess::None => false,
            PageAccess::Read => !write,
            PageAccess::ReadWrite => true,
        }
    }
}

/// Ranges of whole pages with less access than their segment, by their starts: end and access.
/// Neighbours with the same access are one range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed(BTreeMap<u64, (u64, PageAccess)>);

impl Closed {
    /// Returns the most mappings that the ranges add to a window.
    pub(crate) fn mappings(&self) -> u64 {
        2 * self.0.len() as u64
    }

    /// Says whether there are more ranges than a window may have.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > MOST
    }

    /// Returns all ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, (end, _))| *start..*end)
    }

    /// Returns the ranges that meet another one.
    fn meeting(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, u64, PageAccess)> + use<'_> {
        let (start, end) = (range.start, range.end);
        let before = self.0.range(..end).map(|(from, (to, access))| (*from, *to, *access));
        before.rev().take_while(move |(_, to, _)| *to > start)
    }

    /// Says whether any page of a range is closed.
    pub(crate) fn meets(&self, range: &Range<u64>) -> bool {
        self.meeting(range).next().is_some()
    }

    /// Returns the first place of a range that the domain itself could not read, or write.
    pub(crate) fn refuses(&self, range: &Range<u64>, write: bool) -> Option<u64> {
        let refused = self.meeting(range).filter(|(.., access)| !access.allows(write));
        refused.map(|(from, ..)| from.max(range.start)).min()
    }

    /// Sets the access of whole pages.
    pub(crate) fn set(&mut self, range: &Range<u64>, access: PageAccess) {
        debug_assert!(range.start.is_multiple_of(PAGE_SIZE) && range.end.is_multiple_of(PAGE_SIZE));
        let old: Vec<_> = self.meeting(range).collect();
        for (from, to, before) in old {
            self.0.remove(&from);
            if from < range.start {
                self.0.insert(from, (range.start, before));
            }
            if to > range.end {
                self.0.insert(range.end, (to, before));
            }
        }
        if access == PageAccess::ReadWrite || range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&from, _)) = self.0.range(..start).next_back().filter(|(_, (to, a))| *to == start && *a == access)
        {
            self.0.remove(&from);
            start = from;
        }
        if let Some((to, _)) = self.0.get(&end).copied().filter(|(_, a)| *a == access) {
            self.0.remove(&end);
            end = to;
        }
        self.0.insert(start, (end, access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageAccess::{None as Nothing, Read, ReadWrite};

    const fn pages(from: u64, to: u64) -> Range<u64> {
        from * PAGE_SIZE..to * PAGE_SIZE
    }

    #[test]
    fn ranges_are_cut_and_joined() {
        let mut closed = Closed::default();
        closed.set(&pages(2, 8), Nothing);
        closed.set(&pages(4, 6), ReadWrite);
        assert_eq!(closed.ranges().collect::<Vec<_>>(), [pages(2, 4), pages(6, 8)]);
        closed.set(&pages(4, 6), Nothing);
        assert_eq!(closed.ranges().collect::<Vec<_>>(), [pages(2, 8)]);
        closed.set(&pages(3, 5), Read);
        assert_eq!((closed.mappings(), closed.is_full()), (6, false));
        closed.set(&pages(0, 10), ReadWrite);
        assert_eq!(closed.mappings(), 0);
    }

    /// Each page has the access that was set last, whatever the ranges were.
    #[test]
    fn pages_have_the_access_that_was_set_last() {
        let (mut closed, mut model, mut random) = (Closed::default(), [ReadWrite; 16], 7_u64);
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..5000 {
            let from = next(16);
            let to = from + 1 + next(16 - from);
            let access = [Nothing, Read, ReadWrite][next(3) as usize];
            closed.set(&pages(from, to), access);
            model[from as usize..to as usize].fill(access);
            for (page, access) in (0..).zip(model) {
                let range = page * PAGE_SIZE + 8..page * PAGE_SIZE + 16;
                assert_eq!(closed.refuses(&range, false).is_some(), access == Nothing);
                assert_eq!(closed.refuses(&range, true).is_some(), access != ReadWrite);
                assert_eq!(closed.meets(&range), access != ReadWrite);
            }
            let first = model.iter().position(|access| *access != ReadWrite);
            assert_eq!(closed.refuses(&pages(0, 16), true), first.map(|page| page as u64 * PAGE_SIZE));
            let runs = 1 + model.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
            assert!(closed.mappings() <= 2 * runs);
        }
    }

    #[test]
    fn a_window_has_a_limit() {
        let mut closed = Closed::default();
        for page in 0..MOST as u64 {
            closed.set(&pages(2 * page, 2 * page + 1), Nothing);
        }
        assert!(!closed.is_full());
        closed.set(&pages(5000, 5001), Nothing);
        assert!(closed.is_full());
    }
}
