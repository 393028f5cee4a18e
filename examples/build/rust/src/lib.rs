//! A plugin in Rust without std. It computes, and has no way out.

#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Returns the number of different bytes among `length` at `bytes`.
///
/// # Safety
/// The host passes memory of the domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn distinct(bytes: *const u8, length: usize) -> usize {
    // SAFETY: a wrong pointer is a fault of the domain and cannot harm the host.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, length) };
    let mut seen = [false; 256];
    bytes.iter().for_each(|&byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|&&seen| seen).count()
}
