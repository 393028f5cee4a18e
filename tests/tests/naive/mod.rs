//! A second opinion: is this object safe?
//!
//! Slow and simple, and written without a look at the verifier: another ELF reader (the crate `object`), code followed from
//! every symbol and every branch instead of swept, what an instruction does taken from iced's own instruction
//! information instead of a list, regions compared as bytes, relocations tried out by writing different values
//! and decoding again. It may refuse less than the verifier (it knows no positive list) but must refuse
//! everything that can leave a domain: what the verifier accepts, this must accept.

use iced_x86::{
    Code, CodeSize, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, SymbolIndex};
use sfi_contract::Mode;
use std::collections::BTreeMap;

type Header = FileHeader64<LittleEndian>;

/// A relocation of a text section.
#[derive(Clone, Debug)]
struct Patch {
    at: u64,
    kind: elf::RelocationType,
    symbol: usize,
    addend: i64,
    width: u64,
}

/// A text section.
struct Text<'a> {
    bytes: &'a [u8],
    patches: Vec<Patch>,
    /// Places that symbols name.
    roots: Vec<u64>,
}

/// Why the object is not safe, or `Ok`.
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
            text.patches.push(Patch {
                at: relocation.r_offset(endian),
                kind,
                symbol: relocation.r_sym(endian, false) as usize,
                addend: relocation.r_addend(endian),
                width,
            });
        }
    }
    // Nothing can name symbol 0.
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
}

impl<'t> Follow<'t> {
    fn new(text: &'t Text<'t>, mode: Mode, may_branch_to: &'t dyn Fn(usize) -> bool) -> Self {
        let full = mode == Mode::Full;
        Follow { text, full, may_branch_to, reached: BTreeMap::new(), entered: text.roots.clone(), regions: Vec::new() }
    }

    fn decode(bytes: &[u8], at: u64) -> Option<Instruction> {
        let rest = bytes.get(usize::try_from(at).ok()?..)?;
        let instruction = Decoder::with_ip(64, &rest[..rest.len().min(15)], at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn run(mut self) -> Result<(), String> {
        let length = self.text.bytes.len() as u64;
        let mut todo = self.text.roots.clone();
        while let Some(at) = todo.pop() {
            if at == length || self.reached.contains_key(&at) {
                continue;
            }
            let instruction = Self::decode(self.text.bytes, at).ok_or_else(|| format!("nothing decodes at {at:#x}"))?;
            self.reached.insert(at, instruction.len() as u64);
            let complain = |why: String| format!("{at:#x} `{instruction}`: {why}");
            self.check(at, &instruction).map_err(complain)?;
            let relocated = self.patches(at, instruction.len() as u64).next().is_some();
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::IndirectCall => todo.push(instruction.next_ip()),
                FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception | FlowControl::Interrupt => {
                }
                FlowControl::ConditionalBranch | FlowControl::Call | FlowControl::UnconditionalBranch => {
                    if instruction.flow_control() != FlowControl::UnconditionalBranch {
                        todo.push(instruction.next_ip());
                    }
                    if !relocated {
                        let target = instruction.near_branch_target();
                        self.entered.push(target);
                        todo.push(target);
                        if target >= length {
                            return Err(complain(format!("branch to {target:#x}, outside")));
                        }
                    }
                }
                FlowControl::XbeginXabortXend => return Err(complain("a transaction".into())),
            }
        }
        // No two instructions share a byte, and no region is entered behind its first instruction.
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
            if let Some(patch) = self.text.patches.iter().find(|p| p.at < all.end && all.start < p.at + p.width) {
                return Err(format!("a relocation at {:#x} in the region from {first:#x} on", patch.at));
            }
        }
        Ok(())
    }

    fn patches(&self, at: u64, length: u64) -> impl Iterator<Item = &'t Patch> {
        self.text.patches.iter().filter(move |p| p.at < at + length && at < p.at.saturating_add(p.width))
    }

    fn check(&mut self, at: u64, instruction: &Instruction) -> Result<(), String> {
        let bytes = &self.text.bytes[at as usize..at as usize + instruction.len()];
        let prefixes = prefixes(bytes)?;
        let mnemonic = instruction.mnemonic();
        let call_or_return = matches!(instruction.code(), Code::Call_rel32_64 | Code::Call_rm64 | Code::Retnq);
        if instruction.is_privileged() || instruction.is_save_restore_instruction() {
            return Err("privileged, or saves machine state".into());
        }
        if instruction.is_stack_instruction() && !call_or_return {
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
        self.check_registers(instruction, call_or_return)?;
        self.check_memory(at, instruction, &prefixes)?;
        if matches!(instruction.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall) {
            let mask = self.mask_before(at, bytes).ok_or("an indirect branch without its mask")?;
            self.regions.push((mask, at));
        }
        self.check_patches(at, instruction)
    }

    /// rsp only in near call and return, no segment register but GS as an override.
    fn check_registers(&self, instruction: &Instruction, call_or_return: bool) -> Result<(), String> {
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(instruction).used_registers() {
            let register = used.register();
            let rsp = register.is_gpr() && register.full_register() == Register::RSP;
            if rsp && !call_or_return {
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
            if writes && (!truncated || memory.vsib_size() != 0) {
                return Err("a store that is not sandboxed".into());
            }
            if self.full && reads && !truncated {
                let based = instruction.is_ip_rel_memory_operand()
                    && !prefixes.gs
                    && !prefixes.address_size
                    && self.patches(at, instruction.len() as u64).any(|p| self.is_displacement(at, instruction, p));
                let header = instruction.code() == Code::Add_r64_rm64
                    && prefixes.gs
                    && instruction.memory_base() == Register::None
                    && instruction.memory_index() == Register::None
                    && instruction.memory_displacement64() == 0xf_f000
                    && self.patches(at, instruction.len() as u64).next().is_none();
                if !based && !header {
                    return Err("a load that is not confined".into());
                }
            }
        }
        Ok(())
    }

    /// Different values in the relocated field move the operand's displacement.
    fn is_displacement(&self, at: u64, instruction: &Instruction, patch: &Patch) -> bool {
        let with = |value: u8| self.patched(at, instruction, patch, value).map(|i| i.memory_displacement64());
        with(0x11) != with(0x22)
    }

    /// The instruction with every byte of the relocated field set to a value.
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

    /// Whatever a relocation writes, it stays the same instruction; on a branch it is PLT32 to text.
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

    /// The start of the mask right before an indirect branch through the dispatch table, by bytes alone.
    fn mask_before(&self, at: u64, branch: &[u8]) -> Option<u64> {
        const MASK: [u8; 4] = [0xf8, 0xff, 0x0f, 0x00];
        // 65 67 [40|41] ff /2|/4, mod 2, disp32 = 0x100000
        let rest = branch.strip_prefix(&[0x65, 0x67]).or_else(|| branch.strip_prefix(&[0x67, 0x65]))?;
        let (high, rest) = match rest {
            [0x40, rest @ ..] => (0, rest),
            [0x41, rest @ ..] => (8, rest),
            _ => (0, rest),
        };
        let [0xff, modrm, rest @ ..] = rest else { return None };
        let register = high + (modrm & 7);
        let displacement = match modrm & 7 {
            // SIB without index; its scale means nothing then.
            4 => rest.split_first().filter(|(sib, _)| **sib & 0x3f == 0x24)?.1,
            _ => rest,
        };
        if modrm >> 6 != 2 || !matches!(modrm >> 3 & 7, 2 | 4) || displacement != [0, 0, 0x10, 0] || register == 4 {
            return None;
        }
        let before = &self.text.bytes[..at as usize];
        let long = [&[0x81, 0xe0 | register & 7][..], &MASK].concat();
        if before.ends_with(&long) {
            // REX.B selects the upper registers; R and X mean nothing here.
            let rex = before.len().checked_sub(7).map(|i| before[i]).filter(|byte| (0x40..0x48).contains(byte));
            return match rex {
                Some(rex) if rex & 1 == high >> 3 && self.reached.contains_key(&(at - 7)) => Some(at - 7),
                _ if register < 8 => Some(at - 6),
                _ => None,
            };
        }
        let short = [&[0x25][..], &MASK].concat();
        if register != 0 || !before.ends_with(&short) {
            return None;
        }
        let rex = before.len().checked_sub(6).is_some_and(|i| (0x40..0x48).contains(&before[i]));
        Some(if rex && self.reached.contains_key(&(at - 6)) { at - 6 } else { at - 5 })
    }

    fn check_string(&mut self, at: u64, instruction: &Instruction) -> Result<(), String> {
        use Mnemonic::*;
        let (rsi, rdi) = match instruction.mnemonic() {
            Stosb | Stosw | Stosd | Stosq => (false, true),
            Movsb | Movsw | Movsd | Movsq => (self.full, true),
            Lodsb | Lodsw | Lodsd | Lodsq => (self.full, false),
            Scasb | Scasw | Scasd | Scasq => (false, self.full),
            Cmpsb | Cmpsw | Cmpsd | Cmpsq => (self.full, self.full),
            _ => return Err("a string instruction of another kind".into()),
        };
        let kinds = [instruction.op0_kind(), instruction.op1_kind()];
        if kinds.iter().any(|k| matches!(k, OpKind::MemoryESEDI | OpKind::MemorySegESI | OpKind::MemoryESDI)) {
            return Err("a string instruction with a short pointer".into());
        }
        if instruction.segment_prefix() != Register::None {
            return Err("a string instruction with a segment".into());
        }
        let mut end = at;
        for (needed, register) in [(rdi, 7u8), (rsi, 6)] {
            if needed {
                end = self.pointer_before(end, register).ok_or("a string instruction without its mask")?;
            }
        }
        if rdi || rsi {
            self.regions.push((end, at));
        }
        Ok(())
    }

    /// `mov %edi,%edi; add %gs:0xff000,%rdi` (or esi) right before `end`; where it begins.
    fn pointer_before(&self, end: u64, register: u8) -> Option<u64> {
        let before = &self.text.bytes[..end as usize];
        let add = (9..=11)
            .find(|length| before.len() >= *length && rebase(&before[before.len() - length..]) == Some(register))?;
        let before = &before[..before.len() - add];
        let same = 0xc0 | register << 3 | register;
        if !before.ends_with(&[0x89, same]) && !before.ends_with(&[0x8b, same]) {
            return None;
        }
        let rex = before.len() >= 3 && before[before.len() - 3] == 0x40;
        let start = before.len() as u64 - 2;
        Some(if rex && self.reached.contains_key(&(start - 1)) { start - 1 } else { start })
    }
}

/// The register of `add %gs:0xff000,%r`, by bytes alone: one of the forms with 65, perhaps 67, REX.W, 03.
fn rebase(bytes: &[u8]) -> Option<u8> {
    let rest = match bytes {
        [0x65, 0x67, rest @ ..] | [0x67, 0x65, rest @ ..] | [0x65, rest @ ..] => rest,
        _ => return None,
    };
    // No base, no index. REX.X would make it r12, and REX.R another destination.
    let [0x48 | 0x49, 0x03, modrm, sib, 0x00, 0xf0, 0x0f, 0x00] = rest else { return None };
    (modrm & 0xc7 == 4 && sib & 0x3f == 0x25).then_some(modrm >> 3 & 7)
}

/// Legacy prefixes.
#[derive(Default)]
struct Prefixes {
    gs: bool,
    address_size: bool,
    operand_size: bool,
}

fn prefixes(bytes: &[u8]) -> Result<Prefixes, String> {
    let mut found = Prefixes::default();
    let mut seen = [0u8; 256];
    for byte in bytes {
        match byte {
            0x65 => found.gs = true,
            0x67 => found.address_size = true,
            0x66 => found.operand_size = true,
            0xf0 | 0xf2 | 0xf3 => {}
            0x64 | 0x26 | 0x2e | 0x36 | 0x3e => return Err(format!("prefix {byte:02x}")),
            _ => break,
        }
        seen[usize::from(*byte)] += 1;
        if seen[usize::from(*byte)] > 1 {
            return Err(format!("prefix {byte:02x} twice"));
        }
    }
    if seen[0xf0] + seen[0xf2] + seen[0xf3] > 1 {
        return Err("two of f0, f2, f3".into());
    }
    let rest = &bytes[seen.iter().map(|n| usize::from(*n)).sum::<usize>()..];
    if let [0x40..=0x4f, next, ..] = rest
        && matches!(next, 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
    {
        return Err("a prefix behind REX".into());
    }
    Ok(found)
}

/// Instructions that no domain may run, beyond those that iced calls privileged or state-saving.
fn forbidden(mnemonic: Mnemonic) -> bool {
    const EXACTLY: [&str; 21] = [
        "in",
        "insb",
        "insw",
        "insd",
        "int",
        "int1",
        "invd",
        "invlpg",
        "vmcall",
        "vmfunc",
        "vmgexit",
        "vmmcall",
        "vmrun",
        "vmload",
        "vmsave",
        "vmread",
        "vmwrite",
        "vmaskmovdqu",
        "std",
        "cli",
        "sti",
    ];
    const BEGINS: [&str; 58] = [
        "out",
        "sys",
        "iret",
        "popf",
        "pushf",
        "rdfs",
        "wrfs",
        "rdgs",
        "wrgs",
        "swapgs",
        "xsave",
        "xrstor",
        "fxsave",
        "fxrstor",
        "rdpkru",
        "wrpkru",
        "monitor",
        "mwait",
        "umonitor",
        "umwait",
        "tpause",
        "clzero",
        "movdir",
        "enqcmd",
        "tile",
        "ldtile",
        "sttile",
        "maskmov",
        "xbegin",
        "xabort",
        "xend",
        "xtest",
        "rdssp",
        "incssp",
        "wrss",
        "wruss",
        "saveprevssp",
        "rstorssp",
        "setssbsy",
        "clrssbsy",
        "encl",
        "skinit",
        "bnd",
        "lwp",
        "llwp",
        "slwp",
        "xstore",
        "xcrypt",
        "xsha",
        "sgdt",
        "sidt",
        "sldt",
        "smsw",
        "ptwrite",
        "senduipi",
        "uiret",
        "vpscatter",
        "vscatter",
    ];
    let name = format!("{mnemonic:?}").to_lowercase();
    EXACTLY.contains(&name.as_str()) || BEGINS.iter().any(|begin| name.starts_with(begin))
}
