//! Commands as you would type them.

use std::ffi::OsStr;
use std::iter;
use std::process::Command;

/// Returns a command's line. The programs of the list are shown under the names beside them.
pub fn line(command: &Command, names: &[(&OsStr, &str)]) -> String {
    let word = |word: &OsStr| match names.iter().find(|(path, _)| *path == word) {
        Some((_, name)) => (*name).to_owned(),
        None => quoted(&word.to_string_lossy()),
    };
    let words = iter::once(command.get_program()).chain(command.get_args()).map(word);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a word that a shell reads as this text.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words =
            ["plain-1.0/x", "two words", "", "it's", "$HOME `id` \"x\" \\", "*", "/a/a mode = \"full\"", "a;b\nc"];
        let mut command = Command::new("printf");
        command.arg("%s|").args(words);
        let output = Command::new("sh").arg("-c").arg(line(&command, &[])).output().expect("sh runs");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), words.map(|word| format!("{word}|")).concat());
    }

    #[test]
    fn programs_have_names() {
        let mut command = Command::new("/a b/sfi");
        command.arg("run");
        assert_eq!(line(&command, &[(OsStr::new("/a b/sfi"), "sfi")]), "sfi run");
        assert_eq!(line(&command, &[]), "'/a b/sfi' run");
    }
}
