//! A compiler's command line, read as far as linking needs.

use anyhow::{Context, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What a command line of a compiler asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Stops before linking, or only asks the compiler something.
    pub compile_only: bool,
    pub output: Option<PathBuf>,
    /// Sources, objects, archives and `-l` in order.
    pub inputs: Vec<Item>,
    /// Directories of `-L`.
    pub directories: Vec<PathBuf>,
    /// Everything else, for compiling.
    pub flags: Vec<OsString>,
    /// No libc and no compiler's library.
    pub bare: bool,
}

/// An input.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A source, with the language of `-x`.
    Source(PathBuf, Option<OsString>),
    Object(PathBuf),
    Library(String),
}

/// Flags whose value is the next word and matters for compiling.
const WITH_VALUE: [&str; 9] =
    ["-include", "-imacros", "-isystem", "-idirafter", "-iquote", "-iprefix", "-MF", "-MT", "-MQ"];
/// Flags whose value is the next word and that mean nothing here.
const LINK_WITH_VALUE: [&str; 4] = ["-Xlinker", "-u", "-z", "-T"];
/// Flags of a link that mean nothing here.
const LINK: [&str; 8] =
    ["-static", "-pie", "-static-pie", "-no-pie", "-rdynamic", "-s", "-static-libgcc", "-no-canonical-prefixes"];

/// Reads a command line. Response files are expanded already.
pub fn parse(arguments: &[OsString]) -> anyhow::Result<Line> {
    let mut line = Line::default();
    let mut language = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let mut value = |prefix: &str| -> anyhow::Result<OsString> {
            match text.strip_prefix(prefix) {
                Some("") => rest.next().cloned().with_context(|| format!("`{prefix}` wants a value")),
                Some(value) => Ok(value.into()),
                None => bail!("not {prefix}"),
            }
        };
        match &*text {
            "-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "-r" => line.compile_only = true,
            "-shared" => bail!("-shared: a domain's code is linked statically; link archives instead"),
            "-nostdlib" | "-nodefaultlibs" => line.bare = true,
            _ if text.starts_with("-x") => {
                let name = value("-x")?;
                language = (name != "none").then_some(name);
            }
            _ if WITH_VALUE.contains(&&*text) => {
                let value = value(&text)?;
                line.flags.extend([argument.clone(), value]);
            }
            _ if LINK_WITH_VALUE.contains(&&*text) => drop(value(&text)?),
            _ if LINK.contains(&&*text) || text.starts_with("-Wl,") => {}
            _ if text.starts_with("-o") => line.output = Some(value("-o")?.into()),
            _ if text.starts_with("-L") => line.directories.push(value("-L")?.into()),
            _ if text.starts_with("-l") => line.inputs.push(Item::Library(value("-l")?.to_string_lossy().into_owned())),
            // Definitions and directories may stand apart from their flags.
            "-D" | "-U" | "-I" => {
                let value = value(&text)?;
                line.flags.extend([argument.clone(), value]);
            }
            _ if text.starts_with('-') && text != "-" => line.flags.push(argument.clone()),
            _ => {
                let path = PathBuf::from(argument);
                let object = matches!(path.extension().and_then(OsStr::to_str), Some("o" | "a" | "obj" | "lo"));
                line.inputs.push(match &language {
                    None if object => Item::Object(path),
                    language => Item::Source(path, language.clone()),
                });
            }
        }
    }
    Ok(line)
}

/// Replaces `@FILE` by the words in the file, as compilers do: quotes and backslashes keep spaces.
pub fn expand(arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    /// Files within files.
    const DEPTH: usize = 16;
    fn into(arguments: &[OsString], out: &mut Vec<OsString>, depth: usize) -> anyhow::Result<()> {
        for argument in arguments {
            match argument.to_str().and_then(|a| a.strip_prefix('@')) {
                Some(path) if depth < DEPTH && Path::new(path).exists() => {
                    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{path}`"))?;
                    into(&words(&text), out, depth + 1)?;
                }
                _ => out.push(argument.clone()),
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    into(arguments, &mut out, 0)?;
    Ok(out)
}

fn words(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            _ if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            _ if quote.is_none() && c.is_whitespace() => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        parse(&text.split(' ').map(OsString::from).collect::<Vec<_>>()).expect("parses")
    }

    #[test]
    fn a_link_is_told_from_a_compilation() {
        let l = line("-O2 -Wall a.c b.o -L. -Ldir -lm -Wl,--gc-sections -static -z now -o prog");
        assert!(!l.compile_only && !l.bare);
        assert_eq!(l.output, Some("prog".into()));
        assert_eq!(l.flags, ["-O2", "-Wall"]);
        assert_eq!(l.directories, [PathBuf::from("."), "dir".into()]);
        assert_eq!(l.inputs, [Item::Source("a.c".into(), None), Item::Object("b.o".into()), Item::Library("m".into())]);
        for only in ["-c a.c -o a.o", "-E a.c", "-S a.c", "-M a.c", "-fsyntax-only a.c"] {
            assert!(line(only).compile_only, "{only}");
        }
        assert_eq!(line("-include config.h -D X=1 -I dir -MF a.d a.c").flags.len(), 8);
        assert!(line("-nostdlib a.o").bare);
        assert!(parse(&["-o".into()]).is_err());
        assert!(parse(&["-shared".into(), "a.o".into()]).is_err());
    }

    #[test]
    fn languages_hold_until_the_next() {
        let l = line("a.c -x c b.txt -xassembler c.txt -x none d.o");
        let c = Some("c".into());
        let assembler = Some("assembler".into());
        let source = |name: &str, language| Item::Source(name.into(), language);
        assert_eq!(
            l.inputs,
            [source("a.c", None), source("b.txt", c), source("c.txt", assembler), Item::Object("d.o".into())]
        );
    }

    #[test]
    fn response_files_are_expanded() {
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), "-O2 'two words' \"a\\\"b\"\n c\\ d -DX=\"y\"\n").expect("written");
        let argument = format!("@{}", file.path().display());
        let words = expand(&["first".into(), argument.into(), "@/nonexistent".into()]).expect("expands");
        assert_eq!(words, ["first", "-O2", "two words", "a\"b", "c d", "-DX=y", "@/nonexistent"]);
    }
}
