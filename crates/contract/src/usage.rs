//! The state that a text uses. The loader saves and clears this state at crossings.

use crate::policy::Class;

/// The machine state that an object's text uses. It is computed from the decoded instructions,
/// never taken from the object's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bit n: the general register with number n (rax 0, rcx 1, rdx 2, rbx 3, ... r15 15) is
    /// written, in whole or in part. rsp does not count, and neither do callees outside the text.
    pub gprs_written: u16,
    /// Bit n: the preserved register n (see [`Usage::PRESERVED`]) is read or written, in whole or
    /// in part, by an operand or implicitly.
    pub preserved_named: u16,
    /// Widest vector registers named.
    pub vectors: Vectors,
    /// The text uses x87 or MMX state (`fnstenv`, `fldenv`, `fwait` and the control word included).
    /// A return to the host resets it (`fninit`) at every trust level. Otherwise an exception left
    /// unmasked and pending would trap in the host's next x87 instruction.
    pub x87: bool,
    /// The text has `fnstenv` or `fnsave`, so it can see where the last x87 instruction was.
    pub x87_places: bool,
    /// The text loads or stores MXCSR, so it can change it or see it. (Any SSE arithmetic sets its
    /// status flags.)
    pub mxcsr: bool,
    /// `rdtsc` occurs.
    pub clock: bool,
    /// `cpuid` occurs.
    pub identity: bool,
    /// The text depends on the GS base: an instruction has the GS override, or a branch of a final
    /// text leaves it for a stub. A text without it runs with any GS base, and can neither see nor
    /// change it.
    pub gs: bool,
}

/// Widest vector registers that an instruction names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// No vector registers.
    #[default]
    None,
    /// xmm0 to xmm15, legacy encoding.
    Xmm,
    /// xmm and ymm 0 to 15, VEX encoding. It clears the upper parts.
    Ymm,
    /// EVEX encoding or mask registers: any of zmm0 to zmm31 and k0 to k7.
    Zmm,
}

impl Usage {
    /// The bit of the registers written, as [`Usage::new`] takes them, for the GS override. It is
    /// that of rsp, which no accepted instruction names.
    pub const GS: u16 = 1 << 4;
    /// The registers that functions preserve (psABI 3.2.1), rsp aside: rbx, rbp, r12 to r15.
    pub const PRESERVED: u16 = 1 << 3 | 1 << 5 | 0xf << 12;

    /// Returns the usage by the set of classes (bit = discriminant), the registers written with
    /// [`Usage::GS`], and those named.
    pub fn new(classes: u32, gprs_written: u16, gprs_named: u16) -> Usage {
        let has = |class: Class| classes & (1 << class as u32) != 0;
        let vectors = if has(Class::Avx512) {
            Vectors::Zmm
        } else if has(Class::Avx) {
            Vectors::Ymm
        } else if has(Class::Sse) || has(Class::Mmx) {
            Vectors::Xmm // an MMX form may convert to or from xmm
        } else {
            Vectors::None
        };
        Usage {
            gprs_written: gprs_written & !Self::GS,
            preserved_named: (gprs_named | gprs_written) & Self::PRESERVED,
            vectors,
            x87: has(Class::X87) || has(Class::X87Places) || has(Class::Mmx),
            x87_places: has(Class::X87Places),
            mxcsr: has(Class::Mxcsr),
            clock: has(Class::Clock),
            identity: has(Class::Identity),
            gs: gprs_written & Self::GS != 0,
        }
    }

    /// Returns the usage of both texts together.
    pub fn union(self, other: Usage) -> Usage {
        Usage {
            gprs_written: self.gprs_written | other.gprs_written,
            preserved_named: self.preserved_named | other.preserved_named,
            vectors: self.vectors.max(other.vectors),
            x87: self.x87 | other.x87,
            x87_places: self.x87_places | other.x87_places,
            mxcsr: self.mxcsr | other.mxcsr,
            clock: self.clock | other.clock,
            identity: self.identity | other.identity,
            gs: self.gs | other.gs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gs_of_one_text_is_that_of_all() {
        let gs = Usage::new(0, Usage::GS | 1, 1);
        assert!(gs.gs && gs.gprs_written == 1 && !Usage::new(0, 1, 1).gs);
        let none = Usage::new(1 << Class::Sse as u32, !Usage::GS, !Usage::GS);
        assert!(!none.gs && gs.union(none).gs && none.union(gs).gs && !none.union(none).gs);
    }
}
