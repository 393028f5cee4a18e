//! Phase 7f: the switches that jump by an array of dispatch slots.
//!
//! If the slots of a table's targets lie in a row, the index of a switch (see
//! [`crate::analysis::switches`]) alone gives the slot, and one load is left:
//!
//! ```text
//! lea ARRAY(,%i,8),%t32 ; and $0xffff8,%t32 ; jmp *%gs:__sfi_dispatch(%t32)
//! ```
//!
//! So `%t` holds the slot from the load on.

use crate::analysis::switches::Line;
use crate::object::address::{Addresses, Table};
use crate::object::decode::{Code, InsnIndex};
use foldhash::{HashMap, HashSet};
use object::elf;

/// Most slots of one array, unless at least half of its slots differ.
const SPARSE: usize = 256;
/// Most slots of an object's arrays. A domain has 131,072 slots.
const MOST: usize = 8192;

/// The arrays of an object, one after the other in one section.
#[derive(Default)]
pub(crate) struct Arrays {
    /// The offset of the array that replaces the table of a load.
    loads: HashMap<InsnIndex, i64>,
    /// The sums that are left out, and the jumps.
    parts: HashSet<InsnIndex>,
    /// The instructions that make the address of a table that nobody reads any more.
    idle: HashSet<InsnIndex>,
    /// The targets of all slots.
    pub words: Vec<InsnIndex>,
}

impl Arrays {
    /// Gives the tables of some switches arrays.
    pub(crate) fn find<'l>(
        code: &Code<'_, '_>,
        addresses: &Addresses,
        lines: impl Iterator<Item = &'l Line>,
    ) -> Arrays {
        let mut arrays = Arrays::default();
        let mut offsets = HashMap::<usize, i64>::default();
        for &Line { switch, jump, idle } in lines {
            // A group that is left out would take the targets with it.
            let section = &code.object.sections[code.insns[jump].section as usize];
            if section.flags & elf::SHF_GROUP.0 != 0 {
                continue;
            }
            let table = &addresses.tables[switch.table];
            let offset = match offsets.get(&switch.table) {
                Some(offset) => *offset,
                None if !fits(table, arrays.words.len()) => continue,
                None => {
                    let offset = 8 * arrays.words.len() as i64;
                    arrays.words.extend(&table.targets);
                    offsets.insert(switch.table, offset);
                    offset
                }
            };
            arrays.loads.insert(switch.load, offset);
            arrays.parts.extend([switch.sum, jump]);
            arrays.idle.extend(idle);
        }
        arrays
    }

    /// Says whether the object has no array.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the offset of the array whose slot replaces the entry that an instruction loads.
    pub(crate) fn load(&self, at: InsnIndex) -> Option<i64> {
        self.loads.get(&at).copied()
    }

    /// Says whether an instruction makes the address of a table that nobody reads.
    pub(crate) fn is_idle(&self, at: InsnIndex) -> bool {
        self.idle.contains(&at)
    }

    /// Says whether an instruction adds the base to an entry that a slot replaced, or jumps there.
    pub(crate) fn is_part(&self, at: InsnIndex) -> bool {
        self.parts.contains(&at)
    }
}

/// Says whether a table may have an array, after `used` slots of others.
fn fits(table: &Table, used: usize) -> bool {
    let length = table.targets.len();
    let distinct = || table.targets.iter().collect::<HashSet<_>>().len();
    table.dense && used + length <= MOST && (length <= SPARSE || length <= 2 * distinct())
}
