//! Functions far from each other, without any sandbox: what a call of one in thousands costs by
//! itself. This and `fork` are the only `unsafe` code of the crate.
#![allow(unsafe_code)]

use anyhow::Context;
use std::arch::x86_64::_mm_lfence;
use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Distance of places, as of the windows of domains.
const WINDOW: u64 = 1 << 32;
/// Places of 47 bits.
const WINDOWS: u64 = 1 << 15;
/// Adds one to a word of the next page, and returns the sum.
const CODE: [u8; 18] = [
    0x48, 0x8b, 0x05, 0xf9, 0x0f, 0, 0, // mov 0xff9(%rip),%rax
    0x48, 0xff, 0xc0, // inc %rax
    0x48, 0x89, 0x05, 0xef, 0x0f, 0, 0,    // mov %rax,0xfef(%rip)
    0xc3, // ret
];

/// Time of a native call in random order, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Each call ends before the next one begins, as with crossings, which change the GS base.
    pub one_by_one: f64,
    /// The processor overlaps calls.
    pub overlapped: f64,
}

/// Makes functions at `places` random places, calls each of them in random order, `rounds` times,
/// and returns the medians. Checks every result.
///
/// # Errors
/// The kernel does not allow this number of mappings, or a result is wrong.
pub fn calls(places: u32, rounds: u32) -> anyhow::Result<Calls> {
    let mut text = tempfile::tempfile()?;
    text.write_all(&CODE)?;
    let mut order = Order::new(places as usize);
    let mut all = Vec::new();
    while all.len() < order.numbers.len() {
        all.extend(Far::map(&text, order.random()).context("map a function")?);
    }
    let [mut one_by_one, mut overlapped] = [Vec::new(), Vec::new()];
    for round in 0..2 * u64::from(rounds) {
        let waits = round % 2 == 0;
        order.shuffle();
        let start = Instant::now();
        for index in &order.numbers {
            anyhow::ensure!(all[*index].call() == round + 1, "a function lost count");
            if waits {
                // SAFETY: all processors have SSE2.
                unsafe { _mm_lfence() };
            }
        }
        let samples = if waits { &mut one_by_one } else { &mut overlapped };
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(places));
    }
    Ok(Calls { one_by_one: crate::median(&mut one_by_one), overlapped: crate::median(&mut overlapped) })
}

/// The numbers from 0 on, in random order.
#[derive(Debug)]
pub struct Order {
    /// The numbers.
    pub numbers: Vec<usize>,
    state: u64,
}

impl Order {
    /// Returns this many numbers, not shuffled yet.
    pub fn new(count: usize) -> Self {
        Self { numbers: (0..count).collect(), state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Draws a new order.
    pub fn shuffle(&mut self) {
        for i in (1..self.numbers.len()).rev() {
            let other = (self.random() % (i as u64 + 1)) as usize;
            self.numbers.swap(i, other);
        }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

/// A page of text, which is that of all, and a page of data beside it.
struct Far(*mut libc::c_void);

impl Far {
    /// Maps both at a random page of a random window. Returns `None` if the place is taken.
    fn map(text: &File, random: u64) -> Result<Option<Self>> {
        let page = (random >> 32) % (WINDOW / 2 / PAGE as u64);
        let at = (random % WINDOWS * WINDOW + page * PAGE as u64) as *mut libc::c_void;
        let (none, free) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the first call replaces no mapping, and the others replace pages of the first.
        unsafe {
            let far = match libc::mmap(at, 2 * PAGE, none, free | libc::MAP_FIXED_NOREPLACE, -1, 0) {
                libc::MAP_FAILED if Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) => {
                    return Err(Error::last_os_error());
                }
                libc::MAP_FAILED => return Ok(None),
                _ => Self(at),
            };
            let (execute, write) = (libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE);
            let code = libc::mmap(at, PAGE, execute, libc::MAP_SHARED | libc::MAP_FIXED, text.as_raw_fd(), 0);
            let data = libc::mprotect(at.byte_add(PAGE), PAGE, write);
            if code == libc::MAP_FAILED || data != 0 { Err(Error::last_os_error()) } else { Ok(Some(far)) }
        }
    }

    fn call(&self) -> u64 {
        // SAFETY: the page holds `CODE`, which changes rax and a word of the next page alone.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(self.0)() }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // SAFETY: both pages are this value's own.
        unsafe { libc::munmap(self.0, 2 * PAGE) };
    }
}
