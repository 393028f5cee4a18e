//! `fork`: a whole program goes on in two processes. The new one is a fork of this process, with a
//! copy of the domain's memory, and the arbiter in it keeps what POSIX lets a child inherit.
//!
//! A fork and all that come of it have one quota ([`crate::spending`]), and they end when the
//! process ends that made them.

use crate::errno::Errno;
use crate::heap::Heap;
use crate::inbox::Inbox;
use crate::outside::Outside;
use crate::tenant::State;
use crate::{Arbiter, clock};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use sfi_loader::{Fork, HostCall};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Arbiter {
    /// `fork` and `vfork`. Returns the child's number, and 0 in the child.
    pub(crate) fn fork(&mut self, cx: &mut HostCall<'_>, state: &mut State, heap: &Heap) -> Result<u64, Errno> {
        if !self.forks || self.threads || heap.is_common() {
            return Err(self.denial.errno());
        }
        self.spending.share()?;
        // A child can signal its parent, and no other process that gets the parent's number.
        let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
        self.enter()?;
        let forked = cx.fork();
        if let Ok(Fork::Child(number)) = forked {
            self.begin(state, (number, parent));
            return Ok(0);
        }
        let started = match forked {
            Ok(Fork::Parent(number)) => state.children.adopt(number),
            Ok(Fork::Child(_)) => Ok(0),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Err(self.denial.errno()),
            Err(error) => Err(error.into()),
        };
        self.entered(started)?;
        state.files.share_pipes();
        started
    }

    /// Pays for a process of a program that forks, before it starts.
    pub(crate) fn enter(&mut self) -> Result<(), Errno> {
        self.spending.enter(std::process::id(), self.quota.children)
    }

    /// Notes the process that was paid for, or that none started.
    pub(crate) fn entered(&mut self, started: Result<u64, Errno>) -> Result<(), Errno> {
        self.spending.entered(std::process::id(), started.ok().map(|number| number as u32))
    }

    /// Begins the child.
    fn begin(&mut self, state: &mut State, parent: (u32, OwnedFd)) {
        state.children.part(parent);
        state.signals.part();
        state.files.share_pipes();
        // Their threads are not in this process, and may have held their locks.
        std::mem::forget(self.alarm.take());
        self.inbox = self.inbox.as_ref().and_then(|_| Inbox::new().ok()).map(Arc::new);
        self.outside = self.outside.as_ref().map(Outside::part);
        clock::begin_thread();
        // The host does the work of its end once, in the first process.
        self.at_once = true;
    }
}
