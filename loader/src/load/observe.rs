//! The text of domains and gates, for debuggers and profilers.
//!
//! One observer for the process, because a debugger and a profiler see the whole process. Nothing
//! here changes what a domain may do. But an observer knows the places of windows, which are
//! secrets, and what it writes down is no secret any more.

use crate::fault::names::{DebugObject, Names};
use crate::gate::depths::SavingText;
use crate::gate::stubs;
use crate::gate::{self, GateCode};
use crate::link::image::Image;
use crate::vm::address::WindowOffset;
use crate::vm::window::Window;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

/// Learns where text lies.
pub trait TextObserver: Send + Sync {
    /// Notes a domain's text, which was verified and is about to run. The value is dropped before
    /// the text is unmapped.
    fn raised(&self, text: &RaisedText<'_>) -> Box<dyn Any + Send + Sync>;
}

static OBSERVER: OnceLock<Box<dyn TextObserver>> = OnceLock::new();

/// Lets an observer see the text of every domain that is loaded from now on. The pages of their
/// text are then copied when they are written. So a debugger can set breakpoints, and other
/// instances do not have them.
///
/// Returns false if there is an observer already.
pub fn observe_text(observer: impl TextObserver + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// Says whether there is an observer.
pub(crate) fn observed() -> bool {
    OBSERVER.get().is_some()
}

/// An observer's record of a text. Dropping it tells the observer that the text goes.
#[derive(Default)]
pub(crate) struct Observed(#[expect(dead_code, reason = "only dropped")] Option<Box<dyn Any + Send + Sync>>);

/// Tells the observer, if there is one, of an image in its window.
pub(crate) fn tell(domain: &str, window: &Window, image: &Image) -> Observed {
    let start = image.trap - stubs::TRAP;
    let text = (start, image.text.0 + image.text.1 - start);
    let own = image.own_depths().texts();
    let saves: Vec<SavingText> =
        if own.is_empty() { Vec::new() } else { [&[SavingText::traps(image.trap)], own].concat() };
    tell_of(domain, window, text, (&saves, &image.names))
}

/// Tells the observer, if there is one, of a text: its first place, and its length in bytes.
/// `facts` are the places where it saves registers, and its names.
pub(crate) fn tell_of(
    domain: &str,
    window: &Window,
    text: (WindowOffset, u64),
    facts: (&[SavingText], &Names),
) -> Observed {
    let start = window.at(text.0).number();
    let ((saves, names), base) = (facts, window.base().number());
    let text = RaisedText { domain, base, text: start..start + text.1, saves, names, window };
    Observed(OBSERVER.get().map(|observer| observer.raised(&text)))
}

/// The text of a domain where it runs.
pub struct RaisedText<'a> {
    domain: &'a str,
    base: u64,
    text: Range<u64>,
    saves: &'a [SavingText],
    names: &'a Names,
    window: &'a Window,
}

impl fmt::Debug for RaisedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaisedText").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl<'a> RaisedText<'a> {
    /// Returns the domain's name. Instances have the name of their domain.
    pub fn domain(&self) -> &'a str {
        self.domain
    }

    /// Returns the addresses of the text: the loader's stubs, then the code of the objects.
    pub fn addresses(&self) -> Range<u64> {
        self.text.clone()
    }

    /// Returns the places where functions have saved registers on the control stack: addresses, and
    /// the number of words above the return address. By address.
    pub fn saves(&self) -> impl Iterator<Item = (Range<u64>, u8)> + use<'a> {
        let base = self.base;
        let all = self.saves.iter().flat_map(SavingText::ranges);
        all.map(move |(range, depth)| (base + range.start..base + range.end, depth))
    }

    /// Returns the functions: address, size in bytes (0 if it is not known), name. By address.
    pub fn functions(&self) -> impl Iterator<Item = (u64, u64, &'a str)> + use<'a> {
        let base = self.base;
        self.names.functions.iter().map(move |(offset, size, name)| (base + offset, *size, name.as_str()))
    }

    /// Returns bytes of the text. `None` outside it.
    pub fn code(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let within = self.text.contains(&address) && size <= self.text.end - address;
        let mut bytes = vec![0; usize::try_from(size).ok().filter(|_| within)?];
        self.window.read(WindowOffset::new(address - self.base), &mut bytes);
        Some(bytes)
    }

    /// Returns the objects with debug information.
    pub fn objects(&self) -> impl Iterator<Item = RaisedObject<'a>> + use<'a> {
        let base = self.base;
        self.names.debug.iter().map(move |object| RaisedObject { base, object })
    }
}

/// An object with debug information. Its bytes are as hostile as its author.
#[derive(Clone, Copy)]
pub struct RaisedObject<'a> {
    base: u64,
    object: &'a DebugObject,
}

impl fmt::Debug for RaisedObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaisedObject").finish_non_exhaustive()
    }
}

impl<'a> RaisedObject<'a> {
    /// Returns the file: a relocatable object, as it was verified.
    pub fn file(&self) -> &'a [u8] {
        &self.object.bytes
    }

    /// Returns the address of a section of text, by its index in the file. `None` for others.
    pub fn address(&self, section: usize) -> Option<u64> {
        let (offset, ..) = self.object.sections.iter().find(|(_, _, index)| *index == section)?;
        Some(self.base + offset)
    }
}

/// Returns the gates' code of this machine.
pub fn gates() -> Vec<GateCode> {
    gate::code(gate::Machine::detect().table())
}
