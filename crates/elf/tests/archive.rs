//! The archive reader: the members that it finds, and the archives that it cannot read.

use sfi_elf::archive::{is_archive, members, members_in};

fn entry(name: &str, size: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).into_bytes();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    bytes
}

/// Returns an entry whose header gives its true size.
fn member(name: &str, data: &[u8]) -> Vec<u8> {
    entry(name, &data.len().to_string(), data)
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    [b"!<arch>\n".to_vec(), entries.concat()].concat()
}

/// Returns the names and bytes of an archive's members.
fn found(entries: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let archive = archive(entries);
    let all = members_in(&archive).unwrap_or_else(|error| panic!("{error}"));
    all.into_iter().map(|(name, bytes)| (name, bytes.to_vec())).collect()
}

fn names(entries: &[Vec<u8>]) -> Vec<String> {
    found(entries).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn members_of_both_dialects_are_found() {
    let gnu = found(&[
        member("/", b"\0\0\0\0"),
        member("//", b"a_name_beyond_it_all/\n"),
        member("/0", b"one"),
        member("two.o/", b"two"),
        member("#1/8", b"bsd.o\0\0\0three"),
        member("none.o/", b""),
        member("two.o/", b"again"),
    ]);
    let expected: [(&str, &[u8]); 5] = [
        ("a_name_beyond_it_all", b"one"),
        ("two.o", b"two"),
        ("bsd.o", b"three"),
        ("none.o", b""),
        ("two.o", b"again"),
    ];
    assert_eq!(gnu.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect::<Vec<_>>(), expected);
    assert_eq!(names(&[member("/SYM64/", &[0; 8]), member("a.o/", b"a")]), ["a.o"]);
    assert_eq!(names(&[member("//", b"long.o/\n"), member("/0", b"a")]), ["long.o"]);
    for table in ["__.SYMDEF", "__.SYMDEF/", "__.SYMDEF SORTED", "__.SYMDEF_64"] {
        assert_eq!(names(&[member(table, &[0; 8]), member("a.o", b"a")]), ["a.o"], "{table}");
    }
    assert_eq!(names(&[member("#1/20", b"__.SYMDEF SORTED\0\0\0\0table"), member("a.o", b"a")]), ["a.o"]);
    assert_eq!(names(&[]), [""; 0]);
    // The last member may lack its padding.
    let mut bytes = archive(&[member("a.o/", b"odd")]);
    assert_eq!(bytes.pop(), Some(b'\n'));
    assert_eq!(members_in(&bytes).unwrap(), [("a.o".to_owned(), &b"odd"[..])]);
}

/// The place makes a table, and the name does not.
#[test]
fn tables_in_other_places_are_members() {
    for name in ["/", "//", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "__.SYMDEF/"] {
        let hidden = found(&[member("a.o/", b"a"), member(name, b"\x7fELF hidden")]);
        assert_eq!(hidden.len(), 2, "{name}");
        assert_eq!(hidden[1].1, b"\x7fELF hidden", "{name}");
    }
    // Names that only begin like a table's, at the first place too.
    for name in ["__.SYMDEFx.o/", "__.SYMDEF_evil", "/SYM64x/", "#1/12"] {
        let body = if name.starts_with('#') { &b"__.SYMDEF.o\0\x7fELF"[..] } else { b"\x7fELF" };
        match members_in(&archive(&[member(name, body), member("a.o/", b"a")])) {
            Ok(all) => assert_eq!((all.len(), all[0].1), (2, &b"\x7fELF"[..]), "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    // A second table of each kind.
    let two =
        [member("/", &[0; 4]), member("/", b"x"), member("//", b"n.o/\n"), member("//", b"y"), member("/0", b"z")];
    assert_eq!(names(&two[..2]), ["/"]);
    let doubled = [two[0].clone(), two[2].clone(), two[3].clone(), two[4].clone()];
    assert_eq!(names(&doubled), ["//", "n.o"]);
}

#[test]
fn objects_in_the_place_of_tables_are_errors() {
    for name in ["/", "/SYM64/", "//", "__.SYMDEF", "__.SYMDEF SORTED"] {
        let error = members_in(&archive(&[member(name, b"\x7fELF"), member("a.o/", b"a")])).unwrap_err();
        assert!(error.to_string().contains("where a table belongs"), "{name}: {error}");
    }
    assert!(members_in(&archive(&[member("#1/12", b"__.SYMDEF\0\0\0\x7fELF")])).is_err());
    assert!(members_in(&archive(&[member("/", &[0; 4]), member("//", b"\x7fELF")])).is_err());
}

#[test]
fn hostile_headers_are_errors() {
    for hostile in [
        entry("a.o/", "9999999999", b"short"),
        entry("a.o/", "-1", b""),
        entry("a.o/", "+1", b"x"),
        entry("a.o/", " 1", b"x"),
        entry("a.o/", "1 1", b"x"),
        entry("a.o/", "0x1", b"x"),
        entry("a.o/", "", b""),
        entry("/77", "1", b"x"),
        entry("/0", "1", b"x"),
        entry("#1/9", "3", b"abc"),
        entry("#1/+2", "3", b"abc"),
        entry("#1/", "3", b"abc"),
        entry("//", "9999999999", b""),
        entry("a.o/", "1", b"x")[..40].to_vec(),
        vec![b'x'; 60],
    ] {
        assert!(members_in(&archive(std::slice::from_ref(&hostile))).is_err(), "{}", String::from_utf8_lossy(&hostile));
    }
    // A member whose size covers the next header hides that header, and still ends where it says.
    let inner = member("hidden.o/", b"\x7fELF");
    let outer = member("outer.o/", &inner);
    assert_eq!(found(&[outer, member("b.o/", b"b")])[0].1, inner);
    assert!(members_in(b"!<arch>").is_err());
    assert!(members_in(b"").is_err());
    let thin = [b"!<thin>\n".to_vec(), member("a.o/", b"")].concat();
    assert!(is_archive(&thin) && members_in(&thin).unwrap_err().to_string().contains("thin"));
}

#[test]
fn names_are_printable_and_short() {
    let mut entries = vec![member("//", &[b"\x1b[31m\nx.o/\n".to_vec(), vec![b'n'; 4000]].concat())];
    entries.push(member("/0", b"a"));
    entries.push(member("/10", b"b"));
    entries.push(member("a\x1b]0;t\x07.o/", b"c"));
    for name in names(&entries) {
        assert!(!name.contains(char::is_control) && name.len() < 600, "{name:?}");
    }
    // No more than 4,096 bytes of a name are read, so members that share a long name cost little.
    let long = [vec![b'a'; 5000], b"bbbbbbbb/\n".to_vec()].concat();
    let name = names(&[member("//", &long), member("/0", b"a")]).remove(0);
    assert!(name.ends_with('a') && name.len() < 600, "{name}");
    let stored = |length: usize| members_in(&archive(&[member(&format!("#1/{length}"), &vec![b'n'; 6000])])).is_ok();
    assert_eq!((stored(4096), stored(4097), stored(5000)), (true, false, false));
}

#[test]
fn errors_of_the_file_are_errors_of_the_archive() {
    let error = members(100, |_, _| Err(std::io::Error::other("torn"))).unwrap_err();
    assert!(error.to_string().contains("torn"));
}

/// Compares with another reader on random archives. This one finds every object that the other one
/// finds, or it calls the archive unreadable.
#[test]
fn another_reader_finds_no_more_objects() {
    use object::read::archive::ArchiveFile;
    const NAMES: [&str; 16] = [
        "/",
        "//",
        "/SYM64/",
        "__.SYMDEF",
        "__.SYMDEF/",
        "__.SYMDEF SORTED",
        "__.SYMDEFx/",
        "#1/12",
        "#1/0",
        "#1/20",
        "/0",
        "/4",
        "a.o/",
        "a.o",
        "",
        "ARFILENAMES/",
    ];
    const BODIES: [&[u8]; 6] = [
        b"\x7fELF object",
        b"__.SYMDEF\0\0\0\x7fELF",
        b"__.SYMDEF_evil.o\0\0\0\0\x7fELF",
        b"x.o/\ny.o/\n",
        b"\0\0\0\0",
        b"",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let (mut read, mut objects) = (0, 0);
    for _ in 0..200_000 {
        let count = next(5);
        let entries: Vec<Vec<u8>> = (0..count).map(|_| member(NAMES[next(16)], BODIES[next(6)])).collect();
        let mut bytes = archive(&entries);
        // Damages headers or cuts off a piece.
        for _ in 0..next(3) {
            let (at, byte) = (next(bytes.len()), b"0123456789 /\n`"[next(14)]);
            bytes[at] = byte;
        }
        if next(8) == 0 {
            bytes.truncate(bytes.len() - next(bytes.len()));
        }
        let Ok(ours) = members_in(&bytes) else { continue };
        read += 1;
        let Ok(theirs) = ArchiveFile::parse(&*bytes) else { continue };
        for other in theirs.members().map_while(Result::ok) {
            let Ok(data) = other.data(&*bytes) else { continue };
            if data.starts_with(b"\x7fELF") {
                objects += 1;
                assert!(ours.iter().any(|(_, our)| *our == data), "{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
    println!("{read} archives read, {objects} objects found by the other reader");
    assert!(read > 20_000 && objects > 5_000, "{read} {objects}");
}
