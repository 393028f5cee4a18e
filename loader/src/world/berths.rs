//! Worlds of threads that ended by themselves, for further threads of the same domain.
//!
//! Making a thread's world takes some fifty system calls, and giving it back unmaps 4 GiB. A thread
//! that ended by itself leaves a whole world, in which no call is in progress. The next thread of
//! the domain takes it as a restarted domain takes its own ([`crate::World::restart`]): the gates
//! begin at the top of the control stack, and no word below it is read before it was written.
//!
//! Nothing of the last thread reaches the next one:
//! - The TCB page is zeroed. So are the places of fibers and the control stack, whose pages go back
//!   to the kernel. Kept registers of interruptions are dropped.
//! - The thread locals are memory of the domain, which it chose anew. The view maps them at their
//!   new place.
//! - A thread that faulted, that was stopped or whose host function panicked leaves nothing. The
//!   domain ends with it.
//!
//! The view stays at its place, which the domain knows anyway, because it is the domain's own.

use crate::fault::report::FaultKind;
use crate::fault::trace::FaultThread;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::DomainId;
use crate::gate::records::{Caught, Status};
use crate::load::view::{self, Seat};
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::world::calls::host_call::HostCall;
use crate::world::error::{BuildError, CallError};
use crate::world::held::World;
use crate::world::inner::Inner;
use crate::world::threads::{Thread, ThreadStart, refused};
use rustix::io::Errno;
use sfi_contract::layout::TCB_SIZE;

/// The world of a thread that ended by itself, for the domain's next thread
/// ([`HostCall::thread_in`]).
#[derive(Debug)]
pub struct Berth {
    world: World,
    /// The thread pointer of the last thread.
    pointer: WindowOffset,
}

impl Thread {
    /// Runs the thread as [`Thread::run`]. Returns its world too, if the thread ended by itself:
    /// its function returned, or a host function ended it ([`crate::HostError::end_caller`]).
    ///
    /// # Errors
    /// As for [`Thread::run`].
    pub fn run_and_leave(mut self) -> (Result<u64, CallError>, Option<Berth>) {
        let result = self.enter();
        let itself = match &result {
            Ok(_) => true,
            Err(CallError::Fault(fault)) => matches!(fault.kind, FaultKind::Exit(_)),
            Err(_) => false,
        };
        let Self { mut world, pointer, .. } = self;
        let left = itself && world.record().leave().is_ok();
        (result, left.then_some(Berth { world, pointer }))
    }
}

impl HostCall<'_> {
    /// Makes a further thread of the caller, in the world that an earlier one left. It calls the
    /// host function of that thread.
    ///
    /// # Errors
    /// As for [`HostCall::thread`]; [`CallError::WrongWorld`] if the earlier thread was not one of
    /// the caller's. The berth is given up then.
    pub fn thread_in(&self, berth: Berth, start: &ThreadStart) -> Result<Thread, BuildError> {
        let (seat, function) = self.seat(start)?;
        let domain = &self.world().domains[self.caller_index()];
        let Berth { mut world, pointer } = berth;
        // Both keep the window of their text, so another domain's is at another place.
        if world.get().domains[ONLY].window.text_base() != domain.window.text_base() {
            return Err(refused(&domain.spec, CallError::WrongWorld));
        }
        let failed = MapError::of("a thread");
        world.record().seat_again(&seat, pointer, start.number).map_err(failed)?;
        Ok(Thread { world, function, argument: start.argument, pointer: seat.pointer })
    }
}

/// The one domain of a thread's world.
const ONLY: DomainId = DomainId::FIRST;

impl Inner {
    /// Drops all that a thread leaves in the world's records and in its own pages.
    fn leave(&mut self) -> Result<(), Errno> {
        let domain = &self.domains[ONLY];
        if let Some(watched) = &self.time.watched {
            if watched.shared().is_stopped() {
                return Err(Errno::CANCELED);
            }
            watched.want(false);
            watched.shared().forget_interruptions(domain.state);
        }
        domain.window.zero(WindowOffset::new(domain.image.anchors.tcb), TCB_SIZE);
        domain.kept.clear()?;
        self.release_control(0);
        Ok(())
    }

    /// Seats a thread where another one ended. `before` was that one's pointer.
    fn seat_again(&mut self, seat: &Seat, before: WindowOffset, number: u64) -> Result<(), Errno> {
        let domain = &mut self.domains[ONLY];
        view::seat_again(&domain.window, &domain.image, seat, before)?;
        domain.thread = Some(FaultThread::Further(number));
        domain.settled = false;
        domain.initial_sp = seat.stack_pointer(&domain.window, domain.mode);
        // SAFETY: the state lives as long as the world, in which no call is in progress.
        unsafe {
            (*domain.state).dead = Status::Ok;
            (*domain.state).fault = RawFault::default();
            (*domain.state).trace = Trace::EMPTY;
            (*domain.state).caught = Caught::default();
            (*domain.state).sp = domain.initial_sp;
        }
        Ok(())
    }
}
