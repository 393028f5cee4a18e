//! Rewriting many objects at once, and the files that hold them.

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use sfi_contract::report::Report;
use sfi_rewriter::{Options, Refusal};
use sfi_validator::{Checked, Failure, Finding, Validation};
use std::fs::{OpenOptions, Permissions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Rewrites and validates the members of an archive in parallel, with a progress bar on a terminal.
pub fn rewrite_members(
    members: &[(String, &[u8])],
    options: &Options,
    validation: Validation,
) -> Vec<Result<Checked, Failure>> {
    let bar = ProgressBar::with_draw_target(Some(members.len() as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} members {elapsed}") {
        bar.set_style(style);
    }
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let results = members
        .par_iter()
        .map(|(_, bytes)| {
            let result = sfi_validator::rewrite(bytes, options, validation);
            bar.inc(1);
            result
        })
        .collect();
    bar.finish_and_clear();
    results
}

/// Code of a difference: the validator cannot prove that the output does what the input does.
const NOT_PROVED: &str = "SFI-V01";

/// A report about the objects that have no output. It prints the first reasons, and counts the
/// others.
#[derive(Default)]
pub struct Failures {
    report: Report,
    /// Says whether refusals are no errors, because the user asked to leave out such objects.
    pub left_out: bool,
}

impl Failures {
    /// Prints the reasons why an object has no output.
    pub fn add(&mut self, object: &str, failure: &Failure) {
        match failure {
            Failure::Refused(refusals) => self.refused(object, refusals),
            Failure::NotProved(findings) => self.not_proved(object, findings),
        }
    }

    /// Prints the number of reasons that were not printed.
    pub fn finish(&mut self) {
        if let Some(rest) = self.report.rest() {
            eprintln!("note: {rest}");
        }
    }

    fn not_proved(&mut self, object: &str, findings: &[Finding]) {
        for finding in findings {
            if !self.report.shows(None) {
                continue;
            }
            eprintln!(
                "error[{NOT_PROVED}]: internal error: the rewritten code is not proved to do what the original does"
            );
            eprintln!("  --> {object}");
            for line in finding.to_string().lines() {
                eprintln!("   | {line}");
            }
            eprintln!("   = help: please report this with the object");
        }
    }

    /// Prints refusals as compilers do.
    fn refused(&mut self, object: &str, refusals: &[Refusal]) {
        let severity = if self.left_out { "warning" } else { "error" };
        for refusal in refusals {
            if !self.report.shows(refusal.function.as_deref()) {
                continue;
            }
            eprintln!("{severity}[{}]: {}", refusal.reason.id(), refusal.reason.title());
            let function = refusal.function.as_ref().map(|f| format!(" in `{f}`")).unwrap_or_default();
            if refusal.section.is_empty() {
                eprintln!("  --> {object}");
            } else {
                eprintln!("  --> {object}: {}+{:#x}{function}", refusal.section, refusal.offset);
            }
            if let Some(instruction) = &refusal.instruction {
                eprintln!("   | {instruction}");
            }
            if !refusal.detail.is_empty() {
                eprintln!("   = note: {}", refusal.detail);
            }
            eprintln!("   = help: {}", refusal.reason.help());
        }
    }
}

/// Writes an output.
///
/// A regular file appears as a whole or not at all, because the bytes are written to a new file
/// that then takes its name. Links are followed. An existing file keeps its mode, and becomes
/// executable if the output is. Other files, such as devices, are opened and written.
pub fn write_output(out: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    if out.as_os_str().is_empty() {
        bail!("the output has no name");
    }
    write_file(out, bytes, mode).with_context(|| format!("cannot write `{}`", out.display()))
}

fn write_file(out: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let out = &follow(out)?;
    let mode = match std::fs::metadata(out) {
        Ok(there) if !there.is_file() => return OpenOptions::new().write(true).open(out)?.write_all(bytes),
        Ok(there) => {
            let kept = there.permissions().mode();
            // Users who may read the file may run it, as with linkers.
            kept | mode & 0o111 & (kept >> 2)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => mode,
        Err(error) => return Err(error),
    };
    let directory = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.persist(out)?;
    Ok(())
}

/// Length of the longest chain of links: the kernel's limit.
const LINKS: usize = 40;

/// Returns the end of a chain of links, which may be a file that does not exist yet.
fn follow(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = std::fs::read_link(&path) else { return Ok(path) };
        // Links of the kernel's own, as in /proc, do not lead to a path.
        if std::fs::metadata(&path).is_ok_and(|m| !m.is_file()) {
            return Ok(path);
        }
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(std::io::Error::other("too many links"))
}

/// Prints notes about an object.
pub fn note(object: &str, notes: &[String]) {
    for note in notes {
        eprintln!("note: {object}: {note}");
    }
}

/// Prints the parts that were left out of a rewritten object, and those that are not proved.
pub fn notes(object: &str, checked: &Checked) {
    note(object, &checked.output.notes);
    note(object, checked.note().as_slice());
}
