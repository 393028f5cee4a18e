//! The worlds behind the host's handles, and where they go when the host closes them.

use sfi_loader::{CallError, Lane, Lanes, Lease, Pooled, Server, World};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A world of the host, and its way back.
pub(crate) enum Holder {
    /// The host's own.
    Own(World),
    /// It goes back to its pool.
    Pooled(Pooled),
    /// It goes back to its server.
    Leased(Leased),
    /// It is one of several lanes.
    Lane(InLane),
}

/// A lease, and its server.
pub(crate) type Leased = Borrowed<Lease<'static>, Server>;
/// A lane, and all lanes.
pub(crate) type InLane = Borrowed<Lane<'static>, Lanes>;

/// A value, and the owner that it borrows.
pub(crate) struct Borrowed<T, Owner> {
    /// Dropped before the owner.
    value: ManuallyDrop<T>,
    _owner: Arc<Owner>,
}

impl<T, Owner> Borrowed<T, Owner> {
    /// Keeps a value with its owner.
    ///
    /// # Safety
    /// The value borrows this owner.
    pub(crate) unsafe fn new(value: T, owner: Arc<Owner>) -> Self {
        Self { value: ManuallyDrop::new(value), _owner: owner }
    }
}

impl<T, Owner> Drop for Borrowed<T, Owner> {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { ManuallyDrop::drop(&mut self.value) };
    }
}

impl Deref for Holder {
    type Target = World;

    fn deref(&self) -> &World {
        match self {
            Holder::Own(world) => world,
            Holder::Pooled(world) => world,
            Holder::Leased(world) => &world.value,
            Holder::Lane(world) => &world.value,
        }
    }
}

impl DerefMut for Holder {
    #[inline]
    fn deref_mut(&mut self) -> &mut World {
        match self {
            Holder::Own(world) => world,
            Holder::Pooled(world) => world,
            Holder::Leased(world) => &mut world.value,
            Holder::Lane(world) => &mut world.value,
        }
    }
}

impl Holder {
    /// Ends the host's use: shuts its own world down, or gives it back.
    pub(crate) fn end(self) -> std::result::Result<(), CallError> {
        match self {
            Holder::Own(world) => world.shutdown(),
            Holder::Pooled(_) | Holder::Leased(_) | Holder::Lane(_) => Ok(()),
        }
    }
}
