//! Facts about the original program's registers and frame at a point: the place of the stack
//! pointer, the registers that still hold the caller's values, the registers that hold a table's
//! address.

use crate::code::{Flow, Index, Insn, Old};
use crate::jump_tables;
use crate::leaves::Registers;
use crate::object::kind;
use crate::sets::{ARGUMENTS, Effects, PRESERVED, R15, RAX, RBP, RSP, number, numbers, whole};
use crate::sums::Sums;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The known content of a register or a word of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fact {
    #[default]
    Unknown,
    /// A distance from a stack pointer. Number 0 is the stack pointer at the function's entry.
    /// Other numbers are an instruction's index plus 1, for the stack pointer that it computed.
    Stack(u32, i64),
    /// The value of the register of this number at the function's entry.
    Caller(u8),
    /// A place of a section of data.
    Address(u32, i64),
    /// The address of an instruction of this object, or a place near it.
    Text,
    /// An entry of the switch table at a place. The entry is a distance.
    Entry(u32, i64),
    /// A target from the switch table at a place.
    Target(u32, i64),
    /// A sum. No program uses it as a function pointer.
    Sum,
}

/// Marks the numbers of stack pointers with several names before a label. The rest is the label's
/// index.
const JOINED: u32 = 1 << 31;

/// A word of the frame at an index: the place for index 0, the index register, and the scale.
type Indexed = ((u32, i64), usize, u32);

/// Facts at a point of a function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub registers: [Fact; 16],
    /// Bit `i`: register `i` was loaded from the frame, as a pointer that a container keeps to
    /// itself. The container may have changed meanwhile, so the pointer may lead elsewhere.
    loaded: u16,
    /// Words of the frame by place, in order.
    slots: Vec<((u32, i64), Fact)>,
    /// Stack pointers that were stored into the frame at an index.
    indexed: Vec<(Indexed, Fact)>,
    /// %al may hold the number of vector registers that a variadic call passes.
    pub count: bool,
    /// Registers that may hold a target of a switch.
    pub sums: Sums,
}

impl Clone for Facts {
    fn clone(&self) -> Facts {
        Facts { slots: self.slots.clone(), indexed: self.indexed.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Facts) {
        let Facts { registers, loaded, slots, indexed, count, sums } = other;
        (self.registers, self.loaded, self.count, self.sums) = (*registers, *loaded, *count, *sums);
        self.slots.clone_from(slots);
        self.indexed.clone_from(indexed);
    }
}

impl Facts {
    /// Returns the facts at a function's entry.
    pub(crate) fn entry() -> Facts {
        let mut registers = [Fact::Unknown; 16];
        registers[RSP] = Fact::Stack(0, 0);
        for number in PRESERVED.into_iter().chain([11, 10, 9, 8, 7, 6, 1, 2]) {
            registers[number] = Fact::Caller(number as u8);
        }
        Facts { registers, loaded: 0, slots: Vec::new(), indexed: Vec::new(), count: true, sums: Sums::default() }
    }

    /// Keeps the facts that both have, where control comes to a label. Says whether they changed.
    pub(crate) fn join(&mut self, other: &Facts, label: Option<Index>) -> bool {
        let name = label.map(|label| JOINED | label as u32);
        if let Some(name) = name.filter(|_| self.needs_name(other)) {
            let (before, mut other) = (self.clone(), other.clone());
            self.rename_stack(name);
            other.rename_stack(name);
            self.join_alike(&other);
            return *self != before;
        }
        self.join_alike(other)
    }

    /// Keeps the facts that both have. Says whether they changed.
    fn join_alike(&mut self, other: &Facts) -> bool {
        let before = (self.slots.len(), self.indexed.len(), self.loaded, self.count, self.sums);
        let mut changed = false;
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                changed |= *mine != Fact::Unknown;
                *mine = Fact::Unknown;
            }
        }
        self.slots.retain(|slot| {
            other.slots.binary_search_by_key(&slot.0, |s| s.0).is_ok_and(|at| other.slots[at].1 == slot.1)
        });
        self.indexed.retain(|slot| other.indexed.contains(slot));
        self.loaded |= other.loaded;
        self.count |= other.count;
        self.sums.join(other.sums);
        changed || before != (self.slots.len(), self.indexed.len(), self.loaded, self.count, self.sums)
    }

    /// Returns the stack pointer if an instruction computed it.
    fn computed_stack(&self) -> Option<(u32, i64)> {
        match self.registers[RSP] {
            Fact::Stack(base, distance) if base != 0 => Some((base, distance)),
            _ => None,
        }
    }

    /// Says whether both stack pointers were computed, and have two names.
    fn needs_name(&self, other: &Facts) -> bool {
        let both = self.computed_stack().zip(other.computed_stack());
        both.is_some_and(|(mine, theirs)| mine != theirs)
    }

    /// Gives a computed stack pointer this name.
    fn rename_stack(&mut self, name: u32) {
        if let Some(stack) = self.computed_stack() {
            self.rename(stack, name);
        }
    }

    /// Lets all places that count from `old` count from a stack pointer at `distance` from it.
    fn rename(&mut self, (old, distance): (u32, i64), name: u32) {
        if old != name {
            self.forget(name);
        }
        let place = |place: (u32, i64)| match place {
            (base, at) if base == old => (name, at.wrapping_sub(distance)),
            other => other,
        };
        let fact = |fact: Fact| match fact {
            Fact::Stack(base, at) if base == old => Fact::Stack(name, at.wrapping_sub(distance)),
            other => other,
        };
        self.registers = self.registers.map(fact);
        for slot in &mut self.slots {
            *slot = (place(slot.0), fact(slot.1));
        }
        self.slots.sort_unstable_by_key(|slot| slot.0);
        for ((at, ..), held) in &mut self.indexed {
            (*at, *held) = (place(*at), fact(*held));
        }
    }

    /// Forgets all places that count from the last stack pointer of this name.
    fn forget(&mut self, name: u32) {
        let named = |fact: Fact| matches!(fact, Fact::Stack(base, _) if base == name);
        self.registers = self.registers.map(|fact| if named(fact) { Fact::Unknown } else { fact });
        self.slots.retain(|((base, _), fact)| *base != name && !named(*fact));
        self.indexed.retain(|(((base, _), ..), fact)| *base != name && !named(*fact));
    }

    /// Gives a name to a stack pointer that an instruction computed.
    fn name_stack(&mut self, at: Index) {
        let name = at as u32 + 1;
        self.forget(name);
        self.registers[RSP] = Fact::Stack(name, 0);
    }

    /// Notes that a register holds the stack pointer.
    pub(crate) fn find_stack(&mut self, register: usize) {
        if let fact @ Fact::Stack(0, _) = self.registers[register] {
            self.registers[RSP] = fact;
        }
    }

    /// Says whether control can come to a label with the stack pointers of both facts. `self`: the
    /// facts at the label.
    pub(crate) fn has_stack_of(&self, other: &Facts, label: Index) -> bool {
        let joined = Fact::Stack(JOINED | label as u32, 0);
        let computed = matches!(other.registers[RSP], Fact::Stack(base, _) if base != 0);
        self.registers[RSP] == other.registers[RSP] || (self.registers[RSP] == joined && computed)
    }

    /// Says whether a register was loaded from the frame, so that its pointer may lead elsewhere.
    pub(crate) fn is_loaded(&self, register: usize) -> bool {
        self.loaded >> register & 1 != 0
    }

    /// Returns the distance of the stack pointer from its place at the entry.
    pub(crate) fn height(&self) -> Option<i64> {
        match self.registers[RSP] {
            Fact::Stack(0, distance) => Some(distance),
            _ => None,
        }
    }

    /// Takes arguments of this size off the stack.
    pub(crate) fn lower_arguments(&mut self, bytes: u32) {
        if let Fact::Stack(_, distance) = &mut self.registers[RSP] {
            *distance = distance.wrapping_add(i64::from(bytes));
        }
    }

    /// Returns the place of the memory operand in the frame.
    pub(crate) fn operand(&self, old: &Old<'_, '_>, at: Index) -> Option<(u32, i64)> {
        let insn = &old.text.insns[at];
        let ins = &insn.ins;
        let plain = ins.memory_index() == Register::None
            && insn.displacement.is_none()
            && !matches!(ins.segment_prefix(), Register::FS | Register::GS);
        match (plain, number(ins.memory_base()).map(|base| self.registers[base])) {
            (true, Some(Fact::Stack(base, distance))) => {
                Some((base, distance.wrapping_add(ins.memory_displacement64() as i64)))
            }
            _ => None,
        }
    }

    /// Returns the word of the frame that an operand with an index is.
    fn indexed(&self, old: &Old<'_, '_>, at: Index) -> Option<Indexed> {
        let insn = &old.text.insns[at];
        let ins = &insn.ins;
        let own = !matches!(ins.segment_prefix(), Register::FS | Register::GS) && insn.displacement.is_none();
        let index = number(ins.memory_index()).filter(|_| own && ins.memory_index().is_gpr64())?;
        let Fact::Stack(base, distance) = self.registers[number(ins.memory_base())?] else { return None };
        let place = (base, distance.wrapping_add(ins.memory_displacement64() as i64));
        Some((place, index, ins.memory_index_scale()))
    }

    /// Returns the content of a word of the frame.
    pub(crate) fn slot(&self, place: (u32, i64)) -> Fact {
        match self.slots.binary_search_by_key(&place, |s| s.0) {
            Ok(at) => self.slots[at].1,
            Err(_) => Fact::Unknown,
        }
    }

    /// Stores into the frame. If it is not `sure` that it is the frame, saved registers stay: no
    /// compiler keeps a pointer to them.
    fn store(&mut self, place: (u32, i64), size: i64, fact: Fact, sure: bool) {
        self.slots.retain(|((base, at), fact)| {
            let apart = *base != place.0 || *at + 8 <= place.1 || place.1 + size <= *at;
            apart || (!sure && matches!(fact, Fact::Caller(_)))
        });
        if fact != Fact::Unknown && size == 8 {
            let at = self.slots.partition_point(|s| s.0 < place);
            self.slots.insert(at, (place, fact));
        }
    }

    fn push(&mut self, fact: Fact) {
        if let Fact::Stack(base, distance) = self.registers[RSP] {
            self.registers[RSP] = Fact::Stack(base, distance - 8);
            self.store((base, distance - 8), 8, fact, true);
        }
    }

    fn pop(&mut self) -> Fact {
        match self.registers[RSP] {
            Fact::Stack(base, distance) => {
                self.registers[RSP] = Fact::Stack(base, distance + 8);
                self.slot((base, distance))
            }
            _ => Fact::Unknown,
        }
    }

    /// Moves past an instruction. `place`: the place that a rip-relative operand names. `called`:
    /// the registers that a call may change.
    pub(crate) fn step(
        &mut self,
        old: &Old<'_, '_>,
        effects: &Effects,
        at: Index,
        place: Option<(usize, i64)>,
        called: Registers,
    ) {
        let before = self.registers[RSP];
        let calls = matches!(old.flow[at], Flow::Call(_) | Flow::CallIndirect);
        let changed = effects.changes | if calls { called } else { 0 };
        self.execute(old, effects, at, place, called);
        self.indexed.retain(|((_, index, _), _)| changed & 1 << *index == 0);
        self.sums.step(old, effects, at);
        // Words below the stack pointer belong to nobody.
        if let (Fact::Stack(base, low), Fact::Stack(other, high)) = (before, self.registers[RSP])
            && base == other
            && low < high
        {
            self.slots.retain(|((of, at), _)| *of != base || *at >= high);
            self.indexed.retain(|(((of, _), ..), _)| *of != base);
        }
    }

    fn execute(
        &mut self,
        old: &Old<'_, '_>,
        effects: &Effects,
        at: Index,
        place: Option<(usize, i64)>,
        called: Registers,
    ) {
        let ins = &old.text.insns[at].ins;
        match old.flow[at] {
            Flow::Call(_) | Flow::CallIndirect => return self.called(called),
            Flow::Next => {}
            _ => return,
        }
        self.counting(ins, effects);
        let value = match ins.mnemonic() {
            Mnemonic::Syscall => return self.written(effects),
            Mnemonic::Push => {
                let fact = match ins.op0_kind() {
                    OpKind::Register => number(ins.op0_register()).map_or(Fact::Unknown, |n| self.registers[n]),
                    OpKind::Memory => self.operand(old, at).map_or(Fact::Unknown, |place| self.slot(place)),
                    _ => Fact::Unknown,
                };
                return self.push(fact);
            }
            Mnemonic::Pushfq => return self.push(Fact::Unknown),
            Mnemonic::Popfq => {
                self.pop();
                return;
            }
            Mnemonic::Pop => {
                let fact = self.pop();
                if let (OpKind::Register, Some(to)) = (ins.op0_kind(), number(ins.op0_register())) {
                    self.registers[to] = fact;
                } else if let Some(place) = self.operand(old, at) {
                    self.store(place, 8, fact, true);
                }
                return;
            }
            Mnemonic::Xchg if ins.op0_register().is_gpr64() && ins.op1_register().is_gpr64() => {
                if let (Some(a), Some(b)) = (number(ins.op0_register()), number(ins.op1_register())) {
                    self.registers.swap(a, b);
                    if (a == RSP || b == RSP) && self.registers[RSP] == Fact::Unknown {
                        self.name_stack(at);
                    }
                }
                return;
            }
            Mnemonic::Leave => {
                self.registers[RSP] = self.registers[RBP];
                self.registers[RBP] = self.pop();
                return;
            }
            _ => self.value(old, at, place),
        };
        let from = if ins.op1_kind() == OpKind::Register { ins.op1_register() } else { ins.memory_base() };
        let loaded = effects.loads || number(from).is_some_and(|from| self.is_loaded(from));
        if effects.stores
            && let Some(word) = self.indexed(old, at)
        {
            self.indexed.retain(|(known, _)| *known != word);
            if ins.mnemonic() == Mnemonic::Mov && ins.op1_register().is_gpr64() && matches!(value, Fact::Stack(..)) {
                self.indexed.push((word, value));
            }
        }
        if effects.stores
            && !ins.is_string_instruction()
            && !is_fence(&old.text.insns[at])
            && let Some(place) = self.operand(old, at)
        {
            let fact = match ins.mnemonic() {
                Mnemonic::Mov if ins.op1_register().is_gpr64() => value,
                _ => Fact::Unknown,
            };
            let sure = number(ins.memory_base()).is_some_and(|base| !self.is_loaded(base));
            self.store(place, ins.memory_size().size() as i64, fact, sure);
        }
        self.written(effects);
        let to = number(ins.op0_register()).filter(|_| ins.op_count() > 0 && ins.op0_kind() == OpKind::Register);
        if let Some(to) = to.filter(|to| effects.writes & whole(*to) == whole(*to) || *to == RSP)
            && ins.op0_register().is_gpr64()
        {
            let moved = to == RSP && (effects.named >> RSP) & 1 != 0 && writes_first(ins);
            match value {
                _ if to == RSP && !writes_first(ins) => {}
                value if moved && !matches!(value, Fact::Stack(..)) => self.name_stack(at),
                value => self.registers[to] = value,
            }
            self.loaded &= !(1 << to);
            if loaded && to != RSP {
                self.loaded |= 1 << to;
            }
        }
    }

    fn written(&mut self, effects: &Effects) {
        for number in numbers(effects.changes & !(1 << RSP)) {
            self.registers[number] = Fact::Unknown;
        }
    }

    /// Moves past a call. A function that gets the address of a word may change it: the pointer in
    /// a string or vector of C++ leads into the frame first, and then elsewhere. The word of a
    /// pointer to a function may become another variable, also one inside a structure whose address
    /// is passed. Saved registers stay.
    fn called(&mut self, changed: Registers) {
        self.count = false;
        let passed = ARGUMENTS.map(|number| self.registers[number]);
        self.slots.retain(|((base, at), fact)| {
            let within = |passed: &Fact| matches!(passed, Fact::Stack(of, from) if of == base && from <= at);
            match fact {
                Fact::Stack(..) => !passed.contains(&Fact::Stack(*base, *at)),
                Fact::Text => !passed.iter().any(within),
                _ => true,
            }
        });
        for number in numbers(changed & !(1 << RSP)) {
            self.registers[number] = Fact::Unknown;
        }
    }

    fn counting(&mut self, ins: &Instruction, effects: &Effects) {
        if effects.writes & whole(RAX) != 0 {
            let address = ins.mnemonic() == Mnemonic::Lea
                || (ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Memory);
            self.count = !(address && number(ins.op0_register()) == Some(RAX));
        }
    }

    /// Returns the fact about the instruction's result.
    fn value(&self, old: &Old<'_, '_>, at: Index, place: Option<(usize, i64)>) -> Fact {
        let insn = &old.text.insns[at];
        let ins = &insn.ins;
        let register = |r: Register| number(r).filter(|_| r.is_gpr64()).map_or(Fact::Unknown, |n| self.registers[n]);
        let immediate = || ins.try_immediate(1).ok().filter(|_| insn.immediate.is_none()).map(|v| v as i64);
        let shift = |fact: Fact, by: i64| match fact {
            Fact::Stack(base, distance) => Fact::Stack(base, distance.wrapping_add(by)),
            Fact::Text => Fact::Text,
            _ => Fact::Unknown,
        };
        // The table that an indexed operand reads, if the base register holds its address.
        let indexed = || match number(ins.memory_base()).map(|n| self.registers[n]) {
            Some(Fact::Address(section, base))
                if ins.memory_index() != Register::None && insn.displacement.is_none() =>
            {
                Some((section, base.wrapping_add(ins.memory_displacement64() as i64), ins.memory_index_scale()))
            }
            _ => None,
        };
        match ins.mnemonic() {
            Mnemonic::Mov if ins.op1_kind() == OpKind::Register => register(ins.op1_register()),
            Mnemonic::Mov if ins.op1_kind() == OpKind::Memory && jump_tables::read(old, at).is_some() => {
                jump_tables::read(old, at).map_or(Fact::Unknown, |(section, base)| Fact::Target(section as u32, base))
            }
            Mnemonic::Mov if ins.op1_kind() == OpKind::Memory => match (indexed(), self.operand(old, at)) {
                (Some((section, base, 8)), _) => Fact::Target(section, base),
                (_, Some(place)) if ins.op0_register().is_gpr64() => self.slot(place),
                _ => {
                    let word = self.indexed(old, at).filter(|_| ins.op0_register().is_gpr64());
                    let held = self.indexed.iter().find(|(known, _)| Some(*known) == word);
                    held.map_or(Fact::Unknown, |(_, fact)| *fact)
                }
            },
            Mnemonic::Movsxd if ins.op1_kind() == OpKind::Memory => match indexed() {
                Some((section, base, 4)) => Fact::Entry(section, base),
                _ => Fact::Unknown,
            },
            Mnemonic::Lea => match place {
                Some((section, offset)) => Fact::Address(section as u32, offset),
                None if names_text(old, at) => Fact::Text,
                None if ins.memory_index() != Register::None => {
                    if ins.memory_index_scale() == 1 && ins.memory_displacement64() == 0 {
                        sum(register(ins.memory_base()), register(ins.memory_index()))
                    } else {
                        Fact::Sum
                    }
                }
                None if insn.displacement.is_some() => Fact::Unknown,
                None => shift(register(ins.memory_base()), ins.memory_displacement64() as i64),
            },
            Mnemonic::Add => match immediate() {
                Some(by) => shift(register(ins.op0_register()), by),
                None if ins.op1_kind() == OpKind::Register => {
                    sum(register(ins.op0_register()), register(ins.op1_register()))
                }
                None => Fact::Unknown,
            },
            Mnemonic::Sub => {
                immediate().map_or(Fact::Unknown, |by| shift(register(ins.op0_register()), by.wrapping_neg()))
            }
            _ => Fact::Unknown,
        }
    }
}

fn sum(a: Fact, b: Fact) -> Fact {
    match (a, b) {
        (Fact::Entry(s, o), Fact::Address(t, p)) | (Fact::Address(t, p), Fact::Entry(s, o)) if (s, o) == (t, p) => {
            Fact::Target(s, o)
        }
        _ => Fact::Sum,
    }
}

/// Says whether the first operand is written.
fn writes_first(ins: &Instruction) -> bool {
    !matches!(ins.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push | Mnemonic::Bt)
}

/// Says whether an instruction is a fence like `lock orq $0,(%rsp)`, which changes no memory.
pub(crate) fn is_fence(insn: &Insn) -> bool {
    let ins = &insn.ins;
    ins.has_lock_prefix()
        && matches!(ins.mnemonic(), Mnemonic::Or | Mnemonic::Add)
        && insn.immediate.is_none()
        && ins.try_immediate(1).is_ok_and(|value| value == 0)
}

/// Returns the place of data that a rip-relative operand names: section of the original object and
/// offset.
pub(crate) fn named_place(old: &Old<'_, '_>, at: Index) -> Option<(usize, i64)> {
    let insn = &old.text.insns[at];
    let reloc = old.relocation(at, insn.displacement)?;
    if insn.ins.memory_base() != Register::RIP || kind::is_got(reloc.kind) || kind::is_thread(reloc.kind) {
        return None;
    }
    let symbol = old.pair.old.symbols.get(reloc.symbol)?;
    let sfi_elf::Place::Section(section) = symbol.place else { return None };
    let executable = old.pair.old.sections[section].is_executable();
    (!executable).then(|| (section, (symbol.value as i64).wrapping_add(reloc.addend).wrapping_add(insn.behind())))
}

/// Says whether a rip-relative operand names an instruction of the original program.
fn names_text(old: &Old<'_, '_>, at: Index) -> bool {
    let insn = &old.text.insns[at];
    if insn.ins.memory_base() != Register::RIP {
        return false;
    }
    let Some(number) = insn.displacement else {
        return old.text.at(insn.section as usize, insn.ins.memory_displacement64()).is_some();
    };
    let Some(reloc) = old.relocation(at, Some(number)) else { return false };
    let direct = matches!(reloc.kind, kind::PC32 | kind::PLT32);
    let symbol = old.pair.old.symbols.get(reloc.symbol).filter(|_| direct);
    symbol.is_some_and(|symbol| match symbol.place {
        sfi_elf::Place::Section(section) => {
            let offset = symbol.value.wrapping_add_signed(reloc.addend.wrapping_add(insn.behind()));
            old.text.at(section, offset).is_some()
        }
        _ => false,
    })
}

/// Says whether an instruction reads memory at the address of an instruction, or near it. The new
/// program has the address of a slot there.
pub(crate) fn reads_text(facts: &Facts, ins: &Instruction, effects: &Effects) -> bool {
    let text = |register: Register| number(register).is_some_and(|n| facts.registers[n] == Fact::Text);
    // The table of virtual functions of an odd pointer to a member function (Itanium C++ ABI).
    let member = ins.memory_index() != Register::None && ins.memory_displacement64() as i64 == -1;
    effects.loads && !member && (text(ins.memory_base()) || text(ins.memory_index()))
}

/// Says whether a preserved register, r15 included, holds the caller's value.
pub(crate) fn is_callers(facts: &Facts, number: usize) -> bool {
    debug_assert!(number <= R15);
    facts.registers[number] == Fact::Caller(number as u8)
}
