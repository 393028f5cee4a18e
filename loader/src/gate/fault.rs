//! A domain's record of its last fault, written by the signal handler. It is raw: its addresses are
//! secrets.

/// The signal handler's notes of a fault. They are raw: their addresses are secrets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RawFault {
    /// Signal number, 0 if there was no fault.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`, or for a trap of mode match the address that was checked.
    pub address: u64,
    /// Instruction pointer.
    pub rip: u64,
    /// The topmost return address, if there is one.
    pub caller: u64,
    /// Says whether the control stack was used up.
    pub control: bool,
    /// Says whether the access was a store.
    pub store: bool,
    /// Says whether a charge found the budget of instructions used up.
    pub spent: bool,
    /// Time of the fault in nanoseconds of the monotonic clock, or 0 if none was noted.
    pub when: u64,
}

/// Largest number of places in a trace.
pub(crate) const DEPTH: usize = 48;
/// A place in the host.
pub(crate) const HOST: u64 = u64::MAX;

/// Places, innermost first. Each is the domain's index and the window offset of a return address,
/// or [`HOST`].
#[derive(Clone, Copy)]
pub(crate) struct Trace {
    pub places: [u64; DEPTH],
    pub count: u32,
    /// Number of further places.
    more: u32,
}

impl Trace {
    /// No places.
    pub(crate) const EMPTY: Trace = Trace { places: [0; DEPTH], count: 0, more: 0 };

    /// Returns the number of places that were not noted.
    pub(crate) fn more(&self) -> u32 {
        self.more
    }

    pub(crate) fn push(&mut self, place: u64) {
        match self.places.get_mut(self.count as usize) {
            Some(free) => {
                *free = place;
                self.count += 1;
            }
            None => self.more = self.more.saturating_add(1),
        }
    }
}
