//! The length of a search for the host's own memory, from the kernel's randomisation.

use super::odds::Search;
use std::ops::Range;

/// Bits of a mapping's address that are random if the kernel does not say: x86-64's default.
const DEFAULT_BITS: u32 = 28;
const PAGE: u64 = 4096;

/// Returns the odds of a search for the longest run of readable memory outside `windows`.
///
/// The run starts at one of `2^bits` pages (`vm.mmap_rnd_bits`). The searcher tries one address for
/// each length of the run.
pub fn search(windows: &[Range<u64>]) -> Option<Search> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let bits = std::fs::read_to_string("/proc/sys/vm/mmap_rnd_bits").ok();
    let bits = bits.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_BITS);
    let run = longest_run(&maps, windows);
    (run > 0).then(|| Search { places: ((PAGE << bits) / run).max(2), targets: 1 })
}

/// Returns the size in bytes of the longest run of readable mappings without a gap.
fn longest_run(maps: &str, windows: &[Range<u64>]) -> u64 {
    let (mut longest, mut run, mut end) = (0, 0, 0);
    for line in maps.lines() {
        let mut words = line.split(' ');
        let range = words.next().and_then(|r| r.split_once('-'));
        let Some((from, to)) = range.and_then(|(a, b)| Some((address(a)?, address(b)?))) else { continue };
        let readable = words.next().is_some_and(|p| p.starts_with('r'));
        if !readable || windows.iter().any(|w| w.contains(&from)) {
            continue;
        }
        run = if from == end { run + (to - from) } else { to - from };
        end = to;
        longest = longest.max(run);
    }
    longest
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_and_windows_left_out() {
        let maps = "1000-3000 r--p 0 0 0 a\n3000-4000 r-xp 0 0 0 a\n5000-6000 rw-p 0 0 0\n6000-9000 ---p 0 0 0\n100000000-100100000 rw-p 0 0 0\n";
        assert_eq!(longest_run(maps, &[]), 0x10_0000);
        assert_eq!(longest_run(maps, std::slice::from_ref(&(0x1_0000_0000..0x2_0000_0000))), 0x3000);
        assert!(search(&[]).is_some_and(|s| s.places >= 2));
    }
}
