//! Bytes that were overwritten in a segment, for the case that the handler does not end well.

use sfi_loader::{MemoryError, View};

/// Most bytes that the trusted calls of one message overwrite.
pub const MOST_UNDO: usize = 1 << 20;

/// The log of one message.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// The bytes that were overwritten, and room that earlier messages used.
    bytes: Vec<u8>,
    used: usize,
    entries: Vec<(usize, usize)>,
}

impl Undo {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.entries.clear();
    }

    /// Keeps bytes that will be overwritten. Returns false if they are too many.
    pub(crate) fn keep(&mut self, view: &View, at: usize, length: usize) -> Result<bool, MemoryError> {
        let (start, end) = (self.used, self.used.saturating_add(length));
        if end > MOST_UNDO {
            return Ok(false);
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        view.read(at, &mut self.bytes[start..end])?;
        self.used = end;
        self.entries.push((at, length));
        Ok(true)
    }

    /// Puts everything back, the last bytes first.
    pub(crate) fn restore(&mut self, view: &mut View) {
        while let Some((at, length)) = self.entries.pop() {
            let start = self.used - length;
            view.write(at, &self.bytes[start..self.used]).expect("the bytes were read there");
            self.used = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfi_loader::RegionFile;

    #[test]
    fn overlapping_writes_are_undone_in_reverse() {
        let mut view = RegionFile::create(4096).unwrap().view().unwrap();
        view.write(0, b"abcdefgh").unwrap();
        let mut undo = Undo::default();
        for (at, bytes) in [(0, &b"1234"[..]), (2, b"5678"), (0, b"9")] {
            assert_eq!(undo.keep(&view, at, bytes.len()), Ok(true));
            view.write(at, bytes).unwrap();
        }
        let read = |view: &View| {
            let mut bytes = [0; 8];
            view.read(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(&read(&view), b"925678gh");
        undo.restore(&mut view);
        assert_eq!(&read(&view), b"abcdefgh");
        assert!(undo.keep(&view, 4090, 10).is_err());
        assert_eq!(undo.keep(&view, 0, MOST_UNDO + 1), Ok(false));
        undo.restore(&mut view);
        assert_eq!(&read(&view), b"abcdefgh");
    }
}
