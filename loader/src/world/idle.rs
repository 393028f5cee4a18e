//! Stacks of domains that wait: their pages go back to the kernel.
//!
//! No function is called for this on the way of a call. It happens when nothing is bound to a server any more, when the host says so
//! ([`World::trim`]), and, in worlds whose calls are limited, after a call that the watchdog saw more than once.

use crate::gate::control_stack::ControlStack;
use crate::world::{Inner, World};
use sfi_contract::layout::PAGE_SIZE;

/// Bytes at the stacks' tops that stay after a long call: the next one uses them.
const WARM: u64 = 16 * PAGE_SIZE;
/// Domains that are looked after at the end of one long call; so it costs the same in worlds with thousands.
const AT_ONCE: usize = 64;

impl World {
    /// Gives pages back to the kernel that only the next call would use: those of all domains' data stacks, and of the world's control
    /// stack. For hosts to call when a world will be idle. It costs a system call per domain, and the next calls fault their pages in again.
    pub fn trim(&mut self) {
        // SAFETY: `&mut self`: no call is in progress, so nothing on the stacks is alive.
        unsafe {
            let inner = &mut *self.inner;
            (0..inner.domains.len()).for_each(|index| inner.release_stack(index, 0));
            inner.release_control(0);
        }
    }
}

impl Inner {
    /// After a long call: some of the domains, in turn.
    ///
    /// # Safety
    /// No call is in progress.
    #[cold]
    pub unsafe fn trim_some(&mut self) {
        let count = self.domains.len();
        for index in (0..count.min(AT_ONCE)).map(|i| (self.trimmed + i) % count) {
            self.release_stack(index, WARM);
        }
        self.trimmed = (self.trimmed + AT_ONCE) % count.max(1);
        self.release_control(WARM);
    }

    /// The pages of a server's data stack, when nothing is bound to it any more.
    ///
    /// # Safety
    /// No call returns to the server.
    pub unsafe fn release_unbound(&self, server: usize) {
        if !self.manager.records.iter().flatten().any(|r| r.to.domain() == Some(server)) {
            self.release_stack(server, 0);
        }
    }

    /// All but `warm` bytes. A domain that no call returns to has nothing on its stack, but buffers that are about to be copied back
    /// (`marshal`): those lie above its stack pointer. Where it fails, as with locked memory, the pages stay.
    fn release_stack(&self, index: usize, warm: u64) {
        let domain = &self.domains[index];
        let [start, end] = domain.image.stack;
        // SAFETY: the state lives as long as the world.
        let sp = unsafe { (*domain.state).sp };
        let used = if sp == 0 || sp == domain.initial_sp { end } else { sp - domain.window.base() };
        let length = (end.saturating_sub(warm).min(used) & !(PAGE_SIZE - 1)).saturating_sub(start);
        if domain.window.base() != 0 && length > 0 {
            let _ = domain.window.discard(start, length);
        }
    }

    fn release_control(&self, warm: u64) {
        let area = ControlStack::area(self.control.context());
        let length = (area.end - area.start).saturating_sub(warm);
        // SAFETY: the stack area of this world's control stack, on which no frame lies.
        unsafe { libc::madvise(area.start as *mut libc::c_void, length as usize, libc::MADV_DONTNEED) };
    }
}
