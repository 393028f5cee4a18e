//! The libraries of a domain.

use crate::fault::names::Names;
use crate::gate::depths::{Depths, SavingText, WideMap};
use crate::link::image::{ByName, Image};
use crate::link::library::LibraryImage;
use crate::link::place::Map;
use crate::link::symbols::Target;
use crate::load::library::MAPPINGS;
use crate::load::observe::Observed;
use crate::spec::library::Library;
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::vm::ledger;
use crate::vm::memory::Segment;
use crate::world::links::slots::Slots;
use crate::world::links::words::Word;
use rustix::io::Errno;
use sfi_contract::layout::DISPATCH_SIZE;
use std::ops::Range;
use std::sync::Arc;

/// The libraries of a domain, and the room for more.
pub(crate) struct Links {
    /// The taken ranges of the window.
    pub map: Map,
    /// The reserved slots.
    pub slots: Slots,
    /// The linked libraries, in order.
    pub all: Vec<Link>,
    /// The texts of the domain and its libraries that save registers on the control stack, and the
    /// map of them for the stubs, if the image's own does not do. The domain's state points to
    /// them.
    pub saving: Vec<SavingText>,
    /// See `saving`.
    pub wide: Option<WideMap>,
    /// Mappings on the process' account for the slots' pages.
    #[expect(dead_code, reason = "only dropped")]
    account: Account,
}

/// A linked library.
pub(crate) struct Link {
    /// A number that no other link of the world has.
    pub number: u64,
    /// The library's own number, equal for each link of it.
    pub library: u64,
    /// The library's name.
    pub name: String,
    /// Later libraries do not see its symbols.
    pub private: bool,
    /// Initialisers or finalisers run.
    pub running: bool,
    /// Handles that the domain has of it.
    pub handles: u64,
    /// The domain cannot unlink it.
    pub stays: bool,
    /// It names functions that register others for the domain's end.
    pub at_exit: bool,
    /// A debugger's record of the text.
    #[expect(dead_code, reason = "only dropped")]
    pub observed: Observed,
    /// Changes when functions that were looked up must be looked up again.
    pub word: Word,
    /// The places in text.
    pub text: Range<WindowOffset>,
    /// The places where its text saves registers.
    pub saves: SavingText,
    /// It names stubs that walk over saved registers.
    pub walks: bool,
    /// Window offset and length of each mapped part.
    pub parts: Vec<(WindowOffset, u64)>,
    /// Names of its places.
    pub names: Arc<Names>,
    /// Offsets of global functions, by name.
    pub functions: ByName<WindowOffset>,
    /// Offsets of global variables, by name.
    pub variables: ByName<WindowOffset>,
    /// Code offsets of finalisers, in order.
    pub finalisers: Vec<WindowOffset>,
    /// The numbers of links whose places it refers to.
    pub needs: Vec<u64>,
    /// Mappings on the process' account.
    #[expect(dead_code, reason = "only dropped")]
    pub account: Account,
}

/// Mappings on the process' account.
#[derive(Debug)]
pub(crate) struct Account(u64);

impl Account {
    /// Takes mappings for a number of parts.
    pub(crate) fn take(parts: usize) -> Result<Self, Errno> {
        let mappings = MAPPINGS * parts as u64;
        ledger::account(mappings)?;
        Ok(Self(mappings))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        ledger::forget(self.0);
    }
}

impl Links {
    /// Returns the room of a domain without libraries. `regions` are the places of the shared
    /// regions in every window.
    pub(crate) fn new(image: &Image, segments: &[Segment], regions: &Map) -> Result<Self, Errno> {
        let block = (image.anchors.dispatch, image.anchors.dispatch + DISPATCH_SIZE);
        let guard = (image.stack_guard[0].bytes(), image.stack_guard[1].bytes());
        let taken = segments.iter().map(|s| (s.offset, s.end())).chain([block, guard]);
        let account = Account::take(1)?;
        Ok(Self {
            map: Map::around(regions, taken),
            slots: Slots::new(image),
            all: Vec::new(),
            saving: Vec::new(),
            wide: None,
            account,
        })
    }

    /// Makes the map for the stubs, if the domain needs one with a further library: some text names
    /// the stubs, and another one saves registers than the image's own map describes.
    pub(crate) fn prepare(&mut self, image: &Image, (saves, walks): (&SavingText, bool)) -> Result<(), Errno> {
        let walks = walks || image.walks || self.all.iter().any(|link| link.walks);
        let mut new = self.all.iter().map(|link| &link.saves).chain([saves]);
        let saved = new.any(SavingText::saves_some) || !image.walks && !image.saves.is_empty();
        if walks && saved && self.wide.is_none() {
            self.wide = Some(WideMap::new()?);
        }
        Ok(())
    }

    /// Returns the depths of a domain with these libraries. They are valid until the next call.
    /// None of the domain's code runs. Without a map that is whole the stubs trap.
    pub(crate) fn depths(&mut self, image: &Image) -> Depths {
        let saving = self.all.iter().map(|link| &link.saves).filter(|text| text.saves_some());
        self.saving = saving.cloned().collect();
        let walks = self.all.iter().any(|link| link.walks) && !image.walks && !image.saves.is_empty();
        if self.saving.is_empty() && !walks {
            return image.depths();
        }
        self.saving.extend_from_slice(image.own_depths().texts());
        let (saving, depths) = (&self.saving, image.depths());
        match self.wide.as_mut().map(|wide| (wide.write(image.trap, saving), wide)) {
            Some((Ok(()), wide)) => depths.wide(saving, wide),
            _ => depths.closed(saving),
        }
    }

    /// Finds a linked library.
    pub(crate) fn get(&self, number: u64) -> Option<&Link> {
        self.all.iter().find(|link| link.number == number)
    }

    /// Returns the bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.iter().flat_map(|link| &link.parts).map(|(_, length)| length).sum()
    }

    /// Finds a symbol that later libraries see. The first library that has it counts.
    pub(crate) fn symbol(&self, name: &str) -> Option<Target> {
        self.all.iter().filter(|link| !link.private).find_map(|link| link.symbol(name))
    }
}

impl Link {
    /// Finds a global symbol.
    pub(crate) fn symbol(&self, name: &str) -> Option<Target> {
        let function = self.functions.get(name).map(|at| (*at, true));
        let (offset, code) = function.or_else(|| self.variables.get(name).map(|at| (*at, false)))?;
        Some(Target::Outside { offset, code })
    }

    /// Says whether a place lies in one of its parts.
    pub(crate) fn holds(&self, place: WindowOffset) -> bool {
        self.parts.iter().any(|(at, length)| (*at..*at + *length).contains(&place))
    }
}

/// Describes the parts of a library for people.
pub(crate) fn segments(library: &Library, image: &LibraryImage) -> Vec<Segment> {
    let describe = |part: &crate::link::library::PartImage| Segment {
        name: format!("library `{}`: {}", library.name, part.name()),
        offset: part.content.offset.bytes(),
        length: part.length,
        protection: part.protection(),
        shared: false,
    };
    image.parts.iter().map(describe).collect()
}

/// Returns the error of a domain whose libraries get no memory.
pub(crate) fn memory(domain: &str, error: Errno) -> MapError {
    MapError::new(&format!("libraries of domain `{domain}`"), error)
}
