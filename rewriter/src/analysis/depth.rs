//! Distances of the stack pointers from the function's entry.

use crate::analysis::interned::Interned;

/// Distance in bytes below the entry's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Height {
    /// Nothing leads here.
    Unseen,
    Known(i64),
    /// The stack pointer was computed.
    Computed,
    /// Paths disagree.
    Mixed,
}

impl Height {
    pub(crate) fn add(self, bytes: i64) -> Height {
        match self {
            Height::Known(h) => Height::Known(h.wrapping_add(bytes)),
            other => other,
        }
    }

    pub(crate) fn join(self, other: Height) -> Height {
        match (self, other) {
            (Height::Unseen, x) | (x, Height::Unseen) => x,
            (a, b) if a == b => a,
            (Height::Mixed, _) | (_, Height::Mixed) | (Height::Known(_), Height::Known(_)) => Height::Mixed,
            _ => Height::Computed,
        }
    }
}

/// The state before each instruction.
pub(crate) type States = Interned<State>;

/// Heights of rsp and rbp before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub rsp: Height,
    pub rbp: Height,
}

impl State {
    /// Keeps the heights that both paths agree on.
    pub(crate) fn join(self, other: State) -> State {
        State { rsp: self.rsp.join(other.rsp), rbp: self.rbp.join(other.rbp) }
    }
}
