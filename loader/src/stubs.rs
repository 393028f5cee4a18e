//! Gateway stubs: the only code of a window that is not verified, and the only way out. No secret is in it.
//!
//! Layout of the stub area, which begins on the first page of the text segment: 32 bytes each,
//! the trap for unused dispatch slots, the arbitration gateway, then one stub per import.

use crate::context::{BINDINGS_OFFSET, Binding, CONTROL_SIZE};

/// Bytes of a stub.
const STUB: u64 = 32;
/// Offset of the trap.
pub const TRAP: u64 = 0;
/// Offset of the arbitration gateway.
pub const SYSCALL: u64 = STUB;
/// `-ENOSYS`.
const ENOSYS: i32 = -38;

/// Offset of an import's stub.
pub fn import(index: usize) -> u64 {
    STUB * (2 + index as u64)
}

/// Bytes of the area; text begins behind it.
pub fn size(imports: usize) -> u64 {
    import(imports).next_multiple_of(64)
}

/// What a stub leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Index of its binding in the world.
    pub binding: usize,
    /// A host function; otherwise a domain's.
    pub host: bool,
}

/// The stub area.
pub fn emit(stubs: &[Stub]) -> Vec<u8> {
    let mut bytes = vec![0xcc; size(stubs.len()) as usize];
    // ud2
    bytes[TRAP as usize..][..2].copy_from_slice(&[0x0f, 0x0b]);
    // mov $-ENOSYS,%rax
    // ret
    let mut refuse = vec![0x48, 0xc7, 0xc0];
    refuse.extend_from_slice(&ENOSYS.to_le_bytes());
    refuse.push(0xc3);
    bytes[SYSCALL as usize..][..refuse.len()].copy_from_slice(&refuse);
    for (i, stub) in stubs.iter().enumerate() {
        let code = gateway(stub);
        bytes[import(i) as usize..][..code.len()].copy_from_slice(&code);
    }
    bytes
}

/// One gateway. r10 and r11 are free at a call between objects (psABI 3.2.1).
fn gateway(stub: &Stub) -> Vec<u8> {
    let mut code = Vec::with_capacity(STUB as usize);
    // mov %rsp,%r11
    code.extend_from_slice(&[0x49, 0x89, 0xe3]);
    // and $-CONTROL_SIZE,%r11
    code.extend_from_slice(&[0x49, 0x81, 0xe3]);
    code.extend_from_slice(&(-(CONTROL_SIZE as i32)).to_le_bytes());
    // lea BINDING(%r11),%r10
    code.extend_from_slice(&[0x4d, 0x8d, 0x93]);
    let offset = BINDINGS_OFFSET + (stub.binding * size_of::<Binding>()) as u64;
    code.extend_from_slice(&(offset as u32).to_le_bytes());
    // jmp *GATE(%r11)
    let gate = if stub.host {
        core::mem::offset_of!(crate::context::Context, gate_host)
    } else {
        core::mem::offset_of!(crate::context::Context, gate_domain)
    };
    code.extend_from_slice(&[0x41, 0xff, 0x63, gate as u8]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

    #[test]
    fn stubs_say_what_the_comments_say() {
        let bytes = emit(&[Stub { binding: 3, host: false }, Stub { binding: 30_000, host: true }]);
        let text = |offset: u64, count: usize| {
            let mut decoder = Decoder::new(64, &bytes[offset as usize..], DecoderOptions::NONE);
            let mut formatter = GasFormatter::new();
            (0..count)
                .map(|_| {
                    let mut line = String::new();
                    formatter.format(&decoder.decode(), &mut line);
                    line
                })
                .collect::<Vec<_>>()
        };
        let lea = format!("lea 0x{:X}(%r11),%r10", 4096 + 3 * size_of::<Binding>());
        assert_eq!(text(import(0), 4), ["mov %rsp,%r11", "and $0xFFFFFFFFFFC00000,%r11", &lea, "jmpq *(%r11)"]);
        assert_eq!(text(import(1), 4)[3], "jmpq *8(%r11)");
        assert_eq!(text(TRAP, 1), ["ud2"]);
        assert_eq!(text(SYSCALL, 2), ["mov $0xFFFFFFFFFFFFFFDA,%rax", "ret"]);
        assert!(gateway(&Stub { binding: 1, host: true }).len() <= STUB as usize);
    }
}
