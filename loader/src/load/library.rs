//! A library in a live window: mapped, sealed, and its text verified where it runs. The domain does
//! not run meanwhile.

use crate::link::error::LinkError;
use crate::link::image::Image;
use crate::link::layout::Part;
use crate::link::library::{LibraryImage, PartImage};
use crate::load::observe;
use crate::spec::DomainSpec;
use crate::vm::address::WindowOffset;
use crate::vm::error::MapError;
use crate::vm::sealed_file;
use crate::vm::window::{Protection, Window, pages};
use rustix::fd::AsFd;
use rustix::io::Errno;
use sfi_verifier::{Checked, FinalText, Verifier, Violation};

/// The bytes between and after sections of text: `int3`, one instruction each.
const PADDING: [u8; pages(1) as usize] = [0xcc; pages(1) as usize];

/// Mappings of a part: its own, and the rest of the reservation that it cuts in two.
pub(crate) const MAPPINGS: u64 = 2;

/// Maps, writes, seals and verifies a library. `slots` are the code places of its own that slots
/// will hold. If it fails, nothing of the library is mapped.
pub(crate) fn raise(
    window: &Window,
    home: (&DomainSpec, &Image),
    library: &LibraryImage,
    slots: &[WindowOffset],
    verifier: &mut Verifier,
) -> Result<Checked, LinkError> {
    let (spec, image) = home;
    let raised = library.parts.iter().try_for_each(|part| map(window, part));
    let raised = raised.map_err(|error| MapError::new(&format!("a library of domain `{}`", spec.name), error).into());
    let verified = raised.and_then(|()| {
        verify(window, image, library, slots, verifier)
            .map_err(|violations| LinkError::FinalText { domain: spec.name.clone(), violations })
    });
    if verified.is_err() {
        for part in &library.parts {
            // A part that cannot be unmapped stays sealed, and nothing leads to it.
            let _ = window.unmap(part.content.offset, part.length);
        }
    }
    verified
}

fn map(window: &Window, part: &PartImage) -> Result<(), Errno> {
    let (at, length, content) = (part.content.offset, part.length, &part.content);
    let protection = part.protection();
    if part.part == Part::Text
        && content.words.is_empty()
        && let Some(file) = sealed_file::seal(c"library", &content.bytes, true)?
    {
        return window.map_file(at, length, protection, file.as_fd(), 0, !observe::observed());
    }
    window.map(at, length, Protection::ReadWrite)?;
    window.write(at, &content.bytes);
    window.rebase(at, &content.words);
    match protection {
        Protection::ReadWrite => Ok(()),
        _ => window.protect(at, length, protection),
    }
}

/// Verifies a library's text as it will run. Its branches reach its own boundaries, or places of
/// the domain that its symbols mean. All its global functions, its initialisers and finalisers, and
/// all code places that slots will hold, are boundaries where no register is saved.
fn verify(
    window: &Window,
    image: &Image,
    library: &LibraryImage,
    slots: &[WindowOffset],
    verifier: &mut Verifier,
) -> Result<Checked, Vec<Violation>> {
    let (at, used) = library.text;
    if used == 0 {
        return Ok(Checked::default());
    }
    let mut bytes = vec![0; pages(used) as usize];
    window.read(at, &mut bytes);
    // The rest of the last page is `int3` only, so it breaks no rule and nothing runs through it.
    let (text, rest) = bytes.split_at(used as usize);
    let text = if PADDING.starts_with(rest) { text } else { &bytes };
    let own = library.functions.values().chain(&library.initialisers).chain(&library.finalisers);
    let targets = slots.iter().chain(own);
    let text = FinalText {
        bytes: text,
        offset: at.bytes(),
        gateways: &library.gateways.iter().map(|place| place.bytes()).collect::<Vec<_>>(),
        slots: &targets.map(|place| place.bytes()).collect::<Vec<_>>(),
        anchors: image.anchors,
    };
    verifier.verify_text(&text)
}
