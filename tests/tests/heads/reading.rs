//! A decoder's reading of one instruction, in terms that all decoders share.

use std::fmt;

/// A register of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A general register of 64 bits.
    Wide(u8),
    /// A general register of 32 bits.
    Narrow(u8),
    /// rip or eip.
    Ip,
    /// xmm, ymm or zmm, as a vector of indices.
    Vector(u8),
    /// Any other register.
    Odd,
}

/// The segment of a memory operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// A segment that 64-bit mode treats as 0.
    #[default]
    Flat,
    Fs,
    Gs,
}

/// One memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub base: Option<Part>,
    pub index: Option<Part>,
    /// 1 if there is no index.
    pub scale: u8,
    /// Counted from the instruction's end if relative to rip.
    pub displacement: i32,
    pub segment: Segment,
    /// The address is truncated to 32 bits; `None` if the decoder does not say.
    pub narrow: Option<bool>,
    pub reads: bool,
    pub writes: bool,
    /// Size in bytes; `None` if the decoder does not say.
    pub size: Option<u16>,
}

/// The kinds of control flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Flow {
    #[default]
    Next,
    Conditional,
    Jump,
    Call,
    IndirectJump,
    IndirectCall,
    Return,
    /// `int3` and `ud2`.
    Trap,
    Other,
}

impl Flow {
    pub const ALL: [Flow; 9] = [
        Flow::Next,
        Flow::Conditional,
        Flow::Jump,
        Flow::Call,
        Flow::IndirectJump,
        Flow::IndirectCall,
        Flow::Return,
        Flow::Trap,
        Flow::Other,
    ];
}

/// Processor state that a domain must not change. Bits of [`Reading::control`].
pub mod control {
    /// rsp.
    pub const STACK: u16 = 1;
    /// A segment register, or the base of one.
    pub const SEGMENT: u16 = 2;
    /// A control, debug, test, bound, table, task, protection key or model specific register.
    pub const SYSTEM: u16 = 4;
    /// MXCSR.
    pub const MXCSR: u16 = 8;
    /// The direction flag is set or may be.
    pub const DIRECTION: u16 = 16;
    /// TF, IF, IOPL, NT, RF, VM, AC, VIF, VIP, ID.
    pub const FLAGS: u16 = 32;
    /// An AMX tile.
    pub const TILE: u16 = 64;
}

/// The facts that are compared. `None` if the decoder does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub length: u8,
    pub flow: Flow,
    /// Distance of a direct branch's target from the end.
    pub distance: Option<i64>,
    /// The memory operands that the instruction names, and those of rdi and rsi in string
    /// instructions, rdi's first. The control stack is not among them.
    pub memory: [Option<Operand>; 2],
    /// General registers written, by number. rsp is only noted as [`control::STACK`].
    pub general: u16,
    /// xmm, ymm and zmm registers written, by number.
    pub vectors: u32,
    /// Mask registers written, by number.
    pub masks: u8,
    /// Effects on the machine's state, as far as the decoder knows them: see [`control`].
    pub control: u16,
    /// The bits of `control` that the decoder reports.
    pub spoken: u16,
    /// Set if registers that are written besides the operands may be missing.
    pub partial: bool,
}

impl Reading {
    /// Notes a memory operand.
    pub fn add(&mut self, operand: Operand) -> Result<(), Unread> {
        let slot = self.memory.iter_mut().find(|slot| slot.is_none()).ok_or(Unread::ThirdOperand)?;
        *slot = Some(operand);
        if let [Some(first), Some(second)] = self.memory
            && (first.base, second.base) == (Some(Part::Wide(6)), Some(Part::Wide(7)))
        {
            self.memory.swap(0, 1);
        }
        Ok(())
    }

    /// Notes that a register is written.
    pub fn write_general(&mut self, number: u8) {
        match number {
            4 => self.control |= control::STACK,
            _ => self.general |= 1 << number,
        }
    }
}

/// The reason why there is no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The decoder does not know the bytes.
    Unknown,
    /// The instruction names three memory operands.
    ThirdOperand,
}

/// One kind of disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    Unknown,
    Length,
    Flow,
    Distance,
    /// The number of memory operands.
    Operands,
    /// Base, index, scale, displacement or segment.
    Address,
    /// The truncation of the address.
    Narrow,
    Reads,
    Writes,
    Size,
    General,
    Vectors,
    Masks,
    Control,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// Reports all differences between two readings.
pub fn differences(one: &Reading, other: &Reading, mut found: impl FnMut(Difference)) {
    let partial = other.partial;
    let mut check = |same: bool, difference| {
        if !same {
            found(difference);
        }
    };
    fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
        one.zip(other).is_none_or(|(one, other)| one == other)
    }
    let written = |one: u32, other: u32| if partial { other & !one == 0 } else { one == other };
    check(one.length == other.length, Difference::Length);
    check(one.flow == other.flow, Difference::Flow);
    check(agree(one.distance, other.distance), Difference::Distance);
    for pair in [0, 1].map(|i| (one.memory[i], other.memory[i])) {
        match pair {
            (None, None) => {}
            (Some(one), Some(other)) => {
                let place = |o: Operand| (o.base, o.index, o.scale, o.displacement, o.segment);
                check(place(one) == place(other), Difference::Address);
                check(agree(one.narrow, other.narrow), Difference::Narrow);
                check(one.reads == other.reads, Difference::Reads);
                check(one.writes == other.writes, Difference::Writes);
                check(agree(one.size, other.size), Difference::Size);
            }
            _ => check(false, Difference::Operands),
        }
    }
    check(written(one.general.into(), other.general.into()), Difference::General);
    check(written(one.vectors, other.vectors), Difference::Vectors);
    check(written(one.masks.into(), other.masks.into()), Difference::Masks);
    let spoken = one.spoken & other.spoken;
    check((one.control ^ other.control) & spoken == 0, Difference::Control);
}
