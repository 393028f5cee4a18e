//! Random translation units that stress conventions instead of arithmetic: values that callers keep
//! across calls, beginnings and ends of functions, and targets of indirect jumps.

mod compare;

pub use compare::{BATCH, Fared, batch};

use crate::random::Random;
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
int _setjmp(u64 *) __attribute__((returns_twice));
void longjmp(u64 *, int) __attribute__((noreturn));
#if defined __clang__
#define REGCALL __attribute__((regcall))
#else
#define REGCALL
#endif
";

/// Kinds of functions.
const KINDS: u64 = 19;
/// One batch in this many has computed gotos by differences of labels.
const DIFFERENCES: u64 = 4;
const WITH_DIFFERENCES: u64 = 10;
/// Functions of a unit have numbers of their own, below this.
const NUMBERS: u64 = 100;

/// Returns one program of the units of some seeds: C for gcc and clang, whose `main` prints and
/// ends.
pub fn source(seeds: &[u64], differences: bool) -> String {
    let mut text = HEAD.to_owned();
    for (index, seed) in (0..).zip(seeds) {
        unit(&mut text, index, *seed, differences);
    }
    text += "int main(void) {\n    u64 sum = 1;\n";
    for index in 0..seeds.len() {
        let _ = writeln!(text, "    sum = unit{index}(sum);");
    }
    text + "    return (int)(sum & 63);\n}\n"
}

fn unit(text: &mut String, index: u64, seed: u64, differences: bool) {
    let mut dice = Dice(Random(seed));
    let first = index * NUMBERS;
    let count = dice.from(8, 20);
    for number in first..first + count {
        let mut kind = if number == first { 0 } else { dice.from(0, KINDS) };
        if kind == DIFFERENCES && !differences {
            kind = 3;
        }
        function(text, &mut dice, Numbers { first, number }, kind);
    }
    let _ = writeln!(text, "static u64 (*const all{index}[])(u64, u64, unsigned) = {{");
    for number in first..first + count {
        let _ = write!(text, "f{number}, ");
    }
    let _ = writeln!(text, "}};\nstatic NOINLINE u64 unit{index}(u64 sum) {{");
    let _ = writeln!(text, "    for (unsigned i = 0; i < sizeof all{index} / sizeof *all{index}; i++) {{");
    let _ = writeln!(text, "        fuel = 30000;\n        u64 x = all{index}[i](i * 77 + sum % 100, i ^ 5, i + 3);");
    *text += "        printf(\"%u %lx\\n\", i, x);\n        sum = sum * 31 + x;\n    }\n";
    *text += "    for (unsigned i = 0; i < 64; i++) sum ^= words[i] << (i & 7);\n";
    *text += "    printf(\"%lx\\n\", sum);\n    return sum;\n}\n";
}

/// The number of a function, and of the first one of its unit.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    number: u64,
}

impl Numbers {
    /// Draws an earlier function of the unit.
    fn earlier(self, dice: &mut Dice) -> u64 {
        dice.from(self.first, self.number)
    }
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
fn call(dice: &mut Dice, numbers: Numbers, names: &[&str]) -> String {
    let callee = numbers.earlier(dice);
    format!("f{callee}({}, {}, n)", expression(dice, names), expression(dice, names))
}

fn function(text: &mut String, dice: &mut Dice, numbers: Numbers, kind: u64) {
    let number = numbers.number;
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
                let _ = writeln!(body, "    v{v} ^= {} + v{w};", call(dice, numbers, &NAMES));
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
                    0 => writeln!(body, "    case {case}: r += {}; break;", call(dice, numbers, &NAMES)),
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
                let work = if dice.from(0, 3) == 0 { call(dice, numbers, &NAMES) } else { e(dice) };
                let _ = writeln!(body, "l{l}:\n    r = r * 5 + {work};\n    a = a * 7 + r + 1;");
                let _ = writeln!(body, "    if (k-- == 0) return r;\n    goto *({jump});");
            }
            body + "}\n"
        }
        // A chain of tail calls, directly or through a pointer.
        5 => {
            let (x, y) = (e(dice), e(dice));
            let callee = numbers.earlier(dice);
            let other = numbers.earlier(dice);
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
            let work = call(dice, numbers, &["a", "b", "p[0]"]);
            format!(
                "{}{FUEL}    u64 *p = __builtin_alloca((n % 17 + 1) * 8);\n    for (unsigned i = 0; i <= n % 17; i++) p[i] = {} + i;\n    u64 r = {work};\n    return r + p[n % 17] + p[0];\n}}\n",
                head(""),
                e(dice)
            )
        }
        // Structures by value, in registers and in memory.
        9 => {
            let (x, y, z) = (e(dice), e(dice), e(dice));
            let work = call(dice, numbers, &NAMES);
            format!(
                "static NOINLINE struct pair p{number}(u64 a, u64 b, unsigned n) {{ return (struct pair){{ {x}, {y} }}; }}\nstatic NOINLINE struct big b{number}(struct big s, u64 a, u64 b, unsigned n) {{ s.a += {z}; s.e ^= s.a; return s; }}\n{}{FUEL}    struct pair p = p{number}(a, b, n);\n    struct big s = b{number}((struct big){{ p.a, p.b, a, b, n }}, p.b, p.a, n);\n    u64 r = {work};\n    return r + s.a + s.e * 3 + s.c + p.a;\n}}\n",
                head("")
            )
        }
        // Another calling convention.
        10 => {
            let (x, y) = (e(dice), e(dice));
            let work = call(dice, numbers, &NAMES);
            format!(
                "static NOINLINE __attribute__((ms_abi)) u64 m{number}(u64 a, u64 b, unsigned n, u64 c, u64 d, u64 q) {{ u64 r = {work}; return r + {x} + c * 3 + d * 5 + q; }}\n{}{FUEL}    u64 k = {y};\n    return m{number}(a, b, n, k, a + k, b ^ k) + k;\n}}\n",
                head("")
            )
        }
        // A loop with stores, loads and callbacks.
        11 => {
            let (x, y) = (e(dice), e(dice));
            let callee = numbers.earlier(dice);
            format!(
                "static NOINLINE u64 w{number}(u64 (*g)(u64, u64, unsigned), u64 a, u64 b, unsigned n) {{\n    u64 r = 0, s = a, t = b, q = a * b;\n    for (unsigned i = 0; i < n % 7; i++) {{\n        words[(i + n) & 63] += g(s, t, i);\n        r += words[i & 63] ^ {x};\n        s += r, t ^= s, q += t;\n    }}\n    return r ^ s ^ t ^ q;\n}}\n{}{FUEL}    return w{number}(f{callee}, {y}, b, n);\n}}\n",
                head("")
            )
        }
        // A leaf without a frame that jumps by a table: callers keep values in r8 to r11 across it.
        13 => {
            let mut body = head("") + "    switch (a % 13) {\n";
            for case in (0..13).filter(|case| case % 6 != 5) {
                let _ = writeln!(body, "    case {case}: return {};", e(dice));
            }
            body + &format!("    }}\n    return {};\n}}\n", e(dice))
        }
        // An interpreter: the table's address is computed before the loop.
        14 => {
            let mut body = head("") + FUEL;
            body += "    u64 r = a, s = b, t = a ^ b, k = n % 23 + 3;\n    while (k--) {\n        switch ((r >> 3) % 11) {\n";
            for case in 0..10 {
                let work = if dice.from(0, 3) == 0 {
                    call(dice, numbers, &["r", "s", "t"])
                } else {
                    expression(dice, &["r", "s", "t"])
                };
                let to = dice.pick(&["r", "s", "t"]);
                let end = dice.pick(&["break;", "break;", "continue;", "if (t & 4) return s ^ r; break;"]);
                let _ = writeln!(body, "        case {case}: {to} += {work}; {end}");
            }
            body + "        default: r = r * 3 + 7;\n        }\n        r ^= s + k, t = t * 5 + r;\n    }\n    return r ^ s ^ t;\n}\n"
        }
        // A jump out of a call.
        15 => {
            let (x, y) = (e(dice), e(dice));
            let callee = numbers.earlier(dice);
            format!(
                "static u64 j{number}[40];\nstatic NOINLINE u64 l{number}(u64 a, u64 b, unsigned n) {{ u64 r = {x}; if (r & 1) longjmp(j{number}, (int)(r & 63) + 1); return r + f{callee}(b, a, n); }}\n{}{FUEL}    volatile u64 r = {y};\n    u64 k = a * 3 + b;\n    int z = _setjmp(j{number});\n    if (z == 0) {{ r += l{number}(a, b, n); r ^= k; }} else r += (u64)z;\n    return r;\n}}\n",
                head("")
            )
        }
        // Arguments in registers that no other convention uses.
        16 => {
            let (x, y) = (e(dice), e(dice));
            let work = call(dice, numbers, &NAMES);
            format!(
                "static NOINLINE REGCALL u64 r{number}(u64 a, u64 b, unsigned n, u64 c, u64 d, u64 q) {{ u64 r = {work}; return r + {x} + c * 3 + d * 5 + q; }}\n{}{FUEL}    u64 k = {y};\n    return r{number}(a, b, n, k, a + k, b ^ k) + k;\n}}\n",
                head("")
            )
        }
        // A tail call through a pointer beside a jump by a table, with many registers to restore
        // before it.
        17 => {
            let mut body = head("") + FUEL;
            let (one, other) = (numbers.earlier(dice), numbers.earlier(dice));
            let _ = writeln!(
                body,
                "    static u64 (*volatile g)(u64, u64, unsigned) = f{one};\n    u64 r = {}, s = {};",
                e(dice),
                e(dice)
            );
            let _ = writeln!(body, "    r += f{other}(s, r, n / 2) + s;\n    switch (r % 9) {{");
            for case in 0..8 {
                let _ = match dice.from(0, 3) {
                    0 => writeln!(body, "    case {case}: return g(r, s, n / 2);"),
                    1 => writeln!(body, "    case {case}: return f{other}({}, s, n / 2);", e(dice)),
                    _ => writeln!(body, "    case {case}: r += {}; break;", call(dice, numbers, &["r", "s", "a"])),
                };
            }
            body + "    }\n    return r * s;\n}\n"
        }
        // Loops that compilers unroll and turn into vectors, over memory of the frame.
        18 => {
            let size = dice.from(9, 70);
            let (x, y) = (e(dice), dice.from(1, 60));
            format!(
                "{}{FUEL}    unsigned t[{size}]; u64 q[{size}];\n    for (unsigned i = 0; i < {size}; i++) t[i] = (unsigned)({x}) + i * {y}, q[i] = t[i] * a + i;\n    for (unsigned i = 1; i < {size}; i++) t[i] ^= t[{size} - 1 - i] + (unsigned)q[i];\n    for (unsigned i = 0; i < {size}; i++) q[t[i] % {size}] += b ^ t[i];\n    u64 r = {};\n    for (unsigned i = 0; i < {size}; i++) r += q[i] * (t[i] & 7);\n    return r;\n}}\n",
                head(""),
                call(dice, numbers, &["a", "q[3]", "t[2]"])
            )
        }
        // A cold part, and a function that does not return from there.
        _ => {
            let (x, y) = (e(dice), e(dice));
            let first = call(dice, numbers, &NAMES);
            let second = call(dice, numbers, &NAMES);
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
    fn seeds_give_one_program() {
        assert_eq!(super::source(&[7, 8], false), super::source(&[7, 8], false));
        assert_ne!(super::source(&[7], false), super::source(&[8], false));
    }
}
