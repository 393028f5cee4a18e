//! Which symbols define a name for others: for the gate, which judges imports, and for the loader,
//! which links.

use sfi_elf::number::{SHF_ALLOC, SHT_NOTE, SHT_PROGBITS, STB_GLOBAL, STB_LOCAL, STB_WEAK};
use sfi_elf::resolve::{Strength, live_sections, strength};
use sfi_elf::{Group, Object, Place, Section, Symbol};

fn symbol(name: &'static str, binding: u8, place: Place) -> Symbol<'static> {
    Symbol { name, value: 0, size: 0, binding, kind: 0, visibility: 0, other: 0, place }
}

fn section(name: &'static str, kind: u32, allocated: bool) -> Section<'static> {
    let flags = if allocated { SHF_ALLOC.into() } else { 0 };
    Section { name, kind, flags, ..Section::default() }
}

/// Returns an object with memory, a note, an unwind table, debug information, and a section of the
/// group `signature`, in this order.
fn object(signature: &'static str) -> Object<'static> {
    let sections = vec![
        Section::default(),
        section(".text", SHT_PROGBITS, true),
        section(".note.x", SHT_NOTE, true),
        section(".eh_frame", SHT_PROGBITS, true),
        section(".debug_x", SHT_PROGBITS, false),
        section(".text.g", SHT_PROGBITS, true),
    ];
    let symbols = vec![symbol("", STB_LOCAL, Place::Undefined), symbol(signature, STB_GLOBAL, Place::Section(5))];
    Object { sections, symbols, groups: vec![Group { signature: 1, comdat: true, members: vec![5] }] }
}

#[test]
fn only_memory_defines_names() {
    let live = live_sections([&object("g")]).concat();
    for (section, defines) in [(1, true), (2, false), (3, false), (4, false), (5, true), (0, false), (6, false)] {
        let found = strength(&symbol("f", STB_GLOBAL, Place::Section(section)), &live);
        assert_eq!(found, defines.then_some(Strength::Strong), "section {section}");
        assert_eq!(strength(&symbol("f", STB_LOCAL, Place::Section(section)), &live), None, "section {section}");
        let weak = strength(&symbol("f", STB_WEAK, Place::Section(section)), &live);
        assert_eq!(weak, defines.then_some(Strength::Weak), "section {section}");
    }
    let global = |place| strength(&symbol("f", STB_GLOBAL, place), &live);
    assert_eq!((global(Place::Common), global(Place::Absolute)), (Some(Strength::Common), Some(Strength::Strong)));
    assert_eq!((global(Place::Undefined), global(Place::Reserved(7))), (None, None));
    assert_eq!(strength(&symbol("", STB_GLOBAL, Place::Section(1)), &live), None);
}

/// Of the groups with one signature the first is kept, also within one object.
#[test]
fn a_group_that_is_dropped_defines_nothing() {
    let (first, second, other) = (object("g"), object("g"), object("h"));
    let live = live_sections([&first, &second, &other]);
    assert_eq!(live.iter().map(|live| live[5]).collect::<Vec<_>>(), [true, false, true]);
    assert!(live.iter().all(|live| live[1]));
    assert_eq!(strength(&second.symbols[1], &live[1]), None);
    assert_eq!(strength(&other.symbols[1], &live[2]), Some(Strength::Strong));
    let mut twice = object("g");
    twice.groups.push(Group { signature: 1, comdat: true, members: vec![1] });
    let live = live_sections([&twice]).concat();
    assert_eq!((live[5], live[1]), (true, false));
    // Members that do not exist hurt nobody, and groups that are no COMDAT groups are kept.
    let mut wild = object("g");
    wild.groups[0].members = vec![usize::MAX, 6];
    wild.groups[0].signature = usize::MAX;
    let mut plain = object("g");
    plain.groups[0].comdat = false;
    assert!(live_sections([&first, &wild, &plain]).iter().all(|live| live[5]));
}
