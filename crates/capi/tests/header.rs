//! `sfi.h` matches the library: the same functions with the same parameters, the same numbers, and
//! a shared library that exports these functions and nothing else.

use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns all sources of the library, concatenated.
fn sources() -> String {
    std::fs::read_dir(own("src")).unwrap().map(|entry| read(entry.unwrap().path())).collect()
}

/// Puts single spaces between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a C type as Rust writes it.
fn as_rust(c: &str) -> String {
    let c = words(&c.replace('*', " * "));
    if let Some(inner) = c.strip_suffix('*') {
        let inner = inner.trim();
        return match inner.strip_prefix("const ") {
            Some(constant) if !inner.contains('*') => format!("*const {}", as_rust(constant)),
            _ => format!("*mut {}", as_rust(inner)),
        };
    }
    let known = [
        ("char", "c_char"),
        ("void", "c_void"),
        ("int", "c_int"),
        ("size_t", "usize"),
        ("uint64_t", "u64"),
        ("double", "f64"),
        ("float", "f32"),
        ("sfi_status", "Status"),
    ];
    known.iter().find(|(name, _)| *name == c).map_or(c.clone(), |(_, rust)| (*rust).to_owned())
}

/// Returns the functions of the header: name, types of the parameters, result.
fn declared() -> BTreeMap<String, (Vec<String>, String)> {
    let header = read(own("include/sfi.h"));
    let mut all = BTreeMap::new();
    for line in header.split("SFI_API ").skip(2) {
        let (head, rest) = line.split_once('(').unwrap();
        let (parameters, _) = rest.split_once(')').unwrap();
        let at = head.rfind([' ', '*']).unwrap() + 1;
        let (result, name) = (head[..at].trim(), head[at..].trim());
        let kind = |parameter: &str| {
            let at = parameter.rfind([' ', '*']).unwrap() + 1;
            as_rust(&parameter[..at])
        };
        let kinds = if parameters == "void" { Vec::new() } else { parameters.split(',').map(kind).collect() };
        let result = if result == "void" { String::new() } else { as_rust(result) };
        assert!(all.insert(name.to_owned(), (kinds, result)).is_none(), "{name} is declared twice");
    }
    all
}

/// Returns the functions of the library as the sources write them.
fn defined() -> BTreeMap<String, (Vec<String>, String)> {
    let mut all = BTreeMap::new();
    for part in sources().split("fn sfi_").skip(1) {
        let part = format!("sfi_{part}");
        let (name, rest) = part.split_once('(').unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let kind = |parameter: &str| Some(words(parameter.split_once(':')?.1).replace("crate::", ""));
        let mut kinds: Vec<String> = parameters.split(',').filter_map(kind).collect();
        let result = match rest.split_once('{').unwrap().0.trim().strip_prefix("->") {
            Some(result) => words(result),
            None => String::new(),
        };
        // The functions of the macros: those with an error have it after their parameters, the
        // others are accessors of an error.
        let accessor = name.starts_with("sfi_error_") && kinds.is_empty();
        let frees = name.ends_with("_free") && name != "sfi_world_free";
        let written_out = rest.split_once('{').unwrap().0.contains("->") || frees;
        let result = match (accessor, written_out) {
            (true, _) => {
                kinds.push("*const sfi_error".into());
                result
            }
            (false, true) => result,
            (false, false) => {
                kinds.push("*mut *mut sfi_error".into());
                "Status".into()
            }
        };
        assert!(all.insert(name.to_owned(), (kinds, result)).is_none(), "{name} is defined twice");
    }
    all
}

#[test]
fn the_header_declares_what_the_library_defines() {
    let (declared, defined) = (declared(), defined());
    assert!(declared.len() > 40, "{declared:?}");
    for (name, function) in &declared {
        assert_eq!(Some(function), defined.get(name), "{name}");
    }
    assert_eq!(declared.len(), defined.len(), "{:?}", defined.keys().filter(|n| !declared.contains_key(*n)));
}

#[test]
fn the_numbers_are_the_same() {
    let header = read(own("include/sfi.h"));
    let number = |line: &str, prefix: &str, end: char| {
        let (name, value) = line.trim().strip_prefix(prefix)?.split_once('=')?;
        let name = name.split(':').next()?.trim().to_owned();
        Some((
            name,
            value.split(end).next()?.trim().trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<i32>().ok()?,
        ))
    };
    let c: BTreeMap<String, i32> = header
        .lines()
        .filter_map(|line| number(line, "SFI_", ','))
        .filter(|(n, _)| !n.starts_with("ADDRESS") && !n.starts_with("SHARE"))
        .collect();
    let rust: BTreeMap<String, i32> =
        sources().lines().filter_map(|line| number(line, "pub(crate) const ", ';')).collect();
    assert_eq!(c.len(), 22, "{c:?}");
    assert_eq!(c, rust);
}

/// Returns the path of a library. The libraries lie beside the tests: Cargo makes all forms of a
/// package's library at once.
pub fn library(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join(name)
}

#[test]
fn the_shared_library_exports_the_header() {
    let bytes = std::fs::read(library("libsfi.so")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols().filter(|s| s.is_definition() && s.is_global());
    let exported: BTreeSet<String> = symbols.map(|s| s.name().unwrap().to_owned()).collect();
    assert_eq!(exported, declared().into_keys().collect());
}

/// The header compiles as C and C++ with all warnings, and the structures have the same layout.
#[test]
fn compilers_take_the_header() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("sizes.c");
    let text = "#include \"sfi.h\"\n\
        #define SAME(a, b) typedef char same_##a[(sizeof(struct a) == (b)) ? 1 : -1]\n\
        SAME(sfi_argument, 24); SAME(sfi_limits, 16); SAME(sfi_record, 32); SAME(sfi_registers, 168);\n\
        typedef char value[sizeof(sfi_value) == 8 ? 1 : -1];\n\
        typedef char status[sizeof(sfi_status) == 4 ? 1 : -1];\n";
    std::fs::write(&source, text).unwrap();
    for (compiler, language) in [("gcc", "c"), ("g++", "c++"), ("clang", "c")] {
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language, "-I"]);
        assert!(command.arg(own("include")).arg(&source).status().expect(compiler).success(), "{compiler}");
    }
    assert_eq!(size_of::<sfi::sfi_argument>(), 24);
    assert_eq!(size_of::<sfi::sfi_limits>(), 16);
    assert_eq!(size_of::<sfi::sfi_record>(), 32);
    assert_eq!(size_of::<sfi::sfi_registers>(), 168);
    assert_eq!(size_of::<sfi::sfi_value>(), 8);
}
