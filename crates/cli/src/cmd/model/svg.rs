//! Figures as one SVG document.

use super::figure::Figure;
use crate::render::markup;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
/// Space at the left of an axis, above a figure, and for each line below it.
const LEFT: f64 = 70.0;
const ABOVE: f64 = 50.0;
const LINE: f64 = 18.0;

const COLOURS: [&str; 6] = ["#c0392b", "#2471a3", "#1e8449", "#b9770e", "#6c3483", "#566573"];

/// Draws figures below each other.
pub fn draw(figures: &[Figure]) -> String {
    let below = |figure: &Figure| (figure.curves.len() as f64 + 3.0) * LINE;
    let height: f64 = figures.iter().map(|figure| ABOVE + HEIGHT + below(figure)).sum();
    let width = LEFT + WIDTH + 2.0 * LINE;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = 0.0;
    for figure in figures {
        one(&mut text, figure, top + ABOVE);
        top += ABOVE + HEIGHT + below(figure);
    }
    text.push_str("</svg>\n");
    text
}

fn one(text: &mut String, figure: &Figure, top: f64) {
    let x = |value: f64| LEFT + figure.x.place(value) * WIDTH;
    let y = |value: f64| top + HEIGHT - figure.y.place(value) * HEIGHT;
    let path = |points: &[(f64, f64)]| {
        points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect::<Vec<_>>().join(" ")
    };
    // Writing to a String does not fail.
    let _ =
        writeln!(text, "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>", top - 26.0, markup(&figure.title));
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", top - 8.0, markup(figure.y.name));
    if let Some(shade) = &figure.shade {
        let (low, high) = (figure.y.low, figure.x.high);
        let end = [(high, low), (figure.x.low, low)];
        let points = path(&[shade.as_slice(), &end].concat());
        let _ = writeln!(text, "<polygon points=\"{points}\" fill=\"#d6eaf8\"/>");
        let _ = writeln!(text, "<polyline points=\"{}\" fill=\"none\" stroke=\"#2471a3\"/>", path(shade));
    }
    let _ = writeln!(
        text,
        "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#000\"/>"
    );
    for (value, label) in &figure.x.marks {
        let (at, low) = (x(*value), top + HEIGHT + LINE);
        let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{low}\" text-anchor=\"middle\">{}</text>", markup(label));
    }
    for (value, label) in &figure.y.marks {
        let (at, right) = (y(*value) + 4.0, LEFT - 6.0);
        let _ = writeln!(text, "<text x=\"{right}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>", markup(label));
    }
    let mut line = top + HEIGHT + 2.0 * LINE;
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{line}\">{}</text>", markup(figure.x.name));
    for (i, curve) in figure.curves.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        line += LINE;
        let _ = match curve.points.as_slice() {
            [(a, b)] => writeln!(text, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>", x(*a), y(*b)),
            points => writeln!(text, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>", path(points)),
        };
        let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{line}\" fill=\"{colour}\">{}</text>", markup(&curve.name));
    }
}
