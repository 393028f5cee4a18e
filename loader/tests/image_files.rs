//! Images that the processes of a host pass to each other as sealed memory files: one that is found
//! is the one that was verified, and only whole files that nobody can change are taken.

mod common;
use common::{assemble, function};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sfi_loader::{DomainSpec, ImageFiles, Mode, TypedFn, World};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The files as a host keeps them.
#[derive(Default)]
struct Files(Mutex<HashMap<[u8; 32], OwnedFd>>);

impl ImageFiles for Files {
    fn find(&self, name: &[u8; 32]) -> Option<OwnedFd> {
        Some(self.0.lock().unwrap().get(name)?.try_clone().unwrap())
    }

    fn keep(&self, name: &[u8; 32], file: OwnedFd) {
        self.0.lock().unwrap().insert(*name, file);
    }
}

impl Files {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns the bytes of the file that was kept under the only name, or under another one.
    fn bytes(&self, not: Option<&[u8; 32]>) -> ([u8; 32], Vec<u8>) {
        let kept = self.0.lock().unwrap();
        let (name, file) = kept.iter().find(|(name, _)| Some(*name) != not).unwrap();
        let mut file = File::from(file.try_clone().unwrap());
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        (*name, bytes)
    }
}

/// A domain whose function returns a number that lies in its text, and one that lies in its data.
fn spec(number: u32) -> DomainSpec {
    let text = function("f", &format!("mov ${number},%eax\nadd shift(%rip),%eax\nret"))
        + &function("store", "mov %eax,%gs:(%edi)\nret");
    DomainSpec::new("d").object("o.o", assemble(&(text + ".data\n.globl shift\nshift: .long 1000\n")))
}

/// Runs the function of a domain. Returns its result, the places in the window, which are equal for
/// two runs only if the second one took the image of the first, and the file of its text.
fn run(files: &Arc<Files>, spec: DomainSpec) -> (u64, Vec<(String, u64)>, String) {
    let mut world = World::builder().domain(spec).image_files(Arc::clone(files) as _).build().unwrap();
    let domain = world.domain("d").unwrap();
    let places = domain.segments().iter().map(|s| (s.name.clone(), s.offset)).collect();
    let f: TypedFn<fn() -> u64> = domain.export("f").unwrap();
    let base = domain.secret_base();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let text = maps.lines().find(|line| {
        let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        line.contains(" r-x") && (base..base + (4 << 30)).contains(&start)
    });
    // start-end perms offset dev inode path
    let file = text.unwrap().split_whitespace().skip(4).collect::<Vec<_>>().join(" ");
    (f.call(&mut world, ()).unwrap(), places, file)
}

#[test]
fn an_image_is_taken_for_the_same_domain_only_and_its_text_is_shared() {
    let files = Arc::new(Files::default());
    let (number, places, own) = run(&files, spec(1));
    assert_eq!((number, files.count()), (1001, 1));
    let second = run(&files, spec(1));
    assert_eq!((second.0, &second.1, files.count()), (1001, &places, 1));
    assert!(second.2.contains("memfd:image") && own.contains("memfd:text"), "{own}, {}", second.2);
    assert_eq!(run(&files, spec(1)).2, second.2, "one file is mapped by all");
    // Each of these is another domain.
    assert_eq!(run(&files, spec(2)).0, 1002);
    assert_eq!(files.count(), 2);
    let full = World::builder().domain(spec(1).mode(Mode::Match)).image_files(Arc::clone(&files) as _);
    assert!(full.build().is_err(), "no image of another mode hides that the object does not satisfy this one");
    for (index, spec) in [spec(1).memory(1 << 20), spec(1).stack(2 << 20)].into_iter().enumerate() {
        assert_ne!(run(&files, spec).1, places);
        assert_eq!(files.count(), 3 + index);
    }
    // A seed decides the places, and a second domain needs more of its world.
    let two = World::builder().domain(spec(1)).domain(DomainSpec::new("e"));
    for builder in [World::builder().domain(spec(1)).seed([7; 32]), two] {
        builder.image_files(Arc::clone(&files) as _).build().unwrap();
    }
    assert_eq!(files.count(), 4);
}

#[test]
fn refused_domains_are_not_kept() {
    let files = Arc::new(Files::default());
    let bad = DomainSpec::new("d").object("o.o", assemble(&function("f", "syscall\nret")));
    assert!(World::builder().domain(bad).image_files(Arc::clone(&files) as _).build().is_err());
    assert_eq!(files.count(), 0);
}

/// Makes a memory file with these bytes and seals.
fn memory(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    let mut file = File::from(memfd_create("image", MemfdFlags::ALLOW_SEALING).unwrap());
    file.write_all(bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

#[test]
fn only_whole_sealed_files_of_the_name_are_taken() {
    let files = Arc::new(Files::default());
    let (_, places, _) = run(&files, spec(1));
    let (name, good) = files.bytes(None);
    run(&files, spec(2));
    let (_, other) = files.bytes(Some(&name));
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let length = good.len();
    let with_start = |start: u64| {
        let mut bytes = good.clone();
        bytes[length - 40..length - 32].copy_from_slice(&start.to_le_bytes());
        memory(&bytes, all)
    };
    let mut plain = tempfile::tempfile().unwrap();
    plain.write_all(&good).unwrap();
    let tries = [
        ("another name", memory(&other, all)),
        ("a file that can be written", memory(&good, all - SealFlags::WRITE - SealFlags::SEAL)),
        ("a file whose seals are open", memory(&good, all - SealFlags::SEAL)),
        ("a file that can shrink", memory(&good, all - SealFlags::SHRINK)),
        ("a file on a disk", plain.into()),
        ("no bytes", memory(&[], all)),
        ("only a tail", memory(&good[length - 40..], all)),
        ("fewer bytes", memory(&good[..length - 1], all)),
        ("more bytes", memory(&[&good[..], &[0]].concat(), all)),
        ("text without the rest", with_start(length as u64 - 40)),
        ("a rest that starts in the text", with_start(16)),
        ("a rest after the end", with_start(u64::MAX)),
        ("zeros", memory(&vec![0; length], all)),
    ];
    for (what, file) in tries {
        files.keep(&name, file);
        let (number, found, _) = run(&files, spec(1));
        assert_eq!(number, 1001, "{what}");
        assert_ne!(found, places, "{what} was taken");
        // A good one takes its place.
        assert_eq!(run(&files, spec(1)).1, found, "{what}");
    }
    files.keep(&name, memory(&good, all));
    assert_eq!(run(&files, spec(1)).1, places, "the file itself is taken");
}
