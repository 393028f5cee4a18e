//! Counts for people.

use crate::text::growth::Growth;

/// Counts for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions read.
    pub instructions: u64,
    /// Explicit and implicit stores made safe.
    pub stores: u64,
    /// Indirect branches made safe.
    pub indirect: u64,
    /// String instructions made safe.
    pub strings: u64,
    /// Units of code: functions with all that jumps connect to them.
    pub units: u64,
    /// Units that do not use r15.
    pub untouched: u64,
    /// Units whose r15 became a preserved register that was free.
    pub renamed: u64,
    /// Leaf units whose r15 became a call-clobbered register.
    pub leaves: u64,
    /// Units whose r15, or the register with which it changed places, lives in the frame slot where it was saved.
    pub slots: u64,
    /// Other units in which another register lives in memory, with which r15 changed places.
    pub exchanged: u64,
    /// Other units whose r15 lives in memory.
    pub homed: u64,
    /// Registers spilled because none was free.
    pub spills: u64,
    /// Times that flags are saved and restored.
    pub flag_saves: u64,
    /// Labels that have a landing pad.
    pub pads: u64,
    /// Bytes of code read and written.
    pub text_in: u64,
    /// Bytes of code written.
    pub text_out: u64,
    /// What these bytes are for.
    pub growth: Growth,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, more: Stats) {
        self.instructions += more.instructions;
        self.stores += more.stores;
        self.indirect += more.indirect;
        self.strings += more.strings;
        self.units += more.units;
        self.untouched += more.untouched;
        self.renamed += more.renamed;
        self.leaves += more.leaves;
        self.slots += more.slots;
        self.exchanged += more.exchanged;
        self.homed += more.homed;
        self.spills += more.spills;
        self.flag_saves += more.flag_saves;
        self.pads += more.pads;
        self.text_in += more.text_in;
        self.text_out += more.text_out;
        self.growth += more.growth;
    }
}
