//! `docs/MISTAKES.md`: every command of the page prints the output that the page shows. `BLESS=1`
//! writes the output into the page.

mod support;

use support::transcript::{is_shown, say, transcript};
use support::{Bench, root};

/// A file that a mistake needs: its name and contents.
type File = (String, String);

/// Returns the files of a section: blocks that follow a line with a name, as in "`f.c`:".
fn files(section: &str) -> Vec<File> {
    let block = |(at, between): (usize, &str)| {
        let name = section[..at].rsplit('`').next().expect("there is always a last piece");
        let (_, rest) = section[at + between.len()..].split_once('\n').expect("the block has lines");
        (name.to_owned(), rest.split_once("```").expect("the block ends").0.to_owned())
    };
    section.match_indices("`:\n\n```").map(block).collect()
}

/// Returns the new text of an output as a page shows it: as many lines as before if dots followed.
fn cut(said: &str, shown: &str) -> String {
    let lines = shown.lines().count();
    match shown.trim_end().ends_with("\n...") && said.lines().count() >= lines {
        true => said.lines().take(lines - 1).chain(["..."]).map(|line| format!("{line}\n")).collect(),
        false => format!("{}\n", said.trim_end()).trim_start_matches('\n').to_owned(),
    }
}

#[test]
fn every_mistake_says_what_the_page_shows() {
    let path = root().join("docs/MISTAKES.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let bless = std::env::var_os("BLESS").is_some();
    let mut new = String::new();
    let (mut mistakes, mut wrong) = (0, Vec::new());
    for (number, section) in page.split("\n### ").enumerate() {
        if number > 0 {
            new += "\n### ";
        }
        let Some((before, rest)) = section.split_once("```console\n") else {
            new += section;
            continue;
        };
        let (console, after) = rest.split_once("```").expect("the block ends");
        mistakes += 1;
        let bench = Bench::new();
        for (name, contents) in files(before) {
            bench.write(&name, contents.as_bytes());
        }
        new += &format!("{before}```console\n");
        for (command, shown) in transcript(console) {
            let said = say(&bench, command);
            if !is_shown(&said, &shown) {
                wrong.push(format!("{}\n$ {command}\n{said}", section.lines().next().unwrap_or("")));
            }
            new += &format!("$ {command}\n{}", cut(&said, &shown));
        }
        new += &format!("```{after}");
    }
    assert!(mistakes >= 40, "{mistakes} mistakes");
    if bless {
        std::fs::write(&path, new).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "`BLESS=1` writes the page anew:\n{}", wrong.join("\n"));
}

#[test]
fn files_are_the_blocks_after_their_names() {
    let section =
        "A mistake\n\n`a.c`:\n\n```c\nint a;\n```\n\n`b.toml`:\n\n```toml\n[x]\n```\n\n```console\n$ ls\n```\n";
    assert_eq!(files(section), [("a.c".into(), "int a;\n".into()), ("b.toml".into(), "[x]\n".into())]);
}

#[test]
fn long_output_stays_cut() {
    assert_eq!(cut("one\ntwo\nthree\n", "1\n...\n"), "one\n...\n");
    assert_eq!(cut("one\ntwo\n", "1\n2\n"), "one\ntwo\n");
    assert_eq!(cut("", ""), "");
}
