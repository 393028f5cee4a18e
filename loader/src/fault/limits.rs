//! How long calls and domains may run.

use std::time::Duration;

/// Limits of one call of the host into its world, whatever domains and host functions it leads through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Wall clock.
    pub wall: Option<Duration>,
    /// Processor time of the thread, the kernel's work for it included.
    pub cpu: Option<Duration>,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { wall: None, cpu: None };

    /// A limit on the wall clock.
    pub fn wall(limit: Duration) -> Self {
        Self { wall: Some(limit), cpu: None }
    }

    /// A limit on processor time.
    pub fn cpu(limit: Duration) -> Self {
        Self { wall: None, cpu: Some(limit) }
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.wall.is_some() || self.cpu.is_some()
    }
}

/// What a domain may use in its life, over all calls, while it runs itself: not what domains and host functions use that it calls. It has
/// the whole budget again when it is restarted or loaded again, and after [`crate::World::refill`]. Time is charged by looking which domain
/// runs, every four milliseconds or more often, so that crossings cost nothing.
pub type Budget = Limits;

/// Why a call was ended: the code of its [`crate::fault::RawFault`].
pub mod reason {
    /// The call's limit on the wall clock.
    pub const CALL_WALL: u32 = 1;
    /// The call's limit on processor time.
    pub const CALL_CPU: u32 = 2;
    /// The domain's budget of wall clock.
    pub const DOMAIN_WALL: u32 = 3;
    /// The domain's budget of processor time.
    pub const DOMAIN_CPU: u32 = 4;
}
