//! The ratios as bars, in SVG.

use std::fmt::Write;

/// Width of a ratio of 1.
const UNIT: f64 = 400.0;
/// Ratios that are larger end here, with their number beside the bar.
const MOST: f64 = 2.0;
const LABELS: f64 = 90.0;
const BAR: f64 = 9.0;
const COLOURS: [&str; 5] = ["#3f6fb5", "#b5563f", "#8a8a8a", "#4a9a62", "#8a5fb0"];

/// Draws a group of bars for each program. `series` names the bars of a group.
pub(crate) fn draw(series: &[&str], rows: &[(&str, Vec<Option<f64>>)]) -> String {
    let group = BAR * series.len() as f64 + 8.0;
    let (width, height) = (LABELS + UNIT * MOST + 60.0, 40.0 + group * rows.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, name) in series.iter().enumerate() {
        let (x, colour) = (LABELS + 150.0 * index as f64, COLOURS[index % COLOURS.len()]);
        let text = x + 14.0;
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{text}\" y=\"17\">{name}</text>");
    }
    for (number, (program, ratios)) in rows.iter().enumerate() {
        let top = 30.0 + group * number as f64;
        let middle = top + group / 2.0;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{middle}\">{program}</text>");
        for (index, ratio) in ratios.iter().enumerate() {
            let Some(ratio) = ratio else { continue };
            let (y, colour) = (top + BAR * index as f64, COLOURS[index % COLOURS.len()]);
            let long = ratio.min(MOST) * UNIT;
            let (end, base) = (LABELS + long + 4.0, y + BAR - 1.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{long:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                BAR - 1.0
            );
            let _ = writeln!(svg, "<text x=\"{end:.1}\" y=\"{base}\" font-size=\"9\">{ratio:.2}</text>");
        }
    }
    let one = LABELS + UNIT;
    let _ = writeln!(svg, "<line x1=\"{one}\" y1=\"26\" x2=\"{one}\" y2=\"{height}\" stroke=\"black\"/>");
    svg + "</svg>\n"
}
