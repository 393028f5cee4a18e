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

/// A lease, and the server that it borrows.
pub(crate) struct Leased {
    /// Dropped before the server.
    lease: ManuallyDrop<Lease<'static>>,
    _server: Arc<Server>,
}

impl Leased {
    /// Keeps a lease with its server.
    ///
    /// # Safety
    /// The lease is of this server.
    pub(crate) unsafe fn new(lease: Lease<'static>, server: Arc<Server>) -> Self {
        Self { lease: ManuallyDrop::new(lease), _server: server }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { ManuallyDrop::drop(&mut self.lease) };
    }
}

/// A lane, and the lanes that it borrows.
pub(crate) struct InLane {
    /// Dropped before the lanes.
    lane: ManuallyDrop<Lane<'static>>,
    _lanes: Arc<Lanes>,
}

impl InLane {
    /// Keeps a lane with the others.
    ///
    /// # Safety
    /// The lane is one of these.
    pub(crate) unsafe fn new(lane: Lane<'static>, lanes: Arc<Lanes>) -> Self {
        Self { lane: ManuallyDrop::new(lane), _lanes: lanes }
    }
}

impl Drop for InLane {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { ManuallyDrop::drop(&mut self.lane) };
    }
}

impl Deref for Holder {
    type Target = World;

    fn deref(&self) -> &World {
        match self {
            Holder::Own(world) => world,
            Holder::Pooled(world) => world,
            Holder::Leased(world) => &world.lease,
            Holder::Lane(world) => &world.lane,
        }
    }
}

impl DerefMut for Holder {
    #[inline]
    fn deref_mut(&mut self) -> &mut World {
        match self {
            Holder::Own(world) => world,
            Holder::Pooled(world) => world,
            Holder::Leased(world) => &mut world.lease,
            Holder::Lane(world) => &mut world.lane,
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
