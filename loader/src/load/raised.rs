//! An image in a window: raised once, reset as often as one likes. No page is ever writable and executable, and what is sealed never
//! becomes writable again, but for the dispatch slots of IFUNCs while no code of the domain runs (see `choose`).

use crate::link::image::{Content, Image, Source};
use crate::vm::memory::Segment;
use crate::vm::window::{Protection, Window};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use sfi_contract::layout::TCB_CANARY;

/// Maps, writes, seals. `region` gives the memory file of a shared region's segment.
pub fn raise<'f>(
    window: &Window,
    image: &Image,
    rng: &mut ChaCha20Rng,
    region: impl Fn(&Segment) -> Option<BorrowedFd<'f>>,
) -> Result<(), Errno> {
    for segment in image.segments.iter().filter(|s| s.shared) {
        if let Some(file) = region(segment) {
            window.map_file(segment.offset, segment.length, segment.protection, file, 0, true)?;
        }
    }
    for mapping in &image.mappings {
        let (offset, length, protection) = (mapping.offset, mapping.length, mapping.protection);
        match (mapping.source, &image.text_file, &image.data_file) {
            (Source::Text, Some(file), _) => window.map_file(offset, length, protection, file.as_fd(), 0, true)?,
            (Source::Data(at), _, Some(file)) => {
                window.map_file(offset, length, Protection::ReadWrite, file.as_fd(), at, false)?;
            }
            _ => window.map(offset, length, Protection::ReadWrite)?,
        }
    }
    for content in &image.contents {
        write(window, content);
    }
    canary(window, rng);
    for m in image.mappings.iter().filter(|m| m.source != Source::Text && m.protection != Protection::ReadWrite) {
        window.protect(m.offset, m.length, m.protection)?;
    }
    Ok(())
}

/// Makes the writable memory of an instance what it was: no byte of it survives. Shared regions stay.
pub fn reset(window: &Window, image: &Image, rng: &mut ChaCha20Rng) -> Result<(), Errno> {
    for (start, end) in &image.discarded {
        window.discard(*start, end - start)?;
    }
    for (start, end) in &image.zeroed {
        window.zero(*start, end - start);
    }
    for content in image.contents.iter().filter(|c| c.writable) {
        write(window, content);
    }
    canary(window, rng);
    Ok(())
}

/// Writes initial bytes. Stored ones are there already but for the words that depend on the base.
fn write(window: &Window, content: &Content) {
    if !content.stored {
        window.write(content.offset, &content.bytes);
    }
    window.rebase(content.offset, &content.words);
}

/// A stack canary, whose first byte is zero, and a pointer guard, for this instance and this time.
fn canary(window: &Window, rng: &mut ChaCha20Rng) {
    window.write(TCB_CANARY, &(rng.next_u64() & !0xff).to_le_bytes());
    window.write(TCB_CANARY + 8, &rng.next_u64().to_le_bytes());
}
