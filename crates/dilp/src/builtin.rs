//! The ready pipes.

use crate::error::PipeError;
use crate::pipe::{Action, Body, Operand, Pipe, Tail, Target, Width};

/// The names of the ready pipes, for [`named`].
pub const NAMES: [&str; 10] =
    ["copy", "checksum", "swap16", "swap32", "swap64", "crc32", "crc32c", "xor32", "xor64", "chacha20"];

/// Returns a copy.
pub fn copy() -> Pipe {
    Pipe::new("copy", Width::W8)
}

/// Returns the Internet checksum (RFC 1071). Its register `sum` is the sum in ones' complement of
/// the words as this machine reads them. It starts with 0 or the sum of earlier data. The
/// complement of its two bytes in memory order is the checksum.
pub fn checksum() -> Pipe {
    Pipe::new("checksum", Width::W16).commutative().keep("sum", Width::W16).step(
        Target::Keep(0),
        Action::Ones,
        Width::W16,
        Operand::Keep(0),
        Operand::In,
    )
}

/// Returns the byte swap of words of this width. Last bytes that fill no word pass unchanged.
pub fn swap(width: Width) -> Pipe {
    let pipe = Pipe::new(format!("swap{width}"), width).commutative().tail(Tail::Pass);
    pipe.step(Target::Out, Action::Swap, width, Operand::In, Operand::Number(0))
}

/// Returns the CRC-32 of IEEE 802.3. Its register `crc` starts with `0xffffffff` or the value after
/// earlier data. Inverted, it is the CRC.
pub fn crc32() -> Pipe {
    crc("crc32", Action::Crc32)
}

/// Returns the CRC-32C of RFC 3720, with a register like that of [`crc32`].
pub fn crc32c() -> Pipe {
    crc("crc32c", Action::Crc32c)
}

fn crc(name: &str, action: Action) -> Pipe {
    let pipe = Pipe::new(name, Width::W8).keep("crc", Width::W32);
    pipe.step(Target::Keep(0), action, Width::W8, Operand::Keep(0), Operand::In)
}

/// Returns a pipe that combines each word of this width with the register `key`.
pub fn xor(width: Width) -> Pipe {
    let pipe = Pipe::new(format!("xor{width}"), width).commutative().keep("key", width);
    pipe.step(Target::Out, Action::Xor, width, Operand::In, Operand::Keep(0))
}

/// Returns the stream cipher ChaCha20 (RFC 8439). Its registers are the key's 8 words, the counter
/// and the nonce's 3 words. A transfer begins with a new block, and leaves the counter after the
/// last block that it used, in whole or in part. So a message in several transfers is cut at
/// multiples of 64 bytes.
pub fn chacha20() -> Pipe {
    let mut pipe = Pipe::new("chacha20", Width::W8);
    for number in 0..8 {
        pipe = pipe.keep(format!("key{number}"), Width::W32);
    }
    pipe = pipe.keep("counter", Width::W32);
    for number in 0..3 {
        pipe = pipe.keep(format!("nonce{number}"), Width::W32);
    }
    pipe.body = Body::ChaCha20;
    pipe
}

/// Returns the ready pipe with this name.
///
/// # Errors
/// [`PipeError::Unknown`].
pub fn named(name: &str) -> Result<Pipe, PipeError> {
    Ok(match name {
        "copy" => copy(),
        "checksum" => checksum(),
        "swap16" => swap(Width::W16),
        "swap32" => swap(Width::W32),
        "swap64" => swap(Width::W64),
        "crc32" => crc32(),
        "crc32c" => crc32c(),
        "xor32" => xor(Width::W32),
        "xor64" => xor(Width::W64),
        "chacha20" => chacha20(),
        _ => return Err(PipeError::Unknown(name.to_owned())),
    })
}

/// Returns the ready pipes of a line such as `checksum | swap32`.
///
/// # Errors
/// [`PipeError::Unknown`].
pub fn chain(line: &str) -> Result<Vec<Pipe>, PipeError> {
    chain_with(line, &[])
}

/// As [`chain`], where a user's own pipe has its name first.
///
/// # Errors
/// [`PipeError::Unknown`].
pub fn chain_with(line: &str, own: &[Pipe]) -> Result<Vec<Pipe>, PipeError> {
    let pipe = |name: &str| own.iter().find(|pipe| pipe.name() == name).cloned().map_or_else(|| named(name), Ok);
    line.split('|').map(|name| pipe(name.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_pipe_that_is_well_formed() {
        for name in NAMES {
            let pipe = named(name).unwrap();
            assert_eq!((pipe.name(), pipe.check()), (name, Ok(())));
        }
        assert_eq!(named("rot13"), Err(PipeError::Unknown("rot13".to_owned())));
        assert_eq!(chain("copy|checksum | swap32").unwrap().len(), 3);
    }
}
