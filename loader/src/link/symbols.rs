//! Symbol resolution over a domain's objects (gABI chapter *Symbol Table*): strong, weak, common, COMDAT.

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::select::{Input, STB_WEAK, is_global};
use crate::spec::DomainSpec;
use sfi_contract::{layout, names};
use sfi_verifier::elf::{Place, Section, Symbol};
use std::collections::HashMap;

/// `SHT_NOTE`.
const SHT_NOTE: u32 = 7;
/// `SHT_GROUP`.
const SHT_GROUP: u32 = 17;
/// `SHT_X86_64_UNWIND`.
const SHT_UNWIND: u32 = 0x7000_0001;
/// `STT_FUNC`.
pub const STT_FUNC: u8 = 2;
/// `STT_GNU_IFUNC`.
const STT_GNU_IFUNC: u8 = 10;

/// What a symbol means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A place in a section that is linked.
    Section {
        /// Index of the object.
        input: usize,
        /// Index of the section.
        section: usize,
        /// Offset in the section.
        offset: u64,
    },
    /// A section that is not part of the domain's memory: discarded, a note, unwind tables, debug information.
    Unloaded,
    /// A number.
    Absolute(u64),
    /// A common block, by index.
    Common(usize),
    /// A gateway stub, by index of the import.
    Import(usize),
    /// A fixed stub, by its offset: the arbitration gateway, the control stack's.
    Stub(u64),
    /// The function that an IFUNC's resolver chooses, by index in [`Symbols::indirects`].
    Choice(usize),
    /// A fixed window offset.
    Fixed(u64),
    /// The GOT.
    Got,
    /// Start (or end) of the sections with a name, by index in [`Symbols::bounds`].
    Bound {
        /// Index of the name.
        name: usize,
        /// The byte behind them.
        end: bool,
    },
    /// A shared region, by index in the specification.
    Region {
        /// Index.
        share: usize,
        /// The byte behind it.
        end: bool,
    },
    /// A weak symbol that nobody defines: 0.
    Nothing,
    /// Undefined. An error if a relocation needs it.
    Undefined,
}

/// A common block.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub align: u64,
}

/// The result.
pub struct Symbols<'a> {
    /// By object and symbol index.
    pub targets: Vec<Vec<Target>>,
    /// By object and section index: whether the section becomes memory.
    pub live: Vec<Vec<bool>>,
    /// Common blocks.
    pub commons: Vec<Common>,
    /// Global definitions by name, and whether they are functions.
    pub globals: HashMap<&'a str, (Target, bool)>,
    /// Names of sections whose bounds are asked for.
    pub bounds: Vec<String>,
    /// Resolvers of IFUNCs.
    pub indirects: Vec<Resolver>,
}

/// Where a resolver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Index of the object.
    pub input: usize,
    /// Index of the section.
    pub section: usize,
    /// Offset in the section.
    pub offset: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    Common,
    Strong,
}

struct Definition {
    target: Target,
    strength: Strength,
    input: usize,
    function: bool,
}

/// Resolves all symbols.
pub fn resolve<'a>(spec: &DomainSpec, inputs: &[Input<'a>]) -> Result<Symbols<'a>, LinkError> {
    let live = live_sections(inputs);
    let mut commons = Vec::new();
    let mut indirects = Vec::new();
    let mut definitions: HashMap<&'a str, Definition> = HashMap::new();
    let mut duplicates = Vec::new();
    for (input, from) in inputs.iter().enumerate() {
        for symbol in from.object.symbols.iter().filter(|s| is_global(s)) {
            let Some(new) = define(symbol, input, &from.object.sections, &live, &mut commons, &mut indirects) else {
                continue;
            };
            match definitions.get_mut(symbol.name) {
                None => {
                    definitions.insert(symbol.name, new);
                }
                Some(old) => match (old.target, new.target) {
                    (Target::Common(a), Target::Common(b)) => {
                        let (size, align): (u64, u64) = (commons[b].size, commons[b].align);
                        commons[a].size = commons[a].size.max(size);
                        commons[a].align = commons[a].align.max(align);
                        commons[b].size = 0;
                    }
                    _ if old.strength == Strength::Strong && new.strength == Strength::Strong => {
                        duplicates.push(format!("{} ({}, {})", symbol.name, inputs[old.input].name, from.name));
                    }
                    _ if new.strength > old.strength => *old = new,
                    _ => {}
                },
            }
        }
    }
    if !duplicates.is_empty() {
        return Err(LinkError::Duplicate { domain: spec.name.clone(), symbols: duplicates });
    }
    grant(spec, &mut definitions, inputs)?;
    let mut bounds = Vec::new();
    let targets = inputs
        .iter()
        .enumerate()
        .map(|(input, from)| {
            let all = from.object.symbols.iter();
            all.map(|s| {
                if !is_global(s) {
                    return place(s, input, &live[input], &mut indirects);
                }
                if let Some(definition) = definitions.get(s.name) {
                    return definition.target;
                }
                match loader_symbol(s.name, inputs, &live, &mut bounds) {
                    Some(target) => target,
                    None if s.binding == STB_WEAK => Target::Nothing,
                    None => Target::Undefined,
                }
            })
            .collect()
        })
        .collect();
    let globals = definitions.into_iter().map(|(name, d)| (name, (d.target, d.function))).collect();
    Ok(Symbols { targets, live, commons, globals, bounds, indirects })
}

/// Which sections become memory. Of the COMDAT groups with one signature the first is kept.
fn live_sections(inputs: &[Input<'_>]) -> Vec<Vec<bool>> {
    let mut groups: std::collections::HashSet<&str> = Default::default();
    inputs
        .iter()
        .map(|input| {
            let object = &input.object;
            let mut live: Vec<bool> = object
                .sections
                .iter()
                .map(|s| {
                    s.is_allocated() && !matches!(s.kind, SHT_NOTE | SHT_GROUP | SHT_UNWIND) && s.name != ".eh_frame"
                })
                .collect();
            for group in object.groups.iter().filter(|g| g.comdat) {
                let Some(signature) = object.symbols.get(group.signature) else { continue };
                // A section symbol names the group by its section.
                let name = match signature.place {
                    Place::Section(s) if signature.name.is_empty() => object.sections[s].name,
                    _ => signature.name,
                };
                if !groups.insert(name) {
                    for member in &group.members {
                        if let Some(slot) = live.get_mut(*member) {
                            *slot = false;
                        }
                    }
                }
            }
            live
        })
        .collect()
}

/// Where a defined symbol lies.
fn place(symbol: &Symbol<'_>, input: usize, live: &[bool], indirects: &mut Vec<Resolver>) -> Target {
    match symbol.place {
        // The verifier has seen that the section is executable. Names of one resolver are one function.
        Place::Section(section) if live[section] && symbol.kind == STT_GNU_IFUNC => {
            let resolver = Resolver { input, section, offset: symbol.value };
            Target::Choice(indirects.iter().position(|c| *c == resolver).unwrap_or_else(|| {
                indirects.push(resolver);
                indirects.len() - 1
            }))
        }
        Place::Section(section) if live[section] => Target::Section { input, section, offset: symbol.value },
        Place::Section(_) => Target::Unloaded,
        Place::Absolute => Target::Absolute(symbol.value),
        Place::Common | Place::Undefined | Place::Reserved(_) => Target::Undefined,
    }
}

/// A definition, if the symbol is one. Symbols of discarded COMDAT sections are none.
fn define<'a>(
    symbol: &Symbol<'a>,
    input: usize,
    sections: &[Section<'a>],
    live: &[Vec<bool>],
    commons: &mut Vec<Common>,
    indirects: &mut Vec<Resolver>,
) -> Option<Definition> {
    let function = symbol.kind == STT_FUNC;
    let strength = if symbol.binding == STB_WEAK { Strength::Weak } else { Strength::Strong };
    match symbol.place {
        Place::Undefined | Place::Reserved(_) => None,
        Place::Common => {
            commons.push(Common { size: symbol.size, align: symbol.value.max(1) });
            Some(Definition {
                target: Target::Common(commons.len() - 1),
                strength: Strength::Common,
                input,
                function: false,
            })
        }
        Place::Section(section) if !live[input][section] && sections[section].is_allocated() => None,
        _ => {
            let target = place(symbol, input, &live[input], indirects);
            let code = matches!(target, Target::Choice(_))
                || matches!(target, Target::Section { section, .. } if sections[section].is_executable());
            Some(Definition { target, strength, input, function: function || code })
        }
    }
}

/// Imports and shared regions define their names. An object that also defines one strongly is a conflict.
fn grant<'a>(
    spec: &DomainSpec,
    definitions: &mut HashMap<&'a str, Definition>,
    inputs: &[Input<'a>],
) -> Result<(), LinkError> {
    let mut granted: HashMap<String, Target> = HashMap::new();
    for (i, (symbol, _)) in spec.imports.iter().enumerate() {
        granted.insert(symbol.clone(), Target::Import(i));
    }
    for (share, s) in spec.shared.iter().enumerate() {
        granted.insert(s.symbol.clone(), Target::Region { share, end: false });
        granted.insert(format!("{}_end", s.symbol), Target::Region { share, end: true });
    }
    let mut conflicts = Vec::new();
    for input in inputs {
        for symbol in input.object.symbols.iter().filter(|s| is_global(s)) {
            let Some(target) = granted.get(symbol.name) else { continue };
            match definitions.get(symbol.name) {
                Some(d) if d.target == *target => {}
                Some(d) if d.strength == Strength::Strong => {
                    conflicts.push(format!("{} (granted by the specification, {})", symbol.name, inputs[d.input].name));
                }
                _ => {
                    let function = matches!(target, Target::Import(_));
                    let new = Definition { target: *target, strength: Strength::Strong, input: 0, function };
                    definitions.insert(symbol.name, new);
                }
            }
        }
    }
    conflicts.sort();
    conflicts.dedup();
    if conflicts.is_empty() {
        Ok(())
    } else {
        Err(LinkError::Duplicate { domain: spec.name.clone(), symbols: conflicts })
    }
}

/// Symbols that the loader defines.
fn loader_symbol(name: &str, inputs: &[Input<'_>], live: &[Vec<bool>], bounds: &mut Vec<String>) -> Option<Target> {
    let mut bound = |section: &str, end: bool| {
        let index = bounds.iter().position(|b| b == section).unwrap_or_else(|| {
            bounds.push(section.to_owned());
            bounds.len() - 1
        });
        Some(Target::Bound { name: index, end })
    };
    match name {
        names::HEADER | "__dso_handle" => Some(Target::Fixed(layout::HEADER_OFFSET)),
        names::ERROR => Some(Target::Fixed(layout::TCB_ERROR)),
        names::CLIENT_STACK => Some(Target::Fixed(layout::TCB_CLIENT_STACK)),
        names::SYSCALL => Some(Target::Stub(stubs::SYSCALL)),
        names::DEPTH => Some(Target::Stub(stubs::DEPTH)),
        names::RETURN => Some(Target::Stub(stubs::RETURN)),
        names::CUT => Some(Target::Stub(stubs::CUT)),
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
            let exists = inputs
                .iter()
                .zip(live)
                .any(|(i, live)| i.object.sections.iter().zip(live).any(|(s, live)| *live && s.name == section));
            if exists { bound(section, end) } else { None }
        }
    }
}
