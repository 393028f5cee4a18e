//! The new code while it is written: encoded instructions, labels, alignment, and branches without
//! a layout.

use crate::analysis::pads::Pads;
use crate::object::decode::{Dest, InsnIndex};
use crate::text::marks::Marks;
use iced_x86::{ConditionCode, Decoder, DecoderOptions, Encoder, IcedError, Instruction, OpKind};
use object::elf;
use sfi_contract::matching::Pattern;
use sfi_contract::{Anchor, Anchored};

/// A label of the new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Label {
    /// The new place of an instruction of the original code.
    Old(InsnIndex),
    /// The end of the code before an original instruction. Padding follows it.
    End(InsnIndex),
    /// The landing pad of an original instruction.
    Pad(InsnIndex),
    /// A return address of an original call, by number: one that compares its target returns to
    /// several.
    After(InsnIndex, u8),
    /// The beginning of a code section: an index into [`crate::object::decode::Code::sections`].
    Start(u32),
    /// A place that only the new code has.
    New(u32),
}

/// The target of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Label(Label),
    /// The index of a symbol of the original object.
    Symbol(u32),
    Loader(LoaderSymbol),
    /// The section of arrays of dispatch slots.
    Arrays,
}

/// A symbol that the loader defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LoaderSymbol {
    /// [`sfi_contract::names::SYSCALL`]
    Syscall,
    /// [`sfi_contract::names::DEPTH`]
    Depth,
    /// [`sfi_contract::names::RETURN`]
    Return,
    /// [`sfi_contract::names::CUT`]
    Cut,
    /// A place whose offset the loader draws.
    Anchor(Anchor),
}

impl LoaderSymbol {
    /// Returns the symbol's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            LoaderSymbol::Syscall => sfi_contract::names::SYSCALL,
            LoaderSymbol::Depth => sfi_contract::names::DEPTH,
            LoaderSymbol::Return => sfi_contract::names::RETURN,
            LoaderSymbol::Cut => sfi_contract::names::CUT,
            LoaderSymbol::Anchor(anchor) => anchor.symbol(),
        }
    }
}

impl From<Dest> for Target {
    fn from(dest: Dest) -> Self {
        match dest {
            Dest::Insn(insn) => Target::Label(old(insn)),
            Dest::Symbol(symbol) => Target::Symbol(symbol.number()),
        }
    }
}

/// Returns the label for the new place of an original instruction.
pub(crate) fn old(insn: InsnIndex) -> Label {
    Label::Old(insn)
}

/// A relocation of encoded instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixup {
    /// Offset of the field from the item's start.
    pub field: u8,
    pub kind: u32,
    pub target: Target,
    /// Addend as the relocation table will hold it.
    pub addend: i64,
}

/// The field of an instruction that a relocation patches, and the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    pub immediate: bool,
    pub kind: u32,
    pub target: Target,
    /// The addend. For displacements relative to rip it counts from the instruction's end.
    pub addend: i64,
}

/// A direct branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    Jump,
    Call,
    /// jcc, by the nibble of the condition code.
    Condition(u8),
    /// jrcxz, jecxz and the loop family. They have an 8-bit displacement only.
    Short(ShortBranch),
}

/// Branches that have no long form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortBranch {
    Jrcxz,
    Loop,
    Loope,
    Loopne,
}

impl ShortBranch {
    /// Returns the opcode byte.
    pub(crate) const fn opcode(self) -> u8 {
        match self {
            ShortBranch::Loopne => 0xe0,
            ShortBranch::Loope => 0xe1,
            ShortBranch::Loop => 0xe2,
            ShortBranch::Jrcxz => 0xe3,
        }
    }
}

impl Fixup {
    /// Makes the fixup that writes the offset of a place in the window.
    fn anchored(field: usize, place: Anchored) -> Fixup {
        let target = Target::Loader(LoaderSymbol::Anchor(place.anchor));
        Fixup { field: field as u8, kind: elf::R_X86_64_32S.0, target, addend: place.addend.into() }
    }
}

/// Relocations of an item: their start in [`Emitter::fixups`], and their number.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
pub(crate) struct Fixups {
    first: u32,
    count: u8,
}

/// Most of them are of one instruction, and all of an object are in memory at once.
const _: () = assert!(size_of::<Item>() == 12);

/// One piece of the new code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Label(Label),
    /// Padding up to a multiple of a power of two.
    Align {
        to: u32,
    },
    /// Padding before a loop, so that the loop lies in as few lines as its size allows. The loop's
    /// label follows.
    Loop,
    /// Encoded bytes in [`Emitter::bytes`].
    Bytes {
        start: u32,
        len: u8,
        fixups: Fixups,
    },
    Branch {
        kind: Branch,
        target: Target,
    },
}

/// Collects the new code of one section.
pub(crate) struct Emitter {
    pub items: Vec<Item>,
    /// The instructions that items serve: places are indices into `items`.
    pub marks: Marks,
    pub bytes: Vec<u8>,
    pub fixups: Vec<Fixup>,
    encoder: Encoder,
    next_label: u32,
}

/// An instruction cannot be encoded, because no form has this combination of operands.
#[derive(Debug)]
pub(crate) struct NoEncoding(pub String);

impl From<IcedError> for NoEncoding {
    fn from(error: IcedError) -> Self {
        NoEncoding(error.to_string())
    }
}

impl Emitter {
    /// Returns an emitter whose new labels start at a number, so that the labels of several
    /// sections differ. It has room for the usual code of a number of instructions.
    pub(crate) fn new(next_label: u32, insns: usize) -> Self {
        Emitter {
            items: Vec::with_capacity(2 * insns),
            marks: Marks::with_capacity(insns),
            bytes: Vec::with_capacity(6 * insns),
            fixups: Vec::new(),
            encoder: Encoder::new(64),
            next_label,
        }
    }

    /// Returns the number where the next section's labels start.
    pub(crate) fn next_label(&self) -> u32 {
        self.next_label
    }

    /// Sets the number where new labels start from now on.
    pub(crate) fn set_next_label(&mut self, next_label: u32) {
        self.next_label = next_label;
    }

    /// Returns a fresh label without a place.
    pub(crate) fn new_label(&mut self) -> Label {
        self.next_label += 1;
        Label::New(self.next_label - 1)
    }

    /// Places a label here.
    pub(crate) fn label(&mut self, label: Label) {
        self.items.push(Item::Label(label));
    }

    /// Counts the labels.
    pub(crate) fn count_labels(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Label(_))).count()
    }

    /// Marks the code from here on as serving an original instruction.
    pub(crate) fn mark(&mut self, insn: InsnIndex, pad: bool) {
        let item = self.items.len() as u32;
        if pad { self.marks.pad(item, insn) } else { self.marks.code(item, insn) }
    }

    /// Decodes an item that is one instruction.
    pub(crate) fn instruction(&self, item: usize) -> Option<Instruction> {
        let Item::Bytes { start, len, .. } = *self.items.get(item)? else { return None };
        let bytes = &self.bytes[start as usize..][..usize::from(len)];
        Some(Decoder::new(64, bytes, DecoderOptions::NONE).decode())
    }

    /// Moves marks with their items: `places` has the new place of each, and the end.
    pub(crate) fn moved(&mut self, places: &[u32]) {
        self.marks = self.marks.moved(|item| places[item as usize]);
    }

    /// Returns the relocations of an item.
    pub(crate) fn fixups(&self, of: Fixups) -> &[Fixup] {
        &self.fixups[of.first as usize..][..usize::from(of.count)]
    }

    /// Encodes an instruction here; `patches` name its relocated fields. A symbolic displacement
    /// ([`Anchored::symbolic`]) becomes a relocated one.
    pub(crate) fn insn(&mut self, ins: &Instruction, patches: &[Patch]) -> Result<(), NoEncoding> {
        debug_assert!(!(0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::NearBranch64));
        let mut ins = *ins;
        let displacement = ins.memory_displacement64();
        // Displacements of 32 bits are no symbolic ones.
        let symbolic = i32::try_from(displacement as i64).is_err();
        let anchored = if symbolic { Anchored::from_symbolic(displacement) } else { None };
        if anchored.is_some() {
            let wide = [ins.memory_base(), ins.memory_index()].iter().any(|register| register.is_gpr64());
            ins.set_memory_displacement64(0);
            ins.set_memory_displ_size(if wide { 8 } else { ins.memory_displ_size().max(4) });
        }
        if let Err(error) = self.encoder.encode(&ins, 0) {
            self.encoder.set_buffer(Vec::new());
            return Err(error.into());
        }
        let fields = self.encoder.get_constant_offsets();
        let mut bytes = self.encoder.take_buffer();
        let len = bytes.len();
        let first = self.fixups.len() as u32;
        if let Some(place) = anchored {
            if fields.displacement_size() != 4 {
                return Err(NoEncoding("a place of the window needs a displacement of 32 bits".to_owned()));
            }
            self.fixups.push(Fixup::anchored(fields.displacement_offset(), place));
        }
        for patch in patches {
            let (field, size) = if patch.immediate {
                (fields.immediate_offset(), fields.immediate_size())
            } else {
                (fields.displacement_offset(), fields.displacement_size())
            };
            if size < 4 {
                return Err(NoEncoding("the relocated field became too small".to_owned()));
            }
            bytes[field..field + size].fill(0);
            let relative = !patch.immediate && ins.is_ip_rel_memory_operand();
            let addend = if relative { patch.addend.wrapping_sub((len - field) as i64) } else { patch.addend };
            self.fixups.push(Fixup { field: field as u8, kind: patch.kind, target: patch.target, addend });
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&bytes);
        let fixups = Fixups { first, count: (self.fixups.len() - first as usize) as u8 };
        self.items.push(Item::Bytes { start, len: len as u8, fixups });
        bytes.clear();
        self.encoder.set_buffer(bytes);
        Ok(())
    }

    /// Adds an instruction without relocations that is encoded already.
    pub(crate) fn encoded(&mut self, bytes: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        let fixups = Fixups { first: self.fixups.len() as u32, count: 0 };
        self.items.push(Item::Bytes { start, len: bytes.len() as u8, fixups });
    }

    /// Returns the bytes of the item at a place, if it is the last one and has no relocations.
    pub(crate) fn made_since(&self, place: usize) -> Option<&[u8]> {
        match self.items[place..] {
            [Item::Bytes { start, len, fixups: Fixups { count: 0, .. } }] => {
                Some(&self.bytes[start as usize..][..usize::from(len)])
            }
            _ => None,
        }
    }

    /// Instructions that are encoded already, at most 255 bytes.
    pub(crate) fn pattern(&mut self, pattern: &Pattern) {
        let (start, first) = (self.bytes.len() as u32, self.fixups.len() as u32);
        self.bytes.extend_from_slice(pattern.bytes);
        self.fixups.extend(pattern.fields.iter().map(|(field, place)| Fixup::anchored(*field, *place)));
        let fixups = Fixups { first, count: pattern.fields.len() as u8 };
        self.items.push(Item::Bytes { start, len: pattern.bytes.len() as u8, fixups });
    }

    /// Adds a direct branch here.
    pub(crate) fn branch(&mut self, kind: Branch, target: impl Into<Target>) {
        self.items.push(Item::Branch { kind, target: target.into() });
    }

    /// Pads to a multiple of a power of two.
    pub(crate) fn align(&mut self, to: u32) {
        self.items.push(Item::Align { to });
    }

    /// Pads so that the loop whose label comes next lies in as few lines as its size allows.
    pub(crate) fn place_loop(&mut self) {
        self.items.push(Item::Loop);
    }
}

impl From<Label> for Target {
    fn from(label: Label) -> Self {
        Target::Label(label)
    }
}

/// Returns the low nibble of jcc's opcode.
pub(crate) fn condition(code: ConditionCode) -> Option<u8> {
    use ConditionCode::*;
    Some(match code {
        o => 0,
        no => 1,
        b => 2,
        ae => 3,
        e => 4,
        ne => 5,
        be => 6,
        a => 7,
        s => 8,
        ns => 9,
        p => 10,
        np => 11,
        l => 12,
        ge => 13,
        le => 14,
        g => 15,
        None => return Option::None,
    })
}

/// Tag of a receiver's address. Far jumps lead to tagged addresses only.
pub(crate) const RECEIVER_TAG: i64 = 1;

/// Returns the tag that an address of a place carries. See [`address_of`].
pub(crate) fn tag_of(pads: &Pads, dest: Dest) -> i64 {
    match dest {
        Dest::Insn(insn) if pads.is_receiver(insn) => RECEIVER_TAG,
        _ => 0,
    }
}

/// Returns the target of a relocation that takes the address of a place.
pub(crate) fn address_of(pads: &Pads, dest: Dest) -> Target {
    match dest {
        Dest::Insn(insn) if pads.has(insn) => Target::Label(Label::Pad(insn)),
        _ => Target::from(dest),
    }
}
