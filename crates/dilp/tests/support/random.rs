//! Random pipes, lengths and data.

use rand::{Rng, RngExt};
use sfi_dilp::{Action, Operand, Pipe, Tail, Target, Width, builtin};

const BINARY: [Action; 11] = [
    Action::Add,
    Action::Sub,
    Action::Mul,
    Action::And,
    Action::Or,
    Action::Xor,
    Action::Ones,
    Action::Less,
    Action::Equal,
    Action::Crc32,
    Action::Crc32c,
];
const UNARY: [Action; 3] = [Action::Move, Action::Not, Action::Swap];
const SHIFTS: [Action; 4] = [Action::Shl, Action::Shr, Action::Rol, Action::Ror];
const REDUCING: [Action; 5] = [Action::Add, Action::Xor, Action::Or, Action::And, Action::Ones];

fn pick<T: Copy>(rng: &mut impl Rng, all: &[T]) -> T {
    all[rng.random_range(0..all.len())]
}

/// Returns a number that is often short.
pub fn number(rng: &mut impl Rng) -> u64 {
    let word = rng.random::<u64>();
    match rng.random_range(0..4) {
        0 => word & 0x7f,
        1 => !(word & 0xff),
        2 => word >> rng.random_range(0..64),
        _ => word,
    }
}

/// Returns a list of pipes.
pub fn pipes(rng: &mut impl Rng) -> Vec<Pipe> {
    (0..rng.random_range(1..6)).map(|number| pipe(rng, number)).collect()
}

fn pipe(rng: &mut impl Rng, number: usize) -> Pipe {
    match rng.random_range(0..10) {
        0..4 => builtin::named(pick(rng, &builtin::NAMES)).expect("a name"),
        4..6 => reducing(rng, number),
        6..8 => free(rng, number, true),
        _ => free(rng, number, false),
    }
}

/// Returns a pipe that adds up words in any order, of the forms that vectors have.
fn reducing(rng: &mut impl Rng, number: usize) -> Pipe {
    let gauge = pick(rng, &Width::ALL);
    let width = if rng.random_bool(0.3) { Width::W64 } else { gauge };
    let pipe = Pipe::new(format!("sum{number}"), gauge).commutative().keep("sum", width).tail(tail(rng));
    let target = Target::Keep(0);
    match rng.random_range(0..3) {
        0 => {
            let other = Operand::Number(self::number(rng) & gauge.mask());
            let pipe = pipe.step(Target::Local(0), pick(rng, &BINARY[..6]), gauge, Operand::In, other);
            pipe.step(target, pick(rng, &REDUCING), gauge, Operand::Keep(0), Operand::Local(0))
        }
        1 => pipe.step(target, Action::Add, width, Operand::Keep(0), Operand::In),
        _ => pipe.step(target, pick(rng, &REDUCING), gauge, Operand::Keep(0), Operand::In),
    }
}

fn tail(rng: &mut impl Rng) -> Tail {
    if rng.random_bool(0.5) { Tail::Pad } else { Tail::Pass }
}

/// Returns a pipe with random steps. A plain one has equal gauges and operations of its gauge.
fn free(rng: &mut impl Rng, number: usize, plain: bool) -> Pipe {
    let gauge = pick(rng, &Width::ALL);
    let mut pipe = Pipe::new(format!("user{number}"), gauge);
    let keeps = rng.random_range(0..4);
    for keep in 0..keeps {
        let width = if plain { gauge } else { pick(rng, &Width::ALL) };
        pipe = pipe.keep(format!("k{keep}"), width);
    }
    let changes = plain || rng.random_bool(0.7);
    let two = !plain && rng.random_bool(0.4);
    if changes && two {
        pipe = pipe.output_gauge(pick(rng, &Width::ALL));
    } else if rng.random_bool(0.4) {
        pipe = pipe.tail(Tail::Pass);
    }
    let mut locals = 0;
    for _ in 0..rng.random_range(0..7) {
        pipe = step(rng, pipe, keeps, &mut locals, gauge, plain);
    }
    if changes {
        let last = if locals > 0 { Operand::Local(rng.random_range(0..locals)) } else { Operand::In };
        let width = if plain { gauge } else { pick(rng, &Width::ALL) };
        let action = pick(rng, if plain { &BINARY[3..6] } else { &BINARY });
        pipe = pipe.step(Target::Out, action, width, last, operand(rng, keeps, locals, width));
    }
    pipe
}

fn operand(rng: &mut impl Rng, keeps: usize, locals: usize, width: Width) -> Operand {
    match rng.random_range(0..4) {
        0 if keeps > 0 => Operand::Keep(rng.random_range(0..keeps)),
        1 if locals > 0 => Operand::Local(rng.random_range(0..locals)),
        2 => Operand::Number(number(rng) & width.mask()),
        _ => Operand::In,
    }
}

fn step(rng: &mut impl Rng, pipe: Pipe, keeps: usize, locals: &mut usize, gauge: Width, plain: bool) -> Pipe {
    let mut width = if plain { gauge } else { pick(rng, &Width::ALL) };
    let kind = rng.random_range(0..10);
    let action = match kind {
        0..5 => pick(rng, if plain { &BINARY[..6] } else { &BINARY }),
        5..7 => pick(rng, &UNARY),
        _ => pick(rng, &SHIFTS),
    };
    let to_keep = !plain && keeps > 0 && rng.random_bool(0.3);
    let target = if to_keep {
        let keep = rng.random_range(0..keeps);
        let most = pipe.keeps()[keep].width;
        if matches!(action, Action::Crc32 | Action::Crc32c) && most < Width::W32 {
            return pipe;
        }
        width = width.min(most);
        Target::Keep(keep)
    } else {
        let local = rng.random_range(0..=(*locals).min(5));
        Target::Local(local)
    };
    let a = operand(rng, keeps, *locals, width);
    let b = match kind {
        7.. => Operand::Number(rng.random_range(0..u64::from(width.bits()))),
        _ => operand(rng, keeps, *locals, width),
    };
    if let Target::Local(local) = target {
        *locals = (*locals).max(local + 1);
    }
    pipe.step(target, action, width, a, b)
}

/// Returns a length: often short, often near a multiple of a block.
pub fn length(rng: &mut impl Rng) -> usize {
    match rng.random_range(0..10) {
        0..5 => rng.random_range(0..80),
        5..8 => rng.random_range(0..400),
        8 => rng.random_range(0..6) * 128 + rng.random_range(0..4),
        _ => rng.random_range(0..2000),
    }
}
