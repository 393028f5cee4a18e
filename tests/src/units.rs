//! Random translation units that stress conventions instead of arithmetic: values that callers keep
//! across calls, beginnings and ends of functions, and targets of indirect jumps.

use crate::build::{Compiler, Configuration, Level};
use crate::csmith;
use crate::random::Random;
use anyhow::{Context, bail};
use sfi_contract::Mode;
use std::fmt::Write as _;

/// The choices of a unit.
struct Dice(Random);

impl Dice {
    /// Draws a number from `low` on, below `high`.
    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next() % (high - low)
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        self.0.pick(texts)
    }
}

const HEAD: &str = "\
typedef unsigned long u64;
typedef unsigned char u8;
int printf(const char *, ...);
#define NOINLINE __attribute__((noinline))
struct pair { u64 a, b; };
struct big { u64 a, b, c, d, e; };
static unsigned fuel = 30000;
static u64 words[64];
";

/// Kinds of functions.
const KINDS: u64 = 13;
/// One unit in this many has computed gotos by differences of labels, which the rewriter refuses.
const DIFFERENCES: u64 = 4;
const WITH_DIFFERENCES: u64 = 10;

/// Returns the unit of a seed: C for gcc and clang, whose `main` prints and ends.
pub fn source(seed: u64) -> String {
    let mut dice = Dice(Random(seed));
    let mut text = HEAD.to_owned();
    let count = dice.from(8, 20);
    for number in 0..count {
        let mut kind = if number == 0 { 0 } else { dice.from(0, KINDS) };
        if kind == DIFFERENCES && !seed.is_multiple_of(WITH_DIFFERENCES) {
            kind = 3;
        }
        function(&mut text, &mut dice, number, kind);
    }
    let _ = writeln!(text, "static u64 (*const all[])(u64, u64, unsigned) = {{");
    for number in 0..count {
        let _ = write!(text, "f{number}, ");
    }
    text += "};\nint main(void) {\n    u64 sum = 1;\n    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {\n";
    text += "        fuel = 30000;\n        u64 x = all[i](i * 77 + sum % 100, i ^ 5, i + 3);\n";
    text += "        printf(\"%u %lx\\n\", i, x);\n        sum = sum * 31 + x;\n    }\n";
    text += "    for (unsigned i = 0; i < 64; i++) sum ^= words[i] << (i & 7);\n";
    text += "    printf(\"%lx\\n\", sum);\n    return (int)(sum & 63);\n}\n";
    text
}

/// Compares the unit of a seed natively and in domains, by gcc and clang, at levels and in modes
/// that the seed chooses. Says whether the rewriter accepted it: it refuses units with differences
/// of labels.
///
/// # Errors
/// A difference, with the configuration, or a native program that does not end.
pub fn random_unit(seed: u64) -> anyhow::Result<bool> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("unit.c");
    std::fs::write(&path, source(seed))?;
    let modes = [Mode::ALL[seed as usize % Mode::ALL.len()]];
    for (index, compiler) in [Compiler::Gcc, Compiler::Clang].into_iter().enumerate() {
        let level = Level::ALL[(seed as usize + index) % Level::ALL.len()];
        let configuration = Configuration { compiler, level, flags: vec!["-fPIE".to_owned()] };
        match csmith::compare(&path, &configuration, &modes) {
            Ok(true) => {}
            Ok(false) => bail!("{configuration}: the program does not end"),
            Err(error) if format!("{error:#}").contains("refused by the rewriter") => return Ok(false),
            Err(error) => return Err(error).with_context(|| configuration.to_string()),
        }
    }
    Ok(true)
}

/// Writes an expression over the names that every function has.
fn expression(dice: &mut Dice, names: &[&str]) -> String {
    let (a, b) = (dice.pick(names).to_owned(), dice.pick(names).to_owned());
    let (more, shift) = (dice.from(1, 1000), dice.from(1, 31));
    match dice.from(0, 7) {
        0 => format!("({a} + {b} * {more})"),
        1 => format!("({a} ^ ({b} >> {shift}))"),
        2 => format!("({a} - ({b} & {more}))"),
        3 => format!("(({a} << {shift}) | ({b} >> {}))", 64 - shift),
        4 => format!("({a} > {b} ? {a} - {b} : {more}ul)"),
        5 => format!("(u64)(u8)({a} + {b})"),
        _ => format!("({a} / ({b} % {more} + 1))"),
    }
}

/// Writes a call of an earlier function.
fn call(dice: &mut Dice, number: u64, names: &[&str]) -> String {
    let callee = dice.from(0, number);
    format!("f{callee}({}, {}, n)", expression(dice, names), expression(dice, names))
}

fn function(text: &mut String, dice: &mut Dice, number: u64, kind: u64) {
    const NAMES: [&str; 3] = ["a", "b", "(u64)n"];
    const FUEL: &str = "    if (fuel == 0) return a ^ b;\n    fuel--;\n";
    let head = |attributes: &str| format!("static NOINLINE {attributes}u64 f{number}(u64 a, u64 b, unsigned n) {{\n");
    let e = |dice: &mut Dice| expression(dice, &NAMES);
    let body = match kind {
        // A leaf that clobbers little, so that callers may keep values across it.
        0 => format!("{}    return {};\n}}\n", head(""), e(dice)),
        // A caller with many values to keep.
        1 => {
            let mut body = head("") + FUEL;
            let live = dice.from(4, 14);
            for v in 0..live {
                let _ = writeln!(body, "    u64 v{v} = {};", e(dice));
            }
            for _ in 0..dice.from(1, 5) {
                let (v, w) = (dice.from(0, live), dice.from(0, live));
                let _ = writeln!(body, "    v{v} ^= {} + v{w};", call(dice, number, &NAMES));
            }
            let all: Vec<String> = (0..live).map(|v| format!("v{v} * {}", 2 * v + 1)).collect();
            body + &format!("    return {};\n}}\n", all.join(" + "))
        }
        // Nested switches with holes. The default of the inner one is not reached.
        2 => {
            let mut body = head("") + FUEL;
            let _ = writeln!(body, "    u64 r = {};\n    switch (a % 24) {{", e(dice));
            for case in (0..24).filter(|case| case % 5 != 3) {
                let _ = match dice.from(0, 4) {
                    0 => writeln!(body, "    case {case}: r += {}; break;", call(dice, number, &NAMES)),
                    1 => writeln!(body, "    case {case}: r ^= {};", e(dice)),
                    2 => writeln!(body, "    case {case}: return {};", e(dice)),
                    _ => writeln!(body, "    case {case}: r = {}; break;", e(dice)),
                };
            }
            body += "    }\n    switch (r & 7) {\n";
            for case in 0..8 {
                let _ = writeln!(body, "    case {case}: r += {}; break;", e(dice));
            }
            body + "    default: __builtin_unreachable();\n    }\n    return r;\n}\n"
        }
        // A computed goto, by address or by difference.
        3 | 4 => {
            let difference = kind == 4;
            let count = dice.from(3, 9);
            let labels: Vec<String> =
                (0..count).map(|l| if difference { format!("&&l{l} - &&l0") } else { format!("&&l{l}") }).collect();
            let (element, jump) = if difference { ("int", "&&l0 + t[a % M]") } else { ("void *const", "t[a % M]") };
            let mut body = head("") + FUEL;
            let _ = writeln!(body, "    static const {element} t[] = {{ {} }};", labels.join(", "));
            let _ = writeln!(body, "    enum {{ M = {count} }};\n    u64 r = b;\n    unsigned k = n % 9 + 2;");
            let _ = writeln!(body, "    goto *({jump});");
            for l in 0..count {
                let work = if dice.from(0, 3) == 0 { call(dice, number, &NAMES) } else { e(dice) };
                let _ = writeln!(body, "l{l}:\n    r = r * 5 + {work};\n    a = a * 7 + r + 1;");
                let _ = writeln!(body, "    if (k-- == 0) return r;\n    goto *({jump});");
            }
            body + "}\n"
        }
        // A chain of tail calls, directly or through a pointer.
        5 => {
            let (x, y) = (e(dice), e(dice));
            let callee = dice.from(0, number);
            let other = dice.from(0, number);
            format!(
                "{}{FUEL}    if (n & 1) return f{callee}({x}, {y}, n / 2);\n    static u64 (*volatile g)(u64, u64, unsigned) = f{other};\n    return g({y}, {x}, n / 2);\n}}\n",
                head("")
            )
        }
        // A variadic function, with doubles and without.
        6 => {
            let body = format!(
                "static NOINLINE u64 v{number}(unsigned n, ...) {{\n    __builtin_va_list l;\n    __builtin_va_start(l, n);\n    u64 r = 0;\n    for (unsigned i = 0; i < n; i++) r = r * 3 + (i % 3 == 2 ? (u64)(long)__builtin_va_arg(l, double) : __builtin_va_arg(l, u64));\n    __builtin_va_end(l);\n    return r;\n}}\n"
            );
            let count = dice.from(1, 12);
            let values: Vec<String> = (0..count)
                .map(|v| if v % 3 == 2 { format!("(double)({} % 1000)", e(dice)) } else { format!("(u64){}", e(dice)) })
                .collect();
            body + &format!("{}    return v{number}({count}, {});\n}}\n", head(""), values.join(", "))
        }
        // A leaf with arrays in the red zone.
        7 => {
            let size = dice.from(2, 14);
            format!(
                "{}    volatile u64 t[{size}];\n    for (unsigned i = 0; i < {size}; i++) t[i] = {} + i;\n    return t[n % {size}] ^ t[(a + 1) % {size}];\n}}\n",
                head(""),
                e(dice)
            )
        }
        // A frame whose size is known at run time.
        8 => {
            let work = call(dice, number, &["a", "b", "p[0]"]);
            format!(
                "{}{FUEL}    u64 *p = __builtin_alloca((n % 17 + 1) * 8);\n    for (unsigned i = 0; i <= n % 17; i++) p[i] = {} + i;\n    u64 r = {work};\n    return r + p[n % 17] + p[0];\n}}\n",
                head(""),
                e(dice)
            )
        }
        // Structures by value, in registers and in memory.
        9 => {
            let (x, y, z) = (e(dice), e(dice), e(dice));
            let work = call(dice, number, &NAMES);
            format!(
                "static NOINLINE struct pair p{number}(u64 a, u64 b, unsigned n) {{ return (struct pair){{ {x}, {y} }}; }}\nstatic NOINLINE struct big b{number}(struct big s, u64 a, u64 b, unsigned n) {{ s.a += {z}; s.e ^= s.a; return s; }}\n{}{FUEL}    struct pair p = p{number}(a, b, n);\n    struct big s = b{number}((struct big){{ p.a, p.b, a, b, n }}, p.b, p.a, n);\n    u64 r = {work};\n    return r + s.a + s.e * 3 + s.c + p.a;\n}}\n",
                head("")
            )
        }
        // Another calling convention.
        10 => {
            let (x, y) = (e(dice), e(dice));
            let work = call(dice, number, &NAMES);
            format!(
                "static NOINLINE __attribute__((ms_abi)) u64 m{number}(u64 a, u64 b, unsigned n, u64 c, u64 d, u64 q) {{ u64 r = {work}; return r + {x} + c * 3 + d * 5 + q; }}\n{}{FUEL}    u64 k = {y};\n    return m{number}(a, b, n, k, a + k, b ^ k) + k;\n}}\n",
                head("")
            )
        }
        // A loop with stores, loads and callbacks.
        11 => {
            let (x, y) = (e(dice), e(dice));
            let callee = dice.from(0, number);
            format!(
                "static NOINLINE u64 w{number}(u64 (*g)(u64, u64, unsigned), u64 a, u64 b, unsigned n) {{\n    u64 r = 0, s = a, t = b, q = a * b;\n    for (unsigned i = 0; i < n % 7; i++) {{\n        words[(i + n) & 63] += g(s, t, i);\n        r += words[i & 63] ^ {x};\n        s += r, t ^= s, q += t;\n    }}\n    return r ^ s ^ t ^ q;\n}}\n{}{FUEL}    return w{number}(f{callee}, {y}, b, n);\n}}\n",
                head("")
            )
        }
        // A cold part, and a function that does not return from there.
        _ => {
            let (x, y) = (e(dice), e(dice));
            let first = call(dice, number, &NAMES);
            let second = call(dice, number, &NAMES);
            format!(
                "{}{FUEL}    u64 r = {x};\n    if (__builtin_expect(a % 97 == 96, 0)) {{ words[n & 63] ^= {first}; r += {y}; }}\n    for (unsigned k = 0; k < 4 && __builtin_expect((r & 15) == 3, 0); k++) r = r * 3 + {second};\n    if (__builtin_expect(fuel > 40000, 0)) __builtin_trap();\n    return r;\n}}\n",
                head("")
            )
        }
    };
    *text += &body;
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_seed_gives_one_unit() {
        assert_eq!(super::source(7), super::source(7));
        assert_ne!(super::source(7), super::source(8));
    }
}
