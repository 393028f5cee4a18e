//! The start of a program: its arguments and environment in the domain's memory, in the layout of a
//! new process's stack (psABI 3.4.1).

use crate::errno::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Bytes at the end of the heap that hold the arguments.
pub const ARGUMENT_BYTES: u64 = 256 << 10;

/// Keys of the auxiliary vector.
const AT_NULL: u64 = 0;
const AT_PAGESZ: u64 = 6;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;

/// A program's arguments and environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// argv, with the program's name first.
    pub arguments: Vec<OsString>,
    /// `NAME=value`.
    pub environment: Vec<OsString>,
}

/// Returns the bytes of a program's arguments at an address of a domain, or `None` if they do not
/// fit.
///
/// They are the vector argv, a null, the environment, a null, the auxiliary vector and then the
/// strings. `random` is the program's AT_RANDOM.
pub fn arguments(program: &Program, address: u64, random: [u8; 16]) -> Option<Vec<u8>> {
    let vectors = 8 * (program.arguments.len() + program.environment.len() + 2) + 16 * 4;
    let mut words = Vec::with_capacity(vectors);
    let mut strings = random.to_vec();
    let first = address + vectors as u64;
    for list in [&program.arguments, &program.environment] {
        for text in list {
            words.extend((first + strings.len() as u64).to_le_bytes());
            strings.extend(text.as_bytes().iter().filter(|b| **b != 0));
            strings.push(0);
        }
        words.extend([0; 8]);
    }
    for (key, value) in [(AT_PAGESZ, 4096), (AT_SECURE, 0), (AT_RANDOM, first), (AT_NULL, 0)] {
        words.extend(u64::to_le_bytes(key));
        words.extend(u64::to_le_bytes(value));
    }
    words.extend(strings);
    (words.len() as u64 <= ARGUMENT_BYTES).then_some(words)
}

/// Returns random bytes for a program's AT_RANDOM.
///
/// # Errors
/// The kernel gives none.
pub fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// `arch_prctl(ARCH_SET_FS)`: succeeds only for the address that the domain's thread pointer
/// already has, because the pointer never moves.
///
/// The answer is 1, which the kernel never gives. From it musl (`__init_tp`) concludes that there
/// are no threads, so `pthread_create` fails with `ENOSYS` before it prepares one.
pub(crate) fn set_thread_pointer(own: u64, code: u64, address: u64) -> Result<u64, Errno> {
    const ARCH_SET_FS: u64 = 0x1002;
    if code == ARCH_SET_FS && address == own { Ok(1) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn arguments_look_like_a_new_process_stack() {
        let program = Program {
            arguments: vec!["prog".into(), OsStr::from_bytes(b"\xff").into()],
            environment: vec!["A=b".into()],
        };
        let bytes = arguments(&program, 0x1000, [7; 16]).expect("fits");
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("8 bytes"));
        let text = |i: usize| {
            let start = (word(i) - 0x1000) as usize;
            let end = start + bytes[start..].iter().position(|b| *b == 0).expect("zero");
            &bytes[start..end]
        };
        assert_eq!((text(0), text(1), word(2)), (&b"prog"[..], &b"\xff"[..], 0));
        assert_eq!((text(3), word(4)), (&b"A=b"[..], 0));
        assert_eq!((word(5), word(6)), (AT_PAGESZ, 4096));
        assert_eq!(word(11), AT_NULL);
        let huge = Program { arguments: vec!["a".repeat(300 << 10).into()], environment: Vec::new() };
        assert_eq!(arguments(&huge, 0, [0; 16]), None);
    }
}
