//! Domains start and end: initialisers and finalisers.

use crate::gate::records::{CallFrame, Status};
use crate::world::error::{BuildError, CallError, Failure};
use crate::world::ifunc;
use crate::world::inner::{Inner, World};

impl World {
    /// Runs the resolvers and the initialisers of a domain.
    pub(crate) fn initialise(&mut self, index: usize) -> Result<(), BuildError> {
        // SAFETY: `&mut self`: this thread holds the world.
        unsafe { Inner::initialise(self.inner, index) }
    }

    /// Brings a domain back to the state in which it was built: data, heap, stack and thread locals
    /// are reloaded and the initialisers run again. Shared regions stay as they are, placement too.
    ///
    /// # Errors
    /// [`BuildError::Spec`] for an unknown name, [`BuildError::Initialiser`], [`BuildError::Map`].
    pub fn restart(&mut self, name: &str) -> Result<(), BuildError> {
        let index = self.get().find(name)?;
        // SAFETY: `&mut self`: no call is in progress, so no frame of the domain is outstanding.
        unsafe {
            (&mut (*self.inner).domains)[index].crash = None;
            (*self.inner).clear(index)?;
        }
        self.initialise(index)
    }

    /// Runs the finalisers (`.fini_array`) of all living domains, the last added first. All run,
    /// the first error is given.
    ///
    /// # Errors
    /// [`CallError`] of a finaliser.
    pub fn shutdown(self) -> Result<(), CallError> {
        let mut result = Ok(());
        for index in (0..self.get().domains.len()).rev() {
            let domain = &self.get().domains[index];
            // SAFETY: the state lives as long as the world, which this thread owns.
            if unsafe { (*domain.state).dead } != Status::Ok {
                continue;
            }
            let offsets = domain.image.finalisers.clone();
            // SAFETY: as above.
            let done = unsafe { Inner::run_all(self.inner, index, &offsets) };
            result = result.and(done);
        }
        result
    }
}

impl Inner {
    /// Chooses what IFUNCs mean, then runs the initialisers.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably.
    pub unsafe fn initialise(inner: *mut Inner, domain: usize) -> Result<(), BuildError> {
        // SAFETY: see the function's contract.
        unsafe {
            ifunc::choose(inner, domain)?;
            if (&(*inner).domains)[domain].image.initialisers.is_empty() {
                return Ok(());
            }
            let offsets = (&(*inner).domains)[domain].image.initialisers.clone();
            let name = || (&(*inner).domains)[domain].name.clone();
            Inner::run_all(inner, domain, &offsets)
                .map_err(|error| BuildError::Initialiser { domain: name(), error: Box::new(error) })
        }
    }

    /// Runs functions without arguments, in order.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably.
    pub unsafe fn run_all(inner: *mut Inner, domain: usize, offsets: &[u64]) -> Result<(), CallError> {
        for offset in offsets {
            // SAFETY: see the function's contract.
            unsafe {
                let binding = (*inner).host_binding(domain, *offset);
                let callee = binding.callee;
                if (*callee).sp == 0 {
                    return Err(Self::failure(inner, callee, Failure::Status(Status::Dead)));
                }
                let mut frame = CallFrame { sp: (*callee).sp, ..CallFrame::new() };
                Self::cross(inner, &binding, &mut frame, false)
                    .map_err(|failure| Self::failure(inner, callee, failure))?;
            }
        }
        Ok(())
    }
}
