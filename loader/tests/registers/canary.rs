//! One value for each party of a call, and code that puts it into registers.

use super::{GPRS, PRESERVED, Width};
use std::arch::asm;

/// A party's values for registers. No result, argument or address looks like them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Canary {
    name: &'static str,
    /// The value of general, vector, mask and x87 registers. It is a double.
    pub word: u64,
    /// The value of MXCSR.
    pub mxcsr: u32,
    /// The x87 control word.
    pub control_word: u16,
}

/// The party that looks at registers after a call. No exception is unmasked, and no value is a
/// default.
pub const OWN: Canary = Canary { name: "own", word: 0x3ff5_7e57_c0de_0a01, mxcsr: 0x7fbf, control_word: 0x0f7f };
/// The party that is called. Division by zero traps.
pub const MIDDLE: Canary = Canary { name: "middle", word: 0x4a11_b0b5_feed_1b02, mxcsr: 0x5f80, control_word: 0x0b7b };
/// A third party. Every exception traps.
pub const BACK: Canary = Canary { name: "back", word: 0x4b1d_c0c5_badd_2c03, mxcsr: 0xa03f, control_word: 0x0340 };
/// The host.
pub const HOST: Canary = Canary { name: "host", word: 0x4c05_7c0d_e5ec_3d04, mxcsr: 0x1fbf, control_word: 0x037f };

impl Canary {
    /// Returns the data that the code uses.
    pub fn data(&self) -> String {
        let Self { name, word, mxcsr, control_word } = self;
        format!(
            ".data\n.globl {name}_word\n{name}_word: .quad {word:#x}\n{name}_mxcsr: .long {mxcsr:#x}\n\
             {name}_control: .word {control_word:#x}\n.text\n"
        )
    }

    /// Returns the symbol of the word.
    pub fn symbol(&self) -> &'static str {
        match self.name {
            "own" => "own_word",
            "middle" => "middle_word",
            "back" => "back_word",
            other => panic!("{other} has no data"),
        }
    }

    /// Returns the word as an x87 register.
    pub fn extended(&self) -> [u8; 10] {
        let exponent = (self.word >> 52) as u16 - 1023 + 16383;
        let mantissa = 1 << 63 | self.word << 12 >> 1;
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
        bytes[8..].copy_from_slice(&exponent.to_le_bytes());
        bytes
    }

    fn general(&self, registers: impl Iterator<Item = &'static str>) -> String {
        registers.map(|r| format!("mov {}_word(%rip),%{r}\n", self.name)).collect()
    }

    /// Returns code for the registers that calls preserve, except r15.
    pub fn preserved(&self) -> String {
        self.general(PRESERVED.into_iter().filter(|r| *r != "r15"))
    }

    /// Returns code for the other general registers.
    pub fn volatile(&self) -> String {
        self.general(GPRS.into_iter().filter(|r| !PRESERVED.contains(r)))
    }

    /// Returns code for MXCSR.
    pub fn mxcsr(&self) -> String {
        format!("ldmxcsr {}_mxcsr(%rip)\n", self.name)
    }

    /// Returns code for the vector registers 0-15.
    pub fn vectors(&self, width: Width) -> String {
        let one = |n: usize| match width {
            Width::Xmm => format!("movsd {}_word(%rip),%xmm{n}\nunpcklpd %xmm{n},%xmm{n}\n", self.name),
            Width::Ymm => format!("vbroadcastsd {}_word(%rip),%ymm{n}\n", self.name),
            Width::Zmm => format!("vbroadcastsd {}_word(%rip),%zmm{n}\n", self.name),
        };
        (0..16).map(one).collect()
    }

    /// Returns code for all of zmm0-31 and the masks, as far as the width reaches them.
    pub fn zmm(&self, width: Width) -> String {
        if width != Width::Zmm {
            return String::new();
        }
        let upper = (16..32).map(|n| format!("vbroadcastsd {}_word(%rip),%zmm{n}\n", self.name));
        let masks = (0..8).map(|n| format!("kmovq {}_word(%rip),%k{n}\n", self.name));
        self.vectors(width) + &upper.chain(masks).collect::<String>()
    }

    /// Returns code for an empty x87 stack whose registers hold the word, as calls require it.
    /// Keeps the control word.
    pub fn x87_residue(&self) -> String {
        format!("fldl {}_word(%rip)\n", self.name).repeat(8) + &"fstp %st(0)\n".repeat(8)
    }

    /// Returns code for an x87 stack that calls forbid, with an exception pending if the control
    /// word unmasks division by zero.
    pub fn x87_pending(&self) -> String {
        let words = format!("fldl {}_word(%rip)\n", self.name).repeat(5);
        format!("fninit\n{words}fld1\nfldz\nfdivrp\nfldcw {}_control(%rip)\n", self.name)
    }

    /// Returns code for every register, in a state that calls allow: the x87 stack is empty.
    pub fn before_a_call(&self, width: Width) -> String {
        format!("fninit\nfldcw {}_control(%rip)\n", self.name) + &self.x87_residue() + &self.all_but_x87(width)
    }

    /// Returns code for every register, in a state that calls forbid.
    pub fn everywhere(&self, width: Width) -> String {
        self.x87_pending() + &self.all_but_x87(width)
    }

    fn all_but_x87(&self, width: Width) -> String {
        self.mxcsr() + &self.vectors(width) + &self.zmm(width) + &self.volatile() + &self.preserved()
    }

    /// Plants the canary in this thread's registers, except the general ones, which Rust code uses.
    pub fn plant_here(&self, width: Width) {
        // SAFETY: the registers are declared as changed. MXCSR keeps its masks and rounding. x87 is
        // left as the ABI requires.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &self.mxcsr);
            asm!("fld qword ptr [{0}]", "fstp qword ptr [{0}]", in(reg) &mut self.word.to_le_bytes(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _);
        }
        // SAFETY: the width is this machine's.
        unsafe {
            match width {
                Width::Xmm => {}
                Width::Ymm => plant_ymm(self.word),
                Width::Zmm => plant_zmm(self.word),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn plant_zmm(word: u64) {
    macro_rules! vectors { ($($r:tt)*) => { $(
        // SAFETY: the register is declared as changed.
        unsafe { asm!(concat!("vpbroadcastq ", $r, ", {0}"), in(reg) word, out($r) _) };
    )* } }
    vectors!("zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15"
        "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25" "zmm26" "zmm27" "zmm28" "zmm29" "zmm30" "zmm31");
    macro_rules! masks { ($($r:tt)*) => { $(
        // SAFETY: the register is declared as changed.
        unsafe { asm!(concat!("kmovq ", $r, ", {0}"), in(reg) word, out($r) _) };
    )* } }
    masks!("k1" "k2" "k3" "k4" "k5" "k6" "k7");
}

#[target_feature(enable = "avx")]
unsafe fn plant_ymm(word: u64) {
    macro_rules! vectors { ($($r:tt)*) => { $(
        // SAFETY: the register is declared as changed.
        unsafe { asm!(concat!("vbroadcastsd ", $r, ", qword ptr [{0}]"), in(reg) &word, out($r) _) };
    )* } }
    vectors!("ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13" "ymm14" "ymm15");
}

/// Returns this thread's control bits of MXCSR, and the x87 control word.
pub fn host_control() -> (u32, u16) {
    let (mut mxcsr, mut control) = (0u32, 0u16);
    // SAFETY: stores two words.
    unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut control) };
    (mxcsr & 0xffc0, control)
}
