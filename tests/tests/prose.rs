//! Comments and documents fit into 100 columns, so that they can be read beside something else.
//! Comments begin with a subject, and those of functions with a verb in the third person.
//!
//! Code keeps rustfmt's 120. Exempt are rows of tables, transcripts in documents, the lines of a
//! fixture's header that hold a command, generated headers, and links that cannot be broken.

use sfi_tests::paths::{own_files, root};
use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// The kinds of text that differ in how a comment starts.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Assembly,
    Hash,
    Query,
    Document,
}

fn kind(path: &Path) -> Option<Kind> {
    let Some(extension) = path.extension() else {
        let name = path.file_name()?.to_str()?;
        return (!name.starts_with("LICENSE") && !name.starts_with(".git")).then_some(Kind::Hash);
    };
    match extension.to_str()? {
        "rs" | "c" | "h" | "cc" | "cpp" | "hpp" => Some(Kind::Code),
        "s" | "S" => Some(Kind::Assembly),
        "toml" | "py" | "sh" | "cmake" | "bzl" | "yml" | "yaml" | "mk" | "ninja" | "build" | "txt" | "control" => {
            Some(Kind::Hash)
        }
        "sql" => Some(Kind::Query),
        "md" => Some(Kind::Document),
        _ => None,
    }
}

/// Returns the text of a line that is a comment from its start, or of a line of a document.
fn comment(kind: Kind, line: &str) -> Option<&str> {
    let line = line.trim_start();
    let starts: &[&str] = match kind {
        Kind::Document => return Some(line),
        Kind::Code => &["///", "//!", "//", "/*", "* "],
        Kind::Assembly => &["//", "/*", "* ", "# ", ";"],
        Kind::Hash => &["# "],
        Kind::Query => &["-- "],
    };
    starts.iter().find_map(|start| line.strip_prefix(start)).map(str::trim_start)
}

/// Says whether a comment follows code on the line. A mark inside of a string begins none.
fn has_trailing_comment(kind: Kind, line: &str) -> bool {
    let marks: &[&str] = match kind {
        Kind::Document => &[],
        Kind::Code => &[" // ", " /* "],
        Kind::Assembly => &[" // ", " /* ", " # "],
        Kind::Hash => &[" # "],
        Kind::Query => &[" -- "],
    };
    let line = line.replace("'\"'", "'x'").replace("\\\\", "xx").replace("\\\"", "xx");
    let outside = |at: usize| line[..at].matches('"').count().is_multiple_of(2);
    marks.iter().any(|mark| line.match_indices(mark).any(|(at, _)| outside(at)))
}

/// Says whether a line may have any length.
fn exempt(text: &str) -> bool {
    let command = text.split_once(": ").is_some_and(|(key, _)| matches!(key, "show" | "run" | "variant"));
    let one_word = |text: &str| !text.trim_start_matches("- ").contains(' ');
    text.starts_with('|') || command || one_word(text) || text.starts_with("[![")
}

/// Returns the numbers of the lines that are too long.
fn long_lines(kind: Kind, text: &str) -> Vec<usize> {
    let (mut fenced, mut transcript) = (false, false);
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let long = line.chars().count() > COLUMNS;
        let Some(text) = comment(kind, line) else {
            fenced = false;
            if long && has_trailing_comment(kind, line) {
                found.push(at + 1);
            }
            continue;
        };
        if text.starts_with("```") {
            fenced = !fenced;
            transcript = kind == Kind::Document && matches!(text, "```console" | "```text");
        } else if long && !(fenced && transcript) && (fenced || !exempt(text)) {
            found.push(at + 1);
        }
    }
    found
}

/// Returns the project's own files of these kinds.
fn files() -> Vec<(PathBuf, Kind)> {
    let paths = own_files(&[]).into_iter().map(|name| root().join(name));
    let files = paths.filter(|path| path.is_file());
    files.filter_map(|path| kind(&path).map(|kind| (path, kind))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn comments_fit() {
    let files = files();
    assert!(files.len() > 700, "only {} files", files.len());
    let mut long = Vec::new();
    for (path, kind) in files {
        let text = read(&path);
        let generated = text.lines().next().is_some_and(|line| line.contains("written by `sfi bind`"));
        let lines = if generated { Vec::new() } else { long_lines(kind, &text) };
        long.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(long.is_empty(), "more than {COLUMNS} columns:\n{}", long.join("\n"));
}

#[test]
fn long_lines_are_found() {
    let words = "word ".repeat(25);
    for (kind, start) in [
        (Kind::Code, "    /// "),
        (Kind::Code, " * "),
        (Kind::Code, "let x = \"//\"; // "),
        (Kind::Code, "x = '\"'; /* "),
        (Kind::Assembly, "# "),
        (Kind::Assembly, "ret # "),
        (Kind::Hash, "# "),
        (Kind::Hash, "key = 1 # "),
        (Kind::Query, "SELECT 1; -- "),
    ] {
        assert_eq!(long_lines(kind, &format!("x\n{start}{words}\n")), [2], "{start}");
    }
    assert_eq!(long_lines(Kind::Document, &words), [1]);
    assert_eq!(long_lines(Kind::Code, &format!("let x = \"{words}\";\n    {words}")), []);
    assert_eq!(long_lines(Kind::Code, &format!("let x = \"a // {words}\";")), []);
    assert_eq!(long_lines(Kind::Code, &format!("/// | {words}\n// show: {words}")), []);
    assert_eq!(long_lines(Kind::Code, &format!("/// ```\n/// {words}\n/// ```\n/// {words}")), [2, 4]);
    assert_eq!(long_lines(Kind::Document, &format!("```console\n{words}\n```\n```sh\n{words}\n```")), [5]);
}

#[test]
fn files_without_extension_are_read() {
    for name in [".ci/run", "examples/c/Makefile", "integrations/build/sfi.mk", "integrations/build/sfi.ninja"] {
        assert!(kind(Path::new(name)) == Some(Kind::Hash), "{name}");
    }
    assert!(kind(Path::new("LICENSE-MIT")).is_none());
}

/// Words that begin a clause in place of a subject.
const CLAUSES: [&str; 10] =
    ["What", "Whatever", "Whether", "How", "Who", "Whoever", "Whose", "Where", "The next so", "So many"];

/// Says whether a comment begins with such a clause.
fn begins_with_a_clause(text: &str) -> bool {
    let mut rests = CLAUSES.iter().filter_map(|clause| text.strip_prefix(clause));
    rests.any(|rest| rest.starts_with(' '))
}

/// The documentation of an item: the lines of a block of comments, and the line that follows it.
struct Documentation<'t> {
    line: usize,
    text: Vec<&'t str>,
    attributes: Vec<&'t str>,
    item: &'t str,
}

/// Returns the blocks of documentation in a Rust file.
fn documentation(text: &str) -> Vec<Documentation<'_>> {
    let mut found: Vec<Documentation<'_>> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(text) if open => found.last_mut().expect("an open block").text.push(text.trim()),
            Some(text) => {
                let (text, attributes) = (vec![text.trim()], Vec::new());
                found.push(Documentation { line: at + 1, text, attributes, item: "" });
                open = true;
            }
            None => match found.last_mut() {
                Some(block) if open && line.starts_with("#[") => block.attributes.push(line),
                Some(block) if open => {
                    block.item = line;
                    open = false;
                }
                _ => {}
            },
        }
    }
    found
}

/// Returns the project's Rust files, and the blocks of documentation of each that a test refuses.
fn refused(wrong: impl Fn(&Path, &Documentation<'_>) -> bool) -> (usize, Vec<String>) {
    let (mut seen, mut found) = (0, Vec::new());
    for name in own_files(&["*.rs"]) {
        let text = read(&root().join(&name));
        let blocks = documentation(&text);
        seen += blocks.len();
        let wrong = blocks.iter().filter(|block| wrong(&name, block));
        found.extend(wrong.map(|block| format!("{}:{}: {}", name.display(), block.line, block.text[0])));
    }
    (seen, found)
}

/// Says whether a paragraph of the block begins with a clause.
fn lacks_a_subject(block: &Documentation<'_>) -> bool {
    let mut before = "";
    block.text.iter().any(|line| {
        let starts = before.is_empty();
        before = line;
        starts && begins_with_a_clause(line)
    })
}

/// Says whether the item is a function.
fn is_function(item: &str) -> bool {
    let mut words = item.split_whitespace().take_while(|word| !word.starts_with("fn(") && !word.contains('='));
    let modifier = |word: &str| {
        word.starts_with("pub")
            || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"" | "super)" | "crate)")
    };
    words.find(|word| !modifier(word)) == Some("fn")
}

/// Says whether a function's documentation begins with something else than a verb in the third
/// person. A prototype or a system call in backticks may stand in its place.
fn lacks_a_verb(block: &Documentation<'_>) -> bool {
    let first = block.text[0];
    let word = first.split([' ', ',', ':']).next().unwrap_or("");
    let verb = word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_uppercase());
    let mark = first.starts_with('`') || first.starts_with("# ");
    is_function(block.item) && !block.attributes.iter().any(|line| line.starts_with("#[test")) && !verb && !mark
}

#[test]
fn documentation_begins_with_a_subject() {
    let (seen, found) = refused(|_, block| lacks_a_subject(block));
    assert!(seen > 3000, "only {seen} blocks");
    assert!(found.is_empty(), "a clause in place of a subject:\n{}", found.join("\n"));
}

#[test]
fn documentation_of_functions_begins_with_a_verb() {
    let source = |name: &Path| name.iter().any(|part| part == "src") && !name.ends_with("tests.rs");
    let (seen, found) = refused(|name, block| source(name) && lacks_a_verb(block));
    assert!(seen > 3000, "only {seen} blocks");
    assert!(found.is_empty(), "no verb in the third person:\n{}", found.join("\n"));
}

#[test]
fn bad_beginnings_are_found() {
    let blocks = |text| documentation(text).iter().map(|b| (lacks_a_subject(b), lacks_a_verb(b))).collect::<Vec<_>>();
    assert_eq!(blocks("/// Whether it is so.\npub flag: bool,"), [(true, false)]);
    assert_eq!(blocks("//! A module.\n//!\n//! How it works.\n\nuse x;"), [(true, false)]);
    assert_eq!(blocks("/// The paragraph says\n/// What it says.\n/// Wholly.\nstruct X;"), [(false, false)]);
    assert_eq!(blocks("    /// The number.\n    #[inline]\n    pub(super) unsafe fn n() {}"), [(false, true)]);
    assert_eq!(blocks("/// Returns it.\npub const fn n() {}\n/// A test.\n#[test]\nfn t() {}"), [(false, false); 2]);
    assert_eq!(blocks("/// `int f(int)`\nfn f() {}\n/// The hook.\npub hook: Option<fn()>,"), [(false, false); 2]);
}
