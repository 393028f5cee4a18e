//! Rewriting many objects at once, and the files that hold them.

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use sfi_rewriter::{Options, Output, Refusal};
use std::io::{Cursor, IsTerminal};
use std::path::Path;

/// Rewrites the members of an archive in parallel, with a progress bar on a terminal.
pub fn rewrite_members(members: &[(String, &[u8])], options: &Options) -> Vec<Result<Output, Vec<Refusal>>> {
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
            let result = sfi_rewriter::rewrite(bytes, options);
            bar.inc(1);
            result
        })
        .collect();
    bar.finish_and_clear();
    results
}

/// An archive with a symbol index, deterministic (no times, no owners).
pub fn archive(members: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
    use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, write_archive_to_stream};
    let members: Vec<NewArchiveMember<'_>> = members
        .iter()
        .map(|(name, bytes)| NewArchiveMember::new(bytes, &DEFAULT_OBJECT_READER, name.clone()))
        .collect();
    let mut out = Cursor::new(Vec::new());
    write_archive_to_stream(&mut out, &members, ArchiveKind::Gnu, false, None).context("cannot write the archive")?;
    Ok(out.into_inner())
}

/// Writes beside the target and renames, so that a failure leaves no half of a file.
pub fn write_atomically(out: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    if out.as_os_str().is_empty() {
        bail!("the output has no name");
    }
    let directory = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let context = || format!("cannot write `{}`", out.display());
    let mut file = tempfile::NamedTempFile::new_in(directory).with_context(context)?;
    std::io::Write::write_all(&mut file, bytes).with_context(context)?;
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    file.as_file().set_permissions(permissions).with_context(context)?;
    file.persist(out).with_context(context)?;
    Ok(())
}

/// Prints what was left out.
pub fn note(object: &str, notes: &[String]) {
    for note in notes {
        eprintln!("note: {object}: {note}");
    }
}

/// Prints refusals as compilers do.
pub fn report(object: &str, refusals: &[Refusal]) {
    for refusal in refusals {
        eprintln!("error[{}]: {}", refusal.reason.id(), refusal.reason.title());
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
