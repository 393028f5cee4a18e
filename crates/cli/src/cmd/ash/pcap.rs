//! Captures of frames, as tcpdump writes them: the classic format of pcap, for Ethernet.

use anyhow::{Context, bail, ensure};
use std::io::{self, Write};

/// The first word of a capture with microseconds, or with nanoseconds.
const MAGICS: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];
/// The kind of link: Ethernet.
const ETHERNET: u32 = 1;
/// The longest frame that is read.
const LONGEST: usize = 1 << 16;

/// Reads the frames of a capture in either byte order. Frames that were cut are left out, and their
/// number is returned.
pub fn read(bytes: &[u8]) -> anyhow::Result<(Vec<&[u8]>, usize)> {
    let raw = |at: usize| bytes.get(at..at + 4).and_then(|word| <[u8; 4]>::try_from(word).ok());
    let first = raw(0).context("the file is too short for a capture")?;
    let word: fn([u8; 4]) -> u32 = match (u32::from_le_bytes(first), u32::from_be_bytes(first)) {
        (little, _) if MAGICS.contains(&little) => u32::from_le_bytes,
        (_, big) if MAGICS.contains(&big) => u32::from_be_bytes,
        _ => bail!("the file is no capture in the classic format of pcap"),
    };
    let word = |at: usize| raw(at).map(word).context("the capture ends in the middle");
    ensure!(word(20)? & 0xffff == ETHERNET, "the capture is not one of Ethernet frames");
    let (mut at, mut frames, mut cut) = (24, Vec::new(), 0);
    while at < bytes.len() {
        let (kept, length) = (word(at + 8)? as usize, word(at + 12)? as usize);
        ensure!(kept <= LONGEST, "a frame of {kept} bytes");
        let frame = bytes.get(at + 16..at + 16 + kept).context("the capture ends in the middle")?;
        at += 16 + kept;
        if kept == length { frames.push(frame) } else { cut += 1 }
    }
    Ok((frames, cut))
}

/// Writes frames as a capture, without times.
pub fn write<'f>(mut out: impl Write, frames: impl IntoIterator<Item = &'f [u8]>) -> io::Result<()> {
    let words = [MAGICS[0], 4 << 16 | 2, 0, 0, LONGEST as u32, ETHERNET];
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
    for frame in frames {
        let words = [0, 0, frame.len() as u32, frame.len() as u32];
        words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        out.write_all(frame)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, [&b"one"[..], b"", b"three"]).unwrap();
        bytes
    }

    #[test]
    fn a_capture_is_read_as_it_was_written() {
        let bytes = capture();
        assert_eq!(read(&bytes).unwrap(), (vec![&b"one"[..], b"", b"three"], 0));
        // The other byte order, and a frame that was cut.
        let mut other = bytes.clone();
        // The two halves of a word that holds the version swap, too, but nobody reads them.
        for at in (0..40).step_by(4) {
            other[at..at + 4].reverse();
        }
        let swapped = &mut other[36..40];
        swapped.copy_from_slice(&9_u32.to_be_bytes());
        assert_eq!(read(&other[..43]).unwrap(), (vec![], 1));
    }

    #[test]
    fn damaged_captures_are_refused() {
        let bytes = capture();
        let wholes = [24, 43, 59];
        for length in (0..bytes.len()).filter(|length| !wholes.contains(length)) {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        for (at, value) in [(0, 0), (20, 2), (35, 0x80)] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
    }
}
