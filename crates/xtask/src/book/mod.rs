//! `cargo xtask book`

mod chart;
#[cfg(test)]
mod convert;
mod link;

use crate::measured::{self, Coverage, Program, Programs};
use crate::{setup, tools};
use anyhow::{Context, ensure};
use chart::Bar;
use sfi_contract::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Makes the documentation site of the repository's documents, with the explanations of all rules,
/// and plots of the figures in docs/measured. Its first page is `target/book/html/index.html`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the sources of the site, for an mdBook of your own
    #[arg(long)]
    sources: bool,
}

const TOOLS: [tools::Tool; 1] = [("mdbook", "0.5.4")];

/// Parts of the site with their pages: titles, and files of the repository.
const PARTS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Using it",
        &[
            ("Guide", "docs/GUIDE.md"),
            ("Likely mistakes", "docs/MISTAKES.md"),
            ("Refusals", "docs/REFUSALS.md"),
            ("Threads", "docs/THREADS.md"),
            ("Handlers of messages", "docs/HANDLERS.md"),
            ("Data pipes", "docs/DILP.md"),
            ("Glossary", "docs/GLOSSARY.md"),
        ],
    ),
    (
        "Integrations and examples",
        &[
            ("Examples", "examples/README.md"),
            ("A host in Rust", "examples/rust/README.md"),
            ("A host in C", "examples/c/README.md"),
            ("A host in C++", "examples/cpp/README.md"),
            ("A host with RLBox", "examples/rlbox/README.md"),
            ("Handlers in C", "examples/ash/README.md"),
            ("A plugin in each build system", "examples/build/README.md"),
            ("Build systems", "integrations/build/README.md"),
            ("RLBox", "integrations/rlbox/README.md"),
            ("PostgreSQL", "integrations/postgresql/README.md"),
            ("Python", "integrations/python/README.md"),
            ("A fleet", "integrations/ray/README.md"),
        ],
    ),
    (
        "How it works",
        &[
            ("Design", "DESIGN.md"),
            ("The contract", "docs/CONTRACT.md"),
            ("The rules", RULES),
            ("Security", "docs/SECURITY.md"),
            ("Proofs of rewrites", "docs/VALIDATOR.md"),
            ("Architecture", "docs/ARCHITECTURE.md"),
        ],
    ),
    (
        "Measured",
        &[
            ("Plots", PLOTS),
            ("Results", "docs/RESULTS.md"),
            ("Coverage", "docs/COVERAGE.md"),
            ("Suites of other projects", "docs/SUITES.md"),
            ("The torture suite of gcc", "docs/TORTURE.md"),
            ("Rules left out", "docs/MUTANTS.md"),
            ("Planted mistakes", "docs/PLANTED.md"),
        ],
    ),
    (
        "The project",
        &[("Releases", "docs/RELEASES.md"), ("Changelog", "CHANGELOG.md"), ("Contributing", "CONTRIBUTING.md")],
    ),
];
/// Pages that are made here.
const RULES: &str = "rules.md";
const PLOTS: &str = "plots.md";

const CONFIGURATION: &str = "\
[book]
title = \"sfi\"
description = \"Untrusted native code inside your own process\"
src = \"src\"

[build]
build-dir = \"html\"
create-missing = false

[output.html]
no-section-label = true
";

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = setup::root()?;
    let book = root.join("target/book");
    let sources = book.join("src");
    if book.exists() {
        std::fs::remove_dir_all(&book).with_context(|| format!("{}", book.display()))?;
    }
    write(&book.join("book.toml"), CONFIGURATION)?;
    write(&sources.join("SUMMARY.md"), &summary())?;
    write(&sources.join(RULES), &rules())?;
    write(&sources.join(PLOTS), &plots(&root, &sources)?)?;
    copy(&root, &sources)?;
    if args.sources {
        println!("{}", sources.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mdbook = tools::ensure(&root, &TOOLS)?.join("mdbook");
    let status = Command::new(mdbook).arg("build").arg(&book).status().context("cannot run mdbook")?;
    ensure!(status.success(), "mdbook failed");
    println!("{}", book.join("html/index.html").display());
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(path.parent().context("no folder")?)?;
    std::fs::write(path, text).with_context(|| format!("{}", path.display()))
}

/// Returns the table of contents.
fn summary() -> String {
    let mut text = "# Summary\n\n[sfi](README.md)\n".to_owned();
    for (part, pages) in PARTS {
        text += &format!("\n# {part}\n\n");
        text.extend(pages.iter().map(|(title, file)| format!("- [{title}]({file})\n")));
    }
    text
}

/// Returns the page of rules.
fn rules() -> String {
    let mut text =
        "# The rules\n\nThe verifier holds these rules. `sfi explain CODE` prints one with an example.\n".to_owned();
    for rule in Rule::ALL {
        let (id, title, why, help) = (rule.id(), rule.title(), rule.why(), rule.help());
        // `sfi verify --site` links to the place of a rule. Writing to a String does not fail.
        let _ = write!(text, "\n<a id=\"{id}\"></a>\n\n## {id}: {title}\n\n{why}\n\n*{help}*\n");
    }
    text
}

/// Reads a file of figures.
fn figures<T: serde::de::DeserializeOwned>(root: &Path, name: &str) -> anyhow::Result<T> {
    let path = root.join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    measured::read(&text).with_context(|| format!("{}", path.display()))
}

/// The figures of the last measured runs.
const PROGRAMS: &str = "docs/measured/programs.json";
const COVERAGE: &str = "docs/measured/coverage.json";

/// Returns the bars of both modes that a program has, and their geometric means.
fn modes<'a>(programs: &'a [Program], value: impl Fn(&'a Program, &str) -> Option<f64>) -> Vec<Bar> {
    let bar = |program: &'a Program| {
        let values = ["write", "full"].into_iter().map(|mode| value(program, mode)).collect::<Option<_>>()?;
        Some(Bar { name: program.name.clone(), values })
    };
    let mut bars: Vec<Bar> = programs.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return bars;
    }
    let count = bars.len() as f64;
    let logarithms = |way: usize| bars.iter().map(move |bar| bar.values[way].ln());
    let mean = |way: usize| measured::rounded((logarithms(way).sum::<f64>() / count).exp(), 2);
    bars.push(Bar { name: "geometric mean".to_owned(), values: vec![mean(0), mean(1)] });
    bars
}

/// Draws the plots, and returns the page that shows them.
fn plots(root: &Path, sources: &Path) -> anyhow::Result<String> {
    let Programs { programs, .. } = figures(root, PROGRAMS)?;
    let Coverage { modes: coverage, .. } = figures(root, COVERAGE)?;
    let first = coverage.first().context("no mode was measured")?;
    let percent = |part: usize, all: usize| measured::rounded(100.0 * part as f64 / all.max(1) as f64, 2);
    let mut packages: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for archive in &first.archives {
        let sum = packages.entry(&archive.package).or_default();
        *sum = (sum.0 + archive.rewritten, sum.1 + archive.objects);
    }
    let bar = |name: &str, value: f64| Bar { name: name.to_owned(), values: vec![value] };
    let by_mode: Vec<Bar> =
        coverage.iter().map(|sums| bar(&sums.mode, percent(sums.rewritten, sums.objects))).collect();
    let by_package: Vec<Bar> = packages.iter().map(|(name, (part, all))| bar(name, percent(*part, *all))).collect();
    let refused: Vec<Bar> = first.refused.iter().map(|(code, count)| bar(code, *count as f64)).collect();
    let (count, mode) = (by_package.len(), &first.mode);
    let charts = [
        (
            "speed",
            "Time in a domain to native, modes write and full".to_owned(),
            modes(&programs, |p, mode| *p.time.get(mode)?),
            1.0,
        ),
        (
            "size",
            "Text after rewriting to text before, modes write and full".to_owned(),
            modes(&programs, |p, mode| p.text.get(mode).copied()),
            1.0,
        ),
        ("coverage", format!("Objects of {count} Debian packages that are rewritten, percent, by mode"), by_mode, 0.0),
        ("packages", format!("Objects that are rewritten, percent, by package, mode {mode}"), by_package, 0.0),
        ("refused", format!("Objects that are refused, by reason, mode {mode}"), refused, 0.0),
    ];
    let mut page =
        "# Plots\n\nThe figures are those of [Results](docs/RESULTS.md) and [Coverage](docs/COVERAGE.md), which name\n\
                    method, machine and date. The plots are made from the files that the measurements wrote\n\
                    ([programs](docs/measured/programs.json), [coverage](docs/measured/coverage.json)).\n"
            .to_owned();
    for (name, title, bars, from) in charts {
        ensure!(!bars.is_empty(), "no figures for {name}");
        write(&sources.join(format!("{name}.svg")), &chart::draw(&title, &bars, from))?;
        let _ = write!(page, "\n![{title}]({name}.svg)\n");
    }
    for file in [PROGRAMS, COVERAGE] {
        let to = sources.join(file);
        std::fs::create_dir_all(to.parent().context("no folder")?)?;
        std::fs::copy(root.join(file), &to).with_context(|| format!("{}", to.display()))?;
    }
    Ok(page)
}

/// Copies the pages and the files that they link to. Each linked document must be a page.
fn copy(root: &Path, sources: &Path) -> anyhow::Result<()> {
    let pages = PARTS.iter().flat_map(|(_, pages)| pages.iter()).map(|(_, file)| PathBuf::from(file));
    let pages: BTreeSet<PathBuf> = pages.chain([PathBuf::from("README.md")]).collect();
    let made = [PathBuf::from(RULES), PathBuf::from(PLOTS)];
    let mut linked = BTreeSet::new();
    for page in pages.iter().filter(|page| !made.contains(page)) {
        let text = std::fs::read_to_string(root.join(page)).with_context(|| format!("{}", page.display()))?;
        write(&sources.join(page), &text)?;
        linked.extend(link::links(page, &text));
    }
    for file in linked.difference(&pages) {
        let from = root.join(file);
        if !from.is_file() {
            continue;
        }
        ensure!(file.extension().is_none_or(|ending| ending != "md"), "{} is linked and no page", file.display());
        let to = sources.join(file);
        std::fs::create_dir_all(to.parent().context("no folder")?)?;
        std::fs::copy(&from, to).with_context(|| format!("{}", from.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The site has every document of the repository, and every link leads to a page or a file.
    #[test]
    fn all_documents_are_pages() {
        let root = setup::root().expect("the repository");
        let folder = std::env::temp_dir().join(format!("sfi-book-{}", std::process::id()));
        copy(&root, &folder).expect("copied");
        plots(&root, &folder).expect("drawn");
        let listed = summary();
        let documents = std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("entry").path());
        for document in documents.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
            let name = document.strip_prefix(&root).expect("inside").display().to_string();
            assert!(listed.contains(&format!("({name})")), "{name} is not in the site");
        }
        for plot in ["speed", "size", "coverage", "packages", "refused"] {
            let svg = std::fs::read_to_string(folder.join(plot).with_extension("svg")).expect(plot);
            assert!(svg.matches("<rect ").count() > 2, "{plot}: {svg}");
        }
        let packages = std::fs::read_to_string(folder.join("packages.svg")).expect("drawn");
        assert!(packages.contains(">zlib1g-dev</text>") && packages.contains(">100</text>"), "{packages}");
        assert!(rules().contains("<a id=\"SFI-S01\"></a>"));
        std::fs::remove_dir_all(folder).expect("removed");
    }
    #[test]
    fn bars_end_with_their_geometric_means() {
        let program = |name: &str, write, full: Option<f64>| Program {
            name: name.to_owned(),
            native_ms: 1.0,
            time: [("write".to_owned(), Some(write)), ("full".to_owned(), full)].into(),
            text: BTreeMap::new(),
        };
        let programs = [program("a", 1.0, Some(2.0)), program("b", 4.0, Some(2.0)), program("c", 9.0, None)];
        let bars = modes(&programs, |program, mode| *program.time.get(mode)?);
        let all: Vec<(&str, &[f64])> = bars.iter().map(|bar| (bar.name.as_str(), bar.values.as_slice())).collect();
        assert_eq!(all, [("a", &[1.0, 2.0][..]), ("b", &[4.0, 2.0]), ("geometric mean", &[2.0, 2.0])]);
        assert!(modes(&[], |_, _| None).is_empty());
    }
}
