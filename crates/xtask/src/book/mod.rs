//! `cargo xtask book`

mod chart;
mod table;

use crate::{setup, tools};
use anyhow::{Context, ensure};
use chart::Bar;
use sfi_contract::Rule;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Makes the documentation site of the repository's documents, with the explanations of all rules,
/// and plots of the measured tables. Its first page is `target/book/html/index.html`.
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

/// Draws the plots, and returns the page that shows them.
fn plots(root: &Path, sources: &Path) -> anyhow::Result<String> {
    let read = |name: &str| {
        let path = root.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))
    };
    let (results, coverage) = (read("docs/RESULTS.md")?, read("docs/COVERAGE.md")?);
    let bars = |table: &str, columns: [&str; 2]| -> anyhow::Result<Vec<Bar>> {
        let rows = table::rows(&results, table, &columns)?;
        Ok(rows.into_iter().map(|(name, values)| Bar { name, values }).collect())
    };
    let speed = bars("program", ["write", "full"])?;
    let size = bars("text of", ["write", "full"])?;
    let refused = table::rows(&coverage, "code", &["objects"])?;
    let refused: Vec<Bar> = refused.into_iter().map(|(name, values)| Bar { name, values }).collect();
    let charts = [
        ("speed", "Time in a domain to native, modes write and full", speed, 1.0),
        ("size", "Text after rewriting to text before, modes write and full", size, 1.0),
        ("refused", "Objects of 58 Debian packages that are refused, by reason", refused, 0.0),
    ];
    let mut page = "# Plots\n\nThe figures are those of the tables in [Results](docs/RESULTS.md) and\n\
                    [Coverage](docs/COVERAGE.md), which name method, machine and date.\n"
        .to_owned();
    for (name, title, bars, from) in charts {
        ensure!(!bars.is_empty(), "no figures for {name}");
        write(&sources.join(format!("{name}.svg")), &chart::draw(title, &bars, from))?;
        let _ = write!(page, "\n![{title}]({name}.svg)\n");
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
        linked.extend(table::links(page, &text));
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
        assert!(folder.join("speed.svg").is_file() && rules().contains("<a id=\"SFI-S01\"></a>"));
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
