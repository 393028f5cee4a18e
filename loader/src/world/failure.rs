//! Calls that fail: the host's error, and the state of the domains afterwards.

use crate::fault::lanes;
use crate::gate::frame::Active;
use crate::gate::records::{Context, DomainState, Status};
use crate::world::domain::Domain;
use crate::world::error::{CallError, Failure};
use crate::world::inner::Inner;
use sfi_contract::layout::TCB_ERROR;

impl Inner {
    /// Describes a failure. Resumes a host function's panic.
    ///
    /// # Safety
    /// `callee` is one of the world's domains unless the failure is [`Failure::WrongWorld`], and
    /// the call that failed is over.
    #[cold]
    pub(crate) unsafe fn failure(&mut self, callee: *const DomainState, failure: Failure) -> CallError {
        match failure {
            Failure::WrongWorld => return CallError::WrongWorld,
            Failure::Discarded => return CallError::Discarded,
            _ => {}
        }
        // SAFETY: see the function's contract.
        let (domains, index) = unsafe {
            if failure == Failure::Status(Status::Panic)
                && let Some(payload) = self.panic.take()
            {
                std::panic::resume_unwind(payload);
            }
            self.settle((*callee).index);
            (&self.domains, (*callee).index)
        };
        let name = domains[index].name.clone();
        match failure {
            // SAFETY: the call is over.
            Failure::Status(Status::Fault) => CallError::Fault(unsafe { Domain::describe(domains, index) }),
            Failure::Status(Status::Refused) => CallError::Busy { domain: name },
            Failure::Status(Status::Arguments) => CallError::Arguments { domain: name },
            Failure::Status(Status::NotReady) => CallError::NotReady { domain: name },
            Failure::Status(Status::Occupied) => CallError::Occupied { domain: name },
            Failure::Status(Status::Deadlock) => CallError::Deadlock { domain: name },
            Failure::TooDeep => CallError::TooDeep,
            Failure::Gone => CallError::Gone { domain: name },
            _ => CallError::Dead { domain: name },
        }
    }

    /// Sets `__sfi_error` of a domain.
    ///
    /// # Safety
    /// `domain` is the state of a living domain.
    pub(crate) unsafe fn set_error(domain: *const DomainState, status: Status) {
        // SAFETY: the TCB page is mapped read-write at this place for as long as the domain lives.
        unsafe {
            ((*domain).tcb.number().wrapping_add_signed(TCB_ERROR.addend.into()) as *mut u32).write(status.into())
        };
    }

    /// Notes that a host function panicked. The domains with frames above the innermost entry from
    /// the host were interrupted and are dead.
    ///
    /// # Safety
    /// The host runs and `context` is its world's.
    pub(crate) unsafe fn abandon(context: *mut Context) {
        // SAFETY: see the function's contract; domain states live as long as their frames.
        unsafe {
            let mut part = Some(Active::calling_host(&*context));
            while let Some(active) = part {
                (*active.domain).dead = Status::Dead;
                (*active.domain).sp = 0;
                lanes::end(active.domain);
                part = if active.entered_by_host() { None } else { active.outer(&*context) };
            }
        }
    }
}
