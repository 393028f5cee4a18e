//! Files for perf: a map of symbols (tools/perf/Documentation/jit-interface.txt), and a jitdump
//! (jitdump-specification.txt), from which `perf inject --jit` makes ELF files.
//!
//! perf reads the map for addresses that no file explains. Text of domains is mapped from memory
//! files, so that most versions need the jitdump.

use crate::Function;
use crate::dwarf::Sections;
use crate::lines::{self, Line};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::getpid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use sfi_loader::RaisedText;
use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::{env, ptr};

/// perf's files of this process.
pub(crate) struct Perf {
    map: Output,
    dump: Output,
    /// A page of the dump that is mapped executable. perf finds the dump by this mapping.
    marker: *mut c_void,
    /// Number of functions in the dump.
    count: u64,
}

// SAFETY: the marker is never read or written.
unsafe impl Send for Perf {}

struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Makes a new file that only this user can read. What stands there is another's, or that of an
    /// earlier process with this number.
    fn create(path: PathBuf) -> io::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }
}

/// `"JiTD"`
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER: u32 = 40;
/// `EM_X86_64`
const MACHINE: u32 = 62;
/// `JIT_CODE_LOAD`
const CODE_LOAD: u32 = 0;
/// `JIT_CODE_DEBUG_INFO`
const DEBUG_INFO: u32 = 2;
/// Bytes of a record before its contents: kind, size, time.
const RECORD: usize = 16;
const PAGE: usize = 4096;

impl Perf {
    /// Makes the files: the map in `/tmp`, where perf looks for it, and the dump in `JITDUMPDIR` or
    /// the working directory.
    pub(crate) fn create() -> io::Result<Self> {
        let process = getpid().as_raw_nonzero();
        let directory = env::var_os("JITDUMPDIR").map_or_else(env::current_dir, |path| Ok(PathBuf::from(path)))?;
        // First the file whose place is the user's choice, so that a wrong one leaves nothing.
        let mut dump = Output::create(directory.join(format!("jit-{process}.dump")))?;
        let map = Output::create(PathBuf::from(format!("/tmp/perf-{process}.map")))?;
        let mut header = Vec::new();
        for word in [MAGIC, VERSION, HEADER, MACHINE, 0, process.get() as u32] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&now().to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        dump.file.write_all(&header)?;
        // SAFETY: the kernel chooses a free place.
        let marker = unsafe {
            mmap(ptr::null_mut(), PAGE, ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE, &dump.file, 0)?
        };
        Ok(Self { map, dump, marker, count: 0 })
    }

    /// Returns the paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> + use<'_> {
        [&self.map, &self.dump].into_iter().map(|output| output.path.clone())
    }

    /// Writes the functions of a domain.
    pub(crate) fn tell(&mut self, text: &RaisedText<'_>, functions: &[Function], debug: &Sections) -> io::Result<()> {
        let named = |function: &Function| format!("{} [{}]", clean(&function.name), clean(text.domain()));
        let mut lines = String::new();
        for function in functions {
            lines.push_str(&format!("{:x} {:x} {}\n", function.address, function.size, named(function)));
        }
        self.map.file.write_all(lines.as_bytes())?;
        let lines = lines::lines(debug);
        let mut records = Vec::new();
        for function in functions {
            let Some(code) = text.code(function.address, function.size) else { continue };
            let end = function.address + function.size;
            let first = lines.partition_point(|line| line.address < function.address);
            let own = &lines[first..][..lines[first..].partition_point(|line| line.address < end)];
            if !own.is_empty() {
                record(&mut records, DEBUG_INFO, &debug_info(function.address, own));
            }
            record(&mut records, CODE_LOAD, &self.code_load(function, &named(function), &code));
        }
        self.dump.file.write_all(&records)
    }

    /// Returns the contents of a record of a function's code.
    fn code_load(&mut self, function: &Function, name: &str, code: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [getpid(), gettid()] {
            bytes.extend_from_slice(&(word.as_raw_nonzero().get() as u32).to_le_bytes());
        }
        for word in [function.address, function.address, code.len() as u64, self.count] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        string(&mut bytes, name);
        bytes.extend_from_slice(code);
        bytes
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // SAFETY: the page was mapped in `create`, and nobody uses it.
        let _ = unsafe { munmap(self.marker, PAGE) };
    }
}

/// Appends a record.
fn record(records: &mut Vec<u8>, kind: u32, contents: &[u8]) {
    for word in [kind, (RECORD + contents.len()) as u32] {
        records.extend_from_slice(&word.to_le_bytes());
    }
    records.extend_from_slice(&now().to_le_bytes());
    records.extend_from_slice(contents);
}

/// Returns the contents of a record of the lines of a function, which precedes that of its code.
fn debug_info(address: u64, lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [address, lines.len() as u64] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for line in lines {
        bytes.extend_from_slice(&line.address.to_le_bytes());
        // The line, and no discriminator.
        for word in [line.line, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        string(&mut bytes, &line.file);
    }
    bytes
}

/// Appends a string with its end. A zero byte in it would be another end.
fn string(bytes: &mut Vec<u8>, string: &str) {
    bytes.extend(string.bytes().filter(|byte| *byte != 0));
    bytes.push(0);
}

/// Returns a name in one line.
fn clean(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Nanoseconds of the clock that `perf record --clockid mono` uses.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
