//! Based loads (mode full): `d(%B,%N)`, where the register B has the window's base, and N a number
//! of 32 bits.

use crate::layout::GUARD_SIZE;

/// The largest displacement.
pub const FARTHEST: u64 = 0x7fff;

/// The operand ends in the guard behind the window at most. None on the list is wider than 128
/// bytes.
const _: () = assert!(FARTHEST + 128 <= GUARD_SIZE);
