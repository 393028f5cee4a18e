//! The composer's facts about a list of pipes, before any code is emitted.

use crate::error::ComposeError;
use crate::pipe::{Action, Body, Operand, Pipe, Step, Target, Width};

/// Most pipes of a composition.
pub const MAX_PIPES: usize = 16;
/// Largest unit, in bytes of the source or of any pipe's input.
const MAX_UNIT: i32 = 6;

/// The way in which a stage takes words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It does nothing.
    Nothing,
    /// Its steps are for words of exactly its gauge.
    Steps,
    /// Its steps work on each lane by itself, in words of up to this width.
    Lanes(Width),
    /// It adds words in ones' complement. Sums of wider words can be folded at the end.
    Ones,
    /// It divides by a polynomial, byte by byte or in wider words.
    Crc(Action),
    /// The stream cipher, with its number among the ciphers.
    Cipher(usize),
}

/// A pipe at its place in the composition.
#[derive(Debug)]
pub(crate) struct Stage<'p> {
    pub(crate) pipe: &'p Pipe,
    pub(crate) kind: Kind,
    /// The number of its first persistent register.
    pub(crate) first: usize,
    /// Which operands of each step are not needed after it.
    pub(crate) dies: Vec<[bool; 2]>,
    /// The logarithm of its input's bytes for each byte of the source.
    pub(crate) rate: i32,
}

/// A composition before it is code.
#[derive(Debug)]
pub(crate) struct Plan<'p> {
    pub(crate) stages: Vec<Stage<'p>>,
    /// Number of persistent registers.
    pub(crate) registers: usize,
    /// The least number of source bytes that leaves no pipe with a part of a word.
    pub(crate) unit: usize,
    /// The logarithm of the output's bytes for each byte of the source.
    pub(crate) rate: i32,
    /// Number of stream ciphers.
    pub(crate) ciphers: usize,
}

impl<'p> Plan<'p> {
    pub(crate) fn new(pipes: &'p [Pipe]) -> Result<Plan<'p>, ComposeError> {
        if pipes.len() > MAX_PIPES {
            return Err(ComposeError::Many);
        }
        let mut plan = Plan { stages: Vec::with_capacity(pipes.len()), registers: 0, unit: 1, rate: 0, ciphers: 0 };
        let mut unit = 0;
        for (number, pipe) in pipes.iter().enumerate() {
            pipe.check().map_err(|error| ComposeError::Pipe { number, error })?;
            let kind = match pipe.body {
                Body::ChaCha20 => Kind::Cipher(plan.ciphers),
                Body::Steps(ref steps) => kind(pipe, steps),
            };
            plan.ciphers += usize::from(pipe.body == Body::ChaCha20);
            unit = unit.max(pipe.input as i32 - plan.rate);
            let dies = dies(pipe);
            plan.stages.push(Stage { pipe, kind, first: plan.registers, dies, rate: plan.rate });
            plan.registers += pipe.keeps.len();
            plan.rate += pipe.output as i32 - pipe.input as i32;
            unit = unit.max(-plan.rate);
            if unit > MAX_UNIT || unit + plan.rate > MAX_UNIT {
                return Err(ComposeError::Unit);
            }
        }
        plan.unit = 1 << unit;
        // A later pipe may have asked for a larger unit than an earlier one's growth allows.
        let grows = plan.stages.iter().any(|stage| unit + stage.rate > MAX_UNIT);
        if grows || unit + plan.rate > MAX_UNIT { Err(ComposeError::Unit) } else { Ok(plan) }
    }

    /// Returns the bytes at a rate for source bytes, rounded up.
    pub(crate) fn scale(bytes: usize, rate: i32) -> usize {
        match rate {
            0.. => bytes << rate,
            _ => bytes.div_ceil(1 << -rate),
        }
    }

    /// Says whether some step writes this register.
    pub(crate) fn is_written(&self, stage: usize, keep: usize) -> bool {
        match self.stages[stage].kind {
            Kind::Cipher(_) => keep == COUNTER,
            _ => self.stages[stage].pipe.steps().iter().any(|step| step.target == Target::Keep(keep)),
        }
    }
}

/// The number of the cipher's register that counts blocks.
pub(crate) const COUNTER: usize = 8;

impl Stage<'_> {
    /// Says whether the stage takes a word of this width at once.
    pub(crate) fn accepts(&self, width: Width) -> bool {
        match self.kind {
            Kind::Nothing | Kind::Crc(_) | Kind::Cipher(_) => true,
            Kind::Ones => width >= self.pipe.input,
            Kind::Lanes(most) => width >= self.pipe.input && width <= most,
            Kind::Steps => width == self.pipe.input,
        }
    }
}

/// Finds the form of a pipe with steps.
fn kind(pipe: &Pipe, steps: &[Step]) -> Kind {
    let gauge = pipe.input;
    if pipe.input != pipe.output {
        return Kind::Steps;
    }
    match steps {
        [] => return Kind::Nothing,
        [Step { target: Target::Keep(keep), action, width, a: Operand::Keep(other), b: Operand::In }]
            if keep == other && *width == gauge =>
        {
            let kept = pipe.keeps[*keep].width;
            match action {
                Action::Ones if pipe.is_commutative && kept == gauge => return Kind::Ones,
                Action::Crc32 | Action::Crc32c if gauge == Width::W8 && kept == Width::W32 => {
                    return Kind::Crc(*action);
                }
                _ => {}
            }
        }
        _ => {}
    }
    lanes(pipe, steps).map_or(Kind::Steps, Kind::Lanes)
}

/// Returns the widest words in which the steps work on each lane by itself.
fn lanes(pipe: &Pipe, steps: &[Step]) -> Option<Width> {
    let mut most = Width::W64;
    for step in steps {
        let fits = |operand| !matches!(operand, Operand::Keep(keep) if pipe.keeps[keep].width != pipe.input);
        if step.width != pipe.input || matches!(step.target, Target::Keep(_)) || !fits(step.a) {
            return None;
        }
        match step.action {
            Action::Move | Action::Not => {}
            Action::And | Action::Or | Action::Xor if fits(step.b) => {}
            // Two lanes can be swapped back by one rotation.
            Action::Swap => most = most.min(Width::ALL[(step.width as usize + 1).min(3)]),
            _ => return None,
        }
    }
    Some(most)
}

/// Finds the last reader of each value of a pipe. Slot 0 is the word from the stream.
fn dies(pipe: &Pipe) -> Vec<[bool; 2]> {
    let mut needed = [false; crate::pipe::MAX_LOCALS + 1];
    needed[0] = pipe.is_tap();
    let slot = |operand| match operand {
        Operand::In => Some(0),
        Operand::Local(local) => Some(local + 1),
        _ => None,
    };
    let mut all = vec![[false; 2]; pipe.steps().len()];
    for (step, dies) in pipe.steps().iter().zip(&mut all).rev() {
        if let Target::Local(local) = step.target {
            needed[local + 1] = false;
        }
        let mut reads = |operand| slot(operand).is_some_and(|slot| !std::mem::replace(&mut needed[slot], true));
        dies[1] = !step.action.is_unary() && reads(step.b);
        dies[0] = reads(step.a);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn kinds_of_the_ready_pipes() {
        let kinds = |line: &str| {
            let pipes = builtin::chain(line).unwrap();
            let plan = Plan::new(&pipes).unwrap();
            (plan.stages.iter().map(|stage| stage.kind).collect::<Vec<_>>(), plan.unit)
        };
        assert_eq!(kinds("copy"), (vec![Kind::Nothing], 1));
        assert_eq!(kinds("copy|checksum|swap32"), (vec![Kind::Nothing, Kind::Ones, Kind::Lanes(Width::W64)], 4));
        assert_eq!(kinds("swap16|xor64").0, [Kind::Lanes(Width::W32), Kind::Lanes(Width::W64)]);
        assert_eq!(kinds("crc32|chacha20"), (vec![Kind::Crc(Action::Crc32), Kind::Cipher(0)], 1));
    }

    #[test]
    fn units_and_rates() {
        let widen = Pipe::parse("pipe w\ngauge 8 -> 64\nout = move.64 in").unwrap();
        let narrow = Pipe::parse("pipe n\ngauge 64 -> 8\nout = move.8 in").unwrap();
        let chain = [narrow.clone(), narrow.clone()];
        assert_eq!(Plan::new(&chain).unwrap().unit, 64);
        let chain = [narrow.clone(), widen.clone(), builtin::swap(Width::W64)];
        assert_eq!(Plan::new(&chain).map(|p| (p.unit, p.rate)), Ok((8, 0)));
        let chain = [widen.clone(), widen.clone()];
        assert_eq!(Plan::new(&chain).map(|p| (p.unit, p.rate)), Ok((1, 6)));
        let chain = [widen.clone(), narrow.clone(), narrow.clone(), narrow.clone()];
        assert_eq!(Plan::new(&chain).unwrap_err(), ComposeError::Unit);
        let chain = vec![builtin::copy(); 17];
        assert_eq!(Plan::new(&chain).unwrap_err(), ComposeError::Many);
    }
}
