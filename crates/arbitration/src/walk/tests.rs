//! Attempts to get around the grants: special files, the kernel's file systems, read-only
//! directories inside others, and entries that change meanwhile.

use super::*;
use crate::tree::with_devices;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn grant(host: &Path, guest: &str, writable: bool) -> Preopen {
    Preopen::open(host, guest, writable).expect("a directory")
}

/// Opens a path of a tree.
fn open(tree: &Tree, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let changes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC);
    let intent = if changes { Intent::Change } else { Intent::Read };
    tree.look_up("", path, Last::Follow, intent)?.open(flags, Mode::from_raw_mode(0o600)).map(|(fd, _)| fd)
}

fn entry(tree: &Tree, path: &str) -> Result<(), Errno> {
    tree.look_up("", path, Last::Keep, Intent::Change)?.entry().map(drop)
}

const WAYS: [OFlags; 6] = [
    OFlags::RDONLY,
    OFlags::WRONLY,
    OFlags::RDWR,
    OFlags::RDWR.union(OFlags::TRUNC),
    OFlags::RDWR.union(OFlags::CREATE),
    OFlags::RDONLY.union(OFlags::NONBLOCK),
];

/// Returns the tree of a domain with these grants.
fn tree_of(grants: Vec<Preopen>) -> Tree {
    Tree::new(with_devices(grants, false))
}

#[test]
fn special_files_are_closed_and_nobody_waits_for_them() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::from_raw_mode(0o666)).expect("FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("socket");
    symlink("fifo", at("link")).expect("link");
    let tree = tree_of(vec![grant(directory.path(), "/d", true)]);
    let start = Instant::now();
    for name in ["/d/fifo", "/d/socket", "/d/link"] {
        for flags in WAYS {
            assert_eq!(open(&tree, name, flags).map(drop), Err(Errno::ACCES), "{name} {flags:?}");
        }
        assert!(tree.look_up("", name, Last::Follow, Intent::Read).expect("found").target().is_ok());
    }
    assert!(start.elapsed() < Duration::from_secs(60), "waited");
}

#[test]
fn no_directory_leads_to_the_kernels_file_systems() {
    let roots = [grant(Path::new("/"), "/", true), grant(Path::new("/"), "/", true).mounts(true)];
    for (crossing, root) in roots.into_iter().enumerate() {
        let tree = tree_of(vec![root]);
        for path in [
            "/proc/self/mem",
            "/proc/self/maps",
            "/proc/self/fd/0",
            "/proc/self/root/etc/passwd",
            "/proc/thread-self/mem",
            "/proc/1/mem",
            "/proc/self/task/../mem",
            "/sys/kernel/uevent_helper",
            "/dev/fd/0",
            "/dev/stdin",
            "/dev/kmsg",
            "/dev/mem",
            "/dev/pts/ptmx",
            "/proc",
            "/sys",
        ] {
            // No file is made or truncated, because this is the machine's own tree.
            for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
                let result = open(&tree, path, flags).map(drop);
                assert!(matches!(result, Err(Errno::ACCES | Errno::NOENT)), "{crossing} {path} {flags:?}: {result:?}");
            }
        }
        assert!(open(&tree, "/dev/null", OFlags::RDWR).is_ok(), "granted by name");
        assert!(open(&tree, "/etc/passwd", OFlags::RDONLY).is_ok());
    }
}

/// The machine's `/dev` is mounted beneath its root, and its file system is an ordinary one.
#[test]
fn paths_cross_into_mounts_only_if_granted() {
    for (root, crossed) in
        [(grant(Path::new("/"), "/", false), false), (grant(Path::new("/"), "/", false).mounts(true), true)]
    {
        let tree = tree_of(vec![root]);
        for path in ["/dev", "/dev/..", "/dev/../dev"] {
            let result = open(&tree, path, OFlags::RDONLY | OFlags::DIRECTORY).map(drop);
            assert_eq!(result, if crossed { Ok(()) } else { Err(Errno::ACCES) }, "{path}");
        }
    }
}

/// The domain may change `data`, but not `data/a/ro`, whatever path leads there.
#[test]
fn read_only_directories_inside_others_are_read_only() {
    let directory = tempfile::tempdir().expect("directory");
    let data = directory.path().join("data");
    fs::create_dir_all(data.join("a/ro/sub")).expect("directories");
    fs::create_dir(data.join("x")).expect("directory");
    fs::write(data.join("a/ro/f"), "kept").expect("file");
    fs::write(data.join("a/ro/sub/g"), "kept").expect("file");
    fs::write(data.join("own"), "").expect("file");
    symlink("a/ro", data.join("link")).expect("link");
    symlink("../a/ro/f", data.join("x/to")).expect("link");
    symlink("f", data.join("a/ro/inner")).expect("link");
    for guest in ["/data/a/ro", "/elsewhere"] {
        let tree = tree_of(vec![grant(&data, "/data", true), grant(&data.join("a/ro"), guest, false)]);
        for way in [
            "a/ro",
            "x/../a/ro",
            "link",
            "x/../link",
            "a/../x/../link",
            "a/./ro",
            "a/ro/sub/..",
            "link/../ro",
            "//a//ro/",
        ] {
            for file in ["f", "sub/g", "inner", "sub/../f", "new", "sub/new"] {
                let path = format!("/data/{way}/{file}");
                for flags in [OFlags::WRONLY, OFlags::RDWR | OFlags::CREATE, OFlags::RDONLY | OFlags::TRUNC] {
                    assert!(open(&tree, &path, flags).is_err(), "{guest} {path} {flags:?}");
                }
                assert!(entry(&tree, &path).is_err(), "{guest} {path}");
            }
            assert!(open(&tree, &format!("/data/{way}/f"), OFlags::RDONLY).is_ok(), "{guest} {way}");
        }
        assert_eq!(open(&tree, "/data/x/to", OFlags::WRONLY).map(drop), Err(Errno::ROFS));
        for path in ["/data/a/ro", "/data/x/../a/ro", "/data/a/ro/", "/data"] {
            assert_eq!(entry(&tree, path), Err(Errno(libc::EBUSY)), "{guest} {path}");
        }
        // The domain may change the directories around the grant, and a move takes the grant along.
        assert!(entry(&tree, "/data/a").is_ok() && entry(&tree, "/data/link").is_ok());
        fs::rename(data.join("a"), data.join("moved")).expect("rename");
        assert_eq!(open(&tree, "/data/moved/ro/f", OFlags::WRONLY).map(drop), Err(Errno::ROFS));
        assert_eq!(entry(&tree, "/data/moved/ro/f"), Err(Errno::ROFS));
        fs::rename(data.join("moved"), data.join("a")).expect("rename");
        assert!(open(&tree, "/data/own", OFlags::RDWR | OFlags::TRUNC).is_ok());
    }
    assert_eq!(fs::read_to_string(data.join("a/ro/f")).expect("text"), "kept");
}

#[test]
fn reading_leaves_no_trace_under_a_read_only_grant() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("f");
    fs::write(&file, "text").expect("file");
    let old = fs::File::open(&file).expect("file");
    let past = std::time::SystemTime::UNIX_EPOCH;
    let times = fs::FileTimes::new().set_accessed(past).set_modified(past + Duration::from_secs(1));
    old.set_times(times).expect("times");
    let tree = tree_of(vec![grant(directory.path(), "/d", false)]);
    let fd = open(&tree, "/d/f", OFlags::RDONLY).expect("opens");
    assert_eq!(rustix::io::read(&fd, &mut [0; 4]), Ok(4));
    assert_eq!(fs::metadata(&file).expect("metadata").atime(), 0);
}

#[test]
fn a_walk_ends() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    symlink("loop", at("loop")).expect("link");
    symlink("b/x", at("a")).expect("link");
    symlink("a/x", at("b")).expect("link");
    fs::create_dir(at("d")).expect("directory");
    let tree = tree_of(vec![grant(directory.path(), "/", true)]);
    for path in ["/loop", "/a", "/b/c"] {
        assert_eq!(open(&tree, path, OFlags::RDONLY).map(drop), Err(Errno(libc::ELOOP)), "{path}");
    }
    assert!(open(&tree, &"d/../".repeat(500), OFlags::RDONLY).is_ok());
    let mut deep = directory.path().to_path_buf();
    for _ in 0..DEPTH + 1 {
        deep.push("d");
        fs::create_dir_all(&deep).expect("directory");
    }
    let start = Instant::now();
    assert_eq!(open(&tree, &"d/".repeat(DEPTH + 1), OFlags::RDONLY).map(drop), Err(Errno::NAMETOOLONG));
    assert!(start.elapsed() < Duration::from_secs(60));
    let long = "x".repeat(256);
    assert_eq!(open(&tree, &long, OFlags::RDWR | OFlags::CREATE).map(drop), Err(Errno::NAMETOOLONG));
}

/// A thread swaps an entry between a directory, a file, a FIFO, and links that lead out or into a
/// read-only directory. It also moves directories in and out of the grant. Meanwhile the domain
/// opens names through the entry.
#[test]
fn swapped_entries_lead_nowhere_else() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["data/ro", "data/dir/deep", "outside/deep", "data/spare"] {
        fs::create_dir_all(at(name)).expect("directory");
    }
    for name in ["f", "data/ro/f", "outside/f", "outside/deep/f"] {
        fs::write(at(name), "closed").expect("file");
    }
    for name in ["data/f", "data/dir/f", "data/dir/deep/f"] {
        fs::write(at(name), "open").expect("file");
    }
    let closed: Vec<u64> = ["f", "data/ro/f", "outside/f", "outside/deep/f"]
        .iter()
        .map(|name| fs::metadata(at(name)).expect("metadata").ino())
        .collect();
    let tree = tree_of(vec![grant(&at("data"), "/", true), grant(&at("data/ro"), "/ro", false)]);
    let done = AtomicBool::new(false);
    let absolute = at("outside");
    let mut opened = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let texts = ["..", "../outside", "ro", "dir", "dir/../ro", "../data/ro", "dir/deep/../../.."];
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                let (new, swap) = (at("data/new"), at("data/s"));
                match round % (texts.len() + 3) {
                    0 => symlink(&absolute, &new).expect("link"),
                    1 => rustix::fs::mkfifoat(rustix::fs::CWD, &new, Mode::from_raw_mode(0o666)).expect("FIFO"),
                    // A directory leaves the grant while the domain may stand in it, and comes
                    // back.
                    2 => {
                        fs::rename(at("data/dir/deep"), at("outside/moved")).expect("rename");
                        fs::rename(at("outside/moved"), at("data/dir/deep")).expect("rename");
                    }
                    n => symlink(texts[n - 3], &new).expect("link"),
                }
                if new.symlink_metadata().is_ok() {
                    fs::rename(&new, &swap).expect("rename");
                }
                round += 1;
            }
        });
        let end = Instant::now() + Duration::from_secs(2);
        let paths = [
            "/s/f",
            "/s/deep/f",
            "/s/../s/f",
            "/s/deep/../f",
            "/s",
            "/dir/deep/../../f",
            "/dir/deep/../../../f",
            "/s/ro/f",
        ];
        for (i, path) in paths.iter().cycle().enumerate() {
            if i % 64 == 0 && Instant::now() >= end {
                break;
            }
            let Ok(fd) = open(&tree, path, OFlags::RDWR) else { continue };
            let stat = rustix::fs::fstat(&fd).expect("stat");
            assert!(!closed.contains(&stat.st_ino), "{path} led to a closed file");
            assert_eq!(file_system::kind(&stat), FileType::RegularFile, "{path}");
            opened += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(opened > 100, "only {opened} were opened: nothing was tested");
    println!("{opened} opened");
}

/// A file that was granted by name keeps its kind. The domain may change the directory around it,
/// and tries to put a link, a FIFO or a device in its place.
#[test]
fn a_granted_file_is_exchanged_for_nothing_else() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let outside = tempfile::NamedTempFile::new().expect("file");
    fs::write(outside.path(), "secret").expect("written");
    for name in ["one", "spare"] {
        fs::write(at(name), name).expect("written");
    }
    symlink(at("one"), at("alias")).expect("link");
    for name in ["one", "alias"] {
        let tree =
            tree_of(vec![grant(directory.path(), "/d", true), Preopen::file(&at(name), "/file", true).expect("file")]);
        let read = || {
            let fd = open(&tree, "/file", OFlags::RDONLY)?;
            std::io::read_to_string(fs::File::from(fd)).map_err(|_| Errno::INVAL)
        };
        assert_eq!(read(), Ok("one".into()));
        // Swaps files as the domain would, by names that it may change.
        let place = |other: &str| {
            assert_eq!((entry(&tree, &format!("/d/{other}")), entry(&tree, "/d/one")), (Ok(()), Ok(())));
            fs::rename(at(other), at("one")).expect("renamed");
        };
        symlink(outside.path(), at("link")).expect("link");
        place("link");
        assert!(read().is_err(), "followed a link to {:?}", read());
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::from_raw_mode(0o666)).expect("FIFO");
        place("fifo");
        for flags in WAYS {
            assert_eq!(open(&tree, "/file", flags).map(drop), Err(Errno::ACCES), "{flags:?}");
        }
        // Another file of the original kind becomes the granted file, because programs replace
        // files so.
        fs::write(at("spare"), "one").expect("written");
        place("spare");
        assert_eq!(read(), Ok("one".into()));
    }
    let null = Preopen::file(Path::new("/dev/stdin"), "/in", false);
    assert!(null.is_ok(), "a link of /proc: {null:?}");
    assert!(Preopen::file(directory.path(), "/x", false).is_err());
    symlink("loop", at("loop")).expect("link");
    assert!(Preopen::file(&at("loop"), "/x", false).is_err());
}

/// A file that was granted as read-only stays so on every path to it.
#[test]
fn a_read_only_file_in_a_writable_directory_stays() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("sub")).expect("directory");
    fs::write(at("sub/file"), "text").expect("written");
    let tree = tree_of(vec![
        grant(directory.path(), "/d", true),
        Preopen::file(&at("sub/file"), "/d/sub/file", false).expect("file"),
    ]);
    let check = |path: &str| {
        assert!(open(&tree, path, OFlags::RDONLY).is_ok(), "{path}");
        for flags in WAYS.into_iter().filter(|flags| *flags != WAYS[0] && *flags != WAYS[5]) {
            assert_eq!(open(&tree, path, flags).map(drop), Err(Errno::ROFS), "{path} {flags:?}");
        }
        assert!(entry(&tree, path).is_err(), "{path}");
        assert!(!tree.look_up("", path, Last::Follow, Intent::Read).expect("found").writable());
    };
    check("/d/sub/file");
    fs::rename(at("sub"), at("other")).expect("renamed");
    check("/d/other/file");
    fs::write(at("other/more"), "text").expect("written");
    assert!(open(&tree, "/d/other/more", OFlags::RDWR).is_ok());
}

#[test]
fn a_file_that_was_swapped_after_the_look_up_is_judged_again() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("file");
    let tree = tree_of(vec![grant(directory.path(), "/d", true)]);
    let found = tree.look_up("", "/d/file", Last::Follow, Intent::Read).expect("found");
    assert!(found.open(OFlags::RDONLY, Mode::empty()).is_ok());
    fs::remove_file(&file).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, Mode::from_raw_mode(0o666)).expect("FIFO");
    assert_eq!(found.open(OFlags::RDONLY, Mode::empty()).map(drop), Err(Errno::ACCES));
}

/// A link to an absolute name leads to a grant of that name, with the rights of that grant, or
/// nowhere.
#[test]
fn absolute_links_stay_in_the_tree_of_the_domain() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["data/sub", "ro/deep", "secret"] {
        fs::create_dir_all(at(name)).expect("directory");
        fs::write(at(name).join("file"), name).expect("file");
    }
    let host = at("secret/file");
    let links = [
        ("file", "/data/sub/file"),
        ("directory", "/data/sub"),
        ("other", "/ro/deep/file"),
        ("above", "/ro"),
        ("slashes", "//ro/./deep//file"),
        ("chain", "directory/../other"),
        ("null", "/dev/null"),
        ("beneath", "/dev/null/x"),
        ("loop", "/data/loop"),
        ("passwd", "/etc/passwd"),
        ("host", host.to_str().expect("text")),
        ("up", "/data/../secret/file"),
        ("root", "/"),
        ("new", "/data/made"),
        ("new_ro", "/ro/made"),
    ];
    for (name, text) in links {
        symlink(text, at("data").join(name)).expect("link");
    }
    let tree = tree_of(vec![grant(&at("data"), "/data", true), grant(&at("ro"), "/ro", false)]);
    let text = |path: &str| {
        let mut text = String::new();
        let file = fs::File::from(open(&tree, path, OFlags::RDONLY)?);
        (&file).read_to_string(&mut text).map(|_| text).map_err(|_| Errno(libc::EISDIR))
    };
    for (path, expected) in [
        ("/data/file", "data/sub"),
        ("/data/directory/file", "data/sub"),
        ("/data/other", "ro/deep"),
        ("/data/above/deep/file", "ro/deep"),
        ("/data/slashes", "ro/deep"),
        ("/data/chain", "ro/deep"),
        ("/data/null", ""),
    ] {
        assert_eq!(text(path).as_deref(), Ok(expected), "{path}");
    }
    for (path, error) in [
        ("/data/beneath", Errno::NOTDIR),
        ("/data/loop", Errno(libc::ELOOP)),
        ("/data/passwd", Errno::NOENT),
        ("/data/host", Errno::NOENT),
        ("/data/up", Errno::ACCES),
        ("/data/root", Errno::ACCES),
        ("/data/above/../data/file", Errno::ACCES),
        ("/data/null/x", Errno::NOTDIR),
    ] {
        assert_eq!(text(path), Err(error), "{path}");
    }
    let write = |path: &str| open(&tree, path, OFlags::WRONLY | OFlags::CREATE).map(drop);
    assert_eq!(write("/data/new"), Ok(()));
    assert!(at("data/made").exists());
    assert_eq!(write("/data/new_ro"), Err(Errno::ROFS));
    assert_eq!(write("/data/other"), Err(Errno::ROFS));
    assert_eq!(write("/data/above/made"), Err(Errno::ROFS));
    assert!(!at("ro/made").exists());
}

/// Directories above the grants lead to the grants and to nothing else.
#[test]
fn directories_above_grants_can_only_be_passed() {
    let directory = tempfile::tempdir().expect("directory");
    fs::write(directory.path().join("f"), "text").expect("file");
    symlink("/a", directory.path().join("above")).expect("link");
    symlink("/a/b/../..", directory.path().join("root")).expect("link");
    let mut tree = tree_of(vec![grant(directory.path(), "/a/b", true)]);
    let mut numbers = Vec::new();
    for (path, name) in [("/", ""), ("/a", "/a"), ("//a/", "/a"), ("/a/b/above", "/a"), ("/dev/../a/.", "/a")] {
        let found = tree.look_up("", path, Last::Follow, Intent::Read).expect(path);
        let stat = *found.target().expect(path).1;
        assert_eq!((stat.st_mode, found.is_above()), (libc::S_IFDIR | 0o111, true), "{path}");
        numbers.push((name, stat.st_ino));
        assert_eq!(found.directory().as_deref(), Ok(name), "{path}");
        for flags in WAYS {
            let error = if flags == WAYS[0] || flags == WAYS[5] { Errno::ACCES } else { Errno::ROFS };
            assert_eq!(open(&tree, path, flags).map(drop), Err(error), "{path} {flags:?}");
        }
        tree.working = name.to_owned();
        assert!(tree.working_directory().expect(path).is_none(), "{path}");
    }
    numbers.dedup();
    assert!(numbers.len() == 2 && numbers[0].1 != numbers[1].1, "{numbers:?}");
    assert_eq!((entry(&tree, "/"), entry(&tree, "/a")), (Err(Errno(libc::EBUSY)), Err(Errno(libc::EBUSY))));
    for path in ["/x", "/a/x", "/a/x/..", "/a/x/../b/f", "/a/b/none"] {
        assert_eq!(open(&tree, path, OFlags::RDONLY).map(drop), Err(Errno::NOENT), "{path}");
    }
    for path in ["/a/b/f", "/a/../a/b/f", "/a/b/above/b/f", "/a/b/above/../a/b/f"] {
        assert_eq!(open(&tree, path, OFlags::RDONLY).map(drop), Ok(()), "{path}");
    }
    // Out of a grant no `..` leads, because the directories on the way may be links.
    for path in ["/a/b/../b/f", "/a/b/root"] {
        assert_eq!(open(&tree, path, OFlags::RDONLY).map(drop), Err(Errno::ACCES), "{path}");
    }
    tree.working = "/a/b".to_owned();
    assert!(tree.working_directory().expect("granted").is_some());
    assert!(tree.look_up("/a/b", "../b/f", Last::Follow, Intent::Read).is_ok());
}
