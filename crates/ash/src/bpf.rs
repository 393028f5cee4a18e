//! eBPF by the system call itself: maps, programs of a few instructions, and their attachment to an
//! interface. Everything is gone when its descriptor is closed.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
/// The kind of program, and the place of its attachment.
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Bytes of the verifier's log.
const LOG: usize = 16 << 10;

/// A kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by index.
    Array = 2,
    /// Sockets of AF_XDP by queue.
    Sockets = 17,
}

/// The mode of an attached program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Attach {
    /// By the kernel's network stack, for any device.
    Generic = 1 << 1,
    /// By the driver.
    Native = 1 << 2,
}

/// The attributes of a command: words of 32 bits, zero after the last one.
type Attributes = [u32; 32];

/// Calls bpf(2).
///
/// # Safety
/// Addresses in the attributes lead to memory of the sizes that the command expects, which lives
/// during the call and to which no other reference exists if the command writes to it.
unsafe fn bpf(command: libc::c_int, attributes: &mut Attributes) -> io::Result<libc::c_int> {
    let size = size_of::<Attributes>();
    // SAFETY: the attributes live during the call. Otherwise see the function's contract.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

fn pointer<T>(at: *const T) -> [u32; 2] {
    let at = at as u64;
    [at as u32, (at >> 32) as u32]
}

/// A map whose keys are words of 32 bits.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    value: usize,
}

impl Map {
    /// Makes a map of `entries` values of `value` bytes.
    ///
    /// # Errors
    /// The operating system's. Without CAP_BPF: not permitted.
    pub fn new(kind: MapKind, value: usize, entries: u32) -> io::Result<Self> {
        let mut attributes = [0; 32];
        attributes[..4].copy_from_slice(&[kind as u32, 4, value as u32, entries]);
        // SAFETY: no addresses.
        let fd = unsafe { bpf(MAP_CREATE, &mut attributes) }?;
        // SAFETY: the descriptor is new and belongs to nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, value })
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The operating system's.
    ///
    /// # Panics
    /// If the value has another size than those of the map.
    pub fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value, "the size of the map's values");
        let mut attributes = self.attributes(&key, value.as_ptr());
        // SAFETY: key and value have the sizes of the map, and are only read.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// Returns a value.
    ///
    /// # Errors
    /// The operating system's.
    pub fn get(&self, key: u32) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value];
        let mut attributes = self.attributes(&key, value.as_mut_ptr());
        // SAFETY: key and value have the sizes of the map.
        unsafe { bpf(MAP_LOOKUP, &mut attributes) }?;
        Ok(value)
    }

    fn attributes(&self, key: &u32, value: *const u8) -> Attributes {
        let mut attributes = [0; 32];
        attributes[0] = self.fd.as_raw_fd() as u32;
        attributes[2..4].copy_from_slice(&pointer(key));
        attributes[4..6].copy_from_slice(&pointer(value));
        attributes
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An instruction, or half of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn(pub u64);

impl Insn {
    /// Encodes an instruction.
    pub const fn new(code: u8, to: u8, from: u8, offset: i16, number: i32) -> Self {
        let registers = (from << 4 | to) as u64;
        Self(code as u64 | registers << 8 | (offset as u16 as u64) << 16 | (number as u32 as u64) << 32)
    }

    /// Encodes the load of a map's address.
    pub fn map(to: u8, map: &Map) -> [Self; 2] {
        [Self::new(0x18, to, 1, 0, map.fd.as_raw_fd()), Self::new(0, 0, 0, 0, 0)]
    }
}

/// A program that sees each frame of an interface first.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program, which the kernel verifies.
    ///
    /// # Errors
    /// The operating system's. If the verifier refuses the program, with its log.
    pub fn load(instructions: &[Insn]) -> io::Result<Self> {
        let license = c"Dual MIT/GPL";
        let mut log = vec![0_u8; LOG];
        let mut attributes = [0; 32];
        attributes[..2].copy_from_slice(&[PROG_TYPE_XDP, instructions.len() as u32]);
        attributes[2..4].copy_from_slice(&pointer(instructions.as_ptr()));
        attributes[4..6].copy_from_slice(&pointer(license.as_ptr()));
        attributes[6..8].copy_from_slice(&[1, LOG as u32]);
        attributes[8..10].copy_from_slice(&pointer(log.as_mut_ptr()));
        // SAFETY: the instructions, the license and the log live during the call, with the sizes
        // that are passed.
        match unsafe { bpf(PROG_LOAD, &mut attributes) } {
            // SAFETY: the descriptor is new and belongs to nobody else.
            Ok(fd) => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            Err(error) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG);
                let text = String::from_utf8_lossy(&log[..end]);
                Err(io::Error::new(error.kind(), format!("{error}: {}", text.trim())))
            }
        }
    }

    /// Attaches it to an interface until the result is dropped.
    ///
    /// # Errors
    /// The operating system's.
    pub fn attach(&self, interface: &str, mode: Attach) -> io::Result<Attached> {
        let index = crate::sys::interface(interface)?;
        let mut attributes = [0; 32];
        attributes[..4].copy_from_slice(&[self.0.as_raw_fd() as u32, index, ATTACH_XDP, mode as u32]);
        // SAFETY: no addresses.
        let fd = unsafe { bpf(LINK_CREATE, &mut attributes) }?;
        // SAFETY: the descriptor is new and belongs to nobody else.
        Ok(Attached { _link: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// A program at an interface.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

/// Lets all frames go on to the kernel.
pub fn pass() -> [Insn; 2] {
    [Insn::new(0xb7, 0, 0, 0, 2), Insn::new(0x95, 0, 0, 0, 0)]
}

/// Hands the frames of each queue to its socket in a map, and others to the kernel.
pub fn redirect(sockets: &Map) -> Vec<Insn> {
    let [first, second] = Insn::map(1, sockets);
    vec![
        // r2 = the queue's number.
        Insn::new(0x61, 2, 1, 16, 0),
        first,
        second,
        // r3 = XDP_PASS, if there is no socket.
        Insn::new(0xb7, 3, 0, 0, 2),
        // bpf_redirect_map(r1, r2, r3)
        Insn::new(0x85, 0, 0, 0, 51),
        Insn::new(0x95, 0, 0, 0, 0),
    ]
}
