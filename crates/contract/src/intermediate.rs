//! Where compilers keep intermediate code, which a linker may turn into other text than the object
//! has.

/// Whether a section of this name holds the code of GCC's or LLVM's link-time optimisation.
pub fn is_section(name: &[u8]) -> bool {
    is_gcc_section(name) || [&b".llvm.lto"[..], b".llvmbc"].contains(&name)
}

/// Whether it is GCC's, which leaves machine code out unless it is asked for both.
pub fn is_gcc_section(name: &[u8]) -> bool {
    [&b".gnu.lto_"[..], b".gnu.offload_lto_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a file is LLVM's intermediate code, bare or in its wrapper.
pub fn is_bitcode(file: &[u8]) -> bool {
    file.starts_with(b"BC\xc0\xde") || file.starts_with(&0x0b17_c0de_u32.to_le_bytes())
}

/// What to say about it.
pub const ADVICE: &str = "intermediate code (LTO) instead of machine code; compile with -fno-lto or -ffat-lto-objects";
