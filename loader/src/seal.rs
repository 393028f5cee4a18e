//! Writes an image into its window and seals it. No page is ever writable and executable, and none becomes writable again.

use crate::image::Image;
use crate::memory::Segment;
use crate::select::{line, options};
use crate::window::{Protection, Window};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sfi_contract::Mode;
use sfi_verifier::{FinalText, Usage, verify_text};

/// Maps, writes, protects. `region` gives the memory file of a shared region's segment.
pub fn seal<'f>(
    window: &Window,
    image: &Image,
    region: impl Fn(&Segment) -> Option<BorrowedFd<'f>>,
) -> Result<(), Errno> {
    for segment in &image.segments {
        match region(segment) {
            Some(file) if segment.shared => {
                window.map_shared(segment.offset, segment.length, segment.protection, file)?;
            }
            _ => window.map(segment.offset, segment.length, Protection::ReadWrite)?,
        }
    }
    for content in &image.contents {
        window.write(content.offset, &content.bytes);
    }
    for segment in image.segments.iter().filter(|s| !s.shared && s.protection != Protection::ReadWrite) {
        window.protect(segment.offset, segment.length, segment.protection)?;
    }
    Ok(())
}

/// The second verification: over the bytes of a sealed window, as they will run.
///
/// # Errors
/// The violations, one line each.
pub fn verify(window: &Window, image: &Image, mode: Mode) -> Result<Usage, Vec<String>> {
    let mut bytes = vec![0; image.text.1 as usize];
    window.read(image.text.0, &mut bytes);
    let text = FinalText { bytes: &bytes, offset: image.text.0, gateways: &image.gateways, slots: &image.slots, mode };
    verify_text(&text, &options(mode)).map_err(|violations| violations.iter().map(line).collect())
}

/// Zeroes the writable memory of a domain and writes the initial bytes again. Shared regions stay.
pub fn reload(window: &Window, image: &Image) -> Result<(), Errno> {
    for segment in image.segments.iter().filter(|s| !s.shared && s.protection == Protection::ReadWrite) {
        window.map(segment.offset, segment.length, Protection::ReadWrite)?;
    }
    for content in image.contents.iter().filter(|c| c.writable) {
        window.write(content.offset, &content.bytes);
    }
    Ok(())
}
