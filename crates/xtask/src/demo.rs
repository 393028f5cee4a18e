//! `cargo xtask demo`

use crate::setup::{self, cargo};
use crate::shell;
use anyhow::{Context, bail, ensure};
use std::ffi::OsStr;
use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

/// Runs Debian's stock libz.a, not recompiled, as a sandboxed codec. An app in another domain
/// compresses and decompresses a real file through cross-domain calls. Then the codec is sabotaged,
/// and the app lives on.
#[derive(clap::Args)]
pub struct Args {
    /// The file to compress [default: a big file of the system]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Runs of each side for the times
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The sandbox's modes, one after the other
    #[arg(long, default_value = "write,full", value_delimiter = ',', value_name = "MODE,...")]
    mode: Vec<String>,
}

/// The sabotaged codecs: a macro of fixtures/demo/sabotage.h, and its effect.
const SABOTAGE: [(&str, &str); 3] = [
    ("WILD_STORE", "the codec writes through a wild pointer"),
    ("WILD_JUMP", "the codec calls data and numbers as functions"),
    ("ENDLESS_RECURSION", "the codec recurses without end"),
];

/// The places of zlib's archive in the distributions.
const LIBZ: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/libz.a", "/usr/lib64/libz.a"];
/// The input is the biggest file up to this size, bytes.
const INPUT_LIMIT: u64 = 6 << 20;

/// The manifest's name, beside the objects of a mode.
const MANIFEST: &str = "domains.toml";

/// The exit code of `sfi run` if the world cannot be built.
const LOAD_ERROR: i32 = 2;

/// Paths of a run.
struct Demo<'a> {
    root: PathBuf,
    /// The folder of the native objects and of one folder for each mode. Commands run in it.
    out: PathBuf,
    sfi: PathBuf,
    mode: &'a str,
    input: PathBuf,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    ensure!(args.rounds > 0, "--rounds must not be 0");
    let (first, _) = args.mode.split_first().context("--mode names no mode")?;
    println!(
        "Debian's stock libz.a becomes a codec in a domain of its own. An app in another domain sends a\n\
         real file through it. Then the codec turns hostile, and the app lives on. At the end, an object\n\
         that was never rewritten is refused."
    );
    setup::ensure(setup::DEMO)?;
    let mut demo = prepare(args, first)?;
    let start = Instant::now();
    compile(&demo)?;
    for mode in &args.mode {
        demo.mode = mode;
        build(&demo)?;
        measure(&demo, args.rounds)?;
    }
    demo.mode = first;
    for (what, story) in SABOTAGE {
        sabotage(&demo, what, story)?;
    }
    refuse(&demo)?;
    headline(&format!("all as promised, in {:.0} s", start.elapsed().as_secs_f64()));
    println!("Sources and manifest: fixtures/demo. Objects: {}.", demo.out.display());
    Ok(ExitCode::SUCCESS)
}

/// Begins a part of the demo, in bold where the output is a terminal.
fn headline(text: &str) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}== {text}{bold:#}");
}

/// Prints a command as you can type it, dimmed where the output is a terminal.
fn show(line: &str) {
    let dim = anstyle::Style::new().dimmed();
    anstream::println!("{dim}$ {line}{dim:#}");
}

/// Builds `sfi`, shows the command, and makes the folders of a run.
fn prepare<'a>(args: &Args, mode: &'a str) -> anyhow::Result<Demo<'a>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("no root")?.to_owned();
    println!("\nBuilding sfi in {}: a few minutes the first time.", root.display());
    let start = Instant::now();
    let mut command = Command::new(cargo());
    command.args(["build", "--release", "-p", "sfi-cli"]).current_dir(&root);
    show(&shell::line(&command, &[(&cargo(), "cargo")]));
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "sfi does not build");
    println!("Built in {:.0} s.", start.elapsed().as_secs_f64());
    let target = setup::target(&root);
    let input = match &args.input {
        Some(path) => path.clone(),
        None => big_file()?,
    };
    let out = target.join("demo");
    for mode in &args.mode {
        std::fs::create_dir_all(out.join(mode))?;
    }
    println!("\nThe commands below run in {}. There `sfi` is {}.", out.display(), target.join("release/sfi").display());
    Ok(Demo { sfi: target.join("release/sfi"), root, out, mode, input })
}

/// Finds the biggest regular file up to [`INPUT_LIMIT`] among the system's libraries and programs.
fn big_file() -> anyhow::Result<PathBuf> {
    let mut best: Option<(u64, PathBuf)> = None;
    for directory in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/bin"] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let candidate = (metadata.size(), path);
            if metadata.is_file() && metadata.size() <= INPUT_LIMIT && best.as_ref().is_none_or(|b| candidate > *b) {
                best = Some(candidate);
            }
        }
    }
    best.map(|(_, path)| path).context("no file to compress; give one with --input")
}

impl Demo<'_> {
    /// Makes a command that runs in the demo's folder. A terminal's colours reach it through this
    /// process.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.out);
        if std::io::stdout().is_terminal() {
            command.env("CLICOLOR_FORCE", "1");
        }
        command
    }

    fn sfi(&self, subcommand: &str) -> Command {
        let mut command = self.command(&self.sfi);
        command.arg(subcommand);
        command
    }

    fn source(&self, name: &str) -> PathBuf {
        self.root.join("fixtures/demo").join(name)
    }

    /// Returns the path of a file in the mode's folder, seen from the demo's folder.
    fn own(&self, name: &str) -> String {
        format!("{}/{name}", self.mode)
    }

    /// Makes a command that compiles like Debian's packages: position-independent and optimised,
    /// without special flags.
    fn compiler(&self) -> Command {
        let mut command = self.command("gcc");
        command.args(["-O2", "-g", "-fPIE", "-c"]);
        command
    }

    /// Shows a command. You can type it as shown in the demo's folder, where `sfi` is the program
    /// that was built.
    fn show(&self, command: &Command) {
        show(&shell::line(command, &[(self.sfi.as_os_str(), "sfi")]));
    }

    /// Shows a command that reads a file.
    fn show_with_input(&self, command: &Command, input: &Path) {
        let line = shell::line(command, &[(self.sfi.as_os_str(), "sfi")]);
        show(&format!("{line} < {}", shell::quoted(&input.to_string_lossy())));
    }

    /// Shows a command and runs it. It must succeed.
    fn shown(&self, command: &mut Command) -> anyhow::Result<Output> {
        self.show(command);
        must(command)
    }

    /// Shows a command, runs it, and writes its output into a file of the mode's folder. Returns
    /// the file's path from the demo's folder.
    fn shown_into(&self, command: &mut Command, name: &str) -> anyhow::Result<String> {
        let path = self.own(name);
        show(&format!("{} > {}", shell::line(command, &[]), shell::quoted(&path)));
        std::fs::write(self.out.join(&path), must(command)?.stdout)?;
        Ok(path)
    }

    /// Rewrites a file into the mode's folder, and prints the verifier's verdict.
    fn rewrite(&self, input: &Path, output: &str) -> anyhow::Result<()> {
        let output = self.own(output);
        self.shown(self.sfi("rewrite").args(["--mode", self.mode, "-o", &output]).arg(input))?;
        let said = tell_verdict(&self.shown(self.sfi("verify").args(["--mode", self.mode, &output]))?);
        ensure!(said.starts_with("safe: "), "the verifier gave no verdict on {output}");
        Ok(())
    }
}

fn libz() -> anyhow::Result<&'static Path> {
    LIBZ.iter().map(Path::new).find(|p| p.exists()).context("libz.a is missing")
}

/// Compiles the app, the codec and the runtime, and links the native program.
fn compile(demo: &Demo) -> anyhow::Result<()> {
    headline("compile: with the distribution's gcc, as ever");
    demo.shown(demo.compiler().args(["app.c", "codec.c"].map(|name| demo.source(name))))?;
    let runtime = ["string", "malloc", "printf", "stdlib", "abort"];
    let sources = runtime.map(|name| demo.root.join(format!("fixtures/rt/{name}.c")));
    demo.shown(demo.compiler().args(["-ffreestanding", "-fno-builtin"]).args(sources))?;
    let _ = std::fs::remove_file(demo.out.join("rt.a"));
    demo.shown(demo.command("ar").args(["rcsD", "rt.a"]).args(runtime.map(|name| format!("{name}.o"))))?;
    println!("The same app, codec and libz.a without a sandbox, to compare times with:");
    let mut link = demo.command("gcc");
    link.arg("-O2").arg(demo.source("native.c")).args(["app.o", "codec.o"]).arg(libz()?).args(["-o", "native"]);
    demo.shown(&mut link)?;
    Ok(())
}

/// Rewrites and verifies everything in the demo's mode.
fn build(demo: &Demo) -> anyhow::Result<()> {
    let promise = match demo.mode {
        "write" => "stores and jumps stay inside",
        "full" => "loads stay inside, too",
        _ => "a store that leaves is trapped and named",
    };
    headline(&format!("mode {}: {promise}", demo.mode));
    let libz = libz()?;
    let start = Instant::now();
    demo.rewrite(libz, "libz.sfi.a")?;
    println!("{} bytes rewritten and verified in {:.0} ms", libz.metadata()?.len(), ms(start));
    for name in ["rt.a", "app.o", "codec.o"] {
        demo.rewrite(Path::new(name), &name.replace('.', ".sfi."))?;
    }
    println!("The manifest names the objects of a domain, and the calls that it may make:");
    let rule = format!("/^\\[domains\\.[a-z]*\\]/a mode = \"{}\"", demo.mode);
    let mut command = demo.command("sed");
    command.arg(rule).arg(demo.source("domains.toml"));
    let path = demo.shown_into(&mut command, MANIFEST)?;
    let text = std::fs::read_to_string(demo.out.join(path))?;
    let modes = text.lines().filter(|line| line.starts_with("mode = ")).count();
    ensure!(modes == 2, "the manifest names {modes} modes for two domains");
    Ok(())
}

/// Writes a manifest with another codec. Returns its path from the demo's folder.
fn manifest_with(demo: &Demo, codec: &str) -> anyhow::Result<String> {
    let mut command = demo.command("sed");
    command.arg(format!("s/codec.sfi.o/{codec}.o/")).arg(demo.own(MANIFEST));
    demo.shown_into(&mut command, &format!("{codec}.toml"))
}

/// Runs both sides in turn and compares the medians.
fn measure(demo: &Demo, rounds: usize) -> anyhow::Result<()> {
    let (mut native, mut domains) = (Vec::new(), Vec::new());
    let mut said = String::new();
    let mut run = demo.sfi("run");
    run.arg(demo.own(MANIFEST));
    let mut alone = demo.command("./native");
    println!("Natively and in domains, in turn:");
    demo.show_with_input(&alone, &demo.input);
    demo.show_with_input(&run, &demo.input);
    for _ in 0..rounds {
        native.push(times(&must(alone.stdin(File::open(&demo.input)?))?)?);
        let output = must(run.stdin(File::open(&demo.input)?))?;
        domains.push(times(&output)?);
        said = String::from_utf8(output.stdout)?;
    }
    for line in said.lines().filter(|l| !l.contains(" us,")) {
        println!("{line}");
    }
    ensure!(said.contains("the same again"), "the file did not come back");
    println!("median of {rounds} of each:");
    for (index, what) in ["deflate", "inflate"].into_iter().enumerate() {
        let (a, b) = (median(&native, index), median(&domains, index));
        println!("  {what}: native {:.1} ms, in domains {:.1} ms, ratio {:.3}", a / 1e3, b / 1e3, b / a);
    }
    Ok(())
}

/// Reads the two times in the line `app: deflate N us, inflate N us`.
fn times(output: &Output) -> anyhow::Result<[f64; 2]> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|l| l.contains(" us,")).context("no times in the output")?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    numbers.try_into().map_err(|_| anyhow::anyhow!("not two times: {line}"))
}

fn median(runs: &[[f64; 2]], index: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|r| r[index]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs with a codec that goes wrong in its fifth step. The app must get an error and report it,
/// and the host must end in order.
fn sabotage(demo: &Demo, what: &str, story: &str) -> anyhow::Result<()> {
    headline(&format!("sabotage: {story}"));
    let stem = what.to_lowercase().replace('_', "-");
    let object = format!("{stem}.o");
    demo.shown(demo.compiler().args(["-D", what]).arg(demo.source("codec.c")).args(["-o", &object]))?;
    demo.rewrite(Path::new(&object), &format!("{stem}.sfi.o"))?;
    println!("It is safe: the bug is there, and harmless.");
    let mut run = demo.sfi("run");
    run.arg(manifest_with(demo, &format!("{stem}.sfi"))?);
    demo.show_with_input(&run, &demo.input);
    let output = run.stdin(File::open(&demo.input)?).output()?;
    let said = tell(&output);
    ensure!(said.contains("I am still here"), "the app did not get an error");
    match output.status.code() {
        Some(4) => println!("The host is still here, too: sfi ends with 4, the app's own exit code."),
        _ => bail!("the host ended with {}", output.status),
    }
    Ok(())
}

/// Tries an object that was not rewritten. The verifier must name each escape that it tries, and
/// the loader must not run it.
fn refuse(demo: &Demo) -> anyhow::Result<()> {
    headline("an object that was never rewritten: the verifier refuses it, and the loader does not run it");
    let object = demo.own("hostile.o");
    demo.shown(demo.command("gcc").arg("-c").arg(demo.source("hostile.s")).args(["-o", &object]))?;
    let mut verify = demo.sfi("verify");
    verify.args(["--mode", demo.mode, &object]);
    demo.show(&verify);
    let output = verify.output()?;
    let said = tell_verdict(&output);
    ensure!(output.status.code() == Some(1), "the verifier ended with {}", output.status);
    for place in [".text+0x0,", ".text+0xb,", ".text+0xd,"] {
        ensure!(said.contains(place), "the verifier did not name {place}");
    }
    let mut run = demo.sfi("run");
    run.arg(manifest_with(demo, "hostile")?);
    demo.show_with_input(&run, &demo.input);
    let output = run.stdin(File::open(&demo.input)?).output()?;
    let said = tell(&output);
    ensure!(
        output.status.code() == Some(LOAD_ERROR) && said.contains("hostile.o"),
        "sfi run ended with {}",
        output.status
    );
    Ok(())
}

/// Prints a command's output, then its errors. Returns both without colours.
fn tell(output: &Output) -> String {
    print_in_order([&output.stdout, &output.stderr])
}

/// Prints the findings of `sfi verify`, then its verdict. Returns both without colours.
fn tell_verdict(output: &Output) -> String {
    print_in_order([&output.stderr, &output.stdout])
}

fn print_in_order(parts: [&Vec<u8>; 2]) -> String {
    let text = parts.map(|part| String::from_utf8_lossy(part)).concat();
    println!("{}", text.trim_end());
    anstream::adapter::strip_str(&text).to_string()
}

/// Runs a command that must succeed.
fn must(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
