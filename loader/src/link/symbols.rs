//! Symbol resolution over a domain's objects (gABI chapter *Symbol Table*): strong, weak, common,
//! COMDAT.

use crate::gate::stubs;
use crate::link::error::{LinkError, Mention};
use crate::link::select::Input;
use crate::spec::DomainSpec;
use crate::spec::library;
use crate::vm::address::WindowOffset;
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt, HashSet};
use indexmap::IndexMap;
use indexmap::map::Entry;
use sfi_contract::layout::{self, DISPATCH_SLOTS};
use sfi_contract::{Anchor, Anchored, names};
use sfi_verifier::elf::number::{STT_FUNC, STT_GNU_IFUNC};
use sfi_verifier::elf::resolve::{self, Strength};
use sfi_verifier::elf::{Place, Section, Symbol};
use std::hash::Hash;

/// The meaning of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A place in a section that is linked.
    Section {
        /// Index of the object.
        input: usize,
        /// Index of the section.
        section: usize,
        /// Offset in the section.
        offset: u64,
    },
    /// A section that is not part of the domain's memory: discarded, a note, unwind tables, debug
    /// information.
    Unloaded,
    /// A number.
    Absolute(u64),
    /// A common block, by index.
    Common(usize),
    /// A gateway stub, by index of the import.
    Import(usize),
    /// A fixed stub, by its offset: that of `__sfi_syscall`, or one of the control stack's.
    Stub(u64),
    /// The function that an IFUNC's resolver chooses, by index in [`Symbols::indirects`].
    Choice(usize),
    /// A place that code names by its offset in the window.
    Anchored(Anchored),
    /// The GOT.
    Got,
    /// Start or end of the sections with a name, by index in [`Symbols::bounds`].
    Bound {
        /// Index of the name.
        name: usize,
        /// Says whether it is the end: the byte after the sections.
        end: bool,
    },
    /// A shared region's start or end, by index in the specification.
    Region {
        /// Index.
        share: usize,
        /// Says whether it is the end: the byte after the region.
        end: bool,
    },
    /// A place of the domain that the code is linked into, outside of its own objects.
    Outside {
        /// The place.
        offset: WindowOffset,
        /// Says whether it is a function.
        code: bool,
    },
    /// A weak symbol without a definition: 0.
    Nothing,
    /// An undefined symbol. It is an error if a relocation needs it.
    Undefined,
}

/// A common block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// The resolved symbols of a domain.
pub(crate) struct Symbols<'a> {
    /// Targets, by object and symbol index.
    pub targets: Vec<Vec<Target>>,
    /// Says whether a section becomes memory, by object and section index.
    pub live: Vec<Vec<bool>>,
    /// Common blocks.
    pub commons: Vec<Common>,
    /// Global definitions by name.
    pub globals: IndexMap<&'a str, Definition, RandomState>,
    /// Definitions that imports replaced and the host keeps.
    pub wrapped: Vec<(&'a str, Target)>,
    /// Names of sections whose bounds symbols name.
    pub bounds: Vec<String>,
    /// Resolvers of IFUNCs.
    pub indirects: Vec<Resolver>,
}

/// The place of an IFUNC's resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resolver {
    /// Index of the object.
    pub input: usize,
    /// Index of the section.
    pub section: usize,
    /// Offset in the section.
    pub offset: u64,
}

/// The definition of a name that others may use.
pub(crate) struct Definition {
    /// The meaning of the name.
    pub target: Target,
    strength: Strength,
    /// Index of the object.
    input: usize,
    /// Says whether it is a function.
    pub function: bool,
}

/// The second definition in an error about a symbol that the domain has already.
const HOST: &str = "the domain or a library";

/// Finds a symbol of the domain that code is linked into.
pub(crate) type Outside<'s> = &'s dyn Fn(&str) -> Option<Target>;

/// Resolves all symbols. A definition that `outside` has wins over one of the inputs that is not
/// strong, and a strong one is an error. So linked code replaces nothing.
pub(crate) fn resolve<'a>(
    spec: &DomainSpec,
    inputs: &[Input<'a>],
    outside: Outside<'_>,
) -> Result<Symbols<'a>, LinkError> {
    let live = resolve::live_sections(inputs.iter().map(|i| &i.object));
    let mut commons = Vec::new();
    let mut indirects = Indirects::new();
    let claimed = inputs.iter().flat_map(|i| &i.object.symbols).filter(|s| s.is_claimed()).count();
    let mut definitions = IndexMap::with_capacity_and_hasher(claimed, RandomState::default());
    let mut duplicates = Vec::new();
    // The definition of each symbol's name, if the symbol itself is one. It saves a look-up below.
    let mut defined: Vec<Vec<Option<u32>>> = Vec::with_capacity(inputs.len());
    for (input, from) in inputs.iter().enumerate() {
        let mut here = vec![None; from.object.symbols.len()];
        for (symbol, number) in from.object.symbols.iter().zip(&mut here) {
            let sections = &from.object.sections;
            let Some(new) = define(symbol, input, sections, &live[input], &mut commons, &mut indirects) else {
                continue;
            };
            let entry = definitions.entry(symbol.name);
            *number = Some(entry.index() as u32);
            match entry {
                Entry::Vacant(entry) => drop(entry.insert(new)),
                Entry::Occupied(mut old) => match (old.get().target, new.target) {
                    (Target::Common(a), Target::Common(b)) => {
                        let (size, align): (u64, u64) = (commons[b].size, commons[b].align);
                        commons[a].size = commons[a].size.max(size);
                        commons[a].align = commons[a].align.max(align);
                        commons[b].size = 0;
                    }
                    _ if old.get().strength == Strength::Strong && new.strength == Strength::Strong => {
                        let files = [inputs[old.get().input].name.clone(), from.name.clone()];
                        duplicates.push(Mention::new(symbol.name, files));
                    }
                    _ if new.strength > old.get().strength => drop(old.insert(new)),
                    _ => {}
                },
            }
        }
        defined.push(here);
    }
    for (name, definition) in &mut definitions {
        match outside(name) {
            Some(_) if definition.strength == Strength::Strong => {
                duplicates.push(Mention::new(*name, [inputs[definition.input].name.clone(), HOST.to_owned()]));
            }
            Some(target) => definition.target = target,
            None => {}
        }
    }
    if !duplicates.is_empty() {
        duplicates.sort();
        return Err(LinkError::Duplicate { domain: spec.name.clone(), symbols: duplicates });
    }
    let wrapped = grant(spec, &mut definitions, inputs);
    let sections = inputs.iter().zip(&live).flat_map(|(input, live)| input.object.sections.iter().zip(live));
    let sections: HashSet<&str> = sections.filter(|(_, live)| **live).map(|(section, _)| section.name).collect();
    let mut bounds = Numbered::new();
    let targets = inputs
        .iter()
        .enumerate()
        .map(|(input, from)| {
            let all = from.object.symbols.iter().zip(&defined[input]);
            all.map(|(s, number)| {
                if let Some(number) = number {
                    return definitions[*number as usize].target;
                }
                if !s.is_global() {
                    return place(s, input, &live[input], &mut indirects);
                }
                // The verifier took it for the loader's number, so no other definition counts.
                if let Some(anchor) = Anchor::named(s.name).filter(|_| s.place == Place::Undefined) {
                    return Target::Anchored(anchor.at(0));
                }
                if let Some(definition) = definitions.get(s.name) {
                    return definition.target;
                }
                match loader_symbol(s.name, &sections, &mut bounds).or_else(|| outside(s.name)) {
                    Some(target) => target,
                    None if s.is_weak() => Target::Nothing,
                    None => Target::Undefined,
                }
            })
            .collect()
        })
        .collect();
    let (bounds, indirects) = (bounds.all, indirects.all);
    // Slot 0 is the trap.
    if indirects.len() >= DISPATCH_SLOTS {
        let why = format!("{} IFUNCs; a domain has {DISPATCH_SLOTS} slots", indirects.len());
        return Err(LinkError::Place { domain: spec.name.clone(), place: "dispatch table".into(), why });
    }
    Ok(Symbols { targets, live, commons, globals: definitions, wrapped, bounds, indirects })
}

/// Returns the target of a defined symbol.
fn place(symbol: &Symbol<'_>, input: usize, live: &[bool], indirects: &mut Indirects) -> Target {
    match symbol.place {
        // The verifier has checked that the section is executable. Names of one resolver are one
        // function.
        Place::Section(section) if live[section] && symbol.kind == STT_GNU_IFUNC => {
            Target::Choice(indirects.number(Resolver { input, section, offset: symbol.value }))
        }
        Place::Section(section) if live[section] => Target::Section { input, section, offset: symbol.value },
        Place::Section(_) => Target::Unloaded,
        Place::Absolute => Target::Absolute(symbol.value),
        Place::Common | Place::Undefined | Place::Reserved(_) => Target::Undefined,
    }
}

/// Values with numbers, each once.
struct Numbered<T> {
    all: Vec<T>,
    numbers: HashMap<T, usize>,
}

/// The resolvers of IFUNCs.
type Indirects = Numbered<Resolver>;

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Numbered { all: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, thing: T) -> usize {
        let next = self.all.len();
        *self.numbers.entry(thing).or_insert_with_key(|thing| {
            self.all.push(thing.clone());
            next
        })
    }
}

/// Makes a definition of the symbol, if others may use it.
fn define<'a>(
    symbol: &Symbol<'a>,
    input: usize,
    sections: &[Section<'a>],
    live: &[bool],
    commons: &mut Vec<Common>,
    indirects: &mut Indirects,
) -> Option<Definition> {
    let strength = resolve::strength(symbol, live)?;
    let target = match strength {
        Strength::Common => {
            commons.push(Common { size: symbol.size, align: symbol.value.max(1) });
            Target::Common(commons.len() - 1)
        }
        Strength::Weak | Strength::Strong => place(symbol, input, live, indirects),
    };
    let function = match target {
        Target::Common(_) => false,
        Target::Choice(_) => true,
        Target::Section { section, .. } if sections[section].is_executable() => true,
        _ => symbol.kind == STT_FUNC,
    };
    Some(Definition { target, strength, input, function })
}

/// Gives the names of imports and shared regions their meaning, over any other definition.
/// [`crate::link::select`] refuses such definitions, unless the import overrides them. Returns
/// those that the host keeps.
fn grant<'a>(
    spec: &DomainSpec,
    definitions: &mut IndexMap<&'a str, Definition, RandomState>,
    inputs: &[Input<'a>],
) -> Vec<(&'a str, Target)> {
    let mut wrapped = Vec::new();
    let mut granted: HashMap<String, Target> = HashMap::new();
    for (i, (symbol, _)) in spec.imports.iter().enumerate() {
        granted.insert(symbol.clone(), Target::Import(i));
    }
    for (share, s) in spec.shared.iter().enumerate() {
        granted.insert(s.symbol.clone(), Target::Region { share, end: false });
        granted.insert(format!("{}_end", s.symbol), Target::Region { share, end: true });
    }
    for symbol in inputs.iter().flat_map(|i| &i.object.symbols).filter(|s| s.is_global()) {
        if let Some(target) = granted.get(symbol.name) {
            let function = matches!(target, Target::Import(_));
            let new = Definition { target: *target, strength: Strength::Strong, input: 0, function };
            let old = definitions.insert(symbol.name, new).filter(|old| old.function && old.target != *target);
            match target {
                Target::Import(import) if spec.imports[*import].1.wraps => {
                    wrapped.extend(old.map(|old| (symbol.name, old.target)));
                }
                _ => {}
            }
        }
    }
    wrapped
}

/// Finds a symbol that the loader defines. `sections` are the names of the sections that become
/// memory.
fn loader_symbol(name: &str, sections: &HashSet<&str>, bounds: &mut Numbered<String>) -> Option<Target> {
    let mut bound = |section: &str, end: bool| Some(Target::Bound { name: bounds.number(section.to_owned()), end });
    match name {
        "__dso_handle" => Some(Target::Anchored(layout::HEADER)),
        names::ERROR => Some(Target::Anchored(layout::TCB_ERROR)),
        names::CLIENT_STACK => Some(Target::Anchored(layout::TCB_CLIENT_STACK)),
        // Without a grant they answer as a system call without an arbiter does.
        names::SYSCALL | library::OPEN | library::SYMBOL | library::CLOSE => Some(Target::Stub(stubs::SYSCALL)),
        names::DEPTH => Some(Target::Stub(stubs::DEPTH)),
        names::RETURN => Some(Target::Stub(stubs::RETURN)),
        names::CUT => Some(Target::Stub(stubs::CUT)),
        names::KEEP => Some(Target::Stub(stubs::KEEP)),
        names::BRING => Some(Target::Stub(stubs::BRING)),
        "_GLOBAL_OFFSET_TABLE_" => Some(Target::Got),
        "__preinit_array_start" => bound(".preinit_array", false),
        "__preinit_array_end" => bound(".preinit_array", true),
        "__init_array_start" => bound(".init_array", false),
        "__init_array_end" => bound(".init_array", true),
        "__fini_array_start" => bound(".fini_array", false),
        "__fini_array_end" => bound(".fini_array", true),
        _ => {
            let (section, end) = match (name.strip_prefix("__start_"), name.strip_prefix("__stop_")) {
                (Some(section), _) => (section, false),
                (_, Some(section)) => (section, true),
                _ => return None,
            };
            if sections.contains(section) { bound(section, end) } else { None }
        }
    }
}
