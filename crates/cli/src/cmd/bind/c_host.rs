//! The C side of an interface for hosts: typed wrappers over `sfi.h` for calls into a domain, and
//! for functions that the host offers to domains.

use anyhow::{bail, ensure};
use sfi_loader::interface::{Declaration, Direction, Kind, Length, Parameter, Scalar};
use std::fmt::Write;

/// Words that cannot be names in C or C++.
const KEYWORDS: &str = "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict \
    return short signed sizeof static struct switch typedef union unsigned void volatile while bool class delete export friend mutable \
    namespace new operator private protected public template this throw try catch using virtual";
/// Names that the generated header uses itself, so no function of the interface may have them.
const OWN: [&str; 4] = ["connect", "disconnect", "offer", "user"];

/// Returns the header's text.
pub fn emit(name: &str, functions: &[Declaration]) -> anyhow::Result<String> {
    let keyword = |word: &str| KEYWORDS.split_whitespace().any(|k| k == word);
    let starts = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let taken = |word: &str| word == "sfi" || word.starts_with("sfi_");
    ensure!(starts(name) && !keyword(name) && !taken(name), "`{name}` cannot be the name of a type in C");
    for declaration in functions {
        let parameters = declaration.parameters.iter().map(|p| p.name.as_str());
        for word in parameters.chain([declaration.name.as_str()]) {
            ensure!(!keyword(word), "`{word}` is no name in C: {declaration}");
            ensure!(!taken(word), "`{word}`: names that begin with `sfi_` are taken: {declaration}");
        }
        if OWN.contains(&declaration.name.as_str()) {
            bail!("`{}` has a meaning of its own in the generated header: {declaration}", declaration.name);
        }
    }
    let guard = format!("SFI_HOST_{}_H", name.to_uppercase());
    let mut text = format!(
        "/* The interface `{name}` for hosts, written by `sfi bind`.\n\n\
         \x20  Calls into a domain: {name}_connect, then a function for each declaration. Buffers have at least as many elements as the declaration says;\n\
         \x20  they are copied, and the domain never sees the host's memory. A call that fails leaves `sfi_client->error` until the next one.\n\n\
         \x20  Calls by domains: fill a `{name}_host` and {name}_offer it to a config before worlds are opened. The host's functions get copies of the\n\
         \x20  domain's buffers, as long as the declaration says. In a manifest, imports of a domain:\n"
    );
    for d in functions {
        let _ =
            writeln!(text, "       {} = {{ host = \"{name}.{}\", signature = \"{}\" }}", d.name, d.name, d.signature());
    }
    let _ = write!(
        text,
        "*/\n#ifndef {guard}\n#define {guard}\n\n#include <sfi.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\
         \n/* A domain that implements the interface. */\ntypedef struct {name} {{\n    sfi_world *world;\n    \
         sfi_limits limits; /* of each call; zeroes: the world's */\n    \
         sfi_error *error;  /* of the last call */\n"
    );
    for d in functions {
        let _ = writeln!(text, "    sfi_bound *sfi_{};", d.name);
    }
    let _ = write!(
        text,
        "}} {name};\n\n/* Frees what {name}_connect made; the world stays. */\n\
         static inline void {name}_disconnect({name} *sfi_client)\n{{\n    sfi_error_free(sfi_client->error);\n"
    );
    for d in functions {
        let _ = writeln!(text, "    sfi_bound_free(sfi_client->sfi_{});", d.name);
    }
    let _ = write!(
        text,
        "    memset(sfi_client, 0, sizeof *sfi_client);\n}}\n\
         \n/* Looks the functions up in a domain. If one is not there, `error` is left, to be freed by \
         {name}_disconnect. */\n\
         static inline sfi_status {name}_connect({name} *sfi_client, sfi_world *sfi_the_world, const char *sfi_domain)\n{{\n    \
         sfi_status sfi_code = SFI_OK;\n    memset(sfi_client, 0, sizeof *sfi_client);\n    sfi_client->world = sfi_the_world;\n"
    );
    for d in functions {
        let _ = write!(
            text,
            "    if (sfi_code == SFI_OK)\n        sfi_code = sfi_bound_find(sfi_the_world, sfi_domain, \"{d}\", &sfi_client->sfi_{}, &sfi_client->error);\n",
            d.name
        );
    }
    text += "    return sfi_code;\n}\n";
    for d in functions {
        call(&mut text, name, d);
    }
    host(&mut text, name, functions);
    let _ = write!(text, "\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n");
    Ok(text)
}

/// Writes a parameter in C.
fn parameter(p: &Parameter) -> String {
    match p.kind {
        Kind::Number(scalar) => format!("{} {}", scalar.c(), p.name),
        Kind::Buffer { direction: Direction::In, element, .. } => format!("const {} *{}", element.c(), p.name),
        Kind::Buffer { element, .. } => format!("{} *{}", element.c(), p.name),
        // The address of a function as the domain sees it: sfi_world_lend makes it,
        // sfi_host_callback calls it.
        Kind::Function(_) => format!("uint64_t {}", p.name),
    }
}

/// Writes the conversion of a C value to a `sfi_value`.
fn value(scalar: Scalar, what: &str) -> String {
    match scalar {
        Scalar::Signed(_) => format!("sfi_i({what})"),
        Scalar::Unsigned(_) => format!("sfi_u({what})"),
        Scalar::Float(4) => format!("sfi_f32({what})"),
        Scalar::Float(_) => format!("sfi_f64({what})"),
    }
}

/// Writes the conversion of a `sfi_value` to a C value.
fn from_value(scalar: Scalar, what: &str) -> String {
    match scalar {
        Scalar::Float(4) => format!("sfi_as_f32({what})"),
        Scalar::Float(_) => format!("{what}.f"),
        other => format!("({}){what}.u", other.c()),
    }
}

/// Writes the number of elements of a buffer as a C expression of type uint64_t. A negative number
/// gives a buffer without bytes, and the loader refuses the call with the reason.
fn count(d: &Declaration, length: Length) -> String {
    match length {
        Length::Constant(count) => format!("UINT64_C({count})"),
        Length::Parameter(of) => format!("(uint64_t){}", d.parameters[of].name),
        Length::Pointee(of) => {
            let name = &d.parameters[of].name;
            match d.parameters[of].kind {
                // Without elements there is nothing to read.
                Kind::Buffer { length: Length::Parameter(n), .. } => {
                    format!("({name} && {} ? (uint64_t)*{name} : 0)", d.parameters[n].name)
                }
                _ => format!("({name} ? (uint64_t)*{name} : 0)"),
            }
        }
    }
}

/// Writes the wrapper of a call into a domain.
fn call(text: &mut String, name: &str, d: &Declaration) {
    let result = d.result.map(|scalar| format!("{} *sfi_result", scalar.c()));
    let client = format!("{name} *sfi_client");
    let parameters: Vec<String> =
        [client].into_iter().chain(d.parameters.iter().map(parameter)).chain(result).collect();
    let _ = write!(
        text,
        "\n/* {d}{} */\nstatic inline sfi_status {name}_{}({})\n{{\n    sfi_value sfi_bits;\n    sfi_status sfi_code;\n",
        if d.result.is_some() { "; sfi_result may be NULL" } else { "" },
        d.name,
        parameters.join(", ")
    );
    let arguments = d.parameters.len();
    if arguments > 0 {
        let _ = writeln!(text, "    sfi_argument sfi_arguments[{arguments}];");
    }
    text.push_str("    sfi_error_free(sfi_client->error);\n    sfi_client->error = NULL;\n    sfi_bits.u = 0;\n");
    if arguments > 0 {
        text.push_str("    memset(sfi_arguments, 0, sizeof sfi_arguments);\n");
    }
    for (i, p) in d.parameters.iter().enumerate() {
        let _ = match p.kind {
            Kind::Number(scalar) => writeln!(text, "    sfi_arguments[{i}].value = {};", value(scalar, &p.name)),
            Kind::Function(_) => writeln!(text, "    sfi_arguments[{i}].value = sfi_u({});", p.name),
            Kind::Buffer { length, .. } => writeln!(
                text,
                "    sfi_arguments[{i}].data = (void *){};\n    sfi_arguments[{i}].size = sfi_bytes({}, sizeof *{});",
                p.name,
                count(d, length),
                p.name
            ),
        };
    }
    let list = if arguments > 0 { "sfi_arguments" } else { "NULL" };
    let _ = writeln!(
        text,
        "    sfi_code = sfi_bound_call(sfi_client->world, sfi_client->sfi_{}, {list}, {arguments}, &sfi_client->limits, &sfi_bits, &sfi_client->error);",
        d.name
    );
    if let Some(scalar) = d.result {
        let _ = write!(
            text,
            "    if (sfi_code == SFI_OK && sfi_result)\n        *sfi_result = {};\n",
            from_value(scalar, "sfi_bits")
        );
    }
    text.push_str("    return sfi_code;\n}\n");
}

/// Writes the functions that the host offers to domains.
fn host(text: &mut String, name: &str, functions: &[Declaration]) {
    let _ = write!(
        text,
        "\n/* The host's side of the interface: its functions, and what they get as `user`. NULL is not offered. The struct lives as long as the worlds. A function\n\
         \x20  that fails sets *sfi_failed to not 0: the caller gets its import's `on_fault`. */\ntypedef struct {name}_host {{\n    void *user;\n"
    );
    for d in functions {
        let result = d.result.map_or("void".into(), Scalar::c);
        let own = ["void *sfi_user", "sfi_host_call *sfi_the_call", "int *sfi_failed"].map(str::to_owned);
        let parameters: Vec<String> = own.into_iter().chain(d.parameters.iter().map(parameter)).collect();
        let _ = writeln!(text, "    {result} (*{})({}); /* {d} */", d.name, parameters.join(", "));
    }
    let _ = writeln!(text, "}} {name}_host;");
    for d in functions {
        let pass = |(i, p): (usize, &Parameter)| match p.kind {
            Kind::Number(scalar) => from_value(scalar, &format!("sfi_arguments[{i}].value")),
            Kind::Function(_) => format!("sfi_arguments[{i}].value.u"),
            Kind::Buffer { direction: Direction::In, element, .. } => {
                format!("(const {} *)sfi_arguments[{i}].data", element.c())
            }
            Kind::Buffer { element, .. } => format!("({} *)sfi_arguments[{i}].data", element.c()),
        };
        let own = ["sfi_own->user", "sfi_the_call", "&sfi_failed"].map(str::to_owned);
        let passed: Vec<String> = own.into_iter().chain(d.parameters.iter().enumerate().map(pass)).collect();
        let made = format!("sfi_own->{}({})", d.name, passed.join(", "));
        let made = match d.result {
            None => format!("{made};\n    (void)sfi_result"),
            Some(scalar) => format!("*sfi_result = {}", value(scalar, &made)),
        };
        let unused = if d.parameters.is_empty() { "    (void)sfi_arguments;\n" } else { "" };
        let _ = write!(
            text,
            "\nstatic inline sfi_status {name}_sfi_serve_{}(void *sfi_user, sfi_host_call *sfi_the_call, const sfi_argument *sfi_arguments, sfi_value *sfi_result)\n{{\n    \
             const {name}_host *sfi_own = (const {name}_host *)sfi_user;\n    int sfi_failed = 0;\n{unused}    {made};\n    \
             return sfi_failed ? SFI_HOST : SFI_OK;\n}}\n",
            d.name
        );
    }
    let _ = write!(
        text,
        "\n/* Offers the functions to the domains of worlds that are opened with the config. */\n\
         static inline sfi_status {name}_offer(sfi_config *sfi_the_config, const {name}_host *sfi_own, sfi_error **sfi_why)\n{{\n    sfi_status sfi_code = SFI_OK;\n    \
         if (sfi_why)\n        *sfi_why = NULL;\n"
    );
    for d in functions {
        let _ = write!(
            text,
            "    if (sfi_code == SFI_OK && sfi_own->{})\n        sfi_code = sfi_config_serve(sfi_the_config, \"{name}.{}\", \"{d}\", {name}_sfi_serve_{}, (void *)sfi_own, sfi_why);\n",
            d.name, d.name, d.name
        );
    }
    text.push_str("    return sfi_code;\n}\n");
}
