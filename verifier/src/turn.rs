//! Instructions that change what a function has saved on the control stack, or where control goes
//! on behind them (rule `SFI-C03`).

use crate::facts::Facts;
use sfi_contract::policy::Class;
use sfi_contract::saves::MOST;

/// An instruction behind which the depth may be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Push,
    Pop,
    /// A return, a jump through the dispatch table or one with a relocation. Control does not go on
    /// behind it.
    Leave,
    /// A conditional jump with a relocation.
    Branch,
    /// A jump without one, or a trap. Control does not go on behind it.
    End,
}

/// The opcodes of direct calls and jumps.
pub(crate) const CALL: u8 = 0xe8;
const JUMPS: [u8; 2] = [0xe9, 0xeb];

impl Turn {
    /// Returns the turn of an instruction, which the bytes begin with.
    #[inline]
    pub(crate) fn of(facts: &Facts, bytes: &[u8], relocated: bool) -> Option<Turn> {
        match facts.class {
            // 50 to 57 is `push`, 58 to 5f is `pop`. The opcode is the last byte.
            Class::Save if bytes.get(facts.shape.length() - 1)? & 8 == 0 => Some(Turn::Push),
            Class::Save => Some(Turn::Pop),
            Class::Return => Some(Turn::Leave),
            Class::Trap => Some(Turn::End),
            // ff /4 is `jmp`, ff /2 is `call`. Of the bytes before the opcode none is ff.
            Class::IndirectBranch => {
                let opcode = bytes.iter().position(|byte| *byte == 0xff)?;
                (bytes.get(opcode + 1)? >> 3 & 7 == 4).then_some(Turn::Leave)
            }
            Class::Branch => match (JUMPS.contains(bytes.first()?), relocated) {
                (true, true) => Some(Turn::Leave),
                (true, false) => Some(Turn::End),
                (false, true) if *bytes.first()? != CALL => Some(Turn::Branch),
                (false, _) => None,
            },
            _ => None,
        }
    }

    /// Returns the depth behind the turn, if control goes on there.
    pub(crate) fn behind(self, depth: u8) -> Option<u8> {
        match self {
            Turn::Push => Some(depth.saturating_add(1)),
            Turn::Pop => Some(depth.saturating_sub(1)),
            Turn::Branch => Some(depth),
            Turn::Leave | Turn::End => None,
        }
    }

    /// Returns the reason why the turn is not allowed at a depth.
    pub(crate) fn refusal(self, depth: u8) -> Option<&'static str> {
        match self {
            Turn::Push if depth >= MOST => Some("more words are saved than there are registers"),
            Turn::Pop if depth == 0 => Some("the function has saved nothing that it could pop"),
            Turn::Leave | Turn::Branch if depth != 0 => Some("saved words lie above the return address"),
            _ => None,
        }
    }
}
