//! The holders of a world: the host by a [`World`], and running code of the host by a [`Held`].

use crate::gate::records::Context;
use crate::world::inner::Inner;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Domains that are loaded, sealed and ready to be called. [`World::builder`] builds it, and
/// dropping it unmaps everything.
///
/// One thread at a time enters a world (calls take `&mut`), but the world may move between threads.
/// More parallelism comes from more worlds.
#[derive(Debug)]
pub struct World {
    inner: *mut Inner,
}

// SAFETY: the record belongs to the world alone. Nothing in it is tied to a thread: the signal
// stack and GS are looked up per thread at every entry, and the control stack is used by the thread
// that holds the world mutably.
unsafe impl Send for World {}

impl World {
    /// Gives a record its place, which stays the same.
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Box::into_raw(Box::new(inner)) }
    }

    /// Returns the record's place, for the gates.
    pub(super) fn place(&self) -> *mut Inner {
        self.inner
    }

    /// Borrows the record for reading.
    pub(crate) fn get(&self) -> &Inner {
        // SAFETY: the record lives as long as the world; `&self` means that no call is in progress.
        unsafe { &*self.inner }
    }

    /// Borrows the record.
    pub(crate) fn record(&mut self) -> &mut Inner {
        // SAFETY: the record lives as long as the world, which is borrowed mutably.
        unsafe { &mut *self.inner }
    }

    /// Holds the world.
    #[inline]
    pub(crate) fn held(&mut self) -> Held<'_> {
        Held { inner: self.inner, world: PhantomData }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: both were made by the builder with `Box::into_raw`; no call is in progress, so
        // nobody uses them.
        unsafe {
            let mut inner = Box::from_raw(self.inner);
            // Dropped first, because the watchdog looks at the other fields.
            inner.time.watched = None;
            inner.domains.ids().for_each(|index| inner.settle(index));
            inner.lane.as_ref().inspect(|lane| lane.part());
            for state in inner.domains.iter().map(|d| d.state) {
                drop(Box::from_raw(state));
            }
        }
    }
}

/// Proof that this thread holds a world mutably and the host runs.
///
/// Only [`World::held`] and the gate's call of a host function make one, and only one at a time is
/// not borrowed. A crossing takes it or borrows it mutably. So the compiler refuses references to
/// the record that live across a crossing, in which host functions use the record too.
#[derive(Debug)]
pub(crate) struct Held<'w> {
    inner: *mut Inner,
    world: PhantomData<&'w mut Inner>,
}

impl Held<'_> {
    /// Returns the world whose domain calls the host.
    ///
    /// # Safety
    /// The gate passed `context` to a host function that has not returned, on this thread, and
    /// nobody else makes this value for the call.
    #[inline]
    pub(super) unsafe fn called_with<'c>(context: *const Context) -> Held<'c> {
        // SAFETY: see the function's contract; `World::open` wrote the record's place.
        Held { inner: unsafe { (*context).world.cast() }, world: PhantomData }
    }

    /// Borrows it for a shorter time.
    #[inline]
    pub(crate) fn again(&mut self) -> Held<'_> {
        Held { inner: self.inner, world: PhantomData }
    }
}

impl Deref for Held<'_> {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        // SAFETY: the world lives and is held. Any other holder is suspended or borrowed.
        unsafe { &*self.inner }
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { &mut *self.inner }
    }
}
