//! Images that a user's processes keep for each other: a program that ran before is neither
//! verified nor linked again.
//!
//! An entry is a file with the image of one domain. Its name and its code depend on a secret key
//! (BLAKE3, keyed). The key lies in the user's keyring in the kernel and in no file. So nobody else
//! can make an entry that is taken, not even a domain that may write the directory: it has no
//! system calls for keys. The name stands for the domain's description with all its files, and for
//! the file with this code. So an entry holds just what the same code would make of the same
//! description, after it verified it.
//!
//! Nothing is said of entries that cannot be read or written. Their domains are linked as without
//! them.

use crate::gate::enabled_features;
use crate::link::image::Image;
use crate::load::keep::Keep;
use crate::spec::DomainSpec;
use blake3::{Hash, Hasher};
use linux_keyutils::{KeyError, KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Name of the key.
const KEY: &str = "sfi image store";
/// Bytes of the key, and of a code.
const KEY_SIZE: usize = 32;
/// Most bytes of all entries. The oldest are removed.
const MOST_BYTES: u64 = 256 << 20;
/// The form of entries. Another one has another number.
const FORM: u32 = 3;

/// A directory of images, see [`crate::Builder::image_store`].
#[derive(Clone)]
pub struct ImageStore {
    inner: Arc<Inner>,
}

struct Inner {
    directory: OwnedFd,
    key: Zeroizing<[u8; KEY_SIZE]>,
    /// Names the file with this code, and its state.
    code: String,
}

impl Inner {
    /// Begins a code or a name. The key is wiped when it ends.
    fn hasher(&self) -> Zeroizing<Hasher> {
        Zeroizing::new(Hasher::new_keyed(&self.key))
    }
}

impl std::fmt::Debug for ImageStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageStore").finish_non_exhaustive()
    }
}

impl ImageStore {
    /// Opens the store in a directory, which is made if it does not exist, for this user alone.
    ///
    /// # Errors
    /// The directory cannot be made or belongs to somebody else, or there is no keyring, as in many
    /// containers.
    pub fn open(directory: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        if rustix::fs::fstat(&directory)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Error::new(ErrorKind::PermissionDenied, "the directory belongs to another user"));
        }
        Ok(Self { inner: Arc::new(Inner { directory, key: key()?, code: own_code()? }) })
    }

    /// Returns the place of a domain's image. Only domains that need nothing else of their world
    /// have one.
    pub(crate) fn entry(&self, spec: &DomainSpec, roots: &[String]) -> Option<Entry> {
        let mut hasher = self.inner.hasher();
        write_name(&mut hasher, &self.inner.code, spec, roots)?;
        Some(Entry { store: self.clone(), name: hasher.finalize() })
    }
}

/// Adds what names an image: the domain's description with all its files, and the file with this
/// code. Returns `None` for a domain that needs something else of its world.
pub(super) fn write_name(hasher: &mut Hasher, code: &str, spec: &DomainSpec, roots: &[String]) -> Option<()> {
    if !spec.shared.is_empty() || !spec.holds.is_empty() || !spec.registers.is_empty() || spec.owner.is_some() {
        return None;
    }
    // Each part has its length before it.
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(format!("{FORM} {code} {}", enabled_features()).as_bytes());
    // The text of the description has all its parts but the files.
    add(format!("{roots:?} {:?}", spec.clone().without_files()).as_bytes());
    for file in &spec.files {
        add(format!("{:?} {:?}", file.name, file.kind).as_bytes());
        add(&file.bytes);
    }
    Some(())
}

/// The place of one image in a store.
pub(crate) struct Entry {
    store: ImageStore,
    name: Hash,
}

impl Keep for Entry {
    fn find(&self) -> Option<Image> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = &self.store.inner.directory;
        let file = File::from(rustix::fs::openat(directory, self.file(), flags, Mode::empty()).ok()?);
        let found = file.metadata().ok().filter(|m| m.is_file() && m.len() <= MOST_BYTES)?;
        let mut bytes = Vec::with_capacity(found.len() as usize + 1);
        (&file).take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        let (form, code) = bytes.split_last_chunk()?;
        // The comparison of hashes takes the same time for all.
        if self.code(form) != Hash::from_bytes(*code) {
            return None;
        }
        // Entries that are used stay.
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let same = rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let _ = rustix::fs::futimens(&file, &Timestamps { last_access: same, last_modification: now });
        // The largest part needs no copy.
        let (rest, length) = form.split_last_chunk()?;
        let length = u64::from_le_bytes(*length) as usize;
        let mut image: Image = postcard::from_bytes(rest.get(length..)?).ok()?;
        bytes.truncate(length);
        image.put_text(bytes);
        Some(image)
    }

    /// Keeps an image. Its entry is the text, the rest of the image, the text's length, and the
    /// code.
    fn keep(&self, image: &mut Image) {
        let text = image.take_text();
        let rest = postcard::to_stdvec(image);
        let form = rest.map(|rest| [&text[..], &rest, &(text.len() as u64).to_le_bytes()].concat());
        image.put_text(text);
        let Ok(form) = form else { return };
        // A longer file than the process may write would be a signal.
        let most = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let most = most.map_or(MOST_BYTES / 4, |most| most.min(MOST_BYTES / 4));
        if (form.len() + KEY_SIZE) as u64 <= most && self.write(&form).is_ok() {
            self.store.trim();
        }
    }
}

impl Entry {
    /// Returns the name of the entry's file.
    fn file(&self) -> String {
        self.name.to_hex().to_string()
    }

    /// Returns the code of the entry with these contents.
    fn code(&self, form: &[u8]) -> Hash {
        self.store.inner.hasher().update(self.name.as_bytes()).update(form).finalize()
    }

    fn write(&self, form: &[u8]) -> io::Result<()> {
        let directory = &self.store.inner.directory;
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let temporary = format!("{:016x}.new", u64::from_le_bytes(number));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(form).and_then(|()| file.write_all(self.code(form).as_bytes()));
        let renamed = written.and_then(|()| Ok(rustix::fs::renameat(directory, &temporary, directory, self.file())?));
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
        }
        renamed
    }
}

impl ImageStore {
    /// Removes the entries that were used longest ago, until the rest is small enough.
    fn trim(&self) {
        let directory = &self.inner.directory;
        let Ok(list) = rustix::fs::Dir::read_from(directory) else { return };
        let mut files: Vec<_> = list
            .flatten()
            .filter_map(|entry| {
                let state = rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let regular = rustix::fs::FileType::from_raw_mode(state.st_mode).is_file();
                regular.then(|| (state.st_mtime, state.st_size as u64, entry.file_name().to_owned()))
            })
            .collect();
        files.sort_unstable_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let mut sum = 0;
        for (_, size, name) in files {
            sum += size;
            if sum > MOST_BYTES {
                let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
            }
        }
    }
}

/// Returns the user's key, which is made if there is none.
fn key() -> io::Result<Zeroizing<[u8; KEY_SIZE]>> {
    let failed = |error: KeyError| Error::other(format!("the user's keyring: {error:?}"));
    let ring = KeyRing::from_special_id(KeyRingIdentifier::User, false).map_err(failed)?;
    let mut key = Zeroizing::new([0; KEY_SIZE]);
    let found = match ring.search(KEY) {
        Ok(found) => found,
        Err(KeyError::KeyDoesNotExist) => {
            rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
            let made = ring.add_key(KEY, &key[..]).map_err(failed)?;
            let all = || Permission::ALL;
            let mine = KeyPermissionsBuilder::builder().posessor(all()).user(all()).build();
            made.set_perms(mine).map_err(failed)?;
            made
        }
        Err(error) => return Err(failed(error)),
    };
    match found.read(&mut *key).map_err(failed)? {
        KEY_SIZE => Ok(key),
        _ => Err(Error::other("the key in the user's keyring has another size")),
    }
}

/// Names the file that this code was loaded from, and its state.
pub(super) fn own_code() -> io::Result<String> {
    let address = own_code as *const () as usize;
    // The kernel writes only the lines that are read, and an executable is among the first.
    let maps = BufReader::with_capacity(512, File::open("/proc/self/maps")?);
    // start-end perms offset dev inode path
    let holds = |line: &str| {
        let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        bounds.is_some_and(|(low, high)| (number(low)..number(high)).contains(&address))
    };
    let mut lines = maps.split(b'\n').map(|line| line.map(|line| String::from_utf8_lossy(&line).into_owned()));
    let line = lines.find(|line| line.as_ref().map_or(true, |line| holds(line))).transpose()?.unwrap_or_default();
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let path = words.get(5).map(|path| path.trim_start()).filter(|path| path.starts_with('/'));
    let path = path.ok_or_else(|| Error::other("the file with this code has no path"))?;
    let state = std::fs::metadata(path)?;
    if words.get(4) != Some(&state.ino().to_string().as_str()) {
        return Err(Error::other("the file with this code was replaced"));
    }
    let (size, changed) = (state.size(), (state.mtime(), state.mtime_nsec(), state.ctime(), state.ctime_nsec()));
    Ok(format!("{} {path:?} {} {} {size} {changed:?}", env!("CARGO_PKG_VERSION"), state.dev(), state.ino()))
}
