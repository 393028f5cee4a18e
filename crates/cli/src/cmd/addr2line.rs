//! `sfi addr2line`

use crate::document;
use crate::objects::Objects;
use crate::render::visible;
use anyhow::{Context, ensure};
use serde_json::json;
use sfi_debuginfo::Frame;
use sfi_verifier::elf::{Object, Place as SymbolPlace};
use std::path::PathBuf;
use std::process::ExitCode;

/// Say which function and source line a place in an object comes from.
/// The places are those in faults and refusals: a function with an offset, a section with an
/// offset, or an offset in the only section of code. Functions that were inlined are named
/// innermost first. Lines need debug information (`-g`), which rewriting keeps. The object's author
/// wrote it, so it may be wrong.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi addr2line plugin.sfi.o inflate+0x1c2
  sfi addr2line plugin.sfi.o .text.inflate+1c2 0x40
  sfi addr2line prog.sfi.a main+0x12          an archive, or what `sfi cc` wrote
  sfi addr2line --json plugin.sfi.o inflate | jq '.places[].frames[0].line'

Exit codes:
  0  every place has a line
  1  a place does not exist or has no line
  2  the file could not be read")]
pub struct Args {
    /// An object, an archive, or a program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// FUNCTION[+OFFSET], SECTION[+OFFSET] or OFFSET; offsets are hexadecimal.
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A place in an object, with its source.
struct Found {
    /// The place as the user wrote it.
    asked: String,
    object: String,
    /// The section's name. `offset` counts from its start.
    section: String,
    offset: u64,
    frames: Vec<Frame>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = Objects::read(&args.file)?;
    let objects = file.all()?;
    ensure!(!objects.is_empty(), "`{}` holds no object", args.file.display());
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for asked in &args.places {
        let (name, offset) = parse(asked)?;
        let before = found.len();
        for (object_name, object) in &objects {
            let places = find(object, name, offset);
            let sources = sfi_debuginfo::lookup_in(object, &places);
            for ((section, offset), frames) in places.into_iter().zip(sources) {
                found.push(Found {
                    asked: asked.clone(),
                    object: object_name.clone(),
                    section: object.sections[section].name.to_owned(),
                    offset,
                    frames,
                });
            }
        }
        if found.len() == before {
            missing.push(asked);
        }
    }
    let complete = missing.is_empty() && found.iter().all(|f| f.frames.first().is_some_and(|f| f.line.is_some()));
    if args.json {
        document::print(json!({ "places": found.iter().map(place).collect::<Vec<_>>() }))?;
    } else {
        found.iter().for_each(print);
    }
    for asked in missing {
        eprintln!("error: there is no place `{asked}` in `{}`", args.file.display());
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses an offset with an optional name before it.
fn parse(text: &str) -> anyhow::Result<(Option<&str>, u64)> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16);
    if let Some((name, offset)) = text.rsplit_once('+') {
        let offset = number(offset).with_context(|| format!("`{text}`: the offset is no hexadecimal number"))?;
        return Ok((Some(name), offset));
    }
    match number(text) {
        Ok(offset) if text.starts_with(|c: char| c.is_ascii_digit()) => Ok((None, offset)),
        _ => Ok((Some(text), 0)),
    }
}

/// Returns the places of an object that a name means: those of functions, or else of a section.
/// Without a name it is the only section of code.
fn find(object: &Object<'_>, name: Option<&str>, offset: u64) -> Vec<(usize, u64)> {
    let code = || object.sections.iter().enumerate().filter(|(_, s)| s.is_executable() && !s.data.is_empty());
    let inside = |place: &(usize, u64)| object.sections.get(place.0).is_some_and(|s| place.1 < s.data.len() as u64);
    let Some(name) = name else {
        let mut all = code();
        let only = all.next().filter(|_| all.next().is_none());
        return only.map(|(section, _)| (section, offset)).filter(inside).into_iter().collect();
    };
    let mut places: Vec<(usize, u64)> = object
        .symbols
        .iter()
        .filter(|s| s.name == name)
        .filter_map(|s| match s.place {
            SymbolPlace::Section(section) => Some((section, s.value.checked_add(offset)?)),
            _ => None,
        })
        .filter(|(section, _)| object.sections.get(*section).is_some_and(|s| s.is_executable()))
        .collect();
    if places.is_empty() {
        places.extend(code().filter(|(_, s)| s.name == name).map(|(section, _)| (section, offset)));
    }
    places.retain(inside);
    places.sort_unstable();
    places.dedup();
    places
}

fn print(found: &Found) {
    let Some(first) = found.frames.first() else {
        println!("{}: ?? at ??", visible(&found.asked));
        return;
    };
    let name = |frame: &Frame| frame.function.clone().unwrap_or_else(|| "??".to_owned());
    println!("{}: {} at {first}", visible(&found.asked), name(first));
    for frame in &found.frames[1..] {
        println!("  inlined into {} at {frame}", name(frame));
    }
}

fn place(found: &Found) -> serde_json::Value {
    let frame = |f: &Frame| json!({ "function": f.function, "file": f.file, "line": f.line, "column": f.column });
    json!({
        "place": found.asked,
        "object": found.object,
        "section": found.section,
        "offset": found.offset,
        "frames": found.frames.iter().map(frame).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn places_are_names_with_hexadecimal_offsets() {
        assert_eq!(parse("f+0x1c").unwrap(), (Some("f"), 0x1c));
        assert_eq!(parse(".text.f+1c").unwrap(), (Some(".text.f"), 0x1c));
        assert_eq!(parse("0x40").unwrap(), (None, 0x40));
        assert_eq!(parse("add").unwrap(), (Some("add"), 0));
        assert!(parse("f+x").is_err());
    }
}
