//! Diagnostics for people, in the shape that rustc users know.

use crate::gate::Finding;
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

const ERROR: Style = AnsiColor::BrightRed.on_default().bold();
const BOLD: Style = Style::new().bold();
const MARGIN: Style = AnsiColor::BrightBlue.on_default().bold();
const GOOD: Style = AnsiColor::BrightGreen.on_default().bold();

/// One diagnostic about one place of an object.
pub struct Diagnostic<'a> {
    /// Stable code.
    pub code: &'a str,
    /// The violation, in one line.
    pub title: &'a str,
    /// The object: a path, or `archive(member)`.
    pub object: &'a str,
    /// Name of the section, and offset in it.
    pub place: Option<(&'a str, u64)>,
    /// The function, with the distance from its start.
    pub function: Option<&'a str>,
    /// File and line of the source.
    pub source: Option<String>,
    /// The instruction.
    pub instruction: Option<&'a str>,
    /// The details of the violation.
    pub detail: &'a str,
    /// Advice.
    pub help: &'a str,
}

impl<'a> Diagnostic<'a> {
    /// Makes a diagnostic from a finding.
    pub fn finding(object: &'a str, finding: &'a Finding) -> Self {
        Diagnostic {
            code: finding.code.id(),
            title: finding.code.title(),
            object,
            place: finding.section_name.as_deref().map(|name| (name, finding.offset)),
            function: finding.function.as_deref(),
            source: finding.source.as_ref().map(ToString::to_string),
            instruction: finding.instruction.as_deref(),
            detail: &finding.detail,
            help: finding.code.help(),
        }
    }

    /// Prints the diagnostic. `out` removes the escape sequences if it is no terminal.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{ERROR}error[{}]{ERROR:#}{BOLD}: {}{BOLD:#}", self.code, self.title)?;
        write!(out, "  {MARGIN}-->{MARGIN:#} {}", visible(self.object))?;
        if let Some((section, offset)) = self.place {
            write!(out, ": {}+{offset:#x}", visible(section))?;
        }
        if let Some(function) = self.function {
            write!(out, ", in `{}`", visible(function))?;
        }
        if let Some(source) = &self.source {
            write!(out, ", at {}", visible(source))?;
        }
        writeln!(out)?;
        match self.instruction {
            Some(instruction) => {
                let carets = "^".repeat(instruction.chars().count());
                writeln!(out, "   {MARGIN}|{MARGIN:#}")?;
                writeln!(out, "   {MARGIN}|{MARGIN:#} {instruction}")?;
                writeln!(out, "   {MARGIN}|{MARGIN:#} {ERROR}{carets} {}{ERROR:#}", visible(self.detail))?;
            }
            None if !self.detail.is_empty() => {
                writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}note{BOLD:#}: {}", visible(self.detail))?;
            }
            None => {}
        }
        writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}help{BOLD:#}: {}\n", self.help)
    }
}

/// Prints an error without a place: `error: libz.a: why`.
pub fn error(out: &mut impl Write, object: &str, why: &str) -> io::Result<()> {
    writeln!(out, "{ERROR}error{ERROR:#}{BOLD}: {}: {}{BOLD:#}\n", visible(object), visible(why))
}

/// Prints the number of findings that a report does not print: `note: and 12 more, in `f` (12)`.
pub fn more(out: &mut impl Write, what: &str) -> io::Result<()> {
    writeln!(out, "{BOLD}note{BOLD:#}: {}\n", visible(what))
}

/// Prints the line of an input that is safe.
pub fn good(out: &mut impl Write, object: &str, what: &str) -> io::Result<()> {
    writeln!(out, "{GOOD}safe{GOOD:#}: {}: {what}", visible(object))
}

/// Prints the line of an input that is refused.
pub fn bad(out: &mut impl Write, object: &str, what: &str) -> io::Result<()> {
    writeln!(out, "{ERROR}refused{ERROR:#}: {}: {what}", visible(object))
}

/// The explanation of a code.
pub struct Explanation {
    pub id: &'static str,
    pub title: &'static str,
    pub why: &'static str,
    /// A few lines that break the rule.
    pub example: &'static str,
    pub help: &'static str,
}

/// Prints the explanation of a code.
pub fn explanation(out: &mut impl Write, topic: &Explanation) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}: {}\n", topic.id, topic.title)?;
    writeln!(out, "{MARGIN}Why{MARGIN:#}\n  {}\n", topic.why)?;
    writeln!(out, "{MARGIN}Example{MARGIN:#}")?;
    for line in topic.example.lines() {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "\n{MARGIN}What to do{MARGIN:#}\n  {}", topic.help)
}

/// Returns a text as SVG writes it.
pub fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Replaces control characters, so that names from hostile objects cannot send them to the
/// terminal.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if sfi_contract::text::is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Code;

    fn plain(diagnostic: &Diagnostic<'_>) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        diagnostic.print(&mut out).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn a_diagnostic_names_code_place_instruction_and_help() {
        let finding = Finding {
            code: Code::Contract(sfi_contract::Rule::StoreSegment),
            section: Some(1),
            section_name: Some(".text".into()),
            offset: 0x12,
            file_offset: None,
            function: Some("f+0x2".into()),
            source: None,
            instruction: Some("mov %rax, (%rdi)".into()),
            detail: "no prefix 65".into(),
            known: None,
        };
        assert_eq!(
            plain(&Diagnostic::finding("a.o", &finding)),
            "error[SFI-S01]: store without the GS override\n  \
               --> a.o: .text+0x12, in `f+0x2`\n   \
                |\n   \
                | mov %rax, (%rdi)\n   \
                | ^^^^^^^^^^^^^^^^ no prefix 65\n   \
                = help: rewrite the object with `sfi rewrite`\n\n"
        );
    }

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(visible("a\u{1b}[31m\n\u{202e}b"), "a\u{fffd}[31m\u{fffd}\u{fffd}b");
    }
}
