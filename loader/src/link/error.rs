//! Errors of verifying and linking a domain's objects.

use crate::link::advice::Advice;
use crate::vm::error::MapError;
use sfi_contract::report::{Report, and_others, indented, lines};
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

/// Objects cannot be verified or linked. The values hold all violations and symbols, the texts the
/// first ones and the number of the others.
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
    /// The verifier refused objects.
    #[error("domain `{domain}` was refused:{}", refused(.objects))]
    Refused {
        /// Domain.
        domain: String,
        /// The objects that broke rules.
        objects: Vec<RefusedObject>,
    },
    /// The verifier refused the linked text. This is a defect of the loader.
    #[error("domain `{domain}`: the final text was refused:\n{}", lines(.violations, |v| v.function.as_deref(), ToString::to_string))]
    FinalText {
        /// Domain.
        domain: String,
        /// The violations.
        violations: Vec<Violation>,
    },
    /// Symbols without a definition.
    #[error("domain `{domain}` has undefined symbols:\n{}{}", mentions(.symbols, "used in "), undefined_help(.symbols))]
    Undefined {
        /// Domain.
        domain: String,
        /// The symbols, each with an object that uses it.
        symbols: Vec<Mention>,
    },
    /// Symbols with more than one strong definition.
    #[error("domain `{domain}` defines symbols twice:\n{}", mentions(.symbols, ""))]
    Duplicate {
        /// Domain.
        domain: String,
        /// The symbols, each with two objects that define it.
        symbols: Vec<Mention>,
    },
    /// Symbols that the specification grants and an object defines. See
    /// [`crate::Import::overrides`].
    #[error("domain `{domain}` defines symbols that are granted to it; say `override` where the grant is meant:\n{}", mentions(.symbols, "granted by the specification, "))]
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

/// Returns the first symbols, and the number of the others by object.
fn mentions(symbols: &[Mention], how: &str) -> String {
    lines(symbols, |s| s.files.first().map(String::as_str), |s| s.say(how))
}

/// Returns the report about refused objects: one line if their mode is wrong and nothing else.
fn refused(objects: &[RefusedObject]) -> String {
    let mut report = Report::default();
    let (mut advised, mut all) = (Vec::new(), Vec::new());
    for object in objects {
        if let Some(advice) = object.advice.filter(|advice| !advised.contains(advice)) {
            advised.push(advice);
            let others = objects.iter().filter(|other| other.advice == Some(advice)).count() - 1;
            all.push(format!("{}: {advice}", and_others(&object.name, others)));
        }
        // An object of another mode breaks a rule at each load, so only the advice is printed.
        if matches!(object.advice, Some(Advice::OtherMode { .. })) {
            continue;
        }
        let shown = object.violations.iter().filter(|v| report.shows(v.function.as_deref()));
        all.extend(shown.map(|violation| format!("{}: {violation}", object.name)));
        report.omit(object.omitted);
    }
    all.extend(report.rest());
    match all.as_slice() {
        [only] => format!(" {only}"),
        all => format!("\n{}", indented(all.iter().cloned())),
    }
}
