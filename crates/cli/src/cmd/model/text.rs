//! Figures in the terminal.

use super::figure::Figure;
use std::fmt::Write;

const WIDTH: usize = 64;
const HEIGHT: usize = 16;
/// Characters before the vertical axis.
const LEFT: usize = 6;

/// Draws a figure with characters.
pub fn draw(figure: &Figure) -> String {
    let mut cells = vec![[' '; WIDTH + 1]; HEIGHT + 1];
    let column = |x: f64| (figure.x.place(x) * WIDTH as f64).round() as usize;
    let row = |y: f64| HEIGHT - (figure.y.place(y) * HEIGHT as f64).round() as usize;
    for (x, top) in figure.shade.iter().flatten() {
        if *top > 0.0 {
            cells[row(*top)..].iter_mut().for_each(|line| line[column(*x)] = '.');
        }
    }
    for curve in &figure.curves {
        for (x, y) in &curve.points {
            cells[row(*y)][column(*x)] = curve.letter;
        }
    }
    let mut text = format!("{}\n{}\n", figure.title, figure.y.name);
    for (i, cells) in cells.iter().enumerate() {
        let label = figure.y.marks.iter().find(|(value, _)| row(*value) == i).map_or("", |(_, label)| label);
        let line: String = cells.iter().collect();
        let _ = writeln!(text, "{}", format!("{label:>LEFT$} |{line}").trim_end());
    }
    let _ = writeln!(text, "{:>LEFT$} +{}", "", "-".repeat(WIDTH + 1));
    let mut labels = vec![' '; WIDTH + LEFT + 12];
    for (value, label) in &figure.x.marks {
        let start = (column(*value) + LEFT + 2).saturating_sub(label.len() / 2);
        labels[start..start + label.len()].iter_mut().zip(label.chars()).for_each(|(to, c)| *to = c);
    }
    let _ = writeln!(text, "{}", labels.iter().collect::<String>().trim_end());
    let _ = writeln!(text, "{:>LEFT$}  {}", "", figure.x.name);
    for curve in &figure.curves {
        let _ = writeln!(text, "  {}  {}", curve.letter, curve.name);
    }
    text
}
