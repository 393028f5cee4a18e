//! The values of both programs as expressions over the original program's state before an
//! instruction. Equal expressions have equal numbers.

use crate::object::Spot;
use crate::sets::FLAGS;
use foldhash::fast::RandomState;
use iced_x86::{Mnemonic, Register};
use std::hash::BuildHasher;

/// Number of an expression.
pub(crate) type Id = u32;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A general register of the original program.
    Register(u8),
    /// A flag of the original program.
    Flag(u8),
    /// Another register of the original program: vector, mask, x87.
    Other(Register),
    /// The caller's value in the home of r15. Nobody reads it.
    Token,
    /// The window's base, which lies at a fixed place of the header page.
    Base,
    /// A value that nobody may use.
    Junk(u32),
    /// A value that the original program leaves undefined: any other will do.
    Any,
    /// A spot that a relocation names.
    Spot(Spot),
    /// A sum of products and a constant. Without terms it is a number.
    Sum(Vec<(Id, i64)>, i64),
    /// Bits of a value: the first bit, and their number. The others are zero.
    Bits(Id, u8, u8),
    /// A value with bits of another one inserted: the first bit, and their number.
    Insert(Id, Id, u8, u8),
    /// The contents of memory: version, address, bytes.
    Load(u32, Id, u32),
    /// An instruction's result as such: mnemonic, other selecting properties, arguments.
    Op(Mnemonic, u32, Vec<Id>),
    /// One of the results of an instruction.
    Part(Id, u32),
}

/// The part of an instruction's results that is its first flag. The other flags follow.
pub(crate) const FLAG_PART: u32 = 1000;

/// The expressions of one comparison.
pub(crate) struct Values {
    nodes: Vec<Node>,
    /// The last node of each chain. Nodes of equal hashes are in one chain.
    last: [Id; CHAINS],
    /// The node before each node in its chain.
    before: Vec<Id>,
    hasher: RandomState,
    junk: u32,
    /// The chains' last nodes among those that every comparison has.
    first: [Id; CHAINS],
}

const CHAINS: usize = 64;

/// Number of general registers, which are the first nodes of every comparison. Flags follow.
const REGISTERS: usize = 16;
/// Number of nodes that every comparison has.
const LASTING: usize = REGISTERS + FLAGS.len();

/// The number of no node.
const NOBODY: Id = Id::MAX;

impl Default for Values {
    fn default() -> Values {
        let mut values = Values {
            nodes: Vec::new(),
            last: [NOBODY; CHAINS],
            before: Vec::new(),
            hasher: RandomState::default(),
            junk: 0,
            first: [NOBODY; CHAINS],
        };
        for register in 0..REGISTERS {
            values.id(Node::Register(register as u8));
        }
        for flag in 0..FLAGS.len() {
            values.id(Node::Flag(flag as u8));
        }
        values.first = values.last;
        values
    }
}

impl Values {
    /// Forgets everything but registers and flags.
    pub(crate) fn clear(&mut self) {
        self.nodes.truncate(LASTING);
        self.before.truncate(LASTING);
        self.last = self.first;
    }

    /// Returns the general registers of the original program.
    pub(crate) fn registers() -> [Id; REGISTERS] {
        std::array::from_fn(|number| number as Id)
    }

    /// Returns the flags of the original program.
    pub(crate) fn flags() -> [Id; FLAGS.len()] {
        std::array::from_fn(|number| (REGISTERS + number) as Id)
    }

    /// Returns the number of an expression.
    pub(crate) fn id(&mut self, node: Node) -> Id {
        let chain = self.hasher.hash_one(&node) as usize % CHAINS;
        let mut at = self.last[chain];
        while at != NOBODY {
            if self.nodes[at as usize] == node {
                return at;
            }
            at = self.before[at as usize];
        }
        let new = self.nodes.len() as Id;
        self.nodes.push(node);
        self.before.push(std::mem::replace(&mut self.last[chain], new));
        new
    }

    /// Returns the expression of a number.
    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// Returns a value that equals nothing else.
    pub(crate) fn junk(&mut self) -> Id {
        self.junk += 1;
        let new = self.nodes.len() as Id;
        // Nobody looks for it, so it is in no chain.
        self.nodes.push(Node::Junk(self.junk));
        self.before.push(NOBODY);
        new
    }

    /// Returns a constant.
    pub(crate) fn number(&mut self, value: i64) -> Id {
        self.id(Node::Sum(Vec::new(), value))
    }

    /// Returns the constant that an expression is.
    pub(crate) fn as_number(&self, id: Id) -> Option<i64> {
        match self.node(id) {
            Node::Sum(terms, value) if terms.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// Returns `a + scale * b + more`.
    pub(crate) fn sum(&mut self, a: Id, b: Id, scale: i64, more: i64) -> Id {
        let (mut terms, mut constant) = self.terms(a);
        let (others, other) = self.terms(b);
        constant = constant.wrapping_add(other.wrapping_mul(scale)).wrapping_add(more);
        for (id, factor) in others {
            terms.push((id, factor.wrapping_mul(scale)));
        }
        terms.sort_unstable();
        terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.wrapping_add(next.1);
            }
            same
        });
        terms.retain(|(_, factor)| *factor != 0);
        match (&*terms, constant) {
            ([(id, 1)], 0) => *id,
            _ => self.id(Node::Sum(terms, constant)),
        }
    }

    /// Returns `a + more`.
    pub(crate) fn plus(&mut self, a: Id, more: i64) -> Id {
        let zero = self.number(0);
        self.sum(a, zero, 1, more)
    }

    /// Returns the terms of a sum with their factors, and its constant.
    pub(crate) fn terms(&self, id: Id) -> (Vec<(Id, i64)>, i64) {
        match self.node(id) {
            Node::Sum(terms, constant) => (terms.clone(), *constant),
            _ => (vec![(id, 1)], 0),
        }
    }

    /// Returns a sum without one of its terms.
    pub(crate) fn without(&mut self, id: Id, term: Id) -> Id {
        match self.terms(id).0.iter().find(|(known, _)| *known == term) {
            Some(&(_, factor)) => self.sum(id, term, factor.wrapping_neg(), 0),
            None => id,
        }
    }

    /// Returns `a - b`, if it is a constant.
    pub(crate) fn difference(&self, a: Id, b: Id) -> Option<i64> {
        let ((left, more), (right, less)) = (self.terms(a), self.terms(b));
        (left == right).then(|| more.wrapping_sub(less))
    }

    /// Returns bits of a value.
    pub(crate) fn bits(&mut self, of: Id, from: u8, count: u8) -> Id {
        if count == 64 {
            return of;
        }
        let mask = (1i64 << count) - 1;
        match *self.node(of) {
            Node::Sum(ref terms, value) if terms.is_empty() => return self.number((value >> from) & mask),
            Node::Bits(..) if from == 0 && self.width(of) <= u32::from(count) => return of,
            Node::Bits(inner, first, width) if from + count <= width => return self.bits(inner, first + from, count),
            Node::Insert(base, value, at, width) => {
                if at <= from && from + count <= at + width {
                    return self.bits(value, from - at, count);
                }
                if from + count <= at || at + width <= from {
                    return self.bits(base, from, count);
                }
                if from <= at && at + width <= from + count {
                    // The same bits of the base, with the inserted ones in them.
                    let base = self.bits(base, from, count);
                    return self.insert(base, value, at - from, width);
                }
            }
            _ => {}
        }
        self.id(Node::Bits(of, from, count))
    }

    /// Returns the number of a value's low bits that may be other than zero.
    fn width(&self, id: Id) -> u32 {
        match self.node(id) {
            Node::Bits(_, _, count) => u32::from(*count),
            Node::Insert(base, _, at, count) => self.width(*base).max(u32::from(at + count)),
            Node::Sum(terms, value) if terms.is_empty() && *value >= 0 => 64 - value.leading_zeros(),
            _ => 64,
        }
    }

    /// Returns a value with bits replaced.
    pub(crate) fn insert(&mut self, base: Id, value: Id, from: u8, count: u8) -> Id {
        let value = self.bits(value, 0, count);
        if from == 0 && self.width(base) <= u32::from(count) {
            return value;
        }
        match *self.node(base) {
            // The new bits cover the ones inserted before.
            Node::Insert(inner, _, at, width) if from <= at && at + width <= from + count => {
                return self.insert(inner, value, from, count);
            }
            // Insertions are kept in one order.
            Node::Insert(inner, other, at, width) if from + count <= at => {
                let inner = self.insert(inner, value, from, count);
                return self.id(Node::Insert(inner, other, at, width));
            }
            _ => {}
        }
        self.id(Node::Insert(base, value, from, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_and_flags_outlast_a_comparison() {
        let mut values = Values::default();
        let sum = values.sum(Values::registers()[3], Values::flags()[5], 1, 0);
        values.clear();
        assert_eq!(values.id(Node::Register(3)), Values::registers()[3]);
        assert_eq!(values.id(Node::Flag(5)), Values::flags()[5]);
        let (one, other) = (values.junk(), values.junk());
        assert_ne!(one, other);
        assert_eq!(one, sum, "the sum's number is free again");
        assert_ne!(values.sum(Values::registers()[3], Values::flags()[5], 1, 0), one);
    }

    #[test]
    fn sums_and_bits_have_one_form() {
        let mut values = Values::default();
        let rax = values.id(Node::Register(0));
        let rcx = values.id(Node::Register(1));
        let left = values.sum(rax, rcx, 4, 8);
        let rest = values.plus(rax, 8);
        let right = values.sum(rest, rcx, 4, 0);
        assert_eq!(left, right);
        assert_eq!(values.difference(left, rax), None);
        assert_eq!(values.difference(rest, rax), Some(8));
        let low = values.bits(rcx, 0, 8);
        let both = values.insert(rax, rcx, 0, 8);
        assert_eq!(values.bits(both, 0, 8), low);
        let high = values.bits(rax, 8, 8);
        assert_eq!(values.bits(both, 8, 8), high);
        let word = values.insert(rax, rcx, 0, 16);
        assert_eq!(values.bits(word, 0, 8), low);
        let half = values.bits(rax, 0, 32);
        assert_eq!(values.bits(half, 0, 32), half);
    }
}
