//! Signatures with structures of up to 16 bytes, such as `({int, float}, int) -> {int, int}`: where
//! the psABI passes their eightbytes (section 3.2.3).

use crate::border::Result;
use crate::error::{Failure, INVALID};
use sfi_loader::{Registers, Returned, Signature};

/// An eightbyte of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Int,
    Float,
}

/// A signature whose arguments may be structures.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    text: String,
    /// The signature, if it has no structure.
    pub(crate) plain: Option<Signature>,
    /// Eightbytes of each argument: one, or those of a structure.
    arguments: Vec<Vec<Class>>,
    /// Eightbytes of the result: none, one or two.
    result: Vec<Class>,
}

/// The eightbytes of a result of a host function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Results([Option<Class>; 2]);

impl Results {
    /// One word, which is in both kinds of register. The caller's signature says which one it
    /// reads.
    pub(crate) const ONE: Self = Self([None; 2]);

    /// Returns the registers for these words. A register that no eightbyte uses is 0.
    pub(crate) fn returned(self, words: [u64; 2]) -> Returned {
        let [Some(first), Some(second)] = self.0 else {
            return Returned { ints: [words[0], 0], floats: [words[0], 0] };
        };
        let (mut returned, mut used) = (Returned { ints: [0; 2], floats: [0; 2] }, (0, 0));
        for (class, word) in [first, second].into_iter().zip(words) {
            let (registers, next) = match class {
                Class::Int => (&mut returned.ints, &mut used.0),
                Class::Float => (&mut returned.floats, &mut used.1),
            };
            registers[*next] = word;
            *next += 1;
        }
        returned
    }
}

/// Integer and vector registers for arguments.
const INTS: usize = 6;
const FLOATS: usize = 8;
/// Most words of stack arguments, as for the loader's signatures.
const MOST_WORDS: usize = 64;

/// Arguments by their places.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    ints: [u64; INTS],
    floats: [u64; FLOATS],
    used: (usize, usize),
    stack: Vec<u64>,
}

impl Sorted {
    /// Adds an argument: into registers if all of it fits, otherwise to the stack.
    fn add(&mut self, classes: &[Class], words: impl Iterator<Item = u64>) {
        let floats = classes.iter().filter(|class| **class == Class::Float).count();
        let fits = self.used.0 + classes.len() - floats <= INTS && self.used.1 + floats <= FLOATS;
        for (class, word) in classes.iter().zip(words) {
            match class {
                _ if !fits => self.stack.push(word),
                Class::Int => {
                    self.ints[self.used.0] = word;
                    self.used.0 += 1;
                }
                Class::Float => {
                    self.floats[self.used.1] = word;
                    self.used.1 += 1;
                }
            }
        }
    }

    /// Returns the registers for a call.
    pub(crate) fn registers(&self) -> Registers<'_> {
        Registers { ints: self.ints, floats: (self.used.1 > 0).then_some(self.floats), stack: &self.stack }
    }
}

fn bad(text: &str, why: &str) -> Failure {
    let text: String = text.chars().take(200).collect();
    Failure::new(INVALID, format!("`{text}` is not a signature: {why}"))
}

/// Splits at the commas that are in no braces or parentheses.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_i32, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    found
}

/// Reads an argument or a result that is not `void`.
fn classes(part: &str) -> std::result::Result<Vec<Class>, &'static str> {
    let one = |word: &str| match word.trim() {
        "int" | "ptr" => Ok(Class::Int),
        "float" => Ok(Class::Float),
        _ => Err("beside a structure there are `int`, `ptr` and `float`"),
    };
    match part.trim().strip_prefix('{').map(|rest| rest.strip_suffix('}')) {
        None => one(part).map(|class| vec![class]),
        Some(None) => Err("a `{` has no `}`"),
        Some(Some(fields)) => {
            let all: Vec<Class> = fields.split(',').map(one).collect::<std::result::Result<_, _>>()?;
            if all.len() > 2 { Err("a structure has one or two eightbytes") } else { Ok(all) }
        }
    }
}

impl Shape {
    /// Reads a signature.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if !text.contains('{') {
            let plain: Signature = text.parse()?;
            return Ok(Self { text: text.to_owned(), plain: Some(plain), arguments: Vec::new(), result: Vec::new() });
        }
        let split = text.trim().strip_prefix('(').and_then(|rest| rest.rsplit_once("->"));
        let (list, result) = split.ok_or_else(|| bad(text, "no `( ) ->`"))?;
        let list = list.trim().strip_suffix(')').ok_or_else(|| bad(text, "no `)` before `->`"))?;
        let arguments = match list.trim() {
            "" => Vec::new(),
            _ => parts(list)
                .into_iter()
                .map(classes)
                .collect::<std::result::Result<_, _>>()
                .map_err(|why| bad(text, why))?,
        };
        let result = match result.trim() {
            "void" => Vec::new(),
            result => classes(result).map_err(|why| bad(text, why))?,
        };
        let shape = Self { text: text.to_owned(), plain: None, arguments, result };
        match shape.sorted(&vec![0; shape.words()]).stack.len() {
            0..=MOST_WORDS => Ok(shape),
            _ => Err(bad(text, "too many arguments")),
        }
    }

    /// Returns the number of words of all arguments.
    pub(crate) fn words(&self) -> usize {
        self.arguments.iter().map(Vec::len).sum()
    }

    /// Sorts the words of all arguments.
    pub(crate) fn sorted(&self, words: &[u64]) -> Sorted {
        let (mut sorted, mut words) = (Sorted::default(), words.iter().copied());
        for argument in &self.arguments {
            sorted.add(argument, words.by_ref().take(argument.len()));
        }
        sorted
    }

    /// Says whether the result is a structure of two eightbytes.
    pub(crate) fn has_two_results(&self) -> bool {
        self.result.len() == 2
    }

    /// Returns the words of the result: two for a structure of two eightbytes.
    pub(crate) fn result(&self, returned: &Returned) -> [u64; 2] {
        let (mut ints, mut floats) = (returned.ints.into_iter(), returned.floats.into_iter());
        let mut words = [0; 2];
        for (word, class) in words.iter_mut().zip(&self.result) {
            let next = match class {
                Class::Int => ints.next(),
                Class::Float => floats.next(),
            };
            *word = next.unwrap_or(0);
        }
        words
    }

    /// Returns the eightbytes of the result, for a host function.
    pub(crate) fn results(&self) -> Results {
        match *self.result.as_slice() {
            [first, second] => Results([Some(first), Some(second)]),
            _ => Results::ONE,
        }
    }

    /// Returns a signature that lets the same registers and stack words pass to a host function.
    pub(crate) fn lowered(&self) -> String {
        if self.plain.is_some() {
            return self.text.clone();
        }
        let sorted = self.sorted(&vec![0; self.words()]);
        let ints = if sorted.stack.is_empty() { sorted.used.0 } else { INTS + sorted.stack.len() };
        let all = [vec!["int"; ints], vec!["float"; sorted.used.1]].concat();
        // A host function's results pass with any signature. A float says that they matter.
        let result = match self.result.as_slice() {
            [] => "void",
            classes if classes.contains(&Class::Float) => "float",
            _ => "int",
        };
        format!("({}) -> {result}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> (usize, usize, usize) {
        let shape = Shape::parse(text).unwrap();
        let sorted = shape.sorted(&vec![0; shape.words()]);
        (sorted.used.0, sorted.used.1, sorted.stack.len())
    }

    #[test]
    fn a_structure_is_in_registers_as_a_whole_or_not_at_all() {
        assert_eq!(places("({int, float}, int) -> int"), (2, 1, 0));
        assert_eq!(places("(int, int, int, int, int, {int, int}, int) -> int"), (6, 0, 2));
        assert_eq!(places("({int}, {float}) -> {int, float}"), (1, 1, 0));
    }

    #[test]
    fn a_signature_of_registers_says_whether_floats_cross() {
        let lowered = |text: &str| Shape::parse(text).unwrap().lowered();
        assert_eq!(lowered("({int, float}) -> {int, int}"), "(int, float) -> int");
        assert_eq!(lowered("({int}) -> {int, float}"), "(int) -> float");
        assert_eq!(lowered("({int}) -> {float, int}"), "(int) -> float");
        assert_eq!(lowered("({int}) -> void"), "(int) -> void");
    }

    #[test]
    fn two_words_of_a_result_have_registers_of_their_classes() {
        let registers = |result: &str| {
            let returned = Shape::parse(&format!("({{int}}) -> {result}")).unwrap().results().returned([1, 2]);
            (returned.ints, returned.floats)
        };
        assert_eq!(registers("{int, int}"), ([1, 2], [0, 0]));
        assert_eq!(registers("{int, float}"), ([1, 0], [2, 0]));
        assert_eq!(registers("{float, int}"), ([2, 0], [1, 0]));
        assert_eq!(registers("{float, float}"), ([0, 0], [1, 2]));
        assert_eq!(registers("int"), ([1, 0], [1, 0]));
        assert_eq!(registers("{float}"), ([1, 0], [1, 0]));
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        for text in [
            "({int, int, int}) -> int",
            "({int) -> int",
            "({fn() -> int}) -> int",
            "({}) -> int",
            "({int})",
            "{int} -> int",
            "({int}, fn(int) -> int) -> int",
            "({int},) -> void",
        ] {
            assert!(Shape::parse(text).is_err(), "{text}");
        }
        let many = format!("({}{{int, int}}) -> void", "int, ".repeat(70));
        assert!(Shape::parse(&many).is_err());
    }
}
