//! LLVM's disassembler, through a small program in C++ that is compiled here against Debian's LLVM.
//!
//! Its tables name the registers that an instruction writes as operands or implicitly. About memory
//! they only say that an instruction may load or store.

use crate::reading::{Flow, Operand, Part, Reading, Segment, Unread, control};
use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;
use std::process::Command;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Name {
    kind: u8,
    number: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Memory {
    base: Name,
    index: Name,
    scale: u8,
    segment: u8,
    displacement: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Answer {
    length: u8,
    flow: u8,
    memories: u8,
    loads: u8,
    stores: u8,
    masks: u8,
    general: u16,
    control: u16,
    vectors: u32,
    distance: i64,
    memory: [Memory; 2],
}

type Make = unsafe extern "C" fn() -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Read = unsafe extern "C" fn(*mut c_void, *const u8, u64, *mut Answer) -> c_int;

/// The loaded program.
#[derive(Clone, Copy)]
pub struct Llvm {
    make: Make,
    free: Free,
    read: Read,
}

/// A decoder of one thread.
pub struct Decoder {
    llvm: Llvm,
    own: *mut c_void,
}

impl Llvm {
    /// Compiles and loads the program.
    pub fn new() -> Llvm {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heads-llvm.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heads/llvm.cpp");
        let ask = |option: &str| {
            let output = Command::new("llvm-config").args(option.split(' ')).output();
            let output = output.expect("llvm-config is needed for this test: Debian's package llvm-dev");
            assert!(output.status.success(), "llvm-config {option}: {}", output.status);
            let text = String::from_utf8(output.stdout).expect("text");
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut compile = Command::new("g++");
        compile.args(["-std=c++17", "-O2", "-shared", "-fPIC", "-fno-rtti", "-w", "-o"]).arg(&library).arg(source);
        compile.args(ask("--includedir").iter().map(|path| format!("-I{path}")));
        let output = compile.args(ask("--ldflags --libs --link-shared")).output().expect("g++ is needed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "needs Debian's packages g++ and llvm-dev:\n{errors}");
        let path = CString::new(library.into_os_string().into_encoded_bytes()).expect("no zero byte");
        // SAFETY: a library that was made from our own source. LLVM's initialisers have no
        // conditions.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path:?} cannot be loaded");
        // SAFETY: the handle is valid, the names end with zero.
        let find = |name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
        let symbols = [c"sfi_llvm_new", c"sfi_llvm_free", c"sfi_llvm_read"].map(find);
        assert!(symbols.iter().all(|symbol| !symbol.is_null()));
        // SAFETY: the three functions have these types in llvm.cpp.
        unsafe {
            Llvm {
                make: std::mem::transmute::<*mut c_void, Make>(symbols[0]),
                free: std::mem::transmute::<*mut c_void, Free>(symbols[1]),
                read: std::mem::transmute::<*mut c_void, Read>(symbols[2]),
            }
        }
    }

    /// Makes a decoder for the calling thread.
    pub fn decoder(&self) -> Decoder {
        // SAFETY: LLVM's tables are made once, under C++'s lock for such values.
        let own = unsafe { (self.make)() };
        assert!(!own.is_null(), "LLVM has no target x86");
        Decoder { llvm: *self, own }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: made by `make`, freed once.
        unsafe { (self.llvm.free)(self.own) }
    }
}

impl Decoder {
    /// Returns the reading of the first instruction in the bytes.
    pub fn read(&self, bytes: &[u8]) -> Result<Reading, Unread> {
        let mut answer = Answer::default();
        // SAFETY: the decoder is this thread's, the bytes and the answer outlive the call.
        let read = unsafe { (self.llvm.read)(self.own, bytes.as_ptr(), bytes.len() as u64, &mut answer) };
        if read == 0 {
            return Err(Unread::Unknown);
        }
        let flow = Flow::ALL.get(usize::from(answer.flow)).copied().unwrap_or(Flow::Other);
        let mut reading = Reading { length: answer.length, flow, ..Reading::default() };
        if matches!(flow, Flow::Conditional | Flow::Jump | Flow::Call) {
            reading.distance = Some(answer.distance);
        }
        if answer.memories > 2 {
            return Err(Unread::ThirdOperand);
        }
        for n in 0..answer.memories {
            let memory = &answer.memory[usize::from(n)];
            let has = |set: u8| set >> n & 1 != 0;
            reading.add(Operand { reads: has(answer.loads), writes: has(answer.stores), ..operand(memory) })?;
        }
        (reading.general, reading.vectors, reading.masks) = (answer.general, answer.vectors, answer.masks);
        reading.partial = true;
        reading.control = answer.control;
        reading.spoken = control::STACK | control::SEGMENT | control::SYSTEM | control::MXCSR | control::TILE;
        Ok(reading)
    }
}

fn operand(memory: &Memory) -> Operand {
    let parts = [memory.base, memory.index].map(part);
    let narrow = parts.iter().flatten().find_map(|part| match part {
        Part::Wide(_) => Some(false),
        Part::Narrow(_) => Some(true),
        _ => None,
    });
    Operand {
        base: parts[0],
        index: parts[1],
        scale: memory.scale,
        displacement: memory.displacement,
        segment: [Segment::Flat, Segment::Fs, Segment::Gs][usize::from(memory.segment.min(2))],
        narrow,
        reads: false,
        writes: false,
        size: None,
    }
}

/// Translates the kinds of llvm.cpp.
fn part(name: Name) -> Option<Part> {
    match name.kind {
        0 => None,
        1 => Some(Part::Wide(name.number)),
        11 => Some(Part::Narrow(name.number)),
        3 => Some(Part::Vector(name.number)),
        5 => Some(Part::Ip),
        _ => Some(Part::Odd),
    }
}
