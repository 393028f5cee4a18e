//! Numbers of a world's instances and lives.

use crate::gate::ids::DomainId;
use crate::world::links::words::Words;

/// Counts the instances and the lives of a world's domains, and remembers the places of discarded
/// instances.
#[derive(Default)]
pub(crate) struct Lives {
    /// Instances that were ever made.
    instances: u64,
    /// Further lives: of domains that were restarted, reset, loaded again, or made at run time.
    births: u64,
    /// Numbers of instances that were discarded.
    vacant: Vec<DomainId>,
    /// Libraries that were ever linked into a domain.
    links: u64,
    /// The numbers by which looked up functions of libraries are checked.
    pub words: Words,
}

impl Lives {
    /// Returns the number of a new instance, from 1 on.
    pub(crate) fn new_instance(&mut self) -> u64 {
        self.instances += 1;
        self.instances
    }

    /// Returns the number of a further life, from 1 on.
    pub(crate) fn new_birth(&mut self) -> u64 {
        self.births += 1;
        self.births
    }

    /// Returns the number of a further link, from 1 on.
    pub(crate) fn new_link(&mut self) -> u64 {
        self.links += 1;
        self.links
    }

    /// Takes the place of a discarded instance, the one that was left last.
    pub(crate) fn take_vacant(&mut self) -> Option<DomainId> {
        self.vacant.pop()
    }

    /// Leaves a place for a later instance.
    pub(crate) fn leave(&mut self, index: DomainId) {
        self.vacant.push(index);
    }
}
