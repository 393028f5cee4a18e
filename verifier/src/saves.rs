//! Rule `SFI-C03`: a function removes the registers that it saved on the control stack before it
//! returns or leads elsewhere.
//!
//! The *depth* of a place is the number of words that lie there on the control stack above the
//! return address of the running function. It is the same whenever control comes to the place.
//! [`guess`] finds depths, and [`check`] checks that they agree with each instruction, so a wrong
//! guess refuses a text and cannot accept one.

use crate::bitmap::Bitmap;
use crate::report::Findings;
use crate::sweep::{Map, Text};
use crate::turn::{CALL, Turn};
use sfi_contract::Rule;
use sfi_contract::saves::Deep;

/// Applies the rule to a text that was swept, and notes its depths in the map. `ways` are the
/// offsets of other ways into it.
pub(crate) fn check(text: &Text<'_>, map: &mut Map, ways: &[u64], findings: &mut Findings) {
    if !map.turns.iter().any(|(_, turn)| *turn == Turn::Push || *turn == Turn::Pop) {
        return;
    }
    let is_call = |at: u64| text.bytes.get(at as usize) == Some(&CALL);
    // A piece is the text between two turns, the second included. All of it has one depth.
    let piece = |offset: u64| map.turns.partition_point(|(end, _)| *end <= offset);
    let inside = |target: u64| Some(target.wrapping_sub(text.base)).filter(|to| *to < text.bytes.len() as u64);
    let branches: Vec<Way> = (map.branches.iter())
        .map(|branch| Way {
            at: branch.at,
            from: piece(branch.at),
            to: inside(branch.target).map(piece),
            call: is_call(branch.at),
        })
        .collect();
    let ways = ways.iter().filter_map(|way| inside(way.wrapping_add(text.base)));
    let ways: Vec<(u64, usize)> = ways.map(|way| (way, piece(way))).collect();
    let depths = guess(map, &branches, &ways);
    let mut refuse = |at: u64, why: &str| findings.add_instruction(Rule::StackDepth, text.bytes, text.base, at, why);
    for (i, (end, turn)) in map.turns.iter().enumerate() {
        let moved = turn.behind(depths[i]).is_some_and(|depth| depth != depths[i + 1]);
        let moved = moved.then_some("another number of words is saved where control goes on");
        if let Some(why) = turn.refusal(depths[i]).or(moved) {
            refuse(before(&map.targets, *end), why);
        }
    }
    for way in &branches {
        let (depth, there) = (depths[way.from], way.to.map_or(0, |to| depths[to]));
        if there != if way.call { 0 } else { depth } {
            refuse(way.at, &format!("{there} words are saved at the target, and {depth} here"));
        }
    }
    for (at, to) in &ways {
        if depths[*to] != 0 {
            refuse(*at, "a dispatch slot leads to this place, where words are saved");
        }
    }
    let ends = map.turns.iter().map(|(end, _)| *end).chain([text.bytes.len() as u64]);
    let mut start = 0;
    for (depth, end) in depths.into_iter().zip(ends) {
        if depth != 0 && start < end {
            map.saves.0.push(Deep { start: start as u32, end: end as u32, depth });
        }
        start = end;
    }
}

/// A branch between pieces.
struct Way {
    at: u64,
    from: usize,
    /// `None` is a place outside the text.
    to: Option<usize>,
    call: bool,
}

/// Returns a depth for each piece. At the text's beginning, and where nothing tells it, it is 0.
fn guess(map: &Map, branches: &[Way], ways: &[(u64, usize)]) -> Vec<u8> {
    let mut depths = vec![None; map.turns.len() + 1];
    let named = std::iter::once(0).chain(branches.iter().filter(|way| way.call).filter_map(|way| way.to));
    let begins: Vec<usize> = named.chain(ways.iter().map(|way| way.1)).chain(0..depths.len()).collect();
    let mut work = Vec::new();
    for begin in begins {
        if depths[begin].is_none() {
            work.push((begin, 0));
        }
        while let Some((at, depth)) = work.pop() {
            if depths[at].is_some() {
                continue;
            }
            depths[at] = Some(depth);
            let from = branches.partition_point(|way| way.from < at);
            let jumps = branches[from..].iter().take_while(|way| way.from == at).filter(|way| !way.call);
            work.extend(jumps.filter_map(|way| way.to).filter(|to| depths[*to].is_none()).map(|to| (to, depth)));
            let next = map.turns.get(at).and_then(|(_, turn)| turn.behind(depth));
            work.extend(next.filter(|_| depths[at + 1].is_none()).map(|depth| (at + 1, depth)));
        }
    }
    depths.into_iter().map(|depth| depth.unwrap_or(0)).collect()
}

/// Returns the place of the instruction that ends at an offset.
fn before(targets: &Bitmap, end: u64) -> u64 {
    (0..end).rev().take(16).find(|at| targets.contains(*at)).unwrap_or(end.saturating_sub(1))
}
