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

/// `void null(void) {}`
pub fn null() -> anyhow::Result<Vec<u8>> {
    let mut object = new();
    let text = object.section_id(StandardSection::Text);
    let id = object.add_symbol(symbol("null", SymbolSection::Undefined, SymbolKind::Text));
    // ret
    object.add_symbol_data(id, text, &[0xc3], 16);
    Ok(object.write()?)
}

/// `void repeat(unsigned n) { do import(); while (--n); }`
pub fn repeat(import: &str) -> anyhow::Result<Vec<u8>> {
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
    Ok(object.write()?)
}
