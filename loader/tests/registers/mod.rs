//! Secrets in registers: code that plants them everywhere, code that stores every register, and what must not be found.
#![allow(dead_code)]

use sfi_loader::World;

/// What is planted. No result, argument or address looks like it.
pub const SECRET: u64 = 0xa55a_5ec2_e75e_5aa5;
/// General registers in the order in which `dump` stores them.
pub const GPRS: [&str; 15] =
    ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
/// Registers that calls preserve.
pub const PRESERVED: [&str; 6] = ["rbx", "rbp", "r12", "r13", "r14", "r15"];
/// Offsets in the dump: vector registers, mask registers, x87 image, MXCSR.
pub const VECTORS: usize = 128;
pub const MASKS: usize = VECTORS + 32 * 64;
pub const X87: usize = MASKS + 64;
pub const MXCSR: usize = X87 + 112;
pub const SIZE: usize = MXCSR + 8;

/// Widest state that a domain's text names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Ymm,
    Zmm,
}

pub fn widths() -> Vec<Width> {
    if std::arch::is_x86_feature_detected!("avx512bw") { vec![Width::Ymm, Width::Zmm] } else { vec![Width::Ymm] }
}

/// `dump`: stores every register that it can name; changes none but x87 state.
pub fn dump(width: Width) -> String {
    let mut body = String::new();
    for (i, r) in GPRS.iter().enumerate() {
        body += &format!("mov %{r},%gs:area+{}(%eip)\n", 8 * i);
    }
    match width {
        Width::Ymm => {
            for i in 0..16 {
                body += &format!("vmovdqu %ymm{i},%gs:area+{}(%eip)\n", VECTORS + 64 * i);
            }
        }
        Width::Zmm => {
            for i in 0..32 {
                body += &format!("vmovdqu64 %zmm{i},%gs:area+{}(%eip)\n", VECTORS + 64 * i);
            }
            for i in 0..8 {
                body += &format!("kmovq %k{i},%gs:area+{}(%eip)\n", MASKS + 8 * i);
            }
        }
    }
    body += &format!("stmxcsr %gs:area+{MXCSR}(%eip)\nfnsave %gs:area+{X87}(%eip)\n");
    body
}

/// Puts the secret into every register but r15, and wild values into MXCSR and the x87 state.
pub fn plant(width: Width) -> String {
    let mut body = "ldmxcsr wild_mxcsr(%rip)\nfldcw wild_cw(%rip)\n".to_owned();
    body += &"fldl secret(%rip)\n".repeat(8);
    match width {
        Width::Ymm => {
            for i in 0..16 {
                body += &format!("vbroadcastsd secret(%rip),%ymm{i}\n");
            }
        }
        Width::Zmm => {
            for i in 0..32 {
                body += &format!("vbroadcastsd secret(%rip),%zmm{i}\n");
            }
            for i in 0..8 {
                body += &format!("kmovq secret(%rip),%k{i}\n");
            }
        }
    }
    for r in GPRS.iter().filter(|r| **r != "r15") {
        body += &format!("mov secret(%rip),%{r}\n");
    }
    body
}

pub fn data() -> String {
    format!(
        ".data\n.globl area\n.balign 64\narea: .skip {SIZE},0x11\nsecret: .quad {SECRET:#x}\nwild_mxcsr: .long 0x7fbf\nwild_cw: .word 0x0f7f\n.text\n"
    )
}

pub struct Dump(pub Vec<u8>);

impl Dump {
    pub fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.0[offset..offset + 8].try_into().unwrap())
    }

    pub fn gpr(&self, name: &str) -> u64 {
        self.word(8 * GPRS.iter().position(|r| *r == name).unwrap())
    }

    /// Every vector and mask register is zero, except the low `allowed` words of the given registers.
    pub fn check_vectors(&self, width: Width, allowed: &[(usize, u64)]) {
        let (registers, words) = if width == Width::Zmm { (32, 8) } else { (16, 4) };
        for register in 0..registers {
            for word in 0..words {
                let value = self.word(VECTORS + 64 * register + 8 * word);
                let expected = allowed.iter().find(|(r, _)| (*r, word) == (register, 0)).map_or(0, |(_, v)| *v);
                assert_eq!(value, expected, "vector register {register}, word {word}");
            }
        }
        if width == Width::Zmm {
            (0..8).for_each(|k| assert_eq!(self.word(MASKS + 8 * k), 0, "k{k}"));
        }
    }

    /// x87 as after `fninit`, registers all zero (fnsave: SDM volume 1, figure 8-9 and 8-10).
    pub fn check_x87(&self, control: u16) {
        let image = &self.0[X87..X87 + 108];
        assert_eq!(u16::from_le_bytes([image[0], image[1]]), control, "control word");
        assert_eq!(&image[4..6], [0, 0], "status word");
        assert_eq!(&image[8..10], [0xff, 0xff], "tag word");
        assert!(image[12..26].iter().all(|b| *b == 0), "instruction and data pointers: {:x?}", &image[12..28]);
        assert!(image[28..].iter().all(|b| *b == 0), "registers: {:x?}", &image[28..]);
    }

    pub fn mxcsr(&self) -> u32 {
        self.word(MXCSR) as u32
    }
}

pub fn take(world: &mut World, domain: &str) -> Dump {
    let area = world.domain(domain).unwrap().symbol("area").unwrap();
    Dump(world.memory(domain).unwrap().read(area.0, SIZE).unwrap())
}

/// Every general register is zero, a declared value, or (r15) the domain's own data stack.
pub fn check_gprs(dump: &Dump, world: &World, domain: &str, allowed: &[(&str, u64)]) {
    let base = world.domain(domain).unwrap().secret_base();
    for r in GPRS {
        let expected = allowed.iter().find(|(name, _)| *name == r).map(|(_, v)| *v);
        match (r, expected) {
            (_, Some(value)) => assert_eq!(dump.gpr(r), value, "{r}"),
            ("r15", None) => assert_eq!(dump.gpr(r) >> 32, base >> 32, "r15 is not in the domain's window"),
            (_, None) => assert_eq!(dump.gpr(r), 0, "{r}"),
        }
    }
}
