//! A second opinion: is this object safe?
//!
//! Slow and simple, and written without a look at the verifier. It has another ELF reader (the
//! crate `object`). It follows code from every symbol and every branch instead of sweeping it. It
//! takes the effects of an instruction from iced's own instruction information instead of a list,
//! compares regions as bytes, and tries relocations by writing different values and decoding again.
//! It may refuse less than the verifier, because it knows no positive list, but it must refuse
//! everything that can leave a domain: it must accept every object that the verifier accepts.

mod guards;
mod holds;
mod words;

use iced_x86::{
    Code, CodeSize, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, SymbolIndex};
use sfi_contract::Mode;
use std::collections::BTreeMap;
use words::{Prefixes, forbidden, prefixes};

type Header = FileHeader64<LittleEndian>;

/// A relocation of a text section.
#[derive(Clone, Debug)]
struct Patch {
    at: u64,
    kind: elf::RelocationType,
    symbol: usize,
    addend: i64,
    width: u64,
    /// The undefined symbol.
    name: Option<String>,
}

/// A text section.
struct Text<'a> {
    bytes: &'a [u8],
    patches: Vec<Patch>,
    /// Places that symbols name.
    roots: Vec<u64>,
}

/// Judges an object: `Ok`, or the reason why it is not safe.
pub fn judge(bytes: &[u8], mode: Mode) -> Result<(), String> {
    let problem = |error: object::Error| format!("unreadable: {error}");
    let header = Header::parse(bytes).map_err(problem)?;
    let endian = header.endian().map_err(problem)?;
    let sections = header.sections(endian, bytes).map_err(problem)?;
    let symbols = sections.symbols(endian, bytes, elf::SHT_SYMTAB).map_err(problem)?;
    let executable = |index: usize| {
        sections.section(object::SectionIndex(index)).is_ok_and(|s| s.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0)
    };
    let mut texts: BTreeMap<usize, Text<'_>> = BTreeMap::new();
    for (index, section) in sections.enumerate() {
        if !executable(index.0) {
            continue;
        }
        let flags = section.sh_flags(endian).0;
        let wanted = elf::SHF_ALLOC.0;
        let unwanted = elf::SHF_WRITE.0 | elf::SHF_COMPRESSED.0 | elf::SHF_TLS.0 | elf::SHF_MERGE.0;
        if section.sh_type(endian).0 != elf::SHT_PROGBITS.0 || flags & wanted == 0 || flags & unwanted != 0 {
            return Err(format!(
                "text section {} has type {} and flags {flags:#x}",
                index.0,
                section.sh_type(endian).0
            ));
        }
        let data = section.data(endian, bytes).map_err(problem)?;
        let span = |s: &elf::SectionHeader64<LittleEndian>| {
            let has_bytes = s.sh_type(endian).0 != elf::SHT_NOBITS.0 && s.sh_type(endian).0 != elf::SHT_NULL.0;
            has_bytes.then(|| s.sh_offset(endian)..s.sh_offset(endian).saturating_add(s.sh_size(endian)))
        };
        let mine = span(section).unwrap_or_default();
        for (other, header) in sections.enumerate() {
            let theirs = span(header).unwrap_or_default();
            if other != index
                && !theirs.is_empty()
                && !mine.is_empty()
                && mine.start < theirs.end
                && theirs.start < mine.end
            {
                return Err(format!("section {} shares bytes with section {}", index.0, other.0));
            }
        }
        texts.insert(index.0, Text { bytes: data, patches: Vec::new(), roots: vec![0] });
    }
    for (_, section) in sections.enumerate() {
        let target = section.sh_info(endian) as usize;
        let Some(text) = texts.get_mut(&target) else { continue };
        if section.sh_type(endian).0 == elf::SHT_REL.0 {
            return Err("REL relocations".into());
        }
        let Some((relocations, _)) = section.rela(endian, bytes).map_err(problem)? else { continue };
        for relocation in relocations {
            let kind = relocation.r_type(endian, false);
            let width = match kind {
                elf::R_X86_64_64 | elf::R_X86_64_PC64 | elf::R_X86_64_DTPOFF64 => 8,
                elf::R_X86_64_PC32
                | elf::R_X86_64_PLT32
                | elf::R_X86_64_32
                | elf::R_X86_64_32S
                | elf::R_X86_64_GOTPCREL
                | elf::R_X86_64_GOTPCRELX
                | elf::R_X86_64_REX_GOTPCRELX
                | elf::R_X86_64_TPOFF32
                | elf::R_X86_64_DTPOFF32 => 4,
                _ => return Err(format!("relocation type {kind:?} in text")),
            };
            let symbol = symbols.symbol(SymbolIndex(relocation.r_sym(endian, false) as usize));
            let name = symbol.ok().filter(|s| s.st_shndx(endian).0 == elf::SHN_UNDEF.0);
            let name = name.and_then(|s| s.name(endian, symbols.strings()).ok());
            text.patches.push(Patch {
                name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
                at: relocation.r_offset(endian),
                kind,
                symbol: relocation.r_sym(endian, false) as usize,
                addend: relocation.r_addend(endian),
                width,
            });
        }
    }
    // Nothing can refer to symbol 0.
    for symbol in symbols.iter().skip(1) {
        let index = usize::from(symbol.st_shndx(endian).0);
        if let Some(text) = texts.get_mut(&index) {
            text.roots.push(symbol.st_value(endian));
        }
    }
    let may_branch_to = |index: usize| {
        symbols.symbol(SymbolIndex(index)).is_ok_and(|symbol| {
            let section = symbol.st_shndx(endian).0;
            index != 0 && (section == elf::SHN_UNDEF.0 || texts.contains_key(&usize::from(section)))
        })
    };
    for (index, text) in &texts {
        Follow::new(text, mode, &may_branch_to).run().map_err(|why| format!("section {index}: {why}"))?;
    }
    Ok(())
}

/// Follows the code of one section.
struct Follow<'t> {
    text: &'t Text<'t>,
    full: bool,
    may_branch_to: &'t dyn Fn(usize) -> bool,
    /// Start and length of every instruction that control can reach.
    reached: BTreeMap<u64, u64>,
    /// Places that a branch or a symbol names.
    entered: Vec<u64>,
    /// First and last instruction of every region.
    regions: Vec<(u64, u64)>,
    /// Loads whose registers decide about their place.
    based: Vec<u64>,
    /// The number of words that are pushed before every instruction that control can reach.
    pushed: BTreeMap<u64, u64>,
}

impl<'t> Follow<'t> {
    fn new(text: &'t Text<'t>, mode: Mode, may_branch_to: &'t dyn Fn(usize) -> bool) -> Self {
        let full = mode == Mode::Full;
        let (reached, entered) = (BTreeMap::new(), text.roots.clone());
        Follow {
            text,
            full,
            may_branch_to,
            reached,
            entered,
            regions: Vec::new(),
            based: Vec::new(),
            pushed: BTreeMap::new(),
        }
    }

    fn decode(bytes: &[u8], at: u64) -> Option<Instruction> {
        let rest = bytes.get(usize::try_from(at).ok()?..)?;
        let instruction = Decoder::with_ip(64, &rest[..rest.len().min(15)], at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn run(mut self) -> Result<(), String> {
        let length = self.text.bytes.len() as u64;
        let mut todo: Vec<(u64, u64)> = self.text.roots.iter().map(|root| (*root, 0)).collect();
        while let Some((at, pushed)) = todo.pop() {
            if at == length {
                continue;
            }
            if let Some(before) = self.pushed.insert(at, pushed) {
                if before != pushed {
                    return Err(format!("{before} or {pushed} words are pushed at {at:#x}"));
                }
                continue;
            }
            let instruction = Self::decode(self.text.bytes, at).ok_or_else(|| format!("nothing decodes at {at:#x}"))?;
            self.reached.insert(at, instruction.len() as u64);
            let complain = |why: String| format!("{at:#x} `{instruction}`: {why}");
            self.check(at, &instruction).map_err(complain)?;
            let relocated = self.patches(at, instruction.len() as u64).next().is_some();
            let next = match instruction.mnemonic() {
                Mnemonic::Push if pushed == 15 => return Err(complain("pushes too many words".into())),
                Mnemonic::Push => pushed + 1,
                Mnemonic::Pop => pushed.checked_sub(1).ok_or_else(|| complain("pops what was not pushed".into()))?,
                _ => pushed,
            };
            let flow = instruction.flow_control();
            let calls = flow == FlowControl::Call;
            let leaves = match flow {
                FlowControl::Return | FlowControl::IndirectBranch => true,
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => relocated,
                _ => false,
            };
            if leaves && pushed != 0 {
                return Err(complain(format!("leaves with {pushed} words")));
            }
            match flow {
                FlowControl::Next | FlowControl::IndirectCall => todo.push((instruction.next_ip(), next)),
                FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception | FlowControl::Interrupt => {
                }
                FlowControl::ConditionalBranch | FlowControl::Call | FlowControl::UnconditionalBranch => {
                    if flow != FlowControl::UnconditionalBranch {
                        todo.push((instruction.next_ip(), next));
                    }
                    if !relocated {
                        let target = instruction.near_branch_target();
                        self.entered.push(target);
                        todo.push((target, if calls { 0 } else { next }));
                        if target >= length {
                            return Err(complain(format!("branch to {target:#x}, outside")));
                        }
                    }
                }
                FlowControl::XbeginXabortXend => return Err(complain("a transaction".into())),
            }
        }
        // No two instructions share a byte, and no region is entered after its first instruction.
        let mut end = 0;
        for (at, length) in &self.reached {
            if *at < end {
                return Err(format!("two readings of the bytes at {at:#x}"));
            }
            end = at + length;
        }
        for (first, last) in &self.regions {
            // Bytes that look like a mask may be the end of a longer instruction.
            if !self.reached.contains_key(first) {
                return Err(format!("the mask at {first:#x} is no instruction of its own"));
            }
            if let Some(place) = self.entered.iter().find(|place| *first < **place && **place <= *last) {
                return Err(format!("{place:#x} enters the region from {first:#x} to {last:#x}"));
            }
            let all = *first..last + self.reached[last];
            let inside = |p: &&Patch| p.at < all.end && all.start < p.at + p.width && !self.is_place(p);
            if let Some(patch) = self.text.patches.iter().find(inside) {
                return Err(format!("a relocation at {:#x} in the region from {first:#x} on", patch.at));
            }
        }
        self.check_holds()
    }

    /// The number that the loader draws for the header page or the dispatch table; no other
    /// relocation touches the field.
    fn is_place(&self, patch: &Patch) -> bool {
        self.names_place(patch.at, "__sfi_header") || self.names_place(patch.at, "__sfi_dispatch")
    }

    fn names_place(&self, at: u64, name: &str) -> bool {
        let all: Vec<&Patch> = self.patches(at, 4).collect();
        let [patch] = all[..] else { return false };
        let kind = matches!(patch.kind, elf::R_X86_64_32 | elf::R_X86_64_32S);
        kind && patch.at == at && patch.addend == 0 && patch.name.as_deref() == Some(name)
    }

    fn patches(&self, at: u64, length: u64) -> impl Iterator<Item = &'t Patch> {
        self.text.patches.iter().filter(move |p| p.at < at + length && at < p.at.saturating_add(p.width))
    }

    fn check(&mut self, at: u64, instruction: &Instruction) -> Result<(), String> {
        let bytes = &self.text.bytes[at as usize..at as usize + instruction.len()];
        let prefixes = prefixes(bytes)?;
        let mnemonic = instruction.mnemonic();
        let saves = matches!(instruction.code(), Code::Push_r64 | Code::Pop_r64);
        let uses_stack = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64 | Code::Retnq) || saves;
        if instruction.is_privileged() || instruction.is_save_restore_instruction() {
            return Err("privileged, or saves machine state".into());
        }
        if instruction.is_stack_instruction() && !uses_stack {
            return Err("uses the stack".into());
        }
        if forbidden(mnemonic) {
            return Err("forbidden".into());
        }
        if instruction.flow_control() == FlowControl::Interrupt && instruction.code() != Code::Int3 {
            return Err("an interrupt".into());
        }
        if instruction.is_jmp_far() || instruction.is_call_far() || instruction.is_jmp_far_indirect() {
            return Err("a far branch".into());
        }
        if instruction.flow_control() != FlowControl::Next && prefixes.operand_size {
            return Err("66 on a branch".into());
        }
        self.check_registers(instruction, uses_stack)?;
        self.check_memory(at, instruction, &prefixes)?;
        if matches!(instruction.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall) {
            let mask = self.mask_before(at, bytes).ok_or("an indirect branch without its mask")?;
            self.regions.push((mask, at));
        }
        self.check_patches(at, instruction)
    }

    /// Checks that rsp stands only in near call and return, push and pop, and no segment register
    /// but GS as an override.
    fn check_registers(&self, instruction: &Instruction, uses_stack: bool) -> Result<(), String> {
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(instruction).used_registers() {
            let register = used.register();
            let rsp = register.is_gpr() && register.full_register() == Register::RSP;
            if rsp && !uses_stack {
                return Err("rsp is named".into());
            }
            if register == Register::FS || register.is_segment_register() && used.access() != OpAccess::Read {
                return Err(format!("segment register {register:?}"));
            }
        }
        if instruction.memory_base().full_register() == Register::RSP {
            return Err("rsp is a base".into());
        }
        for operand in 0..instruction.op_count() {
            if instruction.op_kind(operand) == OpKind::Register {
                let register = instruction.op_register(operand);
                if register.is_segment_register() || register.is_cr() || register.is_dr() || register.is_tmm() {
                    return Err(format!("operand {register:?}"));
                }
                if register.is_gpr() && register.full_register() == Register::RSP {
                    return Err("rsp is an operand".into());
                }
            }
        }
        Ok(())
    }

    fn check_memory(&mut self, at: u64, instruction: &Instruction, prefixes: &Prefixes) -> Result<(), String> {
        if matches!(instruction.flow_control(), FlowControl::Return | FlowControl::Call) {
            return Ok(());
        }
        if instruction.is_string_instruction() {
            return self.check_string(at, instruction);
        }
        let moving = matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
        if moving && instruction.op0_kind() == OpKind::Memory && instruction.op1_kind() == OpKind::Register {
            return Err("a bit offset in a register".into());
        }
        let mut factory = InstructionInfoFactory::new();
        for memory in factory.info(instruction).used_memory() {
            let writes = !matches!(
                memory.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            );
            let reads = !matches!(memory.access(), OpAccess::NoMemAccess | OpAccess::None);
            if memory.base().full_register() == Register::RSP {
                continue; // the push of an indirect call
            }
            let truncated = memory.segment() == Register::GS
                && memory.address_size() == CodeSize::Code32
                && prefixes.gs
                && prefixes.address_size;
            // The loader chooses the place that a relocated displacement leads to.
            let chosen = instruction.is_ip_rel_memory_operand()
                && !prefixes.gs
                && !prefixes.address_size
                && self.patches(at, instruction.len() as u64).any(|p| self.is_displacement(at, instruction, p));
            if writes && (!truncated && !chosen || memory.vsib_size() != 0) {
                return Err("a store that is not sandboxed".into());
            }
            if reads && !truncated && !(writes && chosen) && is_silent(instruction, memory) {
                return Err("a load that a mask may leave out is not confined".into());
            }
            if self.full && reads && !truncated {
                let header = instruction.code() == Code::Add_r64_rm64
                    && prefixes.gs
                    && instruction.memory_base() == Register::None
                    && instruction.memory_index() == Register::None
                    && self.names_place(at + instruction.len() as u64 - 4, "__sfi_header");
                let decide = !writes && !prefixes.gs && !prefixes.address_size && holds::decide(instruction, memory);
                if decide {
                    self.based.push(at);
                } else if !chosen && !header {
                    return Err("a load that is not confined".into());
                }
            }
        }
        Ok(())
    }

    /// Says whether the relocated field is the operand's displacement: different values there
    /// change it.
    fn is_displacement(&self, at: u64, instruction: &Instruction, patch: &Patch) -> bool {
        let with = |value: u8| self.patched(at, instruction, patch, value).map(|i| i.memory_displacement64());
        with(0x11) != with(0x22)
    }

    /// Returns the instruction with every byte of the relocated field set to a value.
    fn patched(&self, at: u64, instruction: &Instruction, patch: &Patch, value: u8) -> Option<Instruction> {
        let mut bytes = self.text.bytes[at as usize..at as usize + instruction.len()].to_vec();
        let start = patch.at.checked_sub(at)? as usize;
        bytes.get_mut(start..start + patch.width as usize)?.fill(value);
        let decoded = Self::decode(&bytes, 0)?;
        (decoded.len() == instruction.len()).then(|| {
            let mut moved = decoded;
            moved.set_ip(0);
            moved
        })
    }

    /// Checks that the instruction stays the same for every value that a relocation writes, and
    /// that a branch has PLT32 to text.
    fn check_patches(&self, at: u64, instruction: &Instruction) -> Result<(), String> {
        let branch = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        for patch in self.patches(at, instruction.len() as u64) {
            for value in [0x00, 0x11, 0x7f, 0xc3, 0xff] {
                let changed = self.patched(at, instruction, patch, value).ok_or("a relocation changes its length")?;
                let same = changed.code() == instruction.code()
                    && changed.memory_base() == instruction.memory_base()
                    && changed.memory_index() == instruction.memory_index()
                    && changed.memory_index_scale() == instruction.memory_index_scale()
                    && changed.segment_prefix() == instruction.segment_prefix()
                    && changed.op_count() == instruction.op_count()
                    && (0..changed.op_count()).all(|i| changed.op_kind(i) == instruction.op_kind(i))
                    && (0..changed.op_count()).all(|i| {
                        changed.op_kind(i) != OpKind::Register || changed.op_register(i) == instruction.op_register(i)
                    });
                if !same {
                    return Err(format!("a relocation turns it into `{changed}`"));
                }
            }
            if branch
                && (patch.kind != elf::R_X86_64_PLT32 || patch.addend != -4 || !(self.may_branch_to)(patch.symbol))
            {
                return Err(format!("a branch relocated by {patch:?}"));
            }
            if branch && instruction.is_jmp_short() || !branch && patch.kind == elf::R_X86_64_PLT32 {
                return Err("PLT32 here".into());
            }
        }
        Ok(())
    }
}

/// Says whether a mask decides about the access or parts of it. A part that the mask leaves out
/// never faults.
fn is_silent(instruction: &Instruction, memory: &UsedMemory) -> bool {
    // iced takes the access of these for certain.
    let selected = matches!(
        instruction.mnemonic(),
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq
    );
    selected || memory.access() == OpAccess::CondRead || memory.vsib_size() != 0 || instruction.has_op_mask()
}
