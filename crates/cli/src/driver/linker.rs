//! The linker's options in a compiler's command line. The link of a domain obeys some, ignores
//! those that have no effect in a domain, and refuses all others.

use anyhow::{Context, bail, ensure};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The request of the linker's options.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `-u`: names that members of archives are linked for.
    pub undefined: Vec<String>,
    /// `--wrap`: a reference to `name` means `__wrap_name`, and one to `__real_name` means `name`.
    pub wraps: Vec<String>,
    /// `--defsym`: a reference to the first name means the second.
    pub synonyms: Vec<(String, String)>,
    /// `-Map`: the file for the list of linked parts.
    pub map: Option<PathBuf>,
}

/// The effect of one option beside a change of [`Wishes`].
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    /// From here on archives are linked as a whole, or by need again.
    Whole(bool),
    /// The option names an input.
    Input(OsString),
}

/// Options that have no effect in a domain. They are about dynamic linking, symbols and sections to
/// leave out, order, and warnings.
const HARMLESS: [&str; 52] = [
    "as-needed",
    "no-as-needed",
    "gc-sections",
    "no-gc-sections",
    "print-gc-sections",
    "start-group",
    "end-group",
    "(",
    ")",
    "export-dynamic",
    "E",
    "no-export-dynamic",
    "enable-new-dtags",
    "disable-new-dtags",
    "no-undefined",
    "fatal-warnings",
    "no-fatal-warnings",
    "warn-common",
    "no-warn-mismatch",
    "no-warnings",
    "eh-frame-hdr",
    "no-eh-frame-hdr",
    "build-id",
    "relax",
    "no-relax",
    "Bstatic",
    "Bdynamic",
    "Bsymbolic",
    "Bsymbolic-functions",
    "dn",
    "dy",
    "static",
    "non_shared",
    "call_shared",
    "pie",
    "no-pie",
    "s",
    "S",
    "x",
    "X",
    "strip-all",
    "strip-debug",
    "discard-all",
    "discard-locals",
    "O0",
    "O1",
    "O2",
    "O3",
    "no-copy-dt-needed-entries",
    "copy-dt-needed-entries",
    "allow-shlib-undefined",
    "no-allow-shlib-undefined",
];
/// Options without effect that have a value, after `=` in the same word or as the next word.
const HARMLESS_WITH_VALUE: [&str; 17] = [
    "z",
    "rpath",
    "R",
    "rpath-link",
    "soname",
    "h",
    "hash-style",
    "build-id",
    "dynamic-linker",
    "I",
    "version-script",
    "exclude-libs",
    "sort-section",
    "sort-common",
    "icf",
    "compress-debug-sections",
    "fuse-ld",
];

impl Wishes {
    /// Obeys one option of the linker. `next` returns the words after it.
    ///
    /// # Errors
    /// The link of a domain cannot do this.
    pub fn take(&mut self, word: &OsStr, next: &mut dyn FnMut() -> Option<OsString>) -> anyhow::Result<Effect> {
        let text = word.to_string_lossy().into_owned();
        let Some(option) = text.strip_prefix('-') else { return Ok(Effect::Input(word.to_owned())) };
        let option = option.strip_prefix('-').unwrap_or(option);
        let (name, inline) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let mut value = || -> anyhow::Result<String> {
            let value = inline.map(str::to_owned).or_else(|| next().map(|next| next.to_string_lossy().into_owned()));
            value.with_context(|| format!("the linker's option `{text}` wants a value"))
        };
        match name {
            "whole-archive" => return Ok(Effect::Whole(true)),
            "no-whole-archive" => return Ok(Effect::Whole(false)),
            "u" | "undefined" | "require-defined" => self.undefined.push(value()?),
            "wrap" => self.wraps.push(value()?),
            "Map" => self.map = Some(value()?.into()),
            "defsym" => {
                let definition = value()?;
                let (name, meaning) =
                    definition.split_once('=').with_context(|| format!("--defsym {definition}: expected NAME=NAME"))?;
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
                ensure!(
                    meaning.starts_with(|c: char| !c.is_ascii_digit()) && meaning.chars().all(plain),
                    "--defsym {definition}: a domain's symbol can be another name, and no number or expression"
                );
                self.synonyms.push((name.to_owned(), meaning.to_owned()));
            }
            _ if option.starts_with('l') || option.starts_with('L') => return Ok(Effect::Input(word.to_owned())),
            _ if option.starts_with('u') && !text.starts_with("--") && inline.is_none() => {
                self.undefined.push(option[1..].to_owned());
            }
            _ if HARMLESS.contains(&option) || inline.is_some() && HARMLESS_WITH_VALUE.contains(&name) => {}
            _ if HARMLESS_WITH_VALUE.contains(&name) => drop(value()?),
            _ if option.starts_with("z") && !text.starts_with("--") => {}
            "T" | "script" | "Ttext" | "Tdata" | "Tbss" | "section-start" | "image-base" => {
                bail!("the linker's option `{text}`: the loader places a domain's sections")
            }
            "e" | "entry" => bail!("the linker's option `{text}`: a program starts in `main`"),
            _ => bail!("the linker's option `{text}` is not supported"),
        }
        Ok(Effect::Nothing)
    }

    /// Returns the name that a reference to `name` means, if it is another one.
    pub fn meaning(&self, name: &str) -> Option<String> {
        if self.wraps.iter().any(|wrapped| wrapped == name) {
            return Some(format!("__wrap_{name}"));
        }
        let real = name.strip_prefix("__real_").filter(|real| self.wraps.iter().any(|wrapped| wrapped == real));
        let synonym = || self.synonyms.iter().find(|(synonym, _)| synonym == name).map(|(_, meaning)| meaning.clone());
        real.map(str::to_owned).or_else(synonym)
    }

    /// Says whether some references mean another name.
    pub fn rename(&self) -> bool {
        !self.wraps.is_empty() || !self.synonyms.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(text: &str) -> anyhow::Result<(Wishes, Vec<Effect>)> {
        let (mut wishes, mut effects) = (Wishes::default(), Vec::new());
        let mut words = text.split(' ').map(OsString::from);
        while let Some(word) = words.next() {
            effects.push(wishes.take(&word, &mut || words.next())?);
        }
        effects.retain(|effect| *effect != Effect::Nothing);
        Ok((wishes, effects))
    }

    #[test]
    fn options_work_or_are_errors() {
        let (all, effects) = wishes(
            "--gc-sections -u first -usecond --undefined=third --wrap=malloc --wrap free --whole-archive -la \
             --no-whole-archive -z now -znow --defsym=a=b -Map out.map --version-script=x.map -soname y x.o",
        )
        .expect("accepted");
        assert_eq!(all.undefined, ["first", "second", "third"]);
        assert_eq!(all.wraps, ["malloc", "free"]);
        assert_eq!(all.map, Some("out.map".into()));
        let inputs = ["-la", "x.o"].map(|input| Effect::Input(input.into()));
        let [library, object] = inputs;
        assert_eq!(effects, [Effect::Whole(true), library, Effect::Whole(false), object]);
        for (name, meaning) in [("malloc", "__wrap_malloc"), ("__real_free", "free"), ("a", "b")] {
            assert_eq!(all.meaning(name).as_deref(), Some(meaning));
        }
        assert_eq!((all.meaning("b"), all.meaning("__real_other")), (None, None));
        for refused in
            ["-T script", "--section-start=.x=0", "-e begin", "--defsym=a=5", "--defsym=a=b+1", "--frobnicate"]
        {
            assert!(wishes(refused).is_err(), "{refused}");
        }
        assert!(wishes("--wrap").is_err());
    }
}
