//! The linear sweep: decodes a text from its start, applies the rules about single instructions, and leaves the map
//! that the rules about places (branches, symbols, slots) need.

use crate::bitmap::Bitmap;
use crate::elf::{Object, Relocation};
use crate::prefix::{self, Defect, Prefixes};
use crate::region::{self, Pointers, Tracker};
use crate::relocation::{self, Field};
use crate::report::{Findings, Usage};
use crate::{Options, refuse};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::policy::prefix::{P65, P66, P67, PF0, PF2, PF3, REX};
use sfi_contract::policy::{self, Class, Form, Memory};
use sfi_contract::{Mode, Rule};

/// A text and what is known about it.
pub(crate) struct Text<'a> {
    pub bytes: &'a [u8],
    /// Address of the first byte: 0 for a section, the window offset for the final text.
    pub base: u64,
    /// What may still change; `None` for the final text.
    pub relocations: Option<Relocations<'a>>,
    /// Sorted offsets where decoding goes on behind bytes that do not decode.
    pub landmarks: &'a [u64],
}

/// The relocations of one section, sorted by offset, and the object they refer to.
pub(crate) struct Relocations<'a> {
    pub object: &'a Object<'a>,
    pub sorted: Vec<&'a Relocation>,
}

/// A direct branch whose target is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    pub at: u64,
    pub target: u64,
}

/// The map of a text. Offsets count from its first byte.
#[derive(Default)]
pub(crate) struct Map {
    /// The legal targets: instruction boundaries that are not inside an unsafe region.
    pub targets: Bitmap,
    /// First and last byte of each unsafe region, ascending.
    pub regions: Vec<(u64, u64)>,
    /// Direct branches without a relocation; addresses as in [`Text::base`].
    pub branches: Vec<Branch>,
    pub instructions: u64,
    classes: u32,
    gprs: u16,
}

impl Map {
    pub fn usage(&self) -> Usage {
        Usage::new(self.classes, self.gprs)
    }

    /// The offset lies behind the first instruction of an unsafe region.
    pub fn inside_region(&self, offset: u64) -> bool {
        let i = self.regions.partition_point(|(start, _)| *start < offset);
        i > 0 && offset <= self.regions[i - 1].1
    }
}

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

const RSP: u16 = 1 << 4;

fn gpr(register: Register) -> u16 {
    GPR.get(register as usize).copied().unwrap_or(0)
}

/// Sweeps a text.
pub(crate) fn sweep(text: &Text<'_>, options: &Options, findings: &mut Findings) -> Map {
    let map = Map { targets: Bitmap::new(text.bytes.len()), ..Map::default() };
    let mut sweep = Sweep {
        text,
        options,
        full: options.mode == Mode::Full,
        required: required(options.mode),
        findings,
        map,
        tracker: Tracker::default(),
        next_relocation: 0,
        next_relocation_at: 0,
        relocated_at: None,
    };
    sweep.run();
    sweep.map
}

/// No instruction has all prefixes.
const NEVER: u8 = 0xff;

/// See [`Sweep::required`].
fn required(mode: Mode) -> [u8; 7] {
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
    (i.op0_kind() == OpKind::Memory) | (i.op1_kind() == OpKind::Memory) | (i.op2_kind() == OpKind::Memory)
}

struct Sweep<'a, 'f> {
    text: &'a Text<'a>,
    options: &'a Options,
    full: bool,
    /// By [`Memory`]: the prefixes that an operand must have to be confined. What no prefix confines requires [`NEVER`].
    required: [u8; 7],
    findings: &'f mut Findings,
    map: Map,
    tracker: Tracker,
    next_relocation: usize,
    /// Offset of that relocation, `u64::MAX` if there is none.
    next_relocation_at: u64,
    /// Offset of the last relocation that was passed.
    relocated_at: Option<u64>,
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
    fn run(&mut self) {
        let bytes = self.text.bytes;
        let mut decoder = Decoder::with_ip(64, bytes, self.text.base, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        self.load_relocation();
        while decoder.can_decode() {
            let at = decoder.position();
            decoder.decode_out(&mut instruction);
            let next = decoder.position();
            if instruction.is_invalid() || next <= at {
                let Some(resume) = self.undecodable(at as u64) else { break };
                if decoder.set_position(resume).is_err() {
                    break;
                }
                decoder.set_ip(self.text.base.wrapping_add(resume as u64));
                self.tracker = Tracker::default();
                continue;
            }
            self.map.instructions += 1;
            self.map.targets.insert(at);
            self.check(at as u64, &instruction, bytes.get(at..next).unwrap_or_default(), &decoder);
        }
        self.relocations_behind(bytes.len() as u64);
    }

    /// Rule `SFI-D01`. Where to go on, so that the rest of the text is reported too.
    #[cold]
    fn undecodable(&mut self, at: u64) -> Option<usize> {
        // The object is refused already; a symbol or branch that points here need not be reported as well.
        self.map.targets.insert(at as usize);
        let i = self.text.landmarks.partition_point(|mark| *mark <= at);
        let resume = self.text.landmarks.get(i).copied().filter(|mark| *mark < self.text.bytes.len() as u64);
        let bytes: Vec<String> = self.text.bytes.iter().skip(at as usize).take(8).map(|b| format!("{b:02x}")).collect();
        let rest = if resume.is_some() { "the next symbol" } else { "the section's end" };
        self.findings.add(
            Rule::Undecodable,
            self.text.base.wrapping_add(at),
            format!("bytes {}; nothing up to {rest} was checked", bytes.join(" ")),
        );
        let resume = resume?;
        while self.next_relocation_at < resume {
            self.next_relocation += 1;
            self.load_relocation();
        }
        usize::try_from(resume).ok()
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, rule: Rule, at: u64, instruction: &Instruction, detail: &str) {
        self.findings.add_instruction(rule, self.text.base.wrapping_add(at), instruction, detail);
    }

    /// All rules about one instruction.
    #[inline]
    fn check(&mut self, at: u64, instruction: &Instruction, raw: &[u8], decoder: &Decoder<'_>) {
        let relocated = self.next_relocation_at < at + raw.len() as u64;
        let displacement_relocated = relocated && self.check_relocations(at, instruction, raw.len(), decoder);
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(defect) => return self.defect(at, instruction, defect),
        };
        let Some(form) = policy::lookup(instruction.code()) else { return self.not_listed(at, instruction) };
        let memory = (form.memory != Memory::None) & has_memory_operand(instruction);
        let place = Place { at, instruction, prefixes, form, memory };
        self.check_prefixes(&place);
        self.check_registers(&place);
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
        self.map.classes |= 1 << form.class as u32;
        self.tracker.step(at, instruction, prefixes);
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

    /// Rule `SFI-C01`: no operand names the control stack pointer. Notes the registers written.
    #[inline]
    fn check_registers(&mut self, place: &Place<'_>) {
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
        self.map.gprs |= written;
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
        let writes = kind0 == OpKind::MemoryESRDI && !is_compare(instruction.code());
        let needs = Pointers {
            rdi: writes || self.full && (kind0 == OpKind::MemoryESRDI || kind1 == OpKind::MemoryESRDI),
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

    fn load_relocation(&mut self) {
        let sorted = self.text.relocations.as_ref().map(|r| r.sorted.as_slice()).unwrap_or_default();
        self.next_relocation_at = sorted.get(self.next_relocation).map_or(u64::MAX, |r| r.offset);
    }

    /// Rules `SFI-R01`, `SFI-R02`, `SFI-B03` for the relocations that begin in this instruction. Gives whether one covers
    /// its displacement.
    #[inline(never)]
    fn check_relocations(&mut self, at: u64, instruction: &Instruction, length: usize, decoder: &Decoder<'_>) -> bool {
        let mut displacement = false;
        while self.next_relocation_at < at + length as u64 {
            let Some(relocations) = &self.text.relocations else { break };
            let (object, relocation) = (relocations.object, relocations.sorted[self.next_relocation]);
            self.relocated_at = Some(relocation.offset);
            self.next_relocation += 1;
            self.load_relocation();
            let checked = relocation::check_type(relocation).and_then(|width| {
                let field = relocation::check_field(relocation, width, at, &decoder.get_constant_offsets(instruction))?;
                let branch = policy::lookup(instruction.code()).is_some_and(|form| form.class == Class::Branch);
                if branch {
                    relocation::check_branch(relocation, object)?;
                } else {
                    relocation::check_not_branch(relocation)?;
                }
                Ok(field)
            });
            match checked {
                Ok(field) => displacement |= field == Field::Displacement,
                Err((rule, detail)) => self.refuse(rule, at, instruction, &detail),
            }
        }
        displacement
    }

    /// Rule `SFI-R01`: relocations that no instruction was found for.
    fn relocations_behind(&mut self, end: u64) {
        let Some(relocations) = &self.text.relocations else { return };
        for relocation in relocations.sorted.iter().skip(self.next_relocation) {
            let detail = format!("the relocation lies behind the section's end at {end:#x}");
            if relocation.offset >= end {
                self.findings.add(Rule::RelocationField, relocation.offset, detail);
            }
        }
    }
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
