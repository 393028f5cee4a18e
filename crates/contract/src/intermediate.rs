//! The sections and files where compilers keep intermediate code. A linker may compile it into
//! other text than the object has.

/// Says whether a section of this name holds intermediate code for GCC's or LLVM's link-time
/// optimisation.
pub fn is_section(name: &[u8]) -> bool {
    is_gcc_section(name) || [&b".llvm.lto"[..], b".llvmbc"].contains(&name)
}

/// Says whether a section of this name is GCC's. GCC leaves machine code out unless it is asked for
/// both.
pub fn is_gcc_section(name: &[u8]) -> bool {
    [&b".gnu.lto_"[..], b".gnu.offload_lto_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Says whether a file is LLVM's intermediate code, bare or in its wrapper.
pub fn is_bitcode(file: &[u8]) -> bool {
    file.starts_with(b"BC\xc0\xde") || file.starts_with(&0x0b17_c0de_u32.to_le_bytes())
}

/// Describes a file of LLVM's intermediate code, with advice.
pub const BITCODE: &str = "LLVM bitcode instead of an object; compile without -flto and -emit-llvm";
