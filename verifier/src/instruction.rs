//! The rules about single instructions, one function for each. `docs/CONTRACT.md` says what they demand, `sfi_contract::Rule` why.

use crate::prefix::{self, Defect, Prefixes};
use crate::region::{self, Pointers, Tracker};
use crate::sweep::{Branch, Sweep};
use crate::{refuse, second};
use iced_x86::{Code, Instruction, OpKind, Register};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::policy::prefix::{P65, P66, P67, PF0, PF2, PF3, REX};
use sfi_contract::policy::{self, Class, Form, Memory};
use sfi_contract::{Mode, Rule};

/// Bit of the general register that a register is part of; 0 for all others.
static GPR: [u16; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 16 {
        let bit = 1 << n;
        table[Register::AX as usize + n] = bit;
        table[Register::EAX as usize + n] = bit;
        table[Register::RAX as usize + n] = bit;
        if n < 4 {
            table[Register::AL as usize + n] = bit;
            table[Register::AH as usize + n] = bit;
        } else {
            table[Register::SPL as usize + n - 4] = bit;
        }
        n += 1;
    }
    table
};

const RBX: u16 = 1 << 3;
const RSP: u16 = 1 << 4;

#[inline]
pub(crate) fn gpr(register: Register) -> u16 {
    GPR.get(register as usize).copied().unwrap_or(0)
}

/// No instruction has all prefixes.
const NEVER: u8 = 0xff;

/// See [`Sweep::required`].
pub(crate) fn required(mode: Mode) -> [u8; 7] {
    let full = mode == Mode::Full;
    let mut required = [0; 7];
    required[Memory::Store as usize] = P65 | P67;
    required[Memory::Lockable as usize] = P65 | P67;
    required[Memory::Moving as usize] = NEVER;
    required[Memory::Load as usize] = if full { P65 | P67 } else { 0 };
    required[Memory::Gather as usize] = if full { NEVER } else { 0 };
    required
}

/// A ModRM memory operand; none has another index (a test of the list says so).
#[inline]
fn has_memory_operand(i: &Instruction) -> bool {
    (i.op0_kind() == OpKind::Memory)
        | (i.op1_kind() == OpKind::Memory)
        | (i.op2_kind() == OpKind::Memory)
        | (i.op3_kind() == OpKind::Memory)
}

/// One decoded instruction in its place.
struct Place<'i> {
    /// Offset from the text's first byte.
    at: u64,
    instruction: &'i Instruction,
    prefixes: Prefixes,
    form: &'static Form,
    /// The operand that may be memory is memory.
    memory: bool,
}

impl Sweep<'_, '_> {
    /// All rules about one instruction.
    #[inline]
    pub(crate) fn check(&mut self, at: u64, instruction: &Instruction, raw: &[u8]) {
        let relocated = self.next_relocation_at < at + raw.len() as u64;
        let displacement_relocated = relocated && self.check_relocations(at, instruction, raw.len());
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(defect) => return self.defect(at, instruction, defect),
        };
        let Some(form) = policy::lookup(instruction.code()) else { return self.not_listed(at, instruction) };
        let found = self.findings.count();
        let memory = (form.memory != Memory::None) & has_memory_operand(instruction);
        let place = Place { at, instruction, prefixes, form, memory };
        self.check_prefixes(&place);
        let written = self.check_registers(&place);
        let required = if memory { self.required[form.memory as usize] } else { 0 };
        if prefixes.seen & required != required {
            self.check_memory(&place, displacement_relocated);
        }
        match form.class {
            Class::Branch => self.check_branch(&place, relocated),
            Class::IndirectBranch => self.check_indirect_branch(&place),
            Class::String => self.check_string(&place),
            Class::Table => self.check_table(&place),
            Class::Clock => self.check_policy(&place, self.options.clock, "the clock"),
            Class::Identity => self.check_policy(&place, self.options.identity, "the machine's identity"),
            _ => {}
        }
        if self.options.second && !self.memo.knows(raw) && self.findings.count() == found {
            self.check_second(&place, raw, written);
        }
        self.map.classes |= 1 << form.class as u32;
        self.map.gprs |= written;
        self.tracker.step(at, instruction, prefixes);
    }

    /// Rule `SFI-D05`: the second decoder reads the same.
    #[inline(never)]
    fn check_second(&mut self, place: &Place<'_>, raw: &[u8], written: u16) {
        let string_store = place.form.class == Class::String && writes_string(place.instruction);
        let first = second::First { instruction: place.instruction, form: place.form, written, string_store };
        match second::check(raw, &first) {
            Ok(()) => self.memo.learn(raw),
            Err(difference) => self.refuse(Rule::SecondReading, place.at, place.instruction, difference),
        }
    }

    /// Rules `SFI-D02`, `SFI-D04`, `SFI-C02`, `SFI-F02`, `SFI-S03`, `SFI-I01` for what is not on the positive list.
    #[cold]
    fn not_listed(&mut self, at: u64, instruction: &Instruction) {
        self.tracker = Tracker::default();
        let (rule, why) = refuse::reason(instruction);
        self.refuse(rule, at, instruction, why);
    }

    /// Rules `SFI-F01` and `SFI-D03` on the prefix bytes alone.
    #[cold]
    fn defect(&mut self, at: u64, instruction: &Instruction, defect: Defect) {
        self.tracker = Tracker::default();
        match defect {
            Defect::Fs => self.refuse(Rule::FsNamed, at, instruction, "prefix 64"),
            Defect::Other(why) => self.refuse(Rule::Prefix, at, instruction, why),
        }
    }

    /// Rule `SFI-D03`: every prefix has its meaning for this form.
    #[inline]
    fn check_prefixes(&mut self, place: &Place<'_>) {
        let (seen, form) = (place.prefixes.seen, place.form);
        // The common cases: what the form needs, and 65 and 67 where memory is accessed. REX matters to the classes from Hint on.
        let accessed = place.memory & (form.memory != Memory::Address);
        let optional = if accessed { REX | P65 | P67 } else { REX };
        let plain = ((form.class as u8) < Class::Hint as u8) | (seen == 0) | accessed;
        if (seen & !optional == form.prefixes) & plain {
            return;
        }
        self.check_odd_prefixes(place);
    }

    #[inline(never)]
    fn check_odd_prefixes(&mut self, place: &Place<'_>) {
        let (seen, form) = (place.prefixes.seen, place.form);
        let stray = (seen & (P66 | PF2 | PF3)) ^ form.prefixes;
        let stray_allowed = match form.class {
            Class::String => stray == 0 || stray == PF3 || stray == PF2 && is_compare(place.instruction.code()),
            // c3 or f3 c3
            Class::Return => stray == 0 || stray == PF3,
            _ => stray == 0,
        };
        let why = if !stray_allowed {
            "66, f2 or f3 that selects neither the instruction nor the operand size"
        } else if seen & PF0 != 0 && !(form.memory == Memory::Lockable && place.memory) {
            "lock without a memory destination that can be locked"
        } else if seen & (P65 | P67) != 0 && !place.memory {
            "a segment or address size prefix without a memory operand"
        } else if seen & P65 != 0 && form.memory == Memory::Address {
            "a segment prefix on an address that is not accessed"
        } else if seen & REX != 0 && matches!(form.class, Class::Hint | Class::Branch | Class::Return) && !place.memory
        {
            // f3 41 90 is `pause` to one decoder and `xchg %r8,%rax` to another.
            "REX on an instruction without operands"
        } else {
            return;
        };
        self.refuse(Rule::Prefix, place.at, place.instruction, why);
    }

    /// Rule `SFI-C01`: no operand names the control stack pointer. Notes the general registers named and gives those written.
    #[inline]
    fn check_registers(&mut self, place: &Place<'_>) -> u16 {
        let i = place.instruction;
        let operands = [gpr(i.op0_register()), gpr(i.op1_register()), gpr(i.op2_register()), gpr(i.op3_register())];
        let named =
            operands[0] | operands[1] | operands[2] | operands[3] | gpr(i.memory_base()) | gpr(i.memory_index());
        if named & RSP != 0 {
            self.refuse(Rule::StackPointer, place.at, i, "rsp holds return addresses and nothing else");
        }
        let mut written = place.form.clobbers;
        let mut bit = 0;
        while bit < 4 {
            if place.form.writes & (1 << bit) != 0 {
                written |= operands[bit];
            }
            bit += 1;
        }
        self.map.named |= named | if reads_rbx(i.code()) { RBX } else { 0 };
        written
    }

    /// Rules about a ModRM memory operand without the prefixes that make it confined.
    #[inline(never)]
    fn check_memory(&mut self, place: &Place<'_>, displacement_relocated: bool) {
        match place.form.memory {
            Memory::None | Memory::Address => {}
            Memory::Store | Memory::Lockable => self.check_store(place),
            Memory::Moving => {
                self.refuse(Rule::StoreMoving, place.at, place.instruction, "the register operand moves the address");
            }
            Memory::Load => self.check_load(place, displacement_relocated),
            Memory::Gather => {
                self.refuse(Rule::LoadUnconfined, place.at, place.instruction, "gathers are not confined");
            }
        }
    }

    /// Rules `SFI-S01` and `SFI-S02`: GS and 32-bit address size, on the raw bytes.
    fn check_store(&mut self, place: &Place<'_>) {
        let confined = place.prefixes.seen & (P65 | P67);
        if confined & P65 == 0 {
            self.refuse(Rule::StoreSegment, place.at, place.instruction, "the bytes have no prefix 65 (gs)");
        } else {
            let detail = "the bytes have no prefix 67 (32-bit address size)";
            self.refuse(Rule::StoreAddressSize, place.at, place.instruction, detail);
        }
    }

    /// Rules `SFI-L01` and, in the final text, `SFI-T03`.
    fn check_load(&mut self, place: &Place<'_>, displacement_relocated: bool) {
        let instruction = place.instruction;
        let confined = place.prefixes.seen & (P65 | P67);
        // The header page's first word, named by a constant.
        if region::is_rebase(instruction, place.prefixes) && !displacement_relocated {
            return;
        }
        if confined != 0 || instruction.memory_base() != Register::RIP {
            let detail = "neither 65 67 (gs, 32-bit address size) nor rip-relative";
            self.refuse(Rule::LoadUnconfined, place.at, instruction, detail);
        } else if self.text.relocations.is_none() {
            // rip-relative: iced gives the target. No operand on the list is wider than 128 bytes.
            let target = instruction.memory_displacement64();
            if target > WINDOW_SIZE - 128 {
                let detail = format!("it reads at window offset {:#x}", target as i64);
                self.refuse(Rule::FinalLoad, place.at, instruction, &detail);
            }
        } else if !displacement_relocated {
            self.refuse(Rule::LoadUnconfined, place.at, instruction, "rip-relative without a relocation");
        }
    }

    /// Notes a direct branch; its target is checked when all boundaries are known.
    #[inline]
    fn check_branch(&mut self, place: &Place<'_>, relocated: bool) {
        if !relocated {
            let at = self.text.base.wrapping_add(place.at);
            self.map.branches.push(Branch { at, target: place.instruction.near_branch64() });
        }
    }

    /// Rule `SFI-I01`.
    #[inline(never)]
    fn check_indirect_branch(&mut self, place: &Place<'_>) {
        match self.tracker.indirect_branch(place.instruction, place.prefixes) {
            Some(start) => self.region(start, place),
            None => self.refuse(
                Rule::IndirectBranch,
                place.at,
                place.instruction,
                "not `and $0xffff8,%r32` directly followed by a branch through %gs:0x100000(%r32)",
            ),
        }
    }

    /// Rule `SFI-S04`.
    #[inline(never)]
    fn check_string(&mut self, place: &Place<'_>) {
        let instruction = place.instruction;
        let (kind0, kind1) = (instruction.op0_kind(), instruction.op1_kind());
        let needs = Pointers {
            rdi: writes_string(instruction)
                || self.full && (kind0 == OpKind::MemoryESRDI || kind1 == OpKind::MemoryESRDI),
            rsi: self.full && (kind0 == OpKind::MemorySegRSI || kind1 == OpKind::MemorySegRSI),
        };
        if !needs.rdi && !needs.rsi {
            return;
        }
        match self.tracker.string(needs) {
            Some(start) => self.region(start, place),
            None => {
                let detail =
                    "`mov %edi,%edi` and `add %gs:0xff000,%rdi` (in mode full for %rsi too) are not right before it";
                self.refuse(Rule::StringMask, place.at, instruction, detail);
            }
        }
    }

    /// Marks an unsafe region from `start` to this instruction. Rule `SFI-R03`: nothing in it is relocated.
    #[inline(never)]
    fn region(&mut self, start: u64, place: &Place<'_>) {
        self.map.targets.remove(start as usize + 1, place.at as usize);
        self.map.regions.push((start, place.at + place.instruction.len() as u64 - 1));
        if let Some(offset) = self.relocated_at.filter(|offset| *offset >= start) {
            let detail = format!("the relocation at {offset:#x} lies in the unsafe region from {start:#x} on");
            self.refuse(Rule::RelocationGuard, place.at, place.instruction, &detail);
        }
    }

    /// `xlat` reads at rbx + al.
    #[inline(never)]
    fn check_table(&mut self, place: &Place<'_>) {
        if self.full {
            self.refuse(Rule::LoadUnconfined, place.at, place.instruction, "xlat cannot be confined");
        }
    }

    /// Rule `SFI-D02` for forms that the host may switch off.
    #[inline(never)]
    fn check_policy(&mut self, place: &Place<'_>, allowed: bool, what: &str) {
        if !allowed {
            let detail = format!("it reads {what}, which this host does not grant");
            self.refuse(Rule::NotAllowed, place.at, place.instruction, &detail);
        }
    }
}

/// A string instruction that stores through rdi.
fn writes_string(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::MemoryESRDI && !is_compare(instruction.code())
}

/// The forms that read a preserved register without naming it: always rbx.
#[inline]
fn reads_rbx(code: Code) -> bool {
    matches!(code, Code::Xlat_m8 | Code::Cmpxchg8b_m64 | Code::Cmpxchg16b_m128)
}

/// `cmps` and `scas` write nothing and know both `repe` and `repne`.
fn is_compare(code: Code) -> bool {
    matches!(
        code,
        Code::Cmpsb_m8_m8
            | Code::Cmpsw_m16_m16
            | Code::Cmpsd_m32_m32
            | Code::Cmpsq_m64_m64
            | Code::Scasb_AL_m8
            | Code::Scasw_AX_m16
            | Code::Scasd_EAX_m32
            | Code::Scasq_RAX_m64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table agrees with iced for every register.
    #[test]
    fn general_registers_have_their_numbers() {
        for register in Register::values() {
            let expected = if register.is_gpr() { 1 << register.full_register().number() } else { 0 };
            assert_eq!(gpr(register), expected, "{register:?}");
        }
    }
}
