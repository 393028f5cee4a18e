//! Rule `SFI-C03` against an interpreter of its own: short random texts, and every way that control
//! can take in those that the verifier accepts. No `ret` takes a word that was pushed, no `pop` a
//! return address, and the depths that the loader gets tell the two apart on every stack.

mod support;

use sfi_contract::saves::Saves;
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, Verifier};
use std::collections::HashSet;
use support::Elf;

const OFFSET: u64 = 0x40_0000;
/// A gateway stub before the text.
const GATEWAY: u64 = OFFSET - 0x100;
/// Calls in progress. Further ones return at once.
const CALLS: usize = 3;

/// A generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A branch's destination.
#[derive(Clone, Copy, Debug)]
enum Target {
    Instruction(usize),
    Gateway,
    /// Bytes from the branch's end.
    Distance(i8),
}

/// An instruction without or with a distance at its end: bytes, and the size of the distance.
#[derive(Clone, Debug)]
struct Piece {
    bytes: Vec<u8>,
    branch: Option<(Target, usize)>,
}

/// `and $0xffff8,%eax ; call|jmp *%gs:0x100000(%eax)`, and the same by r12.
const INDIRECT: [&[u8]; 4] = [
    &[0x25, 0xf8, 0xff, 0x0f, 0, 0x65, 0x67, 0xff, 0x90, 0, 0, 0x10, 0],
    &[0x25, 0xf8, 0xff, 0x0f, 0, 0x65, 0x67, 0xff, 0xa0, 0, 0, 0x10, 0],
    &[0x41, 0x81, 0xe4, 0xf8, 0xff, 0x0f, 0, 0x65, 0x67, 0x41, 0xff, 0x94, 0x24, 0, 0, 0x10, 0],
    &[0x41, 0x81, 0xe4, 0xf8, 0xff, 0x0f, 0, 0x65, 0x67, 0x41, 0xff, 0xa4, 0x24, 0, 0, 0x10, 0],
];
const CALLS_AND_JUMPS: [(&[u8], usize); 8] = [
    (&[0xe8], 4),
    (&[0xe8], 4),
    (&[0xe9], 4),
    (&[0xeb], 1),
    (&[0x75], 1),
    (&[0xe3], 1),
    (&[0xe2], 1),
    (&[0x0f, 0x84], 4),
];
const OTHERS: [&[u8]; 5] =
    [&[0x90], &[0x0f, 0x1f, 0x40, 0xff], &[0xb8, 0xff, 0x50, 0x58, 0xc3], &[0x89, 0xff], &[0x48, 0x01, 0xd8]];
const ENDS: [&[u8]; 4] = [&[0xc3], &[0xf3, 0xc3], &[0xcc], &[0x0f, 0x0b]];

/// Returns a random text in pieces. Its straight line mostly keeps the rule.
fn pieces(random: &mut Random) -> Vec<Piece> {
    let count = 2 + random.below(14);
    let (mut all, mut depths, mut depth) = (Vec::<Piece>::new(), Vec::<usize>::new(), 0usize);
    let plain = |bytes: &[u8]| Piece { bytes: bytes.to_vec(), branch: None };
    while all.len() < count || depth > 0 {
        depths.push(depth);
        let closing = all.len() >= count;
        let register = random.one_of(&[0u8, 3, 5, 7]);
        let rex: &[u8] = if random.below(100) == 0 { &[0x48] } else { random.one_of(&[&[][..], &[0x41]]) };
        match random.below(16) {
            0..4 if !closing => {
                all.push(plain(&[rex, &[0x50 + register]].concat()));
                depth += 1;
            }
            4..8 if depth > 0 => {
                all.push(plain(&[rex, &[0x58 + register]].concat()));
                depth -= 1;
            }
            _ if closing => {
                all.push(plain(&[0x58 + register]));
                depth -= 1;
            }
            8..10 => all.push(plain(random.one_of(&OTHERS))),
            10 if depth == 0 || random.below(8) == 0 => all.push(plain(random.one_of(&ENDS))),
            11 => all.push(plain(random.one_of(&INDIRECT))),
            _ => {
                let (opcode, size) = random.one_of(&CALLS_AND_JUMPS);
                let target = match random.below(12) {
                    0 => Target::Distance(random.below(256) as u8 as i8),
                    1 if size == 4 => Target::Gateway,
                    _ => Target::Instruction(random.below(count)),
                };
                all.push(Piece { bytes: opcode.to_vec(), branch: Some((target, size)) });
            }
        }
    }
    depths.push(0);
    all.push(plain(random.one_of(&ENDS)));
    // Most branches lead where the straight line has their depth, and most calls where it has none.
    for i in 0..all.len() {
        let wanted = if all[i].bytes == [0xe8] { 0 } else { depths[i] };
        if let Some((Target::Instruction(to), _)) = &mut all[i].branch {
            let fitting: Vec<usize> = (0..depths.len()).filter(|place| depths[*place] == wanted).collect();
            if random.below(10) > 0 && !fitting.is_empty() {
                *to = random.one_of(&fitting);
            }
        }
    }
    // A mistake, sometimes.
    let at = random.below(all.len());
    match random.below(6) {
        0 => _ = all.remove(at),
        1 => all.insert(at, plain(random.one_of(&[&[0x53][..], &[0x5b], &[0xc3], &[0xcc], &[0x90]]))),
        2 => all.swap(0, at),
        _ => {}
    }
    all
}

/// Returns the bytes of a text and the places of its instructions. `int3` ends it, as the loader
/// ends each section.
fn assembled(pieces: &[Piece]) -> (Vec<u8>, Vec<usize>) {
    let mut places = vec![0];
    for piece in pieces {
        places.push(places[places.len() - 1] + piece.bytes.len() + piece.branch.map_or(0, |(_, size)| size));
    }
    let mut bytes = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        bytes.extend_from_slice(&piece.bytes);
        if let Some((target, size)) = piece.branch {
            let end = places[i + 1] as i64;
            let distance = match target {
                Target::Instruction(to) => places[to.min(pieces.len())] as i64 - end,
                Target::Gateway => GATEWAY as i64 - OFFSET as i64 - end,
                Target::Distance(distance) => distance.into(),
            };
            bytes.extend_from_slice(&distance.to_le_bytes()[..size]);
        }
    }
    bytes.push(0xcc);
    (bytes, places)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    /// The return address into the gate.
    Gate,
    Return(usize),
    Saved,
}

type State = (usize, Vec<Word>);

/// Runs a text in all ways. Counts the pushes and pops that ran.
struct Machine<'t> {
    text: &'t [u8],
    slots: &'t [usize],
    saves: &'t Saves,
    known: HashSet<State>,
    work: Vec<State>,
    moves: usize,
}

impl Machine<'_> {
    fn go(&mut self, at: usize, stack: Vec<Word>) {
        if self.known.insert((at, stack.clone())) {
            self.work.push((at, stack));
        }
    }

    /// Goes on at the return address, which the last word must be.
    fn leave(&mut self, mut stack: Vec<Word>) -> Result<(), String> {
        match stack.pop() {
            Some(Word::Gate) => Ok(()),
            Some(Word::Return(to)) => {
                self.go(to, stack);
                Ok(())
            }
            word => Err(format!("a return to {word:?}")),
        }
    }

    /// Calls a place and, where too many calls are in progress, goes on behind the call only.
    fn call(&mut self, to: usize, behind: usize, stack: &[Word]) {
        if stack.iter().filter(|word| **word != Word::Saved).count() <= CALLS {
            self.go(to, [stack, &[Word::Return(behind)]].concat());
        } else {
            self.go(behind, stack.to_vec());
        }
    }

    /// Tells apart the words of a stack as the loader does.
    fn walk(&self, at: usize, stack: &[Word]) -> Result<(), String> {
        let mut words = stack.iter().rev();
        let mut depth = self.saves.depth(at as u64);
        loop {
            for _ in 0..depth {
                if words.next() != Some(&Word::Saved) {
                    return Err(format!("fewer than {depth} saved words"));
                }
            }
            match words.next() {
                Some(Word::Gate) if words.next().is_none() => return Ok(()),
                Some(Word::Return(place)) => depth = self.saves.depth(*place as u64 - 1),
                word => return Err(format!("{word:?} for a return address")),
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for slot in self.slots {
            self.go(*slot, vec![Word::Gate]);
        }
        while let Some((at, stack)) = self.work.pop() {
            self.step(at, stack.clone()).map_err(|why| format!("{why} at {at:#x} with {stack:?}"))?;
        }
        Ok(())
    }

    fn step(&mut self, at: usize, mut stack: Vec<Word>) -> Result<(), String> {
        self.walk(at, &stack)?;
        let rest = &self.text[at..];
        let distance = |at: usize, size: usize| -> i64 {
            match size {
                1 => i64::from(rest[at] as i8),
                _ => i64::from(i32::from_le_bytes(rest[at..at + 4].try_into().unwrap())),
            }
        };
        let target = |opcode: usize, size: usize| {
            let end = at + opcode + size;
            (end, end as i64 + distance(opcode, size))
        };
        let gateway = GATEWAY as i64 - OFFSET as i64;
        for (n, code) in INDIRECT.iter().enumerate() {
            if rest.starts_with(code) {
                for &to in self.slots {
                    if n % 2 == 0 {
                        self.call(to, at + code.len(), &stack);
                    } else {
                        self.go(to, stack.clone());
                    }
                }
                return Ok(());
            }
        }
        if let Some(code) = OTHERS.iter().find(|code| rest.starts_with(code)) {
            self.go(at + code.len(), stack);
            return Ok(());
        }
        match *rest {
            [0xcc, ..] | [0x0f, 0x0b, ..] => Ok(()),
            [0xc3, ..] | [0xf3, 0xc3, ..] => self.leave(stack),
            [0x50..0x58, ..] | [0x40..0x50, 0x50..0x58, ..] => {
                self.moves += 1;
                stack.push(Word::Saved);
                self.go(at + if rest[0] < 0x50 { 2 } else { 1 }, stack);
                Ok(())
            }
            [0x58..0x60, ..] | [0x40..0x50, 0x58..0x60, ..] => {
                self.moves += 1;
                match stack.pop() {
                    Some(Word::Saved) => self.go(at + if rest[0] < 0x50 { 2 } else { 1 }, stack),
                    word => return Err(format!("a pop of {word:?}")),
                }
                Ok(())
            }
            [0xe8, ..] => {
                let (behind, to) = target(1, 4);
                if to == gateway {
                    self.go(behind, stack);
                } else {
                    self.call(to as usize, behind, &stack);
                }
                Ok(())
            }
            [0xe9 | 0xeb, ..] => match target(1, if rest[0] == 0xe9 { 4 } else { 1 }).1 {
                to if to == gateway => self.leave(stack),
                to => {
                    self.go(to as usize, stack);
                    Ok(())
                }
            },
            [0x70..0x80 | 0xe0..0xe4, ..] | [0x0f, 0x80..0x90, ..] => {
                let (behind, to) = if rest[0] == 0x0f { target(2, 4) } else { target(1, 1) };
                self.go(behind, stack.clone());
                if to == gateway {
                    return self.leave(stack);
                }
                self.go(to as usize, stack);
                Ok(())
            }
            _ => Err(format!("no instruction of the alphabet: {rest:02x?}")),
        }
    }
}

#[test]
fn no_way_through_a_text_confuses_words_and_return_addresses() {
    let options = Options { mode: Mode::Write, ..Options::default() };
    let mut verifier = Verifier::new(&options);
    let mut random = Random(0x5af3_107a_4000_0001);
    let (mut accepted, mut refused, mut moving, mut deep, mut states) = (0, 0, 0, 0, 0);
    for _ in 0..250_000 {
        let pieces = pieces(&mut random);
        let (bytes, places) = assembled(&pieces);
        // The text's start, and sometimes another place.
        let other = random.one_of(&places);
        let slots = if random.below(3) == 0 { vec![0, other] } else { vec![0] };
        let offsets: Vec<u64> = slots.iter().map(|slot| OFFSET + *slot as u64).collect();
        let text = FinalText {
            bytes: &bytes,
            offset: OFFSET,
            gateways: &[GATEWAY],
            slots: &offsets,
            anchors: Anchors::EXAMPLE,
        };
        let found = verifier.verify_text(&text);
        // As an object the text has no gateways, and a symbol for a slot.
        let leads_away = pieces.iter().any(|piece| matches!(piece.branch, Some((Target::Gateway, _))));
        if slots == [0] && !leads_away && random.below(8) == 0 {
            let object = Elf::text(&bytes).build();
            let is_safe = verifier.verify(&object).expect("readable").is_safe();
            assert_eq!(is_safe, found.is_ok(), "{bytes:02x?}: {found:?}");
        }
        let Ok(checked) = found else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let mut machine = Machine {
            text: &bytes,
            slots: &slots,
            saves: &checked.saves,
            known: HashSet::new(),
            work: Vec::new(),
            moves: 0,
        };
        if let Err(why) = machine.run() {
            panic!("{why}: {bytes:02x?}, slots {slots:x?}, {:?}", checked.saves);
        }
        states += machine.known.len();
        moving += usize::from(machine.moves > 0);
        let waits = |(_, stack): &State| stack.windows(3).any(|w| matches!(w, [_, Word::Saved, Word::Return(_)]));
        deep += usize::from(machine.known.iter().any(waits));
    }
    println!("{accepted} accepted, {refused} refused, {moving} with saves, {deep} with calls there, {states} states");
    assert!(accepted > 10_000 && refused > 10_000 && moving > 5_000 && deep > 1_000);
}
