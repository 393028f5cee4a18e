//! `sfi bind`

mod c_host;

use anyhow::{Context, bail};
use sfi_loader::interface::{Declaration, Direction, Kind, Prototype, Scalar};
use sfi_loader::manifest::InterfaceFile;
use sfi_loader::manifest::Manifest;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Generate the sides of an interface: a C header for plugins, a Rust module or a C header for
/// hosts.
///
/// An interface declares functions and the targets of their pointers: `functions = ["i32 sum(in i32
/// values[count], u64 count)"]` in a file of its own, or `[interfaces] NAME = ["..."]` in a
/// manifest. A plugin includes the header and calls, or defines, plain functions. Buffers are
/// copied at the crossing. A host in Rust uses the module, with slices for buffers. A host in C
/// uses its header over `sfi.h`, which also offers functions to domains.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi bind codec.toml > codec.h
  sfi bind codec.toml --emit rust -o src/codec.rs
  sfi bind codec.toml --emit c-host -o codec_host.h
  sfi bind domains.toml --interface codec

Exit codes:
  0  written
  2  a declaration, or a file, cannot be read or written")]
pub struct Args {
    /// A file with `functions`, or a manifest.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The interface of the manifest. Default: the only one.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The kind of file to write.
    #[arg(long, value_enum, default_value_t = Emit::Header)]
    emit: Emit,
    /// The output file. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Kinds of files that can be written.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Emit {
    /// C: prototypes and function pointer types, for the plugins on both sides.
    Header,
    /// Rust: a type with a method for each function, for hosts.
    Rust,
    /// C: inline functions over sfi.h, for hosts, which call domains or are called by them.
    CHost,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (name, functions) = read(args)?;
    let text = match args.emit {
        Emit::Header => header(&name, &functions),
        Emit::Rust => rust(&name, &functions),
        Emit::CHost => c_host::emit(&name, &functions)?,
    };
    match &args.output {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?,
        None => print!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the interface's name and declarations.
fn read(args: &Args) -> anyhow::Result<(String, Vec<Declaration>)> {
    let own = match InterfaceFile::load(&args.file) {
        Ok(file) => {
            let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
            let name = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            return Ok((name, file.functions));
        }
        Err(error) => error,
    };
    // The file is neither an interface nor a manifest. The error of the interface file is the
    // likelier cause.
    let Ok(manifest) = Manifest::load(&args.file) else { return Err(own.into()) };
    let names: Vec<&String> = manifest.interfaces.keys().collect();
    let name = match (&args.interface, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => *only,
        (None, _) => bail!("the manifest has {} interfaces: choose one with --interface", names.len()),
    };
    let directory = args.file.parent().unwrap_or(Path::new(""));
    Ok((name.clone(), manifest.interface(name, directory)?))
}

/// Writes the parameters in C.
fn c_parameters(declaration: &Declaration) -> String {
    let parameter = |p: &sfi_loader::interface::Parameter| match p.kind {
        Kind::Number(scalar) => format!("{} {}", scalar.c(), p.name),
        Kind::Buffer { direction: Direction::In, element, .. } => format!("const {} *{}", element.c(), p.name),
        Kind::Buffer { element, .. } => format!("{} *{}", element.c(), p.name),
        Kind::Function(prototype) => c_function(&p.name, &prototype),
    };
    let all: Vec<String> = declaration.parameters.iter().map(parameter).collect();
    if all.is_empty() { "void".into() } else { all.join(", ") }
}

/// Writes a parameter that is a function in C.
fn c_function(name: &str, prototype: &Prototype) -> String {
    let all: Vec<String> = prototype.parameters().map(Scalar::c).collect();
    let list = if all.is_empty() { "void".into() } else { all.join(", ") };
    format!("{} (*{name})({list})", prototype.result.map_or("void".into(), Scalar::c))
}

fn header(name: &str, functions: &[Declaration]) -> String {
    let guard = format!("SFI_INTERFACE_{}_H", name.to_uppercase());
    let mut text = format!(
        "/* The interface `{name}`, written by `sfi bind`. Calls cross between domains: buffers are copied, the callee never sees the\n\
         \x20  caller's memory. A call that fails returns the import's `on_fault` and sets __sfi_error. */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n"
    );
    for declaration in functions {
        let result = declaration.result.map_or("void".into(), Scalar::c);
        let (function, parameters) = (&declaration.name, c_parameters(declaration));
        let _ = write!(
            text,
            "\n/* {declaration} */\n{result} {function}({parameters});\ntypedef {result} (*{function}_fn)({parameters});\n"
        );
    }
    let _ = write!(text, "\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n");
    text
}

/// Turns a name into the name of a Rust type.
fn camel(name: &str) -> String {
    let mut text = String::new();
    for part in name.split('_').filter(|p| !p.is_empty()) {
        let (first, rest) = part.split_at(1);
        text += &first.to_uppercase();
        text += rest;
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) { text } else { format!("I{text}") }
}

fn rust(name: &str, functions: &[Declaration]) -> String {
    let kind = camel(name);
    let mut text = format!("/// The functions of a domain.\n#[derive(Clone, Debug)]\npub struct {kind} {{\n");
    for declaration in functions {
        let _ = writeln!(text, "    r#{}: Bound,", declaration.name);
    }
    let _ = write!(
        text,
        "}}\n\nimpl {kind} {{\n    /// Looks the functions up in a domain.\n    ///\n    /// # Errors\n    /// [`LookupError`].\n    \
         pub fn connect(world: &World, domain: &str) -> Result<Self, LookupError> {{\n        \
         let declared = |text: &str| -> Result<_, BadDeclaration> {{ text.parse() }};\n        \
         let bind = |text| world.domain(domain)?.bind(&declared(text).expect(\"written by sfi bind\"));\n        Ok(Self {{\n"
    );
    for declaration in functions {
        let _ = writeln!(text, "            r#{}: bind(\"{declaration}\")?,", declaration.name);
    }
    text += "        })\n    }\n";
    for declaration in functions {
        let _ = write!(
            text,
            "\n    /// `{declaration}`\n    ///\n    /// # Errors\n    /// [`CallError`]; [`CallError::Arguments`] for a slice that is shorter than declared.\n    pub fn r#{}(&self, sfi_world: &mut impl Enter",
            declaration.name
        );
        let mut passed = Vec::new();
        for parameter in &declaration.parameters {
            let name = format!("r#{}", parameter.name);
            let (kind, pass) = match parameter.kind {
                Kind::Number(scalar) => (scalar.rust(), format!("Passed::Word({})", word(&name, scalar))),
                Kind::Function(_) => ("Pointer".into(), format!("Passed::Word({name}.0)")),
                Kind::Buffer { direction: Direction::In, element, .. } => {
                    (format!("&[{}]", element.rust()), format!("Passed::In(bytes({name}))"))
                }
                Kind::Buffer { direction: Direction::Out, element, .. } => {
                    (format!("&mut [{}]", element.rust()), format!("Passed::Out(bytes_mut({name}))"))
                }
                Kind::Buffer { direction: Direction::InOut, element, .. } => {
                    (format!("&mut [{}]", element.rust()), format!("Passed::InOut(bytes_mut({name}))"))
                }
            };
            let _ = write!(text, ", {name}: {kind}");
            passed.push(pass);
        }
        let passed = passed.join(", ");
        let call = format!("self.r#{}.call(sfi_world, &mut [{passed}])", declaration.name);
        let (result, body) = match declaration.result {
            None => ("()".into(), format!("{call}.map(drop)")),
            Some(Scalar::Float(4)) => ("f32".into(), format!("{call}.map(|word| f32::from_bits(word as u32))")),
            Some(Scalar::Float(_)) => ("f64".into(), format!("{call}.map(f64::from_bits)")),
            Some(Scalar::Unsigned(8)) => ("u64".into(), call),
            Some(scalar) => (scalar.rust(), format!("{call}.map(|word| word as {})", scalar.rust())),
        };
        let _ = write!(text, ") -> Result<{result}, CallError> {{\n        {body}\n    }}\n");
    }
    text += "}\n";
    // Import only the names that the functions use, because hosts compile with warnings.
    let wanted = [
        ("Passed", "Passed::"),
        ("Pointer", ": Pointer"),
        ("World", "&World"),
        ("bytes", "(bytes("),
        ("bytes_mut", "(bytes_mut("),
    ];
    let used = wanted.iter().filter(|(_, use_of_it)| text.contains(use_of_it)).map(|(import, _)| *import);
    let imports: Vec<&str> = ["Bound", "CallError", "Enter", "LookupError"].into_iter().chain(used).collect();
    format!(
        "//! The interface `{name}`, written by `sfi bind`: calls of a host into a domain that implements it.\n\n\
         use sfi_loader::interface::BadDeclaration;\nuse sfi_loader::{{{}}};\n\n{text}",
        imports.join(", ")
    )
}

/// Writes a number as the bits of a register.
fn word(name: &str, scalar: Scalar) -> String {
    match scalar {
        Scalar::Float(4) => format!("u64::from({name}.to_bits())"),
        Scalar::Float(_) => format!("{name}.to_bits()"),
        Scalar::Unsigned(8) => name.to_owned(),
        Scalar::Signed(_) => format!("{name} as u64"),
        Scalar::Unsigned(_) => format!("u64::from({name})"),
    }
}
