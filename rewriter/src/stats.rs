//! Counts of a rewrite, for reports.

/// Counts of one rewrite, or of several added up.
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
    /// Units whose r15, or the register with which it changed places, lives in the frame slot where
    /// it was saved.
    pub slots: u64,
    /// Other units whose r15 changed places with a register, which lives in memory.
    pub exchanged: u64,
    /// Other units whose r15 lives in memory.
    pub homed: u64,
    /// Registers spilled because none was free.
    pub spills: u64,
    /// Times that flags are saved and restored.
    pub flag_saves: u64,
    /// Labels that have a landing pad.
    pub pads: u64,
    /// Bytes of code read.
    pub text_in: u64,
    /// Bytes of code written.
    pub text_out: u64,
    /// Bytes of code read and written, by purpose.
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

/// A purpose of bytes of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nops and marks for control-flow enforcement. The rewriter drops them.
    Padding,
    /// Adjustments of rsp. They become `lea n(%r15),%r15`.
    StackPointer,
    /// `push`. It becomes a store.
    Push,
    /// `pop`. It becomes a load.
    Pop,
    /// Operands in memory with rsp or rbp as their base.
    Frame,
    /// Other operands in memory.
    Memory,
    /// Direct branches.
    Branch,
    /// Indirect branches.
    Indirect,
    /// Operands that name r15, and the code that replaces them.
    R15,
    /// Everything else.
    Rest,
}

/// Number of parts.
const PARTS: usize = Part::Rest as usize + 1;

/// Bytes of every part, before and after the rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth(pub(crate) [(u64, u64); PARTS]);

impl Growth {
    /// Returns the names of the parts, with bytes before and after.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        const NAMES: [&str; PARTS] = [
            "padding",
            "stack pointer",
            "push",
            "pop",
            "frame",
            "memory",
            "branches",
            "indirect branches",
            "r15",
            "rest",
        ];
        NAMES.into_iter().zip(self.0).map(|(name, (before, after))| (name, before, after))
    }
}
