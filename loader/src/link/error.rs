//! Errors of verifying and linking a domain's objects.

use crate::link::advice::{Advice, SHOWN, rest};
use crate::vm::error::MapError;
use sfi_verifier::{Unreadable, Violation};

/// An object that the verifier refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedObject {
    /// Object or `archive(member)`.
    pub name: String,
    /// The violations, by section and offset.
    pub violations: Vec<Violation>,
    /// Number of violations beyond these.
    pub omitted: u64,
    /// Advice about the object as a whole.
    pub advice: Option<Advice>,
}

/// A symbol, and the objects that an error is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    /// The symbol.
    pub symbol: String,
    /// Objects, or `archive(member)`.
    pub files: Vec<String>,
}

impl Mention {
    pub(crate) fn new(symbol: impl Into<String>, files: impl Into<Vec<String>>) -> Mention {
        Mention { symbol: symbol.into(), files: files.into() }
    }

    /// Returns `symbol (how file, file)`.
    fn say(&self, how: &str) -> String {
        format!("{} ({how}{})", self.symbol, self.files.join(", "))
    }
}

/// Functions of the C and C++ libraries that are missing first in a domain without one.
const LIBRARY: [&str; 42] = [
    "__errno_location",
    "__stack_chk_fail",
    "_ZdlPv",
    "_ZdlPvm",
    "_Znam",
    "_Znwm",
    "__cxa_guard_acquire",
    "__gxx_personality_v0",
    "abort",
    "calloc",
    "exit",
    "fclose",
    "fflush",
    "fopen",
    "fprintf",
    "fputs",
    "fread",
    "free",
    "fwrite",
    "getenv",
    "malloc",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "printf",
    "putchar",
    "puts",
    "qsort",
    "realloc",
    "snprintf",
    "sprintf",
    "stderr",
    "stdout",
    "strchr",
    "strcmp",
    "strlen",
    "strncmp",
    "strtol",
    "vfprintf",
    "vsnprintf",
];

/// Returns advice if functions of the C library are undefined.
fn undefined_help(symbols: &[Mention]) -> String {
    let library: Vec<&str> = symbols.iter().map(|s| s.symbol.as_str()).filter(|s| LIBRARY.contains(s)).collect();
    match library.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let others = if rest.is_empty() { "is a function" } else { "and others are functions" };
            format!(
                "\n`{first}` {others} of the C or C++ library: give the domain a rewritten one (`archives = [\"libc.a\"]`) \
                 and a `syscalls` table, or grant a host function of this name in `imports`"
            )
        }
    }
}

/// Objects cannot be verified or linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// An object is not readable.
    #[error("cannot read {file}")]
    Unreadable {
        /// Object or `archive(member)`.
        file: String,
        /// The reason.
        source: Unreadable,
    },
    /// The verifier refused objects; every violation is listed.
    #[error("domain `{domain}` was refused:\n{}", refused(.objects))]
    Refused {
        /// Domain.
        domain: String,
        /// The objects that broke rules.
        objects: Vec<RefusedObject>,
    },
    /// The verifier refused the linked text. This is a defect of the loader.
    #[error("domain `{domain}`: the final text was refused:\n{}", lines(.violations.iter().map(ToString::to_string)))]
    FinalText {
        /// Domain.
        domain: String,
        /// The violations.
        violations: Vec<Violation>,
    },
    /// Symbols without a definition.
    #[error("domain `{domain}` has undefined symbols:\n{}{}", lines(.symbols.iter().map(|s| s.say("used in "))), undefined_help(.symbols))]
    Undefined {
        /// Domain.
        domain: String,
        /// The symbols, each with an object that uses it.
        symbols: Vec<Mention>,
    },
    /// Symbols with more than one strong definition.
    #[error("domain `{domain}` defines symbols twice:\n{}", lines(.symbols.iter().map(|s| s.say(""))))]
    Duplicate {
        /// Domain.
        domain: String,
        /// The symbols, each with two objects that define it.
        symbols: Vec<Mention>,
    },
    /// Symbols that the specification grants and an object defines. See
    /// [`crate::Import::overrides`].
    #[error("domain `{domain}` defines symbols that are granted to it; say `override` where the grant is meant:\n{}", lines(.symbols.iter().map(|s| s.say("granted by the specification, "))))]
    Granted {
        /// Domain.
        domain: String,
        /// The symbols, each with an object that defines it.
        symbols: Vec<Mention>,
    },
    /// A place that linking failed at.
    #[error("domain `{domain}`: {place}: {why}")]
    Place {
        /// Domain.
        domain: String,
        /// File, section and offset.
        place: String,
        /// The reason.
        why: String,
    },
    /// A part of the domain fits nowhere in its window.
    #[error("domain `{domain}`: the {part} does not fit the window")]
    NoRoom {
        /// Domain.
        domain: String,
        /// The part.
        part: String,
    },
    /// The regions are larger than a window.
    #[error("the shared regions do not fit a window")]
    Regions,
    /// The specification shares a region that the world does not have.
    #[error("domain `{domain}` shares the unknown region `{region}`")]
    UnknownRegion {
        /// Domain.
        domain: String,
        /// Region.
        region: String,
    },
    /// The operating system gave no memory.
    #[error(transparent)]
    Map(#[from] MapError),
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.map(|i| format!("  {i}")).collect::<Vec<_>>().join("\n")
}

fn refused(objects: &[RefusedObject]) -> String {
    lines(objects.iter().flat_map(|object| {
        let name = &object.name;
        let advice = object.advice.map(|advice| advice.to_string());
        // An object of another mode breaks a rule at each load, so only the advice is printed.
        let shown = if matches!(object.advice, Some(Advice::OtherMode { .. })) { 0 } else { SHOWN };
        let rest = rest(object.violations.iter().map(|v| v.function.as_deref()), object.omitted);
        let violations = object.violations.iter().take(shown).map(ToString::to_string);
        let all = advice.into_iter().chain(violations).chain(rest.filter(|_| shown > 0));
        all.map(move |text| format!("{name}: {text}"))
    }))
}
