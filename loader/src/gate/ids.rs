//! Numbers of a world's parts. Each kind is a type of its own, so that the number of a domain
//! selects a domain and nothing else.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The number of a part among those of its kind, from 0.
pub trait Id: Copy + 'static {
    /// Returns the number of the part at this place of its list.
    ///
    /// # Panics
    /// From 2^32 on. No world has 2^32 parts.
    fn of(place: usize) -> Self;
    /// Returns the part's place in its list.
    fn place(self) -> usize;

    /// Returns the number that is `others` further on.
    fn after(self, others: usize) -> Self {
        Self::of(self.place() + others)
    }
}

/// Defines kinds of numbers.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl Id for $name {
            fn of(place: usize) -> Self {
                Self(u32::try_from(place).expect("fewer than 2^32 parts"))
            }

            #[inline]
            fn place(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A domain of a world, or an instance of one. Another instance may take the place of one that
    /// was discarded, and its number.
    DomainId
    /// A host function of a world.
    HostId
    /// A binding of a world, and the manager's record of it.
    BindingId
    /// A shared region of a world.
    RegionId
}

impl DomainId {
    /// The number of a world's first domain. A template has no other.
    pub(crate) const FIRST: Self = Self(0);
    /// The number of no domain.
    pub(crate) const NOBODY: Self = Self(u32::MAX);
}

impl BindingId {
    /// The binding of the host function that restarts domains.
    pub(crate) const REVIVER: Self = Self(0);
    /// The first binding of a stub.
    pub(crate) const FIRST: Self = Self(1);
}

/// Consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run<I> {
    /// The lowest of them.
    pub first: I,
    /// Their count.
    pub count: usize,
}

impl<I: Id> Run<I> {
    /// Returns all of them.
    pub(crate) fn ids(self) -> impl Iterator<Item = I> {
        (self.first.place()..self.first.place() + self.count).map(I::of)
    }

    /// Returns the number at a place of the run.
    ///
    /// # Panics
    /// If the run is not so long.
    pub(crate) fn at(self, place: usize) -> I {
        assert!(place < self.count, "no such number in the run");
        self.first.after(place)
    }

    /// Returns the place of a number in the run.
    pub(crate) fn place(self, id: I) -> Option<usize> {
        id.place().checked_sub(self.first.place()).filter(|place| *place < self.count)
    }
}

/// The parts of one kind by their numbers.
#[derive(Debug)]
pub struct ById<I, T> {
    parts: Vec<T>,
    id: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> ById<I, T> {
    /// Returns a list without parts.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), id: PhantomData }
    }

    /// Adds a part at the end. Returns its number.
    pub fn push(&mut self, part: T) -> I {
        let id = self.next();
        self.parts.push(part);
        id
    }

    /// Returns the number that the next new part gets.
    pub fn next(&self) -> I {
        I::of(self.parts.len())
    }

    /// Puts a part at a number that exists, or at the next one.
    pub fn put(&mut self, id: I, part: T) {
        match self.parts.get_mut(id.place()) {
            Some(old) => *old = part,
            None => assert_eq!(self.push(part).place(), id.place(), "a gap between the parts"),
        }
    }

    /// Returns the count of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns all parts.
    pub fn as_slice(&self) -> &[T] {
        &self.parts
    }

    /// Returns a part, if there is one with this number.
    pub fn get(&self, id: I) -> Option<&T> {
        self.parts.get(id.place())
    }

    /// Returns a part, if there is one with this number.
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.parts.get_mut(id.place())
    }

    /// Returns the numbers of all parts. The list may change meanwhile.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.parts.len()).map(I::of)
    }

    /// Returns all parts.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.parts.iter()
    }

    /// Returns all parts.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.parts.iter_mut()
    }

    /// Returns all parts with their numbers.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.parts.iter().enumerate().map(|(place, part)| (I::of(place), part))
    }

    /// Finds the first part with a property. Returns its number.
    pub fn position(&self, property: impl FnMut(&T) -> bool) -> Option<I> {
        self.parts.iter().position(property).map(I::of)
    }
}

impl<I: Id, T> Default for ById<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for ById<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.parts[id.place()]
    }
}

impl<I: Id, T> IndexMut<I> for ById<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.parts[id.place()]
    }
}

impl<I: Id, T> FromIterator<T> for ById<I, T> {
    fn from_iter<P: IntoIterator<Item = T>>(parts: P) -> Self {
        Self { parts: parts.into_iter().collect(), id: PhantomData }
    }
}

impl<'l, I, T> IntoIterator for &'l ById<I, T> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.iter()
    }
}

impl<'l, I, T> IntoIterator for &'l mut ById<I, T> {
    type Item = &'l mut T;
    type IntoIter = std::slice::IterMut<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_numbers() {
        let mut names: ById<DomainId, &str> = ById::new();
        let (a, b) = (names.push("a"), names.push("b"));
        assert_eq!((names[a], names[b], names.len()), ("a", "b", 2));
        names.put(a, "c");
        let next = names.next();
        assert_eq!(names.get(next), None);
        names.put(next, "d");
        assert_eq!(names.enumerate().collect::<Vec<_>>(), [(a, &"c"), (b, &"b"), (next, &"d")]);
        assert_eq!(names.position(|name| *name == "d"), Some(next));
        assert_eq!(names.get(DomainId::NOBODY), None);
    }

    #[test]
    fn runs_have_their_own_numbers_only() {
        let run = Run { first: BindingId::FIRST.after(4), count: 2 };
        let [five, six] = [5, 6].map(BindingId::of);
        assert_eq!(run.ids().collect::<Vec<_>>(), [five, six]);
        assert_eq!((run.at(1), run.place(six)), (six, Some(1)));
        assert_eq!([4, 7].map(|place| run.place(BindingId::of(place))), [None, None]);
    }

    #[test]
    #[should_panic(expected = "a gap between the parts")]
    fn a_part_leaves_no_gap() {
        ById::<DomainId, ()>::new().put(DomainId::of(1), ());
    }
}
