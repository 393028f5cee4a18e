//! The loop of a native receiver with AVX2: it copies and sums at once, as a composed loop does.
#![allow(unsafe_code)]

use super::segment::sum;
use sfi_loader::View;
use std::arch::x86_64::{
    _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_sub_epi64,
};
use std::ops::Range;

/// Proof that this processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// Asks the processor.
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// Copies a range of one memory to a place in another one. Returns the sum of the bytes as
    /// [`sum`] does, or `None` if a range leaves its memory.
    pub fn copy(self, to: &mut View, at: usize, from: &View, range: Range<usize>) -> Option<u16> {
        let length = range.end.checked_sub(range.start)?;
        let inside = |view: &View, at: usize| at.checked_add(length).is_some_and(|end| end <= view.len());
        if !inside(to, at) || !inside(from, range.start) {
            return None;
        }
        // SAFETY: both ranges lie in their mappings, of which the host has no references. The
        // processor has AVX2, as this value proves.
        Some(unsafe { copy(to.as_ptr().add(at), from.as_ptr().add(range.start), length) })
    }
}

/// Copies and sums bytes, 32 at a time.
///
/// # Safety
/// Both ranges are mapped, and the first one can be written. Others may change them meanwhile.
#[target_feature(enable = "avx2")]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> u16 {
    let (mut all, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let whole = length / 32 * 32;
    for at in (0..whole).step_by(32) {
        // SAFETY: 32 bytes from `at` on lie in both ranges, and these forms need no alignment.
        let word = unsafe { _mm256_loadu_si256(from.add(at).cast()) };
        all = _mm256_add_epi64(all, word);
        high = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(word));
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to.add(at).cast(), word) };
    }
    let low = _mm256_sub_epi64(all, _mm256_slli_epi64::<32>(high));
    let mut parts = [0_u64; 8];
    let (first, second) = parts.split_at_mut(4);
    // SAFETY: each half of the array has 32 bytes.
    unsafe {
        _mm256_storeu_si256(first.as_mut_ptr().cast(), low);
        _mm256_storeu_si256(second.as_mut_ptr().cast(), high);
    }
    let mut rest = [0; 32];
    let rest = &mut rest[..length - whole];
    // SAFETY: the rest of both ranges, and a buffer of this function's.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(whole), rest.as_mut_ptr(), rest.len());
        std::ptr::copy_nonoverlapping(rest.as_ptr(), to.add(whole), rest.len());
    }
    // Each part has less than 42 bits, since segments are short.
    sum(rest, parts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfi_loader::RegionFile;

    #[test]
    fn it_copies_and_sums_every_length_and_no_more() {
        let Some(avx2) = Avx2::detect() else {
            eprintln!("SKIPPED: this processor has no AVX2");
            return;
        };
        let view = || RegionFile::create(4096).unwrap().view().unwrap();
        let (mut from, mut to) = (view(), view());
        let bytes: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
        from.write(0, &bytes).unwrap();
        for length in (0..200).chain([1448, 4000]) {
            for (start, at) in [(0, 0), (3, 1), (54, 33)] {
                to.write(0, &[0x55; 4096]).unwrap();
                let range = start..start + length;
                assert_eq!(avx2.copy(&mut to, at, &from, range.clone()), Some(sum(&bytes[range.clone()], 0)));
                let mut found = vec![0; 4096];
                to.read(0, &mut found).unwrap();
                assert_eq!(found[at..at + length], bytes[range]);
                assert!(found[..at].iter().chain(&found[at + length..]).all(|byte| *byte == 0x55));
            }
        }
        assert_eq!(avx2.copy(&mut to, 4095, &from, 0..2), None);
        assert_eq!(avx2.copy(&mut to, 0, &from, 4095..4097), None);
        assert_eq!(avx2.copy(&mut to, usize::MAX, &from, 0..2), None);
    }
}
