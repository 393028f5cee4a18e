//! The state that a crossing between two domains saves, clears and restores. It follows from the
//! trust level and from the verifier's facts about the final text of both sides, never from an
//! object's own word. No decision here concerns memory. With any choice stores stay in the window,
//! the control stack stays out of reach, and the frames of the host and of other domains stay
//! whole.
//!
//! # Who trusts whom (Yarvin et al. section 3.2)
//!
//! | level | client of server | server of client | on the way in | on the way out |
//! | --- | --- | --- | --- | --- |
//! | [`Trust::MutualDistrust`] | no | no | save, clear | clear, restore |
//! | [`Trust::TrustedServer`] | yes | no | save for failures; stack arguments are read where they are | clear |
//! | [`Trust::TrustedBoth`] | yes | yes | save for failures; stack arguments are read where they are | |
//!
//! A trusted party may be buggy, but is not malicious: as long as it does not fail, it preserves
//! the registers that the ABI names.
//!
//! # Third parties
//!
//! Registers come in groups: the preserved ones (rbx, rbp, r12-r14), zmm0-15, zmm16-31 with the
//! masks, x87, MXCSR. If a domain's text names nothing of a group, the domain can neither see nor
//! change it. So a crossing into the domain leaves the group as it is. While the domain runs the
//! group belongs to others: to its callers, or to a domain that it called. The domain cannot decide
//! to trust somebody with their values. Hence one rule for all levels, which needs only the two
//! sides of a binding:
//!
//! - A group that the entered side names is cleared, unless the level lets it pass *and* the other
//!   side names it too.
//! - Preserved registers that the callee's text can change and the caller's does not name are
//!   restored at every level. They are the values of the caller's callers, who did not choose that
//!   level.
//!
//! A domain that names no vector register may still hand floats on
//! (`double f(double x) { return g(x); }`). So a domain with a binding that passes floats counts as
//! naming them: they are cleared around it as around a domain that computes with them.
//!
//! # The GS base
//!
//! While text runs that uses GS, the GS base is that of its window, at every level. A text without
//! GS ([`Usage::gs`]) has no instruction with the override and no branch to a stub. So it calls
//! nobody, and it can neither see the GS base nor change it. A crossing that enters such a text
//! leaves the caller's base where it is, and at the return it is still there. The caller came from
//! a stub, and was entered with the base set, so its own text does not matter. All other crossings
//! set the base on both ways: those to a stub that is entered as a function (an IFUNC, a gateway)
//! and to a library too. So does the way out of a call that failed.
//!
//! A domain counts as a whole, with its libraries and with those that it may get. When another one
//! takes its place its bindings are written anew. Even then the two ways of a call agree, because
//! they lie in one gate.
//!
//! A value that passes between trusting parties may pass on: the levels are as transitive as the
//! trust.
//!
//! # Failing exits
//!
//! A call that does not return trusts nobody. A party that faulted, overstayed its time or was
//! interrupted by the host has not cleaned up, at any level, and may have died at a place that a
//! third party chose. So there the rule has no exception, and a frame has two words of flags:
//! [`Binding::flags`] for the way in and for a return, [`Binding::failing`] for every other way
//! out.
//!
//! - Groups that a caller preserves over calls (rbx, rbp, r12-r15, the control words of x87 and
//!   SSE) come back as they were at the call. A crossing whose callee can change them saves them at
//!   every level.
//! - The other registers hold nothing: the result is the import's `on_fault`, all others are zero,
//!   and the x87 stack is empty.
//!
//! This holds frame by frame. If a domain died while its callee ran, the callee's return is
//! abandoned, and the frame that entered the dead domain fails. The abandoned frame is left like
//! any other first. Its callee may have named groups that neither the dead domain nor its caller
//! name. The next frame then has no flag for them, although a domain further out names them. By
//! induction from the innermost frame out, each frame that is left for any reason leaves the groups
//! that its own sides do not name as its caller had them, and treats the groups that they name as
//! above. A host function's frame is no exception: the host names every group, so the flags depend
//! on its caller and on the world only.

use crate::gate::records::{Binding, flag};
use crate::gate::{Table, floats, vectors};
use crate::spec::Trust;
use crate::spec::signature::{Outcome, Signature};
use sfi_contract::Mode;
use sfi_verifier::{Usage, Vectors};
use std::fmt;

/// The treatment of rbx, rbp and r12-r14. r15 is always saved and restored. The order is that of
/// [`Table::gates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preserved {
    /// They pass unchanged.
    Left,
    /// They are saved, and put back if the callee fails.
    Saved,
    /// They are saved, cleared and restored.
    Restored,
    /// As [`Preserved::Restored`], but r14 is what is left of a side's budget of instructions. That
    /// holds at every level: the host set the budget, and neither side can trust it away.
    Budgeted,
}

/// One side of a crossing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// The use of its final text.
    pub usage: Usage,
    /// Its mode.
    pub mode: Mode,
    /// True if its image names [`sfi_contract::names::CLIENT_STACK`].
    pub reads_client_stack: bool,
    /// See [`crate::world::domain::Domain::passes_floats`].
    pub passes_floats: bool,
    /// It has a budget of instructions.
    pub budgeted: bool,
}

impl Side {
    /// Returns all that the crossings of this side depend on.
    pub(crate) fn facts(&self) -> [bool; 8] {
        let Self { usage, .. } = self;
        [
            names_preserved(*usage),
            usage.gprs_written & GATE_PRESERVED != 0,
            self.has_vectors(),
            names_zmm(*usage),
            usage.x87,
            usage.x87_places,
            usage.mxcsr,
            usage.gs,
        ]
    }

    /// Says whether it names vector registers, or hands them on.
    pub(crate) fn has_vectors(&self) -> bool {
        self.usage.vectors > Vectors::None || self.passes_floats
    }
}

/// The decisions about one crossing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The preserved registers.
    pub preserved: Preserved,
    /// Indices in [`Table::arguments`].
    pub arguments: (usize, usize),
    /// The result that passes. `None`: rax, rdx, xmm0, xmm1.
    pub outcome: Option<Outcome>,
    /// Index in [`crate::gate::Results`].
    pub results: usize,
    /// Saves the control words of x87 and SSE at entry, for failures.
    pub control: bool,
    /// Sets the GS base to the server's at entry, and back to the client's at the return.
    pub base: bool,
    /// Flags of [`flag`] for [`Binding::flags`].
    pub flags: u32,
    /// Flags of [`flag`] for [`Binding::failing`].
    pub failing: u32,
    /// Words of stack arguments.
    pub stack_words: u32,
    /// Integer arguments that are pointers.
    pub pointers: u32,
}

/// The description of one binding, for people.
#[derive(Clone, Debug)]
pub struct BindingReport {
    /// The domain that calls.
    pub client: String,
    /// The symbol that it calls; `None` for a gateway that is bound at run time.
    pub symbol: Option<String>,
    /// The domain that is called. `None` for the host or nobody.
    pub server: Option<String>,
    /// The function there.
    pub entry: String,
    /// The trust level, between domains.
    pub trust: Option<Trust>,
    /// The declared signature, if any.
    pub signature: Option<Signature>,
    /// The state that the crossing saves, clears, copies and restores. `None` if it leads nowhere.
    pub work: Option<String>,
}

impl fmt::Display for BindingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symbol = self.symbol.as_deref().unwrap_or("(at run time)");
        let Some(work) = &self.work else {
            return write!(f, "{} `{symbol}` -> nobody `{}`", self.client, self.entry);
        };
        let server = self.server.as_deref().unwrap_or("(host)");
        write!(f, "{} `{symbol}` -> {server} `{}`", self.client, self.entry)?;
        if let Some(trust) = self.trust {
            write!(f, ", {trust}")?;
        }
        match &self.signature {
            Some(signature) => write!(f, ", {signature}")?,
            None => f.write_str(", no signature: argument and result registers pass as they are")?,
        }
        write!(f, "\n  {work}")
    }
}

/// Describes the work of a call to a host function, from the flags of its binding.
pub(crate) fn explain_host(flags: u32) -> String {
    let has = |bit: u32| flags & bit != 0;
    let mut text = "preserved registers left to the host; cleared out: integer registers".to_owned();
    for (bit, what) in [
        (flag::VECTORS, ", zmm0-15"),
        (flag::ZMM_OUT, ", zmm16-31 and k0-7"),
        (flag::X87, ", x87"),
        (flag::MXCSR, "; MXCSR saved, set, restored"),
        (flag::FLOATS, "; floats handed over"),
    ] {
        if has(bit) {
            text += what;
        }
    }
    text
}

fn names_zmm(usage: Usage) -> bool {
    usage.vectors >= Vectors::Zmm
}

/// Bits of rbx, rbp, r12, r13, r14.
const GATE_PRESERVED: u16 = Usage::PRESERVED & !(1 << 15);

fn names_preserved(usage: Usage) -> bool {
    usage.preserved_named & GATE_PRESERVED != 0
}

impl Crossing {
    /// Decides about a crossing.
    pub(crate) fn new(trust: Trust, from: &Side, to: &Side, signature: Option<&Signature>) -> Self {
        let (client, server) = (from.usage, to.usage);
        let hides_client = trust == Trust::MutualDistrust;
        let hides_server = trust != Trust::TrustedBoth;
        let registers = signature.map(Signature::registers);
        let preserved = if from.budgeted || to.budgeted {
            Preserved::Budgeted
        } else if names_preserved(server) && (hides_client || !names_preserved(client)) {
            Preserved::Restored
        } else if !hides_client && server.gprs_written & GATE_PRESERVED != 0 {
            Preserved::Saved
        } else {
            Preserved::Left
        };
        // The integer argument registers always hold values that the caller may show, because no
        // crossing leaves a third party's values in them.
        let ints = registers.filter(|_| hides_client).map_or(6, |r| r.ints);
        let vectors_in = if !to.has_vectors() {
            floats::LEAVE
        } else if !from.has_vectors() {
            0
        } else if hides_client {
            registers.map_or(floats::ANY, |r| r.floats)
        } else {
            floats::LEAVE
        };
        let results = match (from.has_vectors(), to.has_vectors()) {
            (false, _) => vectors::LEAVE,
            (true, false) => vectors::ALL,
            (true, true) => {
                if hides_server {
                    vectors::KEEP
                } else {
                    vectors::LEAVE
                }
            }
        };
        // MXCSR counts as named by all domains, because a domain depends on its control bits. So it
        // may stay only if both sides name it.
        let state = |client: bool, server: bool| if hides_server { client || server } else { client != server };
        let stack_words = registers.map_or(0, |r| r.stack_words);
        let client_stack = !hides_client && to.reads_client_stack && to.mode != Mode::Full;
        let pointers = registers.map_or(0, |r| r.pointers);
        let flags = [
            (flag::PRESERVED, matches!(preserved, Preserved::Restored | Preserved::Budgeted)),
            (flag::CALLER_PAYS, from.budgeted),
            (flag::CALLEE_PAYS, to.budgeted),
            (flag::STACK, stack_words > 0),
            (flag::CLIENT_STACK, client_stack),
            (flag::POINTERS, pointers != 0),
            (flag::POINTER_RESULT, signature.is_some_and(|s| s.outcome == Outcome::Pointer)),
            // x87 does not. State that passes through a side without x87 is reset before another
            // domain sees it.
            (flag::X87, if hides_server { client.x87 || server.x87 } else { server.x87 && !client.x87 }),
            (flag::MXCSR, state(client.mxcsr, server.mxcsr)),
            (flag::ZMM_IN, names_zmm(server) && (hides_client || !names_zmm(client))),
            (flag::ZMM_OUT, names_zmm(client) && (hides_server || !names_zmm(server))),
        ];
        let bits = |of: &[(u32, bool)]| of.iter().filter(|(_, on)| *on).fold(0, |all, (bit, _)| all | bit);
        let flags = bits(&flags);
        let failing = flags
            | bits(&[
                (flag::PRESERVED, preserved != Preserved::Left),
                (flag::X87, server.x87),
                (flag::MXCSR, server.mxcsr),
                (flag::ZMM_OUT, names_zmm(client)),
            ]);
        Self {
            preserved,
            control: (failing & !flags) & (flag::X87 | flag::MXCSR) != 0,
            base: server.gs,
            arguments: (ints, vectors_in),
            outcome: signature.filter(|_| hides_server).map(|s| s.outcome),
            results,
            flags,
            failing,
            stack_words,
            pointers,
        }
    }

    /// Writes the decisions into a binding.
    pub(crate) fn apply(&self, binding: &mut Binding, table: &Table) {
        binding.gate = table.gates[self.preserved as usize][usize::from(self.control)][usize::from(self.base)];
        binding.arguments = table.arguments[self.arguments.0][self.arguments.1];
        binding.results = match self.outcome {
            None => table.results_any,
            Some(Outcome::Void) => table.results_void,
            Some(Outcome::Int | Outcome::Pointer) => table.results_int,
            Some(Outcome::Float) => table.results_float,
        }[self.results];
        binding.failed = table.failed;
        binding.flags = self.flags;
        binding.failing = self.failing;
        binding.stack_words = self.stack_words;
        binding.pointers = self.pointers;
    }
}

/// Prints the crossing for `sfi run --explain-bindings`.
impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |bit: u32| self.flags & bit != 0;
        let mut cleared_in = vec!["unused integer registers"];
        if self.arguments.0 == 6 {
            cleared_in.clear();
        }
        f.write_str(match self.preserved {
            Preserved::Left => "preserved registers left alone",
            Preserved::Saved => "preserved registers saved for failures",
            Preserved::Restored => "preserved registers saved, cleared, restored",
            Preserved::Budgeted => "preserved registers saved, cleared, restored; r14 holds a budget",
        })?;
        if self.control {
            f.write_str("; control words saved for failures")?;
        }
        if !self.base {
            f.write_str("; GS base left alone")?;
        }
        if self.arguments.1 != floats::LEAVE {
            cleared_in.push("zmm0-15");
        }
        let mut cleared_out = vec!["integer registers"];
        if self.results != vectors::LEAVE {
            cleared_out.push("zmm0-15");
        }
        for (list, bit, name) in [(0, flag::ZMM_IN, "zmm16-31 and k0-7"), (1, flag::ZMM_OUT, "zmm16-31 and k0-7")] {
            if has(bit) {
                if list == 0 { cleared_in.push(name) } else { cleared_out.push(name) }
            }
        }
        if has(flag::X87) {
            cleared_in.push("x87");
            cleared_out.push("x87");
        }
        if cleared_in.is_empty() {
            cleared_in.push("nothing");
        }
        write!(f, "; cleared in: {}; cleared out: {}", cleared_in.join(", "), cleared_out.join(", "))?;
        if has(flag::MXCSR) {
            f.write_str("; MXCSR saved, set, restored")?;
        }
        if has(flag::STACK) {
            let how = if has(flag::CLIENT_STACK) { "read on the client's stack" } else { "copied" };
            write!(f, "; {} stack words {how}", self.stack_words)?;
        }
        if has(flag::POINTERS | flag::POINTER_RESULT) {
            f.write_str("; pointers rebased")?;
        }
        Ok(())
    }
}
