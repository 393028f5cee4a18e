//! The entry of the list for one instruction form.

use iced_x86::Code;

/// The kind of a form. It tells why the form is allowed, and which rule applies beyond its
/// operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Moves, arithmetic, bit manipulation, conversions on general registers (8086 to BMI2, ADX,
    /// MOVBE, CRC32, CMPXCHG16B, RDRAND). They reach memory through their ModRM operand only and
    /// change registers and flags.
    Integer,
    /// `int3`, `ud2`: they raise a fault, which the loader receives.
    Trap,
    /// `rdtsc`. It reads a clock. The host may switch it off (a policy).
    Clock,
    /// `cpuid`. It tells the machine's identity. The host may switch it off (a policy).
    Identity,
    /// x87. It works on its register stack and ModRM memory. `fwait` belongs here because it traps
    /// on an exception that another x87 instruction left pending. The loader resets x87 state at
    /// distrusting crossings.
    X87,
    /// MMX and SSE forms with an MMX operand: aliases of the x87 registers.
    Mmx,
    /// SSE to SSE4.2, AES, PCLMULQDQ, SHA, GFNI with legacy encoding: xmm0 to xmm15.
    Sse,
    /// VEX-encoded vector instructions (AVX, AVX2, FMA, FMA4, F16C, AVX-VNNI, VAES): xmm and ymm 0
    /// to 15.
    Avx,
    /// EVEX-encoded vector instructions and mask registers (AVX-512 F, BW, CD, DQ, VL, VNNI, IFMA,
    /// VBMI, VBMI2, BITALG, VPOPCNTDQ, BF16).
    Avx512,
    /// `ldmxcsr`, `stmxcsr` and their VEX forms. They change how SSE rounds and traps, and see its
    /// status flags. The loader restores MXCSR at crossings of a domain that has them. In other
    /// domains the flags are invisible, and the loader leaves them alone.
    Mxcsr,
    /// No effect that a program can store: `nop`, `endbr64`, `pause`, fences.
    Hint,
    /// Direct near branches. Rules `SFI-B01` to `SFI-B03`.
    Branch,
    /// `call` and `jmp` through a register or memory. Rule `SFI-I01`.
    IndirectBranch,
    /// `ret`. It takes the word at rsp, which is a return address at depth 0. Rule `SFI-C03`.
    Return,
    /// `push` and `pop` of a general register. They save it on the control stack. Rule `SFI-C03`.
    Save,
    /// `movs`, `stos`, `lods`, `cmps`, `scas`. Their memory operands are implicit, by rdi and rsi.
    /// Rule `SFI-S04`.
    String,
    /// `xlat`. It loads from rbx + al without a ModRM operand. Mode write allows any load. Mode
    /// full refuses it.
    Table,
    /// `fnstenv` and `fnsave`. They are x87 and besides store the addresses of the last x87
    /// instruction and of its operand, whoever executed it. In worlds without them these addresses
    /// are invisible, and the loader leaves them alone.
    X87Places,
}

/// The use of a form's ModRM memory operand, if the operand is memory and not a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Memory {
    /// No operand can be memory.
    None,
    /// Names an address and accesses no memory: `lea`, `nop`.
    Address,
    /// Reads memory.
    Load,
    /// Writes memory, or reads and writes it.
    Store,
    /// Reads and writes memory, and may have a `lock` prefix.
    Lockable,
    /// Reads the elements that another vector selects (`vmaskmovps`, `vpmaskmovd`). Rule `SFI-L02`.
    Masked,
    /// Reads several places by a vector index. A mask selects them (gathers). Rule `SFI-L02`.
    Gather,
    /// Another operand moves the address (bit tests with a register offset). Never allowed on
    /// memory.
    Moving,
}

/// One allowed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The kind of instruction.
    pub class: Class,
    /// The use of its memory operand.
    pub memory: Memory,
    /// Index of the operand that may be memory, 0 if none may.
    pub operand: u8,
    /// The legacy prefixes that the form must have: bits of [`prefix`].
    pub prefixes: u8,
    /// Bit i: operand i is written, if it is a register. For memory see `memory`.
    pub writes: u8,
    /// General registers that are written beside the operands. Bit n is the register with number n
    /// (rax 0, rcx 1, ... r15 15).
    pub clobbers: u16,
}

/// Bits of the legacy prefixes.
pub mod prefix {
    /// 66, as operand size or as part of the opcode.
    pub const P66: u8 = 1;
    /// F3 as part of the opcode, or `rep`.
    pub const PF3: u8 = 2;
    /// F2 as part of the opcode, or `repne`.
    pub const PF2: u8 = 4;
    /// F0, `lock`.
    pub const PF0: u8 = 8;
    /// 65, the GS segment.
    pub const P65: u8 = 16;
    /// 67, 32-bit address size.
    pub const P67: u8 = 32;
    /// 40 to 4F.
    pub const REX: u8 = 64;
}

/// Bits of the general registers that some forms write implicitly.
pub(super) mod gpr {
    pub(crate) const RAX: u16 = 1 << 0;
    pub(crate) const RCX: u16 = 1 << 1;
    pub(crate) const RDX: u16 = 1 << 2;
    pub(crate) const RBX: u16 = 1 << 3;
    pub(crate) const RSI: u16 = 1 << 6;
    pub(crate) const RDI: u16 = 1 << 7;
}

/// Forms that share everything but the code.
pub(super) type Group = (Form, &'static [Code]);

/// Builds the groups of `Class Memory(operand) [prefixes] writes(operands) clobbers(registers) {
/// codes }`.
macro_rules! forms {
    ($( $class:ident $memory:ident($operand:literal) [$($prefix:ident)*] writes($($write:literal)*) clobbers($($reg:ident)*)
        { $($code:ident)* } )*) => {
        /// The groups of this part of the list.
        pub(super) const GROUPS: &[super::form::Group] = &[ $(
            (
                super::form::Form {
                    class: super::form::Class::$class,
                    memory: super::form::Memory::$memory,
                    operand: $operand,
                    prefixes: 0 $(| super::form::prefix::$prefix)*,
                    writes: 0 $(| 1 << $write)*,
                    clobbers: 0 $(| super::form::gpr::$reg)*,
                },
                &[ $( iced_x86::Code::$code, )* ],
            ),
        )* ];
    };
}
pub(super) use forms;
