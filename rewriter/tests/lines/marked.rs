#![no_std]
use core::ptr::write_volatile as put;

#[inline(always)]
unsafe fn inlined(p: *mut u32) {
    unsafe { put(p, 0x5f100000 + line!()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn filled(p: *mut u32, n: usize) -> u32 {
    let mut sum = 0;
    for i in 0..n {
        unsafe {
            put(p.add(i), 0x5f100000 + line!());
            inlined(p);
            sum += *p.add(i);
        }
        if sum == 77 {
            unsafe { put(p.add(1), 0x5f100000 + line!()) }
        }
    }
    sum
}
