//! A tenant that makes system calls which its host describes, and loads and stores. Needs gcc.
#![allow(dead_code)]

use sfi_arbitration::{Arbiter, GATEWAY, Policy, Stdio};
use sfi_loader::{
    Access, CallError, DomainSpec, FaultKind, HostCall, HostError, Import, Manage, Memory, TypedFn, World,
};
use std::path::Path;
use std::process::Command;

/// `ask(request)` makes the system call that a record in memory describes: its number and six
/// arguments. `peek(address)` loads a word, and `poke(address, word)` stores one.
const TENANT: &str = ".text
.globl ask
.type ask,@function
ask:
    call __sfi_arbitrate@PLT
    ret
.globl peek
.type peek,@function
peek:
    movl %gs:(%edi), %eax
    ret
.globl poke
.type poke,@function
poke:
    movl %esi, %gs:(%edi)
    ret
.section .note.GNU-stack,\"\",@progbits
";

/// Assembles the tenant, with files in a folder.
pub fn tenant(directory: &Path) -> Vec<u8> {
    let (source, object) = (directory.join("in.s"), directory.join("out.o"));
    std::fs::write(&source, TENANT).unwrap();
    assert!(Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status().unwrap().success());
    std::fs::read(object).unwrap()
}

/// Bytes of the region in which requests and their buffers lie.
pub const REGION: usize = 8 << 20;
/// Offset of a path in the region.
pub const PATH: u64 = 0x100;
/// Offset of a buffer in the region. It reaches to the region's end.
pub const BUFFER: u64 = 0x2000;

/// A world with a tenant, whose memory for requests the host can write.
pub struct Bench {
    world: World,
    /// Address of the region in the domain's window.
    region: u64,
}

impl Bench {
    pub fn new(policy: Policy, stdio: Stdio) -> Self {
        Self::with_memory(policy, stdio, 16 << 20)
    }

    /// Makes a tenant with a heap of so many bytes.
    pub fn with_memory(policy: Policy, stdio: Stdio, memory: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut arbiter = Arbiter::new(policy, stdio);
        let mut world = World::builder()
            .region("exchange", REGION as u64)
            .domain(
                DomainSpec::new("tenant")
                    .object("tenant.o", tenant(directory.path()))
                    .memory(memory)
                    .shared("exchange", "exchange", Access::ReadWrite)
                    .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int")),
            )
            .host_fn(GATEWAY, move |cx: &mut HostCall<'_>| -> Result<u64, HostError> { arbiter.host_call(cx) })
            .build()
            .unwrap();
        let common = world.region_in("tenant", "exchange").unwrap().0;
        let region = world.domain("tenant").unwrap().secret_base() | common & 0xffff_ffff;
        Bench { world, region }
    }

    /// Returns the domain's address of an offset in the region.
    pub fn at(&self, offset: u64) -> u64 {
        self.region + offset
    }

    /// Writes bytes into the region.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.world.region("exchange").unwrap().write(offset as usize, bytes).unwrap();
    }

    /// Returns bytes of the region.
    pub fn get(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.world.region("exchange").unwrap().read(offset as usize, &mut bytes).unwrap();
        bytes
    }

    /// Returns the tenant's memory, its heap included.
    pub fn memory(&mut self) -> Memory<'_> {
        self.world.memory("tenant").unwrap()
    }

    /// Makes a system call.
    pub fn ask(&mut self, number: i64, arguments: &[u64]) -> i64 {
        let mut words = [0; 7];
        words[0] = number as u64;
        words[1..=arguments.len()].copy_from_slice(arguments);
        self.put(0, &words.map(u64::to_le_bytes).concat());
        let ask: TypedFn<fn(u64) -> i64> = self.world.domain("tenant").unwrap().export("ask").unwrap();
        ask.call(&mut self.world, (self.region,)).unwrap()
    }

    /// Lets the tenant load a word. `None`: it faulted.
    pub fn peek(&mut self, at: u64) -> Option<u32> {
        let peek: TypedFn<fn(u64) -> u64> = self.world.domain("tenant").unwrap().export("peek").unwrap();
        peek.call(&mut self.world, (at,)).ok().map(|word| word as u32)
    }

    /// Lets the tenant store a word. Returns the kind of its fault if it faulted.
    pub fn poke(&mut self, at: u64, word: u32) -> Result<(), FaultKind> {
        let poke: TypedFn<fn(u64, u64)> = self.world.domain("tenant").unwrap().export("poke").unwrap();
        match poke.call(&mut self.world, (at, word.into())) {
            Ok(()) => Ok(()),
            Err(CallError::Fault(fault)) => Err(fault.kind),
            Err(other) => panic!("{other}"),
        }
    }

    /// Opens all pages of the tenant for good, and lets it store a word.
    pub fn poke_open(&mut self, at: u64, word: u32) -> Result<(), FaultKind> {
        self.world.domain("tenant").unwrap().keep_open().unwrap();
        self.poke(at, word)
    }

    /// Starts the tenant anew.
    pub fn restart(&mut self) {
        self.world.restart("tenant").unwrap();
    }

    /// Makes a system call about a path.
    pub fn ask_path(&mut self, number: i64, path: &str, arguments: &[u64]) -> i64 {
        self.put(PATH, &[path.as_bytes(), &[0]].concat());
        let arguments = [&[self.at(PATH)], arguments].concat();
        self.ask(number, &arguments)
    }
}
