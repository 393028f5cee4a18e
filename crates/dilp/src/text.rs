//! The text form of pipes.
//!
//! ```text
//! pipe checksum       # begins a pipe
//! gauge 16            # or two gauges: gauge 32 -> 16
//! commutative         # optional
//! tail pad            # optional: pad or pass
//! keep sum 16         # a persistent register and its width
//! sum = ones sum in   # TARGET = ACTION[.WIDTH] OPERAND [OPERAND]
//! ```
//!
//! The width of a step is the input gauge unless it is named. `in` is the word from the stream, and
//! `out` the word for the stream. A pipe that never writes `out` lets the stream pass unchanged.
//! Other names that are written are temporary registers. Numbers are decimal, or hexadecimal after
//! `0x`.

use crate::error::PipeError;
use crate::pipe::{ACTIONS, Action, Body, Operand, Pipe, Step, Tail, Target, Width};
use std::fmt;

impl Pipe {
    /// Reads one pipe in its text form.
    ///
    /// # Errors
    /// [`PipeError`] if the text is something else, or the pipe is not well formed.
    pub fn parse(text: &str) -> Result<Pipe, PipeError> {
        let mut pipes = Pipe::parse_all(text)?;
        match pipes.len() {
            1 => Ok(pipes.remove(0)),
            _ => Err(PipeError::Text { line: 1, problem: "the text has not exactly one pipe" }),
        }
    }

    /// Reads any number of pipes in their text form.
    ///
    /// # Errors
    /// As [`Pipe::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Pipe>, PipeError> {
        let mut pipes: Vec<Pipe> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let result = match (words.as_slice(), pipes.last_mut()) {
                ([], _) => Ok(()),
                (["pipe", name], _) => {
                    pipes.push(Pipe::new(*name, Width::W8));
                    Ok(())
                }
                (words, Some(pipe)) => read_line(pipe, words),
                (_, None) => Err("no line `pipe NAME` before"),
            };
            result.map_err(|problem| PipeError::Text { line: number + 1, problem })?;
        }
        pipes.iter().try_for_each(Pipe::check)?;
        Ok(pipes)
    }
}

fn read_line(pipe: &mut Pipe, words: &[&str]) -> Result<(), &'static str> {
    match words {
        ["gauge", both] => {
            pipe.input = width(both)?;
            pipe.output = pipe.input;
        }
        ["gauge", input, "->", output] => (pipe.input, pipe.output) = (width(input)?, width(output)?),
        ["commutative"] => pipe.is_commutative = true,
        ["tail", "pad"] => pipe.tail = Tail::Pad,
        ["tail", "pass"] => pipe.tail = Tail::Pass,
        ["keep", name, bits] => {
            named(name)?;
            *pipe = pipe.clone().keep(*name, width(bits)?);
        }
        [target, "=", action, a] => read_step(pipe, target, action, a, None)?,
        [target, "=", action, a, b] => read_step(pipe, target, action, a, Some(b))?,
        _ => return Err("no such line in a pipe"),
    }
    Ok(())
}

/// Refuses names that mean something else.
fn named(name: &str) -> Result<(), &'static str> {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let number = name.starts_with(|c: char| c.is_ascii_digit());
    if letters && !number && name != "in" && name != "out" { Ok(()) } else { Err("no name for a register") }
}

fn width(bits: &str) -> Result<Width, &'static str> {
    bits.parse().ok().and_then(Width::from_bits).ok_or("a width is 8, 16, 32 or 64")
}

fn read_step(pipe: &mut Pipe, target: &str, action: &str, a: &str, b: Option<&&str>) -> Result<(), &'static str> {
    let (action, bits) = action.split_once('.').map_or((action, None), |(action, bits)| (action, Some(bits)));
    let width = bits.map_or(Ok(pipe.input), width)?;
    let action = ACTIONS.iter().find(|(name, _)| *name == action).ok_or("no such action")?.1;
    if action.is_unary() != b.is_none() {
        return Err("wrong number of operands");
    }
    let a = operand(pipe, a)?;
    let b = b.map_or(Ok(Operand::Number(0)), |b| operand(pipe, b))?;
    let target = self::target(pipe, target)?;
    match &mut pipe.body {
        Body::Steps(steps) => steps.push(Step { target, action, width, a, b }),
        Body::ChaCha20 => return Err("the stream cipher has no steps"),
    }
    Ok(())
}

fn operand(pipe: &Pipe, word: &str) -> Result<Operand, &'static str> {
    if word == "in" {
        return Ok(Operand::In);
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        return number.map(Operand::Number).map_err(|_| "no number");
    }
    let keep = pipe.keeps.iter().position(|keep| keep.name == word).map(Operand::Keep);
    let local = || pipe.locals.iter().position(|local| local == word).map(Operand::Local);
    keep.or_else(local).ok_or("a register that nobody wrote")
}

fn target(pipe: &mut Pipe, word: &str) -> Result<Target, &'static str> {
    if word == "out" {
        return Ok(Target::Out);
    }
    named(word)?;
    if let Some(keep) = pipe.keeps.iter().position(|keep| keep.name == word) {
        return Ok(Target::Keep(keep));
    }
    let local = pipe.locals.iter().position(|local| local == word).unwrap_or_else(|| {
        pipe.locals.push(word.to_owned());
        pipe.locals.len() - 1
    });
    Ok(Target::Local(local))
}

/// Returns an action's name in the text form.
pub(crate) fn action_name(action: Action) -> &'static str {
    ACTIONS.iter().find(|(_, other)| *other == action).map_or("", |(name, _)| name)
}

impl Pipe {
    /// Returns the line of a step in the text form.
    pub(crate) fn step_text(&self, step: &Step) -> String {
        let register = |operand: Operand| match operand {
            Operand::In => "in".to_owned(),
            Operand::Keep(keep) => self.keeps[keep].name.clone(),
            Operand::Local(local) => self.locals[local].clone(),
            Operand::Number(number) => format!("{number:#x}"),
        };
        let target = match step.target {
            Target::Out => "out".to_owned(),
            Target::Keep(keep) => self.keeps[keep].name.clone(),
            Target::Local(local) => self.locals[local].clone(),
        };
        let operands = match step.action.is_unary() {
            true => register(step.a),
            false => format!("{} {}", register(step.a), register(step.b)),
        };
        format!("{target} = {}.{} {operands}", action_name(step.action), step.width)
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pipe {}", self.name)?;
        match self.input == self.output {
            true => writeln!(f, "gauge {}", self.input)?,
            false => writeln!(f, "gauge {} -> {}", self.input, self.output)?,
        }
        if self.is_commutative {
            writeln!(f, "commutative")?;
        }
        if self.tail == Tail::Pass {
            writeln!(f, "tail pass")?;
        }
        for keep in &self.keeps {
            writeln!(f, "keep {} {}", keep.name, keep.width)?;
        }
        self.steps().iter().try_for_each(|step| writeln!(f, "{}", self.step_text(step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        pipe mix            # everything
        gauge 16 -> 32
        commutative
        keep key 64
        keep sum 32
        t = xor.64 in key
        sum = ones.32 sum t
        u = shl.32 t 0x3
        out = not.32 u
    ";

    #[test]
    fn text_is_read_and_written() {
        let pipe = Pipe::parse(TEXT).unwrap();
        assert_eq!(pipe.gauges(), (Width::W16, Width::W32));
        assert_eq!((pipe.keeps().len(), pipe.steps().len(), pipe.is_tap()), (2, 4, false));
        assert_eq!(Pipe::parse(&pipe.to_string()).unwrap(), pipe);
    }

    #[test]
    fn wrong_text_is_refused_with_its_line() {
        let problem = |text: &str| Pipe::parse(text).unwrap_err().to_string();
        assert_eq!(problem("gauge 8"), "line 1: no line `pipe NAME` before");
        assert_eq!(problem("pipe a\ngauge 24"), "line 2: a width is 8, 16, 32 or 64");
        assert_eq!(problem("pipe a\nout = jump in in"), "line 2: no such action");
        assert_eq!(problem("pipe a\nout = add in"), "line 2: wrong number of operands");
        assert_eq!(problem("pipe a\nout = add in x"), "line 2: a register that nobody wrote");
        assert_eq!(problem("pipe a\nin = add in 1"), "line 2: no name for a register");
        assert_eq!(problem("pipe a\nout = add in 0x1z"), "line 2: no number");
        assert_eq!(problem("pipe a\nhello"), "line 2: no such line in a pipe");
        assert_eq!(problem("pipe a\npipe b"), "line 1: the text has not exactly one pipe");
    }

    #[test]
    fn pipes_that_are_not_well_formed_are_refused() {
        let error = |text: &str| Pipe::parse(text).unwrap_err();
        assert_eq!(error("pipe a\nout = shl in 8"), PipeError::Shift(1));
        assert_eq!(error("pipe a\nt = move in\nout = shl in t"), PipeError::Shift(2));
        assert_eq!(error("pipe a\nout = add in 256"), PipeError::Operand(1));
        assert_eq!(error("pipe a\nkeep k 8\nk = add.16 in k"), PipeError::Width(1));
        assert_eq!(error("pipe a\nkeep k 16\nk = crc32 k in"), PipeError::Width(1));
        assert_eq!(error("pipe a\ngauge 8 -> 16"), PipeError::Gauges);
        assert_eq!(error("pipe a\ngauge 8 -> 16\ntail pass\nout = move in"), PipeError::Gauges);
        let many = format!("pipe a\n{}", "out = not in\n".repeat(65));
        assert_eq!(error(&many), PipeError::Large);
        let unset = Pipe::new("a", Width::W8).step(Target::Out, Action::Not, Width::W8, Operand::Local(0), Operand::In);
        assert_eq!(unset.check(), Err(PipeError::Operand(1)));
    }
}
