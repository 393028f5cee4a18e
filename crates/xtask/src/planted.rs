//! `cargo xtask mutants --rewriter`

use crate::setup::{self, cargo};
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The mistakes, one a line.
const LIST: &str = include_str!("../planted/mistakes.txt");
/// The program that makes each mistake in turn.
const DRIVER: &str = include_str!("../planted/driver.rs");
/// The program's place in the copy of the tree.
const DRIVER_FILE: &str = "crates/validator/examples/planted.rs";
/// The switch that the copy of the rewriter gets.
const SWITCH: &str = "
/// The number of the mistake that is made, from 1.
pub static PLANTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Says whether a mistake is made.
pub(crate) fn planted(number: usize) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == number
}
";

/// A mistake in one expression.
pub(crate) struct Mistake {
    /// File in the crate's sources.
    pub file: &'static str,
    /// Text before the line.
    before: &'static str,
    /// The line: before the expression, the expression, after it.
    line: [&'static str; 3],
    wrong: &'static str,
    pub words: &'static str,
}

/// Makes each Nth mistake of the list in a copy of the tree, rewrites objects with it, and writes
/// `docs/PLANTED.md` on request. Fails if a wrong object comes out that neither validator nor
/// verifier notices.
pub(crate) fn run(root: &Path, tree: &Path, each: usize, write: bool) -> anyhow::Result<ExitCode> {
    let mistakes = mistakes(LIST)?;
    plant(&tree.join("rewriter/src"), &mistakes, 1, SWITCH)?;
    std::fs::write(tree.join(DRIVER_FILE), DRIVER)?;
    // Not the folder of the tree itself: Cargo would take the crates with mistakes for its own.
    let target = root.join("target/mutants/target");
    share(&setup::target(root).join("debug"), &target.join("debug"))?;
    let mut build = Command::new(cargo());
    build.args(["build", "--quiet", "-p", "sfi-validator", "--example", "planted"]);
    build.current_dir(tree).env("CARGO_TARGET_DIR", &target);
    ensure!(build.status()?.success(), "the rewriter with mistakes does not compile");

    let objects = objects(root, &root.join("target/mutants/objects"))?;
    let mut command = Command::new(target.join("debug/examples/planted"));
    command.args([mistakes.len(), each].map(|number| number.to_string())).args(&objects);
    let output = command.output()?;
    ensure!(output.status.success(), "the rewriter with mistakes: {}", String::from_utf8_lossy(&output.stderr));
    let mut table = String::from(HEAD);
    let mut missed = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut parts = line.split('\t');
        let number: usize = parts.next().context("a number")?.parse()?;
        let (who, place, words) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let mistake = mistakes.get(number).context("a mistake of the list")?;
        let object = Path::new(place).file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let row = format!("| {} | {} | {who} | {object} | {words} |\n", mistake.file, mistake.words);
        print!("{row}");
        table += &row;
        let noticed = ["validator", "verifier", "only refusals", "rewriter stops"].iter().any(|by| who.starts_with(by));
        if !noticed {
            missed.push(mistake.words);
        }
    }
    ensure!(missed.is_empty(), "neither validator nor verifier notices: {missed:#?}");
    if write {
        std::fs::write(root.join("docs/PLANTED.md"), table)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives one folder of builds what another has of packages from the registry, as links. A package
/// of the same features is not compiled again.
fn share(from: &Path, to: &Path) -> anyhow::Result<()> {
    for folder in ["build", ".fingerprint", "deps"] {
        for entry in std::fs::read_dir(from.join(folder)).into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let own = ["sfi", "libsfi", "xtask"].iter().any(|prefix| name.starts_with(prefix));
            let program = folder == "deps" && !name.contains('.');
            if !own && !program {
                link(&entry.path(), &to.join(folder).join(name))?;
            }
        }
    }
    Ok(())
}

/// Links a file, or all files below a folder, unless they are there.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    if from.is_dir() {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            link(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if !to.exists() {
        std::fs::create_dir_all(to.parent().context("a folder")?)?;
        // Another file system has no links to this one.
        std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop))?;
    }
    Ok(())
}

const HEAD: &str = "\
# Mistakes in the rewriter, and the part that notices each

Written by `cargo xtask mutants --rewriter`. Each row plants one mistake in one phase of the
rewriter and rewrites objects with it until the validator or the verifier refuses a result. The
validator looks first. \"Only refusals\" and \"rewriter stops\" mean that no changed object comes out.

| file of the rewriter | mistake | noticed by | in | words |
| --- | --- | --- | --- | --- |
";

/// Reads a list of mistakes. Lines that begin with `#` are comments.
pub(crate) fn mistakes(list: &'static str) -> anyhow::Result<Vec<Mistake>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |text: &'static str| {
        let parts: Vec<&str> = text.split(" ~ ").collect();
        let [file, before, line, wrong, words] = parts[..] else { bail!("not five parts: {text}") };
        let (head, rest) = line.split_once('«').with_context(|| format!("no expression: {text}"))?;
        let (right, tail) = rest.split_once('»').with_context(|| format!("no expression: {text}"))?;
        Ok(Mistake { file, before, line: [head, right, tail], wrong, words })
    };
    lines.map(read).collect()
}

/// Finds the expression of a mistake in its file; white space does not count.
pub(crate) fn find(source: &str, mistake: &Mistake) -> Option<Range<usize>> {
    let places: Vec<(usize, char)> = source.char_indices().filter(|(_, c)| !c.is_whitespace()).collect();
    let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<char>>();
    let starts = |at: usize, wanted: &[char]| {
        places.get(at..at + wanted.len()).is_some_and(|here| here.iter().map(|(_, c)| c).eq(wanted))
    };
    let search = |from: usize, wanted: &[char]| (from..places.len()).find(|at| starts(*at, wanted));
    let first = search(0, &dense(mistake.before))?;
    let [head, right, tail] = mistake.line.map(dense);
    let at = search(first, &[&head[..], &right, &tail].concat())? + head.len();
    let (last, width) = places[at + right.len() - 1];
    Some(places[at].0..last + width.len_utf8())
}

/// Puts every mistake into the sources of a crate, numbered from `first`. The switch chooses one of
/// them.
pub(crate) fn plant(sources: &Path, mistakes: &[Mistake], first: usize, switch: &str) -> anyhow::Result<()> {
    let mut files: BTreeMap<PathBuf, BTreeMap<(usize, usize), String>> = BTreeMap::new();
    for (number, mistake) in mistakes.iter().enumerate() {
        let path = sources.join(mistake.file);
        let source = std::fs::read_to_string(&path)?;
        let place = find(&source, mistake).with_context(|| format!("{}: {:?}", mistake.file, mistake.line))?;
        let choices = files.entry(path).or_default().entry((place.start, place.end)).or_default();
        *choices += &format!("if crate::planted({}) {{ {} }} else ", first + number, mistake.wrong);
    }
    for (path, places) in files {
        let mut source = std::fs::read_to_string(&path)?;
        for ((start, end), choices) in places.into_iter().rev() {
            let right = source[start..end].to_owned();
            source.replace_range(start..end, &format!("({choices}{{ {right} }})"));
        }
        std::fs::write(path, source)?;
    }
    let library = ["lib.rs", "main.rs"].map(|name| sources.join(name)).into_iter().find(|path| path.exists());
    let library = library.context("a crate")?;
    let source = std::fs::read_to_string(&library)?;
    Ok(std::fs::write(library, source + switch)?)
}

/// Compiles the objects to rewrite: the rewriter's cases, programs of the corpus, exceptions.
fn objects(root: &Path, to: &Path) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(to)?;
    let sources = |folder: &str, extension: &str| -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(root.join(folder))?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<anyhow::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|e| e == extension));
        paths.sort();
        Ok(paths)
    };
    let corpus = root.join("fixtures/corpus");
    let mut units: Vec<(PathBuf, &[&str])> = Vec::new();
    units.extend(sources("rewriter/tests/cases", "s")?.into_iter().map(|path| (path, &[][..])));
    units.extend(sources("fixtures/corpus", "c")?.into_iter().map(|path| {
        let vectors = ["avx2.c", "avx512.c", "gather.c"].iter().any(|name| path.ends_with(name));
        (path, if vectors { &["-O2", "-fPIC", "-march=x86-64-v4"][..] } else { &["-O2", "-fPIC"] })
    }));
    for flags in [&["-O0", "-fPIC"][..], &["-O2", "-fPIC"]] {
        units.push((root.join("crates/xtask/planted/exceptions.cpp"), flags));
        units.push((corpus.join("far_jumps.c"), flags));
    }
    units.push((root.join("crates/xtask/planted/threads.c"), &["-O2", "-fPIC"]));
    units.push((corpus.join("narrow_addresses.c"), &["-O0", "-fno-pic"]));
    units.push((corpus.join("narrow_addresses.c"), &["-O2", "-fno-pic"]));
    let mut objects = Vec::new();
    for (number, (source, flags)) in units.iter().enumerate() {
        let stem = source.file_stem().context("a name")?.to_string_lossy();
        // Cases of refusals give no object.
        if stem.starts_with("refused") {
            continue;
        }
        let object = to.join(format!("{number:03}-{stem}.o"));
        let mut command = Command::new("gcc");
        command.args(["-c", "-w", "-I"]).arg(root.join("fixtures/rt")).args(*flags);
        let status = command.arg(source).arg("-o").arg(&object).status().context("gcc is needed")?;
        ensure!(status.success(), "{} does not compile", source.display());
        objects.push(object);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::{find, mistakes};
    use std::path::Path;

    #[test]
    fn every_mistake_has_its_place_in_the_sources() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rewriter/src");
        let mistakes = mistakes(super::LIST).expect("the list is well-formed");
        assert!(mistakes.len() >= 100, "only {}", mistakes.len());
        for mistake in mistakes {
            let source = std::fs::read_to_string(sources.join(mistake.file)).expect(mistake.file);
            assert!(find(&source, &mistake).is_some(), "{}: {:?} is gone", mistake.file, mistake.words);
        }
    }
}
