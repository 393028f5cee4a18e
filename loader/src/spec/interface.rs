//! Interface descriptions: the buffers behind a function's pointers, so that they can cross.
//!
//! A declaration is one line, close to C:
//!
//! ```text
//! i32 compress(out u8 dst[*dst_len], inout u64 dst_len[1], in u8 src[src_len], u64 src_len)
//! ```
//!
//! A parameter without brackets is a number. One with brackets is a pointer to elements that the
//! callee reads (`in`), writes (`out`) or both (`inout`). The number of elements is a constant, the
//! name of an integer parameter, or `*name`: the first element of another buffer that the callee
//! reads. At the crossing the elements are copied straight from the caller's memory to the callee's
//! data stack, and back; the callee gets pointers to its copies. `out` elements are zero when the
//! callee gets them.
//!
//! A parameter can be a function of the caller: `i64 fold(fn(i64, i64) -> i64 each, i64 start)`. It
//! takes up to six numbers. The callee gets a function pointer of its own that leads there until it
//! returns.

use std::fmt;
use std::str::FromStr;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// `i8`, `i16`, `i32`, `i64`, by size in bytes.
    Signed(u8),
    /// `u8`, `u16`, `u32`, `u64`, by size in bytes.
    Unsigned(u8),
    /// `f32`, `f64`, by size in bytes.
    Float(u8),
}

impl Scalar {
    /// Returns the size of one element in bytes.
    pub fn size(self) -> u64 {
        let (Scalar::Signed(size) | Scalar::Unsigned(size) | Scalar::Float(size)) = self;
        u64::from(size)
    }

    /// Says whether it travels in a vector register.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::Float(_))
    }

    /// Returns the name in Rust, which is also the one in declarations.
    pub fn rust(self) -> String {
        let (letter, size) = match self {
            Scalar::Signed(size) => ('i', size),
            Scalar::Unsigned(size) => ('u', size),
            Scalar::Float(size) => ('f', size),
        };
        format!("{letter}{}", 8 * size)
    }

    /// Returns the name in signatures.
    fn word(self) -> &'static str {
        if self.is_float() { "float" } else { "int" }
    }

    /// Returns the name in C.
    pub fn c(self) -> String {
        match self {
            Scalar::Signed(size) => format!("int{}_t", 8 * size),
            Scalar::Unsigned(size) => format!("uint{}_t", 8 * size),
            Scalar::Float(4) => "float".into(),
            Scalar::Float(_) => "double".into(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let size = match text.get(1..)? {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        match text.as_bytes()[0] {
            b'i' => Some(Scalar::Signed(size)),
            b'u' => Some(Scalar::Unsigned(size)),
            b'f' if size >= 4 => Some(Scalar::Float(size)),
            _ => None,
        }
    }
}

/// The direction of a buffer, seen from the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The callee reads it.
    In,
    /// The callee writes it.
    Out,
    /// The callee reads and writes it.
    InOut,
}

impl Direction {
    /// Says whether the caller's elements are copied to the callee.
    pub fn reads(self) -> bool {
        self != Direction::Out
    }

    /// Says whether the callee's elements are copied back.
    pub fn writes(self) -> bool {
        self != Direction::In
    }
}

/// The number of elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// This constant number.
    Constant(u64),
    /// The value of this parameter.
    Parameter(usize),
    /// The first element of this parameter's buffer.
    Pointee(usize),
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A number.
    Number(Scalar),
    /// A pointer to elements.
    Buffer {
        /// The copies that are made.
        direction: Direction,
        /// The elements' type.
        element: Scalar,
        /// The elements' number.
        length: Length,
    },
    /// A function of the caller.
    Function(Prototype),
}

/// The arguments and the result of a function that is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prototype {
    /// The parameters, from the first on.
    parameters: [Option<Scalar>; MAX_PROTOTYPE],
    /// The result; `None` is `void`.
    pub result: Option<Scalar>,
}

/// Most parameters of a function that is passed.
pub const MAX_PROTOTYPE: usize = 6;

impl Prototype {
    /// Returns the types of the parameters.
    pub fn parameters(&self) -> impl Iterator<Item = Scalar> + '_ {
        self.parameters.iter().flatten().copied()
    }

    /// Returns the signature of calls to it, as for [`crate::Import::signature`].
    pub fn signature(&self) -> String {
        let words: Vec<&str> = self.parameters().map(Scalar::word).collect();
        format!("({}) -> {}", words.join(", "), self.result.map_or("void", Scalar::word))
    }

    /// Reads the text after `fn`: `(TYPE, ..) -> TYPE`.
    fn parse(text: &str) -> Option<Self> {
        let (list, result) = text.trim().strip_prefix('(')?.split_once(')')?;
        let result = match result.trim().strip_prefix("->")?.trim() {
            "void" => None,
            text => Some(Scalar::parse(text)?),
        };
        let mut parameters = [None; MAX_PROTOTYPE];
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty() || list.contains(','));
        for (i, word) in words.enumerate() {
            *parameters.get_mut(i)? = Some(Scalar::parse(word)?);
        }
        Some(Self { parameters, result })
    }
}

impl fmt::Display for Prototype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.parameters().map(Scalar::rust).collect();
        write!(f, "fn({}) -> {}", words.join(", "), self.result.map_or("void".into(), Scalar::rust))
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// A function with the buffers that its pointers point to. `Display` and `FromStr` use the form of
/// the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// The result; `None` is `void`.
    pub result: Option<Scalar>,
    /// The parameters, all in registers: at most six integers and pointers and eight floating-point
    /// numbers.
    pub parameters: Vec<Parameter>,
}

/// The text is not a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a declaration: {why}; write for example `i32 sum(in i32 values[count], u64 count)`")]
pub struct BadDeclaration {
    text: String,
    why: String,
}

impl Declaration {
    /// Says whether a parameter travels in a vector register.
    pub fn has_floats(&self) -> bool {
        self.parameters.iter().any(|p| matches!(p.kind, Kind::Number(Scalar::Float(_))))
    }

    /// Returns the signature of the crossing, as for [`crate::Import::signature`]. Pointers are
    /// numbers there, because the callee never sees the caller's.
    pub fn signature(&self) -> String {
        let kinds = self.parameters.iter().map(|p| match p.kind {
            Kind::Number(scalar) => scalar.word().to_owned(),
            Kind::Buffer { .. } => "int".to_owned(),
            Kind::Function(prototype) => format!("fn{}", prototype.signature()),
        });
        let result = self.result.map_or("void", Scalar::word);
        format!("({}) -> {result}", kinds.collect::<Vec<_>>().join(", "))
    }

    fn check(&self) -> Result<(), String> {
        let floats = self.parameters.iter().filter(|p| matches!(p.kind, Kind::Number(s) if s.is_float())).count();
        if floats > 8 || self.parameters.len() - floats > 6 {
            return Err("more parameters than registers: six for integers and pointers, eight for floats".into());
        }
        for (i, parameter) in self.parameters.iter().enumerate() {
            if self.parameters[..i].iter().any(|p| p.name == parameter.name) {
                return Err(format!("two parameters are called `{}`", parameter.name));
            }
            let Kind::Buffer { length, .. } = parameter.kind else { continue };
            let whole = |scalar: Scalar| !scalar.is_float();
            let fits = match length {
                Length::Constant(count) => count > 0,
                Length::Parameter(of) => matches!(self.parameters[of].kind, Kind::Number(s) if whole(s)),
                Length::Pointee(of) => match self.parameters[of].kind {
                    Kind::Buffer { direction, element, length } => {
                        direction.reads() && whole(element) && !matches!(length, Length::Pointee(_))
                    }
                    Kind::Number(_) | Kind::Function(_) => false,
                },
            };
            if !fits {
                return Err(format!(
                    "the length of `{}` is not an integer parameter, nor an `in` or `inout` buffer of integers of constant or given length behind `*`, nor a positive constant",
                    parameter.name
                ));
            }
        }
        Ok(())
    }
}

fn identifier(text: &str) -> Option<&str> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    (text.starts_with(starts) && text.chars().all(|c| starts(c) || c.is_ascii_digit())).then_some(text)
}

/// Reads `TYPE NAME`.
fn typed(text: &str) -> Option<(Option<Scalar>, String)> {
    let (kind, name) = text.trim().rsplit_once(char::is_whitespace)?;
    let scalar = if kind.trim() == "void" { None } else { Some(Scalar::parse(kind.trim())?) };
    Some((scalar, identifier(name)?.to_owned()))
}

/// A parameter as it is written.
enum Written {
    /// Any kind except a buffer.
    Kind(Kind),
    /// A buffer's direction, element type, and number of elements as text.
    Buffer(Direction, Scalar, String),
}

/// Reads a parameter: its name, and its kind as written.
fn parameter(text: &str) -> Option<(String, Written)> {
    let text = text.trim();
    if let Some(function) = text.strip_prefix("fn").filter(|rest| rest.trim_start().starts_with('(')) {
        let (prototype, name) = function.rsplit_once(char::is_whitespace)?;
        let name = identifier(name)?.to_owned();
        return Some((name, Written::Kind(Kind::Function(Prototype::parse(prototype)?))));
    }
    let Some((head, length)) = text.strip_suffix(']').and_then(|t| t.split_once('[')) else {
        let (scalar, name) = typed(text)?;
        return Some((name, Written::Kind(Kind::Number(scalar?))));
    };
    let (direction, rest) = head.split_once(char::is_whitespace)?;
    let direction = match direction {
        "in" => Direction::In,
        "out" => Direction::Out,
        "inout" => Direction::InOut,
        _ => return None,
    };
    let (scalar, name) = typed(rest)?;
    Some((name, Written::Buffer(direction, scalar?, length.trim().to_owned())))
}

/// Returns the parts of a list between commas outside of parentheses.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(between).filter(|part| !list.trim().is_empty() || !part.trim().is_empty()).collect()
}

impl FromStr for Declaration {
    type Err = BadDeclaration;

    fn from_str(text: &str) -> Result<Self, BadDeclaration> {
        let bad = |why: String| BadDeclaration { text: text.chars().take(200).collect(), why };
        let inner = text.trim().trim_end_matches(';').trim_end().strip_suffix(')').and_then(|t| t.split_once('('));
        let (head, list) = inner.ok_or_else(|| bad("there are no parentheses".into()))?;
        let (result, name) = typed(head).ok_or_else(|| bad(format!("`{}` is no type and name", head.trim())))?;
        let mut read = Vec::new();
        for part in parts(list) {
            read.push(parameter(part).ok_or_else(|| bad(format!("`{}` is no parameter", part.trim())))?);
        }
        let find = |name: &str| {
            let found = read.iter().position(|(n, _)| n == name);
            found.ok_or_else(|| bad(format!("there is no parameter `{name}`")))
        };
        let mut parameters = Vec::new();
        for (name, written) in &read {
            let kind = match written {
                Written::Kind(kind) => *kind,
                Written::Buffer(direction, element, length) => {
                    let length = match (length.parse(), length.strip_prefix('*')) {
                        (Ok(count), _) => Length::Constant(count),
                        (_, Some(of)) => Length::Pointee(find(of.trim())?),
                        (_, None) => Length::Parameter(find(length)?),
                    };
                    Kind::Buffer { direction: *direction, element: *element, length }
                }
            };
            parameters.push(Parameter { name: name.clone(), kind });
        }
        let declaration = Declaration { name, result, parameters };
        declaration.check().map_err(bad)?;
        Ok(declaration)
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = self.result.map_or("void".into(), Scalar::rust);
        write!(f, "{result} {}(", self.name)?;
        for (i, parameter) in self.parameters.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let name = &parameter.name;
            match parameter.kind {
                Kind::Number(scalar) => write!(f, "{comma}{} {name}", scalar.rust())?,
                Kind::Function(prototype) => write!(f, "{comma}{prototype} {name}")?,
                Kind::Buffer { direction, element, length } => {
                    let direction = match direction {
                        Direction::In => "in",
                        Direction::Out => "out",
                        Direction::InOut => "inout",
                    };
                    let length = match length {
                        Length::Constant(count) => count.to_string(),
                        Length::Parameter(of) => self.parameters[of].name.clone(),
                        Length::Pointee(of) => format!("*{}", self.parameters[of].name),
                    };
                    write!(f, "{comma}{direction} {} {name}[{length}]", element.rust())?;
                }
            }
        }
        f.write_str(")")
    }
}

impl<'de> serde::Deserialize<'de> for Declaration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = serde::Deserialize::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPRESS: &str = "i32 compress(out u8 dst[*dst_len], inout u64 dst_len[1], in u8 src[src_len], u64 src_len)";

    #[test]
    fn declarations_are_read_and_written() {
        let declaration: Declaration = COMPRESS.parse().unwrap();
        assert_eq!(declaration.to_string(), COMPRESS);
        assert_eq!(declaration.signature(), "(int, int, int, int) -> int");
        let Kind::Buffer { direction, element, length } = declaration.parameters[0].kind else { panic!() };
        assert_eq!((direction, element, length), (Direction::Out, Scalar::Unsigned(1), Length::Pointee(1)));
        for text in ["void f()", "f64 g(f32 x, f64 y)", "void h(inout i16 all[12], u8 n)"] {
            assert_eq!(text.parse::<Declaration>().unwrap().to_string(), text);
        }
        let spaced: Declaration = "  u64   sum ( in i32 values[ count ] , u64 count ) ; ".parse().unwrap();
        assert_eq!(spaced.to_string(), "u64 sum(in i32 values[count], u64 count)");
        let passing: Declaration = "void each(fn(i32, f64) -> void call, fn() -> u8 ask, i64 n)".parse().unwrap();
        assert_eq!(passing.to_string(), "void each(fn(i32, f64) -> void call, fn() -> u8 ask, i64 n)");
        assert_eq!(passing.signature(), "(fn(int, float) -> void, fn() -> int, int) -> void");
        assert_eq!("f32 g(f64 x, i8 n)".parse::<Declaration>().unwrap().signature(), "(float, int) -> float");
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for text in [
            "",
            "i32 f",
            "f(u8 x)",
            "i7 f()",
            "i32 f(u8)",
            "i32 f(u8 x, u8 x)",
            "i32 f(u8 x,)",
            "i32 f(in u8 x)",
            "i32 f(u8 x[3])",
            "i32 f(in u8 x[0])",
            "i32 f(in u8 x[-1])",
            "i32 f(in u8 x[y])",
            "i32 f(in u8 x[y], f64 y)",
            "i32 f(in u8 x[y], in u64 y[1])",
            "i32 f(in u8 x[*y], u64 y)",
            "i32 f(in u8 x[*y], out u64 y[1])",
            "i32 f(in u8 x[*x])",
            "i32 f(in u8 x[*y], in u64 y[*z], in u64 z[1])",
            "i32 f(u8 a, u8 b, u8 c, u8 d, u8 e, u8 f, u8 g)",
            "i32 1f()",
            "void f(void x)",
            "void f(fn() -> int g)",
            "void f(fn() -> i32)",
            "void f(fn(i32 x) -> i32 g)",
            "void f(fn(i32,) -> i32 g)",
            "void f(fn(fn() -> i32) -> i32 g)",
            "void f(fn(u8, u8, u8, u8, u8, u8, u8) -> u8 g)",
            "void f(in u8 x[g], fn() -> i32 g)",
            "void f(fn() -> i32 g",
        ] {
            assert!(text.parse::<Declaration>().is_err(), "{text}");
        }
    }
}
