//! The names that objects define for each other. The gate and the loader share this answer.

use crate::{Object, Place, Symbol};
use goblin::elf::{section_header as sh, sym};
use std::collections::HashSet;

/// The strength of a definition against another one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// `STB_WEAK`: yields to another definition.
    Weak,
    /// A common block. The linker merges blocks with one name.
    Common,
    /// An ordinary definition. Two with one name are an error.
    Strong,
}

impl Symbol<'_> {
    /// Says whether other objects see the symbol.
    pub fn is_global(&self) -> bool {
        self.binding != sym::STB_LOCAL && !self.name.is_empty()
    }

    /// Says whether the symbol may stay undefined.
    pub fn is_weak(&self) -> bool {
        self.binding == sym::STB_WEAK
    }

    /// Says whether the object needs the name from others.
    pub fn is_wanted(&self) -> bool {
        self.is_global() && self.place == Place::Undefined
    }

    /// Says whether the object claims the name, even if the linked domain drops its definition.
    pub fn is_claimed(&self) -> bool {
        self.is_global() && self.place != Place::Undefined
    }
}

/// Returns which sections of the objects become memory, by object and section. Of the COMDAT groups
/// with one signature it keeps the first.
pub fn live_sections<'a, 'o: 'a>(objects: impl IntoIterator<Item = &'a Object<'o>>) -> Vec<Vec<bool>> {
    let mut groups: HashSet<&str> = HashSet::new();
    objects.into_iter().map(|object| live_in(object, &mut groups)).collect()
}

fn live_in<'o>(object: &Object<'o>, groups: &mut HashSet<&'o str>) -> Vec<bool> {
    let is_table = |kind| matches!(kind, sh::SHT_NOTE | sh::SHT_GROUP | sh::SHT_X86_64_UNWIND);
    let memory = object.sections.iter().map(|s| s.is_allocated() && !is_table(s.kind) && s.name != ".eh_frame");
    let mut live: Vec<bool> = memory.collect();
    for group in object.groups.iter().filter(|g| g.comdat) {
        let Some(signature) = object.symbols.get(group.signature) else { continue };
        // If a section symbol is the signature, the section's name is the group's.
        let name = match signature.place {
            Place::Section(s) if signature.name.is_empty() => object.sections[s].name,
            _ => signature.name,
        };
        if !groups.insert(name) {
            group.members.iter().for_each(|member| {
                if let Some(slot) = live.get_mut(*member) {
                    *slot = false;
                }
            });
        }
    }
    live
}

/// Returns how strongly a global symbol defines its name for others, `None` if it does not. A
/// symbol of a section that is not memory defines nothing. Such sections are notes, unwind tables,
/// debug information, and COMDAT sections that were dropped.
pub fn strength(symbol: &Symbol<'_>, live: &[bool]) -> Option<Strength> {
    match symbol.place {
        _ if !symbol.is_global() => None,
        Place::Undefined | Place::Reserved(_) => None,
        Place::Section(section) if !live.get(section).is_some_and(|live| *live) => None,
        Place::Common => Some(Strength::Common),
        Place::Section(_) | Place::Absolute if symbol.is_weak() => Some(Strength::Weak),
        Place::Section(_) | Place::Absolute => Some(Strength::Strong),
    }
}
