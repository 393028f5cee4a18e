//! Reads the parts of a compiler's command line that a link needs.

use super::linker::{Effect, Wishes};
use anyhow::{Context, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The request of a compiler's command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The compiler stops before linking, or only answers a question.
    pub compile_only: bool,
    pub output: Option<PathBuf>,
    /// Sources, objects, archives and `-l`, in order.
    pub inputs: Vec<Item>,
    /// Directories of `-L`.
    pub directories: Vec<PathBuf>,
    /// All other arguments, for compiling.
    pub flags: Vec<OsString>,
    /// Linked without libc and without the compiler's library.
    pub bare: bool,
    /// `-shared`: a library for later links.
    pub library: bool,
    /// `--plugin`: code for a domain of a manifest, without `main`.
    pub plugin: bool,
    /// `--budget`: the code has a budget of instructions, and leaves r14 to it.
    pub budget: bool,
    /// `-fopenmp` and its like: gcc's code calls its library for threads of loops and tasks.
    pub openmp: bool,
    /// The linker's options.
    pub wishes: Wishes,
}

/// An input.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A source, with the language of `-x`.
    Source(PathBuf, Option<OsString>),
    Object(PathBuf),
    /// `-l`: a name, or `:` and a file's name.
    Library(String),
    /// From here on archives are linked as a whole, or by need again.
    Whole(bool),
}

/// Flags that matter for compiling and whose value is the next word.
const WITH_VALUE: [&str; 9] =
    ["-include", "-imacros", "-isystem", "-idirafter", "-iquote", "-iprefix", "-MF", "-MT", "-MQ"];
/// The flag of code with a budget of instructions, which no compiler knows.
pub const BUDGET: &str = "--budget";
/// Flags of a link that have no effect here.
const LINK: [&str; 8] =
    ["-static", "-pie", "-static-pie", "-no-pie", "-rdynamic", "-s", "-static-libgcc", "-no-canonical-prefixes"];

/// Reads a command line. `expand` has already replaced response files.
pub fn parse(arguments: &[OsString]) -> anyhow::Result<Line> {
    let mut line = Line::default();
    let mut language = None;
    let mut linker = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        // The value of an option may follow in a `-Xlinker` or `-Wl,` word of its own.
        let text = argument.to_string_lossy();
        if !(linker.is_empty() || text.starts_with("-Wl,") || text == "-Xlinker") {
            line.link(&mut linker)?;
        }
        let mut value = |prefix: &str| -> anyhow::Result<OsString> {
            match text.strip_prefix(prefix) {
                Some("") => rest.next().cloned().with_context(|| format!("`{prefix}` wants a value")),
                Some(value) => Ok(value.into()),
                None => bail!("not {prefix}"),
            }
        };
        match &*text {
            "-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "-r" => line.compile_only = true,
            "-shared" => line.library = true,
            "--plugin" => line.plugin = true,
            BUDGET => line.budget = true,
            "-nostartfiles" => bail!("-nostartfiles: a program starts in `main`, called by its libc"),
            "-nostdlib" | "-nodefaultlibs" => line.bare = true,
            _ if text.starts_with("-x") => {
                let name = value("-x")?;
                language = (name != "none").then_some(name);
            }
            _ if WITH_VALUE.contains(&&*text) => {
                let value = value(&text)?;
                line.flags.extend([argument.clone(), value]);
            }
            "-Xlinker" => linker.push(value("-Xlinker")?),
            "-u" | "-z" | "-T" | "-e" => linker.extend([argument.clone(), value(&text)?]),
            _ if text.starts_with("-u") && text != "-undef" => linker.push(argument.clone()),
            _ if text.starts_with("-Wl,") => linker.extend(text.split(',').skip(1).map(OsString::from)),
            _ if LINK.contains(&&*text) => {}
            _ if text.starts_with("-o") => line.output = Some(value("-o")?.into()),
            _ if text.starts_with("-L") => line.directories.push(value("-L")?.into()),
            _ if text.starts_with("-l") => line.inputs.push(Item::Library(value("-l")?.to_string_lossy().into_owned())),
            // The value of these flags may be the next word.
            "-D" | "-U" | "-I" => {
                let value = value(&text)?;
                line.flags.extend([argument.clone(), value]);
            }
            _ if text.starts_with('-') && text != "-" => {
                line.openmp = openmp(&text).unwrap_or(line.openmp);
                line.flags.push(argument.clone());
            }
            _ => {
                let path = PathBuf::from(argument);
                line.inputs.push(match &language {
                    None if is_object(&path) => Item::Object(path),
                    language => Item::Source(path, language.clone()),
                });
            }
        }
    }
    line.link(&mut linker)?;
    Ok(line)
}

/// Says whether a flag turns the compiler's own threads on or off, or returns `None` for another
/// flag.
fn openmp(flag: &str) -> Option<bool> {
    match flag {
        "-fopenmp" | "-fopenacc" => Some(true),
        "-fno-openmp" => Some(false),
        _ => flag.strip_prefix("-ftree-parallelize-loops=").map(|count| count != "1"),
    }
}

/// Says whether a file is an object or a library, by its name.
fn is_object(path: &Path) -> bool {
    matches!(path.extension().and_then(OsStr::to_str), Some("o" | "a" | "obj" | "lo")) || is_library(path)
}

/// Says whether a file has the name of a library that `-shared` makes: `libz.so`, `libz.so.1`.
pub fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".so") || name.contains(".so.")
}

impl Line {
    /// Obeys the linker's options that were gathered, and empties the list.
    fn link(&mut self, words: &mut Vec<OsString>) -> anyhow::Result<()> {
        let mut words = std::mem::take(words).into_iter();
        while let Some(word) = words.next() {
            match self.wishes.take(&word, &mut || words.next())? {
                Effect::Nothing => {}
                Effect::Whole(whole) => self.inputs.push(Item::Whole(whole)),
                Effect::Input(word) => match word.to_string_lossy() {
                    text if text.starts_with("-l") => self.inputs.push(Item::Library(text[2..].to_owned())),
                    text if text.starts_with("-L") => self.directories.push(text[2..].into()),
                    _ => self.inputs.push(Item::Object(word.into())),
                },
            }
        }
        Ok(())
    }
}

/// Replaces `@FILE` by the words in the file, as compilers do. Quotes and backslashes keep spaces.
pub fn expand(arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    /// Depth to which response files may name response files.
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
        assert!(line("-shared a.o").library);
        let budgeted = line("--budget --plugin a.c");
        assert!(budgeted.budget && budgeted.flags.is_empty() && !line("a.c").budget);
        for (flags, openmp) in [
            ("-fopenmp a.c", true),
            ("-ftree-parallelize-loops=4 a.c", true),
            ("-fopenmp -fno-openmp a.c", false),
            ("-fopenmp-simd a.c", false),
        ] {
            assert_eq!(line(flags).openmp, openmp, "{flags}");
        }
        assert!(parse(&["-nostartfiles".into(), "a.o".into()]).is_err());
    }

    #[test]
    fn the_linkers_options_keep_their_place() {
        let l = line(
            "a.o -Wl,--whole-archive,libx.so -Wl,--wrap -Wl,f -Xlinker -u -Xlinker g -l:libz.a -u h -Wl,-lm liby.so.1",
        );
        let (object, library) = (|name: &str| Item::Object(name.into()), |name: &str| Item::Library(name.into()));
        let inputs = [
            object("a.o"),
            Item::Whole(true),
            object("libx.so"),
            library(":libz.a"),
            library("m"),
            object("liby.so.1"),
        ];
        assert_eq!(l.inputs, inputs);
        assert_eq!((l.wishes.wraps, l.wishes.undefined), (vec!["f".to_owned()], vec!["g".to_owned(), "h".to_owned()]));
        for refused in ["a.o -T script.ld", "a.o -Wl,-T,script.ld", "a.o -e begin", "a.o -Wl,--frobnicate"] {
            assert!(parse(&refused.split(' ').map(OsString::from).collect::<Vec<_>>()).is_err(), "{refused}");
        }
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
