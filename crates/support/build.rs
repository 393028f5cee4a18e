//! Makes the support objects, for each mode. The crate's documentation says what they do.

#[path = "code/checks.rs"]
mod checks;
#[path = "code/contexts.rs"]
mod contexts;
#[path = "code/function.rs"]
mod function;
#[path = "code/jumps.rs"]
mod jumps;
#[path = "code/processes.rs"]
mod processes;
#[path = "code/signals.rs"]
mod signals;
#[path = "code/threads.rs"]
mod threads;

use function::{Function, fixed, function, jump_external};
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, Register};
use object::write::{Object, Relocation, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

use signals::LEA_STACK;

use sfi_contract::layout::{HEADER_BASE, HEADER_LOCALS, HEADER_TCB};
use sfi_contract::{Mode, names};
use std::path::PathBuf;

/// Bytes of the stack on which `__sfi_fault` asks for a handler.
const FAULT_STACK: u64 = 1024;

/// The entry point of a program.
const START: &str = "__sfi_start";

fn start(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // __libc_start_main(main, argc, argv, 0, 0, 0)
    a.mov(rdx, rsi)?;
    a.mov(esi, edi)?;
    // lea main(%rip),%rdi. A relocation fills in the displacement.
    a.db(&LEA_MAIN)?;
    a.xor(ecx, ecx)?;
    a.xor(r8d, r8d)?;
    a.xor(r9d, r9d)?;
    jump_external(a)
}

/// `lea 0(%rip),%rdi`
const LEA_MAIN: [u8; 7] = [0x48, 0x8d, 0x3d, 0, 0, 0, 0];

/// `lea 0(%rip),%r9`
const LEA_LIBC: [u8; 7] = [0x4c, 0x8d, 0x0d, 0, 0, 0, 0];
/// musl's record of a program (`struct __libc`), and the places in it of a thread's size and
/// alignment. `pthread_create` lets that many bytes be free for thread locals and `struct pthread`.
const LIBC: (&str, i32, i32) = ("__libc", 0x18, 0x20);
/// Bytes of such a record, at least.
const LIBC_SIZE: u64 = 0x80;
/// musl's function that calls what was registered with `atexit`. A libc without one gets a function
/// that does nothing.
const AT_EXIT: &str = "__funcs_on_exit";
/// Finalisers that run before and after all others. Priorities of programs have 16 bits, and the
/// loader places sections without one at 2^32 - 1.
const FIRST: &str = ".fini_array.4294967296";
const LAST: &str = ".fini_array.0";
/// Room for `struct pthread` and for its page, whose start is the thread pointer.
const THREAD_ROOM: i32 = 0x2000;

fn init_tls(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // __libc.tls_size = the bytes of thread locals and THREAD_ROOM; __libc.tls_align = 4096
    let (_, size, align) = LIBC;
    a.db(&LEA_LIBC)?;
    a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, fixed(HEADER_LOCALS))?)?;
    a.add(rax, THREAD_ROOM)?;
    a.mov(qword_ptr(r9d + size).gs(), rax)?;
    a.mov(eax, 0x1000)?;
    a.mov(qword_ptr(r9d + align).gs(), rax)?;
    // __init_tp(TCB)
    a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RDI, fixed(HEADER_TCB))?)?;
    jump_external(a)
}

/// Writes `memmove`. musl's own runs backwards with the direction flag set, which no domain may do.
fn memmove(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut backward = a.create_label();
    let mut words = a.create_label();
    let mut tail = a.create_label();
    let mut bytes = a.create_label();
    let mut done = a.create_label();
    a.mov(rax, rdi)?;
    a.mov(rcx, rdi)?;
    a.sub(rcx, rsi)?;
    a.cmp(rcx, rdx)?;
    a.jb(backward)?;
    a.mov(rcx, rdx)?;
    for (low, whole) in [(esi, rsi), (edi, rdi)] {
        a.mov(low, low)?;
        // add %gs:HEADER_BASE,whole
        a.add_instruction(Instruction::with2(Code::Add_r64_rm64, whole.into(), fixed(HEADER_BASE))?)?;
    }
    a.rep().movsb()?;
    a.ret()?;
    a.set_label(&mut backward)?;
    a.cmp(rdx, 8)?;
    a.jb(tail)?;
    a.set_label(&mut words)?;
    a.mov(r8, qword_ptr(esi + edx - 8).gs())?;
    a.mov(qword_ptr(edi + edx - 8).gs(), r8)?;
    a.sub(rdx, 8)?;
    a.cmp(rdx, 8)?;
    a.jae(words)?;
    a.set_label(&mut tail)?;
    a.test(rdx, rdx)?;
    a.je(done)?;
    a.set_label(&mut bytes)?;
    a.mov(r8b, byte_ptr(esi + edx - 1).gs())?;
    a.mov(byte_ptr(edi + edx - 1).gs(), r8b)?;
    a.sub(rdx, 1)?;
    a.jne(bytes)?;
    a.set_label(&mut done)?;
    a.ret()
}

/// Sets musl up without `__libc_start_main`, with an empty environment and no program name.
fn init_libc(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // __init_libc(&environment, NULL)
    a.db(&LEA_MAIN)?;
    a.xor(esi, esi)?;
    jump_external(a)
}

fn flush(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // fflush(NULL)
    a.xor(edi, edi)?;
    jump_external(a)
}

/// The purpose of the code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A program, started at `main`.
    Program,
    /// Functions that other code calls.
    Library,
}

/// An empty environment, and after it the auxiliary vector: AT_PAGESZ 4096.
const ENVIRONMENT: [u64; 5] = [0, 6, 4096, 0, 0];

fn build(kind: Kind, mode: Mode) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut functions = vec![
        function(names::SYSCALL, &[names::ARBITRATE, names::HANDLERS], mode, signals::syscall)?,
        function(names::HANDLERS, &[names::ARBITRATE; 2], mode, signals::handlers)?,
        function(names::FAULT, &[names::ARBITRATE; 2], mode, signals::fault)?,
        function("__init_tls", &["__init_tp"], mode, init_tls)?,
        function("memmove", &[], mode, memmove)?,
        function("_init", &[], mode, |a| a.ret())?,
        function("_fini", &[], mode, |a| a.ret())?,
        function("__clone", &[names::ARBITRATE], mode, threads::clone)?,
        function("__unmapself", &[names::ARBITRATE], mode, threads::leave)?,
        function("posix_spawn", &[names::ARBITRATE], mode, processes::spawn)?,
        function("posix_spawnp", &[names::ARBITRATE], mode, processes::spawn_found)?,
        function("dlsym", &[], mode, |a| a.xor(eax, eax).and_then(|()| a.ret()))?,
    ];
    let first = match kind {
        Kind::Program => {
            functions.push(function(START, &["__libc_start_main"], mode, start)?);
            functions.push(function("vfork", &[names::ARBITRATE, "__syscall_ret"], mode, processes::fork)?);
            "main"
        }
        Kind::Library => {
            functions.push(function("vfork", &[], mode, processes::none)?);
            functions.push(function("__sfi_init_libc", &["__init_libc"], mode, init_libc)?);
            functions.push(function("__sfi_flush", &["fflush"], mode, flush)?);
            functions.push(function("__sfi_at_exit", &[AT_EXIT], mode, jump_external)?);
            functions.push(function(AT_EXIT, &[], mode, CodeAssembler::ret)?);
            "__sfi_environment"
        }
    };
    make(&functions, first, kind == Kind::Library)
}

/// Functions that other objects may replace. A program may have its own ones where it may natively.
const REPLACED: [&str; 6] = [AT_EXIT, "dlsym", "memmove", "posix_spawn", "posix_spawnp", "vfork"];

/// Returns an archive with one object, for linkers that take only needed members.
fn archive(mut object: Vec<u8>) -> Vec<u8> {
    // ar(5): name, time, owner, group, mode, size.
    let head = format!("!<arch>\n{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "contexts.o/", 0, 0, 0, 644, object.len());
    if !object.len().is_multiple_of(2) {
        object.push(b'\n');
    }
    [head.into_bytes(), object].concat()
}

/// `movzbl (%rdi),%eax; ret`
fn load(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.movzx(eax, byte_ptr(rdi))?;
    a.ret()
}

/// Makes an object. `first` is the symbol that `LEA_MAIN` names. A library also gets its
/// environment and its initialiser.
fn make(functions: &[Function], first: &str, library: bool) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    let mut offsets = Vec::new();
    for f in functions {
        // int3 fills the space up to the next function, because all bytes of text must be
        // instructions.
        let mut bytes = f.bytes.clone();
        bytes.resize(bytes.len().next_multiple_of(16), 0xcc);
        let offset = object.append_section_data(text, &bytes, 16);
        let place = SymbolSection::Section(text);
        for name in [f.name].iter().chain(f.aliases) {
            let own = symbol(name, offset, f.bytes.len() as u64, place, SymbolKind::Text);
            object.add_symbol(Symbol { weak: REPLACED.contains(name), ..own });
        }
        offsets.push(offset);
    }
    let undefined = |object: &mut Object<'_>, name: &str| -> SymbolId {
        object
            .symbol_id(name.as_bytes())
            .unwrap_or_else(|| object.add_symbol(symbol(name, 0, 0, SymbolSection::Undefined, SymbolKind::Unknown)))
    };
    let has = |f: &Function, pattern: [u8; 7]| f.bytes.windows(7).any(|window| window == pattern);
    if functions.iter().any(|f| has(f, contexts::LEA_TABLE)) {
        let (name, size) = contexts::TABLE;
        let data = object.section_id(StandardSection::UninitializedData);
        let offset = object.append_section_bss(data, size, 16);
        object.add_symbol(symbol(name, offset, size, SymbolSection::Section(data), SymbolKind::Data));
    }
    if functions.iter().any(|f| has(f, LEA_LIBC)) {
        // musl's own record replaces it. A domain without a libc never uses it.
        let (name, ..) = LIBC;
        let data = object.section_id(StandardSection::UninitializedData);
        let offset = object.append_section_bss(data, LIBC_SIZE, 8);
        let record = symbol(name, offset, LIBC_SIZE, SymbolSection::Section(data), SymbolKind::Data);
        object.add_symbol(Symbol { weak: true, ..record });
    }
    for (f, offset) in functions.iter().zip(offsets) {
        for (at, name) in &f.calls {
            let target = undefined(&mut object, name);
            object.add_relocation(text, relocation(offset + at, target, elf::R_X86_64_PLT32))?;
        }
        if let Some(at) = f.bytes.windows(LEA_STACK.len()).position(|w| w == LEA_STACK) {
            let stack = object.section_id(StandardSection::UninitializedData);
            let start = object.append_section_bss(stack, FAULT_STACK, 16);
            let symbol = object.section_symbol(stack);
            let place = relocation(offset + at as u64 + 3, symbol, elf::R_X86_64_PC32);
            let addend = place.addend + (start + FAULT_STACK / 2) as i64;
            object.add_relocation(text, Relocation { addend, ..place })?;
        }
        let leas = |pattern: [u8; 7]| {
            let found = f.bytes.windows(7).enumerate().filter(move |(_, window)| *window == pattern);
            found.map(move |(at, _)| offset + at as u64 + 3)
        };
        for at in leas(contexts::LEA_TABLE) {
            let table = undefined(&mut object, contexts::TABLE.0);
            object.add_relocation(text, relocation(at, table, elf::R_X86_64_PC32))?;
        }
        for (pattern, name) in [contexts::LEA_ON, contexts::LEA_START, (LEA_LIBC, LIBC.0)] {
            for at in leas(pattern) {
                let target = undefined(&mut object, name);
                object.add_relocation(text, relocation(at, target, elf::R_X86_64_PC32))?;
            }
        }
        for (at, place) in &f.places {
            let target = undefined(&mut object, place.anchor.symbol());
            let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_32S };
            let addend = place.addend.into();
            object.add_relocation(text, Relocation { offset: offset + at, symbol: target, addend, flags })?;
        }
        if let Some(at) = f.bytes.windows(LEA_MAIN.len()).position(|w| w == LEA_MAIN) {
            let symbol = undefined(&mut object, first);
            object.add_relocation(text, relocation(offset + at as u64 + 3, symbol, elf::R_X86_64_PC32))?;
        }
    }
    if library {
        let bytes = ENVIRONMENT.map(u64::to_le_bytes).concat();
        let data = object.section_id(StandardSection::Data);
        let offset = object.append_section_data(data, &bytes, 8);
        let id = undefined(&mut object, first);
        *object.symbol_mut(id) =
            symbol(first, offset, bytes.len() as u64, SymbolSection::Section(data), SymbolKind::Data);
        // Finalisers run from the array's end. As in `exit`, the functions of `atexit` come first.
        let arrays = [(".preinit_array", "__sfi_init_libc"), (LAST, "__sfi_flush"), (FIRST, "__sfi_at_exit")];
        for (section, name) in arrays {
            let array = object.add_section(Vec::new(), section.into(), SectionKind::Data);
            object.section_mut(array).flags = SectionFlags::Elf {
                sh_flags: elf::SHF_ALLOC | elf::SHF_WRITE,
                sh_type: if section.starts_with(".fini_array") { elf::SHT_FINI_ARRAY } else { elf::SHT_PREINIT_ARRAY },
            };
            let offset = object.append_section_data(array, &[0; 8], 8);
            let target = undefined(&mut object, name);
            let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_64 };
            object.add_relocation(array, Relocation { offset, symbol: target, addend: 0, flags })?;
        }
    }
    Ok(object.write()?)
}

fn symbol(name: &str, value: u64, size: u64, section: SymbolSection, kind: SymbolKind) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value,
        size,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

fn relocation(offset: u64, symbol: SymbolId, r_type: elf::RelocationType) -> Relocation {
    Relocation { offset, symbol, addend: -4, flags: RelocationFlags::Elf { r_type } }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=code");
    let directory = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for mode in Mode::ALL {
        let contexts = make(&contexts::functions(mode)?, "", false)?;
        for (name, bytes) in [
            ("program.o", build(Kind::Program, mode)?),
            ("library.o", build(Kind::Library, mode)?),
            ("jumps.o", make(&jumps::functions(mode)?, "", false)?),
            ("contexts.a", archive(contexts.clone())),
            ("contexts.o", contexts),
        ] {
            std::fs::write(directory.join(format!("{mode}-{name}")), bytes)?;
        }
    }
    let load = function("load", &[], Mode::Write, load)?;
    Ok(std::fs::write(directory.join("load.o"), make(&[load], "", false)?)?)
}
