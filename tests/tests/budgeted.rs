//! Budgeted rewrites: they are proved and accepted, compute what others compute, and end.

use sfi_contract::note::Note;
use sfi_contract::{Mode, names};
use sfi_loader::{CallError, DomainSpec, FaultKind, TypedFn, World};
use sfi_rewriter::{Options, Reason};
use sfi_validator::{Failure, Validation};
use std::path::{Path, PathBuf};
use std::process::Command;

const MODES: [Mode; 2] = [Mode::Write, Mode::Full];

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder)
}

/// Compiles a file with gcc.
fn compile(source: &Path, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let object = folder.path().join("out.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-c", "-fPIC", "-fno-stack-protector", "-w", "-I"])
        .arg(fixtures("rt"))
        .args(flags)
        .arg("-o")
        .arg(&object)
        .arg(source);
    assert!(gcc.status().expect("gcc is needed").success(), "{}", source.display());
    std::fs::read(object).expect("the object")
}

fn kernels(level: &str) -> Vec<u8> {
    compile(&fixtures("budget/kernels.c"), &[level, "-ffixed-r14", "-fno-tree-loop-distribute-patterns"])
}

fn rewrite(object: &[u8], mode: Mode, budget: bool, validation: Validation) -> Result<Vec<u8>, Failure> {
    sfi_validator::rewrite(object, &Options { mode, budget, ..Options::default() }, validation)
        .map(|checked| checked.output.bytes)
}

/// Returns the violations of a budgeted object, in words.
fn violations(object: &[u8], mode: Mode) -> Vec<String> {
    let options = sfi_verifier::Options { mode, budget: true, ..Default::default() };
    sfi_verifier::verify(object, &options).expect("readable").violations.iter().map(ToString::to_string).collect()
}

fn world(object: &[u8], mode: Mode, most: Option<u64>) -> World {
    let spec = DomainSpec::new("a").object("kernels.o", object.to_vec()).mode(mode);
    let spec = most.into_iter().fold(spec, |spec, most| spec.instructions(most));
    World::builder().domain(spec).build().expect("it is built")
}

fn function(world: &World, name: &str) -> TypedFn<fn(i64) -> i64> {
    world.domain("a").unwrap().export(name).unwrap()
}

const NAMES: [&str; 12] = [
    "fill", "sum", "checksum", "fib", "mutual", "pointers", "machine", "sort", "matrix", "store", "strings", "straight",
];

#[test]
fn they_compute_what_others_compute() {
    for (level, mode) in ["-O0", "-O1", "-O2", "-O3", "-Os"].into_iter().flat_map(|l| MODES.map(|m| (l, m))) {
        let object = kernels(level);
        let plain = rewrite(&object, mode, false, Validation::Strict).expect("it is rewritten");
        let paying = match rewrite(&object, mode, true, Validation::Strict) {
            Ok(bytes) => bytes,
            Err(failure) => panic!("{level} {mode}: {failure:#?}"),
        };
        assert_eq!(violations(&paying, mode), [""; 0], "{level} {mode}");
        assert_ne!(violations(&plain, mode), [""; 0], "{level} {mode}");
        let mut worlds = [world(&plain, mode, None), world(&paying, mode, Some(1 << 40))];
        for name in NAMES {
            let mut last = 0;
            for n in [0, 1, 2, 5, 14] {
                let results =
                    worlds.each_mut().map(|world| function(world, name).call(world, (n,)).expect("it returns"));
                assert_eq!(results[0], results[1], "{level} {mode} {name}({n})");
                let left = worlds[1].domain("a").unwrap().instructions_left().expect("it has a budget");
                let used = (1 << 40) - left;
                assert!((3..2_000_000).contains(&used), "{level} {mode} {name}({n}): {used}");
                if name == "fib" {
                    assert!(used >= last, "{used} {last}");
                    last = used;
                }
            }
        }
    }
}

#[test]
fn whatever_never_ends_is_ended() {
    for (level, mode) in ["-O0", "-O2"].into_iter().flat_map(|l| MODES.map(|m| (l, m))) {
        let object = rewrite(&kernels(level), mode, true, Validation::Strict).expect("it is rewritten");
        let mut world = world(&object, mode, Some(100_000));
        for (name, n) in
            [("spin", 1), ("fib", 60), ("machine", 1 << 40), ("sum", 1 << 60), ("store", -1), ("forever", 1)]
        {
            match function(&world, name).call(&mut world, (n,)) {
                Err(CallError::Fault(fault)) => {
                    assert_eq!(fault.kind, FaultKind::InstructionBudget, "{level} {mode} {name}");
                    let known = ["twice", "plus", "square", name];
                    assert!(known.iter().any(|name| fault.function.as_deref() == Some(name)), "{name}: {fault}");
                }
                other => panic!("{level} {mode} {name}: {other:?}"),
            }
            world.restart("a").unwrap();
        }
    }
}

#[test]
fn code_without_loops_pays_once() {
    let object = rewrite(&kernels("-O2"), Mode::Write, true, Validation::Strict).expect("it is rewritten");
    let mut world = world(&object, Mode::Write, Some(1000));
    let straight = function(&world, "straight");
    straight.call(&mut world, (5,)).unwrap();
    let used = 1000 - world.domain("a").unwrap().instructions_left().unwrap();
    assert!((4..=9).contains(&used), "{used} instructions");
}

/// Compilers end code that is not reached without an instruction that goes elsewhere. A charge may
/// stand before the last one, and the trap of the charges behind it.
#[test]
fn code_that_falls_off_its_section_can_be_budgeted() {
    let source = fixtures("../rewriter/tests/cases/falls_off.s");
    for mode in MODES {
        let object = rewrite(&compile(&source, &[]), mode, true, Validation::Strict).expect("it is rewritten");
        assert_eq!(violations(&object, mode), [""; 0]);
    }
}

#[test]
fn the_note_says_so() {
    let object = kernels("-O1");
    for budget in [false, true] {
        let bytes = rewrite(&object, Mode::Full, budget, Validation::Skip).expect("it is rewritten");
        let parsed = sfi_verifier::elf::parse(&bytes).expect("readable");
        let note = parsed.sections.iter().find(|section| section.name == names::NOTE_SECTION).expect("a note");
        assert_eq!(Note::decode(note.data), Some(Note::new(Mode::Full, budget)));
    }
}

#[test]
fn code_that_needs_r14_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("r14.s");
    std::fs::write(&source, ".text\n.globl f\nf: push %r14\nmov %rdi,%r14\nmov %r14,%rax\npop %r14\nret\n").unwrap();
    let object = compile(&source, &[]);
    rewrite(&object, Mode::Write, false, Validation::Strict).expect("it is rewritten");
    let Err(Failure::Refused(refusals)) = rewrite(&object, Mode::Write, true, Validation::Strict) else {
        panic!("not refused");
    };
    let matching = rewrite(&object, Mode::Match, true, Validation::Strict);
    assert!(matches!(matching, Err(Failure::Refused(why)) if why[0].detail.contains("mode match")));
    assert_eq!(refusals.len(), 4);
    assert!(
        refusals.iter().all(|r| r.reason == Reason::NoSafeForm && r.detail.contains("-ffixed-r14")),
        "{refusals:?}"
    );
}

/// Each program of the corpus is refused, or proved and accepted.
#[test]
fn the_corpus() {
    let (mut rewritten, mut refused, mut unproved) = (0, Vec::new(), Vec::new());
    for entry in fixtures("corpus").read_dir().expect("the corpus") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a program");
        let own = text.lines().find_map(|line| line.strip_prefix("// flags: ")).unwrap_or_default();
        let flags = ["-O2", "-ffixed-r14", "-mavx2", "-mbmi2", "-mcx16"].into_iter().chain(own.split_whitespace());
        let object = compile(&path, &flags.collect::<Vec<_>>());
        for mode in MODES {
            match rewrite(&object, mode, true, Validation::Differences) {
                Ok(bytes) => {
                    assert_eq!(violations(&bytes, mode), [""; 0], "{} {mode}", path.display());
                    rewritten += 1;
                }
                Err(Failure::NotProved(findings)) => {
                    unproved.push(format!("{} {mode}: {}", path.display(), findings[0].place()));
                }
                Err(Failure::Refused(why)) => {
                    let own = why
                        .iter()
                        .all(|r| ["r14", "flags are needed", "no charge"].iter().any(|w| r.detail.contains(w)));
                    let usual = matches!(rewrite(&object, mode, false, Validation::Skip), Err(Failure::Refused(_)));
                    assert!(own || usual, "{} {mode}: {why:?}", path.display());
                    refused.push(format!("{} {mode}: {}", path.display(), why[0]));
                }
            }
        }
    }
    println!("{rewritten} rewritten, refused: {refused:#?}");
    assert_eq!(unproved, [""; 0]);
    assert!(rewritten > 120 && refused.len() < 40, "{rewritten} rewritten, refused: {refused:#?}");
}
