//! The rules about single instructions, one function for each. `docs/CONTRACT.md` lists the rules,
//! and `sfi_contract::Rule` gives the reason for each.
//!
//! Rules that need the instruction's place (relocations, targets, neighbours) are in
//! [`crate::sweep`].

use crate::facts::{Facts, Field};
use crate::length::Shape;
use crate::options::Options;
use crate::prefix::{self, Prefixes};
use crate::region::Step;
use crate::report::Fault;
use iced_x86::{Code, Decoder, Instruction, OpKind, Register};
use sfi_contract::policy::prefix::{P65, P66, P67, PF0, PF2, PF3, REX};
use sfi_contract::policy::{self, Class, Form, Memory, general, refusal};
use sfi_contract::{Mode, Rule, Usage};
use sfi_second as second;

const RBX: u16 = 1 << 3;
const RSP: u16 = 1 << 4;

/// One decoded instruction that is on the positive list.
struct Decoded<'i> {
    /// The bytes of this instruction alone.
    raw: &'i [u8],
    instruction: &'i Instruction,
    prefixes: Prefixes,
    form: &'static Form,
    /// The use of its ModRM memory operand, if it has one.
    memory: Memory,
}

impl<'i> Decoded<'i> {
    fn new(raw: &'i [u8], i: &'i Instruction, prefixes: Prefixes, form: &'static Form) -> Decoded<'i> {
        // Only operands 0 to 3 can be ModRM memory: a test of the positive list holds this.
        let operand = [i.op0_kind(), i.op1_kind(), i.op2_kind(), i.op3_kind()].contains(&OpKind::Memory);
        Decoded { raw, instruction: i, prefixes, form, memory: if operand { form.memory } else { Memory::None } }
    }

    /// Says whether the operand that may be memory is memory.
    fn has_memory(&self) -> bool {
        self.memory != Memory::None
    }

    /// Returns which of the prefixes 65 and 67 it has.
    fn confining(&self) -> u8 {
        self.prefixes.seen & (P65 | P67)
    }

    /// Says whether its displacement is scaled (EVEX) and 0. A displacement of 0 does not show
    /// whether both decoders scale it alike.
    fn hides_scale(&self) -> bool {
        let i = self.instruction;
        self.prefixes.opcode == 0x62 && i.memory_displ_size() != 0 && i.memory_displacement64() == 0
    }

    /// Says whether it writes its memory operand.
    fn stores(&self) -> bool {
        matches!(self.memory, Memory::Store | Memory::Lockable)
    }

    /// Says whether its operand is relative to rip, in 64 bits and without a segment.
    fn is_relative(&self) -> bool {
        self.has_memory() && self.confining() == 0 && self.instruction.memory_base() == Register::RIP
    }

    /// Says whether its operand is `d(%B,%N)`, in 64 bits and without a segment.
    fn is_sum(&self) -> bool {
        let i = self.instruction;
        self.confining() == 0
            && i.memory_base().is_gpr64()
            && i.memory_index().is_gpr64()
            && i.memory_index_scale() == 1
    }

    /// Says whether a mask may leave out the load, in part or whole. A load that is left out never
    /// faults. EVEX has its mask in the last three bits of its prefix (SDM volume 2, section 2.7).
    fn is_silent(&self) -> bool {
        let mask = || self.raw.get(self.prefixes.seen.count_ones() as usize + 3).is_some_and(|byte| byte & 7 != 0);
        match self.memory {
            Memory::Masked | Memory::Gather => true,
            Memory::Load => self.prefixes.opcode == 0x62 && mask(),
            _ => false,
        }
    }

    /// Says whether it stores through rdi.
    fn stores_string(&self) -> bool {
        self.form.class == Class::String && self.instruction.op0_kind() == OpKind::MemoryESRDI && !self.compares()
    }

    /// Says whether a string instruction is `cmps` or `scas`. These write nothing and take both
    /// `repe` and `repne`.
    fn compares(&self) -> bool {
        matches!(self.prefixes.opcode, 0xa6 | 0xa7 | 0xae | 0xaf)
    }
}

/// The rules under a host's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    options: Options,
    full: bool,
}

impl Rules {
    pub(crate) fn new(options: &Options) -> Rules {
        Rules { options: *options, full: options.mode == Mode::Full }
    }

    /// Returns three things about the instruction that the decoder read last, from exactly these
    /// bytes: its facts, the rules that it breaks wherever it stands, and whether both hold for all
    /// instructions with this head. The memo may learn the facts only if they do and no rule is
    /// broken.
    pub(crate) fn read(&self, raw: &[u8], ins: &Instruction, decoder: &Decoder<'_>) -> (Facts, Vec<Fault>, bool) {
        let constants = decoder.get_constant_offsets(ins);
        let displacement = Field { offset: constants.displacement_offset(), size: constants.displacement_size() };
        let immediate = Field { offset: constants.immediate_offset(), size: constants.immediate_size() };
        let offset = |field: Field| if field.size == 0 { raw.len() } else { field.offset };
        let head = offset(displacement).min(offset(immediate));
        let mut facts = Facts {
            shape: Shape((head << 4 | raw.len()) as u8),
            sizes: (displacement.size << 4 | immediate.size) as u8,
            ..Facts::NONE
        };
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(fault) => return (facts, vec![fault], false),
        };
        let Some(form) = policy::lookup(ins.code()) else {
            return (facts, vec![refusal::reason(ins)], false);
        };
        let decoded = Decoded::new(raw, ins, prefixes, form);
        facts.class = form.class;
        facts.registers = registers(ins, form) | if prefixes.seen & P65 == 0 { 0 } else { Usage::GS.into() };
        facts.step = self.step(&decoded);
        let mut faults = self.check(&decoded, &facts);
        if offset(displacement) != offset(facts.displacement()) || offset(immediate) != offset(facts.immediate()) {
            faults.push((Rule::SecondReading, "its constants do not follow its head in their order"));
        }
        // Otherwise a byte follows the constants: the register operand of `vblendvps`.
        let whole = head + displacement.size + immediate.size == raw.len();
        (facts, faults, whole && !decoded.hides_scale())
    }

    /// Checks all rules about one instruction.
    fn check(&self, decoded: &Decoded<'_>, facts: &Facts) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut note = |result: Result<(), Fault>| {
            if let Err(fault) = result {
                faults.push(fault);
            }
        };
        note(check_prefixes(decoded));
        note(check_stack_pointer(facts));
        note(check_store(decoded, facts));
        note(check_moving(decoded));
        note(check_silent(decoded));
        note(self.check_load(decoded, facts));
        note(self.check_policy(decoded));
        if faults.is_empty() {
            faults.extend(self.check_second(decoded, facts).err());
        }
        faults
    }

    /// Checks rule `SFI-L01`. For some loads the place decides: see [`Step`].
    fn check_load(&self, decoded: &Decoded<'_>, facts: &Facts) -> Result<(), Fault> {
        let refuse = |why| Err((Rule::LoadUnconfined, why));
        match decoded.memory {
            _ if !self.full => Ok(()),
            _ if decoded.form.class == Class::Table => refuse("xlat cannot be confined"),
            _ if matches!(facts.step, Step::RebaseOnly | Step::RelativeLoad | Step::Based) => Ok(()),
            Memory::Load if decoded.confining() == P65 | P67 || decoded.is_silent() => Ok(()),
            Memory::Load => refuse("neither 65 67 (gs, 32-bit address size) nor rip-relative"),
            _ => Ok(()),
        }
    }

    /// Checks rule `SFI-D02` for forms that the host may switch off.
    fn check_policy(&self, decoded: &Decoded<'_>) -> Result<(), Fault> {
        match decoded.form.class {
            Class::Clock if !self.options.clock => {
                Err((Rule::NotAllowed, "it reads the clock, which this host does not grant"))
            }
            Class::Identity if !self.options.identity => {
                Err((Rule::NotAllowed, "it reads the machine's identity, which this host does not grant"))
            }
            _ => Ok(()),
        }
    }

    /// Checks rule `SFI-D05`: the second decoder reads the same. Also checks that a branch's
    /// immediate is its distance, because the sweep reads the distance from there.
    fn check_second(&self, decoded: &Decoded<'_>, facts: &Facts) -> Result<(), Fault> {
        let i = decoded.instruction;
        let distance = facts.immediate().number(decoded.raw);
        if facts.is_branch() && i.near_branch64() != i.next_ip().wrapping_add(distance) {
            return Err((Rule::SecondReading, "the distance to the target is not its immediate"));
        }
        if !self.options.second {
            return Ok(());
        }
        let string_store = decoded.stores_string();
        let first = second::First { instruction: i, form: decoded.form, written: facts.written(), string_store };
        second::check(decoded.raw, &first).map_err(|difference| (Rule::SecondReading, difference))
    }

    /// Returns the step that the instruction may take in an unsafe region. [`Facts::step_of`] then
    /// looks at its number.
    fn step(&self, decoded: &Decoded<'_>) -> Step {
        let i = decoded.instruction;
        match decoded.form.class {
            Class::IndirectBranch if is_dispatch(decoded) => return Step::Through,
            Class::IndirectBranch => return Step::Astray,
            Class::String => return self.string(decoded),
            _ => {}
        }
        match (i.code(), i.op0_register()) {
            // `and $...,%R` with any 32-bit register but esp
            (Code::And_rm32_imm32 | Code::And_EAX_imm32, to) if !decoded.has_memory() && to != Register::ESP => {
                Step::Mask
            }
            (Code::Mov_r32_rm32 | Code::Mov_rm32_r32, to) if !decoded.has_memory() && to == i.op1_register() => {
                match to {
                    Register::EDI => Step::TruncateDi,
                    Register::ESI => Step::TruncateSi,
                    _ => Step::Narrow,
                }
            }
            (Code::Mov_r32_rm32 | Code::Mov_rm32_r32, _) if !decoded.has_memory() => Step::Narrow,
            (Code::Mov_r64_rm64, _) if is_constant(decoded) => Step::Base,
            _ if is_rebase(decoded) && self.full && decoded.confining() != P65 | P67 => Step::RebaseOnly,
            _ if is_rebase(decoded) => Step::Rebase,
            _ if decoded.stores() && decoded.is_relative() => Step::RelativeStore,
            _ if self.full && decoded.memory == Memory::Load && decoded.is_relative() => Step::RelativeLoad,
            _ if self.full && decoded.memory == Memory::Load && decoded.is_sum() => Step::Based,
            _ => Step::Other,
        }
    }

    /// Returns the step of a string instruction: it tells which pointers must be ready. These are
    /// the ones that it writes through and, in mode full, those that it reads.
    fn string(&self, decoded: &Decoded<'_>) -> Step {
        let kinds = [decoded.instruction.op0_kind(), decoded.instruction.op1_kind()];
        let rdi = decoded.stores_string() || self.full && kinds.contains(&OpKind::MemoryESRDI);
        let rsi = self.full && kinds.contains(&OpKind::MemorySegRSI);
        match (rdi, rsi) {
            (true, true) => Step::StringDiSi,
            (true, false) => Step::StringDi,
            (false, true) => Step::StringSi,
            (false, false) => Step::Other,
        }
    }
}

/// Checks rule `SFI-D03`: every prefix has its meaning for this form.
fn check_prefixes(decoded: &Decoded<'_>) -> Result<(), Fault> {
    let (seen, form) = (decoded.prefixes.seen, decoded.form);
    let stray = (seen & (P66 | PF2 | PF3)) ^ form.prefixes;
    let stray_allowed = match form.class {
        Class::String => stray == 0 || stray == PF3 || stray == PF2 && decoded.compares(),
        // c3 or f3 c3
        Class::Return => stray == 0 || stray == PF3,
        _ => stray == 0,
    };
    let why = if !stray_allowed {
        "66, f2 or f3 that selects neither the instruction nor the operand size"
    } else if seen & PF0 != 0 && decoded.memory != Memory::Lockable {
        "lock without a memory destination that can be locked"
    } else if seen & (P65 | P67) != 0 && !decoded.has_memory() {
        "a segment or address size prefix without a memory operand"
    } else if seen & P65 != 0 && decoded.memory == Memory::Address {
        "a segment prefix on an address that is not accessed"
    } else if matches!(form.class, Class::Hint | Class::Branch | Class::Return)
        && seen & REX != 0
        && !decoded.has_memory()
    {
        // f3 41 90 is `pause` to one decoder and `xchg %r8,%rax` to another.
        "REX on an instruction without operands"
    } else if form.class == Class::Save && !matches!(decoded.prefixes.rex, 0 | 0x41) {
        "REX on a register that needs none"
    } else {
        return Ok(());
    };
    Err((Rule::Prefix, why))
}

fn refuse_if(broken: bool, rule: Rule, why: &'static str) -> Result<(), Fault> {
    if broken { Err((rule, why)) } else { Ok(()) }
}

/// Checks rule `SFI-C01`: no operand names the control stack pointer.
fn check_stack_pointer(facts: &Facts) -> Result<(), Fault> {
    refuse_if(facts.named() & RSP != 0, Rule::StackPointer, "the control stack is out of reach")
}

/// Checks rules `SFI-S01` and `SFI-S02`: a store has GS and 32-bit address size, by its raw bytes.
/// A store relative to rip names no register, so its place decides: see [`Step`].
fn check_store(decoded: &Decoded<'_>, facts: &Facts) -> Result<(), Fault> {
    let confined = decoded.stores() && facts.step != Step::RelativeStore;
    match if confined { P65 | P67 } else { 0 } & !decoded.confining() {
        0 => Ok(()),
        missing if missing & P65 != 0 => Err((Rule::StoreSegment, "the bytes have no prefix 65 (gs)")),
        _ => Err((Rule::StoreAddressSize, "the bytes have no prefix 67 (32-bit address size)")),
    }
}

/// Checks rule `SFI-S03`: no register operand moves the address.
fn check_moving(decoded: &Decoded<'_>) -> Result<(), Fault> {
    refuse_if(decoded.memory == Memory::Moving, Rule::StoreMoving, "the register operand moves the address")
}

/// Checks rule `SFI-L02`: in every mode, a load that a mask may leave out is confined like a store.
fn check_silent(decoded: &Decoded<'_>) -> Result<(), Fault> {
    let broken = decoded.is_silent() && decoded.confining() != P65 | P67;
    refuse_if(broken, Rule::SilentAccess, "a mask may leave it out, and it lacks 65 67 (gs, 32-bit address size)")
}

/// Says whether a branch has the form `call|jmp *%gs:...(%R)`: 65 67 [41] FF /2|/4, no index, no
/// other prefix.
fn is_dispatch(decoded: &Decoded<'_>) -> bool {
    let i = decoded.instruction;
    decoded.has_memory()
        && decoded.confining() == P65 | P67
        && decoded.prefixes.rex & 0xfe & !0x40 == 0
        && i.memory_index() == Register::None
}

/// Says whether it is `add %gs:...,%r` without base and index.
fn is_rebase(decoded: &Decoded<'_>) -> bool {
    decoded.instruction.code() == Code::Add_r64_rm64 && is_constant(decoded)
}

/// Says whether its operand is `%gs:...` without base and index.
fn is_constant(decoded: &Decoded<'_>) -> bool {
    let i = decoded.instruction;
    decoded.has_memory()
        && decoded.prefixes.seen & P65 != 0
        && i.memory_base() == Register::None
        && i.memory_index() == Register::None
}

/// Returns the bit of rbx for the forms that read it without naming it.
fn reads_rbx(code: Code) -> u16 {
    if matches!(code, Code::Xlat_m8 | Code::Cmpxchg8b_m64 | Code::Cmpxchg16b_m128) { RBX } else { 0 }
}

/// Returns the registers of one instruction as [`Facts`] holds them.
pub(crate) fn registers(i: &Instruction, form: &Form) -> u32 {
    let operands = [i.op0_register(), i.op1_register(), i.op2_register(), i.op3_register()].map(general);
    let address = general(i.memory_base()) | general(i.memory_index());
    let named = operands.iter().fold(address | reads_rbx(i.code()), |all, bit| all | bit);
    let mut written = form.clobbers;
    for (n, bit) in operands.iter().enumerate() {
        written |= if form.writes & (1 << n) != 0 { *bit } else { 0 };
    }
    u32::from(written) | u32::from(named) << 16
}
