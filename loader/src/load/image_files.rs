//! Images that the processes of a host pass to each other as sealed memory files, such as the
//! backends of a database. A domain that one of them loaded is neither verified nor linked again,
//! and its text lies in memory once.
//!
//! A file is the text as it is mapped, the rest of the image, and the image's name. The host keeps
//! the files for its processes ([`ImageFiles`]). A file is taken only if nobody can change it any
//! more, it belongs to this user, and it has the name that this process computes from the domain's
//! description with all its files and from the file with this code. So it holds what the same code
//! made of the same description, after it verified it. A domain has no way to make a memory file,
//! nor to tell the host of one.

use crate::link::image::Image;
use crate::load::image_store::{own_code, write_name};
use crate::load::keep::Keep;
use crate::spec::DomainSpec;
use crate::vm::sealed_file;
use blake3::{Hash, Hasher};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a name.
const NAME_SIZE: usize = 32;
/// Bytes after the rest of the image: where it starts, and the name.
const TAIL: usize = 8 + NAME_SIZE;
/// Most bytes of a file.
const MOST_BYTES: u64 = 64 << 20;

/// Keeps images for the processes of a host, see [`crate::Builder::image_files`].
pub trait ImageFiles: Send + Sync {
    /// Returns the file that some process kept under this name.
    fn find(&self, name: &[u8; NAME_SIZE]) -> Option<OwnedFd>;
    /// Keeps a file under this name.
    fn keep(&self, name: &[u8; NAME_SIZE], file: OwnedFd);
}

/// The place of one image.
pub(crate) struct Entry {
    files: Arc<dyn ImageFiles>,
    name: Hash,
}

impl Entry {
    /// Returns the place of a domain's image. Only domains that need nothing else of their world
    /// have one.
    pub(crate) fn new(files: &Arc<dyn ImageFiles>, spec: &DomainSpec, roots: &[String]) -> Option<Self> {
        let mut hasher = Hasher::new();
        write_name(&mut hasher, &own_code().ok()?, spec, roots)?;
        Some(Self { files: Arc::clone(files), name: hasher.finalize() })
    }

    /// Reads the image from a file whose text is mapped later.
    fn read(&self, file: OwnedFd) -> Option<Image> {
        let state = rustix::fs::fstat(&file).ok()?;
        let size = u64::try_from(state.st_size).ok().filter(|size| *size <= MOST_BYTES)?;
        if state.st_uid != rustix::process::geteuid().as_raw() || !sealed_file::is_sealed(&file) {
            return None;
        }
        let end = size.checked_sub(TAIL as u64)?;
        let file = File::from(file);
        let tail = read(&file, end, TAIL)?;
        let (start, name) = tail.split_first_chunk()?;
        if name != self.name.as_bytes() {
            return None;
        }
        let start = u64::from_le_bytes(*start);
        let rest = read(&file, start, usize::try_from(end.checked_sub(start)?).ok()?)?;
        let mut image: Image = postcard::from_bytes(&rest).ok()?;
        if image.text_room() > start {
            return None;
        }
        image.text_file = Some(file.into());
        Some(image)
    }
}

impl Keep for Entry {
    fn find(&self) -> Option<Image> {
        self.read(self.files.find(self.name.as_bytes())?)
    }

    /// Keeps an image whose text was verified as it runs, if instances may share the text.
    fn keep(&self, image: &mut Image) {
        if !image.shares_text() {
            return;
        }
        let text = image.take_text();
        let rest = postcard::to_stdvec(image);
        // No byte behind the text is mapped with it.
        let start = image.text_room().max(text.len() as u64);
        let mut bytes = text.clone();
        image.put_text(text);
        let Ok(rest) = rest else { return };
        bytes.resize(start as usize, 0);
        bytes.extend_from_slice(&rest);
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        if bytes.len() as u64 > MOST_BYTES {
            return;
        }
        if let Ok(Some(file)) = sealed_file::seal(c"image", &bytes, true) {
            self.files.keep(self.name.as_bytes(), file);
        }
    }
}

/// Reads this many bytes of a file.
fn read(file: &File, at: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}
