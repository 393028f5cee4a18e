//! The windows of a world, as text and as a picture.

use crate::render::markup;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_loader::{Protection, Segment, World};
use std::fmt::Write;

/// Width of a drawn window, and the space at its sides.
const WIDTH: f64 = 860.0;
const SIDE: f64 = 20.0;
/// Height of a drawn window and of a line of text.
const HEIGHT: f64 = 46.0;
const LINE: f64 = 16.0;
/// Least width of a part, so that a page is seen among 4 GiB.
const LEAST: f64 = 1.5;

/// Lists the segments of each domain. Their order in memory is part of the secret, as the addresses
/// are, so without `addresses` they are sorted by name.
pub fn text(world: &World, addresses: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    for name in world.domains() {
        let domain = world.domain(name)?;
        let usage = domain.usage();
        write!(text, "domain {name}: vector registers {:?}", usage.vectors)?;
        text += if usage.x87 { ", x87 or MMX" } else { "" };
        text += if usage.mxcsr { ", MXCSR\n" } else { "\n" };
        let base = domain.secret_base();
        if addresses {
            writeln!(text, "  window at {base:#x}")?;
        }
        let mut segments: Vec<_> = domain.segments().iter().collect();
        if !addresses {
            segments.sort_by(|a, b| a.name.cmp(&b.name));
        }
        for segment in segments {
            write!(text, "  {} {:>10} KiB", access(segment), segment.length / 1024)?;
            if addresses {
                write!(text, "  {:#x}", base + segment.offset)?;
            }
            writeln!(text, "  {}", segment.name)?;
        }
    }
    Ok(text)
}

/// Draws the window of each domain to scale, and lists its segments with their offsets. They are
/// secrets.
pub fn picture(world: &World) -> anyhow::Result<String> {
    let (mut body, mut top) = (String::new(), 0.0);
    for name in world.domains() {
        let segments = world.domain(name)?.segments();
        top = window(&mut body, name, segments, top)?;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {top}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
        WIDTH + 2.0 * SIDE
    ))
}

/// Draws one window from `top` on, and returns the place below it.
fn window(body: &mut String, name: &str, segments: &[Segment], top: f64) -> anyhow::Result<f64> {
    let x = |offset: u64| SIDE + offset as f64 / WINDOW_SIZE as f64 * WIDTH;
    let mut segments: Vec<_> = segments.iter().collect();
    segments.sort_by_key(|segment| segment.offset);
    let bar = top + 2.5 * LINE;
    writeln!(
        body,
        "<text x=\"{SIDE}\" y=\"{}\" font-weight=\"bold\">domain {}: a window of 4 GiB</text>",
        top + 1.5 * LINE,
        markup(name)
    )?;
    writeln!(
        body,
        "<rect x=\"{SIDE}\" y=\"{bar}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f4\" stroke=\"#000\"/>"
    )?;
    for segment in &segments {
        let width = (x(segment.end()) - x(segment.offset)).max(LEAST);
        writeln!(
            body,
            "<rect x=\"{:.1}\" y=\"{bar}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{}\"/>",
            x(segment.offset),
            colour(segment)
        )?;
    }
    let mut line = bar + HEIGHT + LINE;
    for gibibytes in 0..=4 {
        let at = x(gibibytes << 30);
        writeln!(body, "<text x=\"{at:.1}\" y=\"{line}\" text-anchor=\"middle\">{gibibytes}</text>")?;
    }
    for segment in segments {
        line += LINE;
        let place = line - 10.0;
        writeln!(
            body,
            "<rect x=\"{SIDE}\" y=\"{place}\" width=\"10\" height=\"10\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"{line}\" xml:space=\"preserve\" font-family=\"monospace\">{} {:#010x} {:>9} KiB  {}</text>",
            colour(segment),
            SIDE + LINE,
            access(segment),
            segment.offset,
            segment.length / 1024,
            markup(&segment.name)
        )?;
    }
    Ok(line + LINE)
}

/// Returns a segment's access as `/proc/PID/maps` writes it.
fn access(segment: &Segment) -> String {
    let protection = match segment.protection {
        Protection::Read => "r--",
        Protection::ReadWrite => "rw-",
        Protection::ReadExecute => "r-x",
    };
    format!("{protection}{}", if segment.shared { 's' } else { 'p' })
}

fn colour(segment: &Segment) -> &'static str {
    match (segment.protection, segment.shared) {
        (_, true) => "#6c3483",
        (Protection::Read, false) => "#566573",
        (Protection::ReadWrite, false) => "#2471a3",
        (Protection::ReadExecute, false) => "#c0392b",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(name: &str, offset: u64, protection: Protection) -> Segment {
        Segment { name: name.to_owned(), offset, length: 0x4000, protection, shared: false }
    }

    #[test]
    fn parts_are_drawn_to_scale_and_names_are_text() {
        let segments = [
            segment("heap <x>", WINDOW_SIZE / 2, Protection::ReadWrite),
            segment("text", 0x40_0000, Protection::ReadExecute),
        ];
        let mut body = String::new();
        let below = window(&mut body, "a&b", &segments, 10.0).expect("drawn");
        assert!(below > 10.0 + HEIGHT);
        assert!(body.contains("domain a&amp;b") && body.contains("heap &lt;x&gt;"), "{body}");
        let middle = format!("<rect x=\"{:.1}\"", SIDE + WIDTH / 2.0);
        assert!(body.contains(&middle), "{body}");
        assert!(body.find("0x00400000") < body.find("0x80000000"), "{body}");
    }
}
