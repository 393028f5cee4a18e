//! The next life of a domain that several lanes enter. It begins at the domain's place, when no
//! lane is inside, and all lanes find it there.

use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::load::raised;
use crate::load::view;
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::world::error::{BindError, BuildError};
use crate::world::held::Held;
use crate::world::lanes::take::here;
use crate::world::owner;
use rustix::io::Errno;
use sfi_contract::layout::TCB_SIZE;
use std::sync::atomic::Ordering;

impl Held<'_> {
    /// Begins a domain's next life, as the only lane that is inside. If that fails, or the owner's
    /// penalties are not over, the domain stays dead and the lane is outside.
    pub(super) fn begin_life(&mut self, index: DomainId) -> Result<(), Status> {
        if let Err(error) = self.answer_for(index) {
            self.lane.as_ref().inspect(|lane| lane.group.not_renewed(lane.number, index, true));
            return Err(if matches!(error, BuildError::NotReady { .. }) { Status::NotReady } else { Status::Dead });
        }
        self.renew_or_say(index).map_err(|_| Status::Dead)
    }

    /// Tells the owner of all faults of the life that is over. Refuses until the penalties are
    /// over.
    fn answer_for(&mut self, index: DomainId) -> Result<(), BuildError> {
        self.settle(index);
        owner::admit(self.domains[index].spec.owner.as_ref(), false)
    }

    /// Begins the next life of a domain that no other lane is in, at once or when the owner's
    /// penalties are over.
    ///
    /// # Errors
    /// [`BindError::Active`] if another lane is inside. [`BuildError::Owner`], [`BuildError::Map`],
    /// [`BuildError::Initialiser`].
    pub(crate) fn restart_lane(&mut self, index: DomainId) -> Result<(), BuildError> {
        let Some(lane) = self.lane.clone() else { return Ok(()) };
        // SAFETY: the control stack's header lives as long as the world.
        let mark = here(unsafe { &*self.gates.control.context() });
        if lane.home(index).broken.load(Ordering::SeqCst) {
            return Err(BindError::Lanes.into());
        }
        loop {
            self.admit(index)?;
            if !lane.group.clear_out(lane.number, index, mark) {
                return Err(BindError::Active { domain: self.domains[index].name.clone() }.into());
            }
            // Another lane may have met a fault meanwhile.
            match self.answer_for(index) {
                Ok(()) => break,
                Err(error) => {
                    lane.group.not_renewed(lane.number, index, false);
                    if !matches!(error, BuildError::NotReady { .. }) {
                        return Err(error);
                    }
                }
            }
        }
        self.renew_or_say(index)?;
        let room = lane.room(index);
        room.go_out(&room.doors[lane.number]);
        Ok(())
    }

    fn renew_or_say(&mut self, index: DomainId) -> Result<(), BuildError> {
        let Some(lane) = self.lane.clone() else { return Ok(()) };
        let begun = self.begin_again(index);
        if begun.is_err() {
            lane.room(index).end();
        }
        let lives = lane.group.renewed(lane.number, index);
        begun?;
        match lives {
            true => Ok(()),
            false => Err(BindError::Active { domain: self.domains[index].name.clone() }.into()),
        }
    }

    fn begin_again(&mut self, index: DomainId) -> Result<(), BuildError> {
        let Some(lane) = self.lane.clone() else { return Ok(()) };
        self.reset_shared(index).map_err(|error| {
            let name = &self.domains[index].name;
            MapError::new(&format!("domain `{name}`"), error)
        })?;
        lane.home(index).birth.fetch_add(1, Ordering::SeqCst);
        self.freshen(index);
        self.refill(index);
        self.hand_out(index)?;
        // The doors of other lanes are closed until this is over.
        lane.room(index).begin();
        self.run_initialisers(index)
    }

    /// Writes the memory of all lanes anew.
    fn reset_shared(&mut self, index: DomainId) -> Result<(), Errno> {
        let Some(lane) = self.lane.clone() else { return Ok(()) };
        let memory = lane.home(index).memory();
        let Some(shared) = &*memory else { return Err(Errno::INVAL) };
        raised::reset(&shared.window, &shared.image, &mut self.supply.places.rng)?;
        shared.kept.iter().try_for_each(|kept| kept.clear())?;
        for (window, number) in &shared.views {
            let Some((seat, _)) = shared.seat(*number) else { return Err(Errno::INVAL) };
            window.zero(WindowOffset::new(shared.image.anchors.tcb), TCB_SIZE);
            view::start(window, &shared.image, &seat);
        }
        Ok(())
    }
}
