//! Forks of a world that is a whole program.

use crate::fault::fork::{self, Fork};
use crate::world::calls::host_call::HostCall;
use std::io;

impl HostCall<'_> {
    /// Forks this process (`fork`), with the world and the call in progress in both. The new
    /// process ends when this thread does. What the host needs in only one of them it tells apart
    /// by the result: destructors run in both, unless the new process ends without them. If a
    /// domain accesses memory outside its window in a new process, the first process ends by
    /// SIGKILL, and all that were forked from it with it: they have the same secrets.
    ///
    /// # Errors
    /// `Unsupported` if the world shares memory with others, because copies would change it at the
    /// same time: it has regions, several lanes, or a domain with threads. The same if the host has
    /// further threads, which a new process would lack. Otherwise the kernel's error.
    pub fn fork(&mut self) -> io::Result<Fork> {
        let world = self.world();
        let shares = world.domains.iter().any(|domain| domain.window.backing().is_some() || domain.spec.threads > 1);
        if shares || world.lane.is_some() || world.regions.len() > 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the world shares memory with others"));
        }
        let context = world.gates.control.context();
        // SAFETY: this is the context of the world that runs this host function.
        unsafe { fork::fork(context) }
    }
}
