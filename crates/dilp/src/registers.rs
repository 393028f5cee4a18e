//! Registers of the scalar code: values in the order of their making, and a frame on the data stack
//! for those that find no register.

use crate::asm::{Alu, Asm, Gpr, Memory, R15, RAX, RCX, RDI, RDX, RSI, Rm};
use crate::pipe::Width;

/// The number of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(usize);

#[derive(Clone, Copy, Debug)]
enum Place {
    Reg(Gpr),
    Slot(i32),
}

#[derive(Clone, Copy, Debug)]
struct Value {
    place: Place,
    /// The bits above this width are 0.
    width: Width,
}

/// The place of a persistent register while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Reg(Gpr),
    /// A place in the frame.
    Slot(i32),
}

/// Registers that a function may change, and then those that it must preserve.
const POOL: [Gpr; 11] = [RAX, RCX, 8, 9, 10, 11, 3, 5, 12, 13, 14];
/// Registers that a function must preserve.
pub(crate) const PRESERVED: [Gpr; 5] = [3, 5, 12, 13, 14];
/// Registers with a use of their own: destination, source and remaining bytes.
pub(crate) const SINK: Gpr = RDI;
pub(crate) const SOURCE: Gpr = RSI;
pub(crate) const LEFT: Gpr = RDX;
/// Most persistent registers that live in registers.
const PINS: usize = 5;

/// The registers and the frame of a function.
#[derive(Debug)]
pub(crate) struct Registers {
    values: Vec<Value>,
    /// Values that are in use, the oldest first.
    live: Vec<Id>,
    pool: &'static [Gpr],
    free: u16,
    /// Registers that the instruction in progress needs.
    locked: u16,
    /// Registers that were ever used.
    pub(crate) used: u16,
    pins: usize,
    /// Size of the frame so far.
    frame: i32,
    spare: Vec<i32>,
    /// Loads are confined, too.
    confined: bool,
}

impl Registers {
    pub(crate) fn new(confined: bool, budget: bool) -> Registers {
        // With a budget r14 holds what is left of it.
        let pool = if budget { &POOL[..POOL.len() - 1] } else { &POOL };
        let free = pool.iter().fold(0, |set, register| set | 1 << register);
        let (values, live, spare) = (Vec::with_capacity(64), Vec::with_capacity(16), Vec::new());
        Registers { values, live, pool, free, locked: 0, used: 0, pins: 0, frame: 0, spare, confined }
    }

    /// Reserves bytes of the frame for good, and returns their distance from r15.
    pub(crate) fn reserve(&mut self, bytes: i32) -> i32 {
        self.frame += bytes;
        self.frame - bytes
    }

    /// Returns the frame's size: a multiple of 16.
    pub(crate) fn frame(&self) -> i32 {
        (self.frame + 15) & !15
    }

    /// Gives a persistent register its place.
    pub(crate) fn pin(&mut self) -> Home {
        if self.pins == PINS {
            return Home::Slot(self.reserve(8));
        }
        // From the end, because temporary values begin at the front.
        let register = self.pool[self.pool.len() - 1 - self.pins];
        self.pins += 1;
        self.free &= !(1 << register);
        self.used |= 1 << register;
        Home::Reg(register)
    }

    /// Returns the operand for a store to the frame.
    pub(crate) fn slot(distance: i32) -> Memory {
        Memory { base: R15, distance, confined: true }
    }

    /// Returns the operand for a load from an address in a register.
    pub(crate) fn load_from(&self, base: Gpr, distance: i32) -> Memory {
        Memory { base, distance, confined: self.confined }
    }

    fn take(&mut self, asm: &mut Asm) -> Gpr {
        if self.free == 0 {
            self.spill(asm);
        }
        let pool = self.pool.iter().find(|register| self.free & 1 << **register != 0);
        let register = *pool.expect("a register was spilled");
        self.free &= !(1 << register);
        self.used |= 1 << register;
        self.locked |= 1 << register;
        register
    }

    /// Moves the oldest value to the frame. Stages nest, so it is the one that is needed last.
    fn spill(&mut self, asm: &mut Asm) {
        let (register, id) = self
            .live
            .iter()
            .find_map(|id| match self.values[id.0].place {
                Place::Reg(register) if self.locked & 1 << register == 0 => Some((register, *id)),
                _ => None,
            })
            .expect("an instruction locks few registers");
        let slot = self.spare.pop().unwrap_or_else(|| self.reserve(8));
        asm.store(Width::W64, Registers::slot(slot), register);
        self.values[id.0].place = Place::Slot(slot);
        self.free |= 1 << register;
    }

    /// Makes a value without contents.
    pub(crate) fn make(&mut self, asm: &mut Asm, width: Width) -> (Id, Gpr) {
        let register = self.take(asm);
        let id = Id(self.values.len());
        self.values.push(Value { place: Place::Reg(register), width });
        self.live.push(id);
        (id, register)
    }

    /// Returns the register of a value, until [`Registers::unlock`].
    pub(crate) fn get(&mut self, asm: &mut Asm, id: Id) -> Gpr {
        let register = match self.values[id.0].place {
            Place::Reg(register) => register,
            Place::Slot(slot) => {
                let register = self.take(asm);
                asm.extend(Width::W64, register, Rm::Mem(self.load_from(R15, slot)));
                self.spare.push(slot);
                self.values[id.0].place = Place::Reg(register);
                register
            }
        };
        self.locked |= 1 << register;
        register
    }

    /// Ends an instruction: its registers may be spilled again.
    pub(crate) fn unlock(&mut self) {
        self.locked = 0;
    }

    /// Ends a value.
    pub(crate) fn end(&mut self, id: Id) {
        match self.values[id.0].place {
            Place::Reg(register) => self.free |= 1 << register,
            Place::Slot(slot) => self.spare.push(slot),
        }
        self.live.retain(|other| *other != id);
    }

    pub(crate) fn width(&self, id: Id) -> Width {
        self.values[id.0].width
    }

    pub(crate) fn set_width(&mut self, id: Id, width: Width) {
        self.values[id.0].width = width;
    }

    /// Clears the bits of a value above a width.
    pub(crate) fn cut(&mut self, asm: &mut Asm, id: Id, width: Width) {
        if self.width(id) > width {
            let register = self.get(asm, id);
            asm.extend(width, register, Rm::Reg(register));
            self.set_width(id, width);
            self.unlock();
        }
    }

    /// Returns a copy of a value, cut to a width.
    pub(crate) fn copy(&mut self, asm: &mut Asm, id: Id, width: Width) -> Id {
        let from = self.get(asm, id);
        let (copy, to) = self.make(asm, width.min(self.width(id)));
        asm.extend(width, to, Rm::Reg(from));
        self.unlock();
        copy
    }

    /// Forgets ended values. None may be in use.
    pub(crate) fn clear(&mut self) {
        debug_assert!(self.live.is_empty(), "values are left over");
        self.values.clear();
    }

    /// Adds a number to a persistent register.
    pub(crate) fn add_to(asm: &mut Asm, home: Home, number: u64) {
        match home {
            Home::Reg(register) => asm.alu_number(Alu::Add, Width::W64, register, number),
            Home::Slot(slot) => asm.add_to_memory(Registers::slot(slot), number as i32),
        }
    }
}
