//! Bars as SVG.

use std::fmt::Write;

/// A name with a bar for each value.
pub struct Bar {
    pub name: String,
    pub values: Vec<f64>,
}

/// The least width of names, and that of a letter.
const LEFT: f64 = 130.0;
const LETTER: f64 = 6.5;
const WIDTH: f64 = 560.0;
const BAR: f64 = 11.0;
const COLOURS: [&str; 2] = ["#2471a3", "#c0392b"];

/// Draws bars that begin at `from` and are as wide as the picture for the largest value.
pub fn draw(title: &str, bars: &[Bar], from: f64) -> String {
    let values = || bars.iter().flat_map(|bar| bar.values.iter().copied());
    let (low, high) = (values().fold(from, f64::min), values().fold(from, f64::max));
    let scale = WIDTH / (high - low).max(f64::EPSILON);
    let longest = bars.iter().map(|bar| bar.name.len()).max().unwrap_or(0);
    let left = LEFT.max(longest as f64 * LETTER + 16.0);
    let zero = left + (from - low) * scale;
    let mut body = String::new();
    let mut top = 34.0;
    for bar in bars {
        let middle = top + BAR * bar.values.len() as f64 / 2.0 + 4.0;
        // Writing to a String does not fail.
        let _ = writeln!(body, "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>", left - 8.0, bar.name);
        for (value, colour) in bar.values.iter().zip(COLOURS.iter().cycle()) {
            let (x, width) = (zero + (value - from).min(0.0) * scale, (value - from).abs() * scale);
            let _ = writeln!(
                body,
                "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{value}</text>",
                BAR - 1.0,
                x + width + 4.0,
                top + BAR - 2.0
            );
            top += BAR;
        }
        top += 7.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"18\" font-weight=\"bold\">{title}</text>\n\
         <line x1=\"{zero:.1}\" y1=\"28\" x2=\"{zero:.1}\" y2=\"{top}\" stroke=\"#000\"/>\n{body}</svg>\n",
        left + WIDTH + 50.0,
        top + 8.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_to_scale_and_small_values_go_left() {
        let bar = |name: &str, value| Bar { name: name.to_owned(), values: vec![value] };
        let svg = draw("t", &[bar("a", 1.4), bar("b", 0.9)], 1.0);
        assert!(svg.contains("width=\"448.0\""), "{svg}");
        assert!(svg.contains("x=\"130.0\"") && svg.contains("width=\"112.0\""), "{svg}");
    }

    #[test]
    fn long_names_have_room() {
        let bar = Bar { name: "n".repeat(30), values: vec![1.0] };
        let svg = draw("t", &[bar], 0.0);
        assert!(svg.contains("<rect x=\"211.0\""), "{svg}");
        assert!(svg.contains("viewBox=\"0 0 821 "), "{svg}");
    }
}
