//! Measures compositions of data pipes against separate passes and against loops by hand, in C,
//! natively and in a domain. Then it measures composing and installing. Prints medians: bytes for
//! each nanosecond, and microseconds.

use anyhow::{Context, ensure};
use sfi_benches::median;
use sfi_dilp::{Catalog, Features, Options, Sink, Transfer, builtin, object};
use sfi_loader::{DomainSpec, Library, LinkRoom, Manage, Mode, TypedFn, World};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The names of the tasks in C, and their pipes.
const TASKS: [(&str, &str); 5] = [
    ("sum", "copy | checksum"),
    ("sum_swap", "copy | checksum | swap32"),
    ("sum_mix_swap", "checksum | xor32 | swap32"),
    ("crc", "copy | crc32"),
    ("sum_cipher", "checksum | chacha20"),
];
/// Bytes of a message: a page, and about that of a segment of TCP.
const SIZES: [u64; 2] = [4096, 1408];
const ROUNDS: usize = 31;
/// Bytes of a measurement.
const BYTES: u64 = 1 << 18;
const REGISTERS: usize = 16;

type Run = unsafe extern "C" fn(u64, *mut c_void, *const c_void, u64, *mut u64);
type Call = TypedFn<fn(u64, u64, u64, u64, u64)>;

/// The instructions of a variant: those that the compiler and the composer may use.
struct Variant {
    name: &'static str,
    flags: &'static [&'static str],
    features: Features,
}

fn compile(folder: &Path, name: &str, flags: &[&str]) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/dilp.c");
    let out = folder.join(name);
    let mut gcc = Command::new("gcc");
    let status = gcc.args(["-O2", "-fPIC"]).args(flags).arg(source).arg("-o").arg(&out).status();
    ensure!(status.context("cannot run gcc")?.success(), "gcc failed");
    Ok(out)
}

/// The passes and loops by hand, in this process.
struct Native {
    library: *mut c_void,
    source: Vec<u8>,
    sink: Vec<u8>,
    registers: [u64; REGISTERS],
}

impl Native {
    fn new(path: &Path, source: &[u8]) -> anyhow::Result<Native> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: a library of this benchmark, without initialisers.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        ensure!(!library.is_null(), "dlopen failed");
        let native = Native { library, source: source.to_vec(), sink: vec![0; source.len()], registers: registers() };
        // SAFETY: `void prepare(void)` writes its own tables only.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(native.symbol("prepare")?)() };
        Ok(native)
    }

    fn symbol(&self, name: &str) -> anyhow::Result<*mut c_void> {
        let name = CString::new(name)?;
        // SAFETY: the library is open as long as the process lives.
        let symbol = unsafe { libc::dlsym(self.library, name.as_ptr()) };
        ensure!(!symbol.is_null(), "no {name:?}");
        Ok(symbol)
    }

    fn run(&mut self, name: &str, times: u64, size: u64) -> anyhow::Result<f64> {
        ensure!(size <= self.source.len() as u64);
        // SAFETY: all functions `run_*` of the library have this type.
        let run: Run = unsafe { std::mem::transmute(self.symbol(name)?) };
        let (sink, source) = (self.sink.as_mut_ptr().cast(), self.source.as_ptr().cast());
        let start = Instant::now();
        // SAFETY: source and sink have `size` bytes, and the registers are more than any task's.
        unsafe { run(times, sink, source, size, self.registers.as_mut_ptr()) };
        Ok(start.elapsed().as_secs_f64())
    }
}

fn registers() -> [u64; REGISTERS] {
    std::array::from_fn(|n| (0x0123_4567 * (n as u64 + 1)) & 0xffff)
}

/// The same, and the compositions, in a domain.
struct Domain {
    world: World,
    heap: u64,
}

impl Domain {
    fn new(stock: &[u8], mode: Mode, features: Features, source: &[u8]) -> anyhow::Result<Domain> {
        let output = sfi_rewriter::rewrite(stock, &sfi_rewriter::Options { mode, ..Default::default() });
        let driver = output.map_err(|refusals| anyhow::anyhow!("{refusals:?}"))?.bytes;
        let mut catalog = Catalog::new(Options { mode, features, sink: Sink::Store, budget: false });
        for (_, line) in TASKS {
            catalog.add(&builtin::chain(line)?)?;
        }
        let spec = DomainSpec::new("d").mode(mode).memory(1 << 20);
        let spec = spec.object("driver.o", driver).object("dilp.o", catalog.object()?);
        let mut world = World::builder().domain(spec).build()?;
        let prepare: TypedFn<fn()> = world.domain("d")?.export("prepare")?;
        prepare.call(&mut world, ())?;
        let mut memory = world.memory("d")?;
        let heap = memory.heap().start;
        memory.write(heap, source)?;
        Ok(Domain { world, heap })
    }

    fn reset(&mut self) -> anyhow::Result<()> {
        let words: Vec<u8> = registers().iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.world.memory("d")?.write(self.heap + (1 << 17), &words)?)
    }

    fn run(&mut self, name: &str, times: u64, size: u64) -> anyhow::Result<f64> {
        let call: Call = self.world.domain("d")?.export(name)?;
        let start = Instant::now();
        call.call(&mut self.world, (times, self.heap + (1 << 16), self.heap, size, self.heap + (1 << 17)))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Returns what a run leaves: the destination and the registers.
    fn result(&mut self, size: u64) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
        let memory = self.world.memory("d")?;
        let sink = memory.read(self.heap + (1 << 16), size as usize)?;
        Ok((sink, memory.read(self.heap + (1 << 17), 8 * REGISTERS)?))
    }
}

/// Checks that all ways give the same bytes and registers.
fn agree(native: &mut Native, domain: &mut Domain, number: usize, task: &str, size: u64) -> anyhow::Result<()> {
    native.registers = registers();
    native.run(&format!("run_separate_{task}"), 1, size)?;
    let registers: Vec<u8> = native.registers.iter().flat_map(|word| word.to_le_bytes()).collect();
    for name in [format!("separate_{task}"), format!("fused_{task}"), format!("dilp_{number}")] {
        domain.reset()?;
        domain.run(&format!("run_{name}"), 1, size)?;
        let (sink, kept) = domain.result(size)?;
        ensure!(sink == native.sink[..size as usize] && kept == registers, "{name} differs");
    }
    Ok(())
}

fn throughput(variant: &Variant, folder: &Path) -> anyhow::Result<()> {
    let source: Vec<u8> = (0..SIZES[0] as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let library = compile(folder, variant.name, &[variant.flags, &["-shared"]].concat())?;
    let stock = compile(folder, "driver.o", &[variant.flags, &["-c", "-DDOMAIN"]].concat())?;
    let stock = std::fs::read(stock)?;
    let mut native = Native::new(&library, &source)?;
    let mut domains = Vec::new();
    for mode in [Mode::Write, Mode::Full] {
        domains.push(Domain::new(&stock, mode, variant.features, &source)?);
    }
    println!("\n{}: bytes/ns          native          mode write                 mode full", variant.name);
    println!(
        "{:<28}{:>6}   separate  C   | separate  C     DILP   | separate  C     DILP   | DILP/native C  DILP/C  DILP/separate (write)",
        "task", "size"
    );
    for (number, (task, line)) in TASKS.into_iter().enumerate() {
        for size in SIZES {
            domains.iter_mut().try_for_each(|domain| agree(&mut native, domain, number, task, size))?;
            let names = [format!("run_separate_{task}"), format!("run_fused_{task}"), format!("run_dilp_{number}")];
            let times = BYTES / size;
            let mut samples = vec![Vec::new(); 8];
            // The first round warms up and does not count.
            for round in 0..=ROUNDS {
                let mut all = Vec::new();
                for name in &names[..2] {
                    all.push(native.run(name, times, size)?);
                }
                for domain in &mut domains {
                    for name in &names {
                        all.push(domain.run(name, times, size)?);
                    }
                }
                let samples = samples.iter_mut().zip(all).filter(|_| round > 0);
                samples.for_each(|(samples, time)| samples.push(time));
            }
            let rates: Vec<f64> = samples.iter_mut().map(|s| (times * size) as f64 / median(s) / 1e9).collect();
            let [a, b, c, d, e, f, g, h] = rates[..] else { unreachable!("eight columns") };
            let ratios = [e / b, e / d, e / c].map(|ratio| format!("{ratio:>8.2}")).concat();
            println!(
                "{line:<28}{size:>6} {a:>8.2} {b:>8.2} {c:>8.2} {d:>8.2} {e:>8.2} {f:>8.2} {g:>8.2} {h:>8.2}  {ratios}"
            );
        }
    }
    Ok(())
}

/// Measures the parts of an installation.
fn installing(line: &str, mode: Mode, features: Features) -> anyhow::Result<()> {
    let pipes = builtin::chain(line)?;
    let options = Options { mode, features, sink: Sink::Store, budget: false };
    let mut world = World::builder()
        .domain(DomainSpec::new("d").mode(mode).object("d.o", object(mode, [])?).link_room(LinkRoom::default()))
        .build()?;
    let mut verifier = sfi_verifier::Verifier::new(&sfi_verifier::Options { mode, ..Default::default() });
    let mut samples = vec![Vec::new(); 5];
    for round in 0..2000_u32 {
        let mut all = [0.0; 5];
        let start = Instant::now();
        let transfer = Transfer::compose("transfer", &pipes, &options)?;
        all[0] = start.elapsed().as_secs_f64();
        let bytes = object(mode, [&transfer])?;
        all[1] = start.elapsed().as_secs_f64() - all[0];
        let installing = Instant::now();
        let linked = world.link("d", &Library::new("transfer").object("transfer.o", bytes.clone()))?;
        all[2] = installing.elapsed().as_secs_f64();
        all[3] = start.elapsed().as_secs_f64();
        let checking = Instant::now();
        ensure!(verifier.verify(&bytes)?.violations.is_empty());
        all[4] = checking.elapsed().as_secs_f64();
        world.unlink(linked)?;
        let samples = samples.iter_mut().zip(all).filter(|_| round > 0);
        samples.for_each(|(samples, time)| samples.push(time * 1e6));
    }
    let size = Transfer::compose("transfer", &pipes, &options)?.code().len();
    let medians: Vec<String> = samples.iter_mut().map(|samples| format!("{:>9.1}", median(samples))).collect();
    println!("{line:<28}{mode:<6} avx2 {:<6}{size:>6}{}", features.avx2, medians.concat());
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("sfi-dilp-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let plain = Features { avx2: false, ..Features::detect() };
    let mut variants = vec![Variant { name: "64 bits", flags: &[], features: plain }];
    if Features::detect().avx2 {
        variants.push(Variant { name: "AVX2", flags: &["-mavx2", "-DVECTOR"], features: Features::detect() });
    }
    let result = variants.iter().try_for_each(|variant| throughput(variant, &folder));
    std::fs::remove_dir_all(&folder)?;
    result?;
    println!("\n{:<50}bytes  compose   object     link  all three  (verify alone, warm), microseconds", "installing");
    for line in ["checksum", "copy | checksum | swap32", "checksum | xor32 | swap32", "checksum | crc32 | chacha20"] {
        for mode in [Mode::Write, Mode::Full] {
            for variant in &variants {
                installing(line, mode, variant.features)?;
            }
        }
    }
    Ok(())
}
