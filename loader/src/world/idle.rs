//! One data stack for each domain, and the pages of idle stacks.
//!
//! ARPC gives each binding a data stack in the server's space (Yarvin et al. section 3.2), because
//! threads of several clients are inside a server simultaneously. One thread at a time enters a
//! [`World`], so the active calls of a domain nest, through any bindings: A → B → A → B. One stack
//! keeps the promises that a stack for each binding makes:
//!
//! - No call writes on the frames of another. The gate notes the stack pointer of the domain that
//!   leaves in `DomainState::sp`, outside every window. The next call of that domain begins there,
//!   below all that is active, and the return restores the old value from the gate's frame. A
//!   pointer outside the domain's own stack becomes 0: nobody can enter that domain until the call
//!   returns.
//! - No client sees a call of another client. The stack lies in the server's window either way:
//!   clients cannot read it in mode full, and have to guess its place in mode write. A server that
//!   reads variables before it writes them can hand the last call's values to the next client, as
//!   it can with its heap; a stack for each client would hide only these.
//! - A failed call leaves nothing. A domain that faults is dead for all bindings, and lives again
//!   with a stack that was given back to the kernel. A call whose caller died returns to the frame
//!   of the caller's own caller, which has the old stack pointers.
//! - A recursion may use the whole stack. The manifest's `stack` bounds it for the domain.
//!
//! A binding so needs no memory but its record, and a server with a thousand clients keeps one
//! stack warm in the caches.
//!
//! The kernel gets the pages of idle stacks back when the last binding to a server goes, when the
//! host calls [`World::trim`], and, in worlds with limits, after a call that the watchdog saw more
//! than once. The path of a call does nothing for this.

use crate::gate::ids::{DomainId, Id};
use crate::world::held::World;
use crate::world::inner::Inner;
use sfi_contract::layout::PAGE_SIZE;

/// Bytes at the stacks' tops that stay after a long call, because the next call uses them.
const WARM: u64 = 16 * PAGE_SIZE;
/// Number of domains whose stacks are trimmed at the end of one long call. So the cost does not
/// grow in worlds with thousands.
const AT_ONCE: usize = 64;

impl World {
    /// Gives pages that only the next call would use back to the kernel: those of all domains' data
    /// stacks, and of the world's control stack. Hosts can call it when a world will be idle. It
    /// costs a system call per domain, and the next calls fault their pages in again.
    pub fn trim(&mut self) {
        // `&mut self`: no call is in progress, so nothing on the stacks is alive.
        let inner = self.record();
        inner.domains.ids().for_each(|index| inner.release_stack(index, 0));
        inner.release_control(0);
    }
}

impl Inner {
    /// Trims the stacks of some of the domains, in turn, after a long call.
    ///
    /// # Safety
    /// No call is in progress.
    #[cold]
    pub(crate) unsafe fn trim_some(&mut self) {
        let count = self.domains.len();
        let first = self.time.trimmed.place();
        for index in (0..count.min(AT_ONCE)).map(|i| DomainId::of((first + i) % count)) {
            self.release_stack(index, WARM);
        }
        self.time.trimmed = DomainId::of((first + AT_ONCE) % count.max(1));
        self.release_control(WARM);
    }

    /// Gives back the pages of a server's data stack when nothing is bound to it any more.
    ///
    /// # Safety
    /// No call returns to the server.
    pub(crate) unsafe fn release_unbound(&self, server: DomainId) {
        if !self.manager.records.iter().flatten().any(|r| r.to.domain() == Some(server)) {
            self.release_stack(server, 0);
        }
    }

    /// Gives back all but `warm` bytes of a data stack. A domain that no call returns to has
    /// nothing on its stack, except buffers that are about to be copied back, which lie above its
    /// stack pointer. If the kernel refuses, as with locked memory, the pages stay.
    fn release_stack(&self, index: DomainId, warm: u64) {
        let domain = &self.domains[index];
        // The thread of a view has no stack of the loader's, and the first thread's is in use.
        // Another lane may use a stack of this one.
        if domain.window.is_view() || self.lane.is_some() {
            return;
        }
        let [start, end] = domain.image.stack;
        // SAFETY: the state lives as long as the world.
        let sp = unsafe { (*domain.state).sp };
        // A domain without a window has no stack.
        let used = if sp == 0 || sp == domain.initial_sp { Some(end) } else { domain.window.place(sp) };
        let Some(used) = used else { return };
        let cold = (end - warm.min(end - start)).min(used).page();
        if let Some(length) = cold.checked_sub(start).filter(|length| *length > 0) {
            let _ = domain.window.discard(start, length);
        }
    }

    /// Gives back all but `warm` bytes of the control stack, on which no frame lies.
    pub(super) fn release_control(&self, warm: u64) {
        let (low, high) = (self.gates.control.low(), self.gates.control.high());
        let length = (high - low).saturating_sub(warm);
        // SAFETY: the stack area of this world's control stack, on which no frame lies.
        unsafe { libc::madvise(low as *mut libc::c_void, length as usize, libc::MADV_DONTNEED) };
    }
}
