//! Unsafe regions: adjacent instructions that are safe only together.
//!
//! ```text
//! an indirect branch
//!     and  $0xffff8,%R ; call|jmp *%gs:__sfi_dispatch(%R)
//! a string instruction by rdi
//!     mov %edi,%edi ; add %gs:__sfi_header,%rdi ; stos, movs, scas
//! one by rsi (mode full)
//!     mov %esi,%esi ; add %gs:__sfi_header,%rsi ; lods
//! one by both (mode full)
//!     mov %esi,%esi ; add ...,%rsi ; mov %edi,%edi ; add ...,%rdi ; movs, cmps
//! a load of mode full by the window's base in a register
//!     mov %gs:__sfi_header,%B ; mov %r32,%N ; a load from d(%B,%N)
//! ```
//!
//! The symbols are [`sfi_contract::Anchor`]s: in an object a relocation against them, in the final
//! text the domain's own number. The tracker follows a sweep and knows the part of such a sequence
//! that it has passed.

use sfi_contract::Rule;

/// The role of an instruction in an unsafe region. `%R` is the one general register that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No part of any region.
    Other,
    /// `and $0xffff8,%R`
    Mask,
    /// `call|jmp *%gs:__sfi_dispatch(%R)`
    Through,
    /// Any other indirect branch.
    Astray,
    /// `mov %edi,%edi`
    TruncateDi,
    /// `mov %esi,%esi`
    TruncateSi,
    /// `add %gs:__sfi_header,%R`
    Rebase,
    /// `add %gs:0xff000,%R` as a load of mode full, which may read this address and no other.
    RebaseOnly,
    /// `mov %gs:__sfi_header,%R`
    Base,
    /// Any other `mov %r32,%r32`.
    Narrow,
    /// A load of mode full from `d(%B,%N)`. The displacement is small and not relocated.
    Based,
    /// Such a load with another displacement.
    Far,
    /// A rip-relative load of mode full. It needs a relocation, because the loader chooses the
    /// target.
    RelativeLoad,
    /// A rip-relative store without GS. As such a load, in every mode.
    RelativeStore,
    /// A string instruction that needs rdi.
    StringDi,
    /// A string instruction that needs rsi.
    StringSi,
    /// A string instruction that needs both.
    StringDiSi,
}

const RSI: u16 = 1 << 6;
const RDI: u16 = 1 << 7;

/// The part of a region that the instructions right before the sweep's place form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    /// A mask, with the bit of its register.
    Masked(u16),
    DiTruncated,
    Di,
    SiTruncated,
    Si,
    /// rsi is ready, and `mov %edi,%edi` follows.
    SiDiTruncated,
    SiDi,
    /// The bit of the register with the window's base.
    Base(u16),
    /// The same, and the bit of the register with the number.
    Number(u16, u16),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tracker {
    state: State,
    start: u64,
}

/// The part of a region that an instruction lacks before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The mask of an indirect branch.
    Mask,
    /// The pointers of a string instruction.
    Pointers,
    /// The base and the number of a load.
    Base,
}

impl Missing {
    /// Returns `SFI-I01` or `SFI-S04`.
    pub(crate) fn rule(self) -> Rule {
        match self {
            Missing::Mask => Rule::IndirectBranch,
            Missing::Pointers => Rule::StringMask,
            Missing::Base => Rule::LoadBased,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Missing::Mask => "not `and $0xffff8,%r32` directly followed by a branch through %gs:__sfi_dispatch(%r32)",
            Missing::Base => {
                "not `d(%B,%N)` right after `mov %gs:__sfi_header,%B ; mov %r32,%N`, with d from 0 to 0x7fff"
            }
            Missing::Pointers => {
                "`mov %edi,%edi` and `add %gs:__sfi_header,%rdi` (in mode full for %rsi too) are not right before it"
            }
        }
    }
}

impl Tracker {
    /// Moves past an instruction that is no part of any region.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.state = State::None;
    }

    /// Says whether the last instruction wrote the window's base to a register.
    #[inline]
    pub(crate) fn has_base(&self) -> bool {
        matches!(self.state, State::Base(_))
    }

    /// Moves past one instruction at `at`. `named` are the general registers that it names, and
    /// `written` those that it writes. A load from `d(%B,%N)` has B and N there. Returns the start
    /// of the region that it completes.
    pub(crate) fn step(&mut self, at: u64, step: Step, [named, written]: [u16; 2]) -> Result<Option<u64>, Missing> {
        let before = std::mem::take(&mut self.state);
        self.state = match (step, before) {
            (Step::Base, _) => State::Base(written),
            (Step::Narrow | Step::TruncateDi | Step::TruncateSi, State::Base(base)) => State::Number(base, written),
            (Step::Based, State::Number(base, number)) if base != number && [named, written] == [base, number] => {
                return Ok(Some(self.start));
            }
            (Step::Based | Step::Far, _) => return Err(Missing::Base),
            (Step::Mask, _) => State::Masked(named),
            (Step::TruncateDi, State::Si) => State::SiDiTruncated,
            (Step::TruncateDi, _) => State::DiTruncated,
            (Step::TruncateSi, _) => State::SiTruncated,
            (Step::Rebase, State::DiTruncated) if named == RDI => State::Di,
            (Step::Rebase, State::SiDiTruncated) if named == RDI => State::SiDi,
            (Step::Rebase, State::SiTruncated) if named == RSI => State::Si,
            (Step::Rebase | Step::RebaseOnly | Step::Narrow | Step::Other, _) => State::None,
            (Step::RelativeLoad | Step::RelativeStore, _) => State::None,
            (Step::Through, State::Masked(masked)) if named == masked => return Ok(Some(self.start)),
            (Step::StringDi, State::Di | State::SiDi) => return Ok(Some(self.start)),
            (Step::StringSi, State::Si) => return Ok(Some(self.start)),
            (Step::StringDiSi, State::SiDi) => return Ok(Some(self.start)),
            (Step::Through | Step::Astray, _) => return Err(Missing::Mask),
            (Step::StringDi | Step::StringSi | Step::StringDiSi, _) => return Err(Missing::Pointers),
        };
        if matches!(self.state, State::Masked(_) | State::DiTruncated | State::SiTruncated | State::Base(_)) {
            self.start = at;
        }
        Ok(None)
    }
}
