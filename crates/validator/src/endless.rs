//! Calls that do not return.
//!
//! The name of a function says that it never returns only if the object does not define it.

use crate::code::{Dest, Flow, Index, Old};
use sfi_contract::names;
use sfi_elf::Place;

/// Says whether a call is of a function of another object that never returns.
pub(crate) fn calls(old: &Old<'_, '_>, call: Index) -> bool {
    let Flow::Call(Dest::Symbol(symbol)) = old.flow[call] else { return false };
    let symbol = &old.pair.old.symbols[symbol];
    symbol.place == Place::Undefined && names::never_returns(symbol.name)
}
