//! Tiny relocatable objects for measurements. They pass the verifier like any other object.

use object::write::{Object, Relocation, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, RelocationFlags, SymbolFlags, SymbolKind, SymbolScope};

fn new() -> Object<'static> {
    Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little)
}

fn symbol(name: &str, section: SymbolSection, kind: SymbolKind) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 0,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

/// The state that an object's text names beyond its function's needs. They decide what the
/// gates save, clear and restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// No other.
    Nothing,
    /// GS, as almost all texts with memory of their own.
    Gs,
    /// Also the preserved integer registers.
    Integer,
    /// Also vector registers and MXCSR.
    Float,
    /// Also x87.
    X87,
}

impl Names {
    pub const ALL: [Self; 5] = [Self::Nothing, Self::Gs, Self::Integer, Self::Float, Self::X87];

    /// Returns the code of a function that is never called.
    fn code(self) -> Vec<u8> {
        #[rustfmt::skip]
        let parts: [&[u8]; 4] = [
            &[0x65, 0x67, 0x8b, 0x00],          // mov %gs:(%eax),%eax
            &[
                0x89, 0xc3,                     // mov %eax,%ebx
                0x89, 0xc5,                     // mov %eax,%ebp
                0x41, 0x89, 0xc4,               // mov %eax,%r12d
                0x41, 0x89, 0xc5,               // mov %eax,%r13d
                0x41, 0x89, 0xc6,               // mov %eax,%r14d
            ],
            &[
                0x66, 0x45, 0x0f, 0xef, 0xc0,   // pxor %xmm8,%xmm8
                0x65, 0x67, 0x0f, 0xae, 0x18,   // stmxcsr %gs:(%eax)
            ],
            &[0xd9, 0xee],                      // fldz
        ];
        // ret
        parts[..self as usize].iter().flat_map(|part| part.iter().copied()).chain([0xc3]).collect()
    }
}

fn add_names(object: &mut Object<'_>, names: Names) {
    let text = object.section_id(StandardSection::Text);
    let id = object.add_symbol(symbol("names", SymbolSection::Undefined, SymbolKind::Text));
    // Without alignment, because padding would be zeroes and the contract has no instruction of
    // zeroes.
    object.add_symbol_data(id, text, &names.code(), 1);
}

/// Returns an object with `void null(void) {}`.
pub fn null(names: Names) -> anyhow::Result<Vec<u8>> {
    let mut object = new();
    let text = object.section_id(StandardSection::Text);
    let id = object.add_symbol(symbol("null", SymbolSection::Undefined, SymbolKind::Text));
    // ret
    object.add_symbol_data(id, text, &[0xc3], 16);
    add_names(&mut object, names);
    Ok(object.write()?)
}

/// Returns an object with `void repeat(unsigned n) { do import(); while (--n); }`.
pub fn repeat(import: &str, names: Names) -> anyhow::Result<Vec<u8>> {
    let mut object = new();
    let text = object.section_id(StandardSection::Text);
    let callee = object.add_symbol(symbol(import, SymbolSection::Undefined, SymbolKind::Unknown));
    let id = object.add_symbol(symbol("repeat", SymbolSection::Undefined, SymbolKind::Text));
    #[rustfmt::skip]
    let code = [
        0x89, 0xfb,             //    mov %edi,%ebx       (the host's rbx is the gate's to save)
        0xe8, 0, 0, 0, 0,       // 1: call import
        0xff, 0xcb,             //    dec %ebx
        0x75, 0xf7,             //    jne 1b
        0xc3,                   //    ret
    ];
    let at = object.add_symbol_data(id, text, &code, 16);
    let flags = RelocationFlags::Elf { r_type: object::elf::R_X86_64_PLT32 };
    object.add_relocation(text, Relocation { offset: at + 3, symbol: callee, addend: -4, flags })?;
    add_names(&mut object, names);
    Ok(object.write()?)
}

/// Returns an object with `u64 state, *pointer = &state; u64 count(void) { return ++state; }` and a
/// page of data. It also has `void touch(unsigned pages)`, which writes a word to each of the
/// heap's first pages.
pub fn counter() -> anyhow::Result<Vec<u8>> {
    let mut object = new();
    let text = object.section_id(StandardSection::Text);
    let data = object.section_id(StandardSection::Data);
    let constants = object.section_id(StandardSection::ReadOnlyData);
    let state = object.add_symbol(symbol("state", SymbolSection::Undefined, SymbolKind::Data));
    let mut page = vec![0; 4096];
    page[16..].fill(1);
    let at = object.add_symbol_data(state, data, &page, 64);
    let flags = |r_type| RelocationFlags::Elf { r_type };
    let pointer = Relocation { offset: at + 8, symbol: state, addend: 0, flags: flags(object::elf::R_X86_64_64) };
    object.add_relocation(data, pointer)?;
    object.append_section_data(constants, b"constants", 16);
    let count = object.add_symbol(symbol("count", SymbolSection::Undefined, SymbolKind::Text));
    #[rustfmt::skip]
    let code = [
        0x65, 0x67, 0x48, 0x8b, 0x05, 0, 0, 0, 0,   // mov %gs:state(%eip),%rax
        0x48, 0xff, 0xc0,                           // inc %rax
        0x65, 0x67, 0x48, 0x89, 0x05, 0, 0, 0, 0,   // mov %rax,%gs:state(%eip)
        0xc3,                                       // ret
    ];
    let at = object.add_symbol_data(count, text, &code, 16);
    for offset in [at + 5, at + 17] {
        let flags = flags(object::elf::R_X86_64_PC32);
        object.add_relocation(text, Relocation { offset, symbol: state, addend: -4, flags })?;
    }
    let touch = object.add_symbol(symbol("touch", SymbolSection::Undefined, SymbolKind::Text));
    #[rustfmt::skip]
    let code = [
        0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0,           // heap: mov %gs:__sfi_header+0x10,%rax
        0x65, 0x67, 0x48, 0x89, 0x38,                       // 1: mov %rdi,%gs:(%eax)
        0x48, 0x05, 0, 0x10, 0, 0,                          //    add $4096,%rax
        0xff, 0xcf,                                         //    dec %edi
        0x75, 0xf1,                                         //    jne 1b
        0xc3,                                               //    ret
    ];
    // Directly after it, because padding would have to be instructions.
    let at = object.add_symbol_data(touch, text, &code, 1);
    let header = object.add_symbol(symbol("__sfi_header", SymbolSection::Undefined, SymbolKind::Unknown));
    let flags = flags(object::elf::R_X86_64_32S);
    object.add_relocation(text, Relocation { offset: at + 5, symbol: header, addend: 0x10, flags })?;
    Ok(object.write()?)
}

/// Returns an object with `u64 NAME(const u64 *words, u64 count)`, which adds words up: a small
/// function with a loop. `add` is a number in its code, so that objects can differ.
pub fn sum(name: &str, add: u32) -> anyhow::Result<Vec<u8>> {
    let mut object = new();
    let text = object.section_id(StandardSection::Text);
    let id = object.add_symbol(symbol(name, SymbolSection::Undefined, SymbolKind::Text));
    let [a, b, c, d] = add.to_le_bytes();
    #[rustfmt::skip]
    let code = [
        0xb8, a, b, c, d,               //    mov $add,%eax
        0x48, 0x85, 0xf6,               //    test %rsi,%rsi
        0x74, 0x10,                     //    je 2f
        0x65, 0x67, 0x48, 0x03, 0x07,   // 1: add %gs:(%edi),%rax
        0x48, 0x83, 0xc7, 0x08,         //    add $8,%rdi
        0x48, 0xff, 0xce,               //    dec %rsi
        0x75, 0xf2,                     //    jne 1b
        0x90, 0x90,                     //    nop; nop
        0xc3,                           // 2: ret
    ];
    object.add_symbol_data(id, text, &code, 16);
    Ok(object.write()?)
}
