//! Images that processes keep for each other: one that is found is the one that was verified, and
//! nobody without the key can make another.

mod common;
use common::{assemble, function};
use sfi_loader::{Access, DomainSpec, ImageStore, Mode, TypedFn, World};
use std::fs;
use std::path::{Path, PathBuf};

/// A domain whose function returns a number that lies in its text.
fn spec(number: u32) -> DomainSpec {
    let text = function("f", &format!("mov ${number},%eax\nadd shift(%rip),%eax\nret"))
        + &function("store", "mov %eax,%gs:(%edi)\nret");
    DomainSpec::new("d").object("o.o", assemble(&(text + ".data\n.globl shift\nshift: .long 1000\n")))
}

/// Runs the function of a domain. Returns its result, and the places in the window, which are equal
/// for two runs only if the second one took the image of the first.
fn run(store: &ImageStore, spec: DomainSpec) -> (u64, Vec<(String, u64)>) {
    let mut world = World::builder().domain(spec).image_store(store.clone()).build().unwrap();
    let places = world.domain("d").unwrap().segments().iter().map(|s| (s.name.clone(), s.offset)).collect();
    let f: TypedFn<fn() -> u64> = world.domain("d").unwrap().export("f").unwrap();
    (f.call(&mut world, ()).unwrap(), places)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Opens a store. The kernel must have keyrings for the user, which some containers do not allow.
fn open(directory: &Path) -> Option<ImageStore> {
    let store = ImageStore::open(directory);
    store.inspect_err(|error| eprintln!("SKIPPED: no store of images here: {error}")).ok()
}

#[test]
fn an_image_is_taken_for_the_same_domain_only() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = open(directory.path()) else { return };
    let first = run(&store, spec(1));
    assert_eq!(first.0, 1001);
    assert_eq!(entries(directory.path()).len(), 1);
    assert_eq!(run(&store, spec(1)), first);
    assert_eq!(run(&open(directory.path()).unwrap(), spec(1)), first);
    assert_eq!(entries(directory.path()).len(), 1);
    // Each of these is another domain.
    let (number, other) = run(&store, spec(2));
    assert_eq!(number, 1002);
    assert_ne!(other, first.1);
    // No entry of another mode hides that the object does not satisfy this one.
    assert!(World::builder().domain(spec(1).mode(Mode::Match)).image_store(store.clone()).build().is_err());
    for (index, spec) in [spec(1).memory(1 << 20), spec(1).stack(2 << 20), spec(1).fibers(3)].into_iter().enumerate() {
        assert_ne!(run(&store, spec).1, first.1);
        assert_eq!(entries(directory.path()).len(), 3 + index);
    }
    // A seed decides the places, and regions and entry points belong to a world.
    let count = entries(directory.path()).len();
    let seeded = World::builder().domain(spec(1)).seed([7; 32]).image_store(store.clone()).build().unwrap();
    assert_ne!(seeded.domain("d").unwrap().segments()[0].offset, first.1[0].1);
    let shared = spec(1).shared("r", "region", Access::Read);
    World::builder().region("region", 4096).domain(shared).image_store(store.clone()).build().unwrap();
    World::builder().domain(spec(1)).domain(DomainSpec::new("e")).image_store(store).build().unwrap();
    assert_eq!(entries(directory.path()).len(), count);
}

/// An attacker who can write the directory, as a domain with the wrong grant, tries everything.
#[test]
fn forged_entries_are_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = open(directory.path()) else { return };
    let first = run(&store, spec(1));
    let path = entries(directory.path()).remove(0);
    let good = fs::read(&path).unwrap();
    run(&store, spec(2));
    let other = entries(directory.path()).into_iter().find(|p| *p != path).unwrap();
    let length = good.len();
    let mut tries = vec![Vec::new(), good[1..].to_vec(), good[..length - 1].to_vec(), [&good[..], &[0]].concat()];
    // The code that is good for another name.
    tries.push(fs::read(&other).unwrap());
    // The constant in the text, and bytes everywhere.
    let at = good.windows(5).position(|w| w == [0xb8, 1, 0, 0, 0]).expect("the text lies in the entry");
    tries.extend((0..length).step_by(97).chain([at + 1, length - 40, length - 33, length - 1]).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 2;
        bytes
    }));
    tries.push(vec![0; 64]);
    for (number, bytes) in tries.into_iter().enumerate() {
        fs::write(&path, bytes).unwrap();
        let (result, places) = run(&store, spec(1));
        assert_eq!(result, 1001, "try {number}");
        assert_ne!(places, first.1, "try {number} was taken");
        assert_eq!(run(&store, spec(1)).1, places, "try {number} was replaced by a good entry");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(run(&store, spec(1)), first, "the entry itself is taken");
    // Links and directories in the place of an entry.
    fs::rename(&path, directory.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(directory.path().join("elsewhere"), &path).unwrap();
    assert_ne!(run(&store, spec(1)).1, first.1);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(run(&store, spec(1)).0, 1001);
}

/// Objects that the verifier refuses leave no entry.
#[test]
fn refused_domains_leave_no_entry() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = open(directory.path()) else { return };
    let bad = DomainSpec::new("d").object("o.o", assemble(&function("f", "syscall\nret")));
    assert!(World::builder().domain(bad).image_store(store).build().is_err());
    assert_eq!(entries(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_of_another_user_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    if open(directory.path()).is_none() || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a directory away");
        return;
    }
    std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
    assert!(ImageStore::open(directory.path()).is_err());
}
