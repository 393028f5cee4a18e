//! The search for a deadlock of lanes that wait for E-stacks. `loader/tests/doors.rs` runs this
//! file with other atomics, in every order that the memory model allows.

use crate::gate::room::Room;

/// A domain, for the search.
pub(crate) struct Wanted<'r> {
    pub room: &'r Room,
    pub estacks: usize,
    /// Set while a lane begins the domain's next life. Nobody else enters it.
    pub begins: bool,
}

/// Says whether a lane that waits can never go on: each lane that it waits for waits for an E-stack
/// that only such lanes have. `waiting` holds the domain that each lane waits for. Whoever calls
/// this keeps it from changing.
pub(crate) fn is_stuck<'r>(waiting: &[Option<usize>], lane: usize, wanted: impl Fn(usize) -> Wanted<'r>) -> bool {
    let mut goes_on: Vec<bool> = waiting.iter().map(Option::is_none).collect();
    loop {
        let free = |(other, domain): (usize, &Option<usize>)| {
            let Some(Wanted { room, estacks, begins }) = domain.map(&wanted) else { return false };
            let mut users = room.users(other, false);
            // All must leave a domain that ended, and nobody enters one that begins.
            if room.is_ended() || begins {
                users.all(|user| goes_on[user])
            } else {
                room.users(other, false).count() < estacks || users.any(|user| goes_on[user])
            }
        };
        let free: Vec<bool> = waiting.iter().enumerate().map(free).collect();
        let before = goes_on.clone();
        goes_on.iter_mut().zip(free).for_each(|(goes_on, free)| *goes_on |= free);
        if goes_on[lane] || goes_on == before {
            return !goes_on[lane];
        }
    }
}
