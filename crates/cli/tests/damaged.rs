//! Gate and loader on damaged files: thousands of objects and archives with changed headers,
//! sections, symbols, relocations, text and members. Both read the same bytes, so they must give
//! the same verdict and name the same broken rules.
//!
//! The damage is drawn from a fixed seed. `SFI_DAMAGED` sets the number of files.

#[path = "../../../tests/src/random.rs"]
mod random;
mod support;

use random::Random;
use serde_json::Value;
use sfi_loader::{BuildError, DomainSpec, LinkError, World};
use std::collections::BTreeMap;
use support::{Bench, sfi};

/// Number of damaged files, unless `SFI_DAMAGED` sets another one.
const FILES: usize = 5000;
/// Number of files in one run of the gate.
const BATCH: usize = 250;

/// Members that need each other, so the loader takes all three.
const SOURCES: [(&str, &str); 3] = [
    (
        "a.o",
        ".text\n.globl f\n.type f,@function\nf:\n\tcall g@PLT\n\tmov d(%rip),%rax\n\tmov %rax,%gs:(%edi)\n\tret\n\
         .data\n.globl p\np: .quad f, h\n.bss\n.lcomm room,64\n",
    ),
    (
        "b.o",
        ".section .text.g,\"axG\",@progbits,g,comdat\n.weak g\n.type g,@function\ng:\n\tand $0xffff8,%eax\n\
         \tcall *%gs:__sfi_dispatch(%eax)\n\tmov h@GOTPCREL(%rip),%rax\n\tret\n.comm shared,32,16\n",
    ),
    (
        "c.o",
        ".text\n.globl h\n.type h,@function\nh:\n\tlea s(%rip),%rax\n\tvpxor %ymm0,%ymm0,%ymm0\n\tret\n\
         .section .rodata.s,\"aMS\",@progbits,1\ns: .string \"text\"\n.section .tdata,\"awT\",@progbits\nt: .quad 1\n\
         .data\n.globl d\nd: .quad 7\n",
    ),
];

/// Reads a little-endian number of eight bytes.
fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight")) as usize)
}

/// Returns a place in an object where damage has an effect: in a header, or in a section.
fn telling(object: &[u8], random: &mut Random) -> usize {
    let (headers, count) = (word(object, 40), usize::from(object[60]));
    let section = headers + 64 * random.below(count);
    match random.below(8) {
        0 => random.below(64),
        1..=3 => section + random.below(64),
        _ => word(object, section + 24) + random.below(word(object, section + 32)),
    }
}

/// Damages one to three places. An archive is damaged in its headers and in its members.
fn damage(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let starts: Vec<usize> =
        original.windows(4).enumerate().filter(|(_, w)| *w == b"\x7fELF").map(|(i, _)| i).collect();
    for _ in 0..=random.below(3) {
        let object = random.pick(&starts);
        let is_archive = original.starts_with(b"!<arch>");
        let at = match random.below(3) {
            0 if is_archive => object - 60 + random.below(60),
            1 if is_archive => random.below(original.len()),
            _ => object + telling(&original[object..], random),
        };
        let new: Vec<u8> = match random.below(6) {
            0 => vec![0xff; 1 + random.below(8)],
            1 => vec![0; 1 + random.below(8)],
            2 => vec![bytes[at.min(bytes.len() - 1)] ^ 1 << random.below(8)],
            3 => [&b"/"[..], b"//", b"#1/9", b"\x1b[2J\n", b"../../x", b"9999999999", b"-1 "][random.below(7)].to_vec(),
            _ => vec![random.next() as u8],
        };
        if let Some(place) = bytes.get_mut(at..at + new.len()) {
            place.copy_from_slice(&new);
        }
    }
    if random.below(12) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

/// A verdict of the gate or the loader on a file: the broken rules of each object, or `None` if an
/// object is unreadable.
type Verdict = Option<BTreeMap<String, Vec<String>>>;

/// Runs the gate and returns its verdict on each file.
fn gate(bench: &Bench, names: &[String]) -> BTreeMap<String, Verdict> {
    let arguments = [vec!["verify", "--json"], names.iter().map(String::as_str).collect()].concat();
    let output = sfi(bench, &arguments).output().expect("sfi runs");
    let code = output.status.code().expect("the gate was not killed");
    let document = serde_json::from_slice(&output.stdout);
    let document: Value = document.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut verdicts: BTreeMap<String, Verdict> = names.iter().map(|n| (n.clone(), Some(BTreeMap::new()))).collect();
    let (mut all_safe, mut all_readable) = (true, true);
    for object in document["objects"].as_array().expect("a list") {
        let name = object["name"].as_str().expect("a name");
        let file = name.split('(').next().expect("a first part");
        let verdict = verdicts.get_mut(file).unwrap_or_else(|| panic!("no such file: {name:?}"));
        all_safe &= object["safe"].as_bool().expect("a verdict");
        if !object["readable"].as_bool().expect("a verdict") {
            all_readable = false;
            *verdict = None;
        } else if let Some(verdict) = verdict {
            let rules = object["violations"].as_array().expect("a list").iter();
            let mut rules: Vec<String> = rules.map(|v| v["rule"].as_str().expect("a rule").to_owned()).collect();
            rules.sort();
            if !rules.is_empty() {
                verdict.insert(name.to_owned(), rules);
            }
        }
    }
    assert_eq!(code, if !all_readable { 2 } else { i32::from(!all_safe) }, "the exit code is the document's sum");
    verdicts
}

/// The loader's verdict on a file.
enum Loaded {
    /// The loader builds a domain, or refuses to link a safe object for another reason.
    Safe {
        built: bool,
    },
    Refused(Verdict),
}

fn load(name: &str, bytes: Vec<u8>, root: &[u8]) -> Loaded {
    let name = name.to_owned();
    let spec = match bytes.starts_with(b"!<") {
        true => DomainSpec::new("a").object("root.o", root.to_vec()).archive(name, bytes),
        false => DomainSpec::new("a").object(name, bytes),
    };
    match World::builder().domain(spec).build() {
        Ok(_) => Loaded::Safe { built: true },
        Err(BuildError::Link(LinkError::Unreadable { .. })) => Loaded::Refused(None),
        Err(BuildError::Link(LinkError::Refused { objects, .. })) => {
            let rules = |object: &sfi_loader::RefusedObject| {
                let mut rules: Vec<String> = object.violations.iter().map(|v| v.rule.id().to_owned()).collect();
                rules.sort();
                rules
            };
            Loaded::Refused(Some(objects.iter().map(|object| (object.name.clone(), rules(object))).collect()))
        }
        Err(BuildError::Link(LinkError::FinalText { violations, .. })) => {
            panic!("{violations:?}: the loader made unsafe text of a safe object")
        }
        Err(_) => Loaded::Safe { built: false },
    }
}

#[test]
fn gate_and_loader_judge_damaged_files_alike() {
    let files = std::env::var("SFI_DAMAGED").map_or(FILES, |n| n.parse().expect("a number"));
    let bench = Bench::new();
    let mut originals: Vec<Vec<u8>> = Vec::new();
    for (name, source) in SOURCES {
        bench.assemble(name, source);
        originals.push(std::fs::read(bench.path(name)).expect("assembled"));
    }
    bench.archive("all.a", &["a.o", "b.o", "c.o"]);
    bench.assemble(
        "root.o",
        ".text\n.globl r\n.type r,@function\nr:\n\tcall f@PLT\n\tcall g@PLT\n\tcall h@PLT\n\tret\n",
    );
    let root = std::fs::read(bench.path("root.o")).expect("assembled");
    let archive = std::fs::read(bench.path("all.a")).expect("an archive");
    assert!(matches!(load("all.a", archive.clone(), &root), Loaded::Safe { built: true }));
    // Half of the files are archives.
    originals.extend(std::iter::repeat_n(archive, originals.len()));
    let mut random = Random(5);
    let (mut safe, mut built, mut refused, mut unreadable, mut differences) = (0, 0, 0, 0, Vec::new());
    for first in (0..files).step_by(BATCH) {
        let damaged: Vec<(String, Vec<u8>)> = (first..files.min(first + BATCH))
            .map(|n| (format!("{n}.bin"), damage(&originals[n % originals.len()], &mut random)))
            .collect();
        for (name, bytes) in &damaged {
            bench.write(name, bytes);
        }
        let names: Vec<String> = damaged.iter().map(|(name, _)| name.clone()).collect();
        let verdicts = gate(&bench, &names);
        for (name, bytes) in damaged {
            let is_archive = bytes.starts_with(b"!<");
            let said = &verdicts[&name];
            let mut differ = |what: &str| differences.push(format!("{name}: {what}; the gate: {said:?}"));
            match (load(&name, bytes, &root), said) {
                (Loaded::Safe { built: yes }, Some(rules)) if rules.is_empty() => {
                    safe += 1;
                    built += u64::from(yes);
                }
                // The loader verifies only the members that the link needs. The gate verifies all
                // of them.
                (Loaded::Safe { built: false }, _) if is_archive => refused += 1,
                (Loaded::Safe { .. }, _) => differ("the loader accepts it"),
                (Loaded::Refused(None), None) => unreadable += 1,
                (Loaded::Refused(None), Some(_)) => differ("the loader cannot read it"),
                (Loaded::Refused(Some(_)), None) if is_archive => refused += 1,
                (Loaded::Refused(Some(theirs)), Some(ours)) => {
                    let same = theirs.iter().all(|(name, rules)| ours.get(name) == Some(rules));
                    match same && (is_archive || theirs.len() == ours.len()) {
                        true => refused += 1,
                        false => differ(&format!("the loader says {theirs:?}")),
                    }
                }
                (Loaded::Refused(Some(theirs)), None) => differ(&format!("the loader says {theirs:?}")),
            }
        }
    }
    println!("{files} files: {safe} safe, {built} of them built, {refused} refused, {unreadable} unreadable");
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert!(built * 20 > files as u64 && refused * 20 > files as u64, "the damage is not the right kind");
}
