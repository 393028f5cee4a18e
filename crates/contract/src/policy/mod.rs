//! The positive list: every instruction form that may appear in a domain's text, with its effects.
//!
//! The list is data by iced-x86 [`Code`], one entry for each encoding. It is closed: a form that is
//! not listed is refused, also when a later iced version decodes it. The list also gives the
//! effects of a form: its memory operand and the use of it, the prefixes that it needs, the general
//! registers that it writes. The test `policy_table` compares every entry with iced's own
//! instruction information and encoder. It also compares the list with the selection by CPUID
//! feature from which it was made.
//!
//! Sources: Intel SDM volume 2 (instruction reference), AMD APM volumes 3 to 5. Forms that the two
//! describe differently are left out (66 on branches, `movsxd` and `bswap` with a 16-bit operand,
//! ud0, ud1).
//!
//! These are left out although a compiler could emit them:
//! - anything that names or moves rsp, but for `push` and `pop` of another register: `enter`,
//!   `leave`, `ret imm16`, `pushf`, other forms of `push` and `pop` (the control stack);
//! - `std`, `popf`: the direction flag is always 0, the string regions depend on it;
//! - segment registers and bases, `rdpid`, `rdtscp`, `rdpmc`, `rdpkru`, `sgdt`, `sidt`, `sldt`,
//!   `str`, `smsw`, `lar`, `lsl`, `verr`, `xgetbv` (with 1 in ecx it tells which registers the host
//!   has used): state of the host;
//! - `syscall`, `sysenter`, `int n`, port I/O, privileged instructions, far branches, TSX, SGX, CET
//!   state, protection keys, key locker, user interrupts, `monitor`, `waitpkg`: control or machine
//!   state;
//! - `maskmovq`, `maskmovdqu`, scatters, `movdir64b`, `enqcmd`, AMX, `xsave`, `fxsave`, moffs:
//!   memory operands that move on their own, are implicit, or are not ModRM operands;
//! - prefetches, `cldemote`: they reach any address, never fault, and take longer where nothing is
//!   mapped;
//! - `clflush*`, `clwb`: cache control over memory of others;
//! - AMD-only but for FMA4 (3DNow!, XOP, TBM, SSE4A, LWP), VIA, Knights-only AVX-512 (ER, PF,
//!   4FMAPS, 4VNNIW), MPX: not emitted for x86-64-v4, some write implicit memory;
//! - undocumented aliases of documented encodings (`sal /6`, `test /1`, x87 `DC D0` and the like).

mod avx;
mod avx512;
mod branch;
mod float;
mod form;
mod integer;
pub mod refusal;
mod register;
mod sse;

use form::{Group, forms};
use iced_x86::Code;

pub use form::{Class, Form, Memory, prefix};
pub use register::general;

/// Upper bound of the codes' numbers. Codes above it are not listed.
const CODES: usize = 8192;

static TABLE: [Option<Form>; CODES] = build();

const PARTS: [&[Group]; 6] = [branch::GROUPS, integer::GROUPS, float::GROUPS, sse::GROUPS, avx::GROUPS, avx512::GROUPS];

/// Spreads the groups over a table by code. It fails to compile if a code is listed twice or out of
/// range.
const fn build() -> [Option<Form>; CODES] {
    let mut table = [None; CODES];
    let mut part = 0;
    while part < PARTS.len() {
        let mut group = 0;
        while group < PARTS[part].len() {
            let (form, codes) = PARTS[part][group];
            let mut i = 0;
            while i < codes.len() {
                let code = codes[i] as usize;
                assert!(table[code].is_none());
                table[code] = Some(form);
                i += 1;
            }
            group += 1;
        }
        part += 1;
    }
    table
}

/// Returns the entry of a form, `None` if it is not allowed.
#[inline]
pub fn lookup(code: Code) -> Option<&'static Form> {
    TABLE.get(code as usize).and_then(Option::as_ref)
}

/// Returns all allowed forms.
pub fn allowed() -> impl Iterator<Item = (Code, &'static Form)> {
    Code::values().filter_map(|code| Some((code, lookup(code)?)))
}
