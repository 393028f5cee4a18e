//! Tables and links of the documents.

use anyhow::{Context, bail};
use std::path::{Component, Path, PathBuf};

/// Returns the cells of a table's line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// Returns the rows of the first table whose first column is `first`: the name, and the numbers of
/// `columns`. Rows without these numbers, such as aims, are left out.
pub fn rows(document: &str, first: &str, columns: &[&str]) -> anyhow::Result<Vec<(String, Vec<f64>)>> {
    let mut lines = document.lines();
    let head = lines.by_ref().filter_map(cells).find(|cells| cells[0] == first);
    let Some(head) = head else { bail!("no table of `{first}`") };
    let place =
        |column: &&str| head.iter().position(|cell| cell == column).with_context(|| format!("no column {column}"));
    let places = columns.iter().map(place).collect::<anyhow::Result<Vec<_>>>()?;
    let body = lines.map_while(cells).skip(1);
    let row = |cells: Vec<&str>| {
        let number = |place: &usize| cells.get(*place)?.parse().ok();
        Some((cells[0].to_owned(), places.iter().map(number).collect::<Option<Vec<f64>>>()?))
    };
    Ok(body.filter_map(row).collect())
}

/// Returns the files that a document links to, from the repository's root.
pub fn links(document: &Path, text: &str) -> Vec<PathBuf> {
    let folder = document.parent().unwrap_or(Path::new(""));
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| plain(&folder.join(target.split('#').next().unwrap_or(target)))).collect()
}

/// Resolves `..` by name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "text\n\n| program | ms | write |\n| --- | --- | --- |\n| zlib | 46.2 | 1.025 |\n| aim | | |\n\n| program | ms | write |\n";

    #[test]
    fn numbers_of_a_table_are_read() {
        let found = rows(TABLE, "program", &["write", "ms"]).expect("a table");
        assert_eq!(found, [("zlib".to_owned(), vec![1.025, 46.2])]);
        assert!(rows(TABLE, "program", &["full"]).is_err());
        assert!(rows(TABLE, "archive", &["write"]).is_err());
    }

    #[test]
    fn links_are_files_from_the_root() {
        let text = "[a](B.md#c) [d](../e/f.h) [g](#h) [i](https://example.org)";
        assert_eq!(links(Path::new("docs/A.md"), text), [PathBuf::from("docs/B.md"), PathBuf::from("e/f.h")]);
    }
}
