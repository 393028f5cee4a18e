//! Relocation (psABI 4.4.1, with the meaning of `docs/CONTRACT.md` for code symbols).

use crate::gate::stubs;
use crate::link::dispatch::Dispatch;
use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part, Spot};
use crate::link::place::Places;
use crate::link::references::{got_entry, needs_got, relocations};
use crate::link::select::Input;
use crate::link::symbols::{Symbols, Target};
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::region::Placed;
use crate::vm::window::Word;
use foldhash::{HashMap, HashMapExt};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_verifier::elf::Relocation;
use sfi_verifier::elf::number::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_DTPOFF32, R_X86_64_DTPOFF64, R_X86_64_PC32, R_X86_64_PC64,
    R_X86_64_PLT32, R_X86_64_SIZE32, R_X86_64_SIZE64, R_X86_64_TPOFF32, R_X86_64_TPOFF64,
};

/// All values that addresses depend on, except the window's base.
pub(crate) struct Addresses<'l> {
    /// The layout of the parts.
    pub layout: &'l Layout,
    /// Places of the parts.
    pub places: &'l Places,
    /// Slots of code whose address is taken.
    pub dispatch: &'l Dispatch,
    /// Places of the domain's shared regions.
    pub regions: &'l [Placed],
}

/// An address before there is a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    /// Offset from the window's base.
    InWindow(WindowOffset),
    /// A number that does not depend on the window.
    Absolute(u64),
}

impl Addresses<'_> {
    /// Returns the address that a pointer to the target holds. For code it is that of the dispatch
    /// slot.
    fn pointer(&self, target: Target) -> Result<Address, &'static str> {
        if let Some(code) = self.places.code(target, self.layout) {
            return self.dispatch.slot(code).map(Address::InWindow).ok_or("the function has no dispatch slot");
        }
        Ok(Address::InWindow(match target {
            Target::Section { input, section, offset } => {
                let spot = self.layout.sections[input][section].ok_or("the section is not loaded")?;
                self.places.of(spot).wrapping_add(offset)
            }
            Target::Common(index) => self.places.of(self.layout.commons[index]),
            Target::Anchored(place) => WindowOffset::new(self.places.anchors.offset(place)),
            Target::Got => self.places.of(self.layout.got_spot),
            Target::Outside { offset, .. } => offset,
            Target::Bound { name, end } => {
                let (first, last) = self.layout.bounds[name];
                self.places.of(if end { last } else { first })
            }
            Target::Region { share, end } => {
                let Placed { common, length, .. } = self.regions[share];
                return Ok(Address::Absolute((common + if end { length } else { 0 }).number()));
            }
            Target::Absolute(value) => return Ok(Address::Absolute(value)),
            Target::Nothing => return Ok(Address::Absolute(0)),
            Target::Unloaded => return Err("the symbol's section is not part of the domain's memory"),
            Target::Undefined => return Err("the symbol is undefined"),
            Target::Import(_) | Target::Choice(_) | Target::Stub(_) => return Err("the gateway has no place"),
        }))
    }

    /// Returns the window offset that a branch goes to.
    fn branch(&self, target: Target) -> Result<WindowOffset, &'static str> {
        match target {
            // A call of a weak function without a definition is a fault of the domain.
            Target::Nothing => Ok(self.places.stubs + stubs::TRAP),
            _ => self.places.code(target, self.layout).ok_or("the branch goes to something that is not code"),
        }
    }

    /// Returns the offset of a thread local from the thread pointer.
    fn local(&self, target: Target) -> Result<i64, &'static str> {
        match target {
            Target::Section { input, section, offset } => {
                let spot = self.layout.sections[input][section].filter(|s| s.part == Part::Locals);
                let spot = spot.ok_or("the symbol is not thread-local")?;
                let at = self.places.of(spot).wrapping_add(offset);
                Ok((at.bytes() as i64).wrapping_sub(self.places.anchors.tcb as i64))
            }
            _ => Err("the symbol is not thread-local"),
        }
    }
}

/// Applies all relocations to the parts' bytes, for a window at 0. Returns the words that depend on
/// the window's base, by part.
pub(crate) fn apply(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    addresses: &Addresses<'_>,
    parts: &mut [Vec<u8>; 4],
) -> Result<[Vec<Word>; 4], LinkError> {
    let layout = addresses.layout;
    let mut words: [Vec<Word>; 4] = Default::default();
    let mut got = HashMap::new();
    for (i, entry) in layout.got.iter().enumerate() {
        let (target, addend) = entry;
        let spot = Spot { offset: layout.got_spot.offset + 8 * i as u64, ..layout.got_spot };
        let value = addresses.pointer(*target).map_err(|why| LinkError::Place {
            domain: spec.name.clone(),
            place: "GOT".into(),
            why: why.into(),
        })?;
        let at = spot.offset as usize;
        let value = match value {
            Address::Absolute(value) => value,
            Address::InWindow(offset) => {
                words[spot.part as usize].push(Word { at: spot.offset as u32, minus: false });
                offset.bytes()
            }
        };
        let value = value.wrapping_add_signed(*addend);
        parts[spot.part as usize][at..at + 8].copy_from_slice(&value.to_le_bytes());
        got.insert(*entry, addresses.places.of(spot));
    }
    relocations(inputs, symbols).try_for_each(|(input, section, r, target)| {
        let from = &inputs[input];
        let fail = |why: String| {
            let name = from.object.symbols.get(r.symbol).map_or("?", |s| s.name);
            LinkError::Place {
                domain: spec.name.clone(),
                place: format!("{}: {}+{:#x}", from.name, from.object.sections[section].name, r.offset),
                why: format!("relocation of type {} against `{name}`: {why}", r.kind),
            }
        };
        let spot = layout.sections[input][section].ok_or_else(|| fail("its section is not loaded".into()))?;
        let bytes = &mut parts[spot.part as usize];
        let at = (spot.offset as usize)
            .checked_add(usize::try_from(r.offset).unwrap_or(usize::MAX))
            .ok_or_else(|| fail("offset out of range".into()))?;
        let place = addresses.places.of(spot).wrapping_add(r.offset);
        let size = from.object.symbols.get(r.symbol).map_or(0, |s| s.size);
        let lea = layout.leas.contains(&(input, section, r.offset));
        if lea {
            // Opcode and ModRM precede the displacement. `mov` has the form of `lea`.
            bytes[at - 2] = MOV;
        }
        let got = got_entry(r, target, lea).and_then(|entry| got.get(&entry).copied());
        let code = from.object.sections[section].is_executable();
        let field = value(addresses, got, r, target, place, size, code).map_err(|why| fail(why.into()))?;
        let width = field.width();
        let inside = r.offset.checked_add(width as u64).is_some_and(|end| end <= from.object.sections[section].size);
        let slot =
            bytes.get_mut(at..at + width).filter(|_| inside).ok_or_else(|| fail("outside its section".into()))?;
        match field {
            Field::Eight(v, base) => {
                slot.copy_from_slice(&v.to_le_bytes());
                if let Some(minus) = base {
                    // `at` fits, because parts are smaller than `IMAGE_HIGH`.
                    words[spot.part as usize].push(Word { at: at as u32, minus });
                }
            }
            Field::Four(v) => slot.copy_from_slice(
                &i32::try_from(v).map_err(|_| fail(format!("{v:#x} does not fit 32 bits")))?.to_le_bytes(),
            ),
            Field::FourUnsigned(v) => {
                slot.copy_from_slice(&u32::try_from(v).map_err(|_| fail(NARROW.into()))?.to_le_bytes())
            }
        }
        Ok::<(), LinkError>(())
    })?;
    for list in &mut words {
        list.sort_unstable();
        // Two relocations of one section do not overlap (SFI-E05), and neither do sections.
        debug_assert!(list.windows(2).all(|w| w[0].at + 8 <= w[1].at));
    }
    Ok(words)
}

/// The opcode of `mov r/m,r`. That of `lea` is 8d.
const MOV: u8 = 0x8b;

/// The reason why an address of a window, or the distance between a window and a fixed address, has
/// no 32-bit form.
const NARROW: &str = "the address does not fit 32 bits";

/// The value that a relocation writes.
enum Field {
    /// 64 bits. `Some(false)`: the window's base is added. `Some(true)`: the base is subtracted.
    Eight(u64, Option<bool>),
    /// 32 bits, sign-extended by the processor.
    Four(i64),
    /// 32 bits, zero-extended by the processor.
    FourUnsigned(u64),
}

impl Field {
    fn width(&self) -> usize {
        match self {
            Field::Eight(..) => 8,
            Field::Four(_) | Field::FourUnsigned(_) => 4,
        }
    }
}

/// Computes the value of one relocation at the window offset `place`.
fn value(
    addresses: &Addresses<'_>,
    got: Option<WindowOffset>,
    r: &Relocation,
    target: Target,
    place: WindowOffset,
    size: u64,
    code: bool,
) -> Result<Field, &'static str> {
    let add = |s: u64| s.wrapping_add_signed(r.addend);
    let relative = |s: u64| add(s).wrapping_sub(place.bytes()) as i64;
    let pointer = || addresses.pointer(target);
    // Windows begin at 4 GiB and above. Operands name the anchors and thread locals by their offset
    // in the window.
    // So they do with the words of an array of slots.
    let slots = || match target {
        Target::Section { input, section, offset } => Some(addresses.dispatch.array(input, section)? + offset),
        _ => None,
    };
    let absolute = || match (pointer()?, target) {
        (Address::Absolute(value), _) => Ok(value),
        (Address::InWindow(offset), Target::Anchored(_)) => Ok(offset.bytes()),
        (Address::InWindow(offset), _) if addresses.local(target).is_ok() => Ok(offset.bytes()),
        (Address::InWindow(_), _) => Err(NARROW),
    };
    let distance = || match (pointer()?, target) {
        (Address::InWindow(offset), _) => Ok(offset.bytes()),
        // An access goes to the region's bytes in the window, at the lower half of the address.
        (Address::Absolute(common), Target::Region { .. }) if code => Ok(common % WINDOW_SIZE),
        (Address::Absolute(_), _) => Err(NARROW),
    };
    Ok(match r.kind {
        R_X86_64_64 => match pointer()? {
            Address::InWindow(offset) => Field::Eight(add(offset.bytes()), Some(false)),
            Address::Absolute(value) => Field::Eight(add(value), None),
        },
        R_X86_64_PC64 => match pointer()? {
            Address::InWindow(offset) => Field::Eight(relative(offset.bytes()) as u64, None),
            Address::Absolute(value) => Field::Eight(relative(value) as u64, Some(true)),
        },
        R_X86_64_32 => Field::FourUnsigned(add(absolute()?)),
        R_X86_64_32S => match slots() {
            Some(slot) => Field::Four(add(slot.bytes()) as i64),
            None => Field::Four(add(absolute()?) as i64),
        },
        R_X86_64_PC32 => match got {
            Some(entry) => Field::Four(entry.bytes().wrapping_sub(place.bytes()).wrapping_sub(4) as i64),
            None => Field::Four(relative(distance()?)),
        },
        R_X86_64_PLT32 => Field::Four(relative(addresses.branch(target)?.bytes())),
        kind if needs_got(kind) => Field::Four(relative(got.ok_or("no GOT entry")?.bytes())),
        R_X86_64_TPOFF32 => Field::Four(addresses.local(target)?.wrapping_add(r.addend)),
        R_X86_64_TPOFF64 => Field::Eight(addresses.local(target)?.wrapping_add(r.addend) as u64, None),
        R_X86_64_DTPOFF32 | R_X86_64_DTPOFF64 => {
            let block = addresses.layout.sizes[Part::Locals as usize] as i64;
            let offset = addresses.local(target)?.wrapping_add(block).wrapping_add(r.addend);
            if r.kind == R_X86_64_DTPOFF32 { Field::Four(offset) } else { Field::Eight(offset as u64, None) }
        }
        R_X86_64_SIZE32 => Field::FourUnsigned(add(size)),
        R_X86_64_SIZE64 => Field::Eight(add(size), None),
        _ => return Err("the loader does not know this type"),
    })
}
